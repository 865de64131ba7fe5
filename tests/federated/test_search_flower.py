"""A search over Flower: every message through the app of a site and the transport of the server,
and once through the engine.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import RiemdpError
from riemdp.privacy import Ledger
from tests.seam import Servers, over_flower, plant

from .heard import heard
from .test_search import ALL, CENTER, SITES, SPACE
from .test_search_people import LABELS, ONE_SITE
from .test_search_people import SIZES as PEOPLE
from .test_search_people import of_people as signed_by_people
from .test_search_sites import NAMES, SIZES, agreed, site, written

pytestmark = pytest.mark.federated_deployment  # where the extra `federated` is installed
messages = pytest.mark.flower_messages  # what no engine is started for
HELLO, TRAIN = "query.hello", "train"


@pytest.fixture(autouse=True)
def _engine() -> None:
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    from flwr.supercore.task_identity import TaskIdentity

    # a Message wants to know who sends it
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (1, 1, 1)


@pytest.fixture(params=["local", "shared"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Three sites with their agreement, files, keys and records."""
    written(tmp_path, request.param)
    for name, records in zip(NAMES, SITES, strict=True):
        np.save(tmp_path / f"{name}.npy", records)
        with (tmp_path / f"{name}.toml").open("a") as file:
            file.write(f'[data]\nfile = "{name}.npy"\n')
    return tmp_path


def sent(folder: Path, name: str, kind: str, content: Any, run: dict[str, Any]) -> Any:
    """What a site's app answers to one message, in a process that has just been started."""
    from flwr.app import Context, Message, RecordDict

    from riemdp.federated import flower

    node = {"site": str(folder / f"{name}.toml")}
    context = Context(run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=run)
    return heard(flower.client_app(rng=7)(Message(content, 1, kind), context))


class Office:
    """A grid whose nodes are the apps of the sites. What an app refuses is an error's text."""

    def __init__(self, folder: Path, away: tuple[tuple[str, int], ...] = ()):
        self.folder, self.away = folder, away
        self.box: dict[str, Any] = {}
        self.kinds: list[str] = []

    def get_node_ids(self) -> list[int]:
        return [0, 1, 2]

    def push_messages(self, messages: Any) -> list[str]:
        ids = []
        for message in messages:
            name, kind = NAMES[message.metadata.dst_node_id], message.metadata.message_type
            self.kinds.append(kind)
            ids.append(str(len(self.kinds)))
            number = message.content["facts"].get("round") if kind == TRAIN else None
            if (name, number) in self.away:
                continue
            try:
                content, error = sent(self.folder, name, kind, message.content, {}).content, None
            except RiemdpError as refused:
                content, error = None, SimpleNamespace(reason=str(refused))
            self.box[ids[-1]] = SimpleNamespace(
                metadata=SimpleNamespace(reply_to_message_id=ids[-1]),
                content=content,
                error=error,
                has_error=lambda error=error: error is not None,
            )
        return ids

    def pull_messages(self, ids: list[str]) -> Iterator[Any]:
        return iter([self.box.pop(i) for i in ids if i in self.box])


def searched(folder: Path, office: Office, **config: Any) -> riemdp.Release:
    from riemdp.federated.flower import Timing

    told = {"agreement": str(folder / "agreement.toml")} | config
    found: Any = over_flower().agreed(told)
    timing = Timing(timeout=1.0, grace=0.1, poll=0.01, patience=1.0)
    transport = over_flower().GridTransport(office, found, ttl=60.0)
    journal = Servers.Journal(found.fingerprint, config.get("state-path"))
    return over_flower().search(found, transport, timing, journal, config.get("result-path"))


@messages
def test_a_search_over_the_apps(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One site misses a question, and the server writes what was found."""
    plant(monkeypatch, "hellos of a server", 0.0)  # however fast the questions follow
    office = Office(folder, away=(("b", 2),))
    release = searched(folder, office, **{"result-path": str(folder / "result.npz")})
    mean = riemdp.frechet_mean(SPACE, ALL).value
    assert float(SPACE.dist(mean, release.value)) < 0.25
    shared = agreed(folder).terms.noise == "shared"
    assert release.details["failed_sums"] == (1 if shared else 0)
    assert office.kinds.count(HELLO) == (4 if shared else 3)  # b says its key again
    for name in NAMES:
        book = Ledger.open(folder / f"{name}-ledger.json")
        assert (book.charges, book.spent) == (1, release.guarantee)
        assert site(folder, name).share_spent() <= 1 + 1e-12
    told = json.loads((folder / "result.json").read_text())
    assert told["agreement"] == agreed(folder).fingerprint
    assert told["sizes"] == list(SIZES)
    assert "question 3 (how many records have a scale below a number): 2 of 2" in caplog.text
    assert "100.0% of the budget is used" in caplog.text
    assert "a: 10 answers, the last to question 9 on" in caplog.text
    assert "a: 1 answer, the last to question 0 on" in caplog.text


@pytest.fixture
def of_people(tmp_path: Path) -> Path:
    """The same, where people are protected: every site has a file of labels, too."""
    here = tmp_path / "people"
    signed_by_people(here)
    for name, records in zip(NAMES, SITES, strict=True):
        np.save(here / f"{name}.npy", records)
        (here / f"{name}.csv").write_text("\n".join(LABELS[name]) + "\n")
        with (here / f"{name}.toml").open("a") as file:
            file.write(f'[data]\nfile = "{name}.npy"\ngroups = "{name}.csv"\n')
    return here


@messages
def test_a_search_of_people_over_the_apps(
    of_people: Path, caplog: pytest.LogCaptureFixture
) -> None:
    office = Office(of_people)
    release = searched(of_people, office, **{"result-path": str(of_people / "result.npz")})
    assert (release.guarantee.unit, release.details["people"]) == ("person", 300)
    assert ONE_SITE in release.guarantee.assumes
    mean = riemdp.frechet_mean(SPACE, ALL).value
    assert float(SPACE.dist(mean, release.value)) < 0.25
    told = json.loads((of_people / "result.json").read_text())
    assert (told["unit"], told["sizes"]) == ("person", list(PEOPLE))
    assert "(how many people have a scale below a number): 3 of 3" in caplog.text
    assert "all of it has cost a person at most epsilon" in caplog.text
    assert "all runs have cost a person at most epsilon" in caplog.text
    for name in NAMES:
        book = Ledger.open(of_people / f"{name}-ledger.json")
        assert (book.charges, book.spent) == (1, release.guarantee)


@messages
def test_what_a_site_says_of_its_people(of_people: Path) -> None:
    """Their number, and neither a label nor how many records there are."""

    hello: dict[str, Any] = {"agreement": agreed(of_people).fingerprint}
    said = sent(of_people, "a", HELLO, over_flower().pack(CENTER, **hello), {}).content
    assert (over_flower().fact(said, "name"), over_flower().fact(said, "records")) == (
        "a",
        PEOPLE[0],
    )
    right = (of_people / "a.csv").read_text()
    for labels, words in (
        (right.replace("p99\n", "p98\n"), r"99 people, which is not what was agreed\. Nothing was"),
        (right + "Kim\n", "its own log says why$"),
        (right.replace("p99\n", "\n"), "its own log says why$"),
    ):
        (of_people / "a.csv").write_text(labels)
        with pytest.raises(RiemdpError, match=words) as refused:
            sent(of_people, "a", HELLO, over_flower().pack(CENTER, **hello), {})
        assert "Kim" not in str(refused.value)
    text = (of_people / "a.toml").read_text()
    (of_people / "a.toml").write_text(text.replace('groups = "a.csv"\n', ""))
    with pytest.raises(RiemdpError, match=r"whose its records are\. Nothing was spent"):
        sent(of_people, "a", HELLO, over_flower().pack(CENTER, **hello), {})
    (of_people / "a.toml").write_text(text)
    (of_people / "a.csv").write_text(right)
    with pytest.raises(RiemdpError, match=r"another unit than this site.*Nothing was spent"):
        sent(of_people, "a", HELLO, over_flower().pack(CENTER, **hello), {"unit": "record"})
    assert site(of_people).rounds_answered() == ()
    assert Ledger.open(of_people / "a-ledger.json").charges == 0


@messages
@pytest.mark.parametrize("folder", ["shared"], indirect=True)
def test_a_site_declines_whatever_is_not_the_agreed_search(folder: Path) -> None:

    signed = agreed(folder).fingerprint
    hello: dict[str, Any] = {"agreement": signed}
    said = sent(folder, "a", HELLO, over_flower().pack(CENTER, **hello), {}).content
    assert (over_flower().fact(said, "name"), over_flower().fact(said, "records")) == (
        "a",
        SIZES[0],
    )
    keys = [
        over_flower().fact(
            sent(folder, n, HELLO, over_flower().pack(CENTER, **hello), {}).content, "key"
        )
        for n in NAMES
    ]
    assert keys[0] == over_flower().fact(said, "key")
    right: dict[str, Any] = {"agreement": signed, "round": 0, "kind": "within", "share": 0.1}
    right |= {"limit": 0.5, "unit": 1.0, "factor": 0, "members": list(NAMES), "keys": keys}
    for point, changed, run in (
        (CENTER, {"agreement": "0" * 64}, {}),
        (CENTER, {}, {"epsilon": 8.0}),
        (CENTER, {}, {"release": "ball"}),
        (np.full((2, 2), np.nan), {}, {}),
        (np.eye(3), {}, {}),
        (CENTER, {"share": "0.1"}, {}),
        (CENTER, {"share": 2.0}, {}),
        (CENTER, {"kind": "records"}, {}),
        (CENTER, {"round": -1}, {}),
        (CENTER, {"members": ["a", "a", "b"]}, {}),
        (CENTER, {"members": list(NAMES)[:2]}, {}),
        (CENTER, {"keys": [keys[1], keys[0], keys[2]]}, {}),
    ):
        with pytest.raises(RiemdpError, match=r"Nothing was spent"):
            sent(folder, "a", TRAIN, over_flower().pack(point, **(right | changed)), run)
    left = {k: v for k, v in right.items() if k != "limit"}
    with pytest.raises(RiemdpError, match=r"Nothing was spent"):
        sent(folder, "a", TRAIN, over_flower().pack(CENTER, **left), {})
    assert site(folder).rounds_answered() == ()
    assert Ledger.open(folder / "a-ledger.json").charges == 0
    reply = sent(folder, "a", TRAIN, over_flower().pack(CENTER, **right), {}).content
    assert reply["arrays"].to_numpy_ndarrays()[0].dtype == np.uint64
    assert len(over_flower().fact(reply, "key")) == 64
    assert over_flower().fact(reply, "key") != keys[0]
