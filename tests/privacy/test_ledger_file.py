"""The file of a ledger: a line is a charge, whatever happens to the file or to who writes it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger, gaussian, pure
from riemdp.privacy import charge, subsampled_gaussian
from tests.seam import Doors

WHOLE = Budget(1.0, 1e-5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of two charges."""
    book = Ledger(WHOLE, path=tmp_path / "book.json")
    book.spend(gaussian(10.0), what="mean of session 1")
    book.part("S01").spend(gaussian(12.0))
    return tmp_path / "book.json"


def test_a_line_is_a_charge(path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    with pytest.raises(BudgetExceeded):
        Ledger.open(path).spend(gaussian(0.5), what="too much")
    first, one, two = (json.loads(line) for line in path.read_text().splitlines())
    assert first == {
        "format": "riemdp-ledger",
        "version": 5,
        "budget": {"epsilon": 1.0, "delta": 1e-5},
        "mixed": None,
    }
    assert set(one) == {"when", "what", "guarantee", "run"}
    assert (one["what"], one["guarantee"]) == ("mean of session 1", gaussian(10.0).to_dict())
    assert (two["what"], two["part"]) == ("a release", "S01")
    when = datetime.datetime.strptime(one["when"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(now - when) <= datetime.timedelta(minutes=10)
    assert [entry.to_dict() for entry in Ledger.open(path).entries] == [one, two]
    assert one["run"] != two["run"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_planned_run_is_read_as_it_was_charged(tmp_path: Path) -> None:
    step = subsampled_gaussian(2.0, population=1000, batch_size=10)
    run, path = step.repeat(3), tmp_path / "book.json"
    budget = Budget(1.02 * run.epsilon(1e-6), 1e-6)
    for _ in range(3):
        Ledger(budget, path=path).spend(step, of=run)
    book = Ledger.open(path)
    assert [entry.of for entry in book.entries] == [run] * 3
    assert book.spent == run
    with pytest.raises(BudgetExceeded):
        book.spend(step, of=run)


# ------------------------------------------------------------------------------ hostile files
def _changed(told: dict, **more: object) -> str:
    return json.dumps(told | more)


DEEP = "[" * 100_000
BROKEN: dict[str, Callable[[list[str]], list[str] | bytes]] = {
    "empty": lambda lines: [],
    "no first line": lambda lines: lines[1:],
    "first line cut": lambda lines: ("".join(lines)[:40]).encode(),
    "last line cut": lambda lines: ("\n".join(lines)[:-5]).encode(),
    "a line cut": lambda lines: [lines[0], lines[1][:-5], lines[2]],
    "first line twice": lambda lines: [lines[0], *lines],
    "two lines in one": lambda lines: [lines[0], lines[1] + lines[2]],
    "no object": lambda lines: [*lines, "3"],
    "nested": lambda lines: [*lines, DEEP],
    "text": lambda lines: [*lines, "a page of notes"],
    "utf-16": lambda lines: "\n".join(lines).encode("utf-16"),
    "no text": lambda lines: "\n".join(lines).encode() + b"\xff\xfe\n",
    "zeros": lambda lines: ("\n".join(lines) + "\n").encode() + b"\0" * 512,
    "nan": lambda lines: [lines[0], lines[1].replace("0.01", "NaN"), lines[2]],
    "infinite": lambda lines: [lines[0], lines[1].replace("0.01", "Infinity"), lines[2]],
    "negative": lambda lines: [lines[0], lines[1].replace("0.01", "-0.01"), lines[2]],
    "too large": lambda lines: [lines[0], lines[1].replace("0.01", "1e999"), lines[2]],
    "long number": lambda lines: [lines[0], lines[1].replace("0.01", "9" * 400), lines[2]],
    "true": lambda lines: [lines[0], lines[1].replace("0.01", "true"), lines[2]],
    "no guarantee": lambda lines: [lines[0], lines[1].replace("guarantee", "guaranty")],
    "misspelt": lambda lines: [*lines[:2], lines[2].replace('"part"', '"prat"')],
    "no text in part": lambda lines: [*lines[:2], lines[2].replace('"S01"', "3")],
    "other neighbours": lambda lines: [lines[0], lines[1], lines[2].replace("replace-one", "add")],
    "budget": lambda lines: [lines[0].replace("1.0", "-1.0"), *lines[1:]],
    "rule": lambda lines: [lines[0].replace("null", '"yes"'), *lines[1:]],
    **{
        f"version {version}": lambda lines, version=version: [
            lines[0].replace('"version": 5', f'"version": {version}'),
            *lines[1:],
        ]
        for version in (1, 2, 3, 4, 6)
    },
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_damaged_file_is_refused_and_stays(path: Path, kind: str) -> None:
    book = Ledger.open(path)
    made = BROKEN[kind](path.read_text().splitlines())
    content = made if isinstance(made, bytes) else "".join(f"{x}\n" for x in made).encode()
    path.write_bytes(content)
    for opens in (Ledger.open, lambda p: Ledger(WHOLE, path=p), lambda p: book):
        with pytest.raises(InvalidArgument) as told:
            opens(path).spend(pure(1e-3))
    if kind.startswith("version"):
        assert f"of {kind} of the format" in str(told.value)
    assert path.read_bytes() == content


def test_the_whole_page_that_older_versions_wrote_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    told = {"format": "riemdp-ledger", "version": 2, "budget": {"epsilon": 1.0, "delta": 0.0}}
    path.write_text(json.dumps(told, indent=1))
    with pytest.raises(InvalidArgument, match="of version 2 of the format"):
        Ledger.open(path)


def test_a_whole_line_without_its_end_is_a_charge(path: Path) -> None:
    spent = Ledger.open(path).spent
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert Ledger.open(path).spent == spent
    Ledger.open(path).spend(gaussian(30.0))
    assert Ledger.open(path).charges == 3
    assert len(path.read_text().splitlines()) == 4


def test_a_line_that_stands_twice_counts_twice(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    assert Ledger.open(path).spent == gaussian(10.0, 2).compose(gaussian(12.0))


def test_what_costs_everything_leaves_nothing(path: Path) -> None:
    line = json.loads(path.read_text().splitlines()[1])
    for guarantee in (
        {"adjacency": "replace-one", "parts": [{"kind": "none"}]},
        {"adjacency": "replace-one", "parts": [{"kind": "gaussian", "squared_mu": 1e308}]},
        {"adjacency": "replace-one", "parts": [{"kind": "pure", "epsilon": 1e308, "count": 9}]},
    ):
        path.write_text(path.read_text() + json.dumps(line | {"guarantee": guarantee}) + "\n")
        book = Ledger.open(path)
        assert not book.fits(pure(1e-9))
        assert book.remaining() == 0.0
        with pytest.raises(BudgetExceeded):
            book.spend(gaussian(1e6))


def test_a_file_that_becomes_another_is_read_anew(path: Path, tmp_path: Path) -> None:
    book = Ledger.open(path)
    before = path.read_bytes()
    book.spend(gaussian(8.0))
    assert book.charges == 3
    path.write_bytes(before)  # a backup
    assert book.charges == 2
    other = Ledger(Budget(3.0), path=tmp_path / "other.json")
    os.replace(tmp_path / "other.json", path)
    with pytest.raises(InvalidArgument, match="budget"):
        book.spend(gaussian(8.0))
    del other
    path.unlink()
    with pytest.raises(FileNotFoundError) as told:
        book.spend(gaussian(8.0))
    assert told.value.filename == str(path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        Ledger.open(path)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------ who writes dies
_KILLED = """
import os, signal, sys
from riemdp.privacy import Budget, Ledger, gaussian
CALLS = {"open", "flock", "fstat", "stat", "seek", "read", "write", "ftruncate", "fsync", "replace"}
CALLS |= {"unlink", "close"}
def watch(frame, event, what):
    global left
    if event == "c_call" and what.__name__ in CALLS:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
Ledger(Budget(1.0, 1e-5)).spend(gaussian(10.0))  # imports what a charge needs
for line in sys.stdin:  # the number of a call and a path; a process of its own for each
    left, _, path = line.rstrip("\\n").partition(" ")
    left, child = int(left), os.fork()
    if not child:
        sys.setprofile(watch)
        Ledger(Budget(1.0, 1e-5), path=path).spend(gaussian(10.0))
        sys.setprofile(None)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def killed_at() -> Iterator[Callable[[int, Path], int]]:
    """Charges a ledger in a process that dies at such a call; with what it ended."""
    command = [sys.executable, "-c", _KILLED]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        stdin, stdout = parent.stdin, parent.stdout

        def charged(left: int, path: Path) -> int:
            print(left, path, file=stdin)
            return int(stdout.readline())

        yield charged


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
@pytest.mark.parametrize("made", [True, False], ids=["ledger", "new-ledger"])
def test_killed_at_any_call_a_ledger_goes_on(
    made: bool, tmp_path: Path, killed_at: Callable[[int, Path], int]
) -> None:
    """Nothing is granted that does not stand in the file, and the file has one name."""
    granted, left = False, 0
    for left in range(1, 60):
        path = tmp_path / f"book-{left}.json"
        if made:
            Ledger(WHOLE, path=path)
        ended = killed_at(left, path)
        granted = ended == 0
        assert granted or ended == -signal.SIGKILL
        book = Ledger(WHOLE, path=path)
        assert book.charges >= granted
        assert path.stat().st_nlink == 1
        book.spend(gaussian(20.0))
        assert Ledger.open(path).charges == book.charges <= 2
        assert [p.name for p in tmp_path.iterdir() if left == int(p.stem.split("-")[1])] == [
            path.name
        ]
        if granted:
            break
    assert granted
    assert left > 10


@pytest.mark.parametrize("wrong", ["write", "fsync"])
def test_a_full_disk_leaves_the_file_as_it_was(
    wrong: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the line is written; an interrupt leaves none of it, either."""
    before, real = path.read_bytes(), os.fsync

    def full(handle: int) -> None:
        real(handle)
        raise KeyboardInterrupt if wrong == "write" else OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyboardInterrupt if wrong == "write" else OSError):
        Ledger.open(path).spend(pure(1e-3))
    monkeypatch.undo()
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_line_that_was_not_written_whole_is_taken_back(path: Path) -> None:
    code = """
import resource, signal, sys
from riemdp.privacy import Ledger, gaussian
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = len(open(sys.argv[1]).read())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50))
try:
    Ledger.open(sys.argv[1]).spend(gaussian(20.0))
except OSError as error:
    print(error)
"""
    before = path.read_bytes()
    said = subprocess.run(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    assert "nothing is released" in said.stdout
    assert path.read_bytes() == before


def test_a_charge_to_a_file_that_is_replaced_meanwhile_is_not_granted(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor saves it, or a program that keeps folders alike puts another version there."""
    real, book = os.fsync, Ledger.open(path)
    copy = path.read_bytes()

    def saved(handle: int) -> None:
        real(handle)
        (tmp_path / "edited").write_bytes(copy)
        os.replace(tmp_path / "edited", path)

    monkeypatch.setattr(os, "fsync", saved)
    with pytest.raises(OSError, match="replaced") as told:
        book.spend(gaussian(8.0))
    monkeypatch.undo()
    assert told.value.filename == str(path)
    assert book.charges == 2


def test_the_second_name_of_a_new_version_is_nobodys(tmp_path: Path) -> None:
    """What a killed process has left, or somebody has put there, is not written into."""
    path, new = tmp_path / "book.json", tmp_path / ".book.json.new"
    new.write_text("left")
    Ledger(WHOLE, path=path).spend(gaussian(8.0))
    assert not new.exists()
    path.unlink()
    notes = tmp_path / "notes"
    for make in (os.link, lambda a, b: b.symlink_to(a)):
        notes.write_text("notes")
        make(notes, new)
        with pytest.raises(OSError):
            Ledger(WHOLE, path=path)
        assert notes.read_text() == "notes"
        new.unlink()


def test_makers_at_once_make_one_file(tmp_path: Path) -> None:
    path, said = tmp_path / "book.json", list[str]()

    def spends() -> None:
        for _ in range(4):
            try:
                charge(pure(0.25), Ledger(Budget(1.0), path=path))
                said.append("granted")
            except Exception as error:
                said.append(type(error).__name__)

    threads = [threading.Thread(target=spends) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(said) == {"granted": 4, "BudgetExceeded": 28}
    assert [p.name for p in tmp_path.iterdir()] == ["book.json"]


def test_who_comes_too_late_to_make_a_file_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = tmp_path / "book.json", open

    def late(name: Any, *given: Any, **options: Any) -> Any:
        handle = plain(name, *given, **options)
        if str(name).endswith(".new"):
            path.write_text("made meanwhile")
        return handle

    monkeypatch.setattr("builtins.open", late)
    with Doors.locked(path) as lock:
        assert lock.read() == b"made meanwhile"
        assert [p.name for p in tmp_path.iterdir()] == ["book.json"]


def test_files_of_other_threads_are_opened_and_closed_meanwhile(tmp_path: Path) -> None:
    """So many are held that a look at all of them is sure to see some come and go."""
    said = list[str]()

    def locks(path: Path) -> None:
        for _ in range(50):
            try:
                with Doors.locked(path):
                    pass
            except Exception as error:
                said.append(type(error).__name__)

    threads = [threading.Thread(target=locks, args=(tmp_path / f"{k}.json",)) for k in range(8)]
    interval = sys.getswitchinterval()
    with contextlib.ExitStack() as held:
        for k in range(200):
            held.enter_context(Doors.locked(tmp_path / f"held-{k}.json"))
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
    assert said == []


def test_processes_make_one_file(tmp_path: Path) -> None:
    """Each stops before it puts its new file in place, and goes on when all have come."""
    code = """
import os, sys, time
from riemdp.privacy import Budget, BudgetExceeded, Ledger, pure
open(sys.argv[1] + sys.argv[2], "w").close()
while not os.path.exists(sys.argv[1] + "go"):
    time.sleep(1e-4)
book = Ledger(Budget(1.0), path=sys.argv[1])
try:
    book.spend(pure(1.0))
    print("granted")
except BudgetExceeded:
    pass
"""
    path = tmp_path / "book.json"
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(i)], stdout=subprocess.PIPE, text=True
        )
        for i in range(3)
    ]
    while len(list(tmp_path.iterdir())) < len(makers):
        time.sleep(1e-3)
    (tmp_path / "book.jsongo").touch()
    assert "".join(maker.communicate()[0] for maker in makers) == "granted\n"
    assert Ledger.open(path).charges == 1


def test_who_waits_for_a_file_that_is_replaced_has_the_new_one(tmp_path: Path) -> None:
    path, seen = tmp_path / "file", list[bytes]()

    def waits() -> None:
        with Doors.locked(path) as file:
            seen.append(file.read())

    for text in ("one", "two", "three"):
        with Doors.locked(path) as file:
            thread = threading.Thread(target=waits)
            thread.start()
            thread.join(0.3)
            file.write_text(text)
        thread.join()
    assert seen == [b"one", b"two", b"three"]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_line_that_names_a_run_it_is_no_part_of_counts_by_itself(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    cheap = subsampled_gaussian(2.0, population=10**6, batch_size=1)
    for line in lines[1:]:
        line["of"] = cheap.to_dict()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not Ledger.open(path).part("S01").fits(gaussian(4.2))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_an_interrupt_anywhere_in_a_charge_leaves_no_lock_behind(tmp_path: Path) -> None:
    """A lock that was unlocked and not closed was taken for one that this very thread holds."""
    book = Ledger(Budget(1000.0), path=tmp_path / "book.json")
    granted, interrupted, draw = 0, 0, random.Random(1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(1000):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, 2e-3))
                    book.spend(pure(1e-3))
                    granted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 100
    assert granted <= book.charges <= granted + interrupted
