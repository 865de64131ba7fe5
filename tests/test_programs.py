"""Programs with options of their own: under transformations, and where options are not known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import _programs
from riemdp.domains._clamp import clamp, clamp_flagged, clamp_one

SPACES = [riemdp.Lorentz(3), riemdp.Sphere(4), riemdp.SPDAffineInvariant(3)]


def far(space):
    return space.random_point(jax.random.key(0), (5,)), space.origin


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_the_value_is_that_of_the_usual_program(space):
    x, center = far(space)
    for radius in (0.01, 0.5, 5.0):
        usual = np.asarray(clamp(space, center, radius, x))
        moved, outside = clamp_flagged(space, center, radius, x)
        np.testing.assert_allclose(moved, usual, rtol=1e-12, atol=1e-14)
        assert np.array_equal(outside, np.asarray(space.dist(center, x)) > radius)
        one = clamp_one(space, center, radius, x[0])
        np.testing.assert_allclose(one, usual[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_it_is_a_part_of_other_programs(space):
    x, center = far(space)
    alone = np.asarray(clamp_one(space, center, 0.5, x[0]))
    inside = jax.jit(lambda y: clamp_one(space, center, 0.5, y))(x[0])
    np.testing.assert_allclose(inside, alone, rtol=1e-12, atol=1e-14)
    each = jax.vmap(lambda y: clamp_one(space, center, 0.5, y))(x)
    np.testing.assert_allclose(each[0], alone, rtol=1e-12, atol=1e-14)
    # none of its arguments shows that it is traced
    shifted = jax.jit(lambda y: y + clamp_one(space, center, 0.5, x[0]))(0.0)
    np.testing.assert_allclose(shifted, alone, rtol=1e-12, atol=1e-14)
    slope = jax.grad(lambda y: jnp.sum(clamp_one(space, center, 9.0, y)))(x[0])
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(
    "space",
    [*SPACES, riemdp.Product(riemdp.Sphere(3), riemdp.SPDAffineInvariant(2))],
    ids=str,
)
def test_operations_of_few_and_of_many_points_agree_also_in_other_programs(space):
    few = space.random_point(jax.random.key(0), (3,))
    one, base = jax.tree.map(lambda x: x[1], few), space.origin
    many = jax.tree.map(lambda x: jnp.tile(x, (200,) + (1,) * (x.ndim - 1)), few)
    assert not _programs._are_small((base, many))
    assert _programs._are_small((base, few))
    expected = space.dist(base, many)[1]
    alone = [
        space.dist(base, one),
        space.dist(base, few)[1],
        jax.vmap(lambda x: space.dist(base, x))(few)[1],
        jax.jit(lambda x: space.dist(x, one))(base),
        # none of its arguments shows that it is traced
        jax.jit(lambda t: t + space.dist(base, one))(0.0),
    ]
    np.testing.assert_allclose(alone, np.full(5, expected), rtol=1e-12)
    slope = jax.grad(lambda x: space.dist(x, one))(base)  # the last is not traced
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_options_that_a_version_of_the_compiler_does_not_know_are_left_out(monkeypatch):
    odd = ("xla_an_option_of_another_time", True)
    monkeypatch.setattr(_programs, "_PLAIN", (odd,))
    doubled = _programs.for_one_point()(lambda x: 2.0 * x)
    assert float(doubled(1.5)) == 3.0
    assert _programs._known((odd,)) is None
    level = ("xla_backend_optimization_level", 1)
    if jax.default_backend() == "cpu":  # they are options of its compiler
        assert _programs._known((odd, level)) == dict([level])
        monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    assert _programs._known((level,)) is None


def test_a_formula_is_asked_for_what_it_was_written_for():
    """What was asked last is remembered: the next call has another space, shape or nesting."""
    asked = []

    @_programs.for_one_point(0)
    def scaled(space, x, by):
        asked.append(by)
        if by is None:
            return x * len(space.shape)
        a, b = by if isinstance(by, tuple) else (by, 1.0)
        return x * a * jnp.sum(b) * space.dim

    planes, x = (riemdp.Sphere(3), riemdp.Lorentz(3), riemdp.Sphere(2)), np.arange(1.0, 4.0)
    calls = [
        (planes[i], x[: planes[i].shape[0]] * factor, by)
        for factor in (1.0, 2.0)
        for by in (None, 2.0, np.float64(3.0), np.array(4.0), (2.0, 3.0), (2.0, x), ((2.0), x[:1]))
        for i in (0, 0, 1, 2, 0)
    ]
    for space, y, by in calls:
        expected = scaled.__wrapped__(space, y, by)
        np.testing.assert_allclose(scaled(space, y, by), expected, rtol=1e-15)
        assert isinstance(scaled(space, y, by), np.ndarray)  # written out, not compiled
    del asked[:]
    for space, y, by in calls:
        scaled(space, y, by)
    assert not asked  # none is written anew


def test_an_error_of_the_function_is_its_own():
    def refuse(x):
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        _programs.for_one_point()(refuse)(1.0)
