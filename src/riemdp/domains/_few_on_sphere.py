"""The clamp of few points of a sphere, in NumPy.

XLA makes fifty small programs of it, which take longer to start than to run.
"""

from __future__ import annotations

import math

import numpy as np

from ..manifolds import Sphere
from ._clamp import INSIDE, LOOSE, TIGHT, slack
from ._domain import Domain

Array = np.ndarray

MOST = 1 << 14  # numbers, up to which it is quicker


def suits(domain: Domain, n: int) -> bool:
    """Whether n records are clamped here: a function of public facts."""
    m = domain.manifold
    return type(m) is Sphere and n * m.n <= MOST  # a subclass may say itself what is a point


def clamp_few(domain: Domain, X: Array) -> tuple[Array, Array]:
    """Records (n, d) moved radially into the ball, and which of them lay outside or were no points:
    what `domains._clamp.moving` gives, to a rounding. Every record goes through the same
    operations, each on its own.
    """
    radius, center = domain.radius, np.asarray(domain.center)
    # NumPy adds in another order where the array lies otherwise, and one record can decide how it
    # lies: a table with a cell that is no number does not lie as one without.
    X = np.ascontiguousarray(X)
    with np.errstate(all="ignore"):
        length = _lengths(X)
        error = np.abs(length - 1.0)
        valid, tight = error <= LOOSE, error <= TIGHT  # of what is not finite, neither
        if not tight.all():
            carried = np.where(tight[:, None], X, X / length[:, None])
            X = np.where(valid[:, None], carried, center)

        # The part of x across the center is that of x - c, and that of x + c: of the shorter one,
        # in which nothing cancels. Its length is the sine of the distance, whatever error the
        # length of x has.
        cosine = np.einsum("nd,d->n", X, center)
        short = X - np.copysign(1.0, cosine)[:, None] * center
        across = short - np.einsum("nd,d->n", short, center)[:, None] * center
        sine = _lengths(across)
        distance = np.arctan2(sine, cosine)
        valid &= distance < math.pi * (1.0 - 1e-9)
        inside = valid & (distance <= radius)

        goal = INSIDE * radius
        share = math.sin(goal) / np.where(inside, 1.0, sine)
        moved = math.cos(goal) * center + share[:, None] * across
        moved /= _lengths(moved)[:, None]
        chord = 2.0 * math.sin(0.5 * (radius + slack(radius)))
        reached = _lengths(moved - center) <= chord
        found = np.where(inside[:, None], X, moved)
        return np.where((inside | (valid & reached))[:, None], found, center), ~inside


def _lengths(v: Array) -> Array:
    return np.sqrt(np.einsum("nd,nd->n", v, v))
