"""Gaussian noise on a tangent vector at a *public* point: `TangentGaussian`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._errors import invalid, magnitude, one_of
from .._namespace import Floats
from .._trees import map_leaves
from ..domains._door import one_value
from ..domains._points import admit_point
from ..inference._distributions import ChiErrors, gaussian_errors
from ..manifolds import AbstractManifold, Euclidean
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ._common import GaussianMechanism
from ._drawn import Drawn
from ._lattice import grid_of, on_grid, with_noise

if TYPE_CHECKING:
    from .._namespace import Array


@dataclasses.dataclass(frozen=True, eq=False)
class TangentGaussian(GaussianMechanism):
    """Release a tangent vector at a public point with isotropic Gaussian noise in the metric of
    that point.

    `release(value)` gives value + xi, xi ~ N(0, sigma^2) in every orthonormal coordinate at `at`. A
    normal part of the value, up to 1e-6, is taken out.

    Args:
        manifold: The space.
        at: The *public* point whose tangent space holds the value.
        sensitivity: Sensitivity of the value, in the norm at `at`; above 0.
        budget: `Budget(epsilon, delta)` with delta > 0.
        calibration: "analytic", or "classical": sqrt(2 ln(1.25 / delta)) / epsilon, for epsilon <=
            1 only.
        adjacency: The neighbours that `sensitivity` was computed for: "replace-one" or
            "add-or-remove-one".

    Raises:
        InvalidArgument: An argument is out of range. From `release`: the value has another shape,
            is not finite or not tangent (that depends on the value, so check the query on public
            data first).

    Guarantee:
        Gaussian mechanism with noise multiplier sigma / sensitivity, under `adjacency`. For
        "analytic", delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity /
        sigma.

    Source:
        Han2024 Definition 3 and Proposition 2, calibrated analytically.
        Proof: docs/proofs/gaussian.md.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> sphere, north = riemdp.Sphere(3), np.array([1.0, 0.0, 0.0])
        >>> budget = riemdp.Budget(1.0, 1e-6)
        >>> mechanism = riemdp.TangentGaussian(sphere, north, sensitivity=0.1, budget=budget)
        >>> mechanism.release(np.array([0.0, 0.2, 0.3])).value.shape
        (3,)
    """

    name: ClassVar[str] = "tangent-gaussian"
    words: ClassVar[str] = "Gaussian noise in the tangent space at a public point"

    manifold: AbstractManifold
    at: Point
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Budget | Noise
    calibration: str = "analytic"
    adjacency: str = ADJACENCIES[0]
    noise_multiplier: float = dataclasses.field(init=False)
    scale: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)
        at = admit_point(self.manifold, "at", self.at)
        sensitivity = magnitude("sensitivity", self.sensitivity)
        z = self._check_calibration()
        scale = on_grid(z, sensitivity, self.manifold.dim)
        self._settle(at=at, sensitivity=sensitivity, scale=scale)

    @functools.cached_property
    def error_distribution(self) -> ChiErrors:
        """Distribution of the length of the noise in the metric."""
        return gaussian_errors(self.manifold.dim, self.scale, exact=True)

    @property
    def arithmetic(self) -> str:
        """Whether rounding of the value has a public bound: "lattice" on Euclidean spaces, where
        there is none. "idealised" elsewhere; the noise is on the same grid.
        """
        return LATTICE if isinstance(self.manifold, Euclidean) else IDEALISED

    def _admit(self, value: Point) -> Floats:
        manifold, given = self.manifold, one_value(self.manifold, "value", value)
        found = np.asarray(manifold._to_coordinates(self.at, given))
        if not np.all(manifold._is_tangent(self.at, given, 1e-6)):
            raise invalid(
                "at",
                "the given point",
                f"the value is not tangent to {manifold!r} there; project it with "
                "`manifold.to_tangent`. Nothing was spent",
            )
        # what rounding left of a normal part of the value has no coordinates, and gets no noise
        return found

    def _draw(self, value: Floats, source: NoiseSource) -> Drawn:
        y = with_noise(value, self.scale, source, pure=False)
        return self._made(self.manifold._from_coordinates(self.at, y))

    def score(self, value_in: Tangent, value_out: Tangent) -> Callable[[Tangent], Array]:
        """Linear: the log-likelihood ratio."""
        direction = map_leaves(lambda a, b: np.asarray(a) - np.asarray(b), value_in, value_out)
        return lambda v: self.manifold.inner(self.at, v, direction)

    @property
    def _details(self) -> dict[str, Any]:
        return {
            "calibration": self.calibration,
            "error": "length of the noise in the metric",
            "grid": grid_of(self.scale),
        }
