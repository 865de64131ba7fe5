"""The optimisers as plain settings: what to run, not how. `private_minimize` runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._errors import InvalidArgument, integer, invalid, one_of, real

OUTPUTS = ("last", "uniform", "geodesic-average")
UPDATES = ("exp", "retract")
SENSITIVITIES = ("clip", "domain")
SAMPLINGS = ("without-replacement", "poisson")
VARIANTS = ("anchored", "as-published")

Rate = float | Callable[[int], float] | None


def _check_common(self: Any) -> None:
    one_of("output", self.output, OUTPUTS)
    one_of("update", self.update, UPDATES)
    if self.clip_norm is not None:
        object.__setattr__(self, "clip_norm", real("clip_norm", self.clip_norm, above=0.0))
    if self.learning_rate is not None and not callable(self.learning_rate):
        object.__setattr__(
            self, "learning_rate", real("learning_rate", self.learning_rate, above=0.0)
        )
    if getattr(self, "momentum", None) is not None:
        object.__setattr__(self, "momentum", real("momentum", self.momentum, at_least=0.0))
        if self.momentum >= 1.0:
            raise invalid(
                "momentum",
                self.momentum,
                "give a number in [0, 1), or None for one from the problem's condition",
            )


@dataclass(frozen=True)
class DPRGD:
    """DP-RGD: `steps` steps w <- Exp_w(-rate (mean of clipped gradients + sigma N_w)) on all
    records.

    `steps` >= 1; `learning_rate` > 0 or a function of the step 0, 1, ...; `clip_norm` C > 0. Each
    may be None: then steps from the theory of PL functions (T0 = condition number k times log(n^2
    eps^2 / (d log 1/delta))) at rate 1 / smoothness, then as many again at that rate / (1 + 2 t /
    k), t = 0, 1, ..., in which the noise is averaged (given `steps`: half and half; with momentum,
    for other outputs than "last" and without noise the rate is constant and T = T0); clip norm =
    the problem's Lipschitz constant; all public, none from data.

    `output`: "last"; "uniform", an iterate drawn uniformly from w_1..w_T; "geodesic-average", the
    running geodesic mean of w_1..w_T. `update`: "exp", or "retract" for the manifold's cheaper
    retraction. `momentum` beta in [0, 1): the step goes along v_t = beta PT(v_{t-1}) + (noisy
    gradient)_t, the velocity being transported with the iterate. It is computed from released
    gradients only, so the guarantee is the one without momentum. With None, beta = ((sqrt(k) - 1) /
    (sqrt(k) + 1))^2 from the problem's public condition number k, and the default number of steps
    has sqrt(k) in place of k. Stable for rate < 2 (1 + beta) / smoothness. With small steps the
    variance about the optimum is 1 / (1 - beta) times what it is without, so momentum pays where it
    saves steps and not otherwise. `sensitivity="clip"`: every gradient is clipped to C in the
    Riemannian norm, replace-one sensitivity 2 C / n. `sensitivity="domain"`: for Frechet problems
    with a ball: records are clamped to it, nothing is clipped, and the sensitivity is 2 * 2r / n
    for d^2 on Hadamard spaces (times theta / sin theta, theta = 2 r sqrt(kappa), for kappa > 0);
    iterates are moved back into the ball, where the mean is.

    Guarantee (replace-one): T Gaussian releases of noise multiplier z = sigma / sensitivity:
    exactly one of z / sqrt(T). Source: Han2024 Algorithm 1 with b = n; the noise is calibrated
    exactly, not by the constants printed there.
    """

    steps: int | None = None
    learning_rate: Rate = None
    clip_norm: float | None = None
    output: str = "last"
    update: str = "exp"
    sensitivity: str = "clip"
    momentum: float | None = 0.0

    def __post_init__(self) -> None:
        _check_common(self)
        one_of("sensitivity", self.sensitivity, SENSITIVITIES)
        if self.steps is not None:
            object.__setattr__(self, "steps", integer("steps", self.steps))


@dataclass(frozen=True)
class DPRSGD:
    """DP-RSGD: like DP-RGD, each step on a fresh, independent, secret random batch.

    `sampling="without-replacement"`: exactly `batch_size` b distinct records; replace-one
    sensitivity 2 C / b of the average. `sampling="poisson"`: every record with probability b / n,
    the sum divided by b whatever came (an empty batch is noised too); guarantee under
    add-or-remove-one with sensitivity C / b. The other arguments are those of `DPRGD`;
    `sensitivity="domain"` needs sampling without replacement. `batch_size=None`: ceil(n / 5).

    Guarantee: `privacy.subsampled_gaussian(sigma / sensitivity, population=n, batch_size=b,
    steps=T, sampling=...)`. Source: Han2024 Algorithm 1; Utpala2023 section 6.2.
    """

    steps: int | None = None
    batch_size: int | None = None
    learning_rate: Rate = None
    clip_norm: float | None = None
    sampling: str = "without-replacement"
    output: str = "last"
    update: str = "exp"
    sensitivity: str = "clip"
    momentum: float | None = 0.0

    def __post_init__(self) -> None:
        _check_common(self)
        one_of("sampling", self.sampling, SAMPLINGS)
        one_of("sensitivity", self.sensitivity, SENSITIVITIES)
        for name in ("steps", "batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(name, getattr(self, name)))
        if self.sensitivity == "domain" and self.sampling == "poisson":
            raise InvalidArgument(
                "argument `sensitivity` = 'domain' bounds the change when a record is REPLACED;"
                " Poisson batches are accounted for adding or removing one. Use"
                " sampling='without-replacement', or sensitivity='clip'"
            )


@dataclass(frozen=True)
class DPRSVRG:
    """DP-RSVRG: variance-reduced steps about an anchor whose full gradient is asked once an epoch.

    `variant="anchored"` (default). At the start of each of the `epochs` S: r = mean of gradients
    clipped to C0 (`full_clip_norm`, default C1 = `clip_norm`) + N(0, (z1 2 C0 / n)^2) at the
    anchor. Inner step t of `inner_steps` m: on a fresh batch of b, without replacement, u = mean of
    clip_{c_t}(grad f(w_t; z) - PT grad f(anchor; z)) + N(0, (z2 2 c_t / b)^2), direction u + PT r,
    where c_t = min(2 C1, smoothness d(w_t, anchor)) is a function of what has been released. At w_t
    = anchor nothing is asked and nothing is added. `smoothness` L None: the problem's; without one
    c_t = 2 C1. With a lower bound `convexity` mu on the Hessian (None: the problem's) the
    differences are known beforehand to lie about h = -(mu + L) / 2 log_{w_t}(anchor), which is
    public: they are clipped to c_t = min(2 C1, (L - mu) / 2 d(w_t, anchor)) about h instead of 0,
    and u = h + mean of clip_{c_t}(difference - h) + noise has the sensitivity 2 c_t / b whatever
    the records are. In flat spaces L = mu for means: nothing at all is asked between anchors. The
    budget is split between z1 and z2 so that the predicted noise is least. `epochs` None: 3;
    `batch_size` None: ceil(n / 5); `inner_steps` None: as many as batches fill the records twice,
    from 2 to 50.

    `variant="as-published"`: Utpala2023 Algorithm 11 with the clip formula and the transport of the
    full gradient mended; sigma is one number, added at every inner step; accounted as m
    full-gradient and m subsampled releases an epoch.

    `restarts` K: the whole run K times, each from the output of the last (Utpala2023 Algorithm 12).
    `output` as in `DPRGD`, over the inner iterates (of the last restart).

    Guarantee (replace-one), anchored: K S Gaussian releases of multiplier z1 and K S (m - 1) of
    `subsampled_gaussian(z2)`; as published: K S m and K S m, with sigma^2 = sigma1^2 + sigma2^2, z1
    = sigma1 / (2 C0 / n), z2 = sigma2 / (4 C1 / b).
    """

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
        _check_common(self)
        one_of("variant", self.variant, VARIANTS)
        for name in ("epochs", "inner_steps", "batch_size", "restarts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, integer(name, getattr(self, name)))
        for name in ("full_clip_norm", "smoothness"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(name, getattr(self, name), above=0.0))
        if self.convexity is not None:
            object.__setattr__(self, "convexity", real("convexity", self.convexity))


Optimizer = DPRGD | DPRSGD | DPRSVRG


def check_optimizer(optimizer: Any) -> Optimizer:
    """Raise, naming `optimizer`, unless it is one of ours."""
    if not isinstance(optimizer, DPRGD | DPRSGD | DPRSVRG):
        raise invalid("optimizer", optimizer, "give DPRGD(...), DPRSGD(...) or DPRSVRG(...)")
    return optimizer
