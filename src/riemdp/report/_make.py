"""From a release to its privacy report: every fact is taken from the release that holds it."""

from __future__ import annotations

import datetime
import hashlib
import math
import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from .._errors import InvalidArgument, integer, invalid, one_of, real
from .._version import __version__
from ..privacy._guarantee import PERSON
from ._facts import RegionFacts, SearchFacts
from ._language import LANGUAGES
from ._report import PrivacyReport
from ._words import ONE_POINT, number

if TYPE_CHECKING:
    from ..inference._much_noise import MuchNoise
    from ..inference._region import Region
    from ..manifolds import AbstractManifold
    from ..manifolds._base import Point
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult
    from ..privacy import Ball, Budget, Guarantee, Ledger

_T = TypeVar("_T")


def privacy_report(
    release: Release | OptimizationResult,
    *,
    records: int | None = None,
    manifold: AbstractManifold | None = None,
    ball: Ball | None = None,
    budget: Budget | None = None,
    query: str | None = None,
    record_is: str = "one row of the input",
    max_records_per_person: int | None = None,
    delta: float | None = None,
    clipping: str | None = None,
    domain: str | None = None,
    space: str | None = None,
    ledger: Ledger | None = None,
    checksum: str | None = None,
    created: datetime.datetime | None = None,
    language: str = "en",
) -> PrivacyReport:
    """The privacy report of a release.

    Facts are read off the release. What `private_frechet_mean`, an estimator or an optimiser
    returned knows its number of records, space, ball and budget, so these need not be given here,
    and one that contradicts the release is refused. A release of a bare mechanism does not know
    them; the report then says that the publisher stated them.

    Args:
        release: what was released: a `Release` or an `OptimizationResult`.
        records: how many records (people, for a release with `groups`) went in; stated as public.
            Under add-or-remove-one it is the public lower bound `n_min`; the true count is
            protected and refused.
        manifold: the space of the released value.
        ball: the public domain.
        budget: what the release was allowed to cost.
        query: what was released, in words.
        record_is: what one record is, in words.
        max_records_per_person: the most records that one person has; adds the guarantee for all of
            them together (`Guarantee.group`). Not for a release with `groups`.
        delta: at which delta epsilon is stated. The budget's own when left out, else 0 for a pure
            guarantee or 1e-5.
        clipping: how records were bounded, in words, where the release does not know.
        domain: the public domain in words, where the release does not know.
        space: the space in words, where the release does not know.
        ledger: the ledger that was charged; its total is shown. It is asked whether it holds the
            charge of this release, and the page says so where it does not.
        checksum: SHA-256 of the released file.
        created: when; now, if left out.
        language: "en" or "de": the language of the page. Texts that you give are not translated,
            and the JSON is the same in both.

    Returns:
        The report. Nothing is computed from records, and the released value enters by its checksum
        only.

    Raises:
        InvalidArgument: an argument contradicts the release, `records` is not known, or `release`
            is none.
    """
    _check_release(release)
    known = getattr(release, "details", None) or {}
    guarantee = release.guarantee
    facts = _Facts(known)
    at_least = known.get("n_min") is not None
    count = _records(facts, records)
    if guarantee.unit == PERSON:
        _refuse_for_people(max_records_per_person)
    manifold = facts.agreed("manifold", manifold, _same_space, "space")
    ball = facts.agreed("ball", ball, _same_ball, "domain")
    budget = facts.agreed("budget", budget, _same, "budget")
    if budget is not None and not guarantee.within(budget):
        raise InvalidArgument(
            f"argument `budget` = {budget} is smaller than what the release costs:"
            f" epsilon {guarantee.epsilon(budget.delta):.4g} at delta {budget.delta:g}"
        )
    search = _search(release)
    people = max_records_per_person
    scale = getattr(release, "scale", None)
    at = _delta_for(guarantee, budget, delta)
    released = query or known.get("query") or "released value"
    mechanism = getattr(release, "mechanism", None) or getattr(release, "method", None)
    return PrivacyReport(
        title=f"Privacy report: {released}",
        released=released,
        records=count,
        record_is=record_is,
        person_is=known.get("person_is", ONE_POINT),
        space=facts.words("space", space, manifold, _space_in_words),
        domain=facts.words(
            "domain", domain, ball, lambda b: _domain_in_words(b, manifold, search is not None)
        ),
        clipping=facts.words("clipping", clipping, ball, _clipping_in_words),
        mechanism=str(mechanism or type(release).__name__),
        mechanism_words=getattr(release, "words", ""),
        sensitivity=_scalar(getattr(release, "sensitivity", known.get("sensitivity"))),
        arithmetic=str(known.get("arithmetic", "")),
        noise_scale=_scalar(getattr(release, "sigma", None) if scale is None else scale),
        # a report compares this figure with a radius: it has to be a distance
        error_from_noise=None
        if known.get("unit") == "squared distance"
        else _scalar(getattr(release, "expected_error", None)),
        guarantee=guarantee,
        budget=budget,
        delta=at,
        reproducible=bool(release.reproducible),
        ledger=None if ledger is None else _ledger_in_words(ledger, release),
        in_ledger=None if ledger is None else _holds(ledger, release),
        spent=None if ledger is None else ledger.spent,
        checksum=checksum,
        created=(created or datetime.datetime.now(datetime.UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        versions=versions(),
        at_least=at_least,
        radius=None if ball is None else float(ball.radius),
        max_records_per_person=None
        if people is None
        else integer("max_records_per_person", people, at_least=1),
        stated=tuple(facts.stated),
        search=search,
        region=_region(release),
        population=_population(release),
        valid=known.get("valid"),
        outside=known.get("outside"),
        language=one_of("language", language, LANGUAGES),
        much_noise=_much_noise(release, None if ball is None else float(ball.radius)),
    )


def _check_release(release: object) -> None:
    """Refuse what is no release: an estimator holds one, or several, once it is fitted."""
    if hasattr(release, "guarantee") and hasattr(release, "reproducible"):
        return
    remedy = "give a Release or an OptimizationResult"
    if hasattr(release, "fit"):
        held = [name for name in ("release_", "releases_") if hasattr(release, name)]
        remedy = f"it is an estimator; give its `{held[0]}`" if held else _NOT_FITTED
        remedy += ", one report each" if held == ["releases_"] else ""
    raise invalid("release", type(release).__name__, remedy)


_NOT_FITTED = "it is an estimator that is not fitted; call fit, and give its `release_`"


class _Facts:
    """What a release knows about itself, beside what its publisher says about it."""

    def __init__(self, known: Mapping[str, Any]):
        self._known = known
        self.stated: list[str] = []

    def agreed(
        self, name: str, given: _T | None, same: Callable[[Any, _T], bool], called: str
    ) -> _T | None:
        """The fact of the release; `given` where the release has none; an error if they differ."""
        held = self._known.get(name)
        if held is None:
            if given is not None:
                self.stated.append(called)
            return given
        if given is not None and not same(held, given):
            raise InvalidArgument(
                f"argument `{name}` contradicts the release, which was made with {_shown(held)};"
                " leave it out: the report reads it off the release"
            )
        return held

    def words(
        self, name: str, given: str | None, fact: _T | None, describe: Callable[[_T], str]
    ) -> str:
        """A fact in words, by the release if it holds the fact, else by the publisher."""
        held = self._known.get(name)
        text = held if held is not None else None if fact is None else describe(fact)
        if text is None:
            if given is not None:
                self.stated.append(name)
            return given or "not stated"
        if given is not None and given != text:
            raise InvalidArgument(
                f"argument `{name}` contradicts the release, which says: {text}; leave it out"
            )
        return text


def versions() -> dict[str, str]:
    """Versions of what made the release."""
    found = {"riemdp": __version__, "Python": platform.python_version()}
    for name in ("jax", "numpy", "randomgen"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _refuse_for_people(max_records_per_person: int | None) -> None:
    if max_records_per_person is not None:
        raise invalid(
            "max_records_per_person",
            max_records_per_person,
            "this release protects one person with any number of records; leave it out",
        )


def _records(facts: _Facts, given: int | None) -> int:
    known = facts._known
    if given is not None:
        given = integer("records", given, at_least=1)
    bound = known.get("n_min")
    if bound is not None:
        if given is not None and given != bound:
            # The count itself stays out of the message: errors get logged.
            raise InvalidArgument(
                f"argument `records` has to be the public lower bound n_min = {bound} that this"
                " release was made with; the number of records is protected by its guarantee and"
                " must not be printed"
            )
        return int(bound)
    count = known.get("n")
    if count is None:
        if given is None:
            raise invalid("records", None, "this release does not know how many; give the number")
        facts.stated.append("number of records")
        return given
    if given is not None and given != count:
        raise InvalidArgument(
            f"argument `records` = {given} contradicts the release, which was made with n ="
            f" {count}; leave it out"
        )
    return int(count)


def _delta_for(guarantee: Guarantee, budget: Budget | None, delta: float | None) -> float:
    if delta is not None:
        return real("delta", delta, at_least=0.0, below=1.0)
    if math.isfinite(guarantee.epsilon(0.0)):
        return 0.0
    return float(budget.delta) if budget is not None and budget.delta > 0.0 else 1e-5


# ----------------------------------------------------------------------------------------------
# words for objects
def _same(held: object, given: object) -> bool:
    return bool(held == given)


def _same_space(held: object, given: object) -> bool:
    return type(held) is type(given) and repr(held) == repr(given)


def _same_ball(held: Ball, given: Ball) -> bool:
    if float(held.radius) != float(given.radius):
        return False
    pairs = zip(_arrays(held.center), _arrays(given.center), strict=True)
    return len(_arrays(held.center)) == len(_arrays(given.center)) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=0.0, atol=1e-6) for a, b in pairs
    )


def _shown(held: Any) -> str:
    radius = getattr(held, "radius", None)
    return str(held) if radius is None else f"a ball of radius {number(float(radius))}"


def _space_in_words(manifold: AbstractManifold) -> str:
    return f"{manifold!r} (dimension {manifold.dim})"


def _search(release: Release | OptimizationResult) -> SearchFacts | None:
    """What the release says about the search for its ball; None where the ball was given."""
    known = getattr(release, "details", None) or {}
    if "share_of_search" not in known or "ball" not in known:
        return None
    law = getattr(release, "error_law", None)
    return SearchFacts(
        share=float(known["share_of_search"]),
        pure=math.isfinite(release.guarantee.epsilon(0.0)),
        rounds=int(known["rounds"]),
        scales=len(known["scales"]),
        error_bar=None if law is None else float(law.quantile(0.95)),
    )


def _region(release: Release | OptimizationResult) -> RegionFacts | None:
    """The 95 % region of a release whose error has a known law."""
    if getattr(release, "observation", None) is None:
        return None
    return _of_region(cast("Release", release).confidence_region())


def _population(release: Release | OptimizationResult) -> tuple[RegionFacts, ...]:
    """The 95 % regions of the population's mean, where the release knows a dispersion."""
    if getattr(release, "observation", None) is None:
        return ()
    return tuple(map(_of_region, cast("Release", release)._population_regions()))


def _of_region(region: Region) -> RegionFacts:
    longest, shortest = float(max(region.half_axes)), float(min(region.half_axes))
    return RegionFacts(
        level=region.level,
        radius=longest,
        subject=region.subject,
        place=region.observation.place,
        shortest=None if region.axes is None else shortest,
        of=region.of,
    )


def _much_noise(release: Release | OptimizationResult, radius: float | None) -> MuchNoise | None:
    """Whether the noise is as large as the ball, of the release or as its publisher states it."""
    if getattr(release, "error_law", None) is None:
        return None
    return cast("Release", release)._much_noise(radius)


def _domain_in_words(ball: Ball, manifold: AbstractManifold | None, found: bool) -> str:
    center = _centre_in_words(ball, manifold)
    if found:
        return (
            f"a ball that was found privately: all points within distance {number(ball.radius)} of"
            f" a released centre, {center}"
        )
    return f"all points within distance {float(ball.radius):g} of the public centre, {center}"


def _centre_in_words(ball: Ball, manifold: AbstractManifold | None) -> str:
    """The public centre: a name where it has one, else the first digits of its SHA-256."""
    arrays = _arrays(ball.center)
    if len(arrays) == 1:
        a = arrays[0]
        if a.ndim == 2 and a.shape[0] == a.shape[1] and a[0, 0] > 0:
            if np.array_equal(a, np.eye(len(a))):
                return "the identity matrix"
            if np.array_equal(a, a[0, 0] * np.eye(len(a))):
                return f"{number(float(a[0, 0]))} times the identity matrix"
        if manifold is not None and np.array_equal(a, np.asarray(manifold.origin)):
            return "the origin of the space"
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return f"whose entries have the SHA-256 {digest.hexdigest()[:16]}..."


def _clipping_in_words(ball: Ball) -> str:
    return (
        "every record is first moved along the geodesic to the centre until it lies in the domain;"
        " a record that is not a valid point counts as the centre"
    )


def _holds(ledger: Ledger, release: Release | OptimizationResult) -> bool:
    """Whether the ledger has the charges of a release and of all that was put beside it."""
    known = getattr(release, "details", None) or {}
    receipts = [getattr(r, "receipt", None) for r in (release, *known.get("dispersions", ()))]
    return all(receipt is not None and ledger.holds(receipt.id) for receipt in receipts)


def _ledger_in_words(ledger: Ledger, release: Release | OptimizationResult) -> str:
    spent = float(ledger.spent.epsilon(ledger.budget.delta))
    return f"epsilon {spent:.4g} of {ledger.budget.epsilon:g} spent so far at delta" + (
        f" {ledger.budget.delta:g}, this release included"
        if _holds(ledger, release)
        else f" {ledger.budget.delta:g}; this release, or a part of it, is not in this ledger"
    )


def _arrays(point: Point) -> list[np.ndarray]:
    if isinstance(point, tuple):
        return [a for part in point for a in _arrays(part)]
    return [np.asarray(point, dtype=np.float64)]


def _scalar(x: Any) -> float | None:
    if x is None or np.size(x) != 1:
        return None
    return float(np.asarray(x).reshape(()))
