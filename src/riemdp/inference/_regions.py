"""The confidence regions of a release: which theorem goes with which facts."""

from __future__ import annotations

from .._errors import invalid, one_of
from ._facts import Released
from ._population import population_region
from ._region import OF, Region, region_of
from ._released import subject_in_sample


def confidence_region(
    release: Released,
    level: float,
    of: str,
    dispersion: Released | None,
) -> Region:
    """The region of a release; the arguments are those of `Release.confidence_region`."""
    if one_of("of", of, OF) == "population":
        return population_region(release, dispersion, level)
    if dispersion is not None:
        raise invalid("dispersion", "a release", 'it goes with of="population"')
    subject = subject_in_sample(release)
    return region_of(release.observation, release.mechanism, level, of, subject)
