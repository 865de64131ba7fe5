"""Attacks on the number of records, on records that are read in parts, and on labels of people."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, private_frechet_mean
from riemdp.statistics import FrechetMean
from tests.seam import Commands, Doors, plant

SPACE, BALL, BUDGET = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 1.0), Budget(1.0, 1e-6)
SPHERE = riemdp.Sphere(3)
CAP = Ball(SPHERE.origin, 0.5)
PROTECTED = {"mechanism": "wrapped-gaussian", "rng": 0}


def mapped(folder, X):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def on_the_limit(count):
    """Records that are off the sphere by as much as is still read as a point, or a little more, and
    on the edge of the ball.
    """
    rng = np.random.default_rng(1)
    v = rng.normal(size=(2048, 2))
    v *= 0.5 / np.linalg.norm(v, axis=1, keepdims=True)
    X = np.asarray(SPHERE.exp(SPHERE.origin, SPHERE.from_coordinates(SPHERE.origin, v)))
    return (X * (1 + 1e-6 * (1 + rng.integers(-4, 5, size=(2048, 1)) * 2e-11)))[:count]


@pytest.mark.parametrize("how", ["memory", "parts"])
def test_fault_33_one_more_record_does_not_move_the_others(tmp_path, how):
    """Equal records on the limit of what is a point: at another number of records a program of
    another size was compiled, which rounded otherwise, and all of them became the centre at once
    (the mean moved by 0.5 where its sensitivity was 0.015, the count of records outside by 1365).
    """
    query = FrechetMean(CAP.on(SPHERE), 100, adjacency="add-or-remove-one")
    few = 1365 if how == "memory" else 1024
    for record in on_the_limit(40 if how == "memory" else 12):
        X = np.tile(record, (few + 1, 1))
        found = []
        for n in (few, few + 1):
            prepared = query.prepare(X[:n] if how == "memory" else mapped(tmp_path, X[:n]))
            found.append((query.value(prepared), prepared.count_outside))
        (mean, count), (other, count_of_other) = found
        assert float(SPHERE.dist(mean, other)) <= query.sensitivity
        assert abs(count - count_of_other) <= 1


@pytest.mark.parametrize("space", [SPHERE, SPACE, riemdp.Lorentz(2), riemdp.Euclidean(3)], ids=repr)
def test_fault_33_a_record_is_clamped_alike_at_every_place_and_in_every_number(space):
    query = FrechetMean(Ball(space.origin, 0.5).on(space), 10, adjacency="add-or-remove-one")
    rng = np.random.default_rng(0)
    v = rng.normal(size=(2048, space.dim))
    v *= (
        0.5
        * (1 + rng.integers(-3, 4, size=(2048, 1)) * 1.1e-16)
        / np.linalg.norm(v, axis=1)[:, None]
    )
    X = np.array(space.exp(space.origin, space.from_coordinates(space.origin, v)))
    whole, turned = query.prepare(X), query.prepare(np.roll(X, 1, axis=0))
    fewer = query.prepare(X[:1000])
    assert np.array_equal(np.roll(whole.points[:-1], 1, axis=0), turned.points[:-1])
    assert np.array_equal(np.roll(whole.outside, 1), turned.outside)
    assert np.array_equal(whole.points[:1000], fewer.points[:-1])
    assert np.array_equal(whole.outside[:1000], fewer.outside)


def test_no_record_at_all_is_no_event(tmp_path):
    """An empty file, under add-or-remove-one, was an error; with one record it was none."""
    for n in (0, 1):
        there = mapped(tmp_path, np.tile(np.eye(2), (n, 1, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            release = private_frechet_mean(SPACE, there, BALL, BUDGET, n_min=50, **PROTECTED)
        assert np.isfinite(release.value).all()


def test_private_weights_of_whole_parts_are_no_event(tmp_path, monkeypatch):
    """Where all records of a sample had weight 0, a warning told so: one record decides that."""
    plant(monkeypatch, "rows of a part", 256)
    weights = np.ones(1000)
    weights[:256] = weights[512:768] = 0.0
    X = np.tile(np.diag([1.5, 0.9]), (1000, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private_frechet_mean(
            SPACE, mapped(tmp_path, X), BALL, BUDGET, n_min=100, weights=weights, **PROTECTED
        )
    query = FrechetMean(BALL.on(SPACE), 100, adjacency="add-or-remove-one")
    means = [query.value(query.prepare(x, weights)) for x in (mapped(tmp_path, X), X)]
    assert float(query.frame.local.manifold.dist(*means)) <= 1e-9
    nobody = [query.value(query.prepare(x, 0.0 * weights)) for x in (mapped(tmp_path, X), X)]
    assert all(np.array_equal(one, np.eye(2)) for one in nobody)


def test_a_ball_keeps_its_centre():
    """JAX shares the memory of large arrays with whoever made them."""
    room = np.zeros(520)
    start = -room.ctypes.data % 64 // 8  # where JAX can share it
    center = room[start : start + 512]
    ball = Ball(center, 1.0)
    center[:] = 5.0
    assert not np.any(np.asarray(ball.center))


@pytest.mark.parametrize("number", [2**53 + 1, 2**60 + 1, 2**63 - 1])
def test_a_long_number_and_its_text_are_one_person(number):
    """Two labels of one person, one read as a float, made two people of half the sensitivity."""
    same = [number, str(number), f" {number}.0", str(number).encode(), np.int64(number)]
    assert Doors.admit_people("groups", same, len(same))[1] == 1
    assert Doors.admit_people("groups", [str(number), str(number - 1)], 2)[1] == 2


@pytest.mark.parametrize("labels", [["a", "a", "b", "b"], ["1", "2", "2", "3"]])
def test_a_label_is_not_taken_for_the_name_of_the_column(tmp_path, labels):
    """With one label too many the first was dropped, and people got the records of others."""
    file = tmp_path / "groups.csv"
    file.write_text("\n".join(labels))
    assert Commands.labels_of(file, 3) == labels
    with pytest.raises(riemdp.InvalidArgument, match="groups"):
        Doors.admit_people("groups", labels, 3)
    file.write_text("\n".join(["person", *labels]))
    assert Commands.labels_of(file, 4) == labels
