"""What worker processes do in tests/attacks/test_third_look_workers.py: as little as possible is
imported, because a process that is spawned imports all of it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import riemdp

LINE, BALL = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
RECORDS = np.linspace(0.0, 1.0, 50)[:, None]


def mean(budget: riemdp.Budget, ledger: riemdp.Ledger | None = None) -> str:
    """One release; what came of it."""
    return outcome(
        lambda: riemdp.private_frechet_mean(
            LINE, RECORDS, BALL, budget, mechanism="wrapped-gaussian", ledger=ledger
        )
    )


def own_mean(_: object = None) -> str:
    """One release with a budget that was not sent here."""
    return mean(riemdp.Budget(1.0, 1e-6))


def own_charge(_: object = None) -> str:
    """What a release does before it draws; for processes in which JAX was forked at work."""
    return outcome(lambda: riemdp.privacy.charge(riemdp.privacy.gaussian(5.0)))


def fit(estimator: Any, X: np.ndarray) -> str:
    """A fit of an estimator that was sent here, or of a clone."""
    from sklearn.base import clone

    return outcome(lambda: clone(estimator).fit(X))


def applied(estimator: Any, X: np.ndarray) -> np.ndarray:
    """What spends nothing."""
    repr(estimator), estimator.get_params()
    return np.asarray(estimator.transform(X))


def within(path: str, work: Callable[..., str], *given: Any) -> str:
    """The same work beside the ledger's own file."""
    with riemdp.Ledger.open(path):
        return work(*given)


def with_session(path: str | None) -> None:
    """What an initializer does: everything in this process is charged to the file."""
    riemdp.session_ledger(None if path is None else riemdp.Ledger.open(path))


def telling_file() -> Path:
    """The file that tells the processes below of the ledger that is open here, in a temporary
    folder that nobody else has.
    """
    (place,) = Path(tempfile.gettempdir()).glob("riemdp-open-ledger-*")
    return place


def others_in_its_place(kinds: list[str]) -> dict[str, str]:
    """What a process below says of something else in the place of that file, when no ledger is
    open.
    """
    with riemdp.Ledger(riemdp.Budget(1.0)):
        place = telling_file()
        told = place.lstat()
        assert stat.S_ISREG(told.st_mode)
        assert (stat.S_IMODE(told.st_mode), told.st_uid) == (0o600, os.geteuid())
        assert len(place.stem.rsplit("-", 1)[1]) == 32
    assert not place.exists()
    found = {}
    for kind in kinds:
        if kind == "link":
            place.symlink_to(__file__)
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        else:
            place.touch()
        if kind == "strange":
            os.chown(place, 12345, -1)
        found[kind] = below("spawn", own_charge)
        place.rmdir() if kind == "folder" else place.unlink()
    return found


def without_it() -> dict[str, str]:
    """What is said here and below when that file cannot be made, or was deleted."""
    found = {"before": below("spawn", own_charge)}
    ledger = riemdp.Ledger(riemdp.Budget(50.0, 1e-4))
    with ledger:
        place = telling_file()
        place.unlink()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                riemdp.privacy.charge(riemdp.privacy.gaussian(5.0))
        found["told"] = "; ".join(str(each.message) for each in caught)
        found["kept"] = str(telling_file() == place)
        found["below"] = below("spawn", own_charge)
    place.mkdir()
    for name, enter in (
        ("block", ledger.__enter__),
        ("session", lambda: riemdp.session_ledger(ledger)),
    ):
        found[name] = outcome(enter)
    place.rmdir()
    found["after"] = own_charge()
    found["charges"] = str(ledger.charges)
    return found


def loaded(pickled: bytes, work: Callable[..., str], *given: Any) -> str:
    """Work on a thing that was pickled before this process was asked."""
    import pickle

    return work(pickle.loads(pickled), *given)


def outcome(work: Callable[[], Any]) -> str:
    """ "released", or the name and the words of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            work()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "released"


_below: dict[str, Any] = {}


def below(method: str, work: Callable[..., str], *given: Any) -> str:
    """The same work in a process that this worker starts, by a method; it goes on living."""
    if method not in _below:
        _below[method] = executor(method)
    return _below[method].submit(work, *given).result(timeout=300)


def ended() -> None:
    """A worker would wait for the processes that it has started."""
    while _below:
        _below.popitem()[1].shutdown()


def executor(method: str) -> Any:
    """One process that may have processes of its own."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if method == "loky":
        from joblib.externals.loky import ProcessPoolExecutor as Loky

        return Loky(1)
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method))


def passed(thing: Any) -> Any:
    """A thing that was sent here, and goes back."""
    return thing


def passed_within(path: str, thing: Any) -> bytes:
    """A thing as it is pickled here beside the ledger's own file."""
    import pickle

    with riemdp.Ledger.open(path):
        return pickle.dumps(thing)


if __name__ == "__main__":  # a program that somebody starts
    print(own_charge())
    print(below("spawn", own_charge))
    ended()
