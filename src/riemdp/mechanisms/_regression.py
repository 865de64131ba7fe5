"""A linear regression on tangent vectors from one release of second moments, about a public centre
or one that is found privately.

Let z be log_c x shortened to length r, over r, and t in [-1, 1] the target in its public range. A
record is the row u = (c z, s, k t) of weights with c^2 + s^2 = 1, so |u|^2 <= 1 + k^2 = R^2, and
one record moves (1/n) sum u u^T by at most sqrt(2) R^2 / n. All of a regression is in that matrix:
the moments of z, of t, and of both. Where people are protected, a person counts by the mean of
u u^T over the own records. Proof: docs/proofs/regression.md.

To check the privacy of a release, read `_draw` here, `SecondMoment`, `_at_centre`,
`BudgetedMechanism` and `AbstractMechanism.release`.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, magnitude, real
from .._namespace import Floats
from ..domains import AdaptiveBall, Ball
from ..domains._stacks import admit_stack
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import Records
from ..statistics._second_moment import SecondMoment, of_rows
from ._at_centre import MOST_COORDINATES, AbstractAtCentre, Found, LabelledRecords
from ._drawn import Drawn
from ._ridge import TARGET, ridge, weights

PERSON_IS = "one matrix each: the mean of u u^T over that person's records, u tangent and target"


class TargetRange:
    """The public range that targets are moved into, one by one.

    Args:
        given: The pair (low, high).
        name: Of the argument.

    Raises:
        InvalidArgument: It is no pair of numbers low < high.
    """

    def __init__(self, given: Any, name: str = "target_range"):
        remedy = f"give {name}=(low, high), public numbers with low < high"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise invalid(name, given, remedy)
        self.low, self.high = (real(name, x, remedy=remedy) for x in given)
        if not self.low < self.high:
            raise invalid(name, given, remedy)
        # of what is no finite number; and the unit of targets
        self.middle = self.low / 2.0 + self.high / 2.0
        self.half = magnitude(name, self.high / 2.0 - self.low / 2.0)

    def scaled(self, y: Floats) -> Floats:
        """Targets from the middle in units of half the range, each moved into [-1, 1] by itself."""
        inside = np.clip(y, self.low, self.high)
        t = np.where(np.isfinite(y), (inside - self.middle) / self.half, 0.0)
        return np.clip(t, -1.0, 1.0)


def admit_targets(y: Any, rows: int, name: str = "y", shape: tuple[int, ...] = ()) -> Floats:
    """What stands beside each record as float64, (rows, *shape), each read by itself: what is no
    real number becomes NaN.

    Raises:
        InvalidArgument: The form of the whole is wrong.
    """
    form = getattr(y, "shape", None)
    targets = None
    if form is None or (isinstance(form, tuple) and len(form) == 1 + len(shape)):
        targets = np.asarray(admit_stack(name, y, shape))
    if targets is None or targets.shape != (rows, *shape):
        what = "one number" if shape == () else f"{shape[0]} numbers"
        wanted = ", ".join(["n", *map(str, shape)]) + ("," if shape == () else "")
        raise InvalidArgument(
            f"argument `{name}` has another form than {what} for each record; give an array of"
            f" shape ({wanted}), or a list"
        )
    return targets


class AbstractRegression(AbstractAtCentre):
    """A release of the second moments of rows u that are made of a clipped tangent vector and what
    stands beside it, and have at most the length that `moments` knows.

    Source:
        docs/proofs/regression.md.
    """

    moments: SecondMoment

    @property
    def _coordinates(self) -> int:
        return self.moments.size

    @abc.abstractmethod
    def _rows(self, z: Floats, beside: Floats) -> Floats:
        """The rows u of records, each made of its own record."""

    def _admit(self, value: tuple[Any, ...]) -> LabelledRecords:
        members = LabelledRecords(*value).members
        if (members is not None) != self.moments.people:
            raise invalid("groups", type(members).__name__, "this mechanism has another unit")
        return super()._admit(value)

    def _noisy(self, value: LabelledRecords, found: Found) -> tuple[Floats, float]:
        """The second moments with the noise of what is left of the budget, and its scale."""
        query, rows = self.moments, self._rows(np.asarray(found.z), value.labels)
        shares = None if value.members is None else value.members.shares / self.n
        records = query.clip(Records(rows, shares, np.zeros(len(rows), dtype=bool)))
        noisy, scale, _ = found.purse.add(query.value(records), query.sensitivity, found.left)
        return noisy, scale


class RegressionNoise(AbstractRegression):
    """Release a linear regression of targets on the tangent vectors at one centre, clipped at one
    radius: its coefficients, and its intercept behind them. See `AbstractAtCentre`.

    Args:
        manifold: A space with a logarithm, of at most 2048 dimensions.
        where: A public `Ball`, or an `AdaptiveBall`.
        n: The public number of records; with `people` of people.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        targets: The public range of the targets.
        alpha: The ridge; None for the size of the noise.
        people: Whether neighbours differ in everything of one person.

    Guarantee:
        Replace-one, of a record and its target together.

    Source:
        docs/proofs/regression.md.
    """

    what: ClassVar[str] = "regression"
    noise_on: ClassVar[str] = (
        "one matrix of second moments of clipped tangent vectors and clipped targets, from which a"
        " ridge regression follows"
    )

    def __init__(
        self,
        manifold: AbstractManifold,
        where: Ball | AdaptiveBall,
        *,
        n: int,
        budget: Budget | Noise,
        targets: TargetRange,
        alpha: float | None = None,
        people: bool = False,
    ):
        super().__init__(manifold, where, n=n, budget=budget)
        self.targets, self.alpha = targets, alpha
        self.moments = moments_of(manifold.dim, self.n, people=people)

    def _beside(self, labels: Any, rows: int) -> NDArray[Any]:
        return self.targets.scaled(admit_targets(labels, rows))

    def _rows(self, z: Floats, beside: Floats) -> Floats:
        of_vector, of_one = weights(self.manifold.dim)
        one = np.full((len(beside), 1), of_one)
        return np.concatenate([of_vector * z, one, TARGET * beside[:, None]], axis=1)

    def _draw(self, value: LabelledRecords, source: NoiseSource) -> Drawn:
        found, query = self._found(value, source), self.moments
        noisy, scale = self._noisy(value, found)
        deviation = self.noise.deviation(scale, query.size)
        line = ridge(noisy, self.manifold.dim, deviation, self.alpha)
        half = self.targets.half
        facts = found.facts | {
            "answers": (noisy,),
            "share_of_regression": float(found.left),
            "residual_std": half * math.sqrt(line.variance),
        }
        coefficients = half / found.ball.radius * line.coefficients
        made = np.append(coefficients, self.targets.middle + half * line.intercept)
        return Drawn(made, scale, query.sensitivity, None, facts)


def moments_of(dim: int, n: int, *, people: bool = False) -> SecondMoment:
    """What is released of n records of vectors of `dim` coordinates, and targets.

    Raises:
        InvalidArgument: There are too many coordinates.
    """
    if dim > MOST_COORDINATES:
        raise InvalidArgument(
            f"argument `X`: matrices have {dim} tangent coordinates, and second moments are for at"
            f" most {MOST_COORDINATES} (63 x 63); take fewer channels, by a public choice. Nothing"
            " was spent"
        )
    return of_rows(dim + 2, n, math.sqrt(1.0 + TARGET**2), people=people)
