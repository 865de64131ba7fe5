"""`two_sample_test`: whether two private means differ by more than their noise explains."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from .._errors import InvalidArgument, invalid, one_of, real
from ._error_law import ChiLaw, chi_exceeded
from ._facts import Released
from ._region import OF, Observation
from ._regions import (
    check_mean,
    checked_dispersion,
    known_of,
    same_center,
    same_point,
    subject_in_sample,
    variance_bound,
)

_SMALLEST = 1e-12  # p-values that are found by bisection are not told below this
_SAME_BALL = (
    "Release both in one ball: a public one, or the value of `private_ball` on one of the groups"
)


@dataclasses.dataclass(frozen=True)
class TwoSampleTest:
    """What `two_sample_test` found: a function of released numbers, so it costs no privacy.

    Attributes:
        p_value: Under the hypothesis the chance that it is at most a is at most a, for every a.
        distance: Between the two noisy vectors (or released points).
        hypothesis: What was tested, in words.
        exact: Whether the chance is a itself (up to the solver's tolerance); else it is at most a.
        reproducible: Whether a release that it rests on was made with a seed: then it is not
            private. With one and the same seed the noise of both is the same, and nothing here
            holds.
    """

    p_value: float
    distance: float
    hypothesis: str
    exact: bool
    reproducible: bool

    def rejects(self, level: float = 0.05) -> bool:
        """Whether the hypothesis is rejected; a true one is with probability at most `level`."""
        return self.p_value <= real("level", level, above=0.0, below=1.0)

    def __str__(self) -> str:
        kind = "exact" if self.exact else "conservative"
        text = (
            f"p = {self.p_value:.3g} ({kind}) for the hypothesis that {self.hypothesis}; the"
            f" noisy vectors are {self.distance:.4g} apart"
        )
        seeded = " (made with a seed: not private, and not valid if both have the same)"
        return text + (seeded if self.reproducible else "")

    __repr__ = __str__


def two_sample_test(
    a: Released,
    b: Released,
    *,
    of: str = "sample",
    dispersions: tuple[Released, Released] | None = None,
) -> TwoSampleTest:
    """Test whether two private means are means of the same.

    Both have to be released in the same ball by `private_frechet_mean`, each with its own noise.
    Only what was released is used, so the test costs no privacy. Shuffling the records between the
    groups, as a permutation test does, would need a release for each shuffle.

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
        The `TwoSampleTest`. For "sample" and Gaussian noise at one centre the level is exact;
        otherwise, and for "population" (Chebyshev's inequality), the test is conservative.

    Raises:
        InvalidArgument: The releases are of other spaces, balls or queries, one is about people and
            the other about records, or the law of an error is not known.

    Source:
        Proof: docs/proofs/confidence-region.md.

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
    seen_a, seen_b = _observed("a", a), _observed("b", b)
    if a is b:
        raise InvalidArgument(
            "arguments `a` and `b` are one release; a test needs two, each with its own noise"
        )
    distance = _distance(a, b, seen_a, seen_b)
    slack = seen_a.slack + seen_b.slack
    seeded = any(release.reproducible for release in (a, b, *(dispersions or ())))
    gaussian = (
        isinstance(seen_a.law, ChiLaw) and isinstance(seen_b.law, ChiLaw) and _tangent(seen_a)
    )
    if of == "sample":
        if dispersions is not None:
            raise invalid("dispersions", "given", 'they go with of="population"')
        hypothesis = f"{subject_in_sample(a)} is the same in both groups"
        beyond = max(0.0, distance - slack)
        if gaussian:
            from scipy import special

            p = float(special.chdtrc(seen_a.manifold.dim, (beyond / _sigma(seen_a, seen_b)) ** 2))
        else:
            p = _largest_kept(lambda level: beyond > _noise(seen_a, seen_b, level))
        return TwoSampleTest(p, distance, hypothesis, gaussian, seeded)
    if not isinstance(dispersions, tuple | list) or len(dispersions) != 2:
        raise InvalidArgument(
            "argument `dispersions` has to be the two releases of private_frechet_variance, in the"
            " ball of the means"
        )
    groups = []
    for mean, dispersion in zip((a, b), dispersions, strict=True):
        check_mean(mean)
        groups.append((checked_dispersion(dispersion, mean), known_of(mean)[1]))
    r, _ = known_of(a)

    def rejected(level: float) -> bool:
        spread = sum(math.sqrt(variance_bound(seen, r, n, level / 2.0) / n) for seen, n in groups)
        noise = _noise(seen_a, seen_b, level / 3.0)
        return distance - slack > noise + spread * math.sqrt(3.0 / level)

    of_people = "the means of people in " if a.facts.of_people else ""
    hypothesis = f"{of_people}both populations, clamped, have the same Fréchet mean"
    return TwoSampleTest(_largest_kept(rejected), distance, hypothesis, False, seeded)


def _observed(name: str, release: Released) -> Observation:
    if not isinstance(release, Released):
        raise invalid(name, release, "give a Release of private_frechet_mean")
    if release.observation is None or release.facts.manifold is None:
        raise invalid(
            name,
            f"a release by {release.mechanism!r}",
            'the law of its error is not known; release means with mechanism="wrapped-gaussian" or'
            ' "tangent-mean"',
        )
    return release.observation


def _distance(a: Released, b: Released, seen_a: Observation, seen_b: Observation) -> float:
    """The distance of what was observed, once both are known to be comparable."""
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
    if _tangent(seen_a) != _tangent(seen_b):
        raise InvalidArgument("`a` and `b` were released by different kinds of noise; use one")
    if _tangent(seen_a):
        if not same_point(seen_a.base, seen_b.base):
            raise InvalidArgument(f"`a` and `b` are tangent at different points. {_SAME_BALL}")
        return float(np.linalg.norm(np.asarray(seen_a.coordinates - seen_b.coordinates)))
    return float(seen_a.manifold.dist(seen_a.base, seen_b.base))


def _tangent(seen: Observation) -> bool:
    """Whether a noisy vector at a centre was observed, and not a released point."""
    return not seen.at_released_point


def _sigma(a: Observation, b: Observation) -> float:
    assert isinstance(a.law, ChiLaw)
    assert isinstance(b.law, ChiLaw)
    return math.hypot(a.law.sigma, b.law.sigma)


def _noise(a: Observation, b: Observation, level: float) -> float:
    """What the difference of both errors exceeds with probability at most `level`."""
    if isinstance(a.law, ChiLaw) and isinstance(b.law, ChiLaw) and _tangent(a):
        return _sigma(a, b) * chi_exceeded(a.manifold.dim, level) * (1.0 + 1e-12)
    most = min(1.0 - level / 2.0, 1.0 - 2.0**-53)
    return a.law.quantile(most) + b.law.quantile(most)


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
