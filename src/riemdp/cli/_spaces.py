"""From words on the command line and the shape of the records to a manifold and a public ball."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .. import manifolds
from .._errors import magnitude
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..manifolds._spd import AbstractSPD
from ._exits import InputProblem
from ._readers import read_records
from ._typed import typed


def space_for(
    space: str, metric: str, array: np.ndarray, *, upper: bool = False
) -> tuple[AbstractManifold, np.ndarray]:
    """The manifold for records of this shape, and the records in its own shape (n, *shape).

    Args:
        space: A word of `--space`.
        metric: A word of `--metric`, for spd.
        array: The records as they were read.
        upper: Whether a row holds the upper triangle of a symmetric matrix.
    """

    if upper and (space != "spd" or array.ndim != 2):
        raise InputProblem(
            "--upper is for positive definite matrices, one triangle a row",
            "leave it out, or write one upper triangle a line",
        )
    if space != "spd" and typed("metric"):
        raise InputProblem(
            f"--metric {metric} is for positive definite matrices, and --space is {space}",
            "leave it out",
        )
    n, rest = array.shape[0], array.shape[1:]
    flat = (space == "spd" and array.ndim == 2) or (space == "euclidean" and not rest)
    if flat and not isinstance(array, np.ndarray):
        array = np.asarray(array[:])  # another shape than it is stored in
    if space == "spd":
        if upper:
            array = _from_triangles(array)
        elif array.ndim == 2 and rest[0] != n:  # one flattened matrix a line, as in a csv file
            array = _from_rows(array)
        rest = array.shape[1:]
        if array.ndim == 2:
            raise InputProblem(
                f"the array has shape {array.shape}: one matrix, not a collection of matrices",
                "stack the matrices along a leading axis, shape (n, k, k)",
            )
        if array.ndim != 3 or rest[0] != rest[1]:
            raise InputProblem(
                f"the array has shape {array.shape}",
                "positive definite matrices need shape (n, k, k); for vectors or frames name"
                " another --space",
            )
        return manifolds.spd(rest[0], metric), array
    if space in {"stiefel", "grassmann"}:
        if array.ndim != 3 or rest[0] < rest[1]:
            raise InputProblem(
                f"the array has shape {array.shape}", f"{space} needs shape (n, m, r) with m >= r"
            )
        if space == "stiefel" and 1 < rest[1] < rest[0]:
            raise InputProblem(
                f"frames of {rest[1]} vectors in {rest[0]} dimensions have no private mean: every"
                " mechanism for it needs the logarithm of Stiefel(m, r), which has no closed form"
                " for 1 < r < m",
                "if the records are meant as subspaces, give --space grassmann",
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


def _from_rows(array: np.ndarray) -> np.ndarray:
    n, width = array.shape
    k = math.isqrt(width)
    if k * k == width:
        return array.reshape(n, k, k)
    hints = []
    side = (math.isqrt(8 * width + 1) - 1) // 2
    if side * (side + 1) // 2 == width and side > 1:
        hints.append(f"upper triangles of {side} x {side} matrices are read with --upper")
    if width > 1 and math.isqrt(width - 1) ** 2 == width - 1:
        hints.append(
            f"if the first column is an index, leave it out ({width - 1} is a square): pandas"
            " writes none with to_csv(index=False)"
        )
    if width % 2 == 0 and math.isqrt(width // 2) ** 2 == width // 2:
        hints.append(
            "if the table has decimal commas, each number was read as two: write decimal points"
        )
    raise InputProblem(
        f"each record has {width} numbers, which is not the square of a number of rows",
        "; ".join(
            [
                "write all k x k entries of a matrix in one line, row by row, or name another"
                " --space",
                *hints,
            ]
        ),
    )


def _from_triangles(array: np.ndarray) -> np.ndarray:
    n, width = array.shape
    k = (math.isqrt(8 * width + 1) - 1) // 2
    if k * (k + 1) // 2 != width:
        raise InputProblem(
            f"each record has {width} numbers, which is not k (k + 1) / 2",
            "write the upper triangle of each matrix in one line, row by row",
        )
    full = np.zeros((n, k, k))
    rows, columns = np.triu_indices(k)
    full[:, rows, columns] = array
    full[:, columns, rows] = array
    return full


def ball_for(
    manifold: AbstractManifold,
    center: str | None,
    radius: float | None,
    outer_center: str | None = None,
    outer_radius: float | None = None,
) -> Ball | AdaptiveBall:
    """The public ball of --center and --radius, or a search for one where no radius is given. The
    search begins in the public ball of --outer-center and --outer-radius.
    """
    outer = "--outer-radius" if outer_radius is not None else "--outer-center"
    if radius is not None and (outer_radius is not None or outer_center is not None):
        raise InputProblem(
            f"{outer} is for a search, and --radius {radius:g} gives the ball itself",
            "leave out one of them",
        )
    if outer_center is not None and outer_radius is None:
        raise InputProblem(
            f"--outer-center {outer_center} goes with --outer-radius",
            "give the public radius of the ball in which the search begins",
        )
    if radius is not None:
        return Ball(centre_for(manifold, center or "identity"), radius)
    if center is not None:
        raise InputProblem(
            f"--center {center} goes with --radius",
            "give a public radius too; or leave both out, and a ball is found with a share of the"
            " budget",
        )
    if outer_radius is not None:
        magnitude("outer_radius", outer_radius)  # checked here under the name of its option
        center = centre_for(manifold, outer_center or "identity", "--outer-center")
        return AdaptiveBall(outer=Ball(center, outer_radius))
    if not math.isfinite(manifold._search_radius(manifold.origin)):
        raise InputProblem(
            f"{manifold!r} has no unit of its own, so no search for a ball can begin",
            "give --outer-radius, a public radius about --outer-center (the origin) in which the"
            " search begins and which may be far too large; or --radius, the public radius of a"
            " ball that holds most records",
        )
    return AdaptiveBall()


def centre_for(manifold: AbstractManifold, words: str, option: str = "--center") -> Any:
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
                f"{option} {words} is not usable",
                "give diag:A with a number A > 0, for positive definite matrices",
            )
        return factor * np.asarray(manifold.origin)
    if not Path(words).exists():
        raise InputProblem(
            f"{option} {words} is neither a word nor a file",
            "give identity, diag:A, or a file with one public point",
        )
    try:
        point = read_records(words).array
    except InputProblem as error:
        if not error.remedy.startswith("say which with --key"):
            raise
        # --key is for the records
        remedy = f"give a file of {option} that holds this one point alone"
        raise InputProblem(error.problem, remedy) from None
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
