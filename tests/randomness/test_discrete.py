"""Discrete Gaussian integers: their distribution, by enumeration and by draws."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from riemdp import InvalidArgument, noise_source
from tests.seam import Noise
from tests.statistical import ALPHA


def distribution(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """All integers within 13 scales, and their probabilities by summation."""
    j = np.arange(-math.floor(13 * scale), math.floor(13 * scale) + 1)
    weights = np.exp(-(j**2) / (2 * scale**2))
    return j, weights / math.fsum(weights)


def p_value(drawn: np.ndarray, scale: float) -> float:
    j, probabilities = distribution(scale)
    expected = probabilities * drawn.size
    middle = expected > 20
    counts = np.array([np.sum(drawn == k) for k in j[middle]])
    seen = np.append(counts, drawn.size - counts.sum())
    wanted = np.append(expected[middle], drawn.size - expected[middle].sum())
    return float(stats.chisquare(seen, wanted).pvalue)


@pytest.mark.parametrize("scale", [1.0, 1.625, 4.0])
def test_proposals_that_are_kept_have_the_distribution(scale: float) -> None:
    """P(proposal) A(j), normalised, is the discrete Gaussian to 25 digits, at every integer."""
    with mpmath.workdps(60):
        s, half = mpmath.mpf(scale), mpmath.mpf(1) / 2
        j = range(0, int(9 * scale))
        proposed = [
            mpmath.erfc((k - half) / (s * mpmath.sqrt(2)))
            - mpmath.erfc((k + half) / (s * mpmath.sqrt(2)))
            for k in j
        ]
        kept = [p * Noise.keeping(k, scale, 30) for k, p in zip(j, proposed, strict=True)]
        for k, weight in zip(j, kept, strict=True):
            assert abs(weight / kept[0] / mpmath.exp(-(k**2) / (2 * s * s)) - 1) < 1e-25
            slack = mpmath.mpf(10) ** -30
            share = Noise.keeping(k, scale, 30)
            assert 1 - (k / s**2) ** 2 / 8 <= share + slack
            assert share <= 1 + slack


@pytest.mark.parametrize("scale", [1.0, 1.625, 4.0])
def test_draws_have_the_distribution(scale: float) -> None:
    source = noise_source(11)
    assert p_value(source.discrete_gaussians(scale, 40_000), scale) > ALPHA


def test_rounded_normals_are_another_distribution() -> None:
    """The planted fault: without the rejection the same test fails."""
    assert p_value(noise_source(11).rounded_normals(1.0, 40_000), 1.0) < ALPHA
    assert p_value(noise_source(11).discrete_gaussians(1.5, 40_000), 1.625) < ALPHA


def test_large_scales_are_gaussian_to_the_eye() -> None:
    scale = 2.0**20
    drawn = noise_source(3).discrete_gaussians(scale, (200, 500))
    assert drawn.shape == (200, 500)
    assert drawn.dtype == np.int64
    assert stats.kstest(drawn.ravel() / scale, "norm").pvalue > ALPHA
    assert stats.kstest(0.95 * drawn.ravel() / scale, "norm").pvalue < ALPHA


def test_decisions_at_the_edge_take_more_bits() -> None:
    """A word that begins with the bits of A(j) decides nothing; the following ones do."""
    scale, j = 2.0, 5
    share = Noise.keeping(j, scale, 200)
    with mpmath.workdps(300):
        bits = int(mpmath.floor(share * mpmath.mpf(2) ** 128))
    first, second = bits >> 64, bits & (2**64 - 1)

    class Words:
        def __init__(self, word: int):
            self.word, self.asked, self.bit_generator = word, 0, self

        def random_raw(self, count: int) -> np.ndarray:
            self.asked += count
            return np.full(count, self.word, dtype=np.uint64)

    for word, answer in ((second - 1, True), (second + 1, False)):
        words = Words(word)
        assert Noise.below(words, first, j, scale) is answer  # type: ignore[arg-type]
        assert words.asked == 1
    assert Noise.below(Words(0), first - 1, j, scale) is True  # type: ignore[arg-type]
    assert Noise.below(Words(0), first + 1, j, scale) is False  # type: ignore[arg-type]


def test_scales_that_are_not_exact_are_refused() -> None:
    for scale in (0.5, 2.0**42, 1.0 + 2.0**-40):
        with pytest.raises(InvalidArgument, match="scale"):
            noise_source(1).discrete_gaussians(scale, 3)
