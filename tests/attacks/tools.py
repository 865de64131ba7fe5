"""What the attacks share: claims in the attacker's units, and releases under one fixed draw."""

from __future__ import annotations

import numpy as np
from scipy import stats

import riemdp
from riemdp.privacy import Guarantee


def claimed_mu(guarantee: Guarantee) -> float:
    """The mu of a guarantee that is one Gaussian release, read off its delta at epsilon 0."""
    return float(2 * stats.norm.ppf((1 + guarantee.delta(0.0)) / 2))


def separation(problem, data, neighbour, start, optimizer, *, rate, noise_std, seed=1):
    """(distance of two neighbours' results under the SAME noise over the noise, the claimed mu).

    Both runs take one step from the same start with the same seed, so the noise cancels and what is
    left is the change of the released gradient. `rate` is so small that the space is flat within a
    step. The first number is the mu that a Gaussian attacker has; a true claim is not below it.
    """
    runs = [
        riemdp.private_minimize(problem, d, start, optimizer, noise_std=noise_std, rng=seed)
        for d in (data, neighbour)
    ]
    apart = float(problem.manifold.dist(runs[0].value, runs[1].value))
    return apart / (rate * noise_std), claimed_mu(runs[0].guarantee)


def refuted(hits, alarms, trials, epsilon, delta=0.0, alpha=1e-6):
    """Whether `hits` against `alarms` of `trials` each contradict (epsilon, delta), wrongly with
    probability at most `alpha` (Clopper-Pearson, half of it a side).
    """
    low = stats.beta.ppf(alpha / 2, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - alpha / 2, alarms + 1, trials - alarms) if alarms < trials else 1.0
    return bool(low > np.exp(epsilon) * high + delta)


def outcome(action):
    """'returns', or the name of the exception: all that a data set may never decide."""
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return "returns"
