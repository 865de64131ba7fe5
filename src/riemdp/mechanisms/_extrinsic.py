"""Extrinsic baselines of the papers: noise in the ambient space, then projection. For comparison;
they ignore the geometry.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import one_of, real
from ..manifolds import Product
from ..privacy import charge, gaussian, pure
from ..randomness import noise_source
from ..sampling._spectral import symmetric_normals
from ._common import ADJACENCIES, CALIBRATIONS, gaussian_multiplier, one_value, rounded_up
from ._gaussian import _set
from ._laplace import pure_epsilon
from ._release import Release


@dataclasses.dataclass(frozen=True, eq=False)
class ExtrinsicGaussian:
    """Baseline: release an ambient array with Gaussian noise and project it to the manifold.

    **Arguments:** `manifold`; `sensitivity`: sensitivity of the value in the ambient Euclidean
    (Frobenius) norm, above 0; `budget` with delta > 0; `calibration` "analytic" or "classical";
    `project`: whether to project the noisy array (post-processing). The noise is iid on the linear
    space that holds the manifold (symmetric matrices for SPD spaces). `adjacency`: the neighbours
    that `sensitivity` was computed for.

    Guarantee: Gaussian mechanism with noise multiplier sigma / sensitivity, under `adjacency`.

    Source: the ambient baselines of Reimherr2021 section 5 and Utpala2023LE section 6, in Gaussian
    form.
    """

    manifold: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Any
    calibration: str = "analytic"
    project: bool = True
    adjacency: str = ADJACENCIES[0]
    noise_multiplier: float = dataclasses.field(init=False)
    sigma: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("calibration", self.calibration, CALIBRATIONS)
        one_of("adjacency", self.adjacency, ADJACENCIES)
        sensitivity = real("sensitivity", self.sensitivity, above=0.0)
        z = gaussian_multiplier(self.budget, self.calibration)
        _set(self, sensitivity=sensitivity, noise_multiplier=z, sigma=rounded_up(z * sensitivity))

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw the noise, charge the ledger (the one given, else the innermost `with Ledger`),
        return the `Release`.
        """
        source = noise_source(rng)
        checked = one_value(self.manifold, "value", value)
        guarantee = gaussian(self.noise_multiplier, adjacency=self.adjacency)
        charge(guarantee, ledger)
        released = _finish(
            self.manifold,
            checked,
            _ambient_normals(self.manifold, source),
            self.sigma,
            self.project,
        )
        return Release(
            released,
            guarantee,
            self.sigma,
            "extrinsic-gaussian",
            source.reproducible,
            self.sensitivity,
            None,
            {"baseline": "ambient noise", "ambient_dimension": ambient_dimension(self.manifold)},
        )


@dataclasses.dataclass(frozen=True, eq=False)
class ExtrinsicLaplace:
    """Baseline: release an ambient array with noise of density exp(-|v| / s) and project it to the
    manifold.

    **Arguments:** as `ExtrinsicGaussian`, with `epsilon` > 0 (a number or a `Budget`) for the
    budget.

    Guarantee: (epsilon, 0) under `adjacency`, s = sensitivity / epsilon.

    Source: Reimherr2021 A.4 (Euclidean Laplace, the K-norm mechanism with the l2 norm).
    """

    manifold: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float
    project: bool = True
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)
        sensitivity, epsilon = (
            real("sensitivity", self.sensitivity, above=0.0),
            pure_epsilon(self.epsilon),
        )
        _set(
            self, sensitivity=sensitivity, epsilon=epsilon, scale=rounded_up(sensitivity / epsilon)
        )

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw the noise, charge the ledger (the one given, else the innermost `with Ledger`),
        return the `Release`.
        """
        source = noise_source(rng)
        checked = one_value(self.manifold, "value", value)
        guarantee = pure(self.epsilon, adjacency=self.adjacency)
        charge(guarantee, ledger)
        dim = ambient_dimension(self.manifold)
        z = _ambient_normals(self.manifold, source)
        length = math.sqrt(sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(z)))
        factor = self.scale * float(source.gammas(float(dim))) / length
        released = _finish(self.manifold, checked, z, factor, self.project)
        return Release(
            released,
            guarantee,
            self.scale,
            "extrinsic-laplace",
            source.reproducible,
            self.sensitivity,
            None,
            {"baseline": "ambient noise", "ambient_dimension": dim},
        )


def ambient_dimension(manifold: Any) -> int:
    """Dimension of the linear space that the noise fills: symmetric matrices for SPD spaces, the
    whole array space elsewhere.
    """
    if isinstance(manifold, Product):
        return sum(ambient_dimension(m) for m in manifold.manifolds)
    return manifold.dim if _is_spd(manifold) else math.prod(manifold.shape)


def ambient_mean(manifold: Any, records: Any, weights: Any = None) -> Any:
    """Weighted arithmetic mean of the records as ambient arrays (the query of the extrinsic
    baselines).
    """
    n = manifold._batch_shape(records)[0]
    w = jnp.full(n, 1.0 / n) if weights is None else jnp.asarray(weights)
    return jax.tree.map(lambda leaf: jnp.tensordot(w, leaf, axes=1), records)


def _is_spd(manifold: Any) -> bool:
    return type(manifold).__name__.startswith("SPD")


def _ambient_normals(manifold: Any, source: Any) -> Any:
    if isinstance(manifold, Product):
        return tuple(_ambient_normals(m, source) for m in manifold.manifolds)
    return (
        symmetric_normals(manifold.k, 1, source)[0]
        if _is_spd(manifold)
        else source.normals(manifold.shape)
    )


def _finish(manifold: Any, value: Any, z: Any, factor: float, project: bool) -> Any:
    noisy = jax.tree.map(lambda leaf, noise: leaf + factor * jnp.asarray(noise), value, z)
    if not project:
        return noisy
    return manifold.project(noisy)
