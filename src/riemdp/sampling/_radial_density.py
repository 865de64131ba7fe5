"""The density of the length of a Laplace draw, on homogeneous curved spaces: what its error
distribution is computed from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..manifolds import (
    AbstractManifold,
    Grassmann,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
)
from ..randomness import noise_source
from . import _radial, _spectral


def radial_log_density(manifold: AbstractManifold, sigma: float) -> tuple[Any, float, bool]:
    """(log density of d(x, eta) up to a constant, its upper end, whether it is an average over
    fixed public directions), on homogeneous curved spaces with a sampler.
    """
    power = manifold.dim - 1
    if isinstance(manifold, Lorentz | PoincareBall):
        return lambda r: power * _radial.log_sinh(r) - r / sigma, math.inf, False
    if isinstance(manifold, Sphere):
        return lambda r: power * np.log(np.sin(r)) - r / sigma, math.pi, False
    source = noise_source(20244)
    if isinstance(manifold, SPDAffineInvariant):
        k = manifold.k
        affine = _spectral.affine_proposal(k, float(sigma), math.inf)
        # Fewer directions in high dimension: there the ratio hardly depends on them (and each costs
        # k (k - 1) / 2 terms).
        many = max(64, min(512, 50_000 // max(affine.pairs, 1)))
        u = _spectral.direction_spectra(k, many, source)
        mean = _direction_average(lambda r: affine.log_ratio(np.full(many, r), u))
        return lambda r: affine.hull.log_f(r) + mean(r), math.inf, True
    if isinstance(manifold, Grassmann):
        p = min(manifold.r, manifold.m - manifold.r)
        grassmann = _spectral.grassmann_proposal(manifold.m, p, float(sigma), math.inf)
        s = _spectral.unit_singular_values(source.normals((512, manifold.m - p, p)), p)
        mean = _direction_average(lambda r: grassmann.log_ratio(np.full(512, r), r * s))
        return lambda r: grassmann.hull.log_f(r) + mean(r), grassmann.end, True
    raise NotImplementedError(f"no radial density is known on {manifold!r}")


def _direction_average(log_ratio: Callable[[float], np.ndarray]) -> Any:
    """r -> log of the average of exp(log_ratio(r)) over directions, for arrays of r; interpolated
    on 150 nodes when long.
    """

    def one(r: float) -> float:
        values = log_ratio(r)
        top = np.max(values)
        return -np.inf if np.isneginf(top) else float(top + np.log(np.mean(np.exp(values - top))))

    def average(r: np.ndarray) -> np.ndarray:
        if r.size <= 400:
            return np.array([one(float(x)) for x in r])
        nodes = np.concatenate(
            [np.geomspace(r[0], r[-1], 50)[:-1], np.linspace(r[0], r[-1], 101)[1:]]
        )
        nodes = np.sort(nodes)
        at = np.maximum(np.array([one(float(x)) for x in nodes]), -1e30)
        return np.interp(r, nodes, at)

    return average
