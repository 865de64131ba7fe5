"""What a release says about itself, as a privacy report needs it. All of it is public."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .._errors import invalid
from ..privacy import Budget, Guarantee, Ledger
from ._words import number, percent, rounded_up

if TYPE_CHECKING:
    from ..domains import Ball
    from ..inference import Region
    from ..manifolds import AbstractManifold
    from ..manifolds._base import Point
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult

_CLIPPED = (
    "every record is first moved along the geodesic to the centre until it lies in the domain; a"
    " record that is not a valid point counts as the centre"
)
_NOT_FITTED = "it is an estimator that is not fitted; call fit, and give its `release_`"
UNSTATED = "not stated by the release"


def check_release(release: object) -> None:
    """Refuse what is no release: an estimator holds one, or several, once it is fitted."""
    if hasattr(release, "guarantee") and hasattr(release, "reproducible"):
        return
    remedy = "give a Release or an OptimizationResult"
    if hasattr(release, "fit"):
        held = [name for name in ("release_", "releases_") if hasattr(release, name)]
        remedy = f"it is an estimator; give its `{held[0]}`" if held else _NOT_FITTED
        remedy += ", one report each" if held == ["releases_"] else ""
    raise invalid("release", type(release).__name__, remedy)


def known_of(release: Release | OptimizationResult) -> Mapping[str, Any]:
    """The public facts that a release holds, by name."""
    return getattr(release, "details", None) or {}


def scalar(x: Any) -> float | None:
    """A number, or None where there is none or more than one."""
    if x is None or np.size(x) != 1:
        return None
    return float(np.asarray(x).reshape(()))


def json_number(x: float | None) -> float | str | None:
    """A number for JSON, which has no infinity."""
    if x is None or math.isfinite(x):
        return x
    return "infinity" if x > 0 else "undefined"


# ---------------------------------------------------------------- space, domain, clipping
def space_in_words(known: Mapping[str, Any]) -> str:
    """The space of the released value."""
    manifold = known.get("manifold")
    told = UNSTATED if manifold is None else f"{manifold!r} (dimension {manifold.dim})"
    return known.get("space", told)


def domain_in_words(known: Mapping[str, Any]) -> str:
    """The public domain, or the ball that was found privately."""
    ball = known.get("ball")
    if ball is None or "domain" in known:
        return known.get("domain", UNSTATED)
    center = _center_in_words(ball, known.get("manifold"))
    if "share_of_search" in known:
        return (
            f"a ball that was found privately: all points within distance {number(ball.radius)} of"
            f" a released centre, {center}"
        )
    return f"all points within distance {float(ball.radius):g} of the public centre, {center}"


def clipping_in_words(known: Mapping[str, Any]) -> str:
    """How one record is bounded."""
    return known.get("clipping", UNSTATED if known.get("ball") is None else _CLIPPED)


def _center_in_words(ball: Ball, manifold: AbstractManifold | None) -> str:
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


def _arrays(point: Point) -> list[np.ndarray]:
    if isinstance(point, tuple):
        return [a for part in point for a in _arrays(part)]
    return [np.asarray(point, dtype=np.float64)]


# ---------------------------------------------------------------- the search for a ball
@dataclasses.dataclass(frozen=True)
class SearchFacts:
    """What a release says about the private search for its ball.

    Attributes:
        share: Share of the budget that the search spent, from 0 to 1.
        pure: Whether shares are of epsilon; else of mu^2, in which Gaussian noise adds up.
        rounds: How often the centre was moved towards the records.
        scales: How many scale factors were located.
        error_bar: The distance that the error from noise exceeds with probability 5 %, if known.
    """

    share: float
    pure: bool
    rounds: int
    scales: int
    error_bar: float | None

    @property
    def noise_factor(self) -> float:
        """The noise of the mean, divided by what the same ball would need if it cost nothing."""
        left = 1.0 - self.share
        return 1.0 / (left if self.pure else math.sqrt(left))

    @property
    def sentence(self) -> str:
        """What was found, and what that cost."""
        scale = "the scale of the records, then " if self.scales else ""
        moved = "once" if self.rounds == 1 else f"{self.rounds} times"
        centre = f"; the centre was moved {moved}" if self.rounds else ""
        return (
            f"{scale}a radius and a centre were estimated with noise{centre}."
            f" The search took {percent(self.share)} of the budget, which is part of the guarantee"
            f" below; the noise of the mean is {self.noise_factor:.2f} times that in a public ball"
            " of the same radius"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values."""
        return {
            "share_of_budget": self.share,
            "noise_factor": self.noise_factor,
            "centre_moved": self.rounds,
            "scales_located": self.scales,
            "error_from_noise_95": json_number(self.error_bar),
        }


def search_of(release: Release | OptimizationResult) -> SearchFacts | None:
    """What a release says about the search for its ball; None where the ball was given."""
    known = known_of(release)
    if "share_of_search" not in known or "ball" not in known:
        return None
    errors = getattr(release, "error_distribution", None)
    return SearchFacts(
        share=float(known["share_of_search"]),
        pure=math.isfinite(release.guarantee.epsilon(0.0)),
        rounds=int(known["rounds"]),
        scales=len(known["scales"]),
        error_bar=None if errors is None else float(errors.quantile(0.95)),
    )


# ---------------------------------------------------------------- the confidence region
def region_of(release: Release | OptimizationResult) -> Region | None:
    """The 95 % region of a release whose error has a known distribution."""
    if getattr(release, "observation", None) is None:
        return None
    return cast("Release", release).confidence_region()


def region_in_words(region: Region) -> str:
    """The error bar."""
    return (
        f"with {percent(region.level)} confidence {region.subject} lies within"
        f" {rounded_up(region.radius, 3)} of {region.observation.place}. Clipping bias and"
        " sampling error are not in this figure"
    )


def region_to_dict(region: Region) -> dict[str, Any]:
    """The error bar as JSON-ready values."""
    return {
        "level": region.level,
        "radius": json_number(region.radius),
        "subject": region.subject,
        "measured_from": region.observation.place,
    }


# ---------------------------------------------------------------- a mean direction
def direction_to_dict(known: Mapping[str, Any]) -> dict[str, Any] | None:
    """The figures of a mean direction as JSON-ready values; None of other releases."""
    if known.get("cone") is None:
        return None
    return {name: json_number(known[name]) for name in ("resultant", "concentration", "cone")}


# ---------------------------------------------------------------- the ledger
@dataclasses.dataclass(frozen=True)
class LedgerFacts:
    """A ledger as it was when the report was made.

    Attributes:
        name: Of its file, or that it is none.
        budget: What it may spend.
        spent: Everything that it has charged.
        holds: Whether the charge of the release is in it.
    """

    name: str
    budget: Budget
    spent: Guarantee
    holds: bool

    @property
    def sentence(self) -> str:
        """Which ledger holds the release, or that this one does not."""
        delta = self.budget.delta
        spent = rounded_up(float(self.spent.epsilon(delta)))
        held = ", this release included" if self.holds else "; this release is not in this ledger"
        return (
            f"{self.name}: epsilon {spent} of {self.budget.epsilon:g} spent so far at delta"
            f" {delta:g}{held}"
        )


def ledger_facts(ledger: Ledger, release: Release | OptimizationResult) -> LedgerFacts:
    """What a ledger has spent, and whether it holds the charges of a release."""
    receipt = getattr(release, "receipt", None)
    holds = receipt is not None and ledger.holds(receipt.id)
    path = ledger._book.path
    name = "a ledger in memory" if path is None else f"the ledger {path.name}"
    return LedgerFacts(name, ledger.budget, ledger.spent, holds)


# ---------------------------------------------------------------- who sees what
def seen_by(release: Release | OptimizationResult) -> str:
    """Who sees records, who sees noisy answers, and who sees the result only."""
    known = known_of(release)
    of_sites = "sizes" in known and "noise" in known  # class models know sizes of classes
    if not of_sites and not hasattr(release, "invitations"):
        return (
            "whoever runs the program sees the records. Everybody else sees the released value and"
            " this page"
        )
    records = "the records of a site are seen by that site alone."
    if known.get("noise") == "shared":
        return (
            f"{records} The server sees their masked answers, whose sum carries the noise of all"
            " sites together; it learns that sum and nothing else while what the guarantee assumes"
            " holds"
        )
    drawn = ""
    if known.get("participation") == "uniform":
        drawn = ", over the random choice of the sites that each round asked"
    return (
        f"{records} Each site adds all noise to its answers itself. The server, and whoever reads"
        " its messages, see the noisy answer of every site and which sites answered; the guarantee"
        f" holds against them too{drawn}"
    )


def sites_of(release: Release | OptimizationResult, delta: float) -> list[tuple[str, int, float]]:
    """Of each site of a federated release its name, how often it was asked, and the epsilon that
    this cost its own records; empty for other releases.
    """
    known, made = known_of(release), cast("Any", release)
    if "sums" in known and "sites" in known:  # a search asks all, and is charged as a whole
        whole = float(release.guarantee.epsilon(delta))
        return [(f"each of {known['sites']} sites", known["sums"], whole)]
    return [
        (name, asked, float(made.site_guarantee(name).epsilon(delta)))
        for name, asked in getattr(release, "invitations", {}).items()
    ]


def noise_of_a_round(release: Release | OptimizationResult) -> float | None:
    """How far the noise of one round moves the result, where that is known."""
    return known_of(release).get("noise_of_a_round")


def participation(release: Release | OptimizationResult, delta: float) -> str | None:
    """What a site can state that knows how often it took part; None where no sites took part."""
    invitations = getattr(release, "invitations", None)
    if not invitations:
        return None
    most = max(invitations.values())
    cost = cast("Any", release).participation_guarantee(most).epsilon(delta)
    return (
        f"the sites took part {min(invitations.values())} to {most} times. Given how often it was"
        f" asked, a site that took part {most} times can state epsilon {rounded_up(float(cost))} at"
        f" delta {rounded_up(delta) if delta else 0} for its own records"
    )
