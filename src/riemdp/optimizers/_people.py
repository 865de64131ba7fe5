"""Records of people, as every optimiser takes them: one entry a person, of a public shape.

What a person contributes to a step is the mean of the clipped contributions of that person's
records. It is no longer than the clip norm, as one record's is, and it depends on that person
alone. So sensitivities, batches and guarantees for n records hold for n people, whatever the
numbers of their records are. Proof: docs/proofs/people.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._errors import InvalidArgument
from .._isolation import isolated
from ..manifolds._base import Point
from ..problems._frechet import Weighted
from ..problems._problem import Batch, Problem
from ..randomness import NoiseSource
from ..statistics._membership import Membership

MOST = 16  # records of one person that enter a run
PERSON_IS = "one gradient each: the mean of the clipped gradients of that person's records"


class Whose(NamedTuple):
    """Whose the records are: one label of a person for each, and how many of one person enter."""

    groups: object
    places: int


class Grouped(NamedTuple):
    """People: each has the same public number of places for records.

    `shares` is 1 / k at the k places that hold records of the person, and 0 at the others, which
    hold copies. The leading axis of all leaves are people, so batches of people are drawn, and cut
    into chunks, as batches of records are.
    """

    records: Batch  # (people, places, *record shape)
    shares: Array  # (people, places)


class People:
    """Records and whose they are, checked; which of them enter is drawn when all else is settled.

    Args:
        records: Admitted records along a leading axis; one place where there are none.
        rows: How many there are.
        groups: One label of a person for each.
        places: How many records of one person are used; public, and checked.

    Attributes:
        n: How many people there are.

    Raises:
        InvalidArgument: The labels cannot be used. Nothing that a record holds, and not how many
            there are, decides this.
    """

    def __init__(self, records: Batch, rows: int, groups: object, places: int):
        self.places = places
        self._columns = jax.tree.map(np.asarray, records)
        self._members = Membership(groups, rows, of="data")
        self.n = self._members.n

    @isolated
    def nobody(self) -> Grouped:
        """One person whom no batch draws: of the shape of the others."""
        first = jax.tree.map(
            lambda x: jnp.asarray(np.repeat(x[:1, None], self.places, axis=1)), self._columns
        )
        return Grouped(first, jnp.zeros((1, self.places)))

    @isolated
    def drawn(self, source: NoiseSource) -> Grouped:
        """The people, with the records of each that are used.

        Of a person with more records than places, a random choice of them is taken, from numbers
        drawn for that person: how many records somebody has changes nothing for the others.
        """
        if self.n == 0:
            return self.nobody()
        places, counts = self.places, self._members.counts
        kept = np.minimum(counts, places)
        chosen = np.minimum(np.arange(places), counts[:, None] - 1)
        drawn = source.uniforms((self.n, places))  # as many for each, whatever anybody has
        more = counts > places
        chosen[more] = _subsets(counts[more], drawn[more])
        order, starts = self._members.by_person
        row = order[starts[:, None] + chosen]
        shares = np.where(np.arange(places) < kept[:, None], 1.0 / kept[:, None], 0.0)
        records = jax.tree.map(lambda x: jnp.asarray(x[row]), self._columns)
        return Grouped(records, jnp.asarray(shares))


def _subsets(counts: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """For each row as many distinct places below its count as there are columns, a uniformly drawn
    set, from as many uniform numbers (Floyd's algorithm).
    """
    chosen = np.zeros(drawn.shape, dtype=np.int64)
    size = drawn.shape[1]
    for column in range(size):
        last = counts - size + column
        place = np.minimum((drawn[:, column] * (last + 1)).astype(np.int64), last)
        taken = (chosen[:, :column] == place[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, last, place)
    return chosen


def each_record(f: Callable[[Any], Any], data: Batch) -> Batch:
    """f of all records, which it takes along one leading axis; people stay people."""
    if not isinstance(data, Grouped):
        return f(data)
    shape = data.shares.shape
    found = f(flat(data.records))
    folded = jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)
    return Grouped(folded, data.shares)


def flat(records: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), records)


@dataclasses.dataclass(frozen=True)
class MeanLoss:
    """The loss of a person: the mean of that of the records."""

    loss: Callable[[Point, Any], Any]

    def __call__(self, w: Point, person: Grouped) -> Array:
        losses = jax.vmap(self.loss, (None, 0))(w, person.records)
        return jnp.sum(jnp.where(person.shares > 0, person.shares * losses, 0.0))


def of_people(problem: Problem) -> Problem:
    """The same problem with people in the place of records, for its objective alone."""
    return dataclasses.replace(problem, loss=MeanLoss(problem.loss), gradient=None)


def weighted_loss(problem: Problem, w: Point, records: Batch, weights: np.ndarray) -> float:
    """The sum of the records' losses, each times its weight. Reads them without noise."""
    whole = dataclasses.replace(problem, loss=Weighted(problem.loss), gradient=None)
    return len(weights) * whole.objective(w, (weights, records))


def refuse_public_parts(problem: Problem) -> None:
    """Raise where a part of each record is public: a person's number of records is private."""
    whole = type(problem).__dataclass_fields__["protects"].default
    if problem.protects != whole:
        raise InvalidArgument(
            f"argument `groups`: this problem protects {problem.protects}, and how many records"
            " one person has would show in what is public; leave out `groups`, or give a problem"
            " that protects whole records"
        )
