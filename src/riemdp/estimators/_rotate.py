"""`PrivateTLRotate`: matrices of subjects, rotated so that their private class means match."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import invalid
from ..manifolds._base import RecordsLike
from ..mechanisms._at_centre import LabelledRecords
from ..mechanisms._base import Ready
from ..mechanisms._class_models import ClassMeansNoise
from ..privacy import Budget
from ..releases._options import ball_or_search
from ..statistics._membership import unit_of
from ._matrices import AdmittedMatrices, LabelledMatrices, OfLabelledMatrices
from ._transfer import AbstractTransfer, are_encoded

_STEPS = 200  # of an alignment, which ends earlier where it stands still


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateTLRotate(OfLabelledMatrices, AbstractTransfer):
    """Rotate the matrices of each source domain so that its private class means come near those of
    the target domain: x becomes Q x Q^T with an orthogonal Q.

    Takes the place of `pyriemann.transfer.TLRotate` with its default metric, usually after
    `PrivateTLCenter`. The class means of each domain are released; what aligns them follows from
    the means and costs nothing. `fit_transform` rotates the source domains; `transform` is for the
    target domain and changes nothing. Rotated matrices are one per record, so **not private**.

    Args:
        target_domain: The domain that the others are rotated to. Required: labels are
            "domain/class", or `domains` are given beside classes.
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)` of one whole `fit`, once for all domains together, which
            **every call of `fit` spends**. Required.
        ball: A public `Ball` for the matrices of every domain, or an `AdaptiveBall`; None means
            `AdaptiveBall()`. After `PrivateTLCenter` the identity is a good centre.
        labels: "public" or "private": whether neighbours differ in the class of a record too. Its
            domain is public in both cases.
        classes: The possible classes, public. Required for private labels.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        classes_: The classes.
        rotations_: Q of each source domain, (k, k).
        releases_: The `Release` of the class means of each domain, stacked.
        guarantee_: The `Guarantee` of all domains together.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, domains public, as for `PrivateTLCenter`; the class means of a domain have the
        guarantee of `PrivateMDM` for one vector of class sums. It protects one matrix (a trial),
        with its class where labels are private; with `groups`, which needs private labels,
        everything of one person.

    Source:
        Rodrigues et al. 2018 (Riemannian Procrustes analysis).
        Proof: docs/proofs/classifiers.md, Lemmas 1, 5 and 7.

    Examples:
        >>> import numpy as np, riemdp
        >>> y = np.tile(["left", "right"], 600)
        >>> gain = np.where((y == "left")[:, None], [2.0, 0.5], [0.5, 2.0])
        >>> X = gain[:, :, None] * np.eye(2)
        >>> X[600:] = X[600:, ::-1, ::-1]  # the second subject has its channels exchanged
        >>> subject = np.repeat(["a", "b"], 600)
        >>> rotate = riemdp.PrivateTLRotate("a", budget=riemdp.Budget(1.0, 1e-6))
        >>> with riemdp.Ledger(riemdp.Budget(2.0, 1e-5)) as ledger:
        ...     new = rotate.fit_transform(X, y, domains=subject)
        >>> bool(np.abs(new[600:] - X[:600]).max() < 0.5)
        True
    """

    what: ClassVar[str] = "class-means"

    def _admitted(
        self,
        X: RecordsLike,
        y: ArrayLike | None,
        domains: ArrayLike | None,
        sample_weight: None,
        groups: object,
    ) -> LabelledMatrices:
        if self.target_domain == "":
            raise invalid("target_domain", "", "name the domain that the others are rotated to")
        if y is None:
            raise invalid("y", None, "give one label 'domain/class', or a class, for each matrix")
        labels: ArrayLike = y
        if domains is None and are_encoded(np.asarray(y)):
            labels = [str(label).rpartition("/")[2] for label in np.asarray(y).ravel().tolist()]
        return self._labelled(X, labels, sample_weight, groups, ball_or_search(self.ball))

    def _part(self, domain: AdmittedMatrices, budget: Budget) -> Ready:
        assert isinstance(domain, LabelledMatrices)
        sizes = domain.sizes() if self.labels == "public" else None
        mechanism = domain.of_classes(ClassMeansNoise, sizes)(budget=budget)
        value = LabelledRecords(domain.matrices, domain.labels, domain.members)
        ready = mechanism._ready(value, unit_of(domain.members))
        return ready.then(lambda release: release._knowing(domain.facts))

    def _keep_parts(self, given: AdmittedMatrices) -> None:
        assert isinstance(given, LabelledMatrices)
        self.classes_ = given.classes
        target = np.asarray(self.releases_[self.target_domain].value)
        self.rotations_ = {
            name: _aligned(np.asarray(release.value), target)
            for name, release in self.releases_.items()
            if name != self.target_domain
        }

    def _moved(self, X: NDArray[Any], name: str) -> NDArray[Any]:
        if name not in self.rotations_:
            return X.copy()
        new = self.rotations_[name] @ X @ self.rotations_[name].T
        return (new + new.swapaxes(-1, -2)) / 2


def _aligned(source: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """An orthogonal Q at which sum |T_c - Q S_c Q^T|^2 over the classes c is smallest, found from
    several starts: that is where f(Q) = sum tr(T_c Q S_c Q^T) is largest.

    A multiple of the identity in S_c or T_c adds a constant to f. Without the largest such that
    leave no negative eigenvalue, f is convex in Q still, so the orthogonal matrix that is nearest
    to its gradient does not make it smaller.
    """
    eye = np.eye(len(target[0]))
    source, target = (m - np.linalg.eigvalsh(m)[:, :1, None] * eye for m in (source, target))
    starts = [eye, *(_from_class(source, target, c) for c in range(len(source)))]
    return max((_climbed(q, source, target) for q in starts), key=lambda found: found[0])[1]


def _from_class(source: NDArray[Any], target: NDArray[Any], c: int) -> NDArray[Any]:
    """The Q that aligns the axes of one class; their signs are chosen by all classes."""
    u, v = np.linalg.eigh(target[c])[1], np.linalg.eigh(source[c])[1]
    both = np.sum((u.T @ target @ u) * (v.T @ source @ v), axis=0)
    np.fill_diagonal(both, 0.0)  # signs s change f by s^T both s
    leading = np.linalg.eigh(both)[1][:, -1]
    return (u * np.where(leading < 0.0, -1.0, 1.0)) @ v.T


def _climbed(
    q: NDArray[Any], source: NDArray[Any], target: NDArray[Any]
) -> tuple[float, NDArray[Any]]:
    """The largest f that steps from Q reach, and where."""
    largest = -np.inf
    for _ in range(_STEPS):
        gradient = np.sum(target @ q @ source, axis=0)
        reached = float(np.sum(q * gradient))
        if reached <= largest * (1.0 + 1e-12):
            break
        largest = reached
        u, _, v = np.linalg.svd(gradient)
        q = u @ v
    return largest, q
