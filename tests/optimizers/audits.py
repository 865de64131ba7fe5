"""Attacks on whole runs: worst-case neighbours, and a refutation at a stated error rate of the
guarantee that the run claims.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import stats

from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget, Problem, problems
from riemdp.manifolds import Euclidean
from tests.seam import Gradients, replicate
from tests.statistical import ALPHA

LINE = Euclidean(1)
N, B, TRIALS = 4, 2, 100_000
CLIP, RATE = 1.0, 0.1
EPSILONS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0])

# Steps of plain gradients: every record but the last rests at the start, the last one pulls as far
# as the clip allows, to either side. Its gradient is beyond every clip norm, wherever the run goes.
FAR = problems.frechet_mean(LINE)


# Variance reduction: a record s has the gradient s K w, K = STEEP beyond every clip norm (and small
# enough for a run without any clip to stay where numbers are), so that its
# difference to the anchor is clipped to c_t, in the direction of w - anchor; one of s = 0 pulls
# with a fixed gradient along the axis. The start is on the positive side and the others drift
# outwards, so the full gradient and every difference push the same way, by the full sensitivity.
STEEP = 30.0


def _drifting(w, z):
    return jnp.sum(jnp.where(z == 0.0, -w, 0.5 * STEEP * z * w * w))


DRIFTING = Problem(LINE, _drifting, gradient=lambda w, z: jnp.where(z == 0.0, -1.0, STEEP * z * w))

# As published, the difference of clipped gradients is largest where they are opposite: a record
# that pulls one way at the anchor and the other way everywhere else.
TURNING = Problem(
    LINE,
    lambda w, z: jnp.sum(z * w),
    gradient=lambda w, z: STEEP * z * jnp.where(w == 1.0, -1.0, 1.0),
)


def attacked(optimizer):
    """(problem, neighbouring data sets, start): under add-or-remove-one the record is there or
    pulls nowhere.
    """
    if isinstance(optimizer, DPRSVRG):
        x, y = np.zeros((N, 1)), np.zeros((N, 1))
        x[-1], y[-1] = -1.0, 1.0
        return DRIFTING if optimizer.variant == "anchored" else TURNING, (x, y), np.ones(1)
    x, y = np.zeros((N, 1)), np.zeros((N, 1))
    x[-1] = 1e6
    if not optimizer.counts_are_private:
        y[-1] = -1e6
    return FAR, (x, y), np.zeros(1)


def scores(optimizer, noise, kind=Gradients.NoisyGradient, attack=None, seed=1):
    """Final iterates under the two neighbours, and the guarantee claimed for the run. `noise`:
    sigma, or a budget.
    """
    problem, pair, start = attack or attacked(optimizer)
    given = {"budget": noise} if isinstance(noise, Budget) else {"noise_std": noise}
    found, claim = [], None
    for i, data in enumerate(pair):
        values, claim = replicate(
            problem,
            data,
            start,
            optimizer,
            repetitions=TRIALS,
            rng=seed + i,
            kind=kind,
            **given,
        )
        found.append(np.asarray(values)[:, 0])
    return found[0], found[1], claim


def excess(a, b, claim, alpha=ALPHA):
    """How far the claim is exceeded for certain: > 0 refutes it, wrongly with probability at most
    `alpha`.

    (epsilon, delta)-privacy means P_a(S) <= e^epsilon P_b(S) + delta for every set S. The half-line
    S (and which side is a) is chosen on the first half of the trials, its two probabilities are
    bounded on the second half (Clopper-Pearson), and delta is the claim's own at every epsilon of a
    grid.
    """
    half = len(a) // 2
    bounds = np.array([claim.delta(float(e)) for e in EPSILONS])
    best = (-np.inf, None)
    for left, right in ((a, b), (b, a), (-a, -b), (-b, -a)):
        levels = np.concatenate([np.linspace(0.01, 0.99, 99), [0.995, 0.999]])
        cuts = np.quantile(np.concatenate([left[:half], right[:half]]), levels)
        gained = _gain(*_counts(left[:half], right[:half], cuts), half, bounds, alpha)
        if gained.max() > best[0]:
            best = (gained.max(), (left, right, cuts[np.argmax(gained)]))
    left, right, cut = best[1]
    return float(
        _gain(*_counts(left[half:], right[half:], np.array([cut])), len(a) - half, bounds, alpha)[0]
    )


def _counts(left, right, cuts):
    return tuple(len(x) - np.searchsorted(np.sort(x), cuts, side="right") for x in (left, right))


def _gain(hits, alarms, n, bounds, alpha):
    low = np.where(hits > 0, stats.beta.ppf(alpha / 2, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(
        alarms < n, stats.beta.ppf(1 - alpha / 2, alarms + 1, np.maximum(n - alarms, 1)), 1.0
    )
    return np.max(low[:, None] - np.exp(EPSILONS) * high[:, None] - bounds, axis=1)


# ------------------------------------------------------------------------------------------------
# faults in a noisy gradient
@Gradients.traced("batches")
class LessNoise(Gradients.NoisyGradient):
    """A fifth of the noise is missing."""

    def answer(self, kernel, state, total, normals, **more):
        return super().answer(kernel, state, total, 0.8 * normals, **more)


@Gradients.traced("batches")
class NoiseOfTheMeanOnTheSum(Gradients.NoisyGradient):
    """sum / b + sigma N is the same as sum + b sigma N: with sigma on the sum there is b times too
    little noise.
    """

    def answer(self, kernel, state, total, normals, **more):
        return super().answer(kernel, state, total, normals / self.batches.size, **more)


# What a realised denominator leaks is how many came: all others pull one way, so that their mean
# says nothing, and the record the other way, which moves the mean of k + 1 by 2 C / (k + 1) instead
# of C / b.


def lonely(n):
    """(problem, neighbours, start): one record of n pulls to either side, the others rest."""
    x = np.zeros((n, 1))
    x[-1] = 1e6
    return FAR, (x, -x), np.zeros(1)


OPTIMIZERS = {
    "DPRGD": (DPRGD(3, RATE, CLIP), 0.8),
    "DPRSGD": (DPRSGD(2, 3, RATE, CLIP), 0.7),
    "DPRSGD-poisson": (DPRSGD(3, B, RATE, CLIP, sampling="poisson"), 0.5),
    "DPRSGD-allocation": (DPRSGD(4, B, RATE, CLIP, sampling="allocation"), 0.5),
    "DPRSVRG": (DPRSVRG(2, 3, RATE, CLIP, full_clip_norm=1.0, batch_size=B, smoothness=3.0), 0.7),
    "DPRSVRG-convexity": (
        DPRSVRG(2, 3, RATE, CLIP, full_clip_norm=1.0, batch_size=B, smoothness=4.0, convexity=-2.0),
        0.7,
    ),
    "DPRSVRG-as-published": (
        DPRSVRG(
            1,
            12,
            RATE,
            CLIP,
            full_clip_norm=0.01,
            batch_size=3,
            smoothness=3.0,
            variant="as-published",
        ),
        2.5,
    ),
}
