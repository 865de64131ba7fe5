"""The properties behind `check`: each takes a manifold and a sample and returns its worst error, a
number near 0.

They call only public operations (those that users rely on), except where the derivative of a
formula is the point. The glue is NumPy on the host, and only two batch shapes occur, (n,) and (4,
n), so that each operation is compiled at most twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ._base import AbstractManifold

Manifold = AbstractManifold


@dataclasses.dataclass(frozen=True)
class Sample:
    """Base points p, tangent vectors u, v, w at p, points q = exp(p, v) and r; `coordinates` (4, n,
    dim) of u, v, w and log r.
    """

    key: int
    p: Any
    q: Any
    r: Any
    u: Any
    v: Any
    w: Any
    coordinates: np.ndarray


@dataclasses.dataclass(frozen=True)
class Property:
    error: Callable[[Manifold, Sample], float]
    tolerance: float
    meaning: str


PROPERTIES: dict[str, Property] = {}


def _property(
    tolerance: float, meaning: str
) -> Callable[[Callable[[Manifold, Sample], float]], Any]:
    def register(error: Callable[[Manifold, Sample], float]) -> Callable[[Manifold, Sample], float]:
        PROPERTIES[error.__name__.strip("_")] = Property(error, tolerance, meaning)
        return error

    return register


# ------------------------------------------------------------------------ small linear algebra on
# points that may be tuples
def _combine(*terms: tuple[Any, Any]) -> Any:
    """Sum of scale * array, leaf by leaf; a scale is a number or an array over the leading axes."""

    def leaf(*arrays: Any) -> np.ndarray:
        total: Any = 0.0
        for (scale, _), x in zip(terms, arrays, strict=True):
            s = np.asarray(scale, dtype=np.float64)
            total = total + s.reshape(s.shape + (1,) * (np.ndim(x) - s.ndim)) * np.asarray(x)
        return np.asarray(total)

    return jax.tree.map(leaf, *(x for _, x in terms))


def _minus(a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: np.asarray(x) - np.asarray(y), a, b)


def _size(x: Any, axes: int = 1) -> np.ndarray:
    """Ambient norm over everything but the leading `axes` axes."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(x)]
    return np.sqrt(sum(np.sum(leaf**2, axis=tuple(range(axes, leaf.ndim))) for leaf in leaves))


def _worst(*errors: Any) -> float:
    """Largest error; NaN if any is NaN."""
    return float(
        np.max([np.max(np.abs(np.asarray(e, dtype=np.float64))) for e in errors])
    )  # NumPy's max keeps a NaN


def _relative(error: Any, size: Any) -> np.ndarray:
    return np.asarray(error) / np.maximum(np.asarray(size), 1e-300)


_OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
_WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
_STEP = 1e-3


def _scaled(v: Any, factors: np.ndarray, axis: Any = None) -> Any:
    """Stack of v * factor (or v + axis * factor) over a new leading axis of length 4."""
    if axis is None:
        return jax.tree.map(lambda x: np.stack([f * np.asarray(x) for f in factors]), v)
    return jax.tree.map(
        lambda x, y: np.stack([np.asarray(x) + f * np.asarray(y) for f in factors]), v, axis
    )


def _slope(values: Any) -> Any:
    """Five-point first derivative from values at the four offsets."""
    return jax.tree.map(lambda x: np.tensordot(_WEIGHTS, np.asarray(x), axes=1) / _STEP, values)


def _unit(m: Manifold, i: int, n: int) -> np.ndarray:
    return np.broadcast_to(np.eye(m.dim)[i], (n, m.dim))


def _frame(m: Manifold, p: Any, n: int) -> list[Any]:
    return [m.from_coordinates(p, _unit(m, i, n)) for i in range(m.dim)]


# ---------------------------------------------------------------------------------------------------
# points and vectors
@_property(
    0.0,
    "dim, noise_size, curvature_bounds, is_hadamard, injectivity radius and origin agree; instances"
    " hash",
)
def facts(m: Manifold, s: Sample) -> float:
    low, high = m.curvature_bounds
    reach = np.asarray(m.injectivity_radius(s.p))
    wrong = [
        low > high,
        m.noise_size < m.dim or m.dim < 1,
        m.is_hadamard and not (high <= 0.0 and bool(np.all(np.isinf(reach)))),
        not bool(np.all(reach > 0.0)),
        not bool(m.belongs(m.origin)),
        hash(m) != hash(jax.tree.unflatten(jax.tree.structure(m), jax.tree.leaves(m))),
    ]
    return float(sum(wrong))


@_property(
    0.0, "random points and the results of exp, retract and project belong; NaN and infinity do not"
)
def points_belong(m: Manifold, s: Sample) -> float:
    good = [s.p, s.q, s.r, m.retract(s.p, s.v), m.project(_combine((1.0, s.p), (0.01, s.u)))]
    bad = [_spoiled(s.p, np.nan), _spoiled(s.p, np.inf)]
    wrong = sum(float(np.mean(~np.asarray(m.belongs(x)))) for x in good)
    return wrong + sum(float(np.mean(np.asarray(m.belongs(x)))) for x in bad)


def _spoiled(p: Any, value: float) -> Any:
    """p with `value` in one entry of each leaf."""

    def leaf(x: Any) -> np.ndarray:
        x = np.array(x)
        x.reshape(x.shape[0], -1)[:, -1] = value
        return x

    return jax.tree.map(leaf, p)


@_property(
    0.0, "a NaN in a point or a vector is seen in distances and norms, never turned into a number"
)
def nan_is_not_hidden(m: Manifold, s: Sample) -> float:
    answers = [
        m.norm(s.p, _spoiled(s.v, np.nan)),
        m.dist(s.p, _spoiled(s.q, np.nan)),
        m.squared_dist(s.p, _spoiled(s.q, np.nan)),
    ]
    return float(sum(np.mean(np.isfinite(np.asarray(a))) for a in answers))


@_property(
    0.0,
    "results of from_coordinates, to_tangent, egrad_to_rgrad, tangent noise, log and transport are"
    " tangent",
)
def vectors_are_tangent(m: Manifold, s: Sample) -> float:
    noise = np.random.default_rng(s.key).standard_normal((len(s.coordinates[0]), m.noise_size))
    at_p = [
        s.u,
        m.to_tangent(s.p, s.q),
        m.egrad_to_rgrad(s.p, s.q),
        m.tangent_from_normals(s.p, noise),
    ]
    wrong = sum(float(np.mean(~np.asarray(m.is_tangent(s.p, x)))) for x in at_p)
    for operation, arguments, base in (
        (m.log, (s.p, s.q), s.p),
        (m.transport, (s.p, s.q, s.u), s.q),
    ):
        try:
            wrong += float(np.mean(~np.asarray(m.is_tangent(base, operation(*arguments)))))
        except NotImplementedError:
            continue
    return wrong


@_property(1e-9, "to_tangent is idempotent and leaves tangent vectors alone")
def to_tangent_is_a_projection(m: Manifold, s: Sample) -> float:
    once = m.to_tangent(s.p, s.q)
    return _worst(
        _relative(_size(_minus(m.to_tangent(s.p, once), once)), 1.0 + _size(once)),
        _relative(_size(_minus(m.to_tangent(s.p, s.v), s.v)), _size(s.v)),
    )


@_property(1e-9, "project is idempotent and leaves points alone")
def project_is_a_projection(m: Manifold, s: Sample) -> float:
    once = m.project(_combine((1.0, s.p), (0.01, s.u)))
    return _worst(
        _relative(_size(_minus(m.project(once), once)), 1.0 + _size(once)),
        _relative(_size(_minus(m.project(s.p), s.p)), 1.0 + _size(s.p)),
    )


# ---------------------------------------------------------------------------------------------------
# metric and frames
@_property(
    1e-10,
    "inner is symmetric, bilinear and positive; norm is its root, also for vectors of length 1e-12",
)
def inner_is_bilinear(m: Manifold, s: Sample) -> float:
    p, u, v, w = s.p, s.u, s.v, s.w
    nu, nv, nw = (np.asarray(m.norm(p, x)) for x in (u, v, w))
    mixed = m.inner(p, _combine((2.0, u), (-3.0, w)), v) - (
        2.0 * m.inner(p, u, v) - 3.0 * m.inner(p, w, v)
    )
    tiny = np.asarray(m.norm(p, _combine((1e-12, v)))) / (1e-12 * nv) - 1.0
    return _worst(
        _relative(m.inner(p, u, v) - m.inner(p, v, u), nu * nv),
        _relative(mixed, (2.0 * nu + 3.0 * nw) * nv),
        _relative(m.norm(p, v) ** 2 - m.inner(p, v, v), nv**2),
        tiny,
        np.where(nv > 0.0, 0.0, np.inf),
    )


@_property(
    1e-9, "from_coordinates of the unit vectors is an orthonormal basis of the tangent space"
)
def frame_is_orthonormal(m: Manifold, s: Sample) -> float:
    basis = _frame(m, s.p, len(s.coordinates[0]))
    gram = np.array([[np.asarray(m.inner(s.p, a, b)) for b in basis] for a in basis])
    return _worst(gram - np.eye(m.dim)[:, :, None])


@_property(1e-9, "to_coordinates inverts from_coordinates and keeps lengths")
def coordinates_round_trip(m: Manifold, s: Sample) -> float:
    c = np.asarray(m.to_coordinates(s.p, s.u))
    noise = m.tangent_from_normals(
        s.p, np.random.default_rng(s.key).standard_normal((len(c), m.noise_size))
    )
    size = np.asarray(m.norm(s.p, noise))
    again = m.from_coordinates(s.p, m.to_coordinates(s.p, noise))
    return _worst(
        _relative(np.linalg.norm(c - s.coordinates[0], axis=-1), np.linalg.norm(c, axis=-1)),
        _relative(m.norm(s.p, _minus(again, noise)), size),
        _relative(np.linalg.norm(np.asarray(m.to_coordinates(s.p, noise)), axis=-1) - size, size),
    )


@_property(
    1e-9,
    "tangent_from_normals is linear with covariance exactly the identity in an orthonormal frame",
)
def noise_is_isotropic(m: Manifold, s: Sample) -> float:
    n, k = len(s.coordinates[0]), m.noise_size
    columns = [
        np.asarray(
            m.to_coordinates(
                s.p, m.tangent_from_normals(s.p, np.broadcast_to(np.eye(k)[i], (n, k)))
            )
        )
        for i in range(k)
    ]
    factor = np.stack(columns, axis=-1)  # (n, dim, noise_size): coordinates = factor @ z
    z = np.random.default_rng(s.key).standard_normal((n, k))
    drawn = np.asarray(m.to_coordinates(s.p, m.tangent_from_normals(s.p, z)))
    return _worst(
        factor @ np.swapaxes(factor, -1, -2) - np.eye(m.dim),
        _relative(
            drawn - np.einsum("nij,nj->ni", factor, z), np.linalg.norm(z, axis=-1, keepdims=True)
        ),
    )


# ---------------------------------------------------------------------------------------------------
# geodesics
@_property(
    1e-7,
    "exp(p, t v) leaves p with velocity v and keeps the speed |v| (finite differences at t = 0 and"
    " t = 0.7)",
)
def geodesic_speed(m: Manifold, s: Sample) -> float:
    start = _minus(_slope(m.exp(s.p, _scaled(s.v, _STEP * _OFFSETS))), s.v)
    speed = np.asarray(m.norm(s.p, s.v))
    middle = m.exp(s.p, _combine((0.7, s.v)))
    velocity = m.to_tangent(middle, _slope(m.exp(s.p, _scaled(s.v, 0.7 + _STEP * _OFFSETS))))
    return _worst(
        _relative(m.norm(s.p, m.to_tangent(s.p, start)), speed),
        _relative(m.norm(middle, velocity) - speed, speed),
    )


@_property(1e-9, "exp(p, 0) = p, and walking half way twice is walking the whole way")
def exp_follows_itself(m: Manifold, s: Sample) -> float:
    still = _relative(_size(_minus(m.exp(s.p, _combine((0.0, s.v))), s.p)), _size(s.p))
    half = m.exp(s.p, _combine((0.5, s.v)))
    onwards = m.log(half, s.q)
    speed = np.asarray(m.norm(s.p, s.v))
    return _worst(
        still,
        _relative(m.norm(half, onwards) - 0.5 * speed, speed),
        _relative(m.dist(s.p, half) - 0.5 * speed, speed),
    )


@_property(1e-9, "log inverts exp, and exp inverts log")
def exp_and_log_are_inverse(m: Manifold, s: Sample) -> float:
    back = m.log(s.p, s.q)
    return _worst(
        _relative(m.norm(s.p, _minus(back, s.v)), m.norm(s.p, s.v)),
        _relative(m.dist(m.exp(s.p, back), s.q), m.norm(s.p, s.v)),
    )


@_property(
    1e-9, "dist(p, q) = |log(p, q)| = |v| for q = exp(p, v), symmetric; squared_dist is its square"
)
def dist_is_length_of_log(m: Manifold, s: Sample) -> float:
    d = np.asarray(m.dist(s.p, s.q))
    return _worst(
        _relative(m.norm(s.p, m.log(s.p, s.q)) - d, d),
        _relative(m.norm(s.p, s.v) - d, d),
        _relative(m.dist(s.q, s.p) - d, d),
        _relative(m.squared_dist(s.p, s.q) - d**2, d**2),
    )


@_property(0.0, "dist(p, p) and squared_dist(p, p) are exactly 0")
def dist_to_itself_is_zero(m: Manifold, s: Sample) -> float:
    return _worst(*(op(x, x) for op in (m.dist, m.squared_dist) for x in (s.p, s.q)))


@_property(1e-12, "dist(p, r) <= dist(p, q) + dist(q, r)")
def triangle_inequality(m: Manifold, s: Sample) -> float:
    a, b, c = (np.asarray(m.dist(x, y)) for x, y in ((s.p, s.q), (s.q, s.r), (s.p, s.r)))
    return _worst(
        np.where(
            np.isnan(a + b + c),
            np.nan,
            np.maximum(0.0, np.maximum.reduce([c - a - b, a - b - c, b - a - c])),
        )
    )


@_property(
    1e-6,
    "dist and log keep their relative accuracy for points 1e-7 apart (an arccos formula does not)",
)
def close_points(m: Manifold, s: Sample) -> float:
    step = _combine((1e-7, s.v))
    near = m.exp(s.p, step)
    length = np.asarray(m.norm(s.p, step))
    return _worst(
        _relative(m.dist(s.p, near) - length, length),
        _relative(m.norm(s.p, _minus(m.log(s.p, near), step)), length),
    )


@_property(1e-2, "retract(p, t v) = exp(p, t v) + O(t^2)")
def retract_is_first_order(m: Manifold, s: Sample) -> float:
    t = 1e-3
    walked, approximate = (op(s.p, _combine((t, s.v))) for op in (m.exp, m.retract))
    try:
        error = np.asarray(m.dist(walked, approximate))
    except NotImplementedError:
        error = _size(_minus(walked, approximate))
    return _worst(_relative(error, t * np.asarray(m.norm(s.p, s.v))))


# ---------------------------------------------------------------------------------------------------
# transport
@_property(
    1e-9, "transport is linear, keeps inner products and, to the same point, leaves vectors alone"
)
def transport_is_an_isometry(m: Manifold, s: Sample) -> float:
    moved_u, moved_w = m.transport(s.p, s.q, s.u), m.transport(s.p, s.q, s.w)
    nu, nw = np.asarray(m.norm(s.p, s.u)), np.asarray(m.norm(s.p, s.w))
    both = m.transport(s.p, s.q, _combine((2e-12, s.u), (-1e-12, s.w)))
    return _worst(
        _relative(m.norm(s.q, moved_u) - nu, nu),
        _relative(m.inner(s.q, moved_u, moved_w) - m.inner(s.p, s.u, s.w), nu * nw),
        _relative(
            m.norm(s.q, _combine((1e12, both), (-2.0, moved_u), (1.0, moved_w))), 2.0 * nu + nw
        ),
        _relative(m.norm(s.p, _minus(m.transport(s.p, s.p, s.u), s.u)), nu),
    )


@_property(
    1e-9, "parallel transport there and back is the identity, and carries log(p, q) to -log(q, p)"
)
def transport_back_is_the_inverse(m: Manifold, s: Sample) -> float:
    if not m.transport_is_parallel:
        raise NotImplementedError("transport is not parallel here")
    back = m.transport(s.q, s.p, m.transport(s.p, s.q, s.u))
    ahead = _combine((1.0, m.transport(s.p, s.q, s.v)), (1.0, m.log(s.q, s.p)))
    return _worst(
        _relative(m.norm(s.p, _minus(back, s.u)), m.norm(s.p, s.u)),
        _relative(m.norm(s.q, ahead), m.norm(s.p, s.v)),
    )


@_property(1e-4, "moving p and q by 1e-7 moves the transported vector by as little (no sign flips)")
def transport_is_continuous(m: Manifold, s: Sample) -> float:
    p = m.exp(s.p, _combine((1e-7, s.w)))
    q = m.exp(s.q, m.to_tangent(s.q, _combine((1e-7, s.u))))
    moved = m.transport(s.p, s.q, s.u)
    return _worst(
        _relative(_size(_minus(m.transport(p, q, m.to_tangent(p, s.u)), moved)), _size(moved))
    )


@_property(
    1e-5, "transport agrees with a pole ladder of short geodesics, where it is said to be parallel"
)
def transport_is_parallel(m: Manifold, s: Sample) -> float:
    if not m.transport_is_parallel:
        raise NotImplementedError("transport is not parallel here")
    rungs, short = 4, 1e-2
    here, carried = s.p, _combine((short, s.u))
    whole = m.log(s.p, s.q)
    for i in range(rungs):
        there = m.exp(s.p, _combine(((i + 1) / rungs, whole)))
        middle = m.exp(here, _combine((0.5, m.log(here, there))))
        mirrored = m.exp(middle, _combine((-1.0, m.log(middle, m.exp(here, carried)))))
        carried, here = _combine((-1.0, m.log(there, mirrored))), there
    size = np.asarray(m.norm(s.p, s.u))
    return _worst(
        _relative(
            m.norm(s.q, _combine((1.0 / short, carried), (-1.0, m.transport(s.p, s.q, s.u)))), size
        )
    )
