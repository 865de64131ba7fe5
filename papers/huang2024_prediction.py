"""Huang2024 Figures 5 and 6: hyperbolic prediction of a word, with agents that hold embeddings of
other words.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from typing import Any

import numpy as np

from riemdp import problems

from .disk import poincare_disk
from .huang2024_runs import (
    STATED,
    Federation,
    assemble,
    panels_of,
    pooled,
    run_federation,
    truth_words,
)
from .panels import Panel
from .registry import Context, Result, experiment
from .runs import Curves, curve_rows, curve_series
from .summaries import mammals
from .utpala2023_risk import disk_points, without_noise


def prediction_federation(
    context: Context,
) -> tuple[Federation, np.ndarray, dict[str, np.ndarray], str, bool]:
    """Agents that hold embeddings of words, with public features, and the feature and embedding of
    the held-out word.
    """

    def simulated() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(context.seed)
        features = rng.random((1181, 3))
        flat = 0.8 * (features[:, :2] * 2 - 1)
        y = np.hstack([np.sqrt(1 + np.sum(flat**2, axis=1))[:, None], flat])
        train = {"laplacian_features": features[1:], "lorentz_embedding": y[1:]}
        return {**train, "test_feature": features[0], "test_embedding": y[0]}

    found, name, stand_in = mammals(simulated, "simulated words", download=not context.quick)
    y = np.asarray(found["lorentz_embedding"], dtype=np.float64)
    features, feature, truth = (
        found["laplacian_features"],
        found["test_feature"],
        found["test_embedding"],
    )
    others = np.flatnonzero(np.linalg.norm(y - truth, axis=1) > 1e-9)
    keep = np.random.default_rng(context.seed).permutation(others)[: 9 * 131]
    parts = []
    for part in keep.reshape(9, 131):
        weights = problems.prediction_weights(
            features[part], feature, bandwidth=math.sqrt(2) * 0.3, regularisation=1e-5
        )
        parts.append((weights, y[part]))
    largest = max(float(np.abs(w).max()) for w, _ in parts)
    problem = problems.hyperbolic_prediction(3, diameter=4.0)
    start = np.array([1.0, 0.0, 0.0])
    clip = 8 * largest  # 2 max|alpha| M with M = 4
    f = Federation(
        "one word, N = 9, N_i = 131",
        problem,
        parts,
        start,
        clip,
        STATED,
        0.3,
        context.choose(12, 60),
        (3, 65),
        (3, 5),
    )
    return f, y, {"truth": truth}, name, stand_in


@functools.lru_cache(maxsize=2)
def _prediction_runs(quick: bool, seed: int) -> tuple[Any, ...]:
    """The runs behind both figures; made once a process."""
    context = Context(quick, seed)
    f, y, known, name, stand_in = prediction_federation(context)
    kept: list[np.ndarray] = []

    def measure(row: Any) -> float:
        kept.append(np.asarray(row.value))
        return row.objective

    curves = run_federation(f, context, measure, (4, 10))
    points = np.asarray(kept)
    distances = np.asarray(f.problem.manifold.dist(points, known["truth"]))
    shape = next(iter(curves.values())).y.shape
    distances = distances.reshape(len(curves), *shape)
    points = points.reshape(len(curves), *shape, 3)
    reached = {
        n: Curves(c.x, distances[i], c.guarantee, c.sigma)
        for i, (n, c) in enumerate(curves.items())
    }
    return (
        f,
        y,
        known,
        name,
        stand_in,
        curves,
        reached,
        {n: points[i] for i, n in enumerate(curves)},
    )


@experiment(
    "huang2024-figure-5",
    "PriRFed, hyperbolic prediction of a held-out word: cost and distance to the true embedding",
)
def figure_5(context: Context) -> Result:
    f, _, known, name, stand_in, curves, reached, _ = _prediction_runs(context.quick, context.seed)
    point, best = without_noise(f.problem, pooled(f.datasets), f.initial, 4000, 5.0)
    floor = float(f.problem.manifold.dist(point, known["truth"]))
    panels = [
        Panel(
            curve_series(curves),
            "round",
            "cost f(x)",
            "Cost",
            logy=True,
            levels=(("without noise", best),),
        ),
        Panel(
            curve_series(reached),
            "round",
            "distance to the true embedding",
            "Distance",
            logy=True,
            levels=(("without noise", floor),),
        ),
    ]
    rows = curve_rows({"quantity": "cost"}, curves) + curve_rows({"quantity": "distance"}, reached)
    return assemble(
        [(f, reached, floor)],
        panels,
        rows,
        paper_shows=(
            "Both methods come close to the true embedding, DP-RSVRG in fewer rounds; then the"
            " iterates leave it again."
        ),
        data=(
            f"{name}; features and kernel weights public, labels protected; clip 2 max|alpha| M ="
            f" {f.clip:.3g} with M = 4; the distance without noise is "
        )
        + f"{floor:.3g}, from the public start "
        f"{float(f.problem.manifold.dist(f.initial, known['truth'])):.3g}",
        stand_in=stand_in,
        truth=truth_words(f, curves) + "; protecting (feature, label) pairs, as the paper "
        "words it, is not "
        "achieved by clipping: one feature moves every weight",
    )


@experiment(
    "huang2024-figure-6", "PriRFed, hyperbolic prediction of a held-out word on the Poincare disk"
)
def figure_6(context: Context) -> Result:
    f, y, known, name, stand_in, curves, reached, points = _prediction_runs(
        context.quick, context.seed
    )
    rows: list[dict[str, Any]] = []
    marks: dict[str, np.ndarray] = {
        "true embedding": disk_points({"lorentz_embedding": known["truth"][None]})[0]
    }
    for arm, path in points.items():
        last = disk_points({"lorentz_embedding": path[:, -1]})
        middle = int(np.argsort(reached[arm].final)[len(last) // 2])
        marks[f"{arm} (median run)"] = last[middle]
        rows += [
            {
                "method": arm,
                "run": i,
                "x": float(p[0]),
                "y": float(p[1]),
                "distance": float(reached[arm].final[i]),
            }
            for i, p in enumerate(last)
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cloud = disk_points({"lorentz_embedding": y})
        ax = poincare_disk(cloud, highlight=marks, title="Predictions of the held-out word")
    result = assemble(
        [(f, reached, 0.0)],
        panels_of([(f, curves, 0.0)], "", excess=False),
        rows,
        paper_shows=(
            "The best of ten private predictions lie beside the true embedding and keep the"
            " hierarchy."
        ),
        data=f"{name}; drawn is the median run of 20, not the best",
        stand_in=stand_in,
        truth=truth_words(f, curves),
    )
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    ax.figure.set_size_inches(7.4, 8.4)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=1)
    return dataclasses.replace(result, figure=ax.figure)
