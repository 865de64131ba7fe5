"""Third look: work in other processes and threads while a ledger is open.

Everything here is made up, and small: a refusal computes nothing, and one process serves several
checks.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import FeatureUnion, make_pipeline

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, PrivatePCA
from tests.attacks import workers
from tests.attacks.workers import RECORDS, mean, own_charge, own_mean
from tests.seam import Means

ONE, WHOLE = Budget(1.0, 1e-6), Budget(50.0, 1e-4)
ROWS = np.random.default_rng(0).normal(size=(24, 3))
LABELS = np.arange(24) % 2
NEVER = "is open in|worker process"
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def pca(**given) -> PrivatePCA:
    return PrivatePCA(1, row_norm=3.0, budget=ONE, **given)


def classifier():
    return make_pipeline(pca(), DummyClassifier())


def refused(said: str) -> bool:
    return said.startswith("InvalidArgument") and "Nothing was" in said


# ------------------------------------------------------------------------------------ scikit-learn
def folds() -> None:
    cross_validate(classifier(), ROWS, LABELS, cv=8, n_jobs=2)


def grid() -> None:
    values = {"privatepca__row_norm": [1.0, 2.0, 3.0]}
    GridSearchCV(classifier(), values, cv=2, n_jobs=2).fit(ROWS, LABELS)


def bag() -> None:
    BaggingClassifier(classifier(), 4, n_jobs=2).fit(ROWS, LABELS)


def union() -> None:
    FeatureUnion([("a", pca()), ("b", pca())], n_jobs=2).fit(ROWS)


# What raises in a worker of loky ends the workers, which are slow to start: so few of these.
@pytest.mark.parametrize(
    ("backend", "jobs", "in_file"),
    [
        ("loky", (folds, grid, union), False),
        ("loky", (bag,), True),
        ("threading", (folds, grid, union, bag), True),
    ],
)
@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_fault_65_no_fit_of_a_worker_is_charged_to_nothing(backend, jobs, in_file, tmp_path):
    """16 of 20 folds were fitted in worker processes beside a ledger that showed 0; in a
    FeatureUnion and a BaggingClassifier, all.
    """
    ledger = Ledger(WHOLE, path=tmp_path / "ledger.json" if in_file else None)
    for job in jobs:
        # scikit-learn tells of folds that all failed by a ValueError with their error in it
        with joblib.parallel_backend(backend), ledger, pytest.raises(ValueError, match=NEVER) as e:
            job()
        assert ledger.charges == 0
        assert "n_jobs=1" in str(e.value)
        assert "session_ledger" in str(e.value)


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_fault_65_without_workers_the_same_calls_are_charged():
    with Ledger(WHOLE) as ledger:
        cross_validate(classifier(), ROWS, LABELS, cv=2, error_score="raise")
        assert ledger.charges == 2
        FeatureUnion([("a", pca()), ("b", pca())]).fit(ROWS)
        assert ledger.charges == 4


# --------------------------------------------------------------------------------- multiprocessing
def ask(pool, work, *given):
    """What a process of a pool says, if it says anything."""
    return pool.apply_async(work, given).get(timeout=300)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_fault_65_no_process_of_a_pool_releases_beside_a_ledger(method: str, tmp_path):
    """Every release in a process by spawn or forkserver was charged to nothing, without a word.
    Here the process is there before the ledger is opened, and sees none of its environment.
    """
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    path = str(tmp_path / "ledger.json")
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert ask(pool, own_charge) == "released"  # no ledger is open
        with Ledger(WHOLE, path=path) as ledger:
            fitted = pca().fit(ROWS)
            assert ledger.charges == 1
            assert refused(ask(pool, own_charge))  # the process that started it says so
            assert refused(ask(pool, mean, ONE))
            assert refused(ask(pool, workers.fit, pca(), ROWS))
            there = ask(pool, workers.applied, fitted, ROWS)
            np.testing.assert_allclose(there, fitted.transform(ROWS))
            assert ask(pool, workers.within, path, mean, ONE) == "released"
            assert ask(pool, workers.within, path, workers.fit, pca(), ROWS) == "released"
            assert ledger.charges == 3
            saved, budget = pickle.dumps(fitted), pickle.dumps(ONE)
        ask(pool, workers.with_session, path)
        assert ask(pool, own_charge) == "released"
        assert ask(pool, workers.loaded, saved, workers.fit, ROWS) == "released"
        ask(pool, workers.with_session, None)
        assert ledger.charges == 5
        # the ledger is closed: what was pickled beside it still says so
        assert refused(ask(pool, workers.loaded, saved, workers.fit, ROWS))
        assert refused(ask(pool, workers.loaded, budget, mean))


@needs_fork
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_fault_65_no_forked_process_releases_beside_a_ledger(tmp_path):
    """Each way to know of a ledger is enough by itself. Nothing here computes with JAX, which was
    at work when the process was forked.
    """
    path = str(tmp_path / "ledger.json")
    fork = multiprocessing.get_context("fork")
    with fork.Pool(1) as pool:
        assert ask(pool, own_charge) == "released"
        with Ledger(WHOLE, path=path) as ledger:
            sent, estimator = pickle.dumps(ONE), pickle.dumps(pca())
            assert refused(ask(pool, own_charge))  # the process that started it says so
            assert ask(pool, workers.within, path, own_charge) == "released"
            with fork.Pool(1) as inside:
                assert ask(inside, own_charge) == "released"  # its copy follows the file
            assert ledger.charges == 2
            with ThreadPoolExecutor(1) as threads:  # forks where the ledger is not seen
                assert refused(threads.submit(forked_charge).result())
        with Ledger(WHOLE), fork.Pool(1) as inside:
            assert "is in the memory of process" in ask(inside, own_charge)
        assert ask(pool, own_charge) == "released"
        assert refused(ask(pool, workers.loaded, estimator, workers.fit, ROWS))
        assert refused(ask(pool, workers.loaded, sent, mean))
        assert ask(pool, workers.loaded, sent, own_charge) == "released"  # with its own budget


def forked_charge() -> str:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return ask(pool, own_charge)


def test_a_program_that_is_started_beside_a_ledger_is_free_and_so_are_its_workers():
    """It was free, and its workers refused."""
    with Ledger(WHOLE):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.attacks.workers"],
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.stdout.splitlines() == ["released", "released"], ran.stderr[-2000:]


# ------------------------------------------------------------------------- a saved model, a thread
@needs_fork
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
def test_fault_65_a_model_saved_beside_a_ledger_predicts_and_refuses_to_fit():
    """In a process that is nobody's worker. What is made anew there is free."""
    with Ledger(WHOLE):
        saved = pickle.dumps((pca().fit(ROWS), make_pipeline(pca()), ONE))

    def look() -> None:
        fitted, pipeline, budget = pickle.loads(saved)
        assert fitted.transform(ROWS).shape == (24, 1)
        repr(fitted)
        for work in (
            lambda: fitted.fit(ROWS),
            lambda: pickle.loads(saved)[0].set_params(budget=Budget(2.0, 1e-6)).fit(ROWS),
            lambda: clone(pipeline).fit(ROWS),
            lambda: pickle.loads(pickle.dumps(fitted)).fit(ROWS),
            lambda: pca().set_params(budget=budget).fit(ROWS),
            lambda: clone(clone(fitted).set_params(budget=Budget(2.0, 1e-6))).fit(ROWS),
            lambda: riemdp.private_frechet_mean(workers.LINE, RECORDS, workers.BALL, budget),
            lambda: riemdp.optimizers.private_principal_eigenvector(ROWS, budget),
        ):
            with pytest.raises(InvalidArgument, match="none is open here"):
                work()
        Means.required(pca(), budget=ONE)
        with Ledger(WHOLE):
            Means.required(clone(fitted), budget=budget)
        assert own_charge() == "released"
        assert (budget, hash(budget), repr(budget)) == (ONE, hash(ONE), repr(ONE))

    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(120)
            look()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    fitted, *_ = pickle.loads(saved)
    fitted.fit(ROWS)  # in the process of that ledger nothing is in the way


def test_fault_65_no_thread_releases_beside_a_ledger_that_it_does_not_see():
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(own_mean).result() == "released"
        with Ledger(WHOLE) as ledger:
            said = threads.submit(own_mean).result()
            assert refused(said)
            assert "another thread" in said
            assert threads.submit(mean, ONE, ledger).result() == "released"
            assert ledger.charges == 1
        book = riemdp.session_ledger(WHOLE)
        try:
            assert threads.submit(own_mean).result() == "released"
            assert book is not None
            assert book.charges == 1
        finally:
            riemdp.session_ledger(None)
        # what this thread does may have been begun inside the block
        assert refused(threads.submit(own_mean).result())
        assert threads.submit(mean, ONE, Ledger(WHOLE)).result() == "released"
    with ThreadPoolExecutor(1) as later:
        assert later.submit(own_mean).result() == "released"


def test_fault_65_workers_refuse_as_long_as_any_ledger_is_open():
    """Nested, interleaved, in other threads."""
    entered, leave = threading.Event(), threading.Event()

    def beside() -> None:
        with Ledger(WHOLE):
            entered.set()
            leave.wait(60.0)

    other = threading.Thread(target=beside)
    with workers.executor("spawn") as pool:

        def said() -> str:
            return pool.submit(own_charge).result(timeout=300)

        with Ledger(WHOLE):
            other.start()
            assert entered.wait(60.0)
            with Ledger(WHOLE):
                riemdp.session_ledger(WHOLE)
            assert refused(said())
        riemdp.session_ledger(WHOLE)
        riemdp.session_ledger(None)
        assert refused(said())  # the other thread's is open
        leave.set()
        other.join()
        assert said() == "released"
    assert own_charge() == "released"


# --------------------------------------------------------------------------------------------- dask
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_fault_65_no_task_of_dask_releases_beside_a_ledger(tmp_path):
    distributed = pytest.importorskip("distributed")
    path = str(tmp_path / "ledger.json")
    kept = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**kept) as cluster, distributed.Client(cluster) as client:

        def asked(work, *given):
            return client.submit(work, *given, pure=False).result()

        assert asked(own_mean) == "released"
        with Ledger(WHOLE, path=path) as ledger:
            assert refused(asked(own_mean))
            assert refused(asked(mean, ONE))
            assert refused(asked(workers.fit, pca(), ROWS))
            assert asked(workers.within, path, mean, ONE) == "released"
            assert ledger.charges == 1


def test_fault_65_what_is_made_of_a_budget_that_was_sent_has_its_mark():
    """Parts of it, and a mechanism that was pickled with it."""
    sent = Budget(1.0, 1e-6)
    sent.__dict__["_pickled_beside_ledger_of"] = "another process"
    line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
    for part in (sent, *riemdp.privacy.split_budget(sent, [0.5, 0.5])):
        with pytest.raises(InvalidArgument, match="pickled while a ledger was open"):
            riemdp.private_frechet_mean(line, np.zeros((9, 1)), ball, part)
    mechanism = riemdp.WrappedGaussian(line, np.zeros(1), sensitivity=1.0, budget=sent)
    with pytest.raises(InvalidArgument, match="pickled while a ledger was open"):
        mechanism.release(np.zeros(1))
    with Ledger(Budget(9.0, 1e-5)) as ledger:
        mechanism.release(np.zeros(1))
    assert ledger.charges == 1
