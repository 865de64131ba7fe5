"""`PrivateMDM`: minimum distance to private class means, a drop-in for pyRiemann's MDM."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from .._errors import InvalidArgument, integer, invalid, one_of
from ..domains import AdaptiveBall, Ball, Domain, Frame
from ..domains._stream import Stream
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import Release
from ..mechanisms._base import AbstractReady, Ready
from ..mechanisms._class_models import ClassMeansNoise
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import MeanFacts
from ..mechanisms._parts import Apart, PrivateLabels, PublicParts
from ..privacy import Budget, Guarantee
from ..privacy._cautions import warn_of
from ..privacy._noise import Noise
from ..releases._choices import COMPARED, NEED_GRADIENT, moved_into
from ..releases._options import ball_or_search
from ..releases._plan import made_plan
from ..releases._remembered import counted_mechanism, remembered
from ..releases._table import chosen_of
from ..statistics import Records
from ..statistics._query import of_stream
from ._fit import Fit
from ._matrices import LabelledMatrices, OfLabelledMatrices, refuse_damaged

MECHANISMS = ("auto", *(name for name in COMPARED if name not in NEED_GRADIENT))

# one mechanism and one mean before noise a class, and the cost of all together
_Means = tuple[Sequence[Counted], list[Point], Guarantee]


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class PrivateMDM(
    OfLabelledMatrices,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Minimum distance to the mean of each class, the means released with differential privacy.

    A record is one matrix with its label. Takes the place of `pyriemann.classification.MDM` in a
    pipeline: `fit`, `predict`, `predict_proba`, `transform` (distances to the class means),
    `fit_predict`, `classes_`, `covmeans_`. Predictions for a record show something about that
    record only, and nothing about the training records beyond `covmeans_`.

    Args:
        metric: "riemann", "logeuclid" or "wasserstein", or the name that `riemdp.spd` has for it.
        budget: `Budget(epsilon, delta)`, which **every call of `fit` spends**. Required.
        ball: A public `Ball` for the matrices of all classes, or an `AdaptiveBall`; None means
            `AdaptiveBall()`.
        labels: "public" or "private"; see the guarantee.
        classes: The possible labels, public. Required for private labels.
        min_class_size: Public m >= 1, required for private labels in a public `Ball`, and refused
            elsewhere. A class with fewer records is filled up with copies of the centre, so the
            guarantee does not depend on m being right; a value near the true class sizes is the
            most accurate.
        mechanism: "auto" (smallest error from noise by formula), "wrapped-gaussian",
            "wrapped-laplace" or "riemannian-laplace". Without a public `Ball`, "auto" only.
        on_invalid: "raise" refuses matrices that are not symmetric positive definite; "center"
            counts each as the centre.
        count_outside: As in `riemdp.private_frechet_mean`, for each class; with `groups` one count
            for all of them. Refused without a public `Ball`.
        random_state: None, or a seed: reproducible and **not private**.

    docs/howto/estimators.md, "Common parameters", says more of each.

    Attributes:
        classes_: The classes.
        covmeans_: The released mean of each class, stacked: shape (classes, k, k).
        ball_: The ball: the public one, or the one that was found privately.
        guarantee_: The `Guarantee` of all means together.
        releases_: The `Release` of each mean; without a public `Ball`, and with `groups`, one of
            all means together.
        outside_: For each of `releases_` the `OutsideCount` (None for a class that is too small);
            None where nothing was counted.
        reproducible_: Whether a seed was used; then nothing is private.
        total_spent_: What all calls of `fit` on this object cost together.

    Guarantee:
        Replace-one, number of records public.

        Public labels: neighbours differ in one matrix, its label stays. The record is in one class
        only, and the other means do not see it, so releasing every class with the whole budget
        costs the budget once (parallel composition). Labels and class sizes are treated as known
        to everybody.

        Private labels: neighbours differ in one pair (matrix, label). Write D_c for the clamped
        matrices of class c, filled up with the centre to m entries. Replacing a pair changes D_c
        for at most two classes, and in each of them by one of: an entry replaced, by a record or
        by a filler, among at least m entries; an entry added to or taken from at least m entries.
        The Fréchet mean moves at most by Delta = the replace-one sensitivity for m records (2 r / m
        on Hadamard spaces) in either case: adding one entry to N >= m moves it by at most
        2 r / (N + 1) there, and by at most (2 r / (N + 1)) tan(theta)/theta, which is less than
        2 r / (m cos(theta)), for curvature kappa > 0, theta = 2 r sqrt(kappa). Every class is
        released with noise for Delta and its own fresh randomness, so the privacy loss is that of
        at most two such releases, and each is calibrated so that two together keep within the
        budget. Noise, mechanism and m are functions of public facts only: class sizes are private.

        With `count_outside`, each class's mean and count share what the mean alone would get. A
        replaced pair changes the counts of at most two classes, by at most 1 each.

        Without a public `Ball`: the search reads all matrices and no label. The tangent vectors of
        the matrices at the centre, clipped at the radius, are summed class by class. Public labels:
        a replaced matrix changes one sum by at most 2 r. Private labels: a replaced pair changes
        the vector of all sums (over r) and class sizes by at most 2, so private labels cost the
        noise of public ones. The search and the sums share the budget.

        With `groups`: the same sums and sizes, in a public ball too, of people: a person counts by
        the mean of the vectors of that person's records, with their classes. Neighbours differ in
        everything of one person; n is the number of people.

    A record is assigned to the nearest mean: by the Riemannian distance where the ball is public,
    by the distance of tangent vectors at the centre, clipped at the radius, where it was found or
    people are protected.
    Class means in a public ball are moved into it where that is proved not to increase the error,
    as `riemdp.private_frechet_mean` does.
    Class means that were found are moved towards their average by James-Stein, so their norms, in
    which noise adds up, decide little.

    Source:
        Barachant et al. 2012 (MDM); Reimherr2021 Theorem 2 (sensitivity of the mean);
        docs/proofs/private-ball.md.
        Proof: docs/proofs/classifiers.md; docs/proofs/people.md (`groups`).
    """

    ball: Ball | AdaptiveBall | None = None
    count_outside: bool | None = None
    min_class_size: int | None = None
    mechanism: str = "auto"

    # ---------------------------------------------------------------- fitting
    def fit(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> Self:
        """Release one mean per class and charge the ledger.

        Args:
            X: Symmetric positive definite matrices, shape (n, k, k).
            y: One label for each.
            sample_weight: Refused.
            groups: One label of a person for each matrix; needs labels="private". Then everything
                of one person is protected, the labels too, and every person counts once. How many
                records anybody has is private.
                In a public `Ball` the class means are then those of tangent vectors at its centre,
                as without one.

        Returns:
            This estimator.

        Raises:
            InvalidArgument: A parameter or a record cannot be used; nothing is spent.
            BudgetExceeded: The ledger has too little left; nothing is spent.
        """
        return self._spent_on(self._prepared(X, y, sample_weight, groups))

    def _prepared(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None, groups: object
    ) -> Fit[Any]:
        """Everything of a fit that can be refused."""
        one_of("mechanism", self.mechanism, MECHANISMS)
        ball = ball_or_search(self.ball)
        admitted = self._labelled(X, y, sample_weight, groups, ball, in_parts=True)
        if self.min_class_size is not None and not (
            self.labels == "private" and isinstance(ball, Ball) and groups is None
        ):
            remedy = "it goes with labels='private', a public Ball and no `groups`; leave it out"
            raise invalid("min_class_size", self.min_class_size, remedy)
        ready: AbstractReady[Any]
        if isinstance(ball, AdaptiveBall) or groups is not None:
            ready = self._jointly(admitted, ball)
        else:
            ready = self._in_public_ball(admitted, X, ball)
        return Fit(ready, admitted.budget, functools.partial(self._show_means, admitted))

    def _show_means(self, admitted: LabelledMatrices, made: Release | list[Release]) -> None:
        """The class means, of one release or of one each."""
        if isinstance(made, Release):
            releases, means = [made], list(made.value)
            self.ball_ = made.details["ball"]
            self._coordinates = np.asarray(made.details["coordinates"])
        else:
            releases, means = list(made), [release.value for release in made]
            self.ball_, self._coordinates = self.ball, None
        self.manifold_ = admitted.manifold
        self.classes_ = admitted.classes
        self.releases_ = releases
        self.covmeans_ = np.stack([np.asarray(m) for m in means])
        counts = [r.facts.outside for r in releases]
        self.outside_ = None if counts.count(None) == len(counts) else counts

    def _jointly(self, admitted: LabelledMatrices, ball: Ball | AdaptiveBall) -> Ready:
        """All class means in one release: in a ball that is found on the way, or of people."""
        if self.mechanism != "auto":
            raise InvalidArgument(
                f"argument `mechanism` = {self.mechanism!r} goes with a public ball and records:"
                " give ball=Ball(center, radius) and no `groups`, or mechanism='auto'"
            )
        if self.count_outside and isinstance(ball, AdaptiveBall):
            remedy = "it goes with a public ball; leave it out"
            raise invalid("count_outside", self.count_outside, remedy)
        sizes = admitted.sizes() if self.labels == "public" else None
        make = admitted.of_classes(ClassMeansNoise, sizes)
        return admitted.prepared(make, self.count_outside)

    def _in_public_ball(
        self, admitted: LabelledMatrices, X: RecordsLike, ball: Ball
    ) -> Apart[Release]:
        """Each class mean by itself, in a public ball, all under one charge."""
        domain = ball.on(admitted.manifold)
        frame, budget = domain.frame, admitted.budget
        labels, classes = admitted.labels, len(admitted.classes)
        given = admitted.matrices
        if isinstance(given, Stream):
            clamped, outside = given.moved(frame.clamp_flagged), np.zeros(given.n, dtype=bool)
        else:
            clamped, outside = frame.clamp_flagged(given)
            if np.any(outside):  # what is no point of the space is counted there
                refuse_damaged(self, admitted.manifold, X)
        own = [labels == i for i in range(classes)]
        if self.labels == "public":
            divided = PublicParts(labels, classes)
            facts = [self._facts(domain, budget, n) for n in admitted.sizes()]
            mechanisms, values, whole = self._public(facts, clamped, divided)
        else:
            divided = PrivateLabels(classes)
            mechanisms, values, whole = self._private(domain, budget, clamped, own)
        counts = [
            _count_outside(clamped, flags)
            if isinstance(clamped, Stream)
            else int(np.count_nonzero(outside & flags))
            for flags in own
        ]
        ready = [
            mechanism._ready(pair).then(functools.partial(_in_ball, mechanism, frame))
            for mechanism, *pair in zip(mechanisms, values, counts, strict=True)
        ]
        public = self.labels == "public"
        n = admitted.n if public else integer("min_class_size", self.min_class_size)
        warn_of(whole, budget.delta, n)
        return Apart(whole, "class-means", ready, divided)

    def _public(
        self, facts: list[MeanFacts], clamped: np.ndarray | Stream, divided: PublicParts
    ) -> _Means:
        name = self._name(min(facts, key=lambda each: each.n))
        mechanisms = [counted_mechanism(name, each, each.n) for each in facts]
        values = [
            each.query.value(
                of_stream(clamped.chosen(own, each.n))
                if isinstance(clamped, Stream)
                else Records(clamped[own])
            )
            for own, each in zip(divided.rows, facts, strict=True)
        ]
        return mechanisms, values, mechanisms[0].guarantee

    def _private(
        self, domain: Domain, budget: Budget, clamped: np.ndarray | Stream, own: list[np.ndarray]
    ) -> _Means:
        if self.min_class_size is None:
            raise invalid(
                "min_class_size",
                None,
                "private labels need a public number of records that a class can be relied on to"
                " have",
            )
        m = integer("min_class_size", self.min_class_size, at_least=1)
        # half of the budget: one record changes two of the means
        facts, local = self._facts(domain, budget, m, Fraction(1, 2)), domain.frame.local
        # made for m, and shown without it: the sizes of the classes are private
        mechanism = counted_mechanism(self._name(facts), facts, None)
        # Every class is solved as n + 1 entries, those of other classes with share 0: private
        # labels decide the size of no array.
        filler = np.asarray(local.center)[None]
        values = []
        for flags in own:
            size = float(np.count_nonzero(flags))
            lacking = max(0.0, m - size)
            weights = flags.astype(np.float64)
            if isinstance(clamped, Stream):
                filled = clamped.weighted(weights, (local.center, lacking))
                values.append(facts.query.value(of_stream(filled)))
                continue
            shares = np.append(weights, lacking) / max(float(m), size)
            entries = np.where(np.expand_dims(flags, (*range(1, clamped.ndim),)), clamped, filler)
            points = np.concatenate([entries, filler])
            values.append(facts.query.value(Records(points, shares)))
        classes, whole = len(own), mechanism.guarantee
        if classes > 1:  # two of them together
            whole = Noise.of(budget, pure=mechanism.noise.is_pure).guarantee
        return [mechanism] * classes, values, whole

    def _facts(
        self, domain: Domain, budget: Budget, n: int, part: Fraction = Fraction(1)
    ) -> MeanFacts:
        """What is public about one class mean, for this share of the budget."""
        return remembered(MeanFacts(domain, n, budget, part, self.count_outside))

    def _name(self, facts: MeanFacts) -> str:
        return _best(facts) if self.mechanism == "auto" else self.mechanism

    # ---------------------------------------------------------------- using the means
    def transform(self, X: RecordsLike) -> np.ndarray:
        """Distance of each matrix to each class mean, shape (n, number of classes).

        Riemannian distances where the ball is public. Where it was found, or people are protected:
        distances of tangent vectors at its centre, clipped at its radius.
        """
        check_is_fitted(self, "covmeans_")
        if self._coordinates is not None:
            y = self._clipped_tangents(X)
            return np.linalg.norm(y[:, None] - self._coordinates[None], axis=-1)
        matrices = np.asarray(X, dtype=np.float64)
        return np.asarray(self.manifold_.dist(self.covmeans_[None], matrices[:, None]))

    def predict(self, X: RecordsLike) -> np.ndarray:
        """The class whose mean is nearest, for each matrix."""
        nearest = np.argmin(self.transform(X), axis=1)  # says so where nothing was fitted
        return self.classes_[nearest]

    def predict_proba(self, X: RecordsLike) -> np.ndarray:
        """Softmax of minus the squared distances, as in pyRiemann."""
        return softmax(-(self.transform(X) ** 2), axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.classes_)

    def fit_predict(
        self, X: RecordsLike, y: ArrayLike, sample_weight: None = None, groups: object = None
    ) -> np.ndarray:
        """`fit`, then `predict` on the same matrices. One prediction per record: not private."""
        return self.fit(X, y, sample_weight=sample_weight, groups=groups).predict(X)


def _in_ball(mechanism: Counted, frame: Frame, release: Release) -> Release:
    """The release of a class mean, moved into the ball and carried to the user's space."""
    moved = moved_into(release, mechanism.inner, frame.local)
    return dataclasses.replace(moved, value=frame.back(moved.value))


def _count_outside(clamped: Stream, flags: np.ndarray) -> int:
    """How many records of one class lie outside the ball."""
    return int(clamped.weighted(flags.astype(np.float64), None).sums(_outside)[0])


def _outside(_: Point, outside: np.ndarray, weights: np.ndarray) -> np.float64:
    return np.float64(np.count_nonzero(outside & (weights > 0.0)))


def _best(facts: MeanFacts) -> str:
    """The mechanism of the smallest stated error: a function of public facts."""
    assert isinstance(facts.budget, Budget)
    plan = made_plan(facts, facts.budget)
    chosen = chosen_of([row for row in plan if row.mechanism in MECHANISMS])
    if chosen is None:
        raise InvalidArgument(
            f"argument `budget` = {facts.budget}: no mechanism with a formula is available on"
            f" {facts.manifold!r}; name one"
        )
    return chosen.mechanism
