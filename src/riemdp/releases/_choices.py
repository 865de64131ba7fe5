"""The mechanisms a private mean can use, built from public facts only: what `private_frechet_mean`
runs and the plan compares.
"""

from __future__ import annotations

import dataclasses
import warnings

from .._errors import InvalidArgument, SlowSamplerWarning, one_of
from ..domains import Domain
from ..inference._error_law import ErrorLaw, keeps_near, moved_in
from ..manifolds import AbstractManifold
from ..mechanisms import BASELINES, FOR_MEANS, Release, TangentMeanNoise
from ..mechanisms._base import PointMechanism
from ..mechanisms._for_mean import MeanFacts

BY_NAME = {kind.name: kind for kind in (*FOR_MEANS, *BASELINES)}

COMPARED = tuple(kind.name for kind in FOR_MEANS)
EXTRINSIC = tuple(kind.name for kind in BASELINES)
TANGENT_MEAN = TangentMeanNoise.name  # a mean of its own: it takes records, not a point
OPTIMIZED = ("dp-rgd", "dp-rsgd", "dp-rsvrg")  # `name` of each optimiser, which runs on JAX
AUTO = "auto"
MECHANISMS = (AUTO, *COMPARED, TANGENT_MEAN, *OPTIMIZED, *EXTRINSIC)
NEED_DELTA = (*(name for name, kind in BY_NAME.items() if kind.needs_delta), *OPTIMIZED)
NEED_GRADIENT = tuple(name for name, kind in BY_NAME.items() if kind.needs_gradient)
# "auto" leaves a sampler alone that is expected to take longer than this many tries.
MOST_TRIES = 1e4


def build(name: str, facts: MeanFacts) -> PointMechanism:
    """The mechanism `name` for a Frechet mean, from public facts.

    Args:
        name: One of `COMPARED` or `EXTRINSIC`.
        facts: What is public about the mean.
    """
    return BY_NAME[one_of("mechanism", name, (*COMPARED, *EXTRINSIC))].for_mean(facts)


@dataclasses.dataclass(frozen=True)
class Moving:
    """Whether a wrapped release is moved into its ball, which costs no privacy.

    Attributes:
        wanted: What was asked for; None where that is proved to do no harm.
        published: Whether the noise is that of a paper ("classical" calibration), which None
            leaves as it is.
    """

    wanted: bool | None
    published: bool = False

    def moves(self, law: ErrorLaw | None, manifold: AbstractManifold, radius: float) -> bool:
        """Whether it is moved: a function of public numbers. None moves where no release comes
        farther from any point of the ball, and elsewhere where the stated error is larger than the
        diameter of the ball.
        """
        if self.wanted is not None or self.published:
            return bool(self.wanted)
        if keeps_near(manifold, radius):
            return True
        return law is not None and law.mean_square > (2.0 * radius) ** 2

    def law(self, mechanism: PointMechanism, radius: float) -> tuple[ErrorLaw | None, bool]:
        """The law of the error of a release by a mechanism in this ball, and whether it is moved
        after the noise.
        """
        law, manifold = mechanism.error_law, mechanism.manifold
        if mechanism.stays_in_ball:  # and its law says so
            return law, False
        if mechanism.name in EXTRINSIC and self.wanted is None:
            return law, False
        moved = self.moves(law, manifold, radius)
        return (moved_in(law, manifold, radius) if moved else law), moved

    def applied(self, release: Release, mechanism: PointMechanism, local: Domain) -> Release:
        """The release by a mechanism, moved into the ball or not, with what is then known of its
        error: post-processing.
        """
        law, moved = self.law(mechanism, local.radius)
        if not moved:
            return release
        kind = {"error": "no formula" if law is None else law.kind, "moved_into_ball": True}
        return dataclasses.replace(
            release,
            value=local.clamp_point(release.value),
            error_law=law,
            details={**release.details, **kind},
        )


def try_build(name: str, facts: MeanFacts) -> tuple[PointMechanism | None, str]:
    """(mechanism, "") or (None, why not), without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowSamplerWarning)
            return build(name, facts), ""
    except (InvalidArgument, NotImplementedError) as error:
        return None, str(error)
