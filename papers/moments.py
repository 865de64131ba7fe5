"""Utpala2023's accounting of DP-RSVRG by moments, for reproduction; releases are accounted by
privacy-loss distributions.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import gammaln, logsumexp

from riemdp.privacy import gaussian, subsampled_gaussian

ALPHA_OPTIMAL = (
    math.sqrt(14) - 1
) / 13  # minimises 2/alpha + 28/(1 - alpha), the bracket of Utpala2023 (3)
_ORDERS = np.arange(2, 129)


def bracket(alpha: float) -> float:
    """2/alpha + 28/(1 - alpha): what the split of the variance costs in Utpala2023 (3) when C0 =
    C1.
    """
    return 2 / alpha + 28 / (1 - alpha)


def subsampled_moments(
    noise_multiplier: float, rate: float, orders: np.ndarray = _ORDERS
) -> np.ndarray:
    """Upper bound of the Renyi divergence of a Gaussian on one random record, replace-one, at
    integer orders.

    Wang, Balle, Kasiviswanathan (2019) Theorem 9 with epsilon(infinity) = infinity, which the
    paper's accountant evaluates.
    """
    out = []
    for a in orders:
        j = np.arange(2, a + 1)
        e = j / (2 * noise_multiplier**2)
        terms = (
            j * math.log(rate)
            + gammaln(a + 1)
            - gammaln(j + 1)
            - gammaln(a - j + 1)
            + (j - 1) * e
            + math.log(2)
        )
        small = math.log(4) + math.log(math.expm1(e[0])) if e[0] < 500 else math.inf
        terms[0] = 2 * math.log(rate) + math.log(a * (a - 1) / 2) + min(small, e[0] + math.log(2))
        out.append(np.logaddexp(0.0, logsumexp(terms)) / (a - 1))
    return np.array(out)


def rsvrg_epsilon_by_moments(
    alpha: float,
    *,
    sigma: float,
    epochs: int,
    inner: int,
    n: int,
    full_clip: float,
    clip: float,
    delta: float,
) -> float:
    """epsilon of DP-RSVRG as published, from moments: sigma1^2 = alpha sigma^2 for the full
    gradient, the rest for the record.

    Converted to (epsilon, delta) as in Balle et al. (2020) Theorem 21.
    """
    z1 = math.sqrt(alpha) * sigma * n / (2 * full_clip)
    z2 = math.sqrt(1 - alpha) * sigma / (4 * clip)
    steps = inner * epochs
    renyi = steps * (_ORDERS / (2 * z1**2) + subsampled_moments(z2, 1 / n))
    return float(np.min(renyi + np.log1p(-1 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1)))


@functools.lru_cache(maxsize=1024)
def rsvrg_epsilon(
    alpha: float,
    *,
    sigma: float,
    epochs: int,
    inner: int,
    n: int,
    full_clip: float,
    clip: float,
    delta: float,
    full_queries: int | None = None,
) -> float:
    """The same run by this library's accountant; `full_queries`: how often the full gradient is
    queried (default: every step).
    """
    z1 = math.sqrt(alpha) * sigma * n / (2 * full_clip)
    z2 = math.sqrt(1 - alpha) * sigma / (4 * clip)
    whole = gaussian(z1, steps=inner * epochs if full_queries is None else full_queries)
    return float(
        whole.compose(
            subsampled_gaussian(z2, population=n, batch_size=1, steps=inner * epochs)
        ).epsilon(delta)
    )
