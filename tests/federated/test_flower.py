"""The Flower adapter: a grid that misbehaves, what an agent says when it fails, simulations."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, Budget, Ledger, PriRFed, problems
from tests.seam import over_flower

from .heard import heard

pytestmark = pytest.mark.federated_deployment  # where the extra `federated` is installed
messages = pytest.mark.flower_messages  # what no engine is started for
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "hospitals"
DIM = 4
E1 = np.eye(DIM)[0]


@pytest.fixture(autouse=True)
def _engine(monkeypatch, tmp_path):
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))  # where sites count
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (
        1,
        1,
        1,
    )  # a Message wants to know who sends it


class Grid:
    """Nodes answer as `answers[(node, kind)]` says: content, or an exception's text, or nothing."""

    def __init__(self, answers):
        self.answers, self.nodes, self.box, self.count = (
            answers,
            sorted({n for n, _ in answers}),
            {},
            0,
        )

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            node, kind = message.metadata.dst_node_id, message.metadata.message_type
            self.count += 1
            ids.append(f"m{self.count}")
            if (node, kind) in self.answers:
                self.box[ids[-1]] = self.answers[node, kind]
        return ids

    def pull_messages(self, ids):
        replies = []
        for i in ids:
            if i in self.box:
                content = self.box.pop(i)
                failed = isinstance(content, str)
                replies.append(
                    SimpleNamespace(
                        metadata=SimpleNamespace(reply_to_message_id=i, src_node_id=1),
                        content=content,
                        has_error=lambda f=failed: f,
                        error=SimpleNamespace(reason=content),
                    )
                )
        return replies


def _transport(answers, noise=None, names=None):
    """A transport of rounds by settings with this noise, for the sites of these names."""
    terms = SimpleNamespace(
        place=E1, names=names, added_noise=lambda n: noise, shares_noise=False, fingerprint="f"
    )
    grid, clock = Grid(answers), SimpleNamespace(now=0.0)
    transport = over_flower().GridTransport(grid, terms, ttl=60.0, clock=lambda: clock.now)
    transport.agents()  # asks
    return grid, clock, transport


def _hello(name, records=10, sigma=1.0):
    return over_flower().pack(name=name, records=records, sigma=sigma)


HELLO, TRAIN = "query.hello", "train"


@messages
def test_agents_are_enrolled_by_their_answers():
    grid, clock, transport = _transport(
        {
            (1, HELLO): _hello("a"),
            (2, HELLO): _hello("b", 20),
            (3, HELLO): _hello("a", 99),
            (4, HELLO): "no such file",
            (5, HELLO): _hello("zero", 0),
        }
    )
    assert transport.agents() == {
        "a": 10,
        "b": 20,
    }  # the second "a" is not taken in, the failed and the empty one neither
    grid.nodes.remove(1)
    assert transport.agents() == {"b": 20}
    clock.now = 5.0  # asked again, and now the name is free
    transport.agents()
    assert transport.agents() == {"a": 99, "b": 20}


@messages
def test_an_agent_that_would_add_less_noise_than_planned_is_not_enrolled(caplog):
    """It is told once in a run, however often the agent is asked who it is."""
    answers = {
        (1, HELLO): _hello("a", 10, 1.0),
        (2, HELLO): _hello("b", 10, 0.9),
        (3, HELLO): _hello("c", 10, float("nan")),
        (4, HELLO): _hello("d", 10, 1.5),
    }
    _, clock, transport = _transport(answers, noise=1.0)
    for clock.now in (0.0, 5.0, 10.0):
        transport.agents()
        assert transport.agents() == {"a": 10, "d": 10}
    assert caplog.text.count("'b' says it would add noise") == 1


@messages
def test_replies_are_matched_by_the_message_they_answer(caplog):
    from flwr.app import RecordDict

    names = "abcde"
    answers = {(i + 1, HELLO): _hello(name) for i, name in enumerate(names)}
    answers |= {
        (1, TRAIN): over_flower().pack(E1, records=10),
        (2, TRAIN): "declined",
        (3, TRAIN): RecordDict(),
    }  # d and e are silent
    grid, _, transport = _transport(answers)
    transport.agents()
    transport.send(tuple("abcd"), E1, 0)
    got = {name: (reply, weight) for name, reply, weight in transport.replies()}
    np.testing.assert_array_equal(got["a"][0], E1)
    assert got["a"][1] == 10
    assert got["b"] == (None, None)  # an error
    assert "declined" in caplog.text
    assert got["c"] == (None, None)  # no point in it
    assert set(got) == {"a", "b", "c"}
    assert transport.replies() == []
    grid.answers[5, TRAIN] = over_flower().pack(E1, records=10)
    transport.send(("e",), E1, 1)
    grid.box["m9"] = over_flower().pack(E1, records=10)  # d's reply to the round before: late
    assert [name for name, *_ in transport.replies()] == ["e"]


# ------------------------------------------------------------------------------------------------
# the agent
def _setup(budget=None, rounds=3, agents=4, per_round=2):
    from riemdp.federated import flower

    prirfed = PriRFed(
        problems.principal_eigenvector(DIM),
        DPRGD(2, 0.1, 1.0),
        rounds=rounds,
        agents_per_round=per_round,
        participation="round-robin",
    )
    return flower.Setup(prirfed, E1, budget, agents)


def _rows(seed):
    rows = np.random.default_rng(seed).normal(size=(30, DIM)) * [1.0, 2.0, 0.5, 0.5]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _app(setup, load=lambda node: _rows(1), **limits):
    """The app of a site that has no agreement and no file of its own but for its answers."""
    from riemdp.federated import Site, flower

    answers = Path(os.environ["FLWR_HOME"]) / "answers.json"
    site = Site("a", answers, **limits)
    return flower.client_app(lambda settings: setup, load, site=lambda node: site)


def _ask(app, kind, point=E1, number=0, *, node=None, run=None, **facts):
    from flwr.app import Context, Message, RecordDict

    node = {"name": "a"} if node is None else node
    context = Context(
        run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=run or {}
    )
    return heard(app(Message(over_flower().pack(point, round=number, **facts), 1, kind), context))


@messages
def test_an_agent_answers_with_a_private_point_and_charges_its_book():
    from riemdp.federated import plan_federated

    setup, book = _setup(Budget(2.0, 1e-5)), Ledger(Budget(50.0, 1e-5))
    app = _app(setup, ledger=book)
    said = _ask(app, HELLO)
    assert over_flower().fact(said.content, "records") == 30
    assert over_flower().fact(said.content, "sigma") == setup.sigma(30) > 0
    assert book.charges == 0
    points = [over_flower().unpack(_ask(app, TRAIN, number=k).content, E1) for k in range(2)]
    assert not np.array_equal(*points)  # noise of its own
    assert all(
        riemdp.federated.validate_reply(setup.prirfed.problem.manifold, E1, p) for p in points
    )
    assert book.charges == 2
    local = plan_federated(setup.prirfed, [30] * 4, setup.budget).local[30]
    assert book.spent.epsilon(1e-5) == pytest.approx(local.repeat(2).epsilon(1e-5), rel=1e-9)


@messages
def test_what_an_agent_says_when_it_fails_holds_nothing_of_a_record(caplog):

    def broken(node):
        raise ValueError("could not convert string to float: 'Jane Doe, 1961'")

    app = _app(_setup(Budget(2.0, 1e-5)), broken)
    for kind in (HELLO, TRAIN):
        with pytest.raises(riemdp.RiemdpError) as failure:
            _ask(app, kind)
        assert str(failure.value).endswith("could not answer; its own log says why")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4  # for each message one line that was sent, and one for the agent alone
    assert all("ValueError in test_flower.py, line" in line for line in lines[1::2])
    assert not any("Jane Doe" in line for line in lines)
    assert not any(record.exc_info for record in caplog.records)  # no traceback on its terminal


# ------------------------------------------------------------------------------------------------
# an agreement
AXIS = """
run = "axis"
[problem]
name = "principal_eigenvector"
n = 4
[local]
name = "DPRGD"
steps = 1
learning-rate = 0.1
clip-norm = 1.0
[rounds]
rounds = 3
agents-per-round = 2
participation = "round-robin"
[privacy]
epsilon = 2.0
delta = 1e-5
[[site]]
name = "a"
[[site]]
name = "b"
"""


@pytest.fixture
def signed(tmp_path):
    """Where a site's file and its agreement are, and the fingerprint."""
    from riemdp.federated import Agreement

    (tmp_path / "agreement.toml").write_text(AXIS)
    agreed = Agreement.read(tmp_path / "agreement.toml")
    (tmp_path / "a.toml").write_text(
        f'name = "a"\nagreement = "{agreed.fingerprint}"\n'
        "[limits]\ntotal = { epsilon = 3.0, delta = 1e-5 }\n"
        '[files]\nagreement = "agreement.toml"\n[data]\nfile = "records.npy"\n'
    )
    np.save(tmp_path / "records.npy", _rows(1))
    return tmp_path, agreed.fingerprint


@messages
def test_an_app_of_two_lines_answers_for_a_site_that_has_signed(signed, caplog):
    from riemdp.federated import flower

    folder, fingerprint = signed
    app, node = flower.client_app(), {"site": str(folder / "a.toml")}
    said = _ask(app, HELLO, node=node, agreement=fingerprint)
    assert (
        over_flower().fact(said.content, "name"),
        over_flower().fact(said.content, "records"),
    ) == ("a", 30)
    run = {"agreement": "/somewhere.toml", "timeout": 9.0, "epsilon": 2.0}
    reply = _ask(app, TRAIN, node=node, run=run, number=1, agreement=fingerprint)
    assert not reply.has_error()
    assert "a: 1 of 3 answers, the last to round 1 on" in caplog.text
    assert "of 3 (delta 1e-05)" in caplog.text


@messages
@pytest.mark.parametrize(
    ("run", "facts", "words"),
    [
        ({"epsilon": 1e6}, {}, "another epsilon than"),
        ({"rounds": 99, "agents-per-round": 1}, {}, "another agents-per-round, rounds than"),
        ({}, {"agreement": "0" * 64}, "server's settings"),
        ({}, {"agreement": None}, "names no agreement"),
    ],
    ids=str,
)
def test_a_site_that_has_signed_declines_every_other_run(signed, run, facts, words):
    from riemdp.federated import flower

    folder, fingerprint = signed
    app, node = flower.client_app(), {"site": str(folder / "a.toml")}
    told = {k: v for k, v in ({"agreement": fingerprint} | facts).items() if v is not None}
    for kind in (HELLO, TRAIN):
        with pytest.raises(riemdp.RiemdpError, match=words):
            _ask(app, kind, node=node, run=run, **told)
    assert not (folder / "a-answers.json").exists()
    assert Ledger.open(folder / "a-ledger.json").charges == 0


@messages
def test_a_server_takes_its_settings_from_the_agreement_and_nobody_else_in(signed):

    folder, fingerprint = signed
    setup = over_flower().agreed({"agreement": str(folder / "agreement.toml"), "timeout": 5.0})
    assert (setup.fingerprint, setup.names) == (fingerprint, ("a", "b"))
    with pytest.raises(riemdp.InvalidArgument, match="another epsilon"):
        over_flower().agreed({"agreement": str(folder / "agreement.toml"), "epsilon": 3.0})
    with pytest.raises(riemdp.InvalidArgument, match="names no agreement"):
        over_flower().agreed({})
    answers = {(1, HELLO): _hello("a"), (2, HELLO): _hello("stranger")}
    _, _, transport = _transport(answers, names=setup.names)
    assert transport.agents() == {"a": 10}


@messages
def test_a_run_that_cannot_go_on_ends_with_one_line(caplog):
    """At the server's terminal, too: the engine would show a traceback."""
    from flwr.app import Context, RecordDict

    from riemdp.federated import flower

    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    flower.server_app()(None, context)
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.getMessage().startswith("the run ends: the run names no agreement")
    assert line.exc_info is None


# ------------------------------------------------------------------------------------------------
# the hospital that ships
@pytest.fixture
def hospital(tmp_path, monkeypatch):
    """The example's client app, its folder with the records of hospital 0, and its fingerprint."""
    import shutil
    import sys

    from riemdp.federated import Site

    folder = tmp_path / "hospitals"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*-0.*"))
    monkeypatch.syspath_prepend(str(folder / "app"))
    monkeypatch.syspath_prepend(str(folder))
    names = ("hospitals", "prepare")
    for name in [m for m in sys.modules if m.split(".")[0] in names]:
        del sys.modules[name]
    import prepare  # pyright: ignore[reportMissingImports]
    from hospitals import client  # pyright: ignore[reportMissingImports]

    prepare.main(0, str(folder / "records-0.npy"))
    yield client.app, folder, Site.read(folder / "site.toml").agreement
    for name in [m for m in sys.modules if m.split(".")[0] in names]:
        del sys.modules[name]


HONEST = {"timeout": 300.0, "grace": 60.0, "agreement": "/server/agreement.toml"}


@messages
@pytest.mark.parametrize(
    "run", [{}, {"site": "/tmp/mine.toml", "file": "/tmp/mine.npy", "book": "/tmp/mine"}], ids=str
)
def test_the_run_configuration_decides_nothing_at_a_hospital(hospital, run):
    """Whoever starts a run chooses its configuration."""

    app, folder, signed = hospital
    node = {"site": str(folder / "site.toml")}
    expected = _hospital_sigma(599)
    said = _ask(app, HELLO, CENTRE, node=node, run=HONEST | run, agreement=signed)
    assert over_flower().fact(said.content, "records") == 599
    assert over_flower().fact(said.content, "sigma") == pytest.approx(expected, rel=1e-9)
    reply = _ask(app, TRAIN, CENTRE, node=node, run=HONEST | run, agreement=signed)
    assert not reply.has_error()
    book = Ledger.open(folder / "book-0.json")
    assert book.charges == 1
    # what the answer cost by the hospital's own book is what its own settings say
    assert book.spent.epsilon(1e-5) <= 2.0
    for _ in range(60):
        with pytest.raises(riemdp.RiemdpError, match="declined"):
            _ask(app, TRAIN, CENTRE, node=node, run=HONEST | run, agreement=signed)
    assert Ledger.open(folder / "book-0.json").charges == 1


CENTRE = 0.16961280243743648 * np.eye(9)


def _hospital_sigma(n):
    """The noise of the agreed settings for a hospital with n records."""
    from riemdp.datasets import descriptor_ball
    from riemdp.federated import plan_federated

    ball = descriptor_ball(1, eta=1e-2, center="middle")
    problem = problems.frechet_mean(riemdp.SPDLogEuclidean(9), ball=ball)
    prirfed = PriRFed(problem, DPRGD(1, 0.25, sensitivity="domain"), rounds=10, agents_per_round=2)
    return plan_federated(prirfed, [n] * 3, Budget(2.0, 1e-5)).sigma_of[n]


# ------------------------------------------------------------------------------------------------
# a node that runs one app only
@messages
def test_a_pinned_node_refuses_every_other_app(monkeypatch, caplog):
    """The engine itself answers with its error, and stores nothing of the app."""
    import hashlib

    from flwr.app import Message, RecordDict
    from flwr.supercore.fab import Fab
    from flwr.supernode import start_client_internal as engine

    from riemdp.federated.flower import supernode

    for name in ("_pull_and_store_message", "_verify_fab"):
        monkeypatch.setattr(engine, name, getattr(engine, name))  # put back afterwards
    supernode.pin(hashlib.sha256(b"the app").hexdigest())
    for content, accepted in ((b"the app", True), (b"another", False)):
        stored, replies = [], []
        monkeypatch.setattr(engine, "_insert_message", lambda m, *_, to=replies: to.append(m))
        monkeypatch.setattr(engine, "get_fused_config_from_fab", lambda *_: {})

        class State:
            def get_run(self, run_id):
                return None

            def get_node_id(self):
                return 1

            def get_run_series_context(self, series):
                return None

            def set_run_series_context(self, series, context):
                pass

            def store_run(self, run):
                pass

            def store_fab(self, fab, to=stored):
                to.append(fab.content)

            def create_task(self, **_):
                return None

        engine._pull_and_store_message(
            state=State(),
            object_store=None,
            node_config={},
            receive=lambda: (Message(RecordDict(), 1, TRAIN), None),
            get_run=lambda run_id: SimpleNamespace(
                fab_hash="h", run_id=1, series_id=1, primary_task_type=""
            ),
            get_fab=lambda h, r, c=content: Fab("h", c, {"valid_license": "x"}),
            pull_object=None,
            confirm_message_received=None,
            trusted_entities=None,
        )
        assert stored == ([content] if accepted else [])
        assert [m.has_error() for m in replies] == ([] if accepted else [True])
    for bad in ("", "AB" * 32, "ab" * 31, None):
        with pytest.raises(riemdp.InvalidArgument, match="bundle"):
            supernode.pin(bad)


@messages
def test_a_node_is_not_pinned_with_an_engine_of_another_version(monkeypatch):
    from flwr.supernode import start_client_internal as engine

    from riemdp.federated.flower import supernode

    before = engine._verify_fab
    monkeypatch.setattr(supernode, "version", lambda _: "1.42.0")
    monkeypatch.setattr(sys, "argv", ["supernode", "--bundle", "ab" * 32])
    with pytest.raises(SystemExit, match=r"internals of flwr 1\.41\.0, and 1\.42\.0 is installed"):
        supernode.main()
    assert engine._verify_fab is before


@messages
def test_what_ends_a_node_is_one_line(monkeypatch, capsys):
    """Whatever the engine raises, in whichever thread: its server was restarted, for instance."""
    import threading

    from flwr.supernode import cli

    from riemdp.federated.flower import supernode

    for place, name in ((sys, "excepthook"), (threading, "excepthook"), (sys, "argv")):
        monkeypatch.setattr(place, name, getattr(place, name))  # put back afterwards
    monkeypatch.setattr(supernode, "pin", lambda _: None)
    monkeypatch.setattr(cli, "flower_supernode", lambda: None)
    sys.argv = ["supernode", "--bundle", "ab" * 32]
    supernode.main()
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    sys.excepthook(ValueError, ValueError("401"), None)
    threading.excepthook(SimpleNamespace(exc_type=SystemExit, exc_value=None))
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in said] == ["ZeroDivisionError", "ValueError"]


# ------------------------------------------------------------------------------------------------
# many sites in one process
@messages
def test_a_simulation_agrees_with_the_reference_and_is_charged_once():
    from riemdp.federated import flower, run_in_process

    data, setup = [_rows(i) for i in range(4)], _setup()
    expected = run_in_process(setup.prirfed, data, E1, None, rng=0)
    got = flower.simulate(setup.prirfed, data, E1, None, rng=0)
    np.testing.assert_allclose(got.value, expected.value, atol=1e-12)
    assert [r.accepted for r in got.rounds] == [2] * 3
    with Ledger(Budget(2.1, 1e-5)) as ledger:
        private = flower.simulate(setup.prirfed, data, E1, Budget(2.0, 1e-5))
    assert not private.reproducible
    assert private.guarantee.within(Budget(2.0, 1e-5))
    assert (ledger.charges, [r.accepted for r in private.rounds]) == (1, [2] * 3)
    assert ledger.spent.epsilon(1e-5) == pytest.approx(private.guarantee.epsilon(1e-5), rel=1e-9)
    assert not np.allclose(private.value, expected.value, atol=1e-6)
    short = Ledger(Budget(0.5, 1e-5))
    with pytest.raises(riemdp.BudgetExceeded):
        flower.simulate(setup.prirfed, data, E1, Budget(2.0, 1e-5), ledger=short)
    assert short.charges == 0
