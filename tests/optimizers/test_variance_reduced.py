"""DP-RSVRG between anchors: what bounds on the Hessian tell about a difference of gradients, and
what they save.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import (
    DPRSVRG,
    Ball,
    Budget,
    InvalidArgument,
    Problem,
    gaussian,
    private_minimize,
    problems,
)
from riemdp.manifolds import (
    Euclidean,
    Lorentz,
    Product,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogEuclidean,
    Sphere,
)
from riemdp.optimizers import plan_optimizer
from tests.seam import Gradients, replicate
from tests.statistical import ALPHA, gaussian_p_value

RNG = np.random.default_rng(0)
FLAT = Euclidean(6)

# (space, centre, radius): wide enough that curvature matters.
SPACES = [
    (Lorentz(3), np.eye(3)[0], 2.0),
    (SPDAffineInvariant(3), np.eye(3), 1.5),
    (Sphere(4), np.eye(4)[0], 0.35),
    pytest.param(SPDBuresWasserstein(3), np.diag([1.0, 2.0, 3.0]), 0.4, marks=pytest.mark.slow),
    (SPDLogEuclidean(3), np.eye(3), 3.0),
    (Product(Sphere(3), Euclidean(2)), (np.eye(3)[0], np.zeros(2)), 0.35),
]


def in_ball(m, center, radius, count, seed):
    """Random points of a ball, a third of them on its boundary."""
    v = m.tangent_normal(seed, center, 1.0, (count,))
    share = np.minimum(1.0, 1.5 * RNG.random(count)) * radius
    factor = share / m.norm(center, v)
    return m.exp(center, jax.tree.map(lambda x: x * factor.reshape((-1,) + (1,) * (x.ndim - 1)), v))


def offsets(m, problem, w, anchor, records, middles):
    """|grad f(w) - PT grad f(anchor) + middle log_w(anchor)| / d(w, anchor) of many triples, for
    several middles.
    """

    # The bounds are about parallel transport. Where steps use another isometry, clipping may bite a
    # little more.
    carry = (
        partial(m._transport_in_steps, steps=40)
        if isinstance(m, SPDBuresWasserstein)
        else m._transport
    )

    @jax.jit
    @jax.vmap
    def one(w, a, z):
        grad = Gradients.gradient_function(problem)
        difference = jax.tree.map(jnp.subtract, grad(w, z), carry(a, w, grad(a, z)))
        toward, apart = m._log(w, a), m._dist(w, a)
        lengths = [
            m._norm(w, jax.tree.map(lambda d, v, k=k: d + k * v, difference, toward))
            for k in middles
        ]
        return jnp.stack(lengths) / apart

    return np.asarray(one(w, anchor, records)).T


@pytest.mark.parametrize(
    ("m", "center", "radius"), SPACES, ids=lambda x: repr(x) if hasattr(x, "dim") else ""
)
def test_differences_of_gradients_lie_where_the_hessian_bounds_say(m, center, radius):
    """Inside the ball no difference is clipped; about 0, where the plain bound L d puts it, the
    half width would not do.
    """
    problem = problems.frechet_mean(m, ball=Ball(center, radius))
    plan = plan_optimizer(problem, 500, DPRSVRG(2, 3, batch_size=10), Budget(1.0, 1e-5))
    w, a, z = (in_ball(m, center, radius, 3000, seed) for seed in (1, 2, 3))
    middle, width = plan.settings.middle, plan.settings.half_width
    assert (width == 0.0) == isinstance(m, SPDLogEuclidean)
    assert width < problem.smoothness
    found, plain = offsets(m, problem, w, a, z, (middle, 0.0))
    # Rounding in log is amplified where w and the anchor are close.
    assert found.max() <= width * (1 + 1e-6) + 1e-6
    assert plain.max() > width + 0.1


def test_a_record_moves_an_inner_step_by_no_more_than_the_bound_about_any_centre():
    quartic = Problem(Euclidean(2), lambda w, z: jnp.sum((w - z) ** 4))
    h = jnp.array([0.7, -0.2])  # with (mu + L) / 2 = 1 and the anchor at 0, where w is
    width = 0.3 / float(jnp.linalg.norm(h))
    optimizer = DPRSVRG(1, 2, 0.1, 100.0, smoothness=1 + width, convexity=1 - width)
    plan = plan_optimizer(quartic, 1, optimizer, None, noise_std=0.0)

    def contribution(record):
        data = Gradients.PrivateRecords(jnp.asarray(record)[None])
        run = plan.bind(quartic, data, jnp.zeros(2))
        anchor, row = (
            Gradients.Anchor(jnp.zeros(2), jnp.zeros(2)),
            Gradients.Row(jnp.zeros(2), None, None, 1),
        )
        return np.asarray(run.work.step.direction(h, anchor, run.work.data, row) - h)

    far = [contribution(r) for r in ([50.0, 20.0], [-80.0, 3.0], [0.0, 0.0])]
    assert max(np.linalg.norm(x - y) for x in far for y in far) <= 0.6 + 1e-12
    assert np.linalg.norm(far[0]) == pytest.approx(0.3)
    np.testing.assert_allclose(contribution([np.nan, 0.0]), np.zeros(2), atol=1e-16)


def test_in_flat_space_no_query_is_issued_between_anchors():
    """Means in R^d: every Hessian is 2, so the budget is that of the S anchors, and inner steps
    follow the quadratic exactly.
    """
    problem = problems.frechet_mean(FLAT, ball=Ball(np.zeros(6), 1.0))
    optimizer = DPRSVRG(2, 40, 0.25, batch_size=5)
    plan = plan_optimizer(problem, 200, optimizer, Budget(1.0, 1e-5))
    assert plan.settings.total_queries == (2, 0)
    assert plan.guarantee().epsilon(1e-5) == pytest.approx(
        gaussian(plan.split.z1, 2).epsilon(1e-5), rel=1e-12
    )
    # Distribution of the result: the anchor's noisy gradient is 2 (w - mean) + sigma N, and 40
    # steps of rate 1/4 halve the rest each time.
    x = RNG.normal(size=(200, 6)) * 0.1
    values, claim = replicate(
        problem,
        x,
        np.zeros(6),
        optimizer,
        budget=Budget(1.0, 1e-5),
        repetitions=5000,
        rng=1,
    )
    assert claim.epsilon(1e-5) <= 1.0
    moved = np.asarray(values) - x.mean(axis=0)
    assert gaussian_p_value(moved, plan.sigma / 2) > ALPHA
    assert gaussian_p_value(moved, 0.8 * plan.sigma / 2) < ALPHA


@pytest.mark.parametrize(("convexity", "width", "other"), [(-2.0, 2.0, 0.25), (1.5, 0.25, 2.0)])
def test_variance_reduced_noise_follows_the_public_bound(convexity, width, other):
    """Step 0 carries the anchor's noise only; step 1 adds z2 2 c_1 / b with c_1 = (L - mu) / 2
    d(w_1, anchor), about the middle; L = 2.
    """
    problem = problems.frechet_mean(FLAT)
    optimizer = DPRSVRG(1, 2, 1.0, 5.0, batch_size=3, convexity=convexity)
    plan = plan_optimizer(problem, 9, optimizer, None, noise_std=1.0)
    plan = replace(plan, split=replace(plan.split, z2=0.75))
    z = np.rint(RNG.normal(size=(6000, 2, 6)) * plan.gradients[1].scale).astype(int)
    full = jnp.array([0.3, 0, 0, 0, 0, 0.0])
    work = plan.bind(problem, Gradients.PrivateRecords(jnp.zeros((9, 6))), jnp.zeros(6)).work

    def run(normals):
        block = Gradients.Block(normals, np.ones(2), np.zeros((2, 3), dtype=int))
        anchor, span = Gradients.Anchor(jnp.zeros(6), full), Gradients.Span(0, 2, 0, 0.0)
        return Gradients.run_steps(work, Gradients.Carry(jnp.zeros(6)), anchor, block, span).state

    got = np.asarray(jax.vmap(run)(z))
    # w_1 = -full, and the difference 2 (w_1 - 0) is (at most) c_1 from the middle: not clipped
    expected = -np.asarray(full) * 2 + 2 * np.asarray(full)
    assert gaussian_p_value(got - expected, 0.5 * width * 0.3) > ALPHA
    assert gaussian_p_value(got - expected, 0.5 * width * 0.3 * 0.8) < ALPHA
    assert gaussian_p_value(got - expected, 0.5 * other * 0.3) < ALPHA


@pytest.mark.slow
def test_without_noise_it_converges_with_and_without_the_bound():
    m = SPDAffineInvariant(3)
    x = in_ball(m, np.eye(3), 0.5, 60, 5)
    problem = problems.frechet_mean(m, ball=Ball(np.eye(3), 0.5))
    run = DPRSVRG(8, 30, 0.2, batch_size=6)
    mean = private_minimize(problem, x, np.eye(3), run, None).value
    bounded = private_minimize(problem, x, np.eye(3), run, None, noise_std=0.0, rng=1).value
    plain = private_minimize(
        problem, x, np.eye(3), replace(run, convexity=-10.0), None, noise_std=0.0, rng=1
    ).value
    logs = np.mean(m.log(np.asarray(mean), np.asarray(x)), axis=0)
    assert float(m.norm(mean, logs)) < 1e-6
    assert float(m.dist(mean, bounded)) < 1e-6
    assert float(m.dist(mean, plain)) < 1e-6


@pytest.mark.parametrize(
    "given",
    [{"convexity": 3.0}, {"convexity": 1.0, "smoothness": 0.5}, {"convexity": float("nan")}],
)
def test_a_lower_bound_above_the_upper_one_is_refused(given):
    with pytest.raises(InvalidArgument, match="convexity"):
        plan_optimizer(
            problems.frechet_mean(FLAT, ball=Ball(np.zeros(6), 1.0)),
            50,
            DPRSVRG(1, 2, **given),
            Budget(1.0, 1e-5),
        )
    with pytest.raises(InvalidArgument, match="convexity"):
        Problem(FLAT, lambda w, z: 0.0, **({"smoothness": 2.0} | given))


def test_as_published_no_private_gradient_is_carried_by_a_transport_that_may_lengthen_it():
    class Lengthening(Euclidean):
        transport_is_nonexpansive = False

    given = {"lipschitz": 1.0, "smoothness": 1.0}
    problem = Problem(Lengthening(2), lambda w, z: jnp.sum((w - z) ** 2), **given)
    optimizer, budget = DPRSVRG(2, 3, batch_size=5), Budget(1.0, 1e-5)
    assert plan_optimizer(problem, 100, optimizer, budget).guarantee().within(budget)
    with pytest.raises(InvalidArgument, match="variant"):
        plan_optimizer(problem, 100, replace(optimizer, variant="as-published"), budget)
