"""The inverse of accounting: how much noise a budget needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from .._errors import InvalidArgument, integer, invalid, one_of, real
from ._budget import Budget
from ._constructors import allocated_gaussian, gaussian, subsampled_gaussian
from ._guarantee import Guarantee
from .accounting import fourier
from .accounting.allocation import LEAST_NOISE
from .accounting.bounds import simple_epsilon
from .accounting.events import CoarselyAllocatedEvent
from .accounting.gaussian import gaussian_mu

_LEAST = 1e-3  # noise multipliers below this hide nothing
_LEAST_EPSILON, _LEAST_DELTA = 1e-6, 1e-26  # in batches: tails are cut near 1e-26 a step
_TIGHT = 0.996  # a calibrated guarantee spends at least this share of epsilon


def gaussian_noise_multiplier(budget: Budget, steps: int = 1) -> float:
    """The smallest noise multiplier with which `steps` full-batch Gaussian releases stay within
    `budget`. It is exact for every epsilon (analytic Gaussian mechanism).

    Args:
        budget: `Budget(epsilon, delta)` with delta above 0.
        steps: Number of releases, at least 1.

    Returns:
        z = sigma / (L2 sensitivity).

    Raises:
        InvalidArgument: `budget.delta` is 0, or an argument is out of range.

    Guarantee:
        `gaussian(z, steps)` is within `budget`, and so are `steps` releases of `gaussian(z)`
        charged one by one.

    Source:
        Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 3.3.
        Proof: docs/proofs/gaussian.md.

    Examples:
        >>> import riemdp
        >>> round(riemdp.gaussian_noise_multiplier(riemdp.Budget(1.0, 1e-5)), 3)
        3.731
    """
    budget = _gaussian_budget(budget)
    return _gaussian(budget.epsilon, budget.delta, integer("steps", steps))


@functools.lru_cache(maxsize=4096)
def _gaussian(epsilon: float, delta: float, steps: int) -> float:
    budget = Budget(epsilon, delta)
    z = math.sqrt(steps) / gaussian_mu(epsilon, delta)
    more = 1e-13
    while not gaussian(z, steps).within(budget):  # rounding of the inverse: once or twice
        z *= 1 + more
        more *= 2
    return z


def subsampled_gaussian_noise_multiplier(
    budget: Budget,
    *,
    population: int,
    batch_size: int,
    steps: int,
    sampling: str = "without-replacement",
) -> float:
    """The smallest noise multiplier with which `steps` Gaussian releases on random batches stay
    within `budget`.

    It is the inverse of `subsampled_gaussian`, and its results are kept.

    Args:
        budget: `Budget(epsilon, delta)` with delta above 0.
        population: Number of records, at least 1.
        batch_size: Size of a batch, from 1 to `population`; the expected one with Poisson sampling.
        steps: Number of releases, at least 1.
        sampling: "without-replacement" or "poisson", as in `subsampled_gaussian`.

    Returns:
        The noise multiplier: sigma / (2 clip_norm / batch_size) without replacement, sigma /
        (clip_norm / batch_size) with Poisson sampling.

    Raises:
        InvalidArgument: The budget is pure, below epsilon 1e-6 or delta 1e-26, its delta is so
            large that it would hold without any noise, or an argument is out of range.

    Guarantee:
        `subsampled_gaussian(z, ...)` costs at most budget.epsilon at budget.delta, and at least
        99.5 % of it.

    Source:
        Proof: docs/proofs/subsampling.md.
    """
    budget = _gaussian_budget(budget)
    population = integer("population", population)
    batch_size = integer("batch_size", batch_size, at_most=population)
    steps = integer("steps", steps)
    sampling = one_of("sampling", sampling, ("without-replacement", "poisson"))
    if batch_size == population:
        return gaussian_noise_multiplier(budget, steps)
    _check_computable(budget)
    return _subsampled(budget.epsilon, budget.delta, population, batch_size, steps, sampling)


@functools.lru_cache(maxsize=4096)
def _subsampled(
    epsilon: float, delta: float, population: int, batch_size: int, steps: int, sampling: str
) -> float:
    def guarantee_of(z: float) -> Guarantee:
        return subsampled_gaussian(
            z, population=population, batch_size=batch_size, steps=steps, sampling=sampling
        )

    # Central limit theorem for the first guess (Dong, Roth and Su 2022, Theorem 6.2): mu = q sqrt(T
    # (exp(1/z^2) - 1)).
    ratio = gaussian_mu(epsilon, delta) * population / batch_size
    guess = 1 / math.sqrt(math.log1p(ratio * ratio / steps))

    # Coarse lattices lead near the answer; only the last evaluations need fine ones.
    budget = Budget(epsilon, delta)
    rough = _search(
        lambda z: min(
            simple_epsilon(guarantee_of(z).parts, delta),
            fourier.epsilon(guarantee_of(z).parts, delta, 0.03),
        ),
        budget,
        guess,
        share=0.97,
    )
    return _search(lambda z: guarantee_of(z).epsilon(delta), budget, rough)


def allocated_gaussian_noise_multiplier(budget: Budget, *, steps: int, epochs: int = 1) -> float:
    """The smallest noise multiplier with which `epochs` epochs of random allocation stay within
    `budget`.

    It is the inverse of `allocated_gaussian`, and its results are kept.

    Args:
        budget: `Budget(epsilon, delta)` with delta above 0.
        steps: Noisy steps of an epoch, >= 1; each record takes part in one of them.
        epochs: Epochs, >= 1.

    Returns:
        The noise multiplier, sigma / (clip_norm / planned batch size).

    Raises:
        InvalidArgument: The budget is pure, below epsilon 1e-6 or delta 1e-26, or an argument is
            out of range.

    Guarantee:
        `allocated_gaussian(z, steps=steps, epochs=epochs)` costs at most budget.epsilon at
        budget.delta, and at least 99.5 % of it where z is above 0.3.

    Source:
        Proof: docs/proofs/subsampling.md.

    Examples:
        >>> import riemdp
        >>> budget = riemdp.Budget(1.0, 1e-5)
        >>> z = riemdp.privacy.allocated_gaussian_noise_multiplier(budget, steps=20, epochs=2)
        >>> riemdp.privacy.allocated_gaussian(z, steps=20, epochs=2).within(budget)
        True
    """
    budget = _gaussian_budget(budget)
    steps, epochs = integer("steps", steps), integer("epochs", epochs)
    if steps == 1:
        return gaussian_noise_multiplier(budget, epochs)
    _check_computable(budget)
    return _allocated(budget.epsilon, budget.delta, steps, epochs)


@functools.lru_cache(maxsize=4096)
def _allocated(epsilon: float, delta: float, steps: int, epochs: int) -> float:
    def fine(z: float) -> float:
        return allocated_gaussian(z, steps=steps, epochs=epochs).epsilon(delta)

    def coarse(z: float) -> float:
        if z < LEAST_NOISE:
            return fine(z)
        return fourier.epsilon((CoarselyAllocatedEvent(z, steps, count=epochs),), delta)

    # The coarse figures are too large by a factor that hardly depends on z: found once, it leads
    # to where one or two fine evaluations settle it.
    budget = Budget(epsilon, delta)
    rough = _search(coarse, budget, math.sqrt(epochs) / gaussian_mu(epsilon, delta), share=0.97)
    at, exact = coarse(rough), fine(rough)
    if 0.0 < exact <= at < math.inf:
        rough = _search(lambda z: exact / at * coarse(z), budget, rough)
    return _search(fine, budget, rough)


def calibrate(
    guarantee_of: Callable[[float], Guarantee], budget: Budget, *, guess: float = 1.0
) -> float:
    """The smallest scale z whose `guarantee_of(z)` stays within `budget`, spending at least 99.5 %
    of its epsilon.

    It is for compositions that have no calibration of their own, such as `lambda z:
    participation(gaussian(z), agents=N, sampled=s, rounds=T)`.

    Args:
        guarantee_of: Maps a noise multiplier to a `Guarantee`, which must cost less as z grows.
        budget: `Budget(epsilon, delta)`.
        guess: Where the search begins, above 0.

    Returns:
        The noise multiplier.

    Raises:
        InvalidArgument: The budget would hold without any noise (its delta is too large), or an
            argument is out of range.

    Source:
        Proof: docs/proofs/composition.md.
    """
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    return _search(
        lambda z: guarantee_of(z).epsilon(budget.delta), budget, real("guess", guess, above=0.0)
    )


def _search(
    epsilon_of: Callable[[float], float], budget: Budget, guess: float, share: float = _TIGHT
) -> float:
    """A z with share * budget.epsilon <= epsilon_of(z) <= budget.epsilon, epsilon_of decreasing."""

    def excess(log_z: float) -> float:
        spent = epsilon_of(math.exp(log_z))
        return (
            math.log(spent / budget.epsilon)
            if 0.0 < spent < math.inf
            else (math.inf if spent else -math.inf)
        )

    # Secant on (log z, log epsilon), which is nearly a line, kept inside a bracket: `bad` costs too
    # much, `good` does not.
    bad, good = -math.inf, math.inf
    at_bad, at_good = math.inf, -math.inf
    log_z, aim = math.log(guess), math.log((1 + 2 * share) / 3)
    for _ in range(200):
        value = excess(log_z)
        if value <= 0.0:
            good, at_good = log_z, value
            if value >= math.log(share):
                return math.exp(log_z)
        else:
            bad, at_bad = log_z, value
        if good <= math.log(_LEAST):
            raise InvalidArgument(
                f"argument `budget` = {budget} needs no noise at all: its delta is at least the"
                " probability that a record is used. Such a delta protects nobody; give one well"
                " below 1/n"
            )
        if good - bad < 1e-12:
            break
        log_z = _next(bad, at_bad, good, at_good, aim)
    if math.isinf(good):
        raise InvalidArgument(
            f"argument `budget` = {budget} cannot be met by any amount of noise here (delta is"
            " used up)"
        )
    return math.exp(good)


def _next(bad: float, at_bad: float, good: float, at_good: float, aim: float) -> float:
    finite_bad, finite_good = math.isfinite(at_bad), math.isfinite(at_good)
    if finite_bad and finite_good:
        point = bad + (good - bad) * (at_bad - aim) / (at_bad - at_good)
        margin = 0.02 * (good - bad)
        return min(max(point, bad + margin), good - margin)
    if math.isinf(
        good
    ):  # epsilon falls at least like 1/z^(1/2) and at most like 1/z^4 where it matters
        return bad + (min(max(at_bad - aim, 0.01), 3.0) if finite_bad else 1.5)
    if math.isinf(bad):
        return good - (min(max(aim - at_good, 0.01), 3.0) if finite_good else 1.5)
    return (bad + good) / 2


def _check_computable(budget: Budget) -> None:
    """Refuse what the accounting of batches cannot tell from nothing, after minutes of trying."""
    if budget.epsilon < _LEAST_EPSILON or budget.delta < _LEAST_DELTA:
        remedy = (
            f"in batches, noise is computed for epsilon from {_LEAST_EPSILON:g} and delta from"
            f" {_LEAST_DELTA:g} on; give more, or use all records in each step"
        )
        raise invalid("budget", budget, remedy)


def _gaussian_budget(budget: object) -> Budget:
    """Check that Gaussian noise can meet `budget` at all."""
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if budget.delta == 0.0:
        remedy = (
            "Gaussian noise needs delta > 0; give one well below 1/n, or use a Laplace mechanism"
        )
        raise invalid("budget", budget, remedy)
    return budget
