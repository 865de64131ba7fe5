"""`PrivateMDM`: minimum distance to private class means, a drop-in for pyRiemann's MDM."""

from __future__ import annotations

import dataclasses
import functools
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from .._errors import invalid
from ..domains import AdaptiveBall, Ball
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._class_models import ClassMeansNoise
from ..releases._options import ball_or_search
from ._fit import Fit
from ._matrices import LabelledMatrices, OfLabelledMatrices


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateMDM(
    OfLabelledMatrices,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Minimum distance to the mean of each class, the means released with differential privacy.

    A record is one matrix with its label. Takes the place of `pyriemann.classification.MDM` in a
    pipeline: `fit`, `predict`, `predict_proba`, `transform` (distances to the class means),
    `fit_predict`, `classes_`, `covmeans_`. Predictions for a record show something about that
    record only, and nothing about the training records beyond `covmeans_`.

    Args:
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball` for the matrices of all classes, or an `AdaptiveBall`; None means
            `AdaptiveBall()`.
        labels: "public" or "private"; see the guarantee. Private labels cost no more noise where
            delta > 0.
        classes: The possible labels, public. Required for private labels.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`. Refused without a public `Ball`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        classes_: The classes.
        covmeans_: The released mean of each class, stacked: shape (classes, k, k).
        ball_: The ball: the public one, or the one that was found privately.
        guarantee_: The `Guarantee` of everything.
        release_: The `Release` of all class means together.
        outside_: The `OutsideCount`; None where it was left out, and without a public `Ball`.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, number of records public. Public labels: neighbours differ in one matrix, its
        label stays, and class sizes are public. Private labels: neighbours differ in one pair
        (matrix, label). delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta =
        0: (epsilon, 0).

        The tangent vectors of the matrices at the centre, clipped at the radius, are summed class
        by class, and a class mean follows from the noisy sums. Public labels: a replaced matrix
        changes one sum by at most 2 r. Private labels: a replaced pair changes the vector of all
        sums (over r) and class sizes by at most 2; with delta = 0 the sum and half the size of each
        class have noise of their own, and all of them together change by at most sqrt(5).

        Without a public `Ball` a search, which reads all matrices and no label, finds centre and
        radius; search and sums share the budget.

        With `groups`: the same sums and sizes of people: a person counts by the mean of the vectors
        of that person's records, with their classes. Neighbours differ in everything of one person;
        n is the number of people.

    A record is assigned to the nearest mean, by the distance of tangent vectors at the centre,
    clipped at the radius. Class means are moved towards their average by James-Stein, so their
    norms, in which noise adds up, decide little.

    Source:
        Barachant et al. 2012 (MDM).
        Proof: docs/proofs/classifiers.md; docs/proofs/private-ball.md; docs/proofs/people.md
        (`groups`).
    """

    ball: Ball | AdaptiveBall | None = None
    count_outside: bool | None = None

    # ---------------------------------------------------------------- fitting
    def fit(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> Self:
        """Release all class means and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: One label for each.
            sample_weight: Refused.
            groups: One label of a person for each matrix; needs labels="private". Then everything
                of one person is protected, the labels too, and every person counts once. How many
                records anybody has is private.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        return self._spent_on(self._prepared(X, y, sample_weight, groups))

    def _prepared(self, X: RecordsLike, y: ArrayLike, sample_weight: None, groups: object) -> Fit:
        """Everything of a fit that can be refused."""
        ball = ball_or_search(self.ball)
        if self.count_outside and isinstance(ball, AdaptiveBall):
            remedy = "it goes with a public ball; leave it out"
            raise invalid("count_outside", self.count_outside, remedy)
        admitted = self._labelled(X, y, sample_weight, groups, ball)
        sizes = admitted.sizes() if self.labels == "public" else None
        make = admitted.of_classes(ClassMeansNoise, sizes)
        ready = admitted.prepared(make, self.count_outside)
        return Fit(ready, admitted.budget, functools.partial(self._show_means, admitted))

    def _show_means(self, admitted: LabelledMatrices, made: Release) -> None:
        """What follows from the release."""
        self._show(made)
        self.manifold_, self.classes_ = admitted.manifold, admitted.classes
        self.covmeans_ = np.asarray(made.value)
        self._coordinates = np.asarray(made.details["coordinates"])

    # ---------------------------------------------------------------- using the means
    def transform(self, X: RecordsLike) -> np.ndarray:
        """Distance of each matrix to each class mean, shape (n, number of classes): of tangent
        vectors at the centre of `ball_`, clipped at its radius.
        """
        check_is_fitted(self, "covmeans_")
        y = self._clipped_tangents(X)
        return np.linalg.norm(y[:, None] - self._coordinates[None], axis=-1)

    def predict(self, X: RecordsLike) -> np.ndarray:
        """The class whose mean is nearest, for each matrix."""
        nearest = np.argmin(self.transform(X), axis=1)  # says so where nothing was fitted
        return self.classes_[nearest]

    def predict_proba(self, X: RecordsLike) -> np.ndarray:
        """Softmax of minus the squared distances, as in pyRiemann."""
        return softmax(-(self.transform(X) ** 2), axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)

    def fit_predict(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> np.ndarray:
        """`fit`, then `predict` on the same matrices. One prediction per record: not private."""
        return self.fit(X, y, sample_weight=sample_weight, groups=groups).predict(X)
