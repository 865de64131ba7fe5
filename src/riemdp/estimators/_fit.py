"""`Fit`: a fit of which nothing is left but the charge, the draw, and what follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..mechanisms import Release
from ..mechanisms._base import Ready
from ..privacy import Budget


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fit that was admitted: all that can be refused was, but by the ledger.

    Attributes:
        ready: What it releases.
        budget: What it was made for.
        show: Sets the attributes of the estimator: post-processing, which warns of nothing.
    """

    ready: Ready
    budget: Budget
    show: Callable[[Release], None]
