"""The search for a private ball.

It sees records only through noisy answers (`SearchAnswers`): counts of records, and means of
clipped tangent vectors. Each answer costs a public share of the budget, and the shares add up to at
most 1, which a `Purse` holds them to.
What comes next may depend on earlier answers, because those are released; the guarantee of the
whole transcript is proved in docs/proofs/private-ball.md.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from fractions import Fraction

from .._errors import LARGEST_MAGNITUDE, SMALLEST_MAGNITUDE
from .._namespace import Floats
from ..domains._adaptive import SearchDomain
from ..manifolds._base import Point
from ..privacy._noise import Noise
from ._search_plan import PLATEAU, ROOT_TWO, SCALE_RANGE, SCALE_STEPS, SearchPlan
from ._shrinking import next_center

_LEAST_FINAL = 0.4  # no count is bought once less than this share is left
_MOST_ROUNDS = 4  # with the scale and the first centre at most six passes over the records


class SearchAnswers(abc.ABC):
    """A current centre, and noisy answers about private records, whoever holds them: one party
    (`SearchRecords`), or several sites (`riemdp.federated`). Each answer spends its share.

    Attributes:
        center: The current centre: public, or a function of released answers.
        unit: The largest radius of the search; radii of the plan are in this unit.
    """

    def __init__(self, domain: SearchDomain, noise: Noise):
        self.domain, self.manifold, self.noise = domain, domain.manifold, noise
        self.center, self.unit = domain.center, 1.0

    @property
    @abc.abstractmethod
    def left(self) -> Fraction:
        """The share of the budget that is not spent yet."""

    @abc.abstractmethod
    def valid(self, share: float | Fraction) -> float:
        """Noisy number of records that are points of the space. No other record is in a count."""

    @abc.abstractmethod
    def scale_count(self, factor: int, scale: float, share: float | Fraction) -> float:
        """Noisy number of records whose scale factor number `factor` is at most `scale`."""

    @abc.abstractmethod
    def count(self, radius: float, share: float | Fraction) -> float:
        """Noisy number of records within `radius` of the centre."""

    @abc.abstractmethod
    def noisy_mean(self, radius: float, share: float | Fraction) -> tuple[Floats, float]:
        """Coordinates at the centre of the mean of all tangent vectors, each shortened to `radius`
        (of the space) and 0 for a record without one, with noise; and the scale of that noise.
        """

    @abc.abstractmethod
    def take(self, center: Point) -> None:
        """Look from this centre from now on."""

    def set_scales(self, scales: tuple[float, ...]) -> None:
        """Take the first centre, at these scales, as the centre."""
        center = self.domain.first_center(scales)
        # radii of the plan are in units of the first search radius
        self.unit = self.domain.largest(center)
        self.take(center)

    def size(self, radius: float) -> float:
        """A radius of the plan as the radius of a ball, which float64 has to be able to square."""
        return min(max(radius * self.unit, SMALLEST_MAGNITUDE), LARGEST_MAGNITUDE)

    def move(self, radius: float, share: float | Fraction, stretch: float) -> bool:
        """Release the mean of the records' tangent vectors at the centre, clipped at `radius`, and
        take the end of `stretch` times it as the centre. True: the move was so long that the next
        centre may still be far from the records, a function of released numbers.
        """
        r = radius * self.unit
        noisy, scale = self.noisy_mean(r, share)
        center, far = next_center(
            self.noise, self.manifold, self.center, noisy, scale, stretch=stretch, radius=r
        )
        self.take(center)
        return far


@dataclasses.dataclass
class SearchResult:
    """What a search found: released numbers only.

    Attributes:
        plan: The plan, with the released count of valid records.
        radius: The last radius, about the answers' centre.
        spent: Share of the budget that was spent.
        radii: The radius of every stage.
        scales: The located scale factors.
        rounds: How often the centre was moved.
    """

    plan: SearchPlan
    radius: float
    spent: Fraction = Fraction(0)
    radii: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    rounds: int = 0

    @property
    def left(self) -> Fraction:
        """The share that is left for the release, once the count outside the ball is paid for."""
        return 1 - self.spent - Fraction(self.plan.outside_share)


def begun(plan: SearchPlan, answers: SearchAnswers) -> SearchPlan:
    """The plan for the count of valid records, which is the first answer."""
    plan.check()
    return plan.among(answers.valid(plan.valid_share))


def run_search(plan: SearchPlan, answers: SearchAnswers) -> SearchResult:
    """Count the valid records, locate the scale, then the radius, then the centre and the radius
    again, until the radius no longer changes; with many records look for a cluster far outside it.

    Every decision is a function of the plan and of released answers.
    """
    plan = begun(plan, answers)
    scales = tuple(located_scale(plan, answers, i) for i in range(plan.scales))
    answers.set_scales(scales)
    radius = _first_radius(plan, answers)
    radii = [radius]
    rounds = 0
    while plan.moves and (
        rounds == 0 or (rounds < _MOST_ROUNDS and plan.worth_another(answers.left))
    ):
        far = answers.move(radius, plan.centre_share, plan.stretch)
        rounds += 1
        before, radius = radius, _next_radius(plan, answers, radius)
        radii.append(radius)
        if 0.7 * before < radius < 1.5 * before and not far:
            break
    if plan.moves:
        radius = _with_far_cluster(plan, answers, _refined(plan, answers, radius))
        radii.append(radius)
    return SearchResult(plan, radius, 1 - answers.left, tuple(radii), scales, rounds)


def located_scale(plan: SearchPlan, answers: SearchAnswers, factor: int) -> float:
    """The median of a scale factor, by bisection with noisy counts."""
    low, high = -SCALE_RANGE, SCALE_RANGE
    for _ in range(SCALE_STEPS):
        middle = (low + high) / 2
        if answers.scale_count(factor, middle, plan.coarse_share) >= plan.valid / 2:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def _first_radius(plan: SearchPlan, answers: SearchAnswers) -> float:
    """The smallest power of 2 (times the largest radius) that holds `coarse_rank` records."""
    rank, share = plan.coarse_rank, plan.coarse_share
    low, high = math.floor(math.log2(plan.smallest / plan.largest)), 0
    while high - low > 1:
        middle = (low + high) // 2
        if answers.count(plan.largest * 2.0**middle, share) >= rank:
            high = middle
        else:
            low = middle
    radius = plan.largest * 2.0**high
    if plan.moves and answers.count(radius / ROOT_TWO, share) >= rank:
        radius /= ROOT_TWO
    return radius


def _next_radius(plan: SearchPlan, answers: SearchAnswers, radius: float) -> float:
    """From the radius about the last centre, up or down to the one about this centre."""
    rank, share = plan.fine_rank(float(answers.left)), plan.fine_share
    step = 0
    if answers.count(radius, share) < rank:
        while radius < plan.largest and answers.left > _LEAST_FINAL:
            radius *= ROOT_TWO if step < 2 else 2.0
            step += 1
            if answers.count(radius, share) >= rank:
                break
        return min(radius, plan.largest)
    while radius > plan.smallest and answers.left > _LEAST_FINAL:
        smaller = radius / (ROOT_TWO if step < 3 else 2.0)
        if answers.count(smaller, share) < rank:
            break
        radius = smaller
        step += 1
    return max(radius, plan.smallest)


def _refined(plan: SearchPlan, answers: SearchAnswers, radius: float) -> float:
    """The radius between radius / sqrt 2 and radius, to a factor 2^(1/8)."""
    low = max(radius / ROOT_TWO, plan.smallest)
    return _between(answers, low, radius, plan.fine_rank(float(answers.left)), plan.fine_share)


def _between(answers: SearchAnswers, low: float, high: float, rank: float, share: float) -> float:
    """Of two radii, of which the larger one holds so many records, one between that does, too."""
    for _ in range(2):
        if answers.left < _LEAST_FINAL:
            break
        middle = math.sqrt(low) * math.sqrt(high)
        if answers.count(middle, share) >= rank:
            high = middle
        else:
            low = middle
    return high


def _with_far_cluster(plan: SearchPlan, answers: SearchAnswers, radius: float) -> float:
    """The radius, or one that holds half of a cluster outside it: of a tail fewer records lie
    outside a wider radius, of a cluster as many do.
    """
    share = plan.cluster_share
    if not share or answers.left - 3 * Fraction(share) < _LEAST_FINAL:
        return radius
    low, high = ROOT_TWO * radius, 2.0 * radius
    cluster = _outside(plan, answers, low)
    if cluster < plan.few:
        return radius
    far = _outside(plan, answers, high)
    if far > max(plan.few, PLATEAU * cluster):
        low, high, cluster = high, 2.0 * high, (cluster + far) / 2
    elif cluster < PLATEAU * _outside(plan, answers, radius):
        return radius
    while high < plan.largest and answers.left > _LEAST_FINAL:
        if _outside(plan, answers, high) < cluster / 2:
            break
        low, high = high, 2.0 * high
    high = min(high, plan.largest)
    return _between(answers, min(low, high), high, plan.valid - cluster / 2, share)


def _outside(plan: SearchPlan, answers: SearchAnswers, radius: float) -> float:
    """About how many records lie outside a radius."""
    return plan.valid - answers.count(min(radius, plan.largest), plan.cluster_share)
