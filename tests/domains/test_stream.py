"""Records that are read in parts: the same decisions and values as in memory, sums without drift,
and nothing about a record in an error.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger, private_frechet_mean
from riemdp.statistics import AmbientMean, FrechetMean, FrechetVariance, TangentMean
from tests.seam import Doors, plant

SPACE = riemdp.SPDAffineInvariant(2)
BALL = Ball(np.eye(2), 1.0)
BUDGET = Budget(1.0, 1e-6)
N = 3000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts so small that a test needs many of them."""
    plant(monkeypatch, "rows of a part", 256)


@functools.cache
def records() -> np.ndarray:
    """Points, points outside the ball and on its edge, and what is no point."""
    a = np.random.default_rng(0).normal(size=(N, 2, 6))
    X = a @ a.transpose(0, 2, 1) / 6
    X[3], X[300] = np.nan, np.inf
    X[5], X[301] = -np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]])
    X[8] = 1e200 * np.eye(2)
    edge = np.exp(1.0 / math.sqrt(2.0))
    for i in range(40):
        X[400 + i] = np.nextafter(edge, 10.0 if i % 2 else 0.0) * np.eye(2)
    X[500:600] = X[500:600].astype(np.float32)
    return X


def mapped(folder, X: np.ndarray, name: str = "x.npy") -> np.memmap:
    np.save(folder / name, X)
    return np.load(folder / name, mmap_mode="r")


def test_which_records_are_replaced_is_decided_as_in_memory(tmp_path) -> None:
    X = records()
    query = FrechetMean(BALL.on(SPACE), N)
    there = query.prepare(X)
    in_parts = query.prepare(mapped(tmp_path, X))
    flags = np.concatenate(
        [np.asarray(query.frame.clamp_flagged(X[i : i + 256])[1]) for i in range(0, N, 256)]
    )
    assert np.array_equal(flags, np.asarray(there.outside))
    assert in_parts.count_outside == there.count_outside > 100


@pytest.mark.parametrize("kind", [FrechetMean, AmbientMean])
def test_what_is_kept_of_a_file_is_what_is_read_in_passes(tmp_path, monkeypatch, kind) -> None:
    query = kind(BALL.on(SPACE), N)
    kept = query.prepare(mapped(tmp_path, records()))
    plant(monkeypatch, "numbers that are kept of a file", 0)
    passes = query.prepare(mapped(tmp_path, records()))
    assert np.array_equal(query.value(kept), query.value(passes))
    assert kept.count_outside == passes.count_outside > 100


@pytest.mark.parametrize("kind", [FrechetMean, AmbientMean, TangentMean, FrechetVariance])
def test_a_value_is_that_of_records_in_memory(tmp_path, kind) -> None:
    X = records()
    query = kind(BALL.on(SPACE), N)
    whole = query.value(query.prepare(X))
    streamed = query.value(query.prepare(mapped(tmp_path, X)))
    assert np.max(np.abs(np.asarray(whole) - np.asarray(streamed))) < 1e-9


def test_a_mean_of_arrays_is_filled_up_to_the_lower_bound(tmp_path) -> None:
    X = records()[:300]
    query = AmbientMean(BALL.on(SPACE), 450, adjacency="add-or-remove-one")
    whole, parts = (query.value(query.prepare(x)) for x in (X, mapped(tmp_path, X)))
    np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-13)


# ------------------------------------------------------------------ sums
def test_the_sum_of_a_part_errs_less_than_its_bound() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4096, 3)) * 10.0 ** rng.integers(-8, 9, size=(4096, 1))
    found = Doors.pairwise_sum(x)
    for j in range(3):
        error = abs(Fraction(float(found[j])) - sum(map(Fraction, x[:, j].tolist())))
        assert error <= Fraction(2) ** -53 * 12 * Fraction(math.fsum(np.abs(x[:, j])))


def _plain(sums) -> float:
    total = 0.0
    for term in sums:
        total += term
    return total


def test_a_billion_records_are_summed_without_drift() -> None:
    """As many sums of parts as a billion records have, against exact arithmetic; without the
    correction the same sum errs more than the bound.
    """
    parts = 10**9 // (1 << 15)
    sums = np.random.default_rng(2).normal(size=parts) * 181.0 + 1e3
    total = Doors.Total()
    for term in sums:
        total.add(term)
    exact = sum(map(Fraction, sums.tolist()))
    lengths = Fraction(math.fsum(np.abs(sums)))
    allowed = Fraction(2) ** -53 * 2 * lengths
    assert abs(Fraction(float(total.value)) - exact) <= allowed
    assert abs(Fraction(_plain(sums)) - exact) > allowed


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_a_mean_errs_less_than_its_bound(n) -> None:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 2))
    w = rng.uniform(size=n)
    stream = Doors.Stream(Doors.Held(x), np.asarray, 256, weights=w)
    found = Doors.mean_of(stream, None, lambda points: points)
    weight = sum(map(Fraction, w.tolist()))
    for j in range(2):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(w, x[:, j], strict=True)) / weight
        length = sum(Fraction(a) * abs(Fraction(b)) for a, b in zip(w, x[:, j], strict=True))
        allowed = Fraction(Doors.streamed_error(256)) * length / weight
        assert abs(Fraction(float(found[j])) - exact) <= allowed


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 255, 257, 1000])
def test_a_mean_in_memory_errs_less_than_both_bounds(n, weighted) -> None:
    """It is added as that of a stream is; the sensitivity pays for more."""
    rng = np.random.default_rng(n)
    x, w = 0.1 + rng.uniform(size=(n, 2)), rng.uniform(size=n)
    shares = w / math.fsum(w) if weighted else np.full(n, 1.0 / n)
    query = AmbientMean(Ball(np.zeros(2), 2.0).on(riemdp.Euclidean(2)), n)
    if weighted:
        query = dataclasses.replace(query, weights=shares)
    prepared = query.prepare(x)
    found, weight = query.value(prepared), sum(map(Fraction, shares.tolist()))
    for j in range(2):
        pairs = zip(shares, np.asarray(prepared.points)[:, j], strict=True)
        exact = sum(Fraction(a) * Fraction(b) for a, b in pairs) / weight
        error = abs(Fraction(float(found[j])) - exact)
        assert error <= Fraction(Doors.streamed_error(256)) * abs(exact)
    domain = query.domain
    assert domain.rounding >= 2.0 * domain.radius * Doors.streamed_error()


class Damaged:
    """An array that looks like HDF5 and fails after a number of reads."""

    def __init__(self, X: np.ndarray, reads: float):
        self.X, self.reads = X, reads
        self.shape, self.dtype, self.ndim, self.chunks = X.shape, X.dtype, X.ndim, (100, 2, 2)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("the records were taken into memory")

    def __getitem__(self, rows: slice) -> np.ndarray:
        self.reads -= 1
        if self.reads < 0:
            raise OSError(f"checksum of {self.X[rows.start]} is wrong")
        return self.X[rows]


Damaged.__module__ = "h5py.fake"


@pytest.mark.parametrize("reads", [0, 25, 35])
def test_damage_in_the_middle_shows_nothing_and_costs_nothing(reads, monkeypatch) -> None:
    plant(monkeypatch, "numbers that are kept of a file", 0)  # so that there is more than one pass
    ledger = Ledger(Budget(2.0, 1e-5))
    with pytest.raises(InvalidArgument) as caught:
        private_frechet_mean(
            SPACE,
            Damaged(records(), reads),
            BALL,
            BUDGET,
            ledger=ledger,  # type: ignore[arg-type]
        )
    assert "checksum" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert ledger.spent.epsilon(1e-6) == 0.0


def test_what_is_read_tells_places_and_not_records(tmp_path, monkeypatch) -> None:
    """What is seen of the first pass is the same whatever the records are."""
    seen: list[list[int]] = []
    read = Doors.Map.read

    def watched(self, start: int, stop: int):
        seen[-1].append(stop)
        return read(self, start, stop)

    plant(monkeypatch, "a file's read", watched)
    for X in (records(), np.full_like(records(), np.nan)):
        seen.append([])
        query = TangentMean(BALL.on(SPACE), N)
        query.value(query.prepare(mapped(tmp_path, X)))
    assert seen[0] == seen[1] == [*range(256, N, 256), N]


# ------------------------------------------------------------------------------- hostile records
def hostile(space, radius: float, n: int, seed: int) -> np.ndarray:
    """Records on the edge of the ball, in two points; the first parts are in two others."""
    rng = np.random.default_rng(seed)
    y = np.empty((n, space.dim))
    for chosen in (np.arange(n), np.arange(n // 4), np.arange(n // 32)):
        u = rng.normal(size=(2, space.dim))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        side = (rng.random(len(chosen)) < rng.uniform(0.3, 0.7)).astype(int)
        y[chosen] = 0.999 * radius * u[side]
    return np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, y)))


class Unbounded(riemdp.Lorentz):
    """A space that knows no lower bound of its curvature."""

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        return -math.inf, -1.0

    def _resolution(self, center: np.ndarray, radius: float) -> float:
        return riemdp.Lorentz(self.n)._resolution(center, radius)


def test_a_ball_whose_mean_is_not_sure_to_be_found_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not sure to be found"):
        FrechetMean(Ball(Unbounded(3).origin, 1.0).on(Unbounded(3)), 4)


def test_in_a_large_dimension_the_mean_of_a_wide_ball_is_found(tmp_path) -> None:
    """At a radius of 5 an inverse Hessian of rank one was not sure to lead there."""
    space = riemdp.Lorentz(2100)
    y = np.zeros((4, space.dim))
    y[np.arange(4), np.arange(4)] = 4.9
    X = np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, y)))
    query = FrechetMean(Ball(space.origin, 5.0).on(space), 4)
    found = query.value(query.prepare(mapped(tmp_path, X)))
    mean = np.asarray(space.log(found, X)).mean(axis=0)
    assert query.tolerance is not None
    assert float(space.norm(found, mean)) <= query.tolerance + 1e-13


def test_blocks_of_a_dask_array_are_counted_and_masked_entries_are_none() -> None:
    block = np.arange(6.0).reshape(3, 2)
    said = {None: {"chunk-shape": (3, 2)}}
    np.testing.assert_array_equal(Doors.counted(block, block_info=said), block)
    for other in (block[:2], np.concatenate([block, block]), block[:, :1], block[None]):
        with pytest.raises(Doors.Miscounted):
            Doors.counted(other, block_info=said)
    masked = np.ma.MaskedArray(block, mask=block == 3.0)
    found = Doors.counted(masked, block_info=said)
    np.testing.assert_array_equal(np.isnan(found), block == 3.0)
