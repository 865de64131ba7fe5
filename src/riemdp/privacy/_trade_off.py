"""The trade-off curve of a guarantee, and what it says about the best possible attacker."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Protocol

import numpy as np

_LARGEST_EPSILON = 60.0  # e^60: beyond it a line of slope e^epsilon cannot be told from the axis
_POINTS = 40


class PrivacyProfile(Protocol):
    """What the curve is made of: the pairs (epsilon, delta) of a guarantee."""

    def epsilon(self, delta: float) -> float: ...

    def delta(self, epsilon: float) -> float: ...


@dataclasses.dataclass(frozen=True)
class TradeOff:
    """A lower bound beta(alpha) on the missed detections of any attack with false alarms alpha.

    The attack decides between two neighbouring data sets from the release alone. `supports` holds
    the pairs (epsilon, delta(epsilon)) that the bound is the upper envelope of; each pair is valid
    by itself, so a coarser table can only make the bound weaker, never wrong.
    """

    supports: tuple[tuple[float, float], ...]

    def missed(self, false_alarms: float | np.ndarray) -> np.ndarray:
        """beta(alpha) = sup over epsilon of max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 -
        delta - alpha)).
        """
        alpha = np.asarray(false_alarms, dtype=np.float64)[..., None]
        eps, delta = np.array(self.supports).T
        with np.errstate(over="ignore", invalid="ignore"):
            steep = np.where(alpha > 0.0, 1.0 - delta - np.exp(eps) * alpha, 1.0 - delta)
        flat = np.exp(-eps) * (1.0 - delta - alpha)
        return np.maximum(0.0, np.maximum(steep, flat)).max(axis=-1)

    def detected(self, false_alarms: float) -> float:
        """The largest detection rate that an attack with this rate of false alarms can have."""
        return float(1.0 - self.missed(false_alarms))

    @property
    def advantage(self) -> float:
        """Upper bound on (detection rate - false alarm rate): the total variation distance, delta
        at epsilon 0.
        """
        return min((d for e, d in self.supports if e == 0.0), default=1.0)

    @property
    def best_guess(self) -> float:
        """Largest probability that a guess between two equally likely neighbours is right, (1 +
        advantage) / 2.
        """
        return 0.5 * (1.0 + self.advantage)

    def loss_bound(self, delta: float) -> float:
        """An epsilon that the attacker's log odds cannot grow by, except with probability `delta`.

        From delta(e) = E[(1 - exp(e - L))+] >= (1 - exp(e - x)) P(L > x) for the privacy loss L:
        somewhat larger than the epsilon of an (epsilon, delta) statement, which by itself does not
        bound the loss with probability 1
        - delta.
        """
        usable = [
            e - math.log1p(-d / delta) if d else e
            for e, d in self.supports
            if d == 0.0 or d < delta
        ]
        return min(usable, default=math.inf)

    def curve(self, points: int = 201) -> tuple[np.ndarray, np.ndarray]:
        """(alpha, beta) for drawing, dense near 0 where private mechanisms differ."""
        alpha = np.linspace(0.0, 1.0, points) ** 2
        return alpha, self.missed(alpha)


@functools.lru_cache(maxsize=64)
def _supports_of(guarantee: PrivacyProfile) -> tuple[tuple[float, float], ...]:
    top = guarantee.epsilon(1e-11)
    top = _LARGEST_EPSILON if not math.isfinite(top) else min(max(top, 1e-6), _LARGEST_EPSILON)
    grid = [0.0, *np.geomspace(1e-3 * top, top, _POINTS - 1)]
    pairs = [(float(e), float(min(1.0, max(0.0, guarantee.delta(float(e)))))) for e in grid]
    pure = float(guarantee.epsilon(0.0))
    if math.isfinite(pure):
        pairs.append(
            (pure, 0.0)
        )  # exact, where delta(epsilon) on the grid may have a rounding error above 0
    return tuple(pairs)


def trade_off(guarantee: PrivacyProfile) -> TradeOff:
    """The trade-off bound that the guarantee implies.

    For every epsilon the pair (epsilon, delta(epsilon)) bounds any test between neighbours
    (Wasserman and Zhou 2010; Kairouz, Oh, Viswanath 2017); the bound returned is their upper
    envelope on a grid of epsilons.
    """
    try:
        return TradeOff(_supports_of(guarantee))
    except TypeError:  # a guarantee that cannot be hashed is simply not remembered
        return TradeOff(_supports_of.__wrapped__(guarantee))


def posterior(prior: float, epsilon: float) -> float:
    """Largest belief after an epsilon-private release for a belief `prior` before it (Bayes' rule
    with odds e^epsilon).
    """
    if not math.isfinite(epsilon) or epsilon > 700.0:
        return 1.0 if prior > 0.0 else 0.0
    grown = prior * math.exp(epsilon)
    return grown / (grown + 1.0 - prior)
