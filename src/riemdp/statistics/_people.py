"""One point a person: the mean of the person's own records, whatever they are and however many.

`people` is a function of each person's records alone, taken without their order. What follows it
sees one point a person and never how many records that was made of. So the sensitivities, noise and
guarantees for n records hold for n people, and neighbours differ in everything of one person.
Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import invalid
from ..domains import Domain
from ..domains._clamp import choose, flagged_batch, readable
from ..domains._door import admit_records
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ._membership import Membership
from ._quiet import whatever_is_set

_AT_ONCE = 512  # records of a compiled call; one person with more has a call of their own
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

    points: Point
    n: int
    outside: np.ndarray

    @property
    def count_outside(self) -> int:
        """How many people `outside` flags: one person changes it by at most 1."""
        return int(np.count_nonzero(self.outside))


@whatever_is_set
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

    Each person is computed alone: by a program whose shape is that of the person's own number of
    records (rounded up to a power of four), on these records sorted by their entries. So a person's
    point has the same bits whatever the others are and wherever the records stand in `X`.

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
    n = members.n
    leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, records))
    if not leaves:
        raise invalid("X", "given", "people need records that are arrays")
    flat = np.concatenate([leaf.reshape(rows, -1) for leaf in leaves], axis=1) if rows else None
    order, starts = members.by_person
    of_person = np.split(order, starts[1:])
    found = [np.full((n, *leaf.shape[1:]), np.nan) for leaf in leaves]
    outside = np.zeros(n, dtype=bool)
    sizes: dict[int, list[int]] = {}
    for i in range(n):
        sizes.setdefault(_room(len(of_person[i])), []).append(i)
    for size, members in sorted(sizes.items()):
        count = max(1, _AT_ONCE // size)
        for first in range(0, len(members), count):
            these = members[first : first + count]
            rows_of = [_sorted(of_person[i], flat) for i in these]
            used = np.zeros((count, size), dtype=bool)
            filled = [np.zeros((count, size, *leaf.shape[1:])) for leaf in leaves]
            for slot, own in enumerate(rows_of):
                used[slot, : len(own)] = True
                for to, leaf in zip(filled, leaves, strict=True):
                    to[slot, : len(own)] = leaf[own]
            batch = jax.tree.unflatten(tree, filled)
            ball = None if domain is None else (domain.center, domain.radius)
            points, flags = _one_by_one(manifold, ball, batch, used)
            for to, leaf in zip(found, jax.tree.leaves(points), strict=True):
                to[these] = np.asarray(leaf)[: len(these)]
            outside[these] = np.asarray(flags)[: len(these)]
    return People(jax.tree.unflatten(tree, found), n, outside)


def _room(count: int) -> int:
    """The least power of four that holds this many records: few programs are compiled."""
    return 4 ** -(-(count - 1).bit_length() // 2)


def _sorted(own: np.ndarray, flat: Any) -> np.ndarray:
    """A person's rows in the order of what stands in them."""
    return own if len(own) == 1 else own[np.lexsort(flat[own].T[::-1])]


@functools.partial(jax.jit, static_argnums=0)
def _one_by_one(
    manifold: AbstractManifold, ball: tuple[Point, Any] | None, x: Point, used: Array
) -> tuple[Point, Array]:
    """The points of some people, one after the other: the same program for each of them."""
    return jax.lax.map(lambda person: _one(manifold, ball, *person), (x, used))


def _one(
    manifold: AbstractManifold, ball: tuple[Point, Any] | None, x: Point, used: Array
) -> tuple[Point, Array]:
    center = manifold.origin if ball is None else ball[0]
    points, valid = readable(manifold, center, x)
    outside = ~valid
    if ball is not None:
        points, outside = flagged_batch(manifold, center, ball[1], points)
        outside |= ~valid
    valid &= used
    left = jnp.sum(valid)
    point = jax.tree.map(lambda leaf: leaf[jnp.argmax(valid)], x)
    if used.shape[0] > 1:
        start = jax.tree.map(lambda leaf: leaf[jnp.argmax(valid)], points)
        mean = _mean(manifold, points, valid / jnp.maximum(left, 1), start)
        point = choose(left == 1, point, mean)
    point = choose(left > 0, point, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), point))
    return point, 2 * jnp.sum(outside & used) > jnp.sum(used)


def _mean(manifold: AbstractManifold, points: Point, weights: Array, start: Point) -> Point:
    """Gradient descent on F = 1/2 sum w d^2 from one of the points, with steps that are shortened
    until F falls by a share of what its gradient promises; without that share steps that are twice
    too long go to and fro for ever. Where F no longer tells, its gradient has to. A fixed function
    of its arguments: how near it comes to a minimum touches accuracy alone.
    """

    def body(state: tuple[Array, Point, Array, Array, Array]) -> Any:
        k, p, y, f, step = state
        q = manifold._exp_coordinates(p, step * y)
        logs = manifold._log_coordinates(q, points)
        logs = jnp.where((weights > 0)[:, None] & jnp.isfinite(logs), logs, 0.0)
        y_q, f_q = weights @ logs, weights @ jnp.sum(logs**2, axis=-1)
        square = jnp.sum(y**2)  # f is 2 F
        shorter = jnp.sum(y_q**2) < (1.0 - 0.1 * step) * square
        better = (f_q < f - 2.0 * _FALL * step * square) | (shorter & (f_q <= f * (1.0 + _ROUNDED)))
        return (
            k + 1,
            choose(better, q, p),
            jnp.where(better, y_q, y),
            jnp.where(better, f_q, f),
            jnp.where(better, jnp.minimum(1.0, 1.5 * step), 0.5 * step),
        )

    def goes_on(state: tuple[Array, Point, Array, Array, Array]) -> Array:
        k, _, y, f, step = state
        # the first step has length 0 and only looks
        return (k == 0) | ((k < _STEPS) & (jnp.sum(y**2) > _NEAR**2 * f) & (step > 1e-6))

    far = jnp.asarray(jnp.inf)
    state = (jnp.asarray(0), start, jnp.zeros(manifold.dim), far, jnp.asarray(1.0))
    return jax.lax.while_loop(goes_on, body, state)[1]
