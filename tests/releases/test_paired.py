"""`private_paired_samples`: what the differences of pairs show, level, power, people."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, Ledger
from tests.statistical import ALPHA, ks_p_value

SPACE, BUDGET = riemdp.Euclidean(2), Budget(1.0, 1e-6)
BALL = Ball(np.zeros(2), 3.0)


def pairs(n=600, shift=0.0, seed=0):
    """People differ by 1, and the records of one by 0.2."""
    rng = np.random.default_rng(seed)
    whose = rng.normal(size=(n, 2))
    first, second = whose + 0.2 * rng.normal(size=(2, n, 2))
    return first, second + shift


def compared(A, B, **given):
    options = {"ball": BALL, "budget": BUDGET, "rng": 0} | given
    return riemdp.private_paired_samples(SPACE, A, B, **options)


def test_the_mean_difference_is_found_with_one_charge():
    A, B = pairs(shift=0.3)
    with Ledger(Budget(1.0, 1e-6)) as ledger:
        found = compared(A, B)
        assert ledger.charges == 1
    assert found.rejects(0.01)
    assert found.release.facts.n == 600
    value, exact = found.release.value, np.mean(B - A, axis=0)
    # half a difference has sensitivity 2 r / n, so noise of twice that scale is on a difference
    sigma = 2.0 * riemdp.gaussian_noise_multiplier(BUDGET) * 2.0 * BALL.radius / 600
    assert np.abs(value - exact).max() < 5 * sigma
    assert found.distance == pytest.approx(float(np.linalg.norm(value)), rel=1e-6)
    assert found.interval[0] < np.linalg.norm(exact) < found.interval[1]
    assert compared(B, A).release.value == pytest.approx(-exact, abs=5 * sigma)
    pure = compared(A, B, budget=Budget(4.0))
    assert pure.rejects(0.05)
    assert not pure.exact


def test_no_pair_moves_what_is_released_by_more_than_two_radii():
    """Both records of one pair are searched for; opposite pairs on the surface attain it."""
    A, B = pairs(60)
    rng, worst = np.random.default_rng(1), 0.0

    def seen(first, second):
        one, other = A.copy(), B.copy()
        one[0], other[0] = first, second
        release = compared(one, other).release
        assert release.sensitivity == pytest.approx(2.0 * BALL.radius, rel=1e-9)
        return release.details["answers"][0]

    far, near = 1e6 * rng.normal(size=(2, 2)), rng.normal(size=2)
    points = [far[0], -far[0], far[1], near, np.full(2, np.nan)]
    vectors = [seen(a, b) for a in points for b in points]
    for one in vectors:
        for other in vectors:
            worst = max(worst, float(np.linalg.norm(one - other)))
    assert 0.99 * 2.0 * BALL.radius < worst <= 2.0 * BALL.radius * (1 + 1e-9)


def test_everything_of_one_person_counts_once():
    A, B = pairs(300, shift=1.0)
    people = np.concatenate([np.zeros(200, dtype=int), np.arange(1, 101)])
    B[:200] -= 1.0  # of the one with 200 pairs: no difference
    found = compared(A, B, groups=people, budget=Budget(20.0, 1e-6))
    assert found.release.facts.people == 101
    assert found.guarantee.unit == "person"
    assert compared(A, B).guarantee.unit != "person"
    own = [np.mean((B - A)[people == who], axis=0) for who in range(101)]
    assert np.abs(found.release.value - np.mean(own, axis=0)).max() < 0.2


def test_the_level_is_exact_for_the_pairs_themselves():
    """Uniform p-values over the noise, where the mean difference of the pairs is 0."""
    A, B = pairs(60)
    B += np.mean(A - B, axis=0)
    p = [compared(A, B, rng=seed, of="sample").p_value for seed in range(60)]
    assert ks_p_value(np.array(p), "uniform") > ALPHA
    assert compared(A, B, of="sample").exact
    assert ks_p_value(np.array(p) ** 1.6, "uniform") < np.sqrt(ALPHA)  # of a level twice too large


@pytest.mark.slow
def test_level_and_power_of_pairs_of_a_population():
    """Where noise is not most of the error, pairs find what two samples of them do not."""
    budget = Budget(10.0, 1e-6)

    def rejected(test, shift):
        found = [
            test(SPACE, *pairs(1000, shift, seed), BALL, budget, rng=seed) for seed in range(200)
        ]
        return np.mean([one.rejects(0.05) for one in found])

    paired = riemdp.private_paired_samples
    assert rejected(paired, 0.0) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)
    assert rejected(paired, 0.04) > 0.9
    assert rejected(riemdp.private_two_sample, 0.04) < 0.2
