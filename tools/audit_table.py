"""`make audit`: attack every mechanism and optimiser, and write docs/audit.md with the bounds
beside the claims.

One row for each entry of `mechanisms()`, `optimisers()` and `front_door()`; a new mechanism is
audited by adding its entry. A row that is refuted makes the script fail. `--quick` runs fewer
trials (for a test that the script works, not for a result).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

import riemdp
from riemdp import Budget
from riemdp.audit import AuditResult, audit_mechanism, audit_optimizer
from riemdp.federated import local_update

EPSILON = 4.0  # large enough for thousands of trials to come near the claim
BUDGET = Budget(EPSILON, 1e-5)
SEED = 20_240_601  # the pairs attacked are made up; the seed makes the page reproducible
Audit = Callable[[int], AuditResult]


def mechanisms() -> Iterator[tuple[str, Audit]]:
    """(row title, audit with so many trials): the pair is a full sensitivity apart."""
    flat, spd, hyperbolic = riemdp.Euclidean(3), riemdp.SPDLogEuclidean(2), riemdp.Lorentz(3)
    for manifold in (flat, spd, hyperbolic, riemdp.Sphere(3)):
        origin = manifold.origin
        far = manifold.exp(origin, manifold.from_coordinates(origin, _unit(manifold.dim)))
        ball = None if manifold.is_hadamard else riemdp.Ball(origin, 0.5)
        reach = 1.0 if ball is None else 0.5
        inside = (
            far
            if ball is None
            else manifold.exp(
                origin, manifold.from_coordinates(origin, reach * _unit(manifold.dim))
            )
        )
        tangent = manifold.from_coordinates(origin, _unit(manifold.dim))
        zero = manifold.from_coordinates(origin, 0 * _unit(manifold.dim))
        yield (
            f"TangentGaussian, {manifold!r}",
            _attack(
                riemdp.TangentGaussian(manifold, origin, sensitivity=1.0, budget=BUDGET),
                tangent,
                zero,
            ),
        )
        yield (
            f"WrappedGaussian, {manifold!r}",
            _attack(
                riemdp.WrappedGaussian(
                    manifold, origin, sensitivity=reach, budget=BUDGET, ball=ball
                ),
                inside,
                origin,
            ),
        )
        yield (
            f"WrappedLaplace, {manifold!r}",
            _attack(
                riemdp.WrappedLaplace(
                    manifold, origin, sensitivity=reach, epsilon=EPSILON, ball=ball
                ),
                inside,
                origin,
            ),
        )
        small = (
            0.3 if manifold is hyperbolic else reach
        )  # the Laplace law of H^2 exists for s < 1 only
        near = manifold.exp(origin, manifold.from_coordinates(origin, small * _unit(manifold.dim)))
        yield (
            f"RiemannianLaplace, {manifold!r}",
            _attack(
                riemdp.RiemannianLaplace(manifold, sensitivity=small, epsilon=EPSILON), near, origin
            ),
        )
    yield (
        "ExtrinsicGaussian, Sphere(3)",
        _attack(
            riemdp.ExtrinsicGaussian(riemdp.Sphere(3), sensitivity=2.0, budget=BUDGET),
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, 0.0, -1.0]),
        ),
    )
    yield (
        "ExtrinsicLaplace, Sphere(3)",
        _attack(
            riemdp.ExtrinsicLaplace(riemdp.Sphere(3), sensitivity=2.0, epsilon=EPSILON),
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, 0.0, -1.0]),
        ),
    )
    yield "KNormGradient, Euclidean(2), mean of 2 records", _k_norm


def optimisers() -> Iterator[tuple[str, Audit]]:
    steps = 10
    full = {
        "noise_std": 0.1 * steps**0.5
    }  # n = 20, clip 1: noise multiplier sqrt(steps), total mu = 1
    for manifold in (riemdp.Euclidean(2), riemdp.Lorentz(3)):
        yield f"DPRGD, {manifold!r}", _run(riemdp.DPRGD(steps, 0.01, 1.0), manifold, **full)
        yield (
            f"DPRSGD, batch 4 of 20, {manifold!r}",
            _run(riemdp.DPRSGD(steps, 4, 0.01, 1.0), manifold, noise_std=0.5),
        )
        yield (
            f"DPRSGD, Poisson, batch 4 of 20, {manifold!r}",
            _run(riemdp.DPRSGD(steps, 4, 0.01, 1.0, sampling="poisson"), manifold, noise_std=0.25),
        )
        for variant in ("anchored", "as-published"):
            yield (
                f"DPRSVRG, {variant}, {manifold!r}",
                _run(
                    riemdp.DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0, variant=variant),
                    manifold,
                    noise_std=0.1 if variant == "anchored" else 3.0,
                ),
            )
        yield (
            f"DPRSVRG, anchored, Hessians in [0.5, 1], {manifold!r}",
            _run(
                riemdp.DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0, convexity=0.5),
                manifold,
                noise_std=0.1,
            ),
        )
    sphere = riemdp.Sphere(3)
    for attack, optimizer, noise_std in (
        ("off-manifold", riemdp.DPRGD(1, 1e-3, 1.0), 0.03),
        ("off-manifold", riemdp.DPRSVRG(1, 1, 1e-3, 1.0), 0.03),
        ("along", riemdp.DPRGD(1, 0.05, 1.0, update="retract"), 0.1),
        ("outside", riemdp.DPRGD(1, 0.01, sensitivity="domain"), 0.03),
    ):
        title = f"{type(optimizer).__name__}, start or record at an edge ({attack}), {sphere!r}"
        yield title, _run(optimizer, sphere, noise_std, attack)


def front_door() -> Iterator[tuple[str, Audit, int]]:
    """What users call, as shipped: (row title, audit, trials). One of eight records is far out, on
    one side or the other.
    """
    line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
    far = np.zeros((8, 1))
    far[0] = 1e6
    for name, trials in (
        ("wrapped-gaussian", 4_000),
        ("wrapped-laplace", 4_000),
        ("riemannian-laplace", 4_000),
        ("k-norm-gradient", 1_000),
        ("extrinsic-gaussian", 4_000),
        ("dp-rgd", 500),
    ):

        def mean(x: Any, rng: Any, name: str = name) -> riemdp.Release:
            return riemdp.private_frechet_mean(line, x, ball, BUDGET, mechanism=name, rng=rng)

        yield f"private_frechet_mean, {name}, Euclidean(1)", _through(mean, far, -far), trials

    spd = riemdp.SPDAffineInvariant(2)
    out = np.tile(np.eye(2), (8, 1, 1))
    away = out.copy()
    out[0], away[0] = np.diag([1e6, 1.0]), np.diag([1e-6, 1.0])

    def spd_mean(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_frechet_mean(
            spd, x, riemdp.Ball(np.eye(2), 1.0), BUDGET, mechanism="wrapped-gaussian", rng=rng
        )

    yield "private_frechet_mean, wrapped-gaussian, SPD(2)", _through(spd_mean, out, away), 1_000

    prirfed = riemdp.PriRFed(
        riemdp.problems.frechet_mean(line),
        riemdp.DPRGD(4, 0.01, 1.0),
        rounds=1,
        agents_per_round=1,
    )

    def agent(x: Any, rng: Any) -> Any:
        done = local_update(prirfed, x, np.zeros(1), 0.25, rng=rng)
        return SimpleNamespace(
            value=done.value, guarantee=done.guarantee, mechanism="an agent's reply"
        )

    yield "an agent's round (local_update), DPRGD, Euclidean(1)", _through(agent, far, -far), 500


def _through(release: Any, inside: Any, outside: Any) -> Audit:
    """An audit of a function (records, rng) -> release, by the first entry of what it releases."""

    def score(values: Any) -> Any:
        return jnp.reshape(values, (len(values), -1))[:, 0]

    return lambda trials: audit_mechanism(
        release, inside, outside, trials=trials, score=score, rng=SEED
    )


def _unit(dim: int) -> np.ndarray:
    return np.eye(dim)[0]


def _attack(mechanism: Any, inside: Any, outside: Any) -> Audit:
    return lambda trials: audit_mechanism(mechanism, inside, outside, trials=trials, rng=SEED)


def _run(optimizer: Any, manifold: Any, noise_std: float, attack: str = "linear") -> Audit:
    def audit(trials: int) -> AuditResult:
        return audit_optimizer(
            optimizer,
            noise_std=noise_std,
            manifold=manifold,
            trials=trials,
            rng=SEED,
            attack=attack,
        )

    return audit


def _k_norm(trials: int) -> AuditResult:
    plane, kept = riemdp.Euclidean(2), jnp.zeros(2)

    def release(record: Any, rng: Any) -> Any:
        mean = jnp.asarray(record) / 2
        mechanism = riemdp.KNormGradient(
            plane,
            objective_gradient=lambda x: x - (record + kept) / 2,
            sensitivity=1.0,
            epsilon=EPSILON,
        )
        return mechanism.release(mean, rng)

    record_in, record_out = np.array([1.0, 0.0]), np.array([-1.0, 0.0])

    def score(x):
        return jnp.linalg.norm(x - record_out / 2, axis=-1) - jnp.linalg.norm(
            x - record_in / 2, axis=-1
        )

    return audit_mechanism(release, record_in, record_out, trials=trials, score=score, rng=SEED)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few trials: only shows that every attack runs"
    )
    parser.add_argument("--only", default="", help="only rows whose title contains this text")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent.parent / "docs" / "audit.md"
    )
    options = parser.parse_args(arguments)
    releases, runs = (100, 400) if options.quick else (4_000, 20_000)
    rows, refuted, failed = [], 0, 0
    begun = time.perf_counter()
    for title, audit, trials in [
        *((title, audit, releases) for title, audit in mechanisms()),
        *((title, audit, runs) for title, audit in optimisers()),
        *((title, audit, min(trials, releases)) for title, audit, trials in front_door()),
    ]:
        if options.only not in title:
            continue
        result = audit(trials)
        refuted += result.refuted
        print(f"{title}: {result}", flush=True)
        rows.append(
            f"| {title} | {result.trials} | {result.claimed_epsilon:.3f} |"
            f" {result.epsilon_lower:.3f} | {result.mu_lower:.3f} |"
            f" {'**refuted**' if result.refuted else 'no'} |"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    minutes = (time.perf_counter() - begun) / 60
    options.out.write_text(_page(rows, minutes), encoding="utf-8")
    print(f"{len(rows)} audits in {minutes:.1f} minutes, {refuted} refuted; table in {options.out}")
    return 1 if refuted or failed else 0


def _page(rows: list[str], minutes: float) -> str:
    head = [
        "# Audit of the guarantees",
        "",
        (
            "Every mechanism and optimiser, attacked on a worst-case pair of neighbouring inputs."
            " The lower bounds hold at 95 % confidence"
        ),
        (
            "each; a bound above the claim would refute it. Bounds grow towards the truth with the"
            " number of trials, so a gap says that"
        ),
        "the attack ran out of trials, not that privacy is left over. Written by `make audit`"
        f" in {minutes:.0f} minutes.",
        "",
        (
            "| attacked | trials a side | epsilon claimed (delta = 1e-5) | epsilon seen, at least |"
            " mu seen, at least | refuted |"
        ),
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
