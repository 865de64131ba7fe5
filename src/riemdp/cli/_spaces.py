"""From words on the command line and the shape of the records to a manifold and a public ball."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._exits import InputProblem

SPACES = ("spd", "sphere", "euclidean", "lorentz", "poincare", "stiefel", "grassmann")
METRICS = (
    "affine-invariant",
    "riemann",
    "log-euclidean",
    "logeuclid",
    "bures-wasserstein",
    "wasserstein",
)


def space_for(space: str, metric: str, array: np.ndarray) -> tuple[Any, np.ndarray]:
    """The manifold for records of this shape, and the records in its own shape (n, *shape)."""
    from .. import manifolds

    n, rest = array.shape[0], array.shape[1:]
    if space == "spd":
        if array.ndim == 2 and rest[0] != n:  # one flattened matrix a line, as in a csv file
            k = math.isqrt(rest[0])
            if k * k != rest[0]:
                raise InputProblem(
                    f"each record has {rest[0]} numbers, which is not the square of a number of"
                    " rows",
                    "write all k x k entries of a matrix in one line, row by row; or name another"
                    " --space",
                )
            array, rest = array.reshape(n, k, k), (k, k)
        if array.ndim == 2:
            raise InputProblem(
                f"the array has shape {array.shape}: one matrix, not a collection of matrices",
                "stack the matrices along a leading axis, shape (n, k, k)",
            )
        if array.ndim != 3 or rest[0] != rest[1]:
            raise InputProblem(
                f"the array has shape {array.shape}",
                "positive definite matrices need shape (n, k, k); for "
                "vectors or frames name another --space",
            )
        return manifolds.spd(rest[0], metric), array
    if space in {"stiefel", "grassmann"}:
        if array.ndim != 3 or rest[0] < rest[1]:
            raise InputProblem(
                f"the array has shape {array.shape}", f"{space} needs shape (n, m, r) with m >= r"
            )
        kind = manifolds.Stiefel if space == "stiefel" else manifolds.Grassmann
        return kind(*rest), array
    if space == "euclidean":
        return manifolds.Euclidean(*(rest or (1,))), array if rest else array[:, None]
    if array.ndim != 2:
        raise InputProblem(
            f"the array has shape {array.shape}",
            f"--space {space} needs one vector per record, shape (n, d)",
        )
    kinds = {
        "sphere": manifolds.Sphere,
        "lorentz": manifolds.Lorentz,
        "poincare": manifolds.PoincareBall,
    }
    return kinds[space](rest[0]), array


def centre_for(manifold: Any, words: str) -> Any:
    """The public centre: "identity" or "origin" is the canonical point, "diag:A" is A times the
    identity, else a file.
    """
    from pathlib import Path

    if words in {"identity", "origin"}:
        return manifold.origin
    if words.startswith("diag:"):
        try:
            factor = float(words[5:])
        except ValueError:
            factor = math.nan
        if not (factor > 0 and math.isfinite(factor)) or not hasattr(manifold, "k"):
            raise InputProblem(
                f"--center {words} is not usable",
                "give diag:A with a number A > 0, for positive definite matrices",
            )
        return factor * np.asarray(manifold.origin)
    from ._readers import read_records

    if not Path(words).exists():
        raise InputProblem(
            f"--center {words} is neither a word nor a file",
            "give identity, diag:A, or a file with one public point",
        )
    point = read_records(words).array
    if point.shape == (1, *manifold.shape):
        point = point[0]
    if point.shape != tuple(manifold.shape):
        raise InputProblem(
            f"the centre in {words} has shape {point.shape}",
            f"{manifold!r} needs shape {tuple(manifold.shape)}",
        )
    if not bool(np.asarray(manifold.belongs(point, 1e-6))):
        raise InputProblem(
            f"the centre in {words} is not a point of {manifold!r}",
            "give a public point of the space",
        )
    return point
