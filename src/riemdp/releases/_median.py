"""`private_geometric_median`: a centre that gross outliers hardly move, released with a
guarantee.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..inference import Facts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._common import needs_log
from ..mechanisms._shrinking import bend_of
from ..privacy import Budget, Ledger, gaussian_noise_multiplier
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ._mean import admitted
from ._options import required_budget
from ._people import facts as people_facts

_FALL = 0.85  # of one step size to the next
_OCTAVES = 10  # the last step over the first, where `smallest` is not given
_NOISE = 0.5  # the largest accepted length of the noise of a mean of unit vectors
_BEND = 2.0  # longest step, in units of the curvature's radius where that is negative

NAME = "geometric-median"
_RECORDS = (
    "every record pulls with a unit vector; a record that is not a valid point pulls in no"
    " direction"
)
_PEOPLE = (
    "every person pulls with a unit vector from the mean of that person's records that are valid"
    " points; one without a valid record pulls in no direction"
)


def private_geometric_median(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the geometric median of private records, the point with the least sum of distances.

    A record pulls with a unit vector however far away it is. So no ball is needed for privacy, and
    records that are wrong by orders of magnitude hardly move the median as long as they are fewer
    than half; a mean moves with each of them. The steps are those of `DPRGD` on all records, at
    public step sizes that fall from the radius of `ball` to its smallest radius.

    Args:
        manifold: A space with a logarithm.
        X: n >= 1 records, a list of them or (n, *manifold.shape); a tuple of such on a product. n
            is public. A record that is no point of the space pulls in no direction.
        ball: A public `AdaptiveBall`: its outer ball says where the steps begin and how long the
            first ones are, `smallest` how long the last; or that outer `Ball`. It decides accuracy,
            not privacy. Default: `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)` with delta > 0, required.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, before the noise is drawn; None charges the innermost `with
            Ledger(...)`, if any.
        groups: One label of a person for each record. Then every person pulls once, from the mean
            of that person's records, n is the number of people, and everything of one person is
            protected; see `private_frechet_mean`.

    Returns:
        A `Release`. Its `scale` is the standard deviation of one step's noise per orthonormal
        coordinate of the averaged unit vectors.

    Raises:
        InvalidArgument: An argument is out of range, or n is so small that noise drowns the steps
            (from public numbers only; the message says how many records are needed). Nothing was
            spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are and on
        every manifold: T Gaussian releases of sensitivity 2 / n, T being public.

    Source:
        Fletcher, Venkatasubramanian and Joshi 2009 (the median on manifolds); Han2024 Algorithm 1.
        Proof: docs/proofs/optimisers.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.tile(np.eye(2), (2000, 1, 1))
        >>> X[:400] *= 1e6  # one record in five is in another unit
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> budget = riemdp.Budget(1.0, 1e-6)
        >>> median = riemdp.private_geometric_median(space, X, budget=budget, rng=0)
        >>> bool(space.dist(np.eye(2), median.value) < 0.5)
        True
    """
    manifold = admit_manifold(manifold, X, "private_geometric_median(manifold, X, ball, budget)")
    budget = required_budget(budget, ball)
    refuse_sent(budget, ledger)
    if not budget.delta > 0:
        raise invalid("budget", budget, "the noise of the steps is Gaussian and needs delta > 0")
    if not isinstance(ball, Ball | AdaptiveBall | None):
        raise invalid("ball", ball, "give a riemdp.AdaptiveBall(...), its outer Ball, or None")
    search = ball if isinstance(ball, AdaptiveBall) else AdaptiveBall(ball)
    needs_log(manifold, "private_geometric_median")
    start = search.on(manifold).center
    rates = step_sizes(manifold, search)
    records, n, grouped, _ = admitted(manifold, X, groups)
    need = records_needed(manifold.dim, len(rates), budget)
    _check_size(n, need)
    # What runs on JAX is imported where it is asked for.
    from .. import problems
    from ..optimizers import DPRGD
    from ..optimizers._account import Account
    from ..optimizers._minimize import minimized

    optimizer = DPRGD(len(rates), lambda t: float(rates[t]), 1.0)
    problem = problems.geometric_median(manifold)
    account = Account(ledger, of_people=grouped is not None)
    result = minimized(problem, records, start, optimizer, budget, account=account, rng=rng)
    told = {
        **dict(result.details),
        "n": n,
        "need": need,
        "query": "geometric median",
        "manifold": manifold,
        "budget": budget,
        "search": search,
        "steps": result.steps,
        "step_sizes": tuple(float(rate) for rate in rates),
        **people_facts(grouped, found=True),
        "clipping": _RECORDS if grouped is None else _PEOPLE,
    }
    return Release(
        value=result.value,
        guarantee=result.guarantee,
        scale=result.sigma,
        mechanism=NAME,
        reproducible=result.reproducible,
        sensitivity=2.0 / n,
        facts=Facts.of(told),
        budget=budget,
        words="noisy gradient descent on all records, each of which pulls with a unit vector",
        receipt=result.receipt,
    )


def _check_size(n: int, need: int) -> None:
    if n < need:
        raise InvalidArgument(
            f"argument `X`: n = {n} records are too few for a private geometric median with this"
            f" budget; about {need} are needed. Give a larger budget, more records, or a smaller"
            " public outer ball (ball=), which takes fewer steps. Nothing was spent"
        )


def step_sizes(manifold: AbstractManifold, search: AdaptiveBall) -> NDArray[np.float64]:
    """Public step sizes: long enough to reach every point of the search, then falling.

    Where curvature is negative a long step in a slightly wrong direction goes far astray, so there
    the first ones are more and shorter.
    """
    domain = search.on(manifold)
    reach = domain.largest(domain.center) if search.outer is None else float(search.outer.radius)
    last = reach * 2.0**-_OCTAVES if search.smallest is None else min(search.smallest, reach)
    limit = float(np.asarray(manifold.injectivity_radius(domain.center))) / 2.0
    bend = bend_of(manifold)
    first = min(reach, limit, _BEND / bend if bend > 0.0 else math.inf)
    held = math.ceil(2.0 * (reach / first - 1.0))
    count = max(0, math.ceil(math.log(first / last) / -math.log(_FALL))) + 1
    rates = first * np.concatenate([np.ones(held), _FALL ** np.arange(count)])
    return rates.astype(np.float64)


def records_needed(dim: int, steps: int, budget: Budget) -> int:
    """From how many records on the noise of a step is typically no longer than half a unit
    vector.
    """
    return math.ceil(2.0 * math.sqrt(dim * steps) * gaussian_noise_multiplier(budget) / _NOISE)
