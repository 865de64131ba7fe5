"""Replies, aggregation, the coordinator's state machine, and whole runs in process."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import riemdp
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Budget,
    PriRFed,
    problems,
)
from riemdp.federated import (
    Coordinator,
    aggregate,
    plan_federated,
    run_in_process,
    validate_reply,
)
from riemdp.randomness import noise_source
from tests.federated.heard import came
from tests.seam import Gradients, Sites, plant

from ..statistical import ALPHA, gaussian_p_value

N_AGENTS, N_RECORDS, DIM = 6, 30, 5


@pytest.fixture(scope="module")
def datasets():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N_AGENTS, N_RECORDS, DIM)) * np.array([2.0, 1.0, 1.0, 0.5, 0.5])
    return list(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def _start():
    return np.ones(DIM) / np.sqrt(DIM)


# ------------------------------------------------------------------------------------------------
# replies
SPHERE = riemdp.Sphere(4)
E1 = np.array([1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "reply",
    [
        np.array([np.nan, 0.0, 0.0, 0.0]),
        np.array([np.inf, 0.0, 0.0, 0.0]),
        np.array([0.0, 1.0, 0.0]),
        np.array([[0.0, 1.0, 0.0, 0.0]]),
        np.array([0.0, 1.1, 0.0, 0.0]),
        -E1,
        np.array([-1.0, 1e-8, 0.0, 0.0]),
        E1.astype(np.float32),
        E1.astype(int),
        E1.astype(complex),
        list(E1),
        "a point",
        None,
        (E1,),
        {"x": E1},
        np.array([object()] * 4),
    ],
)
def test_bad_replies_are_refused_without_raising(reply):
    assert validate_reply(SPHERE, E1, reply) is False


def test_tangent_mean_by_hand():
    m = riemdp.Sphere(3)
    x = np.array([0.0, 0.0, 1.0])
    replies = [np.array([np.sin(t), 0.0, np.cos(t)]) for t in (0.3, -0.1)]
    got = aggregate(m, x, replies, [3, 1])
    angle = 0.75 * 0.3 - 0.25 * 0.1
    np.testing.assert_allclose(got, [np.sin(angle), 0.0, np.cos(angle)], atol=1e-15)
    np.testing.assert_allclose(aggregate(m, x, replies, [3, 1], "frechet-mean"), got, atol=1e-9)
    np.testing.assert_array_equal(aggregate(m, x, [], []), x)


# ------------------------------------------------------------------------------------------------
# whole runs
def _simulation(datasets, start, *, steps, rate, turns):
    """Independent NumPy PriRFed without noise: local gradient descent on -(w.z)^2, tangent mean
    weighted by size.
    """
    x = start.copy()

    def exp(p, v):
        t = np.linalg.norm(v)
        return p if t == 0 else np.cos(t) * p + np.sin(t) * v / t

    def log(p, q):
        v = q - (p @ q) * p
        s = np.linalg.norm(v)
        return np.zeros_like(p) if s == 0 else np.arctan2(s, p @ q) * v / s

    for turn in turns:
        moves = []
        for i in turn:
            w, z = x.copy(), datasets[i]
            for _ in range(steps):
                g = -2 * z.T @ (z @ w) / len(z)
                w = exp(w, -rate * (g - (w @ g) * w))
                w /= np.linalg.norm(w)
            moves.append((len(z), log(x, w)))
        total = sum(n for n, _ in moves)
        x = exp(x, sum(n / total * v for n, v in moves))
        x /= np.linalg.norm(x)
    return x


LOCALS = {
    "rgd": DPRGD(3, 0.1),
    "rsgd": DPRSGD(3, N_RECORDS, 0.1),
    "rsvrg": DPRSVRG(1, 3, 0.1, batch_size=N_RECORDS),
}


@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
def test_zero_noise_equals_an_independent_simulation(datasets, local):
    uneven = [datasets[0][:20], *datasets[1:]] if isinstance(local, DPRGD) else datasets
    prirfed = PriRFed(
        problems.principal_eigenvector(DIM),
        local,
        rounds=5,
        agents_per_round=2,
        participation="round-robin",
    )
    got = run_in_process(prirfed, uneven, _start(), None, rng=0)
    turns = [[(2 * t) % N_AGENTS, (2 * t + 1) % N_AGENTS] for t in range(5)]
    expected = _simulation(uneven, _start(), steps=3, rate=0.1, turns=turns)
    np.testing.assert_allclose(got.value, expected, atol=1e-12)
    off = _simulation(
        uneven, _start(), steps=3, rate=0.1 * (1 + 1e-9), turns=turns
    )  # planted fault: seen at this tolerance
    assert np.abs(np.asarray(got.value) - off).max() > 1e-12
    assert got.guarantee.epsilon(0.1) == np.inf
    assert got.gradient_calls > 0


def test_a_private_run_states_what_the_budget_bought(datasets):
    prirfed = PriRFed(
        problems.principal_eigenvector(DIM), DPRSGD(2, 10, 0.1, 1.0), rounds=4, agents_per_round=2
    )
    budget = Budget(2.0, 1e-5)
    got = run_in_process(prirfed, datasets, _start(), budget, rng=5)
    assert got.guarantee.within(budget)
    assert got.guarantee.epsilon(1e-5) > 1.95
    assert bool(prirfed.problem.manifold.belongs(got.value))
    assert [r.accepted for r in got.rounds] == [2] * 4
    assert sum(got.invitations.values()) == 8
    assert got.sigma == plan_federated(prirfed, [N_RECORDS] * N_AGENTS, budget).sigmas[0]
    assert got.participation_guarantee(0).epsilon(1e-5) == 0.0
    assert got.participation_guarantee(4).epsilon(1e-5) > got.participation_guarantee(1).epsilon(
        1e-5
    )
    most = max(got.invitations.values())
    assert f"{most} times, it can state: {got.participation_guarantee(most)}" in str(got)
    assert got.reproducible
    assert "NOT PRIVATE" in str(got)
    again = run_in_process(prirfed, datasets, _start(), budget, rng=5)
    np.testing.assert_array_equal(again.value, got.value)
    fresh = run_in_process(prirfed, datasets, _start(), budget)
    assert not fresh.reproducible
    assert not np.array_equal(fresh.value, got.value)


@pytest.mark.parametrize("factor", [1.0, 0.8])
def test_local_noise_has_the_planned_distribution(monkeypatch, factor):
    """At a zero gradient a local step is pure noise: x_1 - x_0 = -rate sigma N on flat space. 0.8
    of it must fail the test.
    """
    m = riemdp.Euclidean(300)
    problem = problems.frechet_mean(m)
    prirfed = PriRFed(problem, DPRGD(1, 0.5, 1.0), rounds=1, agents_per_round=1)
    plan = plan_federated(prirfed, [4], Budget(1.0, 1e-5))
    if factor != 1.0:
        from tests.optimizers.audits import LessNoise

        plant(monkeypatch, "class of gradients", LessNoise)
    records, sigma = np.zeros((4, 300)), plan.sigmas[0]
    payer = Gradients.Account()
    answers = [
        Sites.updated(prirfed, records, np.zeros(300), sigma, payer, rng=i).value for i in range(60)
    ]
    moves = np.stack([np.asarray(point) for point in answers])
    p = gaussian_p_value(moves, 0.5 * plan.sigmas[0])
    assert (p > ALPHA) if factor == 1.0 else (p < ALPHA)


def test_a_result_says_whether_agents_answer_in_integers():
    """It does if all of them do; what the server does is a function of their answers."""

    def said(problem, local, sizes, budget):
        prirfed = PriRFed(problem, local, rounds=2, agents_per_round=1)
        point = np.eye(3)[0]
        data = [np.tile(point, (n, 1)) for n in sizes]
        return run_in_process(prirfed, data, point, budget, rng=1).details["numerics"]

    mean, budget = problems.frechet_mean(riemdp.Sphere(3)), Budget(5.0, 1e-5)
    assert said(mean, DPRGD(1, 0.1, 1.0), [4, 4], budget) == "lattice"
    # five of nine records are more than half of them: their batches are sorted
    assert said(mean, DPRSGD(1, 5, 0.1, 1.0), [9, 10], budget) == "idealised"
    assert said(mean, DPRSGD(1, 5, 0.1, 1.0), [10, 11], budget) == "lattice"
    assert said(problems.principal_eigenvector(3), DPRGD(1, 0.1, 1.0), [4], budget) == "idealised"


@pytest.mark.parametrize("rng", [None, 5])
def test_no_two_agents_share_noise(rng, monkeypatch):
    """On equal records every reply is one point plus noise: equal replies would be shared noise."""
    flat = riemdp.Euclidean(3)
    prirfed = PriRFed(problems.frechet_mean(flat), DPRGD(1, 0.5, 1.0), rounds=3, agents_per_round=4)
    replies: list[list[np.ndarray]] = []
    sound = Coordinator.sound

    def noted(self, agent, reply, weight=None):
        replies[-1].append(np.asarray(reply) - np.asarray(self.value))
        return sound(self, agent, reply, weight)

    monkeypatch.setattr(Coordinator, "sound", noted)
    for _ in range(2):
        replies.append([])
        run_in_process(prirfed, [np.zeros((5, 3))] * 4, np.zeros(3), Budget(1.0, 1e-5), rng=rng)
    first, second = (np.stack(moves) for moves in replies)
    assert len(np.unique(first.round(12), axis=0)) == 12  # no two replies of one run
    same = [a for a in first for b in second if np.allclose(a, b, rtol=0, atol=1e-12)]
    assert len(same) == (0 if rng is None else 12)  # and none of two runs, unless it is seeded


# ------------------------------------------------------------------------------------------------
# the server's state machine
def _server(quorum=1, **keywords):
    settings = {"rounds": 4, "agents_per_round": 3, "quorum": quorum} | keywords
    prirfed = PriRFed(problems.principal_eigenvector(4), DPRGD(1, 0.1, 1.0), **settings)
    plan = plan_federated(prirfed, [10] * 5, Budget(2.0, 1e-5))
    return Coordinator(
        prirfed, plan, {f"a{i}": 10 for i in range(5)}, E1, Budget(2.0, 1e-5), noise_source(1)
    )


def test_faulty_replies_keep_the_run_valid():
    server = _server(quorum=2)
    names = [f"a{i}" for i in range(5)]
    first = server.invite(names)
    good = np.array([0.6, 0.8, 0.0, 0.0])
    sent = {first[0]: -E1, first[1]: np.full(4, np.nan), first[2]: good}
    record = server.close(came(server, sent, 10))
    assert (record.accepted, record.refused, record.missing, record.moved) == (1, 2, 0, False)
    np.testing.assert_array_equal(server.value, E1)
    second = server.invite(names)
    record = server.close(came(server, dict.fromkeys(second[:2], good)))
    assert (record.accepted, record.missing, record.moved) == (2, 1, True)
    np.testing.assert_allclose(server.value, [0.6, 0.8, 0.0, 0.0], atol=1e-15)
    with pytest.raises(riemdp.RiemdpError, match="invite first"):
        server.close()
    server.invite(names)
    with pytest.raises(riemdp.RiemdpError, match="close it"):
        server.invite(names)


def test_a_false_weight_is_refused():
    server = _server()
    agent = server.invite([f"a{i}" for i in range(5)])[0]
    assert server.sound(agent, E1, 10)
    for claimed in (1e9, 0.0, -10, np.nan, np.inf, "many", True):
        assert not server.sound(agent, E1, claimed)


def test_the_core_does_not_import_the_engine():
    """Only the adapter does. Where the engine is not installed, another import of it would fail."""
    package = Path(riemdp.__file__).parent
    engine = re.compile(r"^\s*(?:import|from) (?:flwr|ray)\b", re.MULTILINE)
    files = [path for path in package.rglob("*.py") if engine.search(path.read_text("utf-8"))]
    assert {path.relative_to(package).parts[:-1] for path in files} == {("federated", "flower")}
