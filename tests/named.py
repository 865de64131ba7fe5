"""Records with names, without the packages that give them."""

from __future__ import annotations

import types
from typing import Any

import numpy as np


class DataArray:
    """An array whose axes have names, as xarray's, which the quick tests do not install.

    Args:
        X: The records, one along the first axis.
        names: For each other axis the names of its places.
    """

    __module__ = "xarray.core.dataarray"

    def __init__(self, X: np.ndarray, names: tuple[tuple[str, ...], ...]):
        self.values = np.asarray(X)
        self.dims = ("record", *(f"axis {i}" for i in range(len(names))))
        self.coords = {
            dim: types.SimpleNamespace(values=np.array(axis))
            for dim, axis in zip(self.dims[1:], names, strict=True)
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape
