"""Textbook formulas in 60-digit arithmetic, and the worst error of the library against them.

The oracles use other formulas than the library wherever there are some (arccos and arccosh distances, transport through two
logarithms, Mobius additions): at 60 digits cancellation does not matter. Inputs are the library's float64 points, put exactly
on the space first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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


ORACLES: dict[str, Any] = {"sphere": SphereOracle(), "lorentz": LorentzOracle(), "poincare": PoincareOracle()}


# ------------------------------------------------------------------------------------------------ samples and errors
@dataclasses.dataclass(frozen=True)
class Inputs:
    """Base points, their images and two tangent vectors, as NumPy arrays (n, length); q = exp(p, v) in float64."""

    p: np.ndarray
    q: np.ndarray
    u: np.ndarray
    v: np.ndarray


def ordinary(m: AbstractManifold, radius: float | None, key: int = 0) -> Inputs:
    s = draw_sample(m, key=key, samples=8, radius=radius)
    return Inputs(*(np.asarray(x) for x in (s.p, s.q, s.u, s.v)))


def scaled(m: AbstractManifold, length: float, key: int = 0) -> Inputs:
    """Tangent vectors v of exactly this Riemannian length (1e-12, or just under the injectivity radius, or far)."""
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
    """Operation -> worst relative error against the oracle (points: relative to the size of the point; vectors and numbers:
    relative to themselves, so that vectors of length 1e-12 have to be right to 16 digits too)."""
    p, q, u, v = inputs.p, inputs.q, inputs.u, inputs.v
    found: dict[str, Any] = {
        "exp": m.exp(p, v), "log": m.log(p, q), "dist": m.dist(p, q), "squared_dist": m.squared_dist(p, q),
        "norm": m.norm(p, v), "inner": m.inner(p, u, v), "transport": m.transport(p, q, u),
        "log_volume_density": m.log_volume_density(p, v),
    }  # fmt: skip
    with mpmath.workdps(DIGITS):
        wanted: dict[str, list[Any]] = {name: [] for name in found}
        sizes: dict[str, list[Any]] = {name: [] for name in found}
        for i in range(len(p)):
            a, b = (oracle.point(_exact(x[i])) for x in (p, q))
            x, y = (oracle.vector(a, _exact(w[i])) for w in (u, v))
            d = oracle.dist(a, b)
            length, other = (mp.sqrt(oracle.inner(a, w, w)) for w in (y, x))
            values = {
                "exp": oracle.exp(a, y), "log": oracle.log(a, b), "dist": d, "squared_dist": d**2, "norm": length,
                "inner": oracle.inner(a, x, y), "transport": oracle.transport(a, b, x),
                "log_volume_density": oracle.log_volume_density(a, y),
            }  # fmt: skip
            for name, value in values.items():
                wanted[name].append(value)
                sizes[name].append(length * other if name == "inner" else _size(value))
        return {name: _worst(np.asarray(found[name]), wanted[name], sizes[name]) for name in found}


def _exact(x: np.ndarray) -> Any:
    return [mp.mpf(float(e)) for e in x]


def _size(value: Any) -> Any:
    return mp.sqrt(_dot(value, value)) if isinstance(value, list) else abs(value)


def _worst(found: np.ndarray, wanted: list[Any], sizes: list[Any]) -> float:
    errors = []
    for f, w, size in zip(found, wanted, sizes, strict=True):
        difference = _size(_add(_exact(f), w, -1)) if isinstance(w, list) else abs(mp.mpf(float(f)) - w)
        errors.append(float(difference / size) if size else float(difference))
    return max(errors)


Regime = Callable[[AbstractManifold], Inputs]

__all__ = ["ORACLES", "Inputs", "Regime", "both_far", "ordinary", "scaled", "worst_errors"]
