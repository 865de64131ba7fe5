"""What every optimiser states before a run: public settings, defaults from theory, a plan.

All of it is decided before any record is read. An optimiser of your own subclasses
`AbstractOptimizer` and `AbstractPlan`; nothing else needs to know of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, integer, invalid, magnitude, one_of, real
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee
from ..privacy._guarantee import REPLACE_ONE
from ..problems._problem import Problem
from ..statistics._sensitivity import gradient_bound
from ._adaptive_clip import ADAPTIVE
from ._private_step import Batches, NoisyGradient
from ._records import PrivateRecords
from ._run import Run

MOST_STEPS = 1_000_000
OUTPUTS = ("last", "uniform", "geodesic-average")
UPDATES = ("exp", "retract")

Rate = float | Callable[[int], float] | None


class AbstractPlan(ABC):
    """What a run will do and what noise it will carry; everything here is public. `str(plan)`
    explains it to a person.
    """

    parts: tuple[Any, ...] = ()
    """The settings of each call of a run that is made in parts; empty for a run at once."""

    @property
    @abstractmethod
    def method(self) -> str:
        """The name of what runs."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps are planned."""

    @property
    @abstractmethod
    def sigma(self) -> float:
        """Standard deviation of the noise per orthonormal coordinate of an averaged gradient."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How much one record can change that gradient, in the adjacency of the guarantee."""

    @property
    @abstractmethod
    def noise_to_signal(self) -> float:
        """Expected norm of the noise over the largest norm of what it is added to."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee of the whole run, of all its parts together."""

    @property
    @abstractmethod
    def details(self) -> Mapping[str, Any]:
        """Further public facts, for `OptimizationResult.details`."""

    @abstractmethod
    def bind(
        self,
        problem: Problem,
        records: PrivateRecords,
        point: Point,
        *,
        kind: type[NoisyGradient] = NoisyGradient,
        repetitions: int | None = None,
    ) -> Run:
        """The run on these records.

        Args:
            problem: The problem that was planned for.
            records: The private records.
            point: Where it starts; an admitted point of the manifold.
            kind: The class of the noisy gradients; another one plants a fault, for audits.
            repetitions: How many independent runs will be carried out at once.
        """


class AbstractOptimizer(ABC):
    """Settings of an optimiser, checked when they are made (a frozen dataclass)."""

    name: ClassVar[str]
    """Its name as a mechanism of `private_frechet_mean`."""
    words: ClassVar[str]
    """What it does, in a report."""

    learning_rate: Rate
    clip_norm: Any  # a number, None, or ADAPTIVE where `adapts`
    output: str
    update: str
    adapts: ClassVar[bool] = False
    """Whether clip_norm="adaptive" is understood."""

    @property
    @abstractmethod
    def planned_length(self) -> int | None:
        """Steps or epochs, None where a default is taken."""

    @property
    def is_confined(self) -> bool:
        """Whether the sensitivity holds for points of the problem's ball only."""
        return False

    @property
    def counts_are_private(self) -> bool:
        """Whether the run is accounted for adding or removing a record."""
        return False

    @classmethod
    @abstractmethod
    def for_mean(cls) -> Self:
        """The settings for a Fréchet mean of which nothing else is known."""

    @abstractmethod
    def plan(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None
    ) -> AbstractPlan:
        """What would run on n records. At most one of `budget` and `noise_std` is given."""

    def plan_in_parts(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None, parts: int
    ) -> AbstractPlan:
        """The same of a run that is made in so many calls. Its `parts` are their settings."""
        raise InvalidArgument(f"argument `parts` = {parts} is not for {type(self).__name__}")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_common(self) -> None:
        one_of("output", self.output, OUTPUTS)
        one_of("update", self.update, UPDATES)
        if self.clip_norm == ADAPTIVE and not self.adapts:
            raise InvalidArgument(
                f"argument `clip_norm` = {ADAPTIVE!r} is for DPRGD and DPRSGD; give a number"
            )
        if self.clip_norm is not None and self.clip_norm != ADAPTIVE:
            self._set("clip_norm", magnitude("clip_norm", self.clip_norm))
        if self.learning_rate is not None and not callable(self.learning_rate):
            self._set("learning_rate", real("learning_rate", self.learning_rate, above=0.0))

    def _check_parts(self, parts: int, length: int, unit: str) -> int:
        """How long each of `parts` parts is, or an error that names `parts`."""
        if self.output != "last":
            raise InvalidArgument(
                f"argument `parts` = {parts} goes with output='last': each part begins where the"
                f" one before it ended, and output={self.output!r} is of a run at once"
            )
        size, left = divmod(length, parts)
        if left:
            raise invalid("parts", parts, f"give a number that divides the {length} {unit}")
        return size

    def _check_counts(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                self._set(name, integer(name, getattr(self, name)))


@dataclass(frozen=True)
class Rates:
    """A learning rate that is a table: the step size of each step."""

    values: tuple[float, ...]

    def __call__(self, step: int) -> float:
        return self.values[step]


def check_optimizer(optimizer: object) -> AbstractOptimizer:
    """Raise, naming `optimizer`, unless it is one."""
    if not isinstance(optimizer, AbstractOptimizer):
        raise invalid(
            "optimizer", optimizer, "give the settings of an optimiser, such as DPRGD(...)"
        )
    return optimizer


def plan_optimizer(
    problem: Problem,
    n: int,
    optimizer: AbstractOptimizer,
    budget: Budget | None,
    *,
    noise_std: float | None = None,
    parts: int = 1,
) -> Any:
    """What `private_minimize` would run for `n` records: steps, sigma, expected noise to signal.

    Print it before spending: a run whose noise exceeds the signal is seen here. Reads no record.

    Args:
        problem: As in `private_minimize`.
        n: How many records there are.
        optimizer: As in `private_minimize`.
        budget: As in `private_minimize`.
        noise_std: As in `private_minimize`.
        parts: For a run that is made in k calls, for instance one a night. The plan is that of all
            together, within the budget, and its `parts` are the settings of the calls, of equal
            length: each is run with `noise_std=plan.sigma`, from the released value of the one
            before. The run is that of one call; needs output="last", and for `DPRGD` and `DPRSGD` a
            clip norm that is a number.

    Returns:
        An `AbstractPlan`: for `DPRGD` and `DPRSGD` a `Plan`; for `DPRSVRG` a plan with the noise at
        an anchor and the largest that an inner step can have.

    Examples:
        >>> import riemdp
        >>> problem = riemdp.problems.principal_eigenvector(10)
        >>> plan = riemdp.optimizers.plan_optimizer(
        ...     problem, 4000, riemdp.DPRGD(), riemdp.Budget(1.0, 1e-6)
        ... )
        >>> plan.noise_to_signal < 1
        True
    """
    optimizer = check_optimizer(optimizer)
    n, parts = integer("n", n), integer("parts", parts)
    if noise_std is not None:
        noise_std = real("noise_std", noise_std, at_least=0.0)
        if budget is not None:
            raise InvalidArgument(
                "arguments `budget` and `noise_std` exclude each other: give one of them"
            )
    elif budget is not None:
        check_budget(budget)
    if parts > 1:
        return optimizer.plan_in_parts(problem, n, budget, noise_std, parts)
    return optimizer.plan(problem, n, budget, noise_std)


def check_budget(budget: object) -> Budget:
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


def check_known(optimizer: AbstractOptimizer, problem: Problem) -> None:
    """Raise where neither step size nor clip norm is given or has a default."""
    given = (optimizer.learning_rate, optimizer.clip_norm, problem.smoothness, problem.lipschitz)
    if all(value is None for value in given):
        raise InvalidArgument(
            "arguments `learning_rate` and `clip_norm` are missing: the problem states neither"
            " smoothness nor a Lipschitz constant, so there are no defaults; give a step size, and"
            " a public bound on the norm of one record's gradient or clip_norm='adaptive'"
        )


def rate_array(
    rate: Rate, steps: int, smoothness: float | None, extra: float = 1.0, hold: float = math.inf
) -> NDArray[np.float64]:
    """The step size of every step, evaluated on the host once.

    When none is given: extra / smoothness in the first half, following the theory of PL functions;
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


def default_steps(problem: Problem, n: int, budget: Budget | None, averaged: bool) -> int:
    """condition * log(n^2 eps^2 / (d log(1/delta))), between 1 and 500 (Han2024 Theorem 4; public
    numbers only); `averaged`: as many again, in which the rates fall.
    """
    if budget is None:
        return 100
    gain = n**2 * budget.epsilon**2 / (problem.manifold.dim * math.log(1.0 / budget.delta))
    steps = math.ceil(problem.condition * math.log(max(gain, math.e)))
    return int(min(500, max(1, steps))) * (2 if averaged else 1)


def default_batch(n: int) -> int:
    """ceil(n / 5). At a given budget and number of steps sigma hardly depends on the batch while
    the noise multiplier stays above 1; below, amplification is lost and sigma grows like 1 / b.
    Small batches save time without privacy and cost accuracy with it.
    """
    return math.ceil(n / 5)


def resolve_clip(problem: Problem, clip_norm: float | str | None) -> float:
    """The clip norm, or the problem's public Lipschitz constant when none is given."""
    if clip_norm is not None:
        assert not isinstance(clip_norm, str)
        return clip_norm
    if problem.lipschitz is None:
        raise invalid(
            "clip_norm",
            None,
            "the problem states no Lipschitz constant, so there is no default; give a public bound "
            "on the norm of one record's gradient, or (DPRGD, DPRSGD) clip_norm='adaptive'",
        )
    return problem.lipschitz


def step_count(steps: int | None, passes: int, batches: Batches) -> int:
    """The steps that were given, or as many as so many passes over all records; whole epochs."""
    t = batches.epoch or 1
    if steps is None:
        n, b = batches.population, batches.size
        # A batch of a fifth of the records or more is taken for the full gradient: the noise, not
        # the batch, is what disturbs a step. The smaller it is below that, the more steps.
        more = max(1.0, default_batch(n) / b)
        steps = passes if b == n else min(MOST_STEPS, math.ceil(passes * more))
        return -(-steps // t) * t
    whole, left = divmod(steps, t)
    if left:
        fewer = f"{whole * t} or " if whole else ""
        raise invalid(
            "steps",
            steps,
            f"with sampling='allocation' every record is in one of t = {t} steps (n / batch_size,"
            f" rounded up), and a run is whole epochs; give {fewer}{(whole + 1) * t}, or another"
            " batch_size",
        )
    return steps


def domain_radius(problem: Problem) -> float:
    """How far from the gradient at the centre of the ball that of a record in it can be.

    record_lipschitz times sup |log_w x - log_w c|: 2 r for d^2 on Hadamard spaces at every w, times
    theta / sin theta for w inside the ball where the curvature is positive. Gradients are clipped
    there, so that privacy does not rest on `record_lipschitz`.
    """
    if problem.ball is None or problem.record_lipschitz is None:
        raise InvalidArgument(
            "argument `sensitivity` = 'domain' needs a problem whose records are clamped to a"
            " public ball, such as problems.frechet_mean(manifold, ball=Ball(center, radius)); use"
            " sensitivity='clip' for this one"
        )
    domain = problem.ball.on(problem.manifold)
    diameter = gradient_bound(domain, 1, adjacency=REPLACE_ONE, weights=None)
    return problem.record_lipschitz * diameter / 2.0
