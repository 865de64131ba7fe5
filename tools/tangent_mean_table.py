"""Write the section of docs/evidence/means.md on the clipped tangent mean and the extrinsic
baselines where curvature is positive (between its two markers). Run it as
`python -m tools.tangent_mean_table`.

All figures are simulated on the synthetic records of `tools/mechanism_table.py`: root mean squared
Riemannian distance to the Frechet mean of the records.
"""

from __future__ import annotations

import math
from pathlib import Path

import jax
import numpy as np
from tools.mechanism_table import DELTA, EPSILONS, Data

import riemdp as R
from papers.checks import write_between

REPEATS = 100
CASES = [
    (f"Bures-Wasserstein, k = {k}", R.SPDBuresWasserstein(k), 0.3, 1000) for k in (2, 3, 5)
] + [(f"S^{d}", R.Sphere(d + 1), math.pi / 8, 100) for d in (2, 5, 10, 50)]
PAGE = Path("docs/evidence/means.md")
MARKERS = "<!-- tangent-mean -->", "<!-- end of tangent-mean -->"
HEAD = "Written by `tools/tangent_mean_table.py`: root mean square of "
TAIL = """\
The tangent mean has the smallest error of the three in 20 of 21 rows with Gaussian noise, and in
18 of 21 with Laplace noise. In the others (S^2, S^50) it is within 2 % of the extrinsic baseline,
and 10 % behind it on S^2 at epsilon 0.3 with Laplace noise. On S^2 that baseline has the smaller
sensitivity, by 3 %; 100 releases know an error there to about 5 % (Gaussian noise) or 8 % (Laplace
noise). "auto" does not take the tangent mean, because it is another mean."""


def released(data: Data, X, mechanism: str, budget) -> float:
    points = [
        np.asarray(
            R.private_frechet_mean(
                data.manifold,
                X,
                data.ball,
                budget,
                mechanism=mechanism,
                rng=i,
                count_outside=False,
            ).value
        )
        for i in range(REPEATS)
    ]
    return data._rms(np.stack(points))


def main() -> None:
    lines = [
        HEAD + f"{REPEATS} releases each, delta = {DELTA:g} where\none is used; baselines with the"
        " better of their two figures (as released, or moved into the ball).\nGaussian noise on the"
        " tangent mean is followed by James-Stein shrinking in dimension 3 and more. The records'"
        " mean lies near the\ncentre here, which favours shrinking, so the formula without its"
        " help\nis given too. Every release is moved into the public ball, the default; where"
        " the noise is as\nlarge as the ball, a formula says no more than that the error is at most"
        " the diameter (0.785 on spheres).",
        "",
        "| space | epsilon | without noise | wrapped-gaussian (formula) | extrinsic-gaussian |"
        " tangent-mean, Gaussian (formula, at most) | wrapped-laplace (formula) |"
        " extrinsic-laplace | tangent-mean, delta = 0 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, manifold, radius, n in CASES:
        ball = R.Ball(manifold.origin, radius)
        data = Data(manifold, ball, n)
        v = manifold.tangent_normal(
            jax.random.key(1), manifold.origin, 0.5 * radius / math.sqrt(manifold.dim), (n,)
        )
        X = ball.clamp(manifold, manifold.exp(manifold.origin, v))
        query = R.statistics.TangentMean(ball.on(manifold), n)
        mean = manifold.exp(manifold.origin, query.value(query.prepare(X)))
        bias = float(manifold.dist(data.truth, mean))
        for epsilon in EPSILONS:
            budget = R.Budget(epsilon, DELTA)
            plan = R.plan_private_mean(manifold, ball, n, budget, count_outside=False)
            planned = {row.mechanism: row.expected_error for row in plan}
            wrapped = [planned[f"wrapped-{kind}"] for kind in ("gaussian", "laplace")]
            ambient = [
                min(data.simulate(f"extrinsic-{kind}", budget, REPEATS))
                for kind in ("gaussian", "laplace")
            ]
            tangent = [released(data, X, "tangent-mean", b) for b in (budget, R.Budget(epsilon))]
            made = R.mechanisms.TangentMeanNoise(manifold, ball, n=n, budget=budget)
            assert made.error_law is not None
            lines.append(
                f"| {label} | {epsilon:g} | {bias:.2g} | {wrapped[0]:.3g} | {ambient[0]:.3g} |"
                f" {tangent[0]:.3g} ({made.error_law.expected_error:.3g}) | {wrapped[1]:.3g} |"
                f" {ambient[1]:.3g} | {tangent[1]:.3g} |"
            )
            print(lines[-1], flush=True)
    lines += ["", TAIL]
    write_between(PAGE, MARKERS, "\n".join(lines))


if __name__ == "__main__":
    main()
