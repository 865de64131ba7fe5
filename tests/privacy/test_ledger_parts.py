"""Parts of a ledger: disjoint people, each with the whole budget beside what the whole spends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import riemdp
from riemdp import Ball, InvalidArgument, private_frechet_mean
from riemdp.privacy import Budget, BudgetExceeded, Ledger, charge, gaussian, pure

NAMES = [f"S{i:02}" for i in range(9)]


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path: Path) -> Ledger:
    path = tmp_path / "book.json" if request.param == "file" else None
    return Ledger(Budget(1.0, 1e-5), path=path)


def test_each_part_may_spend_the_budget_and_the_ledger_shows_the_most(ledger: Ledger) -> None:
    for i, name in enumerate(NAMES):
        ledger.part(name).spend(pure(0.9 - 0.1 * i))
    assert ledger.spent.epsilon(0.0) == pytest.approx(0.9)
    assert ledger.charges == len(NAMES)
    assert ledger.part("S01").spent.epsilon(0.0) == pytest.approx(0.8)
    assert list(ledger.parts) == NAMES
    with pytest.raises(BudgetExceeded):
        ledger.part("S00").spend(pure(0.2))
    ledger.part("S08").spend(pure(0.2))


def test_what_the_whole_is_charged_counts_for_every_part(ledger: Ledger) -> None:
    ledger.part("S01").spend(pure(0.5))
    ledger.spend(pure(0.4))
    for name, left in (("S01", 0.1), ("S02", 0.6)):  # S02 was not charged before
        part = ledger.part(name)
        assert part.remaining(0.0) == pytest.approx(left)
        assert part.fits(pure(left - 1e-9))
        assert not part.fits(pure(left + 0.01))
        with pytest.raises(BudgetExceeded):
            part.spend(pure(left + 0.01))
    assert not ledger.fits(pure(0.2))  # S01 has no more
    with pytest.raises(BudgetExceeded):
        ledger.spend(pure(0.2))
    assert (ledger.charges, ledger.part("S02").charges) == (2, 1)


def test_a_part_is_a_ledger_for_with_and_for_a_release(ledger: Ledger) -> None:
    X, ball = np.zeros((50, 2)), Ball(np.zeros(2), 1.0)
    space, budget = riemdp.Euclidean(2), Budget(0.9, 1e-6)
    for name in ("S01", "S02"):
        with ledger.part(name):
            private_frechet_mean(space, X, ball, budget)
        with pytest.raises(BudgetExceeded):
            private_frechet_mean(space, X, ball, budget, ledger=ledger.part(name))
    assert ledger.charges == 2
    assert ledger.spent == ledger.part("S01").spent


def test_parts_stand_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = Ledger(Budget(1.0, 1e-5), path=path)
    book.part("S01").spend(gaussian(8.0))
    book.part("S02").spend(pure(0.2))
    again = Ledger.open(path)
    assert list(again.parts) == ["S01", "S02"]
    assert [entry.part for entry in again.entries] == ["S01", "S02"]
    assert [entry.part for entry in again.part("S02").entries] == ["S02"]
    assert again.parts == book.parts
    assert not again.part("S01").fits(gaussian(3.0))
    assert again.part("S03").fits(gaussian(4.1))


def test_threads_and_processes_share_a_part(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = Ledger(Budget(1.0), path=path)
    code = (
        "import sys; from riemdp.privacy import *\n"
        "part, granted = Ledger.open(sys.argv[1]).part('S01'), 0\n"
        "for _ in range(15):\n"
        "    try: part.spend(pure(0.05)); granted += 1\n"
        "    except BudgetExceeded: pass\n"
        "print(granted)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    granted = []

    def spends() -> None:
        for _ in range(8):
            try:
                book.part("S01").spend(pure(0.05))
                granted.append(1)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=spends) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) + int(other.communicate()[0]) == 20
    assert book.part("S02").fits(pure(1.0))


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_a_part_has_a_name(name: object) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        Ledger(Budget(1.0)).part(name)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no parts"):
        Ledger(Budget(1.0)).part("a").part("b")


def test_parts_protect_the_same_unit() -> None:
    """The most of two figures says nothing where they are about different neighbours."""
    ledger = Ledger(Budget(1.0))
    ledger.part("a").spend(pure(0.5))
    with pytest.raises(InvalidArgument):
        ledger.part("b").spend(pure(0.5).for_people())
    assert (ledger.charges, list(ledger.parts)) == (1, ["a"])


def test_a_part_holds_its_own_charges_and_those_of_the_whole(ledger: Ledger) -> None:
    own = charge(pure(0.1), ledger.part("S01")).receipt.id
    other = charge(pure(0.1), ledger.part("S02")).receipt.id
    whole = charge(pure(0.1), ledger).receipt.id
    assert [ledger.part("S01").holds(one) for one in (own, other, whole)] == [True, False, True]
    assert all(ledger.holds(one) for one in (own, other, whole))


def test_one_name_in_two_encodings_is_one_part(ledger: Ledger) -> None:
    names = [unicodedata.normalize(form, "Zoé") for form in ("NFC", "NFD")]
    assert names[0] != names[1]
    ledger.part(names[0]).spend(pure(0.9))
    with pytest.raises(BudgetExceeded):
        ledger.part(names[1]).spend(pure(0.9))


def test_what_is_left_at_another_delta_is_that_of_the_costliest_part_there() -> None:
    ledger = Ledger(Budget(2.0, 1e-5))
    ledger.part("A").spend(gaussian(3.0))
    ledger.part("B").spend(pure(1.5))
    for delta in (1e-5, 1e-9):
        least = min(ledger.part(name).remaining(delta) for name in "AB")
        assert ledger.remaining(delta) == least


def test_blocks_of_one_ledger_in_two_tasks_end_each_by_itself() -> None:
    ledger = Ledger(Budget(1.0))

    async def release(seconds: float) -> None:
        with ledger:
            await asyncio.sleep(seconds)
            charge(pure(0.1))

    async def both() -> list[object]:
        return list(await asyncio.gather(release(0.02), release(0.06), return_exceptions=True))

    assert asyncio.run(both()) == [None, None]
    assert ledger.charges == 2
    assert Ledger.current() is None
