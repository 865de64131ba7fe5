"""Utpala2023 Figure 3: excess risk of DP-RGD, DP-RSGD and DP-RSVRG against gradient calls."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riemdp import problems
from riemdp.datasets import covariance_descriptors, descriptor_ball
from riemdp.manifolds import PoincareBall, SPDAffineInvariant
from riemdp.optimizers import DPRGD, DPRSGD, DPRSVRG, private_minimize
from riemdp.privacy import Budget

from .data import digits, histology_patches, mnist, pathmnist
from .panels import Panel, panel_figure
from .registry import Context, Result, experiment
from .runs import Curves, curve_rows, curve_series, ending, epsilon_words, repeat, wins
from .summaries import mammals, number, with_stand_in

DELTA = 1e-6
RGD, RSGD, RSVRG, ANCHORED = "DP-RGD", "DP-RSGD", "DP-RSVRG", "DP-RSVRG, anchored (ours)"


def published_sigma(
    queries: int, clip: float, n: int, epsilon: float, delta: float = DELTA
) -> float:
    """sigma of the papers: sigma^2 = queries log(1/delta) clip^2 / (n epsilon)^2, the unstated
    constant taken as 1.

    `queries`: T steps of DP-RGD and DP-RSGD, m S inner steps of DP-RSVRG (Utpala2023 Claim 5). Not
    a calibration.
    """
    return math.sqrt(queries * math.log(1 / delta)) * clip / (n * epsilon)


@dataclass(frozen=True)
class Task:
    """One row of Figure 3: a problem, its records, a public start, the least value of the
    objective, and the settings.
    """

    label: str
    problem: Any
    data: Any
    initial: Any
    best: float
    clip: float
    rates: tuple[float, float, float]  # DP-RGD, DP-RSGD, DP-RSVRG
    passes: int  # steps of DP-RGD; the others are given as many gradient calls


def methods(task: Task) -> dict[str, Any]:
    """The optimisers of a task, each with about the same number of gradient calls.

    Ours takes fewer steps, on batches of sqrt(n): a single record at a time cannot be hidden
    cheaply.
    """
    n = len(task.data)
    inner, batch = max(2, n // 10), max(1, math.isqrt(n))
    epochs = max(1, round(task.passes * n / (n + 2 * inner)))
    svrg = DPRSVRG(epochs, inner, task.rates[2], task.clip, batch_size=1, variant="as-published")
    return {
        RGD: DPRGD(task.passes, task.rates[0], task.clip),
        RSGD: DPRSGD(task.passes * n, 1, task.rates[1], task.clip),
        RSVRG: svrg,
        ANCHORED: replace(
            svrg,
            variant="anchored",
            batch_size=batch,
            inner_steps=max(3, n // (10 * batch)),
            learning_rate=task.rates[0] / 3,
        ),
    }


def run_task(task: Task, epsilon: float, *, runs: int, seed: int) -> dict[str, Curves]:
    """All methods with published and with certified noise, and DP-RGD without noise for the
    tuning's sake.
    """
    n = len(task.data)
    out: dict[str, Curves] = {}
    for name, optimizer in methods(task).items():
        svrg = name in (RSVRG, ANCHORED)
        queries = optimizer.epochs * optimizer.inner_steps if svrg else optimizer.steps
        every = max(1, queries // 4)
        for kind in ("published", "certified"):
            if kind == "published" and name == ANCHORED:
                continue
            given: dict[str, Any] = {"budget": Budget(epsilon, DELTA)}
            if kind == "published":
                given = {"noise_std": published_sigma(queries, task.clip, n, epsilon)}
            one = functools.partial(
                private_minimize,
                task.problem,
                task.data,
                task.initial,
                optimizer,
                record_every=every,
                **given,
            )
            label = name if name == ANCHORED else f"{name}, {kind} noise"
            out[label] = repeat(
                one, runs=runs, seed=seed, measure=lambda row: row.objective - task.best
            )
    return out


def without_noise(
    problem: Any, data: Any, start: Any, steps: int, rate: float
) -> tuple[Any, float]:
    """(point, objective) of gradient descent: the least, for the excess risk of a simulation. Not
    private.
    """
    done = private_minimize(problem, data, start, DPRGD(steps, rate, 1.0), None, rng=0)
    return done.value, float(problem.objective(done.value, data))


# -----------------------------------------------------------------------------
# data
def descriptor_tasks(context: Context) -> tuple[list[Task], str, bool]:
    """Frechet means of RGB covariance descriptors, affine-invariant SPD(11): two classes of
    PathMNIST, or the stand-in.
    """
    images, stand_in = with_stand_in(
        pathmnist, lambda: histology_patches(32, 8), download=not context.quick
    )
    problem = problems.frechet_mean(SPDAffineInvariant(11))
    start = np.asarray(descriptor_ball(3, center="middle").center)
    tasks = []
    for label in range(context.choose(1, 2)):
        chosen = images.of_class(label)[: context.choose(800, None)]
        x = np.asarray(covariance_descriptors(chosen))
        _, best = without_noise(problem, x, start, 60, 0.4)
        name, rates, passes = images.classes[label], (2.0, 0.02, 0.05), context.choose(4, 10)
        tasks.append(Task(f"{name}, n = {len(x)}", problem, x, start, best, 1.0, rates, passes))
    return (
        tasks,
        f"{images.name}, covariance descriptors 11x11 ({', '.join(t.label for t in tasks)})",
        stand_in,
    )


def digit_tasks(context: Context) -> tuple[list[Task], str, bool]:
    """Leading eigenvectors of the images of MNIST digits 0 and 1, each record scaled to unit
    length.
    """
    images, stand_in = with_stand_in(
        lambda download: mnist("all", download=download), digits, download=not context.quick
    )
    tasks = []
    for label in range(context.choose(1, 2)):
        chosen = images.of_class(label)[: context.choose(2000, None)]
        z = chosen.reshape(len(chosen), -1).astype(np.float64)
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        problem = problems.principal_eigenvector(z.shape[1])
        start = np.full(z.shape[1], 1 / math.sqrt(z.shape[1]))
        best = -float(np.linalg.svd(z, compute_uv=False)[0] ** 2 / len(z))
        name, rates, passes = f"digit {label}", (2.0, 0.01, 0.02), context.choose(4, 10)
        tasks.append(Task(f"{name}, n = {len(z)}", problem, z, start, best, 0.1, rates, passes))
    return (
        tasks,
        f"{images.name} ({', '.join(t.label for t in tasks)}), rows of unit length",
        stand_in,
    )


def embedding_tasks(context: Context) -> tuple[list[Task], str, bool]:
    """Frechet mean of the Poincare embedding of the WordNet mammals, or of simulated points of the
    disk.
    """

    def simulated() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(context.seed)
        angle, radius = 2 * math.pi * rng.random(1180), np.sqrt(rng.random(1180)) * 0.9
        return {
            "poincare_embedding": np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        }

    found, name, stand_in = mammals(
        simulated, "simulated points of the disk", download=not context.quick
    )
    y = disk_points(found)
    problem = problems.frechet_mean(PoincareBall(2))
    start = np.array([0.3, 0.3])
    _, best = without_noise(problem, y, start, 200, 0.1)
    task = Task(
        f"n = {len(y)}", problem, y, start, best, 1.0, (0.6, 0.005, 0.02), context.choose(8, 20)
    )
    return [task], name, stand_in


def disk_points(found: dict[str, np.ndarray]) -> np.ndarray:
    """Points of the Poincare disk, projected from the hyperboloid where only that is given."""
    if "poincare_embedding" in found:
        return np.asarray(found["poincare_embedding"], dtype=np.float64)
    x = np.asarray(found["lorentz_embedding"], dtype=np.float64)
    return x[:, 1:] / (1 + x[:, :1])


# -----------------------------------------------------------------------------
# figures
def _figure(context: Context, made: tuple[list[Task], str, bool], paper_shows: str) -> Result:
    tasks, data, stand_in = made
    runs = 20
    rows, panels, results = [], [], []
    for task in tasks:
        for epsilon in context.choose((0.1, 0.5), (0.1, 0.3, 0.5)):
            curves = run_task(task, epsilon, runs=runs, seed=context.seed)
            rows += curve_rows({"task": task.label, "epsilon": epsilon, "delta": DELTA}, curves)
            panels.append(
                Panel(
                    curve_series(curves),
                    "gradient calls",
                    "excess risk F(w) − F(w*)",
                    f"ε = {epsilon:g}, {task.label}",
                    logy=True,
                )
            )
            results.append((task, epsilon, curves))
            context.report(f"{task.label}, epsilon = {epsilon}")
    order, certified, truth = [], [], []
    for task, epsilon, c in results:
        where = f"eps = {epsilon:g}" + (f" ({task.label})" if len(tasks) > 1 else "")
        p = [f"{name}, published noise" for name in (RGD, RSGD, RSVRG)]
        q = [f"{name}, certified noise" for name in (RGD, RSGD, RSVRG)] + [ANCHORED]
        order.append(
            f"{where}: {ending(c, p)}; DP-RSVRG below DP-RGD in {100 * wins(c, p[2], p[0]):.0f} %,"
            f" below DP-RSGD in {100 * wins(c, p[2], p[1]):.0f} % of pairs of runs"
        )
        certified.append(
            f"{where}: {ending(c, q)}; DP-RSVRG below DP-RGD in {100 * wins(c, q[2], q[0]):.0f} %,"
            f" anchored below DP-RGD in {100 * wins(c, q[3], q[0]):.0f} %, anchored below published"
            f" variant in {100 * wins(c, q[3], q[2]):.0f} %"
        )
        truth.append(
            f"stated {epsilon:g}: "
            + ", ".join(
                f"{name} {epsilon_words(c[f'{name}, published noise'].guarantee.epsilon(DELTA))}"
                for name in (RGD, RSGD, RSVRG)
            )
        )
    return Result(
        rows,
        panel_figure(panels, columns=min(3, len(panels)), size=(5.6, 4.6), legend_columns=2),
        paper_shows=paper_shows,
        published=f"Final excess risk, median (quartiles) of {runs} runs. "
        + ". ".join(order)
        + ".",
        certified=f"Same stated (eps, {DELTA:g}). "
        + ". ".join(certified)
        + f". The anchored variant takes batches of sqrt(n) = {math.isqrt(len(tasks[0].data))}.",
        true_epsilon=(
            f"At delta = {DELTA:g}, replace-one, sigma^2 = (queries) log(1/delta) C^2/(n eps)^2"
            " with the constant taken as 1: "
        )
        + "; ".join(truth)
        + ".",
        data=data
        + f"; clip {number(tasks[0].clip)}, rates {tasks[0].rates}, one record a step for DP-RSGD"
        " and DP-RSVRG",
        stand_in=stand_in,
        facts={
            f"{t.label}, {e:g}": {k: float(v.guarantee.epsilon(DELTA)) for k, v in c.items()}
            for t, e, c in results
        },
    )


@experiment(
    "utpala2023-figure-3a",
    "Excess risk against gradient calls: Frechet mean of SPD(11) image descriptors",
)
def figure_3a(context: Context) -> Result:
    return _figure(
        context,
        descriptor_tasks(context),
        "DP-RSVRG has a lower excess risk than both baselines on the first "
        "class; on the "
        "second it beats DP-RGD and is similar to DP-RSGD (five runs, tuned).",
    )


@experiment(
    "utpala2023-figure-3b",
    "Excess risk against gradient calls: principal eigenvector of MNIST digits",
)
def figure_3b(context: Context) -> Result:
    return _figure(
        context,
        digit_tasks(context),
        "DP-RSVRG consistently needs fewer gradient calls than DP-RGD and "
        "DP-RSGD and ends "
        "with a good excess risk (five runs, tuned).",
    )


@experiment(
    "utpala2023-figure-3c",
    "Excess risk against gradient calls: Frechet mean of Poincare word embeddings",
)
def figure_3c(context: Context) -> Result:
    return _figure(
        context,
        embedding_tasks(context),
        "DP-RSVRG beats DP-RSGD, most at small epsilon; DP-RGD is best of all, "
        "and DP-RSVRG keeps up with it at first (five runs, tuned).",
    )
