"""`SharedSum`: noise that several parties share, for a sum of which nobody sees the terms.

To check the privacy of such a sum, read this file and `federated/_secure_sum.py`:

1. every party rounds its own vector v_j to a public grid, k_j = v_j / g to the nearest integers;
2. it adds a share of the noise, discrete Gaussian integers of variance s^2, and then a mask that
   hides the result from everybody (`federated/_secure_sum.py`);
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import integer, invalid, magnitude, real
from .._isolation import isolated
from ..manifolds._base import Point
from ..mechanisms._common import Floats
from ..optimizers._account import Account
from ..optimizers._checks import check_data
from ..optimizers._clipped_sum import center_gradient, clipped_sum
from ..optimizers._kernels import repaired
from ..optimizers._people import MOST, People
from ..optimizers._plan import plan_optimizer
from ..privacy import Guarantee, gaussian
from ..randomness import NoiseSource
from ..randomness._rounded import MOST_SCALE, REACH, scale_up
from ._prirfed import PriRFed

Integers = NDArray[np.int64]
WORD = 64  # bits of a coordinate: sums are modulo 2^64

_FINENESS = 1024.0  # of the grid: rounding costs at most this part of the sensitivity
_ROUNDING_VARIANCE = 16.0  # of what makes integers of a real normal vector: r = 4
_FACTOR = 1e-9  # relative room in the noise multiplier for factors close to 1
_MOST_MU = 40.0  # up to here that room is enough, in every dimension up to the next number
_MOST_COORDINATES = 10**9
_ULPS = 4e-15


@dataclasses.dataclass(frozen=True)
class SharedSum:
    """How J parties round and noise their vectors, so that the sum of all is private.

    Everything here is public, and a function of the arguments: all parties compute the same.

    Args:
        parties: J, how many there are.
        tolerated: q, how many of them may be missing from a sum, or collude with who looks at it,
            from 0 to J - 1. With q = 0 the guarantee does not hold against the other parties: each
            knows its own share of the noise.
        dim: How many coordinates the vectors have.
        sensitivity: How far one record can move the sum, in the Euclidean norm of coordinates.
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
        if not self.share <= MOST_SCALE:
            raise invalid(
                "budget",
                f"with noise multiplier {self.noise_multiplier:.3g}",
                f"a grid of {self.dim} coordinates is too coarse for so much noise; give a larger"
                " budget",
            )

    @property
    def enough(self) -> int:
        """J - q, how many parties a sum must have."""
        return self.parties - self.tolerated

    @functools.cached_property
    def exponent(self) -> int:
        """The grid is two to this power: at most sigma / (1024 sqrt J), and so fine that rounding
        costs at most 1 / 1024 of the sensitivity.
        """
        finest = min(
            self.noise_multiplier * self.sensitivity / math.sqrt(self.parties),
            self.sensitivity / math.sqrt(self.dim),
        )
        return math.frexp(finest / _FINENESS)[1] - 1

    @functools.cached_property
    def share(self) -> float:
        """s, the scale of one party's share of the noise, in steps of the grid."""
        moved = math.ldexp(self.sensitivity, -self.exponent) + math.sqrt(self.dim)
        variance = (self.noise_multiplier * (1.0 + 2.0 * _FACTOR) * moved) ** 2
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
            who = f"all {self.parties} sites are in every sum and share their secrets with nobody"
        else:
            who = (
                f"of the {self.parties} sites at most {self.tolerated} are missing from a sum or"
                " share their secrets with somebody"
            )
        return f"{who}, and the masks of secure sums (X25519, HKDF, ChaCha20) are not broken"

    @property
    def guarantee(self) -> Guarantee:
        """Of one sum."""
        return gaussian(self.noise_multiplier).assuming(self.assumes)

    # ---------------------------------------------------------------- one party
    def integers(self, values: Floats) -> Integers:
        """One party's vector on the grid; a coordinate that is not a number counts as 0."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (self.dim,):
            raise invalid("values", values.shape, f"one vector has the shape ({self.dim},)")
        with np.errstate(over="ignore"):
            steps = np.rint(np.ldexp(np.where(np.isnan(values), 0.0, values), -self.exponent))
        # Moving coordinates to an interval takes no two of them farther apart.
        most = 2.0 ** (WORD - 3) / self.parties
        return np.clip(steps, -most, most).astype(np.int64)

    def noise(self, source: NoiseSource) -> Integers:
        """One party's share of the noise, in steps of the grid, once `guarantee` was charged.

        A vector with it must not leave the party but under a mask: a share is sqrt(J - q) times
        smaller than what the guarantee needs.
        """
        return source.discrete_gaussians(self.share, self.dim)

    # ---------------------------------------------------------------- the sum
    def largest(self, norm: float) -> float:
        """No coordinate of a sum is larger, in steps, where no sum of values is longer than `norm`:
        a share reaches 13 scales, and rounding half a step.
        """
        steps = math.ldexp(norm, -self.exponent) * (1.0 + 1e-9)
        return steps + self.parties * (REACH * self.share + 1.0)

    def value(self, total: Integers, norm: float) -> Floats | None:
        """The sum as real numbers, or None where it is no sum of such vectors: a mask was left.

        Args:
            total: The sum of what the parties sent, modulo 2^64, as signed integers.
            norm: An upper bound of the length of the sum of all values.

        Raises:
            InvalidArgument: The bound is too large for sums modulo 2^64.
        """
        limit = self.largest(norm)
        if limit > 2.0 ** (WORD - 2):
            raise invalid("norm", norm, "too large for a secure sum; use a smaller clip norm")
        if np.any(np.abs(total.astype(np.float64)) > limit):
            return None
        return np.ldexp(total.astype(np.float64), self.exponent)


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

    Args:
        prirfed: The agreed run.
        shared: `plan_shared` of it, made at the site.
        own: The site's records, along the first axis; with `Belonging` people take their place.
        point: The point of the round, as `admit_current` gave it.
        account: Pays for one round before noise is drawn.
        source: What this site draws from.

    Raises:
        BudgetExceeded: Before anything is drawn.

    Guarantee:
        Under masks, `shared.guarantee` for everyone who sees all messages, replace-one, under what
        it assumes.

    Source:
        Proof: docs/proofs/secure-sums.md.
    """
    people = own if isinstance(own, Belonging) else None
    records: Any = own if people is None else people.records
    data, n = check_data(prirfed.problem, records)
    account.of_people |= people is not None
    if people is not None:
        grouped = People(data, n, people.groups, people.places)
        account.check(shared.guarantee)  # before the choice of records is drawn
        data = grouped.drawn(source)
    centered = prirfed.local.is_confined
    values = clipped_sum(prirfed.problem, data, point, prirfed.clip, centered=centered)
    steps = shared.integers(values)
    account.pay(shared.guarantee)
    return steps + shared.noise(source)


# ---------------------------------------------------------------------------------- at the server
@isolated
def moved(
    prirfed: PriRFed, shared: SharedSum, current: Point, total: Integers, records: int
) -> Point | None:
    """The next point, one step along the noisy mean of all gradients, or None where the words that
    came have no sum: some party used other masks.

    Args:
        prirfed: The agreed run.
        shared: `plan_shared` of it.
        current: The point of the round.
        total: The sum of the words of all members of the roster.
        records: How many records these sites have together; public.

    Returns:
        A finite point of the space, or None. Post-processing of the sum.
    """
    problem, local = prirfed.problem, prirfed.local
    ball = problem.ball if local.is_confined else None
    coordinates = shared.value(total, records * prirfed.clip)
    if coordinates is None:
        return None
    mean = coordinates / records
    if ball is not None:
        mean = mean + center_gradient(problem, current)
    plan: Any = plan_optimizer(problem, records, local, None, noise_std=shared.sigma)
    manifold = problem.manifold
    step = manifold.from_coordinates(current, -float(plan.rates[0]) * mean)
    carry = manifold.exp if local.update == "exp" else manifold.retract
    point = repaired(manifold, carry(current, step))
    if ball is not None:
        point = ball.on(manifold).clamp_point(point)
    return point if bool(manifold.belongs(point, 1e-6)) else None
