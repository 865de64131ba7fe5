"""What a DP-RSVRG run will do and with what noise: its shape, the split of the budget between its
two queries, in words.

All of it is decided before any record is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .._errors import InvalidArgument, invalid, real
from ..privacy import Budget, Guarantee, gaussian, gaussian_noise_multiplier, none
from ..problems._problem import Problem
from . import _loop
from ._optimizers import DPRSVRG
from ._plan import check_budget, default_batch, rate_array, resolve_clip, step_guarantee

LARGE = 1e150  # stands for "no bound" in a run without noise, where products with 0 must stay 0


@dataclass(frozen=True)
class Split:
    """Noise multipliers of the two queries of an epoch, and the standard deviations that follow."""

    z1: float  # full gradient
    z2: float  # inner steps
    sigma_full: float
    scale: float  # anchored: inner sigma / c_t; as published: the total sigma of every inner step


@dataclass(frozen=True)
class Shape:
    """The public numbers that accounting and calibration depend on (hashable, so that calibrations
    are memoised).
    """

    n: int
    b: int
    epochs: int
    inner: int
    restarts: int
    clip: float
    full_clip: float
    smoothness: float | None
    convexity: float | None
    rate: float
    anchored: bool

    @property
    def spread(self) -> float | None:
        """Half the width of the range [mu, L] of the Hessians of records; L without a lower bound;
        None without L.
        """
        if self.smoothness is None or self.convexity is None:
            return self.smoothness
        return (self.smoothness - self.convexity) / 2

    @property
    def middle(self) -> float | None:
        """The middle of that range; None where it is 0 or unknown, and differences are clipped
        about 0.
        """
        if self.smoothness is None or self.convexity is None:
            return None
        return (self.smoothness + self.convexity) / 2 or None

    @property
    def asks_between_anchors(self) -> bool:
        """Whether anything is unknown between anchors (not where all Hessians are the same multiple
        of the identity).
        """
        return not self.anchored or self.spread != 0.0

    @property
    def rounds(self) -> int:
        return self.epochs * self.restarts

    def guarantee(self, z1: float, z2: float, full_queries: int, inner_queries: int) -> Guarantee:
        """Full-gradient releases with multiplier z1 and batch releases with z2, replace-one."""
        if z1 <= 0 or z2 <= 0:
            return none()
        sampling = "full" if self.b == self.n else "without-replacement"
        whole = gaussian(z1).repeat(full_queries)
        return whole.compose(step_guarantee(z2, self.n, self.b, inner_queries, sampling))

    @property
    def per_run(self) -> int:
        """Inner steps between two restarts."""
        return self.epochs * self.inner

    def parts(self, rows: int) -> Iterator[Part]:
        """The run in order, cut into blocks of at most `rows` inner steps; a block never reaches
        into the next epoch.
        """
        for epoch in range(self.rounds):
            for offset in range(0, self.inner, rows):
                yield Part(
                    epoch,
                    epoch // self.epochs,
                    offset,
                    min(rows, self.inner - offset),
                    epoch * self.inner + offset,
                    epoch % self.epochs * self.inner + offset,
                )

    def asked(self, offset: int, count: int) -> tuple[int, int]:
        """Queries answered by inner steps offset..offset+count-1 of an epoch: none at step 0 of an
        anchored one.
        """
        if not self.asks_between_anchors:
            return 0, 0
        return (0, count - (1 if offset == 0 else 0)) if self.anchored else (count, count)

    @property
    def queries(self) -> tuple[int, int]:
        """(full-gradient releases, batch releases) of a whole run: anchored m-1 batches an epoch,
        as published m and m.
        """
        if self.anchored:
            return self.rounds, self.rounds * (self.inner - 1) if self.asks_between_anchors else 0
        return self.rounds * self.inner, self.rounds * self.inner

    def total(self, z1: float, z2: float) -> Guarantee:
        return self.guarantee(z1, z2, *self.queries)


class Part(NamedTuple):
    """A block of inner steps: rows offset..offset+count-1 of an epoch."""

    epoch: int  # counted over all restarts
    restart: int
    offset: int
    size: int
    step: int  # inner steps before it, over all restarts
    done: int  # inner steps before it since the last restart


@dataclass(frozen=True, eq=False)
class SvrgPlan:
    """What a run will do and with what noise; everything here is public. `str(plan)` explains it to
    a person.
    """

    shape: Shape
    split: Split
    rates: np.ndarray
    full_numbers: _loop.Numbers
    inner_numbers: _loop.InnerNumbers
    dim: int

    @property
    def steps(self) -> int:
        """Inner steps, over all epochs and restarts."""
        return self.shape.rounds * self.shape.inner

    @property
    def sigma(self) -> float:
        """What `OptimizationResult.sigma` will be: the anchor's noise, or as published that of
        every inner step.
        """
        return self.split.sigma_full if self.shape.anchored else self.split.scale

    @property
    def sensitivity(self) -> float:
        """Replace-one sensitivity of a full gradient, 2 C0 / n: the scale of `sigma`."""
        return 2 * self.shape.full_clip / self.shape.n

    @property
    def noise_to_signal(self) -> float:
        """Expected norm of that noise, sqrt(dim) sigma, over the largest norm of what it is added
        to.
        """
        largest = self.shape.full_clip if self.shape.anchored else self.shape.clip
        return math.sqrt(self.dim) * self.sigma / largest if self.sigma > 0 else 0.0

    @property
    def inner_noise_to_signal(self) -> float:
        """The same of an inner step at its largest clip radius 2 C1, far from the anchor; it falls
        to 0 at the anchor.
        """
        scale = 2 * self.split.scale if self.shape.anchored else self.split.scale / self.shape.clip
        return math.sqrt(self.dim) * scale if scale > 0 else 0.0

    def guarantee(self) -> Guarantee:
        """The guarantee of the whole run."""
        return self.shape.total(self.split.z1, self.split.z2)

    def __str__(self) -> str:
        s, ratio = self.shape, self.noise_to_signal
        again = f", {s.restarts} times" if s.restarts > 1 else ""
        words = [
            (
                f"DP-RSVRG ({'anchored' if s.anchored else 'as-published'}): {s.epochs} epochs of"
                f" {s.inner} inner steps{again} on {s.n} records, batch {s.b}, clip norms"
                f" {s.full_clip:.4g} (anchor) and {s.clip:.4g}"
            ),
            (
                f"  noise multipliers {self.split.z1:.4g} (full gradient) and {self.split.z2:.4g}"
                f" (batches), sigma {self.sigma:.4g}"
            ),
            f"  expected noise to signal: {ratio:.3g} "
            + ("at an anchor" if s.anchored else "in one step")
            + (
                f", at most {self.inner_noise_to_signal:.3g} of a record's gradient in an inner"
                " step"
                if s.anchored
                else ""
            ),
        ]
        if ratio > 1:
            words.append(
                "  the noise exceeds the largest gradient: expect no useful result from this budget"
            )
        return "\n".join(words)


def plan_svrg(
    problem: Problem, n: int, optimizer: DPRSVRG, budget: Budget | None, noise_std: float | None
) -> SvrgPlan:
    """Shape, calibrated noise and the public numbers of the two queries."""
    shape, rates = _shape_of(problem, n, optimizer, budget, noise_std)
    split = choose_split(shape, budget, noise_std)
    bounded = budget is not None or noise_std is not None
    clip, full_clip = (shape.clip, shape.full_clip) if bounded else (LARGE, LARGE)
    spread = shape.spread if bounded and shape.spread is not None else LARGE
    # As published, the full gradient itself carries no noise: that of every inner step covers it.
    full = _loop.Numbers(split.sigma_full if shape.anchored else 0.0, full_clip, float(n))
    inner = _loop.InnerNumbers(
        split.scale, clip, spread, shape.middle if bounded and shape.anchored else None
    )
    return SvrgPlan(shape, split, rates, full, inner, problem.manifold.dim)


def _shape_of(
    problem: Problem, n: int, o: DPRSVRG, budget: Budget | None, noise_std: float | None
) -> tuple[Shape, np.ndarray]:
    b = default_batch(n) if o.batch_size is None else o.batch_size
    if b > n:
        raise invalid("batch_size", b, f"there are only {n} records; give at most that many")
    inner = o.inner_steps if o.inner_steps is not None else max(2, min(50, math.ceil(2 * n / b)))
    epochs = o.epochs if o.epochs is not None else 3
    clip = (
        resolve_clip(problem, o.clip_norm)
        if budget is not None or noise_std is not None
        else math.inf
    )
    smoothness = o.smoothness if o.smoothness is not None else problem.smoothness
    convexity = o.convexity if o.convexity is not None else problem.convexity
    if convexity is not None and (smoothness is None or convexity > smoothness):
        raise invalid(
            "convexity",
            convexity,
            f"it bounds Hessians from below that smoothness = {smoothness} bounds from above; "
            "give a smaller convexity or a larger smoothness",
        )
    rates = rate_array(o.learning_rate, epochs * inner * o.restarts, smoothness, extra=0.5)
    shape = Shape(
        n,
        b,
        epochs,
        inner,
        o.restarts,
        clip,
        o.full_clip_norm or clip,
        smoothness,
        convexity,
        float(np.mean(rates)),
        o.variant == "anchored",
    )
    return shape, rates


# ------------------------------------------------------------------------------------------------
# calibration
def choose_split(shape: Shape, budget: Budget | None, noise_std: float | None) -> Split:
    """Noise multipliers for a budget (least predicted noise), or those that a given sigma means."""
    if noise_std is not None:
        if budget is not None:
            raise InvalidArgument(
                "arguments `budget` and `noise_std` exclude each other: give one of them"
            )
        return _from_sigma(shape, real("noise_std", noise_std, at_least=0.0))
    if budget is None:
        return Split(0.0, 0.0, 0.0, 0.0)
    check_budget(budget)
    z1, z2 = _calibrated_split(shape, budget.epsilon, budget.delta)
    if shape.anchored:
        return Split(z1, z2, _up(z1 * 2 * shape.full_clip / shape.n), _up(z2 * 2 / shape.b))
    return Split(
        z1,
        z2,
        0.0,
        _up(math.hypot(z1 * 2 * shape.full_clip / shape.n, z2 * 4 * shape.clip / shape.b)),
    )


def _from_sigma(shape: Shape, sigma: float) -> Split:
    """Anchored: sigma is the full gradient's, z2 takes an equal share of the cost. As published:
    sigma is every step's.
    """
    if sigma == 0.0:
        return Split(0.0, 0.0, 0.0, 0.0)
    if shape.anchored:
        z1 = _down(sigma * shape.n / (2 * shape.full_clip))
        z2 = _inner_multiplier(shape, shape.queries[0] / z1**2)
        return Split(z1, z2, sigma, _up(z2 * 2 / shape.b))
    share = _published_share(shape, sigma)
    s1, s2 = math.sqrt(share) * sigma, math.sqrt(1 - share) * sigma
    return Split(
        _down(s1 * shape.n / (2 * shape.full_clip)),
        _down(s2 * shape.b / (4 * shape.clip)),
        0.0,
        sigma,
    )


@functools.lru_cache(maxsize=1024)
def _calibrated_split(shape: Shape, epsilon: float, delta: float) -> tuple[float, float]:
    """(z1, z2) whose composition is within the budget. Their ratio comes from a normal
    approximation of the cost (it decides how good the run is, not how private); their common scale
    is then found with the accountant itself.
    """
    budget = Budget(epsilon, delta)
    mu = 1.0 / gaussian_noise_multiplier(budget)
    z1, z2 = _anchored_guess(shape, mu) if shape.anchored else _published_guess(shape, mu)
    low, high = 0.0, math.inf  # scales known to be too small, and to suffice
    scale = 1.0
    for _ in range(60):
        spent = shape.total(scale * z1, scale * z2)
        if spent.within(budget):
            high = scale
            got = spent.epsilon(delta)
            if got >= 0.99 * epsilon:
                break
            trial = scale * max(0.5, (got / epsilon) ** 0.9)
        else:
            low = scale
            trial = scale * min(2.0, max(1.005, 1.003 * min(spent.epsilon(delta) / epsilon, 4.0)))
        if not low < trial < high:
            trial = math.sqrt(low * high) if low > 0 and math.isfinite(high) else trial
        if math.isfinite(high) and high / max(low, 1e-300) < 1.002:
            break
        scale = trial
    if not math.isfinite(high):
        raise InvalidArgument(
            f"no noise was found that keeps this DPRSVRG run within {budget}; use fewer epochs or"
            " inner steps"
        )
    return high * z1, high * z2


def _subsampled_cost(shape: Shape, z2: float, count: int) -> float:
    """mu^2 of `count` batch queries in the limit of many steps (Dong, Roth and Su 2022, section 5);
    a guide only.
    """
    q = shape.b / shape.n
    if q == 1.0:
        return count / z2**2
    tilted = math.exp(min(1 / z2**2, 700.0)) * float(ndtr(1.5 / z2))
    return 2 * q * q * count * (tilted + 3 * float(ndtr(-0.5 / z2)) - 2)


def _inner_multiplier(shape: Shape, cost: float) -> float:
    """z2 whose batch queries cost about `cost` (mu^2); at least 0.3."""
    count = max(1, shape.queries[1])
    low, high = 0.3, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if _subsampled_cost(shape, middle, count) > cost else (low, middle)
        )
    return high


def _anchored_guess(shape: Shape, mu: float) -> tuple[float, float]:
    fulls, inners = shape.queries
    if inners == 0:
        return math.sqrt(fulls) / mu, 1.0
    # Predicted c_t while the iterate moves away from the anchor with a quarter of the largest full
    # gradient.
    beta = shape.spread
    reach = shape.rate * shape.full_clip / 4
    bounds = [
        2 * shape.clip if beta is None else min(2 * shape.clip, beta * reach * t)
        for t in range(1, shape.inner)
    ]
    typical = float(np.mean(np.square(bounds)))

    def noise(share: float) -> float:
        z1 = math.sqrt(fulls / (share * mu**2))
        z2 = _inner_multiplier(shape, (1 - share) * mu**2)
        # The anchor's noise is the same at all m inner steps, so it adds up coherently; the inner
        # noises do not.
        return (
            shape.inner * (z1 * 2 * shape.full_clip / shape.n) ** 2
            + (2 * z2 / shape.b) ** 2 * typical
        )

    share = float(min(np.linspace(0.02, 0.98, 49), key=noise))
    return math.sqrt(fulls / (share * mu**2)), _inner_multiplier(shape, (1 - share) * mu**2)


def _published_share(shape: Shape, sigma: float) -> float:
    """Share of the variance given to the full gradient: the one that costs least."""
    fulls, inners = shape.queries

    def cost(share: float) -> float:
        z1 = math.sqrt(share) * sigma * shape.n / (2 * shape.full_clip)
        z2 = math.sqrt(1 - share) * sigma * shape.b / (4 * shape.clip)
        return fulls / z1**2 + _subsampled_cost(shape, z2, inners)

    return float(min(np.linspace(0.01, 0.99, 99), key=cost))


def _published_guess(shape: Shape, mu: float) -> tuple[float, float]:
    best = (math.inf, 1.0, 1.0)
    fulls, _ = shape.queries
    for share in np.linspace(0.02, 0.98, 49):  # share of the cost; the sigma that each share needs
        z1 = math.sqrt(fulls / (share * mu**2))
        z2 = _inner_multiplier(shape, (1 - share) * mu**2)
        sigma = math.hypot(z1 * 2 * shape.full_clip / shape.n, z2 * 4 * shape.clip / shape.b)
        best = min(best, (float(sigma), float(z1), float(z2)))
    return best[1], best[2]


def _up(x: float) -> float:
    return math.nextafter(x, math.inf)


def _down(x: float) -> float:
    return math.nextafter(x, 0.0)
