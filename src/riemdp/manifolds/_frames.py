"""What the manifolds of orthonormal frames share: Stiefel, Grassmann and rotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._namespace import namespace
from . import _orthonormal as on
from ._base import AbstractManifold
from ._spectral import apply, spectrum, sym, transpose

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


class AbstractFrames(AbstractManifold):
    """Matrices W (m, r) with orthonormal columns, and the metric tr(U^T V) of the space around
    them, which is that of a tangent vector, or of the lift of one.
    """

    m: int
    r: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.m, self.r)

    @property
    def origin(self) -> Float[Array, "m r"]:
        return np.eye(self.m, self.r)

    @property
    def is_hadamard(self) -> bool:
        return False

    @property
    def is_homogeneous(self) -> bool:
        return True

    _repaired: ClassVar[str] = "each block"
    _is_submanifold: ClassVar[bool] = True

    def _why_not(self, record: np.ndarray) -> str:
        return "does not have orthonormal columns"

    def _retract(self, p: Array, v: Array) -> Array:
        # Polar retraction: W^T U is skew, or 0, so (W + U)^T (W + U) = I + U^T U.
        gram = sym(np.eye(self.r) + transpose(v) @ v)
        return on.newton_orthonormalise((p + v) @ apply("power", gram, spectrum(gram), t=-0.5))

    def _inner(self, p: Array, u: Array, v: Array) -> Array:
        return on.frobenius(u, v) + np.zeros(self._batch_shape(p))

    def _project(self, x: Array) -> Array:
        return on.nearest_orthonormal(x)

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        """The largest entry of X^T X - I; infinite or NaN for anything that is not finite."""
        xp = namespace(x)
        return xp.max(xp.abs(transpose(x) @ x - np.eye(self.r)), axis=(-2, -1))
