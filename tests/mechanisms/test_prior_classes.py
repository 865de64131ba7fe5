"""Contrasts of class means with a public prior: what one record or person moves, and what shows."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, PublicPrior
from tests.seam import Searches, Sums

DIM, BUDGET = 4, Budget(1.0, 1e-5)
SIZES = [(50, 200, 200, 200), (20, 20, 20), (7, 30), (1, 1, 90)]
FLAT = riemdp.Euclidean(DIM)


def prior_of(classes=3, people=4, *, labels=True, seed=0):
    """Public people of so many classes, whose means lie along the first axes."""
    rng = np.random.default_rng(seed)
    n = 20 * classes * people
    y, whose = np.arange(n) % classes, np.arange(n) // classes % people
    X = rng.normal(size=(n, DIM)) * [1.0, 0.5, 2.0, 1.0]
    X[np.arange(n), y] += 1.5
    return PublicPrior(FLAT, X, y if labels else None, whose)


def mechanism_of(prior, classes=3, **given):
    return Sums.PriorClassifier(prior, list(range(classes)), budget=BUDGET, **given)


def seen(mechanism, X, labels, members=None):
    """The vector that is released, without noise."""
    value = mechanism._admit((X, labels, members))
    return mechanism.sums.joint(value.X, value.labels)


def records(classes=3, each=20, seed=1):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    X = rng.normal(size=(len(labels), DIM))
    X[np.arange(len(labels)), labels] += 1.5
    return X, labels


# ---------------------------------------------------------------- Lemma 4
@pytest.mark.parametrize("sizes", SIZES)
def test_one_record_moves_contrasts_by_their_factor(sizes):
    """Attained by antipodal records of the smallest class, and never more."""
    n, many = sum(sizes), len(sizes)
    sums = Sums.ClassContrasts(n, many, DIM, sizes)
    labels, rng = np.repeat(np.arange(many), sizes), np.random.default_rng(0)
    z = rng.normal(size=(n, DIM))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    worst = 0.0
    for place in np.cumsum(sizes) - 1:
        for _ in range(5):
            other = np.array(z)
            step = rng.normal(size=DIM)
            other[place] = rng.choice([-z[place], step / np.linalg.norm(step)])
            moved = np.linalg.norm(sums.joint(z, labels) - sums.joint(other, labels))
            worst = max(worst, moved)
        other[place] = -z[place]
        worst = max(worst, np.linalg.norm(sums.joint(z, labels) - sums.joint(other, labels)))
    assert 0.99 * sums.sensitivity <= worst <= sums.sensitivity
    assert sums.factor == pytest.approx(np.sqrt(1 - min(sizes) ** 2 / np.sum(np.square(sizes))))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_common_shift_of_class_means_is_not_seen(sizes):
    sums = Sums.ClassContrasts(sum(sizes), len(sizes), DIM, sizes)
    labels, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(0)
    z = rng.normal(size=(sum(sizes), DIM)) / 10
    moved = z + rng.normal(size=DIM) / 10
    np.testing.assert_allclose(sums.joint(z, labels), sums.joint(moved, labels), atol=1e-10)
    means = np.stack([z[labels == a].mean(axis=0) for a in range(len(sizes))])
    found = sums.means(sums.joint(z, labels), 1.0, Searches.SomeNoise.of(BUDGET))
    np.testing.assert_allclose(found.means, means - means.mean(axis=0), atol=1e-12)


def test_no_mean_of_a_class_can_be_read_from_a_release():
    """Neither from its attributes nor from its pickle: a shift of all records leaves it as it is.

    The shift is far above the noise, so no rounding hides it.
    """
    prior = prior_of()
    mechanism = mechanism_of(prior, n=3000, sizes=[1000] * 3)
    X, labels = records(each=1000)
    X = 0.1 * X  # inside the clip
    assert np.abs(np.linalg.norm(mechanism.view.seen(X + 0.2), axis=1)).max() < mechanism.radius
    one, other = (mechanism.release((x, labels), rng=1) for x in (X, X + 0.2))
    np.testing.assert_allclose(one.value, other.value, atol=1e-6)
    np.testing.assert_allclose(one.details["answers"][0], other.details["answers"][0], atol=1e-4)
    facts = [dict(r.details) | {"answers": None} for r in (one, other)]
    assert pickle.dumps(facts[0]) == pickle.dumps(facts[1])
    assert len(one.details["answers"][0]) == 2 * DIM


# ---------------------------------------------------------------- one clip of both blocks
@pytest.mark.parametrize("labels", ["public", "private"])
@pytest.mark.parametrize("known", [True, False])
def test_one_record_moves_the_joint_vector_by_at_most_its_sensitivity(labels, known):
    """Both blocks at once: far records in all directions, in the frame before the clip."""
    prior, (X, y) = prior_of(labels=known), records(each=7)
    given = {"sizes": [7] * 3} if labels == "public" else {}
    mechanism = mechanism_of(prior, n=21, **given)
    rng, worst = np.random.default_rng(0), 0.0
    onto = np.linalg.inv(mechanism.view._linear[0])
    for _ in range(60):
        way = 1e6 * rng.normal(size=DIM) * rng.choice([1.0, 1e-3], size=DIM) @ onto
        one, other, changed = X.copy(), X.copy(), y.copy()
        one[0], other[0] = way, -way
        if labels == "private":
            changed[0] = rng.integers(3)
        moved = seen(mechanism, one, y) - seen(mechanism, other, changed)
        worst = max(worst, float(np.linalg.norm(moved)))
    assert 0.99 * mechanism.sums.sensitivity <= worst <= mechanism.sums.sensitivity


def test_what_is_no_point_counts_as_the_centre():
    mechanism = mechanism_of(prior_of(), n=21, sizes=[7] * 3)
    X, y = records(each=7)
    X[0] = np.nan
    X[1] = 1e200
    assert np.all(mechanism._admit((X, y)).X[:2] == 0.0)


# ---------------------------------------------------------------- people
def test_one_person_moves_the_sum_of_contrasts_by_at_most_two():
    prior, rng = prior_of(), np.random.default_rng(0)
    mechanism, worst = mechanism_of(prior, n=5, of_people=True), 0.0
    onto = np.linalg.inv(mechanism.view._linear[0])
    rest = rng.normal(size=(12, DIM)), np.arange(12) % 3, np.arange(12) // 3

    def with_person(X, y):
        whole = np.concatenate([rest[0], X]), np.concatenate([rest[1], y])
        groups = np.concatenate([rest[2], np.full(len(y), 4)])
        return seen(mechanism, *whole, Sums.Membership(groups, len(groups)))

    for size in (1, 2, 3, 40):
        for length in (1.0, 1e6):
            X = length * rng.normal(size=(size, DIM)) @ onto
            y = rng.integers(3, size=size)
            for other in (-X, rng.normal(size=(3, DIM))):
                labels = y if len(other) == len(y) else np.arange(3)
                moved = np.linalg.norm(with_person(X, y) - with_person(other, labels))
                worst = max(worst, float(moved))
    assert 0.99 * mechanism.sums.sensitivity <= worst <= mechanism.sums.sensitivity


def test_a_class_that_a_person_lacks_gets_the_public_contrasts():
    mechanism = mechanism_of(prior_of(), n=1, of_people=True)
    view, z = mechanism.view, np.arange(2.0 * DIM).reshape(2, DIM)
    (found,) = view.contrasts_of(z, np.array([0, 2]), Sums.Membership([1, 1], 2))
    np.testing.assert_allclose(found[1, : view.directions], view.known[1])
    np.testing.assert_allclose(found[0] - found[2], z[0] - z[1])
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-12)
    (none,) = view.contrasts_of(z[:1], np.array([-1]), Sums.Membership([1], 1))
    np.testing.assert_allclose(none[:, : view.directions], view.known)


# ---------------------------------------------------------------- post-processing
def test_public_contrasts_are_kept_as_long_as_noisy_ones_agree():
    view = mechanism_of(prior_of(), n=90, sizes=[30] * 3).view
    public = np.zeros((3, DIM))
    public[:, : view.directions] = view.known
    near = view.improved(public + 0.01, 1e4)
    np.testing.assert_allclose(near * view.weights, public, atol=0.02)
    far = 100.0 * np.roll(public, 1, axis=0)
    np.testing.assert_allclose(view.improved(far, 1.0) * view.weights, far, rtol=0.02, atol=0.1)


def test_noise_that_passes_what_chance_explains_is_not_believed_at_once():
    """There the share of noisy contrasts jumped from a tenth to most of them."""
    view = dataclasses.replace(mechanism_of(prior_of(), n=90, sizes=[30] * 3).view, deviation=0.1)
    public = np.zeros((3, DIM))
    public[:, : view.directions] = view.known
    away = np.zeros((3, DIM))
    away[0, 0], away[1, 0] = 1.0, -1.0
    lengths = np.linspace(0.0, 20.0, 400)
    moved = [(view.improved(public + x * away, 4.0) * view.weights - public)[0, 0] for x in lengths]
    assert np.all(np.diff(moved) >= 0.0)
    assert np.max(np.diff(moved)) < 10.0 * lengths[1]
    assert moved[-1] > 0.8 * lengths[-1]


def test_what_is_refused():
    prior = prior_of()
    with pytest.raises(InvalidArgument, match="classes"):
        mechanism_of(prior, 2, n=10)
    with pytest.raises(InvalidArgument, match="delta > 0"):
        Sums.PriorClassifier(prior, 3, n=10, budget=Budget(1.0))
    with pytest.raises(InvalidArgument, match="sizes"):
        mechanism_of(prior, n=10, sizes=[2, 3, 5], of_people=True)
    other_task = Sums.PriorClassifier(prior, ["a", "b"], n=10, budget=BUDGET)
    assert other_task.view.directions == 0


def test_people_whose_classes_do_not_differ_are_no_clip():
    """The clip of people was 0, and a fit ended in a division by it."""
    X = np.random.default_rng(5).normal(size=(60, DIM))
    alike = PublicPrior(FLAT, np.concatenate([X, X]), np.repeat([0, 1], 60))
    with pytest.raises(InvalidArgument, match="do not differ"):
        mechanism_of(alike, 2, n=10, of_people=True)
    assert mechanism_of(alike, 2, n=10).radius > 0.0
