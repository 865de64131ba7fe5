"""Networks: gradients, what is no record, and predictions from released weights."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from riemdp import InvalidArgument, problems
from riemdp.manifolds import Lorentz

NET = problems.spdnet((3, 2, 2), 2, floor=1e-2)
CURVED = problems.hyperbolic_prototypes(3, 3, 2, radius=2.0)
RECORD = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]])
SINGULAR = np.ones((3, 3))
ROWS = 12
EQUAL, SMALL, BOTH = np.eye(3), 1e-3 * RECORD, np.diag([1.0, 1e-3, 1e-3])


def weights(problem):
    """Weights at which every layer has a gradient."""
    return problem.manifold.random_point(3)


@functools.cache
def _program(problem):
    return jax.jit(jax.vmap(lambda w, z: (problem.loss(w, z), problem.gradient(w, z))))


def of_records(problem, X, y, w=None):
    """Losses and gradients (all entries in a row) at some weights, one for each record or the same;
    one program for all numbers of them.
    """
    lack = ROWS - len(X)
    records, labels = np.stack([*X, *[X[0]] * lack]), np.array([*y, *[y[0]] * lack])
    w = [weights(problem)] * len(X) if w is None else w
    points = tuple(np.stack([*parts, *[parts[0]] * lack]) for parts in zip(*w, strict=True))
    losses, parts = _program(problem)(points, (records, labels))
    rows = [np.asarray(part).reshape(ROWS, -1) for part in parts]
    return np.asarray(losses), np.concatenate(rows, axis=1)[: len(X)]


def gradients(problem, X, y):
    return of_records(problem, X, y)[1]


@pytest.mark.parametrize(
    ("problem", "x"), [(NET, RECORD), (CURVED, [0.3, -0.5, 0.2]), (CURVED, [3.0, -5.0, 2.0])]
)
def test_gradients_match_finite_differences(problem, x):
    """The loss is a function of arrays, so its slope along a tangent vector needs no geodesic."""
    record, space, w = np.asarray(x), problem.manifold, weights(problem)
    u = space.tangent_normal(1, w, 1.0)
    ends = [tuple(a + s * b for a, b in zip(w, u, strict=True)) for s in (0.0, 1e-5, -1e-5)]
    (_, up, down, *_), (flat, *_) = of_records(problem, [record] * 3, [0.0] * 3, ends)
    cuts = np.cumsum([part.size for part in w])[:-1]
    g = tuple(a.reshape(b.shape) for a, b in zip(np.split(flat, cuts), w, strict=True))
    assert float(space.inner(w, g, u)) == pytest.approx((up - down) / 2e-5, rel=1e-5)


def test_gradients_of_coinciding_and_raised_eigenvalues_are_limits():
    """Automatic differentiation of eigenvectors gives NaN there. What is below the floor does not
    move, and what lies above it does.
    """
    near = [x + 1e-9 * RECORD for x in (EQUAL, SMALL, BOTH)]
    here = gradients(NET, [EQUAL, SMALL, BOTH, *near], np.zeros(6))
    assert np.all(np.isfinite(here))
    np.testing.assert_allclose(here[:3], here[3:], atol=1e-6)
    frames = here[:, :10]  # of both layers
    assert np.linalg.norm(frames[1]) < 1e-12
    assert np.linalg.norm(frames[2]) > 0.1


def test_what_is_no_record_of_a_known_class_counts_nothing():
    """Also beside sound records, which do not change."""
    lopsided = RECORD + np.array([[0.0, 0.7, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    bad = [np.full((3, 3), np.nan), np.full((3, 3), 1e308), np.zeros((3, 3)), SINGULAR]
    bad = [*bad, -RECORD, lopsided, RECORD, RECORD, RECORD, RECORD, RECORD]
    labels = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 2.0, -1.0, 0.5, np.nan, np.inf]
    found = gradients(NET, [*bad, RECORD], [*labels, 1.0])
    assert not np.any(found[:-1])
    assert np.linalg.norm(found[-1]) > 0.1


def test_hostile_records_have_finite_gradients():
    found = gradients(NET, [1e8 * RECORD, 1e-300 * RECORD, 1e300 * RECORD], np.zeros(3))
    assert np.all(np.isfinite(found))
    x = [np.zeros(3), np.full(3, 1e8), np.full(3, 1e150), np.full(3, 1e-310), np.full(3, np.inf)]
    found = gradients(CURVED, x, np.zeros(5))
    assert np.all(np.isfinite(found))
    assert not np.any(found[-1])


def test_embeddings_stay_within_the_radius():
    point = problems.embeddings(CURVED, weights(CURVED), [[1e8, 0.0, 0.0], [0.0, 0.0, np.nan]])
    space = Lorentz(3)
    assert float(space.dist(space.origin, point[0])) == pytest.approx(2.0)
    assert np.all(np.isnan(point[1]))


def test_probabilities_are_those_of_the_loss():
    X = [RECORD, EQUAL, SINGULAR]
    found = problems.class_probabilities(NET, weights(NET), X)
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found[:2].sum(axis=1), 1.0)
    loss = NET.objective(weights(NET), (RECORD[None], np.ones(1)))
    assert float(found[0, 1]) == pytest.approx(np.exp(-loss))
    assert np.all(np.isnan(found[2]))


def test_a_start_is_drawn_without_data_and_has_several_prototypes():
    start = problems.random_start(CURVED, 0)
    assert CURVED.manifold.belongs(start)
    assert not np.allclose(start[1], start[2])
    assert not np.any(problems.random_start(NET, 0)[-1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: problems.spdnet((3,), 2), "sizes"),
        (lambda: problems.spdnet((3, 4), 2), "sizes"),
        (lambda: problems.spdnet((3, 0), 2), "sizes"),
        (lambda: problems.spdnet((3, 2), 1), "n_classes"),
        (lambda: problems.spdnet((3, 2), 2, floor=0.0), "floor"),
        (lambda: problems.hyperbolic_prototypes(0, 3, 2), "n_features"),
        (lambda: problems.hyperbolic_prototypes(3, 3, 2, radius=-1.0), "radius"),
        (lambda: problems.random_start(problems.principal_eigenvector(3), 0), "problem"),
        (lambda: problems.class_probabilities(NET, np.eye(3), RECORD[None]), "weights"),
        (lambda: problems.class_probabilities(NET, weights(NET), np.ones((2, 3))), "X"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(InvalidArgument, match=f"`{name}"):
        call()
