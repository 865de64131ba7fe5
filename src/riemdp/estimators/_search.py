"""What a hyper-parameter search spends, known and refused before the first fit."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from .._errors import BudgetExceeded, InvalidArgument, invalid
from ..manifolds._base import RecordsLike
from ..privacy import Budget, Guarantee, Ledger, approximate
from ..privacy._costliest import costliest_gaussian
from ..privacy._guarantee import REPLACE_ONE
from ._shared import Spending

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
        ledger: The ledger that must be able to pay for the fits one by one; by default the
            innermost `with Ledger(...)`.

    Returns:
        The composition of all fits. A fit that is known to make Gaussian noise, or pure noise,
        counts as that. Any other counts as an (epsilon, delta) release with its whole budget, and
        the deltas of several add up: **at the delta of one of them their epsilon is infinite**.
        Known are the estimators of this package, but for mechanism="auto" in a public `Ball`
        (`PrivateMDM`, or where splits depend on labels or decide what is chosen) and optimisers
        there. The refit counts as the costliest candidate, or with the largest epsilon and the
        largest delta of all where none is, because the records decide which candidate it fits.
        Scores, `best_params_` and `cv_results_` are computed from the records without noise and are
        **not covered**: choose on public data, or keep them to yourself.

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
    sizes = _sizes(splitter, X, whole=bool(search.refit))
    if isinstance(search, GridSearchCV):
        candidates = [
            _spent_by(_fresh(search.estimator).set_params(**_copied(candidate)), sizes)
            for candidate in ParameterGrid(search.param_grid)
        ]
    else:
        _check_distributions(search)
        candidates = [_spent_by(search.estimator, sizes)] * int(search.n_iter)
    fits = [spending.cost for steps in candidates for _ in range(folds) for spending in steps]
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
        if not ledger._fits_in_turn(fits):
            raise BudgetExceeded(
                f"the search makes {len(candidates)} x {folds} fits"
                + (" and one more" if search.refit else "")
                + f", more than the ledger {ledger.budget} can pay for; nothing was fitted or"
                " charged" + _remedy(candidates)
            )
    return total


@dataclasses.dataclass(frozen=True)
class _Spent:
    """What one fit of one estimator may spend, what it charges at most, and whether that is more
    than its budget says.
    """

    budget: Budget
    cost: Guarantee
    is_known: bool


def _sizes(splitter: Any, X: RecordsLike, *, whole: bool) -> set[int]:
    """How many records the fits have, where that follows from the number of all records alone; none
    where it depends on labels.
    """
    shape = getattr(X, "shape", None)
    n = int(shape[0]) if isinstance(shape, tuple) else len(cast("list[Any]", X))
    try:
        # a copy, because a splitter may hold a generator of random numbers
        trained = [np.asarray(train) for train, _ in copy.deepcopy(splitter).split(np.zeros(n))]
    except (TypeError, ValueError):  # it wants labels or groups
        return set()
    counts = {int(np.count_nonzero(t)) if t.dtype == bool else len(t) for t in trained}
    return counts | ({n} if whole else set())


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


def _spent_by(component: Any, sizes: Collection[int]) -> list[_Spent]:
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
        known = _known(component, own, sizes)
        return [
            _Spent(b, known or _most(b, component), known is not None or b.delta == 0.0)
            for b in own
        ]
    return [spending for child in children for spending in _spent_by(child, sizes)]


def _known(component: Any, own: list[Budget], sizes: Collection[int]) -> Guarantee | None:
    """What a fit charges at most, where it is known: of an estimator of this package, or of a
    subclass whose `fit` is that of the class which says so.
    """
    if not isinstance(component, Spending) or len(own) != 1:
        return None
    says, fits = (
        next(kind for kind in type(component).__mro__ if name in vars(kind))
        for name in ("_cost_of_fit", "fit")
    )
    try:
        return component._cost_of_fit(sizes) if says is fits else None
    except (ValueError, NotImplementedError, TypeError):
        return None  # what such a fit is given is refused by it, before it spends


def _most(budget: Budget, component: Any) -> Guarantee:
    """The weakest guarantee that a fit under this budget can have."""
    own = isinstance(component, Spending)
    adjacency = getattr(component, "adjacency", REPLACE_ONE) if own else REPLACE_ONE
    return approximate(budget.epsilon, budget.delta, adjacency=adjacency)


def _most_of_one_fit(candidates: list[list[_Spent]]) -> Guarantee:
    """A guarantee of one more fit of whichever candidate the records choose."""
    wholes = [c[0].cost.compose(*(s.cost for s in c[1:])) for c in candidates if c]
    costliest = costliest_gaussian(wholes)
    if costliest is not None:
        return costliest
    epsilon = max(sum(s.budget.epsilon for s in steps) for steps in candidates)
    delta = max(sum(s.budget.delta for s in steps) for steps in candidates)
    if all(whole.epsilon(0.0) <= epsilon for whole in wholes):
        delta = 0.0  # all of them are pure
    return approximate(epsilon, delta, adjacency=wholes[0].adjacency)


def _remedy(candidates: list[list[_Spent]]) -> str:
    """What to do where the ledger may only seem too small."""
    if all(spending.is_known for steps in candidates for spending in steps):
        return ""
    return (
        ". Fits count with their whole (epsilon, delta) where their noise is not known before: name"
        " it (mechanism='wrapped-gaussian' in a public ball), or give a ledger whose delta is that"
        " of all fits together"
    )


def _fresh(estimator: BaseEstimator) -> Any:
    """An unfitted copy."""
    return clone(estimator)
