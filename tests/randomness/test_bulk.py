"""Many normals at once: the law to its tails, the keystream, and a key for each request."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from riemdp import noise_source
from riemdp.randomness import _bulk, _source
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

KEY = bytes(range(32))


def normals(count: int, key: bytes = KEY) -> np.ndarray:
    out = np.empty(count)
    _bulk.fill_with_normals(key, out)
    return out


def from_words(radius_words: list[int], angle_words: list[int]) -> np.ndarray:
    words = np.array(radius_words + angle_words, dtype=np.uint64)
    out = np.empty(words.size)
    _bulk._pairs(words, np.empty(words.size // 2), out)
    return out


def test_a_million_are_standard_normal() -> None:
    z = normals(1_000_000)
    assert ks_p_value(z, "norm") > ALPHA
    assert ks_p_value(1.01 * z, "norm") < ALPHA  # planted: one per cent too wide
    assert gaussian_p_value(z.reshape(-1, 4), 1.0) > ALPHA
    assert gaussian_p_value(0.8 * z.reshape(-1, 4), 1.0) < ALPHA


def test_both_of_a_pair_are_independent() -> None:
    blocks = normals(61 * _bulk._WORDS, b"\1" * 32).reshape(61, 2, -1)
    a, b = blocks[:, 0].ravel(), blocks[:, 1].ravel()
    assert ks_p_value((np.arctan2(b, a) / (2 * np.pi)) % 1.0, "uniform") > ALPHA
    assert ks_p_value((a * a + b * b) / 2, "expon") > ALPHA
    for left, right in ((a, b), (a * a, b * b), (np.abs(a[1:]), np.abs(a[:-1]))):
        assert (
            float(np.corrcoef(left, right)[0, 1]) ** 2 < stats.norm.isf(ALPHA / 2) ** 2 / left.size
        )
    # planted: the angle not doubled, so that the cosine is never negative
    half = np.hypot(a, b) * np.cos(np.arctan2(b, a) / 2)
    assert ks_p_value(half, "norm") < ALPHA


def test_as_many_beyond_five_deviations_as_there_should_be() -> None:
    count, beyond, narrow, extreme = 0, 0, 0, 0.0
    for i in range(40):
        z = np.abs(normals(1_000_000, i.to_bytes(32, "big")))
        count, extreme = count + z.size, max(extreme, float(np.max(z)))
        beyond, narrow = beyond + int(np.sum(z > 5.0)), narrow + int(np.sum(0.9 * z > 5.0))
    expected = count * 2 * stats.norm.sf(5.0)  # 22.9

    def two_sided(seen: int) -> float:
        return 2 * min(stats.poisson.cdf(seen, expected), stats.poisson.sf(seen - 1, expected))

    assert two_sided(beyond) > ALPHA
    assert two_sided(narrow) < ALPHA  # planted: noise x 0.9
    assert extreme > 5.2


def test_pairs_against_thirty_digits_to_the_last_words() -> None:
    """Every radius up to 9.5 deviations, at the edges of the words too; no infinity and nothing
    that is not a number.
    """
    top = 2**64 - 1
    radii = [0, 1, 2, 1000, 2**20, 2**53 + 1, 2**63, 3 * 2**62, top - 2**20, top]
    angles = [0, 1, 2**20, 2**61, 2**62, 2**63 - 1, 2**63, 2**63 + 2**61, top - 5, top]
    got = from_words([r for r in radii for _ in angles], angles * len(radii)).reshape(
        2, len(radii), len(angles)
    )
    assert np.all(np.isfinite(got))
    assert np.max(np.abs(got)) == pytest.approx(
        math.sqrt(130 * math.log(2)), rel=1e-14
    )  # u = 2^-65: 9.49
    with mpmath.workdps(30):
        for i, r in enumerate(radii):
            u = (mpmath.mpf(r) + 0.5) / 2**64
            radius = mpmath.sqrt(-2 * mpmath.log(u))
            # u is rounded to 53 bits, which moves the radius by the relative error of u over the
            # radius
            allowed = 4e-16 * float(radius) + min(2.2e-16 / float(radius), 2.2e-8)
            for j, a in enumerate(angles):
                angle = 2 * mpmath.pi * (a if a < 2**63 else a - 2**64) / 2**64
                assert abs(got[0, i, j] - radius * mpmath.cos(angle)) <= allowed
                assert abs(got[1, i, j] - radius * mpmath.sin(angle)) <= allowed


def test_words_are_those_of_chacha_with_twenty_rounds() -> None:
    """The same stream from an independent implementation, through the formula written out; eight
    rounds (planted) differ.
    """
    for count in (4, 5, 1000, 3 * _bulk._WORDS + 7):
        block = _bulk.block_size(count)
        assert block % 2 == 0
        assert block <= _bulk._WORDS
        stop = [min(block, count - low) for low in range(0, count, block)]
        for rounds in (20, 8):
            words = ChaCha(key=int.from_bytes(KEY, "little"), rounds=rounds)
            parts = []
            for size in stop:
                m = (size + 1) // 2
                u, v = (np.asarray(words.random_raw(2 * m)).reshape(2, m) + 0.5) / 2.0**64
                r = np.sqrt(-2 * np.log(u))
                parts.append(
                    np.concatenate([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)])[:size]
                )
            same = np.allclose(normals(count), np.concatenate(parts), rtol=0, atol=1e-13)
            assert same == (rounds == 20)


def test_each_request_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    many = (_source._MANY // 2, 2)
    keys: list[bytes] = []
    real = _bulk.fill_with_normals
    monkeypatch.setattr(
        _source, "fill_with_normals", lambda key, out: (keys.append(key), real(key, out))
    )
    seeded = [noise_source(3) for _ in range(2)]
    draws = [s.normals(many) for s in (noise_source(), noise_source(), *seeded)]
    assert all(d.shape == many and d.dtype == np.float64 for d in draws)
    assert np.array_equal(draws[2], draws[3])
    assert keys[2] == keys[3]
    again = seeded[0].normals(many)  # moves on
    assert len({*keys}) == 4
    assert all(len(key) == 32 for key in keys)
    everything = np.concatenate([d.ravel() for d in (*draws[:3], again)])
    assert np.unique(everything).size == everything.size
    noise_source().normals(_source._MANY - 1)  # few: from the source's own stream
    assert len(keys) == 5
