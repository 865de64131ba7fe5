"""The public facts of one release, and the words and rows that a report makes of them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._errors import counted
from ..privacy._arithmetic import LATTICE, in_words
from ..privacy._cautions import cautions
from ..privacy._guarantee import PERSON
from ..privacy._trade_off import TradeOff, posterior
from ._language import ENGLISH
from ._words import (
    ADJACENCY,
    DELTA_MEANING,
    OF_PEOPLE,
    ONE_POINT,
    bias_sentence,
    group_sentence,
    limits,
    number,
    outside_sentence,
    percent,
    rounded_up,
    strength,
    valid_sentence,
)

if TYPE_CHECKING:
    from ..inference._much_noise import MuchNoise
    from ..mechanisms._outside import OutsideCount, ValidCount
    from ..privacy import Budget, Guarantee

SCHEMA = "riemdp.privacy-report/2"
_PRIORS = (0.01, 0.10, 0.50)


@dataclasses.dataclass(frozen=True)
class SearchFacts:
    """What a release says about the private search for its ball; all of it is released or public.

    Attributes:
        share: Share of the budget that the search spent, from 0 to 1.
        pure: Whether shares are of epsilon; else of mu^2, the currency of Gaussian noise.
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
            f"nobody chose the ball: {scale}a radius and a centre were found with noise{centre}."
            f" The search took {percent(self.share)} of the budget, which is part of the guarantee"
            f" below; it makes the noise of the mean {self.noise_factor:.2f} times as large as a"
            " ball for free would"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values."""
        return {
            "share_of_budget": self.share,
            "noise_factor": self.noise_factor,
            "centre_moved": self.rounds,
            "scales_located": self.scales,
            "error_from_noise_95": _json_number(self.error_bar),
        }


@dataclasses.dataclass(frozen=True)
class RegionFacts:
    """A confidence region of what was released.

    Attributes:
        level: Its probability.
        radius: The distance from `place` that holds the value with this probability.
        subject: What the region is of, in words.
        place: What its radius is measured from, in words.
        shortest: Half the shortest axis of an ellipsoid, `radius` being half the longest; None for
            a ball.
        of: "sample" or "population".
    """

    level: float
    radius: float
    subject: str
    place: str
    shortest: float | None = None
    of: str = "sample"

    @property
    def sentence(self) -> str:
        """The error bar in words."""
        most = rounded_up(self.radius, 3)
        where = f"within {most} of {self.place}"
        if self.shortest is not None:
            least = rounded_up(self.shortest, 3)
            where = f"in an ellipsoid of half-axes {least} to {most} about {self.place}"
        told = (
            "What clipping did to the records, and how they were sampled, is not in this figure"
            if self.of == "sample"
            else "It is for independent draws from one population. How they were sampled is in this"
            " figure; what clipping did to them is not"
        )
        asymptotic = ", for many records only" if self.shortest is not None else ""
        return (
            f"with {percent(self.level)} confidence{asymptotic} {self.subject} lies {where}. {told}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values."""
        return {
            "level": self.level,
            "radius": _json_number(self.radius),
            "shortest_half_axis": _json_number(self.shortest),
            "of": self.of,
            "subject": self.subject,
            "measured_from": self.place,
        }


@dataclasses.dataclass(frozen=True)
class ReportFacts:
    """The public facts of one release. It holds no record, no noise and no key; the released value
    itself is named by its checksum only.
    """

    title: str
    released: str
    records: int
    record_is: str
    space: str
    domain: str
    clipping: str
    mechanism: str
    sensitivity: float | None
    noise_scale: float | None
    error_from_noise: float | None
    guarantee: Guarantee
    budget: Budget | None
    delta: float
    reproducible: bool
    ledger: str | None
    checksum: str | None
    created: str
    versions: Mapping[str, str]
    at_least: bool = False  # `records` is a public lower bound; how many there are is protected
    radius: float | None = None  # of the public ball, where there is one
    max_records_per_person: int | None = None
    stated: tuple[str, ...] = ()  # facts in words that the release does not hold
    mechanism_words: str = ""  # what it does; its name is shown where there are none
    search: SearchFacts | None = None  # of a ball that was found privately
    region: RegionFacts | None = None  # where the law of the noise is known
    population: tuple[RegionFacts, ...] = ()  # where the dispersion of the records is known
    arithmetic: str = ""  # "lattice" or "idealised", where the release says it
    spent: Guarantee | None = None  # everything that the ledger has charged
    in_ledger: bool | None = None  # whether this release is in it
    valid: ValidCount | None = None  # of the records, counted with noise
    outside: OutsideCount | None = None
    person_is: str = ONE_POINT  # what a person's records count as
    much_noise: MuchNoise | None = None  # where the noise is as large as the ball
    language: str = ENGLISH  # of the page; the JSON is the same in all

    # ---------------------------------------------------------------- derived, all public
    @property
    def epsilon(self) -> float:
        """Upper bound on epsilon at the report's delta."""
        return float(self.guarantee.epsilon(self.delta))

    @property
    def private(self) -> bool:
        """False where a seed was used or epsilon is infinite: nothing here is private then."""
        return not self.reproducible and math.isfinite(self.epsilon)

    @property
    def trade_off(self) -> TradeOff:
        """The bound on every attack, computed from the guarantee."""
        return self.guarantee.trade_off()

    @property
    def limits(self) -> list[tuple[str, str]]:
        """What is not guaranteed: (heading, sentence)."""
        return limits(
            self.guarantee,
            self.delta,
            reproducible=self.reproducible,
            radius=self.radius,
            found=self.search is not None,
            lattice=self.arithmetic == LATTICE,
            counted=self.outside is not None,
        )

    @property
    def cautions(self) -> list[str]:
        """What to look at before signing: delta of 1/n or more, a nominal epsilon, large noise,
        few valid records, many records outside the ball.
        """
        found = cautions(self.guarantee, self.delta, self.records)
        counts = (self.much_noise, self.valid, self.outside)
        further = [f.caution for f in counts if f is not None]
        return [*found, *(caution for caution in further if caution is not None)]

    # ---------------------------------------------------------------- for machines
    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values; infinite numbers are the string "infinity"."""
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
            **self._people_dict(),
            "one_record_is": self.record_is,
            "max_records_per_person": self.max_records_per_person,
            "space": self.space,
            "domain": self.domain,
            "radius": _json_number(self.radius),
            "private_search": None if self.search is None else self.search.to_dict(),
            "clipping": self.clipping,
            "records_valid": None if self.valid is None else self.valid.to_dict(),
            "records_outside": None if self.outside is None else self.outside.to_dict(),
            "mechanism": self.mechanism,
            "sensitivity": _json_number(self.sensitivity),
            "noise_scale": _json_number(self.noise_scale),
            "arithmetic": self.arithmetic or None,
            "error_from_noise": _json_number(self.error_from_noise),
            "confidence_region": None if self.region is None else self.region.to_dict(),
            "population_regions": [region.to_dict() for region in self.population],
            "guarantee": self._guarantee_dict(),
            "attacker": self._attacker_dict(),
            "cautions": self.cautions,
            "not_guaranteed": [{"what": heading, "why": why} for heading, why in self.limits],
            "stated_by_the_publisher": list(self.stated),
            "randomness": {
                "cryptographic": not self.reproducible,
                "source": (
                    "a seed (not private)"
                    if self.reproducible
                    else "the operating system, or ChaCha20 keyed by it"
                ),
            },
            "ledger": self.ledger,
            "in_ledger": self.in_ledger,
            "versions": dict(self.versions),
        }

    @property
    def of_people(self) -> bool:
        """Whether everything of one person is protected; `records` are people then."""
        return self.guarantee.unit == PERSON

    def _people_dict(self) -> dict[str, Any]:
        if not self.of_people:
            return {}
        return {"people": self.records, "people_is_lower_bound": self.at_least}

    def _guarantee_dict(self) -> dict[str, Any]:
        stated: dict[str, Any] = {
            "adjacency": str(self.guarantee.adjacency),
            "assumes": self.guarantee.assumes,
            "epsilon": _json_number(self.epsilon),
            "delta": self.delta,
            "budget": None if self.budget is None else [self.budget.epsilon, self.budget.delta],
            "epsilon_delta_curve": [[_json_number(e), d] for e, d in self.trade_off.supports],
        }
        if self.max_records_per_person is not None:
            person = self.guarantee.group(self.max_records_per_person)
            stated["epsilon_of_one_person"] = _json_number(float(person.epsilon(self.delta)))
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

    @property
    def detected_together(self) -> list[tuple[str, float, float]]:
        """What an attack detects at 1 % and at 0.1 % false alarms, where more than one record and
        one release are looked at: ("person", ...) for all records of one person, ("ledger", ...)
        for one record and everything that the ledger has charged. Where all figures are upper
        bounds, that of more is at least that of one.
        """
        more: list[tuple[str, Guarantee]] = []
        if self.max_records_per_person is not None and not self.of_people:
            more.append(("person", self.guarantee.group(self.max_records_per_person)))
        if self.spent is not None:
            more.append(("ledger", self.spent))
        one = self.trade_off

        def at(whole: Guarantee, rate: float) -> float:
            return max(one.rate(rate), whole.attack_rate(rate))

        return [(kind, at(g, 0.01), at(g, 0.001)) for kind, g in more]

    def beliefs(self) -> list[tuple[float, float]]:
        """The largest belief after the release for some beliefs before it: (before, after)."""
        loss = self.trade_off.loss_bound(self.delta)
        return [(p, posterior(p, loss)) for p in _PRIORS]

    def to_json(self) -> str:
        """`to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    # ---------------------------------------------------------------- for people
    @property
    def cards(self) -> list[tuple[str, str, str]]:
        """The first figures: (name, figure, meaning)."""
        return [
            ("epsilon", rounded_up(self.epsilon), "smaller is more private; a true upper bound"),
            ("delta", rounded_up(self.delta) if self.delta > 0 else "0", DELTA_MEANING),
            ("people", self.records_in_words, "each with all records")
            if self.of_people
            else ("records", self.records_in_words, self.record_is),
            (
                "best guess",
                percent(self.trade_off.best_guess, up=True),
                "an attacker's success; a coin has 50 %",
            ),
        ]

    @property
    def records_in_words(self) -> str:
        """How many records (or people) went in, or the public lower bound of their number."""
        return f"{'at least ' if self.at_least else ''}{self.records:,}"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What was released and how: (name, text)."""
        words = OF_PEOPLE if self.of_people else ADJACENCY
        rows: list[tuple[str, str | None]] = [
            ("Released", self.released),
            ("Made from", self._made_from()),
            ("Space", self.space),
            ("Domain", self.domain),
            ("How it was found", None if self.search is None else self.search.sentence),
            ("Clipping", self.clipping + "."),
            ("Valid", None if self.valid is None else valid_sentence(self.valid)),
            ("Outside the domain", self._outside()),
            ("Mechanism", self.mechanism_words or self.mechanism),
            ("Sensitivity", self._sensitivity()),
            ("Noise scale", number(self.noise_scale)),
            ("Arithmetic", in_words(self.arithmetic) if self.arithmetic else None),
            ("Neighbouring data", words.get(str(self.guarantee.adjacency))),
            ("Guarantee", self._sentence()),
            ("It assumes", self.guarantee.assumes or None),
            ("One person", self._person()),
            ("Budget", self._budget()),
            ("Error from noise", self._error()),
            ("Confidence region", None if self.region is None else self.region.sentence),
            *(("Population", region.sentence) for region in self.population),
            ("Ledger", self.ledger),
            ("Released file", None if self.checksum is None else f"SHA-256 {self.checksum}"),
        ]
        return [(name, text) for name, text in rows if text is not None]

    def _made_from(self) -> str:
        least = "at least " if self.at_least else ""
        if self.of_people:
            people = counted(self.records, "person", "people")
            return f"{least}{people}, {self.person_is}; one record is {self.record_is}"
        return f"{least}{counted(self.records, 'record')}; one record is {self.record_is}"

    def _outside(self) -> str | None:
        return None if self.outside is None else outside_sentence(self.outside)

    def _sensitivity(self) -> str:
        return (
            f"{number(self.sensitivity)} (the most that one {self.guarantee.unit} can move the"
            " result)"
        )

    def _sentence(self) -> str:
        if not math.isfinite(self.epsilon):
            return f"none: no bound on what the release reveals about one {self.guarantee.unit}"
        eps = rounded_up(self.epsilon)
        factor = (
            f"by at most the factor {rounded_up(math.exp(min(self.epsilon, 700.0)), 3)} (e to the"
            f" power {eps})"
        )
        name, rest = f"{eps}-differential privacy (pure)", ""
        if self.delta > 0:
            delta = rounded_up(self.delta)
            name, rest = f"({eps}, {delta})-differential privacy", f", plus {delta}"
        return (
            f"{name}: exchanging one data set for a neighbouring one changes the probability of"
            f" any event {factor}{rest}"
        )

    def _person(self) -> str | None:
        k = self.max_records_per_person
        if k is None or not self.guarantee.is_private:
            return None
        count = "one record" if k == 1 else f"up to {counted(k, 'record')}"
        return f"one person with {count}: {group_sentence(self.guarantee, k, self.delta)}"

    def _budget(self) -> str | None:
        if self.budget is None:
            return None
        return f"epsilon {number(self.budget.epsilon)}, delta {number(self.budget.delta)}"

    def _error(self) -> str | None:
        if self.error_from_noise is None:
            return None
        bar = None if self.search is None else self.search.error_bar
        below = "" if bar is None else f"; below {number(bar)} with probability 95 %"
        numbers = "public" if self.search is None else "released"
        return (
            f"{number(self.error_from_noise)} (root mean squared distance, by a formula of"
            f" {numbers} numbers{below}). {bias_sentence(self.radius)}"
        )

    @property
    def origin(self) -> list[tuple[str, str]]:
        """Where the release comes from: (name, text)."""
        return [
            (
                "Randomness",
                "a seed given by the user; reproducible, therefore not private"
                if self.reproducible
                else "cryptographic: the operating system, or ChaCha20 with a 256-bit key from it,"
                " not kept",
            ),
            ("Made with", ", ".join(f"{k} {v}" for k, v in self.versions.items())),
            (
                "Not in this page",
                "no record, no noise, no key; the released value is named by its checksum only",
            ),
        ]


def _json_number(x: float | None) -> float | str | None:
    if x is None or math.isfinite(x):
        return x
    return "infinity" if x > 0 else "undefined"
