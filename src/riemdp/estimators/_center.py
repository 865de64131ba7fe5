"""`PrivateTLCenter`: matrices of a subject, re-centred by the subject's private mean."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..mechanisms._base import Ready
from ..mechanisms._for_mean import share_of_count
from ..privacy import Budget
from ..privacy._noise import Noise
from ..releases._mean import prepared_mean
from ._matrices import AdmittedMatrices
from ._means import check_size, composable
from ._transfer import AbstractTransfer


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateTLCenter(AbstractTransfer):
    """Re-centre the matrices of each subject: x becomes m^-1/2 x m^-1/2, m the subject's private
    mean, which protects one trial and not the subject.

    Subjects (domains, sessions) differ by their mean; without it a classifier that was trained on
    some works better on others. Takes the place of `pyriemann.transfer.TLCenter`: `fit`,
    `transform`, `fit_transform`, `centers_`. The re-centred matrices are one per record, so **not
    private**; a classifier after it needs a budget of its own.

    `fit_transform` re-centres each matrix by its own domain's mean. `transform` re-centres all of
    its matrices by one mean, that of `target_domain`: of a domain that `fit` has not seen there is
    none, and pyRiemann's rules for it ("last", and "transductive", a mean of the new matrices) are
    refused. A mean of new matrices is a release: fit another `PrivateTLCenter` on them.

    Args:
        target_domain: The domain whose mean `transform` uses, one of those of `fit`; it may be
            changed by `set_params` after the fit. "" goes where all matrices are of one domain. If
            it is not "", `fit` reads domains from labels as well, see there.
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)` of one whole `fit`, once for all domains together, which
            **every call of `fit` spends**. Required.
        ball: A public `Ball` for the matrices of every domain, or an `AdaptiveBall`; None means
            `AdaptiveBall()`. In a public ball noise is that of "wrapped-gaussian", or
            "wrapped-laplace" where delta = 0.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`, for each domain.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        centers_: The released mean of each domain, a dictionary. They may be published, and
            protect one matrix (a trial) each, or with `groups` everything of one person; without
            `groups` a subject whose trials are a whole domain is not protected by its mean.
        releases_: The `Release` of each domain, a dictionary.
        guarantee_: The `Guarantee` of all domains together.
        outside_: The `OutsideCount` of each domain, a dictionary; without those left out.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one: neighbours differ in one matrix, which stays in its domain; the domains of all
        records, and so their sizes, are public. A matrix is in one domain only, and the means of
        the others do not see it, so every mean has the whole budget and all of them together cost
        it once (parallel composition). delta > 0: mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0). It protects one matrix (a
        trial), not a subject. With `groups` neighbours differ in everything of one person, who
        stays in one domain, and in the place of matrices people are counted.

    Source:
        Zanini et al. 2018 (re-centring).
        Proof: docs/proofs/classifiers.md, Lemma 1; docs/proofs/private-ball.md;
        docs/proofs/people.md (`groups`).

    Examples:
        >>> import numpy as np, riemdp
        >>> X = np.stack([np.diag([1.0, v]) for v in np.linspace(0.5, 2.0, 600)])
        >>> X[300:] *= 9.0
        >>> subject = np.repeat(["a", "b"], 300)
        >>> center = riemdp.PrivateTLCenter(budget=riemdp.Budget(1.0, 1e-6))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)) as ledger:
        ...     new = center.fit_transform(X, domains=subject)
        >>> bool(abs(np.mean(np.log(new[:300, 0, 0])) - np.mean(np.log(new[300:, 0, 0]))) < 0.5)
        True
    """

    what: ClassVar[str] = "centers"

    count_outside: bool | None = None

    def _part(self, domain: AdmittedMatrices, budget: Budget) -> Ready:
        ball, size = domain.ball, domain.n
        check_size(domain.manifold, ball, size, budget)
        share_of_count(Noise.of(budget), size, self.count_outside)
        how = composable(ball, budget, self.count_outside)
        people = None if domain.members is None else domain.members.places
        matrices = np.asarray(domain.matrices)
        mean = prepared_mean(domain.manifold, matrices, ball, budget, groups=people, **how)
        assert isinstance(mean, Ready)
        return mean

    def _keep_parts(self, given: AdmittedMatrices) -> None:
        self.centers_ = {name: np.asarray(r.value) for name, r in self.releases_.items()}
        counts = {name: r.facts.outside for name, r in self.releases_.items()}
        self.outside_ = {name: count for name, count in counts.items() if count is not None}

    def _moved(self, X: NDArray[Any], name: str) -> NDArray[Any]:
        return _recentred(X, self.centers_[name])


def _recentred(X: np.ndarray, center: np.ndarray) -> np.ndarray:
    """c^-1/2 x c^-1/2, each on its own."""
    values, vectors = np.linalg.eigh(center)
    root = (vectors / np.sqrt(values)) @ vectors.T
    new = root @ X @ root
    return (new + new.swapaxes(-1, -2)) / 2
