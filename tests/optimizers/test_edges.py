"""Attacks on whole runs through `private_minimize` at the edges of what its proofs assume.

Starts that are off the manifold or outside the ball, records that are very long and nearly along
the iterate, gradients that are not tangent, epochs of several blocks. Every bound is on what one
record changes in a run without noise, or on what its guarantee charges.
"""

from __future__ import annotations

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


def clips_exceeded(problem, start, record):
    """How far one clipped record moves the iterate, in units of what the clip norm allows."""
    out = moved(problem, record[None], start, DPRGD(1, RATE, CLIP)).value
    m = problem.manifold
    return float(m.dist(m.project(start), out)) / (RATE * CLIP)


@pytest.mark.parametrize("off", [0.0, 6e-8, 3e-7, 9e-7, "float32"])
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-5, 3e-4, 1e-3])
def test_the_clip_holds_for_a_start_that_is_off_the_sphere(off, angle):
    for dim in (7, 784):
        w = unit(dim)
        start = w.astype(np.float32).astype(np.float64) if off == "float32" else (1 + off) * w
        for length in (1e3, 1e6, 1e8):
            record = nearly_along(w, angle, length)
            found = clips_exceeded(problems.principal_eigenvector(dim), start, record)
            assert found <= 1 + 1e-6


@pytest.mark.parametrize("off", [0.0, 3e-7, "float32"])
def test_the_clip_holds_for_a_frame_that_is_not_orthonormal(off):
    q = np.linalg.qr(RNG.normal(size=(9, 3)))[0]
    start = q.astype(np.float32).astype(np.float64) if off == "float32" else (1 + off) * q
    for angle in (0.0, 1e-9, 1e-5, 3e-4):
        record = nearly_along(q[:, 0], angle, 1e6)
        found = clips_exceeded(problems.principal_subspace(9, 3), start, record)
        assert found <= 1 + 1e-6


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


def test_the_domain_sensitivity_of_a_batch_is_that_of_the_batch():
    """One of b records moves the average of the batch by 1 / b, not by 1 / n."""
    n, b = 10, 2
    kind = DPRSGD(1, b, 0.1, sensitivity="domain")
    plan = plan_optimizer(MEAN, n, kind, Budget(1.0, 1e-5))
    both = plan_optimizer(MEAN, b, DPRGD(1, 0.1, sensitivity="domain"), Budget(1.0, 1e-5))
    assert plan.sensitivity == pytest.approx(both.sensitivity, rel=1e-12)
    x = np.tile(CENTER, (n, 1))
    run = private_minimize(MEAN, x, CENTER, kind, None, noise_std=1.0, rng=0)
    expected = subsampled_gaussian(1.0 / both.sensitivity, population=n, batch_size=b)
    assert run.guarantee.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-9)
    shift = max(
        float(
            CAP.dist(
                *(
                    private_minimize(
                        MEAN,
                        np.concatenate([x[1:], on_cap(s * R, 0.0)[None]]),
                        CENTER,
                        DPRSGD(1, b, 1e-5, sensitivity="domain"),
                        None,
                        noise_std=0.0,
                        rng=seed,
                    ).value
                    for s in (1, -1)
                )
            )
        )
        for seed in range(12)
    )
    assert 0.8 * plan.sensitivity < shift / 1e-5 <= plan.sensitivity


# ------------------------------------------------------------------------------------------------
# what is not noised must not be released: the normal part of a gradient
class _Steep:
    """-(w.z)^2 by automatic differentiation."""

    def __call__(self, w, z):
        return -(jnp.sum(w * z) ** 2)


def separation(problem, records, start, optimizer, sigma, seeds=24):
    """How many standard deviations apart the lengths of the steps of two neighbours are."""
    m = problem.manifold
    lengths = [
        [
            np.log(
                float(
                    m.dist(
                        start,
                        private_minimize(
                            problem, x, start, optimizer, None, noise_std=sigma, rng=seed
                        ).value,
                    )
                )
            )
            for seed in range(seeds)
        ]
        for x in records
    ]
    return abs(np.mean(lengths[0]) - np.mean(lengths[1])) / np.std(lengths)


def test_partial_derivatives_given_as_gradient_leak_nothing_through_the_retraction():
    m = Sphere(50)
    problem = Problem(m, lambda w, z: -jnp.sum(w * z), gradient=lambda w, z: -z)
    w = unit(50)
    run = DPRGD(1, 5.0, 1.0, update="retract")
    # Same seeds on both sides: what differs is due to the record alone, here to its normal part.
    pair = [s * 1e3 * w[None] for s in (1, -1)]
    a, b = (private_minimize(problem, x, w, run, None, noise_std=1.0, rng=0).value for x in pair)
    np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_long_record_along_the_iterate_leaks_nothing_through_rounding():
    m = Sphere(400)
    w = unit(400)
    problem = Problem(m, _Steep())
    across = unit(400)
    pair = [1e8 * w[None], 0.0 * across[None]]
    run = DPRGD(1, 5.0, 1.0, update="retract")
    assert separation(problem, pair, w, run, 10.0) < 0.5


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


def test_every_query_of_an_epoch_of_several_blocks_is_charged():
    """Noise comes in blocks of at most 2^20 numbers, here of two steps; only step 0 is free."""
    dim = 1 << 19
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


class _Crash(Exception):
    pass


def test_a_checkpoint_is_not_resumed_under_another_ball_or_problem(tmp_path, monkeypatch):
    """Steps already drawn keep the guarantee of their own ball, so another one is refused."""
    m = SPDAffineInvariant(2)
    path = tmp_path / "run"
    x = np.tile(np.eye(2), (5, 1, 1))

    def run(problem, optimizer=None, **more):
        return private_minimize(
            problem,
            x,
            np.eye(2),
            optimizer or DPRGD(60, 0.1, sensitivity="domain"),
            None,
            noise_std=1.0,
            checkpoint=path,
            **more,
        )

    def interrupted(*_):
        raise _Crash

    wide = problems.frechet_mean(m, ball=Ball(np.eye(2), 10.0))
    with monkeypatch.context() as patch:
        patch.setattr("riemdp.randomness.NoiseSource.normals", interrupted)
        with pytest.raises(_Crash):
            run(wide)
    assert path.exists()
    narrow = problems.frechet_mean(m, ball=Ball(np.eye(2), 0.1))
    shifted = problems.frechet_mean(m, ball=Ball(np.diag([1.0, 1.1]), 10.0))
    for other in (narrow, shifted):
        with pytest.raises(InvalidArgument, match="checkpoint"):
            run(other)
    with pytest.raises(InvalidArgument, match="checkpoint"):
        run(problems.Problem(m, wide.loss, ball=wide.ball, record_lipschitz=2.0))
    assert run(wide).status == "completed"
