"""The properties of `check` that concern derivatives, batches and compilation; importing this
module registers them.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._properties import (
    _OFFSETS,
    _STEP,
    _WEIGHTS,
    Manifold,
    Sample,
    _combine,
    _frame,
    _minus,
    _property,
    _relative,
    _scaled,
    _slope,
    _worst,
)


# ---------------------------------------------------------------------------------------------------
# derivatives
@_property(
    1e-6,
    "inner(p, egrad_to_rgrad(p, g), v) is the slope of a function along exp(p, t v) (finite"
    " differences)",
)
def gradient_conversion(m: Manifold, s: Sample) -> float:
    rng = np.random.default_rng(s.key)
    linear = jax.tree.map(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)
    square = jax.tree.map(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)

    def f(x: Any) -> np.ndarray:
        terms = jax.tree.map(
            lambda a, b, y: a * np.asarray(y) + 0.5 * b * np.asarray(y) ** 2, linear, square, x
        )
        return np.asarray(
            sum(np.sum(t, axis=tuple(range(2, t.ndim))) for t in jax.tree.leaves(terms))
        )

    gradient = m.egrad_to_rgrad(
        s.p, jax.tree.map(lambda a, b, y: a + b * np.asarray(y), linear, square, s.p)
    )
    slope = np.tensordot(_WEIGHTS, f(m.exp(s.p, _scaled(s.v, _STEP * _OFFSETS))), axes=1) / _STEP
    size = np.asarray(m.norm(s.p, gradient) * m.norm(s.p, s.v))
    return _worst(_relative(m.inner(s.p, gradient, s.v) - slope, size))


@_property(
    1e-6,
    "log_volume_density is the log Jacobian of exp (finite differences), with relative accuracy"
    " near 0",
)
def volume_density(m: Manifold, s: Sample) -> float:
    n = len(s.coordinates[0])
    columns = []
    for basis in _frame(m, s.p, n):
        moved = _slope(m.exp(s.p, _scaled(s.v, _STEP * _OFFSETS, basis)))
        columns.append(np.asarray(m.to_coordinates(s.q, m.to_tangent(s.q, moved))))
    expected = np.linalg.slogdet(np.stack(columns, axis=-1))[1]

    def even(t: float) -> np.ndarray:
        """The even part at t v, over t^2: a + b t^2 + O(t^4)."""
        ahead, behind = (
            np.asarray(m.log_volume_density(s.p, _combine((sign * t, s.v)))) for sign in (1.0, -1.0)
        )
        return (ahead + behind) / (2.0 * t**2)

    coarse, middle, fine = (even(t) for t in (2e-3, 1e-3, 5e-4))
    near_zero = (4.0 * middle - coarse) / 3.0 - (
        4.0 * fine - middle
    ) / 3.0  # both estimate a, if small values are right
    return _worst(np.asarray(m.log_volume_density(s.p, s.v)) - expected, near_zero)


# Derivatives and batches below are compiled once and run a few times: compiling quickly is what
# counts.
_QUICK_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@functools.partial(jax.jit, static_argnums=0, compiler_options=_QUICK_COMPILE)
def _squared_dist_gradients(m: Manifold, p: Any, q: Any) -> tuple[Any, Any]:
    return jax.grad(lambda x, y: jnp.sum(m._squared_dist(x, y)), argnums=(0, 1))(p, q)


@_property(1e-8, "the gradient of squared_dist(., q) is -2 log(p, q), and finite and 0 at p = q")
def gradient_of_squared_dist(m: Manifold, s: Sample) -> float:
    at_p, at_q = _squared_dist_gradients(m, s.p, s.q)
    d = np.asarray(m.dist(s.p, s.q))
    zero = [m.norm(s.p, m.egrad_to_rgrad(s.p, g)) for g in _squared_dist_gradients(m, s.p, s.p)]
    return _worst(
        _relative(
            m.norm(s.p, _combine((1.0, m.egrad_to_rgrad(s.p, at_p)), (2.0, m.log(s.p, s.q)))), d
        ),
        _relative(
            m.norm(s.q, _combine((1.0, m.egrad_to_rgrad(s.q, at_q)), (2.0, m.log(s.q, s.p)))), d
        ),
        *zero,
    )


@functools.partial(jax.jit, static_argnums=0, compiler_options=_QUICK_COMPILE)
def _derivatives(
    m: Manifold, arguments: dict[str, tuple[Any, ...]], u: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of each formula: all gradients of the sum of its entries; of exp and log also the derivative
    along u.
    """
    reverse: dict[str, Any] = {}
    forward: dict[str, Any] = {}
    for operation, at in arguments.items():
        f = getattr(m, operation)
        try:
            out, pull = jax.vjp(f, *at)
        except NotImplementedError:
            continue
        reverse[operation] = pull(jax.tree.map(jnp.ones_like, out))
        if operation in ("_exp", "_log"):
            forward[operation] = jax.jvp(f, at, (jax.tree.map(jnp.zeros_like, at[0]), u))[1]
    return reverse, forward


@_property(
    1e-9,
    "derivatives of exp, log, transport, norm, dist, volume density are finite at p = q and v = 0,"
    " and right",
)
def derivatives_at_zero(m: Manifold, s: Sample) -> float:
    zero = jax.tree.map(lambda x: np.zeros_like(np.asarray(x)), s.v)
    reverse, forward = _derivatives(
        m,
        {
            "_exp": (s.p, zero),
            "_log": (s.p, s.p),
            "_transport": (s.p, s.p, s.w),
            "_norm": (s.p, zero),
            "_dist": (s.p, s.p),
            "_log_volume_density": (s.p, zero),
        },
        s.u,
    )
    finite = [
        np.where(np.isfinite(np.asarray(x)), 0.0, np.inf)
        for x in jax.tree.leaves((reverse, forward))
    ]
    # exp and log are the identity to first order
    wrong = [
        _relative(m.norm(s.p, m.to_tangent(s.p, _minus(x, s.u))), m.norm(s.p, s.u))
        for x in forward.values()
    ]
    return _worst(*finite, *wrong)


# ---------------------------------------------------------------------------------------------------
# batching, compiling
_FORMULAS = (
    "_exp",
    "_log",
    "_dist",
    "_norm",
    "_transport",
    "_tangent_from_normals",
    "_to_coordinates",
    "_from_coordinates",
)


def _formulas(
    m: Manifold, names: tuple[str, ...], p: Any, q: Any, v: Any, z: Any, c: Any
) -> dict[str, Any]:
    arguments = {
        "_exp": (p, v),
        "_log": (p, q),
        "_dist": (p, q),
        "_norm": (p, v),
        "_transport": (p, q, v),
        "_tangent_from_normals": (p, z),
        "_to_coordinates": (p, v),
        "_from_coordinates": (p, c),
    }
    answers = {}
    for name in names:
        try:
            answers[name] = getattr(m, name)(*arguments[name])
        except NotImplementedError:
            continue
    return answers


_compiled_formulas = jax.jit(_formulas, static_argnums=(0, 1), compiler_options=_QUICK_COMPILE)


def _inputs(m: Manifold, s: Sample) -> tuple[Any, ...]:
    z = np.random.default_rng(s.key).standard_normal((len(s.coordinates[0]), m.noise_size))
    return jax.tree.map(jnp.asarray, (s.p, s.q, s.v, z, s.coordinates[0]))


def _difference(a: Any, b: Any) -> float:
    """Largest entry of a - b, relative to the largest of b if that exceeds 1; infinite if the
    shapes differ.
    """
    errors = []
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        errors.append(
            np.inf
            if x.shape != y.shape
            else _worst(x - y) / max(1.0, float(np.max(np.abs(y), initial=0.0)))
        )
    return _worst(*errors)


@_property(
    1e-9,
    "a batch gives what its elements give one at a time, and a single point broadcasts against a"
    " batch",
)
def batching(m: Manifold, s: Sample) -> float:
    inputs = _inputs(m, s)
    whole = _compiled_formulas(m, _FORMULAS, *inputs)
    first = jax.tree.map(lambda x: x[0], inputs)
    alone = _compiled_formulas(m, _FORMULAS, *first)
    # Repeat the first point for the whole batch, once by giving it alone and once written out.
    spread = jax.tree.map(lambda x: jnp.broadcast_to(x[0], x.shape), inputs[0])
    u, v = (
        jax.tree.map(lambda x: jnp.broadcast_to(x[0], x.shape), x) for x in (inputs[1], inputs[2])
    )
    names = ("_exp", "_log", "_dist", "_tangent_from_normals", "_from_coordinates")
    single = _compiled_formulas(m, names, first[0], u, v, *inputs[3:])
    written = _compiled_formulas(
        m, _FORMULAS, spread, u, v, *inputs[3:]
    )  # the shapes of `whole`: nothing to compile
    return _worst(
        _difference(jax.tree.map(lambda x: x[0], whole), alone),
        _difference(single, {name: written[name] for name in single}),
    )


@_property(1e-9, "compiled and uncompiled formulas agree")
def compiling(m: Manifold, s: Sample) -> float:
    names = ("_exp", "_log", "_transport", "_tangent_from_normals")
    inputs = jax.tree.map(lambda x: x[0], _inputs(m, s))
    compiled = _compiled_formulas(m, _FORMULAS, *inputs)
    return _difference(
        _formulas(m, names, *inputs), {name: compiled[name] for name in names if name in compiled}
    )
