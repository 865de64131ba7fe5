"""Random allocation: between an optimistic discretisation of its distribution and 0.5 % more."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.stats import norm

from riemdp import Guarantee, gaussian, subsampled_gaussian
from riemdp.privacy import allocated_gaussian
from riemdp.privacy.accounting import allocation
from tests.seam import Accounts


# -------------------------------------------------------------------- an oracle from below
def merged(value: np.ndarray, mass: np.ndarray, cells: float) -> tuple[np.ndarray, np.ndarray]:
    """Masses of one cell of a logarithmic grid at their mean: by Jensen's inequality every
    expectation of a convex function only falls.
    """
    key = np.floor(np.log(np.maximum(value, 1e-300)) * cells).astype(np.int64)
    key -= key.min()
    total = np.bincount(key, mass)
    keep = total > 0
    return np.bincount(key, mass * value)[keep] / total[keep], total[keep]


def combined(one, two, operation, cells: float, dust: float = 1e-19):
    """The distribution of `operation` of two independent variables; small masses are left out,
    which only lowers expectations of functions that are not negative.
    """
    (x, p), (y, q) = ((v[m > dust], m[m > dust]) for v, m in (one, two))
    return merged(operation.outer(x, y).ravel(), np.multiply.outer(p, q).ravel(), cells)


@functools.cache
def below(z: float, steps: int, epochs: int):
    """An optimistic distribution of the likelihood ratio under Q."""
    cells = 150 if z >= 1 else 60
    cells *= max(1.0, 0.1 * math.sqrt(steps) * min(1.0, z))
    edge = np.linspace(-9.0, 9.0 + 1 / z, 1600)
    mass, moved = np.diff(norm.cdf(edge)), np.diff(norm.cdf(edge - 1 / z))
    keep = mass > 0
    single = total = moved[keep] / mass[keep], mass[keep]
    for digit in bin(steps)[3:]:
        total = combined(total, total, np.add, cells)
        if digit == "1":
            total = combined(total, single, np.add, cells)
    one = total = total[0] / steps, total[1]
    for digit in bin(epochs)[3:]:
        total = combined(total, total, np.multiply, cells)
        if digit == "1":
            total = combined(total, one, np.multiply, cells)
    return total


def delta_below(distribution, epsilon: float) -> float:
    ratio, mass = distribution
    up = math.exp(epsilon)
    removed = mass @ np.maximum(ratio - up, 0.0)
    added = mass @ np.maximum(1.0 - up * ratio, 0.0)
    return float(max(removed, added))


def epsilon_below(distribution, delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_below(distribution, middle) > delta else (low, middle)
    return low


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize(
    ("z", "steps", "epochs"), [(1.0, 100, 10), (2.0, 100, 10), (1.0, 100, 1), (0.6, 30, 3)]
)
def test_epsilon_is_within_half_a_percent_of_an_optimistic_bound(z, steps, epochs, delta) -> None:
    found = allocated_gaussian(z, steps=steps, epochs=epochs).epsilon(delta)
    attainable = epsilon_below(below(z, steps, epochs), delta)
    assert attainable <= found <= attainable * 1.005


@pytest.mark.parametrize(("z", "steps"), [(0.5, 2), (1.0, 3), (2.0, 2)])
def test_one_epoch_against_quadrature(z: float, steps: int) -> None:
    """Two and three steps: the profile by brute force in the space of y, both directions."""
    y = np.linspace(-9 * z, 9 * z + 1, 1601 if steps == 2 else 201)
    weight = norm.pdf(y, scale=z) * (y[1] - y[0])
    x = np.exp((y - 0.5) / z**2)
    grids = np.meshgrid(*[x] * steps, indexing="ij", sparse=True)
    masses = functools.reduce(np.multiply.outer, [weight] * steps)
    ratio = sum(grids) / steps
    g = allocated_gaussian(z, steps=steps)
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        up = math.exp(epsilon)
        removed = float(np.sum(masses * np.maximum(ratio - up, 0.0)))
        added = float(np.sum(masses * np.maximum(1 - up * ratio, 0.0)))
        exact = max(removed, added)
        assert exact * (1 - 1e-3) <= g.delta(epsilon) <= exact * 1.02 + 1e-9


def test_the_example_of_the_literature_where_poisson_is_better() -> None:
    """t 2, z 1, epsilon 0: .298 for allocation against .273 for Poisson sampling at rate 1/2."""
    assert allocated_gaussian(1.0, steps=2).delta(0.0) == pytest.approx(0.298, abs=2e-3)
    poisson = subsampled_gaussian(1.0, population=2, batch_size=1, steps=2, sampling="poisson")
    assert poisson.delta(0.0) == pytest.approx(0.273, abs=2e-3)


def test_a_spread_keeps_mass_and_mean() -> None:
    """What is moved to infinity and to 0 is counted; nothing is lost and nothing wraps around."""
    for z, steps in ((0.5, 20), (1.0, 7), (3.0, 1000)):
        distribution = allocation.epoch(z, steps)
        assert float(np.sum(distribution.mass)) + distribution.added >= 1 - 1e-12
        assert float(
            distribution.mass @ distribution.ratio
        ) + distribution.removed == pytest.approx(1.0, abs=1e-11)
        variance = math.expm1(1 / z**2) / steps
        spread = float(distribution.mass @ (distribution.ratio - 1) ** 2)
        assert variance * (1 - 1e-6) <= spread <= variance * 1.02


@pytest.mark.parametrize("cells", [1 << 22, 0], ids=["cells", "search"])
@pytest.mark.parametrize(("z", "terms"), [(0.3, 2), (1.0, 100), (20.0, 1000)])
def test_values_find_the_point_below_them(monkeypatch, z, terms, cells) -> None:
    monkeypatch.setattr(allocation, "_MOST_CELLS", cells)
    grid = Accounts.grid(z, terms, allocation.FINE)
    inner = np.concatenate([grid[:-1] + share * np.diff(grid) for share in (0.0, 1e-9, 0.5, 1.0)])
    value = np.concatenate([inner, np.nextafter(grid[1:], 0.0), [0.0, 1.5 * grid[-1]]])
    found = Accounts.Below(grid, 2.0 * grid[-1])(value)
    assert np.all(grid[found] <= value)
    assert np.all(value < np.append(grid[1:], np.inf)[found])


def test_a_planted_optimistic_rounding_is_seen(monkeypatch) -> None:
    """The planted twin: the values of X are taken a percent too small, their mean with them."""
    honest = allocated_gaussian(1.0, steps=100).delta(0.5)
    distribution = allocation.epoch(1.0, 100)
    lower = allocation.RatioDistribution(
        distribution.ratio * 0.99, distribution.mass, distribution.removed, distribution.added
    )
    assert lower.delta(0.5) < delta_below(below(1.0, 100, 1), 0.5) <= honest


def test_order_limits_words_and_dictionaries() -> None:
    g = allocated_gaussian(1.5, steps=50, epochs=4)
    assert g.adjacency == "add-or-remove-one"
    assert Guarantee.from_dict(g.to_dict()) == g
    assert "one secret random step" in str(g)
    assert g == allocated_gaussian(1.5, steps=50).repeat(4)
    alone = gaussian(1.5, 4, adjacency="add-or-remove-one")
    assert allocated_gaussian(1.5, steps=1, epochs=4) == alone
    for delta in (1e-9, 1e-4):
        figures = [
            allocated_gaussian(1.5, steps=t, epochs=4).epsilon(delta) for t in (1, 5, 50, 500)
        ]
        assert figures == sorted(figures, reverse=True)
    assert allocated_gaussian(0.1, steps=50).epsilon(1e-5) == pytest.approx(
        gaussian(0.1).epsilon(1e-5)
    )
    assert g.compose(alone).epsilon(1e-6) > max(g.epsilon(1e-6), alone.epsilon(1e-6))
    for call, name in (
        (lambda: allocated_gaussian(0.0, steps=2), "noise_multiplier"),
        (lambda: allocated_gaussian(1.0, steps=0), "steps"),
        (lambda: allocated_gaussian(1.0, steps=2, epochs=0), "epochs"),
    ):
        with pytest.raises(ValueError, match=name):
            call()
