"""`riemannian_laplace`, the public sampler: its arguments checked, and its randomness."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .._errors import InvalidArgument, invalid, real
from .._namespace import is_jax
from .._trees import map_leaves
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..randomness import NoiseSource, noise_source
from ._far import UnboundBall
from ._laplace import check_scale, draw, expected_tries, sampler_of, truncation, warn_if_slow

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray


def riemannian_laplace(
    rng_or_key: int | NoiseSource | PRNGKeyArray | None,
    manifold: AbstractManifold,
    eta: Point,
    sigma: float,
    shape: int | tuple[int, ...] = (),
    ball: UnboundBall | None = None,
) -> Any:
    """Exact draws from the Riemannian Laplace distribution at `eta`: density C exp(-d(x, eta) /
    sigma) for the volume of the metric.

    Draws so far out that float64 cannot hold the point (an SPD matrix of condition above 10^14,
    hyperbolic points beyond 300, on the Poincare ball 30) are shortened along the geodesic from the
    manifold's origin.

    On flat, hyperbolic, affine-invariant and Grassmann spaces and spheres without a ball the number
    of tries does not depend on `eta`. On Bures-Wasserstein space and within a ball it does, so the
    running time leaks information about `eta`. On log-Euclidean space the running time depends
    slightly on the size of log(eta), which decides how many matrix products exp takes.

    Args:
        rng_or_key: None (operating system), an int seed, a `NoiseSource`, or a JAX key (simulation
            only).
        manifold: Euclidean, SPDLogEuclidean, products of flat spaces, Lorentz, PoincareBall,
            Sphere, SPDAffineInvariant, SPDBuresWasserstein or Grassmann.
        eta: One point, of `manifold.shape`: the centre of the distribution.
        sigma: The scale, above 0, in units of distance.
        shape: Batch shape of the result; default one draw.
        ball: A `Ball` that holds `eta`. The distribution is then restricted to it, and any sigma is
            legal, also one for which the distribution on the whole space does not exist.

    Returns:
        Points, shape (*shape, *manifold.shape), float64.

    Raises:
        InvalidArgument: The distribution does not exist (sigma is at least `laplace_scale_limit`),
            `eta` is outside the ball, or more than 10^7 tries a draw would be needed.
        NotImplementedError: No exact sampler is known. There is no approximate one instead.

    Warns:
        SlowSamplerWarning: 50 or more tries a draw are expected.

    Source:
        Reimherr2021 Definition 3. The samplers are the library's own.
    """
    source = as_source(rng_or_key)
    sigma = real("sigma", sigma, above=0.0)
    count, batch = _batch(shape)
    point = _footpoint(manifold, eta)
    if ball is not None:
        check_scale(manifold, sigma, 2 * float(ball.radius))
        if not bool(ball.contains(manifold, point)):
            raise InvalidArgument(
                "argument `eta` lies outside `ball`; the truncated distribution is defined at"
                " footpoints inside it (Ball.clamp moves one there)"
            )
        way = truncation(manifold, sigma, ball)
        drawn = way.draw(manifold, point, count, source, warn=True)
    else:
        check_scale(manifold, sigma, math.inf)
        warn_if_slow(manifold, expected_tries(manifold, sigma, eta=point))
        drawn = draw(manifold, point, sigma, count, source)
    return map_leaves(lambda leaf: leaf.reshape(batch + leaf.shape[1:]), drawn)


def _footpoint(manifold: AbstractManifold, eta: Point) -> Any:
    if not isinstance(manifold, AbstractManifold):
        raise invalid("manifold", manifold, "give a riemdp manifold")
    sampler_of(manifold)
    point = manifold._coerce("eta", eta)
    if manifold._batch_shape(point) != () or not bool(np.asarray(manifold.belongs(point, 1e-6))):
        raise InvalidArgument(
            f"argument `eta` is not one point of {manifold!r}; `manifold.project` makes one"
        )
    return point


def _batch(shape: int | tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    try:
        batch = (int(shape),) if isinstance(shape, int) else tuple(int(s) for s in shape)
    except TypeError as error:
        raise invalid("shape", shape, "give a tuple of whole numbers") from error
    if any(s < 0 for s in batch):
        raise invalid("shape", shape, "give whole numbers that are at least 0")
    return math.prod(batch), batch


def as_source(rng_or_key: int | NoiseSource | PRNGKeyArray | None) -> NoiseSource:
    """A noise source from None, an int, a `NoiseSource`, or a JAX key (seeded by the bits of the
    key).
    """
    if not (is_jax(rng_or_key) or isinstance(rng_or_key, np.ndarray)):
        return noise_source(cast("int | NoiseSource | None", rng_or_key))
    bits = _bits_of(rng_or_key)
    if bits.dtype != np.uint32 or bits.ndim != 1:
        raise InvalidArgument(
            "argument `rng_or_key` is an array, not a JAX key; give None, an int or a NoiseSource"
        )
    return noise_source(int.from_bytes(bits.tobytes(), "little"))


def _bits_of(key: Any) -> np.ndarray:
    """Those of a JAX key, of either kind; an array as it is."""
    if isinstance(key, np.ndarray):
        return key
    import jax

    of_new_kind = jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(key) if of_new_kind else key)
