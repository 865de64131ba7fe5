"""Huang2024 Figures 1 to 4: federated runs with published and certified noise, through
`run_in_process`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from riemdp import problems
from riemdp.datasets import covariance_descriptors, descriptor_ball
from riemdp.federated import PriRFed, plan_federated, run_in_process
from riemdp.manifolds import SPDAffineInvariant
from riemdp.optimizers import DPRSGD, DPRSVRG
from riemdp.privacy import Budget

from .data import digits, histology_patches, mnist, pathmnist
from .panels import Panel, panel_figure
from .registry import Context, Result, experiment
from .reimherr2021_data import wishart_in_ball
from .runs import Curves, curve_rows, curve_series, ending, epsilon_words, repeat, wins
from .summaries import with_stand_in
from .utpala2023_risk import published_sigma, without_noise

SGD, SVRG = "DP-RSGD", "DP-RSVRG"
P, C = "published noise", "certified noise"
ANCHORED = "DP-RSVRG anchored (ours), certified noise"
RUNS, STATED = 20, (0.15, 1e-4)


@dataclass(frozen=True)
class Federation:
    """One panel: the agents' records, the problem, a public start, and the paper's settings."""

    label: str
    problem: Any
    datasets: Sequence[Any]
    initial: Any
    clip: float
    stated: tuple[float, float]  # epsilon, delta
    rate: float
    rounds: int
    sgd: tuple[int, int] | None  # K, b
    svrg: tuple[int, int] | None  # K, m
    sampled: int = 1
    anchored: bool = True  # also run our variant of DP-RSVRG

    @property
    def budget(self) -> Budget:
        return Budget(*self.stated)

    @property
    def size(self) -> int:
        first = self.datasets[0]
        return len(first[0] if isinstance(first, tuple) else first)


def alone(problem: Any, local: Any) -> PriRFed:
    """ONE invitation of an agent."""
    return PriRFed(problem, local, rounds=1, agents_per_round=1, participation="round-robin")


def local_sigma(problem: Any, local: Any, size: int, budget: Budget) -> float:
    """The noise with which one invitation of an agent with `size` records is within the budget:
    calibrated, not printed.
    """
    return plan_federated(alone(problem, local), [size], budget).sigmas[0]


def local_epsilon(problem: Any, local: Any, size: int, sigma: float, delta: float) -> float:
    """What one invitation with this sigma really costs a record."""
    plan = plan_federated(alone(problem, local), [size], None, noise_std=sigma)
    return float(plan.guarantee.epsilon(delta))


Cases = list[tuple[Federation, dict[str, Curves], float]]


def objective(row: Any) -> float:
    """The cost at a recorded round."""
    return row.objective


def locals_of(f: Federation) -> dict[str, tuple[Any, float]]:
    """Name of each arm -> (local optimiser, sigma); the certified ones spend exactly the stated
    (epsilon, delta) an invitation.
    """
    out: dict[str, tuple[Any, float]] = {}

    def both(name: str, local: Any, queries: int) -> None:
        out[f"{name}, {P}"] = local, published_sigma(queries, f.clip, f.size, *f.stated)
        out[f"{name}, {C}"] = local, local_sigma(f.problem, local, f.size, f.budget)

    if f.sgd is not None:
        both(SGD, DPRSGD(*f.sgd, f.rate, f.clip), f.sgd[0])
    if f.svrg is not None:
        epochs, inner = f.svrg
        both(SVRG, DPRSVRG(*f.svrg, f.rate, f.clip, variant="as-published"), epochs * inner)
    if f.svrg is not None and f.anchored:
        # One pass and a few corrections on half the records: about as many gradient calls as the
        # published variant makes.
        ours = DPRSVRG(1, 3, f.rate, f.clip, batch_size=max(1, f.size // 2))
        out[ANCHORED] = ours, local_sigma(f.problem, ours, f.size, f.budget)
    return out


def run_federation(
    f: Federation,
    context: Context,
    measure: Callable[[Any], float] = objective,
    points: tuple[int, int] = (3, 10),
    runs: int = RUNS,
) -> dict[str, Curves]:
    """All arms of one panel; `points` are recorded in a quick and in a full run."""
    out: dict[str, Curves] = {}
    every = max(1, f.rounds // context.choose(*points))
    for name, (local, sigma) in locals_of(f).items():
        plan = PriRFed(f.problem, local, rounds=f.rounds, agents_per_round=f.sampled)
        given = {"noise_std": sigma, "record_every": every}
        one = functools.partial(run_in_process, plan, f.datasets, f.initial, **given)
        out[name] = repeat(one, runs=runs, seed=context.seed, against="step", measure=measure)
    context.report(f.label)
    return out


def pooled(datasets: Sequence[Any]) -> Any:
    """The records of all agents."""
    return jax.tree.map(lambda *parts: jnp.concatenate([jnp.asarray(p) for p in parts]), *datasets)


def truth_words(
    f: Federation, curves: dict[str, Curves], svrg: tuple[int, int] | None = None
) -> str:
    """True epsilon of the published noise: one invitation (with the paper's `svrg` where the run is
    smaller), and the whole run.
    """
    parts = []
    epsilon, delta = f.stated
    svrg = svrg or f.svrg

    def part(name: str, local: Any, queries: int, run: str) -> str:
        sigma = published_sigma(queries, f.clip, f.size, epsilon, delta)
        once = local_epsilon(f.problem, local, f.size, sigma, delta)
        whole = curves[f"{name}, {P}"].guarantee.epsilon(delta)
        return f"{name} {epsilon_words(once)} an invitation ({epsilon_words(whole)} for the {run})"

    if f.sgd is not None:
        local = DPRSGD(*f.sgd, f.rate, f.clip)
        parts.append(part(SGD, local, f.sgd[0], f"{f.rounds} rounds run here"))
    if svrg is not None:
        local = DPRSVRG(*svrg, f.rate, f.clip, variant="as-published")
        parts.append(part(SVRG, local, svrg[0] * svrg[1], "run here"))
    return f"stated ({epsilon:g}, {delta:g}) an invitation, N_i = {f.size}: " + ", ".join(parts)


def comparison(where: str, curves: dict[str, Curves], kind: str) -> str:
    """Final values and how often DP-RSVRG ends below DP-RSGD, in words."""
    chosen = [name for name in curves if name.endswith(kind)]
    words = f"{where}: {ending(curves, chosen)}"
    a, b = f"{SVRG}, {kind}", f"{SGD}, {kind}"
    if a in curves and b in curves:
        words += f"; DP-RSVRG below DP-RSGD in {100 * wins(curves, a, b):.0f} % of pairs"
        if kind == C:
            words += f", anchored in {100 * wins(curves, ANCHORED, b):.0f} %"
    return words


def assemble(
    cases: Cases,
    panels: list[Any],
    rows: list[dict[str, Any]],
    *,
    paper_shows: str,
    data: str,
    stand_in: bool,
    truth: str,
    size: tuple[float, float] = (5.6, 4.4),
    columns: int = 2,
) -> Result:
    return Result(
        rows,
        panel_figure(panels, columns=columns, size=size, legend_columns=2),
        paper_shows=paper_shows,
        published=f"Median (quartiles) of {RUNS} runs after {cases[-1][0].rounds} rounds. "
        + ". ".join(comparison(f.label, c, P) for f, c, _ in cases)
        + ".",
        certified="Noise for which one invitation really is within the stated (eps, delta). "
        + ". ".join(comparison(f.label, c, C) for f, c, _ in cases)
        + ".",
        true_epsilon=truth + ".",
        data=data,
        stand_in=stand_in,
        facts={
            f.label: {name: float(v.guarantee.epsilon(f.stated[1])) for name, v in c.items()}
            for f, c, _ in cases
        },
    )


def panels_of(cases: Cases, ylabel: str, *, excess: bool) -> list[Any]:
    out = []
    for f, curves, best in cases:
        levels = () if excess else (("without noise", best),)
        out.append(
            Panel(
                curve_series(curves, best if excess else 0.0),
                "round",
                ylabel,
                f.label,
                logy=excess,
                levels=levels,
            )
        )
    return out


# -----------------------------------------------------------------------------
# Figure 1
def synthetic_agents(
    rng: np.random.Generator, agents: int, size: int, d: int = 25, gap: float = 1e-3
) -> list[np.ndarray]:
    """Z_i = U_i Sigma_i V_i with singular values 1, 1 - 1.1 gap, ..., 1 - 1.4 gap, then |y|/d
    (section 6.1).
    """
    out = []
    v = np.linalg.qr(rng.standard_normal((d, d)))[0]
    for _ in range(agents):
        u = np.linalg.qr(rng.standard_normal((size, d)))[0]
        values = np.concatenate(
            [
                [1.0],
                1 - gap * np.array([1.1, 1.2, 1.3, 1.4]),
                np.abs(rng.standard_normal(d - 5)) / d,
            ]
        )
        out.append(math.sqrt(size) * (u * values) @ v)
    return out


@experiment(
    "huang2024-figure-1",
    "PriRFed, principal eigenvector of synthetic data: three settings at several privacy levels",
)
def figure_1(context: Context) -> Result:
    rng = np.random.default_rng(context.seed)
    agents, size = context.choose(3, 20), 4000
    data = synthetic_agents(rng, agents, size)
    norm = max(float(np.linalg.norm(z, axis=1).max()) for z in data)
    problem = problems.principal_eigenvector(25, row_norm=norm)
    tau = 2 * norm**2
    start = np.full(25, 0.2)
    stacked = np.concatenate(data)
    gram = stacked.T @ stacked / len(stacked)
    best = -float(np.linalg.eigvalsh(gram)[-1])

    def slope(row: Any) -> float:
        w = np.asarray(row.value)
        return 2 * float(np.linalg.norm(gram @ w - (w @ gram @ w) * w))

    inner = 10 * agents // 3
    fewer = 1 / (10 * agents ** (2 / 3) * tau) * 10
    settings = (
        ("all agents, K = 1, b = N_i", agents, (1, size), None, 10 / (2 * tau), (8, 100)),
        ("one agent, K = 5, b = N_i/2", 1, (5, size // 2), None, 1.0 / norm**2, (8, 200)),
        (f"one agent, K = 2, m = {inner}", 1, None, (2, inner), fewer, (8, 200)),
    )
    rows, tops, bottoms, cases, truths = [], [], [], [], []
    for label, sampled, sgd, svrg, rate, rounds in settings:
        cost, gradient = {}, {}
        for epsilon in context.choose((0.08, 0.3), (0.08, 0.15, 0.3)):
            f = Federation(
                f"{label}, eps = {epsilon:g}",
                problem,
                data,
                start,
                tau,
                (epsilon, 1e-5),
                rate,
                context.choose(*rounds),
                sgd,
                svrg,
                sampled,
                anchored=False,
            )
            both: list[list[float]] = []

            def height(row: Any, both: list[list[float]] = both) -> float:
                both.append([slope(row)])
                return row.objective

            curves = run_federation(f, context, height)
            slopes = iter(np.asarray(both)[:, 0])
            for name, c in curves.items():
                short = name.replace(f"{SGD}, ", "").replace(f"{SVRG}, ", "")
                cost[f"ε = {epsilon:g}, {short}"] = c
                heights = np.array([next(slopes) for _ in range(c.y.size)]).reshape(c.y.shape)
                gradient[f"ε = {epsilon:g}, {short}"] = Curves(c.x, heights, c.guarantee, c.sigma)
            rows += curve_rows({"setting": label, "epsilon": epsilon, "quantity": "cost"}, curves)
            cases.append((f, curves, best))
            truths.append(truth_words(f, curves))
        rows += [
            r
            for e in gradient
            for r in curve_rows(
                {"setting": label, "epsilon": e, "quantity": "gradient norm"}, {e: gradient[e]}
            )
        ]
        tops.append(
            Panel(curve_series(cost), "round", "cost f(x)", label, levels=(("least", best),))
        )
        bottoms.append(
            Panel(curve_series(gradient), "round", "norm of the gradient", "", logy=True)
        )
    return assemble(
        cases,
        [*tops, *bottoms],
        rows,
        columns=3,
        size=(5.2, 4.0),
        paper_shows=(
            "Cost and gradient norm fall, the further the larger epsilon is (0.08, 0.15, 0.3), for"
            " DP-RSGD with all agents, DP-RSGD with one agent a round and DP-RSVRG with one agent a"
            " round."
        ),
        data=(
            f"simulated as in section 6.1: {agents} agents with {size} records in R^25 (the paper's"
            f" N is not readable), scaled by sqrt(N_i); the clip norm 2 max|z|^2 = {tau:.3g} is"
            " taken as public; first and third setting with ten times the printed rate"
        ),
        stand_in=False,
        truth="; ".join(truths),
    )


# -----------------------------------------------------------------------------
# Figure 2
@experiment(
    "huang2024-figure-2",
    "PriRFed, principal eigenvector of MNIST: DP-RSGD and DP-RSVRG, four federations",
)
def figure_2(context: Context) -> Result:
    images, stand_in = with_stand_in(
        lambda download: mnist("train", download=download), digits, download=not context.quick
    )
    z = images.images.reshape(len(images), -1)
    shrink = context.choose(10, 1)
    rows, cases, truths = [], [], []
    scenarios = ((50, 1200), (60, 1000), (80, 750), (100, 600))
    for agents, size in (scenarios[0], scenarios[3]) if context.quick else scenarios:
        size = min(size, len(z) // agents) if stand_in else size
        count = max(2, agents // shrink)
        x = z[: count * size].astype(np.float64)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        inner = 10 * count // 3
        problem = problems.principal_eigenvector(x.shape[1])
        start = np.full(x.shape[1], 1 / math.sqrt(x.shape[1]))
        best = -float(np.linalg.eigvalsh(x.T @ x / len(x))[-1])
        parts = list(x.reshape(count, size, -1))
        f = Federation(
            f"N = {count}, N_i = {size}",
            problem,
            parts,
            start,
            2.0,
            STATED,
            0.1,
            context.choose(8, 50),
            (3, size // 2),
            (3, inner),
        )
        curves = run_federation(f, context)
        rows += curve_rows({"agents": count, "size": size}, curves)
        cases.append((f, curves, best))
        whole = 10 * agents // 3
        truths.append(truth_words(f, curves, svrg=(3, whole)) + f" (m = {whole})")
    return assemble(
        cases,
        panels_of(cases, "cost f(x)", excess=False),
        rows,
        paper_shows=(
            "DP-RSVRG converges faster than DP-RSGD in all four federations, and close to the true"
            " value."
        ),
        data=f"{images.name}, rows of unit length, clip 2"
        + (
            f"; a {shrink}th of the agents, each with the paper's "
            "number of records, and m = "
            "10 N/3 of those"
            if context.quick
            else ""
        ),
        stand_in=stand_in,
        truth="; ".join(truths),
    )


# -----------------------------------------------------------------------------
# Figures 3, 4
def _frechet(
    context: Context,
    build: Callable[[int], tuple[Any, list[np.ndarray], Any]],
    agents: Sequence[int],
    rate: float,
    rounds: int,
    steps_rate: float,
    **words: Any,
) -> Result:
    rows, cases, truths = [], [], []
    for count in agents:
        problem, parts, start = build(count)
        size = len(parts[0])
        _, best = without_noise(problem, pooled(parts), start, 80, steps_rate)
        f = Federation(
            f"N = {count}, N_i = {size}",
            problem,
            parts,
            start,
            1.0,
            STATED,
            rate,
            rounds,
            (3, max(1, size // 2)),
            (3, 10),
        )
        curves = run_federation(f, context)
        shifted = {
            name: Curves(c.x, c.y - best, c.guarantee, c.sigma) for name, c in curves.items()
        }
        rows += curve_rows({"agents": count, "size": size}, shifted)
        cases.append((f, shifted, 0.0))
        truths.append(truth_words(f, curves))
    panels = panels_of(cases, "excess risk f(x) − f(x*)", excess=True)
    return assemble(cases, panels, rows, truth="; ".join(truths), **words)


@experiment(
    "huang2024-figure-3", "PriRFed, Frechet mean of synthetic SPD(2) matrices: DP-RSGD and DP-RSVRG"
)
def figure_3(context: Context) -> Result:
    x = wishart_in_ball(np.random.default_rng(context.seed), (5000,), 0.5)
    problem = problems.frechet_mean(SPDAffineInvariant(2))
    start = np.array([[2.0, 0.5], [0.5, 1.0]])
    return _frechet(
        context,
        lambda n: (problem, list(x.reshape(n, 5000 // n, 2, 2)), start),
        (20, 50),
        0.05,
        context.choose(12, 100),
        0.3,
        paper_shows=(
            "DP-RSVRG has the lower excess risk throughout, and loses less than DP-RSGD when agents"
            " hold fewer records."
        ),
        data=(
            "simulated Wishart matrices within 0.5 of I, 5000 records; public start at distance"
            " about 0.8 of I"
        ),
        stand_in=False,
    )


@experiment(
    "huang2024-figure-4", "PriRFed, Frechet mean of 9x9 image descriptors: DP-RSGD and DP-RSVRG"
)
def figure_4(context: Context) -> Result:
    images, stand_in = with_stand_in(
        pathmnist, lambda: histology_patches(32, context.choose(16, 4)), download=not context.quick
    )
    total = min(len(images), context.choose(800, 20_000))
    order = np.random.default_rng(context.seed).permutation(len(images))[:total]
    grey = images.images[order].astype(np.float64) @ np.array([0.299, 0.587, 0.114]) / 255
    x = np.asarray(covariance_descriptors(grey, eta=1e-3))
    problem = problems.frechet_mean(SPDAffineInvariant(9))
    start = np.asarray(descriptor_ball(1, eta=1e-3, center="middle").center)

    def build(n: int) -> tuple[Any, list[np.ndarray], Any]:
        return problem, list(x[: n * (len(x) // n)].reshape(n, len(x) // n, 9, 9)), start

    return _frechet(
        context,
        build,
        context.choose((2, 4), (50, 100)),
        0.3,
        context.choose(8, 100),
        0.3,
        paper_shows=(
            "DP-RSVRG has the lower excess risk throughout, and loses less than DP-RSGD when agents"
            " hold fewer records (N_i = 200 and 400)."
        ),
        data=(
            f"{images.name}, {total} grey covariance descriptors 9x9, eta = 1e-3 (the paper states"
            " none)"
        ),
        stand_in=stand_in,
    )
