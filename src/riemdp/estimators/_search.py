"""What a hyper-parameter search spends, known and refused before the first fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .._errors import BudgetExceeded, InvalidArgument, invalid
from ..manifolds._base import RecordsLike
from ..privacy import Budget, Guarantee, Ledger, approximate, pure

if TYPE_CHECKING:
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV


def check_search(
    search: GridSearchCV | RandomizedSearchCV,
    X: RecordsLike,
    y: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    ledger: Ledger | None = None,
) -> Guarantee:
    """The guarantee of `search.fit(X, y)` for a `GridSearchCV` or `RandomizedSearchCV`.

    A search fits every candidate on every split, and once more at the end (`refit`). **Every one of
    these fits spends its budget.** Call this first: scikit-learn by itself swallows the refusal of
    a ledger half-way and goes on.

    Args:
        search: A search that was not fitted yet. Its estimator, or the steps of its pipeline, have
            `Budget` parameters. Subclasses and other searches (such as `HalvingGridSearchCV`) fit
            more often and are refused; so are wrappers that fit a private estimator several times
            (such as `BaggingClassifier`).
        X: The records, as for `search.fit`. They are only counted.
        y: The labels, as for `search.fit`. They are only counted.
        groups: The groups, as for `search.fit`.
        ledger: The ledger that must be able to pay; by default the innermost `with Ledger(...)`.

    Returns:
        The composition of all fits, each counted with its whole budget. The refit counts with the
        largest epsilon and the largest delta of all candidates, because the records decide which
        candidate it fits. Scores, `best_params_` and `cv_results_` are computed from the records
        without noise and are **not covered**: choose on public data, or keep them to yourself.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing was fitted.
        InvalidArgument: The cost is not known in advance, or `n_jobs` is not 1 together with a
            ledger (worker processes would not charge it).

    Source:
        Proof: docs/proofs/composition.md.
    """
    # 0.2 s, which whoever fits one estimator need not wait for
    from sklearn.model_selection import GridSearchCV, ParameterGrid, RandomizedSearchCV, check_cv

    if type(search) not in (GridSearchCV, RandomizedSearchCV):
        raise invalid(
            "search",
            search,
            "give a GridSearchCV or RandomizedSearchCV itself; how often others fit is not known",
        )
    splitter: Any = check_cv(5 if search.cv is None else search.cv, y)
    folds = int(splitter.get_n_splits(X, y, groups))
    if isinstance(search, GridSearchCV):
        candidates = [
            _budgets(_fresh(search.estimator).set_params(**_copied(candidate)))
            for candidate in ParameterGrid(search.param_grid)
        ]
    else:
        _check_distributions(search)
        candidates = [_budgets(search.estimator)] * int(search.n_iter)
    fits = [_most(b).repeat(folds) for budgets in candidates for b in budgets]
    if not fits:
        raise invalid("search", search, "no `Budget` parameter was found in its estimator")
    if search.refit:
        fits.append(_most_of_one_fit(candidates))
    total = fits[0].compose(*fits[1:])
    ledger = ledger if ledger is not None else Ledger.current()
    if ledger is not None:
        if search.n_jobs not in (None, 1):
            raise InvalidArgument(
                f"argument `search` has n_jobs = {search.n_jobs}: worker processes would not charge"
                " the ledger; use 1"
            )
        if not ledger.fits(total):
            raise BudgetExceeded(
                f"the search makes {len(candidates)} x {folds} fits"
                + (" and one more" if search.refit else "")
                + f", more than the ledger {ledger.budget} can pay for; nothing was fitted or"
                " charged"
            )
    return total


def _copied(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a candidate, estimators copied as scikit-learn copies them before a fit."""
    return {name: clone(value, safe=False) for name, value in candidate.items()}


def _check_distributions(search: RandomizedSearchCV) -> None:
    """Refuse a random search whose draws could change what a fit spends."""
    given = search.param_distributions
    current = search.estimator.get_params(deep=True)
    for distributions in [given] if isinstance(given, Mapping) else list(given):
        for name, values in distributions.items():
            listed = list(values) if isinstance(values, Iterable) else []
            if isinstance(current.get(name), Budget) or any(isinstance(v, Budget) for v in listed):
                raise invalid(
                    "search",
                    search,
                    "a random search over budgets has no cost known in advance; use a grid",
                )
            if any(hasattr(v, "get_params") for v in [current.get(name), *listed]):
                raise invalid(
                    "search",
                    search,
                    f"a random search that replaces the estimator {name!r} has no cost known in"
                    " advance; use a grid",
                )


def _budgets(component: Any) -> list[Budget]:
    """What one fit of `component` spends: its own budgets, and those of the steps of a pipeline."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    if not hasattr(component, "get_params"):
        return []  # "passthrough", "drop", None
    if isinstance(component, Pipeline):
        children = [step for _, step in component.steps]
    elif isinstance(component, FeatureUnion):
        children = [part for _, part in component.transformer_list]
    elif isinstance(component, ColumnTransformer):
        children = [part for _, part, _ in component.transformers]
    else:
        own = [v for v in component.get_params(deep=False).values() if isinstance(v, Budget)]
        all_of_them = component.get_params(deep=True).values()
        if sum(isinstance(v, Budget) for v in all_of_them) > len(own):
            raise invalid(
                "search",
                component,
                "how often it fits the private estimator inside it is not known; search over the"
                " private estimator itself or a Pipeline of such",
            )
        return own
    return [budget for child in children for budget in _budgets(child)]


def _most(budget: Budget) -> Guarantee:
    """The weakest guarantee that a fit under this budget can have."""
    return approximate(budget.epsilon, budget.delta)


def _most_of_one_fit(candidates: list[list[Budget]]) -> Guarantee:
    """A guarantee of one more fit of whichever candidate the records choose."""
    epsilon = max(sum(b.epsilon for b in budgets) for budgets in candidates)
    delta = max(sum(b.delta for b in budgets) for budgets in candidates)
    return approximate(epsilon, delta) if delta > 0 else pure(epsilon)


def _fresh(estimator: BaseEstimator) -> Any:
    """An unfitted copy."""
    return clone(estimator)
