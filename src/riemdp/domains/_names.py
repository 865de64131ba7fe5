"""The names that a table or a labelled array carries: of columns and of channels, never of records.

Names are taken to be public, like the number of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import InvalidArgument, MissingExtra
from ..manifolds import AbstractManifold, Euclidean, SPDLogEuclidean

Names = tuple[tuple[str, ...], ...]  # for each axis of one record


def names_of(X: object) -> Names | None:
    """The names of the axes of one record, where all of them are text; else None.

    Args:
        X: Records. A DataFrame names its columns; an `xarray.DataArray` the coordinates of all its
            axes but the first.
    """
    module = type(X).__module__.partition(".")[0]
    kind: Any = X
    if module in ("pandas", "polars") and type(X).__name__ == "DataFrame":
        axes = [list(kind.columns)]
    elif module == "xarray" and type(X).__name__ == "DataArray":
        dims = kind.dims[1:]
        axes = [list(kind.coords[d].values) if d in kind.coords else [] for d in dims]
    else:
        return None
    if not axes or not all(axis and all(isinstance(x, str) for x in axis) for axis in axes):
        return None
    return tuple(tuple(str(x) for x in axis) for axis in axes)


def of_coordinates(manifold: AbstractManifold, names: Names | None) -> tuple[str, ...] | None:
    """The names of tangent coordinates, which are the same at every point where the space is flat:
    those of a vector's entries, or of the entries of a matrix logarithm. None on other spaces,
    where a coordinate belongs to no entry of a record.
    """
    if names is None:
        return None
    if isinstance(manifold, Euclidean) and len(names) == 1:
        return names[0]
    if isinstance(manifold, SPDLogEuclidean) and len(names) == 2 and names[0] == names[1]:
        above = zip(*np.triu_indices(len(names[0]), 1), strict=True)
        return (*names[0], *(f"{names[0][i]}-{names[0][j]}" for i, j in above))
    return None


def as_frame(value: Any, names: Names | None) -> Any:
    """A vector (as one row) or a matrix as a pandas DataFrame with the names of its axes.

    Raises:
        InvalidArgument: The value is neither.
        MissingExtra: pandas is not installed.
    """
    if isinstance(value, tuple) or np.ndim(value) not in (1, 2):
        raise InvalidArgument("only a vector or a matrix is a table")
    try:
        import pandas  # type: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("a table needs pandas: pip install pandas") from error
    if np.ndim(value) == 1:
        row = value[None].copy()
        return pandas.DataFrame(row, columns=None if names is None else list(names[0]))
    rows, columns = (None, None) if names is None else map(list, names)
    return pandas.DataFrame(value.copy(), index=rows, columns=columns)


def in_words(names: Names) -> str:
    """Names in a few words: those of one axis where all axes have the same."""
    told = [_few(axis) for axis in dict.fromkeys(names)]
    return " by ".join(told)


def _few(axis: tuple[str, ...], most: int = 12) -> str:
    rest = f" and {len(axis) - most} more" if len(axis) > most else ""
    return ", ".join(axis[:most]) + rest
