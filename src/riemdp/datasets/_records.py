"""Labelled images, whose `repr` shows shapes and never a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import invalid


@dataclass(frozen=True, repr=False, eq=False)
class Images:
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

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return (
            f"Images({self.name!r}, images={self.images.dtype}{list(self.images.shape)},"
            f" {len(self.classes)} classes)"
        )

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
