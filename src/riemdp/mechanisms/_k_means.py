"""Centres of clusters, released by rounds of Lloyd's algorithm with noise, in a public ball or in
one that is found privately.

In each round a record x belongs to the released centre c_a that is nearest to it, and contributes
z = log_{c_a} x shortened to length r, over r, to the sum of that cluster and 1 to its size. Which
cluster that is follows from the record and from what was released, as a private label does; so one
record changes the vector of all sums and sizes by at most 2. The rounds share the budget equally.
Proof: docs/proofs/classifiers.md, Lemmas 21 to 23.

To check the privacy of a release, read `KMeansNoise`, `nearest`, `AbstractAtCentre`, `ClassSums`
and `AbstractMechanism.release`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid
from .._namespace import Floats
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..domains._ends import end_of
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._tangent_mean import clipped, kept_shares, log_flagged
from ._at_centre import AbstractAtCentre, LabelledRecords
from ._class_sums import ClassSums
from ._drawn import Drawn

CLIP = 0.5  # the length that vectors at the centre of a cluster are shortened to, over the radius
_SPREAD = 0.5  # how far out first centres lie, over the radius
_CANDIDATES = 32  # for each first centre
_LEAST = 2.0  # standard deviations of a size: a centre of fewer records has none


class KMeansNoise(AbstractAtCentre):
    """Release the centres of clusters and how many records each has; see `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records; with people that of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        clusters: Their public number, whose centres start where they fill the ball; or public
            points to start from.
        rounds: How often the centres move: public.

    Guarantee:
        Replace-one, whatever cluster the records belong to.

    Source:
        docs/proofs/classifiers.md, Lemmas 21 to 23.
    """

    what: ClassVar[str] = "k-means"
    noise_on: ClassVar[str] = (
        "the sums of clipped tangent vectors and the sizes of all clusters, in each of several"
        " rounds"
    )
    reach: ClassVar[float] = 2.0  # of the median distance: clusters lie around the common centre

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        budget: Budget | Noise,
        clusters: int | list[Point],
        rounds: int,
    ):
        super().__init__(manifold, where, n=n, budget=budget)
        self.rounds, self.start = rounds, None if isinstance(clusters, int) else clusters
        count = clusters if isinstance(clusters, int) else len(clusters)
        self.sums = ClassSums(self.n, count, manifold.dim, None)

    @property
    def _coordinates(self) -> int:
        return self.sums.together

    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        return np.zeros(rows, dtype=np.int64)

    def _admit(self, value: tuple[Any, ...]) -> LabelledRecords:
        if self.ball is None:
            return super()._admit(value)
        given = LabelledRecords(*value)
        # every round looks at the records from centres of its own
        records, rows = admit_records(self.manifold, "X", given.X)
        if self.n != (rows if given.members is None else given.members.n):
            raise invalid("X", f"{rows} records", f"it was made for n = {self.n}")
        return LabelledRecords(records, self._beside(None, rows), given.members)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        if self.ball is None:
            found = self._found(value, source)
            ball, purse, facts = found.ball, found.purse, found.facts
        else:
            ball, purse = self.ball, self._purse(source)
            facts = {"ball": ball, "n": self.n}
        centres, answers, share = self._first(ball), [], purse.left / self.rounds
        scale = 0.0
        while len(answers) < self.rounds:
            z, labels = nearest(self.manifold, centres, CLIP * ball.radius, value.X)
            joint = self.sums.joint(z, labels, value.members)
            noisy, scale, _ = purse.add(joint, self.sums.sensitivity, share)
            centres = self._moved(centres, ball, noisy, scale)
            answers.append(noisy)
            if len(answers) < self.rounds:
                centres = self._split(centres, ball, noisy, scale)
        sizes = np.maximum(answers[-1][-self.sums.classes :], 0.0)
        facts = facts | {
            "answers": tuple(answers),
            "sizes": tuple(float(size) for size in sizes),
            "share_of_round": float(share),
        }
        stacked = map_leaves(lambda *leaves: np.stack(leaves), *centres)
        return Drawn(stacked, scale, self.sums.sensitivity, None, facts)

    def _moved(self, centres: list[Point], ball: Ball, noisy: Floats, scale: float) -> list[Point]:
        """The next centres: a function of released numbers."""
        sums, sizes = np.split(noisy, [-self.sums.classes])
        deviation = self.noise.deviation(scale, self.sums.together)
        held = np.where(sizes > _LEAST * deviation, sizes, math.inf)[:, None]
        moves, _ = clipped(sums.reshape(len(sizes), self.manifold.dim) / held, 1.0)
        length = np.maximum(np.linalg.norm(moves, axis=1, keepdims=True), 1e-300)
        kept = kept_shares(length, self.manifold.dim, deviation / held)
        steps = CLIP * ball.radius * kept * moves
        return [end_of(self.manifold, c, y) for c, y in zip(centres, steps, strict=True)]

    def _split(self, centres: list[Point], ball: Ball, noisy: Floats, scale: float) -> list[Point]:
        """The same, each that has no records beside that of the largest cluster, on its own side:
        there it halves the cluster.
        """
        sizes = noisy[-self.sums.classes :].copy()
        deviation = self.noise.deviation(scale, self.sums.together)
        manifold, r = self.manifold, CLIP * ball.radius
        for place in np.flatnonzero(sizes <= _LEAST * deviation):
            largest = int(np.argmax(sizes))
            y = np.asarray(manifold._log_coordinates(centres[largest], centres[place]))
            step = 0.5 * r / max(float(np.linalg.norm(y)), 1e-300) * y
            centres[place] = end_of(manifold, centres[largest], step)
            sizes[largest] = sizes[place] = 0.5 * sizes[largest]
        return centres

    def _first(self, ball: Ball) -> list[Point]:
        """Where the centres start, from public or released numbers."""
        if self.start is not None:
            return self.start
        spread = _SPREAD * ball.radius * filling(self.sums.classes, self.manifold.dim)
        return [end_of(self.manifold, ball.center, y) for y in spread]


def nearest(
    manifold: AbstractManifold, centres: list[Point], r: float, records: Point
) -> tuple[Floats, NDArray[np.int64]]:
    """Each record's tangent vector at the centre that is nearest to it, shortened to length r, over
    r; and which centre that is. A record without one belongs to none: 0 and -1.
    """
    rows = int(manifold._batch_shape(records)[0])
    z, least = np.zeros((rows, manifold.dim)), np.full(rows, math.inf)
    labels = np.full(rows, -1)
    for place, centre in enumerate(centres):
        y, known = log_flagged(manifold, centre, records)
        length = np.where(known, np.sqrt(np.sum(y**2, axis=1)), math.inf)
        nearer = length < least
        least = np.where(nearer, length, least)
        labels = np.where(nearer, place, labels)
        z = np.where(nearer[:, None], y, z)
    return clipped(z, r)[0] / r, labels


def filling(count: int, dim: int) -> Floats:
    """So many vectors that fill the unit ball, (count, dim): each one of a fixed sequence of low
    discrepancy, as far as possible from those before.
    """
    from scipy import special  # which a plan does not need

    base = 2.0
    for _ in range(64):  # base^(dim + 2) = base + 1, which makes steps of the sequence
        base = (1.0 + base) ** (1.0 / (dim + 2))
    numbers = np.arange(1, _CANDIDATES * count + 1)[:, None]
    cube = (0.5 + numbers * base ** -np.arange(1.0, dim + 2)) % 1.0
    normal = special.ndtri(cube[:, :dim])
    ball = normal / np.linalg.norm(normal, axis=1, keepdims=True) * cube[:, dim:] ** (1.0 / dim)
    chosen, apart = ball[:1], np.full(len(ball), math.inf)
    while len(chosen) < count:
        apart = np.minimum(apart, np.linalg.norm(ball - chosen[-1], axis=1))
        chosen = np.concatenate([chosen, ball[[np.argmax(apart)]]])
    return chosen
