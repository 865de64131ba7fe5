"""Measure private means without a ball on data that come with the packages: two tables of
docs/evidence/means.md.

Covariances of patches of handwritten digits (scikit-learn), of neighbourhoods of the breast cancer
table (scikit-learn), and simulated wide covariances far from the identity. The error is divided by
that of an oracle which knows the true mean and the smallest ball about it that holds all records.
For heavy tails it is divided by that of the best radius about the true mean, too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer

import riemdp as R
from papers.data import digit_covariances
from papers.tables import DOCS, options, table, write_between

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


def real(name: str, X: np.ndarray, runs: int) -> Iterator[list[str]]:
    """Errors on data that come with the packages."""
    space, n = R.SPDAffineInvariant(X.shape[1]), len(X)
    truth = R.frechet_mean(space, X).value
    farthest = float(np.max(np.asarray(space.dist(truth, X))))
    start = np.exp(np.linalg.slogdet(np.asarray(truth))[1] / X.shape[1]) * np.eye(X.shape[1])
    facts = f"n {n}, dim {space.dim}, farthest {farthest:.1f}"
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
        yield [head, f"{epsilon:g}", f"{strength:.0f}", figures]


def _skewed(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    return np.exp(rng.normal(size=(n, dim)))


def _contaminated(rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    X = rng.normal(size=(n, dim))
    X[rng.random(n) < 0.02, 0] += 12.0
    return X


def _student(freedom: float, rng: np.random.Generator, n: int, dim: int) -> np.ndarray:
    return rng.normal(size=(n, dim)) / np.sqrt(rng.chisquare(freedom, (n, 1)) / freedom)


TAILS = {
    "Student t, 2.5 degrees of freedom": functools.partial(_student, 2.5),
    "Student t, 4 degrees of freedom": functools.partial(_student, 4.0),
    "log-normal": _skewed,
    "2 % of the records 12 deviations away": _contaminated,
}


def best_radius_error(X: np.ndarray, truth: np.ndarray, strength: float) -> float:
    """Root mean squared error of a clipped mean about the true one with the best of 24 radii."""
    away = X - truth
    lengths = np.linalg.norm(away, axis=1)
    errors = []
    for radius in lengths.max() * 2.0 ** (-np.arange(24) / 4):
        bias = np.mean(away * np.minimum(1.0, radius / lengths)[:, None], axis=0)
        errors.append(
            math.hypot(np.linalg.norm(bias), 2 * radius * math.sqrt(X.shape[1]) / strength)
        )
    return min(errors)


def tails(runs: int) -> Iterator[list[str]]:
    """Errors on heavy tails in flat space, where n mu is 400 to 10 000."""
    budget = R.Budget(1.0, DELTA)
    multiplier = R.privacy.gaussian_noise_multiplier(budget)
    for (name, draw), dim in itertools.product(TAILS.items(), (4, 20)):
        space, outer = R.Euclidean(dim), R.AdaptiveBall(R.Ball(np.zeros(dim), 1e3))
        for strength in (400, 1000, 3000, 10000):
            found = []
            for seed in range(runs):
                X = draw(np.random.default_rng(seed), round(strength * multiplier), dim)
                truth = X.mean(axis=0)
                value = R.private_frechet_mean(space, X, outer, budget, rng=seed).value
                farthest = float(np.max(np.linalg.norm(X - truth, axis=1)))
                enclosing = 2 * farthest * math.sqrt(dim) / strength
                error = float(space.dist(truth, value))
                found.append((error / enclosing, error / best_radius_error(X, truth, strength)))
            low, middle, high = np.quantile(found, [0.1, 0.5, 0.9], axis=0)
            cells = [f"{middle[i]:.2g} ({low[i]:.2g} to {high[i]:.2g})" for i in range(2)]
            yield [name, str(dim), str(strength), *cells]


def main() -> None:
    page, runs = DOCS / "evidence" / "means.md", options(__doc__, runs=20).runs
    rows = (row for name, load in DATA.items() for row in real(name, load(), runs))
    head = "data | epsilon | n mu | median / 90 % / largest"
    write_between(page, "measured", table(head, rows))
    head = "records | dim | n mu | over enclosing ball | over best radius"
    write_between(page, "tails", table(head, tails(runs)))


if __name__ == "__main__":
    main()
