"""A search that only locates most records: a centre and the median distance about it. How it sees
records, and what it may spend, is as in `_ball_search`.
"""

from __future__ import annotations

from ._ball_search import SearchAnswers, SearchResult, begun, located_scale
from ._search_plan import HALF_OCTAVES, ROOT_TWO, SearchPlan


def run_short_search(plan: SearchPlan, answers: SearchAnswers) -> SearchResult:
    """Count the valid records, locate the scale, the median distance, and if n allows a centre and
    the median distance about it. Every decision is a function of the plan and of released answers.
    """
    plan = begun(plan, answers)
    scales = tuple(located_scale(plan, answers, i) for i in range(plan.scales))
    answers.set_scales(scales)
    first, second = HALF_OCTAVES
    radius = _median_radius(plan, answers, plan.largest, first)
    radii = [radius]
    if plan.moves:
        answers.move(radius, plan.centre_share, plan.stretch)
        radius = _median_radius(plan, answers, min(plan.largest, ROOT_TWO * radius), second)
        radii.append(radius)
    return SearchResult(plan, radius, 1 - answers.left, tuple(radii), scales, len(radii) - 1)


def _median_radius(plan: SearchPlan, answers: SearchAnswers, largest: float, counts: int) -> float:
    """The median distance, to a factor 2^(1/4), among 2^counts half octaves below `largest`."""
    low, high = -(2**counts), 0
    for _ in range(counts):
        middle = (low + high) // 2
        if answers.count(largest * 2.0 ** (middle / 2), plan.fine_share) >= plan.valid / 2:
            high = middle
        else:
            low = middle
    return largest * 2.0 ** ((low + high) / 4)
