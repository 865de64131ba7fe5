"""How far float64 is from the exact value, on every space: the errors that a sensitivity pays for,
against 60 digits.

- `values`: a value near the public ball becomes coordinates at the centre (`WrappedGaussian`), and
  two values' coordinates may be farther apart than exact ones by `WrappedGaussian.rounding`.
- `means`: records become the residual of a mean (`FrechetMean`), which is known up to
  `Domain.rounding`.

A finding is one number over its bound. Inputs are float64 points, put exactly on the space first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import mpmath
import numpy as np
from mpmath import mp

import riemdp as R
from riemdp.domains import Domain
from riemdp.manifolds import AbstractManifold, Product
from riemdp.mechanisms import WrappedGaussian
from tests.manifolds.oracles import ORACLES
from tests.manifolds.spd_oracles import apply, exact
from tests.seam import Doors, Means

DIGITS = 60
NEAR = (1e-15, 1e-12, 1e-6)  # how far the second value is from the first, in radii
Vector = list[Any]


# ------------------------------------------------------------------------------------------------
# logarithms in 60 digits: coordinates of log_c(x) in some exactly orthonormal frame, or with the
# form of the space
def _entries(a: mp.matrix) -> Vector:
    return [a[i, j] for i in range(a.rows) for j in range(a.cols)]


def _symmetric(x: np.ndarray) -> mp.matrix:
    a = exact(x)
    return (a + a.T) / 2


def _inverse_root(a: mp.matrix) -> mp.matrix:
    return apply(a, lambda t: 1 / mp.sqrt(t))


def _affine(c: np.ndarray, x: np.ndarray) -> Vector:
    root = _inverse_root(_symmetric(c))
    moved = root * _symmetric(x) * root
    return _entries(apply((moved + moved.T) / 2, mp.log))


def _log_euclidean(c: np.ndarray, x: np.ndarray) -> Vector:
    return _entries(apply(_symmetric(x), mp.log) - apply(_symmetric(c), mp.log))


def _bures(c: np.ndarray, x: np.ndarray) -> Vector:
    a, b = _symmetric(c), _symmetric(x)
    root, inverse = apply(a, mp.sqrt), _inverse_root(a)
    inner = root * b * root
    middle = apply((inner + inner.T) / 2, mp.sqrt)
    return _entries(inverse * middle - root)  # (T - I) c^(1/2), T the map that carries c to x


def _grassmann(c: np.ndarray, x: np.ndarray) -> Vector:
    p, q = exact(c), exact(x)
    p, q = p * _inverse_root(p.T * p), q * _inverse_root(q.T * q)
    cosine = p.T * q
    side = (q - p * cosine) * cosine**-1
    values, v = mp.eigsy(side.T * side)
    roots = [mp.sqrt(mp.fabs(t)) for t in values]
    angles = mp.diag([mp.atan(t) / t if t > 1e-40 else mp.mpf(1) for t in roots])
    return _entries(side * v * angles * v.T)


def _rotations(c: np.ndarray, x: np.ndarray) -> Vector:
    p, q = exact(c), exact(x)
    p, q = p * _inverse_root(p.T * p), q * _inverse_root(q.T * q)
    return _entries(mp.logm(p.T * q).apply(mp.re))


def _shapes(c: np.ndarray, x: np.ndarray) -> Vector:
    p, q = _preshape(c), _preshape(x)
    turn = mp.fsum(mp.conj(a) * b for a, b in zip(p, q, strict=True))
    q = [b * mp.conj(turn) / mp.fabs(turn) for b in q]
    flat = ([part for z in each for part in (z.real, z.imag)] for each in (p, q))
    return ORACLES["sphere"].log(*flat) if p != q else [mp.mpf(0)] * (2 * len(p))


def _preshape(x: np.ndarray) -> Vector:
    z = [mp.mpc(*row) for row in x.tolist()]
    mean = mp.fsum(z) / len(z)
    size = mp.sqrt(mp.fsum(mp.fabs(a - mean) ** 2 for a in z))
    return [(a - mean) / size for a in z]


def _flat(c: np.ndarray, x: np.ndarray) -> Vector:
    pairs = zip(np.ravel(c), np.ravel(x), strict=True)
    return [mp.mpf(float(b)) - mp.mpf(float(a)) for a, b in pairs]


def _by_oracle(name: str) -> Callable[[np.ndarray, np.ndarray], Vector]:
    oracle = ORACLES[name]

    def logarithm(c: np.ndarray, x: np.ndarray) -> Vector:
        a, b = (oracle.point([mp.mpf(float(t)) for t in e]) for e in (c, x))
        return oracle.log(a, b) if a != b else [mp.mpf(0)] * len(a)

    return logarithm


LOGARITHMS: dict[type[AbstractManifold], Callable[[np.ndarray, np.ndarray], Vector]] = {
    R.Euclidean: _flat,
    R.SPDAffineInvariant: _affine,
    R.SPDLogEuclidean: _log_euclidean,
    R.SPDBuresWasserstein: _bures,
    R.Grassmann: _grassmann,
    R.SpecialOrthogonal: _rotations,
    R.KendallShapes: _shapes,
    R.Sphere: _by_oracle("sphere"),
    R.Lorentz: _by_oracle("lorentz"),
    R.PoincareBall: _by_oracle("poincare"),
}


def exact_log(space: AbstractManifold, c: Any, x: Any) -> Vector:
    """log_c(x)."""
    if isinstance(space, Product):
        parts = zip(space.manifolds, c, x, strict=True)
        return [t for m, a, b in parts for t in exact_log(m, a, b)]
    return LOGARITHMS[type(space)](np.asarray(c), np.asarray(x))


def exact_length(space: AbstractManifold, c: Any, v: Vector) -> Any:
    """The length of such a vector at c."""
    name = {R.Lorentz: "lorentz", R.PoincareBall: "poincare"}.get(type(space))
    if name is None:
        return mp.sqrt(mp.fsum(t * t for t in v))
    oracle = ORACLES[name]
    at = oracle.point([mp.mpf(float(t)) for t in np.asarray(c)])
    return mp.sqrt(mp.fabs(oracle.inner(at, v, v)))


# ------------------------------------------------------------------------------------------------
# the cases
@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A space, a public centre and a radius.

    Attributes:
        name: Of the space.
        space: The space.
        where: The centre in words.
        center: A point of the space.
        radius: Of the ball.
        means: Whether means are looked at in this place; a frame carries other centres here.
        values: Whether values are: a ball for them has less than half the injectivity radius.
    """

    name: str
    space: AbstractManifold
    where: str
    center: Any
    radius: float
    means: bool = True
    values: bool = True

    @property
    def size(self) -> int:
        """Rows of a matrix, or 0."""
        return getattr(self.space, "k", 0)

    @property
    def domain(self) -> Domain:
        """Its ball."""
        return Domain(self.space, jax.tree.map(np.asarray, self.center), self.radius)

    def __str__(self) -> str:
        return f"{self.space!r}, {self.where}, radius {self.radius:.3g}"


def conditioned(k: int, condition: float) -> np.ndarray:
    """A matrix with this condition number, its largest eigenvalue 1."""
    q = np.linalg.qr(np.random.default_rng(k).normal(size=(k, k)))[0]
    m = (q * np.logspace(0, -math.log10(condition), k)) @ q.T
    return (m + m.T) / 2


def _far(space: Any, distance: float) -> np.ndarray:
    u = np.random.default_rng(3).normal(size=space.dim)
    v = space.from_coordinates(space.origin, distance * u / np.linalg.norm(u))
    return np.asarray(space.exp(space.origin, v))


def places() -> Iterator[Place]:
    """Hostile public centres and radii, for every space with a logarithm."""
    line = R.Euclidean(3)
    for size in (0.0, 1e7, 1e13):
        for radius in (1e-3, 1.0, 30.0):
            centre = size * np.array([1.0, -0.7, 0.3])
            yield Place("Euclidean", line, f"{size:g}", centre, radius, size == 0.0)
    for k in (2, 4):
        spd = R.SPDAffineInvariant(k)
        for condition in (1.0, 1e6, 1e13):
            for radius in (0.1, 3.0, 8.0, 12.0):
                where = f"condition {condition:g}"
                centre = conditioned(k, condition) if condition > 1 else np.eye(k)
                yield Place("SPDAffineInvariant", spd, where, centre, radius, condition == 1.0)
        flat = R.SPDLogEuclidean(k)
        for condition in (1.0, 1e6, 1e13):
            for radius in (0.1, 8.0, 30.0):
                centre = conditioned(k, condition) if condition > 1 else np.eye(k)
                yield Place(
                    "SPDLogEuclidean", flat, f"condition {condition:g}", centre, radius, False
                )
        bures = R.SPDBuresWasserstein(k)
        for condition in (1.0, 1e4, 1e9, 1e13):
            centre = conditioned(k, condition) if condition > 1 else np.eye(k)
            values = np.linalg.eigvalsh(centre)
            if not values[0] > 0:  # float64 does not hold it
                continue
            # below the limits of convexity and of the injectivity radius
            limit = min(0.31 * math.sqrt(values[0] + values[1]), 0.49 * math.sqrt(values[0]))
            for share in (0.03, 0.95):
                where = f"condition {condition:g}"
                yield Place("SPDBuresWasserstein", bures, where, centre, share * limit)
            # means alone may be taken in balls that come near the edge of the space
            limit = min(0.31 * math.sqrt(values[0] + values[1]), math.sqrt(values[0]))
            for share in (0.9, 0.9999):
                where = f"condition {condition:g}, near the edge"
                yield Place(
                    "SPDBuresWasserstein", bures, where, centre, share * limit, values=False
                )
    for n in (3, 20):
        sphere = R.Sphere(n)
        for radius in (1e-3, 0.1, 0.75):
            yield Place("Sphere", sphere, "a pole", np.asarray(sphere.origin), radius)
            skew = np.random.default_rng(n).normal(size=n)
            yield Place("Sphere", sphere, "anywhere", skew / np.linalg.norm(skew), radius)
    subspaces = R.Grassmann(5, 2)
    skew = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 2)))[0]
    for radius in (1e-3, 0.1, 0.5):
        yield Place("Grassmann", subspaces, "anywhere", skew, radius)
    rotations = R.SpecialOrthogonal(3)
    for radius in (1e-3, 0.1, 0.7):
        centre = np.asarray(rotations.random_point(3))
        yield Place("SpecialOrthogonal", rotations, "anywhere", centre, radius)
    for k in (3, 6):
        shapes = R.KendallShapes(k)
        raw = np.random.default_rng(k).normal(size=(k, 2))
        together = np.concatenate([5.0 + 1e-8 * raw[1:], raw[:1]])
        for radius in (1e-3, 0.1, 0.38):
            centre = np.asarray(shapes.project(raw))
            yield Place("KendallShapes", shapes, "anywhere", centre, radius)
            centre = np.asarray(shapes.project(together))
            yield Place("KendallShapes", shapes, "all but one together", centre, radius)
    hyperbolic = [("Lorentz", R.Lorentz(4)), ("Lorentz, a line", R.Lorentz(2))]
    for name, space in (*hyperbolic, ("PoincareBall", R.PoincareBall(3))):
        for distance in (0.0, 5.0, 12.0, 16.0):
            centre = np.asarray(space.origin) if distance == 0.0 else _far(space, distance)
            for radius in (0.1, 3.0, 12.0, 30.0):
                if distance + radius <= 30.0:
                    where = f"{distance:g} from the origin"
                    yield Place(name, space, where, centre, radius, distance == 0.0)
    both = R.Product(R.Sphere(3), R.SPDAffineInvariant(2))
    centre = (np.asarray(R.Sphere(3).origin), conditioned(2, 1e6))
    for radius in (0.1, 0.7):
        yield Place("Product", both, "condition 1e+06", centre, radius)


# ------------------------------------------------------------------------------------------------
# the search
@dataclasses.dataclass(frozen=True)
class Found:
    """The worst error over its bound, and both."""

    share: float
    error: float
    bound: float


def _points(place: Place, rng: np.random.Generator, lengths: np.ndarray) -> Any:
    """Points at these lengths from the centre, in random directions, along one coordinate, or back
    towards the origin.
    """
    space, d = place.space, place.space.dim
    u = rng.normal(size=(len(lengths), d))
    back = space.to_coordinates(place.center, space.log(place.center, space.origin))
    kind = rng.integers(3)
    if kind == 1:
        u = np.eye(d)[rng.integers(d, size=len(u))]
    elif kind == 2 and np.linalg.norm(back) > 0.0:
        u = np.asarray(back) / np.linalg.norm(back) + rng.choice([0.0, 1e-7, 1e-3]) * u
    u *= (lengths / np.linalg.norm(u, axis=1))[:, None]
    return space.exp(place.center, space.from_coordinates(place.center, np.asarray(u)))


def _at(points: Any, i: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], points)


def values(place: Place, count: int, seed: int = 0) -> Found:
    """The largest excess of the distance of two values' coordinates over the exact one."""
    space, radius = place.space, place.radius
    rng = np.random.default_rng(seed)
    mechanism = WrappedGaussian(
        space,
        place.center,
        sensitivity=1.0,
        budget=R.Budget(1.0, 1e-5),
        ball=R.Ball(place.center, radius),
    )
    if math.isinf(mechanism.rounding):
        return Found(0.0, math.nan, math.inf)  # called idealised
    domain = mechanism._domain
    assert domain is not None
    center = domain.center
    lengths = radius * rng.choice([0.01, 0.5, 0.999, 1.0, 1.2], size=count)
    pairs = []
    for i in range(count):
        state = rng.integers(2**32)
        share = 1.0 + NEAR[i % len(NEAR)] if i % 4 else 0.3
        ends = [
            _points(place, np.random.default_rng(state), lengths[i : i + 1] * factor)
            for factor in (1.0, share)
        ]
        if i % 2:  # another direction
            ends[1] = _points(place, rng, lengths[i : i + 1])
        pairs.append([_at(end, 0) for end in ends])
    worst = 0.0
    with mpmath.workdps(DIGITS):
        for pair in pairs:
            if not all(bool(space.belongs(x, 1e-6)) for x in pair):
                continue  # refused
            computed = [[mp.mpf(float(t)) for t in mechanism._admit(x)] for x in pair]
            true = [_moved(domain, exact_log(space, center, x)) for x in pair]
            apart = mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(*computed, strict=True)))
            exactly = exact_length(space, center, [a - b for a, b in zip(*true, strict=True)])
            worst = max(worst, float(mp.fabs(apart - exactly)))
    return Found(worst / mechanism.rounding, worst, mechanism.rounding)


def _moved(domain: Domain, v: Vector) -> Vector:
    """Radially into the ball, exactly."""
    length = exact_length(domain.manifold, domain.center, v)
    left = max(domain.fold - length, 0) if math.isfinite(domain.fold) else mp.inf
    goal = Doors.INSIDE * min(domain.radius, left)
    return v if length <= goal else [t * (goal / length) for t in v]


def means(place: Place, count: int, seed: int = 0) -> Found:
    """The largest excess of the exact residual of a mean over the one that the solver states, for
    records at the edge, in one corner, and in two opposite ones.
    """
    radius = place.radius
    rng = np.random.default_rng(seed)
    domain = place.domain
    local = domain.frame.local
    frame, center = local.manifold, local.center
    tolerance = 1e-10 * max(1.0, radius) + local.resolution
    worst = 0.0
    for i in range(count):
        u = rng.normal(size=(8, frame.dim))
        one = rng.normal(size=frame.dim)
        u = (
            u,
            one + 1e-3 * u,
            one * np.where(np.arange(8) % 2, 1, -1)[:, None] + 1e-3 * u,
        )[i % 3]
        u *= 0.999 * radius / np.linalg.norm(u, axis=1, keepdims=True)
        points = frame.exp(center, frame.from_coordinates(center, np.asarray(u)))
        if not place.values and i % 2:
            points = _near_the_edge(np.asarray(center), radius, rng)
        records = domain.frame.local.clamp(points)
        found = Means.mean_in(local, Means.look_at(frame, records, None), tolerance)
        if not found.residual <= tolerance:
            return Found(math.inf, math.inf, local.rounding)
        with mpmath.workdps(DIGITS):
            logs = [exact_log(frame, found.value, _at(records, j)) for j in range(8)]
            mean = [mp.fsum(column) / 8 for column in zip(*logs, strict=True)]
            residual = float(exact_length(frame, found.value, mean))
        worst = max(worst, residual - found.residual)
    return Found(worst / local.rounding, worst, local.rounding)


def _near_the_edge(center: np.ndarray, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Eight matrices that are as singular as a ball about the center allows, their small
    eigenvectors a little apart, towards the largest one.
    """
    values, q = np.linalg.eigh(center)
    least = math.sqrt(values[0]) - 0.9999 * radius
    room = math.sqrt(radius**2 - (math.sqrt(values[0]) - least) ** 2)
    turn = 0.5 * room / math.sqrt(values[-1]) * rng.normal(size=(8, 1))
    small = np.cos(turn) * q[:, 0] + np.sin(turn) * q[:, -1]
    large = np.cos(turn) * q[:, -1] - np.sin(turn) * q[:, 0]
    outer = lambda v: v[:, :, None] * v[:, None, :]  # noqa: E731
    between = (q[:, 1:-1] * values[1:-1]) @ q[:, 1:-1].T
    return between + least**2 * outer(small) + values[-1] * outer(large)


def sums(count: int, copies: int, seed: int = 0) -> Found:
    """The error of the mean of copies of `count` random terms of length up to 1, against exact
    sums, over `streamed_error`.
    """
    x = np.random.default_rng(seed).uniform(-0.5, 1.0, size=count)
    mean = float(Doors.mean_of(np.tile(x, copies), None, lambda part: part))
    error = abs(mean - math.fsum(x) / count)
    bound = Doors.streamed_error()
    return Found(error / bound, error, bound)


__all__ = ["Found", "Place", "conditioned", "means", "places", "sums", "values"]
