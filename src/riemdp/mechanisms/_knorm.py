"""The K-norm gradient mechanism: density proportional to exp(-|grad F(x)|_x / s), drawn exactly
around the minimiser of F.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid, magnitude, one_of, real
from .._isolation import isolated
from .._trees import leaves, map_leaves
from ..domains import Ball
from ..domains._domain import loses_far
from ..domains._door import admit_value
from ..domains._stream import Stream
from ..domains._sums import mean_of
from ..inference._distributions import ErrorDistribution, moved_in, riemannian_laplace_errors
from ..inference._region import Observation, about
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ..randomness import NoiseSource, noise_source
from ..sampling._laplace import (
    HOPELESS,
    draw,
    expected_tries,
    far_probability,
    laplace_scale_limit,
    truncation,
    warn_if_slow,
)
from ..statistics._sensitivity import public_weights
from ._common import PureMechanism, optional_domain, rounded_up
from ._drawn import Drawn
from ._for_mean import MeanFacts

_FAR_OUT = 16.0  # a proposal without a ball; of matrices, float64 resolves little beyond
_ROUNDING, _RELATIVE_ROUNDING = 1e-9, 1e-12  # slack of the inequality that exactness rests on
_BATCH = 8
_FAR = 8.0  # scales: beyond, a draw takes more than e^8 = 3000 tries, and from 40 on it never ends
_NEVER = 1e-12  # the probability of a proposal beyond float64 that is taken for none


class MeanGradient:
    """grad F(x) = -sum_i w_i log_x(x_i), F = 1/2 sum w_i d^2, of records (n, *shape): callable at
    one point.

    Compiled once for a manifold and a shape, whatever the records. Holds the records: never put it
    into a release. Records that are read in parts are read once a call.
    """

    @isolated
    def __init__(
        self, manifold: AbstractManifold, records: Point | Stream, weights: ArrayLike | None = None
    ):
        self.manifold, self.records, self.weights = manifold, records, None
        if isinstance(records, Stream):  # has its weights
            return
        self.records = map_leaves(np.asarray, manifold._coerce("records", records))
        if weights is not None:
            self.weights = public_weights(weights, manifold._batch_shape(self.records)[0])

    @isolated
    def __call__(self, x: Point) -> Tangent:
        y = self._mean(functools.partial(self.manifold._log_coordinates, x))
        return self.manifold.from_coordinates(x, -y)

    @isolated
    def norms(self, points: Point) -> np.ndarray:
        """|grad F| at each of the stacked points."""
        # A proposal may lie where a tangent vector has lost its length: coordinates from afar.
        afar = self.manifold._log_coordinates_from_afar
        each = [
            map_leaves(lambda leaf, i=i: np.asarray(leaf)[i], points)
            for i in range(len(leaves(points)[0]))
        ]
        return np.array([np.linalg.norm(self._mean(functools.partial(afar, x))) for x in each])

    def _mean(self, logs: Callable[[Point], Any]) -> np.ndarray:
        return np.asarray(mean_of(self.records, self.weights, lambda part: np.asarray(logs(part))))


@dataclasses.dataclass(frozen=True, eq=False)
class Admitted:
    """The private minimiser, and |grad F| there. Never released."""

    point: Point
    offset: float


@dataclasses.dataclass(frozen=True, eq=False)
class KNormGradient(PureMechanism):
    """Release a point from the density proportional to exp(-|grad F(x; D)|_x / s): pure epsilon,
    exact rejection sampling.

    `release(value)`: `value` is the minimiser as well as it is known; the distribution drawn from
    is exact whatever its error, since the acceptance accounts for |grad F(value)|. The number of
    tries, hence the running time, depends on the data: it grows like exp(|grad F(value)| / s).

    Args:
        manifold: A space with an exact Riemannian Laplace sampler, from which proposals come.
        objective_gradient: x -> the Riemannian gradient of F at one point, the private data inside
            it; a JAX function, or `MeanGradient(manifold, records)` for the mean, F = 1/(2n) sum
            d^2.
        sensitivity: sup over x of |grad F(x; D) - grad F(x; D')|_x for neighbours D, D', x in the
            ball if one is given; for the mean `FrechetMean.gradient_sensitivity`.
        epsilon: Above 0; a number or a `Budget`, of which epsilon alone is spent.
        strong_convexity: h > 0 with |grad F(x)| >= h d(x, minimiser) (every h-strongly convex F).
            Default 1 on Hadamard spaces, which is right for the mean; elsewhere it has to be given
            (`ball.on(manifold).strong_convexity` for the mean). Without such a bound there is no
            exact sampler, and the mechanism refuses.
        ball: Public `Ball` that the density is restricted to: required on spaces that are not
            Hadamard, and where the Laplace distribution of scale s / h does not exist or reaches
            beyond what float64 holds.
        adjacency: The neighbours that `sensitivity` was computed for: "replace-one" or
            "add-or-remove-one".

    Raises:
        InvalidArgument: An argument is out of range or missing. From `release`, before anything is
            spent: |grad F(value)| is above 8 s; or the gradient at the value or at trial points is
            not finite or breaks |grad F(x)| >= h d(x, value) - |grad F(value)|. None of it for the
            minimiser and a `MeanGradient` on a Hadamard space with h <= 1, where that is a theorem.

    Guarantee:
        (epsilon, 0) under `adjacency`, s = 2 sensitivity / epsilon.

    Source:
        Han2024 Remark 4 (its form of the K-norm gradient mechanism); exact rejection is the
        library's own.
        Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "k-norm-gradient"
    needs_gradient: ClassVar[bool] = True
    words: ClassVar[str] = (
        "the K-norm gradient mechanism: a random point that makes the gradient of the mean's"
        " objective small"
    )
    stays_in_ball: ClassVar[bool] = True

    manifold: AbstractManifold
    _: dataclasses.KW_ONLY
    objective_gradient: Callable[[Point], Tangent]
    sensitivity: float
    epsilon: float | Budget | Noise
    strong_convexity: float | None = None
    ball: Ball | None = None
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)
    truncated: bool = dataclasses.field(init=False)
    tries: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)
        manifold, ball = self.manifold, optional_domain(self.manifold, self.ball)
        if not callable(self.objective_gradient):
            raise invalid(
                "objective_gradient",
                self.objective_gradient,
                "give a function x -> Riemannian gradient at x",
            )
        h = self.strong_convexity
        if h is None:
            if not manifold.is_hadamard:
                raise invalid(
                    "strong_convexity",
                    None,
                    f"on {manifold!r} exact sampling needs h with |grad F(x)| >= h d(x, minimiser);"
                    " give it (ball.on(manifold).strong_convexity for the mean)",
                )
            h = 1.0
        h = real("strong_convexity", h, above=0.0)
        if ball is None and not manifold.is_hadamard:
            raise invalid(
                "ball",
                None,
                f"{manifold!r} is not a Hadamard space: the gradient's sensitivity holds in a ball"
                " only",
            )
        sensitivity = magnitude("sensitivity", self.sensitivity)
        epsilon = self._check_epsilon()
        scale = rounded_up(2 * sensitivity / epsilon)
        exists = scale / h < laplace_scale_limit(manifold) and manifold.is_hadamard
        tries = expected_tries(manifold, scale / h) if exists else math.inf
        # a proposal is accepted by its distance and its gradient: both must be computable
        known = exists and far_probability(manifold, scale / h) <= _NEVER
        truncated = not known or (tries > HOPELESS and ball is not None)
        if truncated:
            if ball is None:
                raise invalid(
                    "ball",
                    None,
                    f"the Laplace distribution of scale s/h = {scale / h:.6g} of its proposals does"
                    f" not exist on {manifold!r} (it needs less than"
                    f" {laplace_scale_limit(manifold):.6g}), or reaches beyond what float64 holds;"
                    " give a public ball",
                )
            tries = truncation(manifold, scale / h, ball).tries
        warn_if_slow(manifold, tries)
        self._settle(strong_convexity=h, sensitivity=sensitivity)
        self._settle(scale=scale, truncated=truncated, tries=tries)
        if self._slack > 1.0:
            raise invalid(
                "epsilon",
                epsilon,
                f"the scale of the noise, {scale:.3g}, is near the rounding of float64, where a"
                " draw may never end; give a smaller epsilon, or another mechanism",
            )

    @property
    def _slack(self) -> float:
        """By how much rounding may break the inequality, in scales."""
        radius = 0.0 if self.ball is None else float(self.ball.radius)
        return _ROUNDING + (_RELATIVE_ROUNDING * (1 + radius) + self._lost) / self.scale

    @functools.cached_property
    def _lost(self) -> float:
        """What float64 may lose of the distance of a far proposal, where matrices are singular up
        to rounding far out.
        """
        if not loses_far(self.manifold):
            return 0.0
        if self._domain is not None:
            return self._domain.resolution
        return float(self.manifold._resolution(self.manifold.origin, _FAR_OUT))

    @property
    def _h(self) -> float:
        assert self.strong_convexity is not None
        return self.strong_convexity

    # ---------------------------------------------------------------- the release
    def _admit(self, value: Point) -> Admitted:
        point = admit_value(self.manifold, "value", value, self._domain)
        offset = float(self._gradient_norms(map_leaves(lambda leaf: leaf[None], point))[0])
        if math.isfinite(offset) and offset > _FAR * self.scale:
            raise InvalidArgument(
                "argument `value` is too far from the minimum of the objective: |grad F(value)| is"
                f" above {_FAR:g} scales ({_FAR * self.scale:.3g}), from where a draw may never"
                " end; give the minimiser (riemdp.frechet_mean of the records for a mean). Nothing"
                " was spent"
            )
        trial = self._proposals(point, noise_source(20245))
        if not math.isfinite(offset) or np.any(self._log_ratios(point, offset, trial) > 0):
            raise InvalidArgument(
                "argument `objective_gradient` is not finite, or not h-strongly monotone about the"
                f" value given (h = {self.strong_convexity:g}): exact sampling is impossible;"
                " nothing was spent"
            )
        return Admitted(point, offset)

    def _draw(self, value: Admitted, source: NoiseSource) -> Drawn:
        released = self._accepted(value.point, value.offset, source)
        domain = self._domain
        point = released if domain is None else domain.clamp(released)
        return self._made(point, self._seen(point))

    def _seen(self, point: Point) -> Observation | None:
        # Only for the mean, on flat spaces, is |grad F| the distance itself.
        of_mean = isinstance(self.objective_gradient, MeanGradient) and self._h == 1.0
        if self.truncated or not self.manifold._is_flat or not of_mean:
            return None
        return about(self.manifold, point, riemannian_laplace_errors(self.manifold, self.scale))

    def _accepted(self, point: Point, offset: float, source: NoiseSource) -> Point:
        while True:
            proposals = self._proposals(point, source)
            log_ratio = self._log_ratios(point, offset, proposals)
            if np.any(log_ratio > 0):
                raise ArithmeticError(
                    "the objective's gradient breaks |grad F(x)| >= h d(x, minimiser) at a"
                    " proposal: no exact draw exists; nothing is released (the ledger keeps the"
                    " charge, since failing depends on the data)"
                )
            hit = np.nonzero(np.log(source.uniforms((_BATCH,))) < log_ratio)[0]
            if hit.size:
                return map_leaves(
                    lambda leaf, first=int(hit[0]): np.asarray(leaf)[first], proposals
                )

    def _proposals(self, point: Point, source: NoiseSource) -> Point:
        scale, domain = self.scale / self._h, self._domain
        if self.truncated:
            assert domain is not None
            return truncation(self.manifold, scale, domain).draw(
                self.manifold, point, _BATCH, source
            )
        return draw(self.manifold, point, scale, _BATCH, source)

    def _log_ratios(self, point: Point, offset: float, proposals: Point) -> np.ndarray:
        # |grad F(x)| >= h d(x, minimiser) >= h d(x, value) - |grad F(value)|, so this is at most 0;
        # lowered by a constant, which cancels in the accepted distribution, so that rounding cannot
        # lift it above 0.
        norms = self._gradient_norms(proposals)
        lower = self._h * np.asarray(self.manifold.dist(point, proposals))
        ratio = -(norms - lower + offset) / self.scale - self._slack
        if self._is_theorem:
            # Nothing but rounding breaks it, and nobody is told of that: records whose mean has no
            # room in the inequality (all of them equal) would be known by an error.
            return np.where(np.isfinite(ratio), np.minimum(ratio, 0.0), -np.inf)
        return np.where(np.isfinite(ratio), ratio, np.where(np.isposinf(norms), -np.inf, np.inf))

    @property
    def _is_theorem(self) -> bool:
        """Whether |grad F(x)| >= h d(x, minimiser) needs no word of the user's: F is 1-strongly
        convex where no curvature is positive.
        """
        of_mean = isinstance(self.objective_gradient, MeanGradient)
        return of_mean and self.manifold.is_hadamard and self._h <= 1.0

    def _gradient_norms(self, points: Point) -> np.ndarray:
        if isinstance(self.objective_gradient, MeanGradient):
            return self.objective_gradient.norms(points)
        count = leaves(points)[0].shape[0]
        each = [map_leaves(lambda leaf, i=i: np.asarray(leaf)[i], points) for i in range(count)]
        return np.array([float(self.manifold.norm(x, self.objective_gradient(x))) for x in each])

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> KNormGradient:
        """For a Fréchet mean; without a gradient it serves planning and releases nothing."""
        return cls(
            facts.manifold,
            objective_gradient=_no_data if facts.gradient is None else facts.gradient,
            sensitivity=facts.query.gradient_sensitivity,
            epsilon=facts.noise(pure=True),
            strong_convexity=facts.domain.strong_convexity,
            ball=facts.ball,
            adjacency=facts.adjacency,
        )

    # ---------------------------------------------------------------- errors
    @functools.cached_property
    def error_distribution(self) -> ErrorDistribution | None:
        """Distribution of the distance to the minimiser if |grad F| were exactly h d: an upper
        estimate, since |grad F| >= h d.
        """
        errors = self._proposal_errors
        if errors is None:
            assert self.ball is not None
            return ErrorDistribution.at_most(2 * self.ball.radius)
        if self.ball is not None:  # releases are clamped into it
            errors = moved_in(errors, self.manifold, self.ball.radius)
            assert errors is not None
        if tuple(self.manifold.curvature_bounds) == (0.0, 0.0):
            return errors
        note = "Laplace distribution that proposals come from"
        return dataclasses.replace(errors, kind="estimate", note=note)

    def errors_at(self, distance: float) -> ErrorDistribution | None:
        """The distribution of proposals before they are moved into the ball; infinitely wide where
        it is the ball that makes it exist.
        """
        return self._proposal_errors or ErrorDistribution.at_most(math.inf)

    @property
    def _proposal_errors(self) -> ErrorDistribution | None:
        scale = self.scale / self._h
        if not scale < laplace_scale_limit(self.manifold):
            return None
        return riemannian_laplace_errors(self.manifold, scale)

    @property
    def _details(self) -> dict[str, Any]:
        return {"truncated": self.truncated, **super()._details}


def _no_data(x: Point) -> Tangent:
    raise InvalidArgument(
        "a mechanism that was built for planning has no data and releases nothing"
    )
