"""Where the matrices of an estimator are expected, and what it costs to find that out: from public
numbers alone.
"""

from __future__ import annotations

from .._errors import invalid
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold
from ..mechanisms._counted import check_wanted, share_of_count
from ..mechanisms._search_plan import plan_short_search, share_of_short_search
from ..privacy._noise import Noise
from ..statistics import PublicPrior


def ball_or_search(ball: object) -> Ball | AdaptiveBall:
    """The ball or the search that was given; a search where it was left out."""
    if ball is None:
        return AdaptiveBall()
    if isinstance(ball, PublicPrior):
        remedy = "here give its centre as a public ball: riemdp.Ball(prior.center, radius)"
        takes = "PrivateTSClassifier and private_frechet_mean take one"
        raise invalid("ball", ball, f"{takes}; {remedy}")
    if not isinstance(ball, Ball | AdaptiveBall):
        raise invalid("ball", ball, "give a riemdp.AdaptiveBall() or riemdp.Ball(...), or None")
    return ball


def what_is_left(
    n: int,
    manifold: AbstractManifold,
    noise: Noise,
    where: Ball | AdaptiveBall,
    count_outside: bool | None,
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
    return search.need, max(1.0 - share_of_short_search(search), 1e-6)
