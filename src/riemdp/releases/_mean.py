"""The private Fréchet mean: from records and a public ball to a `Release`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from .._errors import integer, invalid, one_of
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_manifold
from ..domains._stream import Stream
from ..inference import Query
from ..inference._counts import warn_of_counts
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import AdaptiveMean, MeanGradient, Release, TangentMeanNoise
from ..mechanisms._base import Ready
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import PublicPrior, Records
from ..statistics._sensitivity import ADD_REMOVE, REPLACE_ONE
from ._choices import (
    AUTO,
    COMPARED,
    EXTRINSIC,
    MECHANISMS,
    NEED_DELTA,
    NEED_GRADIENT,
    OPTIMIZED,
    TANGENT_MEAN,
    build,
    moved_into,
)
from ._options import PRIVATE_BALL, check_options, public_domain, spending
from ._people import Admitted, admitted
from ._people import facts as people_facts
from ._plan import made_plan
from ._prior import PUBLIC_PRIOR, of_prior
from ._remembered import counted_mechanism, remembered


def private_frechet_mean(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | PublicPrior | None = None,
    budget: Budget | None = None,
    *,
    mechanism: str = "auto",
    weights: ArrayLike | None = None,
    n_min: int | None = None,
    groups: object = None,
    count_outside: bool | None = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the Fréchet mean (barycentre) of private records with differential privacy.

    Args:
        manifold: The space.
        X: n >= 1 records, a list of them or (n, *manifold.shape) (a tuple of such on a product). n
            is public, unless `n_min` is given. A memory-mapped file, an HDF5, Zarr or Dask array is
            read in parts and never held as a whole.
        ball: A public `Ball(center, radius)`, chosen without looking at the records. Every record
            is moved radially into it; records that are not finite, have another shape or type, or
            are not points of the space become its centre. Or an `AdaptiveBall`: the ball is found
            with a public share of the budget, and is `release.facts.ball` then. Or a `PublicPrior`,
            by which noise is shaped, and towards whose mean it shrinks. Default: `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)`, required. Pure mechanisms spend (epsilon, 0) of it.
        mechanism: "wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient",
            "dp-rgd", "dp-rsgd", "dp-rsvrg", "tangent-mean" (of clipped tangent vectors at the
            centre: no limit on the radius; another mean than Fréchet's on curved spaces),
            "extrinsic-gaussian", "extrinsic-laplace" (baselines), or "auto": the one of the first
            four that `plan_private_mean` expects to err least, never looking at the records
            (`release.details["plan"]` is the table that decided).
        weights: n public, non-negative weights of the records. With `n_min` they are the records'
            own, private like them, moved into [0, 1], and `n_min` bounds their total.
        n_min: A public lower bound of the number of records, from 1 on. Where it is given, the
            number of records is protected as well (add-or-remove-one): the mean released is that of
            the records and of max(0, n_min - n) copies of the centre. The guarantee does not rest
            on the bound being right. Not with the dp-* mechanisms, which divide by n.
        groups: One label for each record, a number or a text, that says whose it is: user-level
            privacy. Every person is then protected with all records, however many, and counts once:
            n is the number of people in every formula, and the number of records of a person is
            private. A person without a valid record counts as the centre. Not with `weights`.
        count_outside: Whether to release beside the mean, for a small public share of the budget,
            how many records lay outside the public ball or were no points
            (`release.facts.outside`). None counts wherever there is such a count and its deviation
            is at most a quarter of n. A private ball has counts of its own, the dp-* mechanisms
            have none.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.

    An option that a mechanism or a private ball does nothing with is refused. A release may be
    moved into the public ball, and shrunk towards its centre (James and Stein), where public
    numbers say that it helps: post-processing, which is in the stated error.

    Returns:
        The `Release`, with public facts in `details`.

    Raises:
        InvalidArgument: An argument cannot be used (a ball too large for the curvature, Gaussian
            noise without delta, ...). Nothing is spent. Of `X` only the form decides it.
        BudgetExceeded: The ledger has too little left. Nothing is spent.

    Guarantee:
        `release.guarantee`, within `budget`, for records whatever they are. Replace-one:
        sensitivity 2 r / n on Hadamard spaces, 2 r / (n cos(2 r sqrt kappa)) for curvature up to
        kappa > 0 (2 r w_max with weights). Add-or-remove-one: 2 r / (n_min + 1) on Hadamard spaces
        (`statistics.frechet_mean_sensitivity` for kappa > 0). The solver's public tolerance and a
        public bound of rounding are added. Running time is not covered. With `groups` neighbours
        differ in everything of one person (docs/proofs/people.md). Without a public ball:
        replace-one, mu-GDP with mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0);
        docs/proofs/private-ball.md.

    Source:
        Reimherr2021 Theorems 1, 2; Utpala2023LE; Han2024 Algorithm 1.
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space, ball = riemdp.SPDAffineInvariant(2), riemdp.Ball(np.eye(2), 1.0)
        >>> records = np.tile(1.5 * np.eye(2), (1000, 1, 1))
        >>> release = riemdp.private_frechet_mean(space, records, ball, riemdp.Budget(1.0, 1e-6))
        >>> release.value.shape, release.mechanism
        ((2, 2), 'riemannian-laplace')
        >>> budget = riemdp.Budget(1.0, 1e-6)
        >>> riemdp.private_frechet_mean(space, records, budget=budget).details["ball"].center.shape
        (2, 2)
    """
    refuse_sent(budget, ledger)
    prepared = prepared_mean(
        manifold,
        X,
        ball,
        budget,
        mechanism=mechanism,
        weights=weights,
        n_min=n_min,
        groups=groups,
        count_outside=count_outside,
    )
    return prepared.release(rng, ledger)


def prepared_mean(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | PublicPrior | None = None,
    budget: Budget | Noise | None = None,
    *,
    mechanism: str = AUTO,
    weights: ArrayLike | None = None,
    n_min: int | None = None,
    groups: object = None,
    count_outside: bool | None = None,
) -> Ready | Stepwise:
    """`private_frechet_mean` up to its charge: whatever can be refused is refused here. A part of a
    release spends a share of its `Noise`.
    """
    manifold = admit_manifold(manifold, X, "private_frechet_mean(manifold, X, ball, budget)")
    one_of("mechanism", mechanism, MECHANISMS)
    spend, budget = spending(budget, ball)
    options = {"weights": weights, "n_min": n_min, "count_outside": count_outside}
    named = {"mechanism": None if mechanism == AUTO else mechanism, **options}
    if ball is None or isinstance(ball, AdaptiveBall):
        check_options(named, PRIVATE_BALL)
        return _searched(manifold, X, ball or AdaptiveBall(), spend, budget, groups)
    if isinstance(ball, PublicPrior):
        check_options(named, PUBLIC_PRIOR)
        return of_prior(manifold, X, ball, spend, budget, groups)
    domain = public_domain(manifold, ball)
    if groups is not None and weights is not None:
        raise invalid("weights", "given", "with `groups` every person counts once; leave it out")
    check_options(options, mechanism)
    _check_budget(mechanism, budget)
    given = admitted(manifold, X, groups, domain, 1 if n_min is None else 0)
    if mechanism == TANGENT_MEAN:
        return _of_tangents(manifold, given, ball, spend, budget, count_outside)
    asked = _asked(given, domain, ball, spend, budget, weights, n_min, count_outside)
    name, plan = mechanism, None
    if mechanism == AUTO:
        compared = made_plan(asked.mean, budget)
        name, plan = compared.best().mechanism, str(compared)
    if name in OPTIMIZED:
        return _by_steps(asked, name)
    ready = (_extrinsic if name in EXTRINSIC else _intrinsic)(asked, name, plan)
    warn_of(ready.guarantee, budget.delta, asked.mean.n)
    return ready


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


@dataclasses.dataclass(frozen=True, eq=False)
class _Asked:
    """A mean in a public ball.

    Attributes:
        mean: What is public.
        ball: The ball as it was given.
        budget: What is stated of what is spent.
        given: The admitted records, or one point a person.
        own: The records' own private weights.
    """

    mean: MeanFacts
    ball: Ball
    budget: Budget
    given: Admitted
    own: ArrayLike | None

    @property
    def is_protected(self) -> bool:
        """Whether the number of records is private."""
        return self.mean.adjacency == ADD_REMOVE

    @property
    def shown(self) -> int | None:
        """The number of records, where it is public."""
        return None if self.is_protected else self.mean.n

    def told(self, plan: str | None) -> dict[str, Any]:
        """Public facts of the release."""
        mean = self.mean
        chosen_by = {} if plan is None else {"chosen_by": AUTO, "plan": plan}
        return {
            "n_min" if self.is_protected else "n": mean.n,
            "radius": mean.domain.radius,
            "query": Query.MEAN,
            "weighted": mean.weights is not None or self.own is not None,
            "manifold": mean.manifold,
            "ball": self.ball,
            "budget": self.budget,
            **people_facts(self.given.grouped, protected=self.is_protected),
            **chosen_by,
        }

    def counted(self, prepared: Records) -> int:
        """How many records, or people, lay outside."""
        return (self.given.grouped or prepared).count_outside


def _asked(
    given: Admitted,
    domain: Domain,
    ball: Ball,
    spend: Budget | Noise,
    budget: Budget,
    weights: ArrayLike | None,
    n_min: int | None,
    count_outside: bool | None,
) -> _Asked:
    """What was asked for, with records admitted: in parts, where they are in a file."""
    is_protected = n_min is not None
    mean = MeanFacts(
        domain,
        given.n if n_min is None else integer("n_min", n_min),
        spend,
        count_outside=count_outside,
        weights=None if is_protected else weights,
        adjacency=ADD_REMOVE if is_protected else REPLACE_ONE,
    )
    return _Asked(remembered(mean), ball, budget, given, weights if is_protected else None)


def _extrinsic(asked: _Asked, name: str, plan: str | None) -> Ready:
    """A baseline, which adds arrays of the user's space: it does not move to another frame."""
    mean = asked.mean
    query, mechanism = mean.of_arrays, mean.counted(build(name, mean), asked.shown)
    prepared = query.prepare(asked.given.records, asked.own)
    value = query.value(prepared), asked.counted(prepared)

    def finish(release: Release) -> Release:
        return _finished(asked, release, plan, mean.domain, None)

    return mechanism._ready(value, asked.given.unit).then(finish)


def _intrinsic(asked: _Asked, name: str, plan: str | None) -> Ready:
    """The mean of the records moved into the ball, and noise on it."""
    mean, query, local = asked.mean, asked.mean.query, asked.mean.domain.frame.local
    # From here on the records are touched again only by the solver; what decides and what is stated
    # is a function of public numbers.
    prepared = query.prepare(asked.given.records, asked.own)
    if name in NEED_GRADIENT:
        gradient = MeanGradient(local.manifold, prepared.points, prepared.shares)
        mean = dataclasses.replace(mean, gradient=gradient)
    mechanism = counted_mechanism(name, mean, asked.shown)
    value = query.value(prepared), asked.counted(prepared)

    def finish(release: Release) -> Release:
        moved = moved_into(release, mechanism.inner, local)
        return _finished(asked, moved, plan, local, query.error_bound)

    return mechanism._ready(value, asked.given.unit).then(finish)


def _by_steps(asked: _Asked, name: str) -> Stepwise:
    """Gradient perturbation, which charges and draws step by step."""
    from ._optimised import optimised  # on JAX, so not at the top

    n, domain, records = asked.mean.n, asked.mean.domain, asked.given.records
    local = domain.frame.local
    if isinstance(records, Stream):
        inside = records.moved(domain.frame.clamp_flagged)
    else:
        inside = domain.frame.clamp_flagged(records)[0]
    of_people = asked.given.grouped is not None

    def run(rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        release = optimised(name, local, inside, n, asked.budget, of_people, rng, ledger)
        return _finished(asked, release, None, local, None)

    return Stepwise(run)


def _finished(
    asked: _Asked, release: Release, plan: str | None, local: Domain, slack: float | None
) -> Release:
    """The release in the user's space, with more public facts, and warnings: post-processing. With
    `slack`, a bound of the solver's error, so is what it shows of the mean.
    """
    domain = asked.mean.domain
    value, seen = release.value, release.observation
    if local is not domain:
        value = domain.frame.back(value)
    if seen is not None and slack is not None:
        seen = seen.within(domain, slack)
    return _told(release._with(value=value, observation=seen), asked.told(plan))


def _told(release: Release, facts: Mapping[str, Any]) -> Release:
    """The release with more public facts, and warnings, by released numbers."""
    warn_of_counts(release.facts.valid, release.facts.outside)
    release = release._knowing(facts)
    release._warn_of_noise()
    return release


def _searched(
    manifold: AbstractManifold,
    X: RecordsLike,
    search: AdaptiveBall,
    spend: Budget | Noise,
    budget: Budget,
    groups: object,
) -> Ready:
    """Find a ball, and release the mean in it: one mechanism, one charge."""
    given = admitted(manifold, X, groups)
    mechanism = AdaptiveMean(manifold, search, n=given.n, budget=spend)
    facts = {
        "manifold": manifold,
        "budget": budget,
        "search": search,
        **people_facts(given.grouped, found=True),
    }
    ready = mechanism._ready(given.records, given.unit)
    warn_of(ready.guarantee, budget.delta, given.n)
    return ready.then(functools.partial(_told, facts=facts))


def _of_tangents(
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
    return ready.then(functools.partial(_told, facts=facts))


def _check_budget(name: str, budget: Budget) -> None:
    if name in NEED_DELTA and not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            f"{name!r} needs delta > 0; for delta = 0 use "
            + " or ".join(repr(kind) for kind in COMPARED if kind not in NEED_DELTA),
        )
