"""What mechanisms share: checks of public arguments and of a private value's form, calibration, and
the exponential map of noisy tangent vectors.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid
from .._isolation import isolated
from .._trees import all_finite, map_leaves
from ..domains import Ball, Domain
from ..domains._clamp import LOOSE, clamp
from ..domains._ends import exp_everywhere, shortened
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._noise import Noise

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array

Floats = NDArray[np.float64]

CALIBRATIONS = ("analytic", "classical")
ADJACENCIES = ("replace-one", "add-or-remove-one")  # the first is the default everywhere


# -------------------------------------------------------------------- public arguments
def optional_ball(manifold: AbstractManifold, ball: Ball | None) -> Ball | None:
    """A ball that fits the manifold, or None."""
    if ball is None:
        return None
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius)")
    ball.on(manifold)
    return ball


def optional_domain(manifold: AbstractManifold, ball: Ball | None) -> Domain | None:
    """The ball bound to the manifold, or None; values can be moved into it."""
    checked = optional_ball(manifold, ball)
    if checked is None:
        return None
    domain = checked.on(manifold)
    _ = domain.fold  # raises where a move would take values apart
    return domain


def needs_log(manifold: AbstractManifold, who: str) -> None:
    """Raise the manifold's own NotImplementedError where it has no logarithm."""
    missing = _missing_log(manifold)
    if missing is not None:
        raise NotImplementedError(f"{who} needs a logarithm: {missing}") from missing


@functools.lru_cache(maxsize=256)
@isolated
def _missing_log(manifold: AbstractManifold) -> NotImplementedError | None:
    try:
        manifold._log(manifold.origin, manifold.origin)
    except NotImplementedError as error:
        return error
    return None


def gaussian_multiplier(budget: Budget | Noise, calibration: str) -> float:
    """Noise multiplier for a budget with delta > 0.

    Args:
        budget: What one release may spend; or Gaussian noise that was made of it, which is
            "analytic".
        calibration: "analytic", or "classical": sqrt(2 ln(1.25 / delta)) / epsilon, which is proved
            for epsilon <= 1 only.
    """
    if isinstance(budget, Noise) and calibration == "analytic":
        return Noise.of(budget, pure=False).multiplier
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            "a Gaussian mechanism needs delta > 0; for delta = 0 use a pure mechanism "
            "(RiemannianLaplace, WrappedLaplace, KNormGradient)",
        )
    if calibration == "analytic":
        return Noise.of(budget).multiplier
    if budget.epsilon > 1:
        raise invalid(
            "calibration",
            calibration,
            f"the classical formula is proved for epsilon <= 1 only, and the budget has "
            f'epsilon = {budget.epsilon:g}; use "analytic"',
        )
    return math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


# -------------------------------------------------------------------- private values
def one_value(manifold: AbstractManifold, name: str, value: Point) -> Point:
    """A single private value of the right shape and finite. The message never shows what it was."""
    checked = _single(manifold, name, value)
    if not all_finite(checked):
        raise InvalidArgument(
            f"argument `{name}` has entries that are not finite; replace such records before"
            " computing it (Ball.clamp does). Nothing was spent"
        )
    return checked


def admitted(manifold: AbstractManifold, name: str, value: Point, domain: Domain | None) -> Point:
    """Validate one private point, and move it into `domain` if given.

    A value that satisfies the equations of the space loosely is carried onto it: formulas hold
    there, and a frame that is off by 1e-12 is not the subspace that it spans. Every value is, by
    the same formula, and each factor of a product by itself: one that projected only what is off by
    more than rounding, and lifted lost eigenvalues then, would be a jump.

    The move takes no two values farther apart (`Domain.fold`), so that the sensitivity of the value
    given is that of the value moved. Proof: docs/proofs/gaussian.md, Lemma 9.

    Raises:
        InvalidArgument: Not one finite point of the manifold. The message never shows the value.
    """
    checked = one_value(manifold, name, value)
    if not np.all(manifold._belongs(checked, LOOSE)):
        raise InvalidArgument(
            f"argument `{name}` is not a point of {manifold!r} (its equations fail by more than"
            " 1e-6). Nothing was spent"
        )
    point = manifold._repair(checked)
    return point if domain is None else domain.fold_value(point)


def admitted_coordinates(
    manifold: AbstractManifold, name: str, value: Point, domain: Domain | None, at: Any
) -> Floats:
    """The same, as orthonormal coordinates of the log at a public base, of which `at` is
    `prepared`.
    """
    point = admitted(manifold, name, value, domain)
    return np.asarray(manifold._log_coordinates_from(at, point))


def _single(manifold: AbstractManifold, name: str, value: Point) -> Point:
    checked = map_leaves(np.asarray, manifold._coerce(name, value))  # on the host
    if manifold._batch_shape(checked) != ():
        raise InvalidArgument(
            f"argument `{name}` has batch axes; a release is of one value of {manifold!r}"
        )
    return checked


def tangent_coordinates(
    manifold: AbstractManifold, name: str, value: Tangent, point: Point, at: Any
) -> tuple[Floats, bool]:
    """The coordinates of one finite private vector at a public point, of which `at` is `prepared`,
    and whether it is tangent there (to an error of 1e-6).

    Raises:
        InvalidArgument: Not one finite array. The message never shows the value.
    """
    checked = one_value(manifold, name, value)
    y = np.asarray(manifold._to_coordinates_from(at, checked))
    return y, bool(np.all(manifold._is_tangent(point, checked, 1e-6)))


def prepared(manifold: AbstractManifold, base: Point) -> Any:
    """What formulas need of a public base, worked out once and for all."""
    return manifold._prepared(base)


def from_coordinates(manifold: AbstractManifold, at: Any, y: Floats) -> Tangent:
    """The tangent vector with these coordinates, where `at` is `prepared`."""
    return manifold._from_coordinates_from(at, y)


# -------------------------------------------------------------------- noisy tangent vectors
def wrap(
    manifold: AbstractManifold, base: Point, v: Tangent, z: Array | np.ndarray, length: float
) -> tuple[Point, Floats]:
    """Exp_base of a noisy tangent vector, always a valid point, and the orthonormal coordinates of
    that vector.

    The noise has the direction of the Gaussian tangent vector of the normals z, and the given
    length. What follows looks at the noisy vector alone: it is halved until float64 can hold its
    exponential.

    Args:
        manifold: The space.
        base: The public point.
        v: The private tangent vector at `base`.
        z: Standard normals, (noise_size,).
        length: Length of the noise.
    """
    noisy, (x, valid), y = _noisy_exp(manifold, base, v, z, length)
    end = functools.partial(_exp_and_check, manifold, base)
    return shortened(end, noisy, x, valid, base), np.asarray(y)


def _noisy_exp(
    manifold: AbstractManifold, base: Point, v: Tangent, z: Array, length: float | Array
) -> tuple[Tangent, tuple[Point, Bool[Array, ""]], Array]:
    direction = manifold._tangent_from_normals(base, z)
    factor = length / manifold._norm(base, direction)
    noisy = map_leaves(lambda a, b: a + factor * b, v, direction)
    y = manifold._to_coordinates(base, noisy)
    return noisy, exp_everywhere(manifold, base, noisy), y


def _exp_and_check(
    manifold: AbstractManifold, base: Point, v: Tangent
) -> tuple[Point, Bool[Array, ""]]:
    return exp_everywhere(manifold, base, v)


def clamp_point(manifold: AbstractManifold, ball: Ball, point: Point) -> Point:
    """One point moved radially into the ball: post-processing of a release."""
    return clamp(manifold, ball.center, ball.radius, map_leaves(np.asarray, point))
