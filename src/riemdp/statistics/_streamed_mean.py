"""The Frechet mean of records that are read in parts, on every space with a logarithm.

A pass gives the mean logarithm at a point. The Newton equation is solved with the Hessian of a few
hundred records, chosen by their places, found by differences (of SPD matrices by a formula), and
corrected after each pass (Broyden 1965); where that leads nowhere, because these records are unlike
the others, with that of all records by differences. The residual is measured by a pass at every
point, the last one too. Sums are compensated: see `domains._stream.streamed_error`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domains import Domain
from ..domains._memory import give_back
from ..domains._stream import Stream, weighted_pairwise
from ..manifolds import AbstractManifold, SPDAffineInvariant
from ..manifolds._base import Point
from ._affine_mean import NotSuitable, affine_inverse
from ._sums import weighted_sum

_SAMPLE, _SHARE = 16384, 32  # records whose mean the iteration starts from, or one of so many,
_NUMBERS = 1 << 21  # but at most so many that they are these numbers
_FEW, _LOGS = 512, 1 << 16  # records whose Hessian is used, or so many that it takes these logs
_LARGE = 1275  # dimensions (SPD: 50 rows) beyond which a pass takes long
_MOST_COLUMNS = 512  # in larger dimensions the Hessian of some records is taken for 1,
_MOST_EXACT = 2048  # in larger ones than this that of all records too
_MOST_BENT = 8.0  # the largest condition of the Hessian with which such steps lead to the mean
_DIFFERENCE = 1e-4  # of the radius
_STUCK = 2  # steps of little use, after which the Hessian of all records is taken
_IDLE = 30
_MOST_PAIRS = 30  # corrections that are kept
_FLATTEST = 0.05  # smallest eigenvalue that is believed of an estimated Hessian

InMemory = Callable[[Domain, Point, np.ndarray, float], Point]
Look = Callable[[Point], np.ndarray]  # stacked points -> the mean logarithm at each
Rough = Callable[["_Chart", float], "_Inverse"]  # and the length of differences


def streamed_mean(
    domain: Domain, records: Stream, tolerance: float, max_passes: int, in_memory: InMemory
) -> Point:
    """The mean of points of the ball to the tolerance, or the point with the smallest residual that
    was found.

    Args:
        domain: The ball that the points lie in.
        records: The points.
        tolerance: On the length of the mean logarithm.
        max_passes: The most passes over the records.
        in_memory: Finds the mean of points that are in memory.
    """
    manifold = domain.manifold
    look = functools.partial(mean_logs, manifold, records)
    if manifold._is_flat:
        return ends(manifold, domain.center, look(stacked(domain.center))[0])
    size = max(_SAMPLE, records.n // _SHARE)
    size = max(1, min(size, _NUMBERS // records.source.entries))
    if size < records.n:  # a sample costs half a pass at most
        size = min(size, (records.n + 1) // 2)
    some = records.thinned(size)
    give_back()
    held, count = some.held(), some.n
    if held is not None:
        some = records  # the sample as it was read is not needed any more
    rough = functools.partial(_rough_inverse, manifold, records, held)
    if held is None:
        start = domain.center
        if count < records.n:
            start = _search(domain, some, rough, start, 1e-3 * domain.radius, max_passes)
    elif count == records.n:  # its residual is measured again below, with compensated sums
        start = in_memory(domain, *held, tolerance)
    else:
        start = in_memory(domain, *held, 1e-6 * min(1.0, domain.radius))
    return _search(domain, records, rough, start, tolerance, max_passes)


def _rough_inverse(
    manifold: AbstractManifold,
    records: Stream,
    held: tuple[Point, np.ndarray] | None,
    chart: _Chart,
    size: float,
) -> _Inverse:
    """The inverse Hessian of some of the records."""
    if held is not None and isinstance(manifold, SPDAffineInvariant):
        points, shares = held
        with contextlib.suppress(NotSuitable):
            return _Inverse(affine_inverse(points, shares, chart.start))
    few = _few(manifold, records, held)
    return _inverse_hessian(chart, few, size, _MOST_COLUMNS)


def _few(
    manifold: AbstractManifold, records: Stream, held: tuple[Point, np.ndarray] | None
) -> Look:
    """The mean logarithms of a few of the records, of a sample in memory where there is one."""
    size = max(_FEW, _LOGS // (manifold.dim + 1))
    size = max(1, min(size, _NUMBERS // records.source.entries))
    if held is None:
        return functools.partial(mean_logs, manifold, records.thinned(size))
    points, shares = held
    places = (np.arange(min(size, len(shares))) * len(shares)) // min(size, len(shares))
    weights = shares[places]
    if not weights.any():
        weights = np.ones(len(places))
    chosen = jax.tree.map(lambda x: x[places], points)
    return functools.partial(_mean_of_few, manifold, chosen, weights / math.fsum(weights))


def _mean_of_few(
    manifold: AbstractManifold, chosen: Point, shares: np.ndarray, points: Point
) -> np.ndarray:
    return np.asarray(_means_of_few(manifold, points, chosen, jnp.asarray(shares)))


def reaches(domain: Domain) -> bool:
    """Whether the mean of any records of the ball is found: a public fact. With the Hessian of all
    records each step is Newton's, shortened until the residual falls. Where the dimension is too
    large for that, gradient steps have to do.
    """
    manifold = domain.manifold
    if manifold.dim <= _MOST_EXACT:
        return True
    lowest = float(manifold.curvature_bounds[0])
    if not math.isfinite(lowest):
        return False
    bent = 2.0 * domain.radius * math.sqrt(max(0.0, -lowest))
    largest = bent / math.tanh(bent) if bent > 0.0 else 1.0
    return largest <= _MOST_BENT * domain.strong_convexity


def spares_passes(manifold: AbstractManifold) -> bool:
    """Whether a coarser tolerance is taken, which spares passes where each takes long."""
    return isinstance(manifold, SPDAffineInvariant) and manifold.dim > _LARGE


def _search(
    domain: Domain, records: Stream, rough: Rough, start: Point, tolerance: float, max_passes: int
) -> Point:
    """Quasi-Newton steps in the normal coordinates of `start`."""
    manifold = domain.manifold
    look = functools.partial(mean_logs, manifold, records)
    size = _DIFFERENCE * domain.radius
    chart = _Chart(manifold, start)
    first = inverse = _Inverse(None)
    here = np.zeros(manifold.dim)
    best: _Found | None = None
    shrink, idle, exact = 1.0, 0, False
    for _ in range(max_passes):
        point = chart.point(here)
        at_point = look(stacked(point))[0]
        residual = float(np.linalg.norm(at_point))
        if residual <= tolerance:
            return point
        if best is None:
            first = inverse = rough(chart, size)
        gradient = chart.seen_from_start(stacked(point), at_point[None])[0]
        found = _Found(residual, point, at_point, here, gradient)
        if best is None or residual < best.residual:
            if best is not None:
                inverse = inverse.corrected(here - best.y, best.gradient - gradient)
                idle = 0 if residual < 0.9 * best.residual else idle + 1
                exact = False
            best = found
            shrink = min(1.0, 2.0 * shrink)
        else:
            idle += 1
            shrink *= 0.5
            inverse = first
        if idle >= _STUCK and not exact:
            chart = _Chart(manifold, best.point)
            best = best._replace(y=np.zeros(manifold.dim), gradient=best.at_point)
            inverse = first = _inverse_hessian(chart, look, size, _MOST_EXACT)
            shrink, exact = 1.0, True
        if idle >= _IDLE:
            break
        step = shrink * inverse.of(best.gradient)
        length = float(np.linalg.norm(step))
        if not math.isfinite(length):
            inverse, step = first, shrink * best.gradient
            length = float(np.linalg.norm(step))
        here = best.y + step * min(1.0, domain.radius / length if length > 0 else 1.0)
    assert best is not None
    return best.point


class _Found(NamedTuple):
    """A point of the search: its residual, mean logarithm there, and both as seen in the chart."""

    residual: float
    point: Point
    at_point: np.ndarray
    y: np.ndarray
    gradient: np.ndarray


class _Chart:
    """Normal coordinates at a point."""

    def __init__(self, manifold: AbstractManifold, start: Point):
        self.manifold, self.start = manifold, start

    def point(self, y: np.ndarray) -> Point:
        """The point, or points, with these coordinates."""
        return ends(self.manifold, self.start, y)

    def seen_from_start(self, points: Point, y: np.ndarray) -> np.ndarray:
        """Coordinates at stacked points, carried to the start."""
        return np.asarray(_carried(self.manifold, self.start, points, jnp.asarray(y)))


@dataclasses.dataclass(frozen=True)
class _Inverse:
    """An inverse Hessian: a symmetric map, 1 where it is None, and corrections of rank one. In
    large dimensions a matrix would be larger than all that is held of the records.
    """

    symmetric: Callable[[np.ndarray], np.ndarray] | None
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    def of(self, y: np.ndarray) -> np.ndarray:
        """The inverse times y."""
        whole = y if self.symmetric is None else self.symmetric(y)
        return whole + sum(u * float(v @ y) for u, v in self.pairs)

    def transposed(self, y: np.ndarray) -> np.ndarray:
        """Its transpose times y."""
        whole = y if self.symmetric is None else self.symmetric(y)
        return whole + sum(v * float(u @ y) for u, v in self.pairs)

    def corrected(self, step: np.ndarray, change: np.ndarray) -> _Inverse:
        """Broyden's correction: the inverse that takes `change` to `step`, nearest to this one."""
        image, row = self.of(change), self.transposed(step)
        below = float(row @ change)
        if not abs(below) > 1e-3 * float(step @ step):
            return self
        pair = ((step - image) / below, row)
        return dataclasses.replace(self, pairs=(*self.pairs, pair)[-_MOST_PAIRS:])


def _inverse_hessian(chart: _Chart, look: Look, size: float, most: int) -> _Inverse:
    """The inverse of the Hessian at the start, by differences of the gradients that `look` finds; 1
    in more than `most` dimensions.
    """
    dim = chart.manifold.dim
    if dim > most:
        return _Inverse(None)
    one = np.eye(dim)
    points = chart.point(np.concatenate([np.zeros((1, dim)), size * one]))
    gradients = chart.seen_from_start(points, look(points))
    hessian = (gradients[:1] - gradients[1:]) / size
    if not np.isfinite(hessian).all():
        return _Inverse(None)
    values, q = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return _Inverse(((q / np.maximum(values, _FLATTEST)) @ q.T).__matmul__)


# ------------------------------------------------------------------ formulas
@functools.partial(jax.jit, static_argnums=0)
def ends(manifold: AbstractManifold, base: Point, y: Array | np.ndarray) -> Point:
    """The points at these coordinates of the tangent space at `base`."""
    return manifold._exp_coordinates(base, jnp.asarray(y))


def stacked(point: Point) -> Point:
    """One point, as an array of one."""
    return jax.tree.map(lambda x: jnp.asarray(x)[None], point)


@functools.partial(jax.jit, static_argnums=0)
def _carried(manifold: AbstractManifold, start: Point, points: Point, y: Array) -> Array:
    v = manifold._from_coordinates(points, y)
    return manifold._to_coordinates(start, manifold._transport(points, start, v))


def mean_logs(
    manifold: AbstractManifold, records: Stream, points: Point, from_afar: bool = False
) -> np.ndarray:
    """Coordinates (m, dim) of the mean logarithm at each of m stacked points, which may lie far
    out: one pass.
    """
    sums, weight = records.sums(functools.partial(_log_sums, manifold, points, from_afar=from_afar))
    return np.asarray(sums) / weight


def _log_sums(
    manifold: AbstractManifold,
    points: Point,
    records: Point,
    _: Any,
    weights: Array,
    from_afar: bool = False,
) -> Array:
    return _compiled_log_sums(manifold, points, records, weights, from_afar)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _compiled_log_sums(
    manifold: AbstractManifold, points: Point, records: Point, weights: Array, from_afar: bool
) -> Array:
    """Weighted sums of logarithms, in coordinates at each of some stacked points."""
    logs = manifold._log_coordinates_from_afar if from_afar else manifold._log_coordinates

    def one(point: Point) -> Array:
        return weighted_pairwise(logs(point, records), weights)

    return jax.lax.map(one, points)


@functools.partial(jax.jit, static_argnums=0)
def _means_of_few(
    manifold: AbstractManifold, points: Point, records: Point, shares: Array
) -> Array:
    def one(point: Point) -> Array:
        return weighted_sum(shares, manifold._log_coordinates(point, records))

    return jax.lax.map(one, points)
