"""Pure noise on a public grid: the privacy loss is epsilon exactly, and the scale pays for the
grid.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import Ball, Budget, noise_source
from riemdp.mechanisms import TangentMeanNoise, WrappedLaplace
from tests.mechanisms.numpy_search import unlimited
from tests.seam import Noise, Searches
from tests.statistical import ALPHA


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_exact_privacy_loss_is_epsilon(dim: int) -> None:
    """The largest log-ratio of two moved distributions is that of their shift, all over a box."""
    scale, shift = 3, tuple(range(1, dim + 1))
    most = math.hypot(*shift) / scale
    losses = [
        (math.dist(k, shift) - math.hypot(*k)) / scale
        for k in itertools.product(range(-6, 7), repeat=dim)
    ]
    assert max(losses) <= most * (1 + 1e-12)
    assert max(losses) > 0.999 * most
    # planted: lengths of one norm, shifts in another
    if dim > 1:
        planted = max(
            sum(abs(a - b) for a, b in zip(k, shift, strict=True)) - sum(map(abs, k))
            for k in itertools.product(range(-6, 7), repeat=dim)
        )
        assert planted / scale > most


@pytest.mark.parametrize("dim", [1, 3, Noise.MOST_DIMENSIONS])
def test_the_scale_pays_for_the_grid(dim: int) -> None:
    rng = np.random.default_rng(dim)
    for _ in range(100):
        epsilon, sensitivity = float(np.exp(rng.normal(0, 2))), float(np.exp(rng.normal(0, 20)))
        share = float(rng.uniform(0.01, 1.0))
        scale = Noise.scale_for(
            Searches.SomeNoise.of(Budget(epsilon)).share(share), sensitivity, dim
        )
        grid = Noise.grid_of(scale)
        assert Noise.scale_up(scale) == scale
        assert (scale / grid).is_integer()
        with mpmath.workdps(40):
            moved = mpmath.mpf(sensitivity) + grid * mpmath.sqrt(dim)
            assert moved / mpmath.mpf(scale) <= mpmath.mpf(epsilon) * mpmath.mpf(share)
            z = 1.0 / (epsilon * share)
            assert scale <= moved * z * (1 + 1e-7 * (1 + z * math.sqrt(dim)))


def test_what_is_released_is_made_of_integers() -> None:
    y = np.array([0.3, -1e-9, 7.0])
    scale = Noise.on_grid(2.0, 0.1, 3)
    grid = Noise.grid_of(scale)
    noisy = Noise.added_laplace(y, scale, noise_source(3))
    z = noise_source(3).laplace_integers(int(scale / grid), 3)
    expected = [round(Fraction(a) / Fraction(grid)) + int(b) for a, b in zip(y, z, strict=True)]
    assert [Fraction(a) / Fraction(grid) for a in noisy] == expected


def test_the_possible_values_do_not_depend_on_the_data() -> None:
    line, ball = riemdp.Euclidean(1), Ball([0.0], 1.0)
    steps = {}
    for value in (2.0**-40, 0.25):
        mechanism = WrappedLaplace(line, [0.0], sensitivity=0.25, epsilon=1.0, ball=ball)
        source = noise_source(1)
        released = np.array([float(mechanism.release([value], source).value[0]) for _ in range(60)])
        grid = mechanism.release([value], source).details["grid"]
        integers = released / grid
        assert np.array_equal(integers, np.rint(integers))
        assert np.any(integers % 2 == 1)
        steps[value] = grid
    assert len(set(steps.values())) == 1


def test_a_pure_count_is_an_exact_sum() -> None:
    source = noise_source(2)
    purse = unlimited(Budget(0.7), source)
    for share in (1e-4, 0.05, 1.0):
        deviation = purse.noise.count_deviation(share)
        drawn = [purse.count(0, share) for _ in range(200)]
        assert all(Fraction(x).denominator <= 2**33 for x in drawn)
        assert all(float(Fraction(10**6) + Fraction(x)) == 1e6 + x for x in drawn)
        assert 0.5 * deviation < np.std(drawn) < 1.6 * deviation
    # a scale so large that its own grid does not hold the integers
    assert Noise.laplace_of_integer(2.0**38, source).is_integer()
    tiny = [Noise.laplace_of_integer(1e-3, source) for _ in range(50)]
    assert 0 < np.max(np.abs(tiny)) < 0.02


def test_counts_have_the_stated_scale() -> None:
    purse = unlimited(Budget(2.0), noise_source(6))
    drawn = np.array([purse.count(0, 0.5) for _ in range(8000)])
    assert stats.kstest(drawn, stats.laplace(scale=1.0).cdf).pvalue > ALPHA
    assert stats.kstest(0.8 * drawn, stats.laplace(scale=1.0).cdf).pvalue < ALPHA


@pytest.mark.parametrize("dim", [1, 3, 6])
def test_lengths_of_noise_have_the_stated_distribution(dim: int) -> None:
    purse = unlimited(Budget(1.0), noise_source(dim))
    scale = Noise.scale_for(purse.noise, 0.5, dim)
    drawn = np.array([purse.add(np.zeros(dim), 0.5, 1.0)[0] for _ in range(2000)])
    lengths = np.linalg.norm(drawn, axis=1)
    distribution = stats.gamma(dim, scale=scale)
    assert stats.kstest(lengths, distribution.cdf).pvalue > ALPHA
    assert stats.kstest(0.8 * lengths, distribution.cdf).pvalue < ALPHA
    if dim > 1:
        along = drawn[:, 0] / lengths
        assert abs(np.mean(along)) < 6 / math.sqrt(dim * 2000)
        assert abs(dim * np.mean(along**2) - 1.0) < 0.3


def test_what_is_called_lattice_and_what_is_not() -> None:
    budget = Budget(1.0)
    wide, narrow = riemdp.Euclidean(11), riemdp.Euclidean(10)
    for space, expected in ((narrow, "lattice"), (wide, "idealised")):
        ball = Ball(np.zeros(space.dim), 1.0)
        X = np.zeros((4, space.dim))
        mechanism = WrappedLaplace(
            space, np.zeros(space.dim), sensitivity=0.1, epsilon=1.0, ball=ball
        )
        release = mechanism.release(X[0], 1)
        assert release.details["numerics"] == expected
        assert ("grid" in release.details) == (expected == "lattice")
        mean = TangentMeanNoise(space, ball, n=4, budget=budget)
        assert mean.release(X, 1).details["numerics"] == expected
        chosen = riemdp.private_frechet_mean(
            space, X, ball, budget, mechanism="wrapped-laplace", rng=1, count_outside=True
        )
        assert chosen.details["numerics"] == expected
    spd = riemdp.SPDAffineInvariant(2)
    free = WrappedLaplace(spd, np.eye(2), sensitivity=0.1, epsilon=1.0)
    assert free.release(np.eye(2), 1).details["numerics"] == "idealised"
