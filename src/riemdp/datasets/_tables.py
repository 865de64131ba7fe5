"""Records from a table with named columns: vectors or matrices, their names, and whose they are."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, one_of
from ..domains._names import Names
from ._formats import from_upper_triangles

LAYOUTS = ("vectors", "upper", "lower", "square")


@dataclasses.dataclass(frozen=True, eq=False)
class TableRecords:
    """Records of a table, with the public names of their axes.

    It stands for its array: give it to a release, and `release.details["names"]` has the names.

    Attributes:
        X: The records, (n, d) or (n, k, k), float64. Private.
        names: For each axis of a record the names of its places; None where the table has none.
        people: For each record the label of its person, (n,); None where no column was named.
            Private: it is what `groups=` takes.
    """

    X: NDArray[np.float64]
    names: Names | None
    people: NDArray[Any] | None = None
    keeps_names = True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The records."""
        wanted = self.X if dtype is None else self.X.astype(dtype, copy=False)
        return wanted.copy() if copy else wanted

    def __len__(self) -> int:
        return len(self.X)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.X.shape

    def __repr__(self) -> str:
        whose = "" if self.people is None else ", with the labels of people"
        return f"TableRecords of shape {self.X.shape}{whose}"


def from_table(
    table: Any,
    *,
    layout: str = "vectors",
    people: Hashable | None = None,
    names: Sequence[str] | None = None,
) -> TableRecords:
    """Records from a pandas DataFrame: one record a row.

    Args:
        table: The DataFrame. All its columns but `people` are numbers.
        layout: What a row holds. "vectors": a vector. "upper" and "lower": one triangle of a
            symmetric matrix, row by row. "square": a whole matrix, row by row.
        people: The column, or the level of a MultiIndex of the rows, that says whose a record is.
        names: For matrices: the k names of rows and columns. None: from the columns, where these
            are pairs (a MultiIndex of two levels, as ("Fz", "Cz")) in the order of the layout.

    Returns:
        The records with their names. Names are public, records and people are not.

    Raises:
        InvalidArgument: The table is no DataFrame of numbers, has no such column or level, or its
            columns do not fit the layout.

    Examples:
        records = from_table(table, layout="upper", people="patient")
        release = riemdp.private_frechet_mean(space, records, budget=budget, groups=records.people)
        release.to_frame()
    """
    one_of("layout", layout, LAYOUTS)
    if not hasattr(table, "columns") or not hasattr(table, "index"):
        raise invalid("table", table, "give a pandas DataFrame, one record a row")
    labels = None
    if people is not None:
        table, labels = _split(table, people)
    columns = list(table.columns)
    values = np.asarray(table.to_numpy())
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise InvalidArgument(
            "argument `table` has columns that are not numbers; leave them out, or name the one"
            " that says whose a record is: people=..."
        )
    values = values.astype(np.float64)
    if layout == "vectors":
        if names is not None:
            raise invalid("names", "given", "a vector is named by its columns; leave it out")
        text = bool(columns) and all(isinstance(c, str) for c in columns)
        return TableRecords(values, (tuple(columns),) if text else None, labels)
    if layout == "square":
        k = math.isqrt(values.shape[1])
        if k * k != values.shape[1] or k == 0:
            raise invalid("layout", layout, f"{values.shape[1]} columns are not k^2 for any k")
        matrices = values.reshape(-1, k, k)
    else:
        matrices = from_upper_triangles(values, order=layout)
        k = matrices.shape[1]
    axis = _axis(columns, k, layout) if names is None else _given(names, k)
    return TableRecords(matrices, None if axis is None else (axis, axis), labels)


def _split(table: Any, people: Hashable) -> tuple[Any, NDArray[Any]]:
    """The table without the column of people, and their labels."""
    levels = list(getattr(table.index, "names", []))
    if people in levels:
        return table, np.asarray(table.index.get_level_values(people))
    found = [i for i, c in enumerate(table.columns) if c == people]
    if not found:  # a column beside others that are pairs is (name, "")
        alike = lambda c: isinstance(c, tuple) and c[0] == people and not any(c[1:])  # noqa: E731
        found = [i for i, c in enumerate(table.columns) if alike(c)]
    if len(found) != 1:
        raise invalid(
            "people", people, "name one column of the table, or one level of its row index"
        )
    rest = [i for i in range(table.shape[1]) if i != found[0]]
    return table.iloc[:, rest], np.asarray(table.iloc[:, found[0]])


def _places(k: int, layout: str) -> list[tuple[int, int]]:
    if layout == "square":
        return [(i, j) for i in range(k) for j in range(k)]
    i, j = np.triu_indices(k) if layout == "upper" else np.tril_indices(k)
    return list(zip(i.tolist(), j.tolist(), strict=True))


def _axis(columns: list[Any], k: int, layout: str) -> tuple[str, ...] | None:
    """The names of rows from columns that are pairs; None where they are not."""
    if not all(
        isinstance(c, tuple) and len(c) == 2 and all(isinstance(x, str) for x in c) for c in columns
    ):
        return None
    places = _places(k, layout)
    axis = tuple(columns[places.index((i, i))][0] for i in range(k))
    if columns != [(axis[i], axis[j]) for i, j in places]:
        raise InvalidArgument(
            f"argument `table`: its columns are pairs, but not in the order of layout={layout!r}"
            f" for the names {', '.join(axis)}; sort the columns, or choose another layout"
        )
    return axis


def _given(names: Sequence[str], k: int) -> tuple[str, ...]:
    axis = tuple(names)
    if isinstance(names, str) or len(axis) != k or not all(isinstance(x, str) for x in axis):
        raise invalid("names", names, f"give {k} names, one for each row of a matrix")
    return axis
