"""The private records of a search for a ball, which answer its questions with noise."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..domains import Domain
from ..domains._adaptive import SearchDomain
from ..domains._clamp import readable
from ..domains._stream import Stream
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..randomness import NoiseSource
from ..statistics import FrechetVariance, Records, TangentMean
from ..statistics._tangent_mean import log_coordinates
from ._budgeted import BudgetedNoise, Floats
from ._search_answers import SearchAnswers


class SearchRecords(SearchAnswers):
    """Private records and a current centre; answers the questions of a search."""

    def __init__(self, domain: SearchDomain, X: Any, noise: BudgetedNoise, source: NoiseSource):
        super().__init__(domain, noise)
        self.X, self.source = X, source
        self.logs: Array = jnp.zeros((0, self.manifold.dim))
        self.distances: Floats = np.zeros(0)
        self._scales: np.ndarray | None = None

    @functools.cached_property
    def n(self) -> int:
        """How many records there are."""
        return (
            self.X.n if isinstance(self.X, Stream) else int(self.manifold._batch_shape(self.X)[0])
        )

    # ------------------------------------------------------------------ answers, with noise
    def scale_count(self, factor: int, scale: float, share: float) -> float:
        return float(self.scales_below(factor, scale)) + self.noise.count(share, self.source)

    def set_scales(self, scales: tuple[float, ...]) -> None:
        self._scales = None
        super().set_scales(scales)

    def count(self, radius: float, share: float) -> float:
        return float(self.within(radius)) + self.noise.count(share, self.source)

    def noisy_mean(self, radius: float, share: float) -> tuple[Floats, float]:
        domain = Domain(self.manifold, self.center, radius)
        query = TangentMean(domain, self.n, streamed=isinstance(self.X, Stream))
        mean = self.coordinates(query)
        scale = self.noise.scale(query.sensitivity, share, self.manifold.dim)
        return self.noise.added(mean, scale, self.source), scale

    # ------------------------------------------------------------------ exact, never released
    def scales_below(self, factor: int, scale: float) -> int:
        """How many records have this scale factor at most `scale`."""
        if self._scales is None:
            self._scales = np.asarray(log_scales(self.manifold, self.domain.center, self.X))
        return int(np.count_nonzero(self._scales[:, factor] <= scale))

    def take(self, center: Point) -> None:
        """Look from this centre from now on."""
        self.center = center
        self.logs = log_coordinates(self.manifold, center, self.X)
        self.distances = np.linalg.norm(np.asarray(self.logs), axis=1)

    def within(self, radius: float) -> int:
        """How many records lie within a radius of the plan."""
        return int(np.count_nonzero(self.distances <= radius * self.unit))

    def coordinates(self, query: TangentMean) -> Array:
        """The value of a query about the centre."""
        return query.coordinates(query.shorten(self.logs))

    def cut(self, query: FrechetVariance) -> Records:
        """The terms of a variance about the centre."""
        return query.cut(jnp.asarray(self.distances))


@functools.partial(jax.jit, static_argnums=0)
def log_scales(manifold: AbstractManifold, center: Point, X: Point) -> Float[Array, "n scales"]:
    """The scale factors of every record; those of the centre where a record has none."""
    safe, _ = readable(manifold, center, X)
    scales = manifold._log_scales(safe)
    return jnp.where(jnp.isfinite(scales), scales, manifold._log_scales(center))
