"""`PublicPrior`: everything in it comes from the public records, and what cannot be used is refused
when it is made.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf

import riemdp
from riemdp import InvalidArgument, PublicPrior

PLANE = riemdp.Euclidean(6)
SPD = riemdp.SPDAffineInvariant(3)


def vectors(n=200, seed=0, spread=(4.0, 2.0, 1.0, 1.0, 0.5, 0.1)):
    return np.random.default_rng(seed).normal(size=(n, 6)) * np.array(spread)


def labelled(seed=0, people=6, each=40):
    """Three classes that lie apart in two directions, and move with the person by 0.3."""
    rng = np.random.default_rng(seed)
    y, person = np.tile(np.arange(3), people * each), np.repeat(np.arange(people), 3 * each)
    means = np.zeros((people, 3, 6))
    means[:, :, :2] = 3.0 * np.eye(3)[:, :2] + 0.3 * rng.normal(size=(people, 3, 2))
    return means[person, y] + rng.normal(size=(len(y), 6)), y, person


def test_centre_and_shape_are_those_of_the_public_records():
    X = vectors()
    prior = PublicPrior(PLANE, X)
    np.testing.assert_allclose(prior.center, X.mean(axis=0), atol=1e-9)
    wanted = LedoitWolf().fit(X).covariance_ * len(X) / (len(X) - 1)
    np.testing.assert_allclose(prior.basis @ (prior.spread[:, None] * prior.basis.T), wanted)
    shape = prior.shape_of(1.0)
    z, valid = shape.seen(X)
    assert valid.all()
    np.testing.assert_allclose(shape.coordinates(z[0]), X[0] - prior.center, atol=1e-12)


def test_the_shape_is_about_the_means_of_people_and_classes():
    X, y, person = labelled()
    prior = PublicPrior(PLANE, X, y, person)
    cells = person * 3 + y
    rows = X - np.stack([X[cells == cell].mean(axis=0) for cell in range(18)])[cells]
    wanted = LedoitWolf(assume_centered=True).fit(rows).covariance_ * len(X) / (len(X) - 18)
    np.testing.assert_allclose(prior.basis @ (prior.spread[:, None] * prior.basis.T), wanted)
    within = prior.spread
    assert within.max() < 1.3 < PublicPrior(PLANE, X).spread.max()


def test_no_direction_is_narrower_than_a_millionth():
    X = vectors(spread=(1.0, 1.0, 1.0, 1.0, 1.0, 1e-9))
    spread = PublicPrior(PLANE, np.tile(X, (100, 1))).spread
    assert spread.max() / spread.min() <= 1e6 * (1 + 1e-9)


def test_what_people_are_worth_is_measured_with_the_others():
    X, y, person = labelled(people=40)
    prior = PublicPrior(PLANE, X, y, person)
    contrasts = prior.contrasts
    assert contrasts.people == 40
    assert contrasts.means.shape == (3, 6)
    assert contrasts.directions.shape == (6, 2)
    np.testing.assert_allclose(contrasts.means.sum(axis=0), 0.0, atol=1e-12)
    # centring takes a third of the three means' 0.3^2 away, and spreads it over two coordinates
    assert contrasts.deviation == pytest.approx(0.3**2, rel=0.3)
    distances = [np.linalg.norm(X[person == j].mean(0) - X[person != j].mean(0)) for j in range(40)]
    assert prior.error == pytest.approx(np.sqrt(np.mean(np.square(distances))))


def test_one_person_says_nothing_of_another():
    X, y, _ = labelled(people=1)
    prior = PublicPrior(PLANE, X, y)
    assert prior.error is None
    assert prior.contrasts.deviation is None


def test_it_is_copied_and_pickled_and_cannot_be_changed():
    X, y, person = labelled()
    prior = PublicPrior(PLANE, X, y.astype(str), person)
    X[:] = np.nan
    assert np.isfinite(prior.X).all()
    assert copy.deepcopy(prior) is prior
    again = pickle.loads(pickle.dumps(prior))
    np.testing.assert_array_equal(again.spread, prior.spread)
    assert list(again.classes) == ["0", "1", "2"]
    for array in (prior.X, prior.y, prior.classes, prior.basis, prior.spread, prior.logs):
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        prior.X = X


def test_its_name_needs_no_computation():
    prior = PublicPrior(PLANE, vectors(), people=np.arange(200) % 4)
    assert repr(prior) == f"PublicPrior({PLANE!r}, 200 public records of 4 people)"
    assert "center" not in vars(prior)


BROKEN = np.full((200, 6), np.nan)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((PLANE, vectors(20)), "more public records"),
        ((PLANE, vectors(), None, np.arange(200)), "leave out `people`"),
        ((PLANE, BROKEN), "200 of 200"),
        ((PLANE, vectors(), np.zeros(200)), "two classes"),
        ((PLANE, vectors(), np.arange(3)), "200 labels"),
        ((PLANE, vectors(), None, np.arange(3)), "people"),
        ((PLANE, np.zeros((200, 5))), "argument"),
        ((riemdp.Euclidean, vectors()), "some size"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_remedy(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        PublicPrior(*arguments)


def test_equal_records_have_no_shape():
    prior = PublicPrior(SPD, np.tile(np.eye(3), (40, 1, 1)))
    with pytest.raises(InvalidArgument, match="do not differ"):
        _ = prior.spread


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**400])
def test_a_shape_is_found_in_any_unit(unit):
    """The square of a variance overflowed, or was 0 and the shape a sphere."""
    X = vectors() * np.arange(1, 7)
    one, other = PublicPrior(PLANE, X), PublicPrior(PLANE, unit * X)
    np.testing.assert_allclose(other.spread / unit**2, one.spread, rtol=1e-9)
    with pytest.raises(InvalidArgument, match="square"):
        _ = PublicPrior(PLANE, 1e200 * X).spread
