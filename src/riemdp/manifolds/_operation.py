"""The public operations of a space: they convert input to float64 arrays, check trailing shapes,
and run the space's own private formula: on NumPy as it is, without warnings; on JAX compiled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._errors import real
from .._namespace import is_jax, is_traced
from .._programs import compiled
from .._trees import leaves, map_leaves
from ._arrays import coerce_array, draws_from, standard_normals

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


@compiled(0, 1)
def _named(manifold: Any, name: str, *arguments: Any) -> Any:
    return getattr(manifold, name)(*arguments)


def operation(manifold: Any, name: str, *arguments: Any) -> Any:
    """What the method of this name gives: at once, in arrays of their own, where no argument is a
    JAX array, else by one compiled program for each manifold, name and shape.
    """
    with np.errstate(all="ignore"):
        result = _named(manifold, name, *arguments)
    if any(is_jax(x) for x in leaves(arguments)):
        return result
    return map_leaves(lambda x: _own(x, arguments), result)


def _own(x: Any, arguments: tuple[Any, ...]) -> Any:
    """A result for NumPy arrays: no view, and none of the arguments; without axes a number, as
    NumPy's own. JAX's become NumPy's, where a formula knows no other arrays.
    """
    if is_jax(x) and not is_traced(x):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        return x
    if x.base is not None or any(x is one for one in leaves(arguments)):
        x = np.array(x)
    return x if x.ndim else x[()]


@compiled(0, 2)
def _point(manifold: Any, rng: Any, shape: tuple[int, ...]) -> Any:
    return manifold._random_point(rng, shape)


class Operations(ABC):
    """What every space offers, by the private formulas of its own."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Trailing shape of a point and of a tangent vector."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the manifold."""

    @property
    @abstractmethod
    def noise_size(self) -> int:
        """Number of independent standard normals that `tangent_from_normals` needs for one tangent
        vector.
        """

    def _batch_shape(self, p: Point) -> tuple[int, ...]:
        """Leading (batch) axes of an already coerced point."""
        return p.shape[: p.ndim - len(self.shape)]

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
        with np.errstate(all="ignore"):
            return _point(self, draws_from("rng", rng), tuple(shape))

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
        batch = (*shape, *self._batch_shape(base), self.noise_size)
        z = standard_normals(draws_from("rng", rng), batch)
        return operation(self, "_tangent_from_normals", base, sigma * z)

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
