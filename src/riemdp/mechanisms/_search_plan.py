"""What a search for a private ball will do: shares of the budget and ranks, decided from public
numbers alone and, once it is released, from the count of valid records.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from .._errors import InvalidArgument
from ..privacy._noise import Noise

SCALE_STEPS = 8  # halvings of the range of a scale: it is located to a factor e^0.625
# Of the scale search, per unit direction of the logarithm of the scale: e^-80 to e^80.
SCALE_RANGE = 80.0
_RADIUS_STEPS = 6  # counts planned for the first radius
_FINE_STEPS = 6  # counts planned for a later radius
_COARSE, _FINE = 0.10, 0.04  # wanted standard deviation of a count, as a share of n
_FINE_LEAST, _FINE_MOST = 0.005, 0.02  # share of one count of a later radius
_OUTSIDE, _OUTSIDE_LEAST, _OUTSIDE_MOST = 0.10, 0.005, 0.01  # of the count outside the ball
_CLUSTER = 0.05  # the largest share of a count that looks for a cluster far outside
PLATEAU = 0.65  # of the records outside a radius that are outside a wider one: from here a cluster
_FEW = 3.0  # standard deviations of such a count that are taken for noise
_WORST = (
    0.145  # the largest standard deviation of a coarse count, as a share of n, that is accepted
)
_BY_NOISE = 2.0  # standard deviations of the count of valid records that are taken for noise
HALF_OCTAVES = 5, 3  # halvings of the range of a radius, in a short search about either centre
ROOT_TWO = math.sqrt(2.0)


def taken_for_valid(count: float, n: int, deviation: float) -> float:
    """How many of n records are taken for valid after a released count of them: n, where noise of
    this standard deviation alone may be why the count is another.
    """
    return float(n) if count + _BY_NOISE * deviation >= n else max(count, 1.0)


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """What a search will do, decided from public numbers alone.

    Attributes:
        noise: How shares of the budget turn into noise.
        n: Number of records, public.
        dim: Dimension of the space.
        scales: Number of scale factors that are located first (log det on SPD spaces).
        largest, smallest: The radii that the search covers; `smallest` > 0.
        valid_share: Share of the count of valid records, the first answer.
        coarse_share: Share of one count of the scale or of the first radius.
        fine_share: Share of one count of a later radius.
        centre_share: Share of one centre; 0 where n is too small to move the centre.
        outside_share: Share of the count of records outside the ball that is found, the last
            answer but one; 0 where there is none.
        need: The number of records from which a search is accepted, at this budget.
        short: Whether it is for `run_short_search`.
        valid: The number that ranks are relative to: n, or the released count of valid records
            where it is more than two standard deviations below n.
        counted: That count, moved into [0, n]; None before it is released.
    """

    noise: Noise
    n: int
    dim: int
    scales: int
    largest: float
    smallest: float
    valid_share: float
    coarse_share: float
    fine_share: float
    centre_share: float
    outside_share: float
    need: int
    short: bool
    valid: float
    counted: float | None = None

    @property
    def stretch(self) -> float:
        """A mean over n records, in which invalid ones count as 0, times this is that over the
        valid ones.
        """
        return self.n / self.valid

    @property
    def moves(self) -> bool:
        """Whether the centre is moved by means of tangent vectors."""
        return self.centre_share > 0

    @property
    def coarse_rank(self) -> float:
        """The first radius is meant to hold this many records."""
        final = max(0.3, 1.0 - self.planned_share)
        return self._rank(1.2 * self.noise.safety, self.coarse_share, final)

    @property
    def planned_share(self) -> float:
        """The share that the search is planned to spend, with the counts of valid records and of
        those outside; the rest is for the release.
        """
        coarse = self.coarse_share * (SCALE_STEPS * self.scales + _RADIUS_STEPS)
        counts = self.valid_share + coarse + _FINE_STEPS * self.fine_share + self.outside_share
        return counts + self.centre_share + self.cluster_share

    def worth_another(self, left: Fraction) -> bool:
        """Whether what is left pays for another move of the centre, and the radius about it."""
        return left - self.centre_share - 4 * self.fine_share > 0.5

    @property
    def cluster_share(self) -> float:
        """Share of one count that looks for a cluster far outside the radius: at most so much that
        its noise and that of the mean are alike. 0 where n is too small for it, and for pure
        epsilon.
        """
        noise = self.noise
        least = max(500.0 * noise.count_deviation(), 75.0 * noise.mean_length(1.0, self.dim))
        looks = self.moves and self.n >= least and not noise.is_pure
        return min(_CLUSTER, 0.25 / self.dim) if looks else 0.0

    @property
    def few(self) -> float:
        """So many records outside may be noise of that count."""
        return _FEW * self._deviation(self.cluster_share)

    def fine_rank(self, left: float) -> float:
        """A later radius is meant to hold this many records: those beyond it cost less bias, at
        worst, than their radius would cost noise; and a count of all records is told from it.
        """
        final = max(0.3, left - 8 * self.fine_share - self.outside_share)
        return self._rank(self.noise.safety, self.fine_share, final)

    def _rank(self, safety: float, share: float, final: float) -> float:
        """How many records a radius is meant to hold, where counts have this share and the mean in
        the ball has the share `final`: at least half of the valid ones.
        """
        worth = self.noise.mean_length(final, self.dim)
        return max(self.valid / 2, self.valid - max(safety * self._deviation(share), worth))

    def _deviation(self, share: float) -> float:
        """Of a count beside the number of valid records. While ranks are relative to n, that count
        is no less precise than those of radii: a radius that holds all valid records is taken for
        too small at most a few times in a row.
        """
        return self.noise.count_deviation(share) if self.valid == self.n else self.gap(share)

    def gap(self, share: float) -> float:
        """Standard deviation of the noise by which a count with this share and the released number
        of valid records differ.
        """
        counts = self.noise.count_deviation(share), self.noise.count_deviation(self.valid_share)
        return math.hypot(*counts)

    def among(self, count: float) -> SearchPlan:
        """The same for a released count of valid records: ranks and shares as for so many, unless
        noise alone may be why the count is not n.
        """
        told = dataclasses.replace(self, counted=min(max(count, 0.0), float(self.n)))
        valid = taken_for_valid(count, self.n, self.noise.count_deviation(self.valid_share))
        if valid == self.n:
            return told
        make = plan_short_search if self.short else plan_search
        radii = {"largest": self.largest, "smallest": self.smallest}
        made = make(self.noise, round(valid), self.dim, scales=self.scales, **radii)
        return dataclasses.replace(
            made,
            n=self.n,
            valid_share=self.valid_share,
            outside_share=self.outside_share,
            valid=valid,
            counted=told.counted,
        )

    def check(self, of: str = "records") -> None:
        """Raise `InvalidArgument`, naming `ball`, where n is too small for a search; `of` says what
        n counts.
        """
        if self.n < self.need:
            raise InvalidArgument(
                f"argument `ball`: n = {self.n} {of} are too few to find a ball privately with"
                f" this budget; about {self.need} are needed. Give a public Ball(center, radius),"
                f" a larger budget, or more {of}. Nothing was spent"
            )


def plan_search(
    noise: Noise, n: int, dim: int, *, scales: int, largest: float, smallest: float
) -> SearchPlan:
    """Shares of the budget for a search among n records, and whether n is enough.

    Args:
        noise: Of the whole budget.
        n: Number of records.
        dim: Dimension of the space.
        scales: Number of scale factors to locate.
        largest: The largest radius about the first centre.
        smallest: The smallest radius.
    """
    counts = SCALE_STEPS * scales + _RADIUS_STEPS
    most = 0.30
    wanted = counts * noise.share_of_count(_COARSE * n)
    coarse = min(most, max(0.02, wanted)) / counts
    # the smallest n at which a coarse count with the largest share is precise enough
    need = math.ceil(noise.count_deviation(most / counts) / _WORST)
    precise = min(_FINE_MOST, max(_FINE_LEAST, noise.share_of_count(_FINE * n)))
    centre = fine = 0.0
    if wanted <= 0.25 and noise.mean_length(0.25, dim) <= 4.0 / 3.0 * n:
        centre, fine = min(0.25, max(0.01, noise.share_of_mean(n / 4, dim))), precise
    return SearchPlan(
        noise,
        n,
        dim,
        scales,
        largest,
        smallest,
        valid_share=max(coarse, precise),
        coarse_share=coarse,
        fine_share=fine,
        centre_share=centre,
        outside_share=min(_OUTSIDE_MOST, max(_OUTSIDE_LEAST, noise.share_of_count(_OUTSIDE * n))),
        need=need,
        short=False,
        valid=float(n),
    )


_SCALE_MOST = 0.18  # of the budget, for all counts of a short search for the scale
_RADIUS_LEAST, _RADIUS_MOST = 0.004, 0.012  # one count of a radius
_CENTRE_LEAST, _CENTRE_MOST = 0.02, 0.14


def plan_short_search(
    noise: Noise, n: int, dim: int, *, scales: int, largest: float, smallest: float
) -> SearchPlan:
    """Shares for a search that only locates most records, without a ball that holds them.

    Directions of records seen from a centre are what is wanted afterwards: the radius need not hold
    many records, and most of the budget is left. Arguments as for `plan_search`.
    """
    coarse = worst = 0.0
    counts = SCALE_STEPS * scales
    if counts:
        wanted = counts * noise.share_of_count(_COARSE * n)
        coarse = min(_SCALE_MOST, max(0.02, wanted)) / counts
        worst = noise.count_deviation(_SCALE_MOST / counts) / (1.1 * _WORST)
    need = math.ceil(max(worst, noise.count_deviation(_RADIUS_MOST) / _WORST / 1.6))
    fine = min(_RADIUS_MOST, max(_RADIUS_LEAST, noise.share_of_count(_WORST * n)))
    centre = 0.0
    if noise.mean_length(1.0, dim) <= 4.0 / 15.0 * n:
        centre = min(_CENTRE_MOST, max(_CENTRE_LEAST, noise.share_of_mean(n / 4, dim)))
    return SearchPlan(
        noise,
        n,
        dim,
        scales,
        largest,
        smallest,
        valid_share=fine,
        coarse_share=coarse,
        fine_share=fine,
        centre_share=centre,
        outside_share=0.0,
        need=need,
        short=True,
        valid=float(n),
    )


def share_of_short_search(plan: SearchPlan) -> float:
    """What `run_short_search` spends: it asks the same questions whatever is answered, unless the
    first answer says that some records are not valid.
    """
    first, second = HALF_OCTAVES
    counts = first + (second if plan.moves else 0)
    coarse = SCALE_STEPS * plan.scales * plan.coarse_share
    return plan.valid_share + coarse + counts * plan.fine_share + plan.centre_share
