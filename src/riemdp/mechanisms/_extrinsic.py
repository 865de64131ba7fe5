"""Extrinsic baselines of the papers: noise in the ambient space, then projection.

They are here for comparison; they ignore the geometry.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from .._errors import LARGEST_MAGNITUDE, magnitude, one_of, truth
from .._trees import leaves, map_leaves
from ..domains._door import one_value
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point
from ..manifolds._spd import AbstractSPD
from ..privacy import Budget
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..sampling._spectral import symmetric_normals
from ._common import GaussianMechanism, PointMechanism, PureMechanism, rounded_up
from ._drawn import Drawn
from ._for_mean import MeanFacts


class _Extrinsic(PointMechanism):
    """value + noise as arrays, projected to the manifold."""

    project: bool

    def _admit(self, value: Point) -> Point:
        """Entries beyond what squares of float64 hold are cut there: no two values move apart."""
        checked = one_value(self.manifold, "value", value)
        limit = LARGEST_MAGNITUDE
        return map_leaves(lambda leaf: np.clip(leaf, -limit, limit), checked)

    def _projected(self, value: Point, z: Point, factor: float) -> Point:
        noisy = map_leaves(lambda leaf, noise: leaf + factor * np.asarray(noise), value, z)
        return self.manifold.project(noisy) if self.project else _with_noise(self.manifold, noisy)

    @property
    def _details(self) -> dict[str, Any]:
        dim = ambient_dimension(self.manifold)
        return {"baseline": "ambient noise", "ambient_dimension": dim}


@dataclasses.dataclass(frozen=True, eq=False)
class ExtrinsicGaussian(_Extrinsic, GaussianMechanism):
    """Baseline: release an ambient array with Gaussian noise and project it to the manifold.

    The noise is iid on the linear space that holds the manifold (symmetric matrices for SPD
    spaces). Entries of a value beyond 1e100 count as 1e100.

    Args:
        manifold: The space.
        sensitivity: Sensitivity of the value in the ambient Euclidean (Frobenius) norm; above 0.
        budget: `Budget(epsilon, delta)` with delta > 0.
        calibration: "analytic", or "classical" (epsilon <= 1 only).
        project: Whether to project the noisy array (post-processing).
        adjacency: The neighbours that `sensitivity` was computed for.

    Guarantee:
        Gaussian mechanism with noise multiplier sigma / sensitivity, under `adjacency`.

    Source:
        The ambient baselines of Reimherr2021 section 5 and Utpala2023LE section 6, in Gaussian
        form.
        Proof: docs/proofs/gaussian.md.
    """

    name: ClassVar[str] = "extrinsic-gaussian"
    words: ClassVar[str] = "Gaussian noise on the matrix or vector entries"

    manifold: AbstractManifold
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Budget | Noise
    calibration: str = "analytic"
    project: bool = True
    adjacency: str = ADJACENCIES[0]
    noise_multiplier: float = dataclasses.field(init=False)
    scale: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        truth("project", self.project)
        one_of("adjacency", self.adjacency, ADJACENCIES)
        sensitivity = magnitude("sensitivity", self.sensitivity)
        scale = rounded_up(self._check_calibration() * sensitivity)
        self._settle(sensitivity=sensitivity, scale=scale)

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> ExtrinsicGaussian:
        """For an arithmetic mean of records in the ball."""
        return cls(facts.manifold, **facts.given(facts.of_arrays, pure=False))

    def _draw(self, value: Point, source: NoiseSource) -> Drawn:
        z = _ambient_normals(self.manifold, source)
        return self._made(self._projected(value, z, self.scale))


@dataclasses.dataclass(frozen=True, eq=False)
class ExtrinsicLaplace(_Extrinsic, PureMechanism):
    """Baseline: release an ambient array with noise of density exp(-|v| / s) and project it to the
    manifold. Entries of a value beyond 1e100 count as 1e100.

    Args:
        manifold: The space.
        sensitivity: Sensitivity of the value in the ambient Euclidean (Frobenius) norm; above 0.
        epsilon: Above 0; a number or a `Budget`, of which epsilon alone is spent.
        project: Whether to project the noisy array (post-processing).
        adjacency: The neighbours that `sensitivity` was computed for.

    Guarantee:
        (epsilon, 0) under `adjacency`, s = sensitivity / epsilon.

    Source:
        Reimherr2021 A.4 (Euclidean Laplace, the K-norm mechanism with the l2 norm).
        Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "extrinsic-laplace"
    words: ClassVar[str] = "Laplace noise on the matrix or vector entries"

    manifold: AbstractManifold
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float | Budget | Noise
    project: bool = True
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        truth("project", self.project)
        one_of("adjacency", self.adjacency, ADJACENCIES)
        sensitivity = magnitude("sensitivity", self.sensitivity)
        epsilon = self._check_epsilon()
        self._settle(sensitivity=sensitivity, scale=rounded_up(sensitivity / epsilon))

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> ExtrinsicLaplace:
        """For an arithmetic mean of records in the ball."""
        return cls(facts.manifold, **facts.given(facts.of_arrays, pure=True))

    def _draw(self, value: Point, source: NoiseSource) -> Drawn:
        z = _ambient_normals(self.manifold, source)
        length = math.sqrt(sum(float(np.sum(leaf**2)) for leaf in leaves(z)))
        radius = self.scale * float(source.gammas(float(ambient_dimension(self.manifold))))
        return self._made(self._projected(value, z, radius / length))


def ambient_dimension(manifold: AbstractManifold) -> int:
    """Dimension of the linear space that the noise fills: symmetric matrices for SPD spaces, the
    whole array space elsewhere.
    """
    if isinstance(manifold, Product):
        return sum(ambient_dimension(m) for m in manifold.manifolds)
    return manifold.dim if isinstance(manifold, AbstractSPD) else math.prod(manifold.shape)


def _with_noise(manifold: AbstractManifold, noisy: Point) -> Point:
    """The part of an array that has noise: the symmetric one, on SPD spaces."""
    if isinstance(manifold, Product):
        return tuple(_with_noise(m, x) for m, x in zip(manifold.manifolds, noisy, strict=True))
    if isinstance(manifold, AbstractSPD):
        return (noisy + np.swapaxes(noisy, -1, -2)) / 2
    return noisy


def _ambient_normals(manifold: AbstractManifold, source: NoiseSource) -> Point:
    if isinstance(manifold, Product):
        return tuple(_ambient_normals(m, source) for m in manifold.manifolds)
    if isinstance(manifold, AbstractSPD):
        return symmetric_normals(manifold.k, 1, source)[0]
    return source.normals(manifold.shape)
