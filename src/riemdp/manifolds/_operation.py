"""How a formula of a space is run: on NumPy as it is, without warnings; on JAX compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._namespace import is_jax, is_traced
from .._programs import compiled
from .._trees import leaves, map_leaves
from ._arrays import standard_normals


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


def drawn_point(manifold: Any, rng: Any, shape: tuple[int, ...]) -> Any:
    """Random points of a generator or a key."""
    with np.errstate(all="ignore"):
        return _point(manifold, rng, shape)


def drawn_normal(manifold: Any, rng: Any, p: Any, sigma: float, shape: tuple[int, ...]) -> Any:
    """Isotropic Gaussian tangent vectors at p of a generator or a key."""
    z = standard_normals(rng, (*shape, *manifold._batch_shape(p), manifold.noise_size))
    return operation(manifold, "_tangent_from_normals", p, sigma * z)
