"""What a hyper-parameter search costs: never less than what its fits charge."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline

from riemdp import Budget, InvalidArgument, Ledger, approximate, pure
from riemdp.estimators import PrivatePCA, check_search
from riemdp.privacy import charge

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2
LOW, HIGH = Budget(0.25), Budget(2.0, 1e-3)


class Spender(BaseEstimator):
    """An estimator that does nothing but spend its budget."""

    def __init__(self, budget=LOW, shift=0.0):
        self.budget, self.shift = budget, shift

    def fit(self, X, y=None):
        self.fitted_ = True
        charge(approximate(self.budget.epsilon, self.budget.delta))
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y=None):
        return self.budget.epsilon + self.shift


def charged(search) -> Ledger:
    with Ledger(Budget(1e6, 0.999)) as ledger:
        search.fit(X, Y)
    return ledger


def covers(search) -> None:
    """The stated cost is at least what a ledger saw, as pairs that add up."""
    stated = check_search(search, X, Y)
    seen = charged(search).spent
    assert stated.delta(np.inf) >= seen.delta(np.inf) * (1 - 1e-12)
    for delta in (0.1, 0.3):
        assert stated.epsilon(delta) >= seen.epsilon(delta) * (1 - 1e-9)


def test_a_list_of_grids_of_a_random_search_is_looked_through() -> None:
    """0.047 was stated, 12.96 charged."""
    search = RandomizedSearchCV(Spender(), [{"shift": [1.0]}, {"budget": [HIGH]}], n_iter=2, cv=2)
    with pytest.raises(InvalidArgument, match="random search over budgets"):
        check_search(search, X, Y)
    covers(RandomizedSearchCV(Spender(), [{"shift": [1.0]}, {"shift": [2.0]}], n_iter=2, cv=2))


def test_a_grid_may_replace_a_step_of_a_pipeline() -> None:
    """The budget of the estimator that was replaced was counted."""
    pipe = Pipeline([("first", Spender(LOW)), ("last", Spender(LOW))])
    covers(GridSearchCV(pipe, {"first": [Spender(HIGH), "passthrough"]}, cv=2))
    covers(GridSearchCV(pipe, {"first": [Spender(HIGH)], "first__budget": [Budget(3.0)]}, cv=2))
    covers(
        GridSearchCV(
            Pipeline(
                [
                    ("both", FeatureUnion([("a", Spender(HIGH)), ("b", Spender(LOW))])),
                    ("last", Spender()),
                ]
            ),
            {},
            cv=2,
        )
    )
    random = RandomizedSearchCV(pipe, {"first": [Spender(HIGH)]}, n_iter=1, cv=2)
    with pytest.raises(InvalidArgument, match="replaces the estimator"):
        check_search(random, X, Y)


def test_searches_that_fit_more_often_are_refused() -> None:
    """A halving search was counted as one round: 10.5 stated, 16.4 charged."""

    class Subclass(GridSearchCV):
        pass

    halving = HalvingGridSearchCV(Spender(), {"shift": [0.0, 1.0, 2.0]}, cv=2, min_resources=4)
    for search in (halving, Subclass(Spender(), {}), Spender()):
        with pytest.raises(InvalidArgument, match="search"):
            check_search(search, X, Y)


def test_a_wrapper_that_fits_several_times_is_refused() -> None:
    bagging = BaggingClassifier(Spender(), n_estimators=7)
    with pytest.raises(InvalidArgument, match="how often"):
        check_search(GridSearchCV(bagging, {}, cv=2), X, Y)
    inner = GridSearchCV(Spender(), {"shift": [0.0, 1.0]}, cv=2)
    with pytest.raises(InvalidArgument, match="how often"):
        check_search(GridSearchCV(inner, {}, cv=2), X, Y)


def test_the_refit_counts_with_the_largest_epsilon_and_the_largest_delta() -> None:
    """The candidate of largest epsilon was counted; the records may choose the one of largest
    delta.
    """
    grid = {"budget": [Budget(1.0, 1e-2), Budget(1.01, 1e-9)]}
    stated = check_search(GridSearchCV(Spender(), grid, cv=2), X, Y)
    worst = 1 - (1 - 1e-2) ** 3 * (1 - 1e-9) ** 2
    assert stated.delta(np.inf) >= worst * (1 - 1e-12)
    assert stated.delta(np.inf) == pytest.approx(worst, rel=1e-6)
    pure_search = GridSearchCV(Spender(), {"budget": [Budget(0.5), Budget(0.25)]}, cv=2)
    assert check_search(pure_search, X, Y) == pure(0.5).repeat(3).compose(pure(0.25).repeat(2))


def test_the_search_itself_is_left_alone() -> None:
    step = PrivatePCA(n_components=1, budget=HIGH, row_norm=1.0)
    pipe = Pipeline([("pca", step)])
    search = GridSearchCV(pipe, {"pca__budget": [LOW, HIGH]}, cv=2)
    check_search(search, X)
    assert step.budget is HIGH
    assert search.estimator is pipe
