"""The mathematics of docs/proofs/ in numbers: identities and inequalities that are in no code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from riemdp.privacy import (
    allocated_gaussian,
    approximate,
    gaussian,
    subsampled_gaussian,
)

SLOPES = np.exp(np.array([-1.5, -0.3, 0.0, 0.2, 1.0, 2.5]))
# two standard normal numbers on a grid, and the probabilities of its points
_X = np.linspace(-8.0, 8.0, 267)
_DISTRIBUTION = np.exp(-np.square(_X) / 2) / np.sum(np.exp(-np.square(_X) / 2))
X1, X2 = (axis.ravel() for axis in np.meshgrid(_X, _X, indexing="ij"))
DISTRIBUTION = np.outer(_DISTRIBUTION, _DISTRIBUTION).ravel()


def hockey_stick(a: float, p: np.ndarray, q: np.ndarray) -> float:
    return float(np.maximum(p - a * q, 0.0).sum())


def profiles(ratio: np.ndarray, slopes: np.ndarray = SLOPES) -> np.ndarray:
    """E (R - a)_+ and E (1 - a R)_+ for several a."""
    return np.array(
        [
            [DISTRIBUTION @ np.maximum(ratio - a, 0), DISTRIBUTION @ np.maximum(1 - a * ratio, 0)]
            for a in slopes
        ]
    )


def step(x: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
    return np.exp(shift * x - np.square(shift) / 2)


def predictable(mu: float, seed: int) -> tuple[float, np.ndarray]:
    """A shift of the first step, and one of the second that looks at the first output."""
    rng = np.random.default_rng(seed)
    return mu * rng.uniform(), mu * rng.uniform(size=3)[np.digitize(X1, [-0.5, 0.8])]


MIXTURES = {
    "composition": lambda one, two: one * two,
    "poisson": lambda one, two: (0.7 + 0.3 * one) * (0.7 + 0.3 * two),
    "allocation": lambda one, two: (one + two) / 2,
}


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("seed", range(3))
def test_a_smaller_shift_costs_less_in_both_directions(mixture, seed):
    """Adaptive shifts of at most mu are dominated by mu; longer ones are not."""
    mu = 1.2
    worst = profiles(mixture(step(X1, mu), step(X2, mu)))
    first, second = predictable(mu, seed)
    assert np.all(profiles(mixture(step(X1, first), step(X2, second))) <= worst + 1e-3)
    longer = profiles(mixture(step(X1, 1.1 * mu), step(X2, 1.1 * mu)))
    assert np.all(longer >= worst - 1e-3)
    assert np.any(longer > worst + 5e-3)


def test_the_worst_pairs_are_those_of_the_accountant():
    mu = 1.2
    for epsilon in (0.2, 1.0, 2.0):
        for mixture, stated in (
            (MIXTURES["composition"], gaussian(1 / mu, 2)),
            (MIXTURES["allocation"], allocated_gaussian(1 / mu, steps=2)),
            (
                MIXTURES["poisson"],
                subsampled_gaussian(
                    1 / mu, population=10, batch_size=3, steps=2, sampling="poisson"
                ),
            ),
        ):
            found = profiles(mixture(step(X1, mu), step(X2, mu)), np.array([math.exp(epsilon)]))
            delta = float(found.max())
            assert stated.delta(epsilon) == pytest.approx(delta, abs=1e-3)


def test_the_identity_behind_batches_without_replacement():
    rng = np.random.default_rng(11)
    for _ in range(300):
        a0, b0, b1 = rng.dirichlet(np.ones(6), 3)
        q, a = rng.uniform(0.01, 0.99), 1 + rng.exponential()
        amplified = 1 + q * (a - 1)
        w = amplified / a
        left = hockey_stick(amplified, (1 - q) * a0 + q * b0, (1 - q) * a0 + q * b1)
        assert left == pytest.approx(q * hockey_stick(a, b0, (1 - w) * a0 + w * b1), abs=1e-14)


def test_what_an_approximate_release_may_do_at_most():
    """The largest P(S) - e^x P'(S) under the two inequalities that define (epsilon, delta)."""
    rng = np.random.default_rng(12)
    for _ in range(20):
        e, d, share = rng.uniform(0.0, 3.0), rng.uniform(0.0, 0.4), rng.uniform(0.0, 1.3)
        up = math.exp(e)
        best = linprog(
            [-1.0, math.exp(share * e)],
            A_ub=[[1.0, -up], [up, -1.0]],
            b_ub=[d, up - 1.0 + d],
            bounds=[(0.0, 1.0), (0.0, 1.0)],
        )
        assert approximate(e, d).delta(share * e) == pytest.approx(-best.fun, abs=1e-9)


def test_a_mixture_that_shows_its_flag():
    """(1 - rho) nothing + rho local: for a >= 1 the profile is rho times that of local."""
    rng = np.random.default_rng(13)
    for _ in range(100):
        p, q = rng.dirichlet(np.ones(5), 2)
        nothing = rng.dirichlet(np.ones(3))
        rho, a = rng.uniform(), 1 + rng.exponential()
        one, two = (np.append((1 - rho) * nothing, rho * distribution) for distribution in (p, q))
        assert hockey_stick(a, one, two) == pytest.approx(rho * hockey_stick(a, p, q), abs=1e-14)
