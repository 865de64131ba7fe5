"""The private Frechet mean: from records and a public ball to a `Release`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from .._errors import integer, invalid, one_of, real
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_in_parts, admit_manifold
from ..domains._names import names_of
from ..domains._stream import Stream
from ..inference._region import MEAN, TANGENTS
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import (
    AdaptiveMean,
    MeanGradient,
    Release,
    TangentMeanNoise,
)
from ..mechanisms._counted import Counted, plan_count
from ..mechanisms._for_mean import MeanFacts
from ..mechanisms._outside import warn_of_counts
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics import AmbientMean
from ..statistics._people import People
from ..statistics._sensitivity import (
    ADD_REMOVE,
    REPLACE_ONE,
)
from ._choices import (
    AUTO,
    COMPARED,
    EXTRINSIC,
    MECHANISMS,
    NEED_DELTA,
    NEED_GRADIENT,
    OPTIMIZED,
    TANGENT_MEAN,
    Moving,
    build,
)
from ._options import (
    ANALYTIC,
    CLASSICAL,
    PRIVATE_BALL,
    check_options,
    check_shrink,
    given_of,
    refused,
    required_budget,
)
from ._people import charged, of_groups
from ._people import facts as people_facts
from ._prepared import Prepared, Releasing, Stepwise
from ._remembered import chosen, counted_mechanism, mean_query

if TYPE_CHECKING:
    from ..optimizers import AbstractOptimizer


def private_frechet_mean(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    mechanism: str = "auto",
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    weights: ArrayLike | None = None,
    tolerance: float | None = None,
    calibration: str | None = None,
    optimizer: AbstractOptimizer | None = None,
    clamp_release: bool | None = None,
    shrink: bool | None = None,
    adjacency: str = REPLACE_ONE,
    n_min: int | None = None,
    count_outside: bool | None = None,
    groups: object = None,
) -> Release:
    """Release the Frechet mean (barycentre) of private records with differential privacy.

    Args:
        manifold: The space.
        X: n >= 1 records, a list of them or (n, *manifold.shape) (a tuple of such on a product). n
            is public, unless `adjacency` says otherwise. A memory-mapped file, an HDF5, Zarr or
            Dask array is read in parts and never held as a whole. The names of a DataFrame's
            columns or of an xarray's coordinates are taken as public: they stand in the release.
        ball: A public `Ball(center, radius)`, chosen without looking at the records. Every record
            is moved radially into it; records that are not finite, have another shape or type, or
            are not points of the space become its centre. Or an `AdaptiveBall`: the ball is found
            with a public share of the budget, and is `release.details["ball"]` then. None means
            `AdaptiveBall()`.
        budget: `Budget(epsilon, delta)`, required. Pure mechanisms spend (epsilon, 0) of it.
        mechanism: "wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient",
            "dp-rgd", "dp-rsgd", "dp-rsvrg", "tangent-mean" (the mean of clipped tangent vectors at
            the centre, `TangentMeanNoise`: one pass, sensitivity 2 r / n whatever the curvature, no
            limit on the radius; another mean than Frechet's on curved spaces),
            "extrinsic-gaussian", "extrinsic-laplace" (baselines), or "auto": the one of the first
            four with the smallest expected squared error for a mean half the radius away from the
            centre in `plan_private_mean(manifold, ball, n, budget)`, never looking at the records
            (the table that decided is in `release.details["plan"]`). An option that a mechanism
            does nothing with is refused, and so is each from `weights` to `count_outside` without a
            public ball.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.
        weights: n public, non-negative weights of the records.
        tolerance: Public tolerance (above 0, below 1) on the gradient of F = 1/2 sum w_i d^2 that
            the mean is solved to, default 1e-10 max(1, radius) and what float64 resolves (of SPD
            matrices of more than 50 rows in a file at least .005 of the sensitivity times h, which
            is 1 % more noise and a pass less); 2 tolerance / h is added to the sensitivity.
        calibration: "analytic" (None) or "classical" (Gaussian mechanisms, epsilon <= 1).
        optimizer: Settings for a dp-* mechanism (`DPRGD(...)`, ...); default: full-record
            sensitivity from the ball where the space allows it, public defaults otherwise.
        clamp_release: Whether a wrapped release is moved into the public ball: post-processing, and
            counted in the stated error. None moves it where it is proved to come no farther from
            the mean (Hadamard spaces, spheres up to radius pi/3), and elsewhere where the stated
            error is larger than the diameter of the ball; extrinsic baselines and noise as
            published ("classical") stay as they are. Releases of Riemannian Laplace, K-norm, the
            tangent mean and the dp-* mechanisms are always in the ball, and refuse this option.
        shrink: Shrink a wrapped Gaussian release towards the centre of the ball (James and Stein;
            see `WrappedGaussian`); refused where another mechanism is used, or chosen by "auto",
            and True in dimension 1 and 2. On flat spaces of dimension 3 and more the expected
            squared error is then smaller wherever the mean lies, most of all near the centre, and
            None shrinks. On curved ones that holds in the tangent space at the centre, and None
            does not. A mean in a ball that was found privately is always shrunk.
        adjacency: "replace-one", or "add-or-remove-one" if also the number of records is to be
            protected. The mean released is then that of the records and of max(0, n_min - n) copies
            of the centre, so X may hold any number of records, none too. n itself is not released.
            `weights` are then the records' own, private like them, moved into [0, 1], and n_min
            bounds their total. The dp-* mechanisms are refused: they divide by n.
        n_min: A public lower bound of the number of records (from 1 on), required for
            "add-or-remove-one". It takes the place of n in every formula; the guarantee does not
            rest on it being right.
        count_outside: Whether to release beside the mean, for a small public share of the budget,
            how many records lay outside the public ball or were no points:
            `release.details["outside"]`, an `OutsideCount`, "about 40 ± 19 of 200 records". The
            share makes the noise of the mean at most 2.1 % (Gaussian) or 4.2 % (pure) larger; less
            where n is large. None counts where the standard deviation of the count is at most a
            quarter of n (`n_min`), so not for few records; True counts always; False never, and the
            mean gets the whole budget. Not with an `AdaptiveBall`, the dp-* mechanisms or
            calibration="classical". A warning follows where more than a quarter lay outside.
        groups: One label for each record, a number or a text, that says whose it is. Every person
            is then protected with all records, however many, and counts once: the mean released is
            that of the people's means, n is the number of people in every formula, and the number
            of records of a person is private. Records that are no points are left out of their
            person's mean; a person without a valid one counts as the centre. Not with `weights`.
            That every record has a label is public.

    Returns:
        The `Release`, with public facts in `details`.

    Raises:
        InvalidArgument: An argument cannot be used (a ball too large for the curvature, or so large
            that rounding would exceed a thousandth of the sensitivity; Gaussian noise without
            delta; ...). Nothing is spent. Which records `X` holds decides nothing here, only its
            form does.
        BudgetExceeded: The ledger has too little left. Nothing is spent.

    Guarantee:
        `release.guarantee`, within `budget`, for records whatever they are. Replace-one:
        sensitivity 2 r / n on Hadamard spaces, 2 r / (n cos(2 r sqrt kappa)) for curvature up to
        kappa > 0 (2 r w_max with weights). Add-or-remove-one: 2 r / (n_min + 1) on Hadamard spaces
        (`statistics.frechet_mean_sensitivity` for kappa > 0). The solver's public tolerance and a
        public bound of rounding are added. The time that a release takes grows with the number of
        records, under either. The mean and the count of records outside share the budget, and are
        charged at once. With `groups` neighbours differ in everything of one person
        (docs/proofs/people.md), and `release.guarantee.unit` is "person". Without a public ball:
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
        tolerance=tolerance,
        calibration=calibration,
        optimizer=optimizer,
        clamp_release=clamp_release,
        shrink=shrink,
        adjacency=adjacency,
        n_min=n_min,
        count_outside=count_outside,
        groups=groups,
    )
    return prepared.release(rng, ledger)


def prepared_mean(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    mechanism: str = "auto",
    weights: ArrayLike | None = None,
    tolerance: float | None = None,
    calibration: str | None = None,
    optimizer: AbstractOptimizer | None = None,
    clamp_release: bool | None = None,
    shrink: bool | None = None,
    adjacency: str = REPLACE_ONE,
    n_min: int | None = None,
    count_outside: bool | None = None,
    groups: object = None,
) -> Releasing:
    """`private_frechet_mean` up to its charge: whatever can be refused is refused here. A
    `Prepared`, but for the dp-* mechanisms.
    """
    manifold = admit_manifold(manifold, X, "private_frechet_mean(manifold, X, ball, budget)")
    one_of("mechanism", mechanism, MECHANISMS)
    budget = required_budget(budget, ball)
    given = given_of(
        weights=weights,
        tolerance=tolerance,
        calibration=calibration,
        optimizer=optimizer,
        clamp_release=clamp_release,
        shrink=shrink,
        adjacency=adjacency,
        n_min=n_min,
        count_outside=count_outside,
    )
    if ball is None or isinstance(ball, AdaptiveBall):
        if mechanism != AUTO:
            raise refused("mechanism", mechanism, PRIVATE_BALL, "give a public `ball`")
        check_options(given, None, [budget])
        search = AdaptiveBall() if ball is None else ball
        return _adaptive(manifold, X, search, budget, groups)
    domain = _bound(manifold, ball)
    if groups is not None and weights is not None:
        raise invalid("weights", "given", "with `groups` every person counts once; leave it out")
    check_options(given, mechanism, [budget])
    if mechanism == TANGENT_MEAN:
        grouped = of_groups(manifold, X, groups, domain)
        return _of_tangents(manifold, X, grouped, ball, budget, count_outside)
    if tolerance is not None:
        tolerance = real("tolerance", tolerance, above=0.0, below=1.0)
    _check_budget(mechanism, budget)
    grouped = of_groups(manifold, X, groups, domain, 1 if adjacency == REPLACE_ONE else 0)
    points = grouped.points if grouped else X
    records, n = _counted(manifold, points, adjacency, n_min)
    names = names_of(X)
    public: dict[str, Any] = {
        "weights": weights if adjacency == REPLACE_ONE else None,
        "adjacency": adjacency,
        "streamed": isinstance(records, Stream),
    }
    own = weights if adjacency == ADD_REMOVE else None
    name = mechanism
    details: dict[str, Any] = {
        "n" if adjacency == REPLACE_ONE else "n_min": n,
        "radius": domain.radius,
        "query": MEAN,
        "weighted": weights is not None,
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
        **people_facts(grouped, protected=adjacency != REPLACE_ONE),
    }
    choice = {"tolerance": tolerance, "calibration": calibration or ANALYTIC, **public}
    if calibration == CLASSICAL or name in OPTIMIZED:
        count_outside = False
    shares = plan_count(budget, n, count_outside)
    moving = Moving(clamp_release, calibration == CLASSICAL)
    shown = n if adjacency == REPLACE_ONE else None  # how many records there are, where public
    if mechanism == AUTO:
        name, plan = chosen(manifold, ball, n, budget, clamp_release, count_outside, **choice)
        details |= {"chosen_by": "auto", "plan": plan}
    check_shrink(shrink, name, manifold.dim)
    local, ready, built, slack = domain.frame.local, None, None, None
    if name in EXTRINSIC:
        # These baselines add arrays of the user's space, so they do not move to another frame.
        local, ambient = domain, AmbientMean(domain, n, **public)
        built = build(name, MeanFacts(manifold, ball, n, shares.rest, **choice))
        prepared = ambient.prepare(records, own)
        value = ambient.value(prepared), (grouped or prepared).count_outside
        ready = charged(Counted(built, shares, shown), grouped)._ready(value)
    elif name not in OPTIMIZED:
        query = mean_query(domain, n, tolerance=tolerance, **public)
        # From here on the records are touched again only by the solver; what decides and what is
        # stated is a function of public numbers.
        prepared = query.prepare(records, own)
        gradient = None
        if name in NEED_GRADIENT:
            gradient = MeanGradient(local.manifold, prepared.points, prepared.shares)
        both, built = counted_mechanism(
            name, local, n, shares, shown, shrink=shrink, gradient=gradient, **choice
        )
        value = query.value(prepared), (grouped or prepared).count_outside
        ready, slack = charged(both, grouped)._ready(value), query.error_bound

    def finish(release: Release) -> Release:
        warn_of(release.guarantee, budget.delta, n)
        warn_of_counts(release.details.get("outside"))
        if built is not None:
            release = moving.applied(release, built, local)
        release = _finished(release, details, local, domain, slack)._named(names)
        release._warn_of_noise()
        return release

    if ready is not None:
        return Prepared(ready, finish)
    if isinstance(records, Stream):
        inside = records.moved(domain.frame.moving)
    else:
        inside = domain.frame.clamp(records)
    from ._optimised import optimised, optimiser_of  # on JAX, so not at the top

    used = optimiser_of(name, optimizer)
    run = partial(optimised, used, local, inside, n, budget, grouped is not None)
    return Stepwise(lambda rng, ledger: finish(run(rng, ledger)))


def _adaptive(
    manifold: AbstractManifold,
    X: RecordsLike,
    search: AdaptiveBall,
    budget: Budget,
    groups: object,
) -> Prepared:
    """Find a ball, and release the mean in it: one mechanism, one charge."""
    grouped = of_groups(manifold, X, groups, None)
    records, n = admit_in_parts(manifold, "X", grouped.points if grouped else X)
    mechanism = charged(AdaptiveMean(manifold, search, n=n, budget=budget), grouped)
    names = names_of(X)

    def finish(release: Release) -> Release:
        warn_of(release.guarantee, budget.delta, n)
        warn_of_counts(release.details["valid"], release.details["outside"])
        clipped = release.details["query"] == "tangent-mean"
        details = {
            "query": TANGENTS if clipped else MEAN,
            "manifold": manifold,
            "budget": budget,
            "search": search,
            "radius": release.details["ball"].radius,
            **people_facts(grouped, found=True),
        }
        release = release._with(details={**release.details, **details})
        release._warn_of_noise()
        return release._named(names)

    return Prepared(mechanism._ready(records), finish)


def _of_tangents(
    manifold: AbstractManifold,
    X: RecordsLike,
    grouped: People | None,
    ball: Ball,
    budget: Budget,
    count_outside: bool | None,
) -> Prepared:
    """The mean of clipped tangent vectors, which is a query and a mechanism of its own."""
    records, n = admit_in_parts(manifold, "X", grouped.points if grouped else X)
    shares = plan_count(budget, n, count_outside)
    streamed = isinstance(records, Stream)
    mechanism = TangentMeanNoise(manifold, ball, n=n, budget=shares.rest, streamed=streamed)
    # the mechanism prepares the records, and so knows which of them lay outside
    both, names = charged(Counted(mechanism, shares, n), grouped), names_of(X)
    count = None if grouped is None else grouped.count_outside
    details = {
        "n": n,
        "radius": mechanism.query.domain.radius,
        "query": TANGENTS,
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
        "clipping": (
            "every record becomes the tangent vector at the centre that points to it, shortened to"
            " the radius; a record that is not a valid point counts as the centre"
        ),
        **people_facts(grouped),
    }

    def finish(release: Release) -> Release:
        warn_of(release.guarantee, budget.delta, n)
        warn_of_counts(release.details.get("outside"))
        release = release._with(details={**release.details, **details})
        release._warn_of_noise()
        return release._named(names)

    return Prepared(both._ready((records, count)), finish)


def _bound(manifold: AbstractManifold, ball: Ball) -> Domain:
    if not isinstance(ball, Ball):
        raise invalid(
            "ball",
            ball,
            "give a public Ball(center, radius), chosen without looking at the records, or"
            " AdaptiveBall()",
        )
    return ball.on(manifold)


def _counted(
    manifold: AbstractManifold,
    X: RecordsLike,
    adjacency: str,
    n_min: int | None,
) -> tuple[Any, int]:
    """The admitted records, and the public number that the noise is made for."""
    if adjacency == ADD_REMOVE:
        if n_min is None:
            raise invalid(
                "n_min",
                n_min,
                "under add-or-remove-one the number of records is private; give a public lower"
                " bound of it (data sets with fewer records are filled up with the centre of the"
                " ball)",
            )
        return admit_in_parts(manifold, "X", X, at_least=0)[0], integer("n_min", n_min)
    if n_min is not None:
        raise invalid(
            "n_min",
            n_min,
            'under "replace-one" the number of records is public; leave it out, or give '
            'adjacency="add-or-remove-one"',
        )
    return admit_in_parts(manifold, "X", X)


def _finished(
    release: Release, details: dict[str, Any], local: Domain, domain: Domain, slack: float | None
) -> Release:
    """The release in the user's space, with more public facts: post-processing. With `slack`, a
    bound of the solver's error, so is what it shows of the mean.
    """
    value, seen = release.value, release.observation
    if local is not domain:
        value = domain.frame.back(value)
    if seen is not None and slack is not None:
        seen = seen.within(domain, slack)
    details = {**release.details, **details}
    return release._with(value=value, observation=seen, details=details)


def _check_budget(name: str, budget: Budget) -> None:
    if name in NEED_DELTA and not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            f"{name!r} needs delta > 0; for delta = 0 use "
            + " or ".join(repr(kind) for kind in COMPARED if kind not in NEED_DELTA),
        )
