"""What is read of a release, and in words what it protects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from ._error_law import ErrorLaw
from ._region import EXCESS, MEAN, VARIANCE, Observation


@runtime_checkable
class Released(Protocol):
    """What is read of a `Release`."""

    @property
    def value(self) -> Any: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def reproducible(self) -> bool: ...

    @property
    def error_law(self) -> ErrorLaw | None: ...

    @property
    def observation(self) -> Observation | None: ...

    @property
    def details(self) -> Mapping[str, Any]: ...


def subject_in_sample(release: Released) -> str:
    """What a confidence region of a release is of."""
    if release.observation is not None and release.observation.subject:
        return release.observation.subject
    query = str(release.details.get("query", ""))
    people = "people" in release.details
    if query.startswith("mean of clipped"):
        return f"the {query}" + (" of the people's means" if people else "")
    if query == VARIANCE:
        about = "the Fréchet variance about the centre"
        return about + (" of the people's means" if people else "")
    if query == EXCESS:
        return f"the {query}"
    if query != MEAN:
        return "the value before noise"
    filled = " and of the centres that fill them up" if "n_min" in release.details else ""
    whose = "people's means" if people else "clamped records"
    return f"the {query} of the {whose}{filled}"


def subject_in_population(mean: Released) -> str:
    """What a region of the population is of."""
    if "people" in mean.details:
        return (
            "the Fréchet mean of the means that people in the population have, clamped like these,"
        )
    return "the Fréchet mean of the population, clamped like the records,"
