"""Public settings of a run, decided before any record is read: defaults from theory, schedules,
noise to signal.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import InvalidArgument, integer, invalid, real
from ..privacy import (
    Budget,
    Guarantee,
    gaussian,
    gaussian_noise_multiplier,
    none,
    subsampled_gaussian,
)
from ..problems._problem import Problem
from ._optimizers import DPRGD, DPRSGD, DPRSVRG, Optimizer, Rate, check_optimizer

MOST_STEPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run will do and what noise it will carry; everything here is public. `str(plan)`
    explains it to a person.
    """

    method: str
    n: int
    dim: int
    steps: int
    batch_size: int
    sampling: str  # "full", "without-replacement" or "poisson"
    rates: np.ndarray
    clip: float  # inf where nothing is clipped
    sensitivity: float  # of the averaged gradient, in the adjacency of the guarantee
    noise_multiplier: float  # sigma / sensitivity; 0 without noise
    sigma: float
    signal: float  # the public scale of the averaged gradient that the noise is compared with
    momentum: float = 0.0

    @property
    def noise_to_signal(self) -> float:
        """Expected norm of one step's noise, sqrt(dim) sigma, over the largest norm the averaged
        gradient can have.
        """
        return math.sqrt(self.dim) * self.sigma / self.signal if self.signal > 0 else math.inf

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """The guarantee of the first `steps` steps (all by default)."""
        steps = self.steps if steps is None else steps
        return step_guarantee(self.noise_multiplier, self.n, self.batch_size, steps, self.sampling)

    def __str__(self) -> str:
        ratio = self.noise_to_signal
        words = [
            (
                f"{self.method}: {self.steps} steps on {self.n} records, batch {self.batch_size}"
                f" ({self.sampling}), clip norm {self.clip:.4g}, sensitivity {self.sensitivity:.4g}"
            ),
            (
                f"  noise multiplier {self.noise_multiplier:.4g}, sigma {self.sigma:.4g} per"
                " coordinate of the averaged gradient"
            ),
            f"  expected noise to signal in one step: {ratio:.3g}"
            + (f"; momentum {self.momentum:.3g}" if self.momentum else ""),
        ]
        if ratio > 1:
            averaged = ratio / math.sqrt(self.steps)
            words.append(
                "  the noise of one step exceeds the largest gradient"
                + (
                    f"; averaged over all steps it is still {averaged:.3g} times it: this budget"
                    " will not give a useful result"
                    if averaged > 1
                    else f"; averaged over all steps it is {averaged:.3g} of it"
                )
            )
        return "\n".join(words)


def step_guarantee(
    noise_multiplier: float, n: int, batch_size: int, steps: int, sampling: str
) -> Guarantee:
    """The guarantee of `steps` noisy steps: exact Gaussian composition on all records, subsampled
    Gaussian on batches.
    """
    if noise_multiplier <= 0.0:
        return none()
    if steps == 0:
        return gaussian(noise_multiplier).repeat(0)
    if sampling == "full":
        return gaussian(noise_multiplier, steps)
    return subsampled_gaussian(
        noise_multiplier, population=n, batch_size=batch_size, steps=steps, sampling=sampling
    )


@functools.lru_cache(maxsize=4096)
def _calibrated(
    epsilon: float, delta: float, n: int, batch_size: int, steps: int, sampling: str
) -> float:
    budget = Budget(epsilon, delta)
    if sampling == "full":
        return gaussian_noise_multiplier(budget, steps)
    from ..privacy import subsampled_gaussian_noise_multiplier

    return subsampled_gaussian_noise_multiplier(
        budget, population=n, batch_size=batch_size, steps=steps, sampling=sampling
    )


def check_budget(budget: Any) -> Budget:
    """A budget that Gaussian noise can meet."""
    if not isinstance(budget, Budget):
        raise invalid(
            "budget",
            budget,
            "give a riemdp.Budget(epsilon, delta), or None for a run that is not private",
        )
    if not budget.delta > 0:
        raise invalid("budget", budget, "Gaussian noise needs delta > 0; give one well below 1/n")
    return budget


def rate_array(
    rate: Rate, steps: int, smoothness: float | None, extra: float = 1.0, hold: float = math.inf
) -> np.ndarray:
    """The step size of every step, evaluated on the host once.

    When none is given: extra / smoothness in the first half, as the theory of PL functions asks;
    then it falls as 1 / (1 + t / hold). Near the optimum a step contracts by 1 - mu h / (L t) then,
    so that from t = h on all noisy gradients weigh about the same in the iterate: T steps with 1 /
    T of the (squared) budget each are worth nearly one with all of it, where a constant rate keeps
    the noise of the last few only. hold = k / 2 is the smallest for which this holds on every
    problem of condition number up to k.
    """
    if rate is None:
        if smoothness is None:
            raise invalid(
                "learning_rate",
                rate,
                "the problem states no smoothness, so there is no default; give a number or a "
                "function of the step",
            )
        return extra / smoothness / (1.0 + np.maximum(np.arange(steps) - steps // 2, 0) / hold)
    if not callable(rate):
        return np.full(steps, float(rate))
    values = np.array([_one_rate(rate(t), t) for t in range(steps)])
    return values


def _one_rate(value: Any, t: int) -> float:
    try:
        return real(
            "learning_rate", value if not hasattr(value, "item") else value.item(), at_least=0.0
        )
    except InvalidArgument as error:
        raise InvalidArgument(
            f"argument `learning_rate` returns an unusable value at step {t}: {error}"
        ) from error


def default_steps(
    problem: Problem,
    n: int,
    budget: Budget | None,
    accelerated: bool = False,
    averaged: bool = False,
) -> int:
    """condition * log(n^2 eps^2 / (d log(1/delta))), between 1 and 500 (Han2024 Theorem 4; public
    numbers only).

    With the default momentum its square root stands in place of the condition number. `averaged`:
    as many again, in which the rates fall.
    """
    if budget is None:
        return 100
    gain = n**2 * budget.epsilon**2 / (problem.manifold.dim * math.log(1.0 / budget.delta))
    condition = math.sqrt(problem.condition) if accelerated else problem.condition
    return int(min(500, max(1, math.ceil(condition * math.log(max(gain, math.e)))))) * (
        2 if averaged else 1
    )


def averages_at_the_end(optimizer: DPRGD | DPRSGD, private: bool) -> bool:
    """Whether the default rates fall in the second half: where there is noise to be averaged and
    nothing else averages it.
    """
    return (
        private
        and optimizer.learning_rate is None
        and optimizer.output == "last"
        and optimizer.momentum == 0.0
    )


def default_batch(n: int) -> int:
    """ceil(n / 5). At a given budget and number of steps sigma hardly depends on the batch while
    the noise multiplier stays above 1; below, amplification is lost and sigma grows like 1 / b.
    Small batches save time without privacy and cost accuracy with it.
    """
    return math.ceil(n / 5)


def resolve_momentum(problem: Problem, momentum: float | None) -> float:
    """The decay of the velocity; the heavy-ball optimum of a quadratic with the problem's condition
    number when None.
    """
    if momentum is not None:
        return momentum
    root = math.sqrt(problem.condition)
    return ((root - 1.0) / (root + 1.0)) ** 2


def resolve_clip(problem: Problem, clip_norm: float | None) -> float:
    """The clip norm, or the problem's public Lipschitz constant when none is given."""
    if clip_norm is not None:
        return clip_norm
    if problem.lipschitz is None:
        raise invalid(
            "clip_norm",
            None,
            "the problem states no Lipschitz constant, so there is no default; give a public bound "
            "on the norm of one record's gradient",
        )
    return problem.lipschitz


def domain_sensitivity(problem: Problem, b: int) -> float:
    """Replace-one sensitivity of the average of b gradients when records are clamped to the
    problem's ball.

    record_lipschitz times sup |log_w x - log_w x'| / b: 2 * 2r / b for d^2 on Hadamard spaces at
    every w, times theta / sin theta for w inside the ball where the curvature is positive.
    """
    if problem.ball is None or problem.record_lipschitz is None:
        raise InvalidArgument(
            "argument `sensitivity` = 'domain' needs a problem whose records are clamped to a"
            " public ball, such as problems.frechet_mean(manifold, ball=Ball(center, radius)); use"
            " sensitivity='clip' for this one"
        )
    from ..statistics._sensitivity import mean_gradient_sensitivity

    return problem.record_lipschitz * mean_gradient_sensitivity(problem.manifold, problem.ball, b)


def plan_optimizer(
    problem: Problem,
    n: int,
    optimizer: Optimizer,
    budget: Budget | None,
    *,
    noise_std: float | None = None,
) -> Any:
    """What `private_minimize` would run for `n` records: steps, sigma, expected noise to signal.
    Reads no record.

    Print it before spending: a run whose noise exceeds the signal is seen here. Arguments as in
    `private_minimize`. For `DPRSVRG` it states the noise at an anchor and the largest that an inner
    step can have.
    """
    optimizer = check_optimizer(optimizer)
    n = integer("n", n)
    if isinstance(optimizer, DPRSVRG):
        from ._svrg_plan import plan_svrg

        return plan_svrg(problem, n, optimizer, budget, noise_std)
    if noise_std is not None:
        noise_std = real("noise_std", noise_std, at_least=0.0)
        if budget is not None:
            raise InvalidArgument(
                "arguments `budget` and `noise_std` exclude each other: give one of them"
            )
    elif budget is not None:
        check_budget(budget)
    batch_size, sampling = _batches(optimizer, n)
    steps = _steps(optimizer, problem, n, batch_size, budget)
    private = budget is not None or noise_std is not None
    hold = problem.condition / 2.0 if averages_at_the_end(optimizer, private) else math.inf
    rates = rate_array(optimizer.learning_rate, steps, problem.smoothness, hold=hold)
    domain = optimizer.sensitivity == "domain"
    if domain:
        clip, sensitivity = math.inf, domain_sensitivity(problem, batch_size)
        signal = problem.lipschitz or sensitivity * batch_size
    elif private:
        clip = resolve_clip(problem, optimizer.clip_norm)
        sensitivity = (1.0 if sampling == "poisson" else 2.0) * clip / batch_size
        signal = clip
    else:
        clip, sensitivity, signal = math.inf, math.inf, math.inf
    multiplier, sigma = 0.0, 0.0
    if noise_std is not None:
        sigma = noise_std
        # Rounded down: the guarantee must not be stated with more noise than there is.
        multiplier = math.nextafter(sigma / sensitivity, 0.0) if sigma > 0 else 0.0
    elif budget is not None:
        multiplier = _calibrated(budget.epsilon, budget.delta, n, batch_size, steps, sampling)
        sigma = math.nextafter(multiplier * sensitivity, math.inf)
    return Plan(
        method="DP-RGD" if isinstance(optimizer, DPRGD) else "DP-RSGD",
        n=n,
        dim=problem.manifold.dim,
        steps=steps,
        batch_size=batch_size,
        sampling=sampling,
        rates=rates,
        clip=clip,
        sensitivity=sensitivity,
        noise_multiplier=multiplier,
        sigma=sigma,
        signal=signal,
        momentum=resolve_momentum(problem, optimizer.momentum),
    )


def _batches(optimizer: DPRGD | DPRSGD, n: int) -> tuple[int, str]:
    if isinstance(optimizer, DPRGD):
        return n, "full"
    b = default_batch(n) if optimizer.batch_size is None else optimizer.batch_size
    if b > n:
        raise invalid("batch_size", b, f"there are only {n} records; give at most that many")
    # A batch of all records, without replacement, is the full gradient, and is accounted for
    # exactly as that.
    return (
        b,
        "full" if b == n and optimizer.sampling == "without-replacement" else optimizer.sampling,
    )


def _steps(
    optimizer: DPRGD | DPRSGD, problem: Problem, n: int, b: int, budget: Budget | None
) -> int:
    if optimizer.steps is not None:
        return optimizer.steps
    passes = default_steps(
        problem,
        n,
        budget,
        optimizer.momentum is None,
        averages_at_the_end(optimizer, budget is not None),
    )
    # A batch of a fifth of the records or more is taken for the full gradient: the noise, not the
    # batch, is what disturbs a step. The smaller it is below that, the more steps.
    return (
        passes
        if b == n
        else int(min(MOST_STEPS, math.ceil(passes * max(1.0, default_batch(n) / b))))
    )
