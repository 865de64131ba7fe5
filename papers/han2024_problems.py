"""Han2024: principal eigenvectors (figures 2b, 2c) and hyperbolic prediction (3a, 4)."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from riemdp.manifolds import Lorentz, SPDLogEuclidean
from riemdp.mechanisms import ExtrinsicGaussian
from riemdp.optimizers import DPRGD, private_minimize, private_principal_eigenvector
from riemdp.privacy import Budget, gaussian, gaussian_noise_multiplier
from riemdp.problems import hyperbolic_prediction, prediction_weights, principal_eigenvector

from ._old import repeated
from .data import Table, digits, riemopt_ijcnn, riemopt_satimage
from .disk import poincare_disk
from .han2024 import stated_true_epsilon
from .panels import Panel, Series, one_panel, panel_figure
from .projected_descent import projected_descent
from .registry import Context, Result, experiment
from .runs import spread
from .summaries import (
    mammals,
    number,
    quartile_columns,
    quartiles,
    share_below,
    with_stand_in,
)

DELTA = 1e-3


# -----------------------------------------------------------------------------
# eigenvectors
def scaled_rows(X: np.ndarray) -> tuple[np.ndarray, float]:
    """Rows sqrt(n) x / |X|_2 of the z-scored table, and their largest norm: then the mean of z z^T
    has largest eigenvalue 1.

    As in the paper these scales are taken from the data, which is not private; both sides of the
    comparison share them.
    """
    spread = np.std(X, axis=0, ddof=1)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    Z = Z * (math.sqrt(len(Z)) / np.linalg.norm(Z, 2))
    return Z, float(np.linalg.norm(Z, axis=1).max()) * (1 + 1e-12)


def published_steps(n: int, d: int, lipschitz: float, epsilon: float) -> int:
    """T = ceil(log(n^2 eps^2 / (d L0^2 log(1/delta)))), at least 1; L0 of the sum of losses, as the
    authors' code takes it.
    """
    return max(1, math.ceil(math.log(n**2 * epsilon**2 / (d * lipschitz**2 * math.log(1 / DELTA)))))


def code_multiplier(n: int, epsilon: float, steps: int) -> float:
    """sigma / (replace-one sensitivity) in the authors' published code: sigma^2 = T log(1/delta)
    L0^2 / (n^2 * eps * 2) on the gradient of the *sum* of the losses, whose sensitivity is L0 = 2
    max |z|^2 by clipping to max |z|^2.
    """
    return math.sqrt(steps * math.log(1 / DELTA) / (2 * epsilon)) / n


def _eigenvector(context: Context, load: Any, stand_in: Any, words: str, other: str) -> Result:
    table, substituted = with_stand_in(load, stand_in, download=not context.quick)
    Z, norm = scaled_rows(np.asarray(table.values, dtype=np.float64))
    n, d = Z.shape
    A = Z.T @ Z / n
    top = float(np.linalg.eigvalsh(A)[-1])
    runs = 20
    epsilons = context.choose(
        (0.01, 0.1, 0.7), (0.001, 0.005, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.7)
    )
    # The problem's own scale is the mean of |z|^2 <= norm^2; the paper's L0 is that of the sum of
    # x^T x with |X|_2 = 1.
    lipschitz = 2 * norm**2 / n
    problem = principal_eigenvector(d, row_norm=norm)
    rng = np.random.default_rng(context.seed)
    start = rng.standard_normal(d)
    start /= np.linalg.norm(start)
    rows: list[dict[str, Any]] = []
    values: dict[str, dict[float, np.ndarray]] = {}
    spent: dict[float, tuple[float, float]] = {}

    def risk(w: Any) -> np.ndarray:
        w = np.atleast_2d(np.asarray(w))
        return top - np.einsum("ij,jk,ik->i", w, A, w)

    def descend(multiplier: float, steps: int, seed: int) -> np.ndarray:
        sigma = multiplier * 2 * norm**2 / n
        method = DPRGD(steps, 0.9)
        return risk(repeated(problem, Z, start, method, noise_std=sigma, runs=runs, rng=seed))

    for i, eps in enumerate(epsilons):
        steps, seed, budget = (
            published_steps(n, d, lipschitz, eps),
            context.seed + 1000 * i,
            Budget(eps, DELTA),
        )
        stated = (
            math.sqrt(steps * math.log(1 / DELTA)) / eps
        )  # L0 = 2 max |z|^2 is twice the largest gradient
        code = code_multiplier(n, eps, steps)
        spent[eps] = (gaussian(stated, steps).epsilon(DELTA), gaussian(code, steps).epsilon(DELTA))
        gmip = ExtrinsicGaussian(
            SPDLogEuclidean(d),
            sensitivity=2 * norm**2 / n,
            budget=budget,
            calibration="classical",
            project=False,
        )
        noisy = [np.asarray(gmip.release(A, seed + 100 + j).value) for j in range(runs)]
        arms = {
            "DP-RGD, noise of the authors' code": descend(code, steps, seed),
            "DP-RGD, noise as stated": descend(stated, steps, seed + 1),
            "DP-RGD, certified": descend(gaussian_noise_multiplier(budget, steps), steps, seed + 2),
            "GMIP, published": risk(np.stack([np.linalg.eigh(x)[1][:, -1] for x in noisy])),
        }
        seeds = [seed + 200 + j for j in range(runs)]
        given: dict[str, Any] = {"row_norm": norm, "steps": steps, "initial": start}
        arms["DP-PGD, certified"] = risk(
            [projected_descent(Z, budget, learning_rate=10.0, rng=s, **given)[0] for s in seeds]
        )
        arms["GMIP, certified"] = risk(
            [private_principal_eigenvector(Z, budget, row_norm=norm, rng=s).value for s in seeds]
        )
        for name, risks in arms.items():
            values.setdefault(name, {})[eps] = risks
            found = quartile_columns(risks, "excess_risk")
            where = {"epsilon": eps, "method": name, "steps": steps}
            rows.append({**where, **found, "runs": len(risks)})
        context.report(f"epsilon = {eps:g}")
    series = []
    for name, by_eps in values.items():
        middle, low, high = zip(*(quartiles(by_eps[e]) for e in epsilons), strict=True)
        series.append(Series(name, epsilons, middle, low, high))
    title = f"{words if not substituted else other}: n = {n}, d = {d}, δ = 1e-3"
    figure = one_panel(
        series,
        "ε",
        "excess risk λ₁ − wᵀAw",
        title,
        size=(8.2, 5.2),
        logx=True,
        logy=True,
        xticks=epsilons,
    )

    def medians(name: str) -> str:
        return ", ".join(spread(values[name][e]) for e in epsilons)

    def wins(other: str) -> str:
        return ", ".join(
            f"{share_below(values['DP-RGD, certified'][e], values[other][e]):.2f}" for e in epsilons
        )

    return Result(
        rows,
        figure,
        paper_shows=(
            "DP-RGD has a smaller excess risk than projected gradient descent (DP-PGD) and input"
            " perturbation (GMIP) at every epsilon."
        ),
        published=(
            f"Medians (quartiles) of {runs} runs at epsilon ="
            f" {', '.join(f'{e:g}' for e in epsilons)}: with the noise of the authors' published"
            f" code DP-RGD has {medians(_CODE)}; with the noise as the text states it"
            f" {medians('DP-RGD, noise as stated')}; GMIP as published"
            f" {medians('GMIP, published')}. The code optimises the sum of the losses but divides"
            " sigma by n, and has eps * 2 where the text has eps^2; GMIP's noise is not divided."
            " The published ordering needs that difference."
        ),
        certified=(
            f"DP-RGD {medians('DP-RGD, certified')}; DP-PGD {medians('DP-PGD, certified')}; GMIP "
            f"{medians('GMIP, certified')}. DP-RGD "
            f"is below GMIP in {wins('GMIP, certified')} of the pairs of runs, "
            f"and below DP-PGD in {wins('DP-PGD, certified')}."
        ),
        true_epsilon="As stated in the text: "
        + ", ".join(f"{number(spent[e][0])} for {e:g}" for e in epsilons)
        + " (too much noise: L0 = 2 max|z|^2 is twice the largest gradient). As in the code: "
        + ", ".join(f"{number(spent[e][1])} for {e:g}" for e in epsilons)
        + " (delta = 1e-3).",
        data=(
            f"{other if substituted else words}, {n} x {d}, z-scored and divided by the spectral"
            " norm as in the paper (scales taken from the data, which is not private, for every"
            f" method alike); {runs} runs"
        ),
        stand_in=substituted,
        facts={
            "true_epsilon_stated": {str(e): spent[e][0] for e in epsilons},
            "true_epsilon_code": {str(e): spent[e][1] for e in epsilons},
        },
    )


_CODE = "DP-RGD, noise of the authors' code"


def _digit_table() -> Any:
    x = digits().images.reshape(-1, 64)
    return Table(x[:, np.std(x, axis=0) > 0], "digits", "scikit-learn", "CC BY 4.0")


@experiment(
    "han2024-figure-2b", "Private principal eigenvector of ijcnn1: excess risk against epsilon"
)
def figure_2b(context: Context) -> Result:
    return _eigenvector(
        context, riemopt_ijcnn, _digit_table, "ijcnn1", "scikit-learn's digits in place of ijcnn1"
    )


@experiment(
    "han2024-figure-2c", "Private principal eigenvector of satimage: excess risk against epsilon"
)
def figure_2c(context: Context) -> Result:
    return _eigenvector(
        context,
        riemopt_satimage,
        _digit_table,
        "satimage",
        "scikit-learn's digits in place of satimage",
    )


# -------------------------------------------------------------------------------------------------
# hyperbolic prediction
_EPSILON, _REACH = 0.1, 10.0  # the paper's epsilon and D_W


def prediction_constants(weights: np.ndarray) -> dict[str, float]:
    """The published T and sigma of figure 3a, and what sigma is over the sensitivity of the sum of
    the losses.
    """
    largest, n = float(np.max(np.abs(weights))), len(weights)
    lipschitz = largest * _REACH
    smoothness = _REACH / math.tanh(_REACH)
    steps = int(
        math.sqrt(smoothness) * n * _EPSILON / (math.sqrt(2 * math.log(1 / DELTA)) * lipschitz)
    )
    sigma = math.sqrt(steps * math.log(1 / DELTA)) * lipschitz / (n * _EPSILON)
    # The gradient of alpha d^2 is 2 alpha d long; replacing one label changes the sum by at most
    # twice that.
    on_sum = sigma / (4 * lipschitz)
    return {
        "steps": steps,
        "sigma": sigma,
        "multiplier_on_sum": on_sum,
        "multiplier_on_mean": n * on_sum,
    }


@functools.lru_cache(maxsize=2)
def _prediction(seed: int, runs: int, download: bool) -> dict[str, Any]:
    """The data and the runs that figures 3a and 4 share."""
    m = Lorentz(3)

    def substitute() -> dict[str, np.ndarray]:
        # Random features, placed on the hyperboloid by their first two coordinates.
        features = np.random.default_rng(seed).standard_normal((1180, 3)) * 0.03
        flat = 50.0 * features[:, :2]
        points = np.concatenate([np.sqrt(1 + np.sum(flat**2, axis=1, keepdims=True)), flat], axis=1)
        return {
            "laplacian_features": features,
            "lorentz_embedding": points,
            "test_feature": features[0],
            "test_embedding": points[0],
        }

    arrays, words, substituted = mammals(
        substitute, "simulated words with features of the same size", download=download
    )
    target, Y = np.asarray(arrays["test_embedding"]), np.asarray(arrays["lorentz_embedding"])
    keep = np.asarray(m.dist(target, Y)) > 1e-6  # 'horse' itself is what is to be predicted
    Y, features = Y[keep], arrays["laplacian_features"][keep]
    weights = prediction_weights(features, arrays["test_feature"])
    n, constants = len(Y), prediction_constants(weights)
    problem = hyperbolic_prediction(3)
    data = (
        n * weights,
        Y,
    )  # so that the mean of the losses is the sum that the authors' code optimises
    start = Y[np.random.default_rng(seed).integers(n)]
    origin = np.asarray(m.origin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = private_minimize(
            problem, data, start, DPRGD(1500, 0.003, 1e12), None, rng=0, record_every=75
        )
    steps, sigma = int(constants["steps"]), constants["sigma"]
    largest = float(np.max(np.abs(weights)))
    clip, few = (
        2 * n * largest * 4.0,
        80,
    )  # gradients of labels within distance 4 of the iterate are not clipped
    settings = {
        "noise of the authors' code": (DPRGD(steps, 0.001, 2 * n * largest * _REACH), sigma),
        "noise as stated": (DPRGD(steps, 0.001, 2 * n * largest * _REACH), sigma * n),
    }
    for eps in (0.1, 1.0):
        z = gaussian_noise_multiplier(Budget(eps, DELTA), few)
        settings[f"certified, ε = {eps:g}"] = (DPRGD(few, 0.05, clip), z * 2 * clip / n)
    found: dict[str, np.ndarray] = {}
    for i, (name, (optimizer, noise)) in enumerate(settings.items()):
        begin = start if name.startswith("noise") else origin
        found[name] = repeated(
            problem, data, begin, optimizer, noise_std=noise, runs=runs, rng=seed + i
        )
    curve = [(row.step, float(m.dist(target, row.value))) for row in exact.history]
    return {
        "manifold": m,
        "target": target,
        "labels": Y,
        "weights": weights,
        "constants": constants,
        "found": found,
        "curve": curve,
        "exact": np.asarray(exact.value),
        "stand_in": substituted,
        "words": words,
        "start": start,
        "n": n,
    }


def _prediction_words(p: dict[str, Any], rows: Any, figure: Any, shows: str) -> Result:
    m, c = p["manifold"], p["constants"]
    distance = {
        name: np.asarray(m.dist(p["target"], points)) for name, points in p["found"].items()
    }
    finite = {name: np.where(np.isfinite(x), x, np.inf) for name, x in distance.items()}

    def words(name: str) -> str:
        return spread(finite[name])

    steps = int(c["steps"])
    spent = gaussian(c["multiplier_on_sum"], steps).epsilon(DELTA)
    exact = float(m.dist(p["target"], p["exact"]))
    others = float(1 - np.max(np.abs(p["weights"])) / np.sum(np.abs(p["weights"])))
    return Result(
        rows,
        figure,
        paper_shows=shows,
        published=(
            f"Without noise the prediction ends {number(exact)} from the true embedding (a random"
            " training word is about"
            f" {number(float(np.median(np.asarray(m.dist(p['target'], p['labels'])))))} away). With"
            f" the noise of the authors' published code (sigma = {number(c['sigma'])}, T = {steps})"
            f" it ends at {words('noise of the authors' + chr(39) + ' code')}. The code adds to the"
            " gradient of the *sum* the sigma derived for the mean; scaled to the sum, as the text"
            f" has it, it ends at {words('noise as stated')}: median and quartiles."
        ),
        certified=(
            "For the labels only, with public features: at epsilon = 0.1"
            f" {words('certified, ε = 0.1')}, at epsilon = 1 {words('certified, ε = 1')} (80 steps"
            " from the origin, gradients clipped). The prediction leans on few words, so one label"
            " matters much. Protection of (feature, label) pairs cannot be had this way: every"
            " kernel weight depends on all features."
        ),
        true_epsilon=(
            f"Code: {number(spent)} at delta = 1e-3 where 0.1 is stated. As stated (on the mean):"
            f" {number(gaussian(c['multiplier_on_mean'], steps).epsilon(DELTA))}, for labels only;"
            " formula with L0 equal to the largest gradient:"
            f" {number(stated_true_epsilon(_EPSILON, DELTA))}."
        ),
        data=f"{p['words']}; Laplacian features; {p['n']} labels, one held out",
        stand_in=p["stand_in"],
        facts={
            **c,
            "true_epsilon_code": spent,
            "share_of_other_weights": others,
            "non_private_distance": exact,
        },
    )


@experiment("han2024-figure-3a", "Hyperbolic prediction of 'horse': distance to the true embedding")
def figure_3a(context: Context) -> Result:
    p = _prediction(context.seed, context.choose(20, 100), not context.quick)
    m = p["manifold"]
    names = list(p["found"])
    stats = []
    rows: list[dict[str, Any]] = [
        {"method": "RGD, no noise", "step": step, "distance": d} for step, d in p["curve"]
    ]
    for name in names:
        distances = np.asarray(m.dist(p["target"], p["found"][name]))
        distances = np.where(np.isfinite(distances), distances, np.inf)
        stats.append(quartiles(distances))
        rows += [{"method": name, "run": i, "distance": float(d)} for i, d in enumerate(distances)]
    steps, along = zip(*p["curve"], strict=True)
    levels = [
        ("random training word", float(np.median(np.asarray(m.dist(p["target"], p["labels"])))))
    ]
    left = Panel(
        [Series("RGD, no noise", steps, along)],
        "step",
        "distance to 'horse'",
        "Without noise",
        levels=levels,
        ylim=(0, None),
    )
    short = ["authors' code", "as stated", "certified\nε = 0.1", "certified\nε = 1"]
    middle, low, high = (list(x) for x in zip(*stats, strict=True))
    right = Panel(
        [Series("final distance, median and quartiles", short, middle, low, high, kind="bars")],
        "",
        "distance to 'horse'",
        "With noise, after the last step",
        levels=levels,
    )
    figure = panel_figure([left, right], size=(6.6, 4.6))
    shows = (
        "DP-RGD converges reasonably well to the true embedding in about 1000 iterations at (0.1,"
        " 1e-3)."
    )
    return _prediction_words(p, rows, figure, shows)


@experiment("han2024-figure-4", "Hyperbolic prediction of 'horse' on the Poincaré disk")
def figure_4(context: Context) -> Result:
    p = _prediction(context.seed, context.choose(20, 100), not context.quick)

    def disk(points: Any) -> np.ndarray:
        x = np.atleast_2d(np.asarray(points))
        return x[:, 1:] / (1 + x[:, :1])

    shown = {"horse (true)": p["target"], "no noise": p["exact"]} | {
        name: x[:3] for name, x in p["found"].items()
    }
    rows = [
        {"method": name, "x": float(a), "y": float(b)}
        for name, x in shown.items()
        for a, b in disk(x)
    ]
    ax = poincare_disk(
        disk(p["labels"]),
        title="Prediction of 'horse' from the other mammals",
        highlight={name: disk(x) for name, x in shown.items()},
    )
    ax.figure.set_size_inches(9.6, 6.4)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    shows = (
        "Three DP-RGD predictions lie close to the true embedding on the Poincaré disk and preserve"
        " the hierarchy."
    )
    return _prediction_words(p, rows, ax.figure, shows)
