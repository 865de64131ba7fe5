"""`PrivateTLScale`: matrices of a subject, stretched to one dispersion about a private mean."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._errors import invalid, real
from ..domains import Ball
from ..manifolds import SPDBuresWasserstein
from ..mechanisms import Release, VarianceNoise
from ..mechanisms._base import AbstractReady, Ready
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._variance import variance_facts
from ..statistics._membership import unit_of
from ._matrices import AdmittedMatrices
from ._means import FittedPoints, admitted_points
from ._transfer import AbstractTransfer

_OF_MEAN = Fraction(3, 4)  # of a domain's budget; a dispersion is one number
_REACH = 2.0  # over the radius that a search finds: what is cut off a distance biases a dispersion


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateTLScale(AbstractTransfer):
    """Stretch the matrices of each subject about their private mean, so that their dispersion is
    the same: x becomes exp_m(s log_m x), s^2 = `final_dispersion` over the released dispersion.

    Takes the place of `pyriemann.transfer.TLScale`, usually after `PrivateTLCenter`. Of each domain
    the mean and the mean squared distance from it are released under one charge. Scaled matrices
    are one per record, so **not private**.

    Args:
        target_domain: As in `PrivateTLCenter`.
        final_dispersion: The mean squared distance from the mean that each domain is given.
        centered_data: Whether the centre of the public `ball` is the mean of every domain already,
            as the identity is after `PrivateTLCenter`. Then no mean is released, and the dispersion
            gets the whole budget.
        metric: "riemann" or "logeuclid", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)` of one whole `fit`, once for all domains together, which
            **every call of `fit` spends**. Required.
        ball: A public `Ball` for the matrices of every domain, or an `AdaptiveBall`; None means
            `AdaptiveBall()`. Distances from the mean are cut off at the radius, twice that of a
            ball that was found.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        centers_: The mean of each domain: released, or the centre of the ball.
        scales_: The dispersion of each domain: the released one, and at least the standard
            deviation of its noise.
        releases_: The `Release` of the dispersion of each domain; with a mean, of (mean,
            dispersion).
        guarantee_: The `Guarantee` of all domains together.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, domains public, as for `PrivateTLCenter`. Of a domain of n matrices the mean
        has three quarters of the budget (of mu^2; of epsilon with delta = 0), and the dispersion
        about the *released* mean, of sensitivity r^2 / n, the rest. It protects one matrix (a
        trial), not a subject; with `groups` everything of one person.

    Source:
        Rodrigues et al. 2018 (Riemannian Procrustes analysis).
        Proof: docs/proofs/second-moment.md; docs/proofs/classifiers.md, Lemma 1.

    Examples:
        >>> import numpy as np, riemdp
        >>> v = np.random.default_rng(0).normal(size=(6000, 2)) * np.repeat([[0.3], [0.9]], 3000, 0)
        >>> X = np.exp(v)[:, :, None] * np.eye(2)
        >>> scale = riemdp.PrivateTLScale(budget=riemdp.Budget(1.0, 1e-6))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)) as ledger:
        ...     new = scale.fit_transform(X, domains=np.repeat(["a", "b"], 3000))
        >>> one, two = (np.mean(np.log(part[:, 0, 0]) ** 2) for part in np.split(new, 2))
        >>> bool(0.5 < one / two < 2.0)
        True
    """

    what: ClassVar[str] = "dispersions"

    final_dispersion: float = 1.0
    centered_data: bool = False

    def _part(self, domain: AdmittedMatrices, budget: Budget) -> AbstractReady[Any]:
        real("final_dispersion", self.final_dispersion, above=0.0)
        if not isinstance(self.centered_data, bool):
            raise invalid("centered_data", self.centered_data, "give True or False")
        if isinstance(domain.manifold, SPDBuresWasserstein):
            remedy = 'a stretched matrix may leave this space; give "riemann" or "logeuclid"'
            raise invalid("metric", self.metric, remedy)
        people = None if domain.members is None else domain.members.places
        matrices = np.asarray(domain.matrices)
        given = admitted_points(domain.manifold, domain.ball, matrices, people)
        asked = FittedPoints(domain.manifold, domain.ball, budget, *given)
        public = isinstance(domain.ball, Ball)

        def after(ball: Ball, rest: Noise) -> Ready:
            reach = 1.0 if public else _REACH
            return _dispersion(asked, Ball(ball.center, reach * ball.radius), rest)

        if not self.centered_data:
            return asked.mean_then(after, self.what, _OF_MEAN, width=1)
        if not isinstance(domain.ball, Ball):
            remedy = "it goes with a public ball about the common mean; leave it out"
            raise invalid("centered_data", True, remedy)
        return _dispersion(asked, domain.ball, budget)

    def _keep_parts(self, given: AdmittedMatrices) -> None:
        self.centers_, self.scales_ = {}, {}
        for name, made in self.releases_.items():
            release: Release = made[1] if isinstance(made, tuple) else made
            assert release.facts.ball is not None
            self.centers_[name] = np.asarray(release.facts.ball.center)
            # what is not above its noise may as well be that noise
            self.scales_[name] = max(float(release.value), _deviation(release))

    def _moved(self, X: NDArray[Any], name: str) -> NDArray[Any]:
        center = self.centers_[name]
        factor = math.sqrt(float(self.final_dispersion) / self.scales_[name])
        return np.asarray(self.manifold_.exp(center, factor * self.manifold_.log(center, X)))


def _deviation(release: Release) -> float:
    """The standard deviation of the noise of a released number."""
    assert release.observation is not None
    return math.sqrt(release.observation.lengths.mean_square)


def _dispersion(asked: FittedPoints, ball: Ball, budget: Budget | Noise) -> Ready:
    """The mean squared distance from the centre of a ball, up to its charge."""
    mechanism = VarianceNoise(asked.manifold, ball, n=asked.n, budget=budget)
    found, spent = not isinstance(asked.ball, Ball), mechanism.quoted_budget
    told = variance_facts(asked.manifold, ball, asked.n, spent, asked.grouped, found=found)
    ready = mechanism._ready(asked.points, unit_of(asked.grouped))
    return ready.then(lambda release: release._knowing(told))
