"""Driving a run over a transport with faults: nothing hangs, x_t stays valid, every invitation is
charged.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, Budget, InvalidArgument, PriRFed, RiemdpError, privacy, problems
from riemdp.federated import Setup
from riemdp.randomness import noise_source
from tests.seam import Servers

DIM = 4
E1 = np.eye(DIM)[0]
GOOD = np.array([0.8, 0.6, 0.0, 0.0])
FAULTS = {
    "nan": np.full(DIM, np.nan),
    "shape": np.zeros(DIM + 1),
    "off": 3.0 * E1,
    "antipode": -E1,
    "garbage": "not a point",
    "exception": None,
}


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Fake:
    """A transport whose agents behave as told: 'good', a fault, 'dead' (invited, never answers), or
    ('slow', seconds).
    """

    def __init__(self, behaviour, clock, joins=None, leaves=None):
        self.behaviour, self.clock = behaviour, clock
        self.joins, self.leaves = joins or {}, leaves or {}
        self.round, self.queue, self.sent = 0, [], []

    def agents(self):
        return {
            name: 10
            for name in self.behaviour
            if self.round >= self.joins.get(name, 0) and self.round < self.leaves.get(name, 10**9)
        }

    def send(self, names, point, round_number):
        self.sent.append((round_number, names, np.asarray(point)))
        self.round = round_number + 1
        self.queue = []
        for name in names:
            act = self.behaviour[name]
            if act == "dead":
                continue
            delay = act[1] if isinstance(act, tuple) else 0.0
            reply = FAULTS.get(act, GOOD) if isinstance(act, str) else GOOD
            self.queue.append((self.clock.now + delay, name, reply))

    def replies(self):
        ready = [(n, r, 10.0) for t, n, r in self.queue if t <= self.clock.now]
        self.queue = [(t, n, r) for t, n, r in self.queue if t > self.clock.now]
        return ready


def _setup(agents, rounds=4, per_round=2, **keywords):
    epsilon = keywords.pop("epsilon", 2.0)
    least = keywords.pop("min_agents", None)
    settings = {"rounds": rounds, "agents_per_round": per_round} | keywords
    prirfed = PriRFed(problems.principal_eigenvector(DIM), DPRGD(1, 0.1, 1.0), **settings)
    return Setup(prirfed, E1, Budget(epsilon, 1e-5), agents, least)


def _run(behaviour, setup, timing=None, **keywords):
    clock = Clock()
    if "state" in keywords:
        keywords["journal"] = Servers.Journal(setup.fingerprint, keywords.pop("state"))
    fake = Fake(
        behaviour, clock, **{k: keywords.pop(k) for k in ("joins", "leaves") if k in keywords}
    )

    server = Servers.drive(
        setup,
        fake,
        noise_source(3),
        timing=timing or Servers.Timing(),
        clock=clock,
        pause=clock.sleep,
        **keywords,
    )
    return server, fake, clock


def test_good_agents_finish_without_waiting():
    server, _, clock = _run(dict.fromkeys("abc", "good"), _setup(3))
    assert [r.accepted for r in server.records] == [2] * 4
    assert clock.now == 0.0
    np.testing.assert_allclose(server.value, GOOD, atol=1e-12)


@pytest.mark.parametrize("fault", [*FAULTS, "dead"])
def test_every_fault_keeps_the_point_valid_and_is_charged(fault):
    setup = _setup(2)
    server, _, clock = _run({"a": fault, "b": fault}, setup, Servers.Timing(timeout=30.0))
    np.testing.assert_array_equal(server.value, E1)
    assert [r.moved for r in server.records] == [False] * 4
    assert clock.now <= 4 * 30.2
    clean, _, _ = _run({"a": "good", "b": "good"}, setup)
    assert server.guarantee().epsilon(1e-5) == clean.guarantee().epsilon(
        1e-5
    )  # a lost reply costs what a good one costs


def test_a_round_closes_after_the_grace_period_not_the_timeout():
    server, _, clock = _run(
        {"a": "dead", "b": "good"}, _setup(2), Servers.Timing(timeout=1000.0, grace=7.0)
    )
    assert clock.now == pytest.approx(4 * 7.0, abs=1.0)
    assert [r.missing for r in server.records] == [1] * 4


def test_a_late_joiner_is_enrolled_and_a_leaver_is_not_asked():
    setup = _setup(2, rounds=12, per_round=1)
    server, fake, _ = _run(dict.fromkeys("abc", "good"), setup, joins={"c": 3}, leaves={"a": 6})
    assert server.invitations["c"] > 0
    assert all("a" not in names for t, names, _ in fake.sent if t >= 6)
    assert all("c" not in names for t, names, _ in fake.sent if t < 3)
    assert [r.eligible for r in server.records][:3] == [2, 2, 2]
    assert server.guarantee().within(setup.budget)


def test_a_run_goes_on_when_some_have_gone(tmp_path):
    """Half of the agents leave after the third round: as many rounds as planned, at their cost."""
    setup = _setup(4, rounds=12, per_round=1)
    server, fake, _ = _run(
        dict.fromkeys("abcd", "good"), setup, leaves={"c": 3, "d": 3}, state=tmp_path / "s.json"
    )
    assert len(server.records) == 12
    assert {(r.invited, r.eligible) for r in server.records} == {(1, 4)}
    nobody = [r.round for r in server.records if not fake.sent[r.round][1]]
    assert nobody  # drawn: somebody who has gone
    assert all(not server.records[k].moved and server.records[k].missing == 1 for k in nobody)
    assert server.guarantee().within(setup.budget)
    assert server.guarantee().epsilon(1e-5) == pytest.approx(
        privacy.participation(server.plan.local[10], agents=4, sampled=1, rounds=12).epsilon(1e-5)
    )


def test_a_run_ends_cleanly_when_everybody_has_gone():
    setup = _setup(2, rounds=6)
    server, _, clock = _run(
        {"a": "good", "b": "good"}, setup, Servers.Timing(patience=5.0), leaves={"a": 2, "b": 2}
    )
    assert len(server.records) == 2
    assert clock.now <= 6.0


def test_what_a_site_says_of_itself_does_not_end_a_run_of_the_others():
    """It takes part with a size that the plan is for, and with no less noise than planned."""
    local = DPRSGD(2, 5, 0.1, 1.0)  # batches of 5
    prirfed = PriRFed(problems.principal_eigenvector(DIM), local, rounds=3, agents_per_round=2)
    setup = Setup(prirfed, E1, Budget(5.0, 1e-5), agents=2)
    planned = setup.sigma(10)
    assert Servers.why_not_enrolled(setup, 10, planned) is None
    assert "says it has 1 records" in Servers.why_not_enrolled(setup, 1, 1e3)
    for sigma in (0.99 * planned, np.nan, np.inf, "much", None):
        assert "says it would add noise" in Servers.why_not_enrolled(setup, 10, sigma)


def test_nobody_there_is_an_error_that_says_so():
    with pytest.raises(InvalidArgument, match="no agent was there"):
        _run({}, _setup(2), Servers.Timing(patience=1.0))


def _driven(setup, fake, clock, state):
    journal = Servers.Journal(setup.fingerprint, state)
    Servers.drive(setup, fake, noise_source(3), clock=clock, pause=clock.sleep, journal=journal)


def _crash_after(last: int, setup: Setup, state) -> None:
    """A run of two agents whose server dies right after a round."""

    class Dies(Fake):
        def agents(self):
            if len(self.sent) > last:
                raise ConnectionError
            return super().agents()

    clock = Clock()
    fake = Dies({"a": "good", "b": "good"}, clock)
    with pytest.raises(ConnectionError):
        _driven(setup, fake, clock, state)


def test_a_round_is_charged_on_disk_before_anything_is_sent(tmp_path):
    """A server that dies while it sends must find its invitations charged when it comes back."""

    class Dies(Fake):
        def send(self, names, point, round_number):
            super().send(names, point, round_number)
            if round_number == 2:
                raise ConnectionError

    setup, state, clock = _setup(2, rounds=5, per_round=2), tmp_path / "state.json", Clock()
    fake = Dies({"a": "good", "b": "good"}, clock)
    with pytest.raises(ConnectionError):
        _driven(setup, fake, clock, state)
    server = Servers.make_coordinator(setup, {"a": 10, "b": 10}, noise_source(3))
    server.resume(Servers.Journal(setup.fingerprint, state).facts)
    assert [r.accepted for r in server.records] == [2, 2, 0]
    assert server.records[-1].missing == 2
    assert server.invitations == {"a": 3, "b": 3}
    local = server.plan.local[10]
    assert server.guarantee().epsilon(1e-5) == pytest.approx(local.repeat(3).epsilon(1e-5))


def test_a_server_does_not_go_on_from_the_state_of_another_run(tmp_path):
    """It would publish the finished run's point as the result of the new agreement."""
    setup, state = _setup(2, rounds=3, per_round=2), tmp_path / "state.json"
    _run({"a": "good", "b": "good"}, setup, state=state)
    other = dataclasses.replace(setup, document="ab" * 32)
    with pytest.raises(InvalidArgument, match="another agreement"):
        _run({"a": "good", "b": "good"}, other, state=state)
    server, fake, _ = _run({"a": "good", "b": "good"}, setup, state=state)
    assert (len(server.records), fake.sent) == (3, [])


def test_a_journal_is_of_one_server(tmp_path):
    """Two servers that started together: the second ends before it sends anything."""
    setup, clock = _setup(2, rounds=3, per_round=2), Clock()
    first, second = (Servers.Journal(setup.fingerprint, tmp_path / "state.json") for _ in "ab")
    given = {"clock": clock, "pause": clock.sleep}
    agents = Fake({"a": "good", "b": "good"}, clock)
    Servers.drive(setup, agents, noise_source(3), journal=first, **given)
    written = (tmp_path / "state.json").read_bytes()
    others = Fake({"a": "good", "b": "good"}, clock)
    with pytest.raises(RiemdpError, match="another server"):
        Servers.drive(setup, others, noise_source(4), journal=second, **given)
    assert (len(agents.sent), others.sent) == (3, [])
    assert (tmp_path / "state.json").read_bytes() == written
    (tmp_path / "state.json").unlink()  # nobody goes on from what was taken away, either
    with pytest.raises(RiemdpError, match="another server"):
        first.write({})


def test_a_journal_that_is_torn_is_none(tmp_path):
    setup, state = _setup(2, rounds=3, per_round=2), tmp_path / "state.json"
    _crash_after(1, setup, state)
    whole = state.read_bytes()
    for torn in (whole[: len(whole) // 2], whole[:-3], b"", whole.replace(b'"rounds"', b'"round"')):
        state.write_bytes(torn)
        with pytest.raises(InvalidArgument, match="holds no state of such a run"):
            _run({"a": "good", "b": "good"}, setup, state=state)
        assert state.read_bytes() == torn


def test_a_restarted_server_takes_in_who_has_come_and_remembers_who_has_gone(tmp_path):
    setup, state = _setup(2, rounds=6, per_round=1), tmp_path / "state.json"
    _crash_after(2, setup, state)
    server, _, _ = _run({"b": "good", "c": "good"}, setup, state=state)
    assert list(server.sizes) == ["a", "b", "c"]
    assert sum(server.invitations.values()) == len(server.records) == 6
    assert server.guarantee().within(setup.budget)


def test_bad_settings_are_named():
    with pytest.raises(InvalidArgument, match="agents"):
        _setup(1, per_round=2)
    with pytest.raises(InvalidArgument, match="min_agents"):
        _setup(3, min_agents=4)
    with pytest.raises(InvalidArgument, match="grace"):
        Servers.Timing(grace=-1.0)
    with pytest.raises(InvalidArgument, match="poll"):
        Servers.Timing(poll=0.0)
