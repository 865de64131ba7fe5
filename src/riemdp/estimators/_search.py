"""`PrivateSearchCV`: private choice of a setting, by the scores of held-out records."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid, warn, warn_with_release
from .._isolation import isolation
from ..domains._labels import admit_labels
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._base import Ready
from ..mechanisms._selection import BestOfRuns, Run, ScoreNoise
from ..privacy import Budget, Guarantee
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..privacy._permit import adds_up
from ..privacy._selection import selected
from ..randomness import noise_source
from ..releases._options import ball_or_search
from ..statistics import PublicPrior
from ..statistics._membership import unit_of
from ._classifier import PrivateTSClassifier
from ._fit import Fit
from ._matrices import AdmittedMatrices, LabelledMatrices
from ._mdm import PrivateMDM
from ._regressor import PrivateTSRegressor
from ._search_plan import SearchRow, plan_private_search
from ._shared import Spending, check_seed, required

OfRuns = PrivateMDM | PrivateTSClassifier | PrivateTSRegressor
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
# what is one for all settings: what the search is given itself, and what says what is protected
_FIXED = ("budget", "random_state", "on_invalid", "labels", "classes", "target_range")


@dataclasses.dataclass(frozen=True)
class _HeldOut:
    """The records whose scores are counted.

    Attributes:
        X: Admitted records.
        truth: The positions of their classes, or their targets.
        people: The records of each person, where people are protected.
        classes: The classes; None of numbers.
        n: The public number of records, or of people.
    """

    X: NDArray[np.float64]
    truth: NDArray[Any]
    people: list[NDArray[np.int64]] | None
    classes: list[Any] | None
    n: int

    def scores(self, model: OfRuns) -> list[float]:
        """The score of each record, or of each person: a function of that person's records alone
        (of a record and its place), which raises for none.
        """
        with isolation():
            if self.people is None:
                return self._of(model, np.arange(len(self.truth))).tolist()
            return [float(np.mean(self._of(model, own))) for own in self.people]

    def _of(self, model: OfRuns, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        told, truth = model.predict(self.X[rows]), self.truth[rows]
        if self.classes is not None:
            return (admit_labels("y", told, self.classes) == truth).astype(np.float64)
        assert isinstance(model, PrivateTSRegressor)
        return 1.0 - (model.range_.scaled(told) - model.range_.scaled(truth)) ** 2 / 4.0


@dataclasses.dataclass(eq=False, repr=False)
class PrivateSearchCV(Spending, MetaEstimatorMixin, BaseEstimator):
    """Choose the setting of a private estimator by private scores on held-out records.

    A random number of runs, which stays secret, each take a random setting of a public grid, fit it
    to a part of the records and add noise to its score on the others. Only the best run is shown:
    its setting, its estimator and its noisy score. All runs together cost `budget`, and each may
    spend less: the fit that is shown has about 2.6 times the noise of one fit with the whole budget
    (10 runs, epsilon 1, delta 1e-5). So a search pays only where settings differ by more than that;
    `riemdp.plan_private_search` says how much it is. docs/howto/search.md shows when not to.

    Args:
        estimator: A `PrivateMDM`, `PrivateTSClassifier` or `PrivateTSRegressor`, without budget,
            seed and `on_invalid`, which are given to the search.
        param_grid: Public: a dict of parameters with lists of values, or a list of such dicts, as
            of scikit-learn's `GridSearchCV`.
        runs: The mean of the number of runs, a whole number: Poisson for delta > 0, geometric for
            delta = 0.
        held_out: The fraction of the records, or of the people, whose scores are counted. Which
            ones is a public function of their number.
        budget: `Budget(epsilon, delta)` of the whole search, which **every call of `fit` spends**.
            Required.
        on_invalid: "raise" refuses records that cannot be used; "center" counts them as the
            estimator does.
        random_state: None, or a seed: reproducible and **not private**.

    Attributes:
        best_params_: The setting of the best run; where there was no run, the first of the grid.
        best_score_: Its noisy score: the mean over held-out records (people) of whether the class
            is right, or of 1 - (error / length of the range)^2. It is the largest of several, so
            too large on average. None where there was no run.
        best_estimator_: The estimator of the best run, whose `guarantee_` is that of the search.
            None where there was no run (probability exp(-runs) for delta > 0); then `predict`
            refuses.
        plan_: The row of `riemdp.plan_private_search` for these public numbers.
        release_: The `Release` of the score. None where there was no run.
        guarantee_: The `Guarantee` of everything.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        One run has that of the estimator, mu-GDP or (epsilon, 0): a record is of the fits or of the
        scores. delta > 0: the best of a Poisson number of runs with mean m has Renyi divergence of
        order a at most log(exp(-m) + m exp((a - 1) (a mu^2 / 2 + m d))) / (a - 1), d the delta of
        *one* run at log(1 + 1 / (a - 1)). delta = 0: (3 epsilon, 0). With `groups` the same,
        neighbours differing in everything of one person, who keeps the label.

    Source:
        Papernot and Steinke 2022, Theorems 2 and 6.
        Proof: docs/proofs/private-search.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(2000) % 2
        >>> gain = np.where(y[:, None] == 0, [1.0, 2.0], [2.0, 1.0])[:, :, None]
        >>> a = rng.normal(size=(2000, 2, 20)) * gain
        >>> balls = {"ball": [riemdp.Ball(c * np.eye(2), 1.0) for c in (2.0, 100.0)]}
        >>> search = riemdp.PrivateSearchCV(
        ...     riemdp.PrivateMDM(), balls, budget=riemdp.Budget(1.0, 1e-5)
        ... )
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-4)) as ledger:
        ...     _ = search.fit(a @ a.transpose(0, 2, 1) / 20, y)
        >>> ledger.charges, search.best_score_ > 0.8
        (1, True)
    """

    estimator: OfRuns | None = None
    param_grid: Grid | None = None
    _: dataclasses.KW_ONLY
    runs: int = 10
    held_out: float = 0.25

    # ---------------------------------------------------------------- fitting
    def fit(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> Self:
        """Charge the ledger for the whole search, and release the best run.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: One label, or one number, for each.
            sample_weight: Refused.
            groups: One label of a person for each matrix, as for the estimator. All records of a
                person are held out, or none.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        budget = required(self, sample_weight)
        source = noise_source(check_seed(self.random_state))
        settings = self._settings()
        admitted = self._admitted(self._with(settings[0], budget), X, y, groups)
        (plan,) = plan_private_search(
            len(settings), admitted.n, budget, runs=self.runs, held_out=self.held_out
        )
        if plan.is_useless:
            warn(f"PrivateSearchCV: {plan.told}")
        models = [self._with(setting, plan.one) for setting in settings]
        fits, held = _divided(models, admitted, plan.held, y)
        ready = _best_of(models, fits, held, plan, unit_of(admitted.members))
        whole = ready.guarantee.quoted_at(budget.delta)
        warn_of(whole, budget.delta, admitted.n)
        best = ready.release(source)
        self.plan_, self.classes_ = plan, getattr(admitted, "classes", None)
        self._keep_cost(whole, budget, reproducible=source.reproducible)
        self.best_params_ = settings[0 if best is None else best.setting]
        self.release_ = self.best_estimator_ = self.best_score_ = None
        if best is None:
            warn_with_release(
                "PrivateSearchCV: there was no run, so there is no estimator; best_params_ is the"
                " first setting of the grid"
            )
            return self
        self.release_ = _of_search(best.score, whole, budget)
        self.best_score_ = float(self.release_.value)
        self.best_estimator_ = self._shown(models, fits, best, budget)
        return self

    def _shown(self, models: list[OfRuns], fits: list[Fit], best: Run, budget: Budget) -> OfRuns:
        """The estimator of the best run, which says what the search cost."""
        model, whole = models[best.setting], self.guarantee_
        fits[best.setting].show(_of_search(best.fit, whole, budget))
        model.guarantee_, model.reproducible_, model._spent = whole, self.reproducible_, [whole]
        return model

    def _settings(self) -> list[dict[str, Any]]:
        """The settings of the grid: of parameters that a search may choose."""
        one = self.estimator
        if not isinstance(one, OfRuns):
            remedy = "give a PrivateMDM, a PrivateTSClassifier or a PrivateTSRegressor"
            raise invalid("estimator", one, remedy)
        if (one.budget, one.random_state, one.on_invalid) != (None, None, "raise"):
            raise InvalidArgument(
                "argument `estimator` has a budget, a random_state or an on_invalid of its own;"
                " give them to PrivateSearchCV, for all runs together"
            )
        try:
            settings = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError):
            remedy = "give a dict of parameters with lists of values, or a list of such dicts"
            raise invalid("param_grid", self.param_grid, remedy) from None
        known = one.get_params(deep=False).keys() - {*_FIXED}
        wrong = sorted({str(name) for setting in settings for name in setting} - known)
        if wrong or not settings:
            remedy = f"a search may choose {', '.join(sorted(known))}"
            raise invalid("param_grid", wrong, remedy)
        return settings

    def _with(self, setting: Mapping[str, Any], budget: Budget) -> Any:
        """The estimator with a setting, and what is common to all runs."""
        model: Any = clone(self.estimator)  # type: ignore[arg-type]
        model.set_params(**setting)
        return model.set_params(budget=budget, on_invalid=self.on_invalid)

    def _admitted(
        self, model: OfRuns, X: RecordsLike, y: ArrayLike, groups: object
    ) -> AdmittedMatrices:
        """All records, checked as the estimator does."""
        if isinstance(model, PrivateTSRegressor):
            return model._admitted(X, y, None, groups)[0]
        given = model.ball
        where = given if isinstance(given, PublicPrior) else ball_or_search(given)
        return model._labelled(X, y, None, groups, where)

    # ---------------------------------------------------------------- using the best
    def _best(self) -> Any:
        check_is_fitted(self, "best_params_")
        if self.best_estimator_ is None:
            raise InvalidArgument(
                "there is no estimator: the number of runs was 0. Fit one with best_params_, the"
                " first setting of the grid, or search again; both spend"
            )
        return self.best_estimator_

    def predict(self, X: RecordsLike) -> np.ndarray:
        """What the best estimator predicts for each matrix."""
        return self._best().predict(X)

    def predict_proba(self, X: RecordsLike) -> np.ndarray:
        """Probabilities of the classes by the best estimator, where it has any."""
        return self._best().predict_proba(X)

    def score(self, X: RecordsLike, y: ArrayLike) -> float:
        """The `score` of the best estimator on other records: not private."""
        return self._best().score(X, y)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = own.estimator_type, own.input_tags
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        return tags


def _divided(
    models: list[Any], admitted: AdmittedMatrices, count: int, y: ArrayLike
) -> tuple[list[Fit], _HeldOut]:
    """The fit of each model to some of the records, and the others. Which records (people) are held
    out is a function of their number alone, so a neighbour's record stays in its part.
    """
    people = admitted.members
    if people is None and any(getattr(model, "recenter", False) for model in models):
        remedy = "without `groups` each prediction would depend on all other records; leave it out"
        raise invalid("recenter", True, remedy)
    places = np.arange(admitted.n) if people is None else people.places
    chosen = np.array(sorted(range(admitted.n), key=_scattered)[:count])
    out = np.isin(places, chosen)
    rows = np.flatnonzero(~out)
    X = np.asarray(admitted.matrices)
    fitted = X[rows]  # once, for all settings
    labels: ArrayLike = admitted.labels[rows]
    classes = None
    if isinstance(admitted, LabelledMatrices):
        labels = [y[i] for i in rows] if isinstance(y, list | tuple) else np.asanyarray(y)[rows]
        classes = list(admitted.classes)
        for model in models:
            model.set_params(classes=admitted.classes)
    groups = None if people is None else places[rows]
    fits = [model._prepared(fitted, labels, None, groups) for model in models]
    whose = None if people is None else [np.flatnonzero(places[out] == one) for one in chosen]
    return fits, _HeldOut(X[out], admitted.labels[out], whose, classes, count)


def _scattered(place: int) -> bytes:
    """A public order in which places have nothing to do with one another."""
    return hashlib.sha256(f"riemdp {place}".encode()).digest()


def _best_of(
    models: list[Any], fits: list[Fit], held: _HeldOut, plan: SearchRow, unit: str
) -> BestOfRuns:
    """All runs, admitted: nothing of them is left that can be refused."""
    noise = Noise.of(plan.one)
    one = noise.guarantee.for_people() if held.people is not None else noise.guarantee
    for fit in fits:
        if not adds_up([fit.ready.guarantee], one):
            raise InvalidArgument(
                "argument `estimator` has another kind of noise than scores, in one of the"
                " settings; name a mechanism with Gaussian noise (delta = 0: Laplace noise)"
            )
    scores = ScoreNoise(held.n, noise)
    scores._check_noise()

    def score(setting: int, made: Any) -> Ready:
        fits[setting].show(made)
        return scores._ready(held.scores(models[setting]), unit)

    whole, ready = selected(one, plan.runs), [fit.ready for fit in fits]
    return BestOfRuns(whole, "search", one, plan.runs, ready, score)


def _of_search(release: Release, whole: Guarantee, budget: Budget) -> Release:
    """A release of the best run: it cost what the search did. The noise of what was chosen has not
    the distribution of any run's, so no region and no distribution of the error is stated.
    """
    return release._with(guarantee=whole, budget=budget, error_distribution=None, observation=None)
