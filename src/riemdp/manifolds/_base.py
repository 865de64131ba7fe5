"""The interface of a manifold: what every space offers, and how its calls are checked and batched.

Public operations (`exp`, `log`, ...) are final (`_operation`). A space implements only underscored
formulas, for whatever array they are given, written for leading batch axes that broadcast.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from .._namespace import is_jax, namespace
from .._trees import all_finite, leaves, map_leaves
from ._arrays import standard_normals
from ._numerics import root
from ._operation import Operations, Point, Tangent
from ._operation import RecordsLike as RecordsLike

if TYPE_CHECKING:
    from jaxtyping import ArrayLike, Bool, Float

    from .._namespace import Array, Floats

EPS = 2.0**-52  # distance from 1 to the next float64


class AbstractManifold(Operations):
    """A Riemannian manifold whose points are float64 arrays with trailing axes `shape`.

    Every operation takes the base point first. Points `p`, `q` and tangent vectors `u`, `v` have
    shape (*batch, *shape), batch axes broadcast, and results are float64 arrays of the library that
    was given: NumPy's for NumPy arrays, lists and numbers, JAX's where an argument is a JAX array.
    On a `Product` they are tuples with one entry a factor.

    To add a space, subclass `AbstractManifold`, as a frozen dataclass with hashable fields if it
    has any, and give `shape`, `dim`, `origin`, `curvature_bounds`, `is_hadamard` and eight
    formulas: `_exp`, `_log`, `_inner`, `_project`, `_to_tangent`, `_to_coordinates`,
    `_from_coordinates`, `_injectivity_radius`. All others follow from these and may be replaced by
    closed forms. `riemdp.manifolds.check(manifold)` then runs the property tests on it.

    Raises:
        InvalidArgument: Every operation raises it for an argument that is no array of real numbers
            or has another trailing shape.
        NotImplementedError: An operation has no closed form on the space. The message says what to
            use instead.

    Examples:
        >>> import riemdp
        >>> space = riemdp.Sphere(3)
        >>> space.shape, space.dim, space.curvature_bounds
        ((3,), 2, (1.0, 1.0))
        >>> p, q = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
        >>> round(float(space.dist(p, q)), 4)
        1.5708
    """

    # What a dataclass has; a subclass need not be one.
    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    # ---------------------------------------------------------------- facts about the space
    @property
    def noise_size(self) -> int:
        """Number of independent standard normals that `tangent_from_normals` needs for one tangent
        vector: `dim`, or one for each entry of its array.
        """
        return math.prod(self.shape) if self._is_submanifold else self.dim

    @property
    @abstractmethod
    def origin(self) -> Point:
        """A canonical point of the space, shape `shape`. It depends on no data."""

    @property
    @abstractmethod
    def curvature_bounds(self) -> tuple[float, float]:
        """(smallest, largest) sectional curvature over the whole manifold; infinite where it is
        unbounded.
        """

    @property
    def _mean_curvature(self) -> float:
        """The mean of the sectional curvature over all planes, or about that: how soon a mean is
        found depends on it, and nothing else. Where none is known, the least that is not positive.
        """
        least, largest = (float(bound) for bound in self.curvature_bounds)
        return least if least == largest else min(0.0, least)

    @property
    @abstractmethod
    def is_hadamard(self) -> bool:
        """Whether the space is complete, simply connected and of non-positive curvature."""

    @property
    def _is_geodesic(self) -> bool:
        """Any two points are joined by one shortest geodesic, which `_log` finds also beyond the
        injectivity radius (beyond which other directions leave the space). False unless a space
        says otherwise.
        """
        return False

    @property
    def is_homogeneous(self) -> bool:
        """Whether isometries act transitively. The normalising constant of a Riemannian Laplace
        distribution is then the same at every centre. False, the safe answer, unless a space says
        otherwise.
        """
        return False

    @property
    def transport_is_parallel(self) -> bool:
        """Whether `transport` is parallel transport along the minimising geodesic. False, the safe
        answer, unless a space says otherwise.
        """
        return False

    # ---------------------------------------------------------------- formulas each space gives
    # (batch axes broadcast)
    @abstractmethod
    def _exp(self, p: Point, v: Tangent) -> Point:
        """The end of the geodesic from p with velocity v."""

    @abstractmethod
    def _log(self, p: Point, q: Point) -> Tangent:
        """The shortest velocity that leads from p to q; exactly 0 for q = p."""

    @abstractmethod
    def _inner(self, p: Point, u: Tangent, v: Tangent) -> Float[Array, "*batch"]:
        """The metric at p."""

    @abstractmethod
    def _project(self, x: Point) -> Point:
        """The point that an array near the space stands for; a point stands for itself."""

    @abstractmethod
    def _to_tangent(self, p: Point, x: Tangent) -> Tangent:
        """The tangent part at p of an array; a tangent vector stays as it is."""

    @abstractmethod
    def _to_coordinates(self, p: Point, v: Tangent) -> Float[Array, "*batch dim"]:
        """Coordinates in a frame that is orthonormal in the metric at p and depends on p alone."""

    @abstractmethod
    def _from_coordinates(self, p: Point, c: Float[Array, "*batch dim"]) -> Tangent:
        """Inverse of `_to_coordinates`."""

    @abstractmethod
    def _injectivity_radius(self, p: Point) -> Float[Array, "*batch"]:
        """Below this length `_log` inverts `_exp`. Sensitivities rest on it."""

    # ---------------------------------------------------------------- what follows from these
    def _log_coordinates(self, p: Point, q: Point) -> Float[Array, "*batch dim"]:
        """Coordinates of log_p(q)."""
        return self._to_coordinates(p, self._log(p, q))

    def _log_coordinates_from_afar(self, p: Point, q: Point) -> Float[Array, "*batch dim"]:
        """The same, by a slower formula if one is needed where p lies so far out that tangent
        vectors there lose the digits of their length.
        """
        return self._log_coordinates(p, q)

    def _exp_coordinates(self, p: Point, c: Float[Array, "*batch dim"]) -> Point:
        """Inverse of `_log_coordinates`."""
        return self._exp(p, self._from_coordinates(p, c))

    def _log_sum(self, p: Point, q: Point, added: Callable[[Any], Any]) -> tuple[Floats, Any]:
        """The sum of the logarithms of n records at p, in coordinates (dim,), and that of the
        squared distances; NumPy. `added` is a weighted sum over the rows of a tree of arrays.

        A space that adds before it finishes does once what is linear in a logarithm. Which formula
        it takes must not depend on a record, nor what one record adds on the others.
        """
        logs = np.asarray(self._log_coordinates(p, q))
        return added((logs, np.vecdot(logs, logs)))

    def _radially(self, p: Point, q: Point) -> tuple[Array, Callable[[Array], Point]]:
        """(distances, at): the distance of each q from the one p, not finite where its logarithm is
        not, and at(shares), the points at these shares of the way to them.
        """
        v = self._log(p, q)
        distance = self._norm(p, v)
        distance = namespace(distance).where(all_finite(v, distance.ndim), distance, math.inf)

        def at(share: Array) -> Point:
            def shorter(leaf: Array) -> Array:
                return share.reshape(share.shape + (1,) * (leaf.ndim - share.ndim)) * leaf

            return self._exp(p, map_leaves(shorter, v))

        return distance, at

    def _squared_dist(self, p: Point, q: Point) -> Float[Array, "*batch"]:
        v = self._log(p, q)
        return self._inner(p, v, v)

    def _dist(self, p: Point, q: Point) -> Float[Array, "*batch"]:
        return root(self._squared_dist(p, q))

    def _norm(self, p: Point, v: Tangent) -> Float[Array, "*batch"]:
        return root(self._inner(p, v, v))

    def _transport(self, p: Point, q: Point, v: Tangent) -> Tangent:
        """An isometry only where all tangent spaces are one; give another one elsewhere."""
        return self._to_tangent(q, v)

    def _retract(self, p: Point, v: Tangent) -> Point:
        return self._exp(p, v)

    def _egrad_to_rgrad(self, p: Point, g: Tangent) -> Tangent:
        """The derivative along each vector of the orthonormal frame is its coordinate."""
        if self._is_submanifold:
            return self._to_tangent(p, g)
        xp = namespace(p, g)
        p, g = xp.broadcast_arrays(p, g)
        if is_jax(p):
            from ._derivatives_on_jax import gradient

            return gradient(self, p, g)
        along = [
            xp.sum(self._from_coordinates(p, unit) * g, axis=self._axes)
            for unit in xp.eye(self.dim)
        ]
        return self._from_coordinates(p, xp.stack(along, axis=-1))

    def _defect(self, x: Point) -> Float[Array, "*batch"]:
        """By how much each array misses the equations of the space, relative to its size; infinite
        or NaN for what is no point whatever the tolerance, as what is not finite.
        """
        return self._gap(x, self._project(x))

    @final
    def _belongs(self, x: Point, atol: float) -> Bool[Array, "*batch"]:
        return self._defect(x) <= atol  # False for NaN

    def _is_tangent(self, p: Point, v: Tangent, atol: float) -> Bool[Array, "*batch"]:
        return self._gap(v, self._to_tangent(p, v)) <= atol

    def _gap(self, x: Array, y: Array) -> Float[Array, "*batch"]:
        xp = namespace(x, y)
        x, y = xp.broadcast_arrays(x, y)
        size = xp.maximum(1.0, xp.max(xp.abs(x), axis=self._axes))
        error = xp.max(xp.abs(x - y), axis=self._axes)
        return error / size

    def _random_point(self, rng: Any, shape: tuple[int, ...]) -> Point:
        """By `standard_normals` of a generator or key."""
        if self._is_submanifold:
            return self._project(standard_normals(rng, (*shape, *self.shape)))
        z = standard_normals(rng, (*shape, self.noise_size))
        return self._exp(self.origin, self._tangent_from_normals(self.origin, z))

    def _tangent_from_normals(self, p: Point, z: Float[Array, "*batch noise"]) -> Tangent:
        """The orthogonal projection of isotropic noise is exactly isotropic on the tangent space of
        a submanifold, at every p.
        """
        if self._is_submanifold:
            return self._to_tangent(p, z.reshape(*z.shape[:-1], *self.shape))
        return self._from_coordinates(p, z)

    def _log_volume_density(self, p: Point, v: Tangent) -> Float[Array, "*batch"]:
        """By derivatives of `_exp`, which JAX takes, of whatever arrays."""
        from ._derivatives_on_jax import log_volume_density

        return log_volume_density(self, p, v)

    # ---------------------------------------------------------------- formulas with a default
    def _repair(self, x: Point) -> Point:
        """A point that satisfies the equations up to rounding, carried onto the manifold."""
        return self._project(x)

    def _curvature_in_ball(self, center: Point, radius: float) -> float:
        """Upper bound of the sectional curvature that geodesics between points of the ball meet;
        infinite where none is known.
        """
        return float(self.curvature_bounds[1])

    def _convexity_limit(self, center: Point) -> float:
        """The radius below which a ball about `center` is convex and holds the one Fréchet mean of
        its points; 0 where none is known.
        """
        if self.is_hadamard:
            return math.inf
        kappa = self._curvature_in_ball(center, 0.0)
        convex = math.inf if kappa <= 0 else math.pi / (2 * math.sqrt(kappa))
        return min(float(np.min(self._injectivity_radius(center))), convex) / 2

    def _ambient_diameter(self, center: Point, radius: float) -> float:
        """Bound of the Frobenius distance of two points of the ball, where arrays add up."""
        raise NotImplementedError(
            f"{self!r} has no ambient mean: its representatives do not add up; use an intrinsic"
            " mechanism"
        )

    def _ambient_reach(self, center: Point, radius: float) -> float:
        """Bound of the Frobenius distance of a point of the ball from its center."""
        return self._ambient_diameter(center, radius) / 2

    @property
    def _scales(self) -> int:
        """Number of public scale factors of a point (`_log_scales`)."""
        return 0

    def _log_scales(self, x: Point) -> Float[Array, "*batch scales"]:
        """The logarithms of the scale factors of points, each a function of one point."""
        return namespace(x).zeros((*self._batch_shape(x), 0))

    def _rescaled(self, p: Point, scales: Float[ArrayLike, " scales"]) -> Point:
        """The point with these logarithms of its scale factors, otherwise like `p`."""
        return p

    @property
    def _is_flat(self) -> bool:
        """Whether the space is isometric to a Euclidean one."""
        return self.is_hadamard and tuple(self.curvature_bounds) == (0.0, 0.0)

    def _search_radius(self, p: Point) -> float:
        """The radius about p within which records are searched for unless a user says otherwise;
        infinite where the space has no unit of its own.
        """
        if self.is_hadamard and not self._is_flat:
            return 30.0
        return float(np.min(self._injectivity_radius(p)))

    # Distances that float64 holds: from the origin, and as the radius of a ball of which it decides
    # whether a point lies inside.
    _farthest: ClassVar[float] = math.inf
    _widest_ball: ClassVar[float] = math.inf
    # When rounding has to be taken out of a moved point: after "each step", after "each block" of
    # many steps, or "never".
    _repaired: ClassVar[str] = "never"
    # Whether a tangent vector is as long as its array, and its noise projected noise of the array.
    _is_submanifold: ClassVar[bool] = False

    @property
    def transport_is_nonexpansive(self) -> bool:
        """Whether `transport` lengthens no vector. A space whose transport is not parallel says so
        itself.
        """
        return self.transport_is_parallel

    def _mean_start(self, mean: Point) -> Point | None:
        """Where the search for a mean starts, from the arithmetic mean of the arrays, if that is a
        point; else at the heaviest record.
        """
        return None

    def _why_not(self, record: np.ndarray) -> str:
        """Why a finite record is no point of the space: words without its values."""
        return "is not a point of the space"

    @property
    def _moves_to_origin(self) -> bool:
        """Whether `_to_origin` is an isometry that carries p to `origin`. The default formulas are
        one where orthonormal frames are carried to each other by isometries.
        """
        return False

    def _to_origin(self, p: Point, x: Point) -> Point:
        o = self.origin
        return self._exp_coordinates(o, self._log_coordinates(p, x))

    def _from_origin(self, p: Point, x: Point) -> Point:
        """Inverse of `_to_origin`."""
        o = self.origin
        return self._exp_coordinates(p, self._log_coordinates(o, x))

    def _resolution(self, center: Point, radius: float) -> float:
        """Bound of the rounding errors in the ball: of a residual |mean logarithm| anywhere in it,
        and of the logarithm at the center of a mean.

        The default covers errors that grow like the coordinates and like e^(sqrt(-kappa) r), with
        a factor of about 10 to spare; a space with worse coordinates gives its own.
        """
        entries = [np.asarray(leaf) for leaf in leaves(center)]
        size = 1.0 + max(float(np.max(np.abs(leaf), initial=0.0)) for leaf in entries)
        count = sum(leaf.size for leaf in entries)
        growth = math.sqrt(max(0.0, -self.curvature_bounds[0])) * radius
        spread = math.exp(growth) if growth < 700 else math.inf
        return EPS * math.sqrt(count) * size * (8.0 * (1.0 + radius) + 4.0 * spread)

    # ---------------------------------------------------------------- helpers for subclasses
    @property
    def _axes(self) -> tuple[int, ...]:
        """The trailing axes of a point."""
        return tuple(range(-len(self.shape), 0))

    def _unavailable(self, operation: str, instead: str) -> NotImplementedError:
        return NotImplementedError(f"{self!r} has no closed form for `{operation}`; {instead}")


class Homogeneous(AbstractManifold):
    """A homogeneous manifold whose parallel transport has a closed form."""

    @property
    def is_homogeneous(self) -> bool:
        return True

    @property
    def transport_is_parallel(self) -> bool:
        return True


class HomogeneousHadamard(Homogeneous):
    """A homogeneous Hadamard manifold whose parallel transport has a closed form."""

    @property
    def is_hadamard(self) -> bool:
        return True

    def _injectivity_radius(self, p: Point) -> Float[Array, "*batch"]:
        return namespace(p).full(self._batch_shape(p), math.inf)


def set_field(manifold: AbstractManifold, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it is made."""
    object.__setattr__(manifold, name, value)


def held(value: Any) -> Any:
    """What a result keeps and shows of a value: each array, also in a tuple, as a read-only NumPy
    array of its own. Anything else stays as it is.
    """
    if isinstance(value, tuple):
        return tuple(held(part) for part in value)
    if not isinstance(value, np.ndarray) and not is_jax(value):
        return value
    array = np.array(value)
    array.setflags(write=False)
    return array
