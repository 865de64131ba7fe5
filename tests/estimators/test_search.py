"""What a hyper-parameter search costs: never less than what its fits charge."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import BaggingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import FeatureUnion, Pipeline

import riemdp
from riemdp import Ball, Budget, BudgetExceeded, InvalidArgument, Ledger, approximate, pure
from riemdp.estimators import (
    PrivateFrechetMean,
    PrivateMDM,
    PrivatePCA,
    PrivatePGA,
    PrivateTangentSpace,
    PrivateTLCenter,
    PrivateTSClassifier,
    check_search,
)
from riemdp.privacy import charge, gaussian, gaussian_noise_multiplier

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


# ------------------------------------------------------------------------------------------------
# what is known of a fit
POINTS = np.random.default_rng(1).normal(0.0, 0.1, (240, 2))
_A = np.random.default_rng(2).normal(size=(240, 2, 12))
MATRICES = _A @ _A.transpose(0, 2, 1) / 12
LABELS = np.arange(240) % 2
PLANE, SPD = riemdp.Euclidean(2), riemdp.SPDAffineInvariant(2)
DISK, BALL = Ball(np.zeros(2), 1.0), Ball(np.eye(2), 1.0)
SEARCH = riemdp.AdaptiveBall(Ball(np.zeros(2), 4.0))
GAUSSIAN, PURE = Budget(6.0, 1e-5), Budget(6.0)


def mean(**options) -> PrivateFrechetMean:
    return PrivateFrechetMean(manifold=PLANE, **{"ball": DISK, **options})


KNOWN = {
    "found mean": (mean(ball=SEARCH), POINTS),
    "tangent mean": (mean(mechanism="tangent-mean"), POINTS),
    "wrapped gaussian": (mean(mechanism="wrapped-gaussian", count_outside=True), POINTS),
    "wrapped laplace": (mean(mechanism="wrapped-laplace", count_outside=True), POINTS),
    "riemannian laplace": (mean(mechanism="riemannian-laplace"), POINTS),
    "k-norm": (mean(mechanism="k-norm-gradient"), POINTS),
    "extrinsic gaussian": (mean(mechanism="extrinsic-gaussian"), POINTS),
    "extrinsic laplace": (mean(mechanism="extrinsic-laplace"), POINTS),
    "one record more": (
        mean(mechanism="wrapped-gaussian", adjacency="add-or-remove-one", n_min=100),
        POINTS,
    ),
    "tangent space": (PrivateTangentSpace(ball=BALL), MATRICES),
    "found tangent space": (PrivateTangentSpace(), MATRICES),
    "centre": (PrivateTLCenter(ball=BALL), MATRICES),
    "geodesics": (PrivatePGA(1, manifold=PLANE, ball=DISK), POINTS),
    "components": (PrivatePCA(1, row_norm=1.0), POINTS),
    "components of a norm": (PrivatePCA(1, row_norm="private"), POINTS),
    "components by steps": (PrivatePCA(1, row_norm=1.0, mechanism="dp-rgd"), POINTS),
    "classifier": (PrivateTSClassifier(ball=BALL), MATRICES),
    "found classifier": (PrivateTSClassifier(), MATRICES),
    "found class means": (PrivateMDM(), MATRICES),
    "class means": (PrivateMDM(ball=BALL, mechanism="wrapped-gaussian"), MATRICES),
    "pure class means": (PrivateMDM(ball=BALL, mechanism="wrapped-laplace"), MATRICES),
    "private labels": (
        PrivateMDM(
            ball=BALL,
            mechanism="wrapped-gaussian",
            labels="private",
            classes=[0, 1],
            min_class_size=60,
        ),
        MATRICES,
    ),
}
NEED_DELTA = (
    "wrapped gaussian",
    "extrinsic gaussian",
    "one record more",
    "components by steps",
    "class means",
    "private labels",
)


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_charges_no_more_than_is_known_of_it(name, budget):
    """Also at the delta of its own budget, where an (epsilon, delta) release is worth nothing in a
    composition.
    """
    if budget.delta == 0.0 and name in NEED_DELTA:
        return
    estimator, X = KNOWN[name]
    estimator = clone(estimator).set_params(budget=budget)
    cost = check_search(GridSearchCV(estimator, {}, cv=2, refit=False), X, LABELS)
    with Ledger(Budget(100.0, 0.5)) as ledger:
        for part in (slice(0, 240, 2), slice(1, 240, 2)):
            estimator.fit(X[part], LABELS[:120])
    assert cost.adjacency == ledger.spent.adjacency
    for epsilon in (0.1, 1.0, 5.0, 11.9):
        seen = ledger.spent.delta(epsilon)
        assert seen * (1 - 1e-9) <= cost.delta(epsilon) <= seen * (1 + 1e-6)
    assert cost.epsilon(budget.delta) <= 2 * budget.epsilon


@pytest.mark.parametrize("kind", ["components", "wrapped gaussian", "wrapped laplace"])
@pytest.mark.filterwarnings("ignore")
def test_a_search_that_fits_is_granted_and_one_that_does_not_is_refused(kind):
    """Before: refused at the delta of its own budget, whatever the epsilon of the ledger."""
    estimator, X = KNOWN[kind]
    estimator = clone(estimator).set_params(budget=Budget(1.0, 1e-6))
    search = GridSearchCV(
        estimator, {"random_state": [1, 2]}, cv=3, scoring=lambda *_: 0.0, error_score="raise"
    )
    cost = check_search(search, X)
    need = cost.epsilon(1e-6)
    assert 1.0 < need <= 7.0
    with Ledger(Budget(need * (1 + 1e-6), 1e-6)) as enough:
        assert check_search(search, X) == cost
        assert enough.charges == 0
        search.fit(X)
        assert enough.charges == 7
    with Ledger(Budget(need * (1 - 1e-6), 1e-6)) as little:
        with pytest.raises(BudgetExceeded, match="2 x 3 fits and one more"):
            check_search(search, X)
        assert little.charges == 0
        with pytest.raises(BudgetExceeded):
            search.fit(X)
        assert little.charges == 6


@pytest.mark.parametrize("delta", [1e-6, 7.1e-6, 2e-5, 1e-4])
@pytest.mark.parametrize("epsilon", [4.0, 6.9, 7.1, 10.0])
def test_what_is_said_is_what_a_ledger_does(epsilon, delta):
    """Before: granted as one release of seven parts, and refused after the first, or the fifth."""
    search = GridSearchCV(
        Spender(Budget(1.0, 1e-6)), {"shift": [0.0, 1.0]}, cv=3, error_score="raise"
    )
    ledger = Ledger(Budget(epsilon, delta))
    if epsilon > 7.0 and delta == 1e-4:
        check_search(search, X, Y, ledger=ledger)
        with ledger:
            search.fit(X, Y)
        assert ledger.charges == 7
        return
    with pytest.raises(BudgetExceeded, match="give a ledger whose delta is that of all fits"):
        check_search(search, X, Y, ledger=ledger)
    assert ledger.charges == 0
    with ledger, pytest.raises(BudgetExceeded):
        search.fit(X, Y)


def test_what_was_spent_before_counts():
    search = GridSearchCV(
        clone(KNOWN["components"][0]).set_params(budget=Budget(1.0, 1e-6)), {}, cv=2
    )
    need = check_search(search, POINTS).epsilon(1e-6)
    ledger = Ledger(Budget(need * 1.01, 1e-6))
    check_search(search, POINTS, ledger=ledger)
    ledger.spend(gaussian(4.0))
    with pytest.raises(BudgetExceeded):
        check_search(search, POINTS, ledger=ledger)
    assert ledger.charges == 1


def test_a_subclass_with_a_fit_of_its_own_is_not_known():
    class Own(PrivatePCA):
        def fit(self, X, y=None, groups=None):
            charge(pure(1.0))  # and more than its budget is for
            return super().fit(X, y)

    class Scored(PrivatePCA):
        def score(self, X, y=None):
            return 0.0

    grid = {"cv": 2, "refit": False}
    own = Own(1, budget=GAUSSIAN, row_norm=1.0)
    assert check_search(GridSearchCV(own, {}, scoring="r2", **grid), POINTS) == approximate(
        6.0, 1e-5
    ).repeat(2)
    same = Scored(1, budget=GAUSSIAN, row_norm=1.0)
    known = gaussian(gaussian_noise_multiplier(GAUSSIAN)).repeat(2)
    assert check_search(GridSearchCV(same, {}, **grid), POINTS) == known


@pytest.mark.parametrize("n_min", [None, 5])
def test_what_auto_chooses_is_known_where_the_number_of_records_is(n_min):
    adjacency = "replace-one" if n_min is None else "add-or-remove-one"
    auto = mean(budget=Budget(1.0, 1e-6), adjacency=adjacency, n_min=n_min)
    search = GridSearchCV(auto, {}, cv=2)
    cost = check_search(search, POINTS)
    assert cost.adjacency == adjacency
    assert cost.epsilon(1e-6) <= 3.0
    with Ledger(Budget(3.0, 1e-6)) as ledger:
        check_search(search, POINTS)
        search.fit(POINTS)
        assert ledger.charges == 3
    # the splits depend on the labels
    by_label = GridSearchCV(auto, {}, cv=StratifiedKFold(2))
    if n_min is None:
        assert check_search(by_label, POINTS, LABELS).epsilon(1e-6) == np.inf
        with pytest.raises(BudgetExceeded, match="mechanism='wrapped-gaussian'"):
            check_search(by_label, POINTS, LABELS, ledger=Ledger(Budget(9.0, 1e-6)))
    else:
        assert check_search(by_label, POINTS, LABELS) == cost


def test_a_cost_that_is_not_known_has_the_neighbours_of_the_fits():
    """Before: stated for replace-one, whatever the fits are for."""
    auto = mean(budget=Budget(1.0, 1e-6), adjacency="add-or-remove-one", n_min=50)
    grid = {"mechanism": ["dp-rsgd", "wrapped-gaussian"]}
    for splits in (2, StratifiedKFold(2)):
        cost = check_search(GridSearchCV(auto, grid, cv=splits), POINTS, LABELS)
        assert cost.adjacency == "add-or-remove-one"


def test_a_refusal_does_not_depend_on_the_records():
    for name in ("components", "found mean", "wrapped gaussian"):
        estimator, X = KNOWN[name]
        estimator = clone(estimator).set_params(budget=Budget(1.0, 1e-6))
        search = GridSearchCV(estimator, {}, cv=3)
        costs = [check_search(search, Z) for Z in (X, np.full_like(X, np.nan), 1e9 * X)]
        assert costs[0] == costs[1] == costs[2]


def test_a_splitter_is_left_as_it_was():
    splits = ShuffleSplit(3, random_state=np.random.RandomState(0))
    check_search(
        GridSearchCV(clone(KNOWN["components"][0]).set_params(budget=PURE), {}, cv=splits), POINTS
    )
    first = next(iter(splits.split(POINTS)))[0]
    again = ShuffleSplit(3, random_state=np.random.RandomState(0))
    assert np.array_equal(first, next(iter(again.split(POINTS)))[0])
