"""Many normals at once: the distribution to its tails, and the keystream behind it."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from randomgen import ChaCha
from scipy import stats

from riemdp import noise_source
from tests.seam import Noise, original, plant
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value


@pytest.mark.parametrize("seeded", [True, False])
def test_a_million_are_standard_normal(seeded: bool) -> None:
    z = (
        noise_source(5).normals((1_000_000,))
        if seeded
        else Noise.many_normals(bytes(32), 1_000_000)
    )
    assert ks_p_value(z, "norm") > ALPHA
    assert ks_p_value(1.01 * z, "norm") < ALPHA  # planted: one per cent too wide
    assert gaussian_p_value(z.reshape(-1, 4), 1.0) > ALPHA
    assert gaussian_p_value(0.8 * z.reshape(-1, 4), 1.0) < ALPHA


@pytest.mark.parametrize("seeded", [True, False])
def test_as_many_beyond_five_deviations_as_there_should_be(seeded: bool) -> None:
    count, beyond, narrow, extreme = 0, 0, 0, 0.0
    for i in range(40):
        key = i.to_bytes(32, "big")
        z = noise_source(i).normals(1_000_000) if seeded else Noise.many_normals(key, 1_000_000)
        z = np.abs(z)
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
    key = bytes(range(32))
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    theirs = np.frombuffer(stream.update(bytes(8 * 1000)), dtype="<u8")
    for rounds in (Noise.ROUNDS, 8):
        words = ChaCha(key=int.from_bytes(key, "little"), rounds=rounds).random_raw(1000)
        assert np.array_equal(np.asarray(words), theirs) == (rounds == 20)


def _by_hand(key: bytes, count: int) -> np.ndarray:
    """The same numbers one by one, from the keystream of the other implementation."""
    words = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
    found: list[float] = []
    pairs = min(Noise.PAIRS, 2 * count // 3 + 1)
    while len(found) < count:
        xs, ys = np.asarray(words.random_raw(2 * pairs)).reshape(2, pairs).tolist()
        kept = []
        for a, b in zip(xs, ys, strict=True):
            # 52 bits each: the middle of one of 2^52 intervals of (-1, 1)
            x, y = ((2 * (word >> 12) + 1) / 2**52 - 1 for word in (a, b))
            if x * x + y * y < 1:
                length = math.sqrt(-2 * math.log(x * x + y * y) / (x * x + y * y))
                kept.append((x * length, y * length))
        found += [x for x, _ in kept] + [y for _, y in kept]
    return np.array(found[:count])


@pytest.mark.parametrize("count", [1, 2, 1000, 70_001])
def test_numbers_are_those_of_the_polar_method_by_hand(count: int) -> None:
    key = bytes(reversed(range(32)))
    np.testing.assert_allclose(Noise.many_normals(key, count), _by_hand(key, count), rtol=1e-9)


@pytest.mark.parametrize(
    "worst", [0, 2**64 - 1, 1 << 63, (1 << 63) - 1, 0x8000000000000FFF, 0x7FFFFFFFFFFFF000]
)
def test_every_word_gives_finite_numbers(worst: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that an attacker would wish for: the smallest and largest coordinates. Nothing is zero,
    infinite or no number.
    """

    class Planted:
        def __init__(self, *_: object, **__: object) -> None:
            self.done = False

        def encryptor(self) -> Planted:
            return self

        def update_into(self, nothing: bytes, out: bytearray) -> None:
            words = np.random.default_rng(0).integers(0, 2**64, len(out) // 8, dtype=np.uint64)
            words[:: 2 if self.done else 1] = worst
            if not self.done and worst in (0, 2**64 - 1):
                words[1::2] = 1 << 63  # else no pair is in the disk
            out[:], self.done = words.tobytes(), True

    plant(monkeypatch, "cipher of many normals", Planted)
    z = Noise.many_normals(bytes(32), 5000)
    assert np.all(np.isfinite(z))
    assert np.all(z != 0)
    assert np.max(np.abs(z)) < 12


def test_the_end_of_the_disk_is_small() -> None:
    """Pairs near the edge of the disk become the smallest lengths: R^2 / 2 is exponential there
    too. What lies outside (planted) becomes no number.
    """
    with np.errstate(all="raise"):
        z = Noise.many_normals(bytes(range(32)), 4_000_000)
    blocks = [z[i : i + 1000] for i in range(0, z.size, 1000)]
    assert all(np.all(np.isfinite(block)) for block in blocks)
    small = int(np.sum(np.abs(z) < 1e-4))
    expected = z.size * 2 * stats.norm.pdf(0.0) * 1e-4
    assert abs(small - expected) < 6 * math.sqrt(expected)


def test_the_two_of_a_pair_are_independent() -> None:
    """Of one block: the first half are the x of the pairs, the second half their y."""
    x, y, order = [], [], []
    for i in range(40):
        z = Noise.many_normals(i.to_bytes(32, "big"), 40_000)  # a block gives 25 736 or so
        inside = _in_first_block(i.to_bytes(32, "big"))
        x.append(z[:inside])
        y.append(z[inside : 2 * inside])
        order.append(inside)
    pairs = np.stack([np.concatenate(x), np.concatenate(y)], axis=1)
    assert abs(np.mean(order) / Noise.PAIRS - math.pi / 4) < 6 * 0.41 / math.sqrt(40 * 16384)
    assert gaussian_p_value(pairs, 1.0) > ALPHA
    squared, angle = np.sum(pairs**2, axis=1), np.arctan2(pairs[:, 1], pairs[:, 0])
    assert ks_p_value(squared / 2, "expon") > ALPHA
    assert ks_p_value((angle + math.pi) / (2 * math.pi), "uniform") > ALPHA
    for part in np.array_split(angle[np.argsort(squared)], 8):  # the angle tells nothing of R
        assert ks_p_value((part + math.pi) / (2 * math.pi), "uniform") > ALPHA
    assert ks_p_value(np.sum((pairs * [1.0, 0.9]) ** 2, axis=1) / 2, "expon") < ALPHA  # planted


def _in_first_block(key: bytes) -> int:
    words = np.asarray(
        ChaCha(key=int.from_bytes(key, "little"), rounds=20).random_raw(2 * Noise.PAIRS)
    )
    x, y = ((words >> np.uint64(12)).astype(np.float64) / 2**51 - 1).reshape(2, -1)
    return int(np.sum(x * x + y * y < 1))


def test_no_number_comes_twice() -> None:
    z = noise_source().normals((500_000,))
    assert np.unique(z).size == z.size


def test_keys_are_whole_and_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    def watched(key: bytes, count: int) -> np.ndarray:
        keys.append(key)
        return Noise.many_normals(key, count)

    plant(monkeypatch, "many normals", watched)
    source = noise_source()
    with ThreadPoolExecutor(4) as pool:
        drawn = list(
            pool.map(lambda _: source.normals(original("normals drawn at once")), range(64))
        )
    assert len(keys) == len(set(keys)) == 64
    assert {len(key) for key in keys} == {32}
    together = np.frombuffer(b"".join(keys), np.uint8)
    assert np.unique(together[: 64 * 32]).size > 240  # all bytes occur, not a repeated few
    assert len({key[:16] for key in keys} | {key[16:] for key in keys}) == 128
    assert np.unique(np.concatenate(drawn)).size == 64 * original("normals drawn at once")
    for key in keys:
        assert key[:2] != key[2:4] or key[2:4] != key[4:6]


def test_a_seed_is_one_stream_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "many normals", None)  # has no part in it
    whole, parts = noise_source(3).normals(9000), noise_source(3)
    np.testing.assert_array_equal(whole[:5000], parts.normals((50, 100)).reshape(-1))
    np.testing.assert_array_equal(whole[5000:], parts.normals(4000))
