"""Third look, once more: work that outlives a ledger's block, processes below processes, files that
are replaced, locks that wait for themselves, and what parts of a ledger share.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import riemdp
from riemdp import Budget, BudgetExceeded, InvalidArgument, Ledger, PrivatePCA
from riemdp.privacy import charge, gaussian, pure, subsampled_gaussian
from tests.attacks import workers
from tests.attacks.workers import own_charge
from tests.seam import Doors

WHOLE = Budget(50.0, 1e-4)
ROWS = np.random.default_rng(0).normal(size=(24, 3))
LABELS = np.arange(24) % 2


# --------------------------------------------------------------- work that outlives a block
def test_a_task_that_outlives_its_ledgers_block_refuses() -> None:
    """It went on charging a ledger that the program had closed, beside or below others."""
    other = Ledger(WHOLE)

    async def late(wait: asyncio.Event, ledger: Ledger | None = None) -> None:
        await wait.wait()
        charge(pure(0.5), ledger)

    async def run() -> list[object]:
        wait = asyncio.Event()
        with Ledger(WHOLE) as outer:
            with Ledger(WHOLE) as inner:
                tasks = [asyncio.create_task(late(wait, given)) for given in (None, other)]
                await asyncio.sleep(0)
            wait.set()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            charge(pure(0.25))  # the task that opened them goes on
        return [*found, outer.charges, inner.charges]

    error, *rest = asyncio.run(run())
    assert isinstance(error, InvalidArgument)
    assert "closed by now" in str(error)
    assert "ledger=" in str(error)
    assert rest == [None, 1, 0]
    assert other.charges == 1


def test_a_thread_with_a_copy_of_the_context_refuses_after_the_block() -> None:
    found: list[str] = []
    with Ledger(WHOLE) as ledger:
        context = contextvars.copy_context()
        context.run(charge, pure(0.5))
        again = contextvars.copy_context()
    for one in (context, again):
        thread = threading.Thread(target=lambda c=one: found.append(c.run(own_charge)))
        thread.start()
        thread.join()
    assert all(said.startswith("InvalidArgument") and "closed by now" in said for said in found)
    assert (len(found), ledger.charges) == (2, 1)
    with ledger:  # a new block of the same ledger does not bring the old one back
        assert "closed by now" in context.run(own_charge)


@pytest.mark.parametrize("session", [False, True], ids=["block", "session"])
def test_what_a_pool_of_threads_does_after_the_block_refuses(session: bool) -> None:
    """Work that was begun inside it, and ran afterwards, was charged to nothing."""
    ends, other = threading.Event(), Ledger(WHOLE)

    def late(ledger: Ledger | None = None) -> str:
        ends.wait(60.0)
        return workers.outcome(lambda: charge(pure(0.5), ledger))

    with ThreadPoolExecutor(1) as before, ThreadPoolExecutor(2) as inside:
        assert before.submit(own_charge).result() == "released"
        if session:
            riemdp.session_ledger(other)
        with contextlib.nullcontext() if session else Ledger(WHOLE) as ledger:
            begun = [before.submit(late), inside.submit(late), inside.submit(late, other)]
        riemdp.session_ledger(None)
        ends.set()
        said = [one.result() for one in begun]
        assert all("ran while another one had a ledger open" in one for one in said[:2])
        assert said[2] == "released"
        with other:
            assert own_charge() == "released"
        assert before.submit(late, other).result() == "released"
    assert own_charge() == "released"
    with ThreadPoolExecutor(1) as afterwards:
        assert afterwards.submit(own_charge).result() == "released"
    assert other.charges == 3
    assert ledger is None or ledger.charges == 0


# ------------------------------------------------------------------ processes below processes
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork", "loky"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_fault_75_no_process_of_a_worker_is_free(method: str, tmp_path: Path) -> None:
    """A worker's own worker was charged to nothing: it looked at the worker alone."""
    if method != "loky" and method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    path = str(tmp_path / "ledger.json")
    with processes(method) as ask:
        assert ask(workers.below, method, own_charge) == "released"  # both are there before
        with Ledger(WHOLE, path=path) as ledger:
            for _ in range(2):
                said = ask(workers.below, method, own_charge)
                assert said.startswith("InvalidArgument")
                assert "n_jobs=1" in said
            assert ask(workers.below, method, workers.within, path, own_charge) == "released"
            assert ledger.charges == 1
        assert ask(workers.below, method, own_charge) == "released"
        assert ask(own_charge) == "released"


def test_a_process_that_was_started_inside_a_block_is_free_after_it() -> None:
    with processes("spawn") as ask:
        with Ledger(WHOLE):
            assert "InvalidArgument" in ask(own_charge)
            assert "InvalidArgument" in ask(workers.below, "spawn", own_charge)
        assert ask(own_charge) == "released"
        assert ask(workers.below, "spawn", own_charge) == "released"


@contextlib.contextmanager
def processes(method: str) -> Iterator[Callable[..., Any]]:
    """What asks one process, which is started at the first question, and may have others below."""
    with workers.executor(method) as pool:

        def ask(*given: Any) -> Any:
            return pool.submit(*given).result(timeout=300)

        try:
            yield ask
        finally:
            ask(workers.ended)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_fault_75_a_forked_copy_that_leaves_the_block_refuses_until_its_parent_does() -> None:
    """It is nobody's worker, and its copy of the block was enough to close it."""
    told, tell = os.pipe()
    go, leave = os.pipe()
    ledger = Ledger(WHOLE)
    child = 0
    with ledger:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            ledger.__exit__(None, None, None)
            os.write(tell, b"r" if own_charge() == "released" else b"n")
            os.read(go, 1)
            os.write(tell, b"r" if own_charge() == "released" else b"n")
            os._exit(0)
        assert os.read(told, 1) == b"n"
    os.write(leave, b".")
    assert os.read(told, 1) == b"r"
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs owners and modes of files")
def test_the_file_that_tells_workers_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was that of a process, in a folder where everybody may be first. A worker looked at
    a pipe for ever; what cannot be looked at counts as open.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kinds = ["own", "link", "pipe", "folder", *(["strange"] if os.geteuid() == 0 else [])]
    with processes("spawn") as ask:
        found = ask(workers.others_in_its_place, kinds)
    assert found.pop("own") == "released"
    assert all("worker process" in said for said in found.values()), found
    assert sorted(found) == sorted(kinds[1:])


@pytest.mark.skipif(sys.platform == "win32", reason="an open file is not deleted there")
def test_where_workers_cannot_be_told_no_ledger_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was there before released, charged to nothing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with processes("spawn") as ask:
        found = ask(workers.without_it)
    assert found["before"] == found["after"] == "released"
    for name in ("block", "session"):
        assert found[name].startswith("RiemdpError: no ledger can be opened")
        assert "TMPDIR" in found[name]
        assert "ledger=..." in found[name]
    assert found["told"].count("of an open ledger, was deleted") == 1
    assert found["kept"] == "True"
    assert "worker process" in found["below"]
    assert found["charges"] == "2"


LATE = """
import multiprocessing

POOLS = {}

def start():
    POOLS["below"] = multiprocessing.get_context("spawn").Pool(1)

def ask_below():
    said = POOLS["below"].apply(ask)
    POOLS.pop("below").terminate()
    return said

def ask():
    from tests.attacks.workers import own_charge
    return own_charge()

if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as worker:
        worker.submit(start).result()
        import riemdp
        with riemdp.Ledger(riemdp.Budget(9.0, 1e-5)):
            print(worker.submit(ask_below).result())
"""


def test_a_process_that_cannot_see_all_above_it_refuses(tmp_path: Path) -> None:
    """The first process imported the library when the others were there, and the one in between
    never: the last one looked at that one alone.
    """
    program = tmp_path / "late.py"
    program.write_text(LATE)
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "cannot see whether all 2 processes" in ran.stdout, ran.stderr[-2000:]
    assert "Nothing was" in ran.stdout


# ------------------------------------------------------------------------- what goes and returns
@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_a_mark_is_of_the_thing_that_has_it(tmp_path: Path) -> None:
    """A worker refused everything for ever, once it was sent something from beside a ledger; and
    what came back from a worker with a ledger of its own refused where it was made.
    """
    path = str(tmp_path / "ledger.json")
    pca = PrivatePCA(1, row_norm=3.0, budget=Budget(1.0, 1e-6))
    with workers.executor("spawn") as pool:

        def ask(*given: object) -> object:
            return pool.submit(*given).result(timeout=300)

        with Ledger(WHOLE, path=path):
            there = ask(workers.passed, pca)
            beside = pickle.loads(ask(workers.passed_within, path, pca))  # type: ignore[arg-type]
            sent = pickle.dumps(pca)
            stayed = [copy.copy(pca), copy.deepcopy(pca), pickle.loads(sent)]
        assert "pickled" in str(ask(workers.loaded, sent, workers.fit, ROWS))
        assert ask(own_charge) == "released"
        for one in (pca, *stayed):  # a copy was marked for ever
            assert ask(workers.fit, one, ROWS) == "released"
    for back in (there, beside):
        clone(back).fit(ROWS)
        back.fit(ROWS)


@pytest.mark.filterwarnings("ignore")
def test_a_search_refuses_once_beside_a_ledger_and_goes_on_after_it() -> None:
    def search(jobs: int) -> GridSearchCV:
        pca = PrivatePCA(1, row_norm=3.0, budget=Budget(1.0, 1e-6))
        steps = make_pipeline(pca, DummyClassifier())
        values = {"privatepca__row_norm": [1.0, 2.0]}
        return GridSearchCV(steps, values, cv=2, n_jobs=jobs)

    with joblib.parallel_backend("loky"):
        with Ledger(WHOLE) as ledger:
            with pytest.raises(ValueError, match="n_jobs=1") as error:
                search(2).fit(ROWS, LABELS)
            assert str(error.value).count("was pickled while a ledger was open") == 1
            assert ledger.charges == 0
            search(1).fit(ROWS, LABELS)
            assert ledger.charges == 5  # four fits and the last one
        found = search(2).fit(ROWS, LABELS)  # in the same workers
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    clone(found.best_estimator_).fit(ROWS, LABELS)
    with Ledger(WHOLE) as ledger:
        found.best_estimator_.fit(ROWS, LABELS)
    assert ledger.charges == 1


# ------------------------------------------------------------------- locks that wait for themselves
def test_a_second_object_of_one_file_inside_a_charge_is_an_error(tmp_path: Path) -> None:
    """A hook that opened the same file in the same thread waited for ever."""
    path, said = tmp_path / "book.json", list[str]()
    book = Ledger(Budget(1.0), path=path)

    def look(frame: object, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "after" and not said:  # type: ignore[attr-defined]
            said.append("")
            said[0] = workers.outcome(lambda: Ledger.open(path).spend(pure(0.5)))

    def spend() -> None:
        sys.setprofile(look)  # of this thread
        book.spend(pure(0.25))
        sys.setprofile(None)
        Ledger.open(path).spend(pure(0.5))

    assert within_a_minute(spend) == "released"
    assert "very thread" in said[0]
    assert str(path) in said[0]
    assert book.charges == 2


def within_a_minute(work: Callable[[], object]) -> str:
    """What comes of it, in a thread that may wait for ever."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(workers.outcome(work)), daemon=True)
    thread.start()
    thread.join(60.0)
    assert found, "it waits"
    return found[0]


# ----------------------------------------------------------------------------- parts of a ledger
@pytest.mark.parametrize("kept", [False, True])
def test_a_part_is_in_no_run_of_the_whole(kept: bool, tmp_path: Path) -> None:
    """A run that was planned of the whole, and drawn in part, paid for releases about a part."""
    step = subsampled_gaussian(1.0, population=100, batch_size=10)
    run = step.repeat(20)
    path = tmp_path / "book.json" if kept else None
    ledger = Ledger(Budget(1.02 * run.epsilon(1e-6), 1e-6), path=path)
    ledger.spend(step, of=run)
    assert ledger.fits(step) is False
    with pytest.raises(BudgetExceeded):
        ledger.part("S01").spend(step, of=run)
    for _ in range(19):
        ledger.spend(step, of=run)


def test_a_run_of_the_whole_goes_on_at_no_cost_for_its_parts() -> None:
    step = subsampled_gaussian(1.0, population=100, batch_size=10)
    run, ledger = step.repeat(20), Ledger(Budget(50.0, 1e-4))
    ledger.spend(step, of=run)
    part = ledger.part("S01")
    part.spend(pure(0.25))

    def left() -> list[bool]:
        return [part.fits(pure(float(epsilon))) for epsilon in np.linspace(1.0, 50.0, 50)]

    before = left()
    for _ in range(19):
        ledger.spend(step, of=run)
    assert left() == before
    assert True in before
    assert False in before
    ledger.spend(step, of=run)  # one more than was planned
    assert left() != before


def test_fault_76_no_figure_of_a_ledger_with_parts_is_understated() -> None:
    """`spent` was the part that costs most at the ledger's delta, and showed too little at
    others.
    """
    ledger = Ledger(Budget(3.0, 1e-5))
    ledger.part("A").spend(gaussian(3.0))
    ledger.part("B").spend(pure(1.5))
    ledger.spend(pure(0.125))
    spent, parts = ledger.spent, list(ledger.parts.values())
    order = [np.argmax([p.epsilon(delta) for p in parts]) for delta in (0.0, 1e-9, 1e-5, 0.1, 0.3)]
    assert set(order) == {0, 1}
    for delta in (0.0, 1e-9, 1e-5, 0.1, 0.3):
        assert spent.epsilon(delta) == max(p.epsilon(delta) for p in parts)
        assert spent.group(3).epsilon(delta) == max(p.group(3).epsilon(delta) for p in parts)
        again = spent.compose(pure(0.5)).epsilon(delta)
        assert again >= max(p.compose(pure(0.5)).epsilon(delta) for p in parts)
    for epsilon in (0.0, 0.5, 1.5, 2.0):
        assert spent.delta(epsilon) == max(p.delta(epsilon) for p in parts)
    for rate in (0.0, 0.001, 0.01, 0.2):
        assert spent.trade_off().rate(rate) == max(p.trade_off().rate(rate) for p in parts)
    assert spent.trade_off().best_guess >= max(p.trade_off().best_guess for p in parts)
    assert spent.within(Budget(3.0, 1e-5))
    assert not spent.within(Budget(1.5, 1e-9))
    assert spent.for_people().epsilon(1e-5) == spent.epsilon(1e-5)
    assert "the most that any of 2 parts costs" in str(spent)
    assert ledger.remaining(1e-9) == 3.0 - spent.epsilon(1e-9)
    assert riemdp.privacy.Guarantee.from_dict(spent.to_dict()).epsilon(0.1) >= spent.epsilon(0.1)


# ------------------------------------------------------------------------- one run, one ledger
def _run(at_second_block: Callable[[], object]) -> riemdp.OptimizationResult:
    """A run of four blocks of noise, with something that another thread does at the second one."""
    space = riemdp.Euclidean(2)
    method = riemdp.DPRSGD(4, 24, 0.1, 1.0, sampling="allocation", adjacency="add-or-remove-one")
    draws = riemdp.NoiseSource.rounded_normals
    blocks: list[None] = []

    def drawn(*given: Any, **named: Any) -> Any:
        blocks.append(None)
        if len(blocks) == 2:
            thread = threading.Thread(target=at_second_block)
            thread.start()
            thread.join()
        return draws(*given, **named)

    problem = riemdp.problems.frechet_mean(space)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(riemdp.NoiseSource, "rounded_normals", drawn)
        result = riemdp.private_minimize(
            problem, ROWS[:, :2], np.zeros(2), method, Budget(2.0, 1e-6)
        )
    assert len(blocks) > 2
    return result


@pytest.mark.parametrize("then", ["none", "another"])
def test_fault_77_a_run_is_charged_to_the_ledger_that_it_began_with(then: str) -> None:
    """Every block asked anew which ledger it was of: what another thread opened or closed meanwhile
    took the rest, or nothing did.
    """
    book, other = Ledger(WHOLE), Ledger(WHOLE)
    riemdp.session_ledger(book)
    try:
        result = _run(lambda: riemdp.session_ledger(None if then == "none" else other))
    finally:
        riemdp.session_ledger(None)
    assert other.charges == 0
    assert book.spent.epsilon(1e-6) == pytest.approx(result.guarantee.epsilon(1e-6), rel=1e-9)


def test_a_run_of_no_ledger_is_not_charged_to_one_that_is_opened_meanwhile() -> None:
    book = Ledger(WHOLE)
    try:
        result = _run(lambda: riemdp.session_ledger(book))
    finally:
        riemdp.session_ledger(None)
    assert result.status == "completed"
    assert book.charges == 0


# ------------------------------------------------------------------------------- interrupted entry
def test_an_interrupt_while_a_ledger_is_entered_leaves_the_next_block_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was counted first and told later: after an interrupt in between, workers of the next block
    released, and nothing else did any more.
    """

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", interrupted)  # of the file that tells workers
        with pytest.raises(KeyboardInterrupt), Ledger(WHOLE):
            pass
    assert charge(pure(0.1)) is not None  # no block is open
    with Ledger(WHOLE):
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool, pytest.raises(InvalidArgument, match="worker process"):
            pool.apply(charge, (pure(0.1),))


@pytest.mark.parametrize("kind", ["pipe", "folder"])
@pytest.mark.parametrize("place", ["ledger.json", ".ledger.json.new"])
@pytest.mark.parametrize("opens", [lambda path: Ledger(WHOLE, path=path), Ledger.open])
def test_what_is_no_file_is_no_ledger(
    kind: str, place: str, opens: Callable[[Path], Ledger], tmp_path: Path
) -> None:
    """A pipe was waited for."""
    if kind == "pipe" and sys.platform == "win32":
        pytest.skip("there are no such pipes")
    path = tmp_path / "ledger.json"
    (tmp_path / place).mkdir() if kind == "folder" else os.mkfifo(tmp_path / place)
    said = within_a_minute(lambda: opens(path))
    assert said.startswith(f"RiemdpError: {tmp_path / place} is a folder, a pipe or a device")
    assert "remove or rename it" in said


# ------------------------------------------------------------------------------------ public labels
NAMES = [unicodedata.normalize(form, "Z\u00fcrich") for form in ("NFC", "NFD")]


@pytest.mark.parametrize("where", ["y", "classes", "domains"])
def test_a_public_name_in_two_forms_of_unicode_is_refused(where: str) -> None:
    """It was two classes, or two domains, to whom nobody belonged in full."""
    X, names = np.stack([np.eye(2)] * 60), np.array([*NAMES, "Bern"] * 20)
    given = {"budget": Budget(1.0, 1e-6), "ball": riemdp.Ball(np.eye(2), 1.0)}
    private = {"labels": "private", "classes": [*NAMES, "Bern"]}
    fit = {
        "domains": lambda: riemdp.PrivateTLCenter(**given).fit(X, domains=names),
        "y": lambda: riemdp.PrivateMDM(**given).fit(X, names),
        "classes": lambda: riemdp.PrivateMDM(**given, **private).fit(X, names),
    }[where]
    with Ledger(WHOLE) as ledger, pytest.raises(InvalidArgument, match=f"`{where}` has 'Z.rich'"):
        fit()
    assert ledger.charges == 0


@pytest.mark.parametrize("form", [0, 1])
def test_a_private_label_is_the_class_that_it_says_in_either_form(form: int) -> None:
    labels = [*NAMES, *[name.encode() for name in NAMES], "Zurich"]
    found = Doors.admit_labels("y", labels, ["Bern", NAMES[form]])
    assert found.tolist() == [1, 1, 1, 1, -1]
    assert Doors.public_classes("y", [NAMES[form], "Bern"]).tolist() == ["Bern", NAMES[form]]
