"""The trade-off curve against exact curves that are known in closed form, and against simulated
attacks.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from riemdp import privacy
from tests.seam import Accounts

ALPHA = np.linspace(0.001, 0.999, 97)


def gaussian_trade_off(alpha: np.ndarray, mu: float) -> np.ndarray:
    """Dong, Roth and Su 2022, equation 6: the exact curve of a Gaussian release."""
    return stats.norm.cdf(stats.norm.ppf(1 - alpha) - mu)


def pure_trade_off(alpha: np.ndarray, eps: float) -> np.ndarray:
    """Randomised response: the exact curve of pure epsilon."""
    return np.maximum(0, np.maximum(1 - math.exp(eps) * alpha, math.exp(-eps) * (1 - alpha)))


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_gaussian_curve_is_a_tight_lower_bound(mu):
    bound = privacy.gaussian(1 / mu).trade_off()
    exact = gaussian_trade_off(ALPHA, mu)
    drawn = bound.missed(ALPHA)
    assert np.all(drawn <= exact + 1e-9)
    assert np.max(exact - drawn) < 0.01
    assert bound.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1, rel=1e-6)


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_pure_curve(eps):
    bound = privacy.pure(eps).trade_off()
    exact = pure_trade_off(ALPHA, eps)
    drawn = bound.missed(ALPHA)
    assert np.all(drawn <= exact + 1e-9)
    assert np.max(exact - drawn) < 0.01
    assert bound.best_guess == pytest.approx(math.exp(eps) / (1 + math.exp(eps)), rel=1e-6)
    assert bound.loss_bound(0.0) == pytest.approx(eps)


def test_curve_ends_where_it_must():
    alpha, beta = privacy.approximate(0.5, 0.1).trade_off().curve()
    assert alpha[0] == 0.0
    assert alpha[-1] == 1.0
    assert beta[0] == pytest.approx(0.9)
    assert beta[-1] == 0.0
    assert np.all(np.diff(beta) <= 1e-12)


def test_no_privacy_has_no_curve():
    bound = privacy.none().trade_off()
    assert bound.best_guess == 1.0
    assert np.all(bound.missed(ALPHA) == 0.0)
    assert bound.loss_bound(1e-5) == math.inf
    assert Accounts.posterior(0.5, math.inf) == 1.0


@pytest.mark.parametrize("mu", [0.3, 1.5])
def test_loss_bound_holds_and_is_not_wasteful(mu):
    """The privacy loss of a Gaussian is N(mu^2/2, mu^2): its exact tail beyond the bound is at most
    delta.
    """
    delta = 1e-4
    x = privacy.gaussian(1 / mu).trade_off().loss_bound(delta)
    assert stats.norm.sf((x - mu**2 / 2) / mu) <= delta
    assert stats.norm.sf((0.8 * x - mu**2 / 2) / mu) > delta
    # the epsilon of the (epsilon, delta) statement is smaller and does not bound the loss with
    # probability 1 - delta
    assert stats.norm.sf((privacy.gaussian(1 / mu).epsilon(delta) - mu**2 / 2) / mu) > delta


def test_posterior():
    assert Accounts.posterior(0.5, 0.0) == 0.5
    assert Accounts.posterior(0.5, math.log(3)) == pytest.approx(0.75)
    assert Accounts.posterior(0.0, 5.0) == 0.0
