"""Networks that classify, as problems: SPDNet, and hyperbolic embeddings with a prototype a class.

Weights are a point of a product of manifolds. The loss of a record (x, class) is the cross-entropy
of its scores. What is no record of a known class has the loss 0, and so the gradient 0.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, integer, invalid, real
from .._isolation import isolated
from ..domains._points import admit_point
from ..domains._stacks import admit_stack
from ..manifolds import (
    AbstractManifold,
    Euclidean,
    Lorentz,
    Product,
    SPDLogEuclidean,
    SpecialOrthogonal,
    Stiefel,
)
from ..manifolds import _spectral as spectral
from ..manifolds._base import Point
from ..manifolds._numerics import safe_norm
from ._problem import AutomaticGradient, Formula, Problem, Record

_SYMMETRIC = 1e-6  # relative asymmetry of a matrix that is still taken to be a record


@dataclass(frozen=True)
class Classifier(Formula):
    """The cross-entropy of a record (x, class), for classes 0, 1, ..., `n_classes` - 1."""

    n_classes: int

    @property
    @abc.abstractmethod
    def manifold(self) -> Product:
        """The space of the weights."""

    @property
    @abc.abstractmethod
    def neutral(self) -> np.ndarray:
        """A record, which takes the place of what is none."""

    @abc.abstractmethod
    def is_record(self, x: Array) -> Any:
        """Whether x is a record."""

    @abc.abstractmethod
    def embedded(self, w: Point, x: Array) -> Any:
        """What the last layer is given."""

    @abc.abstractmethod
    def scores(self, w: Point, embedded: Array) -> Any:
        """(n_classes,): logarithms of the probabilities, up to a constant."""

    @abc.abstractmethod
    def start(self, rng: Any) -> Point:
        """Weights drawn without looking at data."""

    def known(self, x: Array) -> tuple[Any, Any]:
        """Whether x is a record, and a record in any case."""
        fine = self.is_record(x)
        return fine, jnp.where(fine, x, self.neutral)

    def __call__(self, w: Point, z: Record) -> Any:
        x, label = z
        own = label == jnp.arange(self.n_classes)
        fine, x = self.known(x)
        scores = self.scores(w, self.embedded(w, x))
        loss = jax.nn.logsumexp(scores) - jnp.sum(jnp.where(own, scores, 0.0))
        return jnp.where(fine & jnp.any(own), loss, 0.0)


class NetworkGradient(AutomaticGradient, Formula):
    """The gradient of a `Classifier`, whose layers have derivatives of their own where eigenvalues
    coincide or lengths are 0.
    """


def _frames(rows: int, columns: int) -> AbstractManifold:
    return Stiefel(rows, columns) if columns < rows else SpecialOrthogonal(rows)


@dataclass(frozen=True)
class SPDNet(Classifier):
    """Layers W^T X W with eigenvalues of at least `floor`; a linear layer on the logarithm."""

    sizes: tuple[int, ...]
    floor: float

    @property
    def manifold(self) -> Product:
        entries = self.sizes[-1] * (self.sizes[-1] + 1) // 2
        frames = map(_frames, self.sizes[:-1], self.sizes[1:])
        return Product(*frames, Euclidean(self.n_classes, entries + 1))

    @property
    def neutral(self) -> np.ndarray:
        return np.eye(self.sizes[0])

    def is_record(self, x: Array) -> Any:
        return SPDLogEuclidean(self.sizes[0])._belongs(x, _SYMMETRIC)

    def embedded(self, w: Point, x: Array) -> Any:
        """The entries of the logarithm of the last matrix."""
        first, *others = w[:-1]
        image, eig = self._layer(first, x)
        for frame in others:
            image, eig = self._layer(frame, image)
        return spectral.pack(spectral.apply("log", image, eig))

    def _layer(self, frame: Array, x: Array) -> tuple[Any, spectral.Spectrum]:
        """BiMap and ReEig, with the decomposition of what comes out."""
        image = spectral.sym(frame.T @ x @ frame)
        eig = spectral.spectrum(image)
        raised = eig._replace(values=jnp.maximum(eig.values, self.floor))
        return spectral.apply("floor", image, eig, offset=jnp.asarray(self.floor)), raised

    def scores(self, w: Point, embedded: Array) -> Any:
        return w[-1][:, :-1] @ embedded + w[-1][:, -1]

    def start(self, rng: Any) -> Point:
        *frames, last = self.manifold.random_point(rng)
        return (*frames, np.zeros(last.shape))


@dataclass(frozen=True)
class Prototypes(Classifier):
    """A map into hyperbolic space, and a point of it for each class."""

    n_features: int
    n: int
    radius: float

    @property
    def manifold(self) -> Product:
        space = Lorentz(self.n)
        return Product(Euclidean(space.dim, self.n_features + 1), *[space] * self.n_classes)

    @property
    def neutral(self) -> np.ndarray:
        return np.zeros(self.n_features)

    def is_record(self, x: Array) -> Any:
        return jnp.all(jnp.isfinite(x))

    def embedded(self, w: Point, x: Array) -> Any:
        """The point at the end of an affine image of x, cut to `radius`."""
        space = Lorentz(self.n)
        v = w[0][:, :-1] @ x + w[0][:, -1]
        v = v * (self.radius / jnp.maximum(safe_norm(v), self.radius))
        return space._exp_coordinates(jnp.asarray(space.origin), v)

    def scores(self, w: Point, embedded: Array) -> Any:
        return -Lorentz(self.n)._squared_dist(jnp.stack(w[1:]), embedded)

    def start(self, rng: Any) -> Point:
        linear, *prototypes = self.manifold.random_point(rng)
        return (linear / np.sqrt(self.n_features + 1), *prototypes)


def spdnet(sizes: Sequence[int], n_classes: int, *, floor: float = 1e-4) -> Problem:
    """SPDNet: a network that classifies symmetric positive definite matrices.

    Each layer takes X to W^T X W with orthonormal columns of W (BiMap) and raises its eigenvalues
    to `floor` (ReEig); the last one is linear in the entries of the matrix logarithm (LogEig).
    Weights are points of Product(Stiefel(k0, k1), Stiefel(k1, k2), ..., Euclidean(n_classes,
    k (k + 1) / 2 + 1)), intercepts in the last column; where a layer keeps the size k its W is a
    rotation, a point of SpecialOrthogonal(k).

    The data of a run is the tuple (X, y) of arrays (n, k0, k0) and (n,), classes 0, 1, ... in y. A
    matrix that is not positive definite, or a class that is none of these, has the gradient 0.
    `learning_rate` and `clip_norm` have no default. Scale records first, each by itself. Where no
    eigenvalue is below `floor`, several BiMap layers do no more than one.

    Args:
        sizes: Rows of the records, and of the matrices after each layer: at least two whole
            numbers, none larger than the one before it.
        n_classes: How many classes there are, at least 2: public. The class of a record is private.
        floor: Above 0, public.

    Raises:
        InvalidArgument: An argument is out of range.

    Guarantee:
        None of its own; `private_minimize` clips the gradient of each record (x, class).

    Source:
        Huang and Van Gool 2017. Proof of the guarantee: docs/proofs/optimisers.md.

    Examples:
        >>> import riemdp
        >>> problem = riemdp.problems.spdnet((4, 3, 2), n_classes=2)
        >>> [part.shape for part in riemdp.problems.random_start(problem, 0)]
        [(4, 3), (3, 2), (2, 4)]
    """
    whole = tuple(integer(f"sizes[{i}]", k) for i, k in enumerate(sizes))
    if len(whole) < 2 or list(whole) != sorted(whole, reverse=True):
        raise invalid("sizes", sizes, "give two sizes or more, none larger than the one before it")
    n_classes = integer("n_classes", n_classes, at_least=2)
    return _problem(SPDNet(n_classes, whole, real("floor", floor, above=0.0)))


def hyperbolic_prototypes(
    n_features: int, n: int, n_classes: int, *, radius: float = 3.0
) -> Problem:
    """Hyperbolic embeddings with a prototype a class: a network that classifies vectors.

    A record x becomes the point at the end of v = A x + b, cut to length `radius`, from the origin;
    the logarithm of the probability of a class is minus the squared distance from its prototype, up
    to a constant. Weights are points of Product(Euclidean(n - 1, n_features + 1), Lorentz(n), ...,
    Lorentz(n)), b in the last column. Data, classes and what counts as nothing (a vector that is
    not finite) are as in `spdnet`.

    Args:
        n_features: Length of a record.
        n: As in `Lorentz(n)`: one more than the dimension of the embedding.
        n_classes: How many classes there are, at least 2: public. The class of a record is private.
        radius: Above 0: how far embeddings may lie from the origin.

    Raises:
        InvalidArgument: An argument is out of range.

    Guarantee:
        None of its own; `private_minimize` clips the gradient of each record (x, class).

    Source:
        Nickel and Kiela 2017 (embeddings); Guo et al. 2022 (the radius). Proof of the guarantee:
        docs/proofs/optimisers.md.

    Examples:
        >>> import riemdp
        >>> riemdp.problems.hyperbolic_prototypes(5, 3, 4).manifold.dim
        20
    """
    features, n = integer("n_features", n_features), integer("n", n, at_least=2)
    n_classes = integer("n_classes", n_classes, at_least=2)
    return _problem(Prototypes(n_classes, features, n, real("radius", radius, above=0.0)))


def _problem(network: Classifier) -> Problem:
    manifold, shapes = network.manifold, (network.neutral.shape, ())
    gradient = NetworkGradient(manifold, network)
    return Problem(manifold, network, gradient=gradient, record_shape=shapes)


def random_start(problem: Problem, rng: Any) -> Point:
    """Weights of a network at which a run may start, drawn without looking at data: public.

    Args:
        problem: Of `spdnet` or `hyperbolic_prototypes`.
        rng: A NumPy generator, a seed or a key of JAX, for simulation.

    Returns:
        Uniform frames and a last layer of zeros; a normal map and prototypes.
    """
    return _network(problem).start(rng)


def class_probabilities(problem: Problem, weights: Point, X: ArrayLike) -> np.ndarray:
    """Probabilities of the classes of new records, (n, n_classes); NaN for what is no record.

    Looks at released weights and at X only: post-processing.

    Args:
        problem: Of `spdnet` or `hyperbolic_prototypes`.
        weights: `result.value`.
        X: Matrices or vectors, (n, *shape of one).
    """
    return _of_records(problem, weights, X, embedded=False)


def embeddings(problem: Problem, weights: Point, X: ArrayLike) -> np.ndarray:
    """What the last layer is given for new records: the entries of the logarithm of the last
    matrix, or points of `Lorentz(n)`, (n, length); NaN for what is no record.

    Looks at released weights and at X only: post-processing.

    Args:
        problem: Of `spdnet` or `hyperbolic_prototypes`.
        weights: `result.value`.
        X: Matrices or vectors, (n, *shape of one).
    """
    return _of_records(problem, weights, X, embedded=True)


def _network(problem: Problem) -> Classifier:
    if isinstance(problem, Problem) and isinstance(problem.loss, Classifier):
        return problem.loss
    raise invalid("problem", problem, "give what `spdnet` or `hyperbolic_prototypes` returns")


@isolated
def _of_records(problem: Problem, weights: Point, X: ArrayLike, *, embedded: bool) -> np.ndarray:
    network = _network(problem)
    shape = network.neutral.shape
    w, records = admit_point(network.manifold, "weights", weights), admit_stack("X", X, shape)
    if records.shape[1:] != shape:
        raise InvalidArgument(
            f"argument `X` has records of shape {records.shape[1:]}; this network needs {shape}"
        )
    return np.asarray(_of_each(network, embedded, w, records))


@partial(jax.jit, static_argnums=(0, 1))
def _of_each(network: Classifier, embedded: bool, w: Point, X: Array) -> Array:
    def one(x: Array) -> Array:
        fine, x = network.known(x)
        found = network.embedded(w, x)
        found = found if embedded else jax.nn.softmax(network.scores(w, found))
        return jnp.where(fine, found, jnp.nan)

    return jax.vmap(one)(X)
