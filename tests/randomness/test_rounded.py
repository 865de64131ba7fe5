"""Rounded normal integers: their distribution, by enumeration and draws, and exact decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from riemdp import InvalidArgument, noise_source
from tests.seam import Noise, original, plant
from tests.statistical import ALPHA

Draw = Callable[[float, int], np.ndarray]


def probabilities(integers: np.ndarray, scale: float) -> np.ndarray:
    """Phi((j + 1/2) / s) - Phi((j - 1/2) / s)."""
    far = np.abs(integers)
    return stats.norm.sf((far - 0.5) / scale) - stats.norm.sf((far + 0.5) / scale)


def draws(scale: float, count: int, seed: int = 5) -> np.ndarray:
    return noise_source(seed).rounded_normals(scale, count)


# ------------------------------------------------------------------------------------------------
# the rectangles
def faults_of(strips: Any) -> list[str]:
    """What is wrong with the rectangles, in 50 digits."""
    found = []
    with mpmath.workdps(50):

        def curve(x: Fraction) -> Any:
            return mpmath.exp(-((mpmath.mpf(x.numerator) / x.denominator) ** 2) / 2)

        top = Fraction(0)
        areas = set()
        for i, (bottom, height) in enumerate(zip(strips.bottom, strips.height, strict=True)):
            width = Fraction(int(strips.width[i]), 256)
            inner = width * int(strips.inner[i]) / 2**55
            edge = bottom + height
            if bottom != top:
                found.append(f"strip {i} leaves a gap")
            if i > 0 and curve(width) > mpmath.mpf(bottom.numerator) / bottom.denominator:
                found.append(f"strip {i} is too narrow")
            if inner > 0 and curve(inner) < mpmath.mpf(edge.numerator) / edge.denominator:
                found.append(f"strip {i} keeps points above the curve")
            areas.add(width * height)
            top = edge
        if top < 1:
            found.append("the top is not covered")
    if len(areas) > 1:
        found.append("areas differ")
    return found


def test_the_rectangles_cover_the_curve_and_have_equal_areas() -> None:
    strips = Noise.strips()
    assert faults_of(strips) == []
    assert len(strips.bottom) == 256
    assert strips.width[0] == 256 * Noise.REACH
    assert 2 * mpmath.ncdf(-Noise.REACH) < 2.0**-125
    assert faults_of(strips._replace(width=strips.width - np.uint64(1))) != []
    assert faults_of(strips._replace(inner=np.roll(strips.inner, 1))) != []


# ------------------------------------------------------------------------------------------------
# the distribution by enumeration: every strip, 2^13 values of U, points weighted by what is kept
def enumerated(scale: float, used: float, inner: np.ndarray | None = None) -> float:
    """The largest error of a probability, from the code's own decisions."""
    strips = Noise.strips()
    inner = strips.inner if inner is None else inner
    u = (np.arange(1 << 13, dtype=np.uint64) << np.uint64(42)) + np.uint64(1 << 41)
    distribution = np.zeros(40)
    for i in range(256):
        strip = np.full(u.size, i)
        weight = np.clip(
            original("gap under the normal distribution")(strip, u, np.zeros_like(u)), 0.0, 1.0
        )
        weight[u < inner[i]] = 1.0
        magnitude, decided = Noise.rounded(strip, u, used)
        assert np.all(decided)
        distribution += np.bincount(np.minimum(magnitude, 39), weight, 40)
    expected = probabilities(np.arange(39), scale) * np.array([1.0] + 38 * [2.0])
    return float(np.abs(distribution[:39] / distribution.sum() - expected).max())


@pytest.mark.parametrize("scale", [1.0, 3.25])
def test_every_probability_is_right_to_one_part_in_a_hundred_thousand(scale: float) -> None:
    assert enumerated(scale, scale) < 1e-5
    assert enumerated(scale, Noise.scale_up(0.999 * scale)) > 1e-4
    assert enumerated(scale, scale, np.roll(Noise.strips().inner, 1)) > 1e-5


# ------------------------------------------------------------------------------------------------
# the distribution by draws
def distribution_p_value(draw: Draw, scale: float, count: int, times: int = 1) -> float:
    """Chi-square of all integers (of 64 cells of equal probability and two tails where there are
    more), of the sign, and of the six lowest bits where the distribution of these is uniform, of
    `times` times `count` draws.
    """
    if scale < 64:
        last = math.ceil(stats.norm.isf(20 / (count * times)) * scale)
        integers = np.arange(-last, last + 1)
        expected = probabilities(integers, scale)
        expected[[0, -1]] = stats.norm.sf((last - 0.5) / scale)
        edges = integers[:-1] + 0.5
    else:
        inside = stats.norm.ppf(np.arange(1, 64) / 64) * scale
        edges = np.floor(np.concatenate([[-3.9 * scale], inside, [3.9 * scale]])) + 0.5
        expected = np.diff(np.concatenate([[0.0], stats.norm.cdf(edges / scale), [1.0]]))
    seen, low, positive, negative = np.zeros(edges.size + 1), np.zeros(64), 0, 0
    for _ in range(times):
        z = draw(scale, count)
        if scale < 64:
            seen += np.bincount(np.clip(z, -last, last) + last, minlength=seen.size)
        else:
            seen += np.bincount(np.searchsorted(edges, z), minlength=seen.size)
            low += np.bincount(z & 63, minlength=64)
        positive += np.count_nonzero(z > 0)
        negative += np.count_nonzero(z < 0)
    p = [stats.chisquare(seen, expected / expected.sum() * count * times).pvalue]
    p.append(stats.binomtest(positive, positive + negative).pvalue)
    if scale >= 64:
        p.append(stats.chisquare(low).pvalue)
    return min(1.0, len(p) * float(min(p)))


SCALES = [1.0, 3.25, 2.0**10, 2.0**32, 1.7578125 * 2.0**40]


@pytest.mark.parametrize("scale", SCALES)
def test_draws_have_the_distribution(scale: float) -> None:
    assert distribution_p_value(draws, scale, 500_000) > ALPHA


def in_parts(seed: int) -> Draw:
    source = noise_source(seed)
    return lambda scale, count: source.rounded_normals(scale, count)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 2.0**32])
def test_a_billion_draws_have_the_distribution(scale: float) -> None:
    assert distribution_p_value(in_parts(5), scale, 10_000_000, 100) > ALPHA


@pytest.mark.slow
def test_what_half_a_million_draws_do_not_show_a_hundred_million_do() -> None:
    """The power of many draws: a scale that is a part in a thousand too small."""
    draw = in_parts(7)

    def narrower(scale: float, count: int) -> np.ndarray:
        return draw(Noise.scale_up(0.999 * scale), count)

    assert distribution_p_value(narrower, 2.0**32, 500_000) > ALPHA
    assert distribution_p_value(narrower, 2.0**32, 10_000_000, 10) < ALPHA


def narrow(scale: float, count: int) -> np.ndarray:
    return draws(Noise.scale_up(0.99 * scale), count)


def rarely_even(scale: float, count: int) -> np.ndarray:
    z = draws(scale, count)
    odd = (z & 1 == 1) & (np.arange(count) % 50 == 0)
    return z + odd


@pytest.mark.parametrize("draw", [narrow, rarely_even])
def test_another_distribution_is_seen(draw: Draw) -> None:
    assert distribution_p_value(draw, 2.0**32, 500_000) < ALPHA


def test_planted_faults_of_the_sampler_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    strips = Noise.strips()
    with monkeypatch.context() as patch:  # the acceptance of the next strip
        plant(
            patch,
            "strips of the normal distribution",
            lambda: strips._replace(inner=np.roll(strips.inner, -1)),
        )
        assert distribution_p_value(draws, 2.0**32, 500_000) < ALPHA
    with monkeypatch.context() as patch:  # points that are not below `inner` are never kept
        plant(patch, "gap under the normal distribution", lambda strip, u, v: np.full(u.size, -1.0))
        assert enumerated(2.0, 2.0) > 1e-4
    with monkeypatch.context() as patch:  # a uniform number of 31 bits
        words, kept = Noise.words, np.uint64(2**64 - 1 - ((1 << 33) - (1 << 9)))
        plant(patch, "words of normals", lambda generator, count: words(generator, count) & kept)
        assert distribution_p_value(draws, 2.0**40, 100_000) < ALPHA


# ------------------------------------------------------------------------------------------------
# exact decisions
def test_exact_decisions_are_those_of_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = draws(2.0**10, 4000)
    with monkeypatch.context() as patch:
        plant(patch, "guard of normals", 1e9)  # every point beyond `inner` is compared exactly
        assert np.array_equal(draws(2.0**10, 4000), fast)
    with monkeypatch.context() as patch:
        plant(patch, "slack of normals", np.uint64(1 << 62))  # every integer is decided exactly
        assert np.array_equal(draws(2.0**10, 4000), fast)


def test_bits_are_drawn_until_the_curve_decides() -> None:
    """From no bits at all a strip is kept as often as its share under the curve."""
    generator, strips = noise_source(3).generator, Noise.strips()
    u = (np.arange(1 << 13, dtype=np.uint64) << np.uint64(42)) + np.uint64(1 << 41)
    for i in (0, 100, 255):
        kept = sum(Noise.exactly_below(generator, i, (0, 0), (0, 0))[0] for _ in range(300))
        gap = Noise.gap(np.full(u.size, i), u, np.zeros_like(u))
        share = float(np.mean(np.clip(gap, 0.0, 1.0)))
        assert stats.binomtest(kept, 300, share).pvalue > ALPHA
        assert stats.binomtest(kept, 300, 0.5 * share).pvalue < ALPHA
    width = Fraction(int(strips.width[3]), 256)
    u_known, v_known = (1 << 54, 55), (1 << 63, 64)
    below, _ = Noise.exactly_below(generator, 3, u_known, v_known)
    with mpmath.workdps(30):
        x, y = float(width) / 2, strips.bottom[3] + strips.height[3] / 2
        assert below == (mpmath.exp(-(mpmath.mpf(x) ** 2) / 2) > float(y))


def test_bits_are_drawn_until_the_integer_is_decided() -> None:
    generator = noise_source(4).generator
    width = int(Noise.strips().width[7]) / 256
    z = [Noise.exactly_rounded(generator, 7, (0, 0), 8.0) for _ in range(4000)]
    seen = np.bincount(z)
    edges = np.clip(np.arange(seen.size + 1) - 0.5, 0.0, 8.0 * width)
    expected = np.diff(edges) / (8.0 * width)
    assert seen.size == math.floor(8.0 * width + 0.5) + 1
    assert stats.chisquare(seen, 4000 * expected).pvalue > ALPHA
    assert stats.chisquare(seen, 4000 * np.roll(expected, 1)).pvalue < ALPHA
    # one more bit decides: 3.5 is where 3 ends
    u = Fraction(7, 16) / Fraction(width)
    below, above = math.floor(u * 2**55), math.floor(u * 2**55) + 1
    assert Noise.exactly_rounded(generator, 7, (below - 1, 55), 8.0) == 3
    assert Noise.exactly_rounded(generator, 7, (above, 55), 8.0) == 4


def test_the_exponential_is_as_good_as_the_guard_needs() -> None:
    x = np.concatenate([np.linspace(0.0, 13.0, 4001), np.geomspace(1e-9, 13.0, 1000)])
    computed = np.exp(-0.5 * x * x)
    with mpmath.workdps(30):
        error = max(
            abs(float(mpmath.exp(-(mpmath.mpf(float(a)) ** 2) / 2) - mpmath.mpf(float(b))))
            for a, b in zip(x, computed, strict=True)
        )
    assert error * float(Noise.strips().floats[2].max()) < Noise.GUARD / 100


def test_a_few_private_draws_have_the_distribution() -> None:
    z = np.concatenate([noise_source().rounded_normals(2.0**32, 32) for _ in range(2000)])
    assert stats.kstest(z / 2.0**32, "norm").pvalue > ALPHA
    # a word that came twice would be two equal integers: by chance one pair in a few runs
    assert z.size - np.unique(z).size <= 4


# ------------------------------------------------------------------------------------------------
# the method
def test_shapes_types_and_seeds() -> None:
    z = draws(2.0**32, 12)
    assert z.dtype == np.int64
    assert np.array_equal(z, draws(2.0**32, 12))
    assert noise_source(5).rounded_normals(2.0**32, (3, 4)).shape == (3, 4)
    assert noise_source().rounded_normals(7.0).shape == ()
    assert noise_source().rounded_normals(7.0, 0).shape == (0,)
    assert not np.array_equal(noise_source().rounded_normals(2.0**32, 4), z[:4])
    assert np.abs(draws(1.0, 1_000_000)).max() <= Noise.REACH


@pytest.mark.parametrize("scale", [0.5, 2.0**42, 1.1, math.nan, -2.0, math.inf])
def test_scales_that_are_refused(scale: float) -> None:
    with pytest.raises(InvalidArgument, match="scale"):
        noise_source(1).rounded_normals(scale, 3)


@pytest.mark.parametrize("x", [1.1, 1.0, 2.0**32 - 1e-3, 3.3e9, 5e-324, 1e-300])
def test_scale_up_is_the_next_short_number(x: float) -> None:
    up = Noise.scale_up(x)
    assert x <= up <= x * (1 + 2.0**-27) or x < 1e-320
    assert Noise.scale_up(up) == up
