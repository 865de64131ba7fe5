"""Normals of a JAX key: the words are those of JAX, the formulas those of Box and Muller, the law
the normal one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from riemdp.manifolds import SPDLogEuclidean, Sphere, _normals

from ..statistical import ALPHA, gaussian_p_value

KEYS = {
    "typed": lambda: jax.random.key(3),
    "raw": lambda: jax.random.PRNGKey(3),
    "split": lambda: jax.random.split(jax.random.key(1), 5)[4],
    "of another generator": lambda: jax.random.key(3, impl="rbg"),
}
DRAWS = 200_000


def as_key(words: tuple[int, int]) -> jax.Array:
    return jnp.asarray(words, dtype=jnp.uint32)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_answers_of_threefry(counter, key, expected):
    place = jnp.asarray([(counter[0] << 32) | counter[1]], dtype=jnp.uint64)
    word = int(_normals._hashed(as_key(key), place)[0])
    assert (word >> 32, word & 0xFFFFFFFF) == expected


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS.keys())
def test_the_words_are_those_of_jax(make, few):
    key = make()
    radii, angles = (np.asarray(w) for w in _normals._words(key, 1001, few))
    expected = np.asarray(jax.random.bits(key, (2002,), jnp.uint64))
    assert np.array_equal(np.resize(radii, (2, 1001)), np.resize(expected[:1001], (2, 1001)))
    of_both = angles.reshape(2, 1001)
    assert np.array_equal(of_both[0], expected[1001:])
    assert np.array_equal(of_both[1], expected[1001:] - (np.uint64(1) << np.uint64(62)))


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_few_normals_are_the_same_as_if_they_were_many(count, monkeypatch):
    key = jax.random.key(5)
    few = np.asarray(_normals.normals(key, (count,)))
    monkeypatch.setattr(_normals, "_FEW", 0)
    many = np.asarray(_normals.normals(key, (count,)))
    assert few == pytest.approx(many, abs=4e-15)


def edges() -> np.ndarray:
    """Words at the ends of every quarter, and where logarithms change their exponent."""
    near = [np.uint64((q << 62) % 2**64) for q in range(4)]
    near += [np.uint64(2**k) for k in range(12, 64)]
    near.append(np.uint64(0xB504F333F9DE6484))  # 2**64 / sqrt(2)
    around = np.array([-(2**12), -1, 0, 1, 2**12], dtype=np.int64).astype(np.uint64)
    return (np.array(near)[:, None] + around).ravel()


def words() -> np.ndarray:
    random = np.random.default_rng(0).integers(0, 2**64, 50_000, dtype=np.uint64)
    return np.concatenate([edges(), random])


def test_radii_and_cosines_are_exact_to_a_rounding():
    """Beside NumPy's long doubles, from the definition."""
    w = words()
    u = ((w >> np.uint64(12)).astype(np.longdouble) + np.longdouble(0.5)) / np.longdouble(2**52)
    r = np.sqrt(-2 * np.log(u))
    assert np.max(np.abs(np.asarray(_normals._radii(jnp.asarray(w))) / r - 1)) < 1e-15
    m = (w >> np.uint64(10)).astype(np.longdouble) + np.longdouble(0.5)
    turn = 2 * np.arctan2(np.longdouble(0), np.longdouble(-1))
    c = np.cos(turn * (m / np.longdouble(2**54) - np.longdouble(0.125)))
    assert np.max(np.abs(np.asarray(_normals._cosine(jnp.asarray(w))) - c)) < 4e-16


def test_the_largest_radius_is_finite_and_the_smallest_is_not_zero():
    ends = np.asarray(_normals._radii(jnp.asarray([0, 2**64 - 1], dtype=jnp.uint64)))
    assert ends == pytest.approx([np.sqrt(2 * 53 * np.log(2)), np.sqrt(2.0**-52)], rel=1e-12)


def pairs(z: np.ndarray) -> np.ndarray:
    """The two normals of one pair of words, side by side."""
    return z.reshape(2, -1).T


@pytest.mark.parametrize("few", [0, DRAWS])
@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS.keys())
def test_the_law_is_normal_and_a_shorter_radius_is_not(make, few, monkeypatch):
    monkeypatch.setattr(_normals, "_FEW", few)
    z = np.asarray(_normals.normals(make(), (DRAWS,)))
    assert gaussian_p_value(pairs(z), 1.0) > ALPHA
    assert gaussian_p_value(pairs(0.98 * z), 1.0) < ALPHA
    # squared lengths of pairs are exponential, and tell nothing of the angle
    squares = np.sum(pairs(z) ** 2, axis=1)
    assert stats.kstest(squares / 2, "expon").pvalue > ALPHA
    angles = np.arctan2(*pairs(z).T)
    assert stats.kstest(angles / (2 * np.pi) + 0.5, "uniform").pvalue > ALPHA
    ranks = np.argsort(np.argsort([squares, angles], axis=1), axis=1)
    assert abs(np.corrcoef(ranks)[0, 1]) * np.sqrt(len(angles)) < 5.5


def test_planted_faults_of_pairs_are_seen():
    """One angle for both of a pair, a quarter that is left out, a sign that is lost."""
    half = DRAWS // 2
    radii, (angles, _) = _normals._words(jax.random.key(3), half, False)
    r = _normals._radii(radii)
    for wrong in (
        jnp.stack([angles, angles]),
        jnp.stack([angles >> np.uint64(1), (angles >> np.uint64(1)) - _normals._QUARTER]),
        jnp.stack([angles, angles + np.uint64(1 << 61)]),
    ):
        z = np.asarray(r * _normals._cosine(wrong)).ravel()
        assert gaussian_p_value(pairs(z), 1.0) < ALPHA


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (2, 5), (7, 3, 3)])
def test_shapes_and_scales(shape):
    key = jax.random.key(4)
    z = _normals.normals(key, shape, 0.5)
    assert z.shape == shape
    assert z.dtype == np.float64
    assert np.array_equal(2.0 * z, _normals.normals(key, shape))


def test_a_traced_draw_and_one_of_many_keys_are_those_of_one_call():
    space, keys = Sphere(3), jax.random.split(jax.random.key(2), 4)
    alone = np.stack([space.tangent_normal(k, space.origin, 0.3, (5,)) for k in keys])
    together = jax.vmap(lambda k: space.tangent_normal(k, space.origin, 0.3, (5,)))(keys)
    traced = jax.jit(lambda k: space.tangent_normal(k, space.origin, 0.3, (5,)))(keys[2])
    assert np.asarray(together) == pytest.approx(alone, abs=1e-15)
    assert np.asarray(traced) == pytest.approx(alone[2], abs=1e-15)


def test_several_keys_are_refused():
    keys = jax.random.split(jax.random.key(2), 2)
    with pytest.raises((TypeError, ValueError), match="key"):
        Sphere(3).tangent_normal(keys, Sphere(3).origin)


def test_one_base_point_and_the_same_one_written_out_have_the_same_noise():
    """The product of many vectors with one point is another program."""
    for space in (Sphere(4), SPDLogEuclidean(3)):
        p = space.random_point(jax.random.key(1))
        z = np.random.default_rng(0).standard_normal((6, space.noise_size))
        many = np.broadcast_to(np.asarray(p), (6, *space.shape))
        assert np.asarray(space.tangent_from_normals(p, z)) == pytest.approx(
            np.asarray(space.tangent_from_normals(many, z)), abs=1e-13
        )
