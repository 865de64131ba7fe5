"""Huang2024 Figures 1 to 4: federated runs with published and certified noise, through
`run_in_process`.
"""

from __future__ import annotations

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
from riemdp.optimizers import DPRGD, DPRSGD, DPRSVRG, private_minimize
from riemdp.privacy import Budget

from .data import digits, histology_patches, mnist, pathmnist
from .panels import Panel, panel_figure
from .registry import Context, Result, experiment
from .reimherr2021_data import wishart_in_ball
from .runs import Curves, curve_rows, curve_series, ending, epsilon_words, repeat, wins
from .summaries import with_stand_in
from .utpala2023_risk import published_sigma

SGD, SVRG = "DP-RSGD", "DP-RSVRG"
P, C = "published noise", "certified noise"
ANCHORED = "DP-RSVRG anchored (ours), certified noise"


@dataclass(frozen=True)
class Federation:
    """One panel: the agents' records, the problem, a public start, and the paper's settings."""

    label: str
    problem: Any
    datasets: Sequence[Any]
    initial: Any
    clip: float
    epsilon: float
    delta: float
    rate: float
    sgd: tuple[int, int] | None  # K, b
    svrg: tuple[int, int] | None  # K, m
    sampled: int = 1
    anchored: bool = True  # also run our variant of DP-RSVRG

    @property
    def size(self) -> int:
        first = self.datasets[0]
        return len(first[0] if isinstance(first, tuple) else first)


def local_sigma(problem: Any, local: Any, size: int, epsilon: float, delta: float) -> float:
    """The noise with which ONE invitation of an agent with `size` records is within (epsilon,
    delta): calibrated, not printed.
    """
    alone = PriRFed(problem, local, rounds=1, agents_per_round=1, participation="round-robin")
    return plan_federated(alone, [size], Budget(epsilon, delta)).sigmas[0]


def local_epsilon(problem: Any, local: Any, size: int, sigma: float, delta: float) -> float:
    """What ONE invitation with this sigma really costs a record."""
    alone = PriRFed(problem, local, rounds=1, agents_per_round=1, participation="round-robin")
    return float(plan_federated(alone, [size], None, noise_std=sigma).guarantee.epsilon(delta))


Cases = list[tuple[Federation, dict[str, Curves], float]]


def objective(row: Any) -> float:
    """The cost at a recorded round."""
    return row.objective


def locals_of(f: Federation) -> dict[str, tuple[Any, float]]:
    """Name of each arm -> (local optimiser, sigma); the certified ones spend exactly the stated
    (epsilon, delta) an invitation.
    """
    out: dict[str, tuple[Any, float]] = {}
    if f.sgd is not None:
        steps, batch = f.sgd
        local = DPRSGD(steps, batch, f.rate, f.clip)
        out[f"{SGD}, {P}"] = local, published_sigma(steps, f.clip, f.size, f.epsilon, f.delta)
        out[f"{SGD}, {C}"] = local, local_sigma(f.problem, local, f.size, f.epsilon, f.delta)
    if f.svrg is not None:
        epochs, inner = f.svrg
        local = DPRSVRG(epochs, inner, f.rate, f.clip, variant="as-published")
        out[f"{SVRG}, {P}"] = (
            local,
            published_sigma(epochs * inner, f.clip, f.size, f.epsilon, f.delta),
        )
        out[f"{SVRG}, {C}"] = local, local_sigma(f.problem, local, f.size, f.epsilon, f.delta)
        if not f.anchored:
            return out
        # One pass and a few corrections on half the records: about as many gradient calls as the
        # published variant makes.
        ours = DPRSVRG(1, 3, f.rate, f.clip, batch_size=max(1, f.size // 2))
        out[ANCHORED] = ours, local_sigma(f.problem, ours, f.size, f.epsilon, f.delta)
    return out


def run_federation(
    f: Federation,
    *,
    rounds: int,
    runs: int,
    seed: int,
    points: int,
    measure: Callable[[Any], float],
) -> dict[str, Curves]:
    """All arms of one panel."""
    out: dict[str, Curves] = {}
    for name, (local, sigma) in locals_of(f).items():
        plan = PriRFed(f.problem, local, rounds=rounds, agents_per_round=f.sampled)

        def one(i: int, plan: Any = plan, sigma: float = sigma) -> Any:
            return run_in_process(
                plan,
                f.datasets,
                f.initial,
                rng=i,
                noise_std=sigma,
                record_every=max(1, rounds // points),
            )

        out[name] = repeat(one, runs=runs, seed=seed, against="step", measure=measure)
    return out


def without_noise(
    problem: Any, datasets: Sequence[Any], initial: Any, steps: int, rate: float
) -> tuple[Any, float]:
    """(point, objective) of gradient descent on all records: the true values. Not private."""
    pooled = jax.tree.map(
        lambda *parts: jnp.concatenate([jnp.asarray(p) for p in parts]), *datasets
    )
    done = private_minimize(problem, pooled, initial, DPRGD(steps, rate, 1.0), None, rng=0)
    return done.value, float(problem.objective(done.value, pooled))


def truth_words(
    f: Federation, curves: dict[str, Curves], rounds: int, svrg: tuple[int, int] | None = None
) -> str:
    """True epsilon of the published noise: one invitation (with the paper's sizes where the run is
    smaller), and the whole run.
    """
    size = f.size
    parts = []
    if f.sgd is not None:
        local = DPRSGD(f.sgd[0], max(1, size * f.sgd[1] // f.size), f.rate, f.clip)
        sigma = published_sigma(f.sgd[0], f.clip, size, f.epsilon, f.delta)
        whole = curves[f"{SGD}, {P}"].guarantee.epsilon(f.delta)
        parts.append(
            f"DP-RSGD {epsilon_words(local_epsilon(f.problem, local, size, sigma, f.delta))} an"
            f" invitation ({epsilon_words(whole)} for the {rounds} rounds run here)"
        )
    chosen = svrg or f.svrg
    if chosen is not None:
        local = DPRSVRG(*chosen, f.rate, f.clip, variant="as-published")
        sigma = published_sigma(chosen[0] * chosen[1], f.clip, size, f.epsilon, f.delta)
        whole = curves[f"{SVRG}, {P}"].guarantee.epsilon(f.delta)
        parts.append(
            f"DP-RSVRG {epsilon_words(local_epsilon(f.problem, local, size, sigma, f.delta))} an"
            f" invitation ({epsilon_words(whole)} for the run here)"
        )
    return f"stated ({f.epsilon:g}, {f.delta:g}) an invitation, N_i = {size}: " + ", ".join(parts)


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
    rounds: int,
    runs: int,
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
        published=f"Median (quartiles) of {runs} runs after {rounds} rounds. "
        + ". ".join(comparison(f.label, c, P) for f, c, _ in cases)
        + ".",
        certified="Noise for which one invitation really is within the stated (eps, delta). "
        + ". ".join(comparison(f.label, c, C) for f, c, _ in cases)
        + ".",
        true_epsilon=truth + ".",
        data=data,
        stand_in=stand_in,
        facts={
            f.label: {name: float(v.guarantee.epsilon(f.delta)) for name, v in c.items()}
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
    agents, size, runs = context.choose(3, 20), 4000, 20
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
    settings = (
        (
            "all agents, K = 1, b = N_i",
            agents,
            (1, size),
            None,
            10 / (2 * tau),
            context.choose(8, 100),
        ),
        (
            "one agent, K = 5, b = N_i/2",
            1,
            (5, size // 2),
            None,
            1.0 / norm**2,
            context.choose(8, 200),
        ),
        (
            f"one agent, K = 2, m = {inner}",
            1,
            None,
            (2, inner),
            1 / (10 * agents ** (2 / 3) * tau) * 10,
            context.choose(8, 200),
        ),
    )
    rows, tops, bottoms, cases, truths = [], [], [], [], []
    for label, sampled, sgd, svrg, rate, rounds in settings:
        cost, gradient = {}, {}
        for epsilon in context.choose((0.08, 0.3), (0.08, 0.15, 0.3)):
            where = f"{label}, eps = {epsilon:g}"
            f = Federation(
                where,
                problem,
                data,
                start,
                tau,
                epsilon,
                1e-5,
                rate,
                sgd,
                svrg,
                sampled,
                anchored=False,
            )
            both: list[list[float]] = []

            def height(row: Any, both: list[list[float]] = both) -> float:
                both.append([slope(row)])
                return row.objective

            curves = run_federation(
                f,
                rounds=rounds,
                runs=runs,
                seed=context.seed,
                points=context.choose(3, 10),
                measure=height,
            )
            slopes = iter(np.asarray(both)[:, 0])
            for name, c in curves.items():
                short = name.replace(f"{SGD}, ", "").replace(f"{SVRG}, ", "")
                cost[f"ε = {epsilon:g}, {short}"] = c
                heights = np.array([next(slopes) for _ in range(c.y.size)]).reshape(c.y.shape)
                gradient[f"ε = {epsilon:g}, {short}"] = Curves(c.x, heights, c.guarantee, c.sigma)
            rows += curve_rows({"setting": label, "epsilon": epsilon, "quantity": "cost"}, curves)
            cases.append((f, curves, best))
            truths.append(truth_words(f, curves, rounds))
            context.report(f.label)
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
    result = assemble(
        cases,
        [*tops, *bottoms],
        rows,
        rounds=settings[1][-1],
        runs=runs,
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
    return result


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
    runs, rounds = 20, context.choose(8, 50)
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
            0.15,
            1e-4,
            0.1,
            (3, size // 2),
            (3, inner),
        )
        curves = run_federation(
            f,
            rounds=rounds,
            runs=runs,
            seed=context.seed,
            points=context.choose(3, 10),
            measure=objective,
        )
        rows += curve_rows({"agents": count, "size": size}, curves)
        cases.append((f, curves, best))
        truths.append(
            truth_words(f, curves, rounds, svrg=(3, 10 * agents // 3))
            + f" (m = {10 * agents // 3})"
        )
        context.report(f.label)
    return assemble(
        cases,
        panels_of(cases, "cost f(x)", excess=False),
        rows,
        rounds=rounds,
        runs=runs,
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
    runs = 20
    rows, cases, truths = [], [], []
    for count in agents:
        problem, parts, start = build(count)
        size = len(parts[0])
        _, best = without_noise(problem, parts, start, 80, steps_rate)
        batch = max(1, size // 2)
        f = Federation(
            f"N = {count}, N_i = {size}",
            problem,
            parts,
            start,
            1.0,
            0.15,
            1e-4,
            rate,
            (3, batch),
            (3, 10),
        )
        curves = run_federation(
            f,
            rounds=rounds,
            runs=runs,
            seed=context.seed,
            points=context.choose(3, 10),
            measure=objective,
        )
        shifted = {
            name: Curves(c.x, c.y - best, c.guarantee, c.sigma) for name, c in curves.items()
        }
        rows += curve_rows({"agents": count, "size": size}, shifted)
        cases.append((f, shifted, 0.0))
        truths.append(truth_words(f, curves, rounds))
        context.report(f.label)
    panels = panels_of(cases, "excess risk f(x) − f(x*)", excess=True)
    return assemble(cases, panels, rows, rounds=rounds, runs=runs, truth="; ".join(truths), **words)


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
