"""Run the Python blocks of a page, and see that the output under each block is what it writes.

    python tools/page_outputs.py docs/tutorial.md README.md   write the outputs into these pages

A page shows the output of a block in a `text` block right after it. Its title says whether its
numbers are those of every run; if they are not (there is fresh noise in them), only the words and
the count of the numbers are compared. `tests/docs/test_code_blocks.py` compares every page.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

SAME = 'title="Output"'
VARIES = 'title="Output (its numbers vary from run to run)"'
_BLOCK = re.compile(
    r"^```python[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n```text (?P<title>title=[^\n]*)\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\binf\b")


@dataclass(frozen=True)
class Example:
    """A block of a page: where its code begins, and the output that the page shows, if any."""

    line: int
    code: str
    title: str | None
    output: str | None
    end: int  # where the block and its output end in the text of the page


def examples(text: str) -> list[Example]:
    """The Python blocks of a page with the outputs shown under them."""
    return [
        Example(
            text.count("\n", 0, m.start("code")) + 1, m["code"], m["title"], m["output"], m.end()
        )
        for m in _BLOCK.finditer(text)
    ]


def run(text: str, name: str) -> Iterator[tuple[Example, str]]:
    """Every block of a page in turn, with what it writes; a failure has the page's line numbers."""
    names: dict[str, object] = {"__name__": "__docs__"}
    for example in examples(text):
        code = compile("\n" * (example.line - 1) + example.code, name, "exec", dont_inherit=True)
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            exec(code, names)
        yield example, written.getvalue()


def _close(shown: str, got: str) -> bool:
    a, b = float(shown), float(got)
    return a == b or abs(a - b) <= 0.02 * max(abs(a), abs(b))


def difference(shown: str, got: str, *, varies: bool) -> str | None:
    """The first line that differs in its words or numbers, or None."""
    for a, b in zip_longest(shown.rstrip().splitlines(), got.rstrip().splitlines(), fillvalue=""):
        words = [" ".join(_NUMBER.sub(" # ", line).split()).replace(" ]", "]") for line in (a, b)]
        numbers = [_NUMBER.findall(line) for line in (a, b)]
        same = words[0] == words[1] and (varies or all(map(_close, *numbers)))
        if not same:
            return f"the page shows: {a}\nit is:          {b}"
    return None


def write(page: Path) -> None:
    """Put what the blocks write under them; two runs show which numbers vary."""
    text = page.read_text(encoding="utf-8")
    start = os.getcwd()
    runs = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            runs.append(list(run(text, str(page))))
            os.chdir(start)
    made, last = "", 0
    for (example, first), (_, second) in zip(*runs, strict=True):
        varies = first != second or example.title == VARIES
        if why := difference(first, second, varies=varies):
            print(f"{page}:{example.line}: the words vary\n{why}")
        block = text[last : example.end]
        if example.output is not None:
            block = block[: block.rindex("\n```text ")]
        if first.strip():
            block += f"\n```text {VARIES if varies else SAME}\n{first.rstrip()}\n```\n"
        else:
            print(f"{page}:{example.line}: it writes nothing")
        made += block
        last = example.end
    page.write_text(made + text[last:], encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
