"""The names that a table or a labelled array carries: of columns and of channels, never of records.

Names are taken to be public, like the number of columns.
"""

from __future__ import annotations

from typing import Any

Names = tuple[tuple[str, ...], ...]  # for each axis of one record


def names_of(X: object) -> Names | None:
    """The names of the axes of one record, where all of them are text; else None.

    Args:
        X: Records. A DataFrame names its columns; an `xarray.DataArray` the coordinates of all its
            axes but the first; `riemdp.datasets.from_table` keeps what it was given.
    """
    known = getattr(X, "names", None) if getattr(X, "keeps_names", False) is True else None
    if known is not None:
        return known
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


def in_words(names: Names) -> str:
    """Names in a few words: those of one axis where all axes have the same."""
    told = [_few(axis) for axis in dict.fromkeys(names)]
    return " by ".join(told)


def _few(axis: tuple[str, ...], most: int = 12) -> str:
    rest = f" and {len(axis) - most} more" if len(axis) > most else ""
    return ", ".join(axis[:most]) + rest
