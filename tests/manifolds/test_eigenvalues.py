"""Eigenvalues without eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.manifolds import SPDAffineInvariant

from .spd_oracles import spd_matrix

ROUNDING = 2.0**-52


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e7, 1e12])
def test_distances_are_those_of_the_logarithm(spread):
    """The logarithm has eigenvectors, the distance has none: both take the same eigenvalues, up to
    rounding times the spread.
    """
    rounding = 16.0 * ROUNDING * spread
    space = SPDAffineInvariant(4)
    rng = np.random.default_rng(1)
    p = spd_matrix(rng, 4, condition=10.0)
    q = np.stack([spd_matrix(rng, 4, condition=spread) for _ in range(6)])
    length = np.asarray(space.norm(p, space.log(p, q)))
    assert np.asarray(space.dist(p, q)) == pytest.approx(length, rel=1e-9 + rounding)
    back = np.stack([space.dist(x, p) for x in q])
    assert np.asarray(space.dist(p, q)) == pytest.approx(back, rel=1e-8 + rounding)
