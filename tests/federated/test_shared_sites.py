"""Sites that share their noise and trust nobody: what a server can ask, and a run over messages."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import riemdp
from riemdp.federated import (
    Agreement,
    Message,
    Party,
    PriRFed,
    Refused,
    Setup,
    Site,
    answer,
    run_in_process,
)
from riemdp.optimizers import DPRGD
from riemdp.privacy import Ledger
from tests.seam import Masks, Servers, Sites

from .shared_deployment import AGREEMENT

SPHERE = riemdp.Sphere(3)
NORTH = np.eye(3)[2]
NAMES = ("a", "b", "c")
BUDGET = riemdp.Budget(4.0, 1e-5)
PROBLEM = riemdp.problems.frechet_mean(SPHERE, ball=riemdp.Ball(NORTH, 0.7))


def agreed(folder: Path, rounds: int = 3) -> Setup:
    """The settings of three sites, with key files of their own."""
    local = DPRGD(steps=1, learning_rate=0.25, sensitivity="domain")
    prirfed = PriRFed(
        PROBLEM, local, rounds=rounds, agents_per_round=3, noise="shared", tolerated=1
    )
    parties = tuple(Party(name, Masks.new_key_file(folder / f"{name}.key")) for name in NAMES)
    return Setup(prirfed, NORTH, BUDGET, agents=3, parties=parties)


def site(folder: Path, name: str, **changed) -> Site:
    ledger = Ledger(BUDGET, path=folder / f"{name}-ledger.json")
    own = {"answers": folder / f"{name}-answers.json", "key": folder / f"{name}.key"}
    return Site(**{"name": name, "ledger": ledger} | own | changed)


def records(seed: int, n: int = 40) -> np.ndarray:
    x = riemdp.noise_source(seed).normals((n, 3)) * 0.3 + np.array([0.4, 0.0, 1.0])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def members(folder: Path, setup: Setup, names: tuple[str, ...] = NAMES) -> dict[str, str]:
    return {name: Sites.keys_of(site(folder, name), setup).fresh.hex() for name in names}


def test_a_malicious_server_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    setup = agreed(tmp_path)
    here = site(tmp_path, "a")
    right = members(tmp_path, setup)

    def ask(point=NORTH, number: object = 0, sent: object = right, agreement: object = None):
        return answer(here, setup, records(1), Message(point, number, sent, agreement))

    outside = np.array([np.sin(1.0), 0.0, np.cos(1.0)])
    for wrong in (
        {"agreement": "00" * 32},  # another epsilon, clip norm, tolerance: another fingerprint
        {"number": 3},
        {"number": -1},
        {"number": "0"},
        {"point": np.full(3, np.nan)},
        {"point": 2 * NORTH},
        {"point": outside},
        {"sent": None},
        {"sent": {}},
        {"sent": {"a": right["a"]}},
        {"sent": {n: right[n] for n in "bc"}},
        {"sent": right | {"a": right["b"]}},
        {"sent": right | {"stranger": right["b"]}},
        {"sent": right | {"b": "no key"}},
        {"sent": right | {"b": 7}},
        {"sent": right | {"b": "00" * 32}},
    ):
        with pytest.raises(Refused, match="Nothing was spent"):
            ask(**wrong)
    # less noise than the site allows, no key, a ledger that is empty
    for changed, words in (
        ({"least_noise": 1e3}, "less noise"),
        ({"one_answer": riemdp.Budget(0.01, 1e-5)}, "cost more"),
        ({"key": None}, "names no key"),
        ({"ledger": Ledger(riemdp.Budget(0.1, 1e-5))}, "not enough budget"),
    ):
        with pytest.raises(Refused, match=words):
            answer(
                dataclasses.replace(here, **changed), setup, records(1), Message(NORTH, 0, right)
            )
    with pytest.raises(Refused, match="no list of members"):
        answer(here, setup, records(1), Message(NORTH, 0), sigma=1.0)
    assert here.ledger is not None
    assert not here.ledger.spent.parts
    assert here.rounds_answered() == ()
    # sixty asks for one round get one answer; a run gets as many as it has rounds
    for number in [0] * 60 + [1, 1, 2, 2, 3]:
        try:
            ask(number=number, sent=members(tmp_path, setup))
        except Refused:
            continue
    assert here.rounds_answered() == (0, 1, 2)
    assert setup.shared is not None
    assert here.ledger.spent == setup.shared.guarantee.repeat(3)
    assert "3 sites at most 1" in str(here.ledger.spent)
    assert "3 sites at most 1" in (tmp_path / "a-ledger.json").read_text()


@pytest.mark.parametrize(("rounds", "most"), [(3, None), (4, 3)])
def test_a_fresh_key_masks_one_answer_and_is_gone(
    tmp_path: Path, rounds: int, most: int | None
) -> None:
    """So that whoever steals all files of a site afterwards takes no mask off, whether the site was
    asked in the last round or not.
    """
    setup, run_file = agreed(tmp_path, rounds), tmp_path / "a-answers.json.key"
    here, used = site(tmp_path, "a", most_answers=most), []
    for number in range(3):
        right = members(tmp_path, setup)
        assert members(tmp_path, setup) == right  # the same until it is used
        used.append(right["a"])
        answer(here, setup, records(1), Message(NORTH, number, right))
        assert not run_file.exists()
        assert (Sites.next_key(here, setup) == "") == (number == 2)
        assert run_file.exists() == (number < 2)  # one that has masked nothing
        if number < 2:
            with pytest.raises(Refused, match="another key"):  # a roster with the old one
                answer(here, setup, records(1), Message(NORTH, 2, right))
    assert len(set(used)) == 3
    assert here.rounds_answered() == (0, 1, 2)


class Mail:
    """A transport that asks sites in this process; `away` names who does not answer in a round."""

    def __init__(self, folder: Path, setup: Setup, away: dict[int, str]):
        self.folder, self.setup, self.away = folder, setup, away
        self.box: list[tuple[str, object, float | None]] = []
        self.asked: list[tuple[str, ...]] = []

    def agents(self) -> dict[str, int]:
        return dict.fromkeys(NAMES, 40)

    def send(self, names: tuple[str, ...], point, round_number: int) -> None:
        self.asked.append(names)
        sent = members(self.folder, self.setup, names)
        for name in names:
            if self.away.get(round_number) != name:
                here = site(self.folder, name)
                data = records(NAMES.index(name))
                words = answer(here, self.setup, data, Message(point, round_number, sent)).value
                self.box.append((name, words, 40.0))

    def replies(self) -> list[tuple[str, object, float | None]]:
        out, self.box = self.box, []
        return out


def test_a_run_goes_on_without_a_site_that_was_missing(tmp_path: Path) -> None:
    setup, clock = agreed(tmp_path, rounds=4), SimpleNamespace(now=0.0)
    mail = Mail(tmp_path, setup, {0: "b"})

    def pause(seconds: float) -> None:
        clock.now += seconds

    server = Servers.drive(
        setup,
        mail,
        riemdp.noise_source(1),
        timing=Servers.Timing(timeout=5.0, grace=1.0, poll=0.5),
        clock=lambda: clock.now,
        pause=pause,
    )
    assert mail.asked == [NAMES, ("a", "c"), NAMES, NAMES]
    assert [r.moved for r in server.records] == [False, True, True, True]
    assert setup.shared is not None
    assert server.guarantee() == setup.shared.guarantee.repeat(4)
    assert server.guarantee().within(BUDGET)
    spent = {name: site(tmp_path, name).ledger for name in NAMES}
    assert [len(site(tmp_path, name).rounds_answered()) for name in NAMES] == [4, 2, 4]
    assert spent["a"] is not None
    assert spent["a"].spent == setup.shared.guarantee.repeat(4)
    x = np.concatenate([records(i) for i in range(3)])
    mean = riemdp.frechet_mean(SPHERE, x).value
    assert float(SPHERE.dist(server.value, mean)) < float(SPHERE.dist(NORTH, mean))


def test_a_server_that_was_killed_in_an_open_round_goes_on(tmp_path: Path) -> None:
    """The round that was open is spent at the sites that answered it, and has no sum."""
    setup, state, clock = (
        agreed(tmp_path, rounds=4),
        tmp_path / "state.json",
        SimpleNamespace(now=0),
    )

    class Dies(Mail):
        def replies(self):
            if len(self.asked) == 2:
                raise ConnectionError
            return super().replies()

    def run(mail: Mail):
        def pause(seconds: float) -> None:
            clock.now += seconds

        timing = Servers.Timing(timeout=5.0, grace=1.0, poll=0.5)
        source = riemdp.noise_source(1)
        journal = Servers.Journal(setup.fingerprint, state)
        given = {"timing": timing, "journal": journal, "clock": lambda: clock.now, "pause": pause}
        return Servers.drive(setup, mail, source, **given)

    with pytest.raises(ConnectionError):
        run(Dies(tmp_path, setup, {}))
    server = run(Mail(tmp_path, setup, {}))
    assert [r.moved for r in server.records] == [True, False, True, True]
    assert setup.shared is not None
    assert server.guarantee() == setup.shared.guarantee.repeat(4)
    assert [site(tmp_path, name).rounds_answered() for name in NAMES] == [(0, 1, 2, 3)] * 3


SITE = """
name = "{name}"
agreement = "{fingerprint}"
[limits]
total = {{ epsilon = 4.0, delta = 1e-5 }}
[files]
agreement = "agreement.toml"
key = "{name}.key"
"""


def test_sites_that_signed_an_agreement_share_their_noise(tmp_path: Path) -> None:
    keys = {name: Masks.new_key_file(tmp_path / f"{name}.key") for name in NAMES}
    tables = [f'[[site]]\nname = "{name}"\nkey = "{key}"\n' for name, key in keys.items()]
    (tmp_path / "agreement.toml").write_text(
        AGREEMENT.format(run="spring", rounds=2) + "".join(tables)
    )
    agreed = Agreement.read(tmp_path / "agreement.toml")
    for name in NAMES:
        words = SITE.format(name=name, fingerprint=agreed.fingerprint)
        (tmp_path / f"{name}.toml").write_text(words)
    sites = [Site.read(tmp_path / f"{name}.toml") for name in NAMES]
    setup = sites[0].agreed.terms if sites[0].agreed is not None else None
    assert setup is not None
    assert setup.shared is not None
    assert (setup.shared.parties, setup.shared.tolerated) == (3, 1)
    scales = [1.0 + riemdp.noise_source(i).uniforms((30, 1, 1)) for i in range(3)]
    data = [x * np.diag([1.0, 2.0]) for x in scales]
    for number in (0, 1):
        right = {here.name: Sites.keys_of(here, setup).fresh.hex() for here in sites}
        words = [
            answer(here, setup, x, Message(np.eye(2), number, right, agreed.fingerprint)).value
            for here, x in zip(sites, data, strict=True)
        ]
        assert setup.shared.value(Masks.total(words), 90 * 8.0) is not None
    assert sites[0].ledger is not None
    assert sites[0].ledger.spent == setup.shared.guarantee.repeat(2)
    # a server that has another agreement, or none, and a site with another key than it signed
    right = {here.name: Sites.keys_of(here, setup).fresh.hex() for here in sites}
    for fingerprint in (None, "00" * 32):
        with pytest.raises(Refused, match=r"agreement|settings"):
            answer(sites[0], setup, data[0], Message(np.eye(2), 0, right, fingerprint))
    (tmp_path / "a.key").unlink()
    Masks.new_key_file(tmp_path / "a.key")
    other = dataclasses.replace(sites[0], answers=tmp_path / "other.json")
    with pytest.raises(Refused, match="another key"):
        answer(other, setup, data[0], Message(np.eye(2), 0, right, agreed.fingerprint))


def test_settings_of_a_setup_that_cannot_be(tmp_path: Path) -> None:
    setup = agreed(tmp_path)
    first, *others = setup.parties
    key = str(first.key)
    for changed, name in (
        ({"agents": 4, "parties": ()}, "agents"),
        ({"budget": None}, "budget"),
        ({"parties": setup.parties[:2]}, "parties"),
        ({"parties": (*setup.parties, Party("d", "ab" * 32))}, "parties"),
        ({"parties": (Party("b", key), *others)}, "parties"),
        ({"parties": (Party("a", others[0].key), *others)}, "parties"),
        ({"parties": (Party("a"), *others)}, "parties"),
    ):
        with pytest.raises(riemdp.InvalidArgument, match=f"`{name}`"):
            dataclasses.replace(setup, **changed)
    for wrong in (key[:-2], key.upper(), int(key[:8], 16)):
        with pytest.raises(riemdp.InvalidArgument, match="`key`"):
            Party("a", wrong)
    # what the parties compare has everybody's name and key in it
    for party in (Party("a", "ab" * 32), Party("d", key)):
        other = dataclasses.replace(setup, parties=(party, *others))
        assert other.fingerprint != setup.fingerprint


# ------------------------------------------------------------------------------------------------


@pytest.mark.federated_deployment
@pytest.mark.flower_messages
def test_flowers_simulation_shares_noise(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra `federated`")
    from riemdp.federated.flower import simulate

    prirfed, data = agreed(tmp_path, rounds=2).prirfed, [records(i) for i in range(3)]
    expected = run_in_process(prirfed, data, NORTH, riemdp.Budget(20.0, 1e-5))
    got = simulate(prirfed, data, NORTH, riemdp.Budget(20.0, 1e-5))
    assert [r.moved for r in got.rounds] == [True, True]
    assert float(SPHERE.dist(got.value, expected.value)) < 12 * got.sigma
    assert got.guarantee == expected.guarantee
    assert not got.reproducible
