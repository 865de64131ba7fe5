"""`PrivateTSClassifier` with public records: the public model beside it, people, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, PrivateTSClassifier, PublicPrior
from riemdp.report import privacy_report

SPACE, BUDGET = riemdp.SPDAffineInvariant(2), Budget(2.0, 1e-5)
LARGE = np.array([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0]])


def people_of(seed, people=6, each=8):
    """Matrices of people, each with a mean of their own, in three classes."""
    rng = np.random.default_rng(seed)
    y, whose = np.arange(3 * each * people) % 3, np.repeat(np.arange(people), 3 * each)
    own = np.exp(0.6 * rng.normal(size=(people, 1, 1)))[whose]
    large = LARGE * np.exp(0.3 * rng.normal(size=(people, 3, 2)))  # a person's own classes
    a = rng.normal(size=(len(y), 2, 30)) * np.sqrt(large[whose, y])[:, :, None]
    return own * (a @ a.transpose(0, 2, 1)) / 30, y, whose


def fit(prior, X, y, groups=None, **given):
    given = {"budget": BUDGET, "ball": prior, "random_state": 0} | given
    with riemdp.Ledger(Budget(50.0, 1e-3)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PrivateTSClassifier(**given).fit(X, y, groups=groups)


PRIVATE = {"labels": "private", "classes": [0, 1, 2]}


def test_the_public_model_reads_no_private_record():
    prior = PublicPrior(SPACE, *people_of(0))
    one, other = (fit(prior, *people_of(seed)[:2]) for seed in (1, 2))
    for name in ("public_coef_", "public_intercept_", "public_accuracy_", "plan_", "reference_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert not np.array_equal(one.coef_, other.coef_)
    assert one.release_.details["public_accuracy"] == one.public_accuracy_
    page = privacy_report(one.release_).html()
    assert f"right for {100 * one.public_accuracy_:.0f} % of the records of public people" in page


@pytest.mark.parametrize("recenter", [False, True])
def test_its_accuracy_is_that_on_a_person_who_is_left_out(recenter):
    X, y, whose = people_of(0)
    prior, right = PublicPrior(SPACE, X, y, whose), []
    for person in range(6):
        own = whose == person
        others = PublicPrior(SPACE, X[~own], y[~own], whose[~own])
        model = fit(others, X[own], y[own], recenter=recenter)
        right.append(model.public_predict(X[own]) == y[own])
    model = fit(prior, *people_of(1)[:2], recenter=recenter)
    assert model.public_accuracy_ == pytest.approx(np.mean(right))


def test_its_accuracy_is_planned_on_a_product_too():
    """Records of a product are a tuple of arrays, from which no person was left out."""
    X, y, whose = people_of(0)
    space = riemdp.Product(SPACE, riemdp.Euclidean(1))
    prior = PublicPrior(space, (X, np.zeros((len(y), 1))), y, whose)
    alone, both = (
        riemdp.plan_private_classifier(p.manifold, 100, 3, BUDGET, ball=p)[0].public_accuracy
        for p in (PublicPrior(SPACE, X, y, whose), prior)
    )
    assert both == pytest.approx(alone, abs=0.1)


def test_recentring_takes_away_what_is_a_persons_own():
    prior, (X, y, whose) = PublicPrior(SPACE, *people_of(0)), people_of(5, people=40)
    plain, moved = (
        fit(prior, X, y, whose, **PRIVATE, recenter=each, budget=Budget(8.0, 1e-5))
        for each in (False, True)
    )
    np.testing.assert_array_equal(plain.coef_, moved.coef_)
    accuracy = np.mean(moved.predict(X, whose) == y)
    assert accuracy > np.mean(plain.predict(X) == y)
    scaled = np.exp(whose % 5)[:, None, None] * X  # a common factor is the person's own
    np.testing.assert_array_equal(moved.predict(scaled, whose), moved.predict(X, whose))
    assert moved.guarantee_.unit != plain.guarantee_.for_records().unit


def test_it_is_no_worse_than_the_public_model_where_that_is_right():
    prior, (X, y, _) = PublicPrior(SPACE, *people_of(0)), people_of(3)
    for epsilon in (0.1, 1.0, 10.0):
        model = fit(prior, X, y, budget=Budget(epsilon, 1e-5))
        assert np.mean(model.predict(X) == y) > np.mean(model.public_predict(X) == y) - 0.05


def test_the_plan_says_when_the_public_model_is_enough():
    prior = PublicPrior(SPACE, *people_of(0))
    plans = [riemdp.plan_private_classifier(SPACE, n, 3, BUDGET, ball=prior) for n in (6, 10**6)]
    assert [plan[0].verdict for plan in plans] == ["the public model alone", "enough"]
    assert f"accuracy {plans[0][0].public_accuracy:.2f}" in str(plans[0])
    with riemdp.Ledger(Budget(50.0, 1e-3)), pytest.warns(riemdp.RiemdpWarning, match="public"):
        PrivateTSClassifier(budget=BUDGET, ball=prior).fit(*(a[:6] for a in people_of(1)[:2]))


def test_the_plan_says_that_one_public_person_measures_nothing():
    X, y, whose = people_of(0)
    priors = PublicPrior(SPACE, X, y), PublicPrior(SPACE, X, y, whose)
    one, many = (
        str(riemdp.plan_private_classifier(SPACE, 300, 3, BUDGET, ball=prior)) for prior in priors
    )
    assert "Nothing measures" in one
    assert "Nothing measures" not in many


def test_labels_of_another_task_tell_the_shape_alone():
    X, y, whose = people_of(0)
    model = fit(PublicPrior(SPACE, X, y + 10, whose), *people_of(1)[:2])
    assert model.public_coef_ is None
    assert model.public_accuracy_ is None
    with pytest.raises(InvalidArgument, match="no public model"):
        model.public_predict(X)


def test_what_goes_with_a_prior_alone_and_what_does_not():
    X, y, whose = people_of(0)
    prior = PublicPrior(SPACE, X, y, whose)
    for given, named in (
        ({"recenter": True, "ball": riemdp.Ball(np.eye(2), 1.0)}, "recenter"),
        ({"count_outside": True}, "count_outside"),
        ({"metric": "logeuclid"}, "ball"),
        ({"budget": Budget(1.0)}, "budget"),
    ):
        with pytest.raises(InvalidArgument, match=f"`{named}`"):
            fit(prior, X, y, **given)
    for kind in (riemdp.PrivateMDM, riemdp.PrivateTangentSpace):
        with pytest.raises(InvalidArgument, match="PrivateTSClassifier"):
            kind(budget=BUDGET, ball=prior).fit(X, y)
    with pytest.raises(InvalidArgument, match="`groups`"):
        fit(prior, X, y).predict(X, whose)
