"""A privacy report in another language: its sentences are translated, its numbers are not changed.

The sentences of a report are made in English (`_facts.py`, `_words.py`, and the public facts that a
release holds). A `Language` knows each of them as a pattern with places for numbers and names. A
sentence that it does not know, such as the words of a user's own mechanism, stays as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from importlib import resources

from .._errors import one_of

ENGLISH = "en"
LANGUAGES = (ENGLISH, "de")

_PLACE = re.compile(r"\{(\w+)(?::(\w))?\}")
_NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)(?![.,]\d)"
)
# Places hold something that stays as it is (r: names, the words of the publisher), a sentence or
# half of one (t), or a number (no letter).
_RAW, _TEXT = "r", "t"
_SENTENCE = re.compile(r"(?<=[.;:]) ")


@dataclasses.dataclass(frozen=True)
class Language:
    """How the sentences of a report are said in one language.

    Attributes:
        code: As HTML names it: "en", "de".
        patterns: English patterns and what they become, the first that fits is taken.
        decimal: The decimal point.
        thousands: What stands between groups of three digits.
    """

    code: str
    patterns: tuple[tuple[str, str], ...] = ()
    decimal: str = "."
    thousands: str = ","

    def say(self, text: str, unknown: Callable[[str], object] = lambda text: None) -> str:
        """A sentence of a report in this language.

        Args:
            text: The sentence in English.
            unknown: Called with each part that is not known and stays as it is.
        """
        if self.code == ENGLISH:
            return text
        found = self._known(text, unknown)
        if found is not None:
            return found
        parts = _SENTENCE.split(text)
        if len(parts) > 1:
            # as many sentences together as are known, from the left
            for i in range(len(parts) - 1, 0, -1):
                head = self._known(" ".join(parts[:i]), unknown)
                if head is not None:
                    return f"{head} {self.say(' '.join(parts[i:]), unknown)}"
        if not re.search("[A-Za-z]{2}", text):
            return self.number(text)
        unknown(text)
        return text

    def number(self, text: str) -> str:
        """Decimal points and groups of digits as this language writes them."""
        swap = str.maketrans({",": self.thousands, ".": self.decimal})
        return _NUMBER.sub(lambda found: found.group().translate(swap), text)

    def _known(self, text: str, unknown: Callable[[str], object]) -> str | None:
        """A sentence that is in the table, with or without its full stop."""
        found = self._whole(text, unknown)
        if found is None and text.endswith("."):
            found = self._whole(text[:-1], unknown)
            return None if found is None else found + "."
        return found

    def _whole(self, text: str, unknown: Callable[[str], object]) -> str | None:
        for pattern, kinds, german in self._compiled:
            found = pattern.fullmatch(text)
            if found is None:
                continue
            said: dict[str, str] = {}
            for name, kind in kinds.items():
                part = found.group(name)
                if kind == _TEXT:
                    part = self.say(part, unknown)
                elif kind != _RAW:
                    part = self.number(part) if re.search(r"\d", part) else self.say(part, unknown)
                said[name] = part
            return _filled(german, said)
        return None

    @functools.cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], dict[str, str], str]]:
        return [(*_compile(english), german) for english, german in self.patterns]


def _filled(pattern: str, said: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: said[place.group(1)], pattern)


def _compile(english: str) -> tuple[re.Pattern[str], dict[str, str]]:
    parts, kinds, last = [], {}, 0
    for place in _PLACE.finditer(english):
        name, kind = place.group(1), place.group(2) or ""
        kinds[name] = kind
        what = r".+?" if kind else r"[^\s]+?(?: × 10[⁻⁰-⁹¹²³]+)?(?:\u00a0%)?"
        parts += [re.escape(english[last : place.start()]), f"(?P<{name}>{what})"]
        last = place.end()
    parts.append(re.escape(english[last:]))
    return re.compile("".join(parts), re.DOTALL), kinds


@functools.cache
def patterns(code: str) -> tuple[tuple[str, str], ...]:
    """The table of a language: English patterns and what they become."""
    file = resources.files("riemdp.report") / "templates" / f"{code}.txt"
    blocks = file.read_text(encoding="utf-8").split("\n\n")[1:]
    pairs = [block.strip("\n").split("\n") for block in blocks]
    return tuple((english, other) for english, other in pairs)


def language_of(code: str) -> Language:
    """The language with this code.

    Raises:
        InvalidArgument: There is none.
    """
    one_of("language", code, LANGUAGES)
    return Language(ENGLISH) if code == ENGLISH else _german()


@functools.cache
def _german() -> Language:
    return Language("de", patterns("de"), decimal=",", thousands="\N{NARROW NO-BREAK SPACE}")
