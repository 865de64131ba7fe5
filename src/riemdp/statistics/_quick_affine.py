"""Frechet mean of many SPD matrices, affine-invariant, without decomposing them: Newton's method
with logarithms and a Hessian that are made of products of matrices.

As in `_affine_mean`, a record is seen as W = L^-1 X L^-T from a point L L^T, and so is its inverse,
which is computed once. `manifolds._quick_logs` gives log W up to a bound, which is part of the
residual. Records near the point need shorter series than those far away, so they are handled in the
order of their distances, each part by its own series.

The Hessian (`_bend`) misses a thousandth or so, and so a step leaves a thousandth of the residual.
It is computed of all records at the first point, in single precision as everything there; at the
next points what it has changed by since is estimated from a quarter of them. That decides how fast
the iteration converges, and nothing else. Where the step that is about to be made is likely to be
the last one, its product with the Hessian of all records says how much of the residual it leaves,
and `_affine_mean.residual_after` what follows for the residual after it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from typing import Any

import numpy as np

from ..manifolds._quick_logs import LONGEST, inverses, reach_of, series, widths
from ._affine_mean import (
    LOOSE,
    SPREAD_FOR_PLAIN_EIGH,
    NotSuitable,
    Work,
    congruence,
    hessian_within,
    move,
    packing,
    residual_after,
    rooms,
    rough_mean,
    symmetric,
)
from ._bend import ARRAYS, ROUNDED, Bend, Moments, bend, moments, product
from ._newton import Found, View, damped_newton
from ._sums import pairwise
from ._threads import in_threads

Array = np.ndarray
Kind = type[np.floating[Any]]
SINGLE: Kind = np.float32
DOUBLE: Kind = np.float64

FEWEST = 2048  # records from which on this is faster
SMALLEST, LARGEST = 4, 20  # rows of records for which it is
PART, BYTES = 1024, 1 << 19  # records, and bytes of them, that are handled at once
_START = (256,)  # public sizes of subsamples
_SAMPLED = 4  # one in so many parts says how the Hessian changes
# the polynomial is fitted up to so many times the largest log-eigenvalue of this share of records
_WIDER, _USUAL = 1.9, 0.9
_ROUGH, _FINE = 1e-5, 1e-6  # what series may miss at first, and then in units of the last residual
_INVERSE = (
    1e-6  # what a product with an inverse may miss of the identity; it misses 1e-9 within reach
)
_SHARE = 0.25  # of the tolerance, at the end
_SINGLE = 1e-7  # what is left after a step is above this where it may be made in single precision
_LEFT, _LESS = 1e-3, 3.0  # what steps leave: of the first residual, and then of what the last left
_MISSED = 2e-3  # what the polynomial misses, or less
_CLOSE = 0.25  # the error of the Hessian up to which it has no small eigenvalue
_POOR = 0.03  # what may be left of a residual before the Hessian is computed again


@dataclasses.dataclass
class Seen:
    """Records seen from the start, with their inverses, weights and parts of them.

    Attributes:
        records: Symmetric positive definite matrices (n, k, k).
        inverses: Their inverses.
        weights: (n,), with sum 1.
        parts: The numbers of the records of each part, farthest first; in single precision twice as
            many are handled at once.
        usual: The largest log-eigenvalue of most records.
        logs: Their logarithms, where these are known already, and a bound of their errors.
    """

    records: Array
    inverses: Array
    weights: Array
    parts: dict[Kind, list[Array]]
    usual: float
    logs: tuple[Array, float] | None = None

    @staticmethod
    def farthest_first(
        records: Array, inverses: Array, weights: Array, width: Array, order: Array | None = None
    ) -> Seen:
        """In parts of similar `widths`; first those that take longest, which no thread then waits
        for at the end.
        """
        n = len(records)
        order = np.argsort(-width, kind="stable") if order is None else order
        parts = {kind: in_parts(order, part_size(records, kind)) for kind in (DOUBLE, SINGLE)}
        usual = reach_of(float(width[order[math.floor((1.0 - _USUAL) * (n - 1))]]))
        return Seen(records, inverses, weights, parts, usual)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What a look computes.

    Attributes:
        missing: What series may miss.
        kind: The precision of logarithms.
        moments: "all": those of the Hessian; "sampled": of the sampled parts; "none".
        kept: Where logarithms are kept, in single precision, for a product with the Hessian.
    """

    missing: float
    kind: Kind
    moments: str
    kept: Array | None = None


@dataclasses.dataclass
class _Part:
    """What a look finds of a part: weighted sums of logarithms; of bounds of their errors, of
    Hessians and of what the polynomial misses of those; the greatest length; and moments.
    """

    gradient: Array
    marks: Array
    spread: float
    moments: Moments | None


def suits(n: int, k: int) -> bool:
    """Whether so many records of k rows are better served by this than by decompositions."""
    return n >= FEWEST and SMALLEST <= k <= LARGEST


def quick_affine_mean(X: Array, weights: Any | None, tol: float, max_passes: int) -> Found[Array]:
    """The mean of X (n, k, k), with normalised weights (n,) or None. Deterministic.

    Raises:
        NotSuitable: A record is not finite, not symmetric or not positive definite, or lies too far
            from the mean, or logarithms are not that exact: see `_affine_mean`.
    """
    n = len(X)
    w = np.full(n, 1.0 / n) if weights is None else np.asarray(weights)
    try:
        with in_threads(-(-n // part_size(X))) as each, rooms() as room:
            work = Work(each, room)
            start = rough_mean(X, w, _START, work)
            records, back, width = whitened(X, np.linalg.inv(start), LOOSE, work)
            if not np.all(np.isfinite(width)):
                raise NotSuitable
            found = newton(Seen.farthest_first(records, back, w, width), tol, max_passes, work)
    except np.linalg.LinAlgError as error:
        raise NotSuitable from error
    return dataclasses.replace(
        found, value=symmetric(start @ found.value @ found.value.T @ start.T)
    )


def mean_of_seen(seen: Seen, tol: float, max_passes: int) -> Array | None:
    """The mean of records as they are seen from the identity; None where that was not found, and
    decompositions may find it.
    """
    with contextlib.suppress(NotSuitable, np.linalg.LinAlgError, ArithmeticError):
        with in_threads(len(seen.parts[DOUBLE])) as each, rooms() as room:
            found = newton(seen, tol, max_passes, Work(each, room))
        if found.residual <= tol:
            return symmetric(found.value @ found.value.T)
    return None


def newton(seen: Seen, tol: float, max_passes: int, work: Work) -> Found[Array]:
    """Damped Newton iteration from the identity; the value found is the mean's factor."""
    state = _Newton(seen, tol, work)
    return damped_newton(state.look, state.onwards, state.eye, tol, max_passes)


class _Newton:
    """An iteration: the Hessian that steps are made with, and what is expected of the next look."""

    def __init__(self, seen: Seen, tol: float, work: Work):
        self.seen, self.tol, self.work = seen, tol, work
        k = seen.records.shape[-1]
        self.eye = np.eye(k)
        self.rows, self.columns, self.scale = packing(k)
        self.finest = _SHARE * tol / math.sqrt(k)
        self.bend = bend(_WIDER * min(seen.usual, LONGEST))
        # of all records at the point where they were computed, and of the sampled parts there
        self.base: tuple[Moments, Moments] | None = None
        self.residual, self.left = math.inf, _LEFT

    # ------------------------------------------------------------------ coordinates
    def onwards(self, factor: Array, step: Array) -> Array:
        return move(factor, self.matrix(step))

    def matrix(self, step: Array) -> Array:
        """Of its orthonormal coordinates."""
        s = np.empty_like(self.eye)
        s[self.rows, self.columns] = s[self.columns, self.rows] = step / self.scale
        return s

    def vector(self, s: Array) -> Array:
        """Orthonormal coordinates of a matrix that is symmetric but for rounding."""
        return symmetric(s)[self.rows, self.columns] * self.scale

    # ------------------------------------------------------------------ looks
    def plan(self) -> _Plan:
        if self.residual == math.inf:
            return _Plan(_ROUGH, SINGLE, "all")
        expected = self.left * self.residual
        missing = max(self.finest, _FINE * self.residual)
        if _MISSED * expected <= 0.5 * self.tol < expected and self.base is not None:
            kept = np.empty(self.seen.records.shape, SINGLE)
            return _Plan(self.finest, DOUBLE, "none", kept)
        kind = SINGLE if self.left * expected > _SINGLE else DOUBLE
        few = self.base is None or len(self.seen.parts[SINGLE]) < 2 * _SAMPLED
        return _Plan(missing, kind, "all" if few else "sampled")

    def look(self, factor: Array) -> View[Array]:
        plan = self.plan()
        inverse = None if factor is self.eye else np.linalg.inv(factor)
        look_at = functools.partial(_look, self.seen, plan, self.bend, factor, inverse, self.work)
        parts = list(self.work.each(look_at, enumerate(self.seen.parts[plan.kind])))
        error, bound, missed = (float(mark) for mark in pairwise([p.marks for p in parts]))
        gradient = self.vector(pairwise([p.gradient for p in parts]))
        length = float(np.linalg.norm(gradient))
        too_rough = plan.missing == self.finest and not error <= 0.5 * self.tol
        if too_rough or not math.isfinite(length + error):
            raise NotSuitable
        hessian = self.hessian([p.moments for p in parts], plan, missed)
        # sums of what single precision holds may cancel to nothing
        self.remember(max(length, _SINGLE if plan.kind is SINGLE else 1e-300))

        def step() -> tuple[Array, float]:
            found = np.linalg.solve(hessian, gradient)
            if plan.kept is None:
                return found, math.inf
            image = self.product(plan.kept, self.matrix(found))
            left = float(np.linalg.norm(gradient - self.vector(image))) + error
            left += (missed + ROUNDED) * float(np.linalg.norm(found))
            return found, residual_after(found, left, bound)

        spread = max(p.spread for p in parts)
        return View(length + error, spread, gradient / hessian_within(spread), step)

    def remember(self, residual: float) -> None:
        """What is expected of the next look, from what the last step gained."""
        if self.residual < math.inf:
            gained = residual / self.residual
            self.left = min(_LEFT, _LESS * gained)
            if gained > _POOR:
                self.base = None  # too little: all of it again
        self.residual = residual

    def hessian(self, found: list[Moments | None], plan: _Plan, missed: float) -> Array:
        """What steps are made with: of all records, or as it was, or what it seems to have become
        by what it did for the sampled parts.
        """
        if plan.moments == "all":
            sampled = [m for i, m in enumerate(found) if is_sampled(i, plan.kind)]
            self.base = Moments.mean(found), Moments.mean(sampled or found)
        assert self.base is not None
        now, then = self.base
        if plan.moments == "sampled":
            now = now + (Moments.mean(found) - then)
        hessian = now.hessian(self.bend)
        if missed < _CLOSE:
            return hessian
        values, q = np.linalg.eigh(hessian)  # no Hessian has an eigenvalue below 1
        return (q * np.maximum(values, 1.0)) @ q.T

    def product(self, kept: Array, s: Array) -> Array:
        """The Hessian of all records, by its polynomial, times S."""
        weights = self.seen.weights.astype(SINGLE)

        def one(part: Array) -> Array:
            with self.work.room(kept[: len(part)], ARRAYS) as room:
                a = np.take(kept, part, axis=0, out=room[-1])
                return product(a, weights[part], self.bend, s, room)

        return pairwise(list(self.work.each(one, self.seen.parts[SINGLE])))


def part_size(X: Array, kind: Kind = DOUBLE) -> int:
    """How many records are handled at once: a public number, in single precision twice as many."""
    few = min(PART, max(4, BYTES // (8 * X.shape[-1] ** 2)))
    return few if kind is DOUBLE else 2 * few


def is_sampled(number: int, kind: Kind) -> bool:
    """Whether a part is one of those that say how the Hessian changes: the same records in either
    precision.
    """
    return (number if kind is SINGLE else number // 2) % _SAMPLED == 1


def in_parts(places: Array, size: int) -> list[Array]:
    """Numbers of records, so many at a time."""
    return [places[first : first + size] for first in range(0, len(places), size)]


def whitened(X: Array, whiten: Array, loose: float, work: Work) -> tuple[Array, Array, Array]:
    """whiten X whiten^T, their inverses and `widths`. The width is infinite, and both are the
    identity, where a record is not finite, not positive definite or not symmetric to `loose`.
    """
    n, k, _ = X.shape
    size = 2 * part_size(X)  # where little room is needed
    room = np.empty((2, *X.shape))
    records, back = room[0], room[1]
    width = np.empty(n)

    def one(first: int) -> None:
        part = slice(first, first + size)
        x, here, there = X[part], records[part], back[part]
        with work.room(x) as spare:
            bad = ~_symmetric_to(x, spare[0], loose)
            np.add(x, x.swapaxes(1, 2), out=here)
            here[bad] = 2.0 * np.eye(k)
            y = congruence(whiten, here, spare)
            np.add(y, y.swapaxes(1, 2), out=here)
            here *= 0.25
            bad |= ~inverses(here, spare.reshape(2, k, k, len(x)), there)
            bad |= ~_are_inverses(here, there, spare[0])
            here[bad] = there[bad] = np.eye(k)
            width[part] = np.where(bad, np.inf, widths(here, there, spare[0]))

    list(work.each(one, range(0, n, size)))
    return records, back, width


def _symmetric_to(x: Array, room: Array, loose: float) -> Array:
    """`symmetric_to` of matrices that are positive definite, whose largest entry stands on the
    diagonal; of others it may be anything.
    """
    n, k, _ = x.shape
    gap = np.subtract(x, x.swapaxes(1, 2), out=room).reshape(n, -1)
    size = x.reshape(n, -1)[:, :: k + 1].max(axis=1)
    return (size < np.inf) & (gap.max(axis=1) <= loose * size)  # False for NaN


def _are_inverses(x: Array, y: Array, room: Array) -> Array:
    """Whether each product is the identity, as far as that of such matrices may be."""
    n, k, _ = x.shape
    product = np.matmul(x, y, out=room).reshape(n, -1)
    trace = product[:, :: k + 1].sum(axis=1)
    # |P - I|^2 = |P|^2 - 2 tr P + k, to a rounding of k
    return np.einsum("ni,ni->n", product, product) - 2.0 * trace + k <= _INVERSE**2


def _look(
    seen: Seen,
    plan: _Plan,
    bend: Bend,
    factor: Array,
    inverse: Array | None,
    work: Work,
    numbered: tuple[int, Array],
) -> _Part:
    """What a look from a factor finds of a part; its number says whether it is sampled."""
    number, part = numbered
    n, k = len(part), len(factor)
    form = seen.records[:n]
    with work.room(form, ARRAYS, plan.kind) as room:
        a = room[-1]
        if inverse is None and seen.logs is not None:
            error = seen.logs[1]
            with work.room(form, 1, seen.logs[0].dtype) as taken:
                a[...] = np.take(seen.logs[0], part, axis=0, out=taken[0])
        else:
            error = _logs(seen, plan, factor, inverse, work, part, room, a)
        w, rows = seen.weights[part], a.reshape(n, -1)
        lengths = np.sqrt(np.einsum("ni,ni->n", rows, rows)).astype(np.float64)
        half = np.maximum(lengths / math.sqrt(2.0), 1e-8)
        marks = np.stack([np.full(n, error), half / np.tanh(half), bend.missed(lengths)]) @ w
        gradient = (w @ rows).reshape(k, k)
        found = _Part(gradient, marks, float(np.max(lengths)), None)
        if plan.kept is not None:
            plan.kept[part] = a
        if plan.moments == "all" or (plan.moments == "sampled" and is_sampled(number, plan.kind)):
            with work.room(form, ARRAYS + 1, SINGLE) as more:
                more[-1] = a
                found.moments = moments(more[-1], w.astype(SINGLE), bend, more)
    return found


def _logs(
    seen: Seen,
    plan: _Plan,
    factor: Array,
    inverse: Array | None,
    work: Work,
    part: Array,
    room: Array,
    out: Array,
) -> float:
    """The logarithms of a part seen from a factor into `out`, and a bound of their errors."""
    here, back = room[0], room[1]
    with work.room(here, 3, DOUBLE) as seen_from:
        for matrices, turn, found in (
            (seen.records, inverse, here),
            (seen.inverses, None if inverse is None else factor.T, back),
        ):
            taken = np.take(matrices, part, axis=0, out=seen_from[2])
            # A factor in single precision would be another point, for all records the same.
            found[...] = taken if turn is None else congruence(turn, taken, seen_from)
    return logs_of(here, back, plan.missing, work, room[2], out)


def logs_of(here: Array, back: Array, missing: float, work: Work, room: Array, out: Array) -> float:
    """The logarithms of matrices with these inverses into `out`, and a bound of their errors; what
    series miss of that is `missing` at most. `room` is one array like them.
    """
    # rounding of a width is far below what series are rounded up by
    quick = series(reach_of(float(np.max(widths(here, back, room)))), missing)
    if quick is None:
        return _decomposed(here, out)
    with work.room(here, quick.arrays) as more:
        quick.logs(here, back, more, out)
    return quick.error(here.shape[-1], here.dtype)


def _decomposed(x: Array, out: Array) -> float:
    """Logarithms, into `out`, of matrices for which there is no series; a bound of their errors."""
    k = x.shape[-1]
    values, q = np.linalg.eigh(x)
    ratio = float(np.min(values[:, 0] / values[:, -1]))
    if not ratio > SPREAD_FOR_PLAIN_EIGH:
        raise NotSuitable
    np.matmul(q * np.log(values)[:, None, :], q.swapaxes(1, 2), out=out)
    rounding = float(np.finfo(x.dtype).eps)
    return rounding * k * (8.0 * (1.0 - math.log(ratio)) + 4.0 / ratio)
