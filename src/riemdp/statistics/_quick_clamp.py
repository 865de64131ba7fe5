"""The clamp of many SPD matrices, affine-invariant: only those that may lie outside the ball are
decomposed.

A logarithm by products of matrices (`manifolds._quick_logs`) has a length with a known error. Where
it is shorter than the radius by more than that, the record lies inside and stays what it is. All
others pass a program that decomposes them and decides who is moved and where to. What is not
symmetric, not positive definite or not finite passes that of `Frame.moving`, which a smaller data
set passes as a whole.

Which records pass them depends on all records, so it must not matter to any: the programs have one
public size (`domains._clamp.alike`), and give a record that lies inside back bit for bit. How many
pass shows in the time. It is the same public number, a share of all, unless more than so many need
it; then twice as many, and so on.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from ..domains import Domain
from ..domains._clamp import TIGHT, alike_on_host, moving
from ..manifolds import SPDAffineInvariant
from ..manifolds._decompositions import lapack_alone
from ..manifolds._quick_logs import LONGEST, inverses, series, widths
from ._affine_mean import NotSuitable, Work, rooms
from ._quick_affine import DOUBLE, SINGLE, Seen, in_parts, logs_of, part_size, suits, whitened
from ._threads import in_threads

Array = np.ndarray

_ACCURACY = 1e-6  # of the logarithms
_MARGIN = 1e-5  # beside the bound of their errors: how far inside a record is kept unseen, in radii
# radii for which single precision is fine enough, and series reach a little farther
_SMALLEST, _LARGEST = 0.01, LONGEST - 0.125
_SHARE = 64  # one in so many records is decomposed in any case
_CONDITION = 1e8  # of a center, up to which a record of the ball is well-conditioned where it lies


def suits_clamp(domain: Domain, n: int) -> bool:
    """Whether records are clamped here: a function of public facts."""
    m = domain.manifold
    if not (isinstance(m, SPDAffineInvariant) and suits(n, m.k) and lapack_alone()):
        return False
    values = np.linalg.eigvalsh(np.asarray(domain.center))
    return _SMALLEST <= domain.radius <= _LARGEST and bool(values[-1] <= _CONDITION * values[0])


def quick_clamp(domain: Domain, X: Array, w: Array | None) -> tuple[Seen, Array]:
    """Records (n, k, k) in the frame of the center, moved into the ball, as a mean of them begins;
    and which of them lay outside or were no points.

    Args:
        domain: A ball that `suits_clamp`.
        X: As they were admitted.
        w: Their shares in the mean; None where these are equal.
    """
    n, k, _ = X.shape
    shares = np.full(n, 1.0 / n) if w is None else w
    radius, center, local = domain.radius, np.asarray(domain.center), domain.frame.local
    whiten = np.linalg.inv(np.linalg.cholesky(0.5 * (center + center.T)))
    quick = series(radius, _ACCURACY)
    assert quick is not None
    # a shorter series may miss all that it is allowed to
    error = quick.error(k, SINGLE) + math.sqrt(k) * _ACCURACY
    near = (1.0 - _MARGIN) * radius - error
    with in_threads(-(-n // part_size(X))) as each, rooms() as room:
        work = Work(each, room)
        records, back, width = whitened(X, whiten, TIGHT, work)
        logs, length = np.empty(X.shape, SINGLE), np.full(n, np.inf)

        def look(part: Array) -> None:
            length[part] = _lengths(records, back, logs, work, part)

        def looked_at(places: Array) -> None:
            list(work.each(look, in_parts(places, part_size(X, SINGLE))))

        order = np.argsort(-width, kind="stable")
        looked_at(order[np.count_nonzero(~(width <= quick.top)) :])
        # The farthest ones, a public number of them, pass the programs that decide.
        unsure, count = n - int(np.count_nonzero(length <= near)), -(-n // _SHARE)
        while count < unsure:
            count *= 2
        count = min(count, n)
        chosen = np.argpartition(length, n - count)[n - count :]
        outside = np.zeros(n, bool)
        no_point = chosen[~np.isfinite(width[chosen])]
        for places, matrices, move in (
            (chosen, records, functools.partial(moving, local.manifold, local.center, radius)),
            (no_point, X, domain.frame.moving),  # what stands in their place has passed the first
        ):
            records[places], outside[places] = alike_on_host(move, matrices[places])
        here, there = records[chosen], np.empty((count, k, k))
        inverses(here, np.empty((2, k, k, count)), there)
        width[chosen] = widths(here, there, np.empty_like(here))
        back[chosen] = there
        looked_at(chosen)
    seen = Seen.farthest_first(records, back, shares, width, order)
    return dataclasses.replace(seen, logs=(logs, error)), outside


def _lengths(records: Array, back: Array, logs: Array, work: Work, part: Array) -> Array:
    """The lengths of the logarithms of some records, which are put into `logs`; infinite where one
    is no number.
    """
    form = logs[: len(part)]
    with work.room(form, 4) as room:
        with work.room(form, 1, DOUBLE) as taken:
            room[0] = np.take(records, part, axis=0, out=taken[0])
            room[1] = np.take(back, part, axis=0, out=taken[0])
        try:
            logs_of(room[0], room[1], _ACCURACY, work, room[2], room[3])
        except (NotSuitable, np.linalg.LinAlgError):  # no record is an event
            room[3] = np.nan
        logs[part] = room[3]
        rows = room[3].reshape(len(part), -1)
        found = np.sqrt(np.einsum("ni,ni->n", rows, rows))
    return np.where(np.isfinite(found), found, np.inf)
