"""A search over messages without an engine: three sites with files of their own, a server that
waits, restarts and is lied to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import InvalidArgument, RiemdpError
from riemdp.federated import Agreement, Message, Refused, Site, answer
from riemdp.privacy import Ledger
from tests.seam import Commands, Searches, Servers

from .test_search import ALL, SITES, SPACE
from .test_search_sites import NAMES, SIZES, TEXT, agreed, members, site, written


class Killed(BaseException):
    """The server's process ends here."""


class Mail:
    """A transport between files in this process. Every message is read by a site that has just been
    started. `away` says who does not answer a question; `change` what a server sends in its place.
    """

    def __init__(
        self,
        folder: Path,
        away: Mapping[int, str] | None = None,
        change: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None,
        dies_at: int | None = None,
        groups: Mapping[str, Any] | None = None,
        records: Mapping[str, Any] | None = None,
    ):
        self.groups, self.records = groups or {}, records or dict(zip(NAMES, SITES, strict=True))
        self.folder, self.away, self.change = folder, dict(away or {}), change
        self.box: list[tuple[str, object, float | None]] = []
        self.asked: list[tuple[str, ...]] = []
        self.declined: list[str] = []
        self.dies_at = dies_at
        self.clock = SimpleNamespace(now=0.0)

    def agents(self) -> dict[str, int]:
        return dict(agreed(self.folder).terms.sizes)

    def send(self, names: tuple[str, ...], question: Searches.Ask, number: int) -> None:
        self.asked.append(names)
        signed = agreed(self.folder)
        keys = members(self.folder, names) if signed.terms.shares_noise else None
        sent = {
            "question": question,
            "number": number,
            "members": keys,
            "agreement": signed.fingerprint,
        }
        for name in names:
            if self.away.get(number) == name:
                continue
            told = sent if self.change is None else self.change(name, sent)
            i, here = NAMES.index(name), site(self.folder, name)
            try:
                own = {"groups": self.groups.get(name), "rng": 100 * number + i}
                records, message = self.records[name], Message(**told)
                reply: object = answer(here, signed.terms, records, message, **own).value
            except Refused as error:
                self.declined.append(str(error))
                reply = None
            self.box.append((name, reply, float(self.agents()[name])))
        if number == self.dies_at:
            raise Killed

    def replies(self) -> list[tuple[str, object, float | None]]:
        out, self.box = self.box, []
        return out

    def pause(self, seconds: float) -> None:
        self.clock.now += seconds


def run(mail: Mail, state: Path | None = None) -> riemdp.Release:
    """A search; what the server writes at its end is in the folder."""
    journal = Servers.Journal(agreed(mail.folder).fingerprint, state)
    release = Servers.drive_search(
        agreed(mail.folder).terms,
        mail,
        timing=Servers.Timing(timeout=5.0, grace=1.0, poll=0.5, patience=2.0),
        clock=lambda: mail.clock.now,
        pause=mail.pause,
        reproducible=True,
        journal=journal,
    )
    Servers.write_release(
        str(mail.folder / "result.npz"), release, agreed(mail.folder).terms, journal
    )
    return release


def spent(folder: Path) -> list[Fraction]:
    return [site(folder, name).share_spent() for name in NAMES]


def test_a_server_that_is_killed_goes_on_and_no_question_is_asked_twice(tmp_path: Path) -> None:
    """With the same noise at each question, the same result as without a restart but for the
    question whose answers were on their way: that one has no sum, and is asked again.
    """
    written(tmp_path)
    state = tmp_path / "state.json"
    with pytest.raises(Killed):
        run(Mail(tmp_path, dies_at=6), state=state)
    before = [site(tmp_path, name).rounds_answered() for name in NAMES]
    assert before == [tuple(range(7))] * 3
    told = json.loads(state.read_text())["questions"]
    assert [question["values"] is None for question in told] == [False] * 6 + [True]
    mail = Mail(tmp_path)
    release = run(mail, state=state)
    assert release.details["failed_sums"] == 1
    assert not mail.declined
    assert len(mail.asked) == release.details["sums"] - 7
    for name in NAMES:
        assert site(tmp_path, name).rounds_answered() == tuple(range(release.details["sums"]))
        assert Ledger.open(tmp_path / f"{name}-ledger.json").charges == 1
    assert max(spent(tmp_path)) <= 1 + Fraction(1, 10**12)
    assert np.mean(np.asarray(release.details["ball"].contains(SPACE, ALL))) > 0.6
    # a third server finds the whole search in the file, and asks nobody
    again = Mail(tmp_path)
    same = run(again, state=state)
    assert again.asked == []
    np.testing.assert_array_equal(same.value, release.value)
    # the state of another run, or no state
    other = tmp_path / "other"
    written(other, text=TEXT.replace('"one"', '"two"'))
    with pytest.raises(InvalidArgument, match="another agreement"):
        run(Mail(other), state=state)
    state.write_text("{}")
    with pytest.raises(InvalidArgument, match="no state of such a run"):
        run(Mail(tmp_path), state=state)


def test_a_site_that_misses_a_question_is_left_out_of_the_next(tmp_path: Path) -> None:
    written(tmp_path)
    mail = Mail(tmp_path, away={2: "b"})
    release = run(mail)
    assert mail.asked[:5] == [NAMES, NAMES, NAMES, ("a", "c"), NAMES]
    assert release.details["failed_sums"] == 1
    assert mail.clock.now >= 5.0  # it was waited for
    assert max(spent(tmp_path)) <= 1 + Fraction(1, 10**12)
    assert np.mean(np.asarray(release.details["ball"].contains(SPACE, ALL))) > 0.6


class Late(Mail):
    """One site comes at the second look, one says another number of records, and never comes."""

    looks = 0

    def agents(self) -> dict[str, int]:
        self.looks += 1
        here = super().agents() | {"b": SIZES[1] + 1}
        return here if self.looks > 1 else {"a": here["a"]}


def test_the_person_who_watches_a_search_reads_who_is_missing_and_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, text=BALL)
    caplog.set_level("INFO", "riemdp.federated")
    state = tmp_path / "state"
    mail = Late(tmp_path, dies_at=1)
    with pytest.raises(Killed):
        run(mail, state=state)
    assert [r.getMessage() for r in caplog.records][:3] == [
        "waiting for b, c",
        "waiting for b",
        "nothing was heard of b in time",
    ]
    assert mail.asked == [("a", "c")] * 2
    caplog.clear()
    run(Mail(tmp_path), state=state)
    said = [r.getMessage() for r in caplog.records]
    assert said[0] == "goes on after 2 questions"
    assert said[1].startswith("question 2 (how many records have a scale below a number): 3 of 3")
    assert all(words.endswith("% of the budget is used") for words in said[1:])
    used = [float(words.split("; ")[-1].split("%")[0]) for words in said[1:]]
    assert used == sorted(used)
    assert 0.0 < used[0] < used[-1] <= 100.0
    status = site(tmp_path, "a").status()
    assert f"a: {len(said) + 1} answers, the last to question {len(said)} on" in status
    share = float(site(tmp_path, "a").share_spent())
    assert 0.1 < share <= 1.0
    assert f"; {share:.1%} of the search is used; all runs have cost a record" in status


def test_with_local_noise_a_missing_site_costs_nothing_and_a_short_wait(tmp_path: Path) -> None:
    written(tmp_path, "local")
    mail = Mail(tmp_path, away={2: "b"})
    release = run(mail)
    assert release.details["failed_sums"] == 0
    assert mail.clock.now == pytest.approx(1.0)


def test_a_search_has_no_more_questions_than_its_plan(tmp_path: Path) -> None:
    """Where what is asked again costs so little that the loss of it would not end a search."""
    written(tmp_path, "local")
    mail, most = Mail(tmp_path), agreed(tmp_path).terms.answers
    waiting = Servers.Waiting(mail, Servers.Timing(), lambda: mail.clock.now, mail.pause)
    server = Searches.SumsOverSites(agreed(tmp_path).terms, waiting)
    server.asked = most - 1
    ask = Searches.Ask("within", 0.1, np.eye(2), 0.5)
    assert server.summed(ask).records == sum(SIZES)
    with pytest.raises(RiemdpError, match=rf"^{most} questions are all that this search can have"):
        server.summed(ask)
    assert len(mail.asked) == 1


# ------------------------------------------------------------------------------- what is agreed on
BALL = TEXT.replace('"mean"\nvariance = 0.2', '"ball"')


def test_an_agreement_on_a_variance(tmp_path: Path) -> None:
    ball = '[domain]\ncenter = "diag:3.0"\nradius = 1.5\n[privacy]'
    written(tmp_path, "local", text=BALL.replace('"ball"', '"variance"').replace("[privacy]", ball))
    about = agreed(tmp_path).terms
    assert (about.answers, about.kinds) == (1, ("squares",))
    release = run(Mail(tmp_path))
    distances = np.minimum(np.asarray(SPACE.dist(3.0 * np.eye(2), ALL)), 1.5)
    assert abs(float(release.value) - float(np.mean(distances**2))) < 6 * release.scale


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('release = "mean"', 'release = "median"', "choose one of 'ball', 'mean', 'variance'"),
        ("variance = 0.2", "variance = 0.9", "variance"),
        ("variance = 0.2", 'radius = "0.2"', "'radius' in .search., which means nothing"),
        ('"mean"', '"ball"', "for release = 'mean' only"),
        ('"mean"\nvariance = 0.2', '"variance"', r"needs a \[domain\]"),
        ("variance = 0.2", "smallest = -1.0", "smallest"),
        ('name = "SPDLogEuclidean"\nk = 2', 'name = "Euclidean"\nshape = 2', "needs AdaptiveBall"),
        ("delta = 1e-6", "delta = 0.0", "delta > 0"),
        ("epsilon = 1.0", "epsilon = 0.001", "too few"),
        ("[search]", "[rounds]\nrounds = 3\n[search]", "'rounds' in the top"),
        ('run = "one"', "", "lacks 'run'"),
    ],
)
def test_an_agreement_that_cannot_be(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(InvalidArgument, match=words):
        written(tmp_path, "local", text=TEXT.replace(old, new))


def test_numbers_of_records_and_keys_are_agreed_on(tmp_path: Path) -> None:
    written(tmp_path)
    right = (tmp_path / "agreement.toml").read_text()
    for old, new, words in (
        (f"records = {SIZES[1]}\n", "", "without its public number of records"),
        (f"records = {SIZES[1]}\n", "records = 0.5\n", "without its public number of records"),
        ("tolerated = 1", "tolerated = 3", "at least 0 and at most 2"),
        ('name = "b"', 'name = "a"', "two sites with one name"),
    ):
        (tmp_path / "agreement.toml").write_text(right.replace(old, new, 1))
        with pytest.raises(InvalidArgument, match=words):
            Agreement.read(tmp_path / "agreement.toml")
    keyless = "".join(line for line in right.splitlines(True) if not line.startswith("key = "))
    (tmp_path / "agreement.toml").write_text(keyless)
    with pytest.raises(InvalidArgument, match="no key for the site 'a'"):
        Agreement.read(tmp_path / "agreement.toml")
    # every number of it is in the fingerprint, and a site that signed another one does not start
    (tmp_path / "agreement.toml").write_text(right.replace("epsilon = 1.0", "epsilon = 8.0"))
    with pytest.raises(InvalidArgument, match="another version than the one that"):
        site(tmp_path)
    assert math.isclose(agreed(tmp_path).terms.budget.epsilon, 8.0)


def commanded(*words: object) -> tuple[int, str]:
    """Exit status and output of a command of `riemdp federated`."""
    from typer.testing import CliRunner

    done = CliRunner().invoke(Commands.app, ["federated", *map(str, words)])
    return done.exit_code, " ".join(done.output.split())


def test_the_commands_of_a_search(tmp_path: Path) -> None:
    signed = written(tmp_path)
    file = tmp_path / "agreement.toml"
    status, said = commanded("agree", file, "--json")
    assert status == 0
    told = json.loads(said)
    assert (told["fingerprint"], told["run"]) == (signed, "one")
    assert "a (400 records), b (300 records)" in told["sites"]
    assert "a ball, and the mean in it" in told["the sites find"]
    assert "20% of what the search leaves" in told["the sites find"]
    (tmp_path / "a.toml").unlink()
    status, said = commanded("agree", file, "--write-site", "a")
    assert status == 0, said
    assert f"fingerprint {signed}" in said
    first = Site.read(tmp_path / "a.toml")  # the file that was written is one that works
    assert (first.most_answers, first.key) == (agreed(tmp_path).terms.answers, tmp_path / "a.key")
    release = run(Mail(tmp_path))
    status, said = commanded("status", tmp_path / "a.toml")
    assert f"a: {release.details['sums']} of {first.most_answers} answers" in said
    page = tmp_path / "report.html"
    status, said = commanded("report", file, tmp_path / "result.npz", "--out", page)
    assert status == 0, said
    assert "private mean with its ball and the variance about it of the fed" in page.read_text()
    assert "3 sites with 400, 300, 500 records (public)" in page.read_text()
    # a value that is not what the sums lead to is not reported
    with np.load(tmp_path / "result.npz") as saved:
        other = dict(saved) | {"value_0": saved["value_0"] * (1 + 1e-6)}
    np.savez(tmp_path / "result.npz", **other)  # type: ignore[arg-type]
    status, said = commanded(
        "report", file, tmp_path / "result.npz", "--out", tmp_path / "other.html"
    )
    assert status != 0
    assert "another value than its sums lead to" in said
