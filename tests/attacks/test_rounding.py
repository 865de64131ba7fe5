"""Attacks on what rounding makes of values about ill-conditioned centres: fault 35."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp as R
from riemdp.mechanisms import WrappedGaussian
from riemdp.statistics import FrechetMean
from tests.domains.rounding import conditioned


@pytest.mark.parametrize(("k", "condition"), [(2, 1e4), (3, 1e6)])
def test_fault_35_no_rounding_makes_the_centre_of_a_mean_of_records_at_the_edge(k, condition):
    """On Bures-Wasserstein space a clamp used to ask for more digits than there are, and made the
    centre of some means: neighbours were a radius apart.
    """
    space, centre = R.SPDBuresWasserstein(k), conditioned(k, condition)
    radius = 0.03 * math.sqrt(np.linalg.eigvalsh(centre)[0])
    query = FrechetMean(R.Ball(centre, radius).on(space), 4)
    rng = np.random.default_rng(0)
    for _ in range(40):
        u = rng.normal(size=(1, space.dim))
        u *= 1.5 * radius / np.linalg.norm(u)
        u = u + 1e-9 * radius * rng.normal(size=(4, space.dim))
        x = space.exp(centre, space.from_coordinates(centre, u))
        records = query.prepare(x)
        assert np.all(space.dist(centre, records.points) > 0.99 * radius)
        assert float(space.dist(centre, query.value(records))) > 0.99 * radius


@pytest.mark.parametrize(
    ("space", "centre", "radius"),
    [
        (R.SPDBuresWasserstein(2), conditioned(2, 1e9), 1e-5),
        (R.PoincareBall(2), [math.tanh(8.0), 0.0], 12.0),
        (R.SPDLogEuclidean(2), conditioned(2, 1e13), 0.1),
    ],
    ids=str,
)
def test_fault_35_what_float64_does_not_resolve_is_called_idealised(space, centre, radius):
    """There the clamp may make the centre of one value and not of its neighbour."""
    mechanism = WrappedGaussian(
        space, centre, sensitivity=1e9, budget=R.Budget(1.0, 1e-5), ball=R.Ball(centre, radius)
    )
    assert mechanism.rounding == math.inf
    assert mechanism.arithmetic == "idealised"


def test_fault_35_a_mean_that_float64_does_not_resolve_is_refused():
    centre = conditioned(2, 1e9)
    with pytest.raises(R.InvalidArgument, match=r"ball\.radius.*float64"):
        FrechetMean(R.Ball(centre, 1.2e-5).on(R.SPDBuresWasserstein(2)), 2)
