"""Attacks of the third look on files, parts of records and labels: faults 71 to 74."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from riemdp.privacy import Budget, BudgetExceeded, Ledger, pure

# ------------------------------------------------------------------------- 71: a deleted lock file
# Spends the whole budget, and stops before the k-th call of the operating system until it is told.
_SPENDER = """
import sys
from riemdp.privacy import Budget, Ledger, pure
CALLS = {"open", "flock", "fstat", "stat", "lstat", "fsync", "replace", "link", "unlink", "close"}
say = lambda word: print(word, flush=True)
say("ready")
while (line := sys.stdin.readline()):
    path, stop, made = line.split("|")
    left = int(stop)
    def watch(frame, event, what):
        global left
        if event == "c_call" and what.__name__ in CALLS:
            left -= 1
            if left == 0:
                say("stopped")
                sys.stdin.readline()
    try:
        if int(made):
            book = Ledger(Budget(1.0), path=path)
        sys.setprofile(watch)
        if not int(made):
            book = Ledger(Budget(1.0), path=path)
        book.spend(pure(1.0))
        word = "granted"
    except Exception as error:
        word = "refused"
    sys.setprofile(None)
    say(word)
"""


@pytest.fixture
def spender():
    process = subprocess.Popen(
        [sys.executable, "-c", _SPENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    def say(line: str = "") -> str:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    yield say
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no file that is open")
@pytest.mark.parametrize("made", [True, False], ids=["ledger", "new-ledger"])
def test_fault_71_a_deleted_lock_file_lets_nobody_in(spender, tmp_path: Path, made: bool) -> None:
    """Another process spends the budget of 1; at every call that it makes, in turn, its lock file
    is deleted, and this process tries to spend the 1, too.
    """
    granted, stop, word = [], 0, "stopped"
    while word == "stopped":
        stop += 1
        path = tmp_path / f"ledger-{stop}.json"
        word = spender(f"{path}|{stop}|{int(made)}")
        got: list[int] = []
        if word == "stopped":
            path.with_name(path.name + ".lock").unlink(missing_ok=True)
            here = threading.Thread(target=lambda p=path, g=got: g.append(_spends(p)))
            here.start()
            here.join(0.1)  # it waits for a lock, or has it
            ended = spender()
            here.join()
        else:
            ended = word
        granted.append((ended == "granted") + sum(got))
        spent = Ledger.open(path).spent.epsilon(0.0) if path.exists() else 0.0
        assert spent >= granted[-1]
    assert stop > 15
    assert granted[-1] == 1  # nothing is in the way where nothing is deleted
    assert max(granted) == 1


def _spends(path: Path) -> int:
    try:
        Ledger(Budget(1.0), path=path).spend(pure(1.0))
    except (BudgetExceeded, OSError):
        return 0
    return 1
