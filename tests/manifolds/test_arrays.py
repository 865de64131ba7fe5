"""One formula for any array: which library a result comes from, and that the result of a record
does not depend on what lies beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import InvalidArgument

from .cases import CASES, Case, over_cases

COUNT = 259


def drawn(case: Case, count: int = COUNT) -> tuple[Any, Any, Any, np.ndarray]:
    """Two points, a tangent vector at the first one and normals, for each of several records."""
    m, rng = case.manifold, np.random.default_rng(5)
    p = m.random_point(rng, (count,))
    c = rng.standard_normal((count, m.dim))
    c *= min(0.9, 0.4 * (case.radius or 1.0)) / np.linalg.norm(c, axis=-1, keepdims=True)
    v = m.from_coordinates(p, c)
    return p, m.exp(p, v), v, rng.standard_normal((count, m.noise_size))


def calls(m: riemdp.AbstractManifold, p: Any, q: Any, v: Any, z: Any) -> dict[str, Any]:
    """What every public operation gives."""
    origin = m.origin
    asked: dict[str, Callable[[], Any]] = {
        "exp": lambda: m.exp(p, v),
        "log": lambda: m.log(p, q),
        "dist": lambda: m.dist(p, q),
        "squared_dist": lambda: m.squared_dist(p, q),
        "inner": lambda: m.inner(p, v, v),
        "norm": lambda: m.norm(p, v),
        "transport": lambda: m.transport(p, q, v),
        "retract": lambda: m.retract(p, v),
        "project": lambda: m.project(q),
        "to_tangent": lambda: m.to_tangent(p, q),
        "egrad_to_rgrad": lambda: m.egrad_to_rgrad(p, q),
        "belongs": lambda: m.belongs(q),
        "is_tangent": lambda: m.is_tangent(p, v),
        "tangent_from_normals": lambda: m.tangent_from_normals(p, z),
        "to_coordinates": lambda: m.to_coordinates(p, v),
        "from_coordinates": lambda: m.from_coordinates(p, m.to_coordinates(p, v)),
        "injectivity_radius": lambda: m.injectivity_radius(p),
        "log_volume_density": lambda: m.log_volume_density(p, v),
        # of a public point, which stays
        "log from one": lambda: m.log(origin, q),
        "dist from one": lambda: m.dist(origin, q),
        "exp from one": lambda: m.exp(origin, m.log(origin, q)),
        "noise from one": lambda: m.tangent_from_normals(origin, z),
        "to_coordinates from one": lambda: m.to_coordinates(origin, m.log(origin, q)),
    }
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except NotImplementedError:
            continue
    return found


def hidden(m: riemdp.AbstractManifold, p: Any, q: Any, v: Any) -> dict[str, Any]:
    """What loops over records call: coordinates at once, and from one base."""
    base = m.origin
    try:
        c = m._log_coordinates(p, q)
        return {
            "log coordinates": c,
            "exp of coordinates": m._exp_coordinates(p, c),
            "log coordinates from one": m._log_coordinates(base, q),
            "exp of coordinates from one": m._exp_coordinates(base, c),
            "from coordinates from one": m._from_coordinates(base, c),
            "coordinates from one": m._to_coordinates(base, m._from_coordinates(base, c)),
        }
    except NotImplementedError:
        return {}


@over_cases()
def test_results_are_arrays_of_the_library_that_was_given(case: Case) -> None:
    given = drawn(case, 5)
    for name, found in calls(case.manifold, *given).items():
        for x in jax.tree.leaves(found):
            assert type(x) is np.ndarray, name
            assert x.flags.owndata, name
            assert all(x is not one for one in jax.tree.leaves(given)), name
    first = [jax.tree.map(lambda x: x[0], x) for x in given]
    for name, found in calls(case.manifold, *first).items():
        assert all(
            type(x) is np.ndarray or isinstance(x, np.generic) for x in jax.tree.leaves(found)
        ), name
    lists = [jax.tree.map(lambda x: x.tolist(), x) for x in given]
    dist = case.manifold.norm(lists[0], lists[2])
    assert np.array_equal(dist, case.manifold.norm(given[0], given[2]))


@over_cases()
def test_numpy_and_jax_agree(case: Case) -> None:
    m, given = case.manifold, drawn(case, 5)
    of_jax = jax.tree.map(jnp.asarray, given)

    def asked(p: Any, q: Any, v: Any, z: Any) -> dict[str, Any]:
        found = {k: x for k, x in calls(m, p, q, v, z).items() if "from one" not in k}
        return found | hidden(m, p, q, v)

    @jax.jit  # one program for all operations compiles in a fraction of the time of one for each
    def by_jax(*given: Any) -> dict[str, Any]:
        found = asked(*given)
        for name, tree in found.items():
            assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(tree)), name
        return found

    ours, theirs = asked(*given), by_jax(*of_jax)
    assert ours.keys() == theirs.keys()
    for name in ours:
        for a, b in zip(jax.tree.leaves(ours[name]), jax.tree.leaves(theirs[name]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=name)
    # and outside a program
    assert isinstance(m.norm(of_jax[0], of_jax[2]), jax.Array)


def _bad(x: np.ndarray) -> np.ndarray:
    """Records of all kinds, the shape of x."""
    x = np.array(x)
    for i, value in enumerate((np.nan, np.inf, 1e308, -1e308, 1e-320, 0.0, 1e200, -np.inf)):
        x[i::8] = value
    return x


# sizes that take other ways through the decompositions
SIZES = [riemdp.SPDAffineInvariant(11), riemdp.Grassmann(5, 4), riemdp.SpecialOrthogonal(4)]


@pytest.mark.parametrize("case", [*CASES, *(Case(repr(m), m) for m in SIZES)], ids=lambda c: c.name)
def test_a_record_has_the_same_bits_at_any_place(case: Case) -> None:
    m, given = case.manifold, drawn(case)

    def every(p: Any, q: Any, v: Any, z: Any) -> dict[str, Any]:
        found = calls(m, p, q, v, z) | hidden(m, p, q, v)
        for name, ask in (
            ("repair", lambda: m._repair(q)),
            ("log scales", lambda: m._log_scales(q)),
            ("to origin", lambda: m._to_origin(p, q)),
            ("from origin", lambda: m._from_origin(p, q)),
        ):
            with contextlib.suppress(NotImplementedError):
                found[name] = ask()
        return found

    alone = every(*given)

    def same(name: str, part: Any, rows: Any, where: Any = slice(None)) -> None:
        for a, b in zip(jax.tree.leaves(part), jax.tree.leaves(alone[name]), strict=True):
            np.testing.assert_array_equal(a[where], b[rows], err_msg=name)

    order = np.random.default_rng(1).permutation(COUNT)
    for name, found in every(*(jax.tree.map(lambda x: x[order], x) for x in given)).items():
        same(name, found, order)
    for length in (1, 3, 64):
        for start in (0, length):
            rows = slice(start, start + length)
            part = every(*(jax.tree.map(lambda x, r=rows: x[r], x) for x in given))
            for name, found in part.items():
                same(name, found, rows)
    for i in range(2):  # without an axis of records
        for name, found in every(*(jax.tree.map(lambda x, i=i: x[i], x) for x in given)).items():
            same(name, found, i, ())
    # as columns, unaligned, and in the other byte order
    columns = [jax.tree.map(lambda x: np.asfortranarray(x), x) for x in given]
    swapped = [jax.tree.map(lambda x: x.astype(x.dtype.newbyteorder()), x) for x in given]
    for other in (columns, swapped):
        for name, found in calls(m, *other).items():
            same(name, found, slice(None))
    # every second one beside a record that is none
    beside = [jax.tree.map(lambda x: _interleaved(x, _bad(x)), x) for x in given]
    for name, found in every(*beside).items():
        same(name, found, slice(None), slice(0, None, 2))


def _interleaved(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([x, y], axis=1).reshape(-1, *x.shape[1:])


@over_cases()
def test_draws_of_a_generator_a_seed_and_a_key(case: Case) -> None:
    m = case.manifold
    by_seed, by_generator = m.random_point(3, (4,)), m.random_point(np.random.default_rng(3), (4,))
    for a, b in zip(jax.tree.leaves(by_seed), jax.tree.leaves(by_generator), strict=True):
        assert type(a) is np.ndarray
        assert np.array_equal(a, b)
    key = jax.random.key(3)
    of_key = m.random_point(key, (4,))
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(of_key))
    assert np.all(m.belongs(by_seed))
    assert np.all(m.belongs(jax.device_get(of_key)))
    # the formula that `check` looks into, times sigma
    for rng, z in (
        (3, np.random.default_rng(3).standard_normal((2, 4, m.noise_size))),
        (key, np.asarray(jax.random.normal(key, (2, 4, m.noise_size)))),
    ):
        v, formula = m.tangent_normal(rng, by_seed, 0.3, (2,)), m.tangent_from_normals(by_seed, z)
        assert all(isinstance(x, jax.Array) == (rng is key) for x in jax.tree.leaves(v))
        for a, b in zip(jax.tree.leaves(v), jax.tree.leaves(formula), strict=True):
            np.testing.assert_allclose(a, 0.3 * b, rtol=1e-12, atol=1e-14)
    assert np.max(m.norm(by_seed, m.tangent_normal(3, by_seed, 0.0))) == 0.0


def test_draws_of_a_key_are_parts_of_programs() -> None:
    space, keys = riemdp.Sphere(3), jax.random.split(jax.random.key(2), 4)
    alone = np.stack([space.tangent_normal(k, space.origin, 0.3, (5,)) for k in keys])
    together = jax.vmap(lambda k: space.tangent_normal(k, space.origin, 0.3, (5,)))(keys)
    traced = jax.jit(lambda k: space.random_point(k, (5,)))(keys[2])
    assert np.asarray(together) == pytest.approx(alone, abs=1e-15)
    assert np.asarray(traced) == pytest.approx(np.asarray(space.random_point(keys[2], (5,))))


@pytest.mark.parametrize("rng", [None, -1, 0.5, True, "7"])
def test_other_sources_of_randomness_are_refused(rng: object) -> None:
    with pytest.raises(InvalidArgument, match="`rng`"):
        riemdp.Sphere(3).random_point(rng)
    with pytest.raises(InvalidArgument, match="`rng`"):
        riemdp.Sphere(3).tangent_normal(rng, [1.0, 0.0, 0.0])


def test_a_space_written_for_jax_alone_gives_numpy_arrays_too() -> None:
    class Other(riemdp.Sphere):
        def _log(self, p, q):
            return jnp.asarray(super()._log(p, q))

    p, q = np.eye(3)[:2]
    assert type(Other(3).log(p, q)) is np.ndarray
    assert Other(3) != riemdp.Sphere(3)
    assert Other(3) == Other(3)
