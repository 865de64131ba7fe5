"""One budget stays one: other names of a ledger's file, other folders, forks, float32."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger, PrecisionError, pure
from riemdp.privacy import charge
from tests.seam import Doors


def spend(ledger: Ledger, epsilon: float) -> float:
    """Try to spend; how much was granted."""
    try:
        ledger.spend(pure(epsilon))
    except BudgetExceeded:
        return 0.0
    return epsilon


@pytest.mark.parametrize("opened", [lambda p: Ledger(Budget(1.0), path=p), Ledger.open])
def test_symbolic_links_share_the_budget_of_their_file(tmp_path: Path, opened) -> None:
    """Five links to a budget of 1 granted 5."""
    team = tmp_path / "team.json"
    Ledger(Budget(1.0), path=team)
    granted = 0.0
    for i in range(5):
        (tmp_path / f"project{i}").mkdir()
        link = tmp_path / f"project{i}" / "ledger.json"
        link.symlink_to(team)
        granted += spend(opened(link), 0.75)
        assert link.is_symlink()
    assert granted == 0.75
    assert Ledger.open(team).spent.epsilon(0.0) == 0.75


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


def test_a_relative_path_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(Budget(1.0), path="ledger.json")
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.spend(pure(0.75))
    assert Ledger.open(tmp_path / "ledger.json").spent.epsilon(0.0) == 0.75
    assert not list((tmp_path / "elsewhere").iterdir())


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
def test_a_forked_child_cannot_spend_its_copy_of_a_ledger_in_memory() -> None:
    """Four children spent 1 each of a budget of 1, and the parent showed 0."""
    with Ledger(Budget(1.0)) as ledger:
        for work in (
            lambda: charge(pure(1.0)),
            lambda: ledger.spend(pure(1.0)),
            lambda: ledger.spent,
            lambda: ledger.fits(pure(0.1)),
            lambda: ledger.entries,
        ):
            assert in_child(work) != 0
        charge(pure(1.0))
    assert in_child(lambda: Ledger(Budget(1.0)).spend(pure(1.0))) == 0


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_forked_children_share_a_ledger_in_a_file(tmp_path: Path) -> None:
    with Ledger(Budget(1.0), path=tmp_path / "ledger.json") as ledger:
        statuses = [in_child(lambda: charge(pure(0.25))) for _ in range(6)]
        assert statuses.count(0) == 4
        assert ledger.spent.epsilon(0.0) == 1.0


@pytest.mark.filterwarnings("ignore")  # JAX remarks on every float64 that it cannot make
def test_nothing_is_charged_in_float32() -> None:
    """Releases went through in float32 with the full claim once 64 bits were switched off."""
    base = np.array([1.0, 0.0, 0.0])
    mechanism = riemdp.WrappedGaussian(
        riemdp.Lorentz(3), base, sensitivity=1e-9, budget=Budget(1.0, 1e-6)
    )
    with Ledger(Budget(5.0, 1e-5)) as ledger:
        jax.config.update("jax_enable_x64", False)
        try:
            with pytest.raises(PrecisionError, match="switched off"):
                charge(pure(0.1))
            with pytest.raises(PrecisionError):
                mechanism.release(base)
        finally:
            jax.config.update("jax_enable_x64", True)
        assert ledger.charges == 0
        mechanism.release(base)
    assert ledger.charges == 1


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
