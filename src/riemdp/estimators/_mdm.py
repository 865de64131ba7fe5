"""`PrivateMDM`: minimum distance to private class means, a drop-in for pyRiemann's MDM."""

from __future__ import annotations

from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, integer, invalid, one_of
from ..manifolds import spd
from ..privacy import Budget, Guarantee, Ledger, charge, gaussian, gaussian_noise_multiplier, pure
from ..randomness import noise_source
from ..releases import plan_private_mean
from ..releases._choices import COMPARED, build, public_tolerance
from ..releases._mean import mean_of_clamped
from ._shared import NotSklearnShaped, check_seed, required

MECHANISMS = ("auto", *(name for name in COMPARED if name != "k-norm-gradient"))

_Prepared = tuple[
    list[Any], list[Any], Guarantee
]  # one mechanism and one private mean a class, and the cost of all together


class PrivateMDM(NotSklearnShaped, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Minimum distance to the mean of each class, the means released with differential privacy.

    A record is one matrix with its label. Takes the place of `pyriemann.classification.MDM` in a
    pipeline: `fit`, `predict`, `predict_proba`, `transform` (distances to the class means),
    `fit_predict`, `classes_`, `covmeans_`.

    **Parameters** (keyword-only; `budget` and `ball` are required and public):

    - `metric`: "riemann" ("affine-invariant"), "logeuclid" ("log-euclidean") or "wasserstein"
      ("bures-wasserstein").
    - `budget`: `Budget(epsilon, delta)` of one whole `fit`. **Every call of `fit` spends it.**
    - `ball`: `Ball(center, radius)` for the matrices of all classes.
    - `labels`: "public" or "private", see the guarantee below.
    - `classes`: the possible labels, public. Required for private labels, because which labels
      occur is then private.
    - `min_class_size`: public m >= 1, required for private labels: a class with fewer records is
      filled up with copies of the centre, so the guarantee does not depend on m being right; a
      value near the true class sizes is the most accurate.
    - `mechanism`: "auto" (smallest expected error by formula), "wrapped-gaussian",
      "wrapped-laplace" or "riemannian-laplace".
    - `random_state`: None for noise from the operating system; an int makes the run reproducible
      and **not private**.

    **Attributes** after `fit`, all public: `classes_`, `covmeans_` (a list), `guarantee_`,
    `releases_`, `reproducible_`. Predictions for a record show something about that record only,
    and nothing about the training records beyond `covmeans_`.

    **Guarantee** (replace-one, number of records public):

    - Public labels: neighbours differ in one matrix, its label stays. The record is in one class
      only, and the other means do not see it, so releasing every class with the whole budget costs
      the budget once (parallel composition). Labels and class sizes are treated as known to
      everybody.
    - Private labels: neighbours differ in one pair (matrix, label). Write D_c for the clamped
      matrices of class c, filled up with the centre to m entries. Replacing a pair changes D_c for
      at most two classes, and in each of them by one of: an entry replaced, by a record or by a
      filler, among at least m entries; an entry added to or taken from at least m entries. The
      Frechet mean moves at most by Delta = the replace-one sensitivity for m records (2 r / m on
      Hadamard spaces) in either case: adding one entry to N >= m moves it by at most 2 r / (N + 1)
      there, and by at most (2 r / (N + 1)) tan(theta)/theta, which is less than 2 r / (m
      cos(theta)), for curvature kappa > 0, theta = 2 r sqrt(kappa). Every class is released with
      noise for Delta and its own fresh randomness, so the privacy loss is that of at most two such
      releases, and each is calibrated so that two together keep within the budget. Noise, mechanism
      and m are functions of public facts only: class sizes are private.

    Whether `fit` raises because a mean did not converge depends on the records; nothing is released
    or spent then.

    Source: Barachant et al. 2012 (MDM); Reimherr2021 Theorem 2 (sensitivity of the mean).
    """

    def __init__(
        self,
        *,
        metric: str = "riemann",
        budget: Any = None,
        ball: Any = None,
        labels: str = "public",
        classes: Any = None,
        min_class_size: int | None = None,
        mechanism: str = "auto",
        random_state: int | None = None,
    ):
        self.metric = metric
        self.budget = budget
        self.ball = ball
        self.labels = labels
        self.classes = classes
        self.min_class_size = min_class_size
        self.mechanism = mechanism
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Release one mean per class. X (n, k, k) symmetric positive definite matrices, y (n,)
        labels.

        `sample_weight` is refused: weights from data would change the sensitivity. Raises before
        anything is spent.
        """
        required(self, budget=self.budget, ball=self.ball)
        one_of("labels", self.labels, ("public", "private"))
        one_of("mechanism", self.mechanism, MECHANISMS)
        if sample_weight is not None:
            raise invalid(
                "sample_weight", "given", "leave it out: private class means have equal weights"
            )
        matrices, labels = self._checked(X, y)
        manifold = spd(matrices.shape[-1], self.metric)
        classes = self._classes(labels)
        source = noise_source(check_seed(self.random_state))
        clamped = np.asarray(self.ball.clamp(manifold, matrices))
        if self.labels == "public":
            mechanisms, values, whole = self._public(manifold, clamped, labels, classes)
        else:
            mechanisms, values, whole = self._private(manifold, clamped, labels, classes)
        charge(
            whole
        )  # all means are known by now: nothing can fail between here and the last noise
        # A ledger of its own for each class: the cost of all of them together is `whole`, charged
        # just before.
        releases = [
            m.release(v, source, ledger=Ledger(self.budget))
            for m, v in zip(mechanisms, values, strict=True)
        ]
        if any(r.guarantee != _guarantee_of(m) for m, r in zip(mechanisms, releases, strict=True)):
            raise AssertionError(
                "a class was released under another guarantee than the one that was charged"
            )
        self.manifold_ = manifold
        self.classes_ = classes
        self.releases_ = releases
        self.covmeans_ = [np.asarray(r.value) for r in releases]
        self.guarantee_ = whole
        self.reproducible_ = source.reproducible
        return self

    def _public(
        self, manifold: Any, clamped: np.ndarray, labels: np.ndarray, classes: np.ndarray
    ) -> _Prepared:
        groups = [clamped[labels == c] for c in classes]
        sizes = [len(g) for g in groups]
        if min(sizes) == 0:
            raise InvalidArgument(
                f"argument `y` has no record of class {classes[sizes.index(0)]!r}; leave it out of"
                " `classes`"
            )
        name = self._name(manifold, min(sizes), self.budget)
        tolerance = public_tolerance(self.ball)
        mechanisms = [
            build(name, manifold, self.ball, n, self.budget, tolerance=tolerance) for n in sizes
        ]
        values = [
            mean_of_clamped(manifold, jnp.asarray(g), self.ball, None, tolerance) for g in groups
        ]
        return mechanisms, values, _guarantee_of(mechanisms[0])

    def _private(
        self, manifold: Any, clamped: np.ndarray, labels: np.ndarray, classes: np.ndarray
    ) -> _Prepared:
        if self.min_class_size is None:
            raise invalid(
                "min_class_size",
                None,
                "private labels need a public number of records that a class can be relied "
                "on to have",
            )
        m = integer("min_class_size", self.min_class_size, at_least=1)
        half = half_budget(self.budget)
        name = self._name(manifold, m, half)
        tolerance = public_tolerance(self.ball)
        mechanism = build(name, manifold, self.ball, m, half, tolerance=tolerance)
        filler = np.asarray(self.ball.center)[None]
        values = []
        for c in classes:
            group = clamped[labels == c]
            padded = np.concatenate([group, np.repeat(filler, max(0, m - len(group)), axis=0)])
            values.append(
                mean_of_clamped(manifold, jnp.asarray(padded), self.ball, None, tolerance)
            )
        one = _guarantee_of(mechanism)
        return [mechanism] * len(classes), values, one if len(classes) == 1 else one.compose(one)

    def _name(self, manifold: Any, n: int, budget: Budget) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        rows = [
            r
            for r in plan_private_mean(manifold, self.ball, n, budget)
            if r.mechanism in MECHANISMS and r.eligible
        ]
        known = [(r.typical_error, r.mechanism) for r in rows if r.typical_error is not None]
        if not known:
            raise InvalidArgument(
                f"argument `budget` = {budget}: no mechanism with a formula is available on"
                f" {manifold!r}; name one"
            )
        return min(known)[1]

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        if self.classes is not None:
            found = np.unique(np.asarray(self.classes))
            if found.size == 0:
                raise invalid("classes", self.classes, "give at least one label")
            return found
        if self.labels == "private":
            raise invalid(
                "classes",
                None,
                "private labels need the list of possible labels; taking it from the data would "
                "reveal it",
            )
        return np.unique(labels)

    def _checked(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        try:
            matrices = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                "argument `X` is not an array of real numbers of shape (n, k, k)"
            ) from error
        if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or 0 in matrices.shape:
            raise invalid("X", matrices, "give n >= 1 square matrices, shape (n, k, k)")
        labels = np.asarray(y)
        if labels.shape != (len(matrices),):
            raise invalid(
                "y", labels, f"give one label for each of the {len(matrices)} matrices, shape (n,)"
            )
        return matrices, labels

    # ---------------------------------------------------------------- using the means
    def transform(self, X: Any) -> np.ndarray:
        """Distance of each matrix to each class mean, shape (n, number of classes)."""
        check_is_fitted(self, "covmeans_")
        matrices = np.asarray(X, dtype=np.float64)
        means = jnp.asarray(np.stack(self.covmeans_))
        return np.asarray(self.manifold_.dist(means[None], jnp.asarray(matrices)[:, None]))

    def predict(self, X: Any) -> np.ndarray:
        """The class whose mean is nearest, for each matrix."""
        return self.classes_[np.argmin(self.transform(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Softmax of minus the squared distances, as in pyRiemann."""
        scores = -(self.transform(X) ** 2)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def fit_predict(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        """`fit` and then `predict` on the same matrices. The predictions are one per record: they
        are not private.
        """
        return self.fit(X, y, sample_weight=sample_weight).predict(X)


def half_budget(budget: Budget) -> Budget:
    """The largest budget such that two releases under it keep within `budget`.

    With delta > 0 by the exact composition of two Gaussians (one of noise multiplier z has
    delta(eps) at eps = epsilon / 2); pure budgets are halved. A pure mechanism under a budget with
    delta > 0 spends half the epsilon then, which is what epsilon / 2 in the Gaussian case was
    chosen for: both kinds fit the same pair.
    """
    if budget.delta == 0:
        return Budget(budget.epsilon / 2)
    z = gaussian_noise_multiplier(budget, 2) * (
        1 + 1e-9
    )  # a hair of room for the rounding of two calibrations
    # This delta belongs to epsilon / 2 and may be larger than the budget's: it only names the
    # Gaussian to calibrate.
    return Budget(budget.epsilon / 2, gaussian(z).delta(budget.epsilon / 2) or budget.delta / 2)


def _guarantee_of(mechanism: Any) -> Guarantee:
    """The guarantee a mechanism will make, known before it draws: needed to charge several releases
    as one.
    """
    z = getattr(mechanism, "noise_multiplier", None)
    return gaussian(z) if z is not None else pure(mechanism.epsilon)
