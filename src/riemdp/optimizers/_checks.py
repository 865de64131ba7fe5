"""Checks of what a run is given, all before anything is charged or drawn. No message contains a
record's value.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument
from .._isolation import isolated
from ..domains._points import admit_point
from ..domains._stacks import admit_stack, admit_stack_in_parts
from ..manifolds._base import Point, RecordsLike
from ..problems._problem import Problem, check_gradient_shape, check_loss_shape
from ._records import PrivateRecords


def check_initial(problem: Problem, initial: Point) -> Point:
    """The start of a run as an exact point of the manifold, or an error that names `initial`.

    The formulas of the kernels hold on the manifold only: at |w| = 1 + 1e-7 a gradient can be
    thousands of times longer than |w| = 1 makes it.
    """
    return admit_point(problem.manifold, "initial", initial)


@isolated
def check_data(
    problem: Problem, data: RecordsLike, *, may_be_empty: bool = False, in_parts: bool = False
) -> tuple[Any, int]:
    """Records as float64 arrays with a common leading axis, or an error that names `data`. Only the
    form of the whole can be refused; a record of a list that is no array of numbers of the public
    shape becomes NaN, and what it contributes to a gradient is 0. Where the number of records is
    private data `may_be_empty`: an array (0, *shape). With `in_parts` a `Stream` where they come
    from a file.
    """
    shape = problem.record_shape
    stream = None
    if in_parts:
        stream = admit_stack_in_parts("data", data, shape, at_least=0 if may_be_empty else 1)
    if stream is not None and stream.n:
        return stream, stream.n
    if stream is not None:
        data = jax.tree.map(lambda leaf: np.zeros((0, *leaf.shape)), stream.form)
    several = isinstance(shape, tuple) and bool(shape) and isinstance(shape[0], tuple)
    if isinstance(data, list) and not several:
        records = _admitted(data, shape)
    elif several and isinstance(data, list | tuple) and len(data) == len(shape):
        flat = [all(isinstance(size, int) for size in part) for part in shape]
        records = tuple(
            _admitted(x, part) if simple else jax.tree.map(_admitted, x)
            for x, part, simple in zip(data, shape, flat, strict=True)
        )
    else:
        records = jax.tree.map(_admitted, data)
    leaves = jax.tree.leaves(records)
    if not leaves or any(leaf.ndim == 0 for leaf in leaves):
        raise InvalidArgument(
            "argument `data` must hold arrays with the records along the first axis"
        )
    n = leaves[0].shape[0]
    if any(leaf.shape[0] != n for leaf in leaves):
        raise InvalidArgument(
            "argument `data` has parts of different lengths; give one entry of each for a record"
        )
    if n == 0 and not may_be_empty:
        raise InvalidArgument("argument `data` is empty; at least one record is needed")
    if n == 0:  # a place that no batch draws, because there has to be something to look at
        records = jax.tree.map(lambda x: jnp.full((1, *x.shape[1:]), jnp.nan), records)
        leaves = jax.tree.leaves(records)
    if shape is not None:
        wanted = (
            shape
            if isinstance(shape, tuple) and shape and isinstance(shape[0], tuple)
            else (shape,)
        )
        got = tuple(leaf.shape[1:] for leaf in leaves)
        if got != tuple(tuple(s) for s in wanted):
            raise InvalidArgument(
                f"argument `data` has records of shape {got}; this problem needs {tuple(wanted)}"
            )
    return records, n


def _admitted(x: Any, shape: tuple[int, ...] | None = None) -> Any:
    return jnp.asarray(admit_stack("data", x, shape), dtype=jnp.float64)


@isolated
def check_objective(problem: Problem, point: Point, records: PrivateRecords) -> None:
    """Only for runs that are not private anyway: a loss that is NaN at the start is a mistake worth
    naming.
    """
    if math.isnan(records.objective(problem, point)):
        raise InvalidArgument(
            "argument `loss` is NaN at the initial point for some record; the run was not started"
        )


@isolated
def check_problem(problem: Problem, point: Point, form: Any) -> None:
    """Raise, naming `loss` or `gradient`, unless both can be evaluated on one record of this form.
    By shapes only; no record is read.

    A run whose functions do not work must fail here: once the first block of noise is charged and
    drawn, it stays charged.
    """
    check_loss_shape(problem, point, form)
    check_gradient_shape(problem, point, form)
