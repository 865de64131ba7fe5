"""Attacks on optimisers at the edges of what the proofs assume: a start that is off the manifold by
rounding or outside the ball, records that are very long and along the iterate. And on networks.

Each takes the space, n, and whether the other data set lacks the record, for `audit_optimizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from riemdp import Ball, Lorentz, Problem
from riemdp.problems import (
    frechet_mean,
    hyperbolic_prototypes,
    principal_eigenvector,
    spdnet,
)


class Attack(NamedTuple):
    """What an attack is made of: larger scores mean the first data set."""

    problem: Problem
    pair: tuple[Any, Any]
    start: Any
    score: Callable[[Any], Any]


def along(manifold: Any, start: Any, ahead: Any) -> Callable[[Any], Any]:
    """The displacement from `start` along a tangent vector there."""
    return lambda values: manifold.inner(start, manifold.log(start, values), ahead)


def frame(manifold: Any) -> tuple[Any, Any]:
    """A point without a zero coordinate, and a unit tangent vector there."""
    start = manifold.project(jnp.arange(1.0, manifold.shape[0] + 1.0))
    across = manifold.to_tangent(start, jnp.eye(manifold.shape[0])[0])
    return start, across / jnp.linalg.norm(across)


def off_manifold(manifold: Any, n: int, lacking: bool) -> Any:
    start, across = frame(manifold)
    pair = np.zeros((2, n, *manifold.shape))
    for side, sign in enumerate((1.0, 0.0 if lacking else -1.0)):
        pair[side, 0] = 1e6 * sign**2 * (start + sign * 3e-4 * across)
    problem = principal_eigenvector(manifold.shape[0])
    score = along(manifold, start, across)
    return Attack(problem, (pair[0], pair[1]), (1 + 9e-7) * start, score)


def along_the_iterate(manifold: Any, n: int, lacking: bool) -> Any:
    start, _ = frame(manifold)
    problem = Problem(manifold, lambda w, z: -(jnp.sum(w * z) ** 2), smoothness=2.0)
    pair = np.zeros((2, n, *manifold.shape))
    pair[0, 0] = 1e8 * np.asarray(start)
    # A normal part of the gradient lengthens the iterate before it is retracted: shorter steps.
    return Attack(problem, (pair[0], pair[1]), start, lambda w: -manifold.dist(start, w))


def outside_the_ball(manifold: Any, n: int, lacking: bool) -> Any:
    center, across = frame(manifold)
    away = manifold.to_tangent(center, jnp.eye(manifold.shape[0])[1])
    away = away - jnp.sum(away * across) * across
    away = away / jnp.linalg.norm(away)
    problem = frechet_mean(manifold, ball=Ball(center, 0.3))
    pair = np.broadcast_to(np.asarray(center), (2, n, *manifold.shape)).copy()
    for side, sign in enumerate((1.0, -1.0)):
        pair[side, 0] = manifold.exp(center, sign * 0.3 * across)
    start = manifold.exp(center, 2.84 * away)
    return Attack(problem, (pair[0], pair[1]), start, along(manifold, center, across))


def of_networks(n: int, record: Any, other: Any) -> tuple[Any, Any]:
    """A record of the first class or of the second, where its gradient is the opposite. The others
    are of no class, and have the gradient 0.
    """
    records = np.array([record] + [other] * (n - 1))
    first, second = np.full(n, -1), np.full(n, -1)
    first[0], second[0] = 0, 1
    return (records, first), (records, second)


def class_of_a_matrix(manifold: Any, n: int, lacking: bool) -> Any:
    problem = spdnet((2, 2), 2)
    start = (jnp.eye(2), jnp.zeros((2, 4)))
    ahead = np.array([np.log(1e6), 0.0, 0.0, 1.0])  # what the last layer is given of the record

    def score(values: Any) -> Any:
        return (values[-1][:, 0] - values[-1][:, 1]) @ ahead

    return Attack(problem, of_networks(n, np.diag([1e6, 1.0]), np.eye(2)), start, score)


def class_of_a_vector(manifold: Any, n: int, lacking: bool) -> Any:
    space = Lorentz(3)
    origin = jnp.asarray(space.origin)
    start = (jnp.array([[1.0, 0.0], [0.0, 0.0]]), origin, origin)

    def score(values: Any) -> Any:
        first, second = (
            space.to_coordinates(origin, space.log(origin, p))[:, 0] for p in values[1:]
        )
        return first - second

    return Attack(hyperbolic_prototypes(1, 3, 2), of_networks(n, [1e6], [0.0]), start, score)
