"""One budget for several steps of a pipeline, split by public shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from .._errors import invalid, real
from ._budget import Budget
from ._calibration import gaussian_noise_multiplier
from ._noise import Noise


def split_budget(budget: Budget, shares: Sequence[float]) -> tuple[Budget, ...]:
    """Budgets for the steps of a pipeline that reads the same records several times.

    With delta > 0 a share is one of mu^2, 1 / mu the noise multiplier of the whole budget, because
    squares of Gaussian releases add up; the epsilons of the parts add up to more than the whole.
    That holds for steps with Gaussian noise: every estimator of this package whose ball is found,
    `PrivatePCA`, and `PrivateTangentSpace`, `PrivateTSClassifier` and the steps of transfer
    (`PrivateTLCenter` and its like) with any ball; but not for a mean by mechanism="auto" in a
    public ball, which may choose pure noise and never looks at a ledger: give
    mechanism="wrapped-gaussian". A `Ledger(budget)` around the pipeline refuses a step that does
    not fit before it spends. With delta = 0 a share is one of epsilon.

    Args:
        budget: What the whole pipeline may spend.
        shares: A public number above 0 for each step; at most 1 together.

    Returns:
        One budget a step, with the same delta.

    Raises:
        InvalidArgument: `shares` are no such numbers, or one is so small that its step needs no
            epsilon at this delta.

    Guarantee:
        Gaussian releases, one under each of these budgets, are together within `budget`; with delta
        = 0 any releases are.

    Source:
        Dong, Roth and Su 2022, Corollary 3.3.
        Proof: docs/proofs/composition.md.

    Examples:
        >>> import riemdp
        >>> one, two = riemdp.privacy.split_budget(riemdp.Budget(1.0, 1e-5), [0.3, 0.7])
        >>> round(one.epsilon, 2), round(two.epsilon, 2), two.delta
        (0.52, 0.82, 1e-05)
    """
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    try:
        parts = [real("shares", share, above=0.0) for share in shares]
    except TypeError:
        raise invalid("shares", shares, "give a list of numbers above 0") from None
    if not parts or math.fsum(parts) > 1.0 + 1e-12:
        raise invalid("shares", parts, "give one number above 0 a step, at most 1 together")
    whole = Noise.of(budget)
    margin = 0.0 if whole.is_pure else 1e-9  # for the rounding of the calibrations
    while True:
        found = tuple(_part(whole, share, margin) for share in parts)
        if _fit(found, budget):
            return found
        margin = max(1e-15, 10.0 * margin)


def _part(whole: Noise, share: float, margin: float) -> Budget:
    """The budget of a share, at the same delta: less by a relative margin of its noise."""
    less = (1.0 - margin) if whole.is_pure else (1.0 + margin) ** -2
    found = whole.share(min(share * less, 1.0)).budget
    assert found is not None
    return found


def _fit(parts: Sequence[Budget], whole: Budget) -> bool:
    """Whether what is calibrated to each part adds up to at most the whole."""
    if whole.delta == 0:
        return sum(Fraction(part.epsilon) for part in parts) <= Fraction(whole.epsilon)
    spent = math.fsum(gaussian_noise_multiplier(part) ** -2 for part in parts)
    return spent <= gaussian_noise_multiplier(whole) ** -2
