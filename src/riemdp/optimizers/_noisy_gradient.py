"""Where gradients of records become private. To check DP-RGD and DP-RSGD read this file, `_batches`
(which records a step reads, and what that costs) and `_kernels` (gradients and their coordinates).

A `NoisyGradient` is a query of known sensitivity. Its answer is

    center + (1 / b) project(sum_i clip_C(project(grad f(w; z_i)) - center)) + sigma N_w

over all n records or over a fresh, secret batch of b. `center` is 0 or a public tangent vector, b
is public, and N_w is the standard Gaussian of the tangent space at w. Whatever the records, the
point w and the public constants of the problem are, one record changes the sum by at most

    replace-one: 2 C (two vectors of norm at most C);
    add-or-remove-one (Poisson; allocation, in the one step of an epoch that holds it): C.

On the lattice (`NoisyGradient.scale` is a number) this holds for the numbers as computed. Each
record's gradient is clipped as a vector of float64 coordinates, counted in units of
g = sigma b / scale, and cut to whole numbers, towards 0: no coordinate grows, so the integer vector
has length at most C / g, whatever was rounded before. Integers add exactly. The noise is
round(scale N), whole numbers too, so an answer is a function of the Gaussian mechanism on a sum of
integer vectors. Proof: docs/proofs/lattice-steps.md. Without a `scale` the query is "idealised":
the same sum in float64, with float64 noise.

The optimisers and the agents of a federated run with noise of their own issue this query, and what
they do with the answers is post-processing. Queries made of it: with a clip norm found on the way,
`_adaptive_clip`; about an anchor, `_variance_reduced`; of people, `_people`. Not by this query:
noise that sites share (`_clipped_sum`, `mechanisms/_shared_sum`) and principal eigenvectors
(`_eigenvector`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .. import privacy
from .._errors import SMALLEST_MAGNITUDE
from ..privacy import Guarantee
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..randomness import NoiseSource
from ._account import Account
from ._batches import batches_of
from ._kernels import AbstractKernel, Batch, Frame, Parts, State, over_chunks
from ._people import unfolded

FINENESS = 32  # a clip norm is about so many powers of two in units of the grid
_MOST_FINE = 41  # a standard deviation is at most so many: what the source of integers takes
_LEAST_NOISE = 2.0**-10  # of a sensitivity: a multiplier below it protects nobody
_EXACT_ROWS = 1 << 20  # whole numbers up to 2^32 that float64 adds without rounding


def scale_of(noise_multiplier: float, clips: float) -> float | None:
    """How many steps of the grid a standard deviation has, from public numbers: a power of two, so
    that a clip norm, scale / (noise_multiplier clips) steps, has at most 2^32. None where there is
    hardly any noise.
    """
    if noise_multiplier < _LEAST_NOISE:
        return None
    most = math.frexp(noise_multiplier * clips)[1] - 1  # the power of two below the product
    return math.ldexp(1.0, min(FINENESS + most, _MOST_FINE))


@dataclass(frozen=True)
class Batches:
    """Which records a query reads: all of them, or a fresh random batch that nobody sees."""

    population: int  # the public number n of records
    size: int  # b; the expected size for Poisson sampling
    sampling: str  # "full", "without-replacement", "poisson" or "allocation"
    epoch: int = 0  # t: with allocation a record is in exactly one of t consecutive batches
    replaced: bool = False  # a batch of a random size, and a guarantee for replaced records

    @property
    def clips(self) -> float:
        """By how many clip norms one record changes the sum: a replaced one, or with batches of a
        random size one more or less.
        """
        return 1.0 if self.sampling in ("poisson", "allocation") else 2.0

    @property
    def keep_places(self) -> bool:
        """Whether the records that neighbouring batches share have the same places in them. Where
        one more moves the others by a place, compiled code may round them to other numbers.
        """
        few = 2 * self.size <= self.population  # else `NoiseSource.subsets` sorts its members
        return self.sampling == "full" or (self.sampling == "without-replacement" and few)

    @property
    def divisor(self) -> float:
        """What a sum is divided by: b, and with allocation n / t, the expected size. Public."""
        return self.population / self.epoch if self.epoch else self.size

    def guarantee(self, noise_multiplier: float, queries: int) -> Guarantee:
        """Of answers with noise noise_multiplier times sensitivity; a begun epoch counts whole."""
        return _guarantee(self, noise_multiplier, queries)

    def draw(
        self, source: NoiseSource, records: int, count: int
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
        """Batches of the `records` that are there: indices (count, b), and a 0/1 mask of the same
        shape where their sizes are random. With allocation they are whole epochs.
        """
        if self.sampling == "full" or count == 0:
            return None, None
        public = self.size, self.population, self.epoch
        return batches_of(self.sampling, source, records, count, *public)


@lru_cache(maxsize=4096)
def _guarantee(batches: Batches, noise_multiplier: float, queries: int) -> Guarantee:
    if batches.replaced:
        removed = dataclasses.replace(batches, replaced=False)
        return privacy.replace_one(removed.guarantee(noise_multiplier, queries))
    if noise_multiplier <= 0.0:
        return privacy.none()
    if queries == 0:
        return privacy.gaussian(noise_multiplier).repeat(0)
    n, b, how = batches.population, batches.size, batches.sampling
    if how == "full":
        return privacy.gaussian(noise_multiplier, queries)
    if how == "allocation":
        t = batches.epoch
        return privacy.allocated_gaussian(noise_multiplier, steps=t, epochs=-(-queries // t))
    return privacy.subsampled_gaussian(
        noise_multiplier, population=n, batch_size=b, steps=queries, sampling=how
    )


class NoisyGradient(eqx.Module):
    """The mean of clipped per-record gradients, with Gaussian noise. See the head of this file.

    Guarantee:
        `guarantee(k)` for k answers, each with fresh noise and a fresh batch.
    """

    if not TYPE_CHECKING:
        # Plain bound methods, which nothing takes for a tree of numbers: a module's own take as
        # long as a small step, at every access.
        __getattribute__ = object.__getattribute__

    clip: float  # C, the largest norm of one record's contribution; inf in a run not private
    sigma: float  # standard deviation of the noise per orthonormal coordinate of the mean
    noise_multiplier: float  # sigma / sensitivity, rounded down; 0 without noise
    batches: Batches = eqx.field(static=True)
    # sigma in steps of the grid of the mean; None: noise in float64
    scale: float | None = eqx.field(default=None, kw_only=True)

    @classmethod
    def calibrated(
        cls, clip: float, batches: Batches, noise_multiplier: float, noise_std: float | None = None
    ) -> NoisyGradient:
        """With the sigma of a multiplier, rounded up, or with a given sigma and its multiplier,
        rounded down: the guarantee never assumes more noise than there is.
        """
        sensitivity = batches.clips * clip / batches.divisor
        if noise_std is not None:
            multiplier = math.nextafter(noise_std / sensitivity, 0.0) if noise_std > 0 else 0.0
            return cls(clip, noise_std, multiplier, batches)
        sigma = math.nextafter(noise_multiplier * sensitivity, math.inf)
        return cls(clip, sigma if noise_multiplier > 0 else 0.0, noise_multiplier, batches)

    def as_kind(self, kind: type[NoisyGradient]) -> NoisyGradient:
        """The same numbers in another class: audits plant their faults in one."""
        if kind is type(self):
            return self
        return kind(self.clip, self.sigma, self.noise_multiplier, self.batches, scale=self.scale)

    def on_lattice(self) -> Self:
        """The same query with integer noise, unless there is hardly any noise."""
        scale = scale_of(self.noise_multiplier, self.batches.clips)
        return dataclasses.replace(self, scale=scale)

    @property
    def arithmetic(self) -> str:
        """Whether the guarantee holds for the numbers as computed, or for real numbers."""
        whole = self.scale is not None and self.batches.keep_places
        return LATTICE if whole else IDEALISED

    @property
    def sensitivity(self) -> float:
        """Largest change of the mean by one record, in the metric at the point of the query."""
        return self.batches.clips * self.clip / self.batches.divisor

    def noise_size(self, kernel: AbstractKernel) -> int:
        """How many normals one answer takes."""
        return kernel.manifold.noise_size if self.scale is None else kernel.coordinate_count

    def guarantee(self, queries: int) -> Guarantee:
        """The guarantee of this many answers."""
        return self.batches.guarantee(self.noise_multiplier, queries)

    # ------------------------------------------------------------------ the query (compiled code)
    def weights(self, norms: Array, clip: Array | float) -> Array:
        """min(1, clip / norm) for each record; 0 where the gradient is NaN or infinite, and for all
        where the clip norm is so small that the squares in a norm above it could underflow.
        """
        shrunk = jnp.where(norms > clip, clip / jnp.where(norms > 0.0, norms, 1.0), 1.0)
        return jnp.where(jnp.isfinite(norms) & (clip >= SMALLEST_MAGNITUDE), shrunk, 0.0)

    def clipped_sum(
        self,
        kernel: AbstractKernel,
        state: State,
        contributions: tuple[Array, Parts],
        present: Array,
        *,
        center: Frame = None,
        clip: Array | float | None = None,
    ) -> Frame:
        """The sum of per-record contributions, each clipped BEFORE it is added.

        `contributions` are norms of (gradient - center) and parts, as `kernel.gradients` gives
        them. `present` is 1 for records of the batch and 0 for padding, and for records of
        people the share of each in its person. `clip` is a public clip
        norm in the place of `self.clip`.
        """
        norms, parts = contributions
        weights = self.weights(norms, self.clip if clip is None else clip) * present
        return kernel.combine(state, parts, weights, center)

    def integer_sum(
        self,
        coordinates: Array,
        present: Array,
        *,
        clip: Array | float | None = None,
        sigma: Array | float | None = None,
    ) -> Array:
        """The sum of per-record coordinates (n, dim), clipped, in steps of the grid: int64 (dim,).

        A record's whole numbers have length at most clip / grid times its entry of `present`, by
        the rounding of a norm and of three products within `slack`, and by truncation. `clip` and
        `sigma` are public numbers in the place of the query's own.
        """
        assert self.scale is not None
        grid = (self.sigma if sigma is None else sigma) * self.batches.divisor / self.scale
        slack = 1e-12 + coordinates.shape[1] * 2.0**-52
        clip = (self.clip if clip is None else clip) * (1.0 - slack)
        lengths = jnp.sqrt(jnp.sum(coordinates**2, axis=1))
        weights = (self.weights(lengths, clip) * present)[:, None]
        # A record of weight 0 may hold NaN.
        whole = jnp.where(weights != 0.0, jnp.trunc(weights / grid * coordinates), 0.0)
        return exact_sum(whole)

    def sum_of(
        self, kernel: AbstractKernel, state: State, batch: Batch, present: Array, center: Frame
    ) -> Frame:
        """The clipped sum over a batch; of people, that of the means of their clipped records."""
        batch, present = unfolded(batch, present)
        if self.scale is not None:
            return self.integer_sum(kernel.coordinates(state, batch, center), present)
        contributions = kernel.gradients(state, batch, center)
        return self.clipped_sum(kernel, state, contributions, present, center=center)

    def sum_of_all(
        self, kernel: AbstractKernel, state: State, data: Batch, chunk: int, center: Frame
    ) -> Frame:
        """The clipped sum over all records, `chunk` at a time: memory does not grow with n."""
        return over_chunks(
            data, chunk, lambda part, present: self.sum_of(kernel, state, part, present, center)
        )

    def answer(
        self,
        kernel: AbstractKernel,
        state: State,
        total: Frame,
        normals: Array,
        *,
        center: Frame = None,
        sigma: Array | float | None = None,
    ) -> Frame:
        """center + total / b + sigma N. The denominator is public (n, or the expected batch size).

        On the lattice `total` and `normals` are integers, added exactly (or modulo 2^64); all after
        that is a function of their sum and of public numbers. Else total and noise are projected
        together: after the clip, what rounding left of normal parts has the size 1e-16 C. Every
        tangent direction of the total gets noise.
        """
        scale = self.sigma if sigma is None else sigma
        if self.scale is not None:
            noisy = kernel.from_coordinates(state, (total + normals) * (scale / self.scale))
            return noisy if center is None else jax.tree.map(jnp.add, noisy, center)
        noise = kernel.noise(state, normals)
        noisy = jax.tree.map(lambda g, e: g / self.batches.divisor + scale * e, total, noise)
        noisy = kernel.project(state, noisy)
        return noisy if center is None else jax.tree.map(jnp.add, noisy, center)


def exact_sum(whole: Array) -> Array:
    """The sum of rows of whole numbers up to 2^32, in float64, as int64. So many rows add without
    rounding in any order; more are added modulo 2^64, which loses nothing either.
    """
    if whole.shape[0] > _EXACT_ROWS:
        whole = whole.astype(jnp.int64)
    return jnp.sum(whole, axis=0).astype(jnp.int64)


# ------------------------------------------------------- the noise and the batches of these queries
class Query(NamedTuple):
    """Some answers of a `NoisyGradient`: how many are charged, and for how many noise is drawn."""

    gradient: NoisyGradient
    charged: int
    drawn: int


class Randomness(NamedTuple):
    """Host-drawn randomness of some answers: standard normals (on the lattice round(scale N)),
    batch indices and their mask.
    """

    normals: NDArray[np.float64] | NDArray[np.int64]
    indices: NDArray[np.int64] | None
    mask: NDArray[np.float64] | None


def guarantee_of(queries: Sequence[Query]) -> Guarantee:
    """The composed guarantee of the charged answers."""
    first, *others = (query.gradient.guarantee(query.charged) for query in queries)
    return first.compose(*others)


@dataclass(frozen=True)
class PrivateDraws:
    """Draws the randomness of a run, and charges it first: spend, then show."""

    source: NoiseSource
    account: Account  # who pays
    planned: Guarantee  # of the whole run, fixed before its first answer
    noise_size: int  # normals of one noise vector
    records: int  # how many there are
    repetitions: int | None = None  # independent runs at once (None: one), for audits
    helper: Executor | None = None  # a thread that draws half of a large request

    def take(self, queries: Sequence[Query], note: Callable[[], None]) -> list[Randomness]:
        """Pay for the guarantee, `note` it (in a checkpoint), then draw."""
        self.account.pay(guarantee_of(queries), self.planned)
        note()
        drawn: list[Randomness] = []
        for query in queries:
            rows, gradient = query.drawn * (self.repetitions or 1), query.gradient
            size, normals = (rows, self.noise_size), np.zeros((rows, self.noise_size))
            if gradient.scale is not None:
                normals = self.source.rounded_normals(gradient.scale, size, self.helper)
            elif rows > 0 and gradient.sigma > 0:
                normals = self.source.normals(size)
            batches = gradient.batches.draw(self.source, self.records, rows)
            drawn.append(Randomness(normals, *batches))
        return drawn
