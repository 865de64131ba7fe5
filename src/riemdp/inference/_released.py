"""What a release protects, in words."""

from __future__ import annotations

from ._facts import Query, Released


def subject_in_sample(release: Released) -> str:
    """What a confidence region of a release is of."""
    if release.observation is not None and release.observation.subject:
        return release.observation.subject
    facts = release.facts
    query, people = facts.query, " of the people's means" if facts.of_people else ""
    if query == Query.TANGENTS:
        return f"the {query}{people}"
    if query == Query.VARIANCE:
        return f"the Fréchet variance about the centre{people}"
    if query != Query.MEAN:
        return "the value before noise"
    filled = " and of the centres that fill them up" if facts.n_min is not None else ""
    whose = "people's means" if facts.of_people else "clamped records"
    return f"the {query} of the {whose}{filled}"


def subject_in_population(mean: Released) -> str:
    """What a region of the population is of."""
    if mean.facts.of_people:
        return (
            "the Fréchet mean of the means that people in the population have, clamped like these,"
        )
    return "the Fréchet mean of the population, clamped like the records,"
