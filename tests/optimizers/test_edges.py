"""Attacks on whole runs through `private_minimize` at the edges of what its proofs assume.

Starts that are off the manifold or outside the ball, records that are very long and nearly along
the iterate, gradients that are not tangent, epochs of several blocks. Every bound is on what one
record changes in a run without noise, or on what its guarantee charges.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Ball,
    Budget,
    InvalidArgument,
    Ledger,
    Problem,
    gaussian,
    private_minimize,
    problems,
    subsampled_gaussian,
)
from riemdp.manifolds import Euclidean, PoincareBall, SPDAffineInvariant, Sphere
from riemdp.optimizers import plan_optimizer
from tests.seam import Gradients, plant

RNG = np.random.default_rng(0)


def unit(dim):
    v = RNG.normal(size=dim)
    return v / np.linalg.norm(v)


def moved(problem, data, start, optimizer, **more):
    """The point that a run without noise ends at; gradients are clipped as in a noisy one."""
    return private_minimize(problem, data, start, optimizer, None, noise_std=0.0, rng=0, **more)


# ------------------------------------------------------------------------------------------------
# the clip holds wherever the start is and wherever the record lies
def nearly_along(w, angle, length):
    """A record of this length at this angle from w."""
    across = RNG.normal(size=w.shape)
    across -= (across @ w) * w / (w @ w)
    across /= np.linalg.norm(across)
    return length * (np.cos(angle) * w / np.linalg.norm(w) + np.sin(angle) * across)


RATE, CLIP = 1e-6, 1.0


def test_the_anchor_of_variance_reduction_holds_its_clip_too():
    w = unit(7)
    problem = problems.principal_eigenvector(7)
    record = nearly_along(w, 1e-4, 1e6)[None]
    out = moved(problem, record, (1 + 9e-7) * w, DPRSVRG(1, 1, RATE, CLIP)).value
    assert float(problem.manifold.dist(w, out)) <= RATE * CLIP * (1 + 1e-6)


# ------------------------------------------------------------------------------------------------
# sensitivity="domain": the start, and every iterate, lies in the ball
CAP = Sphere(3)
CENTER = np.array([0.0, 0.0, 1.0])
R = 0.3
MEAN = problems.frechet_mean(CAP, ball=Ball(CENTER, R))


def on_cap(*coordinates):
    return np.asarray(CAP.exp(CENTER, np.array([*coordinates, 0.0])))


def largest_shift(start, kind, count):
    """The largest change of an averaged gradient by one of `count` records, over opposite pairs."""
    rate, rest = 1e-5, np.tile(CENTER, (count - 1, 1))
    worst = 0.0
    for angle in np.linspace(0.0, np.pi / 2, 5):
        x = R * np.array([np.cos(angle), np.sin(angle)])
        ends = [
            moved(MEAN, np.concatenate([rest, on_cap(*(s * x))[None]]), start, kind(rate)).value
            for s in (1, -1)
        ]
        worst = max(worst, float(CAP.dist(*ends)) / rate)
    return worst


@pytest.mark.parametrize("distance", [0.0, 0.29, 1.5, 2.5, 2.84, 3.1])
def test_a_start_outside_the_ball_does_not_exceed_the_domain_sensitivity(distance):
    start = on_cap(distance, 0.0)
    claimed = plan_optimizer(
        MEAN, 10, DPRGD(1, 0.1, sensitivity="domain"), Budget(1, 1e-5)
    ).sensitivity
    found = largest_shift(start, lambda rate: DPRGD(1, rate, sensitivity="domain"), 10)
    assert found <= claimed
    assert found > 0.8 * claimed


def test_iterates_stay_in_the_ball_however_large_the_noise():
    x = np.array([on_cap(0.1, 0.1), on_cap(-0.1, 0.0)])
    for kind in (DPRGD(4, 0.5, sensitivity="domain"), DPRSGD(4, 1, 0.5, sensitivity="domain")):
        for seed in range(5):
            w = private_minimize(MEAN, x, on_cap(2.0, 0.0), kind, None, noise_std=3.0, rng=seed)
            assert float(CAP.dist(CENTER, w.value)) <= R * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------
# variance reduction: the metric of the difference, and what an epoch of several blocks costs
def test_differences_are_clipped_in_the_metric_of_the_iterate():
    """On the Poincare disk a vector at distance 5 is many times longer than the same array at 0."""
    m = PoincareBall(2)
    field = jnp.array([-0.5, 0.0])  # of length 1 at the origin
    problem = Problem(
        m,
        lambda w, z: jnp.sum(w * z),
        gradient=lambda w, z: jnp.where(jnp.sum(w**2) > 0.0, jnp.array([0.0, 1e6]), field),
    )
    rate = 1e-4
    one = DPRSVRG(1, 1, lambda t: 5.0, 1.0)
    two = DPRSVRG(1, 2, lambda t: 5.0 if t == 0 else rate, 1.0)
    first, second = (moved(problem, np.ones((1, 2)), np.zeros(2), o).value for o in (one, two))
    assert float(m.dist(np.zeros(2), first)) == pytest.approx(5.0)
    # At most 2 C1 from the difference and C0 from the anchor's gradient.
    assert float(m.dist(first, second)) <= rate * 3.0 * (1 + 1e-6)


def test_every_query_of_an_epoch_of_several_blocks_is_charged(monkeypatch):
    """Noise comes in blocks of at most so many numbers, here of two steps; only step 0 is free."""
    dim = 32
    plant(monkeypatch, "entries of a block", 2 * dim)
    problem = problems.frechet_mean(Euclidean(dim))
    book = Ledger(Budget(1e6, 1e-5))
    kind = DPRSVRG(2, 6, 1e-3, 1.0, batch_size=2, convexity=-1.0)
    run = private_minimize(
        problem, np.ones((3, dim)), np.zeros(dim), kind, None, noise_std=1.0, ledger=book, rng=0
    )
    z1, z2 = run.details["z1"], run.details["z2"]
    expected = gaussian(z1, 2).compose(
        subsampled_gaussian(z2, population=3, batch_size=2, steps=2 * 5)
    )
    assert run.guarantee.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-9)
    assert book.spent.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-6)


# ------------------------------------------------------------------------------------------------
# what is charged
@pytest.mark.parametrize(
    "kind",
    [
        DPRGD(7, 0.3, 1.0, output="uniform"),
        DPRSGD(7, 4, 0.3, 1.0, output="uniform"),
        DPRSVRG(1, 7, 0.3, 1.0, batch_size=4, output="uniform"),
        DPRSVRG(1, 7, 0.3, 1.0, batch_size=4, output="uniform", variant="as-published"),
    ],
    ids=lambda o: type(o).__name__ + getattr(o, "variant", ""),
)
def test_an_iterate_drawn_at_random_is_charged_as_the_whole_run(kind):
    problem = problems.principal_eigenvector(4)
    x = np.array([unit(4) for _ in range(12)])
    whole = plan_optimizer(problem, 12, kind, None, noise_std=0.5).guarantee().epsilon(1e-5)
    steps = set()
    for seed in range(6):
        book = Ledger(Budget(1e6, 1e-5))
        run = private_minimize(
            problem, x, np.eye(4)[0], kind, None, noise_std=0.5, ledger=book, rng=seed
        )
        steps.add(run.steps)
        assert run.guarantee.epsilon(1e-5) == pytest.approx(whole, rel=1e-9)
        assert book.spent.epsilon(1e-5) == pytest.approx(whole, rel=1e-6)
    assert len(steps) > 1


# ------------------------------------------------------------------------------------------------
# public constants are not trusted
def test_an_understated_record_lipschitz_does_not_understate_the_sensitivity():
    """loss 50 d^2 with record_lipschitz=2 (the truth is 100): gradients are clipped about that of
    the centre at what 2 allows.
    """
    m = SPDAffineInvariant(2)
    honest = problems.frechet_mean(m, ball=Ball(np.eye(2), 1.0))
    wrong = Problem(
        m,
        lambda w, z: 50.0 * honest.loss(w, z),
        gradient=lambda w, z: 50.0 * honest.gradient(w, z),
        ball=honest.ball,
        record_lipschitz=2.0,
    )
    n, rate = 6, 1e-4
    run = DPRGD(1, rate, sensitivity="domain")
    claimed = plan_optimizer(wrong, n, run, Budget(1.0, 1e-5)).sensitivity
    x = np.tile(np.eye(2), (n, 1, 1))
    start = np.diag([1.5, 0.8])
    ends = []
    for s in (1, -1):
        x[0] = np.diag(np.exp([s * 0.99, 0.0]))
        ends.append(moved(wrong, x, start, run).value)
    found = float(m.dist(*ends)) / rate
    assert found <= claimed * (1 + 1e-3)
    assert found > 0.9 * claimed


@pytest.mark.parametrize(
    ("m", "center"),
    [
        (SPDAffineInvariant(3), np.eye(3)),
        pytest.param(Sphere(4), np.eye(4)[0], marks=pytest.mark.slow),
        pytest.param(PoincareBall(2), np.zeros(2), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_the_clip_about_the_centre_never_binds_when_the_constant_is_right(m, center):
    """Without noise, a confined run is the plain one as long as that stays in the ball."""
    problem = problems.frechet_mean(m, ball=Ball(center, 0.3))
    v = m.tangent_normal(1, center, 1.0, (30,))
    lengths = np.asarray(m.norm(center, v)).reshape((-1,) + (1,) * np.ndim(center))
    x = np.asarray(m.exp(center, 0.299 * v / lengths))
    confined = moved(problem, x, x[0], DPRSGD(4, 7, 0.2, sensitivity="domain")).value
    plain = moved(problem, x, x[0], DPRSGD(4, 7, 0.2, 1e3)).value
    np.testing.assert_allclose(confined, plain, atol=1e-10)


class _Stretching(Euclidean):
    """A flat space whose transport doubles a vector, and says that it is not parallel."""

    @property
    def transport_is_parallel(self):
        return False

    def _transport(self, p, q, v):
        return 2.0 * v


def test_the_published_variant_refuses_a_transport_that_may_lengthen():
    problem = Problem(_Stretching(3), lambda w, z: jnp.sum((w - z) ** 2), smoothness=2.0)
    x = np.ones((10, 3))
    run = DPRSVRG(1, 2, 0.1, 1.0, variant="as-published")
    with pytest.raises(InvalidArgument, match="variant"):
        private_minimize(problem, x, np.zeros(3), run, Budget(1.0, 1e-5))
    private_minimize(problem, x, np.zeros(3), run, None)
    # The differences of the anchored variant are clipped after transport, whatever it is.
    out = moved(problem, 1e6 * x, np.zeros(3), DPRSVRG(1, 2, 0.1, 1.0))
    assert np.all(np.isfinite(out.value))


def test_a_distance_that_overflows_is_free_only_where_all_hessians_are_equal():
    for width, expected in ((0.0, 0.0), (1.0, 3.0)):
        clip = float(Gradients.difference_clip(3.0, width, jnp.inf))
        assert clip == expected
    assert float(Gradients.difference_clip(3.0, 1.0, jnp.nan)) == 3.0
    assert float(Gradients.difference_clip(3.0, 1.0, jnp.float64(0.5))) == 0.5


# ------------------------------------------------------------------------------------------------
# the number of records, where neighbours differ in it
def test_a_public_population_hides_the_number_of_records():
    problem = problems.principal_eigenvector(4)
    x = np.array([unit(4) for _ in range(40)])
    kind = DPRSGD(None, None, 0.1, 1.0, sampling="poisson", population=50)
    runs = [
        private_minimize(problem, data, np.eye(4)[0], kind, Budget(1.0, 1e-5), rng=1)
        for data in (x, x[:39])
    ]
    public = [
        (r.sigma, r.steps, r.gradient_calls, r.guarantee.epsilon(1e-5), r.details["n"])
        for r in runs
    ]
    assert public[0] == public[1]
    assert public[0][-1] == 50
    with pytest.raises(InvalidArgument, match="population"):
        DPRSGD(1, 5, 1.0, 1.0, population=50)


@pytest.mark.parametrize("off", [0.0, 6e-8, 9e-7, -9e-7])
def test_norms_of_rank_one_gradients_are_never_below_the_truth(off):
    """Also at a state off the manifold: the gradient is -2 (z - W a) a^T with a = W^T z."""
    for problem, state in (
        (problems.principal_eigenvector(5), unit(5)),
        (problems.principal_subspace(5, 2), np.linalg.qr(RNG.normal(size=(5, 2)))[0]),
    ):
        kernel = Gradients.choose_kernel(problem, False)
        w = (1 + off) * state
        along = w if w.ndim == 1 else w[:, 0]
        z = np.array([nearly_along(along, a, 1e3) for a in (0.0, 1e-6, 1e-4, 1e-3, 0.3)])
        norms, _ = jax.jit(lambda w, z, k=kernel: k.gradients(w, k.prepare(z)))(w, z)
        exact = np.linalg.norm(2 * (z @ w).reshape(5, -1), axis=1) * np.linalg.norm(
            z - (z @ w).reshape(5, -1) @ w.reshape(5, -1).T, axis=1
        )
        assert np.all(np.asarray(norms) >= exact * (1 - 1e-9))
        assert np.asarray(norms)[-1] == pytest.approx(exact[-1], rel=1e-4)


def test_a_gradient_is_clipped_by_the_length_of_its_tangent_part():
    m = Sphere(3)
    w, across = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    problem = Problem(m, lambda w, z: -jnp.sum(w * z), gradient=lambda w, z: -z)
    record = (100.0 * w + 0.5 * across)[None]  # the tangent part is shorter than the clip norm
    out = moved(problem, record, w, DPRGD(1, 0.1, 1.0)).value
    assert float(m.dist(w, out)) == pytest.approx(0.1 * 0.5, rel=1e-6)


def test_an_answer_is_tangent_whatever_the_sum_is():
    plan = plan_optimizer(MEAN, 4, DPRGD(1, 0.1, 1.0), None, noise_std=1.0)
    kernel, none = Gradients.choose_kernel(MEAN, False), jnp.zeros(CAP.noise_size)
    total = jnp.array([0.3, 0.1, 7.0])  # 7 along the normal at CENTER
    whole = total / (4 * plan.sigma) * plan.gradient.scale  # in steps of the grid
    floats = dataclasses.replace(plan.gradient, scale=None)
    for gradient, given in ((plan.gradient, whole), (floats, total)):
        answer = gradient.answer(kernel, jnp.asarray(CENTER), given, none)
        np.testing.assert_allclose(answer, np.array([0.3, 0.1, 0.0]) / 4, atol=1e-15)
