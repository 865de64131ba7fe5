"""`SharedSum`: noise that several parties share, for a sum of which nobody sees the terms.

To check the privacy of such a sum, read this file, `whole_sum` of
`optimizers/_records.py`, and `federated/_secure_sum.py`:

1. every record of a party becomes a vector, which is clipped to the length C and cut to whole
   steps of a public grid g, towards 0; a party's k_j is the sum of these integers. So one record
   moves it by at most 2 C / g, and nothing is rounded in a sum;
2. the party adds a share of the noise, discrete Gaussian integers of variance s^2, and then a mask
   that hides the result from everybody (`federated/_secure_sum.py`);
3. the masks cancel in the sum over the parties, and only there. The shares of J - q parties that
   are present and keep their secrets have the variance (J - q) s^2, which is what the guarantee is
   made for. With all J present the sum has the standard deviation sqrt(J / (J - q)) sigma.

The sum of the shares is, but for a factor within 1e-120 of 1 in every probability, a function of
k + N(0, (J - q) s^2 - 16) with ideal real noise, so it costs what a Gaussian release costs.
Proof: docs/proofs/secure-sums.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .._errors import integer, invalid, magnitude, real
from .._isolation import isolated
from .._namespace import Floats
from .._trees import map_leaves
from ..manifolds._base import AbstractManifold, Point, Tangent
from ..optimizers._account import Account
from ..optimizers._checks import check_data
from ..optimizers._kernels import gradient_function
from ..optimizers._people import MOST, People
from ..optimizers._records import PrivateRecords, whole_sum
from ..privacy import Guarantee, gaussian
from ..problems._problem import Problem
from ..randomness import NoiseSource
from ..randomness._rounded import MOST_SCALE, REACH, scale_up
from ._prirfed import PriRFed

Integers = NDArray[np.int64]
WORD = 64  # bits of a coordinate: sums are modulo 2^64
MOST_RECORDS = 1 << 24  # of one site, or people: what no sum over sites overflows by

_FINEST, _COARSEST = 2.0**32, 2.0**10  # steps of the grid that one record moves a sum by
_ROUNDING_VARIANCE = 16.0  # of what makes integers of a real normal vector: r = 4
_FACTOR = 1e-9  # relative room in the noise multiplier for factors close to 1
_MOST_MU = 40.0  # up to here that room is enough, in every dimension up to the next number
_MOST_COORDINATES = 10**9
_ULPS = 4e-15


@dataclasses.dataclass(frozen=True)
class SharedSum:
    """On what grid J parties count, and how they noise their integers, so that the sum of all is
    private.

    Everything here is public, and a function of the arguments: all parties compute the same.

    Args:
        parties: J, how many there are.
        tolerated: q, how many of them may be missing from a sum, or collude with who looks at it,
            from 0 to J - 1. With q = 0 the guarantee does not hold against the other parties: each
            knows its own share of the noise.
        dim: How many coordinates the vectors have.
        sensitivity: How far one record can move the sum, in the Euclidean norm of coordinates. No
            record's own vector is longer.
        noise_multiplier: z, of the noise that is left when q parties are missing.

    Raises:
        InvalidArgument: Naming the argument.

    Guarantee:
        `gaussian(noise_multiplier)` for one sum, replace-one, against everyone who sees all
        messages, under `assumes`. Sums compose.

    Source:
        Kairouz, Liu and Steinke 2021 (sums of discrete Gaussians); Peikert 2010, Theorem 3.1
        (discrete Gaussians as rounded continuous ones).
        Proof: docs/proofs/secure-sums.md.
    """

    parties: int
    tolerated: int
    dim: int
    sensitivity: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        integer("parties", self.parties)
        integer("tolerated", self.tolerated, at_least=0, at_most=self.parties - 1)
        integer("dim", self.dim, at_most=_MOST_COORDINATES // self.parties)
        magnitude("sensitivity", self.sensitivity)
        real("noise_multiplier", self.noise_multiplier, at_least=1.0 / _MOST_MU)
        if min(self.moved, self.share) < _COARSEST:
            raise invalid(
                "budget",
                f"with noise multiplier {self.noise_multiplier:.3g}",
                f"words of {WORD} bits hold no sum over {self.parties} sites with such noise; give"
                " another budget, or fewer sites",
            )

    @property
    def enough(self) -> int:
        """J - q, how many parties a sum must have."""
        return self.parties - self.tolerated

    @functools.cached_property
    def exponent(self) -> int:
        """The grid is two to this power: as fine as it may be, so that the records of all parties
        come to at most 2^61 steps, and the shares of all to as many.
        """
        noise = min(MOST_SCALE, 2.0**58 / self.parties) / 2.0  # of a share, and scaled up
        steps = min(
            _FINEST,
            2.0**61 / (MOST_RECORDS * self.parties),
            noise * math.sqrt(self.enough) / self.noise_multiplier,
        )
        return math.frexp(self.sensitivity / steps)[1]

    @property
    def grid(self) -> float:
        """Its step."""
        return math.ldexp(1.0, self.exponent)

    @property
    def moved(self) -> float:
        """By how many steps of the grid one record can move the sum, in the Euclidean norm."""
        return math.ldexp(self.sensitivity, -self.exponent)

    @functools.cached_property
    def share(self) -> float:
        """s, the scale of one party's share of the noise, in steps of the grid."""
        variance = (self.noise_multiplier * (1.0 + 2.0 * _FACTOR) * self.moved) ** 2
        return scale_up(math.sqrt((variance + _ROUNDING_VARIANCE) / self.enough) * (1.0 + _ULPS))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in each coordinate of the sum, that is there whatever q
        parties do.
        """
        return math.ldexp(self.share * math.sqrt(self.enough), self.exponent)

    def sigma_of(self, present: int) -> float:
        """The same of a sum of this many parties, as everybody but they sees it."""
        return math.ldexp(self.share * math.sqrt(present), self.exponent)

    @property
    def assumes(self) -> str:
        """What the guarantee rests on, in words."""
        if self.tolerated == 0:
            who = f"all {self.parties} sites are in every sum and none discloses its secrets"
        else:
            who = (
                f"of the {self.parties} sites at most {self.tolerated} are missing from a sum or"
                " disclose their secrets"
            )
        return f"{who}, and secure aggregation (X25519, HKDF, ChaCha20) is not broken"

    @property
    def guarantee(self) -> Guarantee:
        """Of one sum."""
        return gaussian(self.noise_multiplier).assuming(self.assumes)

    # ---------------------------------------------------------------- one party
    def noise(self, source: NoiseSource) -> Integers:
        """One party's share of the noise, in steps of the grid, once `guarantee` was charged.

        A vector with it must not leave the party but under a mask: a share is sqrt(J - q) times
        smaller than what the guarantee needs.
        """
        return source.discrete_gaussians(self.share, self.dim)

    # ---------------------------------------------------------------- the sum
    def largest(self, norm: float) -> float:
        """No coordinate of a sum is larger, in steps, where no sum of values is longer than `norm`:
        a share reaches 13 scales and half a step.
        """
        return norm / self.grid * (1.0 + 1e-9) + self.parties * (REACH * self.share + 1.0)

    def value(self, total: Integers, norm: float) -> Floats | None:
        """The sum as real numbers, or None where it is no sum of such vectors: a mask was left.

        Args:
            total: The sum of what the parties sent, modulo 2^64, as signed integers.
            norm: An upper bound of the length of the sum of all values.
        """
        if np.any(np.abs(total.astype(np.float64)) > self.largest(norm)):
            return None
        return np.ldexp(total.astype(np.float64), self.exponent)


def check_count(name: str, n: int) -> int:
    """The public number of a site's records, or people, where sums over sites hold so many."""
    if n > MOST_RECORDS:
        raise invalid(name, n, f"a sum over sites holds {MOST_RECORDS} of each site; give fewer")
    return n


# ------------------------------------------------------------------------------------ at the site
@dataclasses.dataclass(frozen=True, eq=False)
class Belonging:
    """Records of people.

    Attributes:
        records: Along the first axis.
        groups: One label of a person for each record. Private.
        places: How many records of one person are used; public.
    """

    records: Any
    groups: Any
    places: int = MOST


@isolated
def noisy_sum(
    prirfed: PriRFed,
    shared: SharedSum,
    own: Any,
    point: Point,
    account: Account,
    source: NoiseSource,
) -> Integers:
    """A site's clipped gradients, summed, on the grid, with its share of the noise. That share is
    sqrt(J - q) times smaller than the guarantee needs, so this leaves the site under masks only.
    With `Belonging` people take the place of records. One round is paid before noise is drawn.

    Raises:
        BudgetExceeded: Before anything is drawn.

    Guarantee:
        Under masks, `shared.guarantee` for everyone who sees all messages, replace-one, under what
        it assumes. Proof: docs/proofs/secure-sums.md.
    """
    people = own if isinstance(own, Belonging) else None
    records: Any = own if people is None else people.records
    data, n = check_data(prirfed.problem, records)
    account.of_people |= people is not None
    if people is not None:
        grouped = People(data, n, people.groups, people.places)
        account.check(shared.guarantee)  # before the choice of records is drawn
        data = grouped.drawn(source)
    steps = summed_gradients(prirfed, shared, data, point)
    account.pay(shared.guarantee)
    return steps + shared.noise(source)


def summed_gradients(prirfed: PriRFed, shared: SharedSum, data: Any, point: Point) -> Integers:
    """The sum of the clipped gradients of a site's records, or people, in whole steps: private."""
    problem, records, center = prirfed.problem, PrivateRecords(data), np.zeros(shared.dim)
    if prirfed.local.is_confined:
        assert problem.ball is not None
        records = records.inside(problem.ball.on(problem.manifold))
        center = center_gradient(problem, point)
    steps = np.zeros(shared.dim, dtype=np.int64)
    for some, present in records.blocks(records.chunk(None)):
        y = _gradients(problem.manifold, gradient_function(problem), point, some)
        steps += np.asarray(whole_sum(np.asarray(y) - center, present, prirfed.clip, shared.grid))
    return steps


def center_gradient(problem: Problem, point: Point) -> Floats:
    """Coordinates (dim,) at `point` of the gradient of the centre of the problem's ball, about
    which gradients are clipped. Public; 0 where it is not finite.
    """
    assert problem.ball is not None
    center = problem.ball.on(problem.manifold).center
    one = map_leaves(lambda leaf: np.asarray(leaf)[None], center)
    y = np.asarray(_gradients(problem.manifold, gradient_function(problem), point, one)[0])
    return np.where(np.all(np.isfinite(y)), y, 0.0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _gradients(
    manifold: AbstractManifold,
    gradient: Callable[[Point, Any], Tangent],
    point: Point,
    records: Any,
) -> Array:
    """Coordinates (n, dim), in the orthonormal frame of the point, of each record's gradient."""

    def coordinates(record: Any) -> Array:
        tangent = manifold._to_tangent(point, gradient(point, record))
        return jnp.asarray(manifold._to_coordinates(point, tangent))

    return jax.vmap(coordinates)(records)
