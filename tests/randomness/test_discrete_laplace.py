"""Integers with Laplace distributions: exact enumeration of the coins, chi-square of the draws,
planted faults, and the exact decisions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from riemdp import InvalidArgument, noise_source
from tests.seam import Noise, plant
from tests.statistical import ALPHA

Draw = Callable[[int, int], np.ndarray]


def test_a_coin_has_its_probability_exactly() -> None:
    """Every path of `heads` with its exact probability, up to the tenth toss."""
    for a, b in ((0, 1), (1, 1), (1, 3), (5, 7), (2**33 - 1, 2**33)):
        odd = Fraction(0)
        for tosses in range(1, 12):  # the toss that fails
            asked: list[int] = []

            def below(n: int, tosses: int = tosses, asked: list[int] = asked, a: int = a) -> int:
                asked.append(n)
                return a if len(asked) == tosses else 0

            if a == 0 and tosses > 1:
                break
            chance = Fraction(1)
            for j in range(1, tosses):
                chance *= min(Fraction(1), Fraction(a, b * j))
            chance *= 1 - min(Fraction(1), Fraction(a, b * tosses))
            if chance:
                odd += chance * Noise.heads(below, a, b)
                assert asked == [b * j for j in range(1, tosses + 1)]
        assert abs(float(odd) - math.exp(-a / b)) < 1e-7


def test_uniform_integers_are_uniform() -> None:
    for n in (1, 2, 3, 6, 2**40, 3 * 2**70):
        below = Noise.uniform_below(noise_source(n % 97).generator)
        drawn = [below(n) for _ in range(3000)]
        assert all(0 <= x < n for x in drawn)
        if n > 1:
            cells = min(n, 6)
            seen = np.bincount([x * cells // n for x in drawn], minlength=cells)
            assert stats.chisquare(seen).pvalue > ALPHA


def integers(scale: int, count: int) -> np.ndarray:
    below = Noise.uniform_below(noise_source(scale % 1009).generator)
    return np.array([Noise.two_sided(below, scale) for _ in range(count)])


def distribution_p_value(draw: Draw, scale: int, count: int) -> float:
    """Chi-square of the integers, in cells of about equal probability where they are many, and of
    parity and sign.
    """
    z = draw(scale, count)
    q = math.exp(-1.0 / scale)
    last = max(1, math.ceil(scale * math.log(count / 40)))
    width = max(1, scale // 8)
    edges = np.arange(-(last // width) * width, last, width)
    cdf = lambda x: np.where(  # noqa: E731 - P(Z < x)
        x <= 0,
        np.exp(np.minimum(x, 0) / scale) * q / (1 + q),
        1 - np.exp(-np.maximum(x, 0) / scale) / (1 + q),
    )
    p = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]]))
    seen = np.bincount(np.searchsorted(edges, z, side="right"), minlength=len(p))
    found = [
        float(stats.chisquare(seen, p / p.sum() * count).pvalue),
        float(stats.binomtest(int(np.sum(z > 0)), int(np.sum(z != 0))).pvalue),
    ]
    even = (1 - q) / (1 + q) * (1 + 2 * q * q / (1 - q * q))
    found.append(float(stats.binomtest(int(np.sum(z % 2 == 0)), count, even).pvalue))
    return min(1.0, len(found) * min(found))


@pytest.mark.parametrize("scale", [1, 7, 2**32])
def test_integers_have_the_distribution(scale: int) -> None:
    assert distribution_p_value(integers, scale, 20_000) > ALPHA


def off_by_one(scale: int, count: int) -> np.ndarray:
    z = integers(scale, count)
    return z + (z > 0)


def both_zeros(scale: int, count: int) -> np.ndarray:
    """-0 is kept."""
    z = integers(scale, count)
    below = Noise.uniform_below(noise_source(5).generator)
    q = math.exp(-1.0 / scale)
    again = np.array([below(1 << 30) < (1 - q) / 2 * (1 << 30) for _ in range(count)])
    return np.where(again, 0, z)


def narrow(scale: int, count: int) -> np.ndarray:
    return integers(max(1, int(scale * 0.9)), count)


def often_even(scale: int, count: int) -> np.ndarray:
    z = integers(scale, count)
    return z - (z % 2) * (np.arange(count) % 10 == 0)


@pytest.mark.parametrize(
    ("draw", "scale"), [(off_by_one, 1), (both_zeros, 1), (narrow, 2**32), (often_even, 2**32)]
)
def test_planted_distributions_are_seen(draw: Draw, scale: int) -> None:
    assert distribution_p_value(draw, scale, 20_000) < ALPHA


@pytest.mark.slow
def test_a_scale_smaller_by_a_hundredth_is_seen() -> None:
    assert distribution_p_value(integers, 200, 2_000_000) > ALPHA
    assert distribution_p_value(lambda scale, count: integers(198, count), 200, 2_000_000) < ALPHA


def vector_p_value(dim: int, scale: int, count: int, used: int | None = None) -> float:
    """Chi-square of all vectors with entries from -2 to 2, and of the rest."""
    generator = noise_source(dim).generator
    drawn = [tuple(Noise.laplace_vector(generator, used or scale, dim)) for _ in range(count)]
    whole = range(-60, 61) if dim == 2 else range(-25, 26)
    total = sum(
        math.exp(-math.sqrt(sum(x * x for x in k)) / scale)
        for k in itertools.product(whole, repeat=dim)
    )
    cells = list(itertools.product(range(-2, 3), repeat=dim))
    p = np.array([math.exp(-math.hypot(*k) / scale) / total for k in cells])
    places = {k: i for i, k in enumerate(cells)}
    seen = np.bincount([places.get(k, len(cells)) for k in drawn], minlength=len(cells) + 1)
    p = np.append(p, 1.0 - p.sum())
    return float(stats.chisquare(seen, p * count).pvalue)


@pytest.mark.parametrize(("dim", "scale"), [(2, 3), (3, 2)])
def test_vectors_have_the_distribution(dim: int, scale: int) -> None:
    assert vector_p_value(dim, scale, 8_000) > ALPHA
    assert vector_p_value(dim, scale, 8_000, used=scale + 1) < ALPHA


def test_coordinates_that_are_all_kept_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "kept Laplace vectors", lambda *_: True)
    assert vector_p_value(2, 3, 8_000) < ALPHA


def test_exact_decisions_are_those_of_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(scale: int) -> list[list[int]]:
        generator = noise_source(4).generator
        return [Noise.laplace_vector(generator, scale, 4) for _ in range(40)]

    for scale in (3, 2**33 - 1):
        fast = drawn(scale)
        with monkeypatch.context() as patch:
            plant(patch, "guard of Laplace vectors", 2.0)  # every proposal is compared exactly
            assert drawn(scale) == fast


def test_more_bits_are_drawn_until_they_decide() -> None:
    """53 bits that agree with the probability: the next ones decide, as often as they should."""
    scale, k = 3, [2, 1]
    wider = math.isqrt(2 * scale * scale - 1) + 1
    limit, _ = Noise.limit(5, 3, scale, wider, 60)
    first = int(limit * (1 << 53))
    below = Noise.uniform_below(noise_source(1).generator)
    kept = 0
    for _ in range(400):
        asked: list[int] = []

        def bits(n: int, asked: list[int] = asked) -> int:
            asked.append(n)
            return first if len(asked) == 1 else below(n)

        kept += Noise.kept(bits, k, scale, wider)
        assert asked == [1 << 53, 1 << 64]
    rest = float(limit * (1 << 53) - first)
    assert stats.binomtest(kept, 400, rest).pvalue > ALPHA


@pytest.mark.parametrize(("scale", "dim"), [(4, 0), (4, 11), (0, 2), (2**42, 2), (1.5, 2)])
def test_what_cannot_be_drawn_is_refused(scale: int, dim: int) -> None:
    with pytest.raises(InvalidArgument, match=r"scale|dim"):
        noise_source(1).laplace_integers(scale, dim)
