"""The properties behind `check`: a manifold and a sample give the worst error, a number near 0.

They call only public operations, on NumPy arrays, except where the derivative of a formula is the
point, which JAX takes, or that both libraries give the same.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._trees import leaves, map_leaves
from ._base import AbstractManifold as Manifold
from ._base import Point, Tangent
from ._sample import (
    OFFSETS,
    STEP,
    Sample,
    combine,
    frame,
    minus,
    relative,
    scaled,
    size,
    slope,
    spoiled,
    worst,
)


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


# -----------------------------------------------------------------------------
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
        hash(m) != hash(copy.deepcopy(m)),
    ]
    return float(sum(wrong))


@_property(
    0.0, "random points and the results of exp, retract and project belong; NaN and infinity do not"
)
def points_belong(m: Manifold, s: Sample) -> float:
    good = [s.p, s.q, s.r, m.retract(s.p, s.v), m.project(combine((1.0, s.p), (0.01, s.u)))]
    bad = [spoiled(s.p, np.nan), spoiled(s.p, np.inf)]
    wrong = sum(float(np.mean(~np.asarray(m.belongs(x)))) for x in good)
    return wrong + sum(float(np.mean(np.asarray(m.belongs(x)))) for x in bad)


@_property(
    0.0, "a NaN in a point or a vector is seen in distances and norms, never turned into a number"
)
def nan_is_not_hidden(m: Manifold, s: Sample) -> float:
    answers = [
        m.norm(s.p, spoiled(s.v, np.nan)),
        m.dist(s.p, spoiled(s.q, np.nan)),
        m.squared_dist(s.p, spoiled(s.q, np.nan)),
    ]
    return float(sum(np.mean(np.isfinite(np.asarray(a))) for a in answers))


@_property(
    0.0,
    "results of from_coordinates, to_tangent, egrad_to_rgrad, tangent noise, log and transport are"
    " tangent",
)
def vectors_are_tangent(m: Manifold, s: Sample) -> float:
    noise = np.random.default_rng((s.key, 1)).standard_normal((len(s.coordinates[0]), m.noise_size))
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
    return worst(
        relative(size(minus(m.to_tangent(s.p, once), once)), 1.0 + size(once)),
        relative(size(minus(m.to_tangent(s.p, s.v), s.v)), size(s.v)),
    )


@_property(1e-9, "project is idempotent and leaves points alone")
def project_is_a_projection(m: Manifold, s: Sample) -> float:
    once = m.project(combine((1.0, s.p), (0.01, s.u)))
    return worst(
        relative(size(minus(m.project(once), once)), 1.0 + size(once)),
        relative(size(minus(m.project(s.p), s.p)), 1.0 + size(s.p)),
    )


# -----------------------------------------------------------------------------
# metric and frames
@_property(
    1e-10,
    "inner is symmetric, bilinear and positive; norm is its root, also for vectors of length 1e-12",
)
def inner_is_bilinear(m: Manifold, s: Sample) -> float:
    p, u, v, w = s.p, s.u, s.v, s.w
    nu, nv, nw = (np.asarray(m.norm(p, x)) for x in (u, v, w))
    mixed = m.inner(p, combine((2.0, u), (-3.0, w)), v) - (
        2.0 * m.inner(p, u, v) - 3.0 * m.inner(p, w, v)
    )
    tiny = np.asarray(m.norm(p, combine((1e-12, v)))) / (1e-12 * nv) - 1.0
    return worst(
        relative(m.inner(p, u, v) - m.inner(p, v, u), nu * nv),
        relative(mixed, (2.0 * nu + 3.0 * nw) * nv),
        relative(m.norm(p, v) ** 2 - m.inner(p, v, v), nv**2),
        tiny,
        np.where(nv > 0.0, 0.0, np.inf),
    )


@_property(
    1e-9, "from_coordinates of the unit vectors is an orthonormal basis of the tangent space"
)
def frame_is_orthonormal(m: Manifold, s: Sample) -> float:
    basis = frame(m, s.p, len(s.coordinates[0]))
    gram = np.array([[np.asarray(m.inner(s.p, a, b)) for b in basis] for a in basis])
    return worst(gram - np.eye(m.dim)[:, :, None])


@_property(1e-9, "to_coordinates inverts from_coordinates and keeps lengths")
def coordinates_round_trip(m: Manifold, s: Sample) -> float:
    c = np.asarray(m.to_coordinates(s.p, s.u))
    noise = m.tangent_from_normals(
        s.p, np.random.default_rng((s.key, 1)).standard_normal((len(c), m.noise_size))
    )
    length = np.asarray(m.norm(s.p, noise))
    again = m.from_coordinates(s.p, m.to_coordinates(s.p, noise))
    return worst(
        relative(np.linalg.norm(c - s.coordinates[0], axis=-1), np.linalg.norm(c, axis=-1)),
        relative(m.norm(s.p, minus(again, noise)), length),
        relative(np.linalg.norm(m.to_coordinates(s.p, noise), axis=-1) - length, length),
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
    z = np.random.default_rng((s.key, 1)).standard_normal((n, k))
    drawn = np.asarray(m.to_coordinates(s.p, m.tangent_from_normals(s.p, z)))
    return worst(
        factor @ np.swapaxes(factor, -1, -2) - np.eye(m.dim),
        relative(
            drawn - np.einsum("nij,nj->ni", factor, z), np.linalg.norm(z, axis=-1, keepdims=True)
        ),
    )


# -----------------------------------------------------------------------------
# geodesics
@_property(
    1e-7,
    "exp(p, t v) leaves p with velocity v and keeps the speed |v| (finite differences at t = 0 and"
    " t = 0.7)",
)
def geodesic_speed(m: Manifold, s: Sample) -> float:
    start = minus(slope(m.exp(s.p, scaled(s.v, STEP * OFFSETS))), s.v)
    speed = np.asarray(m.norm(s.p, s.v))
    middle = m.exp(s.p, combine((0.7, s.v)))
    velocity = m.to_tangent(middle, slope(m.exp(s.p, scaled(s.v, 0.7 + STEP * OFFSETS))))
    return worst(
        relative(m.norm(s.p, m.to_tangent(s.p, start)), speed),
        relative(m.norm(middle, velocity) - speed, speed),
    )


@_property(1e-9, "exp(p, 0) = p, and walking half way twice is walking the whole way")
def exp_follows_itself(m: Manifold, s: Sample) -> float:
    still = relative(size(minus(m.exp(s.p, combine((0.0, s.v))), s.p)), size(s.p))
    half = m.exp(s.p, combine((0.5, s.v)))
    onwards = m.log(half, s.q)
    speed = np.asarray(m.norm(s.p, s.v))
    return worst(
        still,
        relative(m.norm(half, onwards) - 0.5 * speed, speed),
        relative(m.dist(s.p, half) - 0.5 * speed, speed),
    )


@_property(1e-9, "log inverts exp, and exp inverts log")
def exp_and_log_are_inverse(m: Manifold, s: Sample) -> float:
    back = m.log(s.p, s.q)
    return worst(
        relative(m.norm(s.p, minus(back, s.v)), m.norm(s.p, s.v)),
        relative(m.dist(m.exp(s.p, back), s.q), m.norm(s.p, s.v)),
    )


@_property(
    1e-9, "dist(p, q) = |log(p, q)| = |v| for q = exp(p, v), symmetric; squared_dist is its square"
)
def dist_is_length_of_log(m: Manifold, s: Sample) -> float:
    d = np.asarray(m.dist(s.p, s.q))
    return worst(
        relative(m.norm(s.p, m.log(s.p, s.q)) - d, d),
        relative(m.norm(s.p, s.v) - d, d),
        relative(m.dist(s.q, s.p) - d, d),
        relative(m.squared_dist(s.p, s.q) - d**2, d**2),
    )


@_property(0.0, "dist(p, p) and squared_dist(p, p) are exactly 0")
def dist_to_itself_is_zero(m: Manifold, s: Sample) -> float:
    return worst(*(op(x, x) for op in (m.dist, m.squared_dist) for x in (s.p, s.q)))


@_property(1e-12, "dist(p, r) <= dist(p, q) + dist(q, r)")
def triangle_inequality(m: Manifold, s: Sample) -> float:
    a, b, c = (np.asarray(m.dist(x, y)) for x, y in ((s.p, s.q), (s.q, s.r), (s.p, s.r)))
    return worst(
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
    step = combine((1e-7, s.v))
    near = m.exp(s.p, step)
    length = np.asarray(m.norm(s.p, step))
    return worst(
        relative(m.dist(s.p, near) - length, length),
        relative(m.norm(s.p, minus(m.log(s.p, near), step)), length),
    )


@_property(1e-2, "retract(p, t v) = exp(p, t v) + O(t^2)")
def retract_is_first_order(m: Manifold, s: Sample) -> float:
    t = 1e-3
    walked, approximate = (op(s.p, combine((t, s.v))) for op in (m.exp, m.retract))
    try:
        error = np.asarray(m.dist(walked, approximate))
    except NotImplementedError:
        error = size(minus(walked, approximate))
    return worst(relative(error, t * np.asarray(m.norm(s.p, s.v))))


# -----------------------------------------------------------------------------
# transport
@_property(
    1e-9, "transport is linear, keeps inner products and, to the same point, leaves vectors alone"
)
def transport_is_an_isometry(m: Manifold, s: Sample) -> float:
    moved_u, moved_w = m.transport(s.p, s.q, s.u), m.transport(s.p, s.q, s.w)
    nu, nw = np.asarray(m.norm(s.p, s.u)), np.asarray(m.norm(s.p, s.w))
    both = m.transport(s.p, s.q, combine((2e-12, s.u), (-1e-12, s.w)))
    return worst(
        relative(m.norm(s.q, moved_u) - nu, nu),
        relative(m.inner(s.q, moved_u, moved_w) - m.inner(s.p, s.u, s.w), nu * nw),
        relative(
            m.norm(s.q, combine((1e12, both), (-2.0, moved_u), (1.0, moved_w))), 2.0 * nu + nw
        ),
        relative(m.norm(s.p, minus(m.transport(s.p, s.p, s.u), s.u)), nu),
    )


@_property(
    1e-9, "parallel transport there and back is the identity, and carries log(p, q) to -log(q, p)"
)
def transport_back_is_the_inverse(m: Manifold, s: Sample) -> float:
    if not m.transport_is_parallel:
        raise NotImplementedError("transport is not parallel here")
    back = m.transport(s.q, s.p, m.transport(s.p, s.q, s.u))
    ahead = combine((1.0, m.transport(s.p, s.q, s.v)), (1.0, m.log(s.q, s.p)))
    return worst(
        relative(m.norm(s.p, minus(back, s.u)), m.norm(s.p, s.u)),
        relative(m.norm(s.q, ahead), m.norm(s.p, s.v)),
    )


@_property(1e-4, "moving p and q by 1e-7 moves the transported vector by as little (no sign flips)")
def transport_is_continuous(m: Manifold, s: Sample) -> float:
    p = m.exp(s.p, combine((1e-7, s.w)))
    q = m.exp(s.q, m.to_tangent(s.q, combine((1e-7, s.u))))
    moved = m.transport(s.p, s.q, s.u)
    return worst(relative(size(minus(m.transport(p, q, m.to_tangent(p, s.u)), moved)), size(moved)))


@_property(
    1e-5, "transport agrees with a pole ladder of short geodesics, where it is said to be parallel"
)
def transport_is_parallel(m: Manifold, s: Sample) -> float:
    if not m.transport_is_parallel:
        raise NotImplementedError("transport is not parallel here")
    rungs, short = 4, 1e-2
    here, carried = s.p, combine((short, s.u))
    whole = m.log(s.p, s.q)
    for i in range(rungs):
        there = m.exp(s.p, combine(((i + 1) / rungs, whole)))
        middle = m.exp(here, combine((0.5, m.log(here, there))))
        mirrored = m.exp(middle, combine((-1.0, m.log(middle, m.exp(here, carried)))))
        carried, here = combine((-1.0, m.log(there, mirrored))), there
    length = np.asarray(m.norm(s.p, s.u))
    return worst(
        relative(
            m.norm(s.q, combine((1.0 / short, carried), (-1.0, m.transport(s.p, s.q, s.u)))), length
        )
    )


# -----------------------------------------------------------------------------
# derivatives
@_property(
    1e-6,
    "inner(p, egrad_to_rgrad(p, g), v) is the slope of a function along exp(p, t v) (finite"
    " differences)",
)
def gradient_conversion(m: Manifold, s: Sample) -> float:
    rng = np.random.default_rng((s.key, 1))
    linear = map_leaves(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)
    square = map_leaves(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)

    def f(x: Point) -> np.ndarray:
        terms = map_leaves(
            lambda a, b, y: a * np.asarray(y) + 0.5 * b * np.asarray(y) ** 2, linear, square, x
        )
        return np.asarray(sum(np.sum(t, axis=tuple(range(2, t.ndim))) for t in leaves(terms)))

    gradient = m.egrad_to_rgrad(
        s.p, map_leaves(lambda a, b, y: a + b * np.asarray(y), linear, square, s.p)
    )
    measured = slope(f(m.exp(s.p, scaled(s.v, STEP * OFFSETS))))
    largest = np.asarray(m.norm(s.p, gradient) * m.norm(s.p, s.v))
    return worst(relative(m.inner(s.p, gradient, s.v) - measured, largest))


@_property(
    1e-6,
    "log_volume_density is the log Jacobian of exp (finite differences), with relative accuracy"
    " near 0",
)
def volume_density(m: Manifold, s: Sample) -> float:
    n = len(s.coordinates[0])
    columns = []
    for basis in frame(m, s.p, n):
        moved = slope(m.exp(s.p, scaled(s.v, STEP * OFFSETS, basis)))
        columns.append(np.asarray(m.to_coordinates(s.q, m.to_tangent(s.q, moved))))
    expected = np.linalg.slogdet(np.stack(columns, axis=-1))[1]

    def even(t: float) -> np.ndarray:
        """The even part at t v, over t^2: a + b t^2 + O(t^4)."""
        ahead, behind = (
            np.asarray(m.log_volume_density(s.p, combine((sign * t, s.v)))) for sign in (1.0, -1.0)
        )
        return (ahead + behind) / (2.0 * t**2)

    coarse, middle, fine = (even(t) for t in (2e-3, 1e-3, 5e-4))
    # Both differences estimate a, if small values are right.
    near_zero = (4.0 * middle - coarse) / 3.0 - (4.0 * fine - middle) / 3.0
    return worst(np.asarray(m.log_volume_density(s.p, s.v)) - expected, near_zero)


@_property(1e-8, "the gradient of squared_dist(., q) is -2 log(p, q), and finite and 0 at p = q")
def gradient_of_squared_dist(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled, squared_dist_gradients

    gradients = compiled(squared_dist_gradients, 0)
    at_p, at_q = gradients(m, s.p, s.q)
    d = np.asarray(m.dist(s.p, s.q))
    zero = [m.norm(s.p, m.egrad_to_rgrad(s.p, g)) for g in gradients(m, s.p, s.p)]
    return worst(
        relative(
            m.norm(s.p, combine((1.0, m.egrad_to_rgrad(s.p, at_p)), (2.0, m.log(s.p, s.q)))), d
        ),
        relative(
            m.norm(s.q, combine((1.0, m.egrad_to_rgrad(s.q, at_q)), (2.0, m.log(s.q, s.p)))), d
        ),
        *zero,
    )


@_property(
    1e-9,
    "derivatives of exp, log, transport, norm, dist, volume density are finite at p = q and v = 0,"
    " and right",
)
def derivatives_at_zero(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled, derivatives

    zero = map_leaves(lambda x: np.zeros_like(np.asarray(x)), s.v)
    reverse, forward = compiled(derivatives, 0)(
        m,
        {
            "_exp": (s.p, zero),
            "_log": (s.p, s.p),
            "_transport": (s.p, s.p, s.w),
            "_norm": (s.p, zero),
            "_dist": (s.p, s.p),
            "_log_volume_density": (s.p, zero),
        },
        s.u,
    )
    finite = [
        np.where(np.isfinite(np.asarray(x)), 0.0, np.inf) for x in _all_leaves((reverse, forward))
    ]
    # exp and log are the identity to first order
    wrong = [
        relative(m.norm(s.p, m.to_tangent(s.p, minus(x, s.u))), m.norm(s.p, s.u))
        for x in forward.values()
    ]
    return worst(*finite, *wrong)


# -----------------------------------------------------------------------------
# batching, compiling
_FORMULAS = (
    "_exp",
    "_log",
    "_dist",
    "_norm",
    "_transport",
    "_tangent_from_normals",
    "_to_coordinates",
    "_from_coordinates",
)


def _formulas(
    m: Manifold, names: tuple[str, ...], p: Point, q: Point, v: Tangent, z: Any, c: Any
) -> dict[str, Any]:
    arguments = {
        "_exp": (p, v),
        "_log": (p, q),
        "_dist": (p, q),
        "_norm": (p, v),
        "_transport": (p, q, v),
        "_tangent_from_normals": (p, z),
        "_to_coordinates": (p, v),
        "_from_coordinates": (p, c),
    }
    answers = {}
    for name in names:
        try:
            with np.errstate(all="ignore"):
                answers[name] = getattr(m, name)(*arguments[name])
        except NotImplementedError:
            continue
    return answers


def _inputs(m: Manifold, s: Sample) -> tuple[Any, ...]:
    z = np.random.default_rng((s.key, 1)).standard_normal((len(s.coordinates[0]), m.noise_size))
    return s.p, s.q, s.v, z, s.coordinates[0]


def _all_leaves(tree: Any) -> list[Any]:
    """Those of dictionaries too."""
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in _all_leaves(tree[name])]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _all_leaves(part)]
    return [tree]


def _difference(a: Any, b: Point) -> float:
    """Largest entry of a - b, relative to the largest of b if that exceeds 1; infinite if the
    shapes differ.
    """
    errors = []
    for x, y in zip(_all_leaves(a), _all_leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        errors.append(
            np.inf
            if x.shape != y.shape
            else worst(x - y) / max(1.0, float(np.max(np.abs(y), initial=0.0)))
        )
    return worst(*errors)


@_property(
    1e-9,
    "a batch gives what its elements give one at a time, and a single point broadcasts against a"
    " batch",
)
def batching(m: Manifold, s: Sample) -> float:
    inputs = _inputs(m, s)
    whole = _formulas(m, _FORMULAS, *inputs)
    first = map_leaves(lambda x: x[0], inputs)
    alone = _formulas(m, _FORMULAS, *first)
    # Repeat the first point for the whole batch, once by giving it alone and once written out.
    p, *_ = inputs
    spread = map_leaves(lambda x: np.broadcast_to(x[0], x.shape), p)
    names = ("_exp", "_log", "_dist", "_tangent_from_normals", "_from_coordinates")
    u, v = (map_leaves(lambda x: np.broadcast_to(x[0], x.shape), x) for x in inputs[1:3])
    single = _formulas(m, names, first[0], u, v, *inputs[3:])
    written = _formulas(m, names, spread, u, v, *inputs[3:])
    return worst(
        _difference({name: map_leaves(lambda x: x[0], one) for name, one in whole.items()}, alone),
        _difference(single, written),
    )


@_property(1e-9, "formulas of NumPy arrays and compiled ones of JAX arrays agree")
def compiling(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled

    names = ("_exp", "_log", "_transport", "_tangent_from_normals")
    inputs = _inputs(m, s)
    return _difference(_formulas(m, names, *inputs), compiled(_formulas, 0, 1)(m, names, *inputs))
