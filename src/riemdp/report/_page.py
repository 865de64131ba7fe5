"""A privacy report for people: its rows of facts, and the page of `templates/report.html.j2`."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from .._errors import counted
from ..inference import Facts
from ..privacy._arithmetic import in_words
from . import _facts
from ._words import (
    ADJACENCY,
    GROUPS,
    OF_PEOPLE,
    ONE_POINT,
    bias_sentence,
    epsilon_and_delta,
    group_sentence,
    number,
    outside_sentence,
    percent,
    rounded_up,
    strength,
    valid_sentence,
)

if TYPE_CHECKING:
    from ._statement import Statement


def rows_of(report: Statement) -> list[tuple[str, str]]:
    """What was released and how: (name, text)."""
    known, guarantee = report._known, report.guarantee
    words = OF_PEOPLE if report.of_people else ADJACENCY
    region = _facts.region_of(report.release)
    unit = "one person with all records" if report.of_people else f"one record: {report.record_is}"
    arithmetic = known.get("numerics")
    sensitivity = f"{number(report.sensitivity)} (the most that one {guarantee.unit} can move"
    rows: list[tuple[str, str | None]] = [
        ("Released", report.released),
        ("Made from", _made_from(report)),
        ("Protected unit", unit),
        ("Who sees what", _facts.seen_by(report.release)),
        ("Guarantee", _sentence(report)),
        ("Neighbouring data", words.get(str(guarantee.adjacency))),
        ("It assumes", guarantee.assumes or None),
        ("Participation", _facts.participation(report.release, report.delta)),
        ("One person", _person(report)),
        ("Budget", _budget(report)),
        ("Ledger", None if report.ledger is None else report.ledger.sentence),
        ("Error from noise", _error(report)),
        ("Confidence region", None if region is None else _facts.region_in_words(region)),
        ("Mean direction", Facts.of(known).direction_in_words or None),
        ("Space", report.space),
        ("Domain", report.domain),
        ("How it was found", None if report.search is None else report.search.sentence),
        ("Clipping", _facts.clipping_in_words(known)),
        ("Valid", None if report.valid is None else valid_sentence(report.valid)),
        (
            "Outside the domain",
            None if report.outside is None else outside_sentence(report.outside),
        ),
        ("Mechanism", getattr(report.release, "words", "") or report.mechanism),
        ("Sensitivity", f"{sensitivity} the result)"),
        ("Noise scale", number(report.noise_scale)),
        ("Numerics", in_words(str(arithmetic)) if arithmetic else None),
        ("Released file", None if report.checksum is None else f"SHA-256 {report.checksum}"),
    ]
    return [(name, text) for name, text in rows if text is not None]


def _made_from(report: Statement) -> str:
    least = "at least " if report.at_least else ""
    if report.records is None:
        return f"how many records: {_facts.UNSTATED}"
    if not report.of_people:
        return f"{least}{counted(report.records, 'record')}"
    people = counted(report.records, "person", "people")
    counts_as = report._known.get("person_is", ONE_POINT)
    return f"{least}{people}, {counts_as}; one record is {report.record_is}"


def _sentence(report: Statement) -> str:
    if not math.isfinite(report.epsilon):
        return f"none: no bound on what the release reveals about one {report.guarantee.unit}"
    eps = rounded_up(report.epsilon)
    factor = (
        f"by at most the factor {rounded_up(math.exp(min(report.epsilon, 700.0)), 3)} (e to the"
        f" power {eps})"
    )
    name, rest = f"{eps}-differential privacy (pure)", ""
    if report.delta > 0:
        delta = rounded_up(report.delta)
        name, rest = f"({eps}, {delta})-differential privacy", f", plus {delta}"
    level = "user-level " if report.of_people else ""
    return (
        f"{level}{name}: exchanging one data set for a neighbouring one changes the"
        f" probability of any event {factor}{rest}"
    )


def _person(report: Statement) -> str | None:
    k = report.max_records_per_person
    if k is None or not report.guarantee.is_private:
        return None
    count = "one record" if k == 1 else f"up to {counted(k, 'record')}"
    return f"one person with {count}: {group_sentence(report.guarantee, k, report.delta)}"


def _budget(report: Statement) -> str | None:
    if report.budget is None:
        return None
    return epsilon_and_delta(report.budget.epsilon, report.budget.delta)


def _error(report: Statement) -> str:
    if report.error_from_noise is None:
        return "no formula is known"
    bar = None if report.search is None else report.search.error_bar
    below = "" if bar is None else f"; below {number(bar)} with probability 95 %"
    numbers = "public" if report.search is None else "released"
    return (
        f"{number(report.error_from_noise)} (root mean squared distance, by a formula of"
        f" {numbers} numbers{below}). {bias_sentence(report.radius)}"
    )


def page_of(report: Statement) -> str:
    """One page that needs nothing else: no script, no font, no picture is fetched."""
    bound = report.trade_off
    word, meaning = strength(bound.best_guess)
    if not report.private:
        word, meaning = "none", "No protection is claimed for this result."
    several = []
    if report.guarantee.is_private and not report.of_people:
        several = [(k, group_sentence(report.guarantee, k, report.delta)) for k in GROUPS]
    alpha, beta = bound.curve()
    facts = {
        "report": report,
        "rows": rows_of(report),
        "bound": bound,
        "curve": [(float(a), float(b)) for a, b in zip(alpha, beta, strict=True)],
        "strength": word,
        "strength_meaning": meaning,
        "several": several,
        "seen_by": _facts.seen_by(report.release),
        "sites": _facts.sites_of(report.release, report.delta),
        "noise_of_a_round": _facts.noise_of_a_round(report.release),
    }
    return _environment().get_template("report.html.j2").render(facts)


def framed(report: Statement) -> str:
    """The page in a frame of its own, for notebooks."""
    return _environment().get_template("frame.html.j2").render({"page": page_of(report)})


@functools.cache
def _environment() -> Any:
    """The templates of this package. Every text that is put in is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 0.15 s, for pages alone

    made = Environment(
        loader=PackageLoader("riemdp.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "percent_up": functools.partial(percent, up=True),
        "rounded_up": rounded_up,
    }
    return made
