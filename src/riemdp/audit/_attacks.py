"""Attacks on one release of a mechanism, with its worst neighbouring pair."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, integer, real
from .._trees import map_leaves
from ..manifolds._base import Point
from ..mechanisms import Release
from ..mechanisms._base import AbstractMechanism
from ..mechanisms._common import PointMechanism
from ..privacy import Guarantee
from ..randomness import NoiseSource, noise_source
from ._bounds import (
    Scores,
    _mu,
    epsilon_lower_bound,
    gaussian_mu_lower_bound,
    operating_point,
    refutes,
)
from ._unbounded import Unbounded


@dataclass(frozen=True)
class AuditResult:
    """What an attack found, compared with what was claimed.

    `mu_lower` and `epsilon_lower` (at `delta`) are lower bounds, each at `confidence`; `claimed` is
    the guarantee under attack; `refuted` says whether the observed error rates contradict it (a
    sound mechanism is refuted with probability at most 2 (1 - confidence)).
    """

    name: str
    trials: int
    confidence: float
    delta: float
    mu_lower: float
    epsilon_lower: float
    claimed: Guarantee
    refuted: bool

    @property
    def claimed_epsilon(self) -> float:
        """The guarantee's epsilon at `delta`."""
        return self.claimed.epsilon(self.delta)

    def __str__(self) -> str:
        verdict = "REFUTED" if self.refuted else "not refuted"
        return (
            f"{self.name}: {verdict}; at least epsilon {self.epsilon_lower:.3f}, mu"
            f" {self.mu_lower:.3f} were seen in {self.trials} trials per side"
            f" ({self.confidence:.0%} confidence), epsilon {self.claimed_epsilon:.3f} is claimed at"
            f" delta {self.delta:g}"
        )


@runtime_checkable
class Releases(Protocol):
    """What can be attacked: anything that releases one value."""

    def release(self, value: Point, rng: NoiseSource, /) -> Release:
        """The noisy value, with its guarantee."""
        ...


def assess(
    name: str,
    scores_in: Scores,
    scores_out: Scores,
    claimed: Guarantee,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> AuditResult:
    """Lower bounds from the scores of any attack, held against the guarantee `claimed`."""
    fpr, fnr = operating_point(scores_in, scores_out, confidence, _mu)
    epsilon = epsilon_lower_bound(scores_in, scores_out, delta, confidence)
    refuted = refutes(claimed, fpr, fnr) or epsilon > claimed.epsilon(delta)
    mu = gaussian_mu_lower_bound(scores_in, scores_out, confidence)
    return AuditResult(name, len(scores_in), confidence, delta, mu, epsilon, claimed, refuted)


def audit_mechanism(
    mechanism: Releases | Callable[[Point, NoiseSource], Release],
    value_in: Point,
    value_out: Point,
    *,
    trials: int = 20_000,
    score: Callable[[Point], ArrayLike] | None = None,
    confidence: float = 0.95,
    delta: float = 1e-5,
    rng: int | NoiseSource | None = None,
) -> AuditResult:
    """Attack one release: can an attacker tell `value_in` from `value_out`?

    A mechanism of the package charges no ledger here, so do not attack with private data: choose
    the values yourself.

    Args:
        mechanism: A mechanism with `release(value, rng)`, or a function (value, rng) -> `Release`.
            What is not of the package is called as it is, so what it charges is charged: do not
            attack it inside `with Ledger(...)`.
        value_in: Value of the query on one data set.
        value_out: Its value on a neighbouring data set, as far away as the sensitivity allows.
        trials: Number of releases of each value, at least 16.
        score: Maps the stacked released values to one number each, larger meaning "in". Default:
            the log-likelihood ratio of the noise, linear in the tangent space at the mechanism's
            public base point (Gaussian), or the difference of distances (Laplace, and everything
            without a base point).
        confidence: Confidence of the lower bounds, between 0 and 1.
        delta: The delta at which epsilon is bounded, in [0, 1).
        rng: None (operating system), an int (reproducible) or a `NoiseSource`.

    Returns:
        An `AuditResult`: lower bounds and the claimed guarantee.

    Raises:
        InvalidArgument: An argument is out of range, or `score` is missing for something that is
            not one of the package's mechanisms.
    """
    trials = integer("trials", trials, at_least=16)
    release = mechanism.release if isinstance(mechanism, Releases) else mechanism
    if isinstance(mechanism, AbstractMechanism):
        release = functools.partial(mechanism.release, ledger=Unbounded())
    source = noise_source(rng)
    first = release(value_in, source)
    runs = [
        [release(value, source).value for _ in range(trials)] for value in (value_in, value_out)
    ]
    stacked = [map_leaves(lambda *leaves: np.asarray(np.stack(leaves)), *values) for values in runs]
    if score is None:
        if not isinstance(mechanism, PointMechanism):
            raise InvalidArgument(
                "argument `score` is needed for what is not one of the package's mechanisms: give"
                " values -> scores"
            )
        score = mechanism.score(value_in, value_out)
    scores = [np.asarray(score(values), dtype=np.float64) for values in stacked]
    return assess(
        first.mechanism,
        scores[0],
        scores[1],
        first.guarantee,
        delta,
        real("confidence", confidence),
    )
