"""`PrivatePGA`: principal geodesics through a private mean."""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, integer, real
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold
from ..inference import Query
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import Release, TangentCovarianceNoise
from ..mechanisms._base import Ready
from ..mechanisms._common import needs_log
from ..mechanisms._parts import InTurn
from ..privacy import Guarantee
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import NoiseSource, noise_source
from ..releases._options import ball_or_search
from ..releases._people import facts
from ..sampling._model import tangent_gaussian
from ..statistics._membership import unit_of
from ._matrices import refuse_damaged
from ._means import FittedPoints, admitted_points
from ._shared import ManifoldRecords, check_seed, required, signed

NAME = "principal-geodesics"


@dataclasses.dataclass(frozen=True, eq=False)
class _Asked(FittedPoints):
    """A fit whose arguments were checked.

    Attributes:
        count: How many components are wanted.
        mean_share: The fraction of the budget for the mean.
        seed: What the noise is drawn from; None for the operating system.
    """

    count: int
    mean_share: float
    seed: int | None


@dataclasses.dataclass(eq=False, repr=False)
class PrivatePGA(ManifoldRecords, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal geodesic analysis: the directions in which records scatter about their mean,
    released with differential privacy.

    `fit` releases the Fréchet mean with a share of the budget, and the second moment of the tangent
    vectors at it with the rest; components are the leading eigenvectors of that noisy matrix, which
    costs nothing more. So whatever the records are, components are released and no error is raised
    for eigenvalues that are close. `transform(X)` is one row per record and so **not private**.

    A component whose `explained_variance_` is not well above `noise_floor_` shows noise.

    Args:
        n_components: How many; None for all, the dimension of the space.
        manifold: A space with a logarithm, e.g. `riemdp.SPDAffineInvariant(k)`. Required.
        budget: `Budget(epsilon, delta)` of one whole `fit`, which **every call of `fit` spends**.
            Required.
        ball: A public `Ball`, or an `AdaptiveBall`, estimated with the mean's fraction of the
            budget; None means `AdaptiveBall()`. Tangent vectors at the mean are clipped to its
            radius.
        mean_share: Public fraction of the budget for the mean and the search for a ball: of mu^2
            for delta > 0 (the budget's noise multiplier is 1 / mu), of epsilon for delta = 0.
        on_invalid: "raise" refuses records that are not points; "center" counts each as the centre.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        mean_: The released mean.
        components_: Orthonormal coordinates at `mean_`, shape (n_components, dim), one direction a
            row; `manifold.from_coordinates(mean_, components_[0])` is the tangent vector.
        explained_variance_: Eigenvalues of the noisy matrix, squared distances. They may be
            negative, and the largest is biased upwards by the noise.
        explained_variance_ratio_: Their positive parts over the sum of all positive ones.
        noise_floor_: About the largest eigenvalue of the noise alone; None with delta = 0.
        ball_: The `Ball` about `mean_` that tangent vectors were shortened to.
        guarantee_: The `Guarantee` of mean and components together.
        release_: The `Release` of the components; `releases_` has that of the "mean" and of the
            "covariance", whose guarantees are shares of this one.
        n_samples_: The number of records, of people with `groups`.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, n public. The mean has the guarantee of `riemdp.private_frechet_mean`, and the
        matrix sensitivity sqrt(2) r^2 / n given the mean that was released. Together: mu-GDP with
        mu = 1 / gaussian_noise_multiplier(budget) (delta > 0), or (epsilon, 0). With `groups`
        neighbours differ in everything of one person.

    Source:
        Fletcher et al. 2004 (principal geodesic analysis).
        Proof: docs/proofs/second-moment.md.

    Examples:
        >>> import jax, numpy as np, riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> v = jax.random.normal(jax.random.key(0), (3000, 3)) * np.array([0.5, 0.1, 0.1])
        >>> X = space.exp(space.origin, space.from_coordinates(space.origin, v))
        >>> pga = riemdp.PrivatePGA(n_components=1, manifold=space, budget=riemdp.Budget(1.0, 1e-6))
        >>> with riemdp.Ledger(riemdp.Budget(1.0, 1e-6)):
        ...     pga.fit(X).transform(X).shape
        (3000, 1)
    """

    n_components: int | None = None
    _: dataclasses.KW_ONLY
    manifold: AbstractManifold | None = None
    ball: Ball | AdaptiveBall | None = None
    mean_share: float = 0.3

    def fit(
        self,
        X: RecordsLike,
        y: object = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release mean and components, and charge the ledger.

        Args:
            X: Records, shape (n, *manifold.shape).
            y: Ignored.
            sample_weight: Refused.
            groups: One label of a person for each record. Then everything of one person is
                protected, every person counts once by the mean of the own records, and
                `n_samples_` is the number of people; see `riemdp.private_frechet_mean`.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            NotImplementedError: The space has no logarithm; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        asked = self._asked(X, sample_weight, groups)
        both = self._parts(asked)
        warn_of(both.guarantee, asked.budget.delta, asked.n)
        mean, moment = both.release(asked.seed)
        self._keep_components(asked, mean, moment)
        self.release_ = self._together(asked, both.guarantee)
        self.n_samples_, whole = asked.n, self.release_.guarantee
        self._keep_cost(whole, asked.budget, reproducible=mean.reproducible)
        return self

    def _asked(self, X: RecordsLike, sample_weight: object, groups: object) -> _Asked:
        """What was asked for, checked, and the records, admitted. From public numbers and the form
        of what was given: nothing is spent.
        """
        budget = required(self, sample_weight, manifold=self.manifold)
        manifold = admit_manifold(self.manifold, X, "PrivatePGA(manifold, budget)")
        ball = ball_or_search(self.ball)
        dim = int(manifold.dim)
        wanted = dim if self.n_components is None else self.n_components
        count = integer("n_components", wanted, at_least=1, at_most=dim)
        share = real("mean_share", self.mean_share, above=0.0, below=1.0)
        seed = check_seed(self.random_state)
        needs_log(manifold, "principal geodesic analysis")
        refuse_damaged(self, manifold, X)
        given = admitted_points(manifold, ball, X, groups)
        return _Asked(manifold, ball, budget, *given, count, share, seed)

    def _parts(self, asked: _Asked) -> InTurn:
        """The mean, and the second moment about it, under one charge; all that can be refused is
        refused here.
        """
        share, dim = Fraction(asked.mean_share), asked.manifold.dim
        moment = functools.partial(_moment, asked)
        return asked.mean_then(moment, NAME, share, width=dim * (dim + 1) // 2)

    def _keep_components(self, asked: _Asked, mean: Release, moment: Release) -> None:
        """The components, and what is public of them: functions of what was released."""
        values, vectors = np.linalg.eigh(np.asarray(moment.value))
        count = asked.count
        self.components_ = signed(vectors[:, ::-1][:, :count].T)
        self.explained_variance_ = values[::-1][:count].copy()
        kept = np.maximum(values, 0.0)
        self.explained_variance_ratio_ = np.maximum(self.explained_variance_, 0.0) / max(
            float(kept.sum()), np.finfo(float).tiny
        )
        self.noise_floor_: float | None = moment.details.get("noise_floor")
        self.manifold_ = asked.manifold
        self.mean_: Point = mean.value
        self.ball_ = moment.facts.ball
        spoken = facts(asked.grouped, found=not isinstance(asked.ball, Ball))
        self.releases_ = {"mean": mean._knowing(spoken), "covariance": moment._knowing(spoken)}

    def _together(self, asked: _Asked, whole: Guarantee) -> Release:
        """The release of the components, with the guarantee of both parts."""
        mean, moment = self.releases_["mean"], self.releases_["covariance"]
        count = asked.count
        told = {
            "query": f"{count} principal geodesic{'s' if count > 1 else ''} through a private mean",
            "mean": mean.value,
            "budget": asked.budget,
            "mean_share": asked.mean_share,
            "explained_variance": self.explained_variance_,
        }
        return dataclasses.replace(
            moment,
            value=self.components_,
            guarantee=whole,
            mechanism=NAME,
            words=f"a private mean; {moment.words}; its leading eigenvectors",
            error_distribution=None,
            observation=None,
            budget=asked.budget,
            facts=moment.facts.told(told),
        )

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Coordinates of log(x) at `mean_` along the components, shape (n, n_components): not
        private. Tangent vectors are not shortened.
        """
        check_is_fitted(self, "components_")
        return self._tangents(self.mean_, X) @ self.components_.T

    def inverse_transform(self, X: ArrayLike) -> Point:
        """The points with these coordinates along the components, shape (n, *manifold.shape): with
        one column other than 0, points of a principal geodesic.
        """
        check_is_fitted(self, "components_")
        rows, count = np.asarray(X, dtype=np.float64), len(self.components_)
        if rows.ndim != 2 or rows.shape[1] != count:
            raise InvalidArgument(
                f"argument `X` has shape {rows.shape}; give (n, {count}) coordinates along the"
                " components"
            )
        vectors = self.manifold_.from_coordinates(self.mean_, rows @ self.components_)
        return self.manifold_.exp(self.mean_, vectors)

    def sample(self, n: int, rng: int | NoiseSource | None = None) -> Point:
        """Synthetic records, of what was released: they cost no privacy, however many.

        They are Exp_c(v), c = `mean_` and v normal with the second moment that was released (the
        nearest without negative eigenvalues and with its trace), shortened to the radius of
        `ball_`. So they keep the mean and the second moment at it up to noise, and no more: no
        clusters, no tails, no skewness, no record and no label. All directions are drawn, not the
        components alone.

        Args:
            n: How many, >= 1.
            rng: None (operating system), an int (reproducible) or a `NoiseSource`.

        Returns:
            Points, shape (n, *manifold.shape).

        Source:
            docs/proofs/second-moment.md.
        """
        check_is_fitted(self, "components_")
        moment = np.asarray(self.releases_["covariance"].value)
        radius, count = float(self.ball_.radius), integer("n", n)
        source = noise_source(rng)
        return tangent_gaussian(source, self.manifold_, self.mean_, moment, radius, count)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def _moment(asked: _Asked, ball: Ball, share: Noise) -> Ready:
    """The second moment of the tangent vectors at the centre of a ball, up to its charge."""
    mechanism = TangentCovarianceNoise(asked.manifold, ball, n=asked.n, budget=share)

    def finish(release: Release) -> Release:
        told = {
            "n": asked.n,
            "radius": float(ball.radius),
            "query": Query.MOMENT,
            "unit": "squared distance",
            "manifold": asked.manifold,
            "ball": ball,
            "budget": share.budget,
            "clipping": (
                "every record becomes the tangent vector at the centre that points to it, shortened"
                " to the radius; a record that is not a valid point counts as the centre"
            ),
        }
        if asked.budget.delta > 0:
            told["noise_floor"] = 2.0 * release.scale * (asked.manifold.dim / 2.0) ** 0.5
        return release._knowing(told)

    return mechanism._ready(asked.points, unit_of(asked.grouped)).then(finish)
