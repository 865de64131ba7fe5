"""The Frechet mean: one function for every space with a logarithm, and what it returns."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from .._errors import ConvergenceWarning, InvalidArgument, SpreadWarning, invalid, real
from .._parallel import in_turn
from ..domains._door import admit_manifold
from ..domains._frame import BLOCK
from ..manifolds import (
    AbstractManifold,
    Euclidean,
    Product,
    SPDAffineInvariant,
    Sphere,
)
from ..manifolds._base import Point, held
from ._affine_mean import NotSuitable, affine_mean
from ._newton import Found
from ._people import people
from ._riemannian_mean import gradient_mean, newton_mean
from ._sphere_mean import LOOSE, is_unit, sphere_mean
from ._sums import pairwise, weighted_sum

# public and fixed: how long the iteration may run does not depend on an option that looks at data
MAX_PASSES = 200
STEP = 1e-3  # of differences of the objective, whose rounding then bends it by less than 1e-8
FLAT = 1e-5  # less than so much down is none: a mean may be one of a circle of minima


@dataclass(frozen=True)
class MeanResult:
    """What `frechet_mean` found. Nothing of it is private: it depends on the data.

    Attributes:
        value: The mean, a NumPy array of the manifold's shape (a tuple on a `Product`).
        residual: |grad F| at `value`, F = 1/2 sum_i w_i d^2: the length of the mean logarithm, or
            an upper bound of it where no pass follows the last Newton step. The distance to the
            exact mean is at most residual / h, with h = 1 on Hadamard spaces. Rounding is not in
            it: up to 1e-7 for matrices of condition 1e9.
        iterations: Passes over the data.
        converged: Whether residual <= tol at a minimum. False where the search ended at another
            stationary point, from which some direction leads down.
    """

    value: Any
    residual: float
    iterations: int
    converged: bool

    def __repr__(self) -> str:
        shape = jax.tree.map(np.shape, self.value)
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
    """The Frechet mean argmin_p sum_i w_i d(p, x_i)^2 of records, without privacy.

    The method is a closed form on flat spaces (Euclidean, log-Euclidean), Newton's method on
    affine-invariant SPD matrices, spheres and hyperbolic spaces, and gradient steps with safeguards
    elsewhere. Factors of a `Product` are solved one by one. The result does not depend on chance,
    nor, but for rounding, on the number of cores.

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
    records = X if _in_place(manifold, X) else manifold._coerce("X", X)
    n = _count(manifold, records)
    w = _normalised(weights, n)
    check = functools.partial(_check_records, manifold, records, n)
    if n == 1 or not _solver_checks(manifold, records):
        check()
    cautions: list[str] = []
    result = _solved(manifold, records, w, n, tol, cautions=cautions, check=check)
    for caution in cautions:
        warnings.warn(caution, SpreadWarning, stacklevel=2)
    if not result.converged:
        warnings.warn(
            f"the Frechet mean on {manifold!r} stopped after {result.iterations} passes with a"
            f" residual above tol = {tol:g}; the records may be spread too widely, or tol may be"
            " below what float64 can reach for them",
            ConvergenceWarning,
            stacklevel=2,
        )
    elif cautions and not _is_minimum(manifold, result.value, records, _or_equal(w, n)):
        result = replace(result, converged=False)
        warnings.warn(
            f"the Frechet mean on {manifold!r} stopped at a stationary point that is not a minimum:"
            " some direction leads down from it. Clamp the records into a smaller public ball"
            " (riemdp.Ball)",
            ConvergenceWarning,
            stacklevel=2,
        )
    return replace(result, value=held(result.value))


def _of_people(
    manifold: AbstractManifold, X: Point, groups: object, weights: ArrayLike | None
) -> Point:
    """One point a person, of records that are all points of the space."""
    if weights is not None:
        raise invalid("weights", "given", "with `groups` every person counts once; leave it out")
    records = X if _in_place(manifold, X) else manifold._coerce("X", X)
    _check_records(manifold, records, _count(manifold, records))
    return people(manifold, X, groups).points


@in_turn
def _solved(*arguments: Any, **options: Any) -> MeanResult:
    with np.errstate(all="ignore"):
        return solve(*arguments, **options)


def solve(
    manifold: AbstractManifold,
    X: Point,
    w: Array | np.ndarray | None,
    n: int,
    tol: float,
    *,
    cautions: list[str] | None = None,
    check: Callable[[], None] | None = None,
) -> MeanResult:
    """The mean of checked records with normalised weights (None: equal ones). If the tolerance is
    not reached, the value is the point of the smallest residual. `cautions`: where it may be one
    of several, a sentence that says so is added. `check`: what refuses records that are not on the
    space. It is called where a method that looks at them itself finds one that seems not to be.
    """
    if n == 1:
        return MeanResult(jax.tree.map(lambda x: x[0], X), 0.0, 0, True)
    if isinstance(manifold, Euclidean):
        value, residual = _arithmetic_mean(np.asarray(X), w)
        return MeanResult(value, residual, 2, residual <= tol)
    if manifold._is_flat:
        value, residual = _flat_mean(manifold, X, _or_equal(w, n))
        return MeanResult(value, residual, 2, residual <= tol)
    if isinstance(manifold, Product):
        parts = [
            solve(factor, x, w, n, tol / math.sqrt(len(manifold.manifolds)), cautions=cautions)
            for factor, x in zip(manifold.manifolds, X, strict=True)
        ]
        residual = math.hypot(*(part.residual for part in parts))
        value = tuple(part.value for part in parts)
        return MeanResult(value, residual, max(part.iterations for part in parts), residual <= tol)
    found = _of_records(manifold, X, w, n, tol, check)
    if cautions is not None:
        cautions += _of_spread(manifold, found.value, found.spread)
    return MeanResult(found.value, found.residual, found.passes, found.residual <= tol)


def _of_records(
    manifold: AbstractManifold,
    X: Point,
    w: Any | None,
    n: int,
    tol: float,
    check: Callable[[], None] | None,
) -> Found[Any]:
    """The mean by the solver of the space."""
    if isinstance(manifold, SPDAffineInvariant):
        # Not suitable: so ill-conditioned that logarithms need the manifold's careful formulas.
        with contextlib.suppress(NotSuitable):
            return affine_mean(np.asarray(X), w, tol, MAX_PASSES)
    weights = _or_equal(w, n)
    if isinstance(manifold, Sphere):
        return sphere_mean(X, weights, tol, MAX_PASSES, check)
    if check is not None:
        check()
    hyperbolic = manifold.curvature_bounds[0] == manifold.curvature_bounds[1] < 0
    method = newton_mean if hyperbolic else gradient_mean
    return method(manifold, X, weights, tol, MAX_PASSES)


def _arithmetic_mean(X: np.ndarray, w: Any | None) -> tuple[np.ndarray, float]:
    """The mean of arrays, and once more that of what is left, which removes the rounding of the
    first. In NumPy: a small mean takes less time than the call of a compiled function.
    """
    shares = np.full(len(X), 1.0 / len(X)) if w is None else np.asarray(w)

    def mean(y: np.ndarray) -> np.ndarray:
        flat = y.reshape(len(y), -1)
        cuts = range(0, len(y), BLOCK)
        sums = [shares[i : i + BLOCK] @ flat[i : i + BLOCK] for i in cuts]
        return pairwise(sums).reshape(y.shape[1:])

    with np.errstate(all="ignore"):
        value = mean(X)
        value = value + mean(X - value)
        return value, float(np.linalg.norm(mean(X - value)))


def _flat_mean(manifold: AbstractManifold, X: Point, w: Array) -> tuple[Point, float]:
    """exp of the mean logarithm at the origin, and once more at the result, which removes the
    rounding of the first.
    """
    p = manifold.origin
    for _ in range(2):
        p = manifold.exp(p, weighted_sum(w, manifold.log(p, X)))
    return p, float(manifold.norm(p, weighted_sum(w, manifold.log(p, X))))


def _of_spread(manifold: AbstractManifold, mean: Point, spread: float) -> Iterator[str]:
    """A sentence where records lie so far from the mean that it may be one of several."""
    kappa = manifold.curvature_bounds[1]
    if (
        not 0 < kappa < math.inf
    ):  # Bures-Wasserstein means of positive definite matrices are unique in any case
        return
    radius = 0.5 * min(float(manifold.injectivity_radius(mean)), math.pi / math.sqrt(kappa))
    if spread >= radius:
        yield (
            f"some records lie farther than {radius:.4g} from the mean on {manifold!r}: the Frechet"
            " mean may not be unique, and what was found may be one of several. Clamp the records"
            " into a smaller public ball (riemdp.Ball)"
        )


def _is_minimum(manifold: AbstractManifold, mean: Point, X: Point, w: Any) -> bool:
    """Whether F = 1/2 sum_i w_i d^2 bends down along no coordinate direction and not along the one
    in which its Hessian is lowest. Differences decide: at a cut locus F has no second derivative.
    """
    dim = int(manifold.dim)
    rows = [_bend(manifold, mean, X, w, e) for e in np.eye(dim)]
    hessian = np.stack([np.asarray(row) for row, _ in rows])
    differences = [float(second) for _, second in rows]
    if np.isfinite(hessian).all():
        lowest = np.linalg.eigh((hessian + hessian.T) / 2)[1][:, 0]
        differences.append(float(_bend(manifold, mean, X, w, lowest)[1]))
    return not min(differences) < -FLAT


@functools.partial(jax.jit, static_argnums=0)
def _bend(manifold: AbstractManifold, mean: Point, X: Point, w: Array, e: Array) -> Any:
    """The Hessian of F at the mean times a unit vector e, in coordinates; and F's second difference
    along e, over the square of the step.
    """

    def objective(c: Array) -> Array:
        return 0.5 * jnp.sum(w * manifold._squared_dist(manifold._exp_coordinates(mean, c), X))

    here = jnp.zeros_like(e)
    _, row = jax.jvp(jax.grad(objective), (here,), (e,))
    ends = objective(STEP * e) + objective(-STEP * e) - 2.0 * objective(here)
    return row, ends / STEP**2


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


def _normalised(weights: ArrayLike | None, n: int) -> Any | None:
    if weights is None:
        return None
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid("weights", weights, f"give {n} non-negative numbers, one a record") from error
    if w.shape != (n,):
        raise InvalidArgument(
            f"argument `weights` has shape {w.shape}; give one non-negative number a record, shape"
            f" ({n},)"
        )
    if not np.all(np.isfinite(w)) or np.any(w < 0) or not np.sum(w) > 0:
        raise InvalidArgument(
            "argument `weights` needs finite numbers that are at least 0 and not all 0"
        )
    w = w / np.max(w)  # first, so that the sum cannot overflow
    return w / np.sum(w)


def _or_equal(w: Any | None, n: int) -> Any:
    return np.full(n, 1.0 / n) if w is None else np.asarray(w)


def _in_place(manifold: AbstractManifold, X: Point) -> bool:
    """Whether the solver, in NumPy, takes the records as they lie: a copy takes longer than a pass
    over them.
    """
    plain = type(X) is np.ndarray and X.dtype == np.float64
    solver = isinstance(manifold, Sphere | SPDAffineInvariant)
    return plain and solver and X.shape[1:] == manifold.shape


def _solver_checks(manifold: AbstractManifold, records: Point) -> bool:
    """Whether the solver finds what `_check_records` would, in a pass that it makes in any case."""
    if isinstance(manifold, SPDAffineInvariant) and manifold.k > 1:
        return bool(np.all(np.isfinite(np.asarray(records))))
    return isinstance(manifold, Sphere)


def _check_records(manifold: AbstractManifold, records: Point, n: int) -> None:
    if isinstance(manifold, Sphere) and _in_place(manifold, records):
        with np.errstate(all="ignore"):
            bad = n - int(np.count_nonzero(is_unit(records)))
    else:
        bad = n - int(np.count_nonzero(np.asarray(manifold.belongs(records, LOOSE))))
    if bad:
        raise InvalidArgument(
            f"argument `X`: {bad} of {n} records are not finite points of {manifold!r} (relative"
            f" error above {LOOSE:g}); remove or repair them, or for a private release clamp them"
            " with riemdp.Ball(center, radius).clamp(manifold, X)"
        )
