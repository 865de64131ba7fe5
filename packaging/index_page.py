"""Makes the page that a package index shows of README.md, when a distribution is built.

An index shows the page without the repository, so a relative link or picture would be broken there.
With RIEMDP_FILES, the address under which the files of this version lie (ending in /), relative
addresses become absolute. Without it pictures are left out and links become their text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?://)([^)\s]+)\)\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def page(text: str, files: str) -> str:
    """The text of README.md with addresses that hold outside the repository."""
    if not files:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?://)", rf"\g<1>{files}", text)
    return _LINK.sub(rf"[\1]({files}\2)", text)


class IndexPage(MetadataHookInterface):
    """Hatchling calls `update` with what pyproject.toml says."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = page(text, os.environ.get("RIEMDP_FILES", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
