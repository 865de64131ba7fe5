"""Accounting on a random grid of settings, against dp-accounting's optimistic and pessimistic
privacy-loss distributions: 25 settings, and 500 with the slow tests.

What is compared, for each setting with our epsilon at its delta:

- full batches, Poisson batches, and Poisson batches composed with full batches and a pure release,
  add-or-remove-one: their distribution of the same composition, once with losses rounded down
  ("Privacy Buckets", optimistic) and once from above ("Connect the Dots");
- batches without replacement, replace-one, which they do not offer. From below: their optimistic
  distribution of Poisson batches in the direction of removal. Its profile is that of our pair at a
  >= 1, and not above that of our pair at a < 1 (where ours is the mirror image, and adding costs no
  more than removing). From above: our pair's profile as connected dots, composed by them;
- random allocation, which they do not offer either: from below the optimistic discretisation of
  tests/privacy/test_allocation.py, and nothing from above.

Never may a figure of ours be below an optimistic one. On the 500 settings ours were at least 1.0002
times the optimistic and at most 1.0005 times the pessimistic one.
Noise multipliers are those of the stated adjacency (see
`test_accounting.test_the_replace_one_trap`).
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import pytest

from riemdp.privacy import (
    Budget,
    Guarantee,
    allocated_gaussian,
    allocated_gaussian_noise_multiplier,
    gaussian,
    gaussian_noise_multiplier,
    pure,
    subsampled_gaussian,
    subsampled_gaussian_noise_multiplier,
)
from riemdp.privacy.accounting.allocation import LEAST_NOISE
from tests.privacy.test_allocation import below, epsilon_below

pytestmark = pytest.mark.conformance
KINDS = ("full", "poisson", "mixed", "without-replacement", "allocation")
ADJACENCY = "add-or-remove-one"
LARGEST = 60.0  # epsilons above are no privacy
QUICK, ALL = 25, 500


class Setting(NamedTuple):
    """A composition and the delta at which it is stated."""

    kind: str
    z: float
    n: int
    b: int
    steps: int  # of an epoch, for allocation
    epochs: int
    delta: float

    @property
    def guarantee(self) -> Guarantee:
        """Ours."""
        distribution = {"population": self.n, "batch_size": self.b, "steps": self.steps}
        if self.kind == "full":
            return gaussian(self.z, self.steps, adjacency=ADJACENCY)
        if self.kind == "allocation":
            return allocated_gaussian(self.z, steps=self.steps, epochs=self.epochs)
        if self.kind == "without-replacement":
            return subsampled_gaussian(self.z, **distribution)
        sampled = subsampled_gaussian(self.z, **distribution, sampling="poisson")
        if self.kind == "poisson":
            return sampled
        return sampled.compose(
            gaussian(4 * self.z, 2, adjacency=ADJACENCY), pure(0.1, adjacency=ADJACENCY)
        )


def settings(count: int, seed: int = 17) -> list[Setting]:
    """Random settings of usable epsilon, by the central limit theorem (our figures are not computed
    before they are timed): noise, rate, steps and delta over decades.
    """
    rng = np.random.default_rng(seed)
    found: list[Setting] = []
    while len(found) < count:
        kind = KINDS[len(found) % len(KINDS)]
        n = 10_000
        b = int(max(1, n * 10 ** rng.uniform(-3.5, -0.3)))
        z, delta = float(10 ** rng.uniform(-0.4, 1.3)), float(10 ** rng.uniform(-10, -3))
        steps, epochs = int(10 ** rng.uniform(0, 3.7)), int(10 ** rng.uniform(0, 1.5))
        if kind == "allocation":
            z, steps = max(z, 0.5), int(min(2000, max(2, steps)))
        one = Setting(kind, z, n, b, steps, epochs, delta)
        rate, count_of = (1 / steps, steps * epochs) if kind == "allocation" else (b / n, steps)
        mu = math.sqrt(steps) / z
        if kind != "full":
            mu = rate * math.sqrt(count_of * math.expm1(min(1 / z**2, 700.0)))
        if 1e-3 < gaussian(1 / mu).epsilon(delta) < LARGEST:
            found.append(one)
    return found


def theirs(one: Setting, epsilon: float, *, pessimistic: bool) -> float:
    """The same by dp-accounting; for batches without replacement see the head of this file."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    q, z, steps = one.b / one.n, one.z, one.steps
    q = 1.0 if one.kind == "full" else q
    reach = math.log1p(q * math.expm1(min(700.0, 10 / z + 0.5 / z**2))) + 0.1
    # Rounding by `interval` in each step; few enough points to be quick.
    interval = max(2e-3 * epsilon / steps, 1.5e-5 * epsilon, reach / 5e4)

    def gaussians(z: float, q: float, steps: int):
        distribution = pld.from_gaussian_mechanism(
            z,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=interval,
            sampling_prob=q,
            use_connect_dots=pessimistic,
        )
        return distribution.self_compose(steps)

    if one.kind == "without-replacement":
        if pessimistic:
            return _symmetric(z, q, interval).self_compose(steps).get_epsilon_for_delta(one.delta)
        removed = gaussians(z, q, steps)._pmf_remove
        return float(removed.get_epsilon_for_delta(one.delta))
    distribution = gaussians(z, q, steps)
    if one.kind == "mixed":
        answer = pld.from_randomized_response(
            2 / (1 + math.exp(0.1)),
            2,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=interval,
        )
        distribution = distribution.compose(gaussians(4 * z, 1.0, 2)).compose(answer)
    return float(distribution.get_epsilon_for_delta(one.delta))


def _symmetric(z: float, q: float, interval: float):
    from tests.conformance.test_accounting import _symmetric_pld

    return _symmetric_pld(z, q, interval)


class Comparison(NamedTuple):
    """Epsilons, and the seconds that ours took."""

    setting: Setting
    ours: float
    low: float
    high: float  # NaN where nothing is offered
    seconds: float


def compare(one: Setting) -> Comparison:
    """One row of the grid."""
    begun = time.perf_counter()
    ours = one.guarantee.epsilon(one.delta)
    seconds = time.perf_counter() - begun
    if one.kind == "allocation":
        low = epsilon_below(below(one.z, one.steps, one.epochs), one.delta)
        return Comparison(one, ours, low, math.nan, seconds)
    low, high = (theirs(one, ours, pessimistic=side) for side in (False, True))
    return Comparison(one, ours, low, high, seconds)


def check(rows: list[Comparison]) -> None:
    """Ours are at least what an optimistic distribution has, and hardly above a pessimistic's."""
    for row in rows:
        assert row.ours >= row.low, row
        assert math.isnan(row.high) or row.ours <= 1.01 * row.high, row


def test_no_figure_is_below_an_optimistic_one() -> None:
    check([compare(one) for one in settings(QUICK)])


@pytest.mark.slow
def test_no_figure_of_the_whole_grid_is_below_an_optimistic_one() -> None:
    check([compare(one) for one in settings(ALL)])


def test_the_check_sees_a_figure_that_is_too_small_or_too_large() -> None:
    """Planted: a step forgotten, and one too many."""
    row = compare(settings(2)[1])
    fewer = row.setting._replace(steps=row.setting.steps * 9 // 10).guarantee
    more = row.setting._replace(steps=row.setting.steps * 11 // 10).guarantee
    check([row])
    for wrong in (fewer, more):
        with pytest.raises(AssertionError):
            check([row._replace(ours=wrong.epsilon(row.setting.delta))])


# ------------------------------------------------------------------------------------------------
# calibration
def shares(count: int, seed: int = 18) -> list[tuple[float, Setting, float]]:
    """(share of the budget's epsilon that is spent, setting, seconds) for budgets from 0.01 to
    20 on the distributions of the grid. No peer is needed.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for one in settings(count, seed):
        budget = Budget(float(10 ** rng.uniform(-2, 1.3)), one.delta)
        distribution = {"population": one.n, "batch_size": one.b, "steps": one.steps}
        begun = time.perf_counter()
        if one.kind == "full":
            z = gaussian_noise_multiplier(budget, one.steps)
        elif one.kind == "allocation":
            z = allocated_gaussian_noise_multiplier(budget, steps=one.steps, epochs=one.epochs)
        else:
            plain = one.kind == "without-replacement"
            sampling = one.kind if plain else "poisson"
            one = one._replace(kind=sampling)
            z = subsampled_gaussian_noise_multiplier(budget, **distribution, sampling=sampling)
        seconds = time.perf_counter() - begun
        spent = one._replace(z=z).guarantee.epsilon(one.delta)
        rows.append((spent / budget.epsilon, one._replace(z=z), seconds))
    return rows


def check_shares(rows: list[tuple[float, Setting, float]]) -> None:
    for share, one, _ in rows:
        # Below 0.3 the figures of allocation jump to those of a known step: z stays above.
        jump = one.kind == "allocation" and one.z <= LEAST_NOISE * (1 + 1e-9)
        assert (0.8 if jump else 0.995) <= share <= 1.0, (share, one)


def test_calibration_spends_the_budget() -> None:
    check_shares(shares(QUICK))


@pytest.mark.slow
def test_calibration_spends_the_budget_on_the_whole_grid() -> None:
    check_shares(shares(ALL))
