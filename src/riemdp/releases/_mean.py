"""The private Frechet mean: from records and a public ball to a `Release`."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, RiemdpError, RiemdpWarning, invalid, one_of, real
from ..mechanisms import MeanGradient, Release
from ..mechanisms._common import CALIBRATIONS, clamp_point, optional_ball
from ..mechanisms._extrinsic import ambient_mean
from ..privacy import Budget
from ..statistics._sensitivity import frechet_mean_sensitivity, public_weights
from ._choices import EXTRINSIC, MECHANISMS, NEED_DELTA, OPTIMIZED, build, public_tolerance
from ._plan import plan_private_mean


class MeanNotConverged(RiemdpError):
    """The mean of the clamped records was not found to the public tolerance. Nothing was spent and nothing released; note
    that whether this error is raised depends on the records."""


def private_frechet_mean(manifold: Any, X: Any, ball: Any, budget: Any, *, mechanism: str = "auto", rng: Any = None,
                         ledger: Any = None, weights: Any = None, tolerance: float | None = None,
                         calibration: str = "analytic", optimizer: Any = None,
                         clamp_release: bool = False) -> Release:  # fmt: skip
    """Release the Frechet mean (barycentre) of private records with differential privacy.

    **Arguments:**

    - `manifold`, `X`: the space and n >= 1 records, (n, *manifold.shape) (a tuple of such on a product). n is public.
    - `ball`: a public `Ball(center, radius)`, chosen without looking at the records. Every record is moved radially into it;
      records that are not finite or not points of the space become its centre.
    - `budget`: `Budget(epsilon, delta)`. Pure mechanisms spend (epsilon, 0) of it.
    - `mechanism`: "wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient", "dp-rgd", "dp-rsgd",
      "dp-rsvrg", "extrinsic-gaussian", "extrinsic-laplace" (baselines), or "auto": the one with the smallest expected squared
      error in `plan_private_mean(manifold, ball, n, budget)`, never looking at the records (the table that decided is in
      `release.details["plan"]`).
    - `rng`: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
    - `ledger`: the `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.
    - `weights`: n public, non-negative weights of the records.
    - `tolerance`: public tolerance on the gradient of F = 1/2 sum w_i d^2 that the mean is solved to, default
      1e-10 max(1, radius); 2 tolerance / h is added to the sensitivity.
    - `calibration`: "analytic" or "classical" (Gaussian mechanisms, epsilon <= 1).
    - `optimizer`: settings for a dp-* mechanism (`DPRGD(...)`, ...); default: full-record sensitivity from the ball where the
      space allows it, public defaults otherwise.
    - `clamp_release`: move the released point into the ball (post-processing, never increases the error). Riemannian Laplace and
      K-norm releases always are.

    **Errors:** `InvalidArgument` naming the argument (a ball too large for the curvature, Gaussian noise without delta, ...);
    `BudgetExceeded` from the ledger; `MeanNotConverged` (the rule for a solver that stops early, fixed in advance: nothing is
    released; that it is raised depends on the records). In all of these nothing is spent.

    Guarantee: `release.guarantee`, within `budget`, replace-one, for records whatever they are: sensitivity 2 r / n on
    Hadamard spaces, 2 r / (n cos(2 r sqrt kappa)) for curvature up to kappa > 0 (2 r w_max with weights).

    Source: Reimherr2021 Theorems 1, 2; Utpala2023LE; Han2024 Algorithm 1.
    """
    one_of("mechanism", mechanism, MECHANISMS)
    one_of("calibration", calibration, CALIBRATIONS)
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    records, n = checked_records(manifold, X)
    if ball is None:
        raise invalid("ball", ball, "give a public Ball(center, radius), chosen without looking at the records")
    ball = optional_ball(manifold, ball)
    shares = None if weights is None else public_weights(weights, n)
    tolerance = public_tolerance(ball) if tolerance is None else real("tolerance", tolerance, above=0.0)
    if optimizer is not None and mechanism not in OPTIMIZED:
        raise invalid("optimizer", optimizer, 'it goes with mechanism "dp-rgd", "dp-rsgd" or "dp-rsvrg"')
    name, details = mechanism, {}
    if mechanism == "auto":
        plan = plan_private_mean(manifold, ball, n, budget, weights=shares, tolerance=tolerance, calibration=calibration)
        name, details = plan.best().mechanism, {"chosen_by": "auto", "plan": str(plan)}
    _check_budget(name, budget)
    if name in OPTIMIZED:
        release = _optimised(name, manifold, records, n, ball, budget, rng, ledger, shares, optimizer)
    elif name in EXTRINSIC:
        built = build(name, manifold, ball, n, budget, tolerance=tolerance, weights=shares, calibration=calibration)
        release = built.release(ambient_mean(manifold, ball.clamp(manifold, records), shares), rng, ledger=ledger)
    else:
        clamped = ball.clamp(manifold, records)
        gradient = MeanGradient(manifold, clamped, shares) if name == "k-norm-gradient" else None
        built = build(name, manifold, ball, n, budget, tolerance=tolerance, weights=shares, calibration=calibration,
                      gradient=gradient)
        release = built.release(mean_of_clamped(manifold, clamped, ball, shares, tolerance), rng, ledger=ledger)
    return _with_details(release, {"n": n, "radius": float(ball.radius), **details},
                         clamp_point(manifold, ball, release.value) if clamp_release else release.value)


def checked_records(manifold: Any, X: Any) -> tuple[Any, int]:
    """Records as one stacked array (a tuple of arrays on a product) and their public number. Only the form is checked:
    records that are not points are replaced by the centre of the ball later, whatever they hold."""
    records = manifold._coerce("X", X)
    batch = manifold._batch_shape(records)
    if len(batch) != 1 or batch[0] < 1:
        raise InvalidArgument(f"argument `X` has batch shape {batch}; give n >= 1 records of {manifold!r} stacked along one "
                              "leading axis")
    return records, int(batch[0])


def mean_of_clamped(manifold: Any, clamped: Any, ball: Any, weights: Any, tolerance: float) -> Any:
    """Frechet mean of records in the ball to the public tolerance, moved into the ball, or `MeanNotConverged`."""
    from ..statistics import frechet_mean

    with warnings.catch_warnings():  # a warning that depends on the records would tell something about them
        warnings.simplefilter("ignore", RiemdpWarning)
        result = frechet_mean(manifold, clamped, weights=weights, tol=tolerance)
    finite = all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(result.value))
    if not (finite and bool(result.converged)):
        raise MeanNotConverged(f"the mean on {manifold!r} did not reach the public tolerance {tolerance:g}; give a larger "
                               "`tolerance` (it adds to the sensitivity) or a smaller ball. Nothing was spent")
    return clamp_point(manifold, ball, jax.tree.map(jnp.asarray, result.value))


def _check_budget(name: str, budget: Any) -> None:
    if name in NEED_DELTA and not budget.delta > 0:
        raise invalid("budget", budget, f"{name!r} needs delta > 0; for delta = 0 use 'riemannian-laplace', "
                      "'wrapped-laplace' or 'k-norm-gradient'")


def _optimised(name: str, manifold: Any, records: Any, n: int, ball: Any, budget: Any, rng: Any, ledger: Any, weights: Any,
               optimizer: Any) -> Release:
    """Gradient perturbation from the centre of the ball; the optimiser charges, draws and makes the guarantee."""
    from .. import problems
    from ..optimizers import DPRGD, DPRSGD, DPRSVRG, private_minimize

    if weights is not None:
        raise invalid("weights", "given", f"{name!r} averages records with equal weights; use an output mechanism")
    kind = {"dp-rgd": DPRGD, "dp-rsgd": DPRSGD, "dp-rsvrg": DPRSVRG}[name]
    if optimizer is None:
        optimizer = kind() if name == "dp-rsvrg" else kind(sensitivity="domain")
    elif not isinstance(optimizer, kind):
        raise invalid("optimizer", optimizer, f"mechanism {name!r} needs a {kind.__name__}(...)")
    sensitivity = frechet_mean_sensitivity(manifold, ball, n)  # refuses a ball too large for the curvature
    problem = problems.frechet_mean(manifold, ball=ball)
    result = private_minimize(problem, records, ball.center, optimizer, budget, rng=rng, ledger=ledger)
    details = {"steps": result.steps, "gradient_calls": result.gradient_calls, "error": "no formula", **dict(result.details)}
    return Release(result.value, result.guarantee, result.sigma, name, result.reproducible, sensitivity, None, details)


def _with_details(release: Release, more: dict[str, Any], value: Any) -> Release:
    return Release(value, release.guarantee, release.scale, release.mechanism, release.reproducible, release.sensitivity,
                   release.error_law, {**release.details, **more})
