"""The one solver of Fréchet means: Karcher's step in normal coordinates, accelerated.

A pass over the records gives the mean logarithm at a point; its length is the residual, and it is
measured at every point, the last one too. Steps are those of Anderson (1965), which combine what
the last passes saw. In a ball of known curvature, what they may fail at is bounded: after a public
number of passes plain steps of the public length h / L follow from the best point, with h and L the
smallest and the largest curvature of F = 1/2 sum_i w_i d(., x_i)^2 in the ball. They stay in it and
bring F nearer to its minimum by a public factor, whatever the records are. Proof:
docs/proofs/mean-sensitivity.md, Lemma 5.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._errors import InvalidArgument
from .._namespace import Floats
from ..domains import Domain
from ..domains._clamp import clamp
from ..domains._stream import Stream
from ..domains._sums import mean_of_sums, weighted_pairwise
from ..manifolds import AbstractManifold
from ..manifolds._base import Point

MAX_PASSES = 200  # of a search without a ball
ACCELERATED = 60  # passes, after which a search in a ball goes over to plain steps
_MEMORY = 10  # passes whose steps are combined
_LOST = 1e-12  # share of a change that tells no more than rounding does
_WORSE = 2.0  # times the smallest residual, from which a search goes back


class Seen(NamedTuple):
    """A pass over the records: the mean logarithm in coordinates, the mean of its square, and its
    own length, infinite where it is none.
    """

    gradient: Floats
    square: float
    residual: float


@dataclasses.dataclass(frozen=True)
class Found:
    """Where a search ended: the point, its residual, and the passes over the records."""

    value: Point
    residual: float
    passes: int


Look = Callable[[Point], Seen]
Sums = tuple[Floats, Floats]


# ------------------------------------------------------------------ one pass
def look_at(manifold: AbstractManifold, points: Point | Stream, shares: Floats | None) -> Look:
    """One pass over points in memory, with their shares, or over a stream, which has its own."""

    def look(point: Point) -> Seen:
        logs, square = mean_of_sums(points, shares, functools.partial(log_sums, manifold, point))
        length = _length(logs)
        return Seen(logs, float(square), length if math.isfinite(length) else math.inf)

    return look


def log_sums(manifold: AbstractManifold, p: Point, points: Point, weights: Any) -> Sums:
    """(sum_i w_i log_p x_i in coordinates, sum_i w_i d(p, x_i)^2); weights of None are 1."""
    return manifold._log_sum(p, points, functools.partial(weighted_pairwise, weights=weights))


def mean_in(domain: Domain, look: Look, tolerance: float) -> Found:
    """The mean of points of the ball, to the public tolerance, in the ball: outside of it, a small
    residual says nothing where curvature is positive.
    """
    space, center = domain.manifold, domain.center
    found = _accelerated(space, look, center, tolerance, ACCELERATED)
    inside = np.asarray(space._dist(center, found.value)) <= domain.radius
    if found.residual <= tolerance and inside:
        return found
    length, passes = domain.strong_convexity / largest_hessian(domain), found.passes
    point, best = clamp(space, center, domain.radius, found.value), Found(center, math.inf, passes)
    for passes in range(found.passes + 1, found.passes + plain_steps(domain, tolerance) + 1):
        seen = look(point)
        if seen.residual < best.residual:
            best = Found(point, seen.residual, passes)
        if seen.residual <= tolerance:
            break
        end = space._exp_coordinates(point, length * seen.gradient)
        point = clamp(space, center, domain.radius, end)
    return dataclasses.replace(best, passes=passes)


def mean_from(manifold: AbstractManifold, look: Look, start: Point, tolerance: float) -> Found:
    """The mean where no ball is known, or the point of the smallest residual."""
    return _accelerated(manifold, look, start, tolerance, MAX_PASSES)


# ------------------------------------------------------------------ public numbers
def largest_hessian(domain: Domain) -> float:
    """L, an upper bound of the second derivative of d(., x)^2 / 2 on the ball, for every x of it:
    t coth t with t = 2 r sqrt(-kappa), kappa the least curvature; 1 without negative curvature.
    """
    lowest = float(domain.manifold.curvature_bounds[0])
    t = 2.0 * domain.radius * math.sqrt(max(0.0, -lowest))
    return t / math.tanh(t) if t > 0.0 else 1.0


def plain_fall(domain: Domain) -> float:
    """The share of F - min F that a plain step takes away at least: h^2 (2 - h) / L."""
    h = domain.strong_convexity
    return h * h * (2.0 - h) / largest_hessian(domain)


def plain_steps(domain: Domain, tolerance: float) -> int:
    """How many plain steps reach the tolerance from any point of the ball: a public number.

    F - min F is at most 2 r^2 at first, falls by the factor 1 - `plain_fall`, and is at least
    |grad F|^2 h (2 - h) / (2 L).

    Raises:
        InvalidArgument: Nothing is known of the curvature, so they may not reach it.
    """
    h, fall = domain.strong_convexity, plain_fall(domain)
    if not fall > 0.0:
        raise InvalidArgument(
            f"argument `ball`: the Fréchet mean on {domain.manifold!r} in a ball of radius"
            f" {domain.radius:g} is not sure to be found, because no lower bound of the curvature"
            " is known; give mechanism='tangent-mean'"
        )
    if fall >= 1.0:
        return 2
    gap = 4.0 * largest_hessian(domain) * (domain.radius / tolerance) ** 2 / (h * (2.0 - h))
    return 2 + math.ceil(math.log(max(gap, 1.0)) / -math.log1p(-fall))


# ------------------------------------------------------------------ steps
def _accelerated(
    manifold: AbstractManifold, look: Look, start: Point, tolerance: float, most: int
) -> Found:
    """Karcher's step, combined with those before it; the point of the smallest residual where the
    tolerance is not reached. A residual that grows sends the search back to that point, with steps
    of half the length.
    """
    point, shorter = start, 1.0
    history = _History()
    best: tuple[Found, Seen] | None = None
    for passes in range(1, most + 1):
        seen = look(point)
        if best is None or seen.residual < best[0].residual:
            best = Found(point, seen.residual, passes), seen
        if seen.residual <= tolerance:
            return best[0]
        if not seen.residual <= _WORSE * best[0].residual:
            shorter *= 0.5
            point, seen, history = best[0].value, best[1], _History()
        length = shorter * _usual_length(manifold, seen)
        step = history.step(seen.gradient, length, 2.0 * math.sqrt(seen.square))
        point = manifold._exp_coordinates(point, step)
    assert best is not None
    return dataclasses.replace(best[0], passes=most)


def _usual_length(manifold: AbstractManifold, seen: Seen) -> float:
    """About what the gradient has to be multiplied by: 1 over the second derivative along it, which
    is 1 for the part of the logarithms that lies along it and for the rest t coth t, or t cot t
    where curvature is positive, t the root mean square distance in units of the curvature.
    """
    curvature = manifold._mean_curvature
    t = math.sqrt(abs(curvature) * seen.square)
    if not 1e-4 < t < math.inf:
        return 1.0
    across = t / math.tanh(t) if curvature < 0.0 else t / math.tan(min(t, 1.2))
    along = min(1.0, seen.residual**2 / seen.square)
    return 1.0 / (along + (1.0 - along) * across)


def _length(v: Floats) -> float:
    return math.sqrt(np.vecdot(v, v))


def _within(step: Floats, most: float) -> Floats:
    """A step of at most this length: no mean is farther than its records."""
    length = _length(step)
    return step * (most / length) if length > most else step


class _History:
    """How the gradient changed by the steps of the last passes: orthonormal changes, each with the
    combination of steps that makes it.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[Floats, Floats]] = []
        self.last: tuple[Floats, Floats] | None = None

    def step(self, gradient: Floats, length: float, most: float) -> Floats:
        """Anderson's step, no longer than `most`: along what is left of the gradient after the
        combination of changes that is nearest to it, and against the steps that made these.
        """
        if self.last is not None:
            whole = gradient - self.last[1]
            change, back = self._apart(whole, self.last[0])
            size = _length(change)
            if size > _LOST * _length(whole):
                self.seen = [*self.seen, (change / size, back / size)][-_MEMORY:]
        left, back = self._apart(gradient, np.zeros_like(gradient))
        step = length * left + back
        if not np.isfinite(step).all():
            step = length * gradient
        self.last = _within(step, most), gradient
        return self.last[0]

    def _apart(self, gradient: Floats, step: Floats) -> tuple[Floats, Floats]:
        """What is left of a gradient without the known changes, and a step less what makes them."""
        for change, made in self.seen:
            share = np.vecdot(change, gradient)
            gradient, step = gradient - share * change, step - share * made
        return gradient, step
