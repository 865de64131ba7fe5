"""The public bounds of rounding are ten times above the worst error against 60 digits, over hostile
public centres; where float64 resolves nothing, a release says so or is refused.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.domains.rounding import means, places, sums, values

MARGIN = 0.1
QUICK = {
    ("Euclidean", "1e+07", 1.0),
    ("SPDAffineInvariant", "condition 1", 8.0),
    ("SPDAffineInvariant", "condition 1e+06", 0.1),
    ("SPDLogEuclidean", "condition 1", 8.0),
    ("SPDBuresWasserstein", "condition 10000", None),
    ("SPDBuresWasserstein", "condition 10000, near the edge", None),
    ("Sphere", "anywhere", 0.75),
    ("Grassmann", "anywhere", 0.5),
    ("KendallShapes", "all but one together", 0.38),
    ("Lorentz", "0 from the origin", 3.0),
    ("Lorentz", "12 from the origin", 0.1),
    ("Lorentz", "12 from the origin", 12.0),
    ("Lorentz, a line", "12 from the origin", 12.0),
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
    if place.values:
        found = values(place, 9)
        assert found.bound < math.inf
        assert found.share < MARGIN
    if place.means:
        assert means(place, 2).share < MARGIN


def test_a_planted_bound_without_the_growth_of_errors_is_too_small():
    place = next(p for p in FEW if p.name == "SPDAffineInvariant" and p.radius == 8.0)
    planted = 4 * np.finfo(float).eps * 2 * 8.0 * (1.0 + place.radius)
    assert values(place, 20).error > MARGIN * planted


@pytest.mark.slow
def test_no_place_has_more_rounding_than_a_tenth_of_its_bound():
    for place in places():
        assert not place.values or values(place, 40).share < MARGIN, place
        if place.means and (place.values or place.domain.is_resolved):
            assert means(place, 9).share < MARGIN, place


@pytest.mark.parametrize("copies", [1, 1000])
def test_sums_of_up_to_a_million_terms_are_within_their_bound(copies):
    found = [sums(1000, copies, seed) for seed in range(9)]
    assert all(one.share < MARGIN for one in found)
    assert any(one.error > 0.0 for one in found)
