"""Lower bounds: sound at their confidence, sharp enough to catch 1.5 times too little noise, never
mirrored.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from riemdp.audit import epsilon_lower_bound, gaussian_mu_lower_bound
from riemdp.privacy.accounting.gaussian import gaussian_epsilon

RNG = np.random.default_rng(11)


def _scores(
    mu: float, trials: int, rng: np.random.Generator = RNG
) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal(trials) + mu, rng.standard_normal(trials)


@pytest.mark.slow
def test_sound_over_many_audits() -> None:
    """At 90 % confidence the bounds exceed the truth in at most 10 % of audits (binomial tail at
    1e-6), also at mu = 0.
    """
    repeats = 150
    most = stats.binom.isf(1e-6, repeats, 0.1)
    for mu in (0.0, 1.0):
        truth = gaussian_epsilon(1e-3, mu)
        pairs = [_scores(mu, 400) for _ in range(repeats)]
        assert sum(gaussian_mu_lower_bound(*pair, confidence=0.9) > mu for pair in pairs) <= most
        assert (
            sum(epsilon_lower_bound(*pair, 1e-3, confidence=0.9) > truth for pair in pairs) <= most
        )


def test_planted_choosing_the_threshold_on_the_same_half_is_unsound() -> None:
    """The twin: point estimates at the best of many thresholds exceed the truth nearly always."""
    bad = 0
    for _ in range(100):
        inside, outside = _scores(0.3, 400)
        grid = np.sort(np.concatenate([inside, outside]))[5:-5]
        fpr = np.array([(outside > t).mean() for t in grid])
        fnr = np.array([(inside <= t).mean() for t in grid])
        with np.errstate(all="ignore"):
            bad += (
                np.nanmax(
                    np.where((fpr > 0) & (fnr > 0), -stats.norm.ppf(fpr) - stats.norm.ppf(fnr), -9)
                )
                > 0.3
            )
    assert bad > 60


def test_sharp() -> None:
    """With 2e4 trials a mechanism with 1.5 times too little noise is caught every time, and a right
    one never.
    """
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert gaussian_mu_lower_bound(*_scores(1.5, 20_000, rng)) > 1.0
        assert 0.85 < gaussian_mu_lower_bound(*_scores(1.0, 20_000, rng)) <= 1.0


def test_epsilon_of_randomised_response() -> None:
    epsilon = 1.0
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    inside = RNG.random(40_000) < keep
    outside = RNG.random(40_000) > keep
    assert 0.9 < epsilon_lower_bound(inside, outside, 0.0) <= epsilon


def test_wrong_direction_gives_nothing() -> None:
    """Never abs(): a score that points the wrong way is no evidence."""
    inside, outside = _scores(2.0, 5000)
    assert gaussian_mu_lower_bound(outside, inside) == 0.0
    assert epsilon_lower_bound(outside, inside, 0.0) == 0.0
    assert gaussian_mu_lower_bound(inside, outside) > 1.5


def test_ties_and_constant_scores() -> None:
    assert gaussian_mu_lower_bound(np.zeros(100), np.zeros(100)) == 0.0
    assert epsilon_lower_bound(np.ones(100), np.zeros(100), 0.0) > 2.0  # perfectly told apart


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian_mu_lower_bound([1.0] * 7, [0.0] * 20), "scores_in"),
        (lambda: gaussian_mu_lower_bound([1.0] * 9, [math.nan] * 9), "scores_out"),
        (lambda: gaussian_mu_lower_bound([1.0] * 9, [0.0] * 9, confidence=1.0), "confidence"),
        (lambda: epsilon_lower_bound([1.0] * 9, [0.0] * 9, 1.0), "delta"),
    ],
)
def test_bad_input(call, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call()
