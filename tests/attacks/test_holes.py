"""Planted faults that once survived the tests: each of these would have noticed one."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

import riemdp
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Ball,
    Budget,
    Ledger,
    PriRFed,
    private_minimize,
    problems,
)
from riemdp.federated import Coordinator, Setup, plan_federated, run_in_process
from riemdp.randomness import noise_source
from tests.attacks.test_optimizers import RATE, along, separation
from tests.seam import Servers, plant

UNIT = np.ones(7) / np.sqrt(7)
ACROSS = np.array([1.0, -1.0, 0, 0, 0, 0, 0]) / np.sqrt(2)
LINE = riemdp.Euclidean(1)


# ------------------------------------------------------------------------------------------------
# optimisers
@pytest.mark.parametrize("angle", [1e-9, 3e-9, 1e-8, 1e-7])
def test_records_nearly_along_the_point(angle):
    """The norm of a rank-one gradient is rounded up where |z|^2 - |a|^2 loses its digits."""
    x, y = np.zeros((10, 7)), np.zeros((10, 7))
    x[0], y[0] = along(UNIT, ACROSS, angle, 1e6), along(UNIT, ACROSS, -angle, 1e6)
    found, claim = separation(
        problems.principal_eigenvector(7),
        x,
        y,
        UNIT,
        DPRGD(1, RATE, 1.0),
        rate=RATE,
        noise_std=2.0,
    )
    assert found <= claim * (1 + 1e-3), (found, claim)


def test_a_difference_of_all_records_takes_the_anchor_s_gradient_away():
    """In a space whose frames differ from point to point: without noise each inner step over all
    records is a step of gradient descent.
    """
    space = riemdp.PoincareBall(2)
    problem = problems.frechet_mean(space)
    records, start = np.array([[0.6, 0.1], [0.2, -0.7], [0.5, 0.5]]), np.array([-0.8, 0.0])
    inner = DPRSVRG(1, 4, 0.2, 1.0, batch_size=3)
    found = private_minimize(problem, records, start, inner, None).value
    wanted = private_minimize(problem, records, start, DPRGD(4, 0.2, 1.0), None).value
    assert float(space.dist(start, wanted)) > 1.0
    assert float(space.dist(found, wanted)) < 1e-9


@pytest.mark.parametrize("variant", ["anchored", "as-published"])
def test_blocks_of_an_epoch_do_not_change_what_it_costs(variant, monkeypatch):
    """Only the first query of an EPOCH is free, however few steps a block of noise holds."""

    optimizer = DPRSVRG(2, 12, 0.1, 1.0, batch_size=2, variant=variant, smoothness=2.0)

    def cost():
        book = Ledger(Budget(1e6, 1e-5))
        run = private_minimize(
            problems.frechet_mean(LINE),
            np.zeros((6, 1)),
            np.ones(1),
            optimizer,
            noise_std=0.5,
            rng=1,
            ledger=book,
        )
        return run.guarantee.epsilon(1e-5), book.spent.epsilon(1e-5)

    whole = cost()
    plant(monkeypatch, "entries of a block", 9)
    assert cost() == pytest.approx(whole, rel=1e-3)
    assert whole[0] == pytest.approx(whole[1], rel=1e-3)


@pytest.mark.parametrize("batch", [None, 3])
def test_iterates_stay_in_the_ball_where_the_sensitivity_holds(batch):
    """On a sphere, `sensitivity="domain"`, with noise that throws every step out of the ball."""
    centre = np.array([0.0, 0.0, 1.0])
    ball = Ball(centre, 0.3)
    optimizer = (
        DPRGD(4, 0.5, sensitivity="domain")
        if batch is None
        else DPRSGD(4, batch, 0.5, sensitivity="domain")
    )
    for seed in range(4):
        run = private_minimize(
            problems.frechet_mean(riemdp.Sphere(3), ball=ball),
            np.tile(centre, (6, 1)),
            centre,
            optimizer,
            noise_std=3.0,
            rng=seed,
        )
        assert float(riemdp.Sphere(3).dist(centre, run.value)) <= 0.3 * (1 + 1e-9)


@pytest.mark.parametrize("optimizer", [DPRGD, DPRSGD])
def test_a_uniformly_drawn_iterate_costs_all_steps(optimizer):
    """Which iterate is released is not hidden: all T steps are charged."""
    made = {
        output: (
            DPRGD(40, 0.1, 1.0, output=output)
            if optimizer is DPRGD
            else DPRSGD(40, 2, 0.1, 1.0, output=output)
        )
        for output in ("last", "uniform")
    }
    for seed in range(3):
        figures = []
        for output in ("last", "uniform"):
            book = Ledger(Budget(1e6, 1e-5))
            run = private_minimize(
                problems.frechet_mean(LINE),
                np.zeros((6, 1)),
                np.zeros(1),
                made[output],
                noise_std=1.0,
                rng=seed,
                ledger=book,
            )
            figures += [run.guarantee.epsilon(1e-5), book.spent.epsilon(1e-5)]
        assert figures == pytest.approx([figures[0]] * 4, rel=1e-3)


# ------------------------------------------------------------------------------------------------
# federation
def test_agents_of_a_round_have_noise_of_their_own():
    """The mean of 16 agents without data has a sixteenth of one agent's variance, and two runs
    differ.
    """
    dim, agents, sigma, rate = 400, 16, 1.0, 0.1
    space = riemdp.Euclidean(dim)
    prirfed = PriRFed(
        problems.frechet_mean(space), DPRGD(1, rate, 1.0), rounds=1, agents_per_round=agents
    )
    sites = [np.zeros((3, dim))] * agents
    ends = [
        np.asarray(run_in_process(prirfed, sites, np.zeros(dim), None, noise_std=sigma).value)
        for _ in range(2)
    ]
    for end in ends:
        ratio = float(np.sum(end**2)) / (dim * (rate * sigma) ** 2 / agents)
        assert 0.5 < ratio < 2.0, ratio
    assert np.abs(ends[0] - ends[1]).max() > 0


def test_a_run_of_unequal_sites_states_the_worst():
    """The guarantee covers the records of the smallest site, whose noise multiplier is smallest."""
    prirfed = PriRFed(
        problems.principal_eigenvector(4), DPRGD(2, 0.1, 1.0), rounds=5, agents_per_round=2
    )
    plan = plan_federated(prirfed, [10, 50, 200], None, noise_std=0.1)
    figures = {n: g.epsilon(plan.delta) for n, g in plan.totals.items()}
    assert figures[10] > figures[50] > figures[200]
    assert plan.guarantee.epsilon(plan.delta) >= figures[10] * (1 - 1e-9)


class _Dies:
    """A transport that looks at the state file when it is asked to send, and dies."""

    def __init__(self, path):
        self.path, self.seen = path, None

    def agents(self):
        return {"a": 10, "b": 10}

    def send(self, names, point, round_number):
        self.seen = self.path.exists()
        raise ConnectionError

    def replies(self):
        return []


def test_an_invitation_is_on_disk_before_it_is_sent(tmp_path):
    """A server that dies while sending finds the round charged when it comes back."""
    prirfed = PriRFed(
        problems.principal_eigenvector(4), DPRGD(1, 0.1, 1.0), rounds=3, agents_per_round=1
    )
    setup = Setup(prirfed, np.eye(4)[0], Budget(2.0, 1e-5), 2)
    path = tmp_path / "state.npz"
    transport = _Dies(path)
    journal = Servers.Journal(setup.fingerprint, path)
    with pytest.raises(ConnectionError):
        Servers.drive(setup, transport, noise_source(1), journal=journal)
    assert transport.seen
    plan = plan_federated(prirfed, [10, 10], setup.budget)
    back = Coordinator(
        prirfed,
        plan,
        {"a": 10, "b": 10},
        np.eye(4)[0],
        setup.budget,
        noise_source(1),
        agreement=setup.fingerprint,
    )
    back.resume(Servers.Journal(setup.fingerprint, path).facts)
    assert sum(back.invitations.values()) == 1
    assert len(back.records) == 1


# ------------------------------------------------------------------------------------------------
# randomness
def test_every_key_has_256_bits(monkeypatch):
    """A fresh source is keyed by 256 bits of the operating system."""
    sizes = []
    bits, token = secrets.randbits, secrets.token_bytes
    monkeypatch.setattr(secrets, "randbits", lambda k: (sizes.append(k), bits(k))[1])
    monkeypatch.setattr(
        secrets, "token_bytes", lambda n=None: (sizes.append(8 * (n or 32)), token(n))[1]
    )
    source = noise_source()
    source.normals((3,))
    source.normals((1 << 16,))
    assert sizes
    assert min(sizes) >= 256, sizes
