"""People in a search over messages: what their sites ask of their own labels, that it is the search
in process, and that everything of one person moves an answer as one record does.
"""

from __future__ import annotations

import dataclasses
import html
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument
from riemdp.federated import Agreement, Message, Refused, Site, answer
from riemdp.privacy import Ledger, charge, gaussian
from riemdp.randomness import noise_source
from tests.seam import Searches, Servers, Sites

from .test_people_at_sites import AGREEMENT as ROUNDS
from .test_search import ASKS, HOSTILE, SITES, SPACE, Between, tangents
from .test_search_drive import Mail, commanded, run
from .test_search_sites import NAMES, TEXT, agreed, asked, ledger, site, written

PEOPLE = TEXT.replace("epsilon = 1.0", "epsilon = 8.0").replace(
    "delta = 1e-6", 'delta = 1e-6\nunit = "person"'
)
LABELS = {name: [f"p{i // 4}" for i in range(len(x))] for name, x in zip(NAMES, SITES, strict=True)}
SIZES = (100, 75, 125)  # people
ONE_SITE = "all records of one person are at one site"


def of_people(folder: Path, noise: str = "shared", **changed: Any) -> str:
    return written(folder, noise, **{"text": PEOPLE, "sizes": SIZES} | changed)


def searched(folder: Path, noise: str, groups: Any) -> riemdp.Release:
    """The search over messages of what is agreed on there, in which nobody declines."""
    if groups is None:
        written(folder, noise)
    else:
        of_people(folder, noise)
    mail = Mail(folder, groups=groups)
    release = run(mail)
    assert not mail.declined
    return release


@pytest.fixture(scope="module")
def shared_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, riemdp.Release]:
    """One search of people who share their noise, and its folder, which no test changes."""
    folder = tmp_path_factory.mktemp("search")
    return folder, searched(folder, "shared", LABELS)


# ------------------------------------------------------------------------------ as in one process
class SameNoise(Between):
    """The sites of a search in process, each of which draws what `Mail` lets it draw."""

    sites: list[Any]

    def sent(self, names: tuple[str, ...], question: Any, number: int) -> Any:
        for i, held in enumerate(self.sites):
            held._source = noise_source(100 * number + i)
        return super().sent(names, question, number)


def by_the_public_door(folder: Path, groups: Any) -> riemdp.Release:
    """The release of `private_frechet_mean(groups=...)`, with the noise of `Mail`."""
    terms = agreed(folder).terms
    given = Searches.Given(SPACE, SITES, groups, "a test")
    assert tuple(given.sizes.values()) == tuple(terms.sizes.values())
    sites = [
        Searches.SearchSite(
            terms.domain, x, terms.noise_of_sites, noise_source(0), charge(terms.guarantee)
        )
        for x in given.records
    ]
    carried = SameNoise(Searches.in_process(terms, sites))
    carried.sites = sites
    server = Searches.SumsOverSites(terms, carried)
    with riemdp.Ledger(Budget(100.0, 1e-5)):
        return Searches.MeanOverSites(terms).finished(server, reproducible=True)


@pytest.mark.parametrize(("noise", "unit"), [("local", "record"), ("shared", "person")])
def test_a_search_over_messages_is_the_one_in_process(
    request: pytest.FixtureRequest, tmp_path: Path, noise: str, unit: str
) -> None:
    """The same noise, the same sums: the same value, cost, facts and region, also in the report."""
    groups = LABELS if unit == "person" else None
    if unit == "person":
        tmp_path, release = request.getfixturevalue("shared_search")
    else:
        release = searched(tmp_path, noise, groups)
    same = by_the_public_door(tmp_path, None if groups is None else list(groups.values()))
    told, _ = Servers.told_release(agreed(tmp_path).terms, tmp_path / "result.npz")
    written_down = json.loads((tmp_path / "result.json").read_text())["confidence_region"]
    assert written_down == str(release.confidence_region())
    for other in (same, told):
        np.testing.assert_array_equal(other.value, release.value)
        assert (other.guarantee, other.scale) == (release.guarantee, release.scale)
        assert str(other) == str(release)
        assert set(other.details) == set(release.details)
        assert other.details["variance"] == release.details["variance"]
        for level in (0.5, 0.95, 1 - 1e-9):
            one, two = release.confidence_region(level), other.confidence_region(level)
            assert (one.radius, one.subject, str(one)) == (two.radius, two.subject, str(two))
            np.testing.assert_array_equal(one.center, two.center)
    assert told.reproducible
    assert release.guarantee.unit == unit
    assert ("3 sites at most 1" in release.guarantee.assumes) == (noise == "shared")
    assert (ONE_SITE in release.guarantee.assumes) == (unit == "person")
    assert release.details.get("people") == (300 if unit == "person" else None)
    assert ("of the people's means" in written_down) == (unit == "person")
    for name in NAMES:
        book = Ledger.open(tmp_path / f"{name}-ledger.json")
        assert (book.charges, book.spent) == (1, release.guarantee)
        assert len(site(tmp_path, name).rounds_answered()) == release.details["sums"] > 12
        assert float(site(tmp_path, name).share_spent()) == pytest.approx(1.0, abs=1e-12)


def test_another_processor_may_round_the_points_of_the_questions_otherwise(
    tmp_path: Path, shared_search: tuple[Path, riemdp.Release]
) -> None:
    folder, release = shared_search
    for name in ("result.npz", "result.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    told = json.loads((tmp_path / "result.json").read_text())
    for question in told["questions"]:
        question["question"] = "0" * 64
    (tmp_path / "result.json").write_text(json.dumps(told))
    elsewhere, _ = Servers.told_release(agreed(folder).terms, tmp_path / "result.npz")
    np.testing.assert_array_equal(elsewhere.value, release.value)


def test_a_search_of_people_finds_their_mean(shared_search: tuple[Path, riemdp.Release]) -> None:
    folder, release = shared_search
    means = np.concatenate(
        [np.asarray(x) for x in Searches.Given(SPACE, SITES, [*LABELS.values()], "").records]
    )
    assert float(SPACE.dist(riemdp.frechet_mean(SPACE, means).value, release.value)) < 0.1
    told = json.loads((folder / "result.json").read_text())
    assert (told["unit"], told["sizes"]) == ("person", list(SIZES))
    assert ONE_SITE in told["assumes"]
    assert "all runs have cost a person at most" in site(folder).status()


# ------------------------------------------------------------------------------ one person's part
KIM = 40  # people beside Kim


def data_of(kim: np.ndarray, count: int) -> tuple[np.ndarray, list[str]]:
    """Forty people with a few records each, and Kim, who has `count`, all of them the same."""
    others = SITES[0][: 3 * KIM]
    records = np.concatenate([np.broadcast_to(kim, (count, 2, 2)), others])
    return records, ["Kim"] * count + [f"p{i // 3}" for i in range(3 * KIM)]


ENDS = [*HOSTILE, 3.0 * np.diag([20.0, 0.05]), 3.0 * np.diag([0.05, 20.0])]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.kind)
def test_a_person_with_500_records_moves_an_answer_as_one_record_does(
    tmp_path: Path, ask: Any
) -> None:
    """What leaves a site, with the same noise, for every pair of a few ends of Kim's records, of
    which there are 1 or 500.
    """
    of_people(tmp_path, "local", sizes=(KIM + 1, 200, 200))
    small = dataclasses.replace(ask, share=0.04)
    found = []
    for count in (1, 500):
        for end in ENDS:
            records, labels = data_of(end, count)
            own = {"records": records, "groups": labels, "rng": 7, "members": None}
            found.append(asked(tmp_path, small, len(found), **own))
    gaps = [float(np.linalg.norm(a - b)) for a in found for b in found]
    grid = 1e-6 * ask.sensitivity
    assert 0.98 * ask.largest < max(gaps) <= ask.sensitivity + grid
    if ask.kind == "tangents":
        assert max(gaps) > 0.99 * ask.sensitivity  # the claim is not loose
    # planted: every record counts
    terms = agreed(tmp_path).terms
    alone = [
        Searches.SearchSite(
            terms.domain, data_of(end, 500)[0], terms.noise_of_sites, noise_source(0)
        )
        for end in ENDS[-2:]
    ]
    moved = np.linalg.norm(alone[0]._exact(tangents()) - alone[1]._exact(tangents()))
    exponent = terms.noise_of_sites.exponent(tangents(), 3)
    assert np.ldexp(moved, exponent) > 100 * tangents().sensitivity


class Twins(Mail):
    """A search in which every question to the site "a" is also asked of its twin, whose files say
    the same, and which has another Kim. Both draw the same noise.
    """

    def __init__(self, folder: Path, twin: Path, *kims: tuple[np.ndarray, int]):
        (near, labels), self.other = (data_of(*kim) for kim in kims)
        data = dict(zip(NAMES, SITES, strict=True)) | {"a": near}
        super().__init__(folder, groups=LABELS | {"a": labels}, records=data)
        self.twin, self.paid = twin, list[float]()

    def send(self, names: tuple[str, ...], question: Any, number: int) -> None:
        super().send(names, question, number)
        ask = question
        records, groups = self.other
        told = {"groups": groups, "rng": 100 * number}
        sent = Message(ask, number, agreement=agreed(self.twin).fingerprint)
        terms = agreed(self.twin).terms
        other = answer(site(self.twin, "a"), terms, records, sent, **told).value
        (own,) = (reply for name, reply, _ in self.box if name == "a")
        distribution = agreed(self.folder).terms.noise_of_sites
        gap = float(np.linalg.norm(np.asarray(own) - np.asarray(other)))
        self.paid.append((gap / distribution.deviation(ask, ask.size(SPACE), 1)) ** 2)


def test_everything_of_a_person_is_paid_for_along_a_whole_search(tmp_path: Path) -> None:
    """The squares of (change / noise) of all answers add up to at most mu^2, for a person who has
    one record at one end, or 500 at the other: what leaves the site, from end to end.
    """
    folder, twin = tmp_path / "one", tmp_path / "two"
    for place in (folder, twin):
        of_people(place, "local", sizes=(KIM + 1, *SIZES[1:]))
    mail = Twins(folder, twin, (ENDS[-2], 1), (ENDS[-1], 500))
    run(mail)
    z = agreed(folder).terms.noise_of_sites.each.multiplier
    assert len(mail.paid) > 12
    assert 0.6 < sum(mail.paid) * z**2 <= 1.0


def test_records_of_people_may_be_in_a_mapped_file(tmp_path: Path) -> None:
    of_people(tmp_path, "local")
    np.save(tmp_path / "a.npy", SITES[0])
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    own = {"members": None, "groups": LABELS["a"], "rng": 1}
    one = asked(tmp_path, tangents(0.1), 0, **own)
    np.testing.assert_array_equal(one, asked(tmp_path, tangents(0.1), 1, records=mapped, **own))


# ------------------------------------------------------------------------------ who declines
@pytest.mark.parametrize("noise", ["local", "shared"])
def test_a_site_declines_another_unit_and_nothing_is_spent(tmp_path: Path, noise: str) -> None:
    people, records = tmp_path / "people", tmp_path / "records"
    of_people(people, noise)
    written(records, noise)
    ask, labels = tangents(0.1), LABELS["a"]
    with pytest.raises(Refused, match=r"whose its records are\. Nothing was spent"):
        asked(people, ask)
    with pytest.raises(Refused, match=r"records are those of people.*Nothing was spent"):
        asked(records, ask, groups=labels)
    other = {"agreement": agreed(records).fingerprint}  # a server whose run is for records
    with pytest.raises(Refused, match=r"settings are not this site's\. Nothing was spent"):
        asked(people, ask, groups=labels, **other)
    # another number of people than was agreed on, though the records are as many
    with pytest.raises(Refused, match=r"has 99 people, which is not what was agreed\. Nothing"):
        asked(people, ask, groups=["p1"] * 4 + labels[4:])
    for bad in (labels[:-1], [*labels[:-1], None], "Kim"):
        with pytest.raises(InvalidArgument, match="`groups`") as failure:
            asked(people, ask, groups=bad)
        assert "p99" not in str(failure.value)
    # a ledger that has charges for the other unit, in an answer and when the server says hello
    for folder, charged, groups in (
        (people, gaussian(40.0), labels),
        (records, gaussian(40.0).for_people(), None),
    ):
        book = Ledger(Budget(50.0, 1e-5))
        book.spend(charged)
        here = site(folder, ledger=book)
        with pytest.raises(Refused, match=r"another unit of privacy.*Nothing was spent"):
            asked(folder, ask, site=here, groups=groups)
        told = {"agreement": agreed(folder).fingerprint, "groups": groups}
        with pytest.raises(Refused, match=r"another unit of privacy.*Nothing was spent"):
            Sites.admit(here, agreed(folder).terms, SITES[0], **told)
        assert (book.charges, here.rounds_answered()) == (1, ())
    for folder in (people, records):
        assert (site(folder).rounds_answered(), ledger(folder).charges) == ((), 0)


def test_labels_that_change_between_two_starts_of_a_site(tmp_path: Path) -> None:
    """The number of people is agreed on, and so is that there are labels. Which record is whose may
    be put right: each answer is one of people by the labels of its time.
    """
    of_people(tmp_path, "local")
    labels = LABELS["a"]
    given = {"members": None, "rng": 1}
    asked(tmp_path, tangents(0.1), 0, groups=labels, **given)
    with pytest.raises(Refused, match=r"whose its records are\. Nothing was spent"):
        asked(tmp_path, tangents(0.1), 1, **given)
    with pytest.raises(Refused, match=r"has 400 people, which is not what was agreed\. Nothing"):
        asked(tmp_path, tangents(0.1), 1, groups=list(range(400)), **given)
    with pytest.raises(Refused, match=r"answered this question\. Nothing was spent"):
        asked(tmp_path, tangents(0.1), 0, groups=labels[::-1], **given)
    one = asked(tmp_path, tangents(0.1), 1, groups=labels, **given)
    other = ["p0"] * 300 + [f"p{i}" for i in range(100)]
    two = asked(tmp_path, tangents(0.1), 2, groups=other, **given)
    assert not np.array_equal(one, two)
    assert site(tmp_path).rounds_answered() == (0, 1, 2)
    assert site(tmp_path).share_spent() == 3 * Fraction(0.1)
    assert ledger(tmp_path).charges == 1
    # a site that signs for records from now on has another agreement, and another file for it
    written(tmp_path, "local", text=PEOPLE.replace('unit = "person"', ""))
    with pytest.raises(Refused, match=r"under another agreement\. Nothing was spent"):
        asked(
            tmp_path,
            tangents(0.1),
            3,
            site=site(tmp_path, ledger=Ledger(Budget(9.0, 1e-6))),
            **given,
        )


# ------------------------------------------------------------------------------ what is agreed on
def test_the_unit_is_part_of_what_all_parties_sign(tmp_path: Path) -> None:
    signed = of_people(tmp_path)
    file = tmp_path / "agreement.toml"
    right = file.read_text()
    assert agreed(tmp_path).terms.unit == "person"
    assert "unit: 'person'" in agreed(tmp_path).terms.text
    assert agreed(tmp_path).differences({"unit": "record"}) == ("unit",)
    written(tmp_path / "records")
    assert agreed(tmp_path / "records").terms.unit == "record"  # where nothing is said
    assert agreed(tmp_path / "records").differences({"unit": "person"}) == ("unit",)
    assert agreed(tmp_path / "records").fingerprint != signed
    for old, new, words in (
        ('unit = "person"', 'unit = "patient"', "choose 'record' or 'person'"),
        ('unit = "person"\n', "", r"'people' in a \[\[site\]\].*give records = "),
        ("people = 100", "records = 100", r"'records' in a \[\[site\]\].*give people = "),
        ("people = 100\n", "", "without its public number of people"),
        ("delta = 1e-6", "delta = 1e-6\nrecords-per-person = 4", "means nothing"),
        ("epsilon = 8.0", "epsilon = 0.1", r"n = 300 people are too few.*or more people"),
    ):
        assert old in right
        file.write_text(right.replace(old, new))
        with pytest.raises(InvalidArgument, match=words):
            Agreement.read(file)


def test_the_commands_say_person(
    tmp_path: Path, shared_search: tuple[Path, riemdp.Release]
) -> None:
    of_people(tmp_path)
    file = tmp_path / "agreement.toml"
    status, said = commanded("agree", file)
    assert status == 0
    for words in ("all of it costs a person", "a (100 people)", "people that a search needs"):
        assert words in said
    told = json.loads(commanded("agree", file, "--json")[1])
    assert told["it assumes"] == agreed(tmp_path).terms.guarantee.assumes
    assert ONE_SITE in told["it assumes"]
    written(tmp_path / "records", "local")
    told = json.loads(commanded("agree", tmp_path / "records" / "agreement.toml", "--json")[1])
    assert told["it assumes"] == "nothing of the server or of other sites"
    (tmp_path / "rounds.toml").write_text(ROUNDS)  # of PriRFed, for people
    assert json.loads(commanded("agree", tmp_path / "rounds.toml", "--json")[1])["it assumes"] == (
        ONE_SITE
    )
    (tmp_path / "a.toml").unlink()
    status, said = commanded("agree", file, "--write-site", "a")
    assert status == 0
    text = (tmp_path / "a.toml").read_text()
    assert "may cost a person" in text
    assert Site.read(tmp_path / "a.toml").data["groups"] == str(tmp_path / "people.csv")
    folder, release = shared_search
    _, said = commanded("status", folder / "a.toml")
    assert "all runs have cost a person at most epsilon" in said
    page = tmp_path / "report.html"
    file = folder / "agreement.toml"
    status, said = commanded("report", file, folder / "result.npz", "--out", page)
    assert (status, ONE_SITE in said) == (0, True)
    assert json.loads(page.with_suffix(".json").read_text())["protects"] == "one person"
    region = release.confidence_region()
    assert " ".join(str(region).split()) in said  # the same as in process, for the same sums
    told = json.loads(page.with_suffix(".json").read_text())["confidence_region"]
    assert (told["level"], told["radius"]) == (0.95, region.radius)
    for words in ("300 people", ONE_SITE, region.subject):
        assert words in html.unescape(page.read_text())
