"""Faults 1 and 2 from a malicious server, 8 and 17: attacks on the agent's side."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, Ball, InvalidArgument, PriRFed, RiemdpError, problems
from riemdp.federated import run_in_process
from tests.attacks.test_optimizers import RATE, aligned_pair
from tests.attacks.tools import claimed_mu
from tests.federated.heard import heard
from tests.seam import Gradients, Sites, original, over_flower, plant

U = np.array([1.0, -1.0, 0, 0, 0, 0, 0]) / np.sqrt(2)


def _answers(prirfed, pair, point, noise_std):
    payer = Gradients.Account()
    runs = [Sites.updated(prirfed, data, point, noise_std, payer, rng=1) for data in pair]
    apart = float(prirfed.problem.manifold.dist(runs[0].value, runs[1].value))
    return apart, claimed_mu(runs[0].guarantee)


def test_fault_1_a_server_that_sends_a_long_point():
    """The server sends u (1 + 9e-7). Before: separation 1909 for a promised mu of .142 (here with
    the agent's update).
    """
    unit = np.ones(7) / np.sqrt(7)
    prirfed = PriRFed(
        problems.principal_eigenvector(7), DPRGD(1, RATE, 1.0), rounds=2, agents_per_round=1
    )
    pair = aligned_pair(unit, U, 9e-7)
    try:
        apart, claim = _answers(prirfed, pair, unit * (1 + 9e-7), 2.0)
    except InvalidArgument:
        return
    assert apart / (RATE * 2.0) <= claim * (1 + 1e-3)


def test_fault_2_a_server_that_sends_a_point_outside_the_ball():
    """Near the antipode of the records. Before: 6 times the claim at distance 2.84."""
    rate, centre = 1e-5, np.array([0.0, 0.0, 1.0])
    problem = problems.frechet_mean(riemdp.Sphere(3), ball=Ball(centre, 0.3))
    prirfed = PriRFed(problem, DPRGD(1, rate, sensitivity="domain"), rounds=2, agents_per_round=1)
    worst = 0.0
    for turn in np.linspace(0, np.pi, 7):
        x = np.tile(centre, (10, 1))
        y = x.copy()
        for d, t in ((x, turn + np.pi), (y, turn)):
            d[0] = [np.sin(0.3) * np.cos(t), np.sin(0.3) * np.sin(t), np.cos(0.3)]
        point = np.array([0.0, np.sin(2.84), np.cos(2.84)])
        try:
            apart, claim = _answers(prirfed, (x, y), point, 1.0)
        except InvalidArgument:
            return
        worst = max(worst, apart / rate / claim)
    assert worst <= 1 + 1e-3


def test_fault_17_an_interrupt_inside_the_loop_of_an_agent_ends_the_run(monkeypatch):
    """The same where the signal is sure to come between two blocks of steps."""
    line = riemdp.Euclidean(2)
    prirfed = PriRFed(
        problems.frechet_mean(line), DPRGD(3, 1e-3, 1.0), rounds=6, agents_per_round=1
    )
    timed, calls = original("time of a step"), []

    def pressed(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return timed(self, *arguments)

    plant(monkeypatch, "time of a step", pressed)
    sites = [np.zeros((5, 2)), np.zeros((5, 2))]
    result = run_in_process(prirfed, sites, np.zeros(2), None, rng=1, noise_std=5.0)
    assert result.status == "interrupted"
    assert result.steps == 2


# ------------------------------------------------------------------------------------------------
# fault 8: the client as shipped, on Flower's own messages
HELLO, TRAIN = "query.hello", "train"
TERMS = {"timeout": 60.0, "grace": 5.0, "agreement": "/server/agreement.toml"}
CENTRE = 0.16961280243743648 * np.eye(9)
EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Asks the app of the shipped example, with its own files and records; what carries a site's
    state lies beside them.
    """
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    from flwr.app import Context, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    from riemdp.federated import Site

    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    folder = tmp_path / "hospitals"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*-0.*"))
    for place in (folder, folder / "app"):
        monkeypatch.syspath_prepend(str(place))
    for name in [m for m in sys.modules if m.split(".")[0] in ("hospitals", "prepare")]:
        monkeypatch.delitem(sys.modules, name)
    import prepare  # pyright: ignore[reportMissingImports]
    from hospitals.client import app  # pyright: ignore[reportMissingImports]

    prepare.main(0, str(folder / "records-0.npy"))
    node = {"site": str(folder / "site.toml")}
    signed = Site.read(folder / "site.toml").agreement

    def say(kind, terms, number=0):
        context = Context(
            run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=dict(terms)
        )
        sent = Message(over_flower().pack(CENTRE, round=number, agreement=signed), 1, kind)
        return heard(app(sent, context))

    yield say
    for name in [m for m in sys.modules if m.split(".")[0] in ("hospitals", "prepare")]:
        del sys.modules[name]


def _sigma(reply):
    return next(float(r["sigma"]) for r in reply.content.values() if "sigma" in r)


@pytest.mark.federated_deployment
@pytest.mark.parametrize("lie", [{"epsilon": 1e6}, {"delta": 0.9}, {"agents": 1000}], ids=str)
def test_fault_8_whoever_starts_the_run_does_not_choose_a_sites_noise(lie, ask):
    """The run configuration asks for less noise: the site adds its own, or declines.

    Before: epsilon = 1e6 was answered with 5283 times less noise.
    """
    honest = _sigma(ask(HELLO, TERMS))
    try:
        found = _sigma(ask(HELLO, TERMS | lie))
    except RiemdpError:
        return
    assert found >= honest * (1 - 1e-9), honest / found


@pytest.mark.federated_deployment
@pytest.mark.parametrize("rounds", ["same", "counting"])
def test_fault_8_sixty_questions_are_not_sixty_answers(rounds, ask):
    """Before: one round asked 60 times was answered 60 times, epsilon 3.16 for a promised .99."""
    answered = 0
    for i in range(25):
        with contextlib.suppress(RiemdpError):
            answered += not ask(TRAIN, TERMS, 0 if rounds == "same" else i).has_error()
    assert 1 <= answered <= (1 if rounds == "same" else 10)
