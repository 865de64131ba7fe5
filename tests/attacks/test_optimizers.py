"""Faults 1, 2, 3, 15, 16 and the suspected Poisson population: attacks on `private_minimize`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Ball, InvalidArgument, Problem, problems
from riemdp.optimizers import plan_optimizer
from tests.attacks.tools import claimed_mu, separation

RATE = 1e-6  # displacements stay below 1e-2 even where the clip is exceeded 10 000 times


def along(w, u, angle, length=1e3):
    return length * (np.cos(angle) * w + np.sin(angle) * u)


def aligned_pair(w, u, defect, n=10):
    """Neighbours with one long record each at an angle to `w` where a norm computed for |w| = 1 is
    too small.
    """
    angle = 0.9 * np.sqrt(2 * abs(defect))
    x, y = np.zeros((n, w.size)), np.zeros((n, w.size))
    x[0], y[0] = along(w, u, angle), along(w, u, -angle)
    return x, y


def float32_start():
    w = np.ones(7, np.float32) / np.sqrt(np.float32(7))
    return np.asarray(w, np.float64)


def long_start():
    return np.ones(7) / np.sqrt(7) * (1 + 9e-7)


@pytest.mark.parametrize(
    "optimizer",
    [
        DPRGD(1, RATE, 1.0),
        DPRSGD(1, 10, RATE, 1.0),
        DPRSVRG(1, 1, RATE, 1.0, full_clip_norm=1.0, batch_size=10),
    ],
    ids=lambda o: type(o).__name__,
)
@pytest.mark.parametrize("start", [float32_start, long_start])
def test_fault_1_start_off_the_sphere(optimizer, start):
    """A start that is a unit vector to 1e-6 only does not let one record exceed the clip.

    Before: separation 64 (float32 start) and 241 noise standard deviations at a claimed mu of 0.1.
    """
    w = start()
    unit = w / np.linalg.norm(w)
    u = np.array([1.0, -1.0, 0, 0, 0, 0, 0]) / np.sqrt(2)
    x, y = aligned_pair(unit, u, np.linalg.norm(w) - 1)
    found, claim = separation(
        problems.principal_eigenvector(7), x, y, w, optimizer, rate=RATE, noise_std=2.0
    )
    assert found <= claim * (1 + 1e-3), (found, claim)


@pytest.mark.parametrize("distance", [2.5, 2.84])
@pytest.mark.parametrize("batch", [None, 10])
def test_fault_2_domain_sensitivity_far_from_the_ball(distance, batch):
    """Under `sensitivity="domain"` on a sphere the gradient is asked inside the ball only, wherever
    the run starts. A refusal of such a start would do too.

    Before: 1.7 and 6.1 times the claim (distances 2.5 and 2.84).
    """
    centre = np.array([0.0, 0.0, 1.0])
    space, ball = riemdp.Sphere(3), Ball(centre, 0.3)

    def at(angle, turn=0.0):
        return np.array([np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)])

    rate = 1e-5
    optimizer = (
        DPRGD(1, rate, sensitivity="domain")
        if batch is None
        else DPRSGD(1, batch, rate, sensitivity="domain")
    )
    worst = 0.0
    for turn in np.linspace(0, np.pi, 7):  # two opposite records on the edge, at some angle
        x = np.tile(centre, (10, 1))
        y = x.copy()
        x[0], y[0] = at(0.3, np.pi + turn), at(0.3, turn)
        try:
            found, claim = separation(
                problems.frechet_mean(space, ball=ball),
                x,
                y,
                at(distance, np.pi / 2),
                optimizer,
                rate=rate,
                noise_std=1.0,
            )
        except InvalidArgument:
            return  # refused, from the public start and ball
        worst = max(worst, found / claim)
    assert worst <= 1 + 1e-3, worst


def _scores(problem, data, start, optimizer, noise_std, seeds):
    """How far the run went from its start, and the claim."""
    lengths, claim = [], 0.0
    for seed in seeds:
        run = riemdp.private_minimize(
            problem, data, start, optimizer, noise_std=noise_std, rng=seed
        )
        lengths.append(float(problem.manifold.dist(start, run.value)))
        claim = claimed_mu(run.guarantee)
    return np.array(lengths), claim


def _minus_square(w, z):
    return -(jnp.dot(w, z) ** 2)


def _partial_derivatives(w, z):
    return -2.0 * jnp.dot(w, z) * z  # not tangent: the user forgot the projection


@pytest.mark.parametrize("gradient", [None, _partial_derivatives], ids=["automatic", "partial"])
def test_fault_3_normal_part_of_a_gradient(gradient):
    """What a gradient has normal to the space does not come through a retraction without noise.

    One record of length 1e8 along w on Sphere(400). Before: separation 72 (automatic gradient, no
    mistake of the user) at a claimed mu of 0.2.
    """
    d, n = 400, 10
    start = np.random.default_rng(3).normal(size=d)
    start /= np.linalg.norm(start)
    x, y = np.zeros((n, d)), np.zeros((n, d))
    x[0] = 1e8 * start
    problem = Problem(riemdp.Sphere(d), _minus_square, gradient=gradient)
    optimizer = DPRGD(1, 20.0, 1.0, update="retract")
    noise_std = 1.0  # sensitivity 2 / 10: a claim of mu = 0.2
    first, claim = _scores(problem, x, start, optimizer, noise_std, range(12))
    second, _ = _scores(problem, y, start, optimizer, noise_std, range(12))
    found = abs(first.mean() - second.mean()) / first.std(ddof=1)
    assert found <= 2 * claim, (found, claim)


def test_fault_15_wrong_record_lipschitz_does_not_weaken_the_claim():
    """A `record_lipschitz` 100 times too small costs accuracy, not privacy: no constant of a
    problem is trusted. Before: separation 10.6 at a claimed mu of 0.1.
    """
    line = riemdp.Euclidean(1)
    problem = Problem(
        line,
        lambda w, z: 100.0 * jnp.sum((w - z) ** 2),
        gradient=lambda w, z: 200.0 * (w - z),
        ball=Ball(np.zeros(1), 1.0),
        record_lipschitz=2.0,
    )
    x, y = np.zeros((10, 1)), np.zeros((10, 1))
    x[0], y[0] = 1.0, -1.0
    optimizer = DPRGD(1, RATE, sensitivity="domain")
    try:
        found, claim = separation(problem, x, y, np.zeros(1), optimizer, rate=RATE, noise_std=4.0)
    except InvalidArgument:
        return  # "domain" refused for a constant that nobody checks
    assert found <= claim * (1 + 1e-6), (found, claim)


@pytest.mark.parametrize("method", ["DPRGD", "DPRSGD"])
def test_fault_16_a_part_under_another_ball(method):
    """What was spent under one ball is not stated away by a part of the run under a smaller one.

    Before: a checkpoint went on under another ball, and epsilon 1.17 was stated where 611 had been
    spent.
    """
    optimizer = (
        DPRGD(60, 0.01, sensitivity="domain")
        if method == "DPRGD"
        else DPRSGD(60, 5, 0.01, sensitivity="domain")
    )
    ledger = riemdp.Ledger(riemdp.Budget(1e4, 1e-5))

    def run(radius, start):
        problem = problems.frechet_mean(riemdp.Euclidean(1), ball=Ball(np.zeros(1), radius))
        return riemdp.private_minimize(
            problem, np.zeros((10, 1)), start, optimizer, noise_std=1.0, ledger=ledger
        )

    wide = run(10.0, np.zeros(1))
    narrow = run(0.1, wide.value)
    both = wide.guarantee.compose(narrow.guarantee).epsilon(1e-5)
    assert wide.guarantee.epsilon(1e-5) > 100 * narrow.guarantee.epsilon(1e-5)
    assert ledger.spent.epsilon(1e-5) >= both * (1 - 1e-9)


def test_fault_78_a_part_under_another_ledger_of_the_same_name(tmp_path):
    """A part of a run is charged whole to the ledger that it runs under, whatever a file of that
    name held before.

    Before: a checkpoint knew its ledger by the path alone, and a new one was charged for none of
    the steps.
    """
    book = tmp_path / "ledger.json"
    problem = problems.frechet_mean(riemdp.Euclidean(1), ball=Ball(np.zeros(1), 1.0))
    optimizer = DPRGD(20, 0.01, sensitivity="domain")
    plan = plan_optimizer(problem, 10, optimizer, None, noise_std=1.0, parts=2)
    start = np.zeros(1)
    for part in plan.parts:
        ledger = riemdp.Ledger(riemdp.Budget(1e3, 1e-5), path=book)
        made = riemdp.private_minimize(
            problem, np.zeros((10, 1)), start, part, noise_std=1.0, ledger=ledger
        )
        assert ledger.spent.epsilon(1e-5) >= made.guarantee.epsilon(1e-5) * (1 - 1e-9)
        start = made.value
        book.unlink()
