"""`PrivateTSClassifier`: a linear classifier in the tangent space at a private centre."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import RiemdpWarning
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._door import admit_records
from ..inference._counts import warn_of_counts
from ..manifolds._base import RecordsLike
from ..mechanisms._classes import DiscriminantNoise
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..randomness import noise_source
from ..statistics import TangentMean
from ._classifier_plan import HOPELESS, plan_private_classifier
from ._matrices import admit_labelled
from ._shared import ManifoldRecords, check_seed


class PrivateTSClassifier(ManifoldRecords, ClassifierMixin, BaseEstimator):
    """Linear classifier of matrices in the tangent space at a private centre, all of it private.

    Takes the place of `pyriemann.classification.TSClassifier` in a pipeline: `fit`, `predict`,
    `predict_proba`, `decision_function`, `classes_`. A record is one matrix with its label.

    A share of the budget finds a centre c and a radius r, from all matrices and no label. The
    matrices become tangent vectors at c, shortened to r. One release then gives the sums of each
    class, and the second moments of all of them, from which a discriminant analysis follows:
    class means moved towards their average by James-Stein, and the covariance within the classes.
    Its eigenvalues are raised to the size of the noise, so that directions which the noise drowns
    count alike. With a pure budget, and for more than 2048 coordinates (matrices beyond 63 x 63),
    second moments are left out, and the nearest class mean decides. Which of the two is a function
    of public numbers.

    Args:
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball`, whose centre is that of the tangent space and to whose radius vectors
            are shortened; or an `AdaptiveBall`. None means `AdaptiveBall()`.
        labels: "public" or "private"; see the guarantee. Private labels cost no more noise.
        classes: The possible labels, public. Required for private labels.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`. Refused without a public `Ball`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        classes_: The classes.
        coef_: Shape (classes, dim): scores are <coef_, y> + intercept_, y the coordinates of the
            shortened tangent vector in an orthonormal frame at `reference_`.
        intercept_: Shape (classes,).
        reference_: The centre: the public one, or the one that was found privately.
        ball_: The ball: the public one, or the one that was found privately.
        rule_: "discriminant" or "class-means".
        plan_: The row of `riemdp.plan_private_classifier` for these public numbers.
        guarantee_: The `Guarantee` of everything.
        release_: The `Release`.
        outside_: The `OutsideCount`; None where it was left out, and without a public `Ball`.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, number of records public. Public labels: neighbours differ in one matrix, its
        label stays, and class sizes are public. Private labels: neighbours differ in one pair
        (matrix, label). delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta =
        0: (epsilon, 0). Search and classifier share the budget. One record changes the vector of
        class sums (over r), sizes over sqrt(2) and second moments (over r^2) over sqrt(2) by at
        most 2. With `groups` the same, neighbours differing in everything of one person, and n
        being the number of people.

    Source:
        Barachant et al. 2012 (tangent space classification); Vu and Slavkovic 2009 and Sheffet 2017
        (sufficient statistics with noise).
        Proof: docs/proofs/tangent-classifier.md; docs/proofs/people.md (`groups`).

    Examples:
        >>> import numpy as np, riemdp
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(400) % 2
        >>> a = rng.normal(size=(400, 2, 20)) * np.where(y[:, None] == 0, [1.0, 2.0], [2.0, 1.0])[
        ...     :, :, None
        ... ]
        >>> X = a @ a.transpose(0, 2, 1) / 20
        >>> model = riemdp.PrivateTSClassifier(budget=riemdp.Budget(1.0, 1e-5))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-4)) as ledger:
        ...     model.fit(X, y).score(X, y) > 0.9
        True
    """

    def __init__(
        self,
        *,
        metric: str = "riemann",
        budget: Budget | None = None,
        ball: Ball | AdaptiveBall | None = None,
        labels: str = "public",
        classes: Sequence[Any] | np.ndarray | None = None,
        on_invalid: str = "raise",
        count_outside: bool | None = None,
        random_state: int | None = None,
    ):
        self.metric = metric
        self.budget = budget
        self.ball = ball
        self.labels = labels
        self.classes = classes
        self.on_invalid = on_invalid
        self.count_outside = count_outside
        self.random_state = random_state

    def fit(
        self,
        X: RecordsLike,
        y: ArrayLike,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release the classifier and charge the ledger.

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
        admitted = admit_labelled(self, X, y, sample_weight, groups)
        assert self.budget is not None
        manifold, ball, n = admitted.manifold, admitted.ball, admitted.n
        classes = admitted.classes
        source = noise_source(check_seed(self.random_state))
        sizes = admitted.sizes() if self.labels == "public" else None
        (plan,) = plan_private_classifier(
            manifold, n, len(classes), self.budget, ball=ball, count_outside=self.count_outside
        )
        if plan.verdict == "hopeless":  # from public numbers, and before anything is spent
            warnings.warn(
                f"PrivateTSClassifier: noise {plan.noise:.2g} is above {HOPELESS:g}: predictions"
                " will be nearer to guessing than to a classifier without noise; about"
                f" {plan.records_a_class:,} records a class are needed with this budget"
                " (riemdp.plan_private_classifier)",
                RiemdpWarning,
                stacklevel=2,
            )
        release = admitted.released(
            DiscriminantNoise, sizes, self.budget, self.count_outside, source
        )
        self.manifold_ = manifold
        self.classes_ = classes
        self.plan_ = plan
        self.rule_ = plan.mechanism
        query = f"linear classifier of {len(classes)} classes in a tangent space"
        known = {"manifold": manifold, "budget": self.budget, "query": query}
        self._keep(release._knowing(known), self.budget)
        self.reference_ = np.asarray(self.ball_.center)
        self.coef_, self.intercept_ = release.value[:, :-1], release.value[:, -1]
        warn_of(self.guarantee_, self.budget.delta, n)
        warn_of_counts(release.facts.valid, self.outside_)
        return self

    # ---------------------------------------------------------------- using the classifier
    def _scores(self, X: RecordsLike) -> np.ndarray:
        """One score for each matrix and class; a matrix that is no point counts as the centre."""
        check_is_fitted(self, "coef_")
        matrices, count = admit_records(self.manifold_, "X", X)
        domain = Domain(self.manifold_, self.ball_.center, self.ball_.radius)
        y = np.asarray(TangentMean(domain, count).prepare(matrices).points)
        return y @ self.coef_.T + self.intercept_

    def decision_function(self, X: RecordsLike) -> np.ndarray:
        """Scores, shape (n, classes); with two classes their difference, shape (n,), as usual in
        scikit-learn.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: RecordsLike) -> np.ndarray:
        """The class with the largest score, for each matrix."""
        largest = np.argmax(self._scores(X), axis=1)  # says so where nothing was fitted
        return self.classes_[largest]

    def predict_proba(self, X: RecordsLike) -> np.ndarray:
        """Softmax of the scores, shape (n, classes): for the rule "discriminant" the probabilities
        of Gaussian classes of equal size with the released covariance.
        """
        scores = self._scores(X)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)
