"""What a mechanism returns: the value that may be published, and everything public about how it was
made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import warn_with_release
from .._trees import map_leaves
from ..domains import Ball
from ..inference._distributions import ErrorDistribution
from ..inference._facts import Facts
from ..inference._much_noise import MuchNoise, much_noise
from ..inference._region import Observation, Region
from ..inference._regions import confidence_region
from ..manifolds._base import held
from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import in_words
from ..privacy._cautions import cautions
from ..privacy._permit import Receipt

NOT_PRIVATE = "NOT PRIVATE: drawn with a seed; must not be published as private"


@dataclasses.dataclass(frozen=True, eq=False)
class Release:
    """A released value together with the guarantee it was released under.

    Holds no noise, no key and no record, so it can be pickled, printed and logged.

    Attributes:
        value: The released point (or tangent vector), a float64 NumPy array of the manifold's
            shape; a tuple of such arrays on a product. It is read-only, so that it stays what was
            released: `value.copy()` can be changed.
        guarantee: The `Guarantee` that was made with the noise.
        scale: sigma of a Gaussian, or s of a Laplace or K-norm distribution, per orthonormal
            coordinate in the metric.
        mechanism: Its name.
        reproducible: True if the noise came from a seed; then nothing here is private.
        sensitivity: The sensitivity that the scale was made from, for the neighbours of
            `guarantee.adjacency`.
        error_distribution: Of the distance to the value before noise, None where no formula is
            known: with probability q noise does not exceed `error_distribution.quantile(q)`.
        facts: Further public `Facts`, with types: the ball, the number of records, the query.
            `details` is a read-only mapping of the same names.
        budget: The budget that was given; its delta is the one that `str()` quotes epsilon at. A
            pure mechanism spends its epsilon alone.
        words: What the mechanism does, for a report.
        observation: The noisy vector that the value was made of, with the distribution of its
            error; None where that distribution is not known.
        receipt: The random id of the charge, and whether a ledger took it; `Ledger.holds` looks it
            up. None where the charge was made elsewhere, such as at the sites of a federated run.
    """

    value: Any
    guarantee: Guarantee
    scale: float
    mechanism: str
    reproducible: bool
    sensitivity: float | None = None
    error_distribution: ErrorDistribution | None = None
    facts: Facts = dataclasses.field(default_factory=Facts)
    budget: Budget | None = None
    words: str = ""
    observation: Observation | None = None
    receipt: Receipt | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", held(self.value))
        if self.budget is not None:
            object.__setattr__(self, "guarantee", self.guarantee.quoted_at(self.budget.delta))

    @property
    def details(self) -> Mapping[str, Any]:
        """The facts that are known, by name: read-only, for code outside."""
        return self.facts.mapping

    @property
    def expected_error(self) -> float | None:
        """Root of the expected squared distance between the release and the value it protects: the
        error from noise alone. None without a formula.
        """
        return None if self.error_distribution is None else self.error_distribution.expected_error

    def confidence_region(
        self,
        level: float = 0.95,
        of: str = "sample",
        *,
        dispersion: Release | None = None,
    ) -> Region:
        """Where the value lies that this release protects, or the mean of the population.

        For a mean that is the mean of the records *after* they were moved into the ball (or of
        their clipped tangent vectors): a region says nothing of what clipping did, nor of the
        population that the records were drawn from. It holds for any records and any number of
        them; the probability is over the noise alone, and given the ball where that was found
        privately. It is a function of what was released, so it costs no privacy.

        Args:
            level: The probability with which the region holds the value, between 0 and 1.
            of: "sample": the value that the records have, clamped. "population": the Fréchet mean
                of the distribution that the records were drawn from, independently, after it was
                moved into the ball like them. On Hadamard spaces, for Fréchet means of equally
                weighted records in a public ball. Of a mean direction the cone that the release
                says itself.
            dispersion: For "population": the `Release` of `private_frechet_variance` for the same
                records and the same ball.

        Returns:
            The `Region`. Its probability is exactly `level` for Gaussian and Laplace noise in a
            tangent space (but for the solver's tolerance, which is added to the radius), and at
            least that for Riemannian Laplace noise, for the population.

        Raises:
            InvalidArgument: The distribution of the error is not known here (optimisers, extrinsic
                baselines, the K-norm gradient on curved spaces, a Riemannian Laplace distribution
                that was truncated to the ball, or moved into it on a space that is neither Hadamard
                nor a sphere), or an argument is out of range.

        Source:
            docs/proofs/confidence-region.md.

        Examples:
            >>> import numpy as np, riemdp
            >>> line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
            >>> release = riemdp.private_frechet_mean(
            ...     line, np.zeros((100, 1)), ball, riemdp.Budget(1.0), rng=0
            ... )
            >>> round(release.confidence_region(0.95).radius, 4)
            0.0599
        """
        return confidence_region(self, level, of, dispersion)

    def _knowing(self, told: Mapping[str, Any]) -> Release:
        """The same release with more facts, by name."""
        return self._with(facts=self.facts.told(told))

    def _with(self, **changes: Any) -> Release:
        """The same release with other values of these fields, in half the time of
        `dataclasses.replace`.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        made.__post_init__()
        return made

    def _much_noise(self, radius: float | None = None) -> MuchNoise | None:
        """Whether the noise is as large as the ball; `radius` where the release knows none."""
        return much_noise(self.error_distribution, self.facts, self.guarantee, self.budget, radius)

    def _warn_of_noise(self) -> None:
        """Say so in a `RiemdpWarning`."""
        much = self._much_noise()
        if much is not None:
            warn_with_release(much.caution)

    @property
    def _shown(self) -> Any:
        """The released array, or the centre of the ball that was released."""
        return self.value.center if isinstance(self.value, Ball) else self.value

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        object.__setattr__(self, "value", held(self.value))  # read-only, which a pickle forgets

    def __repr__(self) -> str:
        seeded = f", {NOT_PRIVATE}" if self.reproducible else ""
        budget = "" if self.budget is None else f", {self.budget}"
        what = _shape_in_words(self.value)
        return f"<Release of {what} by {self.mechanism!r}{budget}{seeded}>"

    def __str__(self) -> str:
        lines = [
            f"Release of {_shape_in_words(self.value)} by {self.mechanism}",
            f"  guarantee: {self.guarantee}",
            *([] if self.budget is None else [f"  budget: {self.budget}"]),
            f"  scale: {self.scale:.6g}",
        ]
        if self.sensitivity is not None:
            lines[-1] += f" (sensitivity {self.sensitivity:.6g})"
        if self.error_distribution is not None:
            lines.append(
                f"  error from noise: {self.expected_error:.6g} (root mean square,"
                f" {self.error_distribution.kind})"
            )
        facts = self.facts
        if facts.numerics is not None:
            lines.append(f"  numerics: {in_words(facts.numerics)}")
        if facts.ball is not None and facts.share_of_search is not None:
            lines.append(
                f"  ball: radius {float(facts.ball.radius):.4g}, found privately with"
                f" {100 * facts.share_of_search:.0f} % of the budget (part of the guarantee)"
            )
        if facts.direction_in_words:
            lines.append(f"  direction: {facts.direction_in_words}")
        if facts.public_alone:
            lines.append(f"  to compare with: {facts.public_alone}")
        outside = facts.outside
        if outside is not None:
            most = ", by most of their records" if facts.of_people else ""
            lines.append(f"  outside the ball: {outside}{most} (counted with noise)")
        if self.budget is not None and facts.count is not None:
            told = cautions(self.guarantee, self.budget.delta, int(facts.count))
            lines += [f"  note: {text}" for text in told]
        for count in (facts.valid, outside):
            if count is not None and count.caution is not None:
                lines.append(f"  note: {count.caution}")
        much = self._much_noise()
        if much is not None:
            lines.append(f"  note: {much.caution}")
        if self.reproducible:
            lines.append(f"  {NOT_PRIVATE}")
        return "\n".join(lines)


def _shape_in_words(value: Any) -> str:
    if isinstance(value, Ball):
        center = map_leaves(np.shape, value.center)
        return f"a ball of radius {float(value.radius):.4g}, centre of shape {center}"
    if isinstance(value, tuple):
        return "a tuple of (" + ", ".join(_shape_in_words(v) for v in value) + ")"
    return f"an array of shape {tuple(np.shape(value))}"
