"""Measure principal components about a private centre: one joint release beside a mean and a second
moment about it. Prints the rows of a table in docs/evidence/excess-risk.md; needs RIEMDP_DATA.

The joint release of mean and second moment about one public centre is `PrivatePCA` of rows with a
constant column: its noisy matrix has both. Run it as `python -m tools.centre_table`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from bench.public_data_sets import ssvep

import riemdp as R
from papers.data import riemopt_ijcnn, riemopt_satimage

DELTA, HELD = 1e-6, 0.95  # the public radius holds this share of the records
COLUMNS = (0.25, 0.5, 1.0)  # the constant column, over the radius
SHARES = (0.1, 0.3, 0.5)  # of the budget, for the mean


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """(name and public centre, rows, that centre, how many components)."""
    found = {
        "ijcnn1": riemopt_ijcnn(download=False).values,
        "satimage": riemopt_satimage(download=False).values,
    }
    for name, rows in found.items():
        middle = (rows.min(axis=0) + rows.max(axis=0)) / 2.0
        for where, center in (("0", 0.0 * middle), ("the middle of the ranges", middle)):
            yield f"{name}, {where}", rows, center, 3
    space = R.SPDAffineInvariant(3)
    X, _, people = ssvep("X8")
    X = X[:, 2:5, 2:5]
    first = people == people[0]
    center = np.asarray(R.frechet_mean(space, X[first]).value)
    rows = np.asarray(space.to_coordinates(center, space.log(center, X[~first])))
    yield "EEG of seven people, the mean of another one", rows, np.zeros(6), 2


def joint(
    rows: np.ndarray, center: np.ndarray, radius: float, budget: R.Budget, column: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance, from one noisy matrix of rows with a constant column."""
    constant, d = column * radius, rows.shape[1]
    pca = R.PrivatePCA(
        n_components=d + 1,
        budget=budget,
        row_norm=float(np.hypot(radius, constant)),
        center=np.append(center, 0.0),
        random_state=seed,
    ).fit(np.column_stack([rows, np.full(len(rows), constant)]))
    matrix = (pca.components_.T * pca.explained_variance_) @ pca.components_
    mean = matrix[:d, d] / constant
    return center + mean, matrix[:d, :d] - np.outer(mean, mean)


def in_turn(
    rows: np.ndarray, center: np.ndarray, radius: float, budget: R.Budget, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """A mean, and the second moment about it."""
    pga = R.PrivatePGA(
        manifold=R.Euclidean(rows.shape[1]),
        budget=budget,
        ball=R.Ball(center, radius),
        mean_share=share,
        random_state=seed,
    ).fit(rows)
    return np.asarray(pga.mean_), (pga.components_.T * pga.explained_variance_) @ pga.components_


def figures(rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray, k: int) -> list[float]:
    """The variance about the mean that k components leave, over the least; the error of the mean,
    over the deviation of the records.
    """
    true = np.cov(rows.T, bias=True)
    values, leading = np.linalg.eigvalsh(true), np.linalg.eigh(covariance)[1][:, -k:]
    left = values.sum() - np.trace(leading.T @ true @ leading)
    off = np.linalg.norm(mean - rows.mean(axis=0)) / np.sqrt(values.sum())
    return [left / values[:-k].sum(), float(off)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=6)
    runs = parser.parse_args().runs
    for name, rows, center, k in tables():
        lengths = np.linalg.norm(rows - center, axis=1)
        radius = float(np.quantile(lengths, HELD))
        offset = np.linalg.norm(rows.mean(axis=0) - center) / radius
        for epsilon in (0.3, 1.0, 3.0):
            cells = []
            for release, options in ((joint, COLUMNS), (in_turn, SHARES)):
                for option in options:
                    budget = R.Budget(epsilon, DELTA)
                    found = [
                        figures(rows, *release(rows, center, radius, budget, option, seed), k)
                        for seed in range(runs)
                    ]
                    left, off = np.mean(found, axis=0)
                    cells.append(f"{left:.3f} ({off:.2f})")
            print(f"| {name} | {offset:.2f} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
