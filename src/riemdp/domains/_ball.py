"""`Ball`: the public domain of the records, as a user writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import HERMITIAN, InvalidArgument, magnitude
from .._isolation import isolated
from .._trees import map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike, held
from ._domain import Domain
from ._door import admit_manifold, admit_records, stacks_in_one_array
from ._points import admit_point

if TYPE_CHECKING:
    from jaxtyping import Bool

    from .._namespace import Array


class Ball:
    """The geodesic ball of `radius` > 0 about `center`, both public: chosen without looking at the
    data.

    A ball is immutable. `ball.on(manifold)` binds it to a space, which checks it once.

    Args:
        center: A point of the manifold that the methods are given (a tuple of points on a
            `Product`). The ball keeps a read-only NumPy copy.
        radius: Finite and greater than 0. It must be smaller than the injectivity radius at the
            center, and must not be taken from the records: that would leak.

    Raises:
        InvalidArgument: The radius is not a number from 1e-100 to 1e100, or the center is complex.

    Examples:
        >>> import numpy as np
        >>> import riemdp
        >>> ball = riemdp.Ball(np.eye(2), 1.0)
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> far = np.diag([100.0, 1.0])
        >>> bool(ball.contains(space, far)), bool(ball.contains(space, ball.clamp(space, far)))
        (False, True)
    """

    __slots__ = ("_domains", "center", "radius")

    center: Any
    radius: float
    _domains: dict[AbstractManifold, Domain]

    def __init__(self, center: Point, radius: float):
        if isinstance(center, tuple | list) and center and all(hasattr(c, "shape") for c in center):
            own: Point = tuple(_real(c) for c in center)
        else:
            own = map_leaves(_real, center) if isinstance(center, tuple) else _real(center)
        size = magnitude("radius", radius)
        for name, value in (("center", own), ("radius", size), ("_domains", {})):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Ball is immutable: make a new one instead of setting `{name}`")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Ball is immutable: `{name}` cannot be deleted")

    def __reduce__(self) -> tuple[type[Ball], tuple[Point, float]]:
        return Ball, (self.center, self.radius)

    @isolated
    def on(self, manifold: AbstractManifold) -> Domain:
        """The ball bound to its space, checked once.

        Args:
            manifold: The space that `center` is a point of.

        Returns:
            The `Domain`. Its center is projected onto the space (it then holds to 1e-12).

        Raises:
            InvalidArgument: The center is not a point of the space, or the radius is not below the
                injectivity radius there.
            PrecisionError: JAX's 64 bits are switched off.
        """
        manifold = admit_manifold(manifold, None, "Ball.on(manifold), Ball.clamp(manifold, x)")
        domain = self._domains.get(manifold)
        if domain is None:
            domain = Domain(manifold, _center(manifold, self.center), self.radius)
            limit = float(np.asarray(manifold._injectivity_radius(domain.center)))
            if not self.radius < limit:
                raise InvalidArgument(
                    f"argument `ball.radius` = {self.radius:g} is not below the injectivity radius"
                    f" {limit:g} of {manifold!r} at the center: the ball would wrap around; choose"
                    " a smaller radius"
                )
            self._domains[manifold] = domain
        return domain

    @classmethod
    def _of(cls, domain: Domain) -> Ball:
        """The ball of a domain, which is bound to its space already."""
        ball = cls(domain.center, domain.radius)
        ball._domains[domain.manifold] = domain
        return ball

    def clamp(self, manifold: AbstractManifold, x: RecordsLike) -> Point:
        """Move each record radially into the ball: x -> exp_c(min(1, r/d(c, x)) log_c x).

        Args:
            manifold: The space of the records.
            x: (*batch, *manifold.shape), one record for each batch index, or a list of records.
                Records inside are returned as they are. A record that is not finite, does not
                belong to the manifold (relative error above 1e-6) or lies at the cut locus of the
                center goes to the center, silently: which records those are is private. In a list,
                so does a record of the wrong shape or type. On Bures-Wasserstein space a positive
                definite record at any distance moves along its geodesic. If rounding prevents us
                from verifying that the result is a point in the ball, the center is returned.

        Returns:
            An array like `x` (float64), every record within `radius` of the center. Each output
            depends on its own record only.
        """
        domain = self.on(manifold)
        if isinstance(x, list) and stacks_in_one_array(manifold):
            return domain.clamp(admit_records(manifold, "x", x, at_least=0)[0])
        return domain.clamp(manifold._coerce("x", x))

    def contains(self, manifold: AbstractManifold, x: RecordsLike) -> Bool[Array, "*batch"]:
        """Whether each record belongs to the manifold and lies within `radius` of the center."""
        return self.on(manifold).contains(manifold._coerce("x", x))

    def __repr__(self) -> str:
        return f"Ball(center of shape {map_leaves(np.shape, self.center)}, radius={self.radius:g})"


def _real(center: Any) -> np.ndarray:
    """A public array as float64."""
    kind = center.dtype if hasattr(center, "dtype") else np.asarray(center).dtype
    if np.dtype(kind).kind == "c":
        raise InvalidArgument(f"argument `center` holds complex numbers; {HERMITIAN}")
    return held(np.asarray(center, dtype=np.float64))  # a copy: what was given may change


def _center(manifold: AbstractManifold, center: Point) -> Point:
    return admit_point(manifold, "ball.center", center)
