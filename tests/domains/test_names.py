"""Names of columns and channels go from a table to the release; names of records never do."""

from __future__ import annotations

import types

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.domains._names import in_words, names_of, of_coordinates
from tests.named import DataArray

CHANNELS = ["Fz", "Cz", "Pz"]
SPACE, BALL, BUDGET = riemdp.SPDLogEuclidean(3), Ball(np.eye(3), 2.0), Budget(1.0, 1e-6)


def matrices(n: int = 60) -> np.ndarray:
    a = np.random.default_rng(0).normal(size=(n, 3, 20))
    return a @ a.transpose(0, 2, 1) / 20


def like(package: str, kind: str, **parts: object) -> object:
    """An object that looks like one of a package which the quick tests do not install."""
    made = type(kind, (types.SimpleNamespace,), {"__module__": f"{package}.core"})
    return made(**parts)


def coordinate(values: list) -> types.SimpleNamespace:
    return types.SimpleNamespace(values=np.array(values))


def test_names_are_those_of_columns_and_of_all_axes_but_the_first() -> None:
    assert names_of(like("pandas", "DataFrame", columns=["age", "bmi"])) == (("age", "bmi"),)
    assert names_of(like("pandas", "DataFrame", columns=[0, 1])) is None
    assert names_of(like("pandas", "DataFrame", columns=[])) is None
    assert names_of(like("mine", "DataFrame", columns=["age"])) is None
    assert names_of(np.ones((3, 2))) is None
    axes = {"epoch": coordinate(["Alice", "Bob"]), "row": coordinate(CHANNELS)}
    array = like("xarray", "DataArray", dims=("epoch", "row", "column"), coords=axes)
    assert names_of(array) is None  # the last axis has no names
    axes["column"] = coordinate(CHANNELS)
    assert names_of(array) == (tuple(CHANNELS), tuple(CHANNELS))
    axes["column"] = coordinate([1.0, 2.0, 3.0])
    assert names_of(array) is None


def test_many_names_in_words() -> None:
    assert in_words((("a", "b"), ("a", "b"))) == "a, b"
    assert in_words((("a",), ("b",))) == "a by b"
    assert in_words((tuple("abcdefghijklmn"),)).endswith("l and 2 more")


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


def test_names_that_do_not_fit_the_value_are_dropped() -> None:
    records = DataArray(matrices(), (("a", "b"), ("a", "b")))
    release = riemdp.private_frechet_mean(SPACE, records, BALL, BUDGET, rng=1)
    assert "names" not in release.details


def test_names_reach_everything_that_has_the_axes_of_a_record() -> None:
    axis = tuple(CHANNELS)
    few, labels = DataArray(matrices(), (axis, axis)), np.arange(60) % 2
    many = DataArray(np.tile(matrices(), (5, 1, 1)), (axis, axis))
    budget = Budget(5.0, 1e-6)
    median = riemdp.private_geometric_median(SPACE, many, budget, rng=1)
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


def test_components_have_names_of_their_own_and_those_of_the_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 3))
    table = DataArray(rows, (tuple(CHANNELS),))
    fitted = riemdp.PrivatePCA(2, budget=BUDGET, row_norm=3.0).fit(table)
    assert fitted.release_.details["names"] == (("privatepca0", "privatepca1"), tuple(CHANNELS))


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
    about, wide = {"budget": BUDGET, "rng": 1}, Budget(5.0, 1e-6)
    named = riemdp.private_tangent_covariance(space, DataArray(X, names), ball, **about)
    plain = riemdp.private_tangent_covariance(space, X, ball, **about)
    pga = riemdp.PrivatePGA(2, manifold=space, budget=wide, ball=ball, random_state=1)
    fitted = pga.fit(DataArray(X, names))
    assert fitted.releases_["mean"].details["names"] == names
    np.testing.assert_array_equal(named.value, plain.value)
    assert "names" not in plain.details
    if coordinates is None:  # a coordinate belongs to no entry of a record
        assert "names" not in named.details
        assert "names" not in fitted.release_.details
        return
    axis = (*CHANNELS, *coordinates)
    assert named.details["names"] == (axis, axis)
    assert fitted.release_.details["names"] == (("privatepga0", "privatepga1"), axis)
    assert fitted.releases_["covariance"].details["names"] == (axis, axis)


def test_named_coordinates_are_the_entries_of_the_logarithm() -> None:
    """At any centre: the name says which entry moves."""
    space = riemdp.SPDLogEuclidean(3)
    axis = of_coordinates(space, (tuple(CHANNELS),) * 2)
    assert axis is not None
    center, x = matrices()[:2]

    def log(a):
        values, vectors = np.linalg.eigh(a)
        return vectors @ np.diag(np.log(values)) @ vectors.T

    moved = log(x) - log(center)
    found = np.asarray(space.to_coordinates(center, space.log(center, x)))
    for name, coordinate in zip(axis, found, strict=True):
        i, j = ([CHANNELS.index(c) for c in name.split("-")] * 2)[:2]
        scale = 1.0 if i == j else np.sqrt(2.0)
        assert coordinate == pytest.approx(scale * moved[i, j], rel=1e-6, abs=1e-9)


@pytest.mark.conformance
def test_a_frame_of_pandas_names_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [0.1, 0.2], "bmi": [0.3, 0.4]})
    release = riemdp.private_frechet_mean(
        riemdp.Euclidean(2), table, Ball(np.zeros(2), 1.0), BUDGET, rng=0
    )
    assert list(release.to_frame().columns) == ["age", "bmi"]
    named = DataArray(matrices(), (tuple(CHANNELS),) * 2)
    frame = riemdp.private_frechet_mean(SPACE, named, BALL, BUDGET, rng=0).to_frame()
    assert list(frame.columns) == list(frame.index) == CHANNELS
