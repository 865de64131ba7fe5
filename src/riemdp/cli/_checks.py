"""Find the records that are not points of the space, and say why in words. Indices count from 0."""

from __future__ import annotations

from typing import Any

import numpy as np

# the same as in Ball.clamp: closer records are carried onto the space, others count as invalid
_TOLERANCE = 1e-6
_CHUNK = 4096


def invalid_records(
    manifold: Any, records: np.ndarray, limit: int = 5
) -> tuple[int, list[tuple[int, str]]]:
    """(how many records are not points of the manifold, the first few as (index, reason)).

    The reasons name entries and properties, never values of the record, so that they can be shown
    to the holder of the data.
    """
    flat = records.reshape(len(records), -1)
    bad: np.ndarray = np.logical_not(np.isfinite(flat).all(axis=1))
    for start in range(0, len(records), _CHUNK):
        part = slice(start, start + _CHUNK)
        fine = ~bad[part]
        safe = np.where(
            fine.reshape((-1,) + (1,) * len(manifold.shape)),
            records[part],
            np.asarray(manifold.origin),
        )
        bad[part] |= ~np.asarray(manifold.belongs(_padded(safe), _TOLERANCE))[: len(safe)]
    found = np.flatnonzero(bad)
    return len(found), [(int(i), _reason(manifold, records[i])) for i in found[:limit]]


def _padded(part: np.ndarray) -> np.ndarray:
    """Pad to a few sizes, so that the check is compiled for a few shapes only."""
    size = min(_CHUNK, 1 << max(4, (len(part) - 1).bit_length()))
    return (
        part
        if len(part) == size
        else np.concatenate([part, np.repeat(part[:1], size - len(part), axis=0)])
    )


def _reason(manifold: Any, record: np.ndarray) -> str:
    if np.isnan(record).any():
        return f"has NaN at position {_first(np.isnan(record))}"
    if not np.isfinite(record).all():
        return f"has an infinite number at position {_first(~np.isfinite(record))}"
    name = type(manifold).__name__
    if name.startswith("SPD"):
        gap = np.abs(record - record.T)
        if gap.max() > _TOLERANCE * max(np.abs(record).max(), 1e-300):
            row, column = np.unravel_index(gap.argmax(), gap.shape)
            return f"is not symmetric (entries [{row}, {column}] and [{column}, {row}] differ)"
        smallest = np.linalg.eigvalsh((record + record.T) / 2)[0]
        return "is not positive definite (it has " + (
            "a negative eigenvalue)" if smallest < 0 else "an eigenvalue of 0)"
        )
    if name == "Sphere":
        return "does not have length 1"
    if name == "PoincareBall":
        return "lies outside the unit ball"
    if name == "Lorentz":
        return "does not lie on the hyperboloid (time coordinate first, -t^2 + |x|^2 = -1, t > 0)"
    if name in {"Stiefel", "Grassmann"}:
        return "does not have orthonormal columns"
    return "is not a point of the space"


def _first(flags: np.ndarray) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.argwhere(flags)[0]) + "]"
