"""A NumPy twin of the noisy answers of a ball search on a flat space, for simulations and attacks.

It shares no code with the library but the search itself: records are rows of an array.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from tests.seam import Searches


class Unlimited(Searches.Purse):
    """Answers with the noise of their shares, however many: no release is made of them."""

    def take(self, share):
        return self.noise.share(share)


def unlimited(budget, source: Any = None) -> Unlimited:
    """The same for a budget."""
    return Unlimited(Searches.SomeNoise.of(budget), source)


@dataclasses.dataclass
class FlatAnswers:
    """Answers about the rows of `records`; `scales` are unit directions that locate scales.

    `loss` adds up log p(answers | records) - log p(answers | neighbour) of the whole transcript,
    where `neighbour` is given.
    """

    records: np.ndarray
    mu: float
    rng: np.random.Generator
    directions: np.ndarray | None = None
    neighbour: np.ndarray | None = None
    noise: float = 1.0  # planted fault: this times the noise that was paid for
    loss: float = 0.0
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.centre = np.zeros(self.records.shape[1])
        self._measure()

    def _measure(self) -> None:
        self.away = [None if x is None else x - self.centre for x in (self.records, self.neighbour)]
        self.distance = [None if v is None else np.linalg.norm(v, axis=1) for v in self.away]

    def _release(self, values, deviation):
        ours, theirs = values
        drawn = deviation * self.noise
        answer = ours + drawn * self.rng.normal(size=np.shape(ours))
        if theirs is not None:
            self.loss += float(np.sum((answer - theirs) ** 2 - (answer - ours) ** 2)) / (
                2 * drawn**2
            )
        return answer

    def _count(self, values, limit, share):
        self.spent += share
        counts = [None if v is None else float(np.sum(v <= limit)) for v in values]
        return self._release(counts, 1.0 / (self.mu * math.sqrt(share)))

    @property
    def left(self) -> float:
        """The share that is not spent yet."""
        return 1.0 - self.spent

    def valid(self, share):
        self.spent += share
        counts = [None if x is None else float(len(x)) for x in (self.records, self.neighbour)]
        return self._release(counts, 1.0 / (self.mu * math.sqrt(share)))

    def scale_count(self, factor, scale, share):
        assert self.directions is not None
        u = self.directions[factor]
        return self._count(
            [None if x is None else x @ u for x in (self.records, self.neighbour)], scale, share
        )

    def set_scales(self, scales):
        if self.directions is not None:
            u = self.directions
            self.centre = np.asarray(scales) @ (u / np.sum(u**2, axis=1, keepdims=True))
        self._measure()

    def count(self, radius, share):
        return self._count(self.distance, radius, share)

    def move(self, radius, share, stretch=1.0):
        self.spent += share
        n = len(self.records)
        means = [
            None
            if v is None
            else (v * np.minimum(1, radius / np.maximum(r, 1e-300))[:, None]).mean(0)
            for v, r in zip(self.away, self.distance, strict=True)
        ]
        deviation = 2 * radius / (n * self.mu * math.sqrt(share))
        y, deviation = stretch * self._release(means, deviation), stretch * deviation
        step = truncated(shrunk(y, deviation), radius)
        self.centre = self.centre + step
        self._measure()
        return float(np.linalg.norm(step)) > 0.3 * radius

    def final(self, radius, share):
        """The released mean of the records clipped to the ball that was found."""
        before = self.centre
        self.move(radius, share)
        mean, self.centre = self.centre, before
        return mean


def shrunk(y, deviation):
    """Positive-part James-Stein towards 0."""
    d, square = y.size, float(np.sum(y**2))
    if d < 3 or square == 0:
        return y
    return y * max(0.0, 1 - (d - 2) * deviation**2 / square)


def truncated(y, radius):
    length = np.linalg.norm(y)
    return y if length <= radius else y * (radius / length)
