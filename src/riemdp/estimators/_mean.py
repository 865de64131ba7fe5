"""`PrivateFrechetMean`: the private mean as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..releases import private_frechet_mean
from ._shared import NotSklearnShaped, check_seed, required


class PrivateFrechetMean(NotSklearnShaped, TransformerMixin, BaseEstimator):
    """Frechet mean of records on a manifold, released with differential privacy by `fit`.

    **Parameters** (keyword-only; the first three are required and public, chosen without looking at
    the records):

    - `manifold`: the space, e.g. `riemdp.SPDAffineInvariant(k)`.
    - `budget`: `Budget(epsilon, delta)`. **Every call of `fit` spends it**, and charges the
      innermost `with Ledger(...)`.
    - `ball`: `Ball(center, radius)`; records are moved into it, invalid ones count as the centre.
    - `mechanism`: see `riemdp.private_frechet_mean`; "auto" chooses by formula.
    - `adjacency`: "replace-one", or "add-or-remove-one" if also the number of records is to be
      protected; then `n_min`, a public lower bound of it, is required (see
      `riemdp.private_frechet_mean`).
    - `random_state`: None for noise from the operating system; an int makes the run reproducible
      and **not private**.

    **Attributes** after `fit`, all public: `mean_`, `guarantee_` (a `Guarantee`), `release_` (the
    whole `Release`), `reproducible_`, `n_samples_` (None under add-or-remove-one, which keeps it
    private).

    `transform(X)` gives the coordinates of log_mean_(x) in an orthonormal frame, shape (n, dim):
    features for a linear model. They are one row per record and so are **not private**. `score(X)`
    is minus the mean squared distance to `mean_`; it is computed from the records it is given
    without noise and is **not private** either.

    Guarantee: that of `private_frechet_mean`, under `adjacency`: `guarantee_.epsilon(budget.delta)
    <= budget.epsilon`.

    Source: Reimherr2021 Theorems 1 and 2; Utpala2023LE.
    """

    def __init__(
        self,
        *,
        manifold: Any = None,
        budget: Any = None,
        ball: Any = None,
        mechanism: str = "auto",
        adjacency: str = "replace-one",
        n_min: int | None = None,
        random_state: int | None = None,
    ):
        self.manifold = manifold
        self.budget = budget
        self.ball = ball
        self.mechanism = mechanism
        self.adjacency = adjacency
        self.n_min = n_min
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the mean of the records X, shape (n, *manifold.shape). `y` is ignored. Raises
        before anything is spent.
        """
        required(self, manifold=self.manifold, budget=self.budget, ball=self.ball)
        release = private_frechet_mean(
            self.manifold,
            X,
            self.ball,
            self.budget,
            mechanism=self.mechanism,
            rng=check_seed(self.random_state),
            adjacency=self.adjacency,
            n_min=self.n_min,
        )
        self.release_ = release
        self.mean_ = release.value
        self.guarantee_ = release.guarantee
        self.reproducible_ = release.reproducible
        n = release.details.get("n")
        self.n_samples_ = None if n is None else int(n)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of each record in an orthonormal frame at `mean_`, shape (n, dim). Per
        record, hence not private.
        """
        check_is_fitted(self, "mean_")
        return np.asarray(
            self.manifold.to_coordinates(self.mean_, self.manifold.log(self.mean_, X))
        )

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared distance of the records to `mean_`. Computed without noise: not
        private.
        """
        check_is_fitted(self, "mean_")
        return -float(np.mean(np.asarray(self.manifold.squared_dist(self.mean_, X))))
