"""What the mechanisms share: checks of public arguments and of a value's form, and the wrapped step compiled once a shape."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, invalid, real
from ..manifolds import SPDBuresWasserstein
from ..privacy import Ball, Budget, gaussian_noise_multiplier

CALIBRATIONS = ("analytic", "classical")


def public_point(manifold: Any, name: str, point: Any) -> Any:
    """Check that a public base point or centre lies on the manifold."""
    checked = manifold._coerce(name, point)
    if manifold._batch_shape(checked) != ():
        raise invalid(name, point, f"give a single point of {manifold!r}, without batch axes")
    if not bool(np.asarray(manifold.belongs(checked, 1e-6))):
        raise invalid(name, point, f"it is not a point of {manifold!r}; `manifold.project` makes one of an ambient array")
    return checked


def one_value(manifold: Any, name: str, value: Any) -> Any:
    """A single private value of the right shape and finite. The message never shows what it was."""
    checked = manifold._coerce(name, value)
    if manifold._batch_shape(checked) != ():
        raise InvalidArgument(f"argument `{name}` has batch axes; a release is of one value of {manifold!r}")
    if not all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(checked)):
        raise InvalidArgument(f"argument `{name}` has entries that are not finite; replace such records before computing it "
                              "(Ball.clamp does). Nothing was spent")
    return checked


def point_value(manifold: Any, name: str, value: Any) -> Any:
    """A single private point: `one_value`, and on the manifold."""
    checked = one_value(manifold, name, value)
    if not bool(np.asarray(manifold.belongs(checked, 1e-6))):
        raise InvalidArgument(f"argument `{name}` is not a point of {manifold!r} (its equations fail by more than 1e-6). "
                              "Nothing was spent")
    return checked


def needs_log(manifold: Any, point: Any, who: str) -> None:
    """Raise the manifold's own NotImplementedError before anything else happens where it has no logarithm."""
    try:
        jax.eval_shape(manifold._log, point, point)
    except NotImplementedError as error:
        raise NotImplementedError(f"{who} needs a logarithm: {error}") from error


def gaussian_multiplier(budget: Any, calibration: str) -> float:
    """Noise multiplier for an (epsilon, delta) budget: the analytic calibration, or the classical formula where it is proved."""
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if not budget.delta > 0:
        raise invalid("budget", budget, "a Gaussian mechanism needs delta > 0; for delta = 0 use a pure mechanism "
                      "(RiemannianLaplace, WrappedLaplace, KNormGradient)")
    if calibration == "analytic":
        return gaussian_noise_multiplier(budget)
    if budget.epsilon > 1:
        raise invalid("calibration", calibration, f"the classical formula is proved for epsilon <= 1 only, and the budget has "
                      f"epsilon = {budget.epsilon:g}; use \"analytic\"")
    return math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


def rounded_up(x: float) -> float:
    """One float above x: a product that was rounded down must not make the noise smaller than its guarantee says."""
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
def _log_plus(manifold: Any, base: Any, point: Any, noise: Any) -> Any:
    moved = jax.tree.map(jnp.add, manifold._log(base, point), noise)
    return moved, _exp_everywhere(manifold, base, moved)


@functools.partial(jax.jit, static_argnums=0)
def _exp_and_check(manifold: Any, base: Any, v: Any) -> Any:
    x = _exp_everywhere(manifold, base, v)
    return x


def _exp_everywhere(manifold: Any, base: Any, v: Any) -> tuple[Any, Any]:
    x = _bures_wasserstein_exp(base, v) if isinstance(manifold, SPDBuresWasserstein) else manifold._exp(base, v)
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(x)]))
    return x, finite & jnp.all(manifold._belongs(x, 1e-6))


def _bures_wasserstein_exp(w: Any, u: Any) -> Any:
    # (I + L) W (I + L) is a geodesic's end only while I + L > 0, but it stays positive definite, and at most |U - V| from the
    # end of V, for every symmetric L that keeps I + L regular (it is the quotient of a flat space). Eigenvalues of I + L
    # within 1e-6 of zero are moved there: post-processing of what is already noisy.
    values, vectors = jnp.linalg.eigh(w)
    rotated = vectors.T @ u @ vectors
    moved = jnp.eye(w.shape[-1]) + rotated / (values[:, None] + values[None, :])
    m, q = jnp.linalg.eigh((moved + moved.T) / 2)
    m = jnp.where(jnp.abs(m) < 1e-6, jnp.where(m < 0, -1e-6, 1e-6), m)
    root = (vectors @ ((q * m) @ q.T)) * jnp.sqrt(values)
    return root @ root.T


def wrap(manifold: Any, base: Any, point: Any, noise: Any) -> Any:
    """Exp_base(log_base(point) + noise), always a valid point: a tangent vector so long that its exponential leaves what
    float64 can hold is shortened by powers of two (post-processing, it looks at the noisy vector only)."""
    moved, (x, valid) = _log_plus(manifold, base, point, noise)
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


def clamp_point(manifold: Any, ball: Any, point: Any) -> Any:
    """One point moved radially into the ball (post-processing of a release, or the enforced domain of a value)."""
    batched = jax.tree.map(lambda leaf: leaf[None], point)
    return jax.tree.map(lambda leaf: leaf[0], ball.clamp(manifold, batched))
