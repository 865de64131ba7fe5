"""What public data are worth next to private data, on real data: writes `results/public_data.md`.

    python -m bench.public_data [means "kept means" ...]

Each function of `TABLES` measures one table and writes it between its two markers. Figures are
medians over random splits, with the tenth and the ninetieth percentile, and every table has a
column for the public model alone. The data are looked for in the folder `RIEMDP_DATA`, and in
packages that `public_data_sets` names.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import riemdp
from papers.tables import write_between

from . import public_data_sets as sets
from .public_data_sets import SPLITS, Labelled, Split, ssvep

PAGE = Path(__file__).parent / "results" / "public_data.md"
DELTA = 1e-5
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


# ------------------------------------------------------------------ means
Studies = dict[str, Callable[[], Iterator[Split]]]
STUDIES: Studies = {
    "MNIST 9 x 9, digit 0; public 1 to 9": sets.of_digits,
    "ERP 8 x 8, halves": functools.partial(sets.of_erp, 8),
    "ERP 8 x 8, halves, each private trial twice": functools.partial(sets.of_erp, 8, 2),
    "ERP 32 x 32, halves": functools.partial(sets.of_erp, 32),
    "ERP 32 x 32, halves, each private trial twice": functools.partial(sets.of_erp, 32, 2),
    "SSVEP 24 x 24, four people; public four others": sets.of_ssvep,
}
KEPT: Studies = {
    "small digits 9 x 9, one digit; public the others": functools.partial(
        sets.of_classes, sets.small_digits, sets.OF_ONE
    ),
    "speech 12 x 12, one speaker; public eight others": functools.partial(
        sets.of_classes, sets.speech, sets.UTTERANCES
    ),
    **{
        f"connectomes 28 x 28, {n} people; public 36 others": functools.partial(
            sets.of_connectomes, n
        )
        for n in (20, 50)
    },
    "KMNIST 9 x 9, one character; public the others": functools.partial(
        sets.of_classes, sets.kuzushiji, sets.OF_ONE
    ),
    "PathMNIST, one tissue; public the others": functools.partial(
        sets.of_classes, sets.histology, sets.OF_ONE
    ),
}
ONE_PERSON: Studies = {
    f"EMG 8 x 8, {n} of one person; public another": functools.partial(sets.of_electromyography, n)
    for n in (360, 1440)
}
WAYS = ("private ball", "public ball", "public prior", "public mean alone", "measured on public")


def means(studies: Studies) -> list[str]:
    """Distance from the mean of the private records, for each way to release it."""
    lines = [
        "| data | n | epsilon | n mu | " + " | ".join(WAYS) + " |",
        "|---" * (4 + len(WAYS)) + "|",
    ]
    for name, splits in studies.items():
        found: dict[tuple[float, str], list[float]] = {}
        sizes: set[int] = set()
        try:
            for seed, split in enumerate(splits()):
                sizes.add(len(split.X))
                _measure(split, seed, found)
        except riemdp.DataUnavailable:
            lines.append(f"| {name} | data not here |" + " - |" * (2 + len(WAYS)))
            continue
        for epsilon in EPSILONS:
            mu = 1.0 / riemdp.gaussian_noise_multiplier(riemdp.Budget(epsilon, DELTA))
            cells = [_cell(found[epsilon, way]) for way in WAYS]
            n = " or ".join(map(str, sorted(sizes)))
            told = f"| {name} | {n} | {epsilon:g} | {min(sizes) * mu:.0f} "
            lines.append(f"{told}| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def _measure(split: Split, seed: int, found: dict[tuple[float, str], list[float]]) -> None:
    """Add the distances of one split, nan for what is refused."""
    space = riemdp.SPDAffineInvariant(split.X.shape[1])
    truth = riemdp.frechet_mean(space, split.X).value
    prior = riemdp.PublicPrior(space, split.public, people=split.people)
    balls = {
        "private ball": None,
        "public ball": _public_ball(space, prior, split.public),
        "public prior": prior,
    }
    for epsilon in EPSILONS:
        budget = riemdp.Budget(epsilon, DELTA)
        for way, ball in balls.items():
            released = _released(space, split.X, ball, budget, seed)
            away = np.nan if released is None else float(space.dist(truth, released))
            found.setdefault((epsilon, way), []).append(away)
        alone = float(space.dist(truth, prior.center))
        found.setdefault((epsilon, "public mean alone"), []).append(alone)
        figure = np.nan if prior.error is None else prior.error
        found.setdefault((epsilon, "measured on public"), []).append(figure)


def _public_ball(space: Any, prior: riemdp.PublicPrior, X: np.ndarray) -> riemdp.Ball:
    """The ball about the public mean that holds 95 % of the public records."""
    return riemdp.Ball(
        prior.center, float(np.quantile(np.asarray(space.dist(prior.center, X)), 0.95))
    )


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
EACH, PUBLIC_EACH, TESTED = 100, 500, 300  # of a class: private, public, and those that judge
TRIALS = 50  # of a class, of SSVEP
PEOPLE, OF_A_CLASS = (20, 40, 60), 2  # resampled people, and their trials of each class
OF_CLASSES = (
    "private ball",
    "public ball",
    "public prior",
    "private labels",
    "wrong public labels",
    "public model alone",
)
OF_ONE_PERSON = ("private ball", "public prior", "without public labels", "public model alone")
OF_TRIALS = ("private ball", "public prior", "wrong public labels", "public model alone", "plan")
OF_PEOPLE = (
    "public prior",
    "re-centred",
    "public model alone",
    "public model alone, re-centred",
    "plan",
)


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


def _compare(
    train: Labelled,
    test: Labelled,
    ways: dict[str, dict[str, Any]],
    seed: int,
    found: dict[tuple[float, str], list[float]],
    alone: str = "public prior",
) -> None:
    """Add the accuracies of one split, and that and the plan of the public model in `alone`."""
    for epsilon in EPSILONS:
        for way, given in ways.items():
            model = _fitted(*train, epsilon, seed, **given)
            found.setdefault((epsilon, way), []).append(_accuracy(model, *test))
            if way == alone:
                figure = float(np.mean(model.public_predict(test[0]) == test[1]))
                found.setdefault((epsilon, "public model alone"), []).append(figure)
                found.setdefault((epsilon, "plan"), []).append(float(model.plan_.alone))


def of_classes(title: str, load: Callable[[], Labelled], each: int) -> list[str]:
    """Accuracy on the last classes, with the first ones as public records: another task."""
    header = _header(title, OF_CLASSES)
    try:
        X, label = load()
    except riemdp.DataUnavailable:
        return [*header, "| data not here | - |" + " - |" * len(OF_CLASSES)]
    names, found = np.unique(label), {}
    half = len(names) // 2
    space = riemdp.SPDAffineInvariant(X.shape[1])
    for seed in range(SPLITS):
        rng = np.random.default_rng(seed)
        own = [rng.permutation(np.flatnonzero(label == k)) for k in names]
        public = np.concatenate([rows[:PUBLIC_EACH] for rows in own[:half]])
        train = np.concatenate([rows[:each] for rows in own[-half:]])
        test = np.concatenate([rows[each:][-TESTED:] for rows in own[-half:]])
        prior = riemdp.PublicPrior(space, X[public], label[public])
        called = names[-half:][np.searchsorted(names, label[public])]
        wrong = riemdp.PublicPrior(space, X[public], called)
        ways: dict[str, dict[str, Any]] = {
            "private ball": {},
            "public ball": {"ball": _public_ball(space, prior, X[public])},
            "public prior": {"ball": prior},
            "private labels": {"ball": prior, "labels": "private", "classes": names[-half:]},
            "wrong public labels": {"ball": wrong},
        }
        sides = (X[train], label[train]), (X[test], label[test])
        _compare(*sides, ways, seed, found, alone="wrong public labels")
    return header + _rows(f"{each} a class", OF_CLASSES, found)


def of_one_person() -> list[str]:
    """Accuracy on the signs of one person's hand, another one being public."""
    X, y, person = sets.electromyography()
    names = np.unique(person)
    space = riemdp.SPDAffineInvariant(8)
    labelled = [riemdp.PublicPrior(space, X[person == k], y[person == k]) for k in names]
    without = [riemdp.PublicPrior(space, X[person == k]) for k in names]
    found: dict[tuple[float, str], list[float]] = {}
    for seed in range(SPLITS):
        rng, one = np.random.default_rng(seed), seed % 2
        public = person == names[one]
        own = [rng.permutation(np.flatnonzero(~public & (y == k))) for k in np.unique(y)]
        train = np.concatenate([rows[:EACH] for rows in own])
        test = np.concatenate([rows[EACH:] for rows in own])
        ways = {
            "private ball": {},
            "public prior": {"ball": labelled[one]},
            "without public labels": {"ball": without[one]},
        }
        _compare((X[train], y[train]), (X[test], y[test]), ways, seed, found)
    first = f"{EACH} a class"
    return _header("EMG", OF_ONE_PERSON) + _rows(first, OF_ONE_PERSON, found)


def _sides(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which trials are of public people, which are private, and which judge."""
    _, y, person = ssvep()
    rng = np.random.default_rng(seed)
    public = np.isin(person, rng.permutation(np.unique(person))[:4])
    order = [rng.permutation(np.flatnonzero(~public & (y == k))) for k in np.unique(y)]
    train = np.concatenate([rows[:TRIALS] for rows in order])
    return public, train, np.concatenate([rows[TRIALS:] for rows in order])


@functools.cache
def _ssvep_prior(seed: int, shift: int = 0) -> riemdp.PublicPrior:
    """The public people of a split, each label being moved by so many classes."""
    X, y, person = ssvep()
    public = _sides(seed)[0]
    called = (y[public] - 1 + shift) % 4 + 1
    return riemdp.PublicPrior(riemdp.SPDAffineInvariant(24), X[public], called, person[public])


def trials() -> list[str]:
    """Accuracy on SSVEP trials of four people, four others being public: one trial is a record."""
    X, y, _ = ssvep()
    found: dict[tuple[float, str], list[float]] = {}
    for seed in range(SPLITS):
        _, train, test = _sides(seed)
        ways = {
            "private ball": {},
            "public prior": {"ball": _ssvep_prior(seed)},
            "wrong public labels": {"ball": _ssvep_prior(seed, 1)},
        }
        _compare((X[train], y[train]), (X[test], y[test]), ways, seed, found)
    return _header("SSVEP", OF_TRIALS) + _rows(f"{TRIALS} a class", OF_TRIALS, found)


def people() -> list[str]:
    """Accuracy on SSVEP trials where people are protected. The data have four private people:
    those of a row are made by drawing trials of one of them with replacement.
    """
    X, y, person = ssvep()
    found: dict[int, dict[tuple[float, str], list[float]]] = {count: {} for count in PEOPLE}
    for seed in range(SPLITS):
        _, train, test = _sides(seed)
        given = {"ball": _ssvep_prior(seed), "labels": "private", "classes": range(1, 5)}
        for count in PEOPLE:
            rows, whose = _resampled(train, count, seed)
            for epsilon in EPSILONS:
                model = _fitted(
                    X[rows], y[rows], epsilon, seed, **given, groups=whose, recenter=True
                )
                right = {
                    "re-centred": model.predict(X[test], person[test]),
                    "public model alone, re-centred": model.public_predict(X[test], person[test]),
                }
                model.recenter = False
                right["public prior"] = model.predict(X[test])
                right["public model alone"] = model.public_predict(X[test])
                said = found[count].setdefault((epsilon, "plan"), [])
                said.append(float(model.plan_.alone))
                for way, named in right.items():
                    figure = float(np.mean(named == y[test]))
                    found[count].setdefault((epsilon, way), []).append(figure)
    lines = _header("people", OF_PEOPLE)
    for count in PEOPLE:
        lines += _rows(count, OF_PEOPLE, found[count])
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
    "means": functools.partial(means, STUDIES),
    "kept means": functools.partial(means, KEPT),
    "one person's mean": functools.partial(means, ONE_PERSON),
    "digits": functools.partial(of_classes, "MNIST 5 to 9", sets.descriptors, EACH),
    "kept digits": functools.partial(of_classes, "small digits 5 to 9", sets.small_digits, EACH),
    "kept speakers": functools.partial(of_classes, "speakers 6 to 9", sets.speech, 40),
    "kept characters": functools.partial(of_classes, "KMNIST 5 to 9", sets.kuzushiji, EACH),
    "kept tissues": functools.partial(of_classes, "PathMNIST 5 to 8", sets.histology, EACH),
    "one person": of_one_person,
    "trials": trials,
    "people": people,
}


def main() -> None:
    warnings.simplefilter("ignore", riemdp.RiemdpWarning)
    for name in sys.argv[1:] or TABLES:
        write_between(PAGE, name, "\n".join(TABLES[name]()))


if __name__ == "__main__":
    main()
