"""The public bounds of rounding are ten times above the worst error against 60 digits, over hostile
public centres; where float64 resolves nothing, a release says so or is refused.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp as R
from riemdp.manifolds._base import EPS
from riemdp.mechanisms import WrappedGaussian
from riemdp.statistics import FrechetMean
from tests.domains.rounding import conditioned, means, places, sums, values

MARGIN = 0.1
QUICK = {
    ("Euclidean", "1e+07", 1.0),
    ("SPDAffineInvariant", "condition 1", 8.0),
    ("SPDAffineInvariant", "condition 1e+06", 0.1),
    ("SPDLogEuclidean", "condition 1", 8.0),
    ("SPDBuresWasserstein", "condition 10000", None),
    ("Sphere", "anywhere", 0.75),
    ("Grassmann", "anywhere", 0.5),
    ("Lorentz", "0 from the origin", 3.0),
    ("Lorentz", "12 from the origin", 0.1),
    ("PoincareBall", "0 from the origin", 12.0),
    ("Product", "condition 1e+06", 0.7),
}
FEW = [
    place
    for place in places()
    if place.size < 4
    and ({(place.name, place.where, place.radius), (place.name, place.where, None)} & QUICK)
]


@pytest.mark.parametrize("place", FEW, ids=str)
def test_rounding_is_a_tenth_of_its_bound(place):
    found = values(place, 9)
    assert found.bound < math.inf
    assert found.share < MARGIN
    if place.means:
        assert means(place, 2).share < MARGIN


def test_a_planted_bound_without_the_growth_of_errors_is_too_small():
    place = next(p for p in FEW if p.name == "SPDAffineInvariant" and p.radius == 8.0)
    planted = 4 * EPS * 2 * 8.0 * (1.0 + place.radius)
    assert values(place, 20).error > MARGIN * planted


@pytest.mark.slow
def test_no_place_has_more_rounding_than_a_tenth_of_its_bound():
    for place in places():
        assert values(place, 40).share < MARGIN, place
        if place.means:
            assert means(place, 9).share < MARGIN, place


@pytest.mark.parametrize("copies", [1, 1000])
def test_sums_of_up_to_a_million_terms_are_within_their_bound(copies):
    found = sums(1000, copies)
    assert found.share < MARGIN
    assert found.error > 0.0


@pytest.mark.parametrize(("k", "condition"), [(2, 1e4), (3, 1e6)])
def test_no_rounding_makes_the_centre_of_a_mean_of_records_at_the_edge(k, condition):
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
        x = space.exp(centre, space.from_coordinates(centre, jnp.asarray(u)))
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
def test_what_float64_does_not_resolve_is_called_idealised(space, centre, radius):
    """There the clamp may make the centre of one value and not of its neighbour."""
    mechanism = WrappedGaussian(
        space, centre, sensitivity=1e9, budget=R.Budget(1.0, 1e-5), ball=R.Ball(centre, radius)
    )
    assert mechanism.rounding == math.inf
    assert mechanism.arithmetic == "idealised"


def test_a_mean_that_float64_does_not_resolve_is_refused():
    centre = conditioned(2, 1e9)
    with pytest.raises(R.InvalidArgument, match=r"ball\.radius.*float64"):
        FrechetMean(R.Ball(centre, 1.2e-5).on(R.SPDBuresWasserstein(2)), 2)
