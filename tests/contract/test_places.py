"""What is released does not depend on where a record stands, on what kind of no record stands
beside it, or on whether the records come from memory or from a file: the same bits.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util

import numpy as np
import pytest

import riemdp

from . import data as d
from .entries import RUNNING
from .entry import BUDGET, COUNTED, numbers
from .noised import is_radial
from .outcomes import SEED, expected, outcome_of, valid
from .sources import drawn_through, silent

PLACES = (4, 30, 58)  # of one class and one domain, and each of a person of one record
ROWS = [entry for entry in RUNNING if not entry.value]
PART = 1 << 15  # records that are read together


def is_sampled(entry):
    """Whether it draws which records enter, by their places."""
    return any(name in entry.variant.lower() for name in ("rsgd", "rsvrg", "batches", "held out"))


def ids(entry):
    return entry.id


def released(entry, data):
    """All numbers of a release, with the same seed."""
    found = outcome_of(entry, data)
    assert found.ended == "returns", found.said
    return numbers(found.result)


def same(entry, one, other):
    """The same bits; or, where a mean is found by iteration or a radius is drawn, the same up to
    the order in which rounded numbers are added.
    """
    if is_radial(entry) or "private ball" in (entry.claim, entry.variant) or "xtrinsic" in entry.id:
        return bool(np.allclose(one, other, rtol=0.0, atol=1e-8))
    return np.array_equal(one, other)


@pytest.mark.parametrize("entry", [e for e in ROWS if not is_sampled(e)], ids=ids)
def test_the_same_record_at_every_place(entry):
    """All others are the same record, so that its place is all that changes."""
    records = np.array(entry.first(valid(entry)))
    one, found = records[PLACES[0]].copy(), []
    records[:] = still(records)
    for place in PLACES:
        moved = records.copy()
        moved[place] = one
        found.append(released(entry, entry.with_records(valid(entry), moved)))
    assert all(same(entry, found[0], other) for other in found[1:])


def still(records):
    """What adds nothing: the centre of the spaces, and for rows the zero."""
    shape = records.shape[1:]
    if shape == d.SHAPES.shape:
        return d.SHAPES.origin
    if len(shape) == 2:
        return np.eye(*shape)
    is_direction = np.allclose(np.linalg.norm(records, axis=1), 1.0)
    return np.asarray(d.SPHERE.origin) if is_direction else np.zeros(shape)


@pytest.mark.parametrize("entry", [e for e in ROWS if e.invalid == COUNTED], ids=ids)
def test_a_record_beside_what_is_no_record(entry):
    """NaN, infinities, and numbers that are no point beside it: whichever it is, the same bits."""
    records = np.array(entry.first(valid(entry)))
    kinds = [np.inf, -np.inf, *([0.0, 1e308, 5e-324] if records.ndim == 3 else [])]
    beside, mixed = records.copy(), records.copy()
    beside[6:24] = np.nan
    for place in range(6, 24):
        mixed[place] = kinds[place % len(kinds)]
    data = valid(entry)
    found = [released(entry, entry.with_records(data, x)) for x in (beside, mixed)]
    assert np.array_equal(*found)


def mapped(folder, records, name="records.npy"):
    """The same numbers, in a file."""
    np.save(folder / name, records)
    return np.load(folder / name, mmap_mode="r")


@pytest.mark.parametrize("entry", [e for e in ROWS if e.lists and not e.value], ids=ids)
def test_records_in_a_file(entry, tmp_path):
    """A mapped file, and a Dask array where that is installed, beside an array in memory."""
    data = valid(entry)
    records = np.asarray(entry.first(data))
    forms = [mapped(tmp_path, records)]
    if importlib.util.find_spec("dask") is not None:
        forms.append(importlib.import_module("dask.array").from_array(records, chunks=17))
    for form in forms:
        found = released(entry, entry.with_records(data, form))
        assert np.allclose(found, numbers(expected(entry).result), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("name", ["mean", "variance"])
@pytest.mark.parametrize("n", [1, PART - 1, PART, PART + 1])
def test_as_many_records_as_are_read_together(name, n, tmp_path):
    """One part, a record less and a record more: nothing is lost between parts, or counted twice.
    The last record is far from all others, which are the centre.
    """
    records = np.broadcast_to(np.eye(2), (n, 2, 2)).copy()
    records[-1] = np.diag([np.e, 1.0])
    options = {"ball": d.BALL, "budget": BUDGET, "rng": SEED}
    call = {
        "mean": functools.partial(riemdp.private_frechet_mean, mechanism="tangent-mean"),
        "variance": riemdp.private_frechet_variance,
    }[name]
    with drawn_through(silent):
        here = call(d.SPD, records, **options)
        there = call(d.SPD, mapped(tmp_path, records), **options)
    assert np.array_equal(numbers(here), numbers(there))
    assert float(np.linalg.norm(here.observation.coordinates)) == pytest.approx(1.0 / n, rel=1e-6)
