"""Ready problems: gradients against finite differences, stated constants against brute force,
refusals.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import Ball, InvalidArgument, Problem, check_gradient, problems
from riemdp.manifolds import (
    Euclidean,
    Lorentz,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)

KEY = 7
SPACES = [
    Lorentz(4),
    SPDAffineInvariant(3),
    SPDBuresWasserstein(3),
    Product(Sphere(3), Euclidean(2)),
]


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_frechet_gradient_matches_finite_differences(manifold):
    w = manifold.random_point(1)
    u = manifold.tangent_normal(2, w, 0.3)
    z = manifold.exp(w, u)
    assert check_gradient(problems.frechet_mean(manifold), w, z, directions=3) < 1e-6


@pytest.mark.parametrize(
    ("problem", "record"),
    [
        (problems.principal_eigenvector(4), np.array([0.3, -0.5, 0.2, 0.4])),
        (problems.principal_subspace(5, 2), np.array([0.3, -0.5, 0.2, 0.4, 0.1])),
        (
            problems.matrix_completion(5, 2),
            (np.array([1.0, -2.0, 0.5, 0.3, 0.1]), np.array([1.0, 0.0, 1.0, 1.0, 0.0])),
        ),
        (
            problems.matrix_completion(5, 2),
            (np.array([1.0, -2.0, 0.5, 0.3, 0.1]), np.array([1.0, 0.0, 0.0, 0.0, 0.0])),
        ),
        (problems.hyperbolic_prediction(3), (np.array(-0.7), np.array([np.sqrt(1.25), 0.3, -0.4]))),
        (
            problems.hyperbolic_prediction(2, model="poincare"),
            (np.array(1.7), np.array([0.3, -0.4])),
        ),
    ],
    ids=[
        "eigenvector",
        "subspace",
        "completion",
        "completion-underdetermined",
        "lorentz",
        "poincare",
    ],
)
def test_closed_gradients_match_finite_differences(problem, record):
    w = problem.manifold.random_point(KEY)
    assert check_gradient(problem, w, record, directions=3) < 1e-6


def test_automatic_gradient_of_a_users_loss_equals_the_closed_form():
    m = SPDAffineInvariant(3)
    closed = problems.frechet_mean(m)
    user = Problem(m, lambda w, z: m._squared_dist(w, z))
    w, z = m.random_point(1), m.random_point(2)
    np.testing.assert_allclose(
        user.riemannian_gradient(w, z), closed.riemannian_gradient(w, z), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("z", [[], np.zeros(0), np.zeros((0, 3)), "record", None])
def test_check_gradient_names_a_record_that_is_none(z):
    """Before: a TypeError of JAX."""
    problem = problems.principal_eigenvector(3)
    with pytest.raises(InvalidArgument, match="`z`"):
        check_gradient(problem, np.eye(3)[0], z)


def test_check_gradient_catches_half_the_gradient_and_a_euclidean_one():
    m = SPDAffineInvariant(3)
    w, z = m.random_point(1), m.random_point(2)
    half = Problem(
        m, lambda w, z: m._squared_dist(w, z), gradient=lambda w, z: -m._log(w, z)
    )  # a printed formula
    with pytest.raises(InvalidArgument, match="gradient"):
        check_gradient(half, w, z)
    ambient = Problem(m, lambda w, z: jnp.sum((w - z) ** 2), gradient=lambda w, z: 2 * (w - z))
    with pytest.raises(InvalidArgument, match="gradient"):
        check_gradient(ambient, w, z)


def test_check_gradient_names_a_loss_that_is_nan_or_a_vector():
    m = Sphere(4)
    w = m.random_point(KEY)
    with pytest.raises(InvalidArgument, match="loss"):
        check_gradient(Problem(m, lambda w, z: jnp.nan * jnp.sum(w)), w, w)
    with pytest.raises(InvalidArgument, match="loss"):
        check_gradient(Problem(m, lambda w, z: w * z), w, w)


def test_eigenvector_constants_are_attained_and_never_exceeded():
    """|grad| = |z|^2 |sin 2t|: sup is |z|^2 (half of the printed 2 |z|^2), and neighbours can
    differ by twice that.
    """
    p = problems.principal_eigenvector(5, row_norm=2.0)
    assert p.lipschitz == 4.0
    assert p.smoothness == 8.0
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4000, 5))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = rng.normal(size=(4000, 5))
    z *= 2.0 / np.linalg.norm(z, axis=1, keepdims=True)
    norms = np.linalg.norm(jax.vmap(p.gradient)(w, z), axis=1)
    assert norms.max() <= 4.0 + 1e-12
    e = np.eye(5)
    z_plus, z_minus = np.sqrt(2) * (e[0] + e[1]), np.sqrt(2) * (e[0] - e[1])
    gap = np.linalg.norm(p.gradient(e[0], z_plus) - p.gradient(e[0], z_minus))
    assert gap == pytest.approx(8.0, rel=1e-12)


def test_subspace_gradient_is_rank_one_with_the_same_bound():
    p = problems.principal_subspace(6, 3)
    m = p.manifold
    w = m.random_point(KEY, (3000,))
    z = np.random.default_rng(0).normal(size=(3000, 6))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    norms = np.linalg.norm(np.asarray(jax.vmap(p.gradient)(w, z)).reshape(3000, -1), axis=1)
    assert 0.95 < norms.max() <= 1.0 + 1e-12


def test_hyperbolic_smoothness_bounds_the_hessian():
    """Largest Hessian eigenvalue of d^2 at distance D is 2 D coth D (3.1626 at the printed
    example's distance).
    """
    p = problems.frechet_mean(Lorentz(4), ball=Ball(Lorentz(4).origin, 0.7))
    assert p.smoothness == pytest.approx(2 * 1.4 / np.tanh(1.4))
    assert problems.frechet_mean(SPDLogEuclidean(3)).smoothness == 2.0
    assert problems.frechet_mean(Sphere(3)).smoothness == 2.0


def test_weights_solve_the_kernel_system_and_features_must_be_public():
    x = np.random.default_rng(0).normal(size=(20, 3))
    alpha = problems.prediction_weights(x, np.zeros(3), bandwidth=0.5, regularisation=1e-3)
    gram = np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 0.5)
    np.testing.assert_allclose(
        (gram + 1e-3 * np.eye(20)) @ alpha, np.exp(-(x**2).sum(-1) / 0.5), atol=1e-9
    )
    with pytest.raises(InvalidArgument, match="protects"):
        problems.hyperbolic_prediction(3, protects="pairs")
    assert "labels" in problems.hyperbolic_prediction(3).protects
    # Why pairs are refused: moving ONE feature moves the other records' weights.
    y = x.copy()
    y[0] *= 0.1
    other = problems.prediction_weights(y, np.zeros(3), bandwidth=0.5, regularisation=1e-3)
    assert np.abs(other[1:] - alpha[1:]).sum() > 1e-3


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Problem("sphere", lambda w, z: 0.0), "manifold"),
        (lambda: Problem(Sphere(3), 3), "loss"),
        (lambda: Problem(Sphere(3), lambda w, z: 0.0, gradient=1), "gradient"),
        (lambda: Problem(Sphere(3), lambda w, z: 0.0, smoothness=0.0), "smoothness"),
        (lambda: problems.principal_eigenvector(1), "n"),
        (lambda: problems.principal_eigenvector(3, row_norm=-1.0), "row_norm"),
        (lambda: problems.principal_subspace(3, 3), "r"),
        (lambda: problems.matrix_completion(3, 1, ridge=0.0), "ridge"),
        (lambda: problems.hyperbolic_prediction(3, model="klein"), "model"),
        (lambda: problems.prediction_weights(np.ones((3, 2)), np.ones(3)), "query"),
        (lambda: problems.prediction_weights([], np.ones(3)), "features"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(InvalidArgument, match=f"`{name}`"):
        call()
