"""The private Frechet mean: from records and a public ball to a `Release`."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, RiemdpError, RiemdpWarning, invalid, one_of, real
from ..manifolds import AbstractManifold
from ..mechanisms import MeanGradient, Release
from ..mechanisms._common import CALIBRATIONS, clamp_point, optional_ball
from ..mechanisms._extrinsic import ambient_mean
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..statistics._sensitivity import ADD_REMOVE, REPLACE_ONE, frechet_mean_sensitivity
from ._choices import EXTRINSIC, MECHANISMS, NEED_DELTA, OPTIMIZED, build, public_tolerance
from ._plan import plan_private_mean
from ._records import Prepared, prepare


class MeanNotConverged(RiemdpError):
    """The mean of the clamped records was not found to the public tolerance. Nothing was spent and
    nothing released; note that whether this error is raised depends on the records.
    """


def private_frechet_mean(
    manifold: Any,
    X: Any,
    ball: Any,
    budget: Any,
    *,
    mechanism: str = "auto",
    rng: Any = None,
    ledger: Any = None,
    weights: Any = None,
    tolerance: float | None = None,
    calibration: str = "analytic",
    optimizer: Any = None,
    clamp_release: bool = False,
    adjacency: str = REPLACE_ONE,
    n_min: int | None = None,
) -> Release:
    """Release the Frechet mean (barycentre) of private records with differential privacy.

    **Arguments:**

    - `manifold`, `X`: the space and n >= 1 records, (n, *manifold.shape) (a tuple of such on a
      product). n is public, unless `adjacency` says otherwise.
    - `ball`: a public `Ball(center, radius)`, chosen without looking at the records. Every record
      is moved radially into it; records that are not finite or not points of the space become its
      centre.
    - `budget`: `Budget(epsilon, delta)`. Pure mechanisms spend (epsilon, 0) of it.
    - `mechanism`: "wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient",
      "dp-rgd", "dp-rsgd", "dp-rsvrg", "extrinsic-gaussian", "extrinsic-laplace" (baselines), or
      "auto": the one with the smallest expected squared error for a mean half the radius away from
      the centre in `plan_private_mean(manifold, ball, n, budget)`, never looking at the records
      (the table that decided is in `release.details["plan"]`).
    - `rng`: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
    - `ledger`: the `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.
    - `weights`: n public, non-negative weights of the records.
    - `tolerance`: public tolerance (above 0, below 1) on the gradient of F = 1/2 sum w_i d^2 that
      the mean is solved to, default 1e-10 max(1, radius); 2 tolerance / h is added to the
      sensitivity.
    - `calibration`: "analytic" or "classical" (Gaussian mechanisms, epsilon <= 1).
    - `optimizer`: settings for a dp-* mechanism (`DPRGD(...)`, ...); default: full-record
      sensitivity from the ball where the space allows it, public defaults otherwise.
    - `clamp_release`: move the released point into the ball (post-processing, never increases the
      error). Releases of Riemannian Laplace, K-norm and the dp-* mechanisms always are.
    - `adjacency`: "replace-one", or "add-or-remove-one" if also the number of records is to be
      protected. Then `n_min`, a public lower bound of that number (from 1 on), is required and
      takes the place of n in every formula; the mean released is that of the records and of max(0,
      n_min - n) copies of the centre, so X may hold any number of records, none too, and the
      guarantee does not rest on n_min being right. n itself is not released. `weights` are then the
      records' own, private like them, moved into [0, 1], and n_min bounds their total. The dp-*
      mechanisms are refused: they divide by n.

    **Errors:** `InvalidArgument` naming the argument (a ball too large for the curvature, Gaussian
    noise without delta, ...); `BudgetExceeded` from the ledger; `MeanNotConverged` (the rule for a
    solver that stops early, fixed in advance: nothing is released; that it is raised depends on the
    records). In all of these nothing is spent.

    Guarantee: `release.guarantee`, within `budget`, for records whatever they are. Replace-one:
    sensitivity 2 r / n on Hadamard spaces, 2 r / (n cos(2 r sqrt kappa)) for curvature up to kappa
    > 0 (2 r w_max with weights). Add-or-remove-one: 2 r / (n_min + 1) on Hadamard spaces
    (`statistics.frechet_mean_sensitivity` for kappa > 0). The time that a release takes grows with
    the number of records, under either.

    Source: Reimherr2021 Theorems 1, 2; Utpala2023LE; Han2024 Algorithm 1.
    """
    if not isinstance(manifold, AbstractManifold):
        order = "the order is private_frechet_mean(manifold, X, ball, budget)"
        swapped = isinstance(X, AbstractManifold)
        raise InvalidArgument(
            "arguments `manifold` and `X` are swapped: " + order
            if swapped
            else f"argument `manifold` is a {type(manifold).__name__}; give a space such as"
            f" riemdp.SPDAffineInvariant(k) ({order})"
        )
    one_of("mechanism", mechanism, MECHANISMS)
    one_of("calibration", calibration, CALIBRATIONS)
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if ball is None:
        raise invalid(
            "ball",
            ball,
            "give a public Ball(center, radius), chosen without looking at the records",
        )
    ball = optional_ball(manifold, ball)
    tolerance = (
        public_tolerance(ball)
        if tolerance is None
        else real("tolerance", tolerance, above=0.0, below=1.0)
    )
    if optimizer is not None and mechanism not in OPTIMIZED:
        raise invalid(
            "optimizer", optimizer, 'it goes with mechanism "dp-rgd", "dp-rsgd" or "dp-rsvrg"'
        )
    _check_budget(mechanism, budget)
    data = prepare(manifold, X, ball, weights, adjacency, n_min)
    # From here on the records are touched again only by the solver; what decides and what is stated
    # is a function of these.
    public = {
        "tolerance": tolerance,
        "weights": None if adjacency == ADD_REMOVE else data.shares,
        "calibration": calibration,
        "adjacency": adjacency,
    }
    name = mechanism
    details = {
        **data.public_facts,
        "query": "Fréchet mean",
        "manifold": manifold,
        "ball": ball,
        "budget": budget,
    }
    if mechanism == "auto":
        plan = plan_private_mean(
            manifold, ball, data.n, budget, clamp_release=clamp_release, **public
        )
        name = plan.best().mechanism
        details |= {"chosen_by": "auto", "plan": str(plan)}
    if name in OPTIMIZED:
        release = _optimised(name, manifold, data, ball, budget, rng, ledger, optimizer, adjacency)
    elif name in EXTRINSIC:
        built = build(name, manifold, ball, data.n, budget, **public)
        release = built.release(
            ambient_mean(manifold, data.records, data.shares), rng, ledger=ledger
        )
    else:
        gradient = (
            MeanGradient(manifold, data.records, data.shares) if name == "k-norm-gradient" else None
        )
        built = build(name, manifold, ball, data.n, budget, gradient=gradient, **public)
        release = built.release(
            mean_of_clamped(manifold, data.records, ball, data.shares, tolerance),
            rng,
            ledger=ledger,
        )
    warn_of(release.guarantee, budget.delta, data.n)
    return _with_details(
        release,
        details,
        clamp_point(manifold, ball, release.value) if clamp_release else release.value,
    )


def mean_of_clamped(manifold: Any, clamped: Any, ball: Any, weights: Any, tolerance: float) -> Any:
    """Frechet mean of records in the ball to the public tolerance, moved into the ball, or
    `MeanNotConverged`.

    Moving it in brings it no farther from the exact mean: radially, towards the centre of a ball as
    small as the curvature requires, distances only shrink.
    """
    from ..statistics import frechet_mean

    with (
        warnings.catch_warnings()
    ):  # a warning that depends on the records would tell something about them
        warnings.simplefilter("ignore", RiemdpWarning)
        result = frechet_mean(manifold, clamped, weights=weights, tol=tolerance)
    finite = all(
        bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(result.value)
    )
    # A small gradient means a near mean only where F is strongly convex. Where curvature is
    # positive that is the ball, which holds the mean; another stationary point (the antipode, say)
    # is as if nothing had been found.
    found = (
        finite
        and bool(result.converged)
        and (manifold.is_hadamard or _inside(manifold, ball, result.value))
    )
    if not found:
        raise MeanNotConverged(
            f"the mean on {manifold!r} did not reach the public tolerance {tolerance:g}; give a"
            " larger `tolerance` (it adds to the sensitivity) or a smaller ball. Nothing was spent"
        )
    return clamp_point(manifold, ball, jax.tree.map(jnp.asarray, result.value))


def _inside(manifold: Any, ball: Any, point: Any) -> bool:
    # Room for the rounding of a mean on the edge only, not for a coarse tolerance: outside the ball
    # h need not hold.
    return float(manifold.dist(ball.center, point)) <= float(ball.radius) * (1 + 1e-6) + 1e-8


def _check_budget(name: str, budget: Any) -> None:
    if name in NEED_DELTA and not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            f"{name!r} needs delta > 0; for delta = 0 use 'riemannian-laplace', "
            "'wrapped-laplace' or 'k-norm-gradient'",
        )


def _optimised(
    name: str,
    manifold: Any,
    data: Prepared,
    ball: Any,
    budget: Any,
    rng: Any,
    ledger: Any,
    optimizer: Any,
    adjacency: str,
) -> Release:
    """Gradient perturbation from the centre of the ball; the optimiser charges, draws and makes the
    guarantee.
    """
    from .. import problems
    from ..optimizers import DPRGD, DPRSGD, DPRSVRG, private_minimize

    if adjacency != REPLACE_ONE:
        raise invalid(
            "adjacency",
            adjacency,
            f"{name!r} divides its gradients, and draws its batches, by the number of records,"
            " which this adjacency keeps private; use an output mechanism, or"
            " riemdp.private_minimize if the number is public",
        )
    if data.shares is not None:
        raise invalid(
            "weights",
            "given",
            f"{name!r} averages records with equal weights; use an output mechanism",
        )
    kind = {"dp-rgd": DPRGD, "dp-rsgd": DPRSGD, "dp-rsvrg": DPRSVRG}[name]
    if optimizer is None:
        optimizer = kind(batch_size=None) if name == "dp-rsvrg" else kind(sensitivity="domain")
    elif not isinstance(optimizer, kind):
        raise invalid("optimizer", optimizer, f"mechanism {name!r} needs a {kind.__name__}(...)")
    if getattr(optimizer, "sampling", None) == "poisson":
        raise invalid(
            "optimizer",
            optimizer,
            "Poisson batches are accounted for under add-or-remove-one, and this release is "
            'replace-one; use sampling="without-replacement", or riemdp.private_minimize',
        )
    sensitivity = frechet_mean_sensitivity(
        manifold, ball, data.n
    )  # refuses a ball too large for the curvature
    problem = problems.frechet_mean(manifold, ball=ball)
    result = private_minimize(
        problem, data.records, ball.center, optimizer, budget, rng=rng, ledger=ledger
    )
    details = {
        "steps": result.steps,
        "gradient_calls": result.gradient_calls,
        "error": "no formula",
        **dict(result.details),
    }
    value = clamp_point(
        manifold, ball, result.value
    )  # post-processing; the mean is in the ball, the last iterate need not be
    return Release(
        value,
        result.guarantee,
        result.sigma,
        name,
        result.reproducible,
        sensitivity,
        None,
        details,
        budget,
    )


def _with_details(release: Release, more: dict[str, Any], value: Any) -> Release:
    return dataclasses.replace(release, value=value, details={**release.details, **more})
