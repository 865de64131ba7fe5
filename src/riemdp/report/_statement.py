"""The public facts of one release, and the figures of a privacy report that follow from them."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..privacy import Budget, Guarantee
from ..privacy._arithmetic import LATTICE
from ..privacy._cautions import cautions
from ..privacy._guarantee import PERSON
from ..privacy._trade_off import TradeOff, posterior
from . import _facts
from ._facts import LedgerFacts, SearchFacts, json_number
from ._words import strength

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult

SCHEMA = "riemdp.privacy-report/2"
_PRIORS = (0.01, 0.10, 0.50)


@dataclasses.dataclass(frozen=True, eq=False)
class Statement:
    """The public facts of one release, read off it, and the figures that follow from them."""

    release: Release | OptimizationResult = dataclasses.field(repr=False)
    record_is: str
    max_records_per_person: int | None
    ledger: LedgerFacts | None
    checksum: str | None
    created: str
    versions: Mapping[str, str]

    # ---------------------------------------------------------------- facts of the release
    @functools.cached_property
    def _known(self) -> Mapping[str, Any]:
        return _facts.known_of(self.release)

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the release."""
        return self.release.guarantee

    @property
    def budget(self) -> Budget | None:
        """What the release was allowed to cost, where it knows that."""
        return self._known.get("budget")

    @property
    def of_people(self) -> bool:
        """Whether everything of one person is protected; `records` are people then."""
        return self.guarantee.unit == PERSON

    @property
    def at_least(self) -> bool:
        """Whether `records` is a public lower bound; how many there are is protected then."""
        return self._known.get("n_min") is not None

    @property
    def records(self) -> int | None:
        """How many records (or people) went in, or the public lower bound of their number; None
        where the release does not know.
        """
        count = self._known.get("n_min" if self.at_least else "n")
        return None if count is None else int(count)

    @property
    def released(self) -> str:
        """What was released, in words."""
        return str(self._known.get("released", self._known.get("query", "released value")))

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Privacy report: {self.released}"

    @property
    def mechanism(self) -> str:
        """Its name."""
        release = self.release
        name = getattr(release, "mechanism", None) or getattr(release, "method", None)
        return str(name or type(release).__name__)

    @property
    def space(self) -> str:
        """The space of the released value, in words."""
        return _facts.space_in_words(self._known)

    @property
    def domain(self) -> str:
        """The domain that records are moved into, in words."""
        return _facts.domain_in_words(self._known)

    @property
    def radius(self) -> float | None:
        """Of the ball, where there is one."""
        ball = self._known.get("ball")
        return None if ball is None else float(ball.radius)

    @property
    def sensitivity(self) -> float | None:
        """The most that one record, or one person, can move the result."""
        known = self._known.get("sensitivity")
        return _facts.scalar(getattr(self.release, "sensitivity", known))

    @property
    def noise_scale(self) -> float | None:
        """Scale of the noise in each orthonormal coordinate."""
        scale = getattr(self.release, "scale", None)
        return _facts.scalar(getattr(self.release, "sigma", None) if scale is None else scale)

    @property
    def error_from_noise(self) -> float | None:
        """Root mean squared distance that the noise causes, where a formula is known."""
        if self._known.get("unit") == "squared distance":  # no distance
            return None
        return _facts.scalar(getattr(self.release, "expected_error", None))

    @functools.cached_property
    def search(self) -> SearchFacts | None:
        """Of a ball that was found privately."""
        return _facts.search_of(self.release)

    @property
    def on_grid(self) -> bool:
        """Whether the noise is in integers on a public grid."""
        return self._known.get("numerics") == LATTICE

    @property
    def outside(self) -> Any:
        """The noisy count of records outside the domain, where there is one."""
        return self._known.get("outside")

    @property
    def valid(self) -> Any:
        """The noisy count of valid records, where there is one."""
        return self._known.get("valid")

    @property
    def records_in_words(self) -> str:
        """How many records (or people) went in, or the public lower bound of their number."""
        if self.records is None:
            return "not stated"
        return f"{'at least ' if self.at_least else ''}{self.records:,}"

    # ---------------------------------------------------------------- figures of privacy
    @property
    def delta(self) -> float:
        """The delta that epsilon is stated at: 0 for a pure guarantee, else the budget's."""
        if math.isfinite(self.guarantee.epsilon(0.0)):
            return 0.0
        budget = self.budget
        return float(budget.delta) if budget is not None and budget.delta > 0.0 else 1e-5

    @property
    def epsilon(self) -> float:
        """Upper bound on epsilon at the report's delta."""
        return float(self.guarantee.epsilon(self.delta))

    @property
    def private(self) -> bool:
        """False where a seed was used or epsilon is infinite: nothing here is private then."""
        return not self.release.reproducible and math.isfinite(self.epsilon)

    @functools.cached_property
    def trade_off(self) -> TradeOff:
        """The bound on every attack, computed from the guarantee."""
        return self.guarantee.trade_off()

    @property
    def detected_together(self) -> list[tuple[str, float, float]]:
        """What an attack detects at 1 % and at 0.1 % false alarms, where more than one record and
        one release are looked at: ("person", ...) for all records of one person, ("ledger", ...)
        for one record and everything that the ledger has charged. Where all figures are upper
        bounds, that of more is at least that of one.
        """
        more: list[tuple[str, Guarantee]] = []
        if self.max_records_per_person is not None:
            more.append(("person", self.guarantee.group(self.max_records_per_person)))
        if self.ledger is not None:
            more.append(("ledger", self.ledger.spent))
        one = self.trade_off

        def at(whole: Guarantee, rate: float) -> float:
            return max(one.rate(rate), whole.trade_off().rate(rate))

        return [(kind, at(g, 0.01), at(g, 0.001)) for kind, g in more]

    def beliefs(self) -> list[tuple[float, float]]:
        """The largest belief after the release for some beliefs before it: (before, after)."""
        loss = self.trade_off.loss_bound(self.delta)
        return [(p, posterior(p, loss)) for p in _PRIORS]

    @property
    def cautions(self) -> list[str]:
        """What to look at before signing: delta of 1/n or more, a nominal epsilon, large noise,
        few valid records, many records outside the ball.
        """
        noisy = None
        if getattr(self.release, "error_distribution", None) is not None:
            noisy = cast("Release", self.release)._much_noise(self.radius)
        further = [f.caution for f in (noisy, self.valid, self.outside) if f is not None]
        return [
            *cautions(self.guarantee, self.delta, self.records),
            *(caution for caution in further if caution is not None),
        ]

    # ---------------------------------------------------------------- for machines
    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values; infinite numbers are the string "infinity"."""
        people = {"people": self.records, "people_is_lower_bound": self.at_least}
        region = _facts.region_of(self.release)
        return {
            "schema": SCHEMA,
            "private": self.private,
            "title": self.title,
            "released": self.released,
            "released_sha256": self.checksum,
            "created_utc": self.created,
            "protects": f"one {self.guarantee.unit}",
            "records": None if self.of_people else self.records,
            "records_is_lower_bound": self.at_least and not self.of_people,
            **(people if self.of_people else {}),
            "one_record_is": self.record_is,
            "max_records_per_person": self.max_records_per_person,
            "seen_by": _facts.seen_by(self.release),
            "noise_of_a_round": json_number(_facts.noise_of_a_round(self.release)),
            "sites": [
                {"name": name, "asked": asked, "epsilon": json_number(epsilon)}
                for name, asked, epsilon in _facts.sites_of(self.release, self.delta)
            ],
            "space": self.space,
            "domain": self.domain,
            "radius": json_number(self.radius),
            "private_search": None if self.search is None else self.search.to_dict(),
            "clipping": _facts.clipping_in_words(self._known),
            "records_valid": None if self.valid is None else self.valid.to_dict(),
            "records_outside": None if self.outside is None else self.outside.to_dict(),
            "mechanism": self.mechanism,
            "sensitivity": json_number(self.sensitivity),
            "noise_scale": json_number(self.noise_scale),
            "arithmetic": self._known.get("numerics"),
            "error_from_noise": json_number(self.error_from_noise),
            "confidence_region": None if region is None else _facts.region_to_dict(region),
            "mean_direction": _facts.direction_to_dict(self._known),
            "guarantee": self._guarantee_dict(),
            "attacker": self._attacker_dict(),
            "cautions": self.cautions,
            "cryptographic_randomness": not self.release.reproducible,
            "ledger": None if self.ledger is None else self.ledger.sentence,
            "in_ledger": None if self.ledger is None else self.ledger.holds,
            "versions": dict(self.versions),
        }

    def _guarantee_dict(self) -> dict[str, Any]:
        stated: dict[str, Any] = {
            "adjacency": str(self.guarantee.adjacency),
            "assumes": self.guarantee.assumes,
            "participation": _facts.participation(self.release, self.delta),
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "budget": None if self.budget is None else [self.budget.epsilon, self.budget.delta],
            "epsilon_delta_curve": [[json_number(e), d] for e, d in self.trade_off.supports],
        }
        if self.max_records_per_person is not None:
            person = self.guarantee.group(self.max_records_per_person)
            stated["epsilon_of_one_person"] = json_number(float(person.epsilon(self.delta)))
        return stated

    def _attacker_dict(self) -> dict[str, Any]:
        bound = self.trade_off
        return {
            "best_guess_between_two_candidates": bound.best_guess,
            "advantage": bound.advantage,
            "detection_rate_at_1_percent_false_alarms": bound.rate(0.01),
            "detection_rate_at_0.1_percent_false_alarms": bound.rate(0.001),
            "detection_rates_of_more": {
                kind: {"at_1_percent_false_alarms": one, "at_0.1_percent_false_alarms": tenth}
                for kind, one, tenth in self.detected_together
            },
            "largest_posterior": {f"{p:g}": after for p, after in self.beliefs()},
            "reading": strength(bound.best_guess)[0] if self.private else "none",
        }

    def to_json(self) -> str:
        """`to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
