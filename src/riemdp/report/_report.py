"""`PrivacyReport`: the facts of one release as a page and as JSON, written together."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from .._errors import integer, invalid
from .._files import staged
from .._version import __version__
from ..privacy import Ledger
from ..privacy._book import is_ledger
from ..privacy._guarantee import PERSON
from . import _facts, _page
from ._statement import Statement

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult


def privacy_report(
    release: Release | OptimizationResult,
    *,
    record_is: str = "one row",
    max_records_per_person: int | None = None,
    ledger: Ledger | None = None,
    checksum: str | None = None,
) -> PrivacyReport:
    """The privacy report of a release. Every fact is read off the release; a fact that it does not
    hold, as that of a mechanism that was called directly, is "not stated by the release".

    Args:
        release: What was released: a `Release` or an `OptimizationResult`.
        record_is: What one record is, in words.
        max_records_per_person: The most records that one person has; adds the guarantee for all of
            them together (`Guarantee.group`). Not for a release with `groups`.
        ledger: The ledger that was charged. The page shows its total, and says whether it holds the
            charge of this release.
        checksum: SHA-256 of the released file. It is an exact function of what was released, never
            of the records.

    Returns:
        The report. Nothing is computed from records, and the released value is not in it.

    Raises:
        InvalidArgument: `release` is none, or `max_records_per_person` does not go with it.

    Example:
        >>> import numpy as np, riemdp
        >>> release = riemdp.private_frechet_mean(
        ...     riemdp.Euclidean(2),
        ...     np.zeros((100, 2)),
        ...     riemdp.Ball(np.zeros(2), 1.0),
        ...     riemdp.Budget(1.0),
        ... )
        >>> report = riemdp.report.privacy_report(release, record_is="one patient's scan")
        >>> report.epsilon, report.records
        (1.0, 100)
    """
    _facts.check_release(release)
    if max_records_per_person is not None:
        integer("max_records_per_person", max_records_per_person, at_least=1)
        if release.guarantee.unit == PERSON:
            raise invalid(
                "max_records_per_person",
                max_records_per_person,
                "this release protects one person with any number of records; leave it out",
            )
    return PrivacyReport(
        release=release,
        record_is=record_is,
        max_records_per_person=max_records_per_person,
        ledger=None if ledger is None else _facts.ledger_facts(ledger, release),
        checksum=checksum,
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {"riemdp": __version__, "Python": platform.python_version()}
    for name in ("jax", "numpy", "randomgen"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


class PrivacyReport(Statement):
    """What one release tells the world, for a person who has to sign for it.

    Make it with `privacy_report`. `html()` is one self-contained page, `to_dict()` the same facts
    for a machine, `save(path)` writes both. Neither holds a record, noise, a key or the released
    value, which is named by its checksum. Figures of privacy are rounded up.
    """

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What was released and how: (name, text)."""
        return _page.rows_of(self)

    def html(self) -> str:
        """One page that needs nothing else: no script, no font, no picture is fetched."""
        return _page.page_of(self)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return _page.framed(self)

    def save(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """Write the page and the same facts beside it, both whole or neither.

        Args:
            path: A name that ends in .html; the JSON gets the same name with .json.

        Returns:
            The two paths.
        """
        target = Path(path)
        if target.suffix.lower() not in {".html", ".htm"}:
            raise invalid(
                "path",
                str(path),
                "give a file name that ends in .html; the JSON is written beside it",
            )
        beside = target.with_suffix(".json")
        if is_ledger(beside):
            raise invalid(
                "path",
                str(path),
                f"{beside} is a ledger, which the JSON beside the page would overwrite; give"
                " another name",
            )
        with staged(target, beside) as (page_file, json_file):
            page_file.write_text(self.html(), encoding="utf-8")
            json_file.write_text(self.to_json(), encoding="utf-8")
        return str(target), str(beside)
