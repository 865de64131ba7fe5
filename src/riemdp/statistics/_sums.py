"""Sums of many terms in a fixed order: the rounding error is bounded by a public number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pairwise(terms: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of at least one term, added in pairs."""
    level = list(terms)
    while len(level) > 1:
        pairs = [a + b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0]
