"""Attacks on whole runs of an optimiser, through the driver of `private_minimize` itself.

Each attack is a problem, two neighbouring data sets, a start, and a score. Beside the worst pair of
a linear loss they go to the edges of what the proofs assume: a start that is off the manifold by
rounding or outside the ball, records that are very long and along the iterate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from .._errors import InvalidArgument, integer, one_of
from ..domains import Ball
from ..manifolds import Euclidean, Sphere
from ..manifolds._base import AbstractManifold, Point, Tangent
from ..optimizers import OptimizationResult, private_minimize
from ..optimizers._minimize import replicate
from ..optimizers._plan import AbstractOptimizer, check_optimizer
from ..privacy import Guarantee
from ..problems import Problem, frechet_mean, principal_eigenvector
from ..randomness import NoiseSource, noise_source
from ._attacks import AuditResult, assess
from ._one_run import OneRunAudit, audit_in_one_run
from ._unbounded import Unbounded

if TYPE_CHECKING:
    from .._namespace import Array

Score = Callable[[Point], "Float[Array, ' trials']"]


class Attack(NamedTuple):
    """Two data sets that differ in one record, where a run starts, and what an attacker computes
    from its outputs: larger means the first data set.
    """

    problem: Problem
    pair: tuple[Any, Any]
    start: Point
    score: Score


def audit_optimizer(
    optimizer: AbstractOptimizer,
    *,
    noise_std: float,
    manifold: AbstractManifold | None = None,
    records: int = 20,
    trials: int = 20_000,
    confidence: float = 0.95,
    delta: float = 1e-5,
    rng: int | NoiseSource | None = None,
    through: str = "replicate",
    attack: str = "linear",
) -> AuditResult:
    """Attack a whole run of an optimiser with a worst neighbouring pair.

    Args:
        optimizer: Settings of an optimiser, such as `DPRGD(...)`, with explicit steps, learning
            rate and (for sensitivity="clip") clip norm.
        noise_std: sigma per orthonormal coordinate of the averaged gradient.
        manifold: The space. Default: Euclidean(2) for "linear", where the attack is sharp, and
            Sphere(3) for the others.
        records: n.
        trials: Runs on each side.
        confidence: Of each lower bound.
        delta: At which epsilon is bounded.
        rng: None, a seed or a `NoiseSource`.
        through: "replicate": all runs at once, by the same driver and compiled steps;
            "private_minimize": the public function for each run (slower).
        attack: "linear": the gradient of one record is far above the clip norm along a fixed unit
            field, to either side, and all others are zero. "off-manifold": principal eigenvector,
            started 9e-7 off the sphere, one record of length 1e6 at an angle of 3e-4 from it.
            "along": -(w.z)^2 by automatic differentiation, one record of length 1e8 along the
            start. "outside": Frechet mean in a ball of radius 0.3, started far outside it.

    Returns:
        What was found beside what is claimed. Nothing is charged to a ledger.
    """
    trials, n = integer("trials", trials, at_least=16), integer("records", records)
    one_of("attack", attack, tuple(ATTACKS))
    one_of("through", through, ("replicate", "private_minimize"))
    optimizer = check_optimizer(optimizer)
    space = manifold if manifold is not None else Euclidean(2) if attack == "linear" else Sphere(3)
    # Under add-or-remove-one the other side lacks the record. With a fixed denominator that is the
    # same as a record of gradient 0.
    lacking = optimizer.counts_are_private
    plan = ATTACKS[attack](space, n, lacking)
    source = noise_source(rng)
    found = [_runs(plan, x, optimizer, noise_std, trials, source, through) for x in plan.pair]
    scores = [np.asarray(plan.score(values), dtype=np.float64) for values, _ in found]
    name = f"{type(optimizer).__name__} on {space!r}"
    name = name if attack == "linear" else f"{name}, {attack}"
    return assess(name, scores[0], scores[1], found[0][1], delta, confidence)


def audit_optimizer_in_one_run(
    optimizer: AbstractOptimizer,
    *,
    noise_std: float,
    canaries: int = 1000,
    confidence: float = 0.95,
    delta: float = 1e-5,
    rng: int | NoiseSource | None = None,
) -> OneRunAudit:
    """Attack one run of an optimiser by guessing many canaries, each along an axis of its own of a
    flat space.

    A canary's gradient is far above the clip norm. Under replace-one it points to either side, by a
    coin of its own; under add-or-remove-one its record is in the data or left out, while the
    number of records that is taken as public (`population`) is that of all canaries.

    Args:
        optimizer: As in `audit_optimizer`; for sensitivity="clip".
        noise_std: sigma per orthonormal coordinate of the averaged gradient.
        canaries: How many, which is also the number of records and the dimension; at least 16.
        confidence: Of the result.
        delta: At which epsilon is bounded.
        rng: None, a seed or a `NoiseSource`.

    Returns:
        A `OneRunAudit`. Nothing is charged to a ledger.

    Raises:
        InvalidArgument: An argument is out of range.

    Source:
        Steinke, Nasr and Jagielski 2023. Proof: docs/proofs/one-run-audit.md.
    """
    m = integer("canaries", canaries, at_least=16)
    optimizer = check_optimizer(optimizer)
    lacking = optimizer.counts_are_private
    if lacking and getattr(optimizer, "population", m) is None:
        optimizer = dataclasses.replace(optimizer, population=m)  # type: ignore[type-var]
    space = Euclidean(m)

    def gradient(w: Point, record: Array) -> Tangent:
        side, axis = record
        return -1e6 * side * jax.nn.one_hot(axis.astype(jnp.int32), m)

    problem = Problem(space, lambda w, z: jnp.sum(z) * 0.0, gradient=gradient, smoothness=1.0)
    start = np.zeros(m)

    def run(included: NDArray[np.bool_], source: NoiseSource) -> OptimizationResult:
        sides = np.where(included, 1.0, 0.0 if lacking else -1.0)
        data = np.stack([sides, np.arange(m, dtype=np.float64)], axis=1)
        data = data[included] if lacking else data
        how: dict[str, Any] = {"rng": source, "ledger": Unbounded(), "noise_std": noise_std}
        return private_minimize(problem, data, start, optimizer, **how)

    return audit_in_one_run(
        run,
        np.asarray,
        canaries=m,
        confidence=confidence,
        delta=delta,
        rng=rng,
        name=type(optimizer).__name__,
    )


def _runs(
    plan: Attack,
    data: Point,
    optimizer: AbstractOptimizer,
    noise_std: float,
    trials: int,
    source: NoiseSource,
    through: str,
) -> tuple[Point, Guarantee]:
    """The outputs of many runs, stacked, and the guarantee of one."""
    if through == "replicate":
        return replicate(
            plan.problem,
            data,
            plan.start,
            optimizer,
            noise_std=noise_std,
            repetitions=trials,
            ledger=Unbounded(),
            rng=source,
        )
    how: dict[str, Any] = {"rng": source, "ledger": Unbounded(), "noise_std": noise_std}
    runs = [
        private_minimize(plan.problem, data, plan.start, optimizer, **how) for _ in range(trials)
    ]
    stacked = jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *[run.value for run in runs])
    return stacked, runs[0].guarantee


def _along(manifold: AbstractManifold, start: Point, ahead: Tangent) -> Score:
    """The displacement from `start` along a tangent vector there."""
    return lambda values: manifold.inner(start, manifold.log(start, values), ahead)


def _linear(manifold: AbstractManifold, n: int, lacking: bool) -> Attack:
    field = _unit_field(manifold)
    problem = Problem(
        manifold,
        lambda w, z: jnp.sum(z) * 0.0,
        gradient=lambda w, z: jax.tree.map(lambda f: z * f, field(w)),
        smoothness=1.0,
    )
    pair = np.zeros((2, n))
    # A descent step goes against the gradient: a record below 0 pushes along the field.
    pair[:, 0] = -1e6, 0.0 if lacking else 1e6
    start = manifold.origin
    return Attack(problem, (pair[0], pair[1]), start, _along(manifold, start, field(start)))


def _frame(manifold: AbstractManifold) -> tuple[Point, Tangent]:
    """A point without a zero coordinate, and a unit tangent vector there."""
    if not isinstance(manifold, Sphere):
        raise InvalidArgument(f"argument `manifold` = {manifold!r}: this attack needs a Sphere")
    start = manifold.project(jnp.arange(1.0, manifold.shape[0] + 1.0))
    across = manifold.to_tangent(start, jnp.eye(manifold.shape[0])[0])
    return start, across / jnp.linalg.norm(across)


def _off_manifold(manifold: AbstractManifold, n: int, lacking: bool) -> Attack:
    start, across = _frame(manifold)
    pair = np.zeros((2, n, *manifold.shape))
    for side, sign in enumerate((1.0, 0.0 if lacking else -1.0)):
        pair[side, 0] = 1e6 * sign**2 * (start + sign * 3e-4 * across)
    problem = principal_eigenvector(manifold.shape[0])
    score = _along(manifold, start, across)
    return Attack(problem, (pair[0], pair[1]), (1 + 9e-7) * start, score)


def _long(manifold: AbstractManifold, n: int, lacking: bool) -> Attack:
    start, _ = _frame(manifold)
    problem = Problem(manifold, lambda w, z: -(jnp.sum(w * z) ** 2), smoothness=2.0)
    pair = np.zeros((2, n, *manifold.shape))
    pair[0, 0] = 1e8 * np.asarray(start)
    # A normal part of the gradient lengthens the iterate before it is retracted: shorter steps.
    return Attack(problem, (pair[0], pair[1]), start, lambda w: -manifold.dist(start, w))


def _outside(manifold: AbstractManifold, n: int, lacking: bool) -> Attack:
    center, across = _frame(manifold)
    away = manifold.to_tangent(center, jnp.eye(manifold.shape[0])[1])
    away = away - jnp.sum(away * across) * across
    away = away / jnp.linalg.norm(away)
    problem = frechet_mean(manifold, ball=Ball(center, 0.3))
    pair = np.broadcast_to(np.asarray(center), (2, n, *manifold.shape)).copy()
    for side, sign in enumerate((1.0, -1.0)):
        pair[side, 0] = manifold.exp(center, sign * 0.3 * across)
    start = manifold.exp(center, 2.84 * away)
    return Attack(problem, (pair[0], pair[1]), start, _along(manifold, center, across))


ATTACKS: dict[str, Callable[[AbstractManifold, int, bool], Attack]] = {
    "linear": _linear,
    "off-manifold": _off_manifold,
    "along": _long,
    "outside": _outside,
}


def _unit_field(manifold: AbstractManifold) -> Callable[[Point], Tangent]:
    """A tangent field of unit length: a fixed ambient direction, projected and normalised."""
    coordinates = jnp.zeros(manifold.dim).at[0].set(1.0)
    ambient = manifold.from_coordinates(manifold.origin, coordinates)

    def field(w: Point) -> Tangent:
        v = manifold._to_tangent(w, ambient)
        length = manifold._norm(w, v)
        return jax.tree.map(lambda leaf: leaf / jnp.maximum(length, 1e-6), v)

    return field
