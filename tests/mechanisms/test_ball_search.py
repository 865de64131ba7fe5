"""The search for a private ball, driven by a NumPy twin of its answers: what it spends, what it
decides by, what its transcript gives away, and how well it finds a ball.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import riemdp
from tests.mechanisms.numpy_search import FlatAnswers
from tests.seam import Searches


def gaussian_plan(n, dim, mu, scales=0, largest=30.0):
    return Searches.plan_search(
        Searches.GaussianNoise(1 / mu),
        n,
        dim,
        scales=scales,
        largest=largest,
        smallest=largest * 2.0**-14,
    )


def cloud(n, dim, offset, seed=0, spread=0.5):
    rng = np.random.default_rng(seed)
    return offset + spread * rng.normal(size=(n, dim))


# ------------------------------------------------------------------------------------ what is spent
@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("dim", [2, 10, 66])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 0.5, 40.0])
def test_every_answer_is_paid_for(mu, dim, spread):
    records = cloud(2000, dim, 3.0, spread=spread)
    answers = FlatAnswers(records, mu, np.random.default_rng(1))
    plan = gaussian_plan(2000, dim, mu)
    found = Searches.run_search(plan, answers)
    assert answers.spent == pytest.approx(found.spent, abs=1e-12)
    assert 0 < found.spent < 0.75
    assert plan.smallest <= found.radius <= plan.largest


# ---------------------------------------------------------------------------- what it decides by
def test_the_search_is_a_function_of_its_answers():
    """The same answers give the same questions, with other records or with none at all."""
    questions, replies = [], []

    class Recording(FlatAnswers):
        def count(self, radius, share):
            reply = super().count(radius, share)
            questions.append(("count", radius, share))
            replies.append(reply)
            return reply

        def valid(self, share):
            reply = super().valid(share)
            questions.append(("valid", share))
            replies.append(reply)
            return reply

        def move(self, radius, share, stretch):
            reply = super().move(radius, share, stretch)
            questions.append(("move", radius, share, stretch))
            replies.append(reply)
            return reply

    plan = gaussian_plan(800, 6, 0.5)
    first = Searches.run_search(plan, Recording(cloud(800, 6, 2.0), 0.5, np.random.default_rng(3)))
    asked, given = list(questions), iter(list(replies))

    class Replayed:
        def __init__(self):
            self.questions, self.spent = [], 0.0

        left = property(lambda self: 1.0 - self.spent)

        def set_scales(self, scales):
            pass

        def count(self, radius, share):
            self.questions.append(("count", radius, share))
            self.spent += share
            return next(given)

        def valid(self, share):
            self.questions.append(("valid", share))
            self.spent += share
            return next(given)

        def move(self, radius, share, stretch):
            self.questions.append(("move", radius, share, stretch))
            self.spent += share
            return next(given)

    replayed = Replayed()
    assert Searches.run_search(plan, replayed) == first
    assert replayed.questions == asked


def test_too_few_records_are_refused_from_public_numbers():
    plan = gaussian_plan(100, 6, 0.1)
    assert plan.need > 100

    class Untouched:
        def __getattr__(self, name):
            raise AssertionError("records were looked at")

    with pytest.raises(riemdp.InvalidArgument, match=f"about {plan.need} are needed"):
        Searches.run_search(plan, Untouched())
    assert gaussian_plan(plan.need, 6, 0.1).need == plan.need
    Searches.run_search(
        gaussian_plan(plan.need, 6, 0.1),
        FlatAnswers(cloud(plan.need, 6, 0.0), 0.1, np.random.default_rng(0)),
    )


# ------------------------------------------------------------------------------ what it gives away
def pairs(n, dim):
    """Neighbouring data sets that differ as much as one record can make them."""
    rng = np.random.default_rng(9)
    edge = cloud(n, dim, 0.0, seed=2)
    edge[0] = 0.0
    edge[0, 0] = 5.0
    other = edge.copy()
    other[0, 0] = -5.0
    yield "edge to edge", edge, other
    inside, outside = edge.copy(), edge.copy()
    inside[0], outside[0] = 0.0, 1e6
    yield "inside to far outside", inside, outside
    same = np.full((n, dim), 1.0)
    moved = same.copy()
    moved[0] = -1.0
    yield "all equal and one moved", same, moved
    split = np.where(np.arange(n)[:, None] < n // 2, -1.0, 1.0) * np.ones((n, dim))
    crossed = split.copy()
    crossed[n // 2 - 1] = 1.0
    yield "median split", split + 1e-3 * rng.normal(size=(n, dim)), crossed


def losses(records, neighbour, mu, runs, noise=1.0):
    n, dim = records.shape
    direction = np.zeros((1, dim))
    direction[0, 0] = 1.0
    plan = gaussian_plan(n, dim, mu, scales=1)
    out = []
    for seed in range(runs):
        answers = FlatAnswers(
            records, mu, np.random.default_rng(seed), direction, neighbour, noise=noise
        )
        found = Searches.run_search(plan, answers)
        answers.final(found.radius, 1.0 - found.spent)
        out.append(answers.loss)
    return np.array(out)


def excess(loss, mu):
    """Largest excess of the seen delta over the claimed one, in standard errors, over epsilons."""
    worst = -math.inf
    for epsilon in (0.0, mu / 2, mu, 2 * mu):
        terms = np.maximum(0.0, -np.expm1(epsilon - loss))
        claim = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )
        error = max(np.std(terms) / math.sqrt(len(loss)), 1e-12)
        worst = max(worst, (np.mean(terms) - claim) / error)
    return worst


@pytest.mark.parametrize("mu", [0.6, 2.0])
def test_the_loss_of_a_transcript_is_that_of_one_gaussian(mu):
    """delta(epsilon) of the whole transcript stays below the claim; six standard errors of room."""
    for name, a, b in pairs(200, 3):
        for records, neighbour in ((a, b), (b, a)):
            loss = losses(records, neighbour, mu, 120)
            assert excess(loss, mu) < 6.0, name
            assert np.mean(loss) < mu**2 / 2 * (1 + 6 * math.sqrt(2 / len(loss)) / mu), name


def test_half_of_the_noise_is_detected():
    """The planted twin: the same test with noise that is half of what was paid for."""
    _, a, b = next(iter(pairs(200, 3)))
    assert excess(losses(a, b, 2.0, 300, noise=0.5), 2.0) > 6.0


# -------------------------------------------------------------------------------- how well it finds
def test_it_finds_a_ball_far_from_the_start_without_knowing_the_unit():
    for unit in (1e-2, 1.0, 1e2):
        dim, n, mu = 10, 2000, 0.5
        direction = np.zeros((1, dim))
        direction[0, 0] = 1.0
        records = unit * 1e-3 * cloud(n, dim, 0.0, seed=4)
        records[:, 0] += 40.0
        plan = Searches.plan_search(
            Searches.GaussianNoise(1 / mu), n, dim, scales=1, largest=30.0, smallest=30 * 2.0**-24
        )
        errors = []
        for seed in range(5):
            answers = FlatAnswers(records, mu, np.random.default_rng(seed), direction)
            found = Searches.run_search(plan, answers)
            mean = answers.final(found.radius, 1 - found.spent)
            errors.append(np.linalg.norm(mean - records.mean(0)))
        about = records - records.mean(0)
        enclosing = 2 * np.linalg.norm(about, axis=1).max() * math.sqrt(dim) / (n * mu)
        assert max(errors) < 3 * enclosing, (unit, errors, enclosing)


def test_a_far_cluster_is_held_and_a_tail_is_not():
    """Without noise in the answers: 2 % of the records 12 deviations away, and a heavy tail."""
    n, dim, mu = 4000, 4, 0.3
    rng = np.random.default_rng(0)
    cluster = rng.normal(size=(n, dim))
    lengths = ((np.arange(n) + 0.5) / n) ** (-1 / 1.4)  # outside 2 r: 0.38 of those outside r
    tail = cluster / np.linalg.norm(cluster, axis=1, keepdims=True) * lengths[:, None]
    cluster[:80, 0] += 12.0
    outside = []
    for records in (cluster, tail):
        answers = FlatAnswers(records, mu, rng, noise=0.0)
        found = Searches.run_search(gaussian_plan(n, dim, mu, largest=1000.0), answers)
        outside.append(np.sum(answers.distance[0] > found.radius))
    assert outside[0] < 45
    assert outside[1] > 100


def test_a_far_cluster_is_looked_for_among_many_records_alone():
    assert gaussian_plan(1000, 4, 0.49).cluster_share == 0.0
    assert gaussian_plan(1000, 100, 0.6).cluster_share == 0.0
    assert gaussian_plan(1000, 4, 0.51).cluster_share == 0.05
    assert gaussian_plan(4000, 100, 0.6).cluster_share == 0.0025
