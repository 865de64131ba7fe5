"""Whether private means of several samples differ by more than noise and sampling explain: one test
for means that were released together (`private_comparison`) or apart (`two_sample_test`).

Everything here is a function of released numbers. Proof: docs/proofs/comparison.md.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, one_of, real
from ..privacy import Guarantee
from ._distributions import ChiErrors, ErrorDistribution, chi_exceeded
from ._facts import Released
from ._region import OF, Observation
from ._regions import (
    check_mean,
    checked_dispersion,
    known_of,
    same_center,
    same_point,
    subject_in_sample,
)

Floats = NDArray[np.float64]

LEVEL = 0.05  # of the interval of a distance
_SMALLEST = 1e-12  # p-values that are found by bisection are not told below this
_NODES = 200  # of the quadrature of a tail
_FAR = 40.0  # standard deviations beyond which there is no normal number
_ABOVE = 1.645  # standard deviations of the noise that are added to a released variance
_FEW = 3.0  # over n - 1, by which it is made larger for how few records it was estimated from
_NORM = 0.25  # of the norm of the noise of a released covariance that is added to it
_SAME_BALL = "Release both in one ball, or compare their records by private_comparison"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a test of private means found: a function of released numbers, so it costs no privacy.

    Attributes:
        p_value: If the hypothesis is true, the probability that it is at most a is at most a; for
            populations, up to the normal approximation of means.
        statistic: The weighted sum of squared distances of the noisy means from their average; of
            pairs the weighted square of their mean difference.
        degrees: Its degrees of freedom: (number of samples - 1) times the dimension.
        distance: Between the two noisy means that are farthest apart.
        interval: Holds the distance of these two before noise (for populations: before sampling
            too) with probability at least 0.95.
        hypothesis: What was tested, in words.
        exact: Whether the level is exact (up to rounding); otherwise the test is conservative, or
            is about populations.
        reproducible: Whether a release that it rests on was made with a seed: then it is not
            private. With one and the same seed the noise of all is the same, and nothing here
            holds.
        release: The means, their ball, guarantee and charge, where one call made them all.
    """

    p_value: float
    statistic: float
    degrees: int
    distance: float
    interval: tuple[float, float]
    hypothesis: str
    exact: bool
    reproducible: bool
    release: Released | None = dataclasses.field(default=None, repr=False)

    @property
    def guarantee(self) -> Guarantee | None:
        """Of the release that it was made of, if it was one."""
        return None if self.release is None else self.release.guarantee

    def rejects(self, level: float = 0.05) -> bool:
        """Whether the hypothesis is rejected; a true one is with probability at most `level`."""
        return self.p_value <= real("level", level, above=0.0, below=1.0)

    def __str__(self) -> str:
        kind = "exact" if self.exact else "conservative"
        low, high = self.interval
        text = (
            f"p = {self.p_value:.3g} ({kind}) for the hypothesis that {self.hypothesis}; the noisy"
            f" means are {self.distance:.4g} apart (95 %: {low:.4g} to {high:.4g})"
        )
        told = "" if self.guarantee is None else f"; {self.guarantee}"
        seeded = " (made with a seed: not private, and not valid if both have the same)"
        return text + told + (seeded if self.reproducible else "")

    __repr__ = __str__


@dataclasses.dataclass(frozen=True, eq=False)
class SampleMean:
    """The noisy mean of one sample, in coordinates at a point that all samples share.

    Attributes:
        coordinates: (dim,).
        lengths: Distribution of the length of its noise; isotropic.
        slack: Bound of what rounding adds to that.
        variance: A bound of the expected squared length of its sampling error; 0 where the
            hypothesis is about the records themselves.
        covariance: A bound of the covariance of its sampling error; None where only `variance` is
            known.
    """

    coordinates: Floats
    lengths: ErrorDistribution
    slack: float = 0.0
    variance: float = 0.0
    covariance: Floats | None = None

    @property
    def weight(self) -> float:
        """One over the variance of the noise of a coordinate."""
        return len(self.coordinates) / self.lengths.mean_square

    def of_sample(self) -> SampleMean:
        """The same for a hypothesis about the records themselves."""
        return dataclasses.replace(self, variance=0.0, covariance=None)


def variance_above(told: float, deviation: float, n: int, most: float) -> float:
    """A released variance of n records, whose noise has this standard deviation, made larger for
    that noise and for small n; a variance is at most `most`.
    """
    return min(most, max(0.0, told + _ABOVE * deviation) * _enlarged(_FEW, n - 1))


def covariance_above(told: Floats, norm: float, n: int, most: float) -> Floats:
    """A released covariance of n records, whose noise is about `norm` large in the operator norm,
    made larger for that noise and for small n; its eigenvalues are at most `most`.
    """
    values, vectors = np.linalg.eigh(told)
    dim = len(values)
    larger = (np.maximum(values, 0.0) + _NORM * norm) * _enlarged(dim + 2.0, n - dim - 1)
    return (vectors * np.minimum(larger, most)) @ vectors.T


def _enlarged(by: float, freedom: int) -> float:
    return 1.0 + by / freedom if freedom > 0 else math.inf


# ------------------------------------------------------------------ the test
@dataclasses.dataclass(frozen=True, eq=False)
class _Contrast:
    """How far several noisy means lie from their average, weighted by their noise.

    Attributes:
        means: The means.
        root: The root of the weighted sum of squares.
        moved: What an error of one mean, of length 1, adds to the root at most.
    """

    means: Sequence[SampleMean]
    root: float
    moved: Floats

    @classmethod
    def of(cls, means: Sequence[SampleMean]) -> _Contrast:
        weights = np.array([one.weight for one in means])
        # a single mean is compared with 0
        shares = weights / weights.sum() if len(means) > 1 else np.zeros(1)
        y = np.stack([one.coordinates for one in means])
        squares = np.sum((y - shares @ y) ** 2, axis=1)
        return cls(means, math.sqrt(float(weights @ squares)), np.sqrt(weights * (1.0 - shares)))

    @property
    def degrees(self) -> int:
        return max(len(self.means) - 1, 1) * len(self.means[0].coordinates)

    @property
    def slack(self) -> float:
        """What rounding adds to the root at most."""
        return float(self.moved @ np.array([one.slack for one in self.means]))

    @property
    def spread(self) -> float:
        """The expected square of what sampling adds to the root."""
        return float(self.moved**2 @ np.array([one.variance for one in self.means]))

    @property
    def is_gaussian(self) -> bool:
        return all(isinstance(one.lengths, ChiErrors) for one in self.means)

    def exceeded(self, level: float) -> float:
        """What the root exceeds under the hypothesis with probability at most `level`."""
        spread = self.spread
        if self.is_gaussian:
            high = (1.0 + spread) * chi_exceeded(self.degrees, level) ** 2
            low = high / (1.0 + spread)
            while high - low > 1e-6 * high:
                middle = (low + high) / 2.0
                above = _largest_tail(middle, self.degrees, spread) > level
                low, high = (middle, high) if above else (low, middle)
            return math.sqrt(high) + self.slack
        part = level / (len(self.means) + (spread > 0.0))
        most = min(1.0 - part, 1.0 - 2.0**-53)
        noise = float(self.moved @ np.array([one.lengths.quantile(most) for one in self.means]))
        return noise + math.sqrt(spread) * chi_exceeded(1, part) + self.slack

    def p_value(self) -> float:
        if self.is_gaussian:
            return _largest_tail(max(0.0, self.root - self.slack) ** 2, self.degrees, self.spread)
        return _largest_kept(lambda level: self.root > self.exceeded(level))

    def interval(self, level: float) -> tuple[float, float]:
        """Of two means: the distance between them, and how far it may be off."""
        return self.root / float(self.moved[0]), self.exceeded(level) / float(self.moved[0])


def compared(
    means: Sequence[SampleMean], unit: float, hypothesis: str, *, exact: bool, reproducible: bool
) -> Comparison:
    """The test of two or more noisy means, or of one whether it is 0; distances are in units of
    `unit`.
    """
    every = _Contrast.of(means)
    statistic, p = every.root**2, every.p_value()
    covariances = [one.covariance for one in means if one.covariance is not None]
    if every.is_gaussian and len(covariances) == len(means):
        statistic, p = _whitened(means, covariances, every.degrees)
    pairs: list[Sequence[SampleMean]] = [*itertools.combinations(means, 2)] or [means]
    farthest = max(pairs, key=_length)
    distance, width = _Contrast.of(farthest).interval(LEVEL / len(pairs))
    interval = unit * max(0.0, distance - width), unit * (distance + width)
    return Comparison(
        p, statistic, every.degrees, unit * distance, interval, hypothesis, exact, reproducible
    )


def _length(means: Sequence[SampleMean]) -> float:
    """Of the difference of two means, or of a single one."""
    return float(np.linalg.norm(np.subtract.reduce([one.coordinates for one in means])))


def _whitened(
    means: Sequence[SampleMean], covariances: Sequence[Floats], degrees: int
) -> tuple[float, float]:
    """The statistic in which each mean has the inverse of its whole covariance as its weight."""
    from scipy import special

    eye = np.eye(len(means[0].coordinates))
    weights = [
        np.linalg.inv(covariance + eye / one.weight)
        for one, covariance in zip(means, covariances, strict=True)
    ]
    whole = np.sum(weights, axis=0)
    pulled = [w @ one.coordinates for w, one in zip(weights, means, strict=True)]
    average = np.linalg.solve(whole, np.sum(pulled, axis=0)) if len(means) > 1 else 0.0
    away = [one.coordinates - average for one in means]
    square = math.fsum(float(v @ w @ v) for v, w in zip(away, weights, strict=True))
    slack = math.fsum(math.sqrt(one.weight) * one.slack for one in means)
    beyond = max(0.0, math.sqrt(max(0.0, square)) - slack)
    return square, float(special.chdtrc(degrees, beyond**2))


def _largest_tail(square: float, degrees: int, spread: float) -> float:
    """P((1 + spread) x^2 + chi^2 > square), x normal, chi^2 of one degree less: the most that noise
    and a sampling error of this total variance give, in whatever directions it lies.
    """
    from scipy import special

    if spread == 0.0 or degrees == 1:
        return float(special.chdtrc(degrees, square / (1.0 + spread)))
    end = math.sqrt(square / (1.0 + spread))
    last = min(end, _FAR)
    nodes, weights = _legendre()
    x = last * (nodes + 1.0) / 2.0
    density = np.exp(-0.5 * x**2) * math.sqrt(2.0 / math.pi)
    others = special.chdtrc(degrees - 1, np.maximum(0.0, square - (1.0 + spread) * x**2))
    inner = float(weights @ (density * others)) * last / 2.0
    return min(1.0, (inner + float(special.erfc(end / math.sqrt(2.0)))) * (1.0 + 1e-9))


@functools.cache
def _legendre() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(_NODES)


def _largest_kept(rejected: Callable[[float], bool]) -> float:
    """The p-value: above it every level rejects. Bisection, rounded upwards."""
    low, high = math.log(_SMALLEST), 0.0
    if rejected(math.exp(low)):
        return math.exp(low)
    if not rejected(1.0 - 1e-12):
        return 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        if rejected(math.exp(middle)):
            high = middle
        else:
            low = middle
    return min(1.0, math.exp(high))


# ------------------------------------------------------------------ means that were released apart
def two_sample_test(
    a: Released,
    b: Released,
    *,
    of: str = "sample",
    dispersions: tuple[Released, Released] | None = None,
) -> Comparison:
    """Test whether two private means are means of the same.

    Both have to be released in the same ball by `private_frechet_mean`, each with its own noise.
    Only what was released is used, so the test costs no privacy. From records, also without a
    public ball, for several samples and for populations, `private_comparison` needs one call.
    Shuffling the records between the groups, as a permutation test does, would need a release for
    each shuffle.

    Args:
        a: The mean of one group.
        b: The mean of the other.
        of: "sample": the hypothesis is that the clamped records of both groups have the same mean.
            The noise is all the chance there is, so the level holds for any records and any n; but
            two samples of one population differ, and with many records or a large epsilon that is
            found. "population": the hypothesis is that the groups are independent samples of
            populations with the same mean, clamped; on Hadamard spaces.
        dispersions: For "population": the two releases of `private_frechet_variance`, in the same
            ball.

    Returns:
        The `Comparison`. For "sample" and Gaussian noise at one centre the level is exact, else
        conservative; for "population" up to the normal approximation of means.

    Raises:
        InvalidArgument: The releases are of other spaces, balls or queries, one is about people and
            the other about records, or the distribution of an error is not known.

    Source:
        Proof: docs/proofs/comparison.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, ball = riemdp.SPDLogEuclidean(2), riemdp.Ball(np.eye(2), 2.0)
        >>> groups = np.tile(1.5 * np.eye(2), (900, 1, 1)), np.tile(0.8 * np.eye(2), (900, 1, 1))
        >>> means = [
        ...     riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(1.0, 1e-6), rng=i)
        ...     for i, X in enumerate(groups)
        ... ]
        >>> riemdp.two_sample_test(*means).rejects(0.01)
        True
    """
    one_of("of", of, OF)
    both = _observed("a", a), _observed("b", b)
    if a is b:
        raise InvalidArgument(
            "arguments `a` and `b` are one release; a test needs two, each with its own noise"
        )
    _check_comparable(a, b, *both)
    variances = (0.0, 0.0)
    hypothesis = f"{subject_in_sample(a)} is the same in both groups"
    if of == "population":
        of_people = "the means of people in " if a.facts.of_people else ""
        hypothesis = f"{of_people}both populations, clamped, have the same Fréchet mean"
        variances = _sampling_variances((a, b), dispersions)
    elif dispersions is not None:
        raise invalid("dispersions", "given", 'they go with of="population"')
    means = [
        SampleMean(y, seen.lengths, seen.slack, variance)
        for y, seen, variance in zip(_places(*both), both, variances, strict=True)
    ]
    seeded = any(release.reproducible for release in (a, b, *(dispersions or ())))
    exact = of == "sample" and all(isinstance(seen.lengths, ChiErrors) for seen in both)
    return compared(means, 1.0, hypothesis, exact=exact, reproducible=seeded)


def _observed(name: str, release: Released) -> Observation:
    if not isinstance(release, Released):
        raise invalid(name, release, "give a Release of private_frechet_mean")
    if release.observation is None or release.facts.manifold is None:
        raise invalid(
            name,
            f"a release by {release.mechanism!r}",
            "the distribution of its error is not known; release means with"
            ' mechanism="wrapped-gaussian" or "tangent-mean"',
        )
    return release.observation


def _check_comparable(a: Released, b: Released, seen_a: Observation, seen_b: Observation) -> None:
    known, other = a.facts, b.facts
    if known.manifold != other.manifold or known.query != other.query:
        raise InvalidArgument("arguments `a` and `b` are of other spaces, or of other queries")
    if known.of_people != other.of_people:
        raise InvalidArgument("one of `a` and `b` is about people and the other about records")
    if known.n is None or other.n is None:
        raise InvalidArgument(
            "`a` or `b` is filled up with the centre of its ball, as many as its private number of"
            " records lacks, so its mean says nothing of its records alone"
        )
    ball, ball_b = known.ball, other.ball
    if (
        ball is None
        or ball_b is None
        or float(ball.radius) != float(ball_b.radius)
        or not same_center(known, other)
    ):
        raise InvalidArgument(f"`a` and `b` were released in different balls. {_SAME_BALL}")
    if seen_a.at_released_point != seen_b.at_released_point:
        raise InvalidArgument("`a` and `b` were released by different kinds of noise; use one")
    if not (seen_a.at_released_point or same_point(seen_a.base, seen_b.base)):
        raise InvalidArgument(f"`a` and `b` are tangent at different points. {_SAME_BALL}")


def _places(a: Observation, b: Observation) -> tuple[Floats, Floats]:
    """The noisy vectors at one centre; of two released points two vectors as far apart."""
    if not a.at_released_point:
        return np.asarray(a.coordinates), np.asarray(b.coordinates)
    apart = np.zeros(a.manifold.dim)
    apart[0] = float(a.manifold.dist(a.base, b.base))
    return np.zeros(a.manifold.dim), apart


def _sampling_variances(
    means: tuple[Released, Released], dispersions: tuple[Released, Released] | None
) -> tuple[float, float]:
    """A bound of the expected squared distance of either mean from that of its population."""
    if not isinstance(dispersions, tuple | list) or len(dispersions) != 2:
        raise InvalidArgument(
            "argument `dispersions` has to be the two releases of private_frechet_variance, in the"
            " ball of the means"
        )
    found = []
    for mean, dispersion in zip(means, dispersions, strict=True):
        check_mean(mean)
        spread = checked_dispersion(dispersion, mean)
        r, n = known_of(mean)
        deviation = math.sqrt(spread.lengths.mean_square) + spread.slack
        found.append(variance_above(float(spread.coordinates[0]), deviation, n, r**2) / n)
    return found[0], found[1]
