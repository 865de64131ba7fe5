"""`PrivateTSClassifier`: a linear classifier in the tangent space at a private centre."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._at_centre import LabelledRecords
from ..mechanisms._base import Ready
from ..mechanisms._class_models import DiscriminantNoise
from ..mechanisms._prior_classes import PriorClassifier
from ..mechanisms._prior_mean import facts_of_prior
from ..releases._options import ball_or_search
from ..statistics import PublicPrior
from ..statistics._class_view import ClassView, public_accuracy
from ..statistics._membership import Membership
from ..statistics._tangent_mean import log_flagged
from ._classifier_plan import ClassifierRow, plan_private_classifier, plan_with_prior
from ._fit import Fit
from ._matrices import LabelledMatrices, OfLabelledMatrices


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateTSClassifier(OfLabelledMatrices, ClassifierMixin, BaseEstimator):
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

    With a `PublicPrior` there is no search, and public records say in which directions matrices
    spread and, if they have these classes, where the classes lie. Contrasts of class means are all
    that is released; they are moved towards the public ones as far as they agree with them. The
    public model alone comes with every such fit, with what it is worth on public people.

    Args:
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball`, whose centre is that of the tangent space and to whose radius vectors
            are shortened; or an `AdaptiveBall`; or a `PublicPrior`, which needs delta > 0. None
            means `AdaptiveBall()`.
        labels: "public" or "private"; see the guarantee. Private labels cost no more noise.
        classes: The possible labels, public. Required for private labels.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`. Refused without a public `Ball`.
        recenter: Whether matrices that are classified are moved first, those of each person by that
            person's own mean; with a `PublicPrior` only. It costs no privacy: a person's matrices
            are compared with that person's others. With `groups` a fit does so in any case.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        classes_: The classes.
        coef_: Shape (classes, dim): scores are <coef_, y> + intercept_, y the coordinates of the
            shortened tangent vector in an orthonormal frame at `reference_`.
        intercept_: Shape (classes,).
        reference_: The centre: the public one, or the one that was found privately.
        ball_: The ball: the public one, or the one that was found privately; None with a prior.
        public_coef_, public_intercept_: The public model alone, made of no private record; None
            without a `PublicPrior` that has these classes. `public_predict` uses it.
        public_accuracy_: Its accuracy on public people, each left out of what it is made of; None
            where fewer than two are known. It is not that on private people.
        rule_: "discriminant", "class-means" or, with a `PublicPrior`, "contrasts".
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
        being the number of people. With a `PublicPrior` one record changes the contrasts of class
        sums (over the clip radius) by at most 2 sqrt(1 - min n_a^2 / sum n_a^2) for public labels,
        sums and sizes by 2 for private ones; one person the sum of people's contrasts by 2.

    Source:
        Barachant et al. 2012 (tangent space classification); Vu and Slavkovic 2009 and Sheffet 2017
        (sufficient statistics with noise).
        Proof: docs/proofs/classifiers.md;
        docs/proofs/people.md (`groups`).

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

    ball: Ball | AdaptiveBall | PublicPrior | None = None
    count_outside: bool | None = None
    recenter: bool = False

    def fit(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
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
        return self._spent_on(self._prepared(X, y, sample_weight, groups))

    def _prepared(self, X: RecordsLike, y: ArrayLike, sample_weight: None, groups: object) -> Fit:
        """Everything of a fit that can be refused."""
        self._check_options()
        given = self.ball
        where = given if isinstance(given, PublicPrior) else ball_or_search(given)
        admitted = self._labelled(X, y, sample_weight, groups, where)
        sizes = admitted.sizes() if self.labels == "public" else None
        view: ClassView | None = None
        if isinstance(admitted.where, PublicPrior):
            plan, ready, view = self._with_prior(admitted, admitted.where, sizes)
        else:
            plan, ready = self._in_ball(admitted, sizes)
        plan.warn(type(self).__name__)
        query = f"linear classifier of {len(admitted.classes)} classes in a tangent space"
        known = {"manifold": admitted.manifold, "budget": admitted.budget, "query": query}
        ready = ready.then(lambda release: release._knowing(known))
        return Fit(ready, admitted.budget, functools.partial(self._show_fit, admitted, plan, view))

    def _show_fit(
        self, admitted: LabelledMatrices, plan: ClassifierRow, view: ClassView | None, made: Release
    ) -> None:
        """What follows from the release, and the public model."""
        self._show(made)
        self.manifold_, self.classes_ = admitted.manifold, admitted.classes
        self.plan_, self.rule_ = plan, plan.mechanism
        alone = None if view is None else view.alone()
        self._view, self.public_accuracy_ = view, plan.public_accuracy
        self.public_coef_ = None if alone is None else alone.coefficients
        self.public_intercept_ = None if alone is None else alone.intercepts
        where: Any = self.ball_ if view is None else admitted.where
        self.reference_ = np.asarray(where.center)
        self.coef_, self.intercept_ = made.value[:, :-1], made.value[:, -1]

    def _check_options(self) -> None:
        """Refuse what does not go with a prior, or without one."""
        if not isinstance(self.recenter, bool):
            raise invalid("recenter", self.recenter, "give True or False")
        if isinstance(self.ball, PublicPrior):
            if self.count_outside:
                remedy = "with a PublicPrior nothing is counted; leave it out"
                raise invalid("count_outside", self.count_outside, remedy)
        elif self.recenter:
            raise invalid("recenter", True, "it goes with ball=riemdp.PublicPrior(...)")

    def _in_ball(
        self, admitted: LabelledMatrices, sizes: list[int] | None
    ) -> tuple[ClassifierRow, Ready]:
        counted = self.count_outside
        (plan,) = plan_private_classifier(
            admitted.manifold,
            admitted.n,
            len(admitted.classes),
            admitted.budget,
            ball=admitted.ball,
            count_outside=counted,
        )
        return plan, admitted.prepared(admitted.of_classes(DiscriminantNoise, sizes), counted)

    def _with_prior(
        self, admitted: LabelledMatrices, prior: PublicPrior, sizes: list[int] | None
    ) -> tuple[ClassifierRow, Ready, ClassView]:
        classes = admitted.classes.tolist()
        mechanism = PriorClassifier(
            prior,
            classes,
            n=admitted.n,
            budget=admitted.budget,
            sizes=sizes,
            of_people=admitted.members is not None,
        )
        accuracy = public_accuracy(prior, tuple(classes), self.recenter)
        plan = plan_with_prior(mechanism, admitted.budget, accuracy)
        value = LabelledRecords(admitted.matrices, admitted.labels, admitted.members)
        ready = admitted.prepared_by(mechanism, value)
        alone = mechanism.view.alone()
        facts = facts_of_prior(alone, _in_words(alone is not None, accuracy))
        known = {**facts, "public_accuracy": accuracy}
        return plan, ready.then(lambda release: release._knowing(known)), mechanism.view

    # ---------------------------------------------------------------- using the classifier
    def _coordinates(self, X: RecordsLike, groups: object) -> np.ndarray:
        """What coefficients are multiplied with; a matrix that is no point counts as the centre."""
        check_is_fitted(self, "coef_")
        if groups is not None and not self.recenter:
            raise invalid("groups", "given", "it goes with recenter=True; leave it out")
        if self._view is None:
            return self._clipped_tangents(X)
        matrices, count = admit_records(self.manifold_, "X", X)
        y = log_flagged(self.manifold_, self.reference_, matrices)[0]
        if not self.recenter:
            return y
        return self._view.recentred(y, None if groups is None else Membership(groups, count))

    def _scores(self, X: RecordsLike, groups: object = None) -> np.ndarray:
        """One score for each matrix and class."""
        return self._coordinates(X, groups) @ self.coef_.T + self.intercept_

    def decision_function(self, X: RecordsLike) -> np.ndarray:
        """Scores, shape (n, classes); with two classes their difference, shape (n,), as usual in
        scikit-learn.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: RecordsLike, groups: object = None) -> np.ndarray:
        """The class with the largest score, for each matrix.

        Args:
            X: Matrices, shape (n, k, k).
            groups: With `recenter`, one label of a person for each; None: all are of one person.
        """
        largest = np.argmax(self._scores(X, groups), axis=1)  # says so where nothing was fitted
        return self.classes_[largest]

    def public_predict(self, X: RecordsLike, groups: object = None) -> np.ndarray:
        """What the public model alone says, which no private record is in; see `predict`."""
        y = self._coordinates(X, groups)
        if self.public_coef_ is None or self.public_intercept_ is None:
            raise InvalidArgument(
                "there is no public model: fit with ball=riemdp.PublicPrior(manifold, X, y) whose"
                " public records have these classes"
            )
        return self.classes_[np.argmax(y @ self.public_coef_.T + self.public_intercept_, axis=1)]

    def predict_proba(self, X: RecordsLike) -> np.ndarray:
        """Softmax of the scores, shape (n, classes): for the rule "discriminant" the probabilities
        of Gaussian classes of equal size with the released covariance.
        """
        return softmax(self._scores(X), axis=1)


def _in_words(labelled: bool, accuracy: float | None) -> str:
    """What the public classifier is worth alone."""
    if not labelled:
        return "nothing: the public records have no labels of these classes"
    if accuracy is None:
        return "the public classifier alone; its accuracy was not measured, on too few people"
    return (
        f"the public classifier alone, right for {100 * accuracy:.0f} % of the records of public"
        " people (measured on public people, each left out of what it is made of)"
    )
