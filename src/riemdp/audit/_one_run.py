"""An audit in one run: many canaries, each of them in the data or not by a coin of its own, and
guesses which of them are.

The m canaries S in {-1, 1}^m stand in r groups of at most g, fixed beforehand. In each group one
canary is guessed, which one and how being any function of the output. The number C of right guesses
satisfies, under (epsilon, delta)-privacy for the change of one canary,

    P(C >= v) <= P(Bin(r, q) >= v) + (1 - q) delta g (gamma_0 + ... + gamma_(r-1)),

q = e^epsilon / (1 + e^epsilon), gamma_k the largest probability of a value of Bin(k, q). The proof
is in docs/proofs/one-run-audit.md; delta = 0 is Theorem 5.2 of Steinke, Nasr and Jagielski 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .._errors import InvalidArgument, integer, real
from ..privacy import Guarantee
from ..randomness import NoiseSource, noise_source

_STEP = 0.004  # of the epsilons that a lower bound is searched on
_LARGEST = 20.0
_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # where a claim is held against the guesses
_FEWEST = 8  # guesses


class Guarded(Protocol):
    """What a run returns: a `Release`, an `OptimizationResult`."""

    @property
    def value(self) -> Any:
        """What an attacker sees."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed of it."""
        ...


@dataclass(frozen=True)
class OneRunAudit:
    """What guesses about the canaries of one run found, compared with what was claimed.

    Attributes:
        name: What was attacked.
        canaries: How many coins were tossed.
        guesses: How many canaries were guessed in the best of several tries.
        correct: How many of these guesses were right.
        confidence: Of `epsilon_lower`, and of `refuted`.
        delta: At which epsilon is bounded.
        epsilon_lower: A lower bound on epsilon at `delta`; above the true one with probability at
            most 1 - confidence.
        claimed: The guarantee under attack. Its adjacency is that of the coins: a canary is added
            or left out, or is one of two records.
        refuted: Whether the guesses contradict the claim; a sound mechanism is refuted with
            probability at most 1 - confidence.
    """

    name: str
    canaries: int
    guesses: int
    correct: int
    confidence: float
    delta: float
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
            f"{self.name}: {verdict}; {self.correct} of {self.guesses} guesses about"
            f" {self.canaries} canaries ({self.claimed.adjacency}) were right, so epsilon is at"
            f" least {self.epsilon_lower:.3f} ({self.confidence:.0%} confidence);"
            f" {self.claimed_epsilon:.3f} is claimed at delta {self.delta:g}"
        )


def audit_in_one_run(
    run: Callable[[NDArray[np.bool_], NoiseSource], Guarded],
    score: Callable[[Any], ArrayLike],
    *,
    canaries: int,
    confidence: float = 0.95,
    delta: float = 1e-5,
    rng: int | NoiseSource | None = None,
    name: str = "one run",
) -> OneRunAudit:
    """Attack a mechanism with a single run: canaries are in the data or not by independent coins,
    and are guessed from the output.

    The coins test the adjacency of the guarantee that the run returns: under "add-or-remove-one"
    let a canary be in the data or left out, under "replace-one" let a record be one of two. Choose
    the canaries yourself. What `run` charges is charged, so do not attack inside `with
    Ledger(...)`.

    Args:
        run: From the coins, a bool array (canaries,), and a source of noise, to an object with
            `value` and `guarantee`, such as a `Release`.
        score: Maps the value to one finite number for each canary; large means "in". It sees the
            value only, never the coins.
        canaries: How many there are, at least 16; hundreds to be sharp.
        confidence: Of the result, between 0 and 1.
        delta: The delta at which epsilon is bounded, in [0, 1).
        rng: None (operating system), an int (reproducible) or a `NoiseSource`; for the coins and
            the noise.
        name: For people.

    Returns:
        A `OneRunAudit`. Canaries are guessed by whether their score is above the median: all, or
        of every 2, 4, 8, ... the one whose score is farthest from it in rank; that several numbers
        are tried is paid for (Bonferroni).

    Raises:
        InvalidArgument: An argument is out of range, or the scores cannot be used.

    Source:
        Steinke, Nasr and Jagielski 2023, Theorem 5.2, for delta = 0; the term of delta is proved
        in docs/proofs/one-run-audit.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> space = riemdp.Euclidean(400)
        >>> mechanism = riemdp.WrappedGaussian(
        ...     space, np.zeros(400), sensitivity=2.0, budget=riemdp.Budget(2.0, 1e-5)
        ... )
        >>> def run(included, source):  # each coordinate is a canary at 1 or at -1
        ...     return mechanism.release(np.where(included, 1.0, -1.0), source)
        >>> found = riemdp.audit.audit_in_one_run(run, lambda y: y, canaries=400, rng=1)
        >>> found.refuted
        False
    """
    m = integer("canaries", canaries, at_least=16)
    confidence = real("confidence", confidence, above=0.0, below=1.0)
    delta = real("delta", delta, at_least=0.0, below=1.0)
    source = noise_source(rng)
    coins = source.integers(0, 2, (m,)).astype(bool)
    seen = run(coins.copy(), source)
    scores = np.asarray(score(seen.value), dtype=np.float64)
    if scores.shape != (m,) or not np.all(np.isfinite(scores)):
        raise InvalidArgument(
            f"argument `score` must give one finite number for each of the {m} canaries; its result"
            f" has shape {scores.shape}"
        )
    return assess_guesses(name, coins, scores, seen.guarantee, delta, confidence)


def assess_guesses(
    name: str,
    coins: NDArray[np.bool_],
    scores: NDArray[np.float64],
    claimed: Guarantee,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> OneRunAudit:
    """The audit of one run from its coins and the scores of its canaries."""
    m = len(coins)
    groups = [1]
    while 2 * groups[-1] * _FEWEST <= m:
        groups.append(2 * groups[-1])
    tries = [(g, *_guesses(coins, scores, g)) for g in groups]
    error = (1 - confidence) / len(tries)
    bounds = [epsilon_of_guesses(r, v, delta, 1 - error, group=g) for g, r, v in tries]
    best = int(np.argmax(bounds))
    points = {e: claimed.delta(e) for e in _EPSILONS}
    stated = claimed.epsilon(delta)
    if math.isfinite(stated):
        points[stated] = delta
    refuted = claimed.is_private and any(
        p_value(r, v, epsilon, at, group=g) < error / len(points)
        for epsilon, at in points.items()
        for g, r, v in tries
    )
    _, r, v = tries[best]
    return OneRunAudit(name, m, r, v, confidence, delta, bounds[best], claimed, refuted)


def p_value(guesses: int, correct: int, epsilon: float, delta: float, *, group: int = 1) -> float:
    """At least the probability of so many right guesses under (epsilon, delta)-privacy."""
    price = delta * _price(guesses, epsilon, group) if delta > 0 else 0.0
    return min(1.0, _tail(guesses, correct, epsilon) + price)


def epsilon_of_guesses(
    guesses: int, correct: int, delta: float, confidence: float = 0.95, *, group: int = 1
) -> float:
    """A lower bound on epsilon at a given delta, from the guesses of one run.

    Args:
        guesses: r, how many canaries were guessed, fixed beforehand; at least 1. Each is in the
            data or not by an independent fair coin.
        correct: v, how many guesses were right.
        delta: The delta, in [0, 1).
        confidence: Confidence of the bound, between 0 and 1.
        group: g: the output decided which one of g canaries was guessed, r times over, in groups
            that were fixed beforehand. 1 if all canaries were guessed.

    Returns:
        A bound that exceeds the true epsilon with probability at most 1 - confidence; 0 where
        nothing was learnt, and at most 20.

    Raises:
        InvalidArgument: An argument is out of range.

    Guarantee:
        Confidence, not privacy: where a change of any one coin is (epsilon, delta)-private, the
        result is above epsilon with probability at most 1 - confidence.

    Source:
        Steinke, Nasr and Jagielski 2023, Theorem 5.2, for delta = 0.
        Proof: docs/proofs/one-run-audit.md.

    Examples:
        >>> from riemdp.audit import epsilon_of_guesses
        >>> round(epsilon_of_guesses(100, 95, 1e-5, group=8), 2)
        2.17
    """
    r = integer("guesses", guesses)
    v = integer("correct", correct, at_least=0, at_most=r)
    delta = real("delta", delta, at_least=0.0, below=1.0)
    g = integer("group", group)
    error = 1 - real("confidence", confidence, above=0.0, below=1.0)
    # The tail grows with epsilon and the price of delta falls: on an interval the tail at its end
    # and the price at its beginning are at least both. Intervals that are refuted are joined.
    low, width = 0.0, 2.56
    price = delta * _price(r, low, g) if delta > 0 else 0.0
    while width >= _STEP and low < _LARGEST:
        if _tail(r, v, low + width) + price < error:
            low += width
            price = delta * _price(r, low, g) if delta > 0 else 0.0
        else:
            width /= 2
    return min(low, _LARGEST)


def _tail(guesses: int, correct: int, epsilon: float) -> float:
    """P(Bin(guesses, q) >= correct)."""
    if correct == 0:
        return 1.0
    return float(special.betainc(correct, guesses - correct + 1, special.expit(epsilon)))


def _price(guesses: int, epsilon: float, group: int) -> float:
    """(1 - q) g times the sum of the largest probabilities of Bin(k, q), k < r."""
    q, k = special.expit(epsilon), np.arange(guesses)
    mode = np.minimum(k, np.floor((k + 1) * q))
    ways = special.gammaln(k + 1) - special.gammaln(mode + 1) - special.gammaln(k - mode + 1)
    largest = np.exp(ways + mode * math.log(q) + (k - mode) * special.log_expit(-epsilon))
    return float(special.expit(-epsilon) * group * np.sum(largest)) * (1 + 1e-9)


def _guesses(coins: NDArray[np.bool_], scores: NDArray[np.float64], group: int) -> tuple[int, int]:
    """How many canaries are guessed and how many rightly: of every `group`, in their order, the one
    farthest from the median, "in" above it and "out" below.
    """
    m = len(scores)
    rank = np.empty(m)
    rank[np.argsort(scores, kind="stable")] = np.arange(m) - (m - 1) / 2
    starts = range(0, m, group)
    chosen = np.array([i + int(np.argmax(np.abs(rank[i : i + group]))) for i in starts])
    return len(chosen), int(np.sum((rank[chosen] > 0) == coins[chosen]))
