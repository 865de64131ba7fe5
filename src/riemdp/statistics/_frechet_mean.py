"""The Fréchet mean: one function for every space with a logarithm, and what it returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _linalg
from .._errors import ConvergenceWarning, InvalidArgument, SpreadWarning, invalid, real, warn
from .._isolation import isolated
from .._namespace import Floats
from .._trees import map_leaves
from ..domains._clamp import LOOSE, in_parts
from ..domains._door import admit_manifold
from ..domains._sums import mean_of
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point, held
from ._people import people
from ._sensitivity import public_weights
from ._solver import Found, look_at, mean_from

STEP = 1e-3  # of differences of the objective, whose rounding then bends it by less than 1e-8
FLAT = 1e-5  # less than so much down is none: a mean may be one of a circle of minima


@dataclass(frozen=True)
class MeanResult:
    """What `frechet_mean` found. Nothing of it is private: it depends on the data.

    Attributes:
        value: The mean, a NumPy array of the manifold's shape (a tuple on a `Product`).
        residual: |grad F| at `value`, F = 1/2 sum_i w_i d^2: the length of the mean logarithm, as
            measured there. The distance to the exact mean is at most residual / h, with h = 1 on
            Hadamard spaces. Rounding is not in it: up to 1e-7 for matrices of condition 1e9.
        iterations: Passes over the data.
        converged: Whether residual <= tol at a minimum. False where the search ended at another
            stationary point, from which some direction leads down.
    """

    value: Any
    residual: float
    iterations: int
    converged: bool

    def __repr__(self) -> str:
        shape = map_leaves(np.shape, self.value)
        return (
            f"MeanResult(value of shape {shape}, residual={self.residual:.1e},"
            f" iterations={self.iterations}, converged={self.converged})"
        )


def frechet_mean(
    manifold: AbstractManifold,
    X: Point,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-10,
    groups: object = None,
) -> MeanResult:
    """The Fréchet mean argmin_p sum_i w_i d(p, x_i)^2 of records, without privacy.

    The method is Karcher's iteration in normal coordinates with Anderson's acceleration, the same
    on every space. The result does not depend on chance, nor, but for rounding, on the number of
    cores.

    One record, equal records, or all weight on one record give that point. Records that are spread
    over more than half of a sphere give some stationary point, with a `SpreadWarning`; if it is no
    minimum, as one of two opposite points, `converged` is False.

    Args:
        manifold: A space with a logarithm.
        X: n >= 1 records, (n, *manifold.shape); on a `Product` a tuple of arrays with the same n.
        weights: None, or n non-negative numbers with a positive sum. They are normalised.
        tol: Tolerance on the residual |sum_i w_i log_p x_i|, in units of distance, above 0 and
            below 1.
        groups: One label of a person for each record. Then the mean is that of the people's means,
            every person counting once, as in `private_frechet_mean`. Not with `weights`.

    Returns:
        A `MeanResult`.

    Raises:
        InvalidArgument: A wrong shape, no records, weights that cannot be used, or records that are
            not finite or not on the manifold. The message counts them and shows none of them.
        NotImplementedError: The space has no `log`.

    Warns:
        ConvergenceWarning: The tolerance is not reached within 200 passes, or not at a minimum.
        SpreadWarning: The mean may not be unique: curvature is positive, and a record lies at least
            half of min(injectivity radius, pi / sqrt(kappa)) away from it.

    Guarantee:
        None. This is not a private release; see `private_frechet_mean`.

    Source:
        Karcher (1977); Reimherr2021 section 2; Afsari (2011) for the radius of uniqueness.

    Examples:
        >>> import riemdp
        >>> circle = riemdp.Sphere(2)
        >>> mean = riemdp.frechet_mean(circle, [[1.0, 0.0], [0.0, 1.0]])
        >>> [round(float(x), 4) for x in mean.value], mean.converged
        ([0.7071, 0.7071], True)
    """
    manifold = admit_manifold(manifold, X, "frechet_mean(manifold, X)")
    tol = real("tol", tol, above=0.0, below=1.0)
    if groups is not None:
        X = _of_people(manifold, X, groups, weights)
    records = _records(manifold, X)
    n = _count(manifold, records)
    w = None if weights is None else public_weights(weights, n)
    _check_records(manifold, records, n)
    result, caution = _solved(manifold, records, w, tol)
    if caution is not None:
        warn(caution, SpreadWarning)
    if not result.converged:
        warn(
            f"the Fréchet mean on {manifold!r} stopped after {result.iterations} passes with a"
            f" residual above tol = {tol:g}; the records may be spread too widely, or tol may be"
            " below what float64 can reach for them",
            ConvergenceWarning,
        )
    elif caution is not None and not _is_minimum(manifold, result.value, records, w):
        result = replace(result, converged=False)
        warn(
            f"the Fréchet mean on {manifold!r} stopped at a stationary point that is not a minimum:"
            " some direction leads down from it. Clamp the records into a smaller public ball"
            " (riemdp.Ball)",
            ConvergenceWarning,
        )
    return replace(result, value=held(result.value))


def _of_people(
    manifold: AbstractManifold, X: Point, groups: object, weights: ArrayLike | None
) -> Point:
    """One point a person, of records that are all points of the space."""
    if weights is not None:
        raise invalid("weights", "given", "with `groups` every person counts once; leave it out")
    records = _records(manifold, X)
    _check_records(manifold, records, _count(manifold, records))
    return people(manifold, X, groups).points


def _records(manifold: AbstractManifold, X: Point) -> Point:
    return map_leaves(np.asarray, manifold._coerce("X", X))


@isolated
def _solved(
    manifold: AbstractManifold, records: Point, w: Floats | None, tol: float
) -> tuple[MeanResult, str | None]:
    """The mean of checked records, and a sentence where it may be one of several."""
    heaviest = 0 if w is None else int(np.argmax(w))
    first = map_leaves(lambda x: x[heaviest], records)
    look = look_at(manifold, records, w)
    found: Found = mean_from(manifold, look, _start(manifold, records, w, first), tol)
    result = MeanResult(found.value, found.residual, found.passes, found.residual <= tol)
    return result, _caution(manifold, found.value, records, w)


def _start(manifold: AbstractManifold, records: Point, w: Floats | None, first: Point) -> Point:
    """Where the search starts: near the mean of the arrays, if that is a point; else a record."""
    start = manifold._mean_start(mean_of(records, w, lambda part: part))
    if start is None or not np.asarray(manifold._belongs(start, 1e-8)):
        return first
    return start


def _caution(
    manifold: AbstractManifold, mean: Point, records: Point, w: Floats | None
) -> str | None:
    """A sentence where records lie so far from the mean that it may be one of several."""
    kappa = manifold.curvature_bounds[1]
    if not 0.0 < kappa < math.inf:  # Bures-Wasserstein means are unique in any case
        return None
    radius = 0.5 * min(float(manifold.injectivity_radius(mean)), math.pi / math.sqrt(kappa))
    distances = in_parts(manifold, lambda x: np.asarray(manifold._dist(mean, x)), records)
    if not np.max(distances if w is None else distances[w > 0.0]) >= radius:
        return None
    return (
        f"some records lie farther than {radius:.4g} from the mean on {manifold!r}: the Fréchet"
        " mean may not be unique, and what was found may be one of several. Clamp the records into"
        " a smaller public ball (riemdp.Ball)"
    )


@isolated
def _is_minimum(manifold: AbstractManifold, mean: Point, X: Point, w: Floats | None) -> bool:
    """Whether F = 1/2 sum_i w_i d^2 bends down along no coordinate direction and not along the one
    in which its Hessian, by differences of the gradient, is lowest. Differences of F decide: at a
    cut locus F has no second derivative.
    """
    look, units = look_at(manifold, X, w), np.eye(int(manifold.dim))

    def objective(c: Floats) -> float:
        at = manifold._exp_coordinates(mean, c)
        return 0.5 * float(mean_of(X, w, lambda part: np.asarray(manifold._squared_dist(at, part))))

    def bend(e: Floats) -> float:
        ends = objective(STEP * e) + objective(-STEP * e) - 2.0 * objective(0.0 * e)
        return ends / STEP**2

    def gradient(c: Floats) -> Floats:
        at = manifold._exp_coordinates(mean, c)
        v = manifold._transport(at, mean, manifold._from_coordinates(at, look(at).gradient))
        return np.asarray(manifold._to_coordinates(mean, v))

    differences = [bend(e) for e in units]
    rows = [gradient(-STEP * e) - gradient(STEP * e) for e in units]
    hessian = np.stack(rows) / (2.0 * STEP)
    lowest = np.asarray(_linalg.eigh((hessian + hessian.T) / 2)[1])[:, 0]
    if np.isfinite(lowest).all():
        differences.append(bend(lowest))
    return not min(differences) < -FLAT


def _count(manifold: AbstractManifold, records: Point) -> int:
    batch = manifold._batch_shape(records)
    if len(batch) != 1:
        raise InvalidArgument(
            f"argument `X` has batch shape {batch}; {manifold!r} needs records stacked along one"
            " leading axis, shape (n, *manifold.shape)"
        )
    if isinstance(manifold, Product):
        counts = {manifold._batch_shape(records)} | {
            m._batch_shape(x) for m, x in zip(manifold.manifolds, records, strict=True)
        }
        if len(counts) != 1:
            raise InvalidArgument(
                f"argument `X` has factors with different numbers of records: {sorted(counts)}"
            )
    if batch[0] == 0:
        raise InvalidArgument(
            "argument `X` holds no records; the mean of nothing is not defined, give at least one"
        )
    return batch[0]


@isolated
def _check_records(manifold: AbstractManifold, records: Point, n: int) -> None:
    fine = in_parts(manifold, lambda x: np.asarray(manifold._belongs(x, LOOSE)), records)
    bad = n - int(np.count_nonzero(fine))
    if bad:
        raise InvalidArgument(
            f"argument `X`: {bad} of {n} records are not finite points of {manifold!r} (relative"
            f" error above {LOOSE:g}); remove or repair them, or for a private release clamp them"
            " with riemdp.Ball(center, radius).clamp(manifold, X)"
        )
