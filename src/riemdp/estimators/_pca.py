"""`PrivatePCA`: leading eigenvectors of the second-moment matrix of clipped rows."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._errors import InvalidArgument, integer, invalid, magnitude
from ..domains._check import refuse_invalid
from ..domains._reading import taken, unmasked
from ..domains._stacks import admit_stack
from ..inference._counts import warn_of_counts
from ..manifolds import Euclidean
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._second_moment import (
    AbstractSecondMoment,
    AdaptiveSecondMoment,
    SecondMomentNoise,
    spectrum,
)
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..statistics._membership import Membership
from ..statistics._second_moment import of_rows
from ._shared import Spending, check_seed, required, signed

PRIVATE = "private"  # a row norm that is found with a share of the budget
LARGEST_MATRIX = 8192  # columns: 0.5 GiB for one d x d matrix
_REMEDY = 'correct them, or give on_invalid="center" to count each as a row of zeros'


@dataclasses.dataclass(eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Spending, BaseEstimator):
    """Principal components of the rows of a table, released with differential privacy.

    Components are the leading eigenvectors of A = (1/n) sum z z^T, z being a row after `center` is
    subtracted and its length is clipped to `row_norm`. **Nothing is centred or scaled by the
    data**: that would be another release. `transform(X)` is one row per record and so **not
    private**.

    Noise is added to A ("input perturbation"), which costs an error of about z R^2 sqrt(k (d - k))
    / n, z the noise multiplier of the budget. A gradient of the k-component problem, averaged over
    n rows, has replace-one sensitivity R^2 / n in units of A W, so T noisy gradients with the
    budget split among them leave, even when they are averaged perfectly and converge at once, the
    same error: iterating is never better. It is the way for more than 8192 columns, where A does
    not fit in memory: `private_minimize(problems.principal_subspace(d, k), ...)`.

    Args:
        n_components: How many, at most the number of columns. Required.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        row_norm: Public bound R > 0 on the length of a row; longer rows are shortened. Or
            "private": a length between 2^-128 and 2^128 is found by twelve noisy counts of rows,
            with at most 30 % of the budget. Required.
        center: A public vector to subtract, or None.
        on_invalid: "raise" refuses rows with NaN, infinity or text, or (in a list) of another
            length; "center" counts each as a row of zeros.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        components_: Shape (k, d), orthonormal rows.
        guarantee_: The `Guarantee` of the release.
        release_: The whole release; its value is `components_`.
        row_norm_: The length that rows were clipped to: the public one, or the one that was found
            (released).
        noise_scale_: The scale of its noise.
        explained_variance_: Eigenvalues of the *noisy* matrix. They cost nothing more
            (post-processing) and are biased upwards by the noise.
        n_samples_: The number of rows; with `groups` of people.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, n public. Input perturbation: |z z^T - z' z'^T|_F <= sqrt(2) R^2, so A has
        sensitivity sqrt(2) R^2 / n; Gaussian noise in an orthonormal frame of the symmetric
        matrices (delta > 0), or noise of density exp(-|E|_F epsilon n / (sqrt(2) R^2)) (delta = 0).
        With row_norm="private" the counts and the matrix share the budget: the whole is mu-GDP with
        mu = 1 / gaussian_noise_multiplier(budget), or (epsilon, 0). Whether n is enough for it is
        decided from public numbers, before any row is read. With `groups` the same, neighbours
        differing in everything of one person and n being the number of people.

    Source:
        Han2024 section 6 (GMIP baseline) with the sharper constant sqrt(2) R^2 / n;
        docs/proofs/private-ball.md (row_norm="private").
        Proof: docs/proofs/second-moment.md; docs/proofs/people.md (`groups`).
    """

    n_components: int | None = None
    _: dataclasses.KW_ONLY
    row_norm: float | str | None = None
    center: ArrayLike | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True  # text is read here, row by row: see `_rows`
        return tags

    def fit(
        self, X: RecordsLike, y: object = None, groups: object = None, **unsupported: object
    ) -> Self:
        """Release the components of a table and charge the ledger.

        Args:
            X: Rows, shape (n, d). The number of columns is public. Of a list it is the length of
                `center`, or the length that most rows have.
            y: Ignored.
            groups: One label of a person for each row. Then everything of one person is protected,
                n is the number of people, and a person counts once, by the mean of z z^T over that
                person's rows. How many rows anybody has is private.
            **unsupported: `sample_weight` is refused by name, for weights from data would change
                the sensitivity. (As a parameter of its own scikit-learn would take it for
                supported.)

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a row cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        weights = unsupported.pop("sample_weight", None)
        if unsupported:
            raise TypeError(f"PrivatePCA.fit has no argument {min(unsupported)!r}")
        given = {"n_components": self.n_components, "row_norm": self.row_norm}
        budget = required(self, weights, **given)
        bound = None
        if self.row_norm != PRIVATE:
            bound = magnitude("row_norm", self.row_norm, power=2)
        seed = check_seed(self.random_state)
        rows = self._rows(X, reset=True)
        n, d = rows.shape
        members = None if groups is None else Membership(groups, n)
        n = n if members is None else members.n
        k = integer("n_components", self.n_components, at_least=1, at_most=d)
        noise = self._noise(budget, d, n, bound, members is not None)
        warn_of(noise.guarantee, budget.delta, n)
        release = noise.release((rows, members), seed)
        values, vectors = spectrum(release.value, d)
        self.components_ = signed(vectors[:, ::-1][:, :k].T)
        self.explained_variance_ = values[::-1][:k].copy()
        self.row_norm_ = float(release.details["row_norm"])
        self.release_ = self._described(release)
        self.noise_scale_ = float(release.scale)
        self.n_samples_ = n
        self._keep_cost(release.guarantee, budget, reproducible=release.reproducible)
        warn_of_counts(release.facts.valid)
        return self

    def _noise(
        self, budget: Budget, d: int, n: int, bound: float | None, people: bool
    ) -> AbstractSecondMoment:
        """Noise on the matrix of rows of at most this length; None: of one that is found."""
        center = self._center(d)
        if d > LARGEST_MATRIX:
            raise InvalidArgument(
                f"argument `X` has {d} columns, and second moments are for at most"
                f" {LARGEST_MATRIX}; take fewer by a public projection, or minimise"
                f" riemdp.problems.principal_subspace({d}, k) with riemdp.private_minimize, which"
                " never forms their matrix. Nothing was spent"
            )
        if bound is None:
            return AdaptiveSecondMoment(d, n=n, budget=budget, center=center, people=people)
        return SecondMomentNoise(of_rows(d, n, bound, center=center, people=people), budget)

    def _described(self, release: Release) -> Release:
        """The release of the components (post-processing), with the public facts of a report."""
        (k, d), bound = self.components_.shape, self.row_norm_
        details = {
            "budget": self.budget,
            "query": f"{k} principal component{'s' if k > 1 else ''} of {d} columns",
            "space": f"rows of {d} numbers",
            "domain": f"rows of length at most {bound:g}"
            + (", found privately" if self.row_norm == PRIVATE else ""),
            "clipping": (
                f"every row longer than {bound:g} is shortened to that length; a row with NaN or"
                " infinity counts as zero"
            ),
        }
        return dataclasses.replace(
            release,
            value=self.components_,
            mechanism=SecondMomentNoise.name,
            words=f"{release.words}, then its leading eigenvectors",
            error_distribution=None,
            facts=release.facts.told(details),
        )

    def _rows(self, X: RecordsLike, *, reset: bool) -> np.ndarray:
        keep = self.on_invalid == "center"
        table = _table(X, None if self.center is None else np.shape(self.center), keep)
        shape = getattr(table, "shape", ())
        if len(shape) == 2 and shape[0] == 0:
            raise invalid("X", f"shape {shape}", "give at least one row")
        with np.errstate(all="ignore"):  # one entry that float64 does not hold would decide
            rows: Any = validate_data(
                self, table, dtype=np.float64, reset=reset, ensure_all_finite=False
            )
        if not keep:
            given = X if isinstance(X, list | tuple) else rows if table is X else unmasked(X)
            refuse_invalid(Euclidean(rows.shape[1]), "X", given, _REMEDY)
        return rows

    def _center(self, d: int) -> np.ndarray:
        if self.center is None:
            return np.zeros(d)
        try:
            center = np.asarray(self.center, dtype=np.float64)
        except (TypeError, ValueError):
            center = np.empty(0)
        if center.shape != (d,) or not np.all(np.isfinite(center)):
            raise invalid("center", center, f"give a finite public vector of length {d}, or None")
        return center

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Coordinates of each row along the components, shape (n, k): one per record, not private.

        Rows are not clipped.
        """
        check_is_fitted(self, "components_")
        rows = self._rows(X, reset=False)
        return (rows - self._center(rows.shape[1])) @ self.components_.T

    def inverse_transform(self, X: RecordsLike) -> np.ndarray:
        """Rows of the original space with the given coordinates."""
        check_is_fitted(self, "components_")
        coordinates = np.asarray(X, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != len(self.components_):
            raise InvalidArgument(
                f"argument `X` has shape {coordinates.shape}; give (n, {len(self.components_)})"
                " coordinates"
            )
        return coordinates @ self.components_ + self._center(self.components_.shape[1])

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def _table(X: Any, shape: tuple[int, ...] | None, keep: bool) -> Any:
    """A table of numbers; one that holds anything else is read row by row.

    scikit-learn would quote the entry that is no number, or print the whole of a vector.

    Args:
        X: The table.
        shape: The public shape of a row, where `center` tells it.
        keep: Whether complex rows count as zero, like others that are no real numbers.
    """
    if hasattr(X, "toarray"):  # sparse; scikit-learn refuses it
        return X
    if isinstance(X, list | tuple):
        read = admit_stack("X", X, shape)
    else:
        X = taken("X", X)
        table = np.asarray(X)
        if table.dtype.kind == "c" and not keep:
            raise InvalidArgument("Complex data not supported: argument `X` holds complex numbers")
        if table.dtype.kind in "fiub" and table.ndim == 2 and not np.ma.isMaskedArray(X):
            return X
        read = admit_stack("X", X, None)
    if read.ndim != 2:
        raise InvalidArgument(
            f"argument `X` has shape {read.shape}. Expected 2D array: rows of the same length,"
            " shape (n, d). Reshape your data using array.reshape(-1, 1) if it has one column"
        )
    columns = getattr(X, "columns", None)
    kind: Any = type(X)
    return read if columns is None else kind(read, columns=columns)
