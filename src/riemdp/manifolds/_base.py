"""The interface of a manifold: what every space offers, and how its calls are checked and batched.

Public operations (`exp`, `log`, ...) are final and live here. They convert input to float64 arrays,
check trailing shapes, and run the space's own private formula (`_exp`, `_log`, ...): as it is on
NumPy arrays, as one compiled program on JAX arrays. A space therefore implements only underscored
formulas, for whatever array they are given, written for leading batch axes that broadcast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import numpy as np

from .._errors import real
from .._namespace import is_jax, namespace
from .._trees import leaves
from ._arrays import coerce_array, draws_from, standard_normals
from ._numerics import root
from ._operation import drawn_normal, drawn_point, operation

if TYPE_CHECKING:
    from jaxtyping import ArrayLike, Bool, Float, PyTree
    from numpy.typing import ArrayLike as NumPyArrayLike

    from .._namespace import Array

    # Arrays (*batch, *shape), or the tuple of such that a `Product` takes.
    Point: TypeAlias = PyTree[Float[Array, "..."]]
    Tangent: TypeAlias = PyTree[Float[Array, "..."]]
    # Records as a user gives them: an array (n, *shape), or a sequence of any objects, read one by
    # one.
    RecordsLike: TypeAlias = NumPyArrayLike | Sequence[object]
else:
    Point = Tangent = RecordsLike = Any
EPS = 2.0**-52  # distance from 1 to the next float64


class AbstractManifold(ABC):
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
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Trailing shape of a point and of a tangent vector."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    def noise_size(self) -> int:
        """Number of independent standard normals that `tangent_from_normals` needs for one tangent
        vector: `dim`, unless a space says otherwise.
        """
        return self.dim

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
        """Whether isometries act transitively. The normalising constant of a Riemannian Laplace law
        is then the same at every centre. False, the safe answer, unless a space says otherwise.
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

    # The same four from `_prepared(p)`: what they need of a base point that stays, worked out once.
    def _prepared(self, p: Point) -> Any:
        return p

    def _to_coordinates_from(self, at: Any, v: Tangent) -> Float[Array, "*batch dim"]:
        return self._to_coordinates(at, v)

    def _from_coordinates_from(self, at: Any, c: Float[Array, "*batch dim"]) -> Tangent:
        return self._from_coordinates(at, c)

    def _log_coordinates_from(self, at: Any, q: Point) -> Float[Array, "*batch dim"]:
        return self._log_coordinates(at, q)

    def _exp_coordinates_from(self, at: Any, c: Float[Array, "*batch dim"]) -> Point:
        return self._exp_coordinates(at, c)

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
        z = standard_normals(rng, (*shape, self.noise_size))
        return self._exp(self.origin, self._tangent_from_normals(self.origin, z))

    def _tangent_from_normals(self, p: Point, z: Float[Array, "*batch noise"]) -> Tangent:
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
        """The radius below which a ball about `center` is convex and holds the one Frechet mean of
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

    # ---------------------------------------------------------------- input conversion (Product
    # replaces it by its own)
    def _coerce(self, name: str, x: Point) -> Any:
        """Turn array-like input into a float64 array and check its trailing shape."""
        return coerce_array(name, x, self.shape, self)

    # ---------------------------------------------------------------- public operations, final
    def exp(self, p: Point, v: Tangent) -> Point:
        """Exponential map: the end at time 1 of the geodesic that leaves `p` with velocity `v`."""
        return operation(self, "_exp", self._coerce("p", p), self._coerce("v", v))

    def log(self, p: Point, q: Point) -> Tangent:
        """Logarithm: the velocity at `p` of the minimising geodesic that reaches `q` at time 1. It
        is the inverse of `exp` inside the cut locus.
        """
        return operation(self, "_log", self._coerce("p", p), self._coerce("q", q))

    def dist(self, p: Point, q: Point) -> Float[Array, "*batch"]:
        """Geodesic distance, shape (*batch,); exactly 0 for equal arguments."""
        return operation(self, "_dist", self._coerce("p", p), self._coerce("q", q))

    def squared_dist(self, p: Point, q: Point) -> Float[Array, "*batch"]:
        """Squared geodesic distance, shape (*batch,). Unlike `dist` it is differentiable at
        p = q.
        """
        return operation(self, "_squared_dist", self._coerce("p", p), self._coerce("q", q))

    def inner(self, p: Point, u: Tangent, v: Tangent) -> Float[Array, "*batch"]:
        """Riemannian inner product of `u` and `v` at `p`, shape (*batch,)."""
        return operation(
            self, "_inner", self._coerce("p", p), self._coerce("u", u), self._coerce("v", v)
        )

    def norm(self, p: Point, v: Tangent) -> Float[Array, "*batch"]:
        """Riemannian norm of `v` at `p`, shape (*batch,). Its gradient at v = 0 is 0, never NaN."""
        return operation(self, "_norm", self._coerce("p", p), self._coerce("v", v))

    def transport(self, p: Point, q: Point, v: Tangent) -> Tangent:
        """Carry `v` from `p` to `q` by a linear isometry that is continuous in both points.

        It is parallel transport along the minimising geodesic where that has a closed form
        (`transport_is_parallel`), otherwise the isometry that the space documents.
        """
        return operation(
            self, "_transport", self._coerce("p", p), self._coerce("q", q), self._coerce("v", v)
        )

    def retract(self, p: Point, v: Tangent) -> Point:
        """A cheaper approximation of `exp`, equal to it to first order in `v`; `exp` itself where
        nothing cheaper is safe.
        """
        return operation(self, "_retract", self._coerce("p", p), self._coerce("v", v))

    def project(self, x: Point) -> Point:
        """Carry an ambient array of trailing shape `shape` to the manifold, to the nearest point
        where that is well defined.
        """
        return operation(self, "_project", self._coerce("x", x))

    def to_tangent(self, p: Point, x: Tangent) -> Tangent:
        """Project an ambient array of trailing shape `shape` to the tangent space at `p`,
        orthogonally in the ambient product of the space.
        """
        return operation(self, "_to_tangent", self._coerce("p", p), self._coerce("x", x))

    def egrad_to_rgrad(self, p: Point, g: Tangent) -> Tangent:
        """Riemannian gradient at `p` from the array `g` of partial derivatives, which has the shape
        of `p`.
        """
        return operation(self, "_egrad_to_rgrad", self._coerce("p", p), self._coerce("g", g))

    def belongs(self, x: Point, atol: float = 1e-8) -> Bool[Array, "*batch"]:
        """Whether each `x` is finite and satisfies the equations of the manifold.

        Args:
            x: Ambient arrays (*batch, *shape).
            atol: Largest error of the equations that is accepted, relative to the size of `x`; at
                least 0.

        Returns:
            Booleans of shape (*batch,).
        """
        return operation(self, "_belongs", self._coerce("x", x), real("atol", atol, at_least=0.0))

    def is_tangent(self, p: Point, v: Tangent, atol: float = 1e-8) -> Bool[Array, "*batch"]:
        """Whether each `v` is finite and tangent at `p`.

        Args:
            p: Points (*batch, *shape).
            v: Ambient arrays (*batch, *shape).
            atol: Largest error of the equations that is accepted, relative to the size of `v`; at
                least 0.

        Returns:
            Booleans of shape (*batch,).
        """
        return operation(
            self,
            "_is_tangent",
            self._coerce("p", p),
            self._coerce("v", v),
            real("atol", atol, at_least=0.0),
        )

    def random_point(self, rng: Any, shape: tuple[int, ...] = ()) -> Point:
        """Random points for tests and simulation: uniform on compact spaces, spread about the
        origin elsewhere.

        Args:
            rng: A `numpy.random.Generator` or a whole number, its seed, for NumPy arrays; a key of
                JAX, `jax.random.key(0)`, for JAX arrays.
            shape: The batch axes of the result.

        Returns:
            Points (*shape, *manifold.shape).
        """
        return drawn_point(self, draws_from("rng", rng), tuple(shape))

    def tangent_normal(
        self, rng: Any, p: Point, sigma: float = 1.0, shape: tuple[int, ...] = ()
    ) -> Tangent:
        """Isotropic Gaussian tangent vectors at `p`, for simulation: E|v|_p^2 = dim * sigma^2.

        A release draws from the operating system instead (see `riemdp.randomness`).

        Args:
            rng: A `numpy.random.Generator`, a whole number, its seed, or a key of JAX.
            p: Points (*batch, *manifold.shape).
            sigma: Standard deviation of each orthonormal coordinate, at least 0.
            shape: Axes that are put before the batch axes of `p`.

        Returns:
            Tangent vectors (*shape, *batch, *manifold.shape).
        """
        base = self._coerce("p", p)
        sigma = real("sigma", sigma, at_least=0.0)
        return drawn_normal(self, draws_from("rng", rng), base, sigma, tuple(shape))

    def tangent_from_normals(self, p: Point, z: Float[ArrayLike, "*batch noise"]) -> Tangent:
        """The isotropic unit Gaussian tangent vector at `p` that iid standard normals make.

        It is linear in `z`. `tangent_normal` and the wrapped noise of the mechanisms use this one
        formula.

        Args:
            p: Points (*batch, *shape).
            z: Standard normals (*batch, noise_size).

        Returns:
            Tangent vectors (*batch, *shape).
        """
        z = coerce_array("z", z, (self.noise_size,), self, " (noise_size)")
        return operation(self, "_tangent_from_normals", self._coerce("p", p), z)

    def to_coordinates(self, p: Point, v: Tangent) -> Float[Array, "*batch dim"]:
        """Coordinates (*batch, dim) of `v` in an orthonormal frame at `p`. Their Euclidean norm is
        norm(p, v).
        """
        return operation(self, "_to_coordinates", self._coerce("p", p), self._coerce("v", v))

    def from_coordinates(self, p: Point, c: Float[ArrayLike, "*batch dim"]) -> Tangent:
        """The tangent vector at `p` with coordinates `c` (*batch, dim): the inverse of
        `to_coordinates`, with the same frame.
        """
        c = coerce_array("c", c, (self.dim,), self, " (dim)")
        return operation(self, "_from_coordinates", self._coerce("p", p), c)

    def injectivity_radius(self, p: Point) -> Float[Array, "*batch"]:
        """Radius of the ball of tangent vectors at `p` on which exp is a diffeomorphism, shape
        (*batch,); infinite on Hadamard spaces.
        """
        return operation(self, "_injectivity_radius", self._coerce("p", p))

    def log_volume_density(self, p: Point, v: Tangent) -> Float[Array, "*batch"]:
        """log |det D exp_p(v)| between orthonormal frames, shape (*batch,): the log Jacobian of
        exp.
        """
        return operation(self, "_log_volume_density", self._coerce("p", p), self._coerce("v", v))

    # ---------------------------------------------------------------- helpers for subclasses
    def _batch_shape(self, p: Point) -> tuple[int, ...]:
        """Leading (batch) axes of an already coerced point."""
        return p.shape[: p.ndim - len(self.shape)]

    @property
    def _axes(self) -> tuple[int, ...]:
        """The trailing axes of a point."""
        return tuple(range(-len(self.shape), 0))

    def _unavailable(self, operation: str, instead: str) -> NotImplementedError:
        return NotImplementedError(f"{self!r} has no closed form for `{operation}`; {instead}")


class HomogeneousHadamard(AbstractManifold):
    """A homogeneous Hadamard manifold whose parallel transport has a closed form."""

    @property
    def is_hadamard(self) -> bool:
        return True

    @property
    def is_homogeneous(self) -> bool:
        return True

    @property
    def transport_is_parallel(self) -> bool:
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
