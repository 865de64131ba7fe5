"""Groups in scikit-learn's splitters: what is given to a splitter alone protects nobody."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import make_pipeline

from riemdp import Budget, Ledger, PrivatePCA

ROWS = np.random.default_rng(0).normal(size=(24, 3))
LABELS = np.arange(24) % 2
FOLDS = GroupKFold(2)


def model(**options):
    pca = PrivatePCA(1, row_norm=3.0, budget=Budget(1.0, 1e-6), **options)
    return make_pipeline(pca, DummyClassifier())


def person() -> np.ndarray:
    return np.arange(24) // 3


def said(work) -> list[str]:
    """The warnings about groups of a call that may also fail."""
    with warnings.catch_warnings(record=True) as caught, Ledger(Budget(100.0, 1e-4)):
        warnings.simplefilter("always")
        work()
    return [str(w.message) for w in caught if "`groups`" in str(w.message)]


GIVEN = {
    "cross_validate": lambda g: cross_validate(model(), ROWS, LABELS, groups=g, cv=FOLDS),
    "cross_val_score": lambda g: cross_val_score(model(), ROWS, LABELS, groups=g, cv=FOLDS),
    "cross_val_predict": lambda g: cross_val_predict(model(), ROWS, LABELS, groups=g, cv=FOLDS),
    "permutation_test_score": lambda g: permutation_test_score(
        model(), ROWS, LABELS, groups=g, cv=FOLDS, n_permutations=1
    ),
    "learning_curve": lambda g: learning_curve(
        model(), ROWS, LABELS, groups=g, cv=FOLDS, train_sizes=[1.0]
    ),
    "validation_curve": lambda g: validation_curve(
        model(),
        ROWS,
        LABELS,
        groups=g,
        cv=FOLDS,
        param_name="privatepca__row_norm",
        param_range=[3.0],
    ),
    "BaseSearchCV.fit": lambda g: GridSearchCV(model(), {}, cv=FOLDS).fit(ROWS, LABELS, groups=g),
}


@pytest.mark.parametrize("call", GIVEN)
def test_groups_of_a_splitter_warn_once(call):
    """`fit` gets none of them, and protected records in silence."""
    groups = person()
    (text,) = said(lambda: GIVEN[call](groups))
    assert text.startswith(call.replace("cross_val_score", "cross_validate"))
    assert "PrivatePCA.fit does not get them, and protects one record, not one person" in text
    assert 'params={"groups": groups}' in text
    assert "set_fit_request(groups=True)" in text


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_the_warning_comes_from_the_process_that_was_asked(backend):
    """Workers have no caller, and nobody reads what they write."""
    groups = person()
    with joblib.parallel_backend(backend), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = GridSearchCV(model(), {}, cv=2)
        cross_validate(search, ROWS, LABELS, groups=groups, cv=FOLDS, n_jobs=2)
    about = [w for w in caught if "`groups`" in str(w.message)]
    assert [w.filename for w in about] == [__file__]  # once, and it points to that call


def test_groups_that_reach_the_fit_protect_persons_and_no_warning_is_given():
    groups, kept = person(), {}
    splits = list(FOLDS.split(ROWS, LABELS, groups))

    def plainly() -> None:
        kept["plain"] = cross_validate(
            model(),
            ROWS,
            LABELS,
            cv=splits,
            params={"privatepca__groups": groups},
            return_estimator=True,
        )["estimator"]

    def routed() -> None:
        with sklearn.config_context(enable_metadata_routing=True):
            asked = model()
            asked[0].set_fit_request(groups=True)
            kept["routed"] = cross_validate(
                asked, ROWS, LABELS, cv=FOLDS, params={"groups": groups}, return_estimator=True
            )["estimator"]
            search = GridSearchCV(asked, {}, cv=FOLDS).fit(ROWS, LABELS, groups=groups)
            kept["search"] = [search.best_estimator_]
            with pytest.raises(ValueError, match="not explicitly set as requested"):
                cross_validate(model(), ROWS, LABELS, cv=FOLDS, params={"groups": groups})

    assert said(plainly) == []
    assert said(routed) == []
    for fitted in kept.values():
        assert {f[0].guarantee_.unit for f in fitted} == {"person"}
    assert said(lambda: cross_validate(model(), ROWS, LABELS, cv=splits)) == []
