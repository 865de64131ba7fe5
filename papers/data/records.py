"""What the loaders return: small frozen records whose `repr` shows shapes and never a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import invalid


class _Labelled:
    """Records, the first field, with a label of a class for each."""

    name: str
    labels: np.ndarray
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        first, held = next(iter(vars(self).items()))
        return (
            f"{type(self).__name__}({self.name!r}, {first}={held.dtype}{list(held.shape)},"
            f" {len(self.classes)} classes)"
        )


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """A table of records: `values` (n, features) float64."""

    values: np.ndarray
    name: str
    source: str
    licence: str

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, values=float64{list(self.values.shape)})"


@dataclass(frozen=True, repr=False, eq=False)
class Covariances(_Labelled):
    """SPD `matrices` (n, k, k) float64 with `labels` (n,), int64 indices into `classes`."""

    matrices: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    name: str
    source: str
    licence: str


@dataclass(frozen=True, repr=False, eq=False)
class Ratings:
    """Ratings as triples: `users`, `items` (n,) int64 from 0, `values` (n,) float64."""

    users: np.ndarray
    items: np.ndarray
    values: np.ndarray
    name: str
    source: str
    licence: str

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return (
            f"Ratings({self.name!r}, {len(self)} ratings, {self.shape[0]} users, {self.shape[1]}"
            " items)"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(users, items)."""
        return int(self.users.max()) + 1, int(self.items.max()) + 1

    def matrix(self) -> tuple[np.ndarray, np.ndarray]:
        """(values, observed): dense (users, items) arrays, zeros where a rating is missing, and the
        0/1 mask of known ones.
        """
        values, observed = np.zeros(self.shape), np.zeros(self.shape)
        values[self.users, self.items] = self.values
        observed[self.users, self.items] = 1.0
        return values, observed


@dataclass(frozen=True, repr=False, eq=False)
class Images(_Labelled):
    """Labelled images.

    `images` (n, height, width) grey or (n, height, width, 3) RGB, as stored: uint8 in [0, 255] or
    float64 in [0, 1]; `labels` (n,) int64 indexes `classes`; `name` says what it is, `source` where
    the bytes came from, `licence` its terms.
    """

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    name: str
    source: str
    licence: str

    def of_class(self, label: int | str) -> np.ndarray:
        """The images of one class, given by its number or its name."""
        number = (
            self.classes.index(label) if isinstance(label, str) and label in self.classes else label
        )
        if isinstance(number, str) or not 0 <= int(number) < len(self.classes):
            raise invalid(
                "label",
                label,
                f"choose a class number below {len(self.classes)} or one of {self.classes}",
            )
        return self.images[self.labels == int(number)]
