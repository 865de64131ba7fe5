"""A search for a ball in records that are read in parts: the answers of records in memory."""

from __future__ import annotations

import os

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Budget, InvalidArgument, Ledger
from tests.mechanisms.numpy_search import unlimited
from tests.seam import Doors, Searches, plant

SPACE = riemdp.SPDAffineInvariant(2)
BUDGET = Budget(1.0, 1e-6)
N = 2000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    plant(monkeypatch, "rows of a part", 256)


@pytest.fixture
def both(tmp_path):
    a = np.random.default_rng(0).normal(size=(N, 2, 6))
    X = 5.0 * a @ a.transpose(0, 2, 1) / 6
    X[3], X[5] = np.nan, -np.eye(2)
    np.save(tmp_path / "x.npy", X)
    return X, np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in (2, 3))])
def test_a_ball_with_one_seed_is_the_same(both, seed) -> None:
    whole, streamed = (
        riemdp.private_ball(SPACE, X, AdaptiveBall(), BUDGET, rng=seed) for X in both
    )
    assert streamed.details["radii"] == pytest.approx(whole.details["radii"], rel=1e-9)
    assert streamed.details["scales"] == whole.details["scales"]
    assert np.max(np.abs(np.asarray(whole.value.center - streamed.value.center))) < 1e-9
    assert streamed.value.radius == pytest.approx(whole.value.radius, rel=1e-9)


@pytest.mark.parametrize("scale", [0.123, 0.0, -31.0, 1e9])
def test_a_scale_that_no_search_asks_for_is_counted_too(both, scale) -> None:
    """A server may ask for one, and a site must not fail after it has counted the question."""
    domain = AdaptiveBall().on(SPACE)
    whole = Searches.SearchRecords(domain, both[0], unlimited(BUDGET))
    streamed, _ = Doors.admit_in_parts(SPACE, "X", both[1])
    in_parts = Searches.StreamedRecords(domain, streamed, unlimited(BUDGET))
    assert in_parts.scales_below(0, scale) == whole.scales_below(0, scale)


def test_records_are_never_all_in_memory(both, monkeypatch) -> None:
    def fetched(self, start, stop):
        assert stop - start <= 256
        return self.read(start, stop)

    plant(monkeypatch, "a reader's fetch", fetched)
    riemdp.private_ball(SPACE, both[1], AdaptiveBall(), BUDGET, rng=1)


def test_what_cannot_be_read_after_the_charge_gives_no_value(both, tmp_path, monkeypatch) -> None:
    ledger, read = Ledger(Budget(2.0, 1e-5)), Doors.Map.read

    def gone(self: Doors.Map, start: int, stop: int):
        os.truncate(tmp_path / "x.npy", 200)
        return read(self, start, stop)

    plant(monkeypatch, "a file's read", gone)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        riemdp.private_ball(SPACE, both[1], AdaptiveBall(), BUDGET, ledger=ledger)
    assert ledger.spent.epsilon(1e-6) > 0.9
