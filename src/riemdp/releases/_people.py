"""What `groups=` does to a release: one point a person takes the place of the records."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..domains import Domain
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms._common import needs_log
from ..statistics._people import People, people

_CLAMPED = (
    "every record is first moved along the geodesic to the centre until it lies in the domain. "
)
_MEANS = (
    "Each person's records are then averaged, so that every person counts once; records that are no"
    " valid points are left out, and a person without one that is valid counts as the centre"
)
_OWN = (
    "each person's records are averaged, so that every person counts once; records that are no"
    " valid points are left out, and a person without one that is valid counts as the centre. A"
    " mean outside the domain is moved into it"
)


class Admitted(NamedTuple):
    """Records of a release, or one point a person in their place: an array, or a `Stream`.

    Attributes:
        records: What there is one of for each unit that is protected.
        n: How many.
        grouped: The people, where they are protected.
        unit: What neighbours differ in.
    """

    records: Any
    n: int
    grouped: People | None
    unit: str


def of_groups(
    manifold: AbstractManifold,
    X: RecordsLike,
    groups: object,
    domain: Domain | None,
    at_least: int = 1,
) -> People:
    """One point a person, of labels, or of `People` that were made of them before."""
    if isinstance(groups, People):
        return groups
    needs_log(manifold, "the mean of one person's records (`groups`)")
    return people(manifold, X, groups, domain=domain, at_least=at_least)


def facts(
    grouped: People | None, *, protected: bool = False, found: bool = False
) -> dict[str, Any]:
    """Public facts for `Release.details`: the number of people, unless it is protected."""
    if grouped is None:
        return {}
    return facts_of(None if protected else grouped.n, found=found)


def facts_of(n: int | None, *, found: bool) -> dict[str, Any]:
    """The facts of n people; `found`: their records were averaged before anything was moved."""
    return {"people": n, "clipping": _OWN if found else _CLAMPED + _MEANS}
