"""A round of PriRFed in which the sites share the noise: the clipped gradients of all sites are
added under masks, and one step is taken along their noisy mean.

The site's side is `masked_sum`, the server's `moved`. To check what leaves a site, read
`masked_sum` here, `clipped_sum` (what one record can change), `SharedSum` (the noise) and
`_secure_sum` (the masks), in this order. What a server sends must have passed `admit_ask` and
`Roster.of` before.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid
from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms._shared_sum import SharedSum
from ..optimizers._account import Account
from ..optimizers._clipped_sum import center_gradient, clipped_sum, sum_sensitivity
from ..optimizers._kernels import repaired
from ..optimizers._minimize import check_data
from ..optimizers._people import MOST, People
from ..optimizers._plan import plan_optimizer
from ..privacy import Budget, gaussian, gaussian_noise_multiplier
from ..randomness import NoiseSource, noise_source
from ._prirfed import PriRFed
from ._secure_sum import Keys, Question, Words, masked

_PROBES = 8  # numbers of a frame that are compared


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


# ------------------------------------------------------------------------------------ at the site
def check_lists_of_labels(groups: Any, count: int, of: str) -> None:
    """Refuse `groups` that are not one list of labels for each of `count` agents or sites."""
    if isinstance(groups, str | bytes) or not hasattr(groups, "__len__") or len(groups) != count:
        raise invalid("groups", "given", f"give one list of labels for each {of}")


@isolated
def masked_sum(
    prirfed: PriRFed,
    shared: SharedSum,
    records: RecordsLike | Belonging,
    point: Point,
    keys: Keys,
    question: Question,
    account: Account,
    *,
    rng: int | NoiseSource | None = None,
) -> Words:
    """What one site sends in a round: its clipped gradients, summed, on the grid, with its share of
    the noise, under its masks.

    Args:
        prirfed: The agreed run.
        shared: `plan_shared` of it, made at the site.
        records: The site's records, along the first axis; with `Belonging` people take their place.
        point: The point of the round, as `admit_current` gave it.
        keys: The site's keys.
        question: The agreement, a round that the site has not answered and has counted as
            answered, its roster, and `context_of` the point as it was sent.
        account: Pays for one round before noise is drawn.
        rng: None draws from this machine's operating system; a seed is not private.

    Raises:
        InvalidArgument: A public key of the roster is unusable. Nothing is charged then.
        BudgetExceeded: Before anything is drawn.

    Guarantee:
        `shared.guarantee` for everyone who sees all messages, replace-one, under what it assumes.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    keys.meet(question.roster)
    source = noise_source(rng)
    people = records if isinstance(records, Belonging) else None
    own: Any = records if people is None else people.records
    data, n = check_data(prirfed.problem, own)
    account.of_people |= people is not None
    if people is not None:
        grouped = People(data, n, people.groups, people.places)
        account.check(shared.guarantee)  # before the choice of records is drawn
        data = grouped.drawn(source)
    centered = prirfed.local.is_confined
    values = clipped_sum(prirfed.problem, data, point, clip_of(prirfed), centered=centered)
    steps = shared.integers(values)
    account.pay(shared.guarantee)
    # its own noise is sqrt(J - q) times smaller than the guarantee needs, so it leaves under a mask
    return masked(steps + shared.noise(source), keys, question)


@isolated
def context_of(manifold: AbstractManifold, point: Point) -> bytes:
    """A digest of a point as it was sent, and of the frame that this party has there.

    It enters the masks, so that only answers at the same point and in the same frame have a sum.
    The frame is compared by a few of its numbers, to four digits: another machine may round the
    last bits otherwise, and a frame that is really another one differs in all of them.
    """
    content = hashlib.sha256()
    for leaf in leaves(point):
        array = np.ascontiguousarray(leaf, dtype="<f8")
        content.update(f"{array.shape}".encode() + array.tobytes())
    content.update(np.rint(1e4 * _probes(manifold, point)).astype("<i8").tobytes())
    return content.digest()


def _probes(manifold: AbstractManifold, point: Point) -> NDArray[np.float64]:
    """Coordinates of a fixed direction, of length 1, in eight fixed combinations."""
    at = map_leaves(np.asarray, point)
    fixed = map_leaves(lambda x: np.cos(1.0 + np.arange(x.size)).reshape(x.shape), at)
    y = np.asarray(manifold._to_coordinates(at, manifold._to_tangent(at, fixed)))
    y = y / max(float(np.linalg.norm(y)), 1e-300)
    signs = np.cos(np.outer(1.0 + np.arange(_PROBES), 1.0 + np.arange(y.size)))
    return np.nan_to_num(signs @ y)


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
