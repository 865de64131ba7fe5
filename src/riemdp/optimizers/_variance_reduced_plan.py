"""DP-RSVRG's settings and plan: defaults, and the split of the budget between its two queries.

All of it is decided before any record is read. The split decides how good a run is, not how
private: the guarantee is computed from whatever multipliers it gives.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._errors import InvalidArgument, invalid, magnitude, one_of, real
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee, calibrate, gaussian_noise_multiplier
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..problems._problem import Problem
from ._kernels import AbstractKernel, Generic, choose_kernel, gradient_function
from ._plan import (
    AbstractOptimizer,
    AbstractPlan,
    Rate,
    Rates,
    default_batch,
    rate_array,
    resolve_clip,
)
from ._private_step import Batches, GradientStep, NoisyGradient
from ._records import PrivateRecords
from ._run import FullQuery, Run
from ._steps import Work
from ._variance_reduced import (
    LARGE,
    AnchoredStep,
    NoiseSplit,
    PublishedStep,
    SvrgSettings,
)

VARIANTS = ("anchored", "as-published")


@dataclass(frozen=True)
class DPRSVRG(AbstractOptimizer):
    """DP-RSVRG: variance-reduced steps about an anchor; its full gradient is queried once an epoch.

    `variant="anchored"`. At the start of each of the S `epochs`: r = mean of gradients clipped to
    C0 + N(0, (z1 2 C0 / n)^2) at the anchor. Inner step t of m: on a fresh batch of b, without
    replacement, u = mean of clip_{c_t}(grad f(w_t; z) - PT grad f(anchor; z)) + N(0, (z2 2 c_t /
    b)^2), direction u + PT r, where c_t = min(2 C1, smoothness d(w_t, anchor)) is a function of
    what has been released. At w_t = anchor no query is made and nothing is added. With a lower
    bound `convexity` mu on the Hessian the differences are known beforehand to lie about h = -(mu +
    L) / 2 log_{w_t}(anchor), which is public: they are clipped to c_t = min(2 C1, (L - mu) / 2
    d(w_t, anchor)) about h instead of 0. On flat spaces L = mu for means, so inner steps
    issue no query. The budget is split between z1 and z2 so that the predicted noise is least.

    `variant="as-published"`: Utpala2023 Algorithm 11 with the clip formula and the transport of the
    full gradient corrected. sigma is one number, added at every inner step.

    Args:
        epochs: S. None: 3.
        inner_steps: m. None: as many as batches fill the records twice, from 2 to 50.
        learning_rate: As for `DPRGD`, over all inner steps. None: 1 / (2 smoothness).
        clip_norm: C1. None: the problem's Lipschitz constant.
        full_clip_norm: C0. None: C1.
        batch_size: b. None: ceil(n / 5).
        variant: "anchored" or "as-published".
        restarts: K: the whole run K times, each from the output of the last (Utpala2023 Algorithm
            12).
        smoothness: L, public. None: the problem's; without one c_t = 2 C1.
        convexity: mu, public. None: the problem's.
        output: As for `DPRGD`, over the inner iterates of the last restart.
        update: As for `DPRGD`.

    Guarantee:
        Replace-one. Anchored: K S Gaussian releases of multiplier z1 and K S (m - 1) of
        `subsampled_gaussian(z2)`. As published: K S m and K S m, with sigma^2 = sigma1^2 +
        sigma2^2, z1 = sigma1 / (2 C0 / n), z2 = sigma2 / (4 C1 / b); the transport must not
        lengthen vectors.

    Source:
        Proof: docs/proofs/optimisers.md.
    """

    name: ClassVar[str] = "dp-rsvrg"
    words: ClassVar[str] = "noisy variance-reduced gradient descent (DP-RSVRG)"

    epochs: int | None = None
    inner_steps: int | None = None
    learning_rate: Rate = None
    clip_norm: float | None = None
    full_clip_norm: float | None = None
    batch_size: int | None = 1
    variant: str = "anchored"
    restarts: int = 1
    smoothness: float | None = None
    convexity: float | None = None
    output: str = "last"
    update: str = "exp"

    def __post_init__(self) -> None:
        self._check_common()
        one_of("variant", self.variant, VARIANTS)
        self._check_counts("epochs", "inner_steps", "batch_size", "restarts")
        if self.full_clip_norm is not None:
            self._set("full_clip_norm", magnitude("full_clip_norm", self.full_clip_norm))
        if self.smoothness is not None:
            self._set("smoothness", real("smoothness", self.smoothness, above=0.0))
        if self.convexity is not None:
            self._set("convexity", real("convexity", self.convexity))

    @property
    def planned_length(self) -> int | None:
        """The epochs that the user gave."""
        return self.epochs

    @classmethod
    def for_mean(cls) -> Self:
        """Batches of the default size."""
        return cls(batch_size=None)

    def plan(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None
    ) -> SvrgPlan:
        private = budget is not None or noise_std is not None
        settings, rates = settings_of(problem, n, self, private)
        # Parallel transport is an isometry, and those of Stiefel and Bures-Wasserstein spaces
        # project. A space of one's own that does so says it by `transport_is_nonexpansive = True`.
        safe = settings.anchored or problem.manifold.transport_is_nonexpansive
        if private and not safe:
            raise InvalidArgument(
                "argument `variant` = 'as-published' transports a private gradient, and the"
                f" transport of {problem.manifold!r} may lengthen it; use variant='anchored'"
            )
        split = choose_split(settings, budget, noise_std)
        kernel = choose_kernel(problem, False)
        return SvrgPlan(self, settings, split, rates, problem.manifold.dim, private, kernel)

    def plan_in_parts(
        self, problem: Problem, n: int, budget: Budget | None, noise_std: float | None, parts: int
    ) -> SvrgPlan:
        settings, rates = settings_of(problem, n, self, budget is not None or noise_std is not None)
        epochs = self._check_parts(parts, settings.schedule.rounds, "epochs")
        if budget is not None:
            # Each call splits this sigma alike, so the sum is that of the whole run.
            guess = self.plan(problem, n, budget, None).sigma
            noise_std = calibrate(
                lambda x: settings.guarantee(_from_sigma(settings, x)), budget, guess=guess
            )
        plan = self.plan(problem, n, None, noise_std)
        cut = rates.reshape(parts, -1)
        settings_of_parts = tuple(
            replace(self, epochs=epochs, restarts=1, learning_rate=Rates(tuple(map(float, part))))
            for part in cut
        )
        return replace(plan, parts=settings_of_parts)


@dataclass(frozen=True, eq=False)
class SvrgPlan(AbstractPlan):
    """What a run of DP-RSVRG will do and with what noise; all of it is public. `str(plan)` explains
    it to a person.
    """

    optimizer: DPRSVRG
    settings: SvrgSettings
    split: NoiseSplit
    rates: NDArray[np.float64]
    dim: int
    private: bool
    full_kernel: AbstractKernel  # the full gradient is never transported: it may be a faster one
    parts: tuple[Any, ...] = ()  # of each call of a run that is made in parts

    @property
    def gradients(self) -> tuple[NoisyGradient, NoisyGradient]:
        """The two queries."""
        lattice = self.full_kernel.has_quick_coordinates
        return self.settings.gradients(self.split, self.private, lattice)

    @property
    def arithmetic(self) -> str:
        """Whether the guarantee holds for the numbers as computed: if it does for both queries."""
        return min((query.arithmetic for query in self.gradients), key=[IDEALISED, LATTICE].index)

    @property
    def method(self) -> str:
        return f"DP-RSVRG ({self.optimizer.variant})"

    @property
    def steps(self) -> int:
        """Inner steps, over all epochs and restarts."""
        return self.settings.schedule.steps

    @property
    def sigma(self) -> float:
        """The anchor's noise, or as published that of every inner step."""
        full, inner = (gradient.sigma for gradient in self.gradients)
        return full if self.settings.anchored else math.hypot(full, inner)

    @property
    def sensitivity(self) -> float:
        """Replace-one sensitivity of a full gradient, 2 C0 / n: the scale of `sigma`."""
        return self.settings.full_sensitivity

    @property
    def noise_to_signal(self) -> float:
        """Expected norm of that noise, sqrt(dim) sigma, over the largest norm of what it is added
        to.
        """
        largest = self.settings.full_clip if self.settings.anchored else self.settings.clip
        return math.sqrt(self.dim) * self.sigma / largest if self.sigma > 0 else 0.0

    @property
    def inner_noise_to_signal(self) -> float:
        """The same of an inner step at its largest clip norm 2 C1, far from the anchor; it falls to
        0 at the anchor.
        """
        s = self.settings
        scale = 2 * self.gradients[1].sigma if s.anchored else self.sigma / s.clip
        return math.sqrt(self.dim) * scale if scale > 0 else 0.0

    def guarantee(self) -> Guarantee:
        """The guarantee of the whole run."""
        return self.settings.guarantee(self.split)

    @property
    def details(self) -> dict[str, Any]:
        s = self.settings
        return {
            "n": s.n,
            "batch_size": s.b,
            "clip_norm": s.clip,
            "full_clip_norm": s.full_clip,
            "z1": self.split.z1,
            "z2": self.split.z2,
            "smoothness": s.smoothness,
            "convexity": s.convexity,
            "inner_noise": self.gradients[1].sigma if s.anchored else self.sigma,
            "epochs": s.epochs,
            "inner_steps": s.inner,
            "restarts": s.restarts,
            "numerics": self.arithmetic,
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
        s, optimizer = self.settings, self.optimizer
        full, inner = (g.as_kind(kind) for g in self.gradients)
        chunk = records.chunk(repetitions)
        data = records.prepared(self.full_kernel)
        at_anchor = GradientStep(self.full_kernel, full, chunk)
        kernel = Generic(
            problem.manifold, optimizer.update == "retract", gradient_function(problem)
        )
        if s.anchored:
            bounded = self.private and s.half_width is not None
            half_width = s.half_width if bounded and s.half_width is not None else LARGE
            middle = s.middle if self.private else None
            most = 2 * s.clip if self.private else LARGE
            step = AnchoredStep(kernel, inner, chunk, most, half_width, middle)
        else:
            more = self.sigma / inner.sigma if inner.sigma > 0 else 1.0
            step = PublishedStep(kernel, inner, chunk, more)
        return Run(
            name=self.method,
            point=point,
            work=Work(step, records),
            schedule=s.schedule,
            rates=self.rates,
            output=optimizer.output,
            gradients=(full, inner),
            queries=s.queries,
            gradient_calls=(2 * s.b, s.n),
            anchor=FullQuery(at_anchor, data),
        )

    def __str__(self) -> str:
        s, ratio = self.settings, self.noise_to_signal
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


def settings_of(
    problem: Problem, n: int, o: DPRSVRG, private: bool
) -> tuple[SvrgSettings, NDArray[np.float64]]:
    """Settings with all defaults filled in, and the step size of every step."""
    b = default_batch(n) if o.batch_size is None else o.batch_size
    if b > n:
        raise invalid("batch_size", b, f"there are only {n} records; give at most that many")
    inner = o.inner_steps if o.inner_steps is not None else max(2, min(50, math.ceil(2 * n / b)))
    epochs = o.epochs if o.epochs is not None else 3
    clip = resolve_clip(problem, o.clip_norm) if private else math.inf
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
    settings = SvrgSettings(
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
    return settings, rates


# ------------------------------------------------------------------------------------ calibration
def choose_split(
    settings: SvrgSettings, budget: Budget | None, noise_std: float | None
) -> NoiseSplit:
    """Noise multipliers for a budget (least predicted noise), or those that a given sigma means."""
    if noise_std is not None:
        return _from_sigma(settings, noise_std)
    if budget is None:
        return NoiseSplit(0.0, 0.0)
    return _calibrated_split(settings, budget.epsilon, budget.delta)


def _from_sigma(settings: SvrgSettings, sigma: float) -> NoiseSplit:
    """Anchored: sigma is the full gradient's, z2 takes an equal share of the cost. As published:
    sigma is every step's.
    """
    if sigma == 0.0:
        return NoiseSplit(0.0, 0.0)
    share = 1.0 if settings.anchored else _published_share(settings, sigma)
    full = Batches(settings.n, settings.n, "full")
    z1 = NoisyGradient.of_sigma(settings.full_clip, full, math.sqrt(share) * sigma).noise_multiplier
    if settings.anchored:
        return NoiseSplit(z1, _inner_multiplier(settings, settings.total_queries[0] / z1**2))
    rest = math.sqrt(1 - share) * sigma
    inner = NoisyGradient.of_sigma(2 * settings.clip, settings.batches, rest)
    return NoiseSplit(z1, inner.noise_multiplier)


@functools.lru_cache(maxsize=1024)
def _calibrated_split(settings: SvrgSettings, epsilon: float, delta: float) -> NoiseSplit:
    """Multipliers whose composition is within the budget. Their ratio comes from a normal
    approximation of the cost (it decides how good the run is, not how private); their common scale
    is then found with the accountant itself.
    """
    budget = Budget(epsilon, delta)
    guess = _guess(settings, 1.0 / gaussian_noise_multiplier(budget))
    low, high = 0.0, math.inf  # scales known to be too small, and to suffice
    scale = 1.0
    for _ in range(60):
        spent = settings.guarantee(NoiseSplit(scale * guess.z1, scale * guess.z2))
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
    return NoiseSplit(high * guess.z1, high * guess.z2)


def _subsampled_cost(settings: SvrgSettings, z2: float, count: int) -> float:
    """mu^2 of `count` batch queries in the limit of many steps (Dong, Roth and Su 2022, section 5);
    a guide only.
    """
    q = settings.b / settings.n
    if q == 1.0:
        return count / z2**2
    tilted = math.exp(min(1 / z2**2, 700.0)) * float(ndtr(1.5 / z2))
    return 2 * q * q * count * (tilted + 3 * float(ndtr(-0.5 / z2)) - 2)


def _inner_multiplier(settings: SvrgSettings, cost: float) -> float:
    """z2 whose batch queries cost about `cost` (mu^2); at least 0.3."""
    count = max(1, settings.total_queries[1])
    low, high = 0.3, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if _subsampled_cost(settings, middle, count) > cost else (low, middle)
        )
    return high


def _guess(settings: SvrgSettings, mu: float) -> NoiseSplit:
    """The split of a cost of mu^2 with the least predicted noise in an epoch."""
    fulls, inners = settings.total_queries
    if inners == 0:
        return NoiseSplit(math.sqrt(fulls) / mu, 1.0)
    # As published both noises are in every step. Anchored, the anchor's noise is the same at all m
    # inner steps, so it adds up coherently; the inner noises do not.
    coherent, typical = 1.0, 1.0
    if settings.anchored:
        coherent, typical = settings.inner, _typical_square(settings)

    def split(share: float) -> NoiseSplit:
        z2 = _inner_multiplier(settings, (1 - share) * mu**2)
        return NoiseSplit(math.sqrt(fulls / (share * mu**2)), z2)

    def noise(split: NoiseSplit) -> float:
        full = (split.z1 * settings.full_sensitivity) ** 2
        return coherent * full + typical * (split.z2 * settings.inner_sensitivity) ** 2

    return min((split(float(share)) for share in np.linspace(0.02, 0.98, 49)), key=noise)


def _typical_square(settings: SvrgSettings) -> float:
    """The mean square of c_t while the iterate moves away from the anchor with a quarter of the
    largest full gradient.
    """
    beta, most = settings.half_width, 2 * settings.clip
    reach = settings.rate * settings.full_clip / 4
    bounds = [
        most if beta is None else min(most, beta * reach * t) for t in range(1, settings.inner)
    ]
    return float(np.mean(np.square(bounds)))


def _published_share(settings: SvrgSettings, sigma: float) -> float:
    """Share of the variance given to the full gradient: the one that costs least."""
    fulls, inners = settings.total_queries

    def cost(share: float) -> float:
        z1 = math.sqrt(share) * sigma / settings.full_sensitivity
        z2 = math.sqrt(1 - share) * sigma / settings.inner_sensitivity
        return fulls / z1**2 + _subsampled_cost(settings, z2, inners)

    return float(min(np.linspace(0.01, 0.99, 99), key=cost))
