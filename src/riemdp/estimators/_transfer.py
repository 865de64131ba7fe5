"""What the steps of transfer between domains share: whose record is in which domain, one charge
for all domains, and which domain a step is asked about.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_records
from ..domains._labels import is_missing, one_by_one, refuse_two_forms
from ..manifolds._base import RecordsLike
from ..mechanisms._base import AbstractReady
from ..mechanisms._parts import Apart, PublicParts
from ..privacy import Budget
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..randomness import noise_source
from ..statistics._membership import Membership
from ._matrices import AdmittedMatrices, OfMatrices, refuse_damaged
from ._shared import check_seed


@dataclasses.dataclass(eq=False, repr=False)
class AbstractTransfer(OfMatrices, TransformerMixin, BaseEstimator, abc.ABC):
    """A step that releases something of each domain (subject, session) by itself, and moves the
    matrices of a domain by what was released of it. Subclasses release (`_part`) and move.

    Guarantee:
        Replace-one: neighbours differ in one matrix, which stays in its domain; the domains of all
        records are public. Parallel composition: docs/proofs/classifiers.md, Lemma 1.
    """

    target_domain: str = ""
    _: dataclasses.KW_ONLY
    ball: Ball | AdaptiveBall | None = None

    what: ClassVar[str]
    """What is released, in a ledger."""

    @abc.abstractmethod
    def _part(self, domain: AdmittedMatrices, budget: Budget) -> AbstractReady[Any]:
        """What is released of one domain, admitted. All that can be refused is refused here."""

    @abc.abstractmethod
    def _keep_parts(self, given: AdmittedMatrices) -> None:
        """Make what users see of `releases_`: functions of what was released."""

    @abc.abstractmethod
    def _moved(self, X: NDArray[Any], name: str) -> NDArray[Any]:
        """Matrices of this domain, each moved by what was released."""

    def fit(
        self,
        X: RecordsLike,
        y: ArrayLike | None = None,
        *,
        domains: ArrayLike | None = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> Self:
        """Release what belongs to each domain and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: With a `target_domain` and no `domains` labels "domain/class" as pyRiemann's
                `encode_domains` makes them, of which the part before the last "/" is read and is
                public. Classes are read by `PrivateTLRotate` alone. Labels that are all of that
                form are refused where their domains would be ignored; that they are is public.
            domains: The domain of each matrix, public. Without domains and without
                `target_domain` all matrices are of one domain, "".
            sample_weight: Refused.
            groups: One label of a person for each matrix. Then everything of one person is
                protected, and every person counts once. Which domain a person belongs to is
                public, and it has to be one.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        self._refuse_rules()
        given = self._admitted(X, y, domains, sample_weight, groups)
        budget, n = given.budget, len(given.labels)
        of = self._domains(y, domains, n)
        names = sorted(set(of))
        if self.target_domain not in ("", *names):
            raise invalid(
                "target_domain", self.target_domain, f"it is none of the {len(names)} domains"
            )
        places = {name: i for i, name in enumerate(names)}
        where = np.array([places[name] for name in of], dtype=np.int64)
        divided = PublicParts(where, len(names), given.members, what="domains")
        source = noise_source(check_seed(self.random_state))
        whole = Noise.of(budget).guarantee.quoted_at(budget.delta)
        whole = whole if given.members is None else whole.for_people()
        parts: list[AbstractReady[Any]] = []
        for part, own in enumerate(divided.rows):
            people = divided.people(part)
            domain = dataclasses.replace(
                given,
                matrices=np.asarray(given.matrices)[own],
                labels=given.labels[own],
                members=None if people is None else Membership(people, len(own)),
            )
            parts.append(self._part(domain, budget))
        warn_of(whole, budget.delta, min(divided.sizes))
        made = Apart(whole, f"{self.what}-of-domains", parts, divided).release(source)
        self.manifold_ = given.manifold
        self.releases_ = dict(zip(names, made, strict=True))
        self._keep_parts(given)
        self._keep_cost(whole, budget, reproducible=source.reproducible)
        return self

    def _admitted(
        self,
        X: RecordsLike,
        y: ArrayLike | None,
        domains: ArrayLike | None,
        sample_weight: None,
        groups: object,
    ) -> AdmittedMatrices:
        """The matrices of all domains, and what stands beside them."""
        manifold, ball, budget = self._space(X, sample_weight, self.ball)
        matrices, n = admit_records(manifold, "X", X)
        members = None if groups is None else Membership(groups, n)
        refuse_damaged(self, manifold, X)
        return AdmittedMatrices(manifold, ball, budget, matrices, np.zeros(n), members)

    def transform(self, X: RecordsLike) -> np.ndarray:
        """Matrices of the target domain, each moved by what was released of it, (n, k, k): not
        private.

        Raises:
            InvalidArgument: Several domains were fitted and `target_domain` names none, or it names
                one that was not fitted.
        """
        check_is_fitted(self, "releases_")
        self._refuse_rules()
        matrices, _ = admit_records(self.manifold_, "X", X)
        name = self.target_domain
        if name == "" and len(self.releases_) == 1:
            (name,) = self.releases_
        if name not in self.releases_:
            raise invalid(
                "target_domain",
                self.target_domain,
                f"{len(self.releases_)} domains were fitted; name the one that the matrices are of:"
                " set_params(target_domain=...), or take fit_transform for those of the fit. Of a"
                f" domain that was not fitted nothing was released: fit a {type(self).__name__} on"
                " it",
            )
        return self._moved(np.asarray(matrices), name)

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride] - as in pyRiemann
        self,
        X: RecordsLike,
        y: ArrayLike | None = None,
        *,
        domains: ArrayLike | None = None,
        sample_weight: None = None,
        groups: object = None,
    ) -> np.ndarray:
        """`fit`, then every matrix moved by the release of **its own** domain: not private."""
        self.fit(X, y, domains=domains, sample_weight=sample_weight, groups=groups)
        matrices = np.asarray(admit_records(self.manifold_, "X", X)[0])
        of = self._domains(y, domains, len(matrices))
        out = np.empty_like(matrices)
        for name in self.releases_:
            own = np.flatnonzero([d == name for d in of])
            out[own] = self._moved(matrices[own], name)
        return out

    def _refuse_rules(self) -> None:
        """pyRiemann's rules for domains that `fit` has not seen are no names of domains."""
        if self.target_domain in ("last", "transductive"):
            raise invalid(
                "target_domain",
                self.target_domain,
                "name a domain of the fit. What was released of another subject does not move a new"
                " one, and what follows from the new matrices would be released: fit another"
                f" {type(self).__name__} on them, which costs its budget",
            )

    def _domains(self, y: ArrayLike | None, domains: ArrayLike | None, n: int) -> list[str]:
        """The public domain of each record."""
        if domains is None and self.target_domain == "":
            if y is not None and n > 0 and are_encoded(np.asarray(y)):
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
                " 'nan' that stands for them), which would be released together; leave out these"
                " matrices"
            )
        texts = [str(d) for d in array.tolist()]
        refuse_two_forms(name, texts)
        if domains is not None:
            return texts
        if not are_encoded(array):
            raise InvalidArgument(
                "argument `y` has labels that are not of the form 'domain/class'; give"
                " domains=..., or leave out `target_domain` for one domain"
            )
        return [t.rpartition("/")[0] for t in texts]


def are_encoded(labels: np.ndarray) -> bool:
    """Whether all labels are of pyRiemann's form 'domain/class'."""
    return labels.size > 0 and all("/" in str(label) for label in labels.ravel().tolist())
