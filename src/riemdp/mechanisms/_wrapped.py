"""Noise in the tangent space of a *public* base point: `WrappedGaussian`.

To check the privacy of a release, read this file and `AbstractMechanism.release`:

1. `_admit` moves the value x into the public ball (if any) and takes v = log_base(x).
2. `tangent_sensitivity` bounds how far v moves between neighbours: L * sensitivity, L the Lipschitz
   constant of log_base on the ball. It was fixed when the mechanism was made, by public numbers.
3. `scale` is tangent_sensitivity * noise_multiplier, rounded up; `on_grid` adds what rounding v to
   the public grid can move it by, and `rounding` what float64 can.
4. `with_noise` puts integer noise of that scale on the coordinates of v, and `exp_base` of the sum
   is released. Nothing after the sum looks at the value.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np

from .._errors import invalid, magnitude, one_of, truth
from .._namespace import Floats
from ..domains import Ball, Domain
from ..domains._door import admit_value
from ..domains._ends import end_of
from ..domains._points import admit_point
from ..inference._distributions import ErrorDistribution, Lengths, gaussian_errors, wrapped_errors
from ..manifolds import AbstractManifold, Euclidean
from ..manifolds._base import Point
from ..privacy import Budget
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ._common import (
    AbstractTangentNoise,
    GaussianMechanism,
    PureMechanism,
    needs_log,
    optional_domain,
)
from ._drawn import Drawn
from ._for_mean import MeanFacts
from ._lattice import (
    MOST_ROUNDING,
    grid_of,
    has_laplace_grid,
    on_grid,
    slack_of,
    with_noise,
)
from ._shrinking import james_stein, worth_shrinking


class AbstractWrapped(AbstractTangentNoise):
    """Exp_base(log_base(value) + noise) at a public base."""

    tangent_sensitivity: float
    scale: float

    def _check_public(self) -> None:
        """Check the public arguments and fix the tangent sensitivity."""
        one_of("adjacency", self.adjacency, ADJACENCIES)
        manifold, who = self.manifold, type(self).__name__
        sensitivity = magnitude("sensitivity", self.sensitivity)
        domain = optional_domain(manifold, self.ball)
        base = admit_point(manifold, "base", self.base)
        needs_log(manifold, who)
        if domain is None and not manifold.is_hadamard:
            raise invalid(
                "ball",
                None,
                f"{manifold!r} is not a Hadamard space, so {who} needs a public Ball(center,"
                " radius) that the value is clamped into; give ball=",
            )
        lipschitz = 1.0 if domain is None else domain.log_lipschitz(base)
        self._settle(
            base=base, sensitivity=sensitivity, tangent_sensitivity=lipschitz * sensitivity
        )

    @functools.cached_property
    def rounding(self) -> float:
        """Public bound of what the clamp and the logarithm in float64 add to the distance of two
        values' coordinates at the base: 0 about the origin of a Euclidean space; infinite without a
        ball elsewhere, and where float64 does not resolve the ball.
        """
        if self._domain is None:
            exact = isinstance(self.manifold, Euclidean) and not np.any(np.asarray(self.base))
            return 0.0 if exact else math.inf
        assert self.largest_distance is not None
        seen = Domain(self.manifold, self.base, self.largest_distance)
        if not (self._domain.is_resolved and seen.is_resolved):
            return math.inf
        # two roundings of each of two values, and those of values that are moved into the ball
        return 4.0 * (seen.resolution + self._domain.folded_resolution)

    @property
    def arithmetic(self) -> str:
        """Whether the scale includes `rounding`: "lattice" where that is at most a thousandth of
        the sensitivity. "idealised" elsewhere, where the guarantee holds for values without
        rounding.
        """
        small = self.rounding <= MOST_ROUNDING * self.tangent_sensitivity
        return LATTICE if small and self._on_grid else IDEALISED

    @property
    def _on_grid(self) -> bool:
        """Whether the noise is made of integers."""
        return not isinstance(self, PureMechanism) or has_laplace_grid(self.manifold.dim)

    @property
    def _bounded(self) -> float:
        """What the scale pays for rounding."""
        return self.rounding if self.arithmetic == LATTICE else 0.0

    @functools.cached_property
    def _slack(self) -> float:
        if not self._on_grid:
            return 0.0
        value = self.rounding / 2.0 if math.isfinite(self.rounding) else 0.0
        return slack_of(self.scale, self.manifold.dim) + value

    def _admit(self, value: Point) -> Floats:
        point = admit_value(self.manifold, "value", value, self._domain)
        return np.asarray(self.manifold._log_coordinates(self.base, point))

    def _draw(self, value: Floats, source: NoiseSource) -> Drawn:
        y = with_noise(value, self.scale, source, pure=isinstance(self, PureMechanism))
        end = end_of(self.manifold, self.base, self._shrunk(y))
        return self._made(end, self._seen(y))

    def _shrunk(self, y: Floats) -> Floats:
        """What is released in the place of the noisy coordinates: post-processing."""
        return y

    @property
    def _details(self) -> dict[str, Any]:
        grid = {"grid": grid_of(self.scale)} if self._on_grid else {}
        return {"tangent_sensitivity": self.tangent_sensitivity, **grid, **super()._details}


@dataclasses.dataclass(frozen=True, eq=False)
class WrappedGaussian(AbstractWrapped, GaussianMechanism):
    """Release a point by Gaussian noise in the tangent space of a *public* base point:
    Exp_base(log_base(value) + xi).

    The base must not depend on the data. Noise in the tangent space *of the private value* looks
    similar and is not private at this scale: on hyperbolic space its true delta was found up to 17
    times the claim.

    On `SPDLogEuclidean` with base I this is the tangent Gaussian mechanism of Utpala2023LE (Theorem
    1 classical, Theorem 2 analytic).

    Args:
        manifold: The space, with a logarithm.
        base: The public base point.
        sensitivity: Sensitivity of the value, as a geodesic distance; above 0.
        budget: `Budget(epsilon, delta)` with delta > 0.
        calibration: "analytic", or "classical" (epsilon <= 1 only).
        ball: A public `Ball`; values are clamped into it first. Optional on Hadamard spaces (it
            then serves the formula of the error), required elsewhere, because log_base has no
            useful Lipschitz constant without it.
        adjacency: The neighbours that `sensitivity` was computed for: "replace-one" or
            "add-or-remove-one".
        shrink: Shrink the noisy tangent vector y towards 0, to y (1 - (dim - 2) sigma^2 / |y|^2)_+
            (James and Stein; nothing happens for dim <= 2). It looks at y alone, so it costs no
            privacy. Its expected squared error in the tangent space is never larger, and much
            smaller where the noise is larger than the distance between value and base. None decides
            by public numbers, and only with a `ball`: where curvature is not negative it shrinks,
            elsewhere if the planned length of the noise, sqrt(dim) sigma, exceeds 0.2 times the
            largest distance of a value from the base.

    Raises:
        InvalidArgument: An argument is out of range, or a ball is missing or too large.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        Gaussian mechanism with noise multiplier sigma / (L sensitivity), under `adjacency`. L is
        the Lipschitz constant of log_base: 1 on Hadamard spaces, else R' / sin(R') with R' =
        sqrt(kappa) (radius + d(base, centre)).

    Source:
        Utpala2023LE Section 4; on curved spaces the 1-Lipschitz (or Rauch) bound of the logarithm
        at a public point. James and Stein 1961, positive part.
        Proof: docs/proofs/gaussian.md.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> budget = riemdp.Budget(1.0, 1e-6)
        >>> mechanism = riemdp.WrappedGaussian(space, np.eye(2), sensitivity=0.01, budget=budget)
        >>> mechanism.release(2 * np.eye(2)).value.shape
        (2, 2)
        >>> mechanism.guarantee.within(budget)
        True
    """

    name: ClassVar[str] = "wrapped-gaussian"
    words: ClassVar[str] = (
        "Gaussian noise in the tangent space at the public centre, carried back to the space"
    )

    manifold: AbstractManifold
    base: Point
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Budget | Noise
    calibration: str = "analytic"
    ball: Ball | None = None
    adjacency: str = ADJACENCIES[0]
    shrink: bool | None = None
    noise_multiplier: float = dataclasses.field(init=False)
    scale: float = dataclasses.field(init=False)
    tangent_sensitivity: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        if self.shrink is not None:
            truth("shrink", self.shrink)
        self._check_public()
        z = self._check_calibration()
        scale = on_grid(z, self.tangent_sensitivity + self._bounded, self.manifold.dim)
        self._settle(scale=scale)

    @property
    def shrinks(self) -> bool:
        """Whether the noisy vector is shrunk: as `shrink` says, or by public numbers."""
        if self.shrink is not None:
            return self.shrink and self.manifold.dim > 2
        return worth_shrinking(self.manifold, self.scale, self.largest_distance)

    def _shrunk(self, y: Floats) -> Floats:
        return james_stein(y, self.scale, math.inf) if self.shrinks else y

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> WrappedGaussian:
        """For a Fréchet mean, at the centre of the ball."""
        given = facts.given(facts.query, pure=False)
        return cls(facts.manifold, facts.domain.center, ball=facts.ball, **given)

    # ---------------------------------------------------------------- errors and attacks
    @property
    def lengths(self) -> Lengths:
        """Distribution of the length of the noise in the tangent space, before any shrinking."""
        return gaussian_errors(self.manifold.dim, self.scale, exact=True)

    def _errors_at(self, distance: float | None) -> ErrorDistribution | None:
        return wrapped_errors(self.manifold, distance, self.lengths, shrunk=self.shrinks)

    @property
    def _details(self) -> dict[str, Any]:
        shrunk = {"shrunk": "James-Stein, towards the base"} if self.shrinks else {}
        return {**super()._details, "calibration": self.calibration, **shrunk}
