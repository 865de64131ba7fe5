"""Laplace noise in the tangent space of a *public* base point: `WrappedLaplace`.

The sensitivity in the tangent space, and what happens to the value before the noise, stand in
`AbstractWrapped`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._trees import map_leaves
from ..domains import Ball
from ..inference._distributions import Lengths, laplace_errors
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, Tangent
from ..privacy import Budget
from ..privacy._guarantee import ADJACENCIES
from ..privacy._noise import Noise
from ._common import PureMechanism, rounded_up
from ._for_mean import MeanFacts
from ._lattice import on_grid
from ._wrapped import AbstractWrapped

if TYPE_CHECKING:
    from .._namespace import Array


@dataclasses.dataclass(frozen=True, eq=False)
class WrappedLaplace(AbstractWrapped, PureMechanism):
    """Release a point by Laplace noise in the tangent space of a *public* base point:
    Exp_base(log_base(value) + v).

    v has density proportional to exp(-|v|_base / s): Gamma(dim, s) length, uniform direction. It
    exists at every scale, on every space with a logarithm. In up to ten dimensions its coordinates
    are multiples of a public power of two, with this distribution on the grid, drawn in integer
    arithmetic.

    Args:
        manifold: The space, with a logarithm.
        base: The public base point.
        sensitivity: Sensitivity of the value, as a geodesic distance; above 0.
        epsilon: Above 0; a number or a `Budget`, of which epsilon alone is spent.
        ball: A public `Ball`, as for `WrappedGaussian`.
        adjacency: The neighbours that `sensitivity` was computed for.

    Raises:
        InvalidArgument: An argument is out of range, or a ball is missing or too large.
        NotImplementedError: The space has no logarithm.

    Guarantee:
        (epsilon, 0) under `adjacency`, with s = L sensitivity / epsilon, L the Lipschitz constant
        of log_base as for `WrappedGaussian`.

    Source:
        The l2 K-norm mechanism (Reimherr2021 A.4) on the tangent space of a public point.
        Proof: docs/proofs/laplace.md.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Lorentz(3)
        >>> mechanism = riemdp.WrappedLaplace(space, space.origin, sensitivity=0.01, epsilon=1.0)
        >>> round(mechanism.scale, 6)
        0.01
    """

    name: ClassVar[str] = "wrapped-laplace"
    words: ClassVar[str] = (
        "Laplace noise in the tangent space at the public centre, carried back to the space"
    )

    manifold: AbstractManifold
    base: Point
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float | Budget | Noise
    ball: Ball | None = None
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)
    tangent_sensitivity: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        epsilon = self._check_epsilon()
        self._check_public()
        scale = rounded_up(self.tangent_sensitivity / epsilon)
        if self._on_grid:
            most = self.tangent_sensitivity + self._bounded
            scale = on_grid(1.0 / epsilon, most, self.manifold.dim)
        self._settle(scale=scale)

    @classmethod
    def for_mean(cls, facts: MeanFacts) -> WrappedLaplace:
        """For a Fréchet mean, at the centre of the ball."""
        given = facts.given(facts.query, pure=True)
        return cls(facts.manifold, facts.domain.center, ball=facts.ball, **given)

    @property
    def lengths(self) -> Lengths:
        """Distribution of the length of the noise in the tangent space."""
        return laplace_errors(self.manifold.dim, self.scale, exact=True)

    def score(self, value_in: Point, value_out: Point) -> Callable[[Point], Array]:
        """Difference of the distances to both values in the tangent space."""
        m, base = self.manifold, self.base
        a, b = m.log(base, value_in), m.log(base, value_out)

        def length(x: Point, v: Tangent) -> Array:
            return m.norm(base, map_leaves(np.subtract, m.log(base, x), v))

        return lambda x: length(x, b) - length(x, a)
