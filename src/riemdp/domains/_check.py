"""Find the records that are not points of a space, and say why in words.

For the holder of the data, before anything is released: what is found depends on the records and is
not private. Indices count from 0, and no message shows a value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from .._errors import HERMITIAN, InvalidArgument
from .._trees import all_finite
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point, RecordsLike
from ..manifolds._spd import SINGULAR, AbstractSPD
from ._clamp import LOOSE, choose, in_parts
from ._door import admit_in_parts, admit_records
from ._stream import Stream

_SHOWN = 5
_REGULAR = (
    "drop a channel, project all records by one public matrix to as many dimensions as the rank, or"
    " add a public multiple of the identity to each"
)


class InvalidRecord(NamedTuple):
    """A record that is not a point of its space.

    Attributes:
        index: its place, counted from 0.
        reason: why, in words; entries are named, their values are not.
    """

    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - the field's plain name
    reason: str


def check_records(manifold: AbstractManifold, X: RecordsLike) -> list[InvalidRecord]:
    """The records that are not points of a space. **Not private**: for the holder of the data.

    A private release counts each of them as the centre of the ball, without a message, because
    which ones they are is private. So look first.

    Among them are all matrices that are singular up to rounding, as covariances of EEG are after an
    average reference or ICA: with rows scaled to a diagonal of 1, the smallest of k eigenvalues is
    at most 16 k 2^-52. Whether that number comes out above or below 0 is an accident; a release
    counts them as the centre of the ball from 8 k 2^-52 down, whatever the sign.

    Args:
        manifold: The space.
        X: Records as for `riemdp.private_frechet_mean`.

    Returns:
        Index and reason of every record that a release would replace; an empty list where all is
        well.

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.stack([np.eye(2), -np.eye(2)])
        >>> riemdp.check_records(riemdp.SPDAffineInvariant(2), X)
        [InvalidRecord(index=1, reason='is not positive definite (it has a negative eigenvalue)')]
    """
    with np.errstate(all="ignore"):  # what NumPy is told is no reason of a record
        return [
            InvalidRecord(start + index, reason)
            for start, part in _in_stretches(manifold, X)
            for index, reason in _check(manifold, part)
        ]


def _in_stretches(manifold: AbstractManifold, X: RecordsLike) -> Iterator[tuple[int, RecordsLike]]:
    """(number of the first record, some records as they were given): a few at a time where they are
    read in parts, else all at once.
    """
    records, n = admit_in_parts(manifold, "X", X, at_least=0)
    if isinstance(records, Stream):
        for start in range(0, n, records.rows):
            yield start, records.source.fetched(start, min(start + records.rows, n))
    else:
        yield 0, X


def _check(manifold: AbstractManifold, X: RecordsLike) -> list[InvalidRecord]:
    records = admit_records(manifold, "X", X, at_least=0)[0]
    bad = ~np.asarray(in_parts(manifold, functools.partial(_sound, manifold), records))
    return [
        InvalidRecord(int(i), _reason(manifold, records, X, int(i))) for i in np.flatnonzero(bad)
    ]


def _sound(manifold: AbstractManifold, part: Point) -> np.ndarray:
    """Which records are points of the space, and no matrices that are singular up to rounding."""
    fine = all_finite(part, 1)
    safe = choose(fine, part, manifold.origin)
    return np.asarray(fine & manifold._belongs(safe, LOOSE)) & ~_singular(manifold, safe, len(fine))


def _singular(manifold: AbstractManifold, part: Point, size: int) -> np.ndarray:
    """Which of some finite records are matrices that are singular up to rounding."""
    if isinstance(manifold, Product):
        flags = [_singular(m, x, size) for m, x in zip(manifold.manifolds, part, strict=True)]
        return np.any(flags, axis=0)
    if not isinstance(manifold, AbstractSPD):
        return np.zeros(size, dtype=bool)
    return manifold._lost_rank(np.asarray(part)) > 0


def refuse_invalid(manifold: AbstractManifold, name: str, X: RecordsLike, remedy: str) -> None:
    """Raise `InvalidArgument` that counts the invalid records and explains the first few."""
    found = check_records(manifold, X)
    if not found:
        return
    raise InvalidArgument(f"argument `{name}`: {summary(found)} of {manifold!r}; {remedy}")


def summary(found: list[InvalidRecord]) -> str:
    """The first few invalid records in one sentence, and what to do where matrices are singular."""
    shown = "; ".join(f"record {r.index} {r.reason}" for r in found[:_SHOWN])
    more = "; and so on" if len(found) > _SHOWN else ""
    noun = "record is not a point" if len(found) == 1 else "records are not points"
    singular = sum(r.reason.startswith(SINGULAR) for r in found)
    known = f"; {singular} of them: singular up to rounding, as after an average reference or ICA"
    why = f"{known} ({_REGULAR})" if singular else ""
    return f"{len(found)} {noun} (counted from 0: {shown}{more}){why}"


def _reason(manifold: AbstractManifold, records: Point, X: RecordsLike, i: int) -> str:
    if isinstance(manifold, Product) or not isinstance(records, np.ndarray):
        return "is not a point of the space"
    record = np.asarray(records[i])
    if np.isnan(record).any():
        if isinstance(X, list | tuple) or np.asarray(X).dtype.kind not in "fiub":
            return _why_unreadable(cast("Sequence[object]", X)[i], manifold.shape)
        return f"has NaN at position {_first(np.isnan(record))}"
    if not np.isfinite(record).all():
        return f"has an infinite number at position {_first(~np.isfinite(record))}"
    return manifold._why_not(record)


def _why_unreadable(record: object, shape: tuple[int, ...]) -> str:
    mask = getattr(record, "mask", False)
    if np.any(mask):
        return f"is masked at position {_first(np.asarray(mask))}"
    try:
        if np.asarray(record).dtype.kind == "c":
            return f"holds complex numbers ({HERMITIAN})"
        read = np.asarray(record, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return "holds something that is not a real number"
    if read.shape != shape:
        return f"has shape {read.shape} where {shape} is needed"
    if not np.isnan(read).any():  # such as dates, which NumPy makes numbers of
        return "holds something that is not a real number"
    return f"has NaN at position {_first(np.isnan(read))}"


def _first(flags: np.ndarray) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.argwhere(flags)[0]) + "]"
