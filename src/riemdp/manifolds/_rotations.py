"""Rotations: the component of the identity in the orthogonal group."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from .. import _linalg as linalg
from .._namespace import namespace, stop_gradient
from ._base import set_field
from ._spectral import sym, transpose
from ._stiefel import Stiefel

if TYPE_CHECKING:
    from jaxtyping import Float

    from .._namespace import Array


@dataclasses.dataclass(frozen=True)
class SpecialOrthogonal(Stiefel):
    """Rotations of R^m: matrices W (m, m) with W^T W = I and determinant 1. The dimension is m (m -
    1)/2.

    It is the component of the identity in `Stiefel(m, m)`, with its metric tr(U^T V): a turn by t
    in one plane has length sqrt(2) t, and the injectivity radius is sqrt(2) pi. Any two points are
    joined by a geodesic, so every distance is finite. A reflection, of determinant -1, is no point:
    in a private release it counts as a record that is none, and `project` gives the nearest
    rotation.

    Args:
        m: Number of rows and columns, at least 2.

    Raises:
        InvalidArgument: `m` is not a whole number of at least 2.

    Source:
        Edelman, Arias and Smith 1998, section 2.2.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> rotations = riemdp.SpecialOrthogonal(3)
        >>> rotations.dim, bool(rotations.belongs(np.eye(3))), bool(rotations.belongs(-np.eye(3)))
        (3, True, False)
    """

    r: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_field(self, "r", self.m)
        super().__post_init__()

    def _why_not(self, record: np.ndarray) -> str:
        if np.all(super()._defect(record) <= 1e-6):
            return "has determinant -1: it is a reflection, a point of Stiefel(m, m)"
        return super()._why_not(record)

    def _defect(self, x: Array) -> Float[Array, "*batch"]:
        return namespace(x).where(linalg.det(x) > 0.0, super()._defect(x), math.inf)

    def _project(self, x: Array) -> Array:
        """The nearest orthonormal matrix; of one that reflects, the axis that x stretches least is
        turned around (Kabsch 1976).
        """
        xp, nearest = namespace(x), super()._project(x)
        least = linalg.eigh(stop_gradient(sym(transpose(x) @ x)))[1][..., :, :1]
        turned = nearest - 2.0 * (nearest @ least) @ transpose(least)
        return xp.where(linalg.det(nearest)[..., None, None] < 0.0, turned, nearest)
