"""`PrivateTLCenter`: matrices of a subject, re-centred by the subject's private mean."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..domains._labels import is_missing, one_by_one, refuse_two_forms
from ..manifolds._base import RecordsLike
from ..mechanisms._base import Ready
from ..mechanisms._counted import share_of_count
from ..mechanisms._parts import Apart, PublicParts
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import noise_source
from ..releases._mean import prepared_mean
from ..statistics._membership import Membership
from ._matrices import refuse_damaged, space_of
from ._means import check_size, composable
from ._shared import ManifoldRecords, check_seed


class PrivateTLCenter(ManifoldRecords, TransformerMixin, BaseEstimator):
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
        Proof: docs/proofs/class-means.md, Lemma 1; docs/proofs/private-ball.md;
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

    def __init__(
        self,
        target_domain: str = "",
        *,
        metric: str = "riemann",
        budget: Budget | None = None,
        ball: Ball | AdaptiveBall | None = None,
        on_invalid: str = "raise",
        count_outside: bool | None = None,
        random_state: int | None = None,
    ):
        self.target_domain = target_domain
        self.metric = metric
        self.budget = budget
        self.ball = ball
        self.on_invalid = on_invalid
        self.count_outside = count_outside
        self.random_state = random_state

    def fit(
        self,
        X: RecordsLike,
        y: ArrayLike | None = None,
        *,
        domains: ArrayLike | None = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release the mean of each domain and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: Ignored where `domains` is given. With a `target_domain` labels "domain/class" as
                pyRiemann's `encode_domains` makes them, of which the part before the last "/" is
                read and is public. Without both it is ignored, unless all labels are of that form,
                which is refused; that they are is public.
            domains: The domain of each matrix, public. Without domains and without
                `target_domain` all matrices are of one domain, "".
            sample_weight: Refused.
            groups: One label of a person for each matrix. Then everything of one person is
                protected, and every person counts once in the mean of the domain. Which domain a
                person belongs to is public, and it has to be one.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        manifold, ball = space_of(self, X, sample_weight)
        assert self.budget is not None
        budget = self.budget
        matrices, n = admit_records(manifold, "X", X)
        self._refuse_rules()
        of = self._domains(y, domains, n)
        names = sorted(set(of))
        if self.target_domain not in ("", *names):
            raise invalid(
                "target_domain", self.target_domain, f"it is none of the {len(names)} domains"
            )
        members = None if groups is None else Membership(groups, n)
        places = {name: i for i, name in enumerate(names)}
        where = np.array([places[name] for name in of], dtype=np.int64)
        divided = PublicParts(where, len(names), members, what="domains")
        refuse_damaged(self, manifold, X)
        noise = Noise.of(budget)
        for size in divided.sizes:
            check_size(manifold, ball, size, budget)
            share_of_count(noise, size, self.count_outside)
        how = composable(ball, budget, self.count_outside)
        source = noise_source(check_seed(self.random_state))
        whole = noise.guarantee.quoted_at(budget.delta)
        whole = whole if members is None else whole.for_people()
        parts: list[Ready] = []
        for part, own in enumerate(divided.rows):
            records, people = np.asarray(matrices)[own], divided.people(part)
            mean = prepared_mean(manifold, records, ball, budget, groups=people, **how)
            assert isinstance(mean, Ready)
            parts.append(mean)
        warn_of(whole, budget.delta, min(divided.sizes))
        made = Apart(whole, "centers-of-domains", parts, divided).release(source)
        releases = dict(zip(names, made, strict=True))
        self.manifold_ = manifold
        self.releases_ = releases
        self.centers_ = {name: np.asarray(r.value) for name, r in releases.items()}
        counts = {name: r.details.get("outside") for name, r in releases.items()}
        self.outside_ = {name: count for name, count in counts.items() if count is not None}
        self._keep_cost(whole, budget, reproducible=source.reproducible)
        return self

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Matrices of the target domain re-centred by its mean, shape (n, k, k): not private.

        Raises:
            InvalidArgument: Several domains were fitted and `target_domain` names none, or it names
                one that was not fitted.
        """
        check_is_fitted(self, "centers_")
        self._refuse_rules()
        matrices, _ = admit_records(self.manifold_, "X", X)
        name = self.target_domain
        if name == "" and len(self.centers_) == 1:
            (name,) = self.centers_
        if name not in self.centers_:
            raise invalid(
                "target_domain",
                self.target_domain,
                f"{len(self.centers_)} domains were fitted; name the one that the matrices are of:"
                " set_params(target_domain=...), or take fit_transform for those of the fit. A"
                " domain that was not fitted has no mean here: fit a PrivateTLCenter on it",
            )
        return _recentred(np.asarray(matrices), self.centers_[name])

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride] - as in pyRiemann
        self,
        X: RecordsLike,
        y: ArrayLike | None = None,
        *,
        domains: ArrayLike | None = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> np.ndarray:
        """`fit`, then every matrix re-centred by the mean of **its own** domain: not private."""
        self.fit(X, y, domains=domains, sample_weight=sample_weight, groups=groups)
        matrices = np.asarray(admit_records(self.manifold_, "X", X)[0])
        of = self._domains(y, domains, len(matrices))
        out = np.empty_like(matrices)
        for name, center in self.centers_.items():
            own = np.flatnonzero([d == name for d in of])
            out[own] = _recentred(matrices[own], center)
        return out

    def _refuse_rules(self) -> None:
        """pyRiemann's rules for domains that `fit` has not seen are no names of domains."""
        if self.target_domain in ("last", "transductive"):
            raise invalid(
                "target_domain",
                self.target_domain,
                "name a domain of the fit. Another subject's mean does not centre a new subject,"
                " and the mean of the new matrices would be released: fit another PrivateTLCenter"
                " on them, which costs its budget",
            )

    def _domains(self, y: ArrayLike | None, domains: ArrayLike | None, n: int) -> list[str]:
        """The public domain of each record."""
        if domains is None and self.target_domain == "":
            if y is not None and n > 0 and _are_encoded(np.asarray(y)):
                raise InvalidArgument(
                    "argument `y` has labels 'domain/class', and no `target_domain` says that their"
                    " domains are meant; give target_domain=..., or domains=... (one name for all"
                    " matrices makes one domain)"
                )
            return [""] * n
        name, given = ("y", y) if domains is None else ("domains", domains)
        array = np.asarray(given)
        if array.shape != (n,):
            raise InvalidArgument(
                f"argument `{name}` has shape {array.shape}; give one "
                + ("'domain/class'" if domains is None else "domain")
                + f" for each of {n} matrices, or leave out `target_domain` for one domain"
            )
        if any(map(is_missing, one_by_one(given))):
            raise InvalidArgument(
                f"argument `{name}` has domains that are missing (None, NaN, or a text such as"
                " 'nan' that stands for them), which would be re-centred together; leave out these"
                " matrices"
            )
        texts = [str(d) for d in array.tolist()]
        refuse_two_forms(name, texts)
        if domains is not None:
            return texts
        if not _are_encoded(array):
            raise InvalidArgument(
                "argument `y` has labels that are not of the form 'domain/class'; give"
                " domains=..., or leave out `target_domain` for one domain"
            )
        return [t.rpartition("/")[0] for t in texts]


def _are_encoded(labels: np.ndarray) -> bool:
    """Whether all labels are of pyRiemann's form 'domain/class'."""
    return labels.size > 0 and all("/" in str(label) for label in labels.ravel().tolist())


def _recentred(X: np.ndarray, center: np.ndarray) -> np.ndarray:
    """c^-1/2 x c^-1/2, each on its own."""
    values, vectors = np.linalg.eigh(center)
    root = (vectors / np.sqrt(values)) @ vectors.T
    new = root @ X @ root
    return (new + new.swapaxes(-1, -2)) / 2
