"""What is drawn, seen from outside: every distribution of `NoiseSource` goes through a hook."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from riemdp import NoiseSource

# The distributions of noise, and those that choose which records enter.
NOISE = (
    "normals",
    "rounded_normals",
    "discrete_gaussians",
    "laplace_integers",
    "laplace_integer",
    "uniforms",
    "gammas",
)
CHOICES = ("integers", "subsets")
ADDED = {  # what is added to a value as it is, beside a scale or in units of its own
    "normals",
    "rounded_normals",
    "discrete_gaussians",
    "laplace_integers",
    "laplace_integer",
}
SMALLEST = 2.0**-54  # a uniform: the quantile of a radius is next to zero there

Hook = Callable[["Draw"], Any]


class Draw:
    """One call of a distribution.

    Attributes:
        source: Whose distribution.
        kind: Its name.
        given: The positional arguments.
        number: How many came before it.
        size: How many numbers it gave, where that was looked at.
    """

    def __init__(self, source: NoiseSource, kind: str, draw: Callable[[], Any], given: Any):
        self.source, self.kind, self.given, self._draw = source, kind, given, draw
        self.number, self.size = -1, 0

    def made(self) -> Any:
        """What the distribution draws."""
        return self._draw()


@contextlib.contextmanager
def drawn_through(hook: Hook) -> Iterator[list[Draw]]:
    """In this block every distribution of every source is what `hook(draw)` returns; all draws."""
    draws: list[Draw] = []

    def through(kind: str) -> Callable[..., Any]:
        own = getattr(NoiseSource, kind)

        def called(source: NoiseSource, *given: Any, **named: Any) -> Any:
            draw = Draw(source, kind, lambda: own(source, *given, **named), given)
            draw.number = len(draws)
            draws.append(draw)
            return hook(draw)

        return called

    with contextlib.ExitStack() as stack:
        for kind in (*NOISE, *CHOICES):
            stack.enter_context(mock.patch.object(NoiseSource, kind, through(kind)))
        yield draws


def silent(draw: Draw, *, radial: bool = False) -> Any:
    """No noise, and the first records in every batch. Where a distribution is drawn by its radius
    and its direction (`radial`), the radius is next to zero.
    """
    made = draw.made()
    if draw.kind == "subsets":
        return np.broadcast_to(np.arange(made.shape[1]), made.shape).copy()
    if radial and draw.kind in ("gammas", "uniforms"):
        return np.full_like(made, SMALLEST)
    if draw.kind not in ADDED or (radial and draw.kind == "normals"):
        return made
    return zeros(made)


def zeros(made: Any) -> Any:
    """The same kind of thing."""
    return np.zeros_like(made) if isinstance(made, np.ndarray) else type(made)(0)
