"""The private count of records outside a public ball, next to the mean: flags, noise, charge.

The oracles are NumPy and scipy: distances of Euclidean and log-Euclidean space written out, and the
distributions of a rounded Gaussian and a rounded Laplace variable.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from scipy import linalg, stats

import riemdp as R
from riemdp.mechanisms import Drawn
from riemdp.privacy import Guarantee, gaussian_noise_multiplier
from riemdp.randomness import noise_source
from riemdp.statistics import AmbientMean, FrechetMean, TangentMean
from tests.seam import Means, Searches, plant
from tests.statistical import ALPHA

BUDGET = R.Budget(1.0, 1e-5)
PURE = R.Budget(1.0)
N = 400
PLANE = R.Euclidean(2)
BALL = R.Ball(np.zeros(2), 1.0)


class Given(R.AbstractMechanism[float]):
    """A stand-in for the mean: it costs what it is told and draws one normal."""

    name: ClassVar[str] = "given"

    def __init__(self, guarantee: Guarantee):
        self._guarantee = guarantee

    @property
    def guarantee(self) -> Guarantee:
        """What it is told."""
        return self._guarantee

    def _admit(self, value: Any) -> float:
        return float(value)

    def _draw(self, value: float, source: Any) -> Drawn:
        return Drawn(value + float(source.normals((1,))[0]), 1.0)


def counted(budget: R.Budget, n: int | None = N) -> Means.Counted:
    noise = Searches.SomeNoise.of(budget)
    share = Means.share_of_count(noise, N, True)
    return Means.Counted(Given(noise.share(1 - share).guarantee), noise, share, n)


def points(outside: int, n: int = N, seed: int = 0) -> np.ndarray:
    """n points of the plane, of which `outside` lie outside the unit ball."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    x *= (rng.uniform(0.05, 0.9, n) / np.linalg.norm(x, axis=1))[:, None]
    x[:outside] *= 30.0 / np.linalg.norm(x[:outside], axis=1)[:, None]
    return x


# ------------------------------------------------------------------------------------ the flags
def test_a_flag_is_a_function_of_one_record():
    """Records far, near, on the edge and unreadable, in a frame and without one, in any company."""
    line = R.Ball(np.array([5.0, -2.0]), 1.0)
    x = points(3, 8) + np.array([5.0, -2.0])
    x[4], x[5] = np.nan, [np.inf, 0.0]
    truth = ~(np.linalg.norm(x - np.array([5.0, -2.0]), axis=1) <= 1.0)
    assert truth.sum() == 5
    domain = line.on(PLANE)
    queries = (FrechetMean(domain, 8), AmbientMean(domain, 8), TangentMean(domain, 8))
    for query in queries:
        assert np.array_equal(np.asarray(query.prepare(x).outside), truth)
    for i in range(8):  # alone among seven others
        others = np.tile(np.array([5.0, -2.0]), (8, 1))
        others[3] = x[i]
        for query in queries:
            assert query.prepare(others).count_outside == int(truth[i])


def test_flags_of_matrices_and_of_added_records():
    space, center = R.SPDLogEuclidean(2), np.diag([4.0, 0.25])
    a = np.random.default_rng(3).normal(size=(7, 2, 3))
    x = a @ a.transpose(0, 2, 1)
    x[2] = -np.eye(2)
    logs = [None if i == 2 else linalg.logm(m) - linalg.logm(center) for i, m in enumerate(x)]
    truth = [v is None or float(np.linalg.norm(v)) > 2.0 for v in logs]
    assert 1 < sum(truth) < 7
    domain = R.Ball(center, 2.0).on(space)
    assert np.asarray(FrechetMean(domain, 7).prepare(x).outside).tolist() == truth
    private = FrechetMean(domain, 9, adjacency="add-or-remove-one")
    prepared = private.prepare(x)  # filled up with centres, which are not counted
    assert prepared.count_outside == sum(truth)
    assert private.prepare(x[:0]).count_outside == 0


# --------------------------------------------------------------------------------- the distribution
def p_value(values: np.ndarray, deviation: float, pure: bool, true: int) -> float:
    """Chi-square test of whole numbers against a rounded Gaussian or Laplace distribution."""
    distribution = (
        stats.laplace(true, deviation / math.sqrt(2)) if pure else stats.norm(true, deviation)
    )
    edges = np.unique(np.round(distribution.ppf(np.linspace(0.02, 0.98, 25)))) + 0.5
    expected = np.diff(distribution.cdf(np.concatenate([[-np.inf], edges, [np.inf]]))) * len(values)
    seen = np.bincount(np.searchsorted(edges, values), minlength=len(expected))
    return float(stats.chisquare(seen, expected).pvalue)


def in_the_middle(budget: R.Budget, draws: int = 6000) -> np.ndarray:
    mechanism, source = counted(budget, n=None), noise_source(7)
    drawn = [mechanism._draw((0.0, 1000), source).details["outside"].count for _ in range(draws)]
    return np.array(drawn)


@pytest.mark.parametrize("budget", [BUDGET, PURE], ids=str)
def test_the_count_has_its_distribution(budget):
    """Standard deviation 1 / (mu sqrt p), or sqrt 2 / (epsilon p), for a sensitivity of 1."""
    share = Means.share_of_count(Searches.SomeNoise.of(budget), N, True)
    deviation = math.sqrt(2) / (budget.epsilon * float(share))
    if budget.delta > 0:
        deviation = gaussian_noise_multiplier(budget) / math.sqrt(share)
    right = in_the_middle(budget)
    assert p_value(right, deviation, budget.delta == 0, 1000) > ALPHA
    assert counted(budget).noise.count_deviation(share) == pytest.approx(deviation, rel=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        source, count = noise_source(8), mock.Mock()
        plant(patch, "noise of a count", count)
        count.side_effect = lambda exact, _: (
            exact
            + (
                0.8 * deviation * float(source.normals((1,))[0])
                if budget.delta > 0
                else 0.8
                * deviation
                / math.sqrt(2)
                * float(np.diff(np.log(source.uniforms((2,))))[0])
            )
        )
        assert p_value(in_the_middle(budget), deviation, budget.delta == 0, 1000) < ALPHA


@pytest.mark.parametrize("true", [0, N])
def test_a_released_count_is_a_whole_number_of_the_records(true):
    mechanism, source = counted(BUDGET), noise_source(1)
    made = [mechanism._draw((0.0, true), source).details["outside"] for _ in range(200)]
    assert all(isinstance(m.count, int) and 0 <= m.count <= N for m in made)
    assert len({m.count for m in made}) > 10
    assert str(made[0]) == f"about {made[0].count} ± 19 of 400 records"


# ----------------------------------------------------------------------------------- the shares
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5, 0.02])
def test_both_together_fit_the_budget(delta):
    for epsilon in (0.01, 0.3, 1.0, 4.0, 30.0):
        for n in (1, 40, 75, 1000, 10**7):
            budget = R.Budget(epsilon, delta)
            for pure in (False, True) if delta else (True,):
                whole = Searches.SomeNoise.of(budget, pure=pure)
                share = Means.share_of_count(whole, n, None)
                assert share == 0 or Means.LEAST <= share <= Means.MOST
                parts = [whole.share(p) for p in (share, 1 - share) if p > 0]
                assert sum(part.part for part in parts) == 1  # exactly
                spent = sum(cost(part) for part in parts) / cost(whole)
                assert abs(spent - 1) < Fraction(1, 10**14)
                assert whole.guarantee.within(budget)


def cost(noise: Searches.SomeNoise) -> Fraction:
    """What adds up, from the scale that is drawn with: epsilon, or mu^2."""
    return 1 / Fraction(noise.multiplier) ** (1 if noise.is_pure else 2)


def test_a_mean_that_spends_more_than_its_share_is_refused():
    for budget in (BUDGET, PURE):
        noise = Searches.SomeNoise.of(budget)
        share = Means.share_of_count(noise, N, None)
        rest = noise.share(1 - share).guarantee
        half = R.gaussian(3.0) if noise.is_pure else R.pure(0.5)
        for more in (noise.guarantee, noise.share(1 - 0.99 * share).guarantee, half):
            with pytest.raises(R.InvalidArgument, match="inner"):
                Means.Counted(Given(more), noise, share, N)
        with pytest.raises(R.InvalidArgument, match="inner"):
            Means.Counted(Given(rest.compose(rest)), noise, share, N)
        Means.Counted(Given(rest), noise, share, N)


def test_few_records_are_not_counted_unless_asked():
    noise = Searches.SomeNoise.of(BUDGET)
    assert Means.share_of_count(noise, 40, None) == Means.share_of_count(noise, 40, False) == 0
    assert Means.share_of_count(noise, 40, True) == Means.MOST
    assert Means.share_of_count(noise, 10**6, None) == Means.LEAST
    assert Means.share_of_count(noise, 10**6, False) == 0
    with pytest.raises(R.InvalidArgument, match="count_outside"):
        Means.share_of_count(noise, 40, "yes")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------- the releases
def mean(x: np.ndarray, mechanism: str = "wrapped-gaussian", **more: Any) -> R.Release:
    return R.private_frechet_mean(PLANE, x, BALL, BUDGET, mechanism=mechanism, **more)


@pytest.mark.parametrize(
    "mechanism", ["wrapped-gaussian", "wrapped-laplace", "tangent-mean", "extrinsic-gaussian"]
)
def test_a_release_states_the_count_and_costs_no_more(mechanism):
    x = points(80)
    ledger = R.Ledger(BUDGET)
    release = mean(x, mechanism, rng=5, ledger=ledger)
    without = mean(x, mechanism, rng=5, count_outside=False)
    outside = release.details["outside"]
    assert "outside" not in without.details
    assert abs(outside.count - 80) < 8 * outside.deviation
    assert release.mechanism == without.mechanism == mechanism
    assert (release.words, release.budget) == (without.words, BUDGET)
    assert release.guarantee == without.guarantee == ledger.spent
    assert ledger.charges == 1
    left = 1 - Means.MOST
    factor = 1 / left if mechanism == "wrapped-laplace" else 1 / math.sqrt(left)
    assert release.scale / without.scale == pytest.approx(factor, rel=1e-6)
    assert f"outside the ball: about {outside.count} ± " in str(release)
    assert release.details["numerics"] == without.details["numerics"]


def test_counts_follow_the_truth_and_a_refused_charge_draws_nothing():
    x = points(80)
    made = [mean(x, rng=i).details["outside"] for i in range(60)]
    error = np.mean([m.count for m in made]) - 80
    assert abs(error) < 6 * made[0].deviation / math.sqrt(60)
    ledger = R.Ledger(R.Budget(0.5, 1e-5))
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, "a mean with its count", mock.Mock(side_effect=AssertionError))
        with pytest.raises(R.BudgetExceeded):
            mean(x, ledger=ledger)
    assert ledger.charges == 0


def test_a_protected_number_of_records_is_not_stated():
    options: dict[str, Any] = {"n_min": 300}
    release = mean(points(80), rng=2, **options)
    outside = release.details["outside"]
    assert outside.n is None
    assert " of " not in str(outside)
    assert release.guarantee.adjacency == "add-or-remove-one"
    assert release.guarantee == mean(points(80), rng=2, count_outside=False, **options).guarantee


def test_a_plan_has_the_noise_of_the_release():
    for counts in (None, False):
        plan = R.plan_private_mean(PLANE, BALL, N, BUDGET, count_outside=counts)
        release = mean(points(80), "auto", rng=3, count_outside=counts)
        row = plan.best()
        assert (row.mechanism, row.scale) == (release.mechanism, release.scale)
        assert row.expected_error == release.expected_error
        assert row.budget == BUDGET
        assert (row.count_share > 0) == (counts is None) == ("count of the records" in str(plan))
