"""From words on the command line and the shape of the records to a manifold and a public ball."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .. import manifolds
from .._errors import counted, magnitude
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..manifolds._spd import AbstractSPD
from ._options import Metric, Space
from ._readers import read_records
from ._run import InputProblem

_VECTORS = {
    Space.sphere: manifolds.Sphere,
    Space.lorentz: manifolds.Lorentz,
    Space.poincare: manifolds.PoincareBall,
}


def check_metric(space: Space, metric: Metric | None) -> None:
    """Refuse a metric where it would change nothing."""
    if metric is not None and space != Space.spd:
        raise InputProblem(
            f"--metric {metric} is for positive definite matrices, and --space is {space}",
            "leave it out",
        )


def space_for(
    space: Space, metric: Metric | None, array: Any
) -> tuple[AbstractManifold, np.ndarray]:
    """The manifold for records of this shape, and the records in its own shape (n, *shape).

    Args:
        space: That of `--space`.
        metric: That of `--metric`, for spd.
        array: The records as they were read.
    """
    check_metric(space, metric)
    if space == Space.spd and len(array.shape) == 2:
        array = _from_rows(np.asarray(array))
    elif space == Space.euclidean and len(array.shape) == 1:
        array = np.asarray(array)[:, None]
    shape = tuple(array.shape[1:])
    if space in _VECTORS and len(shape) != 1:
        raise InputProblem(
            f"the array has shape {array.shape}",
            f"--space {space} needs one vector per record, shape (n, d)",
        )
    if space == Space.spd and (len(shape) != 2 or shape[0] != shape[1]):
        raise InputProblem(
            f"the array has shape {array.shape}",
            "positive definite matrices need shape (n, k, k); for vectors or frames name another"
            " --space",
        )
    frames = space in (Space.stiefel, Space.grassmann)
    if frames and (len(shape) != 2 or shape[0] < shape[1]):
        raise InputProblem(
            f"the array has shape {array.shape}", f"{space} needs shape (n, m, r) with m >= r"
        )
    return manifold_of(space, metric, shape), array


def manifold_of(space: Space, metric: Metric | None, shape: tuple[int, ...]) -> AbstractManifold:
    """The manifold of points of this shape."""
    if space == Space.spd:
        return manifolds.spd(shape[0], (metric or Metric.affine_invariant).value)
    if space == Space.euclidean:
        return manifolds.Euclidean(*shape)
    if space in _VECTORS:
        return _VECTORS[space](shape[0])
    if space == Space.grassmann:
        return manifolds.Grassmann(*shape)
    if shape[1] < shape[0]:
        raise InputProblem(
            f"frames of {counted(shape[1], 'vector')} in {shape[0]} dimensions have no private"
            " mean: every mechanism for it needs the logarithm of Stiefel(m, r), which has no"
            " closed form",
            "if the records are meant as subspaces, give --space grassmann; vectors of length 1,"
            " shape (n, m), are --space sphere",
        )
    return manifolds.SpecialOrthogonal(shape[0])


def _from_rows(array: np.ndarray) -> np.ndarray:
    """One flattened matrix a row, as in a csv file."""
    n, width = array.shape
    if n == width:
        raise InputProblem(
            f"the array has shape {array.shape}: one matrix, not a collection of matrices",
            "stack the matrices along a leading axis, shape (n, k, k)",
        )
    k = math.isqrt(width)
    if k * k != width:
        raise InputProblem(
            f"each record has {width} numbers, which is not the square of a number of rows",
            "write all k x k entries of a matrix in one line, row by row, without an index column"
            " (pandas: index=False), with decimal points; or name another --space",
        )
    return array.reshape(n, k, k)


def ball_for(
    manifold: AbstractManifold,
    center: str | None,
    radius: float | None,
    outer_radius: float | None = None,
) -> Ball | AdaptiveBall:
    """The public ball of --center and --radius, or a search for one where no radius is given. The
    search begins in the public ball of --center and --outer-radius.
    """
    if radius is not None and outer_radius is not None:
        raise InputProblem(
            f"--outer-radius is for a search, and --radius {radius:g} gives the ball itself",
            "leave out one of them",
        )
    if radius is not None:
        return Ball(center_for(manifold, center or "identity"), magnitude("radius", radius))
    if outer_radius is not None:
        outer = magnitude("outer_radius", outer_radius)
        return AdaptiveBall(outer=Ball(center_for(manifold, center or "identity"), outer))
    if center is not None:
        raise InputProblem(
            f"--center {center} goes with --radius or --outer-radius",
            "give a public radius too; or leave both out, and a ball is found with a share of the"
            " budget",
        )
    if not math.isfinite(manifold._search_radius(manifold.origin)):
        raise InputProblem(
            f"{manifold!r} has no unit of its own, so no search for a ball can begin",
            "give --outer-radius, a public radius about the origin in which the search begins and"
            " which may be far too large; or --radius, the public radius of a ball that holds most"
            " records",
        )
    return AdaptiveBall()


def center_for(manifold: AbstractManifold, words: str) -> Any:
    """The public centre: "identity" or "origin" is the canonical point, "diag:A" is A times the
    identity, else a file.
    """
    if words in {"identity", "origin"}:
        return manifold.origin
    if words.startswith("diag:"):
        try:
            factor = float(words[5:])
        except ValueError:
            factor = math.nan
        usable = factor > 0 and math.isfinite(factor) and isinstance(manifold, AbstractSPD)
        if not usable:
            raise InputProblem(
                f"--center {words} is not usable",
                "give diag:A with a number A > 0, for positive definite matrices",
            )
        return factor * np.asarray(manifold.origin)
    if not Path(words).exists():
        raise InputProblem(
            f"--center {words} is neither a word nor a file",
            "give identity, diag:A, or a file with one public point",
        )
    point = np.asarray(read_records(Path(words)).array, dtype=np.float64)
    if point.shape == (1, *manifold.shape):
        point = point[0]
    if point.shape != tuple(manifold.shape) or not bool(manifold.belongs(point, 1e-6)):
        raise InputProblem(
            f"the centre in {words}, of shape {point.shape}, is not a point of {manifold!r}",
            f"give one public point of shape {tuple(manifold.shape)}",
        )
    return point
