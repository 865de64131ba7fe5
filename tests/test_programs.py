"""Where functions run, and programs under transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import _programs
from tests.seam import Doors

clamp, clamp_flagged = Doors.clamp, Doors.clamp_flagged
SPACES = [riemdp.Lorentz(3), riemdp.SPDAffineInvariant(3)]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_clamp_is_a_part_of_other_programs(space):
    """Its value, its batches and its slopes, also where no argument shows that it is traced."""
    center = np.asarray(space.origin)
    x = np.asarray(space.random_point(jax.random.key(0), (5,)))
    known = jnp.asarray(x[0])
    moved, outside = clamp_flagged(space, center, 0.5, x)
    assert np.array_equal(outside, space.dist(center, x) > 0.5)

    @jax.jit
    def others(y):
        return (
            clamp(space, center, 0.5, y[0]),
            jax.vmap(lambda one: clamp(space, center, 0.5, one))(y),
            y[0] + clamp(space, center, 0.5, known),
            jax.grad(lambda one: jnp.sum(clamp(space, center, 9.0, one)))(y[0]),
        )

    inside, each, shifted, slope = others(x)
    np.testing.assert_allclose(inside, moved[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(each, moved, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(shifted, x[0] + moved[0], rtol=1e-12, atol=1e-14)
    assert np.all(np.isfinite(slope))


def test_it_runs_where_its_arguments_are():
    seen = []

    def doubled(name, x):
        seen.append(x)
        return tuple(2.0 * part for part in x) if name == "pair" else 2.0 * x

    doubled.__module__ = "riemdp.manifolds.of_a_test"
    run = _programs.compiled(0)(doubled)
    assert type(run("one", np.ones(2))) is np.ndarray
    assert type(run("pair", (np.ones(2), np.ones(3)))[1]) is np.ndarray
    assert all(type(x) is not jax.Array for x in seen)
    for _ in range(3):
        assert isinstance(run("one", jnp.ones(2)), jax.Array)
        assert isinstance(run("pair", (np.ones(2), jnp.ones(3)))[0], jax.Array)
    assert len(seen) == 4  # traced once each


def test_an_error_of_the_function_is_its_own():
    def refuse(x):
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        _programs.compiled()(refuse)(1.0)


def test_classes_of_equal_fields_are_never_one_program():
    """JAX finds a program by the structure of its arguments: what is equal there runs for both."""

    @_programs.traced("name")
    class Sound:
        name: str
        size: float

        def grown(self):
            return 2.0 * self.size

    @_programs.traced("name")
    class Planted(Sound):
        def grown(self):
            return 3.0 * self.size

    sound, planted = Sound("one", 1.0), Planted("one", 1.0)
    assert jax.tree.structure(sound) != jax.tree.structure(planted)
    assert jax.tree.structure(sound) == jax.tree.structure(Sound("one", 2.0))
    assert jax.tree.structure(sound) != jax.tree.structure(Sound("two", 1.0))
    grown = jax.jit(lambda x: x.grown())
    assert (grown(sound), grown(planted)) == (2.0, 3.0)
    back = jax.tree.map(lambda x: x + 1.0, planted)
    assert type(back) is Planted
    assert back == Planted("one", 2.0)
