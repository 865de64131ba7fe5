"""The confidence regions of a release: which theorem goes with which facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._errors import InvalidArgument, invalid, one_of
from ._facts import Query, Released
from ._limit_theorem import limit_region
from ._population import population_region
from ._region import METHODS, OF, Region, region_of
from ._released import subject_in_sample
from ._unclipped import unclipped_region

_REGIONS: dict[str, Callable[[Released, Released | None, float], Region]] = dict(
    zip(METHODS, (population_region, limit_region), strict=True)
)
_DISPERSIONS: dict[str, Query] = dict(zip(METHODS, (Query.VARIANCE, Query.MOMENT), strict=True))


def confidence_region(
    release: Released,
    level: float,
    of: str,
    dispersion: Released | None,
    clipping: Released | None,
    method: str,
) -> Region:
    """The region of a release; the arguments are those of `Release.confidence_region`."""
    one_of("method", method, METHODS)
    if one_of("of", of, OF) == "population":
        if clipping is not None:
            raise invalid("clipping", "a release", 'it goes with of="sample"')
        if dispersion is None:
            wanted = _DISPERSIONS[method]
            held = (s for s in release.facts.dispersions if s.facts.query == wanted)
            dispersion = next(held, None)
        return _REGIONS[method](release, dispersion, level)
    if method != METHODS[0]:
        raise invalid("method", method, 'it goes with of="population"')
    if dispersion is not None:
        raise invalid("dispersion", "a release", 'it goes with of="population"')
    if clipping is not None:
        return unclipped_region(release, clipping, level)
    subject = subject_in_sample(release)
    return region_of(release.observation, release.mechanism, level, of, subject)


def population_regions(release: Released, level: float = 0.95) -> list[Region]:
    """The regions of the population's mean that the known dispersions allow, in the order of
    `METHODS`.
    """
    known = [s.facts.query for s in release.facts.dispersions]
    return [
        confidence_region(release, level, "population", None, None, method)
        for method, query in _DISPERSIONS.items()
        if query in known
    ]


def check_dispersions(spread: Sequence[Released]) -> None:
    """Refuse what is not one release of each kind of dispersion, or of one of them."""
    kinds = [s.facts.query if isinstance(s, Released) else None for s in spread]
    if not kinds or len(set(kinds)) < len(kinds) or not set(kinds) <= {*_DISPERSIONS.values()}:
        raise InvalidArgument(
            "argument `spread` is to be one Release of private_frechet_variance, one of"
            " private_tangent_covariance, or both"
        )
