"""What a hyper-parameter search spends, known and refused before the first fit."""

from __future__ import annotations

from typing import Any

from .._errors import BudgetExceeded, InvalidArgument, invalid
from ..privacy import Budget, Guarantee, Ledger, approximate, pure


def check_search(
    search: Any, X: Any, y: Any = None, *, groups: Any = None, ledger: Ledger | None = None
) -> Guarantee:
    """The guarantee of `search.fit(X, y)` for a `GridSearchCV` or `RandomizedSearchCV`, or
    `BudgetExceeded` if a ledger cannot pay.

    A search fits every candidate on every split, and once more at the end (`refit`); **every one of
    these fits spends its budget**. Call this first: scikit-learn by itself swallows the refusal of
    a ledger half-way and goes on.

    **Arguments:** `search`, not yet fitted, whose estimator (or last steps of a pipeline) has
    `budget` parameters; `X`, `y`, `groups` as for `search.fit` (they are only counted); `ledger`:
    default the innermost `with Ledger(...)`.

    **Returns** the composition of all fits, each counted with its whole budget. Scores,
    `best_params_` and `cv_results_` are computed from the records without noise and are **not
    covered**: choose on public data, or keep them to yourself.

    Raises `BudgetExceeded` (nothing was fitted), and `InvalidArgument` for `n_jobs` other than 1
    together with a ledger: worker processes would not charge it.
    """
    from sklearn.model_selection import ParameterGrid, check_cv

    if not (hasattr(search, "estimator") and hasattr(search, "cv")):
        raise invalid("search", search, "give a GridSearchCV or RandomizedSearchCV")
    splitter: Any = check_cv(search.cv, y)
    folds = splitter.get_n_splits(X, y, groups)
    if hasattr(search, "param_grid"):
        candidates = list(ParameterGrid(search.param_grid))
    elif hasattr(search, "param_distributions"):
        candidates = [{}] * int(search.n_iter)
        searched = (
            search.param_distributions if isinstance(search.param_distributions, dict) else {}
        )
        if any(name == "budget" or name.endswith("__budget") for name in searched):
            raise invalid(
                "search",
                search,
                "a random search over budgets has no cost known in advance; use a grid",
            )
    else:
        raise invalid("search", search, "give a GridSearchCV or RandomizedSearchCV")
    fitted = [_budgets(search.estimator, candidate) for candidate in candidates]
    refit = (
        max(fitted, key=lambda budgets: sum(b.epsilon for b in budgets), default=[])
        if search.refit
        else []
    )
    parts = [_most(b).repeat(folds) for budgets in fitted for b in budgets] + [
        _most(b) for b in refit
    ]
    if not parts:
        raise invalid("search", search, "no `budget` parameter was found in its estimator")
    total = parts[0].compose(*parts[1:])
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
                + (" and one more" if refit else "")
                + ", more than the "
                "ledger "
                f"{ledger.budget} can pay for; nothing was fitted or charged"
            )
    return total


def _budgets(estimator: Any, candidate: dict[str, Any]) -> list[Budget]:
    parameters = {**estimator.get_params(deep=True), **candidate}
    return [
        v
        for k, v in parameters.items()
        if (k == "budget" or k.endswith("__budget")) and isinstance(v, Budget)
    ]


def _most(budget: Budget) -> Guarantee:
    """The weakest guarantee that a fit under this budget can have."""
    return approximate(budget.epsilon, budget.delta) if budget.delta > 0 else pure(budget.epsilon)
