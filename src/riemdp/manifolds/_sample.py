"""Points and vectors that the properties of `check` are tried on, and arithmetic with them.

Points may be tuples (of a `Product`), so sums, differences and finite differences work leaf by
leaf. All of it is NumPy on the host.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import invalid
from .._trees import leaves, map_leaves
from ._base import AbstractManifold, Point, Tangent


@dataclasses.dataclass(frozen=True)
class Sample:
    """Base points, tangent vectors and further points.

    `u`, `v`, `w` are tangent at `p`; q = exp(p, v), and r is another point. `coordinates` has shape
    (4, n, dim): the coordinates of u, v, w and log(p, r).
    """

    key: int
    p: Any
    q: Any
    r: Any
    u: Any
    v: Any
    w: Any
    coordinates: np.ndarray


def draw_sample(
    manifold: AbstractManifold,
    *,
    key: int = 0,
    samples: int = 5,
    radius: float | None = None,
    points: Point | None = None,
) -> Sample:
    """Random base points, and tangent vectors of norm between radius / 10 and radius."""
    rng = np.random.default_rng(key)
    p = (
        manifold.random_point(rng, (samples,))
        if points is None
        else manifold._coerce("points", points)
    )
    if manifold._batch_shape(p) != (samples,):
        raise invalid("points", points, f"give `samples` = {samples} points, with one leading axis")
    reach = np.broadcast_to(np.asarray(manifold.injectivity_radius(p)), (samples,))
    largest = np.minimum(0.45 * reach, 1.0) if radius is None else np.full(samples, radius)
    directions = rng.standard_normal((4, samples, manifold.dim))
    lengths = rng.uniform(0.1, 1.0, (4, samples, 1)) * largest[:, None]
    c = directions / np.linalg.norm(directions, axis=-1, keepdims=True) * lengths
    u, v, w, to_r = (manifold.from_coordinates(p, c[i]) for i in range(4))
    return Sample(
        key=key, p=p, q=manifold.exp(p, v), r=manifold.exp(p, to_r), u=u, v=v, w=w, coordinates=c
    )


def inputs_of(m: AbstractManifold, s: Sample) -> tuple[Any, ...]:
    """Points p and q, a tangent vector, normals and coordinates."""
    z = np.random.default_rng((s.key, 1)).standard_normal((len(s.coordinates[0]), m.noise_size))
    return s.p, s.q, s.v, z, s.coordinates[0]


def arguments_of(p: Point, q: Point, v: Tangent, z: Any, c: Any) -> dict[str, tuple[Any, ...]]:
    """What each operation is tried on."""
    return {
        "exp": (p, v),
        "log": (p, q),
        "dist": (p, q),
        "squared_dist": (p, q),
        "inner": (p, v, v),
        "norm": (p, v),
        "transport": (p, q, v),
        "retract": (p, v),
        "project": (p,),
        "to_tangent": (p, v),
        "egrad_to_rgrad": (p, v),
        "belongs": (p, 1e-8),
        "is_tangent": (p, v, 1e-8),
        "tangent_from_normals": (p, z),
        "to_coordinates": (p, v),
        "from_coordinates": (p, c),
        "injectivity_radius": (p,),
        "log_volume_density": (p, v),
    }


def combine(*terms: tuple[Any, Any]) -> Any:
    """Sum of scale * array, leaf by leaf; a scale is a number or an array over the leading axes."""

    def leaf(*arrays: ArrayLike) -> np.ndarray:
        total: Any = 0.0
        for (scale, _), x in zip(terms, arrays, strict=True):
            s = np.asarray(scale, dtype=np.float64)
            total = total + s.reshape(s.shape + (1,) * (np.ndim(x) - s.ndim)) * np.asarray(x)
        return np.asarray(total)

    return map_leaves(leaf, *(x for _, x in terms))


def minus(a: Point, b: Point) -> Any:
    return map_leaves(lambda x, y: np.asarray(x) - np.asarray(y), a, b)


def size(x: Point, axes: int = 1) -> np.ndarray:
    """Ambient norm over everything but the leading `axes` axes."""
    parts = [np.asarray(leaf) for leaf in leaves(x)]
    return np.sqrt(sum(np.sum(leaf**2, axis=tuple(range(axes, leaf.ndim))) for leaf in parts))


def worst(*errors: ArrayLike) -> float:
    """Largest error; NaN if any is NaN."""
    # NumPy's max keeps a NaN.
    return float(np.max([np.max(np.abs(np.asarray(e, dtype=np.float64))) for e in errors]))


def relative(error: ArrayLike, size: ArrayLike) -> np.ndarray:
    return np.asarray(error) / np.maximum(np.asarray(size), 1e-300)


OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
STEP = 1e-3


def scaled(v: Tangent, factors: np.ndarray, axis: Tangent | None = None) -> Any:
    """Stack of v * factor (or v + axis * factor) over a new leading axis of length 4."""
    if axis is None:
        return map_leaves(lambda x: np.stack([f * np.asarray(x) for f in factors]), v)
    return map_leaves(
        lambda x, y: np.stack([np.asarray(x) + f * np.asarray(y) for f in factors]), v, axis
    )


def slope(values: Point) -> Any:
    """Five-point first derivative from values at the four offsets."""
    return map_leaves(lambda x: np.tensordot(WEIGHTS, np.asarray(x), axes=1) / STEP, values)


def unit(m: AbstractManifold, i: int, n: int) -> np.ndarray:
    return np.broadcast_to(np.eye(m.dim)[i], (n, m.dim))


def frame(m: AbstractManifold, p: Point, n: int) -> list[Any]:
    return [m.from_coordinates(p, unit(m, i, n)) for i in range(m.dim)]


def spoiled(p: Point, value: float) -> Any:
    """p with `value` in one entry of each leaf."""

    def leaf(x: ArrayLike) -> np.ndarray:
        x = np.array(x)
        x.reshape(x.shape[0], -1)[:, -1] = value
        return x

    return map_leaves(leaf, p)
