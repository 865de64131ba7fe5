"""Admission: records and private values from a user or a file pass one of these functions; public
points those of `_points`.

Records and labels are private: each one is read on its own, nothing that one of them holds raises
or warns, and no message shows a value. Only the form of the whole (is it a sequence, how many, the
shape of a numeric array) can be refused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from .._errors import InvalidArgument, shape_hint
from .._isolation import isolated
from .._trees import all_finite, map_leaves
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point, RecordsLike
from ._clamp import LOOSE, folded
from ._domain import Domain
from ._reading import as_float64, form_of, read_rows, source_of, taken, unmasked
from ._sources import AbstractSource, Columns, Held, same_count
from ._stream import Stream, stream_of


def admit_manifold(manifold: object, X: object, order: str) -> AbstractManifold:
    """The space of a public function, checked; no message shows what was given in its place.

    Args:
        manifold: What was given as the space.
        X: What was given as the next argument.
        order: How the function is called.

    Raises:
        InvalidArgument: It is no space.
    """
    if isinstance(manifold, AbstractManifold):
        return manifold
    if isinstance(X, AbstractManifold):
        second = order.split(", ")[1].rstrip(")")
        raise InvalidArgument(
            f"arguments `manifold` and `{second}` are swapped: the order is {order}"
        )
    if isinstance(manifold, type) and issubclass(manifold, AbstractManifold):
        name = manifold.__name__
        raise InvalidArgument(
            f"argument `manifold` is the class {name}; give a space of some size, such as"
            f" riemdp.{name}(3)"
        )
    raise InvalidArgument(
        f"argument `manifold` is {form_of(manifold)}; give a space such as"
        f" riemdp.SPDAffineInvariant(k) (the order is {order})"
    )


def stacks_in_one_array(manifold: AbstractManifold) -> bool:
    """Whether records of the space are rows of one array (on a product they are not)."""
    shape = manifold.shape
    return not isinstance(manifold, Product) and all(isinstance(s, int) for s in shape)


def admit_in_parts(
    manifold: AbstractManifold, name: str, X: RecordsLike | Stream, *, at_least: int = 1
) -> tuple[Point | Stream, int]:
    """Private records as by `admit_records`, or as a `Stream` where they come from a mapped file,
    an HDF5, Zarr or Dask array, or (on a `Product`) any factor does. Then `admit_records` sees them
    part by part.

    Raises:
        InvalidArgument: As `admit_records`.
    """
    if (  # the usual case, seen at once
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.shape[1:] == manifold.shape
        and X.shape[:1] >= (at_least,)
    ):
        return X, len(X)
    if isinstance(X, Stream):
        return X, X.n
    factors = list(manifold.manifolds) if isinstance(manifold, Product) else [manifold]
    columns: list[Any] = [X]
    if isinstance(manifold, Product):
        columns = list(cast("Sequence[Any]", X)) if isinstance(X, tuple | list) else []
    found = [source_of(column, name) for column in columns]
    in_parts = len(columns) == len(factors) and any(found)
    if not in_parts or not all(map(stacks_in_one_array, factors)):
        return admit_records(manifold, name, cast("RecordsLike", X), at_least=at_least)
    sources: list[AbstractSource] = []
    for i, (m, column, source) in enumerate(zip(factors, columns, found, strict=True)):
        called = f"{name}[{i}]" if isinstance(manifold, Product) else name
        if source is None:
            source = Held(np.asarray(admit_records(m, called, column, at_least=at_least)[0]))
        else:
            _with_trailing(m, called, column, type(column).__name__)
            _check_batch(m, called, column.shape[: column.ndim - len(m.shape)], at_least)
        sources.append(source)
    source = Columns(name, sources) if isinstance(manifold, Product) else sources[0]
    source.called = name
    admit = functools.partial(_admit_part, manifold, name)
    return stream_of(source, admit), source.n


def _admit_part(manifold: AbstractManifold, name: str, part: RecordsLike) -> Point:
    return admit_records(manifold, name, part, at_least=0)[0]


def _check_batch(
    manifold: AbstractManifold, name: str, batch: tuple[int, ...], at_least: int
) -> None:
    if len(batch) != 1 or batch[0] < at_least:
        raise InvalidArgument(
            f"argument `{name}` has batch shape {batch}; give n >= {at_least} records of"
            f" {manifold!r} stacked along one leading axis"
            + ("" if batch else f"; for one record give {name}[None]")
        )


def admit_records(
    manifold: AbstractManifold, name: str, X: RecordsLike, *, at_least: int = 1
) -> tuple[Point, int]:
    """Private records as one stacked array, read one by one.

    A record of the wrong shape, None, text that is no number, complex numbers, integers too large
    for a float: such a record becomes NaN, which the clamp sends to the centre of the ball.

    Args:
        manifold: The space.
        name: The argument's name, for the error.
        X: A list of records or an array (n, *shape). On a `Product` a tuple of such, one for each
            factor.
        at_least: The smallest number of records that is accepted.

    Returns:
        The records as float64, shape (n, *shape) (a tuple on a `Product`), and n.

    Raises:
        InvalidArgument: The form of the whole is wrong: not a sequence or an array, a numeric array
            of another shape, too few records, factors with different numbers of records.
    """
    if isinstance(manifold, Product):
        factors = manifold.manifolds
        if not isinstance(X, tuple | list) or len(X) != len(factors):
            raise InvalidArgument(
                f"argument `{name}` is {form_of(X)}; {manifold!r} needs a tuple of {len(factors)}"
                " arrays of records, one a factor"
            )
        parts = cast("Sequence[RecordsLike]", X)
        columns = [
            admit_records(m, f"{name}[{i}]", part, at_least=at_least)
            for i, (m, part) in enumerate(zip(factors, parts, strict=True))
        ]
        return tuple(column for column, _ in columns), same_count(name, [n for _, n in columns])
    if not stacks_in_one_array(manifold):  # a user's space whose points are not single arrays
        stacked: Point = map_leaves(np.asarray, manifold._coerce(name, X))
        batch = manifold._batch_shape(stacked)
    else:
        stacked = _stacked(manifold, name, X)
        batch = stacked.shape[: stacked.ndim - len(manifold.shape)]
    _check_batch(manifold, name, tuple(batch), at_least)
    return stacked, int(batch[0])


def _stacked(manifold: AbstractManifold, name: str, X: RecordsLike) -> Any:
    shape: tuple[int, ...] = manifold.shape
    if isinstance(X, list | tuple):
        return read_rows(X, shape)
    if not hasattr(X, "__array__") or isinstance(X, str | bytes | Mapping):
        raise InvalidArgument(
            f"argument `{name}` is {form_of(X)}; give records of {manifold!r} as a list or as an"
            f" array of shape (n, *{shape})"
        )
    array = unmasked(taken(name, X))
    if array.dtype.kind in "fiub":
        return _with_trailing(manifold, name, as_float64(array), type(X).__name__)
    if array.ndim == 0:
        raise InvalidArgument(
            f"argument `{name}` is a single object; give records of {manifold!r} as a list or as an"
            f" array of shape (n, *{shape})"
        )
    if array.dtype.kind != "O":
        _with_trailing(manifold, name, array)
        if array.ndim != 1 + len(shape):  # several batch axes: the caller says what it wants
            return np.full(array.shape, np.nan)
    return read_rows(array, shape)


def _with_trailing(manifold: AbstractManifold, name: str, array: np.ndarray, kind: str = "") -> Any:
    shape = manifold.shape
    if array.ndim < len(shape) or tuple(array.shape[array.ndim - len(shape) :]) != shape:
        raise InvalidArgument(
            f"argument `{name}` has shape {tuple(array.shape)}; {manifold!r} needs records stacked"
            f" along one leading axis, shape (n, *{shape})"
            + shape_hint(name, tuple(array.shape), shape, kind)
        )
    return array


# ------------------------------------------------------------------ one private value
def one_value(manifold: AbstractManifold, name: str, value: Point) -> Point:
    """A single private value of the right shape and finite. The message never shows what it was."""
    checked = map_leaves(np.asarray, manifold._coerce(name, value))  # on the host
    if manifold._batch_shape(checked) != ():
        raise InvalidArgument(
            f"argument `{name}` has batch axes; a release is of one value of {manifold!r}"
        )
    if not all_finite(checked):
        raise InvalidArgument(
            f"argument `{name}` has entries that are not finite; replace such records before"
            " computing it (Ball.clamp does). Nothing was spent"
        )
    return checked


@isolated
def admit_value(
    manifold: AbstractManifold, name: str, value: Point, domain: Domain | None
) -> Point:
    """Validate one private point, and move it into `domain` if given.

    A value that satisfies the equations of the space loosely is carried onto it: formulas hold
    there, and a frame that is off by 1e-12 is not the subspace that it spans. Every value is, by
    the same formula, and each factor of a product by itself: one that projected only what is off by
    more than rounding, and lifted lost eigenvalues then, would be a jump.

    The move takes no two values farther apart (`Domain.fold`), so that the sensitivity of the value
    given is that of the value moved. Proof: docs/proofs/gaussian.md, Lemma 9.

    Raises:
        InvalidArgument: Not one finite point of the manifold. The message never shows the value.
    """
    checked = one_value(manifold, name, value)
    if not np.all(manifold._belongs(checked, LOOSE)):
        raise InvalidArgument(
            f"argument `{name}` is not a point of {manifold!r} (its equations fail by more than"
            " 1e-6). Nothing was spent"
        )
    point = manifold._repair(checked)
    if domain is None:
        return point
    return folded(manifold, domain.center, domain.radius, domain.fold, point)
