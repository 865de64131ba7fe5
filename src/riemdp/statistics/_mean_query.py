"""Queries of a mean of records in a public ball: filling up, weights, and the Fréchet mean itself.

To check how far one record moves the Fréchet mean, read `AbstractMean.prepare` (every record is
moved into the ball by itself) and `FrechetMean.sensitivity` (from the ball, n and a public
tolerance), whose bound is proved in docs/proofs/mean-sensitivity.md.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid, real
from .._isolation import isolated
from .._trees import map_leaves
from ..domains import Domain, Frame
from ..domains._domain import over_sin
from ..domains._stream import Stream
from ..manifolds._base import Point, RecordsLike
from ..privacy._guarantee import ADD_REMOVE, REPLACE_ONE
from ._query import AbstractQuery, Records, of_stream, other_count
from ._sensitivity import gradient_bound, mean_bound, public_weights
from ._solver import look_at, mean_in, plain_steps

if TYPE_CHECKING:
    from .._namespace import Array


MOST_ROUNDING = 1e-3  # share of the sensitivity that rounding may have
COARSEST = 1e-2  # share of the radius that the rounding of a record may have


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractMean(AbstractQuery):
    """A weighted mean of clamped records, filled up with the center under add-or-remove-one.

    Args:
        domain, n, adjacency, weights: As of `FrechetMean`.
    """

    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency == ADD_REMOVE and self.weights is not None:
            raise invalid(
                "weights",
                self.weights,
                "under add-or-remove-one a record brings its own weight: give them to `prepare`",
            )
        shares = None if self.weights is None else public_weights(self.weights, self.n)
        object.__setattr__(self, "weights", shares)

    @property
    @abc.abstractmethod
    def _moving(self) -> Callable[[Point], tuple[Point, Array]]:
        """A function from admitted records to records in the ball, and which of them lay
        outside.
        """

    @property
    @abc.abstractmethod
    def _filler(self) -> Point:
        """What lacking records are filled up with."""

    @isolated
    def prepare(self, X: RecordsLike, weights: ArrayLike | None = None) -> Records:
        """Admit the records one by one and move them into the ball.

        Args:
            X: The records as the user gave them. Only the form of the whole is checked.
            weights: The records' own private weights, moved into [0, 1] (add-or-remove-one only).

        Returns:
            The records in the ball. Under add-or-remove-one the center is appended, with the share
            that lacks (0 when nothing does).
        """
        at_least = 1 if self.adjacency == REPLACE_ONE else 0
        records, count = self._admitted(X, at_least)
        own, filler, total = self.weights, None, float(self.n)
        if self.adjacency == REPLACE_ONE:
            if weights is not None:
                raise invalid("weights", "given", "public weights belong to the query itself")
            if count != self.n:
                raise other_count(count, self.n)
        else:
            own = None if weights is None else _own_weights(weights, count)
            total = float(count) if own is None else math.fsum(own)
            filler = self._filler, max(0.0, self.n - total)
        if isinstance(records, Stream):
            moved = records.moved(self._moving).kept()
            return of_stream(moved.weighted(own, filler))
        points, outside = self._moving(records)
        if filler is None:
            return Records(points, own, outside)
        shares = np.append(np.ones(count) if own is None else own, filler[1])
        shares /= max(float(self.n), total)
        filled = map_leaves(
            lambda x, c: np.concatenate([x, np.asarray(c)[None]]), points, filler[0]
        )
        return Records(filled, shares, outside)


@dataclasses.dataclass(frozen=True, eq=False)
class FrechetMean(AbstractMean):
    """The Fréchet mean argmin_p sum_i w_i d(p, x_i)^2 of records of a ball.

    It is computed in the frame of the public center (`domain.frame`), where rounding is smallest:
    `value` is a point of `frame.local`, and `frame.back` carries a released point to the user's
    space. If the solver does not reach the public tolerance, the point with the smallest residual
    that it found is the value: nothing is raised, because that would be an event that the records
    decide.

    Args:
        domain: The public ball, bound to its space.
        n: The public number of records, or `n_min` under add-or-remove-one.
        adjacency: "replace-one", or "add-or-remove-one" where the number of records is private too
            and lacking records are filled up with copies of the center.
        weights: n public weights (replace-one only).
        tolerance: Public tolerance on the gradient of F = 1/2 sum w_i d^2, above 0 and below 1.
            None: 1e-10 max(1, radius), and what float64 resolves in the ball; on flat spaces, where
            the mean is a sum, twice its rounding. A smaller one than float64 resolves is raised to
            that.

    Raises:
        InvalidArgument: An argument is out of range, the ball is too large for the curvature, or
            rounding would exceed a thousandth of the sensitivity (`domain.rounding`).

    Guarantee:
        `sensitivity` = 2 r / n on Hadamard spaces under replace-one (see
        `frechet_mean_sensitivity`) + 2 tolerance / h + 2 rounding / h.

    Source:
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> query = riemdp.statistics.FrechetMean(riemdp.Ball(np.eye(2), 1.0).on(space), 100)
        >>> round(query.sensitivity, 6)
        0.02
    """

    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.domain.check_convexity()
        tolerance = self._public_tolerance()
        object.__setattr__(self, "tolerance", tolerance)
        self._check_rounding()
        plain_steps(self.frame.local, tolerance)

    @property
    def frame(self) -> Frame:
        """Where the mean is computed."""
        return self.domain.frame

    @property
    def sensitivity(self) -> float:
        """Largest distance of two neighbours' values, tolerance and rounding included."""
        assert self.tolerance is not None
        return self._exact(self.tolerance) + self._rounding

    @functools.cached_property
    def error_bound(self) -> float:
        """Largest length of log_c(value) - log_c(mean), c the center, where the solver reaches the
        public tolerance: that tolerance and rounding.
        """
        assert self.tolerance is not None
        d = self.domain
        stretch = over_sin(d.theta / 2)  # Lipschitz constant of log_c on the ball
        return stretch * (self.tolerance + self._rounded) / d.strong_convexity

    @functools.cached_property
    def gradient_sensitivity(self) -> float:
        """Largest change of grad F(w) = -sum_i w_i log_w(x_i), w in the ball."""
        exact = gradient_bound(self.domain, self.n, adjacency=self.adjacency, weights=self.weights)
        return exact + 2 * self._rounded

    @property
    def _moving(self) -> Callable[[Point], tuple[Point, Array]]:
        return self.frame.clamp_flagged

    @property
    def _filler(self) -> Point:
        return self.frame.local.center

    @isolated
    def value(self, records: Records) -> Point:
        """The mean of prepared records, a point of `frame.local`, inside its ball.

        What the search found outside of the ball is not believed, however small its residual is.
        """
        assert self.tolerance is not None
        local = self.frame.local
        return mean_in_ball(local, records.points, records.shares, self.tolerance)

    # ------------------------------------------------------------------ public numbers
    def _exact(self, tolerance: float) -> float:
        return mean_bound(
            self.domain,
            self.n,
            tolerance=tolerance,
            adjacency=self.adjacency,
            weights=self.weights,
        )

    @functools.cached_property
    def _rounding(self) -> float:
        return 2 * self._rounded / self.domain.strong_convexity

    @property
    def _rounded(self) -> float:
        return self.frame.local.rounding

    def _public_tolerance(self) -> float:
        local = self.frame.local
        finest = local.resolution
        if self.tolerance is None and local.manifold._is_flat:
            return 2.0 * local.rounding  # the second pass finds the mean, and errs twice
        if self.tolerance is None:
            return 1e-10 * max(1.0, self.domain.radius) + finest
        return max(real("tolerance", self.tolerance, above=0.0, below=1.0), finest)

    @isolated
    def _check_rounding(self) -> None:
        d, local = self.domain, self.frame.local
        # About an ill-conditioned center the records themselves are rounded, each on its own. That
        # does not touch the sensitivity, but it would spoil the mean.
        coarse = float(d.manifold._resolution(d.center, 0.0))
        if not coarse <= COARSEST * d.radius:
            raise invalid(
                "ball.radius",
                d.radius,
                f"about this centre float64 resolves points of {d.manifold!r} to {coarse:.2g} only,"
                " which is more than a hundredth of the radius. Remedy: a larger radius, a centre"
                " that is better conditioned, or other units",
            )
        most = MOST_ROUNDING * self._exact(0.0)
        share = self._rounding + 2 * local.resolution / d.strong_convexity
        if not (share <= most and local.is_resolved):
            raise invalid(
                "ball.radius",
                d.radius,
                f"rounding in float64 is bounded by {share:.2g} here, more than a thousandth of the"
                f" sensitivity ({most / MOST_ROUNDING:.2g}) of a mean of n = {self.n} records on"
                f" {d.manifold!r}. Remedy: a smaller radius, or fewer records",
            )


def mean_in_ball(
    domain: Domain, points: Point | Stream, shares: np.ndarray | None, tolerance: float
) -> Point:
    """The Fréchet mean of points of the ball to the public tolerance, in the ball. Raises nothing,
    unless records cannot be read.
    """
    return mean_in(domain, look_at(domain.manifold, points, shares), tolerance).value


def _own_weights(weights: ArrayLike, count: int) -> np.ndarray:
    """The records' own weights, moved into [0, 1] like records into the ball: their values are
    private and raise nothing.
    """
    given = None
    with contextlib.suppress(TypeError):
        given = list(cast("Sequence[float]", weights))
    if given is None or len(given) != count:
        raise InvalidArgument(
            "argument `weights` has another length than `X`; give one weight in [0, 1] for each"
            " record"
        )
    w = np.zeros(count)
    for i, own in enumerate(given):
        try:
            w[i] = float(own)
        except Exception:  # whatever one weight is, it is private
            continue
    return np.clip(np.nan_to_num(w, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
