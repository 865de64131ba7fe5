"""The private Fréchet mean: from records and a public ball to a `Release`.

`prepared_mean` admits the records and makes a release of them that is only to be charged and drawn.
To check the claim of a mean in a public ball, read `admitted` and `_intrinsic` here, the query
(`AbstractMean.prepare`, `FrechetMean.value`), the mechanism and `AbstractReady.release`. What a
release says besides is made in `_asked`, of public facts. A private ball is searched for in
`AdaptiveMean`. Means of other kinds, which have mechanisms of their own, are in `_other_means`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from numpy.typing import ArrayLike

from .._errors import integer, invalid, one_of
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_in_parts, admit_manifold
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import AdaptiveMean, MeanGradient, PriorMean, Release
from ..mechanisms._base import Ready
from ..mechanisms._for_mean import MeanFacts
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._guarantee import ADD_REMOVE, REPLACE_ONE
from ..privacy._ledger import refuse_sent
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics import PublicPrior
from ..statistics._membership import unit_of
from ._asked import Asked, told
from ._choices import (
    AUTO,
    COMPARED,
    EXTRINSIC,
    MECHANISMS,
    NEED_DELTA,
    NEED_GRADIENT,
    OPTIMIZED,
    TANGENT_MEAN,
    moved_into,
)
from ._options import PRIVATE_BALL, PUBLIC_PRIOR, check_options, public_domain, spending
from ._other_means import Stepwise, by_steps, extrinsic, of_tangents
from ._people import Admitted, of_groups
from ._people import facts as people_facts
from ._plan import made_plan
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
        given, search = admitted(manifold, X, groups), ball or AdaptiveBall()
        searching = AdaptiveMean(manifold, search, n=given.n, budget=spend)
        return _of_records(searching, given, {"budget": budget, "search": search})
    if isinstance(ball, PublicPrior):
        check_options(named, PUBLIC_PRIOR)
        given = admitted(manifold, X, groups)
        with_prior = PriorMean(manifold, ball, n=given.n, budget=spend)
        return _of_records(with_prior, given, {"budget": budget})
    domain = public_domain(manifold, ball)
    if groups is not None and weights is not None:
        raise invalid("weights", "given", "with `groups` every person counts once; leave it out")
    check_options(options, mechanism)
    _check_budget(mechanism, budget)
    given = admitted(manifold, X, groups, domain, 1 if n_min is None else 0)
    if mechanism == TANGENT_MEAN:
        return of_tangents(manifold, given, ball, spend, budget, count_outside)
    asked = _asked(given, domain, ball, spend, budget, weights, n_min, count_outside)
    own = None if n_min is None else weights
    name, plan = mechanism, None
    if mechanism == AUTO:
        compared = made_plan(asked.mean, budget)
        name, plan = compared.best().mechanism, str(compared)
    if name in OPTIMIZED:
        return by_steps(asked, given, name)
    ready = (extrinsic if name in EXTRINSIC else _intrinsic)(asked, given, own, name, plan)
    warn_of(ready.guarantee, budget.delta, asked.mean.n)
    return ready


def admitted(
    manifold: AbstractManifold,
    X: RecordsLike,
    groups: object,
    domain: Domain | None = None,
    at_least: int = 1,
) -> Admitted:
    """The records of a release, admitted; with `groups` (labels, or `People` that were made of them
    before) one point a person.
    """
    grouped = None if groups is None else of_groups(manifold, X, groups, domain, at_least)
    points = grouped.points if grouped else X
    records, n = admit_in_parts(manifold, "X", points, at_least=at_least)
    return Admitted(records, n, grouped, unit_of(grouped))


def _asked(
    given: Admitted,
    domain: Domain,
    ball: Ball,
    spend: Budget | Noise,
    budget: Budget,
    weights: ArrayLike | None,
    n_min: int | None,
    count_outside: bool | None,
) -> Asked:
    """What was asked for, from public facts."""
    is_protected = n_min is not None
    mean = MeanFacts(
        domain,
        given.n if n_min is None else integer("n_min", n_min),
        spend,
        count_outside=count_outside,
        weights=None if is_protected else weights,
        adjacency=ADD_REMOVE if is_protected else REPLACE_ONE,
    )
    people = people_facts(given.grouped, protected=is_protected)
    return Asked(remembered(mean), ball, budget, weights is not None, people)


def _intrinsic(
    asked: Asked, given: Admitted, own: ArrayLike | None, name: str, plan: str | None
) -> Ready:
    """The mean of the records moved into the ball, and noise on it; `own` are the records' own
    private weights.
    """
    mean, query, local = asked.mean, asked.mean.query, asked.mean.domain.frame.local
    # From here on the records are touched again only by the solver; what decides and what is stated
    # is a function of public numbers.
    prepared = query.prepare(given.records, own)
    if name in NEED_GRADIENT:
        gradient = MeanGradient(local.manifold, prepared.points, prepared.shares)
        mean = dataclasses.replace(mean, gradient=gradient)
    mechanism = counted_mechanism(name, mean, asked.shown)
    value = query.value(prepared), (given.grouped or prepared).count_outside
    inner, slack = mechanism.inner, query.error_bound

    def finish(release: Release) -> Release:
        return asked.finished(moved_into(release, inner, local), plan, local, slack)

    return mechanism._ready(value, given.unit).then(finish)


def _of_records(
    mechanism: AdaptiveMean | PriorMean, given: Admitted, facts: dict[str, Any]
) -> Ready:
    """A mechanism that reads the records itself: one release, one charge."""
    people = people_facts(given.grouped, found=True)
    known = {"manifold": mechanism.manifold, **facts, **people}
    ready = mechanism._ready(given.records, given.unit)
    warn_of(ready.guarantee, facts["budget"].delta, given.n)
    return ready.then(functools.partial(told, facts=known))


def _check_budget(name: str, budget: Budget) -> None:
    if name in NEED_DELTA and not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            f"{name!r} needs delta > 0; for delta = 0 use "
            + " or ".join(repr(kind) for kind in COMPARED if kind not in NEED_DELTA),
        )
