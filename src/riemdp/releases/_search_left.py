"""What a search for a centre needs, and what it leaves for the rest of a release: from public
numbers alone, for the plans of all releases that begin with one.
"""

from __future__ import annotations

from typing import Any

from .._errors import invalid
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..mechanisms._for_mean import check_wanted, share_of_count
from ..mechanisms._search_plan import plan_short_search, share_of_short_search
from ..privacy._noise import Noise
from ._table import Column


def what_is_left(
    n: int,
    manifold: AbstractManifold,
    noise: Noise,
    where: Ball | AdaptiveBall,
    count_outside: bool | None = False,
) -> tuple[int, float]:
    """The number of records that a search for a centre needs, 1 without one, and the share of the
    budget that it, or a count of records outside a public ball, leaves.
    """
    if not isinstance(where, AdaptiveBall):
        return 1, 1.0 - float(share_of_count(noise, n, count_outside))
    if count_outside:
        raise invalid("count_outside", count_outside, "it goes with a public ball; leave it out")
    check_wanted(count_outside)
    domain = where.on(manifold)
    search = plan_short_search(
        noise, n, manifold.dim, scales=domain.scales, largest=1.0, smallest=domain.ratio
    )
    return search.need, 1.0 - share_of_short_search(search)


def columns_of_search(rest: str) -> tuple[Column[Any], Column[Any]]:
    """Of what a search needs, and of what it leaves for this rest."""
    return (
        Column("found from n =", lambda row: f"{row.need:,}"),
        Column(f"share for the {rest}", lambda row: f"{100 * row.share:.0f} %"),
    )
