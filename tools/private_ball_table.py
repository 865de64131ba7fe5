"""Measure private means without a ball on data that come with the packages, and write the table
into docs/evidence/ball-search.md (between its two markers). Run it as
`python -m tools.private_ball_table`.

Covariances of patches of handwritten digits (scikit-learn), of neighbourhoods of the breast cancer
table (scikit-learn), and simulated wide covariances far from the identity. The error is divided by
that of an oracle which knows the true mean and the smallest ball about it that holds all records.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

import riemdp as R
from papers.checks import write_between
from papers.data import digit_covariances

PAGE = Path("docs/evidence/ball-search.md")
MARKERS = "<!-- measured -->", "<!-- end of measured -->"
EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-5


def neighbourhoods(columns: int = 12, members: int = 40) -> np.ndarray:
    """Covariances of the 40 nearest rows of each of 569 rows."""
    table = load_breast_cancer(return_X_y=True)[0][:, :columns]
    table = table / table.std(axis=0)
    distances = np.sum((table[:, None] - table[None]) ** 2, axis=-1)
    near = np.argsort(distances, axis=1)[:, :members]
    return np.stack([np.cov(table[rows].T) for rows in near]) + 1e-9 * np.eye(columns)


def wide(n: int = 1200, k: int = 6) -> np.ndarray:
    """Wishart matrices of 7 degrees of freedom about a mean of condition 1e6."""
    rng = np.random.default_rng(5)
    mix = rng.normal(size=(k, k)) * np.exp(1.5 * rng.normal(size=k))[:, None]
    a = rng.normal(size=(n, k, k + 1))
    return mix @ (a @ a.swapaxes(1, 2) / (k + 1)) @ mix.T


DATA = {
    "digits, 5 features": lambda: digit_covariances().matrices,
    "breast cancer, 12 columns": neighbourhoods,
    "simulated, far and wide": wide,
}


def rows(name: str, X: np.ndarray, runs: int) -> list[str]:
    space, n = R.SPDAffineInvariant(X.shape[1]), len(X)
    truth = R.frechet_mean(space, X).value
    farthest = float(np.max(np.asarray(space.dist(truth, X))))
    start = np.exp(np.linalg.slogdet(np.asarray(truth))[1] / X.shape[1]) * np.eye(X.shape[1])
    facts = f"n {n}, dim {space.dim}, farthest {farthest:.1f}"
    lines = []
    for epsilon in EPSILONS:
        budget = R.Budget(epsilon, DELTA)
        strength = n / R.privacy.gaussian_noise_multiplier(budget)
        oracle = 2 * farthest * math.sqrt(space.dim) / strength
        try:
            releases = [R.private_frechet_mean(space, X, budget=budget, rng=i) for i in range(runs)]
        except R.InvalidArgument:
            figures = "refused: too few records"
        else:
            errors = [float(space.dist(truth, r.value)) / oracle for r in releases]
            figures = " / ".join(
                f"{v:.2g}" for v in (np.median(errors), np.quantile(errors, 0.9), max(errors))
            )
        head = f"{name} ({facts}; {float(space.dist(truth, start)):.1f} from the first centre)"
        head = head if epsilon == EPSILONS[0] else ""
        lines.append(f"| {head} | {epsilon:g} | {strength:.0f} | {figures} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore", R.RiemdpWarning)
    lines = ["| data | epsilon | n mu | median / 90 % / largest |", "|---|---|---|---|"]
    for name, load in DATA.items():
        lines += rows(name, load(), runs)
    write_between(PAGE, MARKERS, "\n".join(lines))


if __name__ == "__main__":
    main()
