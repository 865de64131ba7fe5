"""One budget stays one: other names of a ledger's file, other folders, forks, float32."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger, pure
from riemdp.privacy import charge
from tests.seam import Doors


def spend(ledger: Ledger, epsilon: float) -> float:
    """Try to spend; how much was granted."""
    try:
        ledger.spend(pure(epsilon))
    except BudgetExceeded:
        return 0.0
    return epsilon


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    """Two hard links to a budget of 1 granted 2."""
    team = tmp_path / "team.json"
    ledger = Ledger(Budget(1.0), path=team)
    os.link(team, tmp_path / "other.json")
    for attempt in (
        lambda: Ledger.open(tmp_path / "other.json"),
        lambda: Ledger(Budget(1.0), path=team),
        lambda: ledger.spend(pure(0.5)),
    ):
        with pytest.raises(InvalidArgument, match="hard link"):
            attempt()
    (tmp_path / "other.json").unlink()
    ledger.spend(pure(0.5))


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    target, link = tmp_path / "a.json", tmp_path / "b.json"
    Doors.write_text(target, "old")
    link.symlink_to(target)
    with Doors.staged(link) as (part,):
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(work) -> int:
    """The exit status of `work` in a forked process: 0 when it returned without an error."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_forked_children_share_a_ledger_in_a_file(tmp_path: Path) -> None:
    with Ledger(Budget(1.0), path=tmp_path / "ledger.json") as ledger:
        statuses = [in_child(lambda: charge(pure(0.25))) for _ in range(6)]
        assert statuses.count(0) == 4
        assert ledger.spent.epsilon(0.0) == 1.0


def test_errors_of_the_system_name_the_ledger_and_not_a_file_beside_it(tmp_path, monkeypatch):
    """They named team.json.lock, and a temporary file; a full disk was told without advice."""
    (tmp_path / "there").mkdir()
    book = tmp_path / "there" / "team.json"
    ledger = Ledger(Budget(2.0), path=book)
    before = book.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="make room") as told:
        ledger.spend(pure(0.5))
    monkeypatch.undo()
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, str(book))
    assert "nothing is released" in str(told.value)
    assert book.read_bytes() == before
    assert ledger.spent.epsilon(0.0) == 0.0
    ledger.spend(pure(0.5))  # there is room again
    shutil.rmtree(book.parent)
    with pytest.raises(FileNotFoundError) as told:
        ledger.spend(pure(0.5))
    assert told.value.filename == str(book)
    with pytest.raises(FileNotFoundError) as told:
        Doors.write_text(book, "")
    assert told.value.filename == str(book)
    with pytest.raises(OSError, match="other") as told, Doors.staged(tmp_path / "a.txt"):
        raise OSError(errno.EIO, "other", "b.txt")  # an error of the body is its own
    assert told.value.filename == "b.txt"
