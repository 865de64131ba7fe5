"""The ledger: refusals, threads, processes, files, context."""

from __future__ import annotations

import contextvars
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from riemdp import BudgetExceeded, InvalidArgument, RiemdpError
from riemdp.privacy import (
    Budget,
    Ledger,
    charge,
    gaussian,
    none,
    pure,
    session_ledger,
)
from tests.attacks.workers import own_charge

WHOLE = Budget(50.0, 1e-4)


def test_refusal_changes_nothing() -> None:
    ledger = Ledger(Budget(0.3))
    for _ in range(3):
        ledger.spend(pure(0.1))
    before = ledger.entries, ledger.spent
    for excess in (pure(1e-9), gaussian(1e3), none()):
        with pytest.raises(BudgetExceeded, match="Nothing was released"):
            ledger.spend(excess)
    assert (ledger.entries, ledger.spent) == before
    assert ledger.remaining(0.0) == 0.0
    ledger.spend(pure(0.0))  # what costs nothing is always granted
    assert ledger.charges == 4


def test_spent_and_remaining() -> None:
    ledger = Ledger(Budget(2.0, 1e-5))
    assert ledger.remaining(1e-5) == 2.0
    ledger.spend(gaussian(10.0))
    ledger.spend(pure(0.2))
    assert ledger.spent == gaussian(10.0).compose(pure(0.2))
    assert ledger.remaining(1e-5) == pytest.approx(2.0 - ledger.spent.epsilon(1e-5))
    assert ledger.remaining() == ledger.remaining(1e-5)
    assert ledger.fits(gaussian(3.0))
    assert not ledger.fits(gaussian(1.0))


def _hammer(ledger: Ledger, make, threads: int, each: int) -> list[int]:
    granted = [0] * threads

    def work(i: int) -> None:
        rng = random.Random(i)
        for _ in range(each):
            try:
                ledger.spend(make(rng))
            except BudgetExceeded:
                continue
            granted[i] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return granted


CHARGES = {
    "gaussian": lambda r: gaussian(10 ** r.uniform(1.0, 3.0)),
    "pure": lambda r: pure(r.choice([0.0001, 0.0007, 0.002, 0.013])),
    "mixed": lambda r: (
        gaussian(10 ** r.uniform(1.2, 3.0))
        if r.random() < 0.5
        else pure(r.choice([0.001, 0.003, 0.01]))
    ),
}


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        ("gaussian", 400),
        ("pure", 1_000),
        ("mixed", 400),
        pytest.param("gaussian", 12_500, marks=pytest.mark.slow),
        pytest.param("pure", 12_500, marks=pytest.mark.slow),
        pytest.param("mixed", 12_500, marks=pytest.mark.slow),
    ],
)
def test_many_operations_from_eight_threads_never_overspend(kind: str, each: int) -> None:
    budget = Budget(2.0, 1e-6)
    ledger = Ledger(budget)
    granted = _hammer(ledger, CHARGES[kind], threads=8, each=each)
    assert ledger.charges == sum(granted) > 50
    assert 0.9 * budget.epsilon < ledger.spent.epsilon(budget.delta) <= budget.epsilon


def test_a_lost_update_would_be_seen() -> None:
    """The planted twin: without its lock the same ledger counts wrongly or overspends."""

    class Unlocked(Ledger):
        def spend(self, guarantee):
            book = self._book
            state = book.state.after(self._entry(guarantee))
            if not state.spent.within(self.budget):
                raise BudgetExceeded
            time.sleep(0)
            book.state = state

    ledger = Unlocked(Budget(1e6))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        granted = _hammer(ledger, lambda r: pure(1.0), 8, 300)
    finally:
        sys.setswitchinterval(interval)
    assert ledger.spent.epsilon(0.0) < sum(granted)


# ------------------------------------------------------------------------------------------------
# context
def test_innermost_context_is_charged_and_only_it() -> None:
    with Ledger(Budget(1.0)) as outer:
        charge(pure(0.1))
        with Ledger(Budget(1.0)) as inner:
            charge(pure(0.2))
            charge(pure(0.4), outer)
        charge(pure(0.05))
    charge(pure(9.0))  # no ledger: nothing happens
    assert outer.spent.epsilon(0.0) == 0.55
    assert inner.spent.epsilon(0.0) == 0.2
    with outer, pytest.raises(BudgetExceeded):
        charge(pure(0.5))
    assert outer.spent.epsilon(0.0) == 0.55


def test_another_thread_refuses() -> None:
    """It was charged to nothing, with a warning."""
    caught: list[Exception] = []

    def work() -> None:
        try:
            charge(pure(0.1))
        except InvalidArgument as error:
            caught.append(error)

    with Ledger(Budget(1.0)) as ledger:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert ledger.charges == 0
    assert "another thread" in str(caught[0])


def test_a_block_that_ends_in_another_context_is_over() -> None:
    ledger, context = Ledger(WHOLE), contextvars.copy_context()
    context.run(ledger.__enter__)
    assert "another thread" in own_charge()
    ledger.__exit__(None, None, None)
    assert own_charge() == "released"
    assert "closed by now" in context.run(own_charge)


def test_what_ends_elsewhere_inside_another_block_is_not_charged_to_that_one() -> None:
    outer, ledger = Ledger(WHOLE), Ledger(WHOLE)
    with outer:
        context = contextvars.copy_context()
        context.run(ledger.__enter__)
        ledger.__exit__(None, None, None)
        assert "closed by now" in context.run(own_charge)
        assert own_charge() == "released"
    assert (outer.charges, ledger.charges) == (1, 0)


def test_a_block_of_another_context_is_not_ended_in_the_place_of_a_third() -> None:
    """From a thread that had entered neither, the block of whoever came last ended."""
    ledger = Ledger(WHOLE)
    one, two = contextvars.copy_context(), contextvars.copy_context()
    one.run(ledger.__enter__)
    two.run(ledger.__enter__)
    with pytest.raises(RiemdpError, match="None has ended"):
        ledger.__exit__(None, None, None)
    one.run(ledger.__exit__, None, None, None)
    assert two.run(own_charge) == "released"
    assert ledger.charges == 1
    ledger.__exit__(None, None, None)
    assert "closed by now" in two.run(own_charge)
    assert own_charge() == "released"


# ------------------------------------------------------------------------------------------------
# JSON and files
def test_file_is_followed_by_several_ledgers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    one, two = Ledger(Budget(1.0), path=path), Ledger(Budget(1.0), path=path)
    one.spend(pure(0.6))
    with pytest.raises(BudgetExceeded):
        two.spend(pure(0.5))
    two.spend(pure(0.4))
    assert one.spent.epsilon(0.0) == 1.0
    assert Ledger.open(path).charges == Ledger.open(path).charges == 2
    with pytest.raises(ValueError, match="budget"):
        Ledger(Budget(2.0), path=path)
    assert one.entries == two.entries == Ledger.open(path).entries
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.json"]


def test_a_charge_that_cannot_be_written_is_not_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(Budget(1.0), path=tmp_path / "ledger.json")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        ledger.spend(pure(0.5))
    monkeypatch.undo()
    assert ledger.spent.epsilon(0.0) == 0.0
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.json"]


SPENDER = """
import sys
from riemdp import BudgetExceeded
from riemdp.privacy import Budget, Ledger, pure
ledger, granted = Ledger(Budget(1.0), path=sys.argv[1]), 0
for _ in range(150):
    try:
        ledger.spend(pure(0.01)); granted += 1
    except BudgetExceeded:
        pass
print(granted)
"""


def test_processes_share_one_budget(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.json")
    workers = [
        subprocess.Popen([sys.executable, "-c", SPENDER, path], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    granted = [int(w.communicate()[0]) for w in workers]
    assert sum(granted) == 100
    assert Ledger.open(path).spent.epsilon(0.0) == 1.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Ledger(1.0), "budget"),
        (lambda: Ledger(Budget(1.0)).spend(0.5), "guarantee"),
        (lambda: charge(0.5), "guarantee"),
        (lambda: charge(pure(0.1), "book"), "ledger"),
        (lambda: Ledger(Budget(1.0)).remaining(1.0), "delta"),
    ],
)
def test_bad_input(call, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call()


# ------------------------------------------------------------------------- the session's ledger
@pytest.fixture
def session():
    yield session_ledger(Budget(1.0, 1e-5))
    session_ledger(None)


def test_a_session_ledger_is_charged_where_nothing_else_is(session) -> None:
    charge(gaussian(8.0))
    assert session.charges == 1
    assert Ledger.current() is session
    given = Ledger(Budget(1.0, 1e-5))
    charge(gaussian(8.0), given)
    with Ledger(Budget(1.0, 1e-5)) as inner:
        charge(gaussian(8.0))
        assert Ledger.current() is inner
    assert (session.charges, given.charges, inner.charges) == (1, 1, 1)
    with pytest.raises(BudgetExceeded):
        charge(gaussian(0.5))
    worker = threading.Thread(target=charge, args=(gaussian(8.0),))
    worker.start()
    worker.join()
    assert session.charges == 2
    assert session_ledger(None) is None
    charge(gaussian(0.5))
    assert session.charges == 2


def test_a_session_ledger_may_be_one_with_a_file(tmp_path: Path, session) -> None:
    kept = Ledger(Budget(1.0, 1e-5), path=tmp_path / "book.json")
    assert session_ledger(kept) is kept
    charge(gaussian(8.0))
    assert Ledger.open(tmp_path / "book.json").charges == 1
    assert session.charges == 0
    for wrong in (1.0, "book.json"):
        with pytest.raises(ValueError, match="`ledger`"):
            session_ledger(wrong)  # type: ignore[arg-type]
    assert Ledger.current() is kept
