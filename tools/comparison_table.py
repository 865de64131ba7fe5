"""Measure level and power of `private_comparison`: a table of docs/evidence/regions.md.

Samples are drawn from simulated populations, so that the hypothesis is true or the difference is
known. Beside it stand Hotelling's test without privacy (Behrens and Fisher's form), and two means
and two variances that are released apart and go into `two_sample_test`, at the same budget.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import stats

import riemdp as R
from papers.tables import DOCS, options, table, write_between

HEAD = (
    "dimension | samples | epsilon | ball | population | level | records alone | apart | distance"
    " | power | apart | without privacy"
)
LEVEL, DELTA = 0.05, 1e-6


@dataclasses.dataclass(frozen=True)
class Case:
    """Two samples of one shape of population.

    Attributes:
        dim: Number of coordinates; their variances fall by `fall` from one to the next.
        sizes: Of the samples; with `each` > 1 of people, who have so many records each.
        epsilon: Of the budget.
        heavy: Whether the population has the tails of a t distribution with three degrees.
        found: Whether the ball is found privately.
    """

    dim: int
    sizes: tuple[int, int]
    epsilon: float
    fall: float = 0.7
    heavy: bool = False
    found: bool = False
    each: int = 1

    @property
    def words(self) -> str:
        ball = "found" if self.found else "public"
        distribution = "heavy tails" if self.heavy else "normal"
        whose = "people" if self.each > 1 else "records"
        sizes = " + ".join(map(str, self.sizes))
        return f"{self.dim} | {sizes} {whose} | {self.epsilon:g} | {ball} | {distribution}"

    @property
    def deviations(self) -> np.ndarray:
        variances = self.fall ** np.arange(self.dim)
        return np.sqrt(variances / variances.sum())

    def drawn(self, rng: np.random.Generator, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records and their samples."""
        n = sum(self.sizes)
        x = rng.normal(size=(n, self.dim)) * self.deviations
        if self.heavy:
            x /= np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)
        samples = np.repeat([0, 1], self.sizes)
        x += samples[:, None] * shift
        if self.each == 1:
            return x, samples
        x, samples = np.repeat(x, self.each, axis=0), np.repeat(samples, self.each)
        return x + 0.5 * rng.normal(size=x.shape) * self.deviations, samples


def private(case: Case, x: np.ndarray, samples: np.ndarray, seed: int, of: str) -> float:
    """The p-value of one call."""
    space = R.Euclidean(case.dim)
    ball = R.Ball(np.zeros(case.dim), 2.0)
    where = R.AdaptiveBall(R.Ball(np.zeros(case.dim), 100.0)) if case.found else ball
    groups = None if case.each == 1 else np.arange(len(x)) // case.each
    budget, given = R.Budget(case.epsilon, DELTA), {"samples": samples, "groups": groups, "of": of}
    return R.private_comparison(space, x, where, budget, rng=seed, **given).p_value


def apart(case: Case, x: np.ndarray, samples: np.ndarray, seed: int) -> float:
    """The p-value of two means and two variances that were released apart."""
    space, ball = R.Euclidean(case.dim), R.Ball(np.zeros(case.dim), 2.0)
    half, means, spreads = R.Budget(case.epsilon / 2, DELTA / 2), [], []
    for k in (0, 1):
        own, rng = x[samples == k], R.noise_source(2 * seed + k)
        groups = None if case.each == 1 else np.arange(len(own)) // case.each
        given = {"groups": groups, "rng": rng}
        named = {"mechanism": "wrapped-gaussian", "count_outside": False}
        means.append(R.private_frechet_mean(space, own, ball, half, **named, **given))
        spreads.append(R.private_frechet_variance(space, own, ball, half, **given))
    return R.two_sample_test(*means, of="population", dispersions=tuple(spreads)).p_value


def without_privacy(case: Case, x: np.ndarray, samples: np.ndarray) -> float:
    """Hotelling's test of the records, or of people's means."""
    x = x.reshape(-1, case.each, case.dim).mean(axis=1)
    samples = samples[:: case.each]
    two = [x[samples == k] for k in (0, 1)]
    away = two[0].mean(axis=0) - two[1].mean(axis=0)
    whole = sum(np.atleast_2d(np.cov(own.T)) / len(own) for own in two)
    return float(stats.chi2.sf(away @ np.linalg.solve(whole, away), case.dim))


def rejected(case: Case, length: float, runs: int, name: str) -> float:
    """How often a test rejects, for means this far apart along a diagonal."""
    rng = np.random.default_rng(0)
    shift = np.full(case.dim, length / np.sqrt(case.dim))
    p = []
    for seed in range(runs):
        x, samples = case.drawn(rng, shift)
        if name == "apart":
            p.append(apart(case, x, samples, seed))
        elif name == "without privacy":
            p.append(without_privacy(case, x, samples))
        else:
            p.append(private(case, x, samples, seed, name))
    return float(np.mean(np.array(p) <= LEVEL))


CASES = (
    (Case(1, (100, 100), 2.0), 0.5),
    (Case(1, (1000, 1000), 1.0), 0.2),
    (Case(3, (60, 60), 8.0), 0.5),
    (Case(3, (300, 100), 2.0), 0.6),
    (Case(3, (1000, 1000), 1.0), 0.25),
    (Case(3, (1000, 1000), 8.0, heavy=True), 0.15),
    (Case(6, (300, 300), 1.0), 0.5),
    (Case(6, (1000, 1000), 8.0), 0.15),
    (Case(20, (1000, 1000), 2.0), 0.3),
    (Case(3, (500, 500), 2.0, found=True), 0.25),
    (Case(3, (300, 300), 1.0, each=5), 0.4),
)


def row(case: Case, length: float, runs: int) -> list[str]:
    """One row of the table; all but the level get fewer runs."""
    few, told = runs // 10, []
    told.append(rejected(case, 0.0, runs, "population"))
    told.append(rejected(case, 0.0, few, "sample"))
    told.append(np.nan if case.found else rejected(case, 0.0, few, "apart"))
    told.append(rejected(case, length, few, "population"))
    told.append(np.nan if case.found else rejected(case, length, few, "apart"))
    told.append(rejected(case, length, few, "without privacy"))
    said = ["-" if np.isnan(share) else f"{share:.3f}" for share in told]
    said.insert(3, f"{length:g}")
    return [case.words, *said]


def main() -> None:
    given = options(__doc__, runs=2000, only=True)
    made = table(HEAD, (row(*case, given.runs) for case in CASES if given.only in case[0].words))
    if not given.only:
        write_between(DOCS / "evidence" / "regions.md", "comparison", made)


if __name__ == "__main__":
    main()
