"""Which of several guarantees costs most, where one of them dominates the others."""

from __future__ import annotations

from collections.abc import Sequence

from ._guarantee import Guarantee
from .accounting.events import GaussianEvent


def costliest_gaussian(guarantees: Sequence[Guarantee]) -> Guarantee | None:
    """Of Gaussian releases the one with the largest mu, which dominates all of them; None where
    some are of another kind.

    Source:
        Dong, Roth and Su 2022, Section 2.3.
    """
    if not all(isinstance(part, GaussianEvent) for each in guarantees for part in each.parts):
        return None
    return max(guarantees, key=_squared_mu)


def _squared_mu(guarantee: Guarantee) -> float:
    return sum(part.squared_mu for part in guarantee.parts if isinstance(part, GaussianEvent))
