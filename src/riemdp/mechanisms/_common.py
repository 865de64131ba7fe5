"""What the mechanisms share: checks of public arguments and of a value's form, and the wrapped step
compiled once a shape.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, invalid, real
from ..domains._clamp import clamp as _clamp
from ..manifolds import SPDBuresWasserstein
from ..privacy import Ball, Budget, gaussian_noise_multiplier

CALIBRATIONS = ("analytic", "classical")
ADJACENCIES = ("replace-one", "add-or-remove-one")  # the first is the default everywhere


def public_point(manifold: Any, name: str, point: Any) -> Any:
    """Check that a public base point or centre lies on the manifold."""
    checked = manifold._coerce(name, point)
    if manifold._batch_shape(checked) != ():
        raise invalid(name, point, f"give a single point of {manifold!r}, without batch axes")
    if not bool(np.asarray(manifold.belongs(checked, 1e-6))):
        raise invalid(
            name,
            point,
            f"it is not a point of {manifold!r}; `manifold.project` makes one of an ambient array",
        )
    return checked


def one_value(manifold: Any, name: str, value: Any) -> Any:
    """A single private value of the right shape and finite. The message never shows what it was."""
    checked = _single(manifold, name, value)
    if not all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(checked)):
        raise _not_finite(name)
    return checked


def admitted(manifold: Any, name: str, value: Any, ball: Any, base: Any = None) -> Any:
    """A single private point, checked and moved into `ball` (if any), or its logarithm at `base`
    where one is given: one compiled call. Raises, without showing the value, if it is not finite or
    not on the manifold.
    """
    checked = _single(manifold, name, value)
    center, radius = (None, None) if ball is None else (ball.center, ball.radius)
    result, flags = _admit(manifold, checked, center, radius, base)
    finite, belongs = np.asarray(flags)
    if not finite:
        raise _not_finite(name)
    if not belongs:
        raise InvalidArgument(
            f"argument `{name}` is not a point of {manifold!r} (its equations fail by more than"
            " 1e-6). Nothing was spent"
        )
    return result


def _single(manifold: Any, name: str, value: Any) -> Any:
    kind = type(
        manifold
    )  # unbound calls: equinox wraps bound methods anew at every access, as costly as the noise
    checked = kind._coerce(manifold, name, value)
    if kind._batch_shape(manifold, checked) != ():
        raise InvalidArgument(
            f"argument `{name}` has batch axes; a release is of one value of {manifold!r}"
        )
    return checked


def _not_finite(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"argument `{name}` has entries that are not finite; replace such records before computing"
        " it (Ball.clamp does). Nothing was spent"
    )


@functools.partial(jax.jit, static_argnums=0)
def _admit(manifold: Any, value: Any, center: Any, radius: Any, base: Any) -> Any:
    flags = jnp.array([_all_finite(value), jnp.all(manifold._belongs(value, 1e-6))])
    point = value if center is None else _clamp(manifold, center, radius, value)
    return (point if base is None else manifold._log(base, point)), flags


def _all_finite(value: Any) -> Any:
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(value)]))


def needs_log(manifold: Any, point: Any, who: str) -> None:
    """Raise the manifold's own NotImplementedError before anything else happens where it has no
    logarithm.
    """
    try:
        jax.eval_shape(manifold._log, point, point)
    except NotImplementedError as error:
        raise NotImplementedError(f"{who} needs a logarithm: {error}") from error


def gaussian_multiplier(budget: Any, calibration: str) -> float:
    """Noise multiplier for an (epsilon, delta) budget: the analytic calibration, or the classical
    formula where it is proved.
    """
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
        return gaussian_noise_multiplier(budget)
    if budget.epsilon > 1:
        raise invalid(
            "calibration",
            calibration,
            f"the classical formula is proved for epsilon <= 1 only, and the budget has "
            f'epsilon = {budget.epsilon:g}; use "analytic"',
        )
    return math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


def rounded_up(x: float) -> float:
    """One float above x: a product that was rounded down must not make the noise smaller than its
    guarantee says.
    """
    return math.nextafter(x, math.inf)


def optional_ball(manifold: Any, ball: Any) -> Any:
    """A ball whose centre is a point of the manifold, or None."""
    if ball is None:
        return None
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius)")
    public_point(manifold, "ball.center", ball.center)
    real("ball.radius", ball.radius, above=0.0)
    return ball


@functools.partial(jax.jit, static_argnums=0)
def _noisy_exp(manifold: Any, base: Any, v: Any, z: Any, scale: Any, length: Any) -> Any:
    """Exp_base(v + noise): noise is scale times the Gaussian tangent vector of z, or of the given
    length.
    """
    direction = manifold._tangent_from_normals(base, z)
    factor = scale if length is None else length / manifold._norm(base, direction)
    moved = jax.tree.map(lambda a, b: a + factor * b, v, direction)
    return moved, _exp_everywhere(manifold, base, moved)


@functools.partial(jax.jit, static_argnums=0)
def _exp_and_check(manifold: Any, base: Any, v: Any) -> Any:
    return _exp_everywhere(manifold, base, v)


def _exp_everywhere(manifold: Any, base: Any, v: Any) -> tuple[Any, Any]:
    x = (
        _bures_wasserstein_exp(base, v)
        if isinstance(manifold, SPDBuresWasserstein)
        else manifold._exp(base, v)
    )
    return x, _all_finite(x) & jnp.all(manifold._belongs(x, 1e-6))


def _bures_wasserstein_exp(w: Any, u: Any) -> Any:
    # (I + L) W (I + L) is a geodesic's end only while I + L > 0, but it stays positive definite,
    # and at most |U - V| from the end of V, for every symmetric L that keeps I + L regular (it is
    # the quotient of a flat space). Eigenvalues of I + L within 1e-6 of zero are moved there:
    # post-processing of what is already noisy.
    values, vectors = jnp.linalg.eigh(w)
    rotated = vectors.T @ u @ vectors
    moved = jnp.eye(w.shape[-1]) + rotated / (values[:, None] + values[None, :])
    m, q = jnp.linalg.eigh((moved + moved.T) / 2)
    m = jnp.where(jnp.abs(m) < 1e-6, jnp.where(m < 0, -1e-6, 1e-6), m)
    root = (vectors @ ((q * m) @ q.T)) * jnp.sqrt(values)
    return root @ root.T


def wrap(
    manifold: Any, base: Any, v: Any, z: Any, *, scale: float = 1.0, length: float | None = None
) -> Any:
    """Exp_base(v + noise), always a valid point: a tangent vector so long that its exponential
    leaves what float64 can hold is shortened by powers of two (post-processing, it looks at the
    noisy vector only). Noise as in `_noisy_exp`.
    """
    moved, (x, valid) = _noisy_exp(manifold, base, v, z, scale, length)
    return _shortened(manifold, base, moved, x, valid)


def exp_valid(manifold: Any, base: Any, v: Any) -> Any:
    """Exp_base(v), shortened as in `wrap` where float64 cannot hold the result."""
    x, valid = _exp_and_check(manifold, base, v)
    return _shortened(manifold, base, v, x, valid)


def _shortened(manifold: Any, base: Any, v: Any, x: Any, valid: Any) -> Any:
    for _ in range(80):
        if bool(valid):
            return x
        v = jax.tree.map(lambda leaf: leaf / 2, v)
        x, valid = _exp_and_check(manifold, base, v)
    return base


@functools.partial(jax.jit, static_argnums=0)
def as_point(manifold: Any, x: Any) -> Any:
    """(x as JAX arrays, whether it is a valid point)."""
    return x, _all_finite(x) & jnp.all(manifold._belongs(x, 1e-6))


def clamp_point(manifold: Any, ball: Any, point: Any) -> Any:
    """One point moved radially into the ball (post-processing of a release, or the enforced domain
    of a value).
    """
    return _clamp(manifold, ball.center, ball.radius, jax.tree.map(jnp.asarray, point))
