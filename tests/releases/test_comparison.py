"""From the records of several samples to a p-value: sensitivity, level, power, hostile records."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget
from tests.seam import Means, Sums
from tests.statistical import ALPHA, coverage_p_value, ks_p_value

PLANE, BALL = riemdp.Euclidean(2), Ball(np.zeros(2), 2.0)
BUDGET, RICH = Budget(1.0, 1e-6), Budget(20.0, 1e-6)


def drawn(rng, *shifts, n=300):
    """Samples of normal vectors about these places, one for each, and their labels."""
    X = rng.normal(scale=0.6, size=(len(shifts) * n, 2))
    samples = np.repeat(np.arange(len(shifts)), n)
    return X + np.asarray(shifts, dtype=float)[samples, None], samples


def p_values(shifts, runs, budget=RICH, **given):
    rng = np.random.default_rng(0)
    found = []
    for seed in range(runs):
        X, samples = drawn(rng, *shifts)
        options = {"samples": samples, "rng": seed} | given
        found.append(riemdp.private_comparison(PLANE, X, BALL, budget, **options).p_value)
    return np.array(found)


# ------------------------------------------------------------------------------------- sensitivity
@pytest.mark.parametrize("moments", [False, True])
def test_one_record_moves_a_sample_by_at_most_two(moments):
    """Opposite vectors of lengths 1 and t, where sums and squares pull together; random ones."""
    sums = Sums.ClassSpreads(2, 2, 3, (1, 1), moments)
    rng, labels, worst = np.random.default_rng(1), np.array([0, 1]), 0.0
    pairs = [np.array([[1.0, 0, 0], [-t, 0, 0]]) for t in np.linspace(0, 1, 60)]
    pairs += [
        z / np.maximum(1.0, np.linalg.norm(z, axis=1))[:, None]
        for z in rng.normal(size=(300, 2, 3))
    ]
    for pair in pairs:
        one, other = (sums.joint(np.stack([z, np.zeros(3)]), labels) for z in pair)
        worst = max(worst, float(np.linalg.norm(one - other)))
    assert worst <= sums.sensitivity
    assert worst == pytest.approx(2.0)
    assert sums.sensitivity == pytest.approx(2.0, rel=1e-6)


# ------------------------------------------------------------------------------------------- level
@pytest.mark.parametrize("whole", [False, True])
def test_the_level_is_exact_for_samples_of_unequal_noise(whole):
    """Three means with Gaussian noise; the same with noise that is stated a quarter too small."""
    rng, sigma = np.random.default_rng(2), np.array([0.1, 0.4, 1.5])
    spreads = [np.diag([0.5, 0.01]) if whole else None] * 3

    def p(stated):
        out = []
        for _ in range(300):
            y = [rng.normal(size=2) * s for s in sigma]
            if whole:
                y = [one + rng.normal(size=2) * np.sqrt([0.5, 0.01]) for one in y]
            distributions = [Means.gaussian_errors(2, stated * s, exact=True) for s in sigma]
            given = zip(y, distributions, spreads, strict=True)
            means = [Sums.SampleMean(a, distribution, covariance=c) for a, distribution, c in given]
            out.append(Sums.compared(means, 1.0, "", exact=True, reproducible=False).p_value)
        return np.array(out)

    assert ks_p_value(p(1.0), "uniform") > ALPHA
    assert ks_p_value(p(0.4 if whole else 0.7), "uniform") < ALPHA


def test_samples_are_compared_by_their_noise_alone():
    """The same records each time: only noise varies, and the p-value is uniform."""
    X, samples = drawn(np.random.default_rng(3), 0.0, 0.0, n=40)
    X[40:] = X[:40]
    given = {"samples": samples, "of": "sample"}
    p = [
        riemdp.private_comparison(PLANE, X, BALL, RICH, rng=seed, **given).p_value
        for seed in range(100)
    ]
    assert ks_p_value(np.array(p), "uniform") > ALPHA


def test_the_level_holds_for_populations_where_sampling_is_most_of_the_error():
    p = p_values((0.0, 0.0), 100)
    assert coverage_p_value(p > 0.05, 0.95, at_least=True) > ALPHA
    assert np.median(p) < 0.8
    of_records = p_values((0.0, 0.0), 40, of="sample")
    assert coverage_p_value(of_records > 0.05, 0.95, at_least=True) < ALPHA


def test_no_direction_of_sampling_error_is_beyond_the_bound_of_its_variance():
    """Where the spread is 3 altogether: in one direction, in all, and in between."""
    rng, degrees = np.random.default_rng(4), 5
    for spread in ([3.0], [1.5, 1.5], [0.6] * 5, [2.0, 0.5, 0.5]):
        scales = 1.0 + np.pad(spread, (0, degrees - len(spread)))
        squares = rng.normal(size=(40_000, degrees)) ** 2 @ scales
        for level in (0.2, 0.05, 0.01):
            exceeded = squares > np.quantile(squares, 1 - level)
            bound = Sums.largest_tail(float(np.quantile(squares, 1 - level)), degrees, 3.0)
            assert bound > exceeded.mean() * (1 - 5 / np.sqrt(40_000 * level))
    assert bound < 0.03


def test_released_variances_are_enlarged_and_never_above_the_largest():
    above, covariance = Sums.variance_above, Sums.covariance_above
    assert above(0.2, 0.1, 11, 1.0) == pytest.approx((0.2 + 0.1645) * 1.3)
    assert above(0.2, 0.1, 1, 1.0) == above(0.9, 0.1, 20, 1.0) == 1.0
    assert above(-1.0, 0.1, 50, 1.0) == 0.0
    found = covariance(np.diag([0.3, -0.1]), 0.2, 103, 0.33)
    assert np.allclose(np.linalg.eigvalsh(found), [0.052, 0.33])


# ------------------------------------------------------------------------------------------- power
def test_a_difference_is_found():
    far = p_values((0.0, 0.3), 10)
    assert np.all(far < 1e-4)
    X, samples = drawn(np.random.default_rng(5), 0.0, 0.0, 0.8, n=500)
    for ball in (BALL, AdaptiveBall(Ball(np.zeros(2), 100.0))):
        found = riemdp.private_comparison(PLANE, X, ball, BUDGET, samples=samples, rng=1)
        assert found.rejects(0.01)
        assert found.degrees == 4
        low, high = found.interval
        assert low <= found.distance <= high
    assert found.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    assert found.release.value.shape == (3, 2)
    assert "seed" in str(found)


def test_pure_noise_is_conservative_and_finds_what_is_far():
    pure = Budget(5.0)
    assert np.mean(p_values((0.0, 0.0), 40, pure) <= 0.05) < 0.1
    assert np.all(p_values((0.0, 1.5), 5, pure) < 0.01)


def test_a_plan_says_how_far_apart_means_have_to_be():
    """Equal records in each sample, whose distance is found in four of five releases."""
    row = riemdp.plan_private_comparison(PLANE, BALL, (40, 60), RICH)[0]
    X = np.repeat([[0.0, 0.0], [row.by_noise, 0.0]], [40, 60], axis=0)
    given = {"samples": np.repeat([0, 1], [40, 60]), "of": "sample"}
    found = [
        riemdp.private_comparison(PLANE, X, BALL, RICH, rng=i, **given).rejects()
        for i in range(100)
    ]
    assert coverage_p_value(np.array(found), 0.8) > ALPHA
    assert row.by_both > row.by_noise
    searched = riemdp.plan_private_comparison(PLANE, AdaptiveBall(BALL), (400, 600), BUDGET)[0]
    assert searched.need > 1
    assert searched.share < 1
    with pytest.raises(riemdp.InvalidArgument, match="sizes"):
        riemdp.plan_private_comparison(PLANE, BALL, (40,), RICH)


def test_people_are_compared_by_their_means():
    X, samples = drawn(np.random.default_rng(6), 0.0, 0.6, n=800)
    groups = np.arange(1600) // 2
    found = riemdp.private_comparison(PLANE, X, BALL, BUDGET, samples=samples, groups=groups, rng=0)
    assert found.guarantee.unit == "person"
    assert found.release.details["sample_sizes"] == (400, 400)
    assert "people" in found.hypothesis
    with pytest.raises(riemdp.InvalidArgument, match="several samples"):
        riemdp.private_comparison(PLANE, X, BALL, BUDGET, samples=samples, groups=groups % 799)


# ------------------------------------------------------------------------------------------ attack


def test_labels_of_samples_are_public_and_have_to_be_numbers_or_texts():
    X, samples = drawn(np.random.default_rng(8), 0.0, 0.0, n=30)
    for bad in (samples.reshape(-1, 2), [[1], [2]] * 30, iter(samples), [None, 1] * 30):
        with pytest.raises(riemdp.InvalidArgument, match="samples"):
            riemdp.private_comparison(PLANE, X, BALL, BUDGET, samples=bad)
    named = np.array(["a", "b"])[samples]
    both = [
        riemdp.private_comparison(PLANE, X, BALL, BUDGET, samples=s, rng=0)
        for s in (samples, named)
    ]
    assert both[0].p_value == both[1].p_value
    rows = dict(riemdp.report.privacy_report(both[0].release).rows)
    assert "2 samples" in rows["Released"]
    assert "which sample is public" in rows["Clipping"]


def test_the_smallest_samples_reject_nothing():
    X = np.array([[1.9, 0.0], [-1.9, 0.0]])
    p = [
        riemdp.private_comparison(PLANE, X, BALL, Budget(50.0, 1e-6), samples=[0, 1], rng=i).p_value
        for i in range(20)
    ]
    assert min(p) > 0.01
    uneven = np.repeat([0, 1], [2, 398])
    X = np.zeros((400, 2))
    found = riemdp.private_comparison(PLANE, X, BALL, BUDGET, samples=uneven, rng=0)
    assert found.p_value > 0.01


def test_labels_of_people_of_two_arrays_are_checked_each_by_itself():
    """A number for a list was a TypeError."""
    A, B = np.zeros((4, 2)), np.ones((4, 2))
    people = np.arange(4)
    ball, budget = riemdp.Ball(np.zeros(2), 2.0), riemdp.Budget(1.0, 1e-6)
    for wrong in (5, people.reshape(2, 2), people[:3], "abcd", [0, 1, 2, None]):
        for groups in ((wrong, people + 4), (people + 4, wrong)):
            with pytest.raises(riemdp.InvalidArgument, match="`groups`"):
                riemdp.private_two_sample(riemdp.Euclidean(2), A, B, ball, budget, groups=groups)
