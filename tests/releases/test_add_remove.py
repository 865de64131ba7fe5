"""Add-or-remove-one neighbours: the number of records is private too. Leaks, worst cases, planted
faults, refusals.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp as R
from riemdp.statistics import (
    AmbientMean,
    FrechetMean,
    frechet_mean_sensitivity,
)

BUDGET = R.Budget(1.0, 1e-5)
AR = "add-or-remove-one"
N_MIN = 4
OUTPUT = ("wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient")
MECHANISMS = ("auto", *OUTPUT, "extrinsic-gaussian", "extrinsic-laplace")
SPACES = {"Euclidean(2)": (R.Euclidean(2), 1.0), "Sphere(3)": (R.Sphere(3), 0.4)}
COUNTS = {
    "Euclidean(2)": (0, 3, 9),
    "Sphere(3)": (2, 5),
}  # below n_min and above; a shape compiles anew on the sphere


def records(manifold, radius, n, seed=0):
    v = np.random.default_rng(seed).normal(size=(n, manifold.dim)) * radius / 2
    return manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, v))


def release(manifold, x, ball, budget=BUDGET, n_min=N_MIN, **options):
    return R.private_frechet_mean(manifold, x, ball, budget, n_min=n_min, **options)


@pytest.mark.parametrize(
    "name", ["Euclidean(2)", pytest.param("Sphere(3)", marks=pytest.mark.slow)]
)
def test_nothing_that_is_stated_depends_on_how_many_records_there_are(name):
    """No record, fewer than n_min, and more: everything but the value is the same."""
    manifold, radius = SPACES[name]
    ball = R.Ball(manifold.origin, radius)
    for mechanism in MECHANISMS:
        seen = []
        for n in COUNTS[name]:
            x = records(manifold, radius, n)
            ledger = R.Ledger(R.Budget(1.0, 1e-5))
            made = release(manifold, x, ball, mechanism=mechanism, rng=1, ledger=ledger)
            assert bool(manifold.belongs(made.value, 1e-6))
            assert ledger.spent == made.guarantee
            assert made.guarantee.adjacency == AR
            assert AR in str(made.guarantee)
            assert made.guarantee.epsilon(1e-5) <= 1.0
            seen.append(
                (
                    made.mechanism,
                    made.scale,
                    made.sensitivity,
                    made.expected_error,
                    made.guarantee,
                    dict(made.details),
                    [(e.what, e.guarantee, e.part, e.of) for e in ledger.entries],
                )
            )
        assert all(facts == seen[0] for facts in seen)
        assert "n" not in seen[0][5]
        assert seen[0][5]["n_min"] == N_MIN


def test_the_value_is_the_mean_of_the_records_filled_up_with_the_centre():
    manifold, ball = R.Euclidean(2), R.Ball(np.array([1.0, 0.0]), 1.0)
    x = np.array([[1.5, 0.0], [1.0, 0.5]])
    rich = R.Budget(1e7, 1e-5)

    def value(y, **options):
        return np.asarray(
            release(manifold, y, ball, rich, rng=1, mechanism="wrapped-gaussian", **options).value
        )

    np.testing.assert_allclose(value(x), (x.sum(0) + 2 * np.array([1.0, 0.0])) / 4, atol=1e-2)
    np.testing.assert_allclose(value(x, n_min=1), x.mean(0), atol=1e-2)
    np.testing.assert_allclose(value(x[:0]), [1.0, 0.0], atol=1e-2)
    # the records' own weights are moved into [0, 1], whatever they are, and a wild record into the
    # ball
    np.testing.assert_allclose(value(x, weights=[7.0, np.nan], n_min=1), x[0], atol=1e-2)
    np.testing.assert_allclose(
        value(x, weights=[-3.0, 0.25], n_min=1),
        0.25 * x[1] + 0.75 * np.array([1.0, 0.0]),
        atol=1e-2,
    )
    np.testing.assert_allclose(value(np.array([[1e6, 0.0]]), n_min=1), [2.0, 0.0], atol=1e-2)


@pytest.mark.parametrize(
    ("manifold", "n"),
    [
        (R.Euclidean(2), 0),
        (R.Euclidean(2), 4),
        pytest.param(R.Lorentz(3), 4, marks=pytest.mark.slow),
    ],
)
def test_worst_neighbours_attain_the_claim_and_no_more(manifold, n):
    """Exact attack on the wrapped Gaussian: all records at one edge, one more at the other; or none
    and one, n_min = 1. The distance of the two noise-free tangent vectors over sigma is the true mu
    of this pair.
    """
    ball, n_min = R.Ball(manifold.origin, 1.0), max(n, 1)
    far = manifold.from_coordinates(manifold.origin, np.eye(manifold.dim)[0] * 1.0)
    left, right = (np.asarray(manifold.exp(manifold.origin, s * np.asarray(far))) for s in (-1, 1))
    small, large = (
        np.stack([left] * n) if n else np.empty((0, *manifold.shape)),
        np.stack([left] * n + [right]),
    )
    made = release(manifold, large, ball, n_min=n_min, mechanism="wrapped-gaussian", rng=1)
    tangents = []
    for x in (small, large):
        query = FrechetMean(ball.on(manifold), n_min, adjacency=AR, tolerance=1e-10)
        mean = query.value(query.prepare(x))
        tangents.append(np.asarray(manifold.log(manifold.origin, mean)))
    mu = np.linalg.norm(tangents[1] - tangents[0]) / made.scale
    claimed = 1 / R.gaussian_noise_multiplier(BUDGET)
    assert 0.999 * claimed <= mu <= claimed * (1 + 1e-9)
    assert made.guarantee.delta(1.0) >= R.privacy.gaussian(1 / mu).delta(1.0)


def test_formulas():
    sphere, flat = R.Sphere(3), R.Euclidean(2)
    ball, unit = R.Ball(sphere.origin, 0.4), R.Ball(np.zeros(2), 1.0)
    assert frechet_mean_sensitivity(flat, unit, 1, adjacency=AR) == 1.0
    assert frechet_mean_sensitivity(flat, unit, 9, adjacency=AR) == pytest.approx(0.2)
    h = 0.8 / math.tan(0.8)
    assert frechet_mean_sensitivity(sphere, ball, 9, adjacency=AR) == pytest.approx(0.4 * 0.2 / h)
    assert frechet_mean_sensitivity(sphere, ball, 1, adjacency=AR) == pytest.approx(
        0.4 * 0.8 / math.sin(0.8) / h
    )
    of_arrays = AmbientMean(ball.on(sphere), 1, adjacency=AR)
    assert of_arrays.sensitivity == pytest.approx(2 * math.sin(0.2))
    assert AmbientMean(unit.on(flat), 9, adjacency=AR).sensitivity == pytest.approx(0.2)


def test_a_weight_that_is_no_number_is_weight_zero():
    """One record's weight decides nothing but that record: weights are private here."""
    ball, x = R.Ball(np.zeros(2), 1.0), np.array([[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])
    made = [
        release(R.Euclidean(2), x, ball, weights=w, mechanism="wrapped-gaussian", rng=1)
        for w in (
            [1.0, "a", 1.0],
            [1.0, None, 1.0],
            [1.0, 10**400, 1.0],
            np.array([1.0, np.nan, 1.0]),
            [1.0, 0.0, 1.0],
        )
    ]
    for one in made[:-1]:
        np.testing.assert_array_equal(one.value, made[-1].value)
