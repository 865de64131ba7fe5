"""`PrivateFrechetMean`: the private mean as a scikit-learn estimator."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid, one_of
from ..domains import AdaptiveBall, Ball
from ..domains._check import refuse_invalid
from ..domains._door import admit_manifold
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..privacy import Budget
from ..releases import private_frechet_mean
from ..statistics import PublicPrior
from ._shared import (
    ON_INVALID,
    REMEDY,
    ManifoldRecords,
    check_seed,
    refuse_weights,
    required,
)


class PrivateFrechetMean(
    ManifoldRecords, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Frechet mean of records on a manifold, released with differential privacy by `fit`.

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
        on_invalid: "raise" refuses records that are no points; "center" counts each as the centre.
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

    def __init__(
        self,
        *,
        manifold: AbstractManifold | None = None,
        budget: Budget | None = None,
        ball: Ball | AdaptiveBall | PublicPrior | None = None,
        mechanism: str = "auto",
        n_min: int | None = None,
        on_invalid: str = "raise",
        count_outside: bool | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.budget = budget
        self.ball = ball
        self.mechanism = mechanism
        self.n_min = n_min
        self.on_invalid = on_invalid
        self.count_outside = count_outside
        self.random_state = random_state

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
        refuse_weights(sample_weight)
        required(self, manifold=self.manifold, budget=self.budget)
        if not isinstance(self.ball, Ball | AdaptiveBall | PublicPrior | None):
            remedy = "give a riemdp.Ball, PublicPrior or AdaptiveBall, or None"
            raise InvalidArgument(f"PrivateFrechetMean: {invalid('ball', self.ball, remedy)}")
        assert self.budget is not None
        admit_manifold(self.manifold, X, "PrivateFrechetMean(manifold, budget)")
        assert self.manifold is not None
        if one_of("on_invalid", self.on_invalid, ON_INVALID) == "raise":
            refuse_invalid(self.manifold, "X", X, REMEDY)
        release = private_frechet_mean(
            self.manifold,
            X,
            self.ball,
            self.budget,
            mechanism=self.mechanism,
            rng=check_seed(self.random_state),
            n_min=self.n_min,
            count_outside=self.count_outside,
            groups=groups,
        )
        self._keep(release, self.budget)
        self.mean_ = release.value
        self.n_samples_ = release.facts.n
        return self

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Coordinates of each record in an orthonormal frame at `mean_`, shape (n, dim).

        One row per record, so not private.
        """
        check_is_fitted(self, "mean_")
        assert self.manifold is not None
        return np.asarray(
            self.manifold.to_coordinates(self.mean_, self.manifold.log(self.mean_, X))
        )

    def score(self, X: RecordsLike, y: object = None) -> float:
        """Minus the mean squared distance of the records to `mean_`: no noise, not private."""
        check_is_fitted(self, "mean_")
        assert self.manifold is not None
        return -float(np.mean(np.asarray(self.manifold.squared_dist(self.mean_, X))))

    @property
    def _n_features_out(self) -> int:
        assert self.manifold is not None
        return int(self.manifold.dim)
