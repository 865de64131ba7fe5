"""What the public functions do is cut in two: everything that can be refused, and the release. A
release of several parts prepares all of them, charges once, and hands its permit to each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..mechanisms import Release
from ..mechanisms._base import Ready
from ..privacy import Ledger
from ..privacy._permit import Permit
from ..randomness import NoiseSource


class Releasing(Protocol):
    """What is checked and prepared, and can be released by itself."""

    def release(self, rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        """Charge the ledger, draw the noise."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A release of which nothing can be refused any more.

    Attributes:
        ready: The mechanism with its admitted value.
        finish: Makes what users see of its release: post-processing and public facts.
    """

    ready: Ready
    finish: Callable[[Release], Release]

    def release(self, rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        """A release by itself: charge the ledger, draw the noise."""
        return self.finish(self.ready.release(rng, ledger))

    def within(self, source: NoiseSource, permit: Permit) -> Release:
        """A part of a release that was charged as a whole."""
        return self.finish(self.ready.within(source, permit))


@dataclass(frozen=True)
class Stepwise:
    """A release that charges and draws step by step, so it is part of no other.

    Attributes:
        run: (rng, ledger) -> the release.
    """

    run: Callable[[int | NoiseSource | None, Ledger | None], Release]

    def release(self, rng: int | NoiseSource | None, ledger: Ledger | None) -> Release:
        """Check what is left, charge the ledger, draw the noise."""
        return self.run(rng, ledger)
