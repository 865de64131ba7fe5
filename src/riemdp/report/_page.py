"""The privacy report as one self-contained HTML page, by the template `report.html.j2`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ._words import number, percent, rounded_up

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, facts: dict[str, object]) -> str:
    """Fill a template of this package. Every text that is put in is escaped."""
    return _environment().get_template(template).render(facts)


@functools.cache
def _environment() -> Environment:
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
