"""A permit pays for the parts of one release, and for no more than was charged."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

import riemdp
from riemdp import Budget, Ledger, RiemdpError, gaussian, pure, subsampled_gaussian
from riemdp.privacy import charge


def test_parts_together_are_refused_before_the_draw():
    permit = charge(gaussian(1.0))
    permit.take(gaussian(2.0))
    with pytest.raises(RiemdpError, match="more than was charged"):
        permit.take(gaussian(1.1))
    for _ in range(3):
        permit.take(gaussian(2.0))
    with pytest.raises(RiemdpError):
        permit.take(gaussian(100.0))


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        (gaussian(1.0), pure(1e-3)),
        (pure(1.0), gaussian(1e3)),
        (gaussian(1.0), gaussian(2.0).for_people()),
        (gaussian(1.0).for_people(), gaussian(2.0)),
        (gaussian(1.0), gaussian(2.0, adjacency="add-or-remove-one")),
        (gaussian(1.0), gaussian(2.0).assuming("the server is honest")),
        (gaussian(1.0), riemdp.privacy.none()),
        (subsampled_gaussian(2.0, population=100, batch_size=10).repeat(3), gaussian(50.0)),
    ],
)
def test_a_part_that_protects_something_else_is_refused(whole, part):
    with pytest.raises(RiemdpError, match="more than was charged"):
        charge(whole).take(part)


def test_parts_that_see_other_records():
    """Parallel composition: every part may have the whole."""
    one = charge(gaussian(1.0)).among_parts()
    for _ in range(5):
        one.take(gaussian(1.0))
    with pytest.raises(RiemdpError):
        one.take(gaussian(0.99))
    used = charge(gaussian(1.0))
    used.take(gaussian(4.0))
    with pytest.raises(RiemdpError):  # only as a whole
        used.among_parts()


def test_a_run_in_blocks_is_a_part_too():
    step = subsampled_gaussian(2.0, population=100, batch_size=10)
    permit = charge(step.repeat(5))
    permit.take(step.repeat(2))
    permit.take(step.repeat(3))
    with pytest.raises(RiemdpError):
        permit.take(step)


def test_a_permit_ends_with_its_release():
    with charge(gaussian(1.0)) as permit:
        each = permit.among_parts()
    for over in (permit, each):
        with pytest.raises(RiemdpError, match="is over"):
            over.take(gaussian(5.0))


def test_a_permit_is_not_copied_and_stays_in_its_process():
    permit = charge(gaussian(1.0))
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="copied"):
            escape(permit)
    child = os.fork()
    if child == 0:
        try:
            permit.take(gaussian(5.0))
        except RiemdpError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_charge_has_a_random_id_that_its_ledger_holds(tmp_path):
    memory, file = Ledger(Budget(9.0, 1e-5)), Ledger(Budget(9.0, 1e-5), path=tmp_path / "l.json")
    ids = set()
    for ledger in (memory, file, None):
        receipts = [charge(gaussian(5.0), ledger).receipt for _ in range(3)]
        ids |= {receipt.id for receipt in receipts}
        assert [receipt.in_ledger for receipt in receipts] == 3 * [ledger is not None]
        for book in (memory, file):
            assert {book.holds(r.id) for r in receipts} == {book is ledger}
    assert len(ids) == 9
    assert {entry.run for book in (memory, file) for entry in book.entries} < ids
    assert all(Ledger.open(tmp_path / "l.json").holds(entry.run) for entry in file.entries)


def test_a_run_has_one_id(tmp_path):
    ledger, step = Ledger(Budget(2.0, 1e-6), path=tmp_path / "l.json"), gaussian(50.0)
    first = charge(step, ledger, of=step.repeat(3)).receipt
    charge(gaussian(60.0), ledger)  # something else in between
    for _ in range(2):
        charge(step, ledger, of=step.repeat(3), run=first.id)
    assert [e.run == first.id for e in ledger.entries] == [True, False, True, True]


def test_an_optimiser_has_one_id(tmp_path):
    """Its noise is charged in blocks; a draw of the iterate ("uniform") is charged at the end."""
    ledger, X = Ledger(Budget(2.0, 1e-4), path=tmp_path / "l.json"), np.zeros((50, 2))
    plane, ball = riemdp.Euclidean(2), riemdp.Ball(np.zeros(2), 1.0)
    problem = riemdp.problems.frechet_mean(plane, ball=ball)
    optimizer = riemdp.DPRSGD(40, 5, 0.1, 1.0, output="uniform")
    for _ in range(2):
        done = riemdp.private_minimize(
            problem, X, np.zeros(2), optimizer, Budget(0.5, 1e-5), ledger=ledger, rng=3
        )
        assert done.receipt is not None
        assert ledger.entries[-1].run == done.receipt.id
    assert len({entry.run for entry in ledger.entries}) == 2
    assert ledger.charges >= 3
