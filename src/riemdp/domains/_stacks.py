"""Admission of records where no manifold says what a record is: those of an optimiser, and rows of
a table. As in `_door`, each one is read on its own, and only the form of the whole can be refused.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from .._namespace import is_jax
from .._trees import leaves, map_leaves
from ..manifolds._base import Point
from ._reading import as_float64, form_of, read_row, read_rows, source_of, taken, unmasked
from ._sources import AbstractSource, Columns, Held
from ._stream import Stream, stream_of


def admit_stack(name: str, X: Any, shape: tuple[int, ...] | None) -> Any:
    """Private records as one array of float64, where no manifold says what a record is.

    Args:
        name: The argument's name, for the error.
        X: A list of records, or an array with the records along its first axis.
        shape: The public shape of one record. None: that of an array's records, or the one that
            most records of a list have, which is then taken to be public.

    Returns:
        Shape (n, *shape); NaN where a record of a list (or of an array of objects) is no array of
        numbers of this shape. An array of numbers is returned whatever the shape of its records.

    Raises:
        InvalidArgument: Neither a list nor an array, or no record is an array of numbers.
    """
    if is_jax(X) and X.dtype == np.float64:  # optimisers compute where it lies
        return X
    if isinstance(X, list | tuple):
        records: Any = X
    elif hasattr(X, "__array__") and not isinstance(X, str | bytes | Mapping):
        array = unmasked(taken(name, X))
        if array.dtype.kind in "fiub":
            return as_float64(array)
        if array.ndim == 0 or array.dtype.kind not in "OcUS":
            raise _no_records(name, X)
        if shape is None and array.ndim > 1:
            shape = tuple(array.shape[1:])
        records = array
    else:
        raise _no_records(name, X)
    if shape is None:
        shape = _common_shape(records)
        if shape is None:
            raise _no_records(name, X)
    return read_rows(records, shape)


def admit_stack_in_parts(
    name: str, X: object, shape: tuple[Any, ...] | None, *, at_least: int = 1
) -> Stream | None:
    """Private records as by `admit_stack`, as a `Stream` where they come from a mapped file, an
    HDF5, Zarr or Dask array, or any of several arrays side by side does. None: all of them are in
    memory.

    Args:
        name: The argument's name, for the error.
        X: What was given.
        shape: The public shape of one record, a tuple of such for records of several arrays, or
            None.
        at_least: The smallest number of records that is accepted.

    Raises:
        InvalidArgument: The form of the whole is wrong.
    """
    several = isinstance(shape, tuple) and bool(shape) and isinstance(shape[0], tuple)
    if isinstance(X, Stream):
        stream = X
    else:
        columns = list(X) if isinstance(X, tuple) or (several and isinstance(X, list)) else [X]
        found = [source_of(column, name) for column in columns]
        if not any(found):
            return None
        sources: list[AbstractSource] = []
        for column, source in zip(columns, found, strict=True):
            held = source or Held(np.asarray(admit_stack(name, column, None)))
            held.called = name
            sources.append(held)
        one = len(columns) == 1 and columns[0] is X
        source = sources[0] if one else Columns(name, sources)
        source.called = name
        stream = stream_of(source, functools.partial(_admit_stacks, name))
    if stream.n < at_least:
        raise InvalidArgument(f"argument `{name}` is empty; at least one record is needed")
    got = tuple(tuple(leaf.shape) for leaf in leaves(stream.form))
    wanted = got if shape is None else tuple(map(tuple, shape)) if several else (tuple(shape),)
    if got != wanted:
        raise InvalidArgument(
            f"argument `{name}` has records of shape {got}; this problem needs {wanted}"
        )
    return stream


def _admit_stacks(name: str, part: Any) -> Point:
    return map_leaves(lambda x: admit_stack(name, x, None), part)


def _no_records(name: str, X: Any) -> InvalidArgument:
    return InvalidArgument(
        f"argument `{name}` is {form_of(X)}; it must hold arrays of real numbers, with the records"
        " along the first axis"
    )


def _common_shape(records: Any) -> tuple[int, ...] | None:
    """The shape that most records have, of those that are arrays of numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        shapes = Counter(row.shape for row in map(read_row, records) if row is not None)
    return max(shapes, key=lambda s: (shapes[s], s)) if shapes else None
