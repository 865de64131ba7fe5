"""Guarantees: the figures of the specification, composition, closed forms, planted faults, bad
input.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from riemdp.privacy import (
    Budget,
    Guarantee,
    approximate,
    gaussian,
    none,
    participation,
    pure,
    subsampled_gaussian,
)
from riemdp.privacy.accounting import fourier as pld
from riemdp.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from tests.seam import Accounts

D = 1e-5


def wor(z: float, population: int = 10_000, batch_size: int = 100, steps: int = 1000) -> Guarantee:
    return subsampled_gaussian(z, population=population, batch_size=batch_size, steps=steps)


def poisson(
    z: float, population: int = 10_000, batch_size: int = 100, steps: int = 1000
) -> Guarantee:
    return subsampled_gaussian(
        z, population=population, batch_size=batch_size, steps=steps, sampling="poisson"
    )


# ------------------------------------------------------------------------------------------------
# published figures
@pytest.mark.parametrize(("z", "epsilon"), [(5, 9.9973), (10, 4.3772), (50, 0.7255)])
def test_full_batch_closed_form(z: float, epsilon: float) -> None:
    assert gaussian(z, steps=100).epsilon(D) == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize(
    ("guarantee", "epsilon", "attainable"),
    [
        (poisson(1), 1.828, 1.8275),
        (poisson(2), 0.622, 0.6215),
        (wor(1), 2.199, 1.828),
        (wor(2), 0.719, 0.622),
        (wor(1, batch_size=1, steps=30_000), 0.0904, 0.0),
        (wor(2, batch_size=1, steps=30_000), 0.0299, 0.0),
    ],
)
def test_sampled_figures(guarantee: Guarantee, epsilon: float, attainable: float) -> None:
    """Within 1 % of the reference figures, and never below what an attacker can attain."""
    assert guarantee.epsilon(D) == pytest.approx(epsilon, rel=0.01)
    assert guarantee.epsilon(D) >= attainable


@pytest.mark.parametrize(
    ("delta", "mixture", "five_times"),
    [(1e-4, 0.427, 0.372), (1e-3, 0.296, 0.272), (3.5e-3, 0.217, 0.206)],
)
def test_federated_figures(delta: float, mixture: float, five_times: float) -> None:
    local = gaussian(1 / gaussian_mu(0.15, 1e-4))
    assert local.epsilon(1e-4) == pytest.approx(0.15, rel=1e-9)
    assert participation(local, agents=100, sampled=5, rounds=100).epsilon(delta) == pytest.approx(
        mixture, rel=0.01
    )
    assert local.repeat(5).epsilon(delta) == pytest.approx(five_times, rel=0.003)


# ------------------------------------------------------------------------------------------------
# closed forms
@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [(0.0, 1.0), (1.0, 0.2), (1e-3, 1e-4), (50.0, 8.0), (0.5, 3.0), (1e-3, 1.3e-4), (3.0, 0.5)],
)
def test_gaussian_delta_has_full_relative_precision(epsilon: float, mu: float) -> None:
    mpmath.mp.dps = 60
    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
    assert gaussian_delta(epsilon, mu) == pytest.approx(float(exact), rel=1e-7)


def test_inverses_are_on_the_safe_side() -> None:
    for mu, delta in itertools.product((1e-4, 0.01, 0.3, 2.0, 20.0), (1e-12, 1e-5, 0.1)):
        epsilon = gaussian_epsilon(delta, mu)
        assert gaussian_delta(epsilon, mu) <= delta
        assert epsilon == 0.0 or gaussian_delta(epsilon * (1 - 1e-9), mu) > delta
        if epsilon > 0:
            assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)


def test_pure_adds_in_decimal_and_composes_better_than_it_adds() -> None:
    three = pure(0.1).compose(pure(0.1), pure(0.1))
    assert three.epsilon(0.0) == 0.3
    many = pure(0.1).repeat(100)
    assert many.epsilon(0.0) == 10.0
    assert many.epsilon(D) < 0.6 * 10.0
    assert pure(1.0).delta(0.0) == pytest.approx((math.e - 1) / (math.e + 1), rel=1e-12)


def test_pure_composition_is_the_binomial_one() -> None:
    """Homogeneous randomised response has an exact profile: a binomial sum."""
    e, k, target = 0.3, 12, 1.5
    p = math.exp(e) / (1 + math.exp(e))
    exact = sum(
        math.comb(k, j)
        * p**j
        * (1 - p) ** (k - j)
        * max(0.0, 1 - math.exp(target - e * (2 * j - k)))
        for j in range(k + 1)
    )
    got = pure(e).repeat(k).delta(target)
    assert exact <= got <= exact * 1.01


def test_approximate() -> None:
    g = approximate(0.5, 1e-3)
    assert g.epsilon(1e-3) == pytest.approx(0.5)
    assert g.epsilon(0.9e-3) == math.inf
    two = g.compose(g)
    assert two.delta(math.inf) == pytest.approx(2e-3, rel=1e-3)
    assert two.epsilon(1e-3) == math.inf
    assert two.epsilon(3e-3) <= 1.0
    assert approximate(0.5, 0.0) == pure(0.5)


def test_heterogeneous_composition_is_below_adding_and_above_each() -> None:
    parts = [gaussian(2.0), pure(0.5), wor(1.0, steps=100)]
    whole = parts[0].compose(*parts[1:])
    assert (
        max(p.epsilon(D) for p in parts) < whole.epsilon(D) < sum(p.epsilon(D / 3) for p in parts)
    )
    assert whole == parts[2].compose(parts[1], parts[0])


def test_lattice_route_agrees_with_closed_form_from_above() -> None:
    for z, delta in itertools.product((0.5, 2.0, 20.0), (1e-12, 1e-5)):
        exact = gaussian(z).epsilon(delta)
        assert exact <= pld.epsilon(gaussian(z).parts, delta) <= exact * 1.003


def test_what_lies_above_the_window_is_counted() -> None:
    """A transform is periodic: mass above its window wraps to below epsilon. Its Chernoff bound is
    part of delta, also at the upper end of the window, where nothing else is left.
    """
    alone = gaussian(1.0)
    plan = Accounts.Plan(tilt=1.0, peak=3.0, step=1e-3, epsilon=1.0, log_delta=math.log(1e-2))
    distribution = Accounts.compose(alone.parts, False, plan)
    assert distribution is not None
    top = float(distribution.loss[-1])
    for e in np.linspace(0.8 * top, top, 9):
        assert distribution.delta(float(e)) >= alone.delta(float(e))
    forgotten = dataclasses.replace(distribution, spare=0.0)  # the planted fault
    assert forgotten.delta(top) < 0.5 * alone.delta(top)
    assert distribution.spare < 1e-3 * 1e-2  # and it is small where delta is wanted


def test_what_lies_above_the_window_is_counted_where_no_step_loses_infinitely_much() -> None:
    """64 times pure(.5) loses at most 32. The window ends below that, and what a single step can
    lose without bound is 0: only the Chernoff bound covers the rest.
    """
    alone = pure(0.5).repeat(64)
    plan = Accounts.Plan(tilt=1.0, peak=20.0, step=1e-2, epsilon=20.0, log_delta=math.log(1e-2))
    distribution = Accounts.compose(alone.parts, False, plan)
    assert distribution is not None
    top = float(distribution.loss[-1])
    assert top < 32.0
    answers = np.arange(65)
    weights = stats.binom.pmf(answers, 64, 1.0 / (1.0 + math.exp(-0.5)))

    def exact(epsilon: float) -> float:
        gap = np.minimum(0.0, epsilon - 0.5 * (2 * answers - 64))
        return float(weights @ -np.expm1(gap))

    for e in np.linspace(0.8 * top, top, 9):
        assert distribution.delta(float(e)) >= exact(float(e)) > 0.0


# ------------------------------------------------------------------------------------------------
# structure
def test_full_sampling_is_the_full_batch_and_vanishing_sampling_is_free() -> None:
    assert wor(1.5, 50, 50, 7) == gaussian(1.5, 7)
    assert wor(1.0, 10**9, 1, 1).epsilon(1e-6) == 0.0
    almost = wor(3.0, 10_000, 9_999, 5).epsilon(D)
    assert almost == pytest.approx(gaussian(3.0, 5).epsilon(D), rel=2e-3)


def test_one_step_is_the_amplified_profile() -> None:
    q, mu = 0.01, 1.0
    for epsilon in (0.0, 0.01, 0.1, 1.0):
        assert wor(1.0, steps=1).delta(epsilon) == pytest.approx(
            q * gaussian_delta(math.log1p(math.expm1(epsilon) / q), mu)
        )


def test_none_absorbs_and_nothing_is_neutral() -> None:
    everything = none().compose(gaussian(1.0), poisson(1.0))
    assert everything.epsilon(D) == math.inf
    assert everything.delta(5.0) == 1.0
    assert not everything.is_private
    free = gaussian(1.0).repeat(0)
    assert free.epsilon(0.0) == 0.0
    assert free.compose(poisson(1.0)) == poisson(1.0)
    assert poisson(1.0).compose(free).adjacency == "add-or-remove-one"
    assert pure(0.0).epsilon(0.0) == 0.0


def test_dictionaries_words_and_pickles() -> None:
    g = (
        gaussian(3.0)
        .compose(pure(0.1), approximate(0.1, 1e-7), wor(2.0))
        .compose(participation(wor(2.0, steps=3), agents=10, sampled=2, rounds=4))
    )
    assert Guarantee.from_dict(g.to_dict()) == g
    assert pickle.loads(pickle.dumps(g)) == g
    assert "replace-one" in str(g)
    assert "without replacement" in str(g)
    assert "infinite" in str(none())
    for broken in (
        {},
        {"adjacency": "replace-one"},
        {"adjacency": "x", "parts": []},
        {"adjacency": "replace-one", "parts": [{"kind": "?"}]},
    ):
        with pytest.raises(ValueError):
            Guarantee.from_dict(broken)


@given(
    z=st.floats(0.7, 20),
    population=st.integers(20, 10**6),
    share=st.floats(1e-4, 0.9),
    steps=st.sampled_from([1, 3, 40, 3000]),
)
def test_order(z: float, population: int, share: float, steps: int) -> None:
    """More noise, smaller batches, fewer steps and larger deltas never cost more (0.3 %: two
    lattices).
    """
    b = max(1, int(share * population) - 1)
    base = wor(z, population, b, steps).epsilon(D)
    slack = 1.003
    assert wor(z * 1.1, population, b, steps).epsilon(D) <= base * slack
    assert wor(z, population, b + 1, steps).epsilon(D) * slack >= base
    assert wor(z, population, b, steps + 1).epsilon(D) * slack >= base
    assert wor(z, population, b, steps).epsilon(2 * D) <= base * slack
    assert base <= gaussian(z, steps).epsilon(D) * (1 + 1e-9)


@given(z=st.floats(0.7, 10), epsilon=st.floats(0.0, 4.0))
def test_delta_and_epsilon_are_inverse(z: float, epsilon: float) -> None:
    g = wor(z, 1000, 50, 100)
    delta = g.delta(epsilon)
    if 1e-12 < delta < 0.5:
        assert g.epsilon(delta) == pytest.approx(epsilon, rel=3e-3, abs=3e-3)


# ------------------------------------------------------------------------------------------------
# planted faults
def test_planted_faults_are_seen() -> None:
    """Factor-2 sensitivity, batch size off by one, a forgotten step: each moves the figure by more
    than the tolerance allows.
    """
    assert wor(0.5).epsilon(D) > 1.5 * wor(1.0).epsilon(D)  # sensitivity C/b taken for 2C/b
    assert gaussian(5.0, 100).epsilon(D) > 1.5 * gaussian(10.0, 100).epsilon(D)
    assert wor(1.0, 100, 3, 50).epsilon(D) > 1.1 * wor(1.0, 100, 2, 50).epsilon(D)
    assert gaussian(10.0, 100).epsilon(D) > gaussian(10.0, 99).epsilon(D) * (1 + 3e-3)


# ------------------------------------------------------------------------------------------------
# bad input
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian(-1.0), "noise_multiplier"),
        (lambda: gaussian(0.0), "noise_multiplier"),
        (lambda: gaussian(math.nan), "noise_multiplier"),
        (lambda: gaussian(1.0, 0), "steps"),
        (lambda: gaussian(1.0, 2.5), "steps"),
        (lambda: gaussian(1.0, True), "steps"),
        (lambda: gaussian(1.0, adjacency="zero-out"), "adjacency"),
        (lambda: pure(-0.1), "epsilon"),
        (lambda: pure(math.inf), "epsilon"),
        (lambda: approximate(1.0, 1.0), "delta"),
        (lambda: approximate(1.0, -1e-9), "delta"),
        (lambda: wor(1.0, 10, 11), "batch_size"),
        (lambda: wor(1.0, 10, 0), "batch_size"),
        (lambda: wor(1.0, 0, 1), "population"),
        (lambda: wor(1.0, 10, 1, 0), "steps"),
        (
            lambda: subsampled_gaussian(1.0, population=10, batch_size=1, sampling="shuffle"),
            "sampling",
        ),
        (lambda: gaussian(1.0).epsilon(1.0), "delta"),
        (lambda: gaussian(1.0).epsilon(-0.1), "delta"),
        (lambda: gaussian(1.0).delta(-1.0), "epsilon"),
        (lambda: gaussian(1.0).delta(math.nan), "epsilon"),
        (lambda: gaussian(1.0).compose(1.0), "others"),
        (lambda: gaussian(1.0).repeat(-1), "times"),
        (lambda: participation(gaussian(1.0), agents=5, sampled=6, rounds=1), "sampled"),
        (lambda: participation(gaussian(1.0), agents=5, sampled=1, rounds=0), "rounds"),
        (lambda: participation(0.5, agents=5, sampled=1, rounds=1), "local"),
        (lambda: Budget(0.0), "epsilon"),
        (lambda: Budget(math.inf), "epsilon"),
        (lambda: Budget(1.0, 1.0), "delta"),
        (lambda: Budget(1.0, -1e-9), "delta"),
        (lambda: Budget("1"), "epsilon"),
        (lambda: Budget(True), "epsilon"),
    ],
)
def test_bad_input_names_the_argument(call, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call()
