"""Every Python block of the documentation and the README runs, page by page, in an empty folder,
and writes what the page shows under it; and every `$ riemdp` line runs.
"""

from __future__ import annotations

import random
import re
import secrets
import shlex
from pathlib import Path

import pytest
from tools import page_outputs

from riemdp.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    text = page.read_text(encoding="utf-8")
    return [
        (text[: m.start(2)].count("\n") + 1, m.group(2))
        for m in BLOCK.finditer(text)
        if m.group(1) == language
    ]


def having(*languages: str) -> list:
    return [
        pytest.param(p, id=str(p.relative_to(ROOT)))
        for p in PAGES
        if p.exists() and any(blocks(p, language) for language in languages)
    ]


def terminal_lines(page: Path) -> list[str]:
    lines = [line for _, code in blocks(page, "console") for line in code.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ riemdp ")]


@pytest.mark.parametrize("page", having("python", "console"))
def test_python_blocks_write_what_the_page_shows_and_terminal_lines_run(
    page, tmp_path, monkeypatch, capsys
):
    """Every block has its output under it, and the output is the one that it has. Some words depend
    on a noisy count: keys are the same in every run here, so that no chance decides about a test.
    Terminal lines find the files that the blocks wrote.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)
    wrong = []
    for example, got in page_outputs.run(page.read_text(encoding="utf-8"), str(page)):
        if example.output is None:
            wrong.append(f"line {example.line}: no output under the block; it writes: {got}")
        elif why := page_outputs.difference(
            example.output, got, varies=example.title == page_outputs.VARIES
        ):
            wrong.append(f"line {example.line}: {why}")
    assert not wrong, "\n".join([*wrong, f"python tools/page_outputs.py {page.relative_to(ROOT)}"])
    for line in terminal_lines(page):
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(line)[1:])
        assert stopped.value.code in (0, None), (line, capsys.readouterr().err)


PAGE = """# A page

```python
print("epsilon", 0.5)
```

```text title="Output"
epsilon 0.5
```

```python
silent = 1
```
"""


def test_what_a_page_shows_is_compared():
    (shown, got), (silent, nothing) = page_outputs.run(PAGE, "page.md")
    assert (shown.line, shown.output, got) == (4, "epsilon 0.5\n", "epsilon 0.5\n")
    assert (silent.line, silent.output, nothing) == (12, None, "")


@pytest.mark.parametrize(
    ("shown", "got", "varies", "same"),
    [
        ("epsilon 0.500", "epsilon  0.501", False, True),
        ("epsilon 0.5", "epsilon 0.6", False, False),
        ("epsilon 0.5", "epsilon 0.6", True, True),
        ("epsilon 0.5", "delta 0.5", True, False),
        ("[0.5 1.]", "[ 0.5 -1. ]", True, True),
        ("(0.5, 1)", "(0.5, 1, 2)", True, False),
        ("[1.  +0.j   0.  +0.01j]", "[ 1.02-0.1j  -0.  +0.j ]", True, True),
        ("one line", "one line\nand another", True, False),
        ("within inf", "within 3", True, True),
        ("True", "False", True, False),
    ],
)
def test_words_are_compared_always_and_numbers_where_they_do_not_vary(shown, got, varies, same):
    assert (page_outputs.difference(shown, got, varies=varies) is None) == same


def test_the_pages_that_people_start_from_have_blocks():
    tested = {p.relative_to(ROOT).as_posix() for p in PAGES if blocks(p, "python")}
    assert terminal_lines(ROOT / "docs" / "command-line.md")
    assert {
        "docs/index.md",
        "docs/tutorial.md",
        "docs/choosing.md",
        "docs/howto/estimators.md",
        "docs/howto/ledger.md",
    } <= tested
