"""The facts of one release that a privacy report states: public ones only."""

from __future__ import annotations

import dataclasses
import datetime
import math
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from .._errors import InvalidArgument, integer, invalid
from .._version import __version__
from ._curve import TradeOff, posterior, trade_off
from ._words import ADJACENCY, MECHANISM, limits, strength

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Ball, Budget, Guarantee, Ledger

SCHEMA = "riemdp.privacy-report/1"
_PRIORS = (0.01, 0.10, 0.50)


@dataclasses.dataclass(frozen=True)
class PrivacyReport:
    """What one release tells the world, for a person who has to sign for it.

    Make it with `privacy_report`. It holds no record, no noise and no key; the released value
    itself is named by its checksum only. `html()` is one self-contained page, `to_dict()` the same
    facts for a machine, `save(path)` writes both.
    """

    title: str
    released: str
    records: int
    record_is: str
    space: str
    domain: str
    clipping: str
    clamped: int | None
    mechanism: str
    sensitivity: float | None
    noise_scale: float | None
    expected_error: float | None
    guarantee: Guarantee
    budget: Budget | None
    delta: float
    reproducible: bool
    ledger: str | None
    checksum: str | None
    created: str
    versions: Mapping[str, str]
    at_least: bool = False  # `records` is a public lower bound; how many there are is protected

    # ---------------------------------------------------------------- derived, all public
    @property
    def epsilon(self) -> float:
        """Upper bound on epsilon at the report's delta."""
        return float(self.guarantee.epsilon(self.delta))

    @property
    def private(self) -> bool:
        """False where a seed was used or the guarantee is infinite: then nothing here may be called
        private.
        """
        return not self.reproducible and math.isfinite(self.epsilon)

    @property
    def trade_off(self) -> TradeOff:
        """The bound on every attack, computed from the guarantee."""
        return trade_off(self.guarantee)

    @property
    def adjacency_in_words(self) -> str:
        return ADJACENCY.get(str(self.guarantee.adjacency), str(self.guarantee.adjacency))

    @property
    def mechanism_in_words(self) -> str:
        return MECHANISM.get(self.mechanism, self.mechanism)

    @property
    def limits(self) -> list[tuple[str, str]]:
        """What is not guaranteed: (heading, sentence)."""
        return limits(self.delta, str(self.guarantee.adjacency), self.reproducible)

    def to_dict(self) -> dict[str, Any]:
        """The same facts as JSON-ready values; infinite numbers are the string "infinity"."""
        bound = self.trade_off
        return {
            "schema": SCHEMA,
            "private": self.private,
            "title": self.title,
            "released": self.released,
            "released_sha256": self.checksum,
            "created_utc": self.created,
            "records": self.records,
            "records_is_lower_bound": self.at_least,
            "one_record_is": self.record_is,
            "space": self.space,
            "domain": self.domain,
            "clipping": self.clipping,
            "records_clamped": self.clamped,
            "mechanism": self.mechanism,
            "sensitivity": _json_number(self.sensitivity),
            "noise_scale": _json_number(self.noise_scale),
            "expected_error": _json_number(self.expected_error),
            "guarantee": {
                "adjacency": str(self.guarantee.adjacency),
                "epsilon": _json_number(self.epsilon),
                "delta": self.delta,
                "budget": None if self.budget is None else [self.budget.epsilon, self.budget.delta],
                "epsilon_delta_curve": [[_json_number(e), d] for e, d in bound.supports],
            },
            "attacker": {
                "best_guess_between_two_candidates": bound.best_guess,
                "advantage": bound.advantage,
                "detection_rate_at_1_percent_false_alarms": bound.detected(0.01),
                "detection_rate_at_0.1_percent_false_alarms": bound.detected(0.001),
                "largest_posterior": {
                    f"{p:g}": posterior(p, bound.loss_bound(self.delta)) for p in _PRIORS
                },
                "reading": strength(bound.best_guess)[0] if self.private else "none",
            },
            "not_guaranteed": [{"what": heading, "why": why} for heading, why in self.limits],
            "randomness": {
                "cryptographic": not self.reproducible,
                "source": (
                    "a seed (not private)"
                    if self.reproducible
                    else "ChaCha20 keyed by the operating system"
                ),
            },
            "ledger": self.ledger,
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """`to_dict` as indented JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def html(self) -> str:
        """One page that needs nothing else: no script, no font, no picture is fetched."""
        from ._html import page

        return page(self)

    def save(self, path: Any) -> tuple[str, str]:
        """Write `path` (.html) and the same facts beside it (.json), both whole or neither; returns
        the two paths.
        """
        from pathlib import Path

        from .._files import staged

        target = Path(path)
        if target.suffix.lower() not in {".html", ".htm"}:
            raise invalid(
                "path",
                str(path),
                "give a file name that ends in .html; the JSON is written beside it",
            )
        beside = target.with_suffix(".json")
        with staged(target, beside) as (page_file, json_file):
            page_file.write_text(self.html(), encoding="utf-8")
            json_file.write_text(self.to_json(), encoding="utf-8")
        return str(target), str(beside)


def privacy_report(
    release: Release,
    *,
    records: int,
    manifold: Any = None,
    ball: Ball | None = None,
    budget: Budget | None = None,
    query: str = "Fréchet mean",
    record_is: str = "one row of the input",
    delta: float | None = None,
    clamped: int | None = None,
    clipping: str | None = None,
    domain: str | None = None,
    space: str | None = None,
    ledger: Ledger | None = None,
    checksum: str | None = None,
    created: datetime.datetime | None = None,
) -> PrivacyReport:
    """The privacy report of a release.

    **Arguments:**

    - `release`: what a mechanism or `private_frechet_mean` returned. An `OptimizationResult` or a
      fitted estimator serves as well: what is read is `guarantee`, `reproducible` and, where
      present, `scale`, `mechanism`, `sensitivity`, `expected_error`.
    - `records`: how many records went in; the count is stated as public. For a release under
      add-or-remove-one with an `n_min` give that `n_min`: the true count is protected and refused
      here.
    - `manifold`, `ball`: the space and the public domain, described in words. `space`, `domain` and
      `clipping` replace those words.
    - `delta`: at which delta epsilon is stated; the budget's own delta when not given, else 0 for a
      pure guarantee or 1e-5.
    - `clamped`: how many records the domain moved. **This count comes from the data without
      noise**: give it only where it is public anyway.
    - `ledger`: the ledger that was charged; its total is shown.

    Nothing is computed from records here, and the released value enters by its `checksum` only.
    """
    count = integer("records", records, at_least=1)
    bound = (getattr(release, "details", None) or {}).get("n_min")
    if bound is not None and count != bound:
        # The count itself stays out of the message: errors get logged.
        raise InvalidArgument(
            f"argument `records` has to be the public lower bound n_min = {bound} that this release"
            " was made with; the number of records is protected by its guarantee and must not be"
            " printed"
        )
    if bound is not None and clamped is not None:
        raise invalid(
            "clamped",
            "given",
            "how many records were moved is protected as their number is; leave it out",
        )
    if clamped is not None:
        clamped = integer("clamped", clamped, at_least=0, at_most=count)
    guarantee = release.guarantee
    scale = getattr(release, "scale", None)
    scale = getattr(release, "sigma", None) if scale is None else scale
    mechanism = str(getattr(release, "mechanism", None) or type(release).__name__)
    at = _delta_for(guarantee, budget, delta)
    return PrivacyReport(
        title=f"Privacy report: {query}",
        released=query,
        records=count,
        record_is=record_is,
        space=space or ("not stated" if manifold is None else _space_in_words(manifold)),
        domain=domain or _domain_in_words(ball),
        clipping=clipping or _clipping_in_words(ball),
        clamped=clamped,
        mechanism=mechanism,
        sensitivity=_scalar(getattr(release, "sensitivity", None)),
        noise_scale=_scalar(scale),
        expected_error=_scalar(getattr(release, "expected_error", None)),
        guarantee=guarantee,
        budget=budget,
        delta=at,
        reproducible=bool(getattr(release, "reproducible", False)),
        ledger=None if ledger is None else _ledger_in_words(ledger, at),
        checksum=checksum,
        created=(created or datetime.datetime.now(datetime.UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        versions=versions(),
        at_least=bound is not None,
    )


def versions() -> dict[str, str]:
    """Versions of what made the release."""
    found = {"riemdp": __version__, "Python": platform.python_version()}
    for name in ("jax", "numpy", "dp-accounting", "randomgen", "cryptography"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _delta_for(guarantee: Guarantee, budget: Budget | None, delta: float | None) -> float:
    if delta is not None:
        return float(delta)
    pure = float(guarantee.epsilon(0.0))
    if math.isfinite(pure):
        return 0.0
    return float(budget.delta) if budget is not None and budget.delta > 0.0 else 1e-5


def _space_in_words(manifold: Any) -> str:
    return f"{manifold!r} (dimension {manifold.dim})"


def _domain_in_words(ball: Ball | None) -> str:
    if ball is None:
        return "not stated"
    return f"all points within distance {float(ball.radius):g} of a public centre"


def _clipping_in_words(ball: Ball | None) -> str:
    if ball is None:
        return "per record, before averaging"
    return (
        "every record is first moved along the geodesic to the centre until it lies in the domain;"
        " a record that is not a valid point counts as the centre"
    )


def _ledger_in_words(ledger: Ledger, delta: float) -> str:
    spent = float(ledger.spent.epsilon(ledger.budget.delta))
    return (
        f"epsilon {spent:.4g} of {ledger.budget.epsilon:g} spent so far at delta"
        f" {ledger.budget.delta:g}, this release included"
    )


def _scalar(x: Any) -> float | None:
    import numpy as np

    if x is None or np.size(x) != 1:
        return None
    return float(np.asarray(x).reshape(()))


def _json_number(x: float | None) -> float | str | None:
    if x is None or math.isfinite(x):
        return x
    return "infinity" if x > 0 else "undefined"
