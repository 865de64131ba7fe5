"""Noise on a public grid: what is released is made of integers, and the scale pays for the grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import Ball, Budget, noise_source
from riemdp.mechanisms import TangentGaussian, TangentMeanNoise, WrappedGaussian
from riemdp.privacy.accounting.gaussian import gaussian_delta
from tests.mechanisms.numpy_search import unlimited
from tests.seam import Noise, Sums
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-5)


# ------------------------------------------------------------------------------------------------
# the distribution
def test_what_is_released_is_the_rounded_gaussian_mechanism() -> None:
    y = np.array([0.3, -1e-9, 7.0, 0.0])
    scale = Noise.on_grid(4.0, 0.1, 4)
    grid = Noise.grid_of(scale)
    noisy = Noise.added(y, scale, noise_source(3))
    z = noise_source(3).rounded_normals(scale / grid, 4)
    expected = [(round(Fraction(a) / Fraction(grid)) + int(b)) for a, b in zip(y, z, strict=True)]
    assert [Fraction(a) / Fraction(grid) for a in noisy] == expected
    assert 2.0**32 <= scale / grid < 2.0**33


def test_noise_of_releases_has_the_stated_scale() -> None:
    space, source = riemdp.Euclidean(3), noise_source(8)
    value = np.array([0.2, -0.1, 0.05])
    for make in (
        lambda: WrappedGaussian(space, np.zeros(3), sensitivity=0.02, budget=BUDGET),
        lambda: TangentGaussian(space, np.zeros(3), sensitivity=0.02, budget=BUDGET),
    ):
        mechanism = make()
        noise = np.stack([mechanism.release(value, source).value for _ in range(400)]) - value
        assert gaussian_p_value(noise, mechanism.scale) > ALPHA
        assert gaussian_p_value(0.8 * noise, mechanism.scale) < ALPHA


def excess(distribution: np.ndarray, shift: int, mu: float) -> float:
    """The largest excess of delta(epsilon) of integers and their shift over that of mu."""
    p, q = distribution[shift:], distribution[:-shift]
    epsilons = np.linspace(0.0, 4.0 * mu + 2.0, 301)
    return max(
        max(
            np.maximum(a - math.exp(e) * b, 0.0).sum() - gaussian_delta(e, mu)
            for a, b in ((p, q), (q, p))
        )
        for e in epsilons
    )


def test_the_exact_privacy_curve_of_integer_noise_is_below_the_gaussian_one() -> None:
    """As Lemma 1 says. The discrete Gaussian is above, and so is noise of 0.95 of the scale."""
    for scale, shift in [(1.0, 1), (2.5, 1), (2.5, 3), (8.0, 4)]:
        j = np.arange(-math.ceil(14 * scale), math.ceil(14 * scale) + 1)

        def rounded(scale: float, j: np.ndarray = j) -> np.ndarray:
            return stats.norm.cdf((j + 0.5) / scale) - stats.norm.cdf((j - 0.5) / scale)

        assert excess(rounded(scale), shift, shift / scale) < 1e-12
        assert excess(rounded(0.95 * scale), shift, shift / scale) > 1e-3
        discrete = np.exp(-(j**2) / (2 * scale**2))
        assert excess(discrete / discrete.sum(), shift, shift / scale) > 1e-6


def test_the_truncated_tail_is_below_every_delta() -> None:
    tail = 2 * mpmath.ncdf(-Noise.REACH)
    assert tail < 2.0**-125
    assert 1e6 * (1 + math.exp(10)) * tail < 1e-27


# ------------------------------------------------------------------------------------------------
# the grid
@pytest.mark.parametrize("dim", [1, 66, 20_000])
def test_the_scale_pays_for_the_grid(dim: int) -> None:
    rng = np.random.default_rng(dim)
    for _ in range(200):
        z, sensitivity = float(np.exp(rng.normal(1, 2))), float(np.exp(rng.normal(0, 20)))
        scale = Noise.on_grid(z, sensitivity, dim)
        assert Noise.scale_up(scale) == scale
        with mpmath.workdps(40):
            moved = mpmath.mpf(sensitivity) + Noise.grid_of(scale) * mpmath.sqrt(dim)
            assert mpmath.mpf(scale) >= z * moved
            assert scale <= z * moved * (1 + 1e-7 * (1 + z * math.sqrt(dim)))
            if dim == 20_000 and z > 1.0:  # planted: the grid is for free
                assert Noise.scale_up(z * sensitivity) < z * moved


def test_a_grid_that_is_too_coarse_is_refused() -> None:
    with pytest.raises(riemdp.InvalidArgument, match="budget"):
        Noise.on_grid(1e12, 1.0, 10_000)


def test_coordinates_that_no_grid_holds() -> None:
    scale = Noise.on_grid(4.0, 1.0, 3)
    grid = Noise.grid_of(scale)
    y = np.array([math.nan, 1e290, -math.inf])
    noisy = Noise.added(y, scale, noise_source(1))
    assert np.all(np.isfinite(noisy))
    z = noise_source(1).rounded_normals(scale / grid, 3)
    assert noisy[0] == grid * z[0]
    assert np.array_equal(noisy[1:], [1e290, -(2.0 ** (1022 + round(math.log2(grid))))])
    tiny = Noise.added(np.array([5e-324, 0.0]), Noise.on_grid(4.0, 1e-200, 2), noise_source(1))
    assert np.all(np.abs(tiny) < 1e-198)


Releasing = Callable[[float, float, int], np.ndarray]


def finest(released: np.ndarray) -> float:
    """The largest power of two of which all the numbers are multiples."""
    for exponent in range(60, -1074, -1):
        steps = np.ldexp(released, -exponent)
        if np.array_equal(steps, np.rint(steps)):
            return math.ldexp(1.0, exponent)
    return 0.0


def on_the_library_s_grid(value: float, scale: float, seed: int) -> np.ndarray:
    return Noise.added(np.full(300, value), scale, noise_source(seed))


def in_float64(value: float, scale: float, seed: int) -> np.ndarray:
    released = value + scale * noise_source(seed).normals(300_000)
    return released[np.abs(released) < 2.0**-6]  # what an attacker looks at


def on_a_grid_of_the_data(value: float, scale: float, seed: int) -> np.ndarray:
    coarser = Noise.scale_up(scale) * 2.0 ** math.frexp(value)[1]
    return Noise.added(np.full(300, value), coarser, noise_source(seed))


def test_the_possible_values_do_not_depend_on_the_data() -> None:
    """Two values that are 1/4 apart; float64 noise, and a grid that depends on the data, are told
    apart by the same look.
    """

    def look(noise: Releasing) -> tuple[float, float]:
        scale = Noise.on_grid(3.8, 0.25, 1)
        return finest(noise(2.0**-40, scale, 1)), finest(noise(0.25, scale, 2))

    grids = look(on_the_library_s_grid)
    assert grids[0] == grids[1] == Noise.grid_of(Noise.on_grid(3.8, 0.25, 1))
    for planted in (in_float64, on_a_grid_of_the_data):
        grids = look(planted)
        assert grids[0] < grids[1]


def test_a_noisy_count_is_a_rounded_exact_sum() -> None:
    source = noise_source(2)
    purse = unlimited(BUDGET, source)
    for share in (1e-4, 0.05, 1.0):
        deviation = purse.noise.count_deviation(share)
        drawn = [purse.count(0, share) for _ in range(50)]
        assert all(Fraction(x).denominator <= 2**33 for x in drawn)
        exact = [Fraction(10**6) + Fraction(x) for x in drawn]
        assert all(float(e) == 1e6 + x for e, x in zip(exact, drawn, strict=True))
        assert 0.3 * deviation < np.std(drawn) < 2 * deviation
    # a deviation so large that its own grid does not hold the integers
    assert Noise.noise_of_integer(2.0**38, source).is_integer()


# ------------------------------------------------------------------------------------------------
# the label
def test_what_is_called_lattice_and_what_is_not() -> None:
    spd, line = riemdp.SPDAffineInvariant(2), riemdp.Euclidean(2)
    eye = np.eye(2)
    ball = Ball(eye, 1.0)
    X = np.stack([eye, 1.2 * eye, 0.9 * eye])

    def arithmetic(release: riemdp.Release) -> str:
        return release.details["numerics"]

    with_ball = WrappedGaussian(spd, eye, sensitivity=0.01, budget=BUDGET, ball=ball)
    assert arithmetic(with_ball.release(eye, 1)) == "lattice"
    assert "numerics: lattice" in str(with_ball.release(eye, 1))
    wide = WrappedGaussian(spd, eye, sensitivity=1e-6, budget=BUDGET, ball=Ball(eye, 4.0))
    assert wide.rounding > 1e-4 * 1e-6
    assert arithmetic(wide.release(eye, 1)) == "lattice"
    assert wide.scale >= wide.noise_multiplier * (1e-6 + wide.rounding)
    free = WrappedGaussian(spd, eye, sensitivity=0.01, budget=BUDGET)
    assert arithmetic(free.release(eye, 1)) == "idealised"
    assert "numerics: idealised" in str(free.release(eye, 1))
    # rounding is no longer small against the sensitivity
    far = WrappedGaussian(spd, eye, sensitivity=1e-13, budget=BUDGET, ball=Ball(eye, 8.0))
    assert arithmetic(far.release(eye, 1)) == "idealised"
    assert math.isinf(free.rounding)
    origin = WrappedGaussian(line, [0.0, 0.0], sensitivity=0.01, budget=BUDGET)
    assert (origin.rounding, arithmetic(origin.release([1.0, 2.0], 1))) == (0.0, "lattice")
    elsewhere = WrappedGaussian(line, [0.0, 1.0], sensitivity=0.01, budget=BUDGET)
    assert arithmetic(elsewhere.release([1.0, 2.0], 1)) == "idealised"
    flat = TangentGaussian(line, [0.0, 1.0], sensitivity=0.01, budget=BUDGET)
    curved = TangentGaussian(spd, eye, sensitivity=0.01, budget=BUDGET)
    assert arithmetic(flat.release([1.0, 2.0], 1)) == "lattice"
    assert arithmetic(curved.release(eye, 1)) == "idealised"
    for budget in (BUDGET, Budget(1.0)):
        mechanism = TangentMeanNoise(spd, ball, n=3, budget=budget)
        assert arithmetic(mechanism.release(X, 1)) == "lattice"
    mean = riemdp.private_frechet_mean(spd, X, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)
    assert arithmetic(mean) == "lattice"
    for name, expected in (("wrapped-laplace", "lattice"), ("riemannian-laplace", "idealised")):
        pure = riemdp.private_frechet_mean(spd, X, ball, Budget(1.0), mechanism=name, rng=1)
        assert arithmetic(pure) == expected


# ------------------------------------------------------------------------------------------------
# rounding of the value
def test_rounding_of_a_value_is_within_its_bound() -> None:
    """Logarithms at the identity and at the pole against 40 digits, for values in all of the
    ball.
    """
    rng = np.random.default_rng(5)
    spd, eye = riemdp.SPDAffineInvariant(2), np.eye(2)
    sphere = riemdp.Sphere(3)
    pole = np.asarray(sphere.origin)
    worst = {}
    for radius in (0.3, 3.0, 8.0):
        ball = Ball(eye, radius)
        mechanism = WrappedGaussian(spd, eye, sensitivity=1e-2, budget=BUDGET, ball=ball)
        errors = []
        for _ in range(15):
            a = rng.normal(size=(2, 2))
            a = 0.999 * radius * (a + a.T) / np.linalg.norm(a + a.T)
            value = np.asarray(spd.exp(eye, a))
            with mpmath.workdps(40):
                e, q = mpmath.eigsy(mpmath.matrix(value.tolist()))
                exact = q * mpmath.diag([mpmath.log(x) for x in e]) * q.T
                exact = np.array([[exact[i, j] for j in range(2)] for i in range(2)])
                y = mechanism._admit(value)
                back = np.asarray(spd.from_coordinates(eye, y))
                errors.append(float(sum((back - exact).ravel() ** 2) ** 0.5))
        worst["spd", radius] = 2 * max(errors) / mechanism.rounding
    for radius in (0.1, 0.7):
        ball = Ball(pole, radius)
        mechanism = WrappedGaussian(sphere, pole, sensitivity=1e-2, budget=BUDGET, ball=ball)
        errors = []
        for _ in range(15):
            t = 0.999 * radius * rng.uniform()
            w = rng.normal(size=3)
            w -= (w @ pole) * pole
            value = np.cos(t) * pole + np.sin(t) * w / np.linalg.norm(w)
            with mpmath.workdps(40):
                x = [mpmath.mpf(float(v)) for v in value]
                along = sum(a * float(b) for a, b in zip(x, pole, strict=True))
                side = [a - along * float(b) for a, b in zip(x, pole, strict=True)]
                length = mpmath.sqrt(sum(s * s for s in side))
                exact = np.array([mpmath.atan2(length, along) / length * s for s in side])
                back = np.asarray(sphere.from_coordinates(pole, mechanism._admit(value)))
                errors.append(float(sum((back - exact) ** 2) ** 0.5))
        worst["sphere", radius] = 2 * max(errors) / mechanism.rounding
    assert max(worst.values()) < 0.5, worst


def test_rounding_of_a_second_moment_is_within_its_bound() -> None:
    rng = np.random.default_rng(1)
    n, bound = 5000, 2.0
    rows = rng.normal(size=(n, 3))
    rows *= bound * (1 - 1e-12) / np.linalg.norm(rows, axis=1, keepdims=True)
    exact = np.empty((3, 3))
    for i, j in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]:
        pairs = zip(rows[:, i], rows[:, j], strict=True)
        exact[i, j] = exact[j, i] = float(sum(Fraction(a) * Fraction(b) for a, b in pairs) / n)
    y = Sums.second_moment(rows)
    a = np.asarray(riemdp.SPDAffineInvariant(3).from_coordinates(np.eye(3), y))
    error = float(np.linalg.norm(a - exact))
    plain = math.sqrt(2) * bound**2 / n
    assert error < (Sums.second_moment_sensitivity(bound, n) - plain) / 2
    assert plain < Sums.second_moment_sensitivity(bound, n) < plain * (1 + 1e-6)


def test_few_coordinates_get_the_same_numbers_as_many() -> None:
    rng = np.random.default_rng(3)
    hostile = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, -1.7e308, 5e-324, 0.5, -0.5, 1.5]
    for scale in (Noise.scale_up(x) for x in (1e-290, 1e-5, 0.7, 1.0, 3e4, 1e280)):
        values = np.concatenate([hostile, (rng.integers(-9, 9, 24) + 0.5) * Noise.grid_of(scale)])
        values = np.concatenate([values, scale * rng.normal(size=40)])
        for some in np.split(values, range(5, len(values), 5)):
            few = Noise.added(some, scale, noise_source(7))
            with np.errstate(all="ignore"):
                many = Noise.added(some[None], scale, noise_source(7))[0]
            np.testing.assert_array_equal(few, many)
            np.testing.assert_array_equal(np.signbit(few), np.signbit(many))
