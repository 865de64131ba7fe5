"""`PrivateTSRegressor`: a linear regression in the tangent space at a private centre."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, real
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._regression import RegressionNoise, TargetRange, admit_targets
from ..statistics._membership import Membership
from ._fit import Fit
from ._matrices import AdmittedMatrices, OfMatrices, refuse_damaged
from ._regressor_plan import RegressorRow, plan_private_regressor, told_of_fit
from ._shared import REMEDY, required


@dataclasses.dataclass(eq=False, repr=False)
class PrivateTSRegressor(OfMatrices, RegressorMixin, BaseEstimator):
    """Ridge regression of a number (age, dose, force) on matrices, in the tangent space at a
    private centre, all of it private. A record is one matrix with its target.

    Takes the place of `pyriemann.regression` and of a `TangentSpace` with scikit-learn's `Ridge`
    behind it: `fit`, `predict`, `score`, `coef_`, `intercept_`. A share of the budget finds a
    centre and a radius, from all matrices and no target; matrices become tangent vectors at the
    centre, shortened to the radius. One release then gives the second moments of vectors and
    targets, of which everything else is made: coefficients, intercept, residual variance.

    Args:
        target_range: (low, high), public: each target is moved into it by itself, and so is each
            prediction. Required. Noise grows with its length.
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball`, whose centre is that of the tangent space and to whose radius vectors
            are shortened; or an `AdaptiveBall`. None means `AdaptiveBall()`.
        alpha: The ridge, at least 0: the fit minimises mean (t - w z)^2 + alpha |w|^2 of vectors z
            of length at most 1 and targets t in [-1, 1]. None: the size of the noise, a public
            number. Eigenvalues of the noisy moments are never taken for less than that.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite, and targets
            that are no finite numbers; "center" counts them as the centre, and as the middle of the
            range.
        count_outside: As in `riemdp.private_frechet_mean`. Refused without a public `Ball`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        coef_: Shape (dim,): a prediction is <coef_, y> + intercept_, moved into the range, y the
            coordinates of the shortened tangent vector in an orthonormal frame at `reference_`.
        intercept_: The prediction at `reference_`.
        residual_std_: The root mean squared residual of the records, estimated from what was
            released: the part of the noise is taken out on average. It is never stated below the
            noise that is left in it.
        reference_: The centre: the public one, or the one that was found privately.
        ball_: The ball: the public one, or the one that was found privately.
        plan_: The row of `riemdp.plan_private_regressor` for these public numbers.
        guarantee_: The `Guarantee` of everything.
        release_: The `Release`.
        outside_: The `OutsideCount`; None where it was left out, and without a public `Ball`.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, number of records public: neighbours differ in one pair (matrix, target).
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).
        Search and regression share the budget. One pair moves the second moments of (c z, s,
        t / sqrt(2)), c^2 + s^2 = 1, by at most 3 / (sqrt(2) n). With `groups` the same, neighbours
        differing in everything of one person, and n being the number of people.

    Source:
        Sabbagh et al. 2019 (regression in the tangent space); Sheffet 2017 and Wang 2018
        (sufficient statistics with noise).
        Proof: docs/proofs/regression.md; docs/proofs/people.md (`groups`).

    Examples:
        >>> import numpy as np, riemdp
        >>> rng = np.random.default_rng(0)
        >>> age = rng.uniform(20.0, 80.0, 2000)
        >>> power = np.exp((age[:, None] - 50.0) / 30.0 * [0.5, -0.5])
        >>> a = rng.normal(size=(2000, 2, 40)) * np.sqrt(power)[:, :, None]
        >>> X = a @ a.transpose(0, 2, 1) / 40
        >>> model = riemdp.PrivateTSRegressor((20.0, 80.0), budget=riemdp.Budget(1.0, 1e-5))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-4)) as ledger:
        ...     model.fit(X, age).score(X, age) > 0.5
        True
    """

    target_range: tuple[float, float] | None = None
    _: dataclasses.KW_ONLY
    ball: Ball | AdaptiveBall | None = None
    count_outside: bool | None = None
    alpha: float | None = None

    def fit(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> Self:
        """Release the regression and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: One number for each.
            sample_weight: Refused.
            groups: One label of a person for each matrix. Then everything of one person is
                protected, the targets too, and every person counts once. How many records anybody
                has is private.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        return self._spent_on(self._prepared(X, y, sample_weight, groups))

    def _prepared(self, X: RecordsLike, y: ArrayLike, sample_weight: None, groups: object) -> Fit:
        """Everything of a fit that can be refused."""
        admitted, targets = self._admitted(X, y, sample_weight, groups)
        alpha = None if self.alpha is None else real("alpha", self.alpha, at_least=0.0)
        (plan,) = plan_private_regressor(
            admitted.manifold,
            admitted.n,
            admitted.budget,
            ball=admitted.ball,
            count_outside=self.count_outside,
        )
        plan.warn(type(self).__name__)
        make = functools.partial(
            RegressionNoise,
            admitted.manifold,
            admitted.ball,
            n=admitted.n,
            targets=targets,
            alpha=alpha,
            people=admitted.members is not None,
        )
        known = told_of_fit(plan, admitted.manifold, targets, admitted.members is not None)
        ready = admitted.prepared(make, self.count_outside)
        ready = ready.then(lambda release: release._knowing(known))
        return Fit(ready, admitted.budget, functools.partial(self._show_fit, plan, targets))

    def _show_fit(self, plan: RegressorRow, targets: TargetRange, release: Release) -> None:
        """What follows from the release."""
        self._show(release)
        self.manifold_: Any = release.facts.manifold
        self.plan_, self.range_ = plan, targets
        self.reference_ = np.asarray(self.ball_.center)
        self.coef_, self.intercept_ = release.value[:-1], float(release.value[-1])
        self.residual_std_ = float(release.details["residual_std"])

    def _admitted(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None, groups: object
    ) -> tuple[AdmittedMatrices, TargetRange]:
        """The matrices and targets, all checked before anything is spent."""
        required(self, target_range=self.target_range)
        manifold, ball, budget = self._space(X, sample_weight, self.ball)
        targets = TargetRange(self.target_range)
        matrices, n = admit_records(manifold, "X", X)
        numbers = admit_targets(y, n)
        members = None if groups is None else Membership(groups, n)
        refuse_damaged(self, manifold, X)
        if self.on_invalid == "raise" and not np.all(np.isfinite(numbers)):
            count = int(np.count_nonzero(~np.isfinite(numbers)))
            raise InvalidArgument(
                f"argument `y` has {count} targets that are no finite numbers; {REMEDY}, and as the"
                " middle of target_range"
            )
        return AdmittedMatrices(manifold, ball, budget, matrices, numbers, members), targets

    def predict(self, X: RecordsLike) -> np.ndarray:
        """The target of each matrix, in the public range, shape (n,). A matrix that is no point
        counts as the centre.
        """
        check_is_fitted(self, "coef_")
        found = self._clipped_tangents(X) @ self.coef_ + self.intercept_
        return np.clip(found, self.range_.low, self.range_.high)
