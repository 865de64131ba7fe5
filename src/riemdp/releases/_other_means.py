"""Means of records in a public ball by mechanisms with queries of their own: extrinsic baselines,
gradient perturbation, and the mean of clipped tangent vectors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from numpy.typing import ArrayLike

from ..domains import Ball
from ..domains._stream import Stream
from ..inference import Query
from ..manifolds import AbstractManifold
from ..mechanisms import Release, TangentMeanNoise
from ..mechanisms._base import Ready
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ._asked import Asked, told
from ._choices import build
from ._people import Admitted
from ._people import facts as people_facts


@dataclasses.dataclass(frozen=True)
class Stepwise:
    """A release that charges and draws step by step, so it is part of no other.

    Attributes:
        run: (rng, ledger) -> the release.
    """

    run: Callable[[int | NoiseSource | None, Ledger | None], Release]

    def release(self, rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        """Check what is left, charge the ledger, draw the noise."""
        return self.run(rng, ledger)


def extrinsic(
    asked: Asked, given: Admitted, own: ArrayLike | None, name: str, plan: str | None
) -> Ready:
    """A baseline, which adds arrays of the user's space: it does not move to another frame. `own`
    are the records' own private weights.
    """
    mean = asked.mean
    query, mechanism = mean.of_arrays, mean.counted(build(name, mean), asked.shown)
    prepared = query.prepare(given.records, own)
    value = query.value(prepared), (given.grouped or prepared).count_outside

    def finish(release: Release) -> Release:
        return asked.finished(release, plan, mean.domain, None)

    return mechanism._ready(value, given.unit).then(finish)


def by_steps(asked: Asked, given: Admitted, name: str) -> Stepwise:
    """Gradient perturbation, which charges and draws step by step."""
    from ._optimised import optimised  # on JAX, so not at the top

    n, domain, records = asked.mean.n, asked.mean.domain, given.records
    local = domain.frame.local
    if isinstance(records, Stream):
        inside = records.moved(domain.frame.clamp_flagged)
    else:
        inside = domain.frame.clamp_flagged(records)[0]
    of_people = given.grouped is not None

    def run(rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        release = optimised(name, local, inside, n, asked.budget, of_people, rng, ledger)
        return asked.finished(release, None, local, None)

    return Stepwise(run)


def of_tangents(
    manifold: AbstractManifold,
    given: Admitted,
    ball: Ball,
    spend: Budget | Noise,
    budget: Budget,
    count_outside: bool | None,
) -> Ready:
    """The mean of clipped tangent vectors, which is a query and a mechanism of its own."""
    mean = MeanFacts(ball.on(manifold), given.n, spend, count_outside=count_outside)
    inner = TangentMeanNoise(manifold, ball, n=mean.n, budget=mean.noise())
    # the mechanism prepares the records, and so knows which of them lay outside
    both = Counted(inner, mean.whole(), mean.share_of_count(), mean.n)
    count = None if given.grouped is None else given.grouped.count_outside
    facts = {
        "n": mean.n,
        "radius": mean.domain.radius,
        "query": Query.TANGENTS,
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
        "clipping": (
            "every record becomes the tangent vector at the centre that points to it, shortened to"
            " the radius; a record that is not a valid point counts as the centre"
        ),
        **people_facts(given.grouped),
    }
    ready = both._ready((given.records, count), given.unit)
    warn_of(ready.guarantee, budget.delta, mean.n)
    return ready.then(functools.partial(told, facts=facts))
