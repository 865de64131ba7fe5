"""`PriorMean`: the mean of private records where public ones of the same kind are known.

To check the privacy of a release, read this file, `ShapedMean`, `Purse` and
`AbstractMechanism.release`: centre, shape, stages and radii come from public numbers, or from what
was released before; each record becomes z = S^(-1/2) log x, shortened to the radius, on its own;
replacing one moves the mean of z by at most 2 r / n; the noise is made for that. What follows, the
shape back on the noisy mean and shrinking, looks at released numbers only.

Proof: docs/proofs/mean-sensitivity.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._errors import integer, invalid
from .._namespace import Floats
from ..domains._door import admit_in_parts
from ..domains._ends import end_of
from ..inference._facts import Query
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..privacy import Budget, Guarantee
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._prior_constants import (
    CAUTION,
    FIRST_FACTOR,
    FIRST_QUANTILE,
    SECOND_STAGE_FROM,
    STAGES,
)
from ..statistics._public_prior import PublicPrior, clip_radius, shaped_lengths, transported
from ..statistics._query import other_count
from ..statistics._shaped_mean import Shape, ShapedMean
from ._base import BudgetedMechanism
from ._drawn import Drawn
from ._lattice import scale_for

ASSUMES = (
    "the people of the public prior are none of the private ones, and its records were not chosen"
    " by looking at private ones"
)


class Stage(NamedTuple):
    """One noisy mean, planned from public numbers.

    Attributes:
        share: Of the budget (of mu^2).
        radius: Of the clip, in shaped coordinates.
        sensitivity: Of the mean of shaped coordinates.
        scale: Standard deviation of the noise of a shaped coordinate.
    """

    share: Fraction
    radius: float
    sensitivity: float
    scale: float


class PriorMean(BudgetedMechanism[Any]):
    """Release the mean of records near a `PublicPrior`: noise is shaped by how public records
    spread, and what it drowns keeps the public value.

    With few records there is one stage: the noisy mean of shaped tangent vectors at the public
    centre, moved towards that centre by a filter that the noisy vector itself decides. With more
    there is a second one, about the centre that the first has found. On a curved space the value is
    another mean than Fréchet's; the second stage takes most of the difference away
    (docs/proofs/mean-sensitivity.md, Lemma 10).

    Args:
        manifold: A space with a logarithm.
        prior: The public records.
        n: The public number of private records.
        budget: `Budget(epsilon, delta)` with delta > 0.

    Raises:
        InvalidArgument: An argument is out of range, or delta is 0.

    Guarantee:
        Replace-one: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget). It assumes that the
        public people are none of the private ones.

    Source:
        Proof: docs/proofs/mean-sensitivity.md.
    """

    name: ClassVar[str] = "prior-mean"
    words: ClassVar[str] = (
        "Gaussian noise, shaped by public records, on means of clipped tangent vectors at the"
        " public centre or at one released before, shrunk towards the public mean"
    )

    def __init__(
        self, manifold: AbstractManifold, prior: PublicPrior, *, n: int, budget: Budget | Noise
    ):
        super().__init__(budget)
        if self.noise.is_pure:
            raise invalid(
                "budget",
                self.noise.whole,
                "a public prior needs delta > 0; for delta = 0 give riemdp.Ball(center, radius)"
                " with the public mean as centre",
            )
        self.manifold, self.prior, self.n = manifold, prior.on(manifold), integer("n", n)
        self.shape = prior.shape_of(0.5)
        self.stages = self._planned()

    def _planned(self) -> tuple[Stage, ...]:
        """Stages and radii, from public numbers alone."""
        prior, shape, strength = self.prior, self.shape, self.n / self.noise.multiplier
        variances = shape.roots**2  # of Lam^(1/2)
        effective = float(np.sum(variances)) ** 2 / float(np.sum(variances**2))
        usual = float(np.quantile(shaped_lengths(prior.logs, shape), FIRST_QUANTILE))
        if strength < SECOND_STAGE_FROM * math.sqrt(effective):
            best = clip_radius(prior.logs, shape, strength)
            return (self._stage(Fraction(1), max(usual, best)),)
        first, second = map(Fraction, STAGES)
        best = clip_radius(prior.residuals, shape, strength * math.sqrt(second))
        return self._stage(first, FIRST_FACTOR * usual), self._stage(second, best)

    def _stage(self, share: Fraction, radius: float) -> Stage:
        sensitivity = ShapedMean.of(self.shape, radius, self.n).sensitivity
        scale = scale_for(self.noise.share(share), sensitivity, self._widest)
        return Stage(share, radius, sensitivity, scale)

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        return self.noise.guarantee.assuming(ASSUMES)

    @property
    def _widest(self) -> int:
        return len(self.shape.roots)

    @property
    def noise_length(self) -> float:
        """Root mean square length of the noise of the last stage, in the tangent space."""
        return self.stages[-1].scale * float(np.linalg.norm(self.shape.roots))

    def _admit(self, value: RecordsLike) -> Any:
        records, count = admit_in_parts(self.manifold, "X", value)
        if count != self.n:
            raise other_count(count, self.n)
        return records

    def _draw(self, value: Any, source: NoiseSource) -> Drawn:
        purse, shape = self._purse(source), self.shape
        answers: list[Floats] = []
        for stage in self.stages:
            query = ShapedMean.of(shape, stage.radius, self.n)
            mean = query.coordinates(query.prepare(value))
            noisy, scale, _ = purse.add(mean, query.sensitivity, stage.share)
            shape = after(shape, noisy, scale, shrunk if answers else kept_near)
            answers.append(noisy)
        last = self.stages[-1]
        facts = {
            "n": self.n,
            "radius": last.radius,
            "query": Query.SHAPED,
            "error": "no formula",
            "public_error": self.prior.error,
            **facts_of_prior(self.prior.center, mean_in_words(self.prior.error)),
            "radii": tuple(stage.radius for stage in self.stages),
            "answers": tuple(answers),
        }
        return Drawn(shape.center, last.scale, last.sensitivity, None, facts)


def facts_of_prior(value: Any, worth: str) -> dict[str, Any]:
    """What is public of a release with a prior: what the public records say alone, and what that
    is worth in words.
    """
    return {
        "public_value": value,
        "public_alone": worth,
        "domain": f"the surroundings of a public mean; to compare with: {worth}",
        "clipping": (
            "every record becomes the tangent vector that points to it from the public centre,"
            " divided by the root of the public shape and shortened to the radius; a record that"
            " is not a valid point counts as the centre"
        ),
    }


def mean_in_words(error: float | None) -> str:
    """What a public mean is worth alone."""
    if error is None:
        return "the public mean alone; its error was not measured, on records of one person"
    return (
        f"the public mean alone, expected to be wrong by {error:.4g} for one more person (measured"
        " on public people)"
    )


def after(
    shape: Shape, noisy: Floats, scale: float, kept: Callable[[Shape, Floats, float], Floats]
) -> Shape:
    """The shape at the end of what is kept of a noisy mean: it looks at released numbers alone."""
    y = kept(shape, noisy, scale)
    return transported(shape, end_of(shape.manifold, shape.center, shape.basis @ y))


def kept_near(shape: Shape, noisy: Floats, scale: float) -> Floats:
    """The noisy mean in the frame, S^(1/2) applied, moved towards the public centre as if the mean
    had the prior N(0, tau Lam), tau being estimated from how much longer it is than noise that is
    one standard deviation longer than expected.
    """
    y, noise = shape.roots * noisy, (scale * shape.roots) ** 2
    spread = shape.roots**4
    by_chance = float(np.sum(noise) + CAUTION * math.sqrt(2.0 * float(np.sum(noise**2))))
    tau = max(0.0, float(np.sum(y**2)) - by_chance) / float(np.sum(spread))
    return y * (tau * spread) / (tau * spread + noise)


def shrunk(shape: Shape, noisy: Floats, scale: float) -> Floats:
    """The noisy mean in the frame, S^(1/2) applied, shortened by James and Stein's share for noise
    of unlike variances: it is never worse than none while no variance is more than half of all.
    """
    y, noise = shape.roots * noisy, (scale * shape.roots) ** 2
    square = float(np.sum(y**2))
    excess = max(0.0, float(np.sum(noise) - 2.0 * np.max(noise)))
    return y * max(0.0, 1.0 - excess / square) if square > 0.0 else y
