"""The properties behind `check` that are about derivatives, batches and compiling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._trees import leaves, map_leaves
from ._base import AbstractManifold as Manifold
from ._base import Point
from ._properties import property_of
from ._sample import (
    OFFSETS,
    STEP,
    Sample,
    arguments_of,
    combine,
    frame,
    inputs_of,
    minus,
    relative,
    scaled,
    slope,
    worst,
)


# -----------------------------------------------------------------------------
# derivatives
@property_of(
    1e-6,
    "inner(p, egrad_to_rgrad(p, g), v) is the slope of a function along exp(p, t v) (finite"
    " differences)",
)
def gradient_conversion(m: Manifold, s: Sample) -> float:
    rng = np.random.default_rng((s.key, 1))
    linear = map_leaves(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)
    square = map_leaves(lambda x: rng.standard_normal(np.shape(x)[1:]), s.p)

    def f(x: Point) -> np.ndarray:
        terms = map_leaves(
            lambda a, b, y: a * np.asarray(y) + 0.5 * b * np.asarray(y) ** 2, linear, square, x
        )
        return np.asarray(sum(np.sum(t, axis=tuple(range(2, t.ndim))) for t in leaves(terms)))

    gradient = m.egrad_to_rgrad(
        s.p, map_leaves(lambda a, b, y: a + b * np.asarray(y), linear, square, s.p)
    )
    measured = slope(f(m.exp(s.p, scaled(s.v, STEP * OFFSETS))))
    largest = np.asarray(m.norm(s.p, gradient) * m.norm(s.p, s.v))
    return worst(relative(m.inner(s.p, gradient, s.v) - measured, largest))


@property_of(
    1e-6,
    "log_volume_density is the log Jacobian of exp (finite differences), with relative accuracy"
    " near 0",
)
def volume_density(m: Manifold, s: Sample) -> float:
    n = len(s.coordinates[0])
    columns = []
    for basis in frame(m, s.p, n):
        moved = slope(m.exp(s.p, scaled(s.v, STEP * OFFSETS, basis)))
        columns.append(np.asarray(m.to_coordinates(s.q, m.to_tangent(s.q, moved))))
    expected = np.linalg.slogdet(np.stack(columns, axis=-1))[1]

    def even(t: float) -> np.ndarray:
        """The even part at t v, over t^2: a + b t^2 + O(t^4)."""
        ahead, behind = (
            np.asarray(m.log_volume_density(s.p, combine((sign * t, s.v)))) for sign in (1.0, -1.0)
        )
        return (ahead + behind) / (2.0 * t**2)

    coarse, middle, fine = (even(t) for t in (2e-3, 1e-3, 5e-4))
    # Both differences estimate a, if small values are right.
    near_zero = (4.0 * middle - coarse) / 3.0 - (4.0 * fine - middle) / 3.0
    return worst(np.asarray(m.log_volume_density(s.p, s.v)) - expected, near_zero)


@property_of(1e-8, "the gradient of squared_dist(., q) is -2 log(p, q), and finite and 0 at p = q")
def gradient_of_squared_dist(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled, squared_dist_gradients

    gradients = compiled(squared_dist_gradients, 0)
    at_p, at_q = gradients(m, s.p, s.q)
    d = np.asarray(m.dist(s.p, s.q))
    zero = [m.norm(s.p, m.egrad_to_rgrad(s.p, g)) for g in gradients(m, s.p, s.p)]
    return worst(
        relative(
            m.norm(s.p, combine((1.0, m.egrad_to_rgrad(s.p, at_p)), (2.0, m.log(s.p, s.q)))), d
        ),
        relative(
            m.norm(s.q, combine((1.0, m.egrad_to_rgrad(s.q, at_q)), (2.0, m.log(s.q, s.p)))), d
        ),
        *zero,
    )


@property_of(
    1e-9,
    "derivatives of exp, log, transport, norm, dist, volume density are finite at p = q and v = 0,"
    " and right",
)
def derivatives_at_zero(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled, derivatives

    zero = map_leaves(lambda x: np.zeros_like(np.asarray(x)), s.v)
    reverse, forward = compiled(derivatives, 0)(
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
        np.where(np.isfinite(np.asarray(x)), 0.0, np.inf) for x in _all_leaves((reverse, forward))
    ]
    # exp and log are the identity to first order
    wrong = [
        relative(m.norm(s.p, m.to_tangent(s.p, minus(x, s.u))), m.norm(s.p, s.u))
        for x in forward.values()
    ]
    return worst(*finite, *wrong)


# -----------------------------------------------------------------------------
# batching, compiling
_FORMULAS = (
    "exp",
    "log",
    "dist",
    "norm",
    "transport",
    "tangent_from_normals",
    "to_coordinates",
    "from_coordinates",
)


def _formulas(m: Manifold, names: tuple[str, ...], *inputs: Any) -> dict[str, Any]:
    arguments, answers = arguments_of(*inputs), {}
    for name in names:
        try:
            with np.errstate(all="ignore"):
                answers[name] = getattr(m, "_" + name)(*arguments[name])
        except NotImplementedError:
            continue
    return answers


def _all_leaves(tree: Any) -> list[Any]:
    """Those of dictionaries too."""
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in _all_leaves(tree[name])]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _all_leaves(part)]
    return [tree]


def _difference(a: Any, b: Point) -> float:
    """Largest entry of a - b, relative to the largest of b if that exceeds 1; infinite if the
    shapes differ.
    """
    errors = []
    for x, y in zip(_all_leaves(a), _all_leaves(b), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        errors.append(
            np.inf
            if x.shape != y.shape
            else worst(x - y) / max(1.0, float(np.max(np.abs(y), initial=0.0)))
        )
    return worst(*errors)


@property_of(
    1e-9,
    "a batch gives what its elements give one at a time, and a single point broadcasts against a"
    " batch",
)
def batching(m: Manifold, s: Sample) -> float:
    inputs = inputs_of(m, s)
    whole = _formulas(m, _FORMULAS, *inputs)
    first = map_leaves(lambda x: x[0], inputs)
    alone = _formulas(m, _FORMULAS, *first)
    # Repeat the first point for the whole batch, once by giving it alone and once written out.
    p, *_ = inputs
    spread = map_leaves(lambda x: np.broadcast_to(x[0], x.shape), p)
    names = ("exp", "log", "dist", "tangent_from_normals", "from_coordinates")
    u, v = (map_leaves(lambda x: np.broadcast_to(x[0], x.shape), x) for x in inputs[1:3])
    single = _formulas(m, names, first[0], u, v, *inputs[3:])
    written = _formulas(m, names, spread, u, v, *inputs[3:])
    return worst(
        _difference({name: map_leaves(lambda x: x[0], one) for name, one in whole.items()}, alone),
        _difference(single, written),
    )


@property_of(1e-9, "formulas of NumPy arrays and compiled ones of JAX arrays agree")
def compiling(m: Manifold, s: Sample) -> float:
    from ._check_on_jax import compiled

    names = ("exp", "log", "transport", "tangent_from_normals")
    inputs = inputs_of(m, s)
    return _difference(_formulas(m, names, *inputs), compiled(_formulas, 0, 1)(m, names, *inputs))
