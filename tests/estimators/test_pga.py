"""PrivatePGA: values, guarantees, people, scikit-learn, bad input."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import riemdp
from riemdp import (
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    PrivatePGA,
)
from riemdp.privacy import gaussian_noise_multiplier
from tests.seam import original, plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET, SPACE = Budget(2.0, 1e-5), riemdp.SPDAffineInvariant(2)
BALL = Ball(np.eye(2), 2.0)
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def records(space=SPACE, n=240, scales=(0.6, 0.2, 0.1), seed=0):
    """Records that scatter along the axes of a frame at a point near the origin."""
    rng = np.random.default_rng(seed)
    o = space.origin
    start = space.exp(o, space.from_coordinates(o, np.full(space.dim, 0.1)))
    v = rng.normal(size=(n, space.dim)) * np.asarray(scales)[: space.dim]
    return np.asarray(space.exp(start, space.from_coordinates(start, v)))


X = records()


def pga(**options):
    options = {"manifold": SPACE, "budget": BUDGET, "ball": BALL, "random_state": 2} | options
    return PrivatePGA(**options)


def oracle(space, mean, x, radius):
    """Eigenvalues and eigenvectors of the second moment of shortened logarithms, by NumPy."""
    v = np.asarray(space.to_coordinates(mean, space.log(mean, x)))
    v = v * np.minimum(1.0, radius / np.linalg.norm(v, axis=1))[:, None]
    values, vectors = np.linalg.eigh(v.T @ v / len(v))
    return values[::-1], vectors[:, ::-1].T


@pytest.mark.parametrize(
    ("space", "ball"),
    [(SPACE, BALL), (SPACE, None), (riemdp.Sphere(3), Ball(riemdp.Sphere(3).origin, 0.7))],
    ids=["public ball", "found ball", "sphere"],
)
def test_without_noise_it_is_the_analysis_itself(space, ball):
    """So little noise that the value is seen: eigenvectors, eigenvalues, coordinates."""
    x = records(space, scales=(0.3, 0.15, 0.05))
    fitted = pga(manifold=space, ball=ball, budget=Budget(1e7, 1e-3)).fit(x)
    values, rows = oracle(space, fitted.mean_, x, fitted.ball_.radius)
    assert np.allclose(fitted.explained_variance_, values, atol=1e-3)
    assert np.allclose(np.abs(np.sum(fitted.components_ * rows, axis=1)), 1.0, atol=1e-2)
    assert np.allclose(fitted.components_ @ fitted.components_.T, np.eye(space.dim), atol=1e-12)
    assert float(space.dist(fitted.mean_, riemdp.frechet_mean(space, x).value)) < 0.05
    ratio = fitted.explained_variance_ratio_
    assert math.isclose(ratio.sum(), 1.0)
    assert ratio[0] > 0.6
    new = fitted.transform(x)
    assert new.shape == (240, space.dim)
    assert np.allclose(fitted.inverse_transform(new), x, atol=1e-6)


def test_points_of_a_principal_geodesic():
    fitted = pga(n_components=1).fit(X)
    line = np.linspace(-1.0, 1.0, 5)[:, None]
    points = np.asarray(fitted.inverse_transform(line))
    assert np.allclose(SPACE.dist(points[:-1], points[1:]), 0.5)  # a geodesic of unit speed
    assert np.allclose(points[2], fitted.mean_)
    assert np.allclose(fitted.transform(points), line)


@pytest.mark.parametrize("budget", [Budget(0.7, 1e-5), Budget(1.3)], ids=["gaussian", "pure"])
def test_synthetic_records_cost_nothing_and_are_those_of_the_released_model(budget):
    with Ledger(Budget(2.0, 1e-5)) as ledger:
        fitted = pga(budget=budget, n_components=1, random_state=0).fit(X)
        before = (ledger.charges, ledger.spent, fitted.total_spent_)
        made = np.asarray(fitted.sample(4000, 7))
        assert before == (ledger.charges, ledger.spent, fitted.total_spent_)
    assert np.array_equal(made, fitted.sample(4000, 7))
    assert not np.array_equal(fitted.sample(3), fitted.sample(3))
    v = np.asarray(SPACE.to_coordinates(fitted.mean_, SPACE.log(fitted.mean_, made)))
    assert np.max(np.linalg.norm(v, axis=1)) <= 2.0 * (1 + 1e-9)  # the radius of the ball
    released = fitted.releases_["covariance"].value
    assert np.linalg.eigvalsh(released)[0] < 0.0 < np.trace(released)
    assert np.trace(v.T @ v) / 4000 == pytest.approx(np.trace(released), rel=0.1)
    assert np.linalg.norm(np.mean(v, axis=0)) < 0.06
    with pytest.raises(InvalidArgument, match="`n`"):
        fitted.sample(0)
    with pytest.raises(InvalidArgument, match="rng"):
        fitted.sample(2, "seed")


def test_synthetic_records_have_the_second_moment_that_was_released():
    fitted = pga(budget=Budget(1e4, 1e-5)).fit(X)
    v = SPACE.log(fitted.mean_, fitted.sample(6000, 3))
    v = np.asarray(SPACE.to_coordinates(fitted.mean_, v))
    released = fitted.releases_["covariance"].value
    assert np.allclose(v.T @ v / len(v), released, atol=0.05 * np.max(released))


def test_mean_and_components_cost_the_budget_once():
    for budget in (BUDGET, Budget(2.0)):
        for ball in (BALL, None):
            with Ledger(budget) as ledger:
                fitted = pga(budget=budget, ball=ball, random_state=None).fit(records(n=900))
                assert ledger.charges == 1
                with pytest.raises(BudgetExceeded):
                    pga(budget=budget, ball=ball).fit(records(n=900))
            delta = budget.delta
            assert ledger.spent.epsilon(delta) == fitted.guarantee_.epsilon(delta) <= 2.0
            assert fitted.guarantee_.epsilon(delta) > 1.99
            parts = [r.guarantee for r in fitted.releases_.values()]
            assert parts[0].compose(parts[1]).epsilon(delta) <= 2.0
            assert fitted.total_spent_.epsilon(delta) == fitted.guarantee_.epsilon(delta)
            assert not fitted.reproducible_
            assert (fitted.noise_floor_ is None) == (delta == 0.0)


def test_the_noise_of_each_part_is_that_of_its_share():
    """The matrix, over releases; noise times 0.8 is noticed."""
    space, n, r = riemdp.Euclidean(4), 50, 1.0  # ten numbers a matrix
    x = np.clip(np.random.default_rng(1).normal(size=(n, 4)), -0.4, 0.4)
    z = gaussian_noise_multiplier(BUDGET)
    noise, symmetric = [], riemdp.SPDAffineInvariant(4)
    for seed in range(45):
        fitted = pga(manifold=space, ball=Ball(np.zeros(4), r), random_state=seed).fit(x)
        v = x - np.asarray(fitted.mean_)
        v = v * np.minimum(1.0, r / np.linalg.norm(v, axis=1))[:, None]
        exact = v.T @ v / n
        added = fitted.releases_["covariance"].value - exact
        noise.append(np.asarray(symmetric.to_coordinates(np.eye(4), added)))
    scale = math.sqrt(2.0) * r**2 / n * z / math.sqrt(0.7)
    assert gaussian_p_value(np.array(noise), scale) > ALPHA
    assert gaussian_p_value(0.8 * np.array(noise), scale) < ALPHA
    mean = fitted.releases_["mean"]
    assert mean.scale == pytest.approx(2.0 * r / n * z / math.sqrt(0.3), rel=1e-5)


def test_the_covariance_is_about_the_released_mean():
    """A mean with much noise and a matrix with little: one may not know the mean of the records."""
    space, n = riemdp.Euclidean(2), 50
    x = np.random.default_rng(1).uniform(-0.2, 0.2, (n, 2))
    options = {"mean_share": 1e-7, "budget": Budget(1e4, 1e-5)}
    fitted = pga(manifold=space, ball=Ball(np.zeros(2), 2.0), **options).fit(x)
    released, mean = np.asarray(fitted.mean_), x.mean(axis=0)
    assert np.linalg.norm(released - mean) > 0.2
    found = np.asarray(fitted.releases_["covariance"].value)
    vectors = [x - m for m in (released, mean)]
    short = [v * np.minimum(1.0, 2.0 / np.linalg.norm(v, axis=1))[:, None] for v in vectors]
    assert np.allclose(found, short[0].T @ short[0] / n, atol=0.01)
    assert not np.allclose(found, short[1].T @ short[1] / n, atol=0.1)  # about a mean without noise


def test_a_part_that_costs_more_than_was_charged_is_noticed(monkeypatch):
    """A planted fault: the covariance is released with the whole budget."""

    honest = original("covariance of a PGA")

    def dear(asked, ball, share):
        return honest(asked, ball, BUDGET)

    plant(monkeypatch, "covariance of a PGA", dear)
    with pytest.raises(riemdp.RiemdpError, match="cost more than was charged"):
        pga().fit(X)


def test_people_instead_of_records():
    """One person with most of the records moves no more than any other."""
    people = np.concatenate([np.zeros(140, int), np.arange(1, 101)])
    for ball in (BALL, None):
        fitted = pga(ball=ball, budget=Budget(20.0, 1e-5)).fit(X, groups=people)
        assert fitted.n_samples_ == 101
        assert fitted.guarantee_.unit == "person"
        assert fitted.release_.details["people"] == 101
        radius = fitted.ball_.radius
        moment = fitted.releases_["covariance"]
        assert moment.sensitivity == pytest.approx(math.sqrt(2.0) * radius**2 / 101, rel=1e-6)
    with pytest.raises(InvalidArgument, match="groups"), Ledger(BUDGET) as ledger:
        pga().fit(X, groups=people[:-1])
    assert ledger.charges == 0


def test_scikit_learn_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(PrivatePGA(budget=BUDGET, manifold=riemdp.SPDLogEuclidean(3)))


def test_equal_records_have_components_too():
    same = np.tile(np.eye(2), (240, 1, 1))
    fitted = pga(budget=Budget(1e-3, 1e-9)).fit(same)  # noise alone
    assert fitted.components_.shape == (3, 3)
    assert np.all(np.isfinite(fitted.explained_variance_ratio_))
    with pytest.raises(InvalidArgument, match="coordinates"):
        fitted.inverse_transform(np.ones((3, 7)))
    stiefel = riemdp.Stiefel(3, 2)
    with pytest.raises(NotImplementedError, match="log"):
        pga(manifold=stiefel, ball=None).fit(np.asarray(stiefel.origin)[None])
    assert np.isfinite(fitted.mean_).all()


def test_a_fit_near_the_edge_of_a_space_does_not_end_after_its_charge():
    """The ball that was found reaches farther than the logarithm at the released mean."""
    X = np.tile(np.diag([0.25, 1.0]), (150, 1, 1))
    space = riemdp.SPDBuresWasserstein(2)
    with riemdp.Ledger(Budget(1e9, 0.1)) as ledger:
        for seed in range(3):
            options = {"on_invalid": "center", "random_state": seed}
            riemdp.PrivatePGA(1, manifold=space, budget=Budget(3.0, 1e-5), **options).fit(X)
    assert ledger.charges == 3
