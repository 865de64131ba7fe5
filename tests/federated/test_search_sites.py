"""Sites of a search that are asked by messages: what their files allow, and what they remember when
they are killed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riemdp import Budget, RiemdpError
from riemdp.federated import Agreement, Message, Refused, Site, answer
from riemdp.privacy import Ledger
from tests.seam import Masks, Searches, Sites, plant

from .test_search import CENTER, SITES, tangents

NAMES = ("a", "b", "c")
SIZES = tuple(len(x) for x in SITES)
TEXT = """\
run = "one"
[space]
name = "SPDLogEuclidean"
k = 2
[search]
release = "mean"
variance = 0.2
[privacy]
epsilon = 1.0
delta = 1e-6
"""


def written(
    folder: Path,
    noise: str = "shared",
    tolerated: int = 1,
    text: str = TEXT,
    sizes: tuple[int, ...] = SIZES,
) -> str:
    """The three sites' agreement, with their keys, and a file for each site; the fingerprint."""
    counted = "people" if 'unit = "person"' in text else "records"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [text]
    if noise == "shared":
        shared = f'[privacy]\nnoise = "shared"\ntolerated = {tolerated}\n'
        parts[0] = text.replace("[privacy]\n", shared)
    for name, n in zip(NAMES, sizes, strict=True):
        parts.append(f'[[site]]\nname = "{name}"\n{counted} = {n}\n')
        if noise == "shared":
            parts.append(f'key = "{Masks.new_key_file(folder / f"{name}.key")}"\n')
    (folder / "agreement.toml").write_text("".join(parts))
    read = Agreement.read(folder / "agreement.toml")
    signed, epsilon = read.fingerprint, read.terms.budget.epsilon
    for name in NAMES:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nagreement = "{signed}"\n'
            f"[limits]\ntotal = {{ epsilon = {epsilon}, delta = 1e-6 }}\n"
            f'[files]\nagreement = "agreement.toml"\nkey = "{name}.key"\n'
        )
    return signed


def site(folder: Path, name: str = "a", **changed: Any) -> Site:
    """A site as it is after a start: nothing but its files."""
    return dataclasses.replace(Site.read(folder / f"{name}.toml"), **changed)


def members(folder: Path, names: tuple[str, ...] = NAMES) -> dict[str, str]:
    return {name: Sites.next_key(site(folder, name), agreed(folder).terms) for name in names}


def agreed(folder: Path) -> Agreement:
    return Agreement.read(folder / "agreement.toml")


def asked(
    folder: Path, ask: Searches.Ask, number: object = 0, name: str = "a", **changed: Any
) -> Any:
    """One question to one site, which has just been started."""
    told: dict[str, Any] = {"agreement": agreed(folder).fingerprint} | changed
    if "members" not in told:  # as the server does
        told["members"] = members(folder) if agreed(folder).terms.shares_noise else None
    here = told.pop("site", None) or site(folder, name)
    records = told.pop("records", SITES[NAMES.index(name)])
    terms = agreed(folder).terms
    message = Message(ask, number, told.pop("members"), told.pop("agreement"))
    return answer(here, terms, records, message, **told).value


def ledger(folder: Path, name: str = "a") -> Ledger:
    return Ledger.open(folder / f"{name}-ledger.json")


def test_a_site_whose_file_names_labels_answers_no_search_for_records(tmp_path: Path) -> None:
    written(tmp_path, "local")
    named = site(tmp_path, data={"file": "x.npy", "groups": "people.csv"})
    with pytest.raises(Refused, match=r"records are those of people.*Nothing was spent"):
        asked(tmp_path, tangents(0.1), site=named)
    assert named.rounds_answered() == ()
    asked(tmp_path, tangents(0.1), site=site(tmp_path, data={"file": "x.npy"}))


# --------------------------------------------------------------------------- the record on the disk
@pytest.mark.parametrize("noise", ["local", "shared"])
def test_every_answer_is_in_the_file_before_its_noise_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    written(tmp_path, noise)
    seen = []
    real = Searches.NoiseOfSites.noisy

    def noisy(self, values, ask, source):
        seen.append((site(tmp_path).rounds_answered(), ledger(tmp_path).charges))
        return real(self, values, ask, source)

    monkeypatch.setattr(Searches.NoiseOfSites, "noisy", noisy)
    for number in (0, 1, 4):
        asked(tmp_path, tangents(0.1), number)
    assert seen == [((0,), 1), ((0, 1), 1), ((0, 1, 4), 1)]  # one charge, before the first
    told = json.loads((tmp_path / "a-answers.json").read_text())
    assert [answer["share"] for answer in told["answers"]] == [0.1] * 3
    assert site(tmp_path).share_spent() == 3 * Fraction(0.1)
    assert ledger(tmp_path).spent == agreed(tmp_path).terms.guarantee
    (entry,) = ledger(tmp_path).entries
    assert agreed(tmp_path).fingerprint in entry.what
    assert "the last to question 4" in site(tmp_path).status()
    assert (tmp_path / "a-answers.json").stat().st_mode & 0o777 == 0o600


def test_two_messages_at_once_do_not_share_what_is_left(tmp_path: Path) -> None:
    """The file decides under its lock, whatever each process has read before."""
    signed, whole = written(tmp_path, "local"), agreed(tmp_path).terms.guarantee

    def enter(number: int) -> bool:
        try:
            permit = site(tmp_path).count_answer(signed, number, 99, Sites.Part(0.4, whole))
        except Refused:
            return False
        return permit is not None and permit.whole == whole

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(enter, range(16)))
    assert got.count(True) == 2
    assert site(tmp_path).share_spent() == 2 * Fraction(0.4)
    assert ledger(tmp_path).charges == 1
    for number in site(tmp_path).rounds_answered():
        with pytest.raises(Refused, match="has answered this"):
            site(tmp_path).count_answer(signed, number, 99, Sites.Part(0.01, whole))


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_no_number_of_a_question_ends_a_search(tmp_path: Path, noise: str) -> None:
    """A server that begins with the largest number there is, or with the last one of the plan. Both
    leave the others as they are: a site that was away has no answer to some, and may not wait for
    them.
    """
    written(tmp_path, noise)
    most = agreed(tmp_path).terms.answers
    for number in (2**63 - 1, 2**31, 10**5000, most):
        with pytest.raises(Refused, match=r"no such question\. Nothing was spent$"):
            asked(tmp_path, tangents(0.1), number)
    assert (site(tmp_path).rounds_answered(), ledger(tmp_path).charges) == ((), 0)
    for number in (most - 1, 0, 7, 3):
        asked(tmp_path, tangents(0.1), number)
        with pytest.raises(Refused, match=r"answered this question\. Nothing was spent$"):
            asked(tmp_path, tangents(0.1), number)
    assert site(tmp_path).rounds_answered() == (most - 1, 0, 7, 3)
    assert site(tmp_path).share_spent() == 4 * Fraction(0.1)
    assert ledger(tmp_path).charges == 1


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_a_question_without_a_noise_is_not_written_down(tmp_path: Path, noise: str) -> None:
    """A share so small that float64 or the grid holds no noise for it."""
    written(tmp_path, noise)
    for share in (5e-324, 1e-300, 1e-20):
        with pytest.raises(Refused, match=r"no noise is known .*\. Nothing was spent$"):
            asked(tmp_path, tangents(share), 0)
    assert (site(tmp_path).rounds_answered(), ledger(tmp_path).charges) == ((), 0)


class Killed(BaseException):
    """The site's process ends here."""


def killing(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Let the site die at its next answer: before or after one of the steps that matter."""

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    places = {
        "before the charge": "charge of a site",
        "after the charge": "answers of a site",
        "before the noise": "noise of an answer",
        "before the key is gone": "key of an answer",
    }
    plant(monkeypatch, places[where], die)


@pytest.mark.parametrize(
    ("where", "written_down"),
    [
        ("before the charge", 0),
        ("after the charge", 0),
        ("before the noise", 1),
        ("before the key is gone", 1),
    ],
)
def test_a_site_that_dies_is_charged_once_and_answers_no_question_twice(
    tmp_path: Path, where: str, written_down: int
) -> None:
    written(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, where)
        with pytest.raises(Killed):
            asked(tmp_path, tangents(0.4))
    assert len(site(tmp_path).rounds_answered()) == written_down
    signed = agreed(tmp_path)  # it says hello again, whether it was charged or not
    here = Sites.admit(site(tmp_path), signed.terms, SITES[0], agreement=signed.fingerprint)
    assert here == len(SITES[0])
    if written_down:
        with pytest.raises(Refused, match=r"answered this question.*Nothing was spent"):
            asked(tmp_path, tangents(0.4))
        asked(tmp_path, tangents(0.4), 1)
    else:
        asked(tmp_path, tangents(0.4))
        asked(tmp_path, tangents(0.4), 1)
    with pytest.raises(Refused, match=r"budget of this search is spent\. Nothing was spent"):
        asked(tmp_path, tangents(0.4), 2)
    assert site(tmp_path).share_spent() == 2 * Fraction(0.4)
    assert ledger(tmp_path).charges == 1


def test_files_that_were_taken_away_do_not_make_a_search_free(tmp_path: Path) -> None:
    """Whoever deletes the answers pays for all of the search again, or has no answer."""
    written(tmp_path)
    asked(tmp_path, tangents(0.9))
    (tmp_path / "a-answers.json").unlink()
    for _ in range(3):
        with pytest.raises(Refused, match=r"ledger has not enough budget left\. Nothing"):
            asked(tmp_path, tangents(0.9))
    rich = Ledger(Budget(3.0, 1e-6), path=tmp_path / "rich.json")
    for charges in (1, 2):
        (tmp_path / "a-answers.json").unlink(missing_ok=True)
        asked(tmp_path, tangents(0.9), site=site(tmp_path, ledger=rich))
        assert rich.charges == charges


def test_a_charge_for_another_file_of_the_same_site_is_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    written(tmp_path, "local")
    book = Ledger(Budget(3.0, 1e-6), path=tmp_path / "book.json")
    one = site(tmp_path, ledger=book)
    two = dataclasses.replace(one, answers=tmp_path / "other-answers.json")
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "before the charge")
        with pytest.raises(Killed):
            asked(tmp_path, tangents(0.4), site=one)
    for each in (two, one):
        asked(tmp_path, tangents(0.4), site=each)
    assert book.charges == 2


def test_a_charge_of_another_site_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    """Two sites with one ledger: one dies before its charge, and meanwhile the other is charged."""
    written(tmp_path)
    book = Ledger(Budget(3.0, 1e-6), path=tmp_path / "book.json")
    one, two = (site(tmp_path, name, ledger=book) for name in "ab")
    with pytest.MonkeyPatch.context() as patch:
        killing(patch, "before the charge")
        with pytest.raises(Killed):
            asked(tmp_path, tangents(0.4), name="b", site=two)
    asked(tmp_path, tangents(0.4), site=one)
    asked(tmp_path, tangents(0.4), name="b", site=two)
    assert book.charges == 2


def test_a_fresh_key_masks_one_answer_and_is_gone(tmp_path: Path) -> None:
    written(tmp_path)
    used = []
    for number in range(3):
        right = members(tmp_path)
        assert members(tmp_path) == right  # the same until it is used
        used.append(right["a"])
        asked(tmp_path, tangents(0.1), number)
        assert not (tmp_path / "a-answers.json.key").exists()
        with pytest.raises(Refused, match="another key"):
            asked(tmp_path, tangents(0.1), number + 1, members=right)
    assert len(set(used)) == 3
    assert Sites.next_key(site(tmp_path, most_answers=3), agreed(tmp_path).terms) == ""


# --------------------------------------------------------------------------- a malicious server
def test_a_malicious_server_is_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    written(tmp_path)
    good, right = tangents(0.4), members(tmp_path)
    stranger = Masks.Keys.new("stranger").fresh.hex()

    def changed(**other: Any) -> Searches.Ask:
        return dataclasses.replace(good, **other)

    refused: list[tuple[Searches.Ask, dict[str, Any]]] = [
        (changed(kind="records"), {}),
        (changed(kind=None), {}),
        (changed(share=math.nan), {}),
        (changed(share=0.0), {}),
        (changed(share=1.5), {}),
        (changed(share=None), {}),
        (changed(limit=math.inf), {}),
        (changed(unit=-1.0), {}),
        (changed(factor=2), {}),
        (changed(center=np.full((2, 2), np.nan)), {}),
        (changed(center=-np.eye(2)), {}),
        (changed(center=np.eye(3)), {}),
        (changed(center=None), {}),
        (good, {"number": -1}),
        (good, {"number": True}),
        (good, {"number": "0"}),
        (good, {"number": None}),
        (good, {"agreement": None}),
        (good, {"agreement": "ab" * 32}),  # another epsilon, plan or roster: another fingerprint
        (good, {"members": None}),
        (good, {"members": {}}),
        (good, {"members": {"a": right["a"]}}),
        (good, {"members": {n: right[n] for n in "bc"}}),
        (good, {"members": right | {"a": right["b"]}}),
        (good, {"members": right | {"stranger": stranger}}),
        (good, {"members": right | {"b": "no key"}}),
        (good, {"members": right | {"b": 7}}),
        (good, {"members": right | {"b": "00" * 32}}),
        (good, {"records": SITES[0][:50]}),
        (good, {"site": site(tmp_path, least_noise=1e3)}),
        (good, {"site": site(tmp_path, one_answer=Budget(0.01, 1e-6))}),
        (good, {"site": site(tmp_path, key=None)}),
        (good, {"site": site(tmp_path, most_answers=1, ledger=Ledger(Budget(0.5, 1e-6)))}),
    ]
    for ask, told in refused:
        with pytest.raises(Refused, match=r"Nothing was spent$"):
            asked(tmp_path, ask, **{"number": 0, "members": right} | told)
    with pytest.raises(Refused, match="no search"):
        asked(tmp_path, good, site=Site("a", tmp_path / "x.json"))
    assert site(tmp_path).rounds_answered() == ()
    assert site(tmp_path).share_spent() == 0
    assert ledger(tmp_path).charges == 0
    # sixty asks: repeated, beyond the plan, and too many
    for number in [3] * 20 + [2, 1, 0] * 5 + [4, 3, 4, 5, 5, 6, 7, 2**70]:
        try:
            asked(tmp_path, tangents(0.2), number, site=site(tmp_path, most_answers=4))
        except Refused:
            continue
    assert site(tmp_path).rounds_answered() == (3, 2, 1, 0)
    with pytest.raises(Refused, match="as often as it agreed to"):
        asked(tmp_path, tangents(1e-3), 9, site=site(tmp_path, most_answers=4))
    assert site(tmp_path).share_spent() == 4 * Fraction(0.2)
    assert ledger(tmp_path).charges == 1


def test_a_plan_without_a_variance_has_no_question_of_one(tmp_path: Path) -> None:
    written(tmp_path, text=TEXT.replace('"mean"\nvariance = 0.2', '"ball"'))
    with pytest.raises(Refused, match="agreed plan has no such question"):
        asked(tmp_path, Searches.Ask("squares", 0.1, CENTER, 0.5))
    assert site(tmp_path).rounds_answered() == ()


def test_a_file_of_another_agreement_is_not_gone_on_with(tmp_path: Path) -> None:
    written(tmp_path, "local")
    asked(tmp_path, tangents(0.1), members=None)
    written(tmp_path, "local", text=TEXT.replace('"one"', '"two"'))
    with pytest.raises(Refused, match="another agreement"):
        asked(tmp_path, tangents(0.1), 1, members=None)
    (tmp_path / "a-answers.json").write_text('{"format": "riemdp-answers", "version": 1}')
    with pytest.raises(RiemdpError, match="does not hold a site's answers"):
        asked(tmp_path, tangents(0.1), 1, members=None)


# ------------------------------------------------------------------ the distribution of the answers
