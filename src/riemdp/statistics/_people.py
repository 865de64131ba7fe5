"""One point a person: the mean of the person's own records, whatever they are and however many.

`people` is a function of each person's records alone, taken without their order. What follows it
sees one point a person and never how many records that was made of. So the sensitivities, noise and
guarantees for n records hold for n people, and neighbours differ in everything of one person.
Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .._errors import invalid
from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..domains import Domain
from ..domains._clamp import flagged_batch, readable
from ..domains._door import admit_records
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy._guarantee import PERSON
from ._membership import Membership

_BLOCK = 8  # records of one person that are taken together
_AT_ONCE = 64  # blocks that are taken together
_STEPS = 300  # of a person's mean: a handful where records lie close together
_FALL = 0.25  # the share of the fall that a gradient promises which a step has to bring
_ROUNDED = 1e-13  # relative, below which a fall of the objective is rounding
_NEAR = 1e-9  # its length of the mean logarithm, relative to the spread, at which it is found


@dataclasses.dataclass(frozen=True, eq=False)
class People:
    """One point a person.

    Attributes:
        points: (people, *manifold.shape), in the order of the labels. NaN for a person without one
            record that is a point of the space; what follows counts it as the center.
        n: The number of people.
        outside: Of which people more than half the records lay outside the ball or were no points,
            (people,). As private as the records.
    """

    unit: ClassVar[str] = PERSON

    points: Point
    n: int
    outside: np.ndarray

    @property
    def count_outside(self) -> int:
        """How many people `outside` flags: one person changes it by at most 1."""
        return int(np.count_nonzero(self.outside))


@isolated
def people(
    manifold: AbstractManifold,
    X: RecordsLike,
    groups: object,
    *,
    domain: Domain | None = None,
    at_least: int = 1,
) -> People:
    """The mean of each person's records.

    Records that are no points of the space are left out. With a `domain` each of the others is
    moved into its ball first. A person with one record that is left is that record, as it was
    given.

    Each person's records are sorted by their entries and cut into blocks of one public size, of
    which a public number is taken together. So a person's point has the same bits whatever the
    others are and wherever the records stand in `X`, and the shape of no array in between follows a
    number of records.

    Args:
        manifold: A space with a logarithm.
        X: The records as the user gave them; only the form of the whole is checked.
        groups: One label of a person for each record.
        domain: The public ball, or None.
        at_least: The smallest number of records that is accepted.

    Raises:
        InvalidArgument: The form of `X` or of `groups` is wrong. Nothing that a record holds, and
            not how many records there are, decides this; but for records of a file that are too
            large to be taken into memory, from their shape.
    """
    records, rows = admit_records(manifold, "X", X, at_least=at_least)
    members = Membership(groups, rows)
    n, counts = members.n, members.counts
    if not leaves(records):
        raise invalid("X", "given", "people need records that are arrays")
    order, starts = _in_order(members, leaves(records)), np.cumsum(counts) - counts
    x = map_leaves(lambda leaf: np.asarray(leaf)[order], records)
    ball = None if domain is None else (domain.center, domain.radius)
    points, valid, outside = _admitted(manifold, ball, x, starts, counts)
    owner = np.repeat(np.arange(n), counts)
    first, rows_of_points = np.zeros(n, dtype=np.int64), np.flatnonzero(valid)
    first[owner[rows_of_points[::-1]]] = rows_of_points[::-1]
    left = np.bincount(owner, weights=valid, minlength=n)
    found = map_leaves(lambda leaf: _or_nan(left > 0, leaf[first] if n else leaf), x)
    several = np.flatnonzero(left > 1)
    start = map_leaves(lambda leaf: leaf[first[several]], points)
    given = (starts[several], counts[several], left[several])
    means = _means(manifold, points, valid, start, *given)
    for to, leaf in zip(leaves(found), leaves(means), strict=True):
        to[several] = leaf
    return People(found, n, 2 * np.bincount(owner, weights=outside, minlength=n) > counts)


def _or_nan(given: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.where(given.reshape(-1, *[1] * (points.ndim - 1)), points, np.nan)


def _in_order(members: Membership, leaves: list[np.ndarray]) -> np.ndarray:
    """The rows person by person, those of one person in the order of what stands in them."""
    order, starts = members.by_person
    if len(order) == 0:
        return order
    flat = np.concatenate([leaf.reshape(len(order), -1) for leaf in leaves], axis=1)
    return np.concatenate([_sorted(own, flat) for own in np.split(order, starts[1:])])


def _sorted(own: np.ndarray, flat: np.ndarray) -> np.ndarray:
    return own if len(own) == 1 else own[np.lexsort(flat[own].T[::-1])]


# ------------------------------------------------------------------ blocks
@dataclasses.dataclass(frozen=True)
class _Blocks:
    """Some people's rows, cut into blocks.

    Attributes:
        who: Of which of these people each block is.
        rows: The rows of each block, (blocks, _BLOCK).
        used: Which of them are the person's.
    """

    who: np.ndarray
    rows: np.ndarray
    used: np.ndarray

    @staticmethod
    def all(starts: np.ndarray, counts: np.ndarray) -> Iterator[_Blocks]:
        """All blocks in order, a public number at a time; once no block where there is none, so
        that the same programs run.
        """
        many = -(-counts // _BLOCK)
        who = np.repeat(np.arange(len(counts)), many)
        begin = starts[who] + _BLOCK * (np.arange(len(who)) - (np.cumsum(many) - many)[who])
        end = (starts + counts)[who]
        for first in range(0, max(1, len(who)), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            rows = begin[some, None] + np.arange(_BLOCK)
            used = rows < end[some, None]
            yield _Blocks(who[some], np.where(used, rows, begin[some, None]), used)

    def filled(self, values: np.ndarray, filling: Any) -> np.ndarray:
        """One value a block, for a public number of blocks, in one layout: NumPy adds the entries
        of a row in another order where rows lie otherwise in memory (`concatenate` puts the entries
        of a single row far apart).
        """
        out = np.empty((_AT_ONCE, *values.shape[1:]), values.dtype)
        out[: len(self.who)], out[len(self.who) :] = values, filling
        return out


def _admitted(
    manifold: AbstractManifold, ball: Any, x: Point, starts: np.ndarray, counts: np.ndarray
) -> tuple[Point, np.ndarray, np.ndarray]:
    """The records moved into the ball, which are points, and which lay outside or are none."""
    points = map_leaves(lambda leaf: np.empty(leaf.shape), x)
    valid, outside = np.zeros((2, int(counts.sum())), dtype=bool)
    origin = manifold.origin
    for some in _Blocks.all(starts, counts):
        parts = map_leaves(
            lambda leaf, o, s=some: s.filled(_where_used(leaf[s.rows], s.used, o), o), x, origin
        )
        got, *flags = _admit(manifold, ball, parts)
        to, own = some.rows[some.used], len(some.who)
        for into, leaf in zip(leaves(points), leaves(got), strict=True):
            into[to] = np.asarray(leaf)[:own][some.used]
        for into, flag in zip((valid, outside), flags, strict=True):
            into[to] = np.asarray(flag)[:own][some.used]
    return points, valid, outside


def _where_used(x: np.ndarray, used: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """The records in the places that are used, a point in the others: zeros, of which a space of
    matrices has no decomposition, take ten times as long.
    """
    return np.where(used.reshape(*used.shape, *[1] * (x.ndim - 2)), x, origin)


def _admit(
    manifold: AbstractManifold, ball: tuple[Point, Any] | None, x: Point
) -> tuple[Point, np.ndarray, np.ndarray]:
    """Records of some blocks, (blocks, _BLOCK, ...)."""
    points, valid = readable(manifold, manifold.origin if ball is None else ball[0], x)
    if ball is None:
        return points, np.asarray(valid), ~np.asarray(valid)
    points, outside = flagged_batch(manifold, *ball, points)
    return points, np.asarray(valid), np.asarray(outside) | ~np.asarray(valid)


def _logs(
    manifold: AbstractManifold, p: Point, v: np.ndarray, x: Point, used: np.ndarray
) -> tuple[Point, np.ndarray, np.ndarray]:
    """Of some blocks: the ends of the steps v from p, and the sums of the logarithms there and of
    their squares.
    """
    q = map_leaves(np.asarray, manifold._exp_coordinates(p, v))
    each = map_leaves(lambda leaf: leaf[:, None], q)
    logs = np.asarray(manifold._log_coordinates(each, x))
    logs = np.where(used[..., None] & np.isfinite(logs), logs, 0.0)
    return q, np.sum(logs, axis=1), np.sum(logs**2, axis=(1, 2))


def _pass(
    manifold: AbstractManifold,
    p: Point,
    v: np.ndarray,
    points: Point,
    valid: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
) -> tuple[Point, np.ndarray, np.ndarray]:
    """`_logs` of all records of some people: their blocks are added in order."""
    origin, q = manifold.origin, map_leaves(np.array, p)
    owners, sums, squares = [], [], []
    for some in _Blocks.all(starts, counts):
        own, who = len(some.who), some.who
        parts = map_leaves(lambda x, o, s=some: s.filled(x[s.rows], o), points, origin)
        base = map_leaves(lambda x, o, s=some: s.filled(x[s.who], o), p, origin)
        counted = some.filled(valid[some.rows] & some.used, False)
        got, y, f = _logs(manifold, base, some.filled(v[who], 0.0), parts, counted)
        for into, leaf in zip(leaves(q), leaves(got), strict=True):
            into[who] = np.asarray(leaf)[:own]
        owners.append(who)
        sums.append(np.asarray(y)[:own])
        squares.append(np.asarray(f)[:own])
    begin = np.flatnonzero(np.diff(np.concatenate(owners), prepend=-1))
    if not len(begin):
        return q, np.zeros((0, manifold.dim)), np.zeros(0)
    y, f = np.concatenate(sums), np.concatenate(squares)
    return q, np.add.reduceat(y, begin, axis=0), np.add.reduceat(f, begin)


def _means(
    manifold: AbstractManifold,
    points: Point,
    valid: np.ndarray,
    start: Point,
    starts: np.ndarray,
    counts: np.ndarray,
    left: np.ndarray,
) -> Point:
    """Gradient descent on each person's F = 1/2 mean d^2 from one of the points, with steps that
    are shortened until F falls by a share of what its gradient promises; without that share steps
    that are twice too long go to and fro for ever. Where F no longer tells, its gradient has to. A
    fixed function of the person's records: how near it comes to a minimum touches accuracy alone.
    """
    p, m = map_leaves(np.array, start), len(counts)
    y, f, step = np.zeros((m, manifold.dim)), np.full(m, np.inf), np.ones(m)
    going = np.arange(m)  # the first step has length 0 and only looks
    for _ in range(_STEPS):
        here = map_leaves(lambda leaf, g=going: leaf[g], p)
        own = (starts[going], counts[going])
        of = y[going], f[going], step[going]
        q, y_q, f_q = _pass(manifold, here, of[2][:, None] * of[0], points, valid, *own)
        y_q, f_q = y_q / left[going][:, None], f_q / left[going]
        square = np.sum(of[0] ** 2, axis=-1)  # f is 2 F
        shorter = np.sum(y_q**2, axis=-1) < (1.0 - 0.1 * of[2]) * square
        better = f_q < of[1] - 2.0 * _FALL * of[2] * square
        better |= shorter & (f_q <= of[1] * (1.0 + _ROUNDED))
        for into, leaf in zip(leaves(p), leaves(q), strict=True):
            into[going[better]] = leaf[better]
        y[going[better]], f[going[better]] = y_q[better], f_q[better]
        step[going] = np.where(better, np.minimum(1.0, 1.5 * of[2]), 0.5 * of[2])
        far = np.sum(y[going] ** 2, axis=-1) > _NEAR**2 * f[going]
        going = going[far & (step[going] > 1e-6)]
        if not len(going):
            break
    return p
