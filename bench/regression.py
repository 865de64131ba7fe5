"""Private regression beside a ridge without privacy and beside one number: a table of
docs/howto/regression.md.

Of each data set a quarter is kept for testing; figures are medians of the mean absolute error over
runs. The real data are looked for in the folder `RIEMDP_DATA`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import RidgeCV

import riemdp
from papers.data import mnist
from papers.tables import DOCS, options, table, write_between

from .public_data_sets import ssvep

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
HEAD = ["data", "n", "one number", "ridge, not private", *(f"epsilon {e:g}" for e in EPSILONS)]


@dataclasses.dataclass(frozen=True)
class Study:
    """Matrices with numbers.

    Attributes:
        X: Matrices, (n, k, k).
        y: The numbers.
        target_range: What everybody knows of them.
        people: Whose records they are; None where records are protected.
    """

    X: np.ndarray
    y: np.ndarray
    target_range: tuple[float, float]
    people: np.ndarray | None = None


def brain_age(n: int, *, visits: int = 1, sensors: int = 6) -> Study:
    """The model of Sabbagh et al. 2019: age is linear in the logarithms of the powers of sources,
    which sensors mix. Simulated.
    """
    rng = np.random.default_rng(0)
    age = np.repeat(rng.uniform(18.0, 88.0, n), visits)
    slopes = rng.normal(size=sensors) / 40.0
    own = np.repeat(rng.normal(size=(n, sensors)) * 0.4, visits, axis=0)
    power = np.exp(slopes * (age[:, None] - 53.0) + own)
    signals = rng.normal(size=(n * visits, sensors, 100)) * np.sqrt(power)[:, :, None]
    mixed = rng.normal(size=(sensors, sensors)) @ signals
    people = np.repeat(np.arange(n), visits) if visits > 1 else None
    return Study(mixed @ mixed.transpose(0, 2, 1) / 100, age, (18.0, 88.0), people)


@functools.cache
def ink(n: int) -> Study:
    """MNIST: how much ink the lower half of a digit has (percent), from the upper half."""
    images = mnist("train", download=False).images[: n * 4 // 3]
    X = riemdp.datasets.covariance_descriptors(images[:, :14], eta=1e-4)
    return Study(np.asarray(X), images[:, 14:].mean(axis=(1, 2)) / 2.55, (0.0, 40.0))


def frequency(*, people: bool) -> Study:
    """SSVEP: the frequency that a person looks at, from one trial of eight electrodes."""
    X, y, person = ssvep("X24")
    seen = y > 1
    hertz = np.array([0.0, 0.0, 13.0, 21.0, 17.0])[y[seen]]
    return Study(X[seen], hertz, (13.0, 21.0), person[seen] if people else None)


STUDIES: dict[str, Callable[[], Study]] = {
    "brain age, simulated, 6 x 6 (years)": lambda: brain_age(800),
    "brain age, simulated, 6 x 6 (years), more": lambda: brain_age(8000),
    "the same, three visits each, `groups=`": lambda: brain_age(8000, visits=3),
    "MNIST 9 x 9, ink of the lower half (percent)": lambda: ink(3000),
    "MNIST 9 x 9, more": lambda: ink(20000),
    "SSVEP 24 x 24, frequency (Hz)": lambda: frequency(people=False),
    "SSVEP, `groups=`, eight people": lambda: frequency(people=True),
}


def measured(name: str, study: Study, runs: int) -> list[str]:
    """A row of the table."""
    X, y, low, high = study.X, study.y, *study.target_range
    space, order = riemdp.spd(X.shape[1], "riemann"), np.random.default_rng(1)
    whose = np.arange(len(X)) if study.people is None else study.people
    names = order.permutation(np.unique(whose))
    test = np.isin(whose, names[: len(names) // 4])
    groups = None if study.people is None else whose[~test]
    centre = riemdp.frechet_mean(space, X[~test]).value
    logs = np.asarray(space.to_coordinates(centre, space.log(centre, X)))
    plain = RidgeCV(np.logspace(-4, 4, 17)).fit(logs[~test], y[~test]).predict(logs[test])
    known = [np.median(y[~test]), np.clip(plain, low, high)]
    cells = [f"{np.mean(np.abs(y[test] - guess)):.2f}" for guess in known]
    budgets = [riemdp.Budget(epsilon, DELTA) for epsilon in EPSILONS]
    cells += [_private(study, test, groups, budget, runs) for budget in budgets]
    return [name, f"{len(np.unique(whose[~test])):,}", *cells]


def _private(
    study: Study, test: np.ndarray, groups: np.ndarray | None, budget: riemdp.Budget, runs: int
) -> str:
    errors, train = [], ~test
    for seed in range(runs):
        model = riemdp.PrivateTSRegressor(study.target_range, budget=budget, random_state=seed)
        try:
            model.fit(study.X[train], study.y[train], groups=groups)
        except riemdp.InvalidArgument:
            return "refused"
        errors.append(np.mean(np.abs(study.y[test] - model.predict(study.X[test]))))
    return f"{np.median(errors):.2f}"


def main() -> None:
    """Measure all studies."""
    runs = options(__doc__, runs=3).runs
    rows = (measured(name, make(), runs) for name, make in STUDIES.items())
    write_between(DOCS / "howto" / "regression.md", "measured", table(" | ".join(HEAD), rows))


if __name__ == "__main__":
    main()
