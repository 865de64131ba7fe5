"""`PrivacyReport`: the facts of one release as a page and as JSON, written together."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from .._errors import invalid
from .._files import staged
from ..privacy._ledger_state import is_ledger
from ._facts import ReportFacts
from ._language import ENGLISH, language_of
from ._page import render
from ._pictures import guess_bar_picture, trade_off_picture
from ._words import strength


@dataclasses.dataclass(frozen=True)
class PrivacyReport(ReportFacts):
    """What one release tells the world, for a person who has to sign for it.

    Make it with `privacy_report`. It holds no record, no noise and no key; the released value
    itself is named by its checksum only. `html()` is one self-contained page, `to_dict()` the same
    facts for a machine, `save(path)` writes both.
    """

    def html(self) -> str:
        """One page that needs nothing else: no script, no font, no picture is fetched. Its language
        is `language`.
        """
        bound = self.trade_off
        word, meaning = strength(bound.best_guess)
        if not self.private:
            word, meaning = "none", "No protection is claimed for this result."
        language = language_of(self.language)
        page = "report.html.j2" if self.language == ENGLISH else f"report.{self.language}.html.j2"
        return render(
            page,
            {
                "report": self,
                "say": language.say,
                "bound": bound,
                "bar": guess_bar_picture(bound.best_guess),
                "curve": trade_off_picture(bound),
                "strength": word,
                "strength_meaning": meaning,
                "beliefs": self.beliefs(),
            },
        )

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        return render("frame.html.j2", {"page": self.html()})

    def save(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """Write the page and the same facts beside it, both whole or neither.

        Args:
            path: a name that ends in .html; the JSON gets the same name with .json.

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
