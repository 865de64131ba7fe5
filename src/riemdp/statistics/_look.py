"""One pass over records that are read in parts, for Newton's method: what is summed over them, and
what the sums tell of the objective at a point. Each kind of space has its own, and a product those
of its factors.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import raise_interrupt
from ..domains._sources import Unreadable
from ..domains._stream import Part, Stream, weighted_pairwise
from ..manifolds import AbstractManifold, Product
from ..manifolds._base import Point
from ._newton import Found, View, damped_newton
from ._sphere_mean import FLATTEST

MOST = 1275  # dimensions (SPD: 50 rows) in which the Hessian costs less than a pass, and 120 MB

M = TypeVar("M", bound=AbstractManifold)


class AbstractLook(abc.ABC, Generic[M]):
    """What a pass looks for on a space.

    Attributes:
        manifold: The space.
        has_light: Whether a gradient alone takes so much less time than all sums that the first
            step of many records had better be made with the Hessian of a sample.
    """

    manifold: M
    has_light = False

    @abc.abstractmethod
    def part(self, point: Point) -> Part:
        """What is summed over the records, seen from the point."""

    def light(self, point: Point) -> Part:
        """The first of these sums alone, from which the gradient is made: after `part`."""
        return functools.partial(_log_sums, self.manifold, point)

    def mixed(self, light: Any, means: Any) -> Any:
        """Means of which the first is that of other records."""
        return (light, *means[1:])

    @abc.abstractmethod
    def view(self, means: Any) -> View[np.ndarray]:
        """What the means of these sums tell, of the point that `part` was asked for last. Steps are
        coordinates there.
        """


Means = Callable[[Part], Any]  # of what a part sums, over the weights


def newton_of_means(
    look: AbstractLook[Any],
    records: Means,
    start: Point,
    tolerance: float,
    max_passes: int,
    sample: Means | None = None,
) -> Found[Point]:
    """The Frechet mean by Newton's method with the Hessian of all records, from `start`; at the
    start, with that of a sample of them, where one is given and the look is for it. What the look
    learns of the records' width, it learns of the sample. An error of arithmetic is an event of the
    records: it is a residual without bound, and the next method goes on.
    """
    first = sample

    def seen(point: Point) -> View[np.ndarray]:
        nonlocal first
        if first is None:
            return look.view(records(look.part(point)))
        some, first = first(look.part(point)), None
        if not look.has_light:
            look.view(some)
            return look.view(records(look.part(point)))
        view = look.view(look.mixed(records(look.light(point)), some))
        # what bounds the residual after the step is known of the sample only
        return dataclasses.replace(view, newton=lambda: (view.newton()[0], math.inf))

    move = functools.partial(ends, look.manifold)
    try:
        return damped_newton(seen, move, start, tolerance, max_passes)
    except Unreadable:
        raise
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
        raise_interrupt(error)
        return Found(start, math.inf, max_passes, math.inf)


def means_of_stream(records: Stream, part: Part) -> Any:
    """The means of what `part` sums, over records that are read in parts."""
    sums, weight = records.sums(part)
    return jax.tree.map(lambda leaf: np.asarray(leaf) / weight, sums)


@functools.partial(jax.jit, static_argnums=0)
def ends(manifold: AbstractManifold, base: Point, y: Array | np.ndarray) -> Point:
    """The points at these coordinates of the tangent space at `base`."""
    return manifold._exp_coordinates(base, jnp.asarray(y))


def solved(hessian: np.ndarray, gradient: np.ndarray, flattest: float) -> np.ndarray:
    """Newton's step, along which F descends; `flattest` is below all eigenvalues. It raises
    nothing: that would be an event of the records.
    """
    if not np.isfinite(hessian).all():
        return gradient
    if flattest >= FLATTEST:
        return np.linalg.solve(hessian, gradient)
    values, q = np.linalg.eigh(hessian)
    return q @ ((q.T @ gradient) / np.maximum(values, FLATTEST))


class FlatLook(AbstractLook[AbstractManifold]):
    """A flat space: the mean logarithm leads to the mean."""

    def __init__(self, manifold: AbstractManifold):
        self.manifold = manifold

    def part(self, point: Point) -> Part:
        return functools.partial(_log_sums, self.manifold, point)

    def view(self, means: Any) -> View[np.ndarray]:
        return View(float(np.linalg.norm(means)), 0.0, means, lambda: (means, 0.0))


class ProductLook(AbstractLook[Product]):
    """The looks of all factors in one pass. Their steps do not touch each other."""

    def __init__(self, manifold: Product, looks: Sequence[AbstractLook[Any]]):
        self.manifold, self.looks = manifold, tuple(looks)
        self.has_light = any(look.has_light for look in looks)

    def part(self, point: Point) -> Part:
        parts = tuple(look.part(p) for look, p in zip(self.looks, point, strict=True))
        return functools.partial(_of_each, parts)

    def light(self, point: Point) -> Part:
        pairs = zip(self.looks, point, strict=True)
        parts = tuple(look.light(p) if look.has_light else look.part(p) for look, p in pairs)
        return functools.partial(_of_each, parts)

    def mixed(self, light: Any, means: Any) -> Any:
        given = zip(self.looks, light, means, strict=True)
        return tuple(
            look.mixed(first, own) if look.has_light else first for look, first, own in given
        )

    def view(self, means: Any) -> View[np.ndarray]:
        views = [look.view(own) for look, own in zip(self.looks, means, strict=True)]

        def newton() -> tuple[np.ndarray, float]:
            steps, bounds = zip(*(view.newton() for view in views), strict=True)
            return np.concatenate(steps), math.hypot(*bounds)

        return View(
            math.hypot(*(view.residual for view in views)),
            math.hypot(*(view.spread for view in views)),
            np.concatenate([view.descent for view in views]),
            newton,
        )


def _of_each(parts: Sequence[Callable[..., Any]], records: Point, _: Any, weights: Array) -> Any:
    return tuple(part(own, _, weights) for part, own in zip(parts, records, strict=True))


def _log_sums(
    manifold: AbstractManifold, point: Point, records: Point, _: Any, weights: Array
) -> Array:
    return compiled_log_sums(manifold, stacked(point), records, weights)[0]


def stacked(point: Point) -> Point:
    """One point, as an array of one."""
    return jax.tree.map(lambda x: jnp.asarray(x)[None], point)


@functools.partial(jax.jit, static_argnums=(0, 4))
def compiled_log_sums(
    manifold: AbstractManifold,
    points: Point,
    records: Point,
    weights: Array,
    from_afar: bool = False,
) -> Array:
    """Weighted sums of logarithms, in coordinates at each of some stacked points."""
    logs = manifold._log_coordinates_from_afar if from_afar else manifold._log_coordinates

    def one(point: Point) -> Array:
        return weighted_pairwise(logs(point, records), weights)

    return jax.lax.map(one, points)
