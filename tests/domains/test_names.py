"""Names of columns and channels go from a table to the release; names of records never do."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from tests.named import DataArray

CHANNELS = ["Fz", "Cz", "Pz"]
SPACE, BALL, BUDGET = riemdp.SPDLogEuclidean(3), Ball(np.eye(3), 2.0), Budget(1.0, 1e-6)


def matrices(n: int = 60) -> np.ndarray:
    a = np.random.default_rng(0).normal(size=(n, 3, 20))
    return a @ a.transpose(0, 2, 1) / 20


@pytest.mark.parametrize(
    "options",
    [{"ball": BALL}, {"ball": BALL, "mechanism": "tangent-mean"}, {"budget": Budget(20.0, 1e-6)}],
)
def test_names_reach_the_release_and_change_nothing_else(options) -> None:
    axis = tuple(CHANNELS)
    records = DataArray(matrices(), (axis, axis))
    given = {"budget": BUDGET, "rng": 1, **options}
    named = riemdp.private_frechet_mean(SPACE, records, **given)
    plain = riemdp.private_frechet_mean(SPACE, matrices(), **given)
    assert named.details["names"] == (axis, axis)
    assert "names: Fz, Cz, Pz" in str(named)
    assert "names" not in plain.details
    np.testing.assert_array_equal(named.value, plain.value)
    assert named.guarantee == plain.guarantee


def test_names_reach_everything_that_has_the_axes_of_a_record() -> None:
    axis = tuple(CHANNELS)
    few, labels = DataArray(matrices(), (axis, axis)), np.arange(60) % 2
    many = DataArray(np.tile(matrices(), (5, 1, 1)), (axis, axis))
    budget = Budget(5.0, 1e-6)
    median = riemdp.private_geometric_median(SPACE, many, budget=budget, rng=1)
    found = riemdp.private_ball(SPACE, many, riemdp.AdaptiveBall(), budget, rng=1)
    mdm = riemdp.PrivateMDM(metric="logeuclid", budget=budget, ball=BALL).fit(few, labels)
    center = riemdp.PrivateTLCenter(budget=budget, ball=BALL).fit(few, domains=labels)
    for release in (median, found, *mdm.releases_, *center.releases_.values()):
        assert release.details["names"] == (axis, axis)
        assert "names: Fz, Cz, Pz" in str(release)
    assert "a ball of radius" in str(found)
    assert "Fz" in found._repr_html_()
    plain = riemdp.PrivateMDM(metric="logeuclid", budget=budget, ball=BALL).fit(matrices(), labels)
    assert all("names" not in release.details for release in plain.releases_)


@pytest.mark.parametrize(
    ("space", "names", "coordinates"),
    [
        (riemdp.SPDLogEuclidean(3), (tuple(CHANNELS),) * 2, ["Fz-Cz", "Fz-Pz", "Cz-Pz"]),
        (riemdp.SPDAffineInvariant(3), (tuple(CHANNELS),) * 2, None),
        (riemdp.Euclidean(3), (tuple(CHANNELS),), []),
    ],
    ids=str,
)
def test_tangent_coordinates_have_names_where_the_space_is_flat(space, names, coordinates) -> None:
    X = matrices() if len(names) == 2 else matrices()[:, 0]
    X = np.tile(X, (5, *[1] * (X.ndim - 1)))
    ball = Ball(space.origin, 2.0)
    wide = Budget(5.0, 1e-6)
    pga = riemdp.PrivatePGA(2, manifold=space, budget=wide, ball=ball, random_state=1)
    plain = pga.fit(X).releases_["covariance"]
    fitted = pga.fit(DataArray(X, names))
    assert fitted.releases_["mean"].details["names"] == names
    named = fitted.releases_["covariance"]
    np.testing.assert_array_equal(named.value, plain.value)
    assert "names" not in plain.details
    if coordinates is None:  # a coordinate belongs to no entry of a record
        assert "names" not in named.details
        assert "names" not in fitted.release_.details
        return
    axis = (*CHANNELS, *coordinates)
    assert named.details["names"] == (axis, axis)
    assert fitted.release_.details["names"] == (("privatepga0", "privatepga1"), axis)
