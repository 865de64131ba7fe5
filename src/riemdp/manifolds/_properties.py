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

from ._base import AbstractManifold as Manifold
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


def property_of(
    tolerance: float, meaning: str
) -> Callable[[Callable[[Manifold, Sample], float]], Any]:
    def register(error: Callable[[Manifold, Sample], float]) -> Callable[[Manifold, Sample], float]:
        PROPERTIES[error.__name__.strip("_")] = Property(error, tolerance, meaning)
        return error

    return register


# -----------------------------------------------------------------------------
# points and vectors
@property_of(
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


@property_of(
    0.0, "random points and the results of exp, retract and project belong; NaN and infinity do not"
)
def points_belong(m: Manifold, s: Sample) -> float:
    good = [s.p, s.q, s.r, m.retract(s.p, s.v), m.project(combine((1.0, s.p), (0.01, s.u)))]
    bad = [spoiled(s.p, np.nan), spoiled(s.p, np.inf)]
    wrong = sum(float(np.mean(~np.asarray(m.belongs(x)))) for x in good)
    return wrong + sum(float(np.mean(np.asarray(m.belongs(x)))) for x in bad)


@property_of(
    0.0, "a NaN in a point or a vector is seen in distances and norms, never turned into a number"
)
def nan_is_not_hidden(m: Manifold, s: Sample) -> float:
    answers = [
        m.norm(s.p, spoiled(s.v, np.nan)),
        m.dist(s.p, spoiled(s.q, np.nan)),
        m.squared_dist(s.p, spoiled(s.q, np.nan)),
    ]
    return float(sum(np.mean(np.isfinite(np.asarray(a))) for a in answers))


@property_of(
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


@property_of(1e-9, "to_tangent is idempotent and leaves tangent vectors alone")
def to_tangent_is_a_projection(m: Manifold, s: Sample) -> float:
    once = m.to_tangent(s.p, s.q)
    return worst(
        relative(size(minus(m.to_tangent(s.p, once), once)), 1.0 + size(once)),
        relative(size(minus(m.to_tangent(s.p, s.v), s.v)), size(s.v)),
    )


@property_of(1e-9, "project is idempotent and leaves points alone")
def project_is_a_projection(m: Manifold, s: Sample) -> float:
    once = m.project(combine((1.0, s.p), (0.01, s.u)))
    return worst(
        relative(size(minus(m.project(once), once)), 1.0 + size(once)),
        relative(size(minus(m.project(s.p), s.p)), 1.0 + size(s.p)),
    )


# -----------------------------------------------------------------------------
# metric and frames
@property_of(
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


@property_of(
    1e-9, "from_coordinates of the unit vectors is an orthonormal basis of the tangent space"
)
def frame_is_orthonormal(m: Manifold, s: Sample) -> float:
    basis = frame(m, s.p, len(s.coordinates[0]))
    gram = np.array([[np.asarray(m.inner(s.p, a, b)) for b in basis] for a in basis])
    return worst(gram - np.eye(m.dim)[:, :, None])


@property_of(1e-9, "to_coordinates inverts from_coordinates and keeps lengths")
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


@property_of(
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
@property_of(
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


@property_of(1e-9, "exp(p, 0) = p, and walking half way twice is walking the whole way")
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


@property_of(1e-9, "log inverts exp, and exp inverts log")
def exp_and_log_are_inverse(m: Manifold, s: Sample) -> float:
    back = m.log(s.p, s.q)
    return worst(
        relative(m.norm(s.p, minus(back, s.v)), m.norm(s.p, s.v)),
        relative(m.dist(m.exp(s.p, back), s.q), m.norm(s.p, s.v)),
    )


@property_of(
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


@property_of(0.0, "dist(p, p) and squared_dist(p, p) are exactly 0")
def dist_to_itself_is_zero(m: Manifold, s: Sample) -> float:
    return worst(*(op(x, x) for op in (m.dist, m.squared_dist) for x in (s.p, s.q)))


@property_of(1e-12, "dist(p, r) <= dist(p, q) + dist(q, r)")
def triangle_inequality(m: Manifold, s: Sample) -> float:
    a, b, c = (np.asarray(m.dist(x, y)) for x, y in ((s.p, s.q), (s.q, s.r), (s.p, s.r)))
    return worst(
        np.where(
            np.isnan(a + b + c),
            np.nan,
            np.maximum(0.0, np.maximum.reduce([c - a - b, a - b - c, b - a - c])),
        )
    )


@property_of(
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


@property_of(1e-2, "retract(p, t v) = exp(p, t v) + O(t^2)")
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
@property_of(
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


@property_of(
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


@property_of(
    1e-4, "moving p and q by 1e-7 moves the transported vector by as little (no sign flips)"
)
def transport_is_continuous(m: Manifold, s: Sample) -> float:
    p = m.exp(s.p, combine((1e-7, s.w)))
    q = m.exp(s.q, m.to_tangent(s.q, combine((1e-7, s.u))))
    moved = m.transport(s.p, s.q, s.u)
    return worst(relative(size(minus(m.transport(p, q, m.to_tangent(p, s.u)), moved)), size(moved)))


@property_of(
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
