"""A trial of a user's loss and gradient on made-up records, before a budget is spent on them.

No private record is read: of the data only the shape of one record is known here. What the
optimisers do with a gradient that is not finite, they count it as zero, is right for one record in
a thousand. A function that is NaN for all of them would give noise alone, and cost the whole
budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, raise_interrupt
from ..manifolds._base import Point
from ._problem import AutomaticGradient, Formula, Problem, Record

_MOST = 64  # records that are tried
_POINTS = 3  # of them, points of the space
_SAME = 1e-6  # relative and absolute: programs for one record and for two round alike


def try_problem(problem: Problem, w: Point, form: Record) -> None:
    """Raise unless loss and gradient are finite at `w`, for `problem.example` or, without one, for
    some made-up record, and that record's gradient is the same beside another record. Functions of
    this package are not tried.

    Args:
        problem: The problem.
        w: A public point: the start of a run.
        form: The shape of one record, a pytree of `jax.ShapeDtypeStruct`.

    Raises:
        InvalidArgument: Naming `loss` or `gradient`, or `example` if it is no record of this shape.
            Nothing was spent.

    A gradient is clipped record by record, which bounds what one record changes only if no gradient
    depends on the others; a callback or a batching rule of the user's own can break that.
    """
    if isinstance(problem.loss, Formula) and isinstance(problem.gradient, Formula):
        return
    gradient = problem.gradient or AutomaticGradient(problem.manifold, problem.loss)
    finite_loss = False
    for record in _records(problem, w, form):
        of_loss, of_gradient = (bool(flag) for flag in _finite(problem.loss, gradient, w, record))
        if of_loss and of_gradient:
            _check_alone(problem, gradient, w, record)
            return
        finite_loss |= of_loss
    name = "gradient" if finite_loss else "loss"
    if problem.example is not None:
        raise InvalidArgument(
            f"argument `{name}` is not finite at the initial point for `example`, the public record"
            " of this problem. Nothing was spent"
        )
    raise InvalidArgument(
        f"argument `{name}` is not finite at the initial point for any of the made-up records it"
        " was tried on (normal, positive and unit ones, zeros, ones, points of the space): a run"
        " would spend the budget on noise alone. Correct it; or, if it is finite for the records"
        " that it is made for, give one of their kind that is public: Problem(...,"
        " example=record). Nothing was spent"
    )


def _check_alone(problem: Problem, gradient: Callable[..., Any], w: Point, record: Record) -> None:
    source, name = np.random.default_rng(1), "loss" if problem.gradient is None else "gradient"
    other = jax.tree.map(lambda leaf: 2.0 + _normal(source, leaf.shape), record)
    try:
        alike = bool(_is_alone(gradient, w, record, other))
    except Exception as error:  # a user's function may raise anything
        raise_interrupt(error)
        raise InvalidArgument(
            f"argument `{name}` cannot be evaluated on several records at once"
            f" ({type(error).__name__}). Nothing was spent"
        ) from error
    if not alike:
        raise InvalidArgument(
            f"argument `{name}` gives a made-up record another gradient beside another record than"
            " alone: it mixes records (in a callback or batching rule of its own), so no clip norm"
            " bounds what one record changes. Compute it from one record. Nothing was spent"
        )


@partial(jax.jit, static_argnames=("gradient",))
def _is_alone(gradient: Callable[..., Any], w: Point, z: Record, other: Record) -> Any:
    """Whether the gradient of z in a batch of one is that in a batch of two."""
    of = jax.vmap(lambda record: gradient(w, record))
    alone = of(jax.tree.map(lambda leaf: leaf[None], z))
    beside = of(jax.tree.map(lambda *two: jnp.stack(two), z, other))
    pairs = zip(jax.tree.leaves(alone), jax.tree.leaves(beside), strict=True)
    return jnp.all(jnp.array([jnp.allclose(a[0], b[0], _SAME, _SAME) for a, b in pairs]))


@partial(jax.jit, static_argnames=("loss", "gradient"))
def _finite(
    loss: Callable[..., Any], gradient: Callable[..., Any], w: Point, z: Record
) -> tuple[Any, Any]:
    parts = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient(w, z))]
    return jnp.all(jnp.isfinite(jnp.asarray(loss(w, z)))), jnp.all(jnp.array(parts))


def _records(problem: Problem, w: Point, form: Record) -> Iterator[Record]:
    if problem.example is not None:
        yield _example(problem.example, form)
        return
    if _shapes(form) == _shapes(w):
        if problem.ball is not None:
            yield problem.ball.center
        points = problem.manifold.random_point(jax.random.key(0), (_POINTS,))
        for i in range(_POINTS):
            yield jax.tree.map(lambda leaf, i=i: leaf[i], points)
    leaves, structure = jax.tree.flatten(form)
    choices = itertools.product(_KINDS, repeat=len(leaves))
    for kinds in itertools.islice(choices, _MOST):
        source = np.random.default_rng(0)
        made = [kind(source, leaf.shape) for kind, leaf in zip(kinds, leaves, strict=True)]
        yield jax.tree.unflatten(structure, [jnp.asarray(leaf, jnp.float64) for leaf in made])


def _example(example: Record, form: Record) -> Record:
    given = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), example)
    if _shapes(given) != _shapes(form):
        raise InvalidArgument(
            f"argument `example` has shape {_shapes(given)[0]}; the records of this data have"
            f" {_shapes(form)[0]}. Nothing was spent"
        )
    return given


def _shapes(tree: Any) -> tuple[list[tuple[int, ...]], Any]:
    leaves, structure = jax.tree.flatten(tree)
    return [tuple(leaf.shape) for leaf in leaves], structure


def _normal(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return source.normal(size=shape)


def _unit(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of length 1; a matrix with at least as many rows as columns: orthonormal columns."""
    x = source.normal(size=shape)
    if x.ndim == 2 and x.shape[0] >= x.shape[1]:
        return np.linalg.qr(x)[0]
    return x / max(float(np.linalg.norm(x)), 1e-3)


def _positive(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Positive numbers with sum 1; a square matrix: positive definite."""
    x = source.normal(size=shape)
    if x.ndim == 2 and x.shape[0] == x.shape[1]:
        return x @ x.T / len(x) + np.eye(len(x))
    return np.abs(x) / max(float(np.sum(np.abs(x))), 1e-3)


def _zeros(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape)


def _ones(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape)


_KINDS = (_normal, _unit, _positive, _ones, _zeros)
