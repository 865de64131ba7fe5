"""The confidence regions of a release: which theorem goes with which facts."""

from __future__ import annotations

from .._errors import invalid, one_of
from ._facts import Released
from ._population import population_region
from ._region import OF, Region, region_of
from ._released import subject_in_sample
from ._unclipped import unclipped_region


def confidence_region(
    release: Released,
    level: float,
    of: str,
    dispersion: Released | None,
    clipping: Released | None,
) -> Region:
    """The region of a release; the arguments are those of `Release.confidence_region`."""
    if one_of("of", of, OF) == "population":
        if clipping is not None:
            raise invalid("clipping", "a release", 'it goes with of="sample"')
        return population_region(release, dispersion, level)
    if dispersion is not None:
        raise invalid("dispersion", "a release", 'it goes with of="population"')
    if clipping is not None:
        return unclipped_region(release, clipping, level)
    subject = subject_in_sample(release)
    return region_of(release.observation, release.mechanism, level, of, subject)
