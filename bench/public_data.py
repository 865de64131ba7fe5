"""What public data are worth next to private data, on real data: writes `results/public_data.md`.

    python -m bench.public_data [means ...]

Each function of `TABLES` measures one table and writes it between its two markers. Figures are
medians over random splits, with the tenth and the ninetieth percentile, and every table has a
column for the public model alone. The data are looked for in the folder `RIEMDP_DATA`.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import riemdp
from papers.checks import write_between
from papers.data import data_folder, erp_covariances, mnist
from papers.tools.classifier_table import reduced

PAGE = Path(__file__).parent / "results" / "public_data.md"
SPLITS, DELTA = 20, 1e-5
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DIGIT_RECORDS = 592
REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class Split:
    """Private records, and public ones of the same kind.

    Attributes:
        X: The private records.
        public: The public ones.
        people: Whose these are, None for one person.
    """

    X: np.ndarray
    public: np.ndarray
    people: np.ndarray | None


# ------------------------------------------------------------------ data
@functools.cache
def descriptors(each: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Covariance descriptors of MNIST: all of digit 0, and so many of each other digit; digits."""
    images = mnist("train", download=False)
    rng, of = np.random.default_rng(0), [np.flatnonzero(images.labels == k) for k in range(10)]
    rows = np.concatenate([of[0], *(rng.permutation(own)[:each] for own in of[1:])])
    X = riemdp.datasets.covariance_descriptors(images.images[rows], eta=1e-6)
    return np.asarray(X), images.labels[rows]


def of_digits() -> Iterator[Split]:
    """Digit 0 private; 1 to 9 public, each of them as one person."""
    X, digit = descriptors()
    zeros, others = X[digit == 0], digit > 0
    for seed in range(SPLITS):
        chosen = np.random.default_rng(seed).permutation(len(zeros))[:DIGIT_RECORDS]
        yield Split(zeros[chosen], X[others], digit[others])


def of_erp(channels: int) -> Iterator[Split]:
    """One half of the trials private, the other half public."""
    X = reduced(erp_covariances(download=False).matrices, channels)
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(X))
        yield Split(X[order[: len(X) // 2]], X[order[len(X) // 2 :]], None)


def ssvep(name: str = "X24") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records, classes and people of the SSVEP data."""
    with np.load(Path(str(data_folder())) / "ssvep" / "ssvep.npz") as held:
        return held[name], held["y"], held["person"]


def of_ssvep() -> Iterator[Split]:
    """Four people private, four public."""
    X, _, person = ssvep()
    for seed in range(SPLITS):
        names = np.random.default_rng(seed).permutation(np.unique(person))
        private, public = np.isin(person, names[:4]), np.isin(person, names[4:])
        yield Split(X[private], X[public], person[public])


# ------------------------------------------------------------------ means
STUDIES: dict[str, Callable[[], Iterator[Split]]] = {
    "MNIST 9 x 9, digit 0; public 1 to 9": of_digits,
    "ERP 8 x 8, halves": functools.partial(of_erp, 8),
    "ERP 32 x 32, halves": functools.partial(of_erp, 32),
    "SSVEP 24 x 24, four people; public four others": of_ssvep,
}
WAYS = ("private ball", "public ball", "public prior", "public mean alone", "measured on public")


def means() -> list[str]:
    """Distance from the mean of the private records, for each way to release it."""
    lines = [
        "| data | n | epsilon | n mu | " + " | ".join(WAYS) + " |",
        "|---" * (4 + len(WAYS)) + "|",
    ]
    for name, splits in STUDIES.items():
        found: dict[tuple[float, str], list[float]] = {}
        n = 0
        for seed, split in enumerate(splits()):
            n = len(split.X)
            _measure(split, seed, found)
        for epsilon in EPSILONS:
            mu = 1.0 / riemdp.gaussian_noise_multiplier(riemdp.Budget(epsilon, DELTA))
            cells = [_cell(found[epsilon, way]) for way in WAYS]
            lines.append(f"| {name} | {n} | {epsilon:g} | {n * mu:.0f} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def _measure(split: Split, seed: int, found: dict[tuple[float, str], list[float]]) -> None:
    """Add the distances of one split, nan for what is refused."""
    space = riemdp.SPDAffineInvariant(split.X.shape[1])
    truth = riemdp.frechet_mean(space, split.X).value
    prior = riemdp.PublicPrior(space, split.public, people=split.people)
    center = prior.center
    radius = float(np.quantile(np.asarray(space.dist(center, split.public)), 0.95))
    balls = {
        "private ball": None,
        "public ball": riemdp.Ball(center, radius),
        "public prior": prior,
    }
    for epsilon in EPSILONS:
        budget = riemdp.Budget(epsilon, DELTA)
        for way, ball in balls.items():
            released = _released(space, split.X, ball, budget, seed)
            away = np.nan if released is None else float(space.dist(truth, released))
            found.setdefault((epsilon, way), []).append(away)
        alone = float(space.dist(truth, center))
        found.setdefault((epsilon, "public mean alone"), []).append(alone)
        figure = np.nan if prior.error is None else prior.error
        found.setdefault((epsilon, "measured on public"), []).append(figure)


def _released(space: Any, X: np.ndarray, ball: Any, budget: riemdp.Budget, seed: int) -> Any:
    try:
        return riemdp.private_frechet_mean(space, X, ball, budget, rng=seed).value
    except riemdp.InvalidArgument:  # too few records, from public numbers alone
        return None


def _cell(values: list[float]) -> str:
    if np.isnan(values).any():
        return "-"
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


# ------------------------------------------------------------------ classifiers
EACH, TESTED = 100, 300  # digits of a class that are private, and those that judge
TRIALS = 50  # of a class, of SSVEP
PEOPLE, OF_A_CLASS = (20, 40, 60), 2  # resampled people, and their trials of each class
OF_DIGITS = (
    "private ball",
    "public ball",
    "public prior",
    "private labels",
    "wrong public labels",
    "public model alone",
)
OF_TRIALS = ("private ball", "public prior", "wrong public labels", "public model alone", "plan")
OF_PEOPLE = ("public prior", "re-centred", "public model alone", "public model alone, re-centred")


def _header(first: str, ways: tuple[str, ...]) -> list[str]:
    return [f"| {first} | epsilon | {' | '.join(ways)} |", "|---" * (2 + len(ways)) + "|"]


def _rows(first: object, ways: tuple[str, ...], found: dict[tuple[float, str], Any]) -> list[str]:
    rows = []
    for epsilon in EPSILONS:
        cells = [_cell(found[epsilon, way]) for way in ways]
        rows.append(f"| {first} | {epsilon:g} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return rows


def _fitted(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int, **given: Any) -> Any:
    groups = given.pop("groups", None)
    budget = riemdp.Budget(epsilon, DELTA)
    model = riemdp.PrivateTSClassifier(budget=budget, random_state=seed, **given)
    try:
        return model.fit(X, y, groups=groups)
    except riemdp.InvalidArgument:  # too few records, from public numbers alone
        return None


def _accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return np.nan if model is None else float(np.mean(model.predict(X) == y))


def digits() -> list[str]:
    """Accuracy on digits 5 to 9, with digits 0 to 4 as public records."""
    X, digit = descriptors()
    space, found = riemdp.SPDAffineInvariant(9), {}
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        own = [rng.permutation(np.flatnonzero(digit == k)) for k in range(10)]
        public = np.concatenate([rows[:500] for rows in own[:5]])
        train = np.concatenate([rows[:EACH] for rows in own[5:]])
        test = np.concatenate([rows[-TESTED:] for rows in own[5:]])
        prior = riemdp.PublicPrior(space, X[public], digit[public])
        wrong = riemdp.PublicPrior(space, X[public], digit[public] + 5)
        radius = float(np.quantile(np.asarray(space.dist(prior.center, X[public])), 0.95))
        ways: dict[str, dict[str, Any]] = {
            "private ball": {},
            "public ball": {"ball": riemdp.Ball(prior.center, radius)},
            "public prior": {"ball": prior},
            "private labels": {"ball": prior, "labels": "private", "classes": range(5, 10)},
            "wrong public labels": {"ball": wrong},
        }
        for epsilon in EPSILONS:
            for way, given in ways.items():
                model = _fitted(X[train], digit[train], epsilon, seed, **given)
                figure = _accuracy(model, X[test], digit[test])
                found.setdefault((epsilon, way), []).append(figure)
            alone = float(np.mean(model.public_predict(X[test]) == digit[test]))
            found.setdefault((epsilon, "public model alone"), []).append(alone)
    first = f"{EACH} a class"
    return _header("MNIST 5 to 9", OF_DIGITS) + _rows(first, OF_DIGITS, found)


def _sides(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which trials are of public people, which are private, and which judge."""
    _, y, person = ssvep()
    rng = np.random.default_rng(seed)
    public = np.isin(person, rng.permutation(np.unique(person))[:4])
    order = [rng.permutation(np.flatnonzero(~public & (y == k))) for k in np.unique(y)]
    train = np.concatenate([rows[:TRIALS] for rows in order])
    return public, train, np.concatenate([rows[TRIALS:] for rows in order])


def trials() -> list[str]:
    """Accuracy on SSVEP trials of four people, four others being public: one trial is a record."""
    X, y, person = ssvep()
    space, found = riemdp.SPDAffineInvariant(24), {}
    for seed in range(SPLITS):
        public, train, test = _sides(seed)
        prior = riemdp.PublicPrior(space, X[public], y[public], person[public])
        wrong = riemdp.PublicPrior(space, X[public], y[public] % 4 + 1, person[public])
        ways = {"private ball": None, "public prior": prior, "wrong public labels": wrong}
        for epsilon in EPSILONS:
            for way, ball in ways.items():
                model = _fitted(X[train], y[train], epsilon, seed, ball=ball)
                figure = _accuracy(model, X[test], y[test])
                found.setdefault((epsilon, way), []).append(figure)
                if way == "public prior":
                    alone = float(np.mean(model.public_predict(X[test]) == y[test]))
                    found.setdefault((epsilon, "public model alone"), []).append(alone)
                    said = float(model.plan_.alone)
                    found.setdefault((epsilon, "plan"), []).append(said)
    return _header("SSVEP", OF_TRIALS) + _rows(f"{TRIALS} a class", OF_TRIALS, found)


def people() -> list[str]:
    """Accuracy on SSVEP trials where people are protected. The data have four private people:
    those of a row are made by drawing trials of one of them with replacement.
    """
    X, y, person = ssvep()
    space, lines = riemdp.SPDAffineInvariant(24), _header("people", OF_PEOPLE)
    for count in PEOPLE:
        found: dict[tuple[float, str], list[float]] = {}
        for seed in range(SPLITS):
            public, train, test = _sides(seed)
            prior = riemdp.PublicPrior(space, X[public], y[public], person[public])
            rows, whose = _resampled(train, count, seed)
            given = {"ball": prior, "labels": "private", "classes": range(1, 5), "groups": whose}
            for epsilon in EPSILONS:
                model = _fitted(X[rows], y[rows], epsilon, seed, **given, recenter=True)
                right = {
                    "re-centred": model.predict(X[test], person[test]),
                    "public model alone, re-centred": model.public_predict(X[test], person[test]),
                }
                model.recenter = False
                right["public prior"] = model.predict(X[test])
                right["public model alone"] = model.public_predict(X[test])
                for way, named in right.items():
                    found.setdefault((epsilon, way), []).append(float(np.mean(named == y[test])))
        lines += _rows(count, OF_PEOPLE, found)
    return lines


def _resampled(train: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `count` people, each of trials of one real person, and whose they are."""
    _, y, person = ssvep()
    rng, names = np.random.default_rng(seed), np.unique(person[train])
    rows = []
    for one in range(count):
        own = train[person[train] == names[one % len(names)]]
        rows += [rng.choice(own[y[own] == k], OF_A_CLASS) for k in np.unique(y)]
    return np.concatenate(rows), np.repeat(np.arange(count), 4 * OF_A_CLASS)


TABLES: dict[str, Callable[[], list[str]]] = {
    "means": means,
    "digits": digits,
    "trials": trials,
    "people": people,
}


def main() -> None:
    warnings.simplefilter("ignore", riemdp.RiemdpWarning)
    for name in sys.argv[1:] or TABLES:
        markers = f"<!-- {name} -->", f"<!-- end of {name} -->"
        write_between(PAGE, markers, "\n".join(TABLES[name]()))


if __name__ == "__main__":
    main()
