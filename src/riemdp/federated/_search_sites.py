"""One site's part in a search for a ball over several sites, and in the mean and the variance that
follow it: exact sums of its own records, with noise.

To check what leaves a site, read `SearchSite.answer` and `NoiseOfSites.noisy` here: each question
(`Ask`) is a sum over records that one record changes by at most `Ask.sensitivity`, each answer has
the noise of its share of the budget, the shares of all answers add up to at most 1, and the whole
budget is charged before the first draw. Proof: docs/proofs/secure-sums.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from .._errors import (
    LARGEST_MAGNITUDE,
    SMALLEST_MAGNITUDE,
    InvalidArgument,
    RiemdpError,
    integer,
    invalid,
)
from .._isolation import isolation
from .._namespace import Floats
from .._parallel import in_turn
from .._trees import leaves
from ..domains._adaptive import SearchDomain
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..mechanisms._lattice import Purse, scale_for, slack_of, with_noise
from ..mechanisms._search_records import SearchRecords
from ..mechanisms._streamed_search import StreamedRecords
from ..optimizers._records import whole_sum
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import PERSON
from ..privacy._noise import GaussianNoise, Noise
from ..privacy._permit import Permit
from ..randomness import NoiseSource
from ..statistics._tangent_mean import log_flagged
from ._shared_sum import Integers, SharedSum

VALID, SCALE, WITHIN, TANGENTS, SQUARES = "valid", "scale", "within", "tangents", "squares"
KINDS = (VALID, SCALE, WITHIN, TANGENTS, SQUARES)

_MOVED = 29  # 2^28 to 2^29 steps are the most that a record moves a sum by, where noise is local
_CLIPPING = 1e-9  # of a vector that was shortened, as a part of the radius
_ROOM = 1e-12  # relative, in every noise multiplier: shares add up to 1 in float64


@dataclasses.dataclass(frozen=True, eq=False)
class Ask:
    """One question of a search, which every site answers with a sum over its own records.

    Attributes:
        kind: "valid": how many records are points of the space, wherever from; "scale": how many
            have scale factor number `factor` at most `limit`; "within":
            how many lie within `limit` of `center`; "tangents": the sum of their logarithms at
            `center`, each shortened to `limit`; "squares": the sum of their squared distances from
            `center`, each distance cut off at `limit`.
        share: The share of the budget that it costs, above 0.
        center: A public or released point.
        limit: A finite number, above 0 but for "scale"; "valid" has no use for it.
        unit: The largest radius of the search. It decides nothing but how records are read.
        factor: The number of the scale factor.
    """

    kind: str
    share: float
    center: Point
    limit: float
    unit: float = 1.0
    factor: int = 0

    def size(self, manifold: AbstractManifold) -> int:
        """How many numbers an answer has."""
        return manifold.dim if self.kind == TANGENTS else 1

    @property
    def largest(self) -> float:
        """No record's term is longer."""
        if self.kind == TANGENTS:
            return self.limit
        return self.limit**2 if self.kind == SQUARES else 1.0

    @property
    def sensitivity(self) -> float:
        """How far one record moves the sum of all sites."""
        return 2.0 * self.limit if self.kind == TANGENTS else self.largest

    def is_sound(self, manifold: AbstractManifold) -> bool:
        """Whether a site can answer it, whoever asked: public numbers only."""
        numbers = (self.share, self.limit, self.unit)
        return (
            self.kind in KINDS
            and all(isinstance(x, float) and math.isfinite(x) for x in numbers)
            and 0.0 < self.share <= 1.0
            and self.unit > 0.0
            and (self.kind == SCALE or SMALLEST_MAGNITUDE <= self.limit <= LARGEST_MAGNITUDE)
            and isinstance(self.factor, int)
            and 0 <= self.factor < max(1, manifold._scales)
            and (self.kind != SCALE or manifold._scales > 0)
        )


class NoiseOfSites:
    """The noise of one budget, where a sum has terms from several sites.

    Args:
        budget: With delta > 0.
        parties: J, how many sites there are.
        tolerated: q: the sites share the noise, and so many of them may be missing from a sum or
            share their secrets (`SharedSum`). None: each site adds all the noise that its own
            guarantee needs.

    Raises:
        InvalidArgument: Naming the argument.

    Guarantee:
        `guarantee` for all answers together, whose shares add up to at most 1, replace-one, for
        every record of every site, against everyone who sees all messages. Shared: under what it
        assumes.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """

    def __init__(self, budget: Budget, parties: int, tolerated: int | None):
        self.each = Noise.of(budget)
        if self.each.is_pure:
            raise invalid(
                "budget",
                budget,
                "sums over sites have Gaussian noise: give delta > 0, such as"
                f" Budget({budget.epsilon:g}, 1e-6)",
            )
        self.parties, self.tolerated = integer("sites", parties), tolerated
        if tolerated is not None:
            integer("tolerated", tolerated, at_least=0, at_most=parties - 1)

    @property
    def least(self) -> int:
        """A sum has at least so many sites."""
        return 1 if self.tolerated is None else self.parties - self.tolerated

    @property
    def noise(self) -> GaussianNoise:
        """The noise of a sum with all sites, as that of one party who holds all records."""
        parts = self.parties if self.tolerated is None else self.parties / self.least
        return GaussianNoise(self.each.multiplier * math.sqrt(parts))

    @property
    def guarantee(self) -> Guarantee:
        """Of all answers together."""
        whole = self.each.guarantee
        if self.tolerated is None:
            return whole
        return whole.assuming(SharedSum(self.parties, self.tolerated, 1, 1.0, 1.0).assumes)

    def multiplier(self, share: float) -> float:
        """The noise multiplier of an answer with this share."""
        return self.each.multiplier / math.sqrt(share) * (1.0 + _ROOM)

    def shared(self, ask: Ask, size: int) -> SharedSum:
        """How the sites share the noise of one answer with `size` numbers."""
        assert self.tolerated is not None
        return SharedSum(
            self.parties, self.tolerated, size, ask.sensitivity, self.multiplier(ask.share)
        )

    def exponent(self, ask: Ask, size: int) -> int:
        """A site's sum is in whole steps of a grid, two to this power: 2^24 records come to at most
        2^53 steps, which float64 holds, or to what a shared sum does.
        """
        if self.tolerated is None:
            return math.frexp(ask.sensitivity)[1] - _MOVED
        return self.shared(ask, size).exponent

    def _scale(self, ask: Ask, size: int) -> float:
        """Standard deviation of what one site adds, where each adds all of its own."""
        return scale_for(self.each.share(ask.share), ask.sensitivity * (1.0 + _ROOM), size)

    def deviation(self, ask: Ask, size: int, present: int) -> float:
        """Standard deviation of a sum with this many sites."""
        if self.tolerated is None:
            return self._scale(ask, size) * math.sqrt(present)
        return self.shared(ask, size).sigma_of(present)

    def slack(self, ask: Ask, size: int, present: int, records: int) -> float:
        """How much longer than Gaussian noise the error of a sum can be: of each record what is cut
        off, and of each site the rounding of its noise.
        """
        step = math.ldexp(math.sqrt(size), self.exponent(ask, size))
        noise = slack_of(self._scale(ask, size), size) if self.tolerated is None else step
        return records * (step + _CLIPPING * ask.largest) + present * noise

    def noisy(self, steps: Integers, ask: Ask, source: NoiseSource) -> Floats | Integers:
        """What one site answers, with its noise: numbers on a grid; where noise is shared, integers
        that must not leave the site but under a mask.
        """
        size = steps.size
        if self.tolerated is not None:
            return steps + self.shared(ask, size).noise(source)
        values = np.ldexp(steps.astype(np.float64), self.exponent(ask, size))
        return with_noise(values, self._scale(ask, size), source, pure=False)


def affordable(spent: Fraction, share: float) -> bool:
    """Whether one more share stays within the whole, to what float64 leaves of it."""
    return spent + Fraction(share) <= 1.0 + _ROOM / 2.0


class SearchSite:
    """One site's records, and what it answers.

    Args:
        domain: Where the ball is searched.
        X: The site's admitted records: an array of them or a `Stream`.
        noise: How the sites make the noise of the whole budget.
        source: What this site draws from.
        permit: Of the release that its answers are parts of. None: nothing has been charged yet.

    Guarantee:
        See `NoiseOfSites`, whatever is asked.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """

    def __init__(
        self,
        domain: SearchDomain,
        X: Any,
        noise: NoiseOfSites,
        source: NoiseSource,
        permit: Permit | None = None,
    ):
        kind = StreamedRecords if isinstance(X, Stream) else SearchRecords
        self.records = kind(domain, X, Purse(noise.each, source))  # which answers nothing itself
        self.manifold, self.noise, self._source = domain.manifold, noise, source
        # exactly: in float64 a sum near 1 does not grow by shares below 1e-16, however many
        self.spent, self.permit, self._paid = Fraction(0), permit, False
        self._seen = False

    @property
    def n(self) -> int:
        """How many records the site has; public."""
        return self.records.n

    def affords(self, ask: Ask) -> bool:
        """Whether the shares of all answers stay within the whole."""
        return affordable(self.spent, ask.share)

    def answer(self, ask: Ask) -> Floats | Integers:
        """The sum that was asked for by a question that `is_sound`, about a point that passed
        `admit_point`, with noise.

        Raises:
            InvalidArgument: The question is none. Nothing is spent.
            RiemdpError: It would cost more than is left, or nothing was charged for it. Nothing is
                spent.
        """
        if not ask.is_sound(self.manifold):
            raise InvalidArgument("argument `ask` is no question of a search. Nothing was spent")
        if not self.affords(ask):
            raise RiemdpError("the whole budget of this search is spent. Nothing more was spent")
        if not self._paid:
            self._pay()
        self.spent += Fraction(ask.share)
        return self._answered(ask)

    def _pay(self) -> None:
        """Take the guarantee of all answers from what was charged for them, once."""
        if self.permit is None:
            raise RiemdpError("nothing was charged for this search, so it is not answered")
        guarantee, of_people = self.noise.guarantee, self.permit.whole.unit == PERSON
        self.permit.take(guarantee.for_people() if of_people else guarantee)
        self._paid = True

    @in_turn
    def _answered(self, ask: Ask) -> Floats | Integers:
        # what NumPy is told decides about no answer
        with isolation():
            return self.noise.noisy(self._exact(ask), ask, self._source)

    def _exact(self, ask: Ask) -> Integers:
        """The sum before noise, in whole steps: private."""
        exponent = self.noise.exponent(ask, ask.size(self.manifold))
        if ask.kind in (TANGENTS, SQUARES):
            X, whole = self.records.X, functools.partial(_whole, ask, exponent)
            if isinstance(X, Stream):
                look = functools.partial(log_flagged, self.manifold, ask.center)
                return X.moved(look).sums(whole)[0]
            self._look(ask)
            return whole(self.records.logs)
        return np.array([self._count(ask) << -exponent], dtype=np.int64)

    def _look(self, ask: Ask) -> None:
        """From the centre that is asked about."""
        records = self.records
        records.unit = ask.unit
        if not self._seen or not _same(records.center, ask.center):
            records.take(ask.center)
            self._seen = True

    def _count(self, ask: Ask) -> int:
        """How many records have the property that is asked for."""
        if ask.kind == VALID:
            return self.records.valid_count()
        if ask.kind == SCALE:
            return self.records.scales_below(ask.factor, ask.limit)
        self._look(ask)
        return self.records.within(ask.limit / ask.unit)


def _whole(ask: Ask, exponent: int, logs: Floats, *_: object) -> Integers:
    """The terms of some records, given their logarithms, each in whole steps, added."""
    if ask.kind == SQUARES:
        logs = np.minimum(np.sum(logs**2, axis=1, keepdims=True), ask.largest)
    return np.asarray(whole_sum(logs, np.ones(len(logs)), ask.largest, math.ldexp(1.0, exponent)))


def _same(one: Point, other: Point) -> bool:
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)
