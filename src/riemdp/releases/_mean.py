"""The private Frechet mean: from records and a public ball to a `Release`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, RiemdpError, invalid, one_of, real
from ..mechanisms import WrappedGaussian
from ..mechanisms._common import clamp_point, optional_ball
from ..mechanisms._release import Release
from ..statistics._sensitivity import frechet_mean_sensitivity

MECHANISMS = ("wrapped-gaussian",)


class MeanNotConverged(RiemdpError):
    """The mean of the clamped records was not found to the public tolerance. Nothing was spent and nothing released; note
    that whether this error is raised depends on the records."""


def private_frechet_mean(manifold: Any, X: Any, ball: Any, budget: Any, *, mechanism: str = "auto", rng: Any = None,
                         ledger: Any = None, weights: Any = None, tolerance: float | None = None) -> Release:
    one_of("mechanism", mechanism, MECHANISMS)
    records, n = checked_records(manifold, X)
    ball = _required_ball(manifold, ball)
    tolerance = 1e-10 * max(1.0, float(ball.radius)) if tolerance is None else real("tolerance", tolerance, above=0.0)
    delta = frechet_mean_sensitivity(manifold, ball, n, tolerance=tolerance, weights=weights)
    built = WrappedGaussian(manifold, ball.center, sensitivity=delta, budget=budget, ball=ball)
    value = clamped_mean(manifold, records, ball, weights, tolerance)
    return built.release(value, rng, ledger=ledger)


def checked_records(manifold: Any, X: Any) -> tuple[Any, int]:
    """Records as one stacked array (a tuple of arrays on a product) and their public number. Only the form is checked:
    records that are not points are replaced by the centre of the ball later, whatever they hold."""
    records = manifold._coerce("X", X)
    batch = manifold._batch_shape(records)
    if len(batch) != 1 or batch[0] < 1:
        raise InvalidArgument(f"argument `X` has batch shape {batch}; give n >= 1 records of {manifold!r} stacked along one "
                              "leading axis")
    return records, int(batch[0])


def _required_ball(manifold: Any, ball: Any) -> Any:
    if ball is None:
        raise invalid("ball", ball, "give a public Ball(center, radius), chosen without looking at the records")
    return optional_ball(manifold, ball)


def clamped_mean(manifold: Any, records: Any, ball: Any, weights: Any, tolerance: float) -> Any:
    """Frechet mean of the records moved into the ball, to the public tolerance, or `MeanNotConverged` (the rule for a solver
    that stops early, fixed in advance: fail before any output)."""
    from ..statistics import frechet_mean

    result = frechet_mean(manifold, ball.clamp(manifold, records), weights=weights, tol=tolerance)
    finite = all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(result.value))
    if not (finite and bool(result.converged)):
        raise MeanNotConverged(f"the mean on {manifold!r} did not reach the public tolerance {tolerance:g}; give a larger "
                               "`tolerance` (it adds to the sensitivity) or a smaller ball. Nothing was spent")
    return clamp_point(manifold, ball, jax.tree.map(jnp.asarray, result.value))
