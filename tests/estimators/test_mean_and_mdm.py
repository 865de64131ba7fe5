"""PrivateFrechetMean and PrivateMDM: guarantees, parallel composition, private labels, scikit-learn
manners, bad input.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import riemdp
from riemdp import (
    Ball,
    Budget,
    InvalidArgument,
    Ledger,
    PrivateFrechetMean,
    PrivateMDM,
)
from tests.seam import Accounts, Searches, plant

BALL = Ball(np.eye(2), 1.5)
BUDGET = Budget(1.0, 1e-5)
SPACE = riemdp.SPDLogEuclidean(2)


def matrices(n: int, tilt: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, 2, 2)) * 0.15
    s = a + a.transpose(0, 2, 1) + tilt * np.diag([1.0, -1.0])
    w, v = np.linalg.eigh(s)
    return np.einsum("nij,nj,nkj->nik", v, np.exp(w), v)


X = np.concatenate([matrices(120, 0.6, 0), matrices(80, -0.6, 1)])
Y = np.array(["left"] * 120 + ["right"] * 80)


def mdm(**options):
    return PrivateMDM(
        **{
            "metric": "logeuclid",
            "budget": BUDGET,
            "ball": BALL,
            **options,
        }
    )


def private_labels(**options):
    known = {"labels": "private", "classes": ["left", "right"]}
    return mdm(**{**known, **options})


# ----------------------------------------------------------------------------------------------
# the mean
def test_a_mean_needs_no_ball():
    """None is an AdaptiveBall(): one budget for search and mean, and the ball that was used."""
    parameters = {"manifold": SPACE, "budget": BUDGET, "random_state": 3}
    fitted = PrivateFrechetMean(**parameters).fit(X)
    same = riemdp.private_frechet_mean(SPACE, X, budget=BUDGET, rng=3)
    assert np.array_equal(fitted.mean_, same.value)
    named = clone(PrivateFrechetMean(**parameters, ball=riemdp.AdaptiveBall())).fit(X)
    assert np.array_equal(named.mean_, same.value)
    assert fitted.ball_ is fitted.release_.details["ball"]
    balls = [PrivateFrechetMean(**{**parameters, "random_state": s}).fit(X).ball_ for s in range(5)]
    assert np.median([np.mean(np.asarray(b.contains(SPACE, X))) for b in balls]) > 0.5
    assert fitted.guarantee_.epsilon(1e-5) <= 1.0
    assert fitted.transform(X).shape == (200, 3)
    given = PrivateFrechetMean(**parameters, ball=BALL).fit(X)
    assert given.ball_ is BALL


def test_mean_is_that_of_the_library():
    parameters = {
        "manifold": SPACE,
        "budget": BUDGET,
        "ball": BALL,
        "mechanism": "wrapped-gaussian",
    }
    fitted = PrivateFrechetMean(**parameters, random_state=3).fit(X)
    same = riemdp.private_frechet_mean(SPACE, X, BALL, BUDGET, mechanism="wrapped-gaussian", rng=3)
    assert np.array_equal(fitted.mean_, same.value)
    assert fitted.reproducible_
    assert fitted.n_samples_ == 200
    # With more noise, shrinking gives the centre itself one time in seventy.
    parameters["budget"] = Budget(20.0, 1e-5)
    again = [PrivateFrechetMean(**parameters).fit(X) for _ in range(2)]
    assert not np.array_equal(again[0].mean_, again[1].mean_)
    assert again[0].transform(X).shape == (200, 3)
    assert np.allclose(
        np.sum(fitted.transform(X) ** 2, axis=1), np.asarray(SPACE.squared_dist(fitted.mean_, X))
    )
    assert fitted.score(X) < 0


# ----------------------------------------------------------------------------------------------
# class means
@pytest.mark.parametrize("make", [mdm, private_labels])
def test_private_labels_cost_the_noise_of_public_ones(make):
    """Public: sums of which one changes by at most 2. Private: one vector of sums and sizes, which
    a replaced pair changes by at most 2. Either costs the budget once.
    """
    with Ledger(Budget(1.0001, 1e-5)) as ledger:
        fitted = make(random_state=1, count_outside=False).fit(X, Y)
    release = fitted.release_
    assert ledger.charges == 1
    assert fitted.guarantee_ == ledger.spent == release.guarantee
    assert 0.99 <= fitted.guarantee_.epsilon(1e-5) <= 1 + 1e-9
    assert list(fitted.classes_) == ["left", "right"]
    assert release.sensitivity == pytest.approx(2 * 1.5, rel=1e-6)
    z = riemdp.gaussian_noise_multiplier(BUDGET)
    assert release.scale == pytest.approx(z * release.sensitivity, rel=1e-6)
    assert fitted.score(X, Y) > 0.9


def exact_class_means(X, y):
    """The means before noise, by another way: matrix logarithms, shortened and averaged."""
    out = []
    for c in ("left", "right"):
        logs = []
        for x in X[y == c]:
            w, v = np.linalg.eigh(x)
            log = v @ np.diag(np.log(w)) @ v.T
            size = np.linalg.norm(log)
            logs.append(log * min(1.0, 1.5 / size) if size else log)
        out.append(np.mean(logs, axis=0))
    return np.array(out)


@pytest.mark.parametrize("make", [mdm, private_labels])
def test_means_before_noise_are_those_of_the_classes(make):
    few = np.r_[0:70, 120:150]  # 30 on the right
    fitted = make(budget=Budget(1e7, 1e-5)).fit(X[few], Y[few])
    logs = []
    for value in fitted.covmeans_:
        w, v = np.linalg.eigh(value)
        logs.append(v @ np.diag(np.log(w)) @ v.T)
    assert np.allclose(logs, exact_class_means(X[few], Y[few]), atol=1e-2)
    assert not np.allclose(logs, exact_class_means(X[few], Y[few][::-1]), atol=1e-2)


def test_half_the_noise_of_a_budget_is_what_two_releases_fit_into():
    for budget in (Budget(0.1, 1e-6), Budget(1.0, 1e-5), Budget(8.0, 1e-3), Budget(2.0)):
        for pure in (False, True) if budget.delta else (True,):
            whole = Searches.SomeNoise.of(budget, pure=pure)
            half = whole.share(0.5)
            assert Accounts.adds_up([half.guarantee, half.guarantee], whole.guarantee)
            assert not Accounts.adds_up(
                [half.guarantee, whole.share(0.51).guarantee], whole.guarantee
            )
            assert whole.guarantee.within(budget)
            delta = 0.0 if pure else budget.delta
            both = half.guarantee.compose(half.guarantee).epsilon(delta)
            assert both == pytest.approx(whole.guarantee.epsilon(delta), rel=1e-9)


def test_a_label_outside_the_classes_and_an_empty_class():
    y = Y.copy()
    y[:5] = "elsewhere"
    fitted = private_labels().fit(X, y)
    assert list(fitted.classes_) == ["left", "right"]
    alone = private_labels(classes=["left", "right", "up"]).fit(X, Y)
    assert len(alone.covmeans_) == 3
    assert alone.guarantee_ == fitted.guarantee_  # a third class costs nothing


def test_pure_budget():
    fitted = private_labels(budget=Budget(2.0)).fit(X, Y)
    assert fitted.guarantee_.epsilon(0.0) == pytest.approx(2.0)
    assert mdm(budget=Budget(2.0)).fit(X, Y).guarantee_.epsilon(0.0) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", ["public", "private"])
def test_a_count_outside_costs_nothing_more(kind):
    """40 matrices are far off: they are counted in the same charge."""
    far = X.copy()
    far[:40] = np.diag([1e9, 1e-9])
    make = mdm if kind == "public" else private_labels
    with Ledger(BUDGET) as ledger:
        fitted = make(random_state=4).fit(far, Y)
    without = make(random_state=4, count_outside=False).fit(far, Y)
    outside = fitted.outside_
    assert without.outside_ is None
    assert abs(outside.count - 40) < 7 * outside.deviation
    assert outside.n == 200
    assert fitted.guarantee_.within(BUDGET)
    assert fitted.guarantee_.epsilon(1e-5) == pytest.approx(
        without.guarantee_.epsilon(1e-5), rel=1e-6
    )
    assert ledger.charges == 1
    assert ledger.spent == fitted.guarantee_
    larger = fitted.release_.scale / without.release_.scale
    assert larger == pytest.approx(1 / np.sqrt(1 - outside.share), rel=1e-6)
    with pytest.raises(InvalidArgument, match="count_outside"):
        make(ball=None, count_outside=True).fit(X, Y)


# ----------------------------------------------------------------------------------------------
# scikit-learn manners
@pytest.mark.parametrize(
    "estimator",
    [mdm(), PrivateFrechetMean(manifold=SPACE, budget=BUDGET, ball=BALL)],
    ids=["mdm", "mean"],
)
def test_manners(estimator):
    before = copy.deepcopy(estimator.get_params())
    fitted = clone(estimator).fit(X, Y)
    assert set(vars(clone(estimator))) == set(before)  # nothing is set or changed in __init__
    stored = pickle.dumps(fitted)
    back = pickle.loads(stored)
    assert np.array_equal(back.transform(X), fitted.transform(X))
    assert np.ascontiguousarray(X[0]).tobytes() not in stored
    assert b"ChaCha" not in stored
    assert type(estimator).__name__ in repr(estimator)
    with pytest.raises(Exception, match="not fitted"):
        clone(estimator).transform(X)


# ----------------------------------------------------------------------------------------------
# bad input


def test_check_records_says_which_and_why():
    skew, huge = [[1.0, 2.0], [3.0, 4.0]], [[1, 0], [0, 10**400]]
    records = [np.eye(2), np.eye(3), "secret", None, skew, huge]
    found = riemdp.check_records(SPACE, records)
    assert [r.index for r in found] == [1, 2, 3, 4, 5]
    assert found[0].reason == "has shape (3, 3) where (2, 2) is needed"
    assert found[3].reason == "is not symmetric (entries [0, 1] and [1, 0] differ)"
    assert "secret" not in repr(found)
    assert riemdp.check_records(SPACE, X) == []
    pair = riemdp.Product(SPACE, riemdp.Sphere(3))
    directions = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert [r.index for r in riemdp.check_records(pair, (X[:3], directions))] == [1]


# ----------------------------------------------------------------------------------------------
# what was spent
def test_fits_add_up_and_the_first_one_without_a_ledger_says_so(monkeypatch):
    plant(monkeypatch, "fits without a ledger", 0)
    estimator = mdm(random_state=1)  # the noisy count of matrices outside may warn, too
    assert not hasattr(estimator, "total_spent_")
    with pytest.warns(riemdp.RiemdpWarning, match=r"PrivateMDM.fit spent epsilon 1 .*5 times"):
        estimator.fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", riemdp.RiemdpWarning)
        estimator.fit(X, Y)
    assert estimator.total_spent_ == estimator.guarantee_.repeat(2)
    plant(monkeypatch, "fits without a ledger", 0)
    with warnings.catch_warnings(), Ledger(Budget(5.0, 1e-3)) as ledger:
        warnings.simplefilter("error", riemdp.RiemdpWarning)
        mdm(random_state=1).fit(X, Y)
    assert ledger.charges == 1
    assert not hasattr(clone(estimator), "total_spent_")
