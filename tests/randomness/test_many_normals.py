"""Many normals at once: the law to its tails, and the keystream behind it."""

from __future__ import annotations

import numpy as np
import pytest
from randomgen import ChaCha
from scipy import stats

from riemdp import noise_source
from riemdp.randomness import _source
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value


def test_a_million_are_standard_normal() -> None:
    z = noise_source(5).normals((1_000_000,))
    assert ks_p_value(z, "norm") > ALPHA
    assert ks_p_value(1.01 * z, "norm") < ALPHA  # planted: one per cent too wide
    assert gaussian_p_value(z.reshape(-1, 4), 1.0) > ALPHA
    assert gaussian_p_value(0.8 * z.reshape(-1, 4), 1.0) < ALPHA


def test_as_many_beyond_five_deviations_as_there_should_be() -> None:
    count, beyond, narrow, extreme = 0, 0, 0, 0.0
    for i in range(40):
        z = np.abs(noise_source(i).normals((1_000_000,)))
        count, extreme = count + z.size, max(extreme, float(np.max(z)))
        beyond, narrow = beyond + int(np.sum(z > 5.0)), narrow + int(np.sum(0.9 * z > 5.0))
    expected = count * 2 * stats.norm.sf(5.0)  # 22.9

    def two_sided(seen: int) -> float:
        below, above = stats.poisson.cdf(seen, expected), stats.poisson.sf(seen - 1, expected)
        return float(2 * min(below, above))

    assert two_sided(beyond) > ALPHA
    assert two_sided(narrow) < ALPHA  # planted: noise x 0.9
    assert extreme > 5.2


def test_words_are_those_of_chacha_with_twenty_rounds() -> None:
    """The same stream from an independent implementation; eight rounds (planted) differ."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    key = bytes(range(32))
    stream = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    theirs = np.frombuffer(stream.update(bytes(8 * 1000)), dtype="<u8")
    for rounds in (_source._ROUNDS, 8):
        words = ChaCha(key=int.from_bytes(key, "little"), rounds=rounds).random_raw(1000)
        assert np.array_equal(np.asarray(words), theirs) == (rounds == 20)


def test_threads_share_no_numbers() -> None:
    from concurrent.futures import ThreadPoolExecutor

    source = noise_source()
    with ThreadPoolExecutor(1) as pool:
        z = source.normals((2, _source.PARALLEL), pool)
    assert z.shape == (2, _source.PARALLEL)
    assert np.unique(z).size == z.size
