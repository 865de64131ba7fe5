"""A refusal spends, draws and writes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings

import numpy as np
import pytest

from riemdp import Budget, BudgetExceeded, NoiseSource, privacy

from .entries import ENTRIES, RUNNING
from .outcomes import SEED, a_place, valid

ALMOST_NOTHING = Budget(1e-3, 1e-9)


def files(folder):
    """What lies in a folder, to the byte."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def drawn(source):
    """What a source gives next, which depends on what was drawn from it before."""
    return [*source.normals(3), *source.uniforms(3)]


@contextlib.contextmanager
def a_used_place(entry, **changed):
    """A folder with records and a ledger that holds a charge, and its file and lock with it."""
    with a_place(entry, on_disk=True, **changed) as given:
        little = privacy.pure(1e-5, adjacency=entry.adjacency)
        given.ledger.spend(little.for_people() if entry.people else little)
        np.save(given.folder / "records.npy", np.asarray(entry.first(valid(entry))))
        if "groups" in valid(entry) and not entry.sites:
            np.save(given.folder / "people.npy", valid(entry)["groups"])
        yield given


@contextlib.contextmanager
def nothing_happens(entry, place, what=""):
    """In this block the ledger, its file, the folder and the source stay as they are."""
    rng = NoiseSource(SEED) if entry.seeded else SEED
    before = place.ledger.entries, files(place.folder)
    yield dataclasses.replace(place, rng=rng)
    assert place.ledger.entries == before[0], what
    after = files(place.folder)
    assert sorted(after) == sorted(before[1]), f"{what}: a file was written"
    assert after == before[1], what
    if isinstance(rng, NoiseSource):
        assert drawn(rng) == drawn(NoiseSource(SEED)), f"{what}: something was drawn"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.id)
def test_a_refusal_spends_draws_and_writes_nothing(entry, monkeypatch):
    if entry.needs:
        pytest.importorskip(entry.needs)
    with a_used_place(entry) as place:
        monkeypatch.chdir(place.folder)
        for refusal in entry.refusals:
            with nothing_happens(entry, place, refusal.id) as given:
                said = ""
                try:
                    entry.call(valid(entry), given, **refusal.options)
                except refusal.error as refused:
                    said = str(refused)
                assert said, f"{refusal.id}: not refused, or without a word"


@pytest.mark.parametrize("entry", RUNNING, ids=lambda e: e.id)
def test_a_ledger_with_too_little_refuses_before_anything_is_drawn_or_written(entry):
    with (
        a_used_place(entry, whole=ALMOST_NOTHING) as place,
        nothing_happens(entry, place) as given,
    ):
        with pytest.raises(Exception) as refused:
            entry.call(valid(entry), given)
        assert isinstance(refused.value, BudgetExceeded) or getattr(
            refused.value, "code", type(refused.value).__name__
        ) in (3, "Refused"), refused.value


@pytest.mark.parametrize(
    "budget", [Budget(1e-13), Budget(1e-13, 1e-300)], ids=["pure", "approximate"]
)
@pytest.mark.parametrize("entry", RUNNING, ids=lambda e: e.id)
def test_a_budget_of_almost_nothing_is_served_or_refused_before_the_charge(entry, budget):
    """Its noise may be more than a grid holds, which was found out while it was drawn."""
    if entry.needs:
        pytest.importorskip(entry.needs)
    with a_place(entry, budget=budget) as given, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        served = False
        with contextlib.suppress(Exception, SystemExit):
            entry.call(valid(entry), given)
            served = True
        assert served or given.ledger.charges == 0


@pytest.mark.parametrize("entry", [e for e in RUNNING if e.seeded], ids=lambda e: e.id)
def test_a_release_draws_from_the_source_that_it_is_given(entry):
    """Without this the check above could not fail."""
    source = NoiseSource(SEED)
    with a_place(entry, rng=source) as given:
        entry.call(valid(entry), given)
    assert drawn(source) != drawn(NoiseSource(SEED))
