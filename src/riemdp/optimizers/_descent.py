"""DP-RGD and DP-RSGD: noisy gradient descent on all records, or on random batches.

Their privacy is that of the one `NoisyGradient` that every step queries: see `_private_step`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, one_of
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee
from ..problems._problem import Problem
from ._adaptive_clip import ADAPTIVE, SEARCHES, AdaptingGradient, adapting
from ._kernels import AbstractKernel, choose_kernel
from ._plan import (
    AbstractOptimizer,
    AbstractPlan,
    Rate,
    Rates,
    check_known,
    default_batch,
    default_steps,
    domain_radius,
    rate_array,
    resolve_clip,
    step_count,
)
from ._private_step import Batches, GradientStep, NoisyGradient, allocation
from ._records import PrivateRecords
from ._run import Run, Schedule
from ._steps import Confinement, Work

SENSITIVITIES = ("clip", "domain")
SAMPLINGS = ("without-replacement", "poisson", "allocation")


class _Descent(AbstractOptimizer):
    """What both optimisers share: `steps` and `sensitivity`."""

    steps: int | None
    sensitivity: str
    adapts: ClassVar[bool] = True

    @property
    def planned_length(self) -> int | None:
        """The steps that the user gave."""
        return self.steps

    @property
    def is_confined(self) -> bool:
        """Under `sensitivity="domain"`."""
        return self.sensitivity == "domain"

    @property
    def averages_at_the_end(self) -> bool:
        """Whether the default rates fall at the end: where nothing else averages the noise."""
        return self.output == "last" and self.learning_rate is None

    def plan_in_parts(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None, parts: int
    ) -> Plan:
        plan: Any = self.plan(problem, n, budget, noise_std)
        if plan.adapts:
            raise InvalidArgument(
                f"argument `parts` = {parts}: the clip norm is carried from step to step, and a"
                " part would begin without; give a number"
            )
        epoch = plan.gradient.batches.epoch or 1
        size = epoch * self._check_parts(
            parts, plan.steps // epoch, "epochs" if epoch > 1 else "steps"
        )
        cut = plan.rates.reshape(parts, size)
        own: Any = self
        settings = tuple(
            replace(own, steps=size, learning_rate=Rates(tuple(map(float, rates)))) for rates in cut
        )
        return replace(plan, parts=settings)

    def _check_descent(self) -> None:
        one_of("sensitivity", self.sensitivity, SENSITIVITIES)
        if self.clip_norm == ADAPTIVE:
            if self.sensitivity == "domain":
                raise InvalidArgument(
                    f"argument `clip_norm` = {ADAPTIVE!r} goes with sensitivity='clip'; with"
                    " 'domain' the ball bounds the gradients"
                )
            if self.output != "last":
                raise InvalidArgument(
                    f"argument `clip_norm` = {ADAPTIVE!r} goes with output='last': the first steps"
                    " do not move and would count among the iterates"
                )


@dataclass(frozen=True)
class DPRGD(_Descent):
    """DP-RGD: `steps` steps w <- Exp_w(-rate (mean of clipped gradients + sigma N_w)) on all
    records.

    Args:
        steps: At least 1. None: condition number k times log(n^2 eps^2 / (d log 1/delta)), from the
            theory of PL functions, and as many again while the default rates fall.
        learning_rate: A number above 0, or a function of the step 0, 1, ... None: 1 / smoothness in
            the first half, then that / (1 + 2 t / k), t = 0, 1, ..., which averages the noise.
            Without noise and for other outputs than "last" it is constant.
        clip_norm: C above 0. None: the problem's Lipschitz constant. "adaptive": nobody has to know
            it. Seven further steps, which do not move, find the median norm of the gradients
            between 2^-64 and 2^64 by noisy counts; after them C follows a quantile, by a count that
            is released together with the gradient, in one Gaussian query. Needs output="last" and a
            budget, and enough records, which is decided from public numbers.
        output: "last"; "uniform", an iterate drawn uniformly from w_1..w_T; "geodesic-average", the
            running geodesic mean of w_1..w_T.
        update: "exp", or "retract" for the manifold's cheaper retraction.
        sensitivity: "clip": gradients are clipped to C in the Riemannian norm. "domain", for
            Fréchet problems with a ball: records are clamped to the ball and gradients are clipped
            about the gradient at its centre, at the distance that no record of the ball exceeds (2r
            for d^2 on Hadamard spaces, times theta / sin theta, theta = 2 r sqrt(kappa), for kappa
            > 0). Start and iterates are moved into the ball. Noise is half that of clip_norm = 4r.

    Guarantee:
        Replace-one: T Gaussian releases of noise multiplier z = sigma / sensitivity, exactly one of
        z / sqrt(T); sensitivity 2 C / n. Averages are post-processing. "uniform" is charged all T
        steps. With clip_norm="adaptive" T counts the seven further steps, and a
        release is the mean of the clipped gradients over C together with a weighted count, of joint
        sensitivity (2 / n) sqrt(1 + w^2 / 4).

    Source:
        Han2024 Algorithm 1 with b = n. The noise is calibrated exactly, not by the constants there.
        Andrew et al. 2021 (adaptive clipping), here with one joint Gaussian query.
        Proof: docs/proofs/optimisers.md.
    """

    name: ClassVar[str] = "dp-rgd"
    words: ClassVar[str] = "noisy gradient descent on all records (DP-RGD)"

    steps: int | None = None
    learning_rate: Rate = None
    clip_norm: float | str | None = None
    output: str = "last"
    update: str = "exp"
    sensitivity: str = "clip"

    def __post_init__(self) -> None:
        self._check_common()
        self._check_counts("steps")
        self._check_descent()

    @classmethod
    def for_mean(cls) -> Self:
        """The sensitivity of the full gradient, from the ball."""
        return cls(sensitivity="domain")

    def plan(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None
    ) -> Plan:
        return _plan(self, problem, Batches(n, n, "full"), budget, noise_std)


@dataclass(frozen=True)
class DPRSGD(_Descent):
    """DP-RSGD: like DP-RGD, each step on a fresh, independent, secret random batch.

    Args:
        steps: As for `DPRGD`; more for batches of less than a fifth of the records.
        batch_size: b. None: ceil(n / 5).
        learning_rate: As for `DPRGD`.
        clip_norm: As for `DPRGD`.
        sampling: "without-replacement": exactly b distinct records. "poisson": every record with
            probability b / n; the sum is divided by b whatever came, and an empty batch is noised.
            "allocation": in each epoch of t = ceil(n / b) steps every record is in exactly one
            step, drawn uniformly, afresh and independently of the other records; the sum is
            divided by n / t. `steps` is a multiple of t.
        output: As for `DPRGD`; "uniform" does not go with allocation.
        update: As for `DPRGD`.
        sensitivity: As for `DPRGD`; "domain" needs sampling without replacement.
        population: For Poisson sampling and allocation, a public number in the place of n: the rate
            is b / population, and defaults and reports use it. With the default, None, the number
            of records is taken as public, although neighbours differ in it.
        adjacency: Of the guarantee. None: as below. "replace-one" with Poisson sampling and
            allocation, too (`privacy.replace_one`): less noise than without replacement needs.

    Guarantee:
        `privacy.subsampled_gaussian(sigma / sensitivity, population=n, batch_size=b, steps=T,
        sampling=...)`. Without replacement: replace-one, sensitivity 2 C / b. Poisson:
        add-or-remove-one, sensitivity C / b. Allocation: add-or-remove-one, sensitivity C t / n,
        `privacy.allocated_gaussian(sigma / sensitivity, steps=t, epochs=T / t)`; an epoch that was
        begun is charged as a whole.

    Source:
        Han2024 Algorithm 1; Utpala2023 section 6.2. Allocation: Feldman and Shenfeld 2025.
        Proof: docs/proofs/optimisers.md.
    """

    name: ClassVar[str] = "dp-rsgd"
    words: ClassVar[str] = "noisy gradient descent on small random batches (DP-RSGD)"

    steps: int | None = None
    batch_size: int | None = None
    learning_rate: Rate = None
    clip_norm: float | str | None = None
    sampling: str = "without-replacement"
    output: str = "last"
    update: str = "exp"
    sensitivity: str = "clip"
    population: int | None = None
    adjacency: str | None = None

    def __post_init__(self) -> None:
        self._check_common()
        one_of("sampling", self.sampling, SAMPLINGS)
        known = ("replace-one", *(("add-or-remove-one",) if self.sizes_are_random else ()))
        if self.adjacency is not None:
            one_of("adjacency", self.adjacency, known)
        self._check_counts("steps", "batch_size", "population")
        self._check_descent()
        if self.sensitivity == "domain" and self.sizes_are_random:
            raise InvalidArgument(
                "argument `sensitivity` = 'domain' bounds the change when a record is REPLACED;"
                f" sampling={self.sampling!r} is accounted for adding or removing one. Use"
                " sampling='without-replacement', or sensitivity='clip'"
            )
        if self.population is not None and not self.counts_are_private:
            raise InvalidArgument(
                "argument `population` goes with sampling='poisson' or 'allocation'; when a record"
                " is replaced, the number of records is public"
            )
        if self.sampling == "allocation" and self.output == "uniform":
            raise InvalidArgument(
                "argument `output` = 'uniform' would stop within an epoch, and sampling="
                "'allocation' is accounted for by whole epochs; give 'last' or 'geodesic-average'"
            )
        if self.sampling == "allocation" and self.clip_norm == ADAPTIVE:
            raise InvalidArgument(
                f"argument `clip_norm` = {ADAPTIVE!r} takes {SEARCHES} steps more, and sampling="
                "'allocation' is accounted for by whole epochs; give a number, or another sampling"
            )

    @property
    def sizes_are_random(self) -> bool:
        """Whether a batch has a random size."""
        return self.sampling in ("poisson", "allocation")

    @property
    def counts_are_private(self) -> bool:
        """With Poisson batches and with allocation, unless records are replaced."""
        return self.sizes_are_random and self.adjacency != "replace-one"

    @classmethod
    def for_mean(cls) -> Self:
        """The sensitivity of a batch's gradient, from the ball."""
        return cls(sensitivity="domain")

    def plan(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None
    ) -> Plan:
        n = n if self.population is None else self.population
        b = default_batch(n) if self.batch_size is None else self.batch_size
        if b > n:
            raise invalid("batch_size", b, f"there are only {n} records; give at most that many")
        # A batch of all records, without replacement, is the full gradient, and is accounted for
        # exactly as that.
        full = b == n and self.sampling == "without-replacement"
        batches = Batches(n, b, "full" if full else self.sampling)
        if self.sampling == "allocation":
            batches = allocation(n, b)
        replaced = self.sizes_are_random and not self.counts_are_private
        return _plan(self, problem, replace(batches, replaced=replaced), budget, noise_std)


@dataclass(frozen=True, eq=False)
class Plan(AbstractPlan):
    """What a run of DP-RGD or DP-RSGD will do and what noise it will carry; all of it is public.
    `str(plan)` explains it to a person.

    Attributes:
        optimizer: The settings it was made from.
        gradient: The query of every step: clip norm, sensitivity, sigma.
        rates: The step size of every step.
        dim: The dimension of the manifold.
        signal: The public scale of the averaged gradient that the noise is compared with.
        kernel: How its steps are computed.
        parts: The settings of each call of a run that is made in parts, see `plan_optimizer`.
    """

    optimizer: DPRGD | DPRSGD
    gradient: NoisyGradient
    rates: NDArray[np.float64]
    dim: int
    signal: float
    kernel: AbstractKernel
    parts: tuple[Any, ...] = ()

    @property
    def method(self) -> str:
        return "DP-RGD" if isinstance(self.optimizer, DPRGD) else "DP-RSGD"

    @property
    def n(self) -> int:
        """The public number of records."""
        return self.gradient.batches.population

    @property
    def batch_size(self) -> int:
        """Records of a step (expected, for Poisson sampling and allocation)."""
        return self.gradient.batches.size

    @property
    def sampling(self) -> str:
        """ "full", "without-replacement", "poisson" or "allocation"."""
        return self.gradient.batches.sampling

    @property
    def steps(self) -> int:
        return len(self.rates)

    @property
    def clip(self) -> float:
        """The clip norm; inf where nothing is clipped."""
        return math.inf if self.gradient.clip is None else self.gradient.clip

    @property
    def adapts(self) -> bool:
        """Whether the clip norm is found on the way."""
        return isinstance(self.gradient, AdaptingGradient)

    @property
    def sensitivity(self) -> float:
        return self.gradient.sensitivity

    @property
    def sigma(self) -> float:
        return self.gradient.sigma

    @property
    def noise_multiplier(self) -> float:
        """sigma / sensitivity; 0 without noise."""
        return self.gradient.noise_multiplier

    @property
    def noise_to_signal(self) -> float:
        """Expected norm of one step's noise, sqrt(dim) sigma, over the largest norm the averaged
        gradient can have.
        """
        return math.sqrt(self.dim) * self.sigma / self.signal if self.signal > 0 else math.inf

    def guarantee(self, steps: int | None = None) -> Guarantee:
        """The guarantee of the first `steps` steps (all by default)."""
        return self.gradient.guarantee(self.steps if steps is None else steps)

    @property
    def details(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "batch_size": self.batch_size,
            "sampling": self.sampling,
            "clip_norm": ADAPTIVE if self.adapts else self.clip,
            "sensitivity": self.sensitivity,
            "noise_multiplier": self.noise_multiplier,
            "noise_to_signal": self.noise_to_signal,
            "numerics": self.gradient.arithmetic,
            **({"epoch_steps": batches.epoch} if (batches := self.gradient.batches).epoch else {}),
        }

    def bind(
        self,
        problem: Problem,
        records: PrivateRecords,
        point: Point,
        *,
        kind: type[NoisyGradient] = NoisyGradient,
        repetitions: int | None = None,
    ) -> Run:
        m, optimizer, ball = problem.manifold, self.optimizer, None
        epoch = self.gradient.batches.epoch or self.steps
        centered = optimizer.sensitivity == "domain"
        kernel, center = self.kernel, None
        if centered:
            assert problem.ball is not None
            domain = problem.ball.on(m)
            records, point = records.inside(domain), domain.clamp(point)
            ball = Confinement(domain.center, domain.radius)
            if math.isfinite(self.clip):
                center = jax.tree.map(lambda x: x[None], domain.center)
        gradient = self.gradient.as_kind(kind)
        step = GradientStep(kernel, gradient, records.chunk(repetitions), center)
        data = records.prepared(kernel)
        return Run(
            name=self.method,
            point=point,
            work=Work(step, data, ball),
            schedule=Schedule(epoch, self.steps // epoch),
            rates=self.rates,
            output=optimizer.output,
            gradients=(gradient,),
            queries=lambda offset, count: ((count, count),),
            gradient_calls=(self.batch_size, 0),
            clip=gradient.adaptive.begin if isinstance(gradient, AdaptingGradient) else None,
        )

    def __str__(self) -> str:
        ratio = self.noise_to_signal
        words = [
            (
                f"{self.method}: {self.steps} steps on {self.n} records, batch {self.batch_size}"
                f" ({self.sampling}), "
                + (
                    f"clip norm found on the way (the first {SEARCHES} steps only count);"
                    " what follows is in units of it"
                    if self.adapts
                    else f"clip norm {self.clip:.4g}, sensitivity {self.sensitivity:.4g}"
                )
            ),
            (
                f"  noise multiplier {self.noise_multiplier:.4g}, sigma {self.sigma:.4g} per"
                " coordinate of the averaged gradient"
            ),
            f"  expected noise to signal in one step: {ratio:.3g}",
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


def _plan(
    optimizer: DPRGD | DPRSGD,
    problem: Problem,
    batches: Batches,
    budget: Budget | None,
    noise_std: float | None,
) -> Plan:
    private = budget is not None or noise_std is not None
    averaged = optimizer.averages_at_the_end
    passes = default_steps(problem, batches.population, budget, averaged)
    steps = step_count(optimizer.steps, passes, batches)
    hold = problem.condition / 2.0 if private and averaged else math.inf
    domain = optimizer.sensitivity == "domain"
    if private and not domain:
        check_known(optimizer, problem)
    rates = rate_array(optimizer.learning_rate, steps, problem.smoothness, hold=hold)
    radius = domain_radius(problem) if domain else math.inf
    dim = problem.manifold.dim
    kernel = choose_kernel(problem, optimizer.update == "retract", centered=domain)
    gradient: NoisyGradient
    if not private:
        gradient, clip = NoisyGradient(None, 0.0, batches), math.inf
    elif optimizer.clip_norm == ADAPTIVE:
        gradient, clip = adapting(batches, budget, len(rates), dim), 1.0
        rates = np.concatenate([np.zeros(SEARCHES), rates])
    else:
        clip = radius if domain else resolve_clip(problem, optimizer.clip_norm)
        if budget is not None:
            gradient = NoisyGradient(clip, batches.multiplier(budget, steps), batches)
        else:
            gradient = NoisyGradient.of_sigma(clip, batches, noise_std or 0.0)
    if kernel.has_quick_coordinates:
        gradient = gradient.on_lattice()
    signal = (problem.lipschitz or 2.0 * radius) if domain else clip
    return Plan(optimizer, gradient, rates, dim, signal, kernel)
