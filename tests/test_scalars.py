"""Formulas for one point in Python's floats: they give what the compiled programs give."""

from __future__ import annotations

import functools
import inspect
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import riemdp
from riemdp import _programs
from riemdp._scalars import MOST, Formula, Unsupported
from riemdp.domains._clamp import _one, _one_of_held, clamp_one
from riemdp.domains._door import _admitted
from riemdp.mechanisms._common import _admit, _admit_coordinates, _end_of, prepared
from riemdp.sampling._points import direction_and_exp

SPACES = [
    riemdp.Euclidean(4),
    riemdp.Sphere(3),
    riemdp.Sphere(8),
    riemdp.Lorentz(3),
    riemdp.Lorentz(6),
    riemdp.PoincareBall(2),
]
# no subnormal numbers: XLA takes them for 0, Python does not
UGLY = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-300, 1e300, -1e154, 1.0)


def flat(arguments):
    return [np.ravel(leaf).tolist() for leaf in jax.tree.leaves(arguments)]


def written(f, *arguments):
    return Formula(f, arguments)(flat(arguments))


def agree(found, wanted, rtol=1e-12, atol=1e-13):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(a, np.ndarray)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def points(space):
    """Points near and far, and what is none."""
    c = np.asarray(space.origin)
    rng = np.random.default_rng(3)
    for length in (0.0, 1e-300, 1e-12, 1e-7, 1e-3, 0.3, 0.499999, 0.5, 0.500001, 2.0, 3.0):
        y = rng.normal(size=space.dim)
        y *= length / np.linalg.norm(y)
        yield np.array(space.exp(c, space.from_coordinates(c, y)))
    x = np.array(space.exp(c, space.from_coordinates(c, 0.2 * rng.normal(size=space.dim))))
    yield x * (1.0 + 1e-8)
    yield x * (1.0 + 1e-5)
    yield -x
    for ugly in UGLY:
        hurt = x.copy()
        hurt[-1] = ugly
        yield hurt
        yield np.full_like(x, ugly)


def programs(space):
    c = np.asarray(space.origin)
    domain = riemdp.Ball(c, 0.5).on(space)
    ball, none, at = (c, 0.5, domain.fold), None, prepared(space, c)
    yield "clamp", _one, lambda x: (c, 0.5, x)
    yield "clamp into what is held", _one_of_held, lambda x: (c, 0.5, x)
    yield "admit", _admit, lambda x: (x, ball)
    yield "admit as it is", _admit, lambda x: (x, none)
    yield "coordinates", _admit_coordinates, lambda x: (x, none, at)
    yield "repair", _admitted, lambda x: (x,)
    yield "end", _end_of, lambda x: (c, 2.0 * x[-space.dim :], at)
    one = np.array([0.7])
    yield "draw", direction_and_exp, lambda x: (c, one, 2.0 * x[None, -space.noise_size :])


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_program_for_one_point_gives_what_the_compiled_one_gives(space):
    for name, program, arguments in programs(space):
        formula = functools.partial(inspect.unwrap(program), space)
        compiled = jax.jit(formula)
        by_hand, taken = Formula(formula, arguments(np.asarray(space.origin))), 0
        for x in points(space):
            given = arguments(x)
            wanted = compiled(*given)
            agree(jax.tree.map(np.asarray, program(space, *given)), wanted)
            try:
                found = by_hand(flat(given))
            except (ArithmeticError, ValueError):
                continue
            taken += bool(np.all(np.isfinite(x)))
            agree(found, wanted)
        assert taken >= 10, name


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_nothing_is_compiled_for_them(space):
    x = np.array(space.exp(space.origin, space.from_coordinates(space.origin, [0.1] * space.dim)))
    for _, program, arguments in programs(space):
        for leaf in jax.tree.leaves(program(space, *arguments(x))):
            assert isinstance(leaf, np.ndarray)
    large = riemdp.Sphere(_programs._SHORT + 1)
    assert isinstance(clamp_one(large, large.origin, 0.5, large.origin), jax.Array)


def test_what_python_refuses_float64_has():
    @_programs.for_one_point(0)
    def quotients(_, x, y):
        return x / y, jnp.sqrt(x), jnp.exp(x), jnp.log(y), jnp.cosh(x), jnp.cos(x)

    line = riemdp.Euclidean(1)
    for x, y in itertools.product((1.0, -1.0, 0.0, 1e4, math.inf, math.nan), (0.0, -1.0, 2.0)):
        found = [float(a) for a in quotients(line, np.array(x), np.array(y))]
        with np.errstate(all="ignore"):
            a, b = np.float64(x), np.float64(y)
            wanted = [a / b, np.sqrt(a), np.exp(a), np.log(b), np.cosh(a), np.cos(a)]
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_a_formula_that_cannot_be_written_out_is_compiled():
    @_programs.for_one_point(0)
    def sorted_up(_, x):
        return jnp.sort(x)

    @_programs.for_one_point(0)
    def long(_, x):
        for i in range(MOST + 1):
            x = jnp.sin(x + float(i))
        return x

    plane = riemdp.Euclidean(2)
    for _ in range(2):
        assert sorted_up(plane, np.array([2.0, 1.0])).tolist() == [1.0, 2.0]
    with pytest.raises(Unsupported, match="sort"):
        written(jnp.sort, np.ones(3))
    with pytest.raises(Unsupported, match=str(MOST)):
        written(functools.partial(inspect.unwrap(long), plane), np.ones(2))


def test_arrays_of_another_type_are_compiled():
    @_programs.for_one_point(0)
    def twice(_, x):
        return x + x

    line = riemdp.Euclidean(1)
    for kind in (np.int64, np.float32, np.float64):
        found = twice(line, np.array([5], kind))
        assert found.dtype == kind
        assert found.tolist() == [10]


MATRIX = np.arange(6.0).reshape(2, 3) - 2.5
OPERATIONS = {
    "sums": lambda x: (x.sum(0), x.sum(1), x.sum(), jnp.sum(jnp.ones((2, 0)), axis=1)),
    "products": lambda x: (x @ x.T, x.T @ x, jnp.dot(x[0], x[1]), x @ x[0], jnp.prod(x, axis=0)),
    "largest": lambda x: (x.max(), x.min(1), jnp.max(x, axis=0)),
    "logic": lambda x: (jnp.all(x > 0, axis=1), jnp.any(x > 0), ~(x > 0), (x > 0) | (x < -1)),
    "compared": lambda x: (x >= 0.5, x <= 0.5, x != 0.5, x == 0.5, x < 1.5, x > 1.5),
    "places": lambda x: (x[::-1], x.T, x[:, 1:], x[None, :, 2], x.reshape(3, 2), x[1, ::2]),
    "joined": lambda x: (jnp.concatenate([x, 2.0 * x]), jnp.stack([x[0], x[1]])),
    "made": lambda x: (jnp.arange(3) * x[0], jnp.eye(3) @ x.T, x + jnp.ones(3)),
    "powers": lambda x: (x**2, x**3, x**7, x**-1, x**-2, jnp.square(x)),
    "signs": lambda x: (jnp.sign(x), jnp.abs(x), -x, jnp.sign(0.0 * x)),
    "bounds": lambda x: (jnp.clip(x, -1.0, 1.0), jnp.maximum(x, 0.5), jnp.minimum(x, x[0])),
    "chosen": lambda x: (jnp.where(x > 0, x, 2.0), jnp.where(x > 0, 1.0, 0.0) * x),
    "numbers": lambda x: ((x > 0) * 2.0, (x > 0).astype(float), x.astype(bool)),
    "constants": lambda x: (x + jnp.asarray(MATRIX), jnp.sqrt(2.0) * x, jnp.full(2, jnp.inf)),
    "functions": lambda x: tuple(
        f(0.3 * x) for f in (jnp.sin, jnp.cos, jnp.tan, jnp.arctan, jnp.exp, jnp.expm1)
    ),
    "hyperbolic functions": lambda x: tuple(
        f(0.3 * x) for f in (jnp.sinh, jnp.cosh, jnp.tanh, jnp.arcsinh)
    ),
    "more functions": lambda x: tuple(
        f(jnp.abs(0.3 * x) + 0.1)
        for f in (jnp.log, jnp.log1p, jnp.sqrt, jax.lax.rsqrt, jnp.arcsin, jnp.arccos, jnp.arctanh)
    ),
    "two of them": lambda x: (jnp.arctan2(x, x[::-1]), jnp.arccosh(jnp.abs(x) + 1.0)),
    "branches": lambda x: jax.lax.cond(
        x[0, 0] > 0.0, lambda y: (y + 1.0, y), lambda y: (y, y * y), x
    ),
    "a branch of none": lambda x: jax.lax.cond(x[0, 0] > 0.0, lambda y: y, lambda y: y, x),
    "known branches": lambda x: jax.lax.cond(True, lambda y: y, lambda y: 2.0 * y, x),
    "shorter": lambda x: jax.lax.reduce_precision(x / 3.0, exponent_bits=11, mantissa_bits=23),
    "as it is": lambda x: jax.lax.reduce_precision(x / 3.0, exponent_bits=11, mantissa_bits=52),
    "stopped": lambda x: (jax.lax.stop_gradient(x), 3.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_that_of_jax(name):
    f = OPERATIONS[name]
    for x in (MATRIX, -MATRIX, np.where(MATRIX > 0, MATRIX, math.nan), 0.5 + 0.0 * MATRIX):
        agree(written(f, x), jax.tree.map(jnp.asarray, jax.jit(f)(x)), rtol=1e-14, atol=0.0)


def test_nan_is_the_largest_and_the_smallest():
    for a, b in itertools.product((math.nan, 1.0, -1.0, math.inf), repeat=2):
        for f in (jnp.maximum, jnp.minimum):
            np.testing.assert_array_equal(written(f, a, b), f(a, b))


@settings(max_examples=200, deadline=None)
@given(arrays(np.float64, 3, elements=st.floats(-1e300, 1e300, allow_subnormal=False)))
def test_a_number_is_cut_as_jax_cuts_it(x):
    def cut(a):
        return jax.lax.reduce_precision(a, exponent_bits=11, mantissa_bits=23)

    np.testing.assert_array_equal(written(cut, x), cut(x))
    halves = np.array([1.0 + 2.0**-24, 1.0 + 3 * 2.0**-24, -1.0 - 2.0**-24])  # ties
    np.testing.assert_array_equal(written(cut, halves), cut(halves))


def test_a_branch_that_is_not_taken_is_not_worked_out():
    def guarded(x):
        return jax.lax.cond(x > 0.0, lambda y: 1.0 / y, lambda y: y, x)

    def unguarded(x):
        return jnp.where(x > 0.0, 1.0 / x, x)

    assert float(written(guarded, 0.0)) == 0.0
    assert float(written(guarded, 4.0)) == 0.25
    with pytest.raises(ZeroDivisionError):
        written(unguarded, 0.0)


def test_a_branch_does_not_lend_its_variables():
    def f(x):
        inside = jax.lax.cond(x > 0.0, lambda y: jnp.sin(y) + 1.0, lambda y: y, x)
        return inside + jnp.sin(x)

    for x in (-2.0, 2.0):
        np.testing.assert_allclose(written(f, x), f(x), rtol=1e-15)


def test_single_precision_is_not_written_out():
    with pytest.raises(Unsupported, match="float32"):
        written(lambda x: x.astype(jnp.float32) + 1.0, np.ones(2))
    with pytest.raises(Unsupported, match="int"):
        written(lambda x: x.astype(int), np.ones(2))
