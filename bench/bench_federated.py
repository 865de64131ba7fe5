"""Federated rounds: a simulation beside the same over Flower's messages.

    python -m bench.bench_federated [simulation | secure]

Needs the extra `federated`; without it, it says so and does nothing. Simulation: principal
eigenvector of MNIST, N = 100 agents, s = 5 a round, T = 200 rounds, both local methods. Secure: 100
virtual sites that share their noise, all of them in every round, a mean of 11 x 11 matrices.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import time
from typing import Any

import numpy as np
from tests.seam import over_flower

import riemdp
from papers.data import mnist
from riemdp import DPRSGD, DPRSVRG, Budget, PriRFed, problems

from ._timing import Paired, Row, comparison, write_table

AGENTS, SAMPLED, ROUNDS = 100, 5, 200


# -----------------------------------------------------------------------------
# simulation
def mnist_agents() -> list[np.ndarray]:
    """MNIST images as unit vectors (no public constant is needed to bound them), evenly over the
    agents in a fixed order.
    """
    images = mnist().images
    flat = images.reshape(len(images), -1).astype(np.float64)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(flat))
    return list(np.stack(np.array_split(flat[order], AGENTS)))


def locals_of(records: int) -> dict[str, Any]:
    """Both local methods with K = 5 inner steps."""
    return {
        "DP-RSGD": DPRSGD(5, records // 2, 0.02, 1.0),
        "DP-RSVRG": DPRSVRG(1, 5, 0.02, 1.0, batch_size=records // 2),
    }


def simulation(rounds: int = ROUNDS) -> list[Row]:
    """Milliseconds a round, in process beside the same over Flower's messages; both with noise from
    the operating system.
    """
    data = mnist_agents()
    problem = problems.principal_eigenvector(data[0].shape[1], row_norm=1.0)
    start = np.full(data[0].shape[1], data[0].shape[1] ** -0.5)
    everything = np.concatenate(data)
    best = float(np.linalg.eigvalsh(everything.T @ everything / len(everything))[-1])
    rows = []
    for name, local in locals_of(len(data[0])).items():
        prirfed = PriRFed(problem, local, rounds=rounds, agents_per_round=SAMPLED)
        took, values = both_ways(prirfed, data, start)
        explained = [float(np.mean((everything @ w) ** 2)) / best for w in values]
        print(f"{name}: explains {explained} of what the eigenvector does", flush=True)
        rows.append(
            comparison(
                f"simulated round in process, MNIST eigenvector, N = {AGENTS}, s = {SAMPLED}, T ="
                f" {rounds}, {name}",
                "the same over Flower's messages",
                took,
            )
        )
    return rows


def both_ways(prirfed: PriRFed, data: list[np.ndarray], start: Any) -> tuple[Paired, list[Any]]:
    """Seconds a round in process and over messages, and the points that were found."""
    from riemdp.federated import flower, plan_federated, run_in_process

    budget, took, values = Budget(1.0, 1e-5), [], []
    # compiled and calibrated before the clock runs
    run_in_process(dataclasses.replace(prirfed, rounds=2), data, start, budget)
    plan_federated(prirfed, [len(d) for d in data], budget)
    for call in (run_in_process, flower.simulate):
        begin = time.perf_counter()
        done = call(prirfed, data, start, budget)
        took.append((time.perf_counter() - begin) / prirfed.rounds)
        values.append(np.asarray(done.value))
        moved = sum(r.moved for r in done.rounds)
        print(f"{took[-1]:.3g} s a round, {moved} moved, {done.guarantee}", flush=True)
    return Paired.of(took[:1], took[1:]), values


# -----------------------------------------------------------------------------
# secure sums
def secure(rounds: int = 3) -> list[Row]:
    """Seconds a round of 100 virtual sites under secure sums, in process beside the engine."""
    space = riemdp.SPDLogEuclidean(11)
    problem = problems.frechet_mean(space, ball=riemdp.Ball(space.origin, 2.0))
    source, data = riemdp.noise_source(1), []
    for _ in range(AGENTS):
        logs = 0.2 * source.normals((20, 11, 11))
        points = space.exp(space.origin, logs + np.swapaxes(logs, 1, 2))
        data.append(np.asarray(points))
    local = riemdp.DPRGD(steps=1, learning_rate=0.25, sensitivity="domain")
    prirfed = PriRFed(
        problem, local, rounds=rounds, agents_per_round=AGENTS, noise="shared", tolerated=10
    )
    took, _ = both_ways(prirfed, data, space.origin)
    print("bytes of a message:", message_sizes(np.asarray(space.origin), space.dim))
    return [
        comparison(
            f"simulated round in process, secure sums, N = {AGENTS}, 66 coordinates, T = {rounds}",
            "the same over Flower's messages",
            took,
            unit="s",
        )
    ]


def message_sizes(point: np.ndarray, dim: int, sites: int = AGENTS) -> dict[str, int]:
    """Bytes as the engine serialises them, without its envelope."""
    from flwr.common.serde import recorddict_to_proto  # pyright: ignore[reportMissingImports]

    flower = over_flower()
    digits, words = "0" * 64, np.zeros(dim, dtype=np.uint64)
    members = {"members": [f"site-{i}" for i in range(sites)], "keys": [digits] * sites}
    asked = {"kind": "tangents", "share": 0.1, "limit": 0.5, "unit": 1.0, "factor": 0}
    messages = {
        "HELLO's answer": flower.pack(name="site-0", records=20, sigma=1.0, key=digits),
        f"question to {sites} sites": flower.pack(point, round=3, agreement=digits, **members),
        "answer": flower.pack(words, records=20, key=digits),
        "question of a search": flower.pack(point, round=3, agreement=digits, **asked),
        f"question of a search to {sites} sites": flower.pack(
            point, round=3, agreement=digits, **asked, **members
        ),
        "answer with a count": flower.pack(np.zeros(1), records=20, key=""),
        "answer with a sum": flower.pack(np.zeros(dim), records=20, key=""),
        "answer with a masked count": flower.pack(words[:1], records=20, key=digits),
    }
    return {what: recorddict_to_proto(content).ByteSize() for what, content in messages.items()}


def main() -> None:
    if importlib.util.find_spec("flwr") is None:
        print("bench_federated: skipped, flwr is not installed (pip install -e '.[federated]')")
        return
    parts = {"simulation": simulation, "secure": secure}
    wanted = sys.argv[1:] or list(parts)
    rows: list[Row] = []
    for part in wanted:
        try:
            rows += parts[part]()
        except riemdp.DataUnavailable as error:
            print(f"bench_federated: {part} skipped: {error}")
    if rows:
        print(write_table("federated", "Federated rounds", rows).read_text())


if __name__ == "__main__":
    main()
