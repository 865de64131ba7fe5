"""Run the Python and console blocks of a page, and see that each writes the output under it.

    python tools/page_outputs.py docs/tutorial.md README.md   write the outputs into these pages

A page shows the output of a block in a `text` block right after it. Its title says whether its
numbers are those of every run; if they are not (there is fresh noise in them), only the words and
the count of the numbers are compared. A `console` block holds commands of `riemdp`, one per line.
A `toml` block whose title is a name is a file that they find.
`tests/docs/test_code_blocks.py` compares every page.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import secrets
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from unittest.mock import patch

SAME = 'title="Output"'
VARIES = 'title="Output (its numbers vary from run to run)"'
_BLOCK = re.compile(
    r"^```(?P<language>python|console)[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n```text (?P<title>title=[^\n]*)\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r'^```toml title="([\w.-]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"(?<![\w.])(?=[0-9]*[a-f])[0-9a-f]{16,}\b")
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\binf\b")


@dataclass(frozen=True)
class Example:
    """A block of a page: where its code begins, and the output that the page shows, if any."""

    line: int
    language: str
    code: str
    title: str | None
    output: str | None
    end: int  # where the block and its output end in the text of the page


def examples(text: str) -> list[Example]:
    """The Python and console blocks of a page with the outputs shown under them."""
    return [
        Example(
            text.count("\n", 0, m.start("code")) + 1,
            m["language"],
            m["code"],
            m["title"],
            m["output"],
            m.end(),
        )
        for m in _BLOCK.finditer(text)
    ]


def run_commands(code: str) -> None:
    """The `$ riemdp ...` lines of a block, on a terminal of 80 columns; a failure is an error."""
    from riemdp.cli import main

    for line in code.splitlines():
        if not line.startswith("$ riemdp "):
            raise ValueError(f"not a command of riemdp: {line}")
        with patch.dict(os.environ, COLUMNS="80"):
            try:
                main(shlex.split(line, comments=True)[2:])
            except SystemExit as stopped:
                if stopped.code not in (0, None):
                    raise RuntimeError(f"{line} exits with {stopped.code}") from stopped


def run(text: str, name: str) -> Iterator[tuple[Example, str]]:
    """Every block of a page in turn, with what it writes; a failure has the page's line numbers."""
    names: dict[str, object] = {"__name__": "__docs__"}
    for file, content in _FILE.findall(text):
        Path(file).write_text(content, encoding="utf-8")
    for example in examples(text):
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            if example.language == "console":
                run_commands(example.code)
            else:
                lines = "\n" * (example.line - 1) + example.code
                exec(compile(lines, name, "exec", dont_inherit=True), names)
        yield example, written.getvalue()


def _close(shown: str, got: str) -> bool:
    a, b = float(shown), float(got)
    return a == b or abs(a - b) <= 0.02 * max(abs(a), abs(b))


def _words(text: str) -> str:
    """The words of a text, whatever its spaces, with a sign for each number."""
    return " ".join(_NUMBER.sub(" # ", _DIGEST.sub("#", text)).split()).replace(" ]", "]")


def difference(shown: str, got: str, *, varies: bool) -> str | None:
    """The first line that differs in its words or numbers, or None. If numbers vary, lines may
    break elsewhere.
    """
    if varies and _words(shown) == _words(got):
        return None
    for a, b in zip_longest(shown.rstrip().splitlines(), got.rstrip().splitlines(), fillvalue=""):
        words = [_words(line) for line in (a, b)]
        numbers = [_NUMBER.findall(line) for line in (a, b)]
        same = words[0] == words[1] and (varies or all(map(_close, *numbers)))
        if not same:
            return f"the page shows: {a}\nit is:          {b}"
    return None


def fixed_keys() -> contextlib.AbstractContextManager[object]:
    """Noise has the same keys in each such run: some words of an output depend on a noisy count."""
    return patch.object(secrets, "randbits", random.Random(0).getrandbits)


def write(page: Path) -> None:
    """Put what the blocks write under them, with the keys that the tests use; a second run with
    other keys shows which numbers vary.
    """
    text = page.read_text(encoding="utf-8")
    runs = []
    for keys in (fixed_keys(), contextlib.nullcontext()):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), keys:
            runs.append(list(run(text, str(page))))
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
