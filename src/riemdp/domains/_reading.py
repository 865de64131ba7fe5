"""Records as they are given, in memory: as arrays of float64, or one by one. What lies in a file is
told by its type, and read by `_sources`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ._sources import AbstractSource, Computed, Map, Sliced

WHOLE = 1 << 31  # bytes of records, as float64, that are taken into memory from a file


def unmasked(X: Any) -> np.ndarray:
    """Many records as an array, masked entries as NaN. Entries that are no numbers stay what they
    are: they are read record by record.
    """
    array = np.asarray(X)
    if not isinstance(X, np.ma.MaskedArray):
        return array
    masked = np.ma.getmaskarray(X)
    if array.dtype.kind in "fiub":
        return np.where(masked, np.nan, as_float64(array))
    objects = array.astype(object)
    objects[masked] = None
    return objects


def as_float64(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # a warning would depend on one record
        return array.astype(np.float64, copy=False)


class Miscounted(Exception):
    """A block that does not hold the records that the array says it holds."""


def _counted(block: Any, block_info: Any) -> np.ndarray:
    """The block as an array of as many records as it was said to hold, masked entries as NaN."""
    found = unmasked(block)
    if found.shape != tuple(block_info[None]["chunk-shape"]):
        raise Miscounted
    return found


def source_of(X: object, called: str = "X") -> AbstractSource | None:
    """Where these records are to be read from in parts; None for records in memory.

    It is decided by the type of X, never by what it holds or how much; `called` is the name of the
    argument, for errors.
    """
    shape, kind = getattr(X, "shape", None), getattr(getattr(X, "dtype", None), "kind", "")
    if not (isinstance(shape, tuple) and shape and kind and kind in "fiub"):
        return None
    if isinstance(X, np.memmap):
        return Map(X, called)
    package = type(X).__module__.partition(".")[0]
    if package in ("h5py", "zarr"):
        return Sliced(X)
    return Computed(X, _counted) if package == "dask" else None


def taken(name: str, X: Any) -> Any:
    """What is given is taken into memory: X itself, or what a mapped file holds.

    Raises:
        InvalidArgument: From its shape, where an array of a file is larger than `WHOLE`; or a
            mapped file cannot be read.
    """
    source = source_of(X, name)
    if source is None:
        return X
    size = 8 * math.prod(X.shape)
    if size > WHOLE:
        raise InvalidArgument(
            f"argument `{name}` of shape {tuple(X.shape)} comes from a file and would be taken into"
            f" memory here, {size / 2**30:.3g} GiB; give numpy.asarray({name}) if there is so much,"
            " or a function that reads records in parts (docs/scale.md)"
        )
    source.called = name
    return source.fetched(0, source.n)


def read_rows(records: Sequence[Any] | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Records read one by one; NaN for one that is no array of real numbers of this shape."""
    out = np.full((len(records), *shape), np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a warning would depend on one record
        for i, record in enumerate(records):
            row = read_row(record)
            if row is not None and row.shape == shape:
                out[i] = row
    return out


def read_row(record: object) -> np.ndarray | None:
    """One record as float64, or None where it is not an array of real numbers."""
    try:
        array = _plain(record)
        kind = array.dtype.kind
        if kind == "c":
            return np.where(np.imag(array) == 0, np.real(array), np.nan).astype(np.float64)
        return array.astype(np.float64) if kind in "fiubOUS" else None
    except Exception:  # whatever one record does when it is read, it is private
        return None


def _plain(x: object) -> np.ndarray:
    if isinstance(x, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(x), np.nan, np.asarray(x.data, dtype=np.float64))
    return np.asarray(x)


def form_of(x: object) -> str:
    """What an argument is, without its values."""
    shape = getattr(x, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of shape {shape}"
    return f"a {type(x).__name__}" + (f" of {len(x)}" if isinstance(x, tuple | list) else "")
