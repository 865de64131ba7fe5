"""Purses that tests plant: one that notes what it hands out, and one that leaves the noise out."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from tests.seam import Searches, plant


@dataclasses.dataclass
class Notes:
    """The shares and the noise of the answers of releases, in their order."""

    shares: list[float | Fraction] = dataclasses.field(default_factory=list)
    noise: list[np.ndarray] = dataclasses.field(default_factory=list)

    def begin(self) -> None:
        """Forget the releases before."""
        self.shares.clear()
        self.noise.clear()

    def add_up(self) -> bool:
        """Whether all shares since `begin` are the whole budget, exactly."""
        return sum(Fraction(share) for share in self.shares) == 1


def noted(patch: pytest.MonkeyPatch) -> Notes:
    """What the purses of releases hand out from now on."""
    notes = Notes()

    class Noted(Searches.Purse):
        def take(self, share):
            notes.shares.append(share)
            return super().take(share)

        def add_apart(self, vectors, sensitivity, share, touched=1):
            noisy, scale, slack = super().add_apart(vectors, sensitivity, share, touched)
            notes.noise.extend(a - b for a, b in zip(noisy, vectors, strict=True))
            return noisy, scale, slack

    plant(patch, "noise of shares", Noted)
    return notes


class Silent(Searches.Purse):
    """A purse whose noise of vectors is left out."""

    def add_apart(self, vectors, sensitivity, share, touched=1):
        _, scale, slack = super().add_apart(vectors, sensitivity, share, touched)
        return vectors, scale, slack
