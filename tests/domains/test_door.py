"""The door: points are carried onto their space; records and labels are read one by one."""

from __future__ import annotations

import copy
import pickle
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp as R
from tests.seam import Doors, original, plant

GARBAGE = [
    None,
    "text",
    b"bytes",
    ["a", "b"],
    [1.0 + 1j, 2.0],
    [10**400, 1],
    [1.0, 2.0, 3.0],
    [1.0, [2.0]],
    object(),
    {"a": 1.0},
    np.datetime64("2020-01-01"),
    np.array([1e400, 1.0]),
    np.ma.masked_array([1.0, 2.0], mask=[True, False]),
]


class Hostile:
    """A record that raises when it is read."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("read me")

    def __eq__(self, other):
        raise RuntimeError("compare me")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("garbage", [*GARBAGE, Hostile()], ids=lambda g: type(g).__name__)
def test_garbage_is_one_record_that_is_no_point(garbage):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning would be an event that one record decides
        records, n = Doors.admit_records(R.Euclidean(2), "X", [[1.0, 2.0], garbage, [3, 4]])
    assert n == 3
    np.testing.assert_array_equal(records[[0, 2]], [[1.0, 2.0], [3.0, 4.0]])
    assert not np.all(np.isfinite(records[1]))


@pytest.mark.parametrize(
    "whole",
    [
        np.array([[1, 2], ["a", "3"]]),  # one text makes text of every number
        np.array([[1, 2], [3, 1j]]),  # one complex number makes all complex
        np.array([[1, 2], None], dtype=object),
        np.array([[1.0, 2.0], [np.nan, np.inf]]),
    ],
    ids=["text", "complex", "object", "nan"],
)
def test_an_array_whose_type_one_record_decides_keeps_the_others(whole):
    records, n = Doors.admit_records(R.Euclidean(2), "X", whole)
    assert n == 2
    np.testing.assert_array_equal(records[0], [1.0, 2.0])
    assert not np.all(np.isfinite(records[1]))


@pytest.mark.parametrize(
    "whole",
    [None, 3.0, "abc", {"a": 1.25}, np.zeros(2), np.full((4, 3), 1.25), np.zeros((0, 2)), []],
    ids=str,
)
def test_only_the_form_of_the_whole_is_refused_and_no_value_is_shown(whole):
    with pytest.raises(R.InvalidArgument, match="argument `X`") as caught:
        Doors.admit_records(R.Euclidean(2), "X", whole)
    assert "1.25" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 0], [0, 1, 0]),
        ([0, 1, "other", 0], [0, 1, -1, 0]),
        (np.array([0, 1, "other", 0]), [0, 1, -1, 0]),  # NumPy has made text of every label
        (np.array([0, 1, 1.5]), [0, 1, -1]),
        (np.array([0, 1, None]), [0, 1, -1]),
        (np.array([b"0", b"1", b"x"]), [0, 1, -1]),
        ([0, 1.0, [1], np.nan, 2**70, None, np.int8(1), Hostile()], [0, 1, -1, -1, -1, -1, 1, -1]),
    ],
)
def test_a_label_changes_no_other_label(labels, expected):
    assert Doors.admit_labels("y", labels, [0, 1]).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array([3, -1, 7, 3, 0]), [3, -1]),
        (np.array([0, 1, 2, 255], dtype=np.uint8), [1, 0, -1, 255]),
        (np.array([0, 2**64 - 1, 2**53, 2**53 + 1], dtype=np.uint64), [-1, 2**53 - 1, 0]),
        (np.array([0, 2**53, 2**53 + 1, 2**53 - 1]), [2**53 + 1, 2**53]),
        (np.array([0, 1, 2]), [False, True]),
        (np.array([0, 1, 2]), [np.int8(2), 1.0]),
        (np.array([0, 1, 2]), ["1", 2]),
        (np.array([0, 1, 1]), [1, True, 0]),
        (np.array([], dtype=int), [0, 1]),
    ],
    ids=str,
)
def test_whole_labels_all_at_once_are_those_read_one_by_one(labels, classes):
    at_once = Doors.admit_labels("y", labels, classes)
    assert at_once.tolist() == Doors.admit_labels("y", list(labels), classes).tolist()


def test_classes_of_text_and_of_both_kinds():
    assert Doors.admit_labels("y", ["a", "b", b"a", 0], ["a", "b"]).tolist() == [0, 1, 0, -1]
    for whole in ("abc", 3, np.zeros((2, 2)), {"a": 1}):
        with pytest.raises(R.InvalidArgument, match="argument `y`"):
            Doors.admit_labels("y", whole, [0, 1])


@pytest.mark.parametrize(
    ("space", "point"),
    [
        (R.Sphere(3), np.array([1 + 9e-7, 0.0, 0.0])),
        (R.Grassmann(4, 2), np.eye(4)[:, :2] * (1 - 5e-7)),
        (R.Lorentz(3), np.array([1.0 + 5e-7, 0.0, 0.0])),
        (R.SPDAffineInvariant(2), np.array([[1.0, 3e-7], [0.0, 2.0]])),
        (R.Product(R.Sphere(3), R.Euclidean(1)), (np.array([0.0, 1 + 9e-7, 0.0]), np.zeros(1))),
    ],
    ids=lambda x: repr(x) if isinstance(x, R.AbstractManifold) else "",
)
def test_a_point_nearly_on_the_space_is_carried_onto_it(space, point):
    assert not bool(space.belongs(point, 1e-12))
    assert bool(space.belongs(Doors.admit_point(space, "start", point), 1e-12))


def test_a_ball_is_bound_once_and_immutable():
    space, ball = R.Sphere(3), R.Ball(np.array([1 + 5e-7, 0.0, 0.0]), 0.3)
    domain = ball.on(space)
    assert ball.on(R.Sphere(3)) is domain
    assert bool(space.belongs(domain.center, 1e-12))
    with pytest.raises(AttributeError, match="immutable"):
        ball.radius = 0.1  # type: ignore[misc]
    for twin in (pickle.loads(pickle.dumps(ball)), copy.deepcopy(ball)):
        assert twin.radius == ball.radius
        assert np.array_equal(twin.center, ball.center)


@pytest.mark.parametrize("space", [R.SPDAffineInvariant(3), R.SPDLogEuclidean(3)], ids=repr)
@pytest.mark.parametrize(
    ("given", "radius"),
    [(np.asarray, r) for r in (16.0, 22.0, 28.0, 30.0, 60.0, 300.0)]
    + [(jnp.asarray, r) for r in (22.0, 300.0)],
)
def test_the_clamp_returns_points_of_every_ball(space, given, radius):
    """On NumPy exactly those whose distance from the centre says so."""
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(400, 3, 3)))[0]
    logs = rng.normal(size=(400, 3)) * radius
    x = np.einsum("nij,nj,nkj->nik", q, np.exp(np.clip(logs, -300, 300)), q)
    ball = R.Ball(np.eye(3), radius)
    moved = ball.clamp(space, given((x + x.swapaxes(1, 2)) / 2))
    assert bool(jnp.all(space.belongs(moved, 1e-10)))
    distance = np.asarray(space.dist(np.eye(3), moved))
    # XLA rounds in another order inside another program
    lost = 0.0 if given is np.asarray else ball.on(space).resolution
    assert np.all(distance <= radius * (1 + 1e-6) + 1e-14 + lost)


def test_a_record_that_only_seems_to_lie_inside_goes_to_the_center(monkeypatch):
    """As where float64 does not hold what a decomposition says: the result itself is measured."""
    space, centre = R.Sphere(3), np.array([1.0, 0.0, 0.0])
    x = np.array([[np.cos(1.0), np.sin(1.0), 0.0], [np.cos(0.2), 0.0, np.sin(0.2)]])
    seen = original("distances from a center")

    def nearer(*args):
        distance, at = seen(*args)
        return 0.1 * distance, at

    plant(monkeypatch, "distances from a center", nearer)
    moved = R.Ball(centre, 0.5).clamp(space, x)
    assert np.array_equal(moved, [centre, x[1]])
