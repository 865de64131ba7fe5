"""`PrivateFrechetMean`: the private mean as a scikit-learn estimator."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..releases import private_frechet_mean
from ..statistics import PublicPrior
from ._matrices import refuse_damaged
from ._shared import ManifoldRecords, check_seed, required


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateFrechetMean(
    ManifoldRecords, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Fréchet mean of records on a manifold, released with differential privacy by `fit`.

    `transform(X)` gives the coordinates of log_mean_(x) in an orthonormal frame, shape (n, dim):
    features for a linear model. They are one row per record and so are **not private**. `score(X)`
    is minus the mean squared distance to `mean_`; it is computed without noise and is **not
    private** either.

    Args:
        manifold: The space, e.g. `riemdp.SPDAffineInvariant(k)`. Required.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball`, a `PublicPrior` or an `AdaptiveBall`; None means `AdaptiveBall()`.
        mechanism: As in `riemdp.private_frechet_mean`.
        n_min: A public lower bound of the number of records; given, that number is protected too.
        on_invalid: "raise" refuses records that are not points; "center" counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        mean_: The released point.
        ball_: The `Ball` that was used: the one given, or the one that was found (released); None
            with a `PublicPrior`.
        guarantee_: Its `Guarantee`.
        release_: The whole `Release`.
        outside_: The `OutsideCount`; None where it was left out.
        n_samples_: The number of records, of people with `groups`; None where it is protected.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        That of `private_frechet_mean`, under `adjacency`: `guarantee_.epsilon(budget.delta) <=
        budget.epsilon`.

    Source:
        Reimherr2021 Theorems 1 and 2; Utpala2023LE.
        Proof: docs/proofs/mean-sensitivity.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.stack([np.diag([1.0, v]) for v in np.linspace(0.5, 2.0, 400)])
        >>> mean = riemdp.PrivateFrechetMean(
        ...     manifold=riemdp.SPDAffineInvariant(2), budget=riemdp.Budget(1.0, 1e-6)
        ... )
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)) as ledger:
        ...     mean.fit(X).mean_.shape
        (2, 2)
    """

    manifold: AbstractManifold | None = None
    ball: Ball | AdaptiveBall | PublicPrior | None = None
    mechanism: str = "auto"
    n_min: int | None = None
    count_outside: bool | None = None

    def fit(
        self,
        X: RecordsLike,
        y: object = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release the mean of records and charge the ledger.

        Args:
            X: Records, shape (n, *manifold.shape).
            y: Ignored.
            sample_weight: Refused.
            groups: One label of a person for each record. Then everything of one person is
                protected, every person counts once, and `n_samples_` is the number of people; see
                `riemdp.private_frechet_mean`.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        budget = required(self, sample_weight, manifold=self.manifold)
        if not isinstance(self.ball, Ball | AdaptiveBall | PublicPrior | None):
            remedy = "give a riemdp.Ball, PublicPrior or AdaptiveBall, or None"
            raise InvalidArgument(f"PrivateFrechetMean: {invalid('ball', self.ball, remedy)}")
        manifold = admit_manifold(self.manifold, X, "PrivateFrechetMean(manifold, budget)")
        refuse_damaged(self, manifold, X)
        release = private_frechet_mean(
            manifold,
            X,
            self.ball,
            budget,
            mechanism=self.mechanism,
            rng=check_seed(self.random_state),
            n_min=self.n_min,
            count_outside=self.count_outside,
            groups=groups,
        )
        self._keep_cost(release.guarantee, budget, reproducible=release.reproducible)
        self._show(release)
        self.manifold_ = manifold
        self.mean_ = release.value
        self.n_samples_ = release.facts.n
        return self

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Coordinates of each record in an orthonormal frame at `mean_`, shape (n, dim).

        One row per record, so not private.
        """
        check_is_fitted(self, "mean_")
        return self._tangents(self.mean_, X)

    def score(self, X: RecordsLike, y: object = None) -> float:
        """Minus the mean squared distance of the records to `mean_`: no noise, not private."""
        check_is_fitted(self, "mean_")
        return -float(np.mean(np.asarray(self.manifold_.squared_dist(self.mean_, X))))

    @property
    def _n_features_out(self) -> int:
        return int(self.manifold_.dim)
