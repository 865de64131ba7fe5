"""A release is charged once, and before anything is drawn or shown: also where it is interrupted in
the middle of a draw, and where two threads release at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from riemdp import Guarantee, Ledger, NoiseSource

from .entries import RUNNING
from .entry import numbers
from .outcomes import SEED, a_place, charged, expected, valid
from .rows_of_commands import Exit
from .sources import NOISE, drawn_through

INTERRUPTED = 130  # the exit code of a command


def ids(entry):
    return entry.id


def is_own(entry, given, draw):
    """Whether a draw is of the call; rows that take no source make one, and plans of a sampler
    simulate with sources of their own.
    """
    return not entry.seeded or draw.source is given.rng


def is_iterate(entry, draw):
    """Which iterate is the output: a choice that looks at no record, made before the first block,
    as no step after it is taken.
    """
    return "one of the iterates" in entry.variant and draw.kind == "integers" and draw.number == 0


def place(entry):
    return a_place(entry, rng=NoiseSource(SEED)) if entry.seeded else a_place(entry)


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_everything_is_charged_once_and_before_the_first_draw(entry):
    """A run of several blocks of noise charges block by block: the first before it draws, and the
    sum is the guarantee of the whole.
    """
    wanted, seen = expected(entry), []
    with place(entry) as given:

        def look(draw):
            if is_own(entry, given, draw) and not is_iterate(entry, draw):
                seen.append(charged(on_disk(entry, given)))
            return draw.made()

        with drawn_through(look):
            entry.call(valid(entry), given)
        assert seen, "nothing was drawn, and the check is of nothing"
        assert charged(on_disk(entry, given)) == wanted.charged
    if entry.blocks:
        assert json.loads(seen[0])[0] == 1
        assert seen[-1] == wanted.charged
    else:
        assert set(seen) == {wanted.charged}, "a draw came before the charge, or between two"


def on_disk(entry, given):
    """The ledger, as another process would read it where it is a file."""
    return Ledger.open(given.folder / "ledger.json") if entry.files else given.ledger


@pytest.mark.parametrize("entry", [e for e in RUNNING if ".cli." in e.name], ids=ids)
def test_the_charge_is_on_disk_before_a_file_is_written(entry):
    """Whatever a command opens for writing beside its ledger comes after the charge."""
    wanted = expected(entry)
    with place(entry) as given:
        with written_in(given.folder, given.folder / "ledger.json") as written:
            entry.call(valid(entry), given)
        assert charged(on_disk(entry, given)) == wanted.charged
    of_release = [(size, spent) for name, size, spent in written if "released" in name]
    assert of_release, "no file was written, and the check is of nothing"
    _, last = of_release[-1]  # the one that is written; before, it is tried whether one can be
    assert last == json.loads(wanted.charged)[1]["parts"]
    assert all(spent == last for size, spent in of_release if size)


_watched = []  # hooks of audits cannot be taken out again: this one looks while something is here


def _opened(event, given):
    if event != "open" or not _watched or not isinstance(given[0], str):
        return
    folder, ledger, written = _watched[-1]
    if given[2] & (os.O_WRONLY | os.O_RDWR) and Path(given[0]).parent == folder:
        watched = _watched.pop()  # reading it is no event
        _, *charges = map(json.loads, ledger.read_text(encoding="utf-8").splitlines())
        spent = [part for charge in charges for part in charge["guarantee"]["parts"]]
        shown = [f.stat().st_size for f in folder.iterdir() if "released" in f.name]
        written.append((Path(given[0]).name, sum(shown), spent))
        _watched.append(watched)


@contextlib.contextmanager
def written_in(folder, ledger):
    """The files of a folder that are opened for writing, the bytes released by then, and what the
    ledger said.
    """
    if not hasattr(_opened, "installed"):
        sys.addaudithook(_opened)
        _opened.installed = True
    _watched.append((folder, ledger, []))
    try:
        yield _watched[-1][2]
    finally:
        _watched.clear()


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_what_is_interrupted_in_a_draw_is_charged_in_full_and_shows_nothing(entry):
    wanted = expected(entry)
    with place(entry) as given:
        shown = interrupted(entry, given, valid(entry))
        once = charged(on_disk(entry, given))
        if entry.blocks:
            assert json.loads(once)[0] == 1
        else:
            assert once == wanted.charged
        assert not (given.folder / "released.json").exists()
        entry.call(valid(entry), given, **entry.again)
        both = charged(on_disk(entry, given))
    check_sum(entry, both, [once, wanted.charged])
    if shown is not None:  # a run gives back where it was: the public point that it began at
        with place(entry) as given:
            other = interrupted(entry, given, entry.make(SEED + 1))
        assert np.array_equal(numbers(shown), numbers(other)), "what was not drawn was shown"


def interrupted(entry, given, data):
    """The row, with an interrupt in its first draw after a charge; what it returned, if it did."""

    def stop(draw):
        made = draw.made()  # the noise exists, and may have been seen
        if draw.kind in NOISE and is_own(entry, given, draw) and on_disk(entry, given).charges:
            stopped.append(draw.kind)
            raise KeyboardInterrupt
        return made

    stopped = []
    with drawn_through(stop):
        try:
            return entry.call(data, given)
        except KeyboardInterrupt:
            return None
        except Exit as ended:
            if ended.code != INTERRUPTED:
                raise
            return None
        finally:
            assert stopped, "nothing was interrupted"


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_two_threads_at_once_are_both_charged(entry):
    wanted, failed, ready = expected(entry), [], threading.Barrier(2)
    data = valid(entry)
    with a_place(entry) as given:

        def work(options):
            try:
                ready.wait(60)
                entry.call(data, given, **options)
            except BaseException as error:  # shown by the assertion below
                failed.append(repr(error))

        threads = [threading.Thread(target=work, args=(o,)) for o in ({}, entry.again)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not failed
        both = charged(on_disk(entry, given))
    check_sum(entry, both, [wanted.charged, wanted.charged])


def check_sum(entry, both, each):
    """What a ledger holds is the sum of two calls."""
    charges, spent = json.loads(both)
    (first, one), (second, other) = map(json.loads, each)
    if "one of the iterates" not in entry.variant:  # charged for the rest too, if there is one
        assert charges == first + second
    together = Guarantee.from_dict(one).compose(Guarantee.from_dict(other))
    delta = entry.budget.delta
    assert Guarantee.from_dict(spent).epsilon(delta) == pytest.approx(
        together.epsilon(delta), rel=1e-6
    )
