"""`PrivateTangentSpace`: tangent vectors at a private mean."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument
from ..domains import AdaptiveBall, Ball
from ..manifolds._base import RecordsLike
from ..releases import private_frechet_mean
from ._matrices import OfMatrices, refuse_damaged
from ._means import composable
from ._shared import check_seed


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateTangentSpace(
    OfMatrices, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Tangent vectors of matrices at their mean, the mean released with differential privacy.

    Takes the place of `pyriemann.tangentspace.TangentSpace` in a pipeline: `fit`, `transform`,
    `inverse_transform`, `reference_`. `transform(X)` gives coordinates of log(x) in an orthonormal
    frame at `reference_`, shape (n, k (k + 1) / 2): one row per record, so **not private**.
    Inner products are those of pyRiemann's vectors; the frame is another one. **A model that is
    trained on these rows reads the records again**, and its cost is not part of this guarantee:
    follow it with a private one, or use `PrivateTSClassifier`, which does both for one budget.

    Args:
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball`, or an `AdaptiveBall`; None means `AdaptiveBall()`. In a public ball
            noise is that of "wrapped-gaussian", or "wrapped-laplace" where delta = 0.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        reference_: The released mean, the base of the tangent space.
        ball_: The `Ball` that was used: the one given, or the one that was found (released).
        guarantee_: Its `Guarantee`.
        release_: The whole `Release`.
        outside_: The `OutsideCount`; None where it was left out, and without a public `Ball`.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        That of `riemdp.private_frechet_mean`, replace-one: `guarantee_.epsilon(budget.delta) <=
        budget.epsilon`. With `groups` the same, neighbours differing in everything of one person.

    Source:
        Barachant et al. 2012 (tangent space).
        Proof: docs/proofs/mean-sensitivity.md, docs/proofs/private-ball.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.stack([np.diag([1.0, v]) for v in np.linspace(0.5, 2.0, 400)])
        >>> space = riemdp.PrivateTangentSpace(budget=riemdp.Budget(1.0, 1e-6))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)) as ledger:
        ...     space.fit(X).transform(X).shape
        (400, 3)
    """

    ball: Ball | AdaptiveBall | None = None
    count_outside: bool | None = None

    def fit(
        self,
        X: RecordsLike,
        y: object = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release the mean and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: Ignored.
            sample_weight: Refused.
            groups: One label of a person for each matrix. Then everything of one person is
                protected, and every person counts once; see `riemdp.private_frechet_mean`.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        manifold, ball, budget = self._space(X, sample_weight, self.ball)
        refuse_damaged(self, manifold, X)
        release = private_frechet_mean(
            manifold,
            X,
            ball,
            budget,
            rng=check_seed(self.random_state),
            groups=groups,
            **composable(ball, budget, self.count_outside),
        )
        self.manifold_ = manifold
        self.reference_ = np.asarray(release.value)
        self._keep_cost(release.guarantee, budget, reproducible=release.reproducible)
        self._show(release)
        return self

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Tangent coordinates of each matrix, shape (n, k (k + 1) / 2): not private."""
        check_is_fitted(self, "reference_")
        return self._tangents(self.reference_, X)

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """The matrices with these tangent coordinates, shape (n, k, k)."""
        check_is_fitted(self, "reference_")
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.manifold_.dim:
            raise InvalidArgument(
                f"argument `X` has shape {rows.shape}; give (n, {self.manifold_.dim}) tangent"
                " coordinates"
            )
        vectors = self.manifold_.from_coordinates(self.reference_, rows)
        return np.asarray(self.manifold_.exp(self.reference_, vectors))

    @property
    def _n_features_out(self) -> int:
        return self.manifold_.dim
