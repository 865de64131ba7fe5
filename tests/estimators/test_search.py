"""A private search for a setting: what it draws, what it shows, and whom it protects."""

from __future__ import annotations

import dataclasses
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone, is_classifier, is_regressor

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger, NoiseSource
from riemdp.privacy import RiemdpError, charge, gaussian, pure
from tests.contract import data as d
from tests.seam import Accounts, Sums
from tests.statistical import ALPHA

BUDGET = Budget(20.0, 1e-6)
X, Y = d.matrices(3, 400), np.arange(400) % 2
WHO = np.arange(400) // 4
BALLS = {"ball": [Ball(np.eye(2), 1.0), Ball(9.0 * np.eye(2), 0.1)]}
TS = riemdp.PrivateTSClassifier(ball=d.BALL)
OF_PEOPLE = riemdp.PrivateTSClassifier(ball=d.BALL, labels="private", classes=[0, 1])

pytestmark = pytest.mark.filterwarnings("ignore:epsilon .* hardly protects:riemdp.RiemdpWarning")


def searched(estimator: Any = None, grid: Any = None, **options: Any) -> riemdp.PrivateSearchCV:
    options = {"budget": BUDGET, "random_state": 1} | options
    grid = {"count_outside": [False, True]} if grid is None else grid
    return riemdp.PrivateSearchCV(TS if estimator is None else estimator, grid, **options)


# ------------------------------------------------------------------ the number of runs
def p_value_of_numbers(found: list[int], distribution: Any) -> float:
    bins = np.arange(0, 9)
    seen = [found.count(int(k)) for k in bins]
    chances = distribution.pmf(bins)
    keep = chances > 0.0
    observed = np.append(np.array(seen)[keep], len(found) - sum(seen))
    return float(
        stats.chisquare(observed, len(found) * np.append(chances[keep], distribution.sf(8))).pvalue
    )


@pytest.mark.parametrize(
    ("one", "distribution", "twin"),
    [
        (gaussian(1.0), stats.poisson(3), stats.poisson(3.4)),
        (pure(1.0), stats.geom(1 / 3), stats.geom(1 / 3.4)),
    ],
    ids=["Poisson", "geometric"],
)
def test_the_number_of_runs_has_its_distribution(one: Any, distribution: Any, twin: Any) -> None:
    source = NoiseSource(5)
    found = [Sums.number_of_runs(3, one, source) for _ in range(3000)]
    assert p_value_of_numbers(found, distribution) > ALPHA
    assert p_value_of_numbers(found, twin) < ALPHA


@dataclasses.dataclass(frozen=True)
class Toy(Sums.Apart.__bases__[0]):  # type: ignore[misc]
    """A fit that releases how good its setting is."""

    guarantee: Any
    name: str
    quality: float

    def within(self, source: Any, permit: Any) -> float:
        permit.take(self.guarantee)
        return self.quality


def best_of(qualities: list[float], runs: int, **changed: Any) -> Any:
    """The search among toys; scores have hardly any noise."""
    scores = Sums.ScoreNoise(1, Budget(1e30, 1e-6))
    one = scores.guarantee
    toys = [Toy(changed.get("cost", one), "toy", quality) for quality in qualities]
    return Sums.BestOfRuns(
        Accounts.selected(one, runs), "toys", one, runs, toys, lambda _, q: scores._ready([q])
    )


def test_which_run_is_shown_has_the_distribution_of_the_theorem() -> None:
    """P(the best is at most x) = exp(-m (1 - F(x))), with F that of one run: an oracle that knows
    nothing of runs.
    """
    qualities, runs = [0.1, 0.5, 0.9, 0.5], 3
    search, source = best_of(qualities, runs), NoiseSource(2)
    shown = [search.release(source) for _ in range(1200)]
    values = np.array([0.0 if one is None else one.fit for one in shown])
    levels, below = np.array([0.0, 0.1, 0.5, 0.9]), np.array([0.0, 0.25, 0.75, 1.0])
    seen = np.array([np.count_nonzero(values == level) for level in levels])

    def p_value(mean: float) -> float:
        chances = np.diff(np.exp(-mean * (1.0 - below)), prepend=0.0)
        return float(stats.chisquare(seen, len(shown) * chances).pvalue)

    assert p_value(runs) > ALPHA
    assert p_value(0.7 * runs) < ALPHA
    for one in shown:
        assert one is None or abs(float(one.score.value) - one.fit) < 1e-5


def test_a_run_takes_no_more_than_one_run_was_paid_for() -> None:
    search = best_of([0.5], 5, cost=gaussian(1e-20))
    with pytest.raises(RiemdpError, match="would cost more"):
        search.release(1)
    small = best_of([0.5], 5)
    with charge(gaussian(1.0)) as permit, pytest.raises(RiemdpError, match="would cost more"):
        small.within(NoiseSource(1), permit)


# ------------------------------------------------------------------ what is shown
def test_nothing_tells_of_other_runs_or_of_their_number() -> None:
    search = searched().fit(X, Y)
    public = {f.name for f in dataclasses.fields(search)} | {
        *("plan_", "classes_", "guarantee_", "reproducible_", "_spent", "best_params_"),
        *("release_", "best_estimator_", "best_score_"),
    }
    assert vars(search).keys() == public
    assert vars(search.release_).keys() == {f.name for f in dataclasses.fields(riemdp.Release)}
    assert {"outside", "valid"}.isdisjoint(search.release_.details)
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict(X), search.predict(X))
    alone = searched(runs=1, random_state=2).fit(X, Y)  # one run
    assert vars(alone).keys() == public


def test_everything_that_is_shown_says_what_the_search_cost() -> None:
    with Ledger(Budget(100.0, 1e-4)) as ledger:
        search = searched().fit(X, Y)
    best = search.best_estimator_
    assert ledger.charges == 1
    told = [search.guarantee_, search.release_.guarantee, best.guarantee_, best.release_.guarantee]
    assert told == [ledger.spent] * 4
    assert search.total_spent_ == best.total_spent_ == ledger.spent
    assert ledger.spent.within(BUDGET)
    assert best.release_.observation is None
    assert best.release_.error_distribution is None


def test_fit_and_score_have_the_noise_of_one_run() -> None:
    search = searched(grid={"count_outside": [False]}).fit(X, Y)
    plan = riemdp.plan_private_search(1, 400, BUDGET)[0]
    assert search.plan_ == plan
    assert (plan.held, plan.n) == (100, 400)
    fewer = clone(TS).set_params(budget=plan.one, count_outside=False).fit(X[:300], Y[:300])
    best = search.best_estimator_.release_
    assert best.scale == fewer.release_.scale
    assert search.release_.scale == pytest.approx(plan.deviation, rel=1e-6)
    assert search.release_.sensitivity == 1 / 100


def test_where_there_is_no_run_nothing_is_predicted() -> None:
    search = searched(runs=1, random_state=5)
    with Ledger(Budget(100.0, 1e-4)) as ledger, pytest.warns(riemdp.RiemdpWarning, match="no run"):
        search.fit(X, Y)
    assert ledger.charges == 1
    assert search.best_params_ == {"count_outside": False}
    assert (search.best_score_, search.best_estimator_, search.release_) == (None, None, None)
    with warnings.catch_warnings():  # what is said of a paid search does not take its place
        warnings.filterwarnings("error", "PrivateSearchCV: there was no run")
        assert searched(runs=1, random_state=5).fit(X, Y).best_estimator_ is None
    with pytest.raises(InvalidArgument, match="number of runs was 0"):
        search.predict(X)


def test_the_better_setting_is_found() -> None:
    gain = np.where(Y[:, None] == 0, [1.5, 0.7], [0.7, 1.5])
    split = gain[:, :, None] * X * gain[:, None, :]
    search = searched(riemdp.PrivateMDM(), BALLS).fit(split, Y)
    assert search.best_params_["ball"].radius == 1.0
    assert search.score(split, Y) > 0.9
    assert search.predict_proba(split).shape == (400, 2)
    assert is_classifier(search)


def test_numbers_are_scored_in_their_range() -> None:
    regressor = riemdp.PrivateTSRegressor((-1.0, 1.0), ball=d.BALL)
    search = searched(regressor, {"alpha": [0.01, 100.0]}).fit(X, X[:, 0, 0] - X[:, 1, 1])
    assert search.best_params_ == {"alpha": 0.01}
    assert search.classes_ is None
    assert is_regressor(search)


# ------------------------------------------------------------------ who is in which part
def parts_seen(monkeypatch: pytest.MonkeyPatch, groups: Any = None) -> tuple[Any, Any]:
    """The records that a fit gets, and those that a score is of."""
    fitted, scored = [], []
    prepare, predict = type(TS)._prepared, type(TS).predict

    def prepared(self: Any, given: Any, *rest: Any) -> Any:
        fitted.append(np.asarray(given))
        return prepare(self, given, *rest)

    def predicted(self: Any, given: Any, *rest: Any) -> Any:
        scored.append(np.asarray(given))
        return predict(self, given, *rest)

    monkeypatch.setattr(type(TS), "_prepared", prepared)
    monkeypatch.setattr(type(TS), "predict", predicted)
    searched(TS if groups is None else OF_PEOPLE, runs=2).fit(X, Y, groups=groups)
    return fitted, scored


def whose(records: Any) -> set[int]:
    return {int(np.flatnonzero(np.all(one == X, axis=(1, 2)))[0]) for one in records}


def test_a_record_is_of_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, scored = parts_seen(monkeypatch)
    assert all(whose(each) == whose(fitted[0]) for each in fitted)
    assert all(whose(each) == whose(scored[0]) for each in scored)
    assert len(whose(fitted[0])) == 300
    assert whose(scored[0]) == {*range(400)} - whose(fitted[0])


def test_a_person_is_of_one_part_and_scored_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, scored = parts_seen(monkeypatch, WHO)
    people = {int(WHO[i]) for i in whose(fitted[0])}
    assert len(people) == 75
    assert whose(fitted[0]) == {i for i in range(400) if WHO[i] in people}
    for each in scored:  # one call a person: nobody's bits depend on others
        assert len({int(WHO[i]) for i in whose(each)}) == 1
        assert len(each) == 4


def test_a_person_counts_once_however_many_records() -> None:
    """999 records of a held-out person move the score by at most 1 of the number of people."""
    search = searched(OF_PEOPLE).fit(X, Y, groups=WHO)
    assert search.release_.sensitivity == 1 / 25
    assert search.guarantee_.unit == "person"


def test_predictions_that_depend_on_other_records_are_refused() -> None:
    prior = riemdp.PublicPrior(d.SPD, d.matrices(8, 200), np.arange(200) % 2)
    model = riemdp.PrivateTSClassifier(ball=prior, recenter=True)
    with pytest.raises(InvalidArgument, match="recenter"):
        searched(model, {"metric": ["riemann"]}).fit(X, Y)


@pytest.mark.parametrize("bad", [np.nan, -0.5, 1.5, np.inf])
def test_a_score_is_a_number_between_0_and_1(bad: float) -> None:
    scores = Sums.ScoreNoise(2, Budget(1e30, 1e-6))
    shown = scores._ready([1.0, bad]).release(1)
    assert float(shown.value) == pytest.approx(0.5, abs=1e-9)
    assert scores._ready([0.3, 0.3]).value == 2 * math.floor(0.3 * 2**20) / 2**20


def test_the_plan_is_a_table_that_warns() -> None:
    plan = riemdp.plan_private_search(4, 2000, Budget(1.0, 1e-5))
    assert "Poisson, mean 10" in str(plan)
    assert "geometric, mean 10" in str(riemdp.plan_private_search(4, 2000, Budget(1.0)))
    assert not plan[0].is_useless
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(riemdp.RiemdpWarning, match="hardly known"):
            searched(budget=Budget(0.3, 1e-6)).fit(X, Y)
