"""Admission of public points: each is checked, projected onto its space and then holds to 1e-12."""

from __future__ import annotations

import numpy as np

from .._errors import InvalidArgument
from .._isolation import isolated
from .._trees import map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point

LOOSE = 1e-6  # relative error up to which a public point is taken to be meant to lie on the space
EXACT = 1e-12  # relative error to which it lies there afterwards


@isolated
def admit_point(manifold: AbstractManifold, name: str, point: Point) -> Point:
    """A public or released point (start, base, centre, a server's x_t), carried onto its space.

    Args:
        manifold: The space.
        name: The argument's name, for the error.
        point: One point of the space, to a relative error of 1e-6.

    Returns:
        The point in float64; its equations hold to 1e-12.

    Raises:
        InvalidArgument: Not one finite point of the space.
        PrecisionError: JAX's 64 bits are switched off.
    """
    # a copy: what was given may change, and a formula may return its argument
    checked = map_leaves(np.array, manifold._coerce(name, point))
    if manifold._batch_shape(checked) != ():
        raise InvalidArgument(
            f"argument `{name}` has batch axes; give a single point of {manifold!r}"
        )
    if not np.asarray(manifold._belongs(checked, LOOSE)):
        raise InvalidArgument(
            f"argument `{name}` is not a point of {manifold!r}; `manifold.project` makes one of an"
            " ambient array"
        )
    repaired = map_leaves(np.asarray, manifold._repair(checked))
    if not np.asarray(manifold._belongs(repaired, EXACT)):
        raise InvalidArgument(
            f"argument `{name}` cannot be carried onto {manifold!r} to a relative error of"
            f" {EXACT:g}; float64 does not hold this point, choose one that is better conditioned"
        )
    return repaired
