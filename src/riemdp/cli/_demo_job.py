"""One data set of the demo: what is public of it, what was released, and what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..privacy import Budget, gaussian_noise_multiplier

if TYPE_CHECKING:
    from ..domains import Ball
    from ..manifolds import SPDLogEuclidean
    from ..mechanisms import Release

# public regulariser of the descriptors: larger than the papers' 1e-6, because it decides the radius
# of the ball that is known beforehand
ETA = 1e-2


@dataclass
class Job:
    """One data set: public facts, the descriptors (n, k, k) of each class, and what was released
    and measured.
    """

    name: str
    key: str
    channels: int
    descriptors: dict[str, Any]
    count: int
    releases: dict[tuple[str, float], Release] = field(default_factory=dict)
    # per epsilon: the search for a ball and its share of the budget; None: the known ball was used
    found: dict[float, tuple[Release, float] | None] = field(default_factory=dict)
    measured: dict[tuple[str, float], float] = field(default_factory=dict)
    distances: list[np.ndarray] = field(
        default_factory=list
    )  # of each image to the non-private mean of its class
    known: Ball | None = None
    manifold: SPDLogEuclidean | None = None

    @property
    def known_ball(self) -> Ball:
        """The ball that is known beforehand: the descriptor of any image lies in it."""
        assert self.known is not None
        return self.known

    @property
    def total_count(self) -> int:
        """The number of images of all classes."""
        return self.count * len(self.descriptors)

    def ball(self, epsilon: float) -> Ball:
        """The ball that the class means of one epsilon are released in."""
        search = self.found[epsilon]
        return self.known_ball if search is None else search[0].value

    def known_error(self, epsilon: float, delta: float) -> float:
        """The error from noise in the ball that is known beforehand, by formula."""
        sensitivity = 2.0 * self.known_ball.radius / self.count
        multiplier = gaussian_noise_multiplier(Budget(epsilon, delta))
        return math.sqrt(self.space.dim) * sensitivity * multiplier

    @property
    def space(self) -> SPDLogEuclidean:
        """The space of the descriptors, once it is known."""
        assert self.manifold is not None
        return self.manifold
