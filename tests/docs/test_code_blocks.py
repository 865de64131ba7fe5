"""Every Python block of the documentation and the README runs, page by page, in an empty folder;
and every `$ riemdp` line.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

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


def having(language: str) -> list:
    return [
        pytest.param(p, id=str(p.relative_to(ROOT)))
        for p in PAGES
        if p.exists() and blocks(p, language)
    ]


@pytest.mark.parametrize("page", having("python"))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__docs__"}
    for line, code in blocks(page, "python"):
        exec(
            compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), names
        )  # line numbers of a failure are those of the page


@pytest.mark.parametrize("page", having("console"))
def test_terminal_lines_run(page, tmp_path, monkeypatch, capsys):
    from riemdp.cli import main

    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__docs__"}
    for _, code in blocks(page, "python"):
        exec(code, names)
    lines = [
        line[2:]
        for _, code in blocks(page, "console")
        for line in code.splitlines()
        if line.startswith("$ riemdp ")
    ]
    assert lines
    for line in lines:
        with pytest.raises(SystemExit) as stopped:
            main(shlex.split(line)[1:])
        assert stopped.value.code in (0, None), (line, capsys.readouterr().err)


def test_the_pages_that_people_start_from_have_blocks():
    tested = {p.relative_to(ROOT).as_posix() for p in PAGES if blocks(p, "python")}
    assert {
        "docs/index.md",
        "docs/tutorial.md",
        "docs/choosing.md",
        "docs/howto/estimators.md",
        "docs/howto/ledger.md",
    } <= tested
