"""What releases of one kind of mean have in common: the query, the mechanism with its count, and
what "auto" chooses.

Each is a function of public facts, made once for equal facts. Domains are compared by identity: a
`Ball` gives the same one each time. What holds the records' own gradient is made anew.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, cast

from .._errors import SlowSamplerWarning, truth
from ..domains import Ball, Domain
from ..domains._domain import DomainOfMeans
from ..manifolds import AbstractManifold
from ..mechanisms import MeanGradient, RiemannianLaplace
from ..mechanisms._common import PointMechanism, PureMechanism
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget
from ..privacy._noise import Noise
from ..sampling._laplace import warn_if_slow
from ..statistics import FrechetMean
from ..statistics._sensitivity import REPLACE_ONE
from ._choices import build
from ._plan import made_plan


def mean_query(
    domain: Domain,
    n: int,
    *,
    weights: Any = None,
    adjacency: str = REPLACE_ONE,
) -> FrechetMean:
    """The query of a Frechet mean; see `FrechetMean`."""
    if weights is not None:
        return FrechetMean(domain, n, adjacency=adjacency, weights=weights)
    return _query(domain, n, adjacency)


@functools.lru_cache(maxsize=64)
def _query(domain: Domain, n: int, adjacency: str) -> FrechetMean:
    return FrechetMean(domain, n, adjacency=adjacency)


def counted_mechanism(
    name: str,
    local: Domain,
    n: int,
    budget: Budget | Noise,
    shown: int | None,
    *,
    gradient: MeanGradient | None = None,
    **choice: Any,
) -> tuple[Counted, PointMechanism]:
    """A mechanism for a Frechet mean with the count of what lies outside beside it, and the
    mechanism alone.

    Args:
        name: Of the mechanism.
        local: The domain in its frame.
        n: The public number of records, or its lower bound.
        budget: What both may spend.
        shown: The number of records, where it is public.
        gradient: The private gradient, for the mechanism that draws by it.
        **choice: Further fields of `MeanFacts`, among them how the budget is shared.
    """
    if choice.get("count_outside") is not None:
        truth("count_outside", choice["count_outside"])
    asked = (name, local, n, budget, shown)
    if gradient is None and choice.get("weights") is None:
        made = _counted(*asked, *choice.items())
    else:
        made = _made(*asked, gradient=gradient, **choice)
    inner = cast(PointMechanism, made.inner)
    if isinstance(inner, RiemannianLaplace):
        warn_if_slow(inner.manifold, inner.tries)
    return made, inner


@functools.lru_cache(maxsize=64)
def _counted(
    name: str,
    local: Domain,
    n: int,
    budget: Budget | Noise,
    shown: int | None,
    *choice: tuple[str, Any],
) -> Counted:
    return _made(name, local, n, budget, shown, **dict(choice))


def _made(
    name: str,
    local: Domain,
    n: int,
    budget: Budget | Noise,
    shown: int | None,
    **choice: Any,
) -> Counted:
    ball = Ball._of(DomainOfMeans.of(local))
    facts = MeanFacts(local.manifold, ball, n, budget, **choice)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowSamplerWarning)  # said at every release
        return counted(build(name, facts), facts, shown)


def counted(inner: PointMechanism, facts: MeanFacts, shown: int | None) -> Counted:
    """A mechanism that was built for these facts, with the count that they leave a share for."""
    pure = isinstance(inner, PureMechanism)
    return Counted(inner, facts.whole(pure=pure), facts.share_of_count(pure=pure), shown)


def chosen(
    manifold: AbstractManifold,
    ball: Ball,
    n: int,
    budget: Budget,
    count_outside: bool | None,
    **choice: Any,
) -> tuple[str, str]:
    """The mechanism that "auto" chooses, and the plan that decided, as text.

    Args:
        manifold: The space.
        ball: The public ball.
        n: The public number of records, or its lower bound.
        budget: What the release may spend.
        count_outside: As for `made_plan`.
        **choice: Further fields of `MeanFacts`.
    """
    plan = made_plan(MeanFacts(manifold, ball, n, budget, **choice), budget, count_outside)
    return plan.best().mechanism, str(plan)
