"""What a release with a search for a ball says, and the mean in that ball: functions of released
numbers and of public facts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._namespace import Floats
from ..domains._ends import end_of
from ..inference._counts import ValidCount
from ..inference._distributions import ErrorDistribution, lengths_of, shrunk_errors
from ..inference._region import Observation
from ..manifolds import SPDBuresWasserstein
from ..privacy._noise import Noise
from ..statistics import FrechetMean, TangentMean
from ._ball_search import SearchResult
from ._drawn import Drawn
from ._shrinking import kept

_STRETCHED = (
    "the mean of the records moved into the ball, its vector from the centre times n over the"
    " released count of valid records,"
)


def facts_of_search(found: SearchResult, unit: float) -> dict[str, Any]:
    """Public facts of a search; `unit` is that of its radii."""
    plan = found.plan
    assert plan.counted is not None
    deviation = plan.noise.count_deviation(plan.valid_share)
    return {
        "need": plan.need,
        "share_of_search": float(found.spent),
        "rounds": found.rounds,
        "radii": tuple(r * unit for r in found.radii),
        "scales": found.scales,
        "valid": ValidCount(round(plan.counted), deviation, plan.n, plan.need, plan.valid_share),
    }


def mean_from(
    query: FrechetMean | TangentMean,
    noise: Noise,
    noisy: Floats,
    scale: float,
    slack: float,
    stretch: float,
    facts: dict[str, Any],
) -> Drawn:
    """The mean in a ball that was found: a function of its noisy coordinates and of public facts.
    `slack` is what rounding to a grid adds to the noise, `stretch` what both are multiplied by.
    """
    manifold = query.domain.manifold
    local = query.frame.local if isinstance(query, FrechetMean) else query.domain
    noisy, scale, slack = stretch * noisy, stretch * scale, stretch * slack
    shorter = kept(noise, local.manifold, local.center, noisy, scale, local.radius)
    released = end_of(local.manifold, local.center, shorter)
    if isinstance(query, FrechetMean):
        released = query.frame.back(released)
    lengths = lengths_of(noise, scale, manifold.dim)
    errors = shrunk_errors(manifold, local.radius, lengths)
    seen = observed(query, noisy, lengths, slack, stretch)
    return Drawn(released, scale, stretch * query.sensitivity, errors, facts, seen)


def observed(
    query: FrechetMean | TangentMean,
    noisy: Floats,
    lengths: ErrorDistribution,
    slack: float,
    stretch: float = 1.0,
) -> Observation | None:
    """The noisy coordinates of a query, with the distribution of their error; `slack` is what
    rounding to a grid adds. `stretch`: what the coordinates were multiplied by, noise included.
    """
    domain, subject = query.domain, "" if stretch == 1.0 else _STRETCHED
    if isinstance(query, FrechetMean):
        local = query.frame.local
        seen = Observation(local.manifold, local.center, noisy, lengths, slack, subject=subject)
        return seen.within(domain, stretch * query.error_bound)
    # A mean of logarithms has to be the logarithm of its own end. On Bures-Wasserstein space it is:
    # logarithms are the vectors with I + L > 0, a convex set.
    manifold = domain.manifold
    reach = float(np.asarray(manifold.injectivity_radius(domain.center)))
    everywhere = manifold.is_hadamard or isinstance(manifold, SPDBuresWasserstein)
    if not (everywhere or domain.radius <= reach):
        return None
    slack += stretch * query.error_bound
    return Observation(manifold, domain.center, noisy, lengths, slack, subject=subject)
