"""What the compiled steps compute: optima without noise, equality of kernels, and the distribution
of the noise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, DPRSVRG, private_minimize, problems
from riemdp.manifolds import (
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)
from riemdp.optimizers import plan_optimizer
from tests.optimizers.audits import LessNoise, NoiseOfTheMeanOnTheSum
from tests.optimizers.sums import total_of_all
from tests.seam import Gradients, plant, replicate
from tests.statistical import ALPHA, gaussian_p_value

SEED = 3
RNG = np.random.default_rng(0)


def spread(manifold, n=40, sigma=0.3):
    """n points about a point, and the point."""
    p = manifold.random_point(5)
    return manifold.exp(p, manifold.tangent_normal(6, p, sigma, (n,))), p


MEANS = [  # with a kernel of its own, and many spaces in one program
    SPDAffineInvariant(3),
    Product(Euclidean(3), Sphere(4), Lorentz(3), Grassmann(5, 2), SPDBuresWasserstein(3)),
    *(pytest.param(m, marks=pytest.mark.slow) for m in (PoincareBall(2), SPDLogEuclidean(3))),
]


@pytest.mark.parametrize("manifold", MEANS, ids=repr)
def test_without_noise_the_frechet_mean_is_a_stationary_point(manifold):
    """Own Karcher condition: sum of logs at the result is zero (for which no optimiser code is
    used).
    """
    x, start = spread(manifold)
    result = private_minimize(problems.frechet_mean(manifold), x, start, DPRGD(60, 0.4), None)
    value = jax.tree.map(np.asarray, result.value)
    logs = manifold.log(value, x)
    residual = manifold.norm(value, jax.tree.map(lambda v: np.mean(v, axis=0), logs))
    assert float(residual) < 1e-8
    assert bool(manifold.belongs(result.value))
    assert not result.guarantee.is_private


def test_without_noise_eigenvector_and_subspace_are_those_of_eigh():
    z = RNG.normal(size=(300, 6)) * np.array([3, 2.5, 1, 0.5, 0.5, 0.5])
    z /= np.linalg.norm(z, axis=1).max()
    vectors = np.linalg.eigh(z.T @ z)[1]
    m = Sphere(6)
    one = private_minimize(
        problems.principal_eigenvector(6), z, m.random_point(SEED), DPRGD(3000, 0.9), None
    )
    assert 1 - abs(float(one.value @ vectors[:, -1])) < 1e-12
    g = Grassmann(6, 2)
    two = private_minimize(
        problems.principal_subspace(6, 2), z, g.random_point(SEED), DPRGD(3000, 0.9), None
    )
    assert np.linalg.norm(vectors[:, -2:].T @ np.asarray(two.value)) ** 2 == pytest.approx(
        2.0, abs=1e-10
    )


@pytest.mark.parametrize("variant", ["anchored", "as-published"])
def test_without_noise_variance_reduction_reaches_the_optimum(variant):
    x, start = spread(SPDAffineInvariant(3))
    m = SPDAffineInvariant(3)
    optimizer = DPRSVRG(12, 20, 0.15, batch_size=4, variant=variant)
    got = private_minimize(problems.frechet_mean(m), x, start, optimizer, None, rng=0)
    assert np.linalg.norm(np.mean(m.log(np.asarray(got.value), x), axis=0)) < 1e-7


# ------------------------------------------------------------------------------------------------
# kernels agree
@pytest.mark.parametrize(
    ("which", "sampling"),
    [
        ("spd", "full"),
        ("sphere", "without-replacement"),
        ("grassmann", "poisson"),
    ],
)
def test_fast_kernels_equal_the_generic_one(which, sampling, monkeypatch):
    if which == "spd":
        m = SPDAffineInvariant(3)
        x, start = spread(m, sigma=1.0)
        x = np.array(x)
        x[3] = np.nan
        x[4] = -np.eye(3)  # not positive definite: counts as zero in both
        p = problems.frechet_mean(m)
    elif which == "sphere":
        p, start = problems.principal_eigenvector(5), Sphere(5).random_point(SEED)
        x = RNG.normal(size=(40, 5))
        x[3] = np.inf
    else:
        p, start = problems.principal_subspace(5, 2), Grassmann(5, 2).random_point(SEED)
        x = RNG.normal(size=(40, 5))
        x[3] = np.nan
    o = DPRGD(6, 0.1, 0.8) if sampling == "full" else DPRSGD(6, 8, 0.1, 0.8, sampling=sampling)

    # Noise of the same distribution is drawn in another frame: compare without it.
    def found():
        return replicate(p, x, start, o, noise_std=0.0, repetitions=3, rng=5)[0]

    fast = found()
    generic = Gradients.Generic(p.manifold, False, Gradients.gradient_function(p))
    plant(monkeypatch, "choice of a kernel", lambda *_, **__: generic)
    slow = found()
    assert type(Gradients.choose_kernel(p, False)) is not Gradients.Generic
    np.testing.assert_allclose(fast, slow, atol=1e-10)
    assert np.abs(np.asarray(fast) - np.asarray(start)).max() > 1e-3


def test_chunks_do_not_change_the_sum():
    m = SPDAffineInvariant(3)
    x, start = (jnp.asarray(given) for given in spread(m))
    kernel = Gradients.choose_kernel(problems.frechet_mean(m), False)
    plan = plan_optimizer(problems.frechet_mean(m), 40, DPRGD(1, 0.1, 0.5), None, noise_std=0.0)
    state = kernel.start(start)
    center = kernel.public_gradient(state, x[:1])
    for about in (None, center):
        whole = total_of_all(plan.gradient, kernel, state, x, 40, about)
        for chunk in (1, 7):
            np.testing.assert_allclose(
                total_of_all(plan.gradient, kernel, state, x, chunk, about), whole, atol=1e-12
            )


# ------------------------------------------------------------------------------------------------
# the distribution of the noise
NOISY = [
    Sphere(4),
    Lorentz(3),
    Grassmann(4, 2),
    SPDAffineInvariant(3),
    SPDBuresWasserstein(2),
    Product(Sphere(3), Euclidean(2)),
]


def first_step_coordinates(manifold, kind=Gradients.NoisyGradient, n=4000, sigma=0.02, rate=0.5):
    """Coordinates of w_1 seen from w_0 when every gradient is zero (all records are the start)."""
    start = manifold.random_point(5)
    data = jax.tree.map(lambda x: np.broadcast_to(x, (7, *x.shape)), start)
    values, _ = replicate(
        problems.frechet_mean(manifold),
        data,
        start,
        DPRGD(1, rate, 1.0),
        noise_std=sigma,
        repetitions=n,
        rng=11,
        kind=kind,
    )
    logs = manifold.log(start, jax.tree.map(np.asarray, values))
    return manifold.to_coordinates(start, logs), rate * sigma


@pytest.mark.slow
@pytest.mark.parametrize("manifold", NOISY, ids=repr)
def test_noise_of_one_step_is_isotropic_with_the_stated_sigma(manifold):
    samples, sigma = first_step_coordinates(manifold)
    assert gaussian_p_value(samples, sigma) > ALPHA


@pytest.mark.parametrize("fault", [LessNoise, NoiseOfTheMeanOnTheSum])
def test_planted_noise_faults_fail_the_same_test(fault):
    samples, sigma = first_step_coordinates(SPDAffineInvariant(3), fault)
    assert gaussian_p_value(samples, sigma) < ALPHA


def test_noise_of_an_empty_poisson_batch_is_the_full_noise():
    m = Sphere(4)
    start = m.random_point(SEED)
    data = np.broadcast_to(m.exp(start, m.tangent_normal(SEED + 1, start)), (500, 4))
    # One expected record in 500, one step: 37 % of the batches are empty. The gradient is tiny next
    # to the noise.
    values, _ = replicate(
        problems.frechet_mean(m),
        data,
        start,
        DPRSGD(1, 1, 0.5, 1e-6, sampling="poisson"),
        noise_std=0.02,
        repetitions=4000,
        rng=2,
    )
    coordinates = m.to_coordinates(start, m.log(start, np.asarray(values)))
    assert gaussian_p_value(coordinates, 0.01) > ALPHA
