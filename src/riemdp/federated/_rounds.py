"""Rounds of PriRFed at a site: what it admits of a point, and the noise that it adds.

To check that a site keeps its promise whatever the server sends, read `_door` from top to bottom,
then `LocalRounds` and `SharedRounds` here.

1. `admit_current` carries the server's point onto the space and, where the ball bounds the noise,
   into it. Nothing else of a message reaches a record.
2. `updated` runs the noisy local steps. Each step adds noise of `sigma` to a sum of bounded
   contributions; `optimizers` states that, and charges it before it draws.
3. Where noise is shared, `noisy_sum` of `_shared_sum` takes its place.
"""

from __future__ import annotations

import math
from typing import Any

from .._errors import InvalidArgument
from ..domains._points import admit_point
from ..manifolds._base import Point, RecordsLike
from ..optimizers import OptimizationResult
from ..optimizers._account import Account
from ..optimizers._checks import check_data
from ..optimizers._minimize import minimized
from ..optimizers._people import Whose
from ..optimizers._plan import plan_optimizer
from ..privacy import Guarantee
from ..randomness import NoiseSource
from ..statistics._membership import Membership
from ._accounting import local_guarantee
from ._aggregate import as_point
from ._prirfed import PriRFed
from ._protocol import Admitted, Cost, Protocol, check_labels, context_of
from ._shared_sum import Belonging, check_count, noisy_sum
from ._site import declined
from ._terms import Setup

_ROUNDING = 1e-6  # how far, relatively, an honest server's point may lie outside the ball


class Rounds(Protocol):
    """What rounds with local and with shared noise have in common.

    Args:
        setup: The agreed settings, made at the site.
    """

    def __init__(self, setup: Setup):
        self.setup, self.prirfed = setup, setup.prirfed
        self.least = 1

    def asked(self, question: object) -> Admitted:
        """The point, projected onto the space and, where the ball bounds the noise, in the ball.

        Raises:
            Refused: No finite point of the right shape on the space, or one outside the ball by
                more than rounding.
        """
        manifold = self.prirfed.problem.manifold
        point = as_point(manifold, self.setup.initial, question)
        try:
            admitted = admit_current(self.prirfed, point)
        except InvalidArgument as error:
            raise declined("the server sent no valid point") from error
        if is_outside(self.prirfed, point):
            raise declined("the server sent a point outside the agreed ball")
        return Admitted(admitted, context_of(manifold, point))

    def rows(self, records: Any) -> int:
        """Along the first axis of every leaf."""
        return check_data(self.prirfed.problem, records)[1]

    def size(self, name: str, records: Any, groups: object) -> int:
        """The number of records, or of people."""
        rows = self.rows(records)
        check_labels(self.setup.of_people, groups)
        return Membership(groups, rows, of="records").n if self.setup.of_people else rows

    def whole(self, n: int) -> Guarantee:
        """That of one answer, as often as the site is asked at most."""
        return self.cost(None, n, None).guarantee.repeat(self.setup.answers)

    def own(self, records: Any, groups: object, source: NoiseSource) -> Any:
        """The records; with their labels where people are protected."""
        if not self.setup.of_people:
            return records
        return Belonging(records, groups)


class LocalRounds(Rounds):
    """Each site adds all the noise that its own guarantee needs, and answers with a point."""

    def cost(self, question: Any, n: int, sigma: float | None) -> Cost:
        """That of the local steps, by `plan_optimizer`."""
        sigma = self.setup.sigma(n) if sigma is None else sigma
        prirfed, noise = self.prirfed, 0.0 if sigma is None else sigma
        guarantee = local_guarantee(prirfed, n, noise)
        plan = plan_optimizer(prirfed.problem, n, prirfed.local, None, noise_std=noise)
        multiplier = plan.sigma / plan.sensitivity if plan.sensitivity else math.inf
        stated = guarantee.for_people() if self.setup.of_people else guarantee
        return Cost(multiplier, stated, sigma)

    def reply(
        self, question: Any, own: Any, cost: Cost, account: Account, source: NoiseSource
    ) -> Point:
        """The point after the local steps."""
        return updated(self.prirfed, own, question, cost.sigma, account, rng=source).value


class SharedRounds(Rounds):
    """The sites share the noise of the sum of all clipped gradients."""

    def __init__(self, setup: Setup):
        super().__init__(setup)
        assert setup.shared is not None
        self.shared = setup.shared
        self.least = self.shared.enough

    def cost(self, question: Any, n: int, sigma: float | None) -> Cost:
        """That of one sum."""
        shared = self.shared
        check_count("data", n)
        stated = shared.guarantee.for_people() if self.setup.of_people else shared.guarantee
        return Cost(shared.noise_multiplier, stated, shared.sigma)

    def reply(
        self, question: Any, own: Any, cost: Cost, account: Account, source: NoiseSource
    ) -> Any:
        """The site's sum on the grid, with its share of the noise."""
        return noisy_sum(self.prirfed, self.shared, own, question, account, source)


def admit_current(prirfed: PriRFed, current: Point) -> Point:
    """The server's point, carried onto the space and, where the ball bounds the noise, into it; the
    point itself if it was there.

    The sensitivity of a local step holds for points of the space, and under `sensitivity="domain"`
    for points of the ball. A server that sends another point must not change that.

    Raises:
        InvalidArgument: Not one finite point of the space to a relative error of 1e-6.
    """
    problem = prirfed.problem
    manifold = problem.manifold
    point = admit_point(manifold, "current", current)
    local = prirfed.local
    if local.is_confined:
        assert problem.ball is not None  # `sensitivity="domain"` was checked when the plan was made
        point = problem.ball.on(manifold).clamp(point)
    return point


def updated(
    prirfed: PriRFed,
    records: RecordsLike | Belonging,
    current: Point,
    sigma: float | None,
    account: Account,
    *,
    rng: int | NoiseSource | None = None,
) -> OptimizationResult:
    """One invitation, on the agent's side: `prirfed.local` from `current`, which passes
    `admit_current`, on its own records. `sigma` None runs without noise or clipping.

    Guarantee:
        `plan.local[len(records)]`, replace-one, paid from `account` before noise is drawn.

    Raises:
        InvalidArgument: The point or the records have the wrong form.
        BudgetExceeded: Before anything is drawn.
        KeyboardInterrupt: The work was interrupted. Half of it is not a reply; what was drawn
            stays charged.

    Source:
        Proof: docs/proofs/federated.md.
    """
    point = admit_current(prirfed, current)
    own: Any = records
    whose = None
    if isinstance(records, Belonging):  # people take the place of records, in `sigma` too
        own, whose = records.records, Whose(records.groups, records.places)
    done = minimized(
        prirfed.problem,
        own,
        point,
        prirfed.local,
        account=account,
        rng=rng,
        noise_std=sigma,
        whose=whose,
    )
    if done.status == "interrupted":
        raise KeyboardInterrupt
    return done


def is_outside(prirfed: PriRFed, point: Point) -> bool:
    """Whether a point of the space lies outside the ball that bounds the noise, if one does."""
    if not prirfed.local.is_confined:
        return False
    manifold, ball = prirfed.problem.manifold, prirfed.problem.ball
    assert ball is not None
    distance = float(manifold.dist(manifold.project(point), ball.center))
    return not distance <= float(ball.radius) * (1.0 + _ROUNDING)
