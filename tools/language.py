"""Count what the style guide of CONTRIBUTING.md asks for, in the pages that a reader sees.

    python tools/language.py           one line per rule: count, limit
    python tools/language.py --where   every place, too

Code blocks, code in a line and formulas are not counted. `tests/docs/test_language.py` holds the
limits, which may only shrink.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CODE = re.compile(r"^(`{3,}).*?^\1|`[^`\n]*`|\$\$.*?\$\$|(?<![\\$])\$[^$\n]+\$", re.DOTALL | re.M)


# The artefacts of a page of results.
_WRITTEN = re.compile(r"<!-- the artefacts of.*?(?:<!-- end of the artefacts of|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A pattern that is to be rare, or (`at_least`) to be there."""

    name: str
    pattern: re.Pattern[str]
    limit: int
    at_least: bool = False
    under: str = ""  # a folder of docs/; all pages if empty

    def holds(self, count: int) -> bool:
        return count >= self.limit if self.at_least else count <= self.limit


RULES = (
    Rule("law (distribution)", re.compile(r"\blaws?\b"), 0),
    Rule("beside (compared with, next to)", re.compile(r"\bbeside\b"), 4),
    Rule("decimals without a zero", re.compile(r"(?<![\d.\w])\.\d"), 0),
    Rule("user-level", re.compile(r"user-level"), 20, at_least=True),
    Rule(
        "formulas of proofs in plain text",
        re.compile(r"<=|>=|\w\^[\w({-]|\bsqrt\b|\b\d+e-\d"),
        10,
        under="proofs",
    ),
    Rule("links to sources", re.compile(r"https?://"), 40, at_least=True),
)


def pages(root: Path = ROOT) -> list[Path]:
    """README and docs."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def prose(text: str) -> str:
    """A page without code, formulas and what a program wrote; its lines stay where they are."""
    for pattern in (_WRITTEN, _CODE):
        text = pattern.sub(lambda m: "\n" * m[0].count("\n"), text)
    return text


def places(rule: Rule, root: Path = ROOT) -> list[str]:
    """Where a rule's pattern occurs: page:line."""
    return [
        f"{page.relative_to(root)}:{number}: {line.strip()[:120]}"
        for page in pages(root)
        if rule.under in page.parts or not rule.under
        for number, line in enumerate(prose(page.read_text(encoding="utf-8")).splitlines(), 1)
        for _ in rule.pattern.finditer(line)
    ]


LONG, MOST_LONG = 35, 29  # words of a sentence; how many longer ones all pages may have
_ITEM = re.compile(r"\n(?=\s*(?:[-*] |\d+\. |\||#|:   |!!!|\?\?\?))|\n\s*\n")


def long_sentences(root: Path = ROOT) -> list[str]:
    """Sentences with more than `LONG` words, outside tables; a formula counts as one word."""
    found = []
    for page in pages(root):
        text = _CODE.sub("x", _WRITTEN.sub("", page.read_text(encoding="utf-8")))
        for item in _ITEM.split(text):
            if not item.strip().startswith(("|", "#", ":::")):
                sentences = re.split(r"(?<=[.!?:])\s+", " ".join(item.split()))
                found += [(page, s) for s in sentences if len(s.split()) > LONG]
    return [f"{page.relative_to(root)}: {sentence[:120]}" for page, sentence in found]


def main() -> int:
    found = long_sentences()
    broken = int(len(found) > MOST_LONG)
    print(f"sentences over {LONG} words: {len(found)} (at most {MOST_LONG})")
    if "--where" in sys.argv[1:]:
        print("\n".join(f"    {place}" for place in found))
    for rule in RULES:
        found = places(rule)
        broken += not rule.holds(len(found))
        bound = "at least" if rule.at_least else "at most"
        print(f"{rule.name}: {len(found)} ({bound} {rule.limit})")
        if "--where" in sys.argv[1:]:
            print("\n".join(f"    {place}" for place in found))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
