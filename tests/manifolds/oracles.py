"""Textbook formulas in 60-digit arithmetic, and the worst error of the library against them.

The oracles use other formulas than the library wherever there are some (arccos and arccosh
distances, transport through two logarithms, Mobius additions): at 60 digits cancellation does not
matter. Inputs are the library's float64 points, put exactly on the space first.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

from riemdp.manifolds import AbstractManifold
from riemdp.manifolds._check import draw_sample

Vector = list[Any]
DIGITS = 60


def _dot(a: Vector, b: Vector) -> Any:
    return mp.fsum(x * y for x, y in zip(a, b, strict=True))


def _add(a: Vector, b: Vector, scale: Any = 1) -> Vector:
    return [x + scale * y for x, y in zip(a, b, strict=True)]


def _times(scale: Any, a: Vector) -> Vector:
    return [scale * x for x in a]


class SphereOracle:
    """The unit sphere; curvature sign +1."""

    def form(self, u: Vector, v: Vector) -> Any:
        return _dot(u, v)

    def point(self, x: Vector) -> Vector:
        return _times(1 / mp.sqrt(_dot(x, x)), x)

    def vector(self, p: Vector, v: Vector) -> Vector:
        return _add(v, p, -_dot(p, v))

    def inner(self, p: Vector, u: Vector, v: Vector) -> Any:
        return self.form(u, v)

    def exp(self, p: Vector, v: Vector) -> Vector:
        t = mp.sqrt(self.form(v, v))
        return _add(_times(mp.cos(t), p), v, mp.sin(t) / t)

    def dist(self, p: Vector, q: Vector) -> Any:
        return mp.acos(self.form(p, q))

    def log(self, p: Vector, q: Vector) -> Vector:
        t = self.dist(p, q)
        return _times(t / mp.sin(t), _add(q, p, -mp.cos(t)))

    def transport(self, p: Vector, q: Vector, v: Vector) -> Vector:
        ahead, back = self.log(p, q), self.log(q, p)
        return _add(v, _add(ahead, back), -self.inner(p, ahead, v) / self.inner(p, ahead, ahead))

    def log_volume_density(self, p: Vector, v: Vector) -> Any:
        t = mp.sqrt(self.form(v, v))
        return (len(p) - 2) * mp.log(mp.sin(t) / t)


class LorentzOracle(SphereOracle):
    """The hyperboloid: the sphere's formulas with hyperbolic functions."""

    def form(self, u: Vector, v: Vector) -> Any:
        return _dot(u[1:], v[1:]) - u[0] * v[0]

    def point(self, x: Vector) -> Vector:
        return [mp.sqrt(1 + _dot(x[1:], x[1:])), *x[1:]]

    def vector(self, p: Vector, v: Vector) -> Vector:
        return [_dot(p[1:], v[1:]) / p[0], *v[1:]]

    def exp(self, p: Vector, v: Vector) -> Vector:
        t = mp.sqrt(self.form(v, v))
        return _add(_times(mp.cosh(t), p), v, mp.sinh(t) / t)

    def dist(self, p: Vector, q: Vector) -> Any:
        return mp.acosh(-self.form(p, q))

    def log(self, p: Vector, q: Vector) -> Vector:
        t = self.dist(p, q)
        return _times(t / mp.sinh(t), _add(q, p, -mp.cosh(t)))

    def log_volume_density(self, p: Vector, v: Vector) -> Any:
        t = mp.sqrt(self.form(v, v))
        return (len(p) - 2) * mp.log(mp.sinh(t) / t)


class PoincareOracle:
    """The ball, by Mobius additions."""

    def point(self, x: Vector) -> Vector:
        return x

    def vector(self, p: Vector, v: Vector) -> Vector:
        return v

    def _factor(self, p: Vector) -> Any:
        return 2 / (1 - _dot(p, p))

    def _mobius(self, x: Vector, y: Vector) -> Vector:
        xy, xx, yy = _dot(x, y), _dot(x, x), _dot(y, y)
        return _times(1 / (1 + 2 * xy + xx * yy), _add(_times(1 + 2 * xy + yy, x), y, 1 - xx))

    def inner(self, p: Vector, u: Vector, v: Vector) -> Any:
        return self._factor(p) ** 2 * _dot(u, v)

    def exp(self, p: Vector, v: Vector) -> Vector:
        t = mp.sqrt(_dot(v, v))
        return self._mobius(p, _times(mp.tanh(self._factor(p) * t / 2) / t, v))

    def dist(self, p: Vector, q: Vector) -> Any:
        d = _add(q, p, -1)
        return mp.acosh(1 + 2 * _dot(d, d) / ((1 - _dot(p, p)) * (1 - _dot(q, q))))

    def log(self, p: Vector, q: Vector) -> Vector:
        z = self._mobius(_times(-1, p), q)
        t = mp.sqrt(_dot(z, z))
        return _times(2 / self._factor(p) * mp.atanh(t) / t, z)

    def transport(self, p: Vector, q: Vector, v: Vector) -> Vector:
        a, b = q, _times(-1, p)
        # The gyration is linear; a vector scaled into the ball keeps the Mobius additions defined.
        scale = 4 * mp.sqrt(_dot(v, v))
        u = _times(1 / scale, v)
        turned = self._mobius(_times(-1, self._mobius(a, b)), self._mobius(a, self._mobius(b, u)))
        return _times(scale * self._factor(p) / self._factor(q), turned)

    def log_volume_density(self, p: Vector, v: Vector) -> Any:
        t = mp.sqrt(self.inner(p, v, v))
        return (len(p) - 1) * mp.log(mp.sinh(t) / t)


ORACLES: dict[str, Any] = {
    "sphere": SphereOracle(),
    "lorentz": LorentzOracle(),
    "poincare": PoincareOracle(),
}


# ------------------------------------------------------------------------------------------------
# samples and errors
@dataclasses.dataclass(frozen=True)
class Inputs:
    """Base points, their images and two tangent vectors, as NumPy arrays (n, length); q = exp(p, v)
    in float64.
    """

    p: np.ndarray
    q: np.ndarray
    u: np.ndarray
    v: np.ndarray


def ordinary(m: AbstractManifold, radius: float | None, key: int = 0) -> Inputs:
    # the batch size of `check`, so that both use one compilation
    s = draw_sample(m, key=key, radius=radius)
    return Inputs(*(np.asarray(x) for x in (s.p, s.q, s.u, s.v)))


def scaled(m: AbstractManifold, length: float, key: int = 0) -> Inputs:
    """Tangent vectors v of exactly this Riemannian length (1e-12, or just under the injectivity
    radius, or far).
    """
    s = ordinary(m, None, key)
    v = s.v * (length / np.asarray(m.norm(s.p, s.v)))[:, None]
    return Inputs(s.p, np.asarray(m.exp(s.p, v)), s.u, v)


def both_far(m: AbstractManifold, distance: float, key: int = 0) -> Inputs:
    """Base points at this distance from the origin, and neighbours at distance about 1."""
    s = ordinary(m, 1.0, key)
    c = np.random.default_rng(key).standard_normal((len(s.p), m.dim))
    c *= distance / np.linalg.norm(c, axis=-1, keepdims=True)
    p = np.asarray(m.exp(m.origin, m.from_coordinates(m.origin, c)))
    u, v = (np.asarray(m.from_coordinates(p, m.to_coordinates(s.p, x))) for x in (s.u, s.v))
    return Inputs(p, np.asarray(m.exp(p, v)), u, v)


def worst_errors(m: AbstractManifold, oracle: Any, inputs: Inputs) -> dict[str, float]:
    """Operation -> worst relative error against the oracle.

    Points: ambient error relative to the ambient size. Tangent vectors: Riemannian length of the
    error relative to that of the vector, and numbers relative to themselves, so that vectors of
    length 1e-12 have to be right to 16 digits too.
    """
    p, q, u, v = inputs.p, inputs.q, inputs.u, inputs.v
    found: dict[str, Any] = {
        "exp": m.exp(p, v),
        "log": m.log(p, q),
        "dist": m.dist(p, q),
        "squared_dist": m.squared_dist(p, q),
        "norm": m.norm(p, v),
        "inner": m.inner(p, u, v),
        "transport": m.transport(p, q, u),
        "log_volume_density": m.log_volume_density(p, v),
    }
    errors: dict[str, list[float]] = {name: [] for name in found}
    with mpmath.workdps(DIGITS):
        for i in range(len(p)):
            a, b = (oracle.point(_exact(x[i])) for x in (p, q))
            x, y = (oracle.vector(a, _exact(w[i])) for w in (u, v))
            d = oracle.dist(a, b)
            longer, length = (mp.sqrt(oracle.inner(a, w, w)) for w in (x, y))
            numbers = {
                "dist": (d, d),
                "squared_dist": (d**2, d**2),
                "norm": (length, length),
                "inner": (oracle.inner(a, x, y), longer * length),
                "log_volume_density": (oracle.log_volume_density(a, y),) * 2,
            }
            for name, (value, size) in numbers.items():
                errors[name].append(abs((mp.mpf(float(found[name][i])) - value) / size))
            for name, base, value, size in (
                ("log", a, oracle.log(a, b), d),
                ("transport", b, oracle.transport(a, b, x), longer),
            ):
                wrong = oracle.vector(base, _add(_exact(np.asarray(found[name][i])), value, -1))
                errors[name].append(mp.sqrt(oracle.inner(base, wrong, wrong)) / size)
            end = oracle.exp(a, y)
            wrong = _add(_exact(np.asarray(found["exp"][i])), end, -1)
            errors["exp"].append(mp.sqrt(_dot(wrong, wrong) / _dot(end, end)))
        return {name: float(max(values)) for name, values in errors.items()}


def _exact(x: np.ndarray) -> Vector:
    return [mp.mpf(float(e)) for e in x]


__all__ = ["ORACLES", "Inputs", "both_far", "ordinary", "scaled", "worst_errors"]
