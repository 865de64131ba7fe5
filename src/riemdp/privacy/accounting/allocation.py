r"""The distribution of one epoch of random allocation: every record in exactly one of t noisy
steps.

The dominating pair of an epoch is Q = N(0, z^2 I_t) against P = (1/t) sum_i N(e_i, z^2 I_t)
(Feldman and Shenfeld 2025, arXiv 2502.08202). Its likelihood ratio is R = S/t, S = X_1 + ... +
X_t, where X_i = exp((y_i - 1/2)/z^2) are independent and lognormal with mean 1 under Q.
The profiles of both directions are expectations of convex functions of R under Q,

    record removed: E (R - e^epsilon)_+,       record added: E (1 - e^epsilon R)_+,

so *every mean-preserving spread of R gives an upper bound for both*. Masses are put on a grid by
moving each to its two neighbours with its mean kept, for X once and for every sum of two
independent terms again (a sum of spreads is a spread of the sum). That is accurate to second order
in the grid, needs no Fourier transform (sums of positive numbers keep their relative precision,
nothing wraps around), and the grid may be fine in the middle and geometric in the tails. What lies
above the last point is moved to it and to infinity; what lies below the first, to it and to 0,
where adding a record has an infinite loss.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .normal import between, ndtr

Floats = NDArray[np.float64]

_TAIL = 11.0  # standard deviations of a single step; what is beyond is below 1e-27
FINE = 22.0  # points of the grid a standard deviation of the sum
COARSE = 9.0  # the same for a search: in a sixth of the time, and 1 to 2 % above
_GROWTH = 0.55  # relative distance of points in the tails, times `points`
_DUST = 1e-24  # masses below this are given up: counted as infinite losses
_PAIRS = 1 << 13  # of points that are added at a time: what fits into a processor's cache
_MOST_CELLS = 1 << 22
LEAST_NOISE = 0.3  # below it hardly anything is amplified


@dataclass(frozen=True)
class RatioDistribution:
    """A mean-preserving spread of the likelihood ratio of an epoch, under Q.

    Attributes:
        ratio: Values of R > 0.
        mass: Their probabilities under Q.
        removed: Probability of an infinite loss under P (the record removed).
        added: Probability of an infinite loss under Q (the record added).
    """

    ratio: Floats
    mass: Floats
    removed: float
    added: float

    def losses(self, add: bool) -> tuple[Floats, Floats, float]:
        """(losses, their probabilities, probability of an infinite loss) in one direction."""
        log_ratio = np.log(self.ratio)
        if add:
            return -log_ratio, self.mass, self.added
        return log_ratio, self.mass * self.ratio, self.removed

    def delta(self, epsilon: float) -> float:
        """The larger of the two directions' deltas."""
        up = math.exp(min(epsilon, 700.0))
        removed = self.removed + float(self.mass @ np.maximum(self.ratio - up, 0.0))
        added = self.added + float(self.mass @ np.maximum(1.0 - up * self.ratio, 0.0))
        return min(1.0, max(removed, added))


@dataclass(frozen=True)
class _Ratios:
    """A sum of terms on a grid that begins with 0; `excess` is the mean that was sent to infinity,
    `given_up` the probability that was not followed.
    """

    value: Floats
    mass: Floats
    excess: float
    given_up: float


def epoch(noise_multiplier: float, steps: int, points: float = FINE) -> RatioDistribution:
    """The distribution of one epoch of `steps` steps, as a spread of the exact one: with few
    `points`, a larger one. It is kept.
    """
    return _epoch(noise_multiplier, steps, points)


@functools.lru_cache(maxsize=64)
def _epoch(noise_multiplier: float, steps: int, points: float) -> RatioDistribution:
    # From the leading binary digit of `steps` down: double, and add one term where the digit is 1.
    single = total = _single(noise_multiplier, points)
    for digit in range(steps.bit_length() - 2, -1, -1):
        terms = steps >> digit
        grid = _grid(noise_multiplier, terms - terms % 2, points)
        total = _sum(total, total, grid, steps)
        if terms % 2:
            total = _sum(total, single, _grid(noise_multiplier, terms, points), steps)
    at_zero, keep = float(total.mass[0]), total.mass[1:] > 0.0
    return RatioDistribution(
        total.value[1:][keep] / steps,
        total.mass[1:][keep],
        # what was given up had less than 2 _DUST of each measure at every point
        (total.excess / steps + total.given_up) * (1 + 1e-9),
        (at_zero + total.given_up) * (1 + 1e-9),
    )


def _grid(noise_multiplier: float, terms: int, points: float) -> Floats:
    """0, and `points` a standard deviation about the mean, geometric far away."""
    mu, growth = 1 / noise_multiplier, _GROWTH / points
    spread = math.sqrt(terms * math.expm1(min(mu * mu, 700.0)))
    low = terms * math.exp(-mu * mu / 2 - mu * _TAIL)
    high = terms + 12 * spread + math.exp(mu * mu / 2 + mu * _TAIL)
    # The typical width of the distribution, of which the standard deviation says too much if X is
    # skew.
    core = min(spread, terms * 1.0) / points

    def side(reach: float) -> Floats:
        """Distances from the mean: steps of `core`, then growing with the distance."""
        turn = core / growth
        count = max(2, math.ceil(min(reach, turn) / core) + 1)
        linear: Floats = np.arange(1, count, dtype=np.float64) * core
        if linear[-1] >= reach:
            return linear
        far = math.ceil(math.log(reach / linear[-1]) / math.log1p(growth))
        outer: Floats = linear[-1] * np.exp(math.log1p(growth) * np.arange(1.0, far + 1))
        return np.concatenate([linear, outer])

    above = terms + side(high - terms)
    below = terms - side(terms - low)
    below = below[below > 0.04 * terms][::-1]
    # Down to the smallest values a geometric grid: there the ratio counts, not the difference.
    first = float(below[0]) if below.size else float(terms)
    count = max(1, math.ceil(math.log(first / low) / (2 * growth)))
    tail = first * np.exp(-2 * growth * np.arange(count, 0, -1))
    return np.concatenate([[0.0], tail, below, [float(terms)], above])


def _single(noise_multiplier: float, points: float) -> _Ratios:
    """X on its grid: each bin's mass and mean are kept."""
    mu = 1 / noise_multiplier
    grid = _grid(noise_multiplier, 1, points)
    with np.errstate(divide="ignore"):
        edge = np.log(grid) / mu + mu / 2  # in standard deviations of y
    mass = between(edge[:-1], edge[1:])
    moved = between(edge[:-1] - mu, edge[1:] - mu)  # E X over the bin
    upper = np.clip((moved - mass * grid[:-1]) / np.diff(grid), 0.0, mass)
    weight = np.zeros(grid.size)
    weight[:-1] += mass - upper
    weight[1:] += upper
    beyond, mean_beyond = float(ndtr(-edge[-1])), float(ndtr(mu - edge[-1]))
    weight[-1] += beyond
    return _Ratios(grid, weight, max(0.0, mean_beyond - beyond * float(grid[-1])), 0.0)


def _sum(one: _Ratios, two: _Ratios, grid: Floats, steps: int) -> _Ratios:
    """The sum of two independent distributions, spread over a grid."""
    (x, p, lost_one), (y, q, lost_two) = _without_dust(one, steps), _without_dust(two, steps)
    same = one is two  # then pairs of unlike points occur twice, and one half of them will do
    rows = max(1, _PAIRS // y.size)
    below = _Below(grid, float(x[-1] + y[-1]))
    mass, moment = np.zeros(grid.size), np.zeros(grid.size)  # of what lies above each point
    for start in range(0, x.size, rows):
        block = slice(start, start + rows)
        value = np.add.outer(x[block], y[start:] if same else y).ravel()
        weight = np.multiply.outer(p[block], q[start:] if same else q)
        if same:
            weight[:, rows:] *= 2.0
        weight = weight.ravel()
        index = below(value)
        mass += np.bincount(index, weight, grid.size)
        weight *= value
        moment += np.bincount(index, weight, grid.size)
    beyond = moment - mass * grid
    upper = np.clip(beyond[:-1] / np.diff(grid), 0.0, mass[:-1])
    mass[:-1] -= upper
    mass[1:] += upper
    excess = one.excess + two.excess + max(0.0, float(beyond[-1]))
    return _Ratios(grid, mass, excess, one.given_up + two.given_up + lost_one + lost_two)


class _Below:
    """The index of the last point of a grid that is not above a value >= 0.

    The leading bits of a float64 >= 0, read as an integer, rise with it. So many of them that no
    two points share them cut the line into cells, in each of which one comparison is left to do.
    """

    def __init__(self, grid: Floats, highest: float):
        self.grid, bits = grid, grid[1:].view(np.int64)  # the first point is 0
        self.shift = 52
        while np.any(np.diff(bits >> self.shift) == 0):
            self.shift -= 1
        self.first = int(bits[0] >> self.shift)
        last = int(np.float64(max(highest, grid[-1])).view(np.int64) >> self.shift)
        self.small = last - self.first < _MOST_CELLS
        if self.small:
            start = (np.arange(self.first, last + 1) << self.shift).view(np.float64)
            self.before = np.maximum(np.searchsorted(grid, start) - 1, 0)
            self.next = np.append(grid[1:], math.inf)[self.before]

    def __call__(self, value: Floats) -> NDArray[np.intp]:
        if not self.small:  # so many terms that the distribution is very narrow
            return np.searchsorted(self.grid, value, side="right") - 1
        cell = (value.view(np.int64) >> self.shift) - self.first
        np.maximum(cell, 0, out=cell)
        index = self.before[cell]
        index += value >= self.next[cell]
        return index


def _without_dust(ratios: _Ratios, steps: int) -> tuple[Floats, Floats, float]:
    """The points that matter under Q or under P, and the probability of the others under either."""
    size = ratios.mass * np.maximum(1.0, ratios.value)
    keep = size > _DUST / steps
    return ratios.value[keep], ratios.mass[keep], float(np.sum(size[~keep]))
