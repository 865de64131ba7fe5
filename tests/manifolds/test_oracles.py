"""Sphere, hyperboloid and Poincare ball against 60-digit arithmetic: every operation, at tiny and
ordinary distances, and far from the origin.
"""

from __future__ import annotations

import numpy as np
import pytest

from .cases import BY_NAME
from .oracles import ORACLES, both_far, ordinary, scaled, worst_errors

ULP = 2.0**-52
# transport and volume density of the sphere are conditioned like 1 / (pi - distance): a factor 7 at
# distance 3
LIMITS = {"sphere": 30 * ULP, "lorentz": 50 * ULP, "poincare": 50 * ULP}
LENGTHS = [(name, length) for name in LIMITS for length in (1e-12, 1e-5, 1.0)] + [("sphere", 3.0)]


@pytest.mark.parametrize(("name", "length"), LENGTHS)
def test_every_operation_to_sixteen_digits(name: str, length: float) -> None:
    space = BY_NAME[name].manifold
    errors = worst_errors(space, ORACLES[name], scaled(space, length))
    assert max(errors.values()) < LIMITS[name], errors


@pytest.mark.parametrize("name", LIMITS)
def test_ordinary_points(name: str) -> None:
    space, radius = BY_NAME[name].manifold, BY_NAME[name].radius
    errors = worst_errors(space, ORACLES[name], ordinary(space, radius))
    assert max(errors.values()) < LIMITS[name], errors


@pytest.mark.parametrize("distance", [5.0, 10.0, 16.0])
@pytest.mark.parametrize("name", ["lorentz", "poincare"])
def test_far_points_lose_no_more_than_their_coordinates_do(name: str, distance: float) -> None:
    """One rounding of a coordinate is worth e^R / 2 ulp at distance R; naive forms lose e^(2R)."""
    space = BY_NAME[name].manifold
    errors = worst_errors(space, ORACLES[name], both_far(space, distance))
    assert max(errors.values()) < 10 * ULP * np.exp(distance), errors
