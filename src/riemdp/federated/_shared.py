"""A round of PriRFed in which the sites share the noise: the clipped gradients of all sites are
added under masks, and one step is taken along their noisy mean.

The site's side is `noisy_sum`, the server's `moved`. To check what leaves a site, read `noisy_sum`
here, `clipped_sum` (what one record can change), `SharedSum` (the noise) and `_secure_sum` (the
masks), in this order. What a server sends must have passed the door before.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._isolation import isolated
from .._trees import leaves
from ..manifolds._base import Point
from ..mechanisms._shared_sum import Integers, SharedSum
from ..optimizers._account import Account
from ..optimizers._clipped_sum import center_gradient, clipped_sum, sum_sensitivity
from ..optimizers._kernels import repaired
from ..optimizers._minimize import check_data
from ..optimizers._people import MOST, People
from ..optimizers._plan import plan_optimizer
from ..privacy import Budget, gaussian, gaussian_noise_multiplier
from ..randomness import NoiseSource
from ._prirfed import PriRFed


def clip_of(prirfed: PriRFed) -> float:
    """The clip norm of the agreed local step. A public number."""
    return plan_optimizer(prirfed.problem, 1, prirfed.local, None, noise_std=1.0).clip


@functools.lru_cache(maxsize=64)
def _planned(
    sites: int, tolerated: int, dim: int, clip: float, rounds: int, budget: Budget
) -> SharedSum:
    multiplier = gaussian_noise_multiplier(budget) * math.sqrt(rounds)
    while not gaussian(multiplier, rounds).within(budget):
        multiplier *= 1.0 + 1e-12
    return SharedSum(sites, tolerated, dim, sum_sensitivity(clip), multiplier)


def plan_shared(prirfed: PriRFed, budget: Budget) -> SharedSum:
    """Grid and noise of one round, from the agreed settings: the same at every party.

    Args:
        prirfed: With noise="shared"; its `agents_per_round` is the number J of sites.
        budget: Of the whole run, for every record.

    Returns:
        The plan of one round. `rounds` of them are within the budget.

    Raises:
        InvalidArgument: Such a budget cannot be met by shared noise.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    clip, dim = clip_of(prirfed), prirfed.problem.manifold.dim
    sites, tolerated = prirfed.agents_per_round, prirfed.tolerated
    return _planned(sites, tolerated, dim, clip, prirfed.rounds, budget)


# ------------------------------------------------------------------------------------ at the site
@dataclasses.dataclass(frozen=True, eq=False)
class Belonging:
    """Records of people.

    Attributes:
        records: Along the first axis.
        groups: One label of a person for each record. Private.
        places: How many records of one person are used; public.
    """

    records: Any
    groups: Any
    places: int = MOST


@isolated
def noisy_sum(
    prirfed: PriRFed,
    shared: SharedSum,
    own: Any,
    point: Point,
    account: Account,
    source: NoiseSource,
) -> Integers:
    """A site's clipped gradients, summed, on the grid, with its share of the noise. That share is
    sqrt(J - q) times smaller than the guarantee needs, so this leaves the site under masks only.

    Args:
        prirfed: The agreed run.
        shared: `plan_shared` of it, made at the site.
        own: The site's records, along the first axis; with `Belonging` people take their place.
        point: The point of the round, as `admit_current` gave it.
        account: Pays for one round before noise is drawn.
        source: What this site draws from.

    Raises:
        BudgetExceeded: Before anything is drawn.

    Guarantee:
        Under masks, `shared.guarantee` for everyone who sees all messages, replace-one, under what
        it assumes.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    people = own if isinstance(own, Belonging) else None
    records: Any = own if people is None else people.records
    data, n = check_data(prirfed.problem, records)
    account.of_people |= people is not None
    if people is not None:
        grouped = People(data, n, people.groups, people.places)
        account.check(shared.guarantee)  # before the choice of records is drawn
        data = grouped.drawn(source)
    centered = prirfed.local.is_confined
    values = clipped_sum(prirfed.problem, data, point, clip_of(prirfed), centered=centered)
    steps = shared.integers(values)
    account.pay(shared.guarantee)
    return steps + shared.noise(source)


# ---------------------------------------------------------------------------------- at the server
@isolated
def moved(
    prirfed: PriRFed,
    shared: SharedSum,
    current: Point,
    total: NDArray[np.int64],
    records: int,
) -> Point | None:
    """The next point, one step along the noisy mean of all gradients, or None where the words that
    came have no sum: some party used other masks.

    Args:
        prirfed: The agreed run.
        shared: `plan_shared` of it.
        current: The point of the round.
        total: The sum of the words of all members of the roster.
        records: How many records these sites have together; public.

    Returns:
        A finite point of the space, or None. Post-processing of the sum.
    """
    problem, local = prirfed.problem, prirfed.local
    coordinates = shared.value(total, records * clip_of(prirfed))
    if coordinates is None:
        return None
    mean = coordinates / records
    if local.is_confined:
        mean = mean + center_gradient(problem, current)
    plan: Any = plan_optimizer(problem, records, local, None, noise_std=shared.sigma)
    manifold = problem.manifold
    step = manifold.from_coordinates(current, -float(plan.rates[0]) * mean)
    carried = (
        manifold.exp(current, step) if local.update == "exp" else manifold.retract(current, step)
    )
    point = repaired(manifold, carried)
    if local.is_confined:
        assert problem.ball is not None
        point = problem.ball.on(manifold).clamp_point(point)
    good = all(bool(np.all(np.isfinite(leaf))) for leaf in leaves(point))
    return point if good and bool(manifold.belongs(point, 1e-6)) else None
