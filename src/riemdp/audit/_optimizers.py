"""Attacks on whole runs of an optimiser, through the driver of `private_minimize` itself.

Each attack is a problem, two neighbouring data sets, a start, and a score: here the worst pair of a
linear loss. `tests/audit/edges.py` has attacks at the edges of what the proofs assume.
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

from .._errors import integer
from .._programs import double_precision
from ..manifolds import Euclidean
from ..manifolds._base import AbstractManifold, Point, RecordsLike, Tangent
from ..optimizers import OptimizationResult, private_minimize
from ..optimizers._account import Account
from ..optimizers._driver import RunContext, drive
from ..optimizers._minimize import checked
from ..optimizers._plan import AbstractOptimizer, AbstractPlan, check_optimizer, plan_optimizer
from ..optimizers._private_step import NoisyGradient
from ..optimizers._records import PrivateRecords
from ..privacy import Budget, Guarantee
from ..problems import Problem
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


def replicate(
    problem: Problem,
    data: RecordsLike,
    initial: Point,
    optimizer: AbstractOptimizer,
    *,
    repetitions: int,
    noise_std: float | None = None,
    budget: Budget | None = None,
    rng: int | NoiseSource | None = None,
    kind: type[NoisyGradient] = NoisyGradient,
) -> tuple[Any, Guarantee]:
    """Many independent runs at once, by the driver of `private_minimize`. NOT PRIVATE: nothing is
    charged for what all of them show together.

    Args:
        problem: As in `private_minimize`.
        data: As in `private_minimize`.
        initial: As in `private_minimize`.
        optimizer: As in `private_minimize`.
        repetitions: How many runs.
        noise_std: As in `private_minimize`; without it and a budget the runs have no noise.
        budget: As in `private_minimize`.
        rng: As in `private_minimize`.
        kind: The class of the noisy gradients; another one plants a fault, for audits.

    Returns:
        The outputs, with a leading axis for the repetitions, and the guarantee of ONE run.
    """
    optimizer = check_optimizer(optimizer)
    repetitions = integer("repetitions", repetitions)
    point, records, n = checked(problem, data, initial, optimizer)
    plan: AbstractPlan = plan_optimizer(problem, max(n, 1), optimizer, budget, noise_std=noise_std)
    with double_precision():
        private = PrivateRecords(records)
        run = plan.bind(problem, private, point, kind=kind, repetitions=repetitions)
        done = drive(run, RunContext(noise_source(rng), n, Account(Unbounded())), repetitions)
    return done.value, plan.guarantee()


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
    attack: Callable[[AbstractManifold, int, bool], Attack] | None = None,
) -> AuditResult:
    """Attack a whole run of an optimiser with a worst neighbouring pair. All runs are made at once,
    by the driver and the compiled steps of `private_minimize`.

    Args:
        optimizer: Settings of an optimiser, such as `DPRGD(...)`, with explicit steps, learning
            rate and (for sensitivity="clip") clip norm.
        noise_std: sigma per orthonormal coordinate of the averaged gradient.
        manifold: The space. Default: Euclidean(2), where the attack is sharp.
        records: n.
        trials: Runs on each side.
        confidence: Of each lower bound.
        delta: At which epsilon is bounded.
        rng: None, a seed or a `NoiseSource`.
        attack: From the space, n, and whether the other data set lacks the record, to an object
            with `problem`, `pair` (two data sets), `start` and `score`, larger meaning the first
            data set. Default: the gradient of one record is far above the clip norm along a fixed
            unit field, to either side, and all others are zero.

    Returns:
        What was found, compared with what is claimed. Nothing is charged to a ledger.
    """
    trials, n = integer("trials", trials, at_least=16), integer("records", records)
    optimizer = check_optimizer(optimizer)
    space = Euclidean(2) if manifold is None else manifold
    # Under add-or-remove-one the other side lacks the record. With a fixed denominator that is the
    # same as a record of gradient 0.
    plan = (_linear if attack is None else attack)(space, n, optimizer.counts_are_private)
    source = noise_source(rng)
    found = [
        replicate(
            plan.problem,
            data,
            plan.start,
            optimizer,
            noise_std=noise_std,
            repetitions=trials,
            rng=source,
        )
        for data in plan.pair
    ]
    scores = [np.asarray(plan.score(values), dtype=np.float64) for values, _ in found]
    name = f"{type(optimizer).__name__} on {space!r}"
    name = name if attack is None else f"{name}, {getattr(attack, '__name__', attack)}"
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

    def score(values: Point) -> Array:
        return manifold.inner(start, manifold.log(start, values), field(start))

    return Attack(problem, (pair[0], pair[1]), start, score)


def _unit_field(manifold: AbstractManifold) -> Callable[[Point], Tangent]:
    """A tangent field of unit length: a fixed ambient direction, projected and normalised."""
    coordinates = jnp.zeros(manifold.dim).at[0].set(1.0)
    ambient = manifold.from_coordinates(manifold.origin, coordinates)

    def field(w: Point) -> Tangent:
        v = manifold._to_tangent(w, ambient)
        length = manifold._norm(w, v)
        return jax.tree.map(lambda leaf: leaf / jnp.maximum(length, 1e-6), v)

    return field
