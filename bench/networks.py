"""Networks trained privately, without privacy, and `PrivateTSClassifier`: a table of
docs/howto/networks.md.

Of each data set a quarter is kept for testing; figures are medians of the accuracy over splits. The
real data are looked for in the folder `RIEMDP_DATA`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import jax
import numpy as np

import riemdp
from papers.tables import DOCS, options, table, write_between
from riemdp import problems

from ._timing import seconds
from .public_data_sets import ssvep

EPSILONS = (1.0, 3.0, 8.0)
DELTA, FLOOR = 1e-5, 1e-3
TIMED, BATCH = 50, 200
HEAD = ["data", "training records", "method", "not private", *(f"epsilon {e:g}" for e in EPSILONS)]


@dataclasses.dataclass(frozen=True)
class Split:
    """Matrices with classes, and which of them a classifier is fitted to."""

    X: np.ndarray
    y: np.ndarray
    train: np.ndarray

    def right(self, guess: np.ndarray) -> float:
        """The accuracy on the others."""
        return float(np.mean(guess == self.y[~self.train]))


def simulated(n: int = 800) -> Iterator[Split]:
    """Covariances of eight mixed sources, of which one is stronger in the second class."""
    for seed in itertools.count():
        rng = np.random.default_rng(seed)
        y = np.arange(n) % 2
        signals = rng.normal(size=(n, 8, 60))
        signals[:, 0] *= np.exp(y)[:, None]
        mixed = rng.normal(size=(8, 8)) @ signals
        yield Split(mixed @ mixed.transpose(0, 2, 1) / 60, y, rng.permutation(n) < 0.75 * n)


def trials() -> Iterator[Split]:
    """SSVEP, a quarter of the trials apart."""
    X, y, _ = ssvep("X24")
    for seed in itertools.count():
        yield Split(X, y - 1, np.random.default_rng(seed).permutation(len(X)) < 0.75 * len(X))


def people() -> Iterator[Split]:
    """SSVEP, two people apart of the first six, who have equally many trials."""
    X, y, person = ssvep("X24")
    for seed in itertools.count():
        apart = np.random.default_rng(seed).permutation(np.arange(1, 7))[:2]
        yield Split(X, y - 1, ~np.isin(person, apart))


STUDIES: dict[str, Callable[[], Iterator[Split]]] = {
    "simulated 8 x 8, 2 classes": simulated,
    "SSVEP 24 x 24, 4 classes, other trials": trials,
    "SSVEP 24 x 24, 4 classes, other people": people,
}


def scaled(X: np.ndarray) -> np.ndarray:
    """Each record by itself to a determinant of 1."""
    k = X.shape[1]
    return X / np.exp(np.linalg.slogdet(X)[1] / k)[:, None, None]


def network(split: Split, epsilon: float | None, seed: int) -> float:
    """The accuracy of an SPDNet of two BiMap layers. The rate and the number of steps were chosen
    on one split of SSVEP at epsilon 8.
    """
    X, k = scaled(split.X), split.X.shape[1]
    problem = problems.spdnet((k, k // 2, k // 4), len(np.unique(split.y)), floor=FLOOR)
    half = int(split.train.sum()) // 2
    how = riemdp.DPRSGD(100, half, 0.5, 1.0, sampling="poisson", adjacency="replace-one")
    if epsilon is None:  # gradients are not clipped, and longer
        how = riemdp.DPRSGD(200, half, 0.1)
    budget = None if epsilon is None else riemdp.Budget(epsilon, DELTA)
    start, data = problems.random_start(problem, seed), (X[split.train], split.y[split.train])
    weights = riemdp.private_minimize(problem, data, start, how, budget, rng=seed).value
    found = problems.class_probabilities(problem, weights, X[~split.train])
    return split.right(np.argmax(found, axis=1))


def classifier(split: Split, epsilon: float | None, seed: int) -> float:
    """The accuracy of `PrivateTSClassifier`, with hardly any noise for None."""
    budget = riemdp.Budget(1e6 if epsilon is None else epsilon, DELTA)
    model = riemdp.PrivateTSClassifier(budget=budget, random_state=seed)
    try:
        model.fit(split.X[split.train], split.y[split.train])
    except riemdp.InvalidArgument:
        return float("nan")
    return split.right(model.predict(split.X[~split.train]))


METHODS = {"SPDNet": network, "`PrivateTSClassifier`": classifier}


def measured(name: str, splits: list[Split]) -> Iterator[list[str]]:
    """The rows of a study."""
    n = int(np.median([split.train.sum() for split in splits]))
    for method, accuracy in METHODS.items():
        cells = []
        for epsilon in (None, *EPSILONS):
            found = [accuracy(split, epsilon, seed) for seed, split in enumerate(splits)]
            cells.append("refused" if np.isnan(found).any() else f"{np.median(found):.2f}")
        yield [name, f"{n:,}", method, *cells]


def seconds_a_step() -> str:
    """Processor time of a private step, of the same step without privacy, and of a step along the
    gradient of the mean loss, which needs no gradient of each record.
    """
    split = next(trials())
    X, y = scaled(split.X)[:BATCH], 1.0 * split.y[:BATCH]
    problem = problems.spdnet((24, 12, 6), 4, floor=FLOOR)
    start, space = problems.random_start(problem, 0), problem.manifold
    how = riemdp.DPRSGD(TIMED, BATCH - 1, 0.01, 1.0)

    @jax.jit
    def plain(w, X, y):
        def mean_loss(w):
            return jax.vmap(problem.loss, (None, 0))(w, (X, y)).mean()

        gradient = space.egrad_to_rgrad(w, jax.grad(mean_loss)(w))
        return space.exp(w, jax.tree.map(lambda g: -0.01 * g, gradient))

    def by_gradient_of_the_mean():
        w = start
        for _ in range(TIMED):
            w = plain(w, X, y)
        jax.block_until_ready(w)

    def minimised(budget):
        riemdp.private_minimize(problem, (X, y), start, how, budget, rng=0)

    ways = {
        "private": lambda: minimised(riemdp.Budget(8.0, DELTA)),
        "without privacy": lambda: minimised(None),
        "gradient of the mean": by_gradient_of_the_mean,
    }
    least = {name: min(map(seconds, [way] * 3)) for name, way in ways.items()}
    told = ", ".join(f"{name} {1e3 * used / TIMED:.1f} ms" for name, used in least.items())
    ratios = [least["private"] / used for used in list(least.values())[1:]]
    return f"Processor time of a step of {BATCH - 1} records of 24 x 24, in one run: {told}. " + (
        f"A private step takes {ratios[0]:.1f} and {ratios[1]:.1f} times as long as the others."
    )


def main() -> None:
    """Measure all studies."""
    runs, words = options(__doc__, runs=3).runs, seconds_a_step()
    studies = ((name, list(itertools.islice(make(), runs))) for name, make in STUDIES.items())
    rows = (row for study in studies for row in measured(*study))
    text = f"{words}\n\n{table(' | '.join(HEAD), rows)}"
    write_between(DOCS / "howto" / "networks.md", "measured", text)


if __name__ == "__main__":
    main()
