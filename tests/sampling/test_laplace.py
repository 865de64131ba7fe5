"""Every Riemannian Laplace sampler against an independent distribution, with planted faults that
the same tests reject.
"""

from __future__ import annotations

import math
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp.randomness import noise_source
from riemdp.sampling import riemannian_laplace
from tests.sampling import oracles
from tests.seam import Means, original, plant
from tests.statistical import ALPHA, ks_p_value, mean_p_value, two_sample_p_value

N = 20_000


def footpoint(manifold, seed=3):
    return manifold.random_point(seed)


def gamma(dim, s):
    return lambda r: stats.gamma.cdf(r, dim, scale=s)


# name: manifold, scale, distribution function of d(x, eta), the one without the Jacobian
CASES = {
    "Euclidean(3)": (R.Euclidean(3), 0.7, lambda: gamma(3, 0.7), None),
    "SPDLogEuclidean(2)": (R.SPDLogEuclidean(2), 0.4, lambda: gamma(3, 0.4), None),
    "SPDLogEuclidean(8)": (R.SPDLogEuclidean(8), 0.05, lambda: gamma(36, 0.05), None),
    "Product flat": (
        R.Product(R.Euclidean(2), R.SPDLogEuclidean(2)),
        0.3,
        lambda: gamma(5, 0.3),
        None,
    ),
    "Lorentz(3)": (R.Lorentz(3), 0.5, lambda: oracles.hyperbolic(2, 0.5), gamma(2, 0.5)),
    "Lorentz(21)": (R.Lorentz(21), 0.03, lambda: oracles.hyperbolic(20, 0.03), gamma(20, 0.03)),
    "PoincareBall(2)": (R.PoincareBall(2), 0.3, lambda: oracles.hyperbolic(2, 0.3), gamma(2, 0.3)),
    "PoincareBall(1)": (R.PoincareBall(1), 0.8, lambda: oracles.hyperbolic(1, 0.8), None),
    "Sphere(2)": (R.Sphere(2), 1.0, lambda: oracles.sphere(1, 1.0), None),
    "Sphere(3)": (R.Sphere(3), 0.4, lambda: oracles.sphere(2, 0.4), gamma(2, 0.4)),
    "Sphere(51)": (R.Sphere(51), 0.03, lambda: oracles.sphere(50, 0.03), gamma(50, 0.03)),
    "Sphere(4)": (R.Sphere(4), 0.2, lambda: oracles.sphere(3, 0.2), gamma(3, 0.2)),
    "Grassmann(2,1)": (
        R.Grassmann(2, 1),
        0.5,
        lambda: oracles.cdf_from_grid(g := np.linspace(0, np.pi / 2, 999), -2 * g),
        None,
    ),
    "Grassmann(4,1)": (
        R.Grassmann(4, 1),
        0.3,
        lambda: oracles.cdf_from_grid(
            g := np.linspace(1e-9, np.pi / 2, 99999), 2 * np.log(np.sin(g)) - g / 0.3
        ),
        gamma(3, 0.3),
    ),
}


def distances(name, seed=11):
    manifold, s, _, _ = CASES[name]
    eta = footpoint(manifold)
    return np.asarray(manifold.dist(eta, riemannian_laplace(seed, manifold, eta, s, (N,))))


@pytest.mark.parametrize("name", CASES)
def test_distance_follows_the_distribution_and_faults_are_rejected(name):
    cdf, without_jacobian = CASES[name][2](), CASES[name][3]
    d = distances(name)
    assert ks_p_value(d, cdf) > ALPHA
    assert ks_p_value(1.1 * d, cdf) < ALPHA  # scale x 1.1
    if without_jacobian is not None:
        assert ks_p_value(d, without_jacobian) < ALPHA  # Jacobian dropped


@pytest.mark.parametrize(
    "name", ["Lorentz(3)", "PoincareBall(2)", "Sphere(3)", "SPDLogEuclidean(2)", "Product flat"]
)
def test_direction_is_uniform(name):
    manifold, s, _, _ = CASES[name]
    eta = footpoint(manifold)
    x = riemannian_laplace(5, manifold, eta, 0.2 * s, (N,))
    c = np.asarray(manifold.to_coordinates(eta, manifold.log(eta, x)))
    u = c / np.linalg.norm(c, axis=1, keepdims=True)
    d = manifold.dim
    for i in range(d):
        assert (
            ks_p_value((1 + u[:, i]) / 2, lambda t: stats.beta.cdf(t, (d - 1) / 2, (d - 1) / 2))
            > ALPHA
        )
    assert (
        min(mean_p_value(u[:, i] * u[:, j], 0.0) for i in range(d) for j in range(i)) > ALPHA / d**2
    )
    skewed = u + 0.05
    assert (
        ks_p_value(
            (1 + np.clip(skewed[:, 0], -1, 1)) / 2,
            lambda t: stats.beta.cdf(t, (d - 1) / 2, (d - 1) / 2),
        )
        < ALPHA
    )


@pytest.mark.parametrize("s", [0.2, 0.8, 1.2])
def test_affine_invariant_2_against_quadrature(s):
    manifold = R.SPDAffineInvariant(2)
    if s == 0.2:
        eta = footpoint(manifold)
        x = np.asarray(riemannian_laplace(2, manifold, eta, s, (N,)))
        low = np.linalg.inv(np.linalg.cholesky(np.asarray(eta)))
        w = np.log(np.linalg.eigvalsh(low @ x @ low.T))
    # so wide that points leave what float64 can hold: test the logarithms that they are made from
    else:
        w = Means.affine_tangents(2, s, N, noise_source(2), np.inf)[1]
    r, rho = np.linalg.norm(w, axis=1), np.abs(w[:, 1] - w[:, 0]) / np.sqrt(2)
    cdf_r, cdf_rho = oracles.affine_2(s)
    assert ks_p_value(r, cdf_r) > ALPHA
    assert ks_p_value(rho, cdf_rho) > ALPHA
    assert ks_p_value(1.1 * r, cdf_r) < ALPHA
    if s > 0.5:
        assert ks_p_value(r, gamma(3, s)) < ALPHA


def test_points_beyond_float64_are_shortened_to_valid_ones():
    for manifold in (R.SPDAffineInvariant(2), R.SPDLogEuclidean(2)):
        x = riemannian_laplace(
            2, manifold, np.eye(2), 1.3 if manifold.curvature_bounds[0] < 0 else 30.0, (2000,)
        )
        assert bool(np.all(np.asarray(manifold.belongs(x))))
        assert np.all(np.linalg.eigvalsh(np.asarray(x)) > 0)


@pytest.mark.parametrize(("k", "fraction"), [(3, 0.5), (5, 0.5), (11, 0.4)])
def test_affine_invariant_against_importance_weights(k, fraction):
    """E r under the distribution from flat Laplace draws weighted by the Jacobian, a method without
    rejection or envelope.
    """
    manifold, s = R.SPDAffineInvariant(k), fraction * np.sqrt(12 / (k * (k * k - 1)))
    x = riemannian_laplace(8, manifold, manifold.origin, s, (N // 4,))
    d = np.asarray(manifold.dist(manifold.origin, x))
    rng = np.random.default_rng(1)
    m, dim = 40_000, manifold.dim
    z = rng.standard_normal((m, k, k))
    v = (z + np.swapaxes(z, 1, 2)) / 2
    u = np.linalg.eigvalsh(v / np.linalg.norm(v, axis=(1, 2))[:, None, None])
    # The radius is drawn at the scale that the Jacobian's growth makes of s, so that weights stay
    # even.
    wide = s / (1 - fraction * 0.35)
    r = rng.gamma(dim, wide, m)
    i, j = np.triu_indices(k, 1)
    log_w = np.sum(Means.log_sinhc((u[:, i] - u[:, j]) * r[:, None] / 2), axis=1) - r * (
        1 / s - 1 / wide
    )
    w = np.exp(log_w - log_w.max())
    mean = np.sum(w * r) / np.sum(w)
    se = np.sqrt(np.sum(w**2 * (r - mean) ** 2)) / np.sum(w)
    assert np.sum(w) ** 2 / np.sum(w**2) > 1000

    def p(values):
        z = (values.mean() - mean) / np.hypot(se, values.std() / np.sqrt(values.size))
        return 2 * stats.norm.sf(abs(z))

    assert p(d) > ALPHA
    assert p(1.1 * d) < ALPHA
    flat = rng.gamma(dim, s, d.size)
    assert p(flat) < ALPHA


def weighted_mean(values, log_weights):
    """Self-normalised importance estimate of E values, its standard error and the effective number
    of points.
    """
    w = np.exp(log_weights - np.max(log_weights))
    mean = np.sum(w * values) / np.sum(w)
    return (
        mean,
        np.sqrt(np.sum(w**2 * (values - mean) ** 2)) / np.sum(w),
        np.sum(w) ** 2 / np.sum(w**2),
    )


def agreement(values, mean, se):
    """p-value that the mean of `values` is the importance estimate."""
    return 2 * stats.norm.sf(
        abs(np.mean(values) - mean) / np.hypot(se, np.std(values) / np.sqrt(values.size))
    )


@pytest.mark.parametrize(("m", "r", "s"), [(5, 2, 0.3), (5, 3, 0.3), (6, 3, 0.25)])
def test_grassmann_against_haar_weights(m, r, s):
    rng = np.random.default_rng(3)
    eta = np.linalg.qr(rng.standard_normal((m, r)))[0]
    x = np.asarray(riemannian_laplace(4, R.Grassmann(m, r), eta, s, (N // 2,)))
    d = np.linalg.norm(oracles.principal_angles(eta, x), axis=1)
    uniform = np.linalg.qr(rng.standard_normal((120_000, m, r)))[0]
    t = np.linalg.norm(oracles.principal_angles(eta, uniform), axis=1)
    mean, se, effective = weighted_mean(t, -t / s)
    assert effective > 500
    assert agreement(d, mean, se) > ALPHA
    assert agreement(1.1 * d, mean, se) < ALPHA
    assert agreement(rng.gamma(r * (m - r), s, N), mean, se) < ALPHA


@pytest.mark.parametrize(("e", "s"), [((1.0, 0.25), 0.08), ((2.0, 0.5), 0.3)])
def test_bures_wasserstein_2_against_quadrature(e, s):
    eta = np.diag(e)
    cdf = oracles.bures_2(e, s)
    d = oracles.bures_distance_2(
        eta, np.asarray(riemannian_laplace(6, R.SPDBuresWasserstein(2), eta, s, (N,)))
    )
    assert ks_p_value(d, cdf) > ALPHA
    assert ks_p_value(1.1 * d, cdf) < ALPHA
    if s == 0.3:
        assert ks_p_value(np.random.default_rng(0).gamma(3, s, N), cdf) < ALPHA


def test_bures_wasserstein_4_against_weighted_wishart_matrices():
    """Wishart matrices about 1.1 eta, weighted by the volume prod_{i<=j} (x_i + x_j)^-1/2 of the
    metric 1/2 tr(L U): neither exponential map nor acceptance.
    """
    k, s, dof = 4, 0.07, 8
    e = np.array([1.0, 0.8, 1.3, 0.9])
    x = np.asarray(riemannian_laplace(6, R.SPDBuresWasserstein(k), np.diag(e), s, (N // 2,)))
    rng = np.random.default_rng(0)

    def distance(x):
        root = np.sqrt(e)[:, None] * x * np.sqrt(e)
        traces = np.trace(x, axis1=1, axis2=2) + e.sum()
        return np.sqrt(
            np.maximum(
                traces - 2 * np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(root), 0.0)), axis=1), 0.0
            )
        )

    z = rng.standard_normal((100_000, k, dof)) * np.sqrt(1.1 * e / dof)[:, None]
    proposal = z @ np.swapaxes(z, 1, 2)
    values, d = np.linalg.eigvalsh(proposal), distance(proposal)
    i, j = np.triu_indices(k)
    log_wishart = (dof - k - 1) / 2 * np.sum(np.log(values), axis=1) - dof / 2 * np.einsum(
        "qii,i->q", proposal, 1 / (1.1 * e)
    )
    log_volume = -0.5 * np.sum(np.log(values[:, i] + values[:, j]), axis=1)
    mean, se, effective = weighted_mean(d, log_volume - d / s - log_wishart)
    mine = distance(x)
    assert effective > 5000
    assert agreement(mine, mean, se) > ALPHA
    assert agreement(1.1 * mine, mean, se) < ALPHA
    assert agreement(rng.gamma(k * (k + 1) / 2, s, N), mean, se) < ALPHA  # Jacobian dropped


def test_truncated_at_a_larger_size_against_the_whole_distribution_kept_inside():
    """H^10, footpoint off the centre: radii cut and rejected, against whole-space draws (a Beta
    distribution) that fall inside.
    """
    manifold, s, r = R.Lorentz(11), 0.06, 0.8
    ball = R.Ball(manifold.origin, r)
    eta = np.asarray(manifold.exp(manifold.origin, np.eye(11)[1] * 0.5))
    cut = np.asarray(riemannian_laplace(1, manifold, eta, s, (6000,), ball=ball))
    whole = np.asarray(riemannian_laplace(2, manifold, eta, s, (16_384,)))
    whole = whole[np.arccosh(whole[:, 0]) <= r]
    assert len(whole) > 2000
    assert np.all(np.arccosh(cut[:, 0]) <= r + 1e-9)

    def distance(x):
        return np.arccosh(np.maximum(1.0, eta[0] * x[:, 0] - x[:, 1:] @ eta[1:]))

    assert two_sample_p_value(distance(cut), distance(whole)) > ALPHA
    assert two_sample_p_value(cut[:, 0], whole[:, 0]) > ALPHA
    assert two_sample_p_value(1.1 * distance(cut), distance(whole)) < ALPHA


# -------------------------------------------------------------------- refusals, warnings, shapes
@pytest.mark.parametrize(
    ("manifold", "s", "number"),
    [
        (R.SPDAffineInvariant(3), 0.7072, "0.707107"),
        (R.Lorentz(6), 0.25, "0.25"),
        (R.PoincareBall(3), 0.6, "0.5"),
    ],
)
def test_a_distribution_that_does_not_exist_is_refused_with_the_number(manifold, s, number):
    with pytest.raises(R.InvalidArgument, match=f"sigma < {number}"):
        riemannian_laplace(1, manifold, manifold.origin, s)
    just_below = riemannian_laplace(1, manifold, manifold.origin, 0.3 * s)
    assert bool(manifold.belongs(just_below))


def test_poor_acceptance_warns_with_the_number_of_tries():
    manifold = R.SPDAffineInvariant(11)
    with pytest.warns(R.SlowSamplerWarning, match=r"takes about \d+ tries"):
        riemannian_laplace(1, manifold, manifold.origin, 0.79 * np.sqrt(12 / (11 * 120)))


def test_hopeless_acceptance_is_refused():
    manifold = R.SPDAffineInvariant(20)
    with pytest.raises(R.InvalidArgument, match="tries a draw"):
        riemannian_laplace(1, manifold, manifold.origin, 0.97 * np.sqrt(12 / (20 * 399)))


@pytest.mark.parametrize("manifold", [R.Stiefel(5, 2), R.Product(R.Sphere(3), R.Euclidean(2))])
def test_spaces_without_an_exact_sampler_say_so(manifold):
    with pytest.raises(NotImplementedError, match="exact Riemannian Laplace sampler"):
        riemannian_laplace(1, manifold, manifold.origin, 0.1)


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"sigma": -1.0}, "sigma"),
        ({"eta": np.zeros(3)}, "eta"),
        ({"eta": np.zeros((2, 3))}, "eta"),
        ({"shape": (-1,)}, "shape"),
        ({"shape": 1.5}, "shape"),
    ],
)
def test_bad_arguments_are_named(kwargs, name):
    arguments = {"eta": np.array([1.0, 0.0, 0.0]), "sigma": 0.1, "shape": ()} | kwargs
    with pytest.raises(R.InvalidArgument, match=name):
        riemannian_laplace(1, R.Sphere(3), arguments["eta"], arguments["sigma"], arguments["shape"])


def test_footpoint_outside_the_ball_is_refused():
    with pytest.raises(R.InvalidArgument, match="outside `ball`"):
        riemannian_laplace(
            1, R.Euclidean(2), np.array([2.0, 0.0]), 0.1, ball=R.Ball(np.zeros(2), 1.0)
        )


def test_shapes_keys_and_seeds():
    manifold = R.SPDLogEuclidean(2)
    eye = np.eye(2)
    assert riemannian_laplace(1, manifold, eye, 0.1).shape == (2, 2)
    assert riemannian_laplace(1, manifold, eye, 0.1, 3).shape == (3, 2, 2)
    assert riemannian_laplace(1, manifold, eye, 0.1, (2, 3)).shape == (2, 3, 2, 2)
    assert riemannian_laplace(1, manifold, eye, 0.1, (0,)).shape == (0, 2, 2)
    for key in (jax.random.key(4), jax.random.PRNGKey(4), 4):
        np.testing.assert_array_equal(
            riemannian_laplace(key, manifold, eye, 0.1), riemannian_laplace(key, manifold, eye, 0.1)
        )
    a, b = (
        riemannian_laplace(None, manifold, eye, 0.1),
        riemannian_laplace(None, manifold, eye, 0.1),
    )
    assert not np.array_equal(a, b)
    assert not np.array_equal(
        riemannian_laplace(jax.random.key(5), manifold, eye, 0.1),
        riemannian_laplace(jax.random.key(4), manifold, eye, 0.1),
    )


def test_series_of_log_sinhc_and_log_sinc_meet_the_closed_forms():
    import mpmath

    for x in (0.0, 1e-8, 1e-3, 0.0199999, 0.0200001, 0.5, 3.0):
        assert float(Means.log_sinhc(np.array(x))) == pytest.approx(
            float(mpmath.log(mpmath.sinh(x) / x)) if x else 0.0, rel=1e-10, abs=1e-15
        )
        if x < 3.0:
            assert float(Means.log_sinc(np.array(x))) == pytest.approx(
                float(mpmath.log(mpmath.sin(x) / x)) if x else 0.0, rel=1e-10, abs=1e-15
            )
    assert float(Means.log_sinhc(np.array(1e4))) == pytest.approx(1e4 - np.log(2e4))


def test_lengths_and_directions_of_many_draws_have_nothing_to_do_with_each_other() -> None:
    count = (1 << 15) // 3 + 3
    x = np.asarray(riemannian_laplace(None, R.Euclidean(3), np.zeros(3), 0.7, (count,)))
    length = np.linalg.norm(x, axis=1)
    assert ks_p_value(length, gamma(3, 0.7)) > ALPHA
    heights = x / length[:, None]
    for axis in range(3):  # Archimedes: uniform on [-1, 1]
        assert ks_p_value(heights[:, axis], lambda h: 0.5 + 0.5 * h) > ALPHA
    assert np.unique(np.round(heights, 12), axis=0).shape == x.shape
    # planted: a half that nobody has drawn
    heights[count // 2 :] = heights[: count - count // 2]
    heights[: count // 2] = 0.0
    assert ks_p_value(heights[:, 0], lambda h: 0.5 + 0.5 * h) < ALPHA
    order = np.argsort(length)
    for rows in np.array_split(np.abs(x[order, 0]) / length[order], 4):
        assert ks_p_value(rows, lambda h: h) > ALPHA


def test_spectra_of_directions_have_one_distribution_with_and_without_the_matrices(
    monkeypatch,
) -> None:
    k, count = 6, 4000
    dense = Means.direction_spectra(k, count, noise_source(1))
    plant(monkeypatch, "matrices of few directions", 0)
    found = Means.direction_spectra(k, count, noise_source(2))
    assert found.shape == dense.shape
    assert np.all(np.diff(found, axis=1) >= 0)
    np.testing.assert_allclose(np.sum(found**2, axis=1), 1.0, rtol=1e-12)
    marks = (
        lambda u: u[:, 0],
        lambda u: u[:, -1] - u[:, 0],
        lambda u: u[:, 2],
        lambda u: np.sum(u, axis=1),
        lambda u: np.sum(u**4, axis=1),
    )
    for mark in marks:
        assert two_sample_p_value(mark(found), mark(dense)) > ALPHA
    # planted: beside the diagonal what stands there for Hermitian matrices
    source = noise_source(2)
    own = source.gammas
    monkeypatch.setattr(type(source), "gammas", lambda self, a, shape: own(2 * a, shape))
    other = Means.direction_spectra(k, count, source)
    assert min(two_sample_p_value(mark(other), mark(dense)) for mark in marks) < ALPHA


@pytest.mark.parametrize(("radius", "sigma"), [(8.0, 0.32), (8.0, 0.08)])
def test_a_plan_proposes_no_more_than_a_bounded_number(monkeypatch, radius, sigma):
    """Lengths about the edge of this ball take 40 000 proposals each, and half of such points lie
    where only arithmetic of many digits holds them: neither is worked out 2000 times for a plan.
    """
    space, proposed = R.SPDAffineInvariant(10), []
    plain = original("directions of symmetric matrices")

    def counted(k, count, source):
        proposed.append(count * k * k)
        return plain(k, count, source)

    plant(monkeypatch, "directions of symmetric matrices", counted)
    plant(monkeypatch, "points in many digits", lambda *_: 1 / 0)
    plant(monkeypatch, "bound of kept proposals", lambda *_: (1.0, 1.0))  # else none is tried
    Means.kept.cache_clear()
    way = Means.truncation(space, sigma, R.Ball(np.eye(10), radius))
    assert math.isinf(way.tries)
    assert 0 < sum(proposed) < 1 << 25


def test_draws_that_are_released_are_worked_out_where_float64_does_not_hold_them(monkeypatch):
    """Beside the plan, which only counts them."""
    space, seen = R.SPDAffineInvariant(3), []
    exact = original("points in many digits")
    plant(monkeypatch, "points in many digits", lambda *a: (seen.append(0), exact(*a))[1])
    ball, edge = R.Ball(np.eye(3), 10.0), np.diag(np.exp([9.9, 0.0, 0.0]))
    way = Means.Truncation(ball, 1.0, False, 1.0)
    way._propose(space, edge, 64, noise_source(3))
    assert seen
    seen.clear()
    way._propose(space, edge, 64, noise_source(3), rough=True)
    assert not seen


LATE = """
import math
import subprocess
import sys
import threading
import numpy as np
import riemdp
space, X = riemdp.SPDAffineInvariant(2), np.tile(np.diag([1.0, 2.0]), (3000, 1, 1))
sphere = riemdp.Sphere(30)
ball, budget = riemdp.Ball(np.eye(2), 2.0), riemdp.Budget(1.0, 1e-6)

def use():
    riemdp.private_frechet_mean(space, X, ball, budget, mechanism="wrapped-gaussian")
    drawn = riemdp.sampling.riemannian_laplace(None, sphere, sphere.origin, 0.1, 2000)
    return len(np.unique(np.asarray(drawn)[:, 1]))

def late():
    threading.main_thread().join()
    print("drawn", use(), flush=True)

use()
threading.Thread(target=late).start()
"""


def test_a_thread_draws_after_the_main_one_has_ended():
    command = [sys.executable, "-W", "ignore", "-c", LATE]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout == "drawn 2000\n", done.stderr
