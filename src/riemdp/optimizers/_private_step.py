"""Where gradients of records become private: the one file of a private step. To check DP-RGD and
DP-RSGD read it and `_kernels` (gradients and their coordinates); `_batches` draws batches of random
size.

A `NoisyGradient` is a query of known sensitivity. Its answer is

    center + (1 / b) project(sum_i clip_C(project(grad f(w; z_i)) - center)) + sigma N_w

over all n records or over a fresh, secret batch of b. `center` is 0 or a public tangent vector, b
is public, and N_w is the standard Gaussian of the tangent space at w. Whatever the records, the
point w and the public constants of the problem are, one record changes the sum by at most

    replace-one: 2 C (two vectors of norm at most C);
    add-or-remove-one (Poisson; allocation, in the one step of an epoch that holds it): C.

The noise is z times that, over b. A public length `unit` scales clip norm and noise together, so
that z stays what it is: a clip norm found on the way, or a bound about an anchor.

Every query works in coordinates that are orthonormal up to rounding and depend on w alone. On the
lattice (`NoisyGradient.scale` is a number) the bound holds for the numbers as computed. Each
record's gradient is clipped as a vector of float64 coordinates, counted in units of
g = sigma b / scale, and cut to whole numbers, towards 0 (`whole_sum` of `_records`): no coordinate
grows, so the integer vector has length at most C / g, whatever was rounded before. Integers add
exactly. The noise is round(scale N), whole numbers too, so an answer is a function of the Gaussian
mechanism on a sum of integer vectors. Proof: docs/proofs/optimisers.md. Without a `scale` the
query is "idealised": the same sum in float64, with float64 noise.

Records are `PrivateRecords` from a run's first check on, which `_records` alone opens. The
optimisers and the agents of a federated run with noise of their own issue these queries, and what
they do with the answers is post-processing. Queries made of them: with a clip norm found on the
way, `_adaptive_clip`; about an anchor, `_variance_reduced`; of people, `_people`. A sum over
sites is made of the same integers (`whole_sum`); its noise is drawn in `federated/_shared_sum`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Array, PyTree
from numpy.typing import NDArray

from .. import privacy
from .._programs import traced
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import IDEALISED, LATTICE
from ..problems._problem import Batch
from ..randomness import NoiseSource
from ._account import Account
from ._batches import batches_of
from ._kernels import AbstractKernel, Frame, State, combined, lengths
from ._records import PrivateRecords, weights_of, whole_sum
from ._steps import AbstractStep, Anchor, Carry, Row

FINENESS = 32  # a clip norm is about so many powers of two in units of the grid
_MOST_FINE = 41  # a standard deviation is at most so many: what the source of integers takes
_LEAST_NOISE = 2.0**-10  # of a sensitivity: a multiplier below it protects nobody
_UP = 1.0 + 1e-12  # more noise than z says, for what products and quotients of it round


# ------------------------------------------------------ which records a step reads, and the cost
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
        """By how many clip norms one record changes the sum: a record that is replaced, or, where
        batches have a random size, one more or less.
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

    def multiplier(self, budget: Budget, queries: int) -> float:
        """The noise multiplier of so many answers within a budget."""
        return _multiplier(self, budget, queries)

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


def allocation(n: int, b: int) -> Batches:
    """Epochs of random allocation whose batches have b of n records, or a little fewer."""
    t = math.ceil(n / b)
    return Batches(n, math.ceil(n / t), "allocation", t)


@lru_cache(maxsize=4096)
def _guarantee(batches: Batches, noise_multiplier: float, queries: int) -> Guarantee:
    if batches.replaced:
        removed = dataclasses.replace(batches, replaced=False)
        return privacy.replace_one(removed.guarantee(noise_multiplier, queries))
    if noise_multiplier <= 0.0:
        return privacy.none()
    if queries == 0:
        return privacy.gaussian(noise_multiplier).repeat(0)
    n, b, t, how = batches.population, batches.size, batches.epoch, batches.sampling
    if how == "full":
        return privacy.gaussian(noise_multiplier, queries)
    if how == "allocation":
        return privacy.allocated_gaussian(noise_multiplier, steps=t, epochs=-(-queries // t))
    return privacy.subsampled_gaussian(
        noise_multiplier, population=n, batch_size=b, steps=queries, sampling=how
    )


@lru_cache(maxsize=4096)
def _multiplier(batches: Batches, budget: Budget, queries: int) -> float:
    if batches.replaced:
        less = dataclasses.replace(batches, replaced=False).multiplier(budget, queries)
        return privacy.calibrate(lambda z: batches.guarantee(z, queries), budget, guess=1.9 * less)
    n, b, t, how = batches.population, batches.size, batches.epoch, batches.sampling
    if how == "full":
        return privacy.gaussian_noise_multiplier(budget, queries)
    if how == "allocation":
        return privacy.allocated_gaussian_noise_multiplier(budget, steps=t, epochs=-(-queries // t))
    return privacy.subsampled_gaussian_noise_multiplier(
        budget, population=n, batch_size=b, steps=queries, sampling=how
    )


# ------------------------------------------------------------------------------------- the query
def scale_of(noise_multiplier: float, clips: float) -> float | None:
    """How many steps of the grid a standard deviation has, from public numbers: a power of two, so
    that a clip norm, scale / (noise_multiplier clips) steps, has at most 2^32. None where there is
    hardly any noise.
    """
    if noise_multiplier < _LEAST_NOISE:
        return None
    most = math.frexp(noise_multiplier * clips)[1] - 1  # the power of two below the product
    return math.ldexp(1.0, min(FINENESS + most, _MOST_FINE))


@traced("batches")
class NoisyGradient:
    """The mean of clipped per-record gradients, with Gaussian noise. See the head of this file.

    Guarantee:
        `guarantee(k)` for k answers, each with fresh noise and a fresh batch.
    """

    clip: float | None  # C, the largest norm of one record's contribution; None: not private
    noise_multiplier: float  # z: sigma / sensitivity, or a hair less; 0 without noise
    batches: Batches
    # sigma in steps of the grid of the mean; None: noise in float64
    scale: float | None = field(default=None, kw_only=True)

    @classmethod
    def of_sigma(cls, clip: float, batches: Batches, sigma: float) -> NoisyGradient:
        """With a given standard deviation: z is rounded down, so that the guarantee never assumes
        more noise than there is.
        """
        sensitivity = batches.clips * clip / batches.divisor
        return cls(clip, math.nextafter(sigma / (_UP * sensitivity), 0.0), batches)

    def as_kind(self, kind: type[NoisyGradient]) -> NoisyGradient:
        """The same numbers in another class: audits plant their faults in one."""
        if kind is type(self):
            return self
        return kind(self.clip, self.noise_multiplier, self.batches, scale=self.scale)

    def on_lattice(self) -> Self:
        """The same query with integer noise, unless there is hardly any noise."""
        scale = scale_of(self.noise_multiplier, self.batches.clips)
        return dataclasses.replace(self, scale=scale)  # type: ignore[type-var]

    @property
    def arithmetic(self) -> str:
        """Whether the guarantee holds for the numbers as computed, or for real numbers."""
        whole = self.scale is not None and self.batches.keep_places
        return LATTICE if whole else IDEALISED

    @property
    def sensitivity(self) -> float:
        """Largest change of the mean by one record, in the metric at the point of the query."""
        if self.clip is None:
            return math.inf
        return self.batches.clips * self.clip / self.batches.divisor

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise per orthonormal coordinate of the mean."""
        return 0.0 if self.clip is None else _UP * self.noise_multiplier * self.sensitivity

    def noise_size(self, kernel: AbstractKernel) -> int:
        """How many normals one answer takes."""
        return kernel.coordinate_count

    def guarantee(self, queries: int) -> Guarantee:
        """The guarantee of this many answers."""
        return self.batches.guarantee(self.noise_multiplier, queries)

    # ------------------------------------------------------------------ the query (compiled code)
    weights = staticmethod(weights_of)  # where audits plant faults

    def limit(self, unit: Array | float) -> Array | float | None:
        """The clip norm in a public unit of length."""
        return None if self.clip is None else self.clip * unit

    def integer_sum(
        self, coordinates: Array, present: Array, *, unit: Array | float = 1.0
    ) -> Array:
        """The sum of per-record coordinates (n, dim), clipped, in steps of the grid."""
        assert self.scale is not None
        assert self.clip is not None
        grid = self.sigma * unit * self.batches.divisor / self.scale
        return whole_sum(coordinates, present, self.clip * unit, grid, self.weights)

    def total_of(self, coordinates: Array, present: Array, *, unit: Array | float = 1.0) -> Array:
        """The sum of per-record coordinates (n, dim), each clipped BEFORE it is added: on the
        lattice in steps of the grid.

        `present` is 1 for records of the batch and 0 for padding, and for records of people the
        share of each in its person.
        """
        if self.scale is not None:
            return self.integer_sum(coordinates, present, unit=unit)
        weights = self.weights(lengths(coordinates), self.limit(unit)) * present
        return combined(coordinates, weights)

    def sum_of(
        self,
        kernel: AbstractKernel,
        state: State,
        batch: Batch,
        present: Array,
        center: Array | None,
    ) -> Array:
        """The clipped sum over records; of people, whose shares are in `present`, that of the means
        of their clipped records.
        """
        if self.scale is None and not kernel.has_quick_coordinates:
            assert center is None
            total, _ = kernel.weighted_sum(
                state, batch, lambda norms: self.weights(norms, self.clip) * present
            )
            return total
        y = kernel.coordinates(state, batch)
        return self.total_of(y if center is None else y - center, present)

    def answer(
        self,
        kernel: AbstractKernel,
        state: State,
        total: Array,
        normals: Array,
        *,
        center: Array | None = None,
        unit: Array | float = 1.0,
    ) -> Frame:
        """center + total / b + sigma N. The denominator is public (n, or the expected batch size).

        On the lattice `total` and `normals` are integers, added exactly (or modulo 2^64); all after
        that is a function of their sum and of public numbers. `from_coordinates` leaves out what is
        normal to the space; every tangent direction of the total gets noise.
        """
        sigma = self.sigma * unit
        if self.scale is not None:
            y = (total + normals) * (sigma / self.scale)
        else:
            y = total / self.batches.divisor + sigma * normals
        return kernel.from_coordinates(state, y if center is None else y + center)

    # ------------------------------------------------- the same, of a step that carries a clip norm
    def asked(
        self, kernel: AbstractKernel, carry: Carry, batch: Batch, present: Array, about: Any, t: Any
    ) -> PyTree[Array]:
        """What some records add to the total of an answer; the total of all is their sum."""
        return self.sum_of(kernel, carry.state, batch, present, about)

    def answered(
        self, kernel: AbstractKernel, carry: Carry, total: PyTree[Array], about: Any, row: Row
    ) -> tuple[Frame, Any]:
        """The private direction made from a total, and the clip norm's range after it."""
        return self.answer(kernel, carry.state, total, row.normals, center=about), carry.clip


# -------------------------------------------------------------------------------------- the step
@traced("kernel", "chunk")
class GradientStep(AbstractStep):
    """The step of DP-RGD and DP-RSGD: one answer of a noisy gradient, on the row's batch or on all
    records.
    """

    kernel: AbstractKernel
    gradient: NoisyGradient
    chunk: int
    center: Any = None  # a public record (a batch of one), about whose gradient is clipped

    def direction(
        self, state: State, anchor: Anchor | None, data: PrivateRecords, row: Row
    ) -> Frame:
        return self.query(Carry(state), anchor, data, row)[0]

    def query(
        self, carry: Carry, anchor: Anchor | None, data: PrivateRecords, row: Row
    ) -> tuple[Frame, Any]:
        about = self.about(carry.state)
        total = data.total(row, self.chunk, partial(self.sums, carry, about, row.step))
        return self.gradient.answered(self.kernel, carry, total, about, row)

    def about(self, state: State) -> Array | None:
        """Coordinates of the public vector about which gradients are clipped; None for 0."""
        return None if self.center is None else self.kernel.public_gradient(state, self.center)

    def sums(
        self, carry: Carry, about: Any, step: Any, part: Batch, present: Array
    ) -> PyTree[Array]:
        """What some records add to the total of an answer."""
        return self.gradient.asked(self.kernel, carry, part, present, about, step)


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

    def take(self, queries: Sequence[Query], note: Callable[[], None]) -> list[Randomness]:
        """Pay for the guarantee, `note` it, then draw."""
        self.account.pay(guarantee_of(queries), self.planned)
        note()
        drawn: list[Randomness] = []
        for query in queries:
            rows, gradient = query.drawn * (self.repetitions or 1), query.gradient
            size, normals = (rows, self.noise_size), np.zeros((rows, self.noise_size))
            if gradient.scale is not None:
                normals = self.source.rounded_normals(gradient.scale, size)
            elif rows > 0 and gradient.sigma > 0:
                normals = self.source.normals(size)
            batches = gradient.batches.draw(self.source, self.records, rows)
            drawn.append(Randomness(normals, *batches))
        return drawn
