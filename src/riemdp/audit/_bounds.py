"""Statistical lower bounds on privacy loss from an attacker's scores.

An attacker sees a release and computes a score, larger where the record seems to be *in*. Reject
"out" where the score exceeds a threshold: FPR is the share of "out" scores above, FNR the share of
"in" scores not above. The threshold is chosen on one half of the trials; Clopper-Pearson bounds on
the other half, each at (1 - confidence)/2, then hold whatever the threshold is.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .._errors import InvalidArgument, real
from ..privacy import Guarantee

Scores = NDArray[np.float64]
_THRESHOLDS = 2001


def gaussian_mu_lower_bound(
    scores_in: ArrayLike, scores_out: ArrayLike, confidence: float = 0.95
) -> float:
    """A lower bound on mu, for a mechanism whose guarantee is mu-GDP (a Gaussian mechanism: mu = 1
    / noise multiplier).

    A score that points the wrong way gives 0, never the mirror image: choosing the direction after
    seeing the result would not be sound.

    Args:
        scores_in: One finite score for each independent run on the data with the record, at least
            8. Larger must mean "in".
        scores_out: The same for the data without the record.
        confidence: Confidence of the bound, between 0 and 1.

    Returns:
        max(0, Phi^-1(1 - FPR_ub) - Phi^-1(FNR_ub)), which exceeds the true mu with probability at
        most 1 - confidence.

    Raises:
        InvalidArgument: Scores or confidence cannot be used.
    """
    fpr, fnr = operating_point(scores_in, scores_out, confidence, _mu)
    return max(0.0, float(_mu(np.array([fpr]), np.array([fnr]))[0]))


def epsilon_lower_bound(
    scores_in: ArrayLike, scores_out: ArrayLike, delta: float, confidence: float = 0.95
) -> float:
    """A lower bound on epsilon at a given delta, for any mechanism.

    Args:
        scores_in: One finite score for each independent run on the data with the record, at least
            8. Larger must mean "in".
        scores_out: The same for the data without the record.
        delta: The delta, in [0, 1).
        confidence: Confidence of the bound, between 0 and 1.

    Returns:
        The larger of log((1 - FNR_ub - delta)/FPR_ub) and log((1 - FPR_ub - delta)/FNR_ub), and not
        below 0. It exceeds the true epsilon with probability at most 1 - confidence.

    Raises:
        InvalidArgument: An argument cannot be used.

    Source:
        Kairouz, Oh and Viswanath 2015, Theorem 2.1.
    """
    delta = real("delta", delta, at_least=0.0, below=1.0)

    def epsilon(fpr: Scores, fnr: Scores) -> Scores:
        with np.errstate(divide="ignore", invalid="ignore"):
            forward = np.log(np.maximum(1 - fnr - delta, 0.0)) - np.log(fpr)
            backward = np.log(np.maximum(1 - fpr - delta, 0.0)) - np.log(fnr)
        return np.maximum(forward, backward)

    fpr, fnr = operating_point(scores_in, scores_out, confidence, epsilon)
    return max(0.0, float(epsilon(np.array([fpr]), np.array([fnr]))[0]))


def operating_point(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    confidence: float,
    gain: Callable[[Scores, Scores], Scores],
) -> tuple[float, float]:
    """Upper bounds (FPR, FNR) at the threshold that makes `gain(fpr, fnr)` largest on the half that
    is then put aside.
    """
    confidence = real("confidence", confidence, above=0.0, below=1.0)
    inside, outside = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    tail = (1 - confidence) / 2
    pooled = np.concatenate([inside[::2], outside[::2]])
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, _THRESHOLDS))).astype(
        np.float64
    )
    # Stricter bounds for the choice: of many thresholds, one with few errors looks best by luck,
    # and disappoints afterwards.
    fpr, fnr = _error_bounds(inside[::2], outside[::2], thresholds, tail / 100)
    best = thresholds[int(np.argmax(gain(fpr, fnr)))]
    fpr, fnr = _error_bounds(inside[1::2], outside[1::2], np.array([best]), tail)
    return float(fpr[0]), float(fnr[0])


def refutes(guarantee: Guarantee, fpr: float, fnr: float) -> bool:
    """Whether error rates at most (fpr, fnr) contradict the trade-off curve of `guarantee`, in
    either direction.
    """
    if not guarantee.is_private:
        return False
    for epsilon in (0.0, *np.geomspace(0.01, 20.0, 25)):
        delta = guarantee.delta(float(epsilon))
        if 1 - delta - math.exp(epsilon) * fpr > fnr or 1 - delta - math.exp(epsilon) * fnr > fpr:
            return True
    return False


def _mu(fpr: Scores, fnr: Scores) -> Scores:
    difference = -special.ndtri(fpr) - special.ndtri(fnr)
    return np.where(
        np.isnan(difference), -np.inf, difference
    )  # both bounds are 1: nothing was learnt


def _error_bounds(
    inside: Scores, outside: Scores, thresholds: Scores, tail: float
) -> tuple[Scores, Scores]:
    above = len(outside) - np.searchsorted(np.sort(outside), thresholds, side="right")
    below = np.searchsorted(np.sort(inside), thresholds, side="right")
    return _clopper_pearson(above, len(outside), tail), _clopper_pearson(below, len(inside), tail)


def _clopper_pearson(hits: NDArray[np.int64], trials: int, tail: float) -> Scores:
    """Upper confidence bound on a probability, at error rate `tail`."""
    bound = special.betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - tail)
    return np.where(hits >= trials, 1.0, bound)


def _scores(name: str, values: ArrayLike) -> Scores:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size < 8:
        raise InvalidArgument(
            f"argument `{name}` has {array.size} scores; an audit needs at least 8, and thousands"
            " to be sharp"
        )
    if not np.all(np.isfinite(array)):
        raise InvalidArgument(
            f"argument `{name}` must be finite: give a failed run the score that the attack makes"
            " of it"
        )
    return array
