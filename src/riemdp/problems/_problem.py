"""What an optimiser minimises: a loss of one record on a manifold, with its Riemannian gradient and
public constants.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._errors import InvalidArgument, integer, invalid, raise_interrupt, real
from ..domains import Ball
from ..manifolds._base import AbstractManifold, Point, Tangent

# One record, an array or a tuple of arrays; and records along a common leading axis.
Record: TypeAlias = PyTree[Float[Array, "..."]]
Batch: TypeAlias = PyTree[Float[Array, "n ..."]]


class Formula(abc.ABC):
    """A loss or a gradient of this package: tested, and finite wherever a record is a point."""

    @abc.abstractmethod
    def __call__(self, w: Any, z: Any) -> Any:
        """The loss of one record, or its Riemannian gradient."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise F(w) = (1/n) sum_i loss(w, z_i) over a manifold.

    No constant is trusted for privacy: gradients are clipped whatever is stated here. The constants
    decide how much bias the clipping has and how many steps the defaults take.

    Args:
        manifold: The space of w.
        loss: loss(w, z) -> scalar for ONE record z (an array, or a pytree of arrays).
        gradient: gradient(w, z), the *Riemannian* gradient of that loss at w; automatic
            differentiation when None.
        smoothness: A public Lipschitz constant of the gradient field, used by DP-RSVRG and for the
            default step size.
        convexity: A public lower bound on the Hessian of one record's loss, at most `smoothness`;
            may be negative. DP-RSVRG needs less noise the nearer the two are.
        lipschitz: A public bound on the norm of one record's gradient: the default clip norm.
        ball: A public domain to which every record is clamped under `sensitivity="domain"`.
        record_lipschitz: How much the gradient can move per unit of distance that a record moves
            inside the ball: 2 for d^2, because log is 1-Lipschitz on Hadamard spaces. None where
            `sensitivity="domain"` is not available.
        record_shape: The shape of one record where it is known (a tuple of shapes for a tuple
            record).
        condition: A public guess of the condition number, for the default number of steps.
        protects: What the guarantee is about, in words.
        example: One public record, made up, for which loss and gradient are finite. Before a budget
            is spent they are tried on it; without one on made-up records of the data's shape
            (normal, positive, points of the space), of which one has to work.

    Raises:
        InvalidArgument: An argument outside these ranges.

    Guarantee:
        None; a problem draws no noise.

    Examples:
        >>> import jax.numpy as jnp, riemdp
        >>> median = riemdp.Problem(
        ...     riemdp.Euclidean(2), lambda w, z: jnp.sqrt(1 + jnp.sum((w - z) ** 2)), lipschitz=1.0
        ... )
        >>> median.protects
        'the whole record'
    """

    manifold: AbstractManifold
    loss: Callable[[Point, Record], Array]
    gradient: Callable[[Point, Record], Tangent] | None = field(default=None, kw_only=True)
    smoothness: float | None = field(default=None, kw_only=True)
    convexity: float | None = field(default=None, kw_only=True)
    lipschitz: float | None = field(default=None, kw_only=True)
    ball: Ball | None = field(default=None, kw_only=True)
    record_lipschitz: float | None = field(default=None, kw_only=True)
    record_shape: Any = field(default=None, kw_only=True)
    condition: float = field(default=10.0, kw_only=True)
    protects: str = field(default="the whole record", kw_only=True)
    example: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, AbstractManifold):
            raise invalid(
                "manifold", self.manifold, "give a riemdp manifold, for example riemdp.Sphere(10)"
            )
        if not callable(self.loss):
            raise invalid(
                "loss",
                self.loss,
                "give a function loss(w, z) that returns a scalar for one record z",
            )
        if self.gradient is not None and not callable(self.gradient):
            raise invalid(
                "gradient",
                self.gradient,
                "give a function gradient(w, z), or None for automatic differentiation",
            )
        for name in ("smoothness", "lipschitz", "record_lipschitz"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(name, getattr(self, name), above=0.0))
        if self.convexity is not None:
            object.__setattr__(self, "convexity", real("convexity", self.convexity))
            if self.smoothness is None or self.convexity > self.smoothness:
                raise invalid(
                    "convexity",
                    self.convexity,
                    f"give smoothness too ({self.smoothness}), and not less than this",
                )
        object.__setattr__(self, "condition", real("condition", self.condition, at_least=1.0))

    def riemannian_gradient(self, w: Point, z: Record) -> Tangent:
        """Riemannian gradient of the loss of one record (closed form where there is one). No
        clipping, no noise.
        """
        if self.gradient is not None:
            return self.gradient(w, z)
        return AutomaticGradient(self.manifold, self.loss)(w, z)

    def objective(self, w: Point, data: Batch) -> float:
        """F(w) over all records, in double precision. Reads the data without noise: NOT private."""
        leaves = jax.tree.leaves(data)
        if not leaves or np.shape(leaves[0])[:1] == (0,):
            raise InvalidArgument("argument `data` holds no records; give at least one")
        total = _objective_chunks(self.loss, w, jax.tree.map(jnp.asarray, data), _chunk(leaves))
        return float(total) / leaves[0].shape[0]


@dataclass(frozen=True)
class AutomaticGradient:
    """Riemannian gradient of a user's loss by reverse-mode differentiation; hashable, so that it
    compiles once.
    """

    manifold: AbstractManifold
    loss: Callable[[Point, Any], Any]

    def __call__(self, w: Point, z: Record) -> Tangent:
        def scalar(x):
            return jnp.asarray(self.loss(x, z), dtype=jnp.float64)

        return self.manifold._egrad_to_rgrad(w, jax.grad(scalar)(w))


def _chunk(leaves: list[Any], entries: int = 1 << 21) -> int:
    """Records handled at once so that one pass over them stays within `entries` numbers of each
    kind.
    """
    n = leaves[0].shape[0]
    width = max(1, sum(int(np.prod(leaf.shape[1:])) for leaf in leaves))
    return int(max(1, min(n, entries // width)))


@functools.partial(jax.jit, static_argnames=("loss", "chunk"))
def _objective_chunks(loss, w, data, chunk: int):
    n = jax.tree.leaves(data)[0].shape[0]

    def body(i, total):
        start = jnp.minimum(i * chunk, n - chunk)
        part = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), data)
        fresh = start + jnp.arange(chunk) >= i * chunk  # the last chunk overlaps the one before it
        return total + jnp.sum(jnp.where(fresh, jax.vmap(loss, (None, 0))(w, part), 0.0))

    return jax.lax.fori_loop(0, -(-n // chunk), body, 0.0)


def _one_record(z: Record) -> Any:
    """One record as arrays of float64, each with an entry."""
    remedy = "give ONE record: real numbers, at least one, in arrays as the loss takes them"
    try:
        admitted = jax.tree.map(lambda x: jnp.asarray(x, dtype=jnp.float64), z)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"argument `z` is no record; {remedy}") from error
    leaves = jax.tree.leaves(admitted)
    if not leaves or any(leaf.size == 0 for leaf in leaves):
        raise InvalidArgument(f"argument `z` is empty; {remedy}")
    return admitted


def check_gradient(
    problem: Problem,
    w: Point,
    z: Record,
    *,
    directions: int = 5,
    step: float = 1e-4,
    tol: float = 1e-5,
    key: PRNGKeyArray | None = None,
) -> float:
    """Compare the gradient of a problem with central finite differences of its loss along
    geodesics.

    Do not use it where the loss is not differentiable (at the cut locus of a record).

    Args:
        problem: Whose gradient is checked.
        w: A point.
        z: ONE record, public or synthetic: the error found is not private.
        directions: How many random unit tangent directions u.
        step: t of the finite differences.
        tol: The largest difference that is accepted.
        key: A JAX key for the directions.

    Returns:
        The largest |<grad, u> - d/dt loss(exp(w, t u))|, relative to max(1, |grad|).

    Raises:
        InvalidArgument: Naming `z` if it is no record or empty, `loss` if it is not a finite
            scalar, `gradient` if it has the wrong shape, is not finite, not tangent, or differs by
            more than `tol`.
    """
    m = problem.manifold
    tol = real("tol", tol, above=0.0)
    step = real("step", step, above=0.0)
    w = m._coerce("w", w)
    z = _one_record(z)
    directions = integer("directions", directions)
    if not bool(m.belongs(w)):
        raise invalid("w", w, f"give a point of {m!r}")
    check_loss_shape(problem, w, z)
    both = jax.jit(lambda w, z: (problem.loss(w, z), problem.riemannian_gradient(w, z)))
    value, gradient = jax.device_get(both(w, z))
    if not np.isfinite(float(value)):
        raise InvalidArgument(
            "argument `loss` returns a value that is not finite at (w, z); it must return a finite"
            " scalar"
        )
    if jax.tree.map(jnp.shape, gradient) != jax.tree.map(jnp.shape, w):
        raise InvalidArgument(
            "argument `gradient` returns another shape than the point; give the Riemannian gradient"
            " at w"
        )
    if not all(np.all(np.isfinite(g)) for g in jax.tree.leaves(gradient)):
        raise InvalidArgument("argument `gradient` is not finite at (w, z)")
    if not bool(m.is_tangent(w, gradient, 1e-6)):
        raise InvalidArgument(
            "argument `gradient` is not tangent at w; project it with manifold.to_tangent or"
            " egrad_to_rgrad"
        )
    key = jax.random.key(0) if key is None else key
    normals = jax.random.normal(key, (directions, m.noise_size), dtype=jnp.float64)
    worst = float(_worst_difference(m, problem.loss, w, z, gradient, normals, step))
    if not worst <= tol:
        raise InvalidArgument(
            f"argument `gradient` differs from finite differences of `loss` by {worst:.3g}"
            f" (relative; tolerance {tol:g}): give the Riemannian gradient (not the array of"
            " partial derivatives), or leave it out"
        )
    return worst


@functools.partial(jax.jit, static_argnames=("m", "loss"))
def _worst_difference(
    m: AbstractManifold,
    loss: Callable[[Point, Record], Array],
    w: Point,
    z: Record,
    gradient: Tangent,
    normals: Array,
    step: float | Array,
) -> Any:
    def difference(normal):
        u = m._tangent_from_normals(w, normal)
        length = m._norm(w, u)
        u = jax.tree.map(lambda x: x / length, u)
        ends = jax.vmap(lambda t: loss(m._exp(w, jax.tree.map(lambda x: t * x, u)), z))(
            jnp.array([step, -step])
        )
        return jnp.abs(m._inner(w, gradient, u) - (ends[0] - ends[1]) / (2 * step))

    return jnp.max(jax.vmap(difference)(normals)) / jnp.maximum(1.0, m._norm(w, gradient))


_TRACED = (
    "Losses and gradients are functions that JAX traces: write them with jax.numpy; NumPy and torch"
    " functions, float(...) and `if` on a value cannot be traced"
)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")


def _form(function: Callable[[Any, Any], Any], w: Point, z: Record) -> Any:
    """The shapes that a function returns, without a record. To trace it takes longer than a short
    run; a formula of this package, which depends on nothing else, is traced once for its arguments'
    shapes.
    """
    if not isinstance(function, Formula):
        return jax.eval_shape(function, w, z)
    leaves, tree = jax.tree.flatten((w, z))
    return _form_of_formula(function, tree, tuple((x.shape, np.dtype(x.dtype)) for x in leaves))


@functools.lru_cache(maxsize=256)
def _form_of_formula(
    formula: Formula, tree: Any, leaves: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
) -> Any:
    w, z = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    return jax.eval_shape(formula, w, z)


def check_loss_shape(problem: Problem, w: Point, z: Record) -> None:
    """Raise, naming `loss`, unless the loss of one record is a scalar (checked by shapes only; no
    record is read).
    """
    try:
        out = _form(problem.loss, w, z)
    except Exception as error:  # a user's function may raise anything
        raise_interrupt(error)
        raise InvalidArgument(
            f"argument `loss` cannot be evaluated on one record of this data: {_first_line(error)}."
            f" {_TRACED}"
        ) from error
    leaves = jax.tree.leaves(out)
    if len(leaves) != 1 or leaves[0].shape != ():
        raise InvalidArgument(
            f"argument `loss` returns shape {[x.shape for x in leaves]}; it must return one scalar"
            " for one record (the average over records is taken by the optimiser)"
        )


def check_gradient_shape(problem: Problem, w: Point, z: Record) -> None:
    """Raise, naming `gradient` (or `loss`, where it is differentiated), unless one record's
    gradient has the shape of a tangent vector at w. Checked by shapes only; no record is read.
    """
    name = "loss" if problem.gradient is None else "gradient"
    try:
        given = problem.gradient
        out = _form(problem.riemannian_gradient if given is None else given, w, z)
    except Exception as error:  # a user's function may raise anything
        raise_interrupt(error)
        raise InvalidArgument(
            f"argument `{name}` gives no gradient for one record of this data:"
            f" {_first_line(error)}. {_TRACED}"
        ) from error
    if jax.tree.map(lambda x: x.shape, out) != jax.tree.map(jnp.shape, w):
        raise InvalidArgument(
            "argument `gradient` returns another shape than the point; give the Riemannian gradient"
            " at w"
        )
