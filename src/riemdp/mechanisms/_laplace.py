"""`RiemannianLaplace`: a point of the Riemannian Laplace distribution about the private value.

To check the privacy of a release, read this file and `AbstractMechanism.release`:

1. `_admit` moves the value into the public ball, if any.
2. `_drawn` draws x with density C exp(-d(x, value) / s), exactly. Where the distribution on the
   whole space is drawn and the space is homogeneous, C is the same for every value, and s =
   sensitivity / epsilon. Otherwise (Bures-Wasserstein, or truncated to a ball) C may change by as
   much again, and s = 2 sensitivity / epsilon. Both follow from |d(x, a) - d(x, b)| <= d(a, b).
3. What follows the draw is a function of x and public numbers: x is moved radially into the ball,
   and where float64 cannot hold it, it is shortened from a public point (`sampling.View`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np

from .._errors import magnitude, one_of
from .._trees import map_leaves
from ..domains import Ball
from ..domains._door import admit_value
from ..inference._distributions import (
    ErrorDistribution,
    keeps_near,
    moved_in,
    riemannian_laplace_bound,
    riemannian_laplace_errors,
)
from ..inference._region import Observation, about
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy import Budget
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..sampling._far import View
from ..sampling._laplace import (
    HOPELESS,
    check_scale,
    draw,
    expected_tries,
    laplace_scale_limit,
    truncation,
    warn_if_slow,
)
from ._common import PureMechanism, optional_domain, rounded_up
from ._drawn import Drawn
from ._for_mean import MeanFacts


@dataclasses.dataclass(frozen=True, eq=False)
class RiemannianLaplace(PureMechanism):
    """Release a point from the density proportional to exp(-d(x, value) / s), drawn exactly.

    Which one is drawn is decided by public numbers and stated in `details["distribution"]`:

    - "whole space": homogeneous spaces, s = sensitivity / epsilon, wherever that distribution
      exists and takes at most 10^7 tries. Clamping afterwards halves the scale of truncating.
    - "whole space, constant not homogeneous": Bures-Wasserstein, s = 2 sensitivity / epsilon.
    - "truncated to the ball": where the distribution on the whole space does not exist (hyperbolic:
      s >= 1/(d - 1); affine-invariant: s >= sqrt(12/(k (k^2 - 1)))) or is out of reach and a ball
      was given, s = 2 sensitivity / epsilon. Without a ball that is refused.

    Args:
        manifold: A space with an exact sampler (see `riemdp.sampling.riemannian_laplace`).
        sensitivity: Sensitivity of the value as a distance; above 0.
        epsilon: Above 0; a number or a `Budget`, of which epsilon alone is spent.
        ball: A public `Ball`. The value is clamped into it, and so is what was drawn
            (post-processing, free).
        adjacency: The neighbours that `sensitivity` was computed for: "replace-one" or
            "add-or-remove-one".

    Raises:
        InvalidArgument: An argument is out of range, the distribution does not exist at this scale,
            its sampler would take more than 10^7 tries, or float64 cannot hold the truncated one.
        NotImplementedError: No exact sampler is known on the space.

    Guarantee:
        (epsilon, 0) under `adjacency`. The running time is not covered: on Bures-Wasserstein
        spaces, inside a ball and for far draws it depends on the value.

    Source:
        Reimherr2021 Theorem 1.
        Proof: docs/proofs/laplace.md.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> space = riemdp.SPDAffineInvariant(3)
        >>> mechanism = riemdp.RiemannianLaplace(space, sensitivity=0.01, epsilon=0.5)
        >>> mechanism.release(np.eye(3)).details["distribution"]
        'whole space'
    """

    name: ClassVar[str] = "riemannian-laplace"
    words: ClassVar[str] = "a random point of the Riemannian Laplace distribution around the mean"
    stays_in_ball: ClassVar[bool] = True

    manifold: AbstractManifold
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float | Budget | Noise
    ball: Ball | None = None
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)
    truncated: bool = dataclasses.field(init=False)
    tries: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)
        manifold, domain = self.manifold, optional_domain(self.manifold, self.ball)
        sensitivity = magnitude("sensitivity", self.sensitivity)
        epsilon = self._check_epsilon()
        limit = laplace_scale_limit(manifold)
        whole = rounded_up((1 if manifold.is_homogeneous else 2) * sensitivity / epsilon)
        # on Bures-Wasserstein space the tries depend on the footpoint: take the public centre
        center = None if domain is None else domain.center
        tries = expected_tries(manifold, whole, eta=center) if whole < limit else math.inf
        truncated = tries > HOPELESS and domain is not None
        if truncated:
            assert domain is not None
            scale = rounded_up(2 * sensitivity / epsilon)
            tries = truncation(manifold, scale, domain).tries
        else:
            scale = whole
            check_scale(manifold, whole, math.inf)
        warn_if_slow(manifold, tries)
        self._settle(sensitivity=sensitivity, scale=scale)
        self._settle(truncated=truncated, tries=tries)

    def _admit(self, value: Point) -> Point:
        return admit_value(self.manifold, "value", value, self._domain)

    def _draw(self, value: Point, source: NoiseSource) -> Drawn:
        point, domain = self._drawn(value, source), self._domain
        point = point if domain is None else domain.clamp(point)
        return self._made(point, self._seen(point))

    def _drawn(self, value: Point, source: NoiseSource) -> Point:
        """A point of the distribution about the value, which may be published."""
        manifold, domain = self.manifold, self._domain
        if self.truncated:
            assert domain is not None
            drawn = truncation(manifold, self.scale, domain).draw(manifold, value, 1, source)
        else:
            view = View() if domain is None else View(domain.center, domain.radius)
            drawn = draw(manifold, value, self.scale, 1, source, view=view)
        return map_leaves(lambda leaf: np.asarray(leaf)[0], drawn)

    def _seen(self, point: Point) -> Observation | None:
        # A draw that was moved into the ball has to be no farther from the value than it was.
        manifold, ball = self.manifold, self.ball
        if self.truncated or not (ball is None or keeps_near(manifold, ball.radius)):
            return None
        errors = riemannian_laplace_bound(manifold, self.scale)
        return None if errors is None else about(manifold, point, errors)

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> RiemannianLaplace:
        """For a Fréchet mean of records in the ball."""
        return cls(facts.manifold, ball=facts.ball, **facts.given(facts.query, pure=True))

    # ---------------------------------------------------------------- errors
    @functools.cached_property
    def error_distribution(self) -> ErrorDistribution | None:
        """Distribution of the distance between the release and the admitted value."""
        if self.truncated:
            assert self.ball is not None
            return ErrorDistribution.at_most(2 * self.ball.radius)
        errors = riemannian_laplace_errors(self.manifold, self.scale)
        return errors if self.ball is None else moved_in(errors, self.manifold, self.ball.radius)

    def errors_at(self, distance: float) -> ErrorDistribution | None:
        """The distribution before the draw is moved into the ball, the same for every value. A
        truncated one counts as infinitely wide: volume puts nearly everything at the ball's edge.
        """
        if self.truncated:
            return ErrorDistribution.at_most(math.inf)
        return riemannian_laplace_errors(self.manifold, self.scale)

    @property
    def _details(self) -> dict[str, Any]:
        drawn = "whole space"
        if self.truncated:
            drawn = "truncated to the ball"
        elif not self.manifold.is_homogeneous:
            drawn = "whole space, constant not homogeneous"
        return {"distribution": drawn, "expected_tries": self.tries, **super()._details}
