"""The style guide of CONTRIBUTING.md, as far as a program can count it (tools/language.py)."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def language() -> ModuleType:
    path = ROOT / "tools" / "language.py"
    if not path.exists():
        pytest.skip("the tools are in the repository only")
    spec = importlib.util.spec_from_file_location("language", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_the_pages_keep_to_the_style_guide(language: ModuleType) -> None:
    for rule in language.RULES:
        found = language.places(rule)
        assert rule.holds(len(found)), f"{rule.name}: {len(found)}\n" + "\n".join(found[:20])


def test_few_sentences_are_long(language: ModuleType, tmp_path: Path) -> None:
    found = language.long_sentences()
    assert len(found) <= language.MOST_LONG, "\n".join(found)
    (tmp_path / "docs").mkdir()
    page = f"# Title\n\n{'word ' * 36}end.\n\n- {'word ' * 30}`{'code ' * 9}`.\n| {'cell ' * 40}|\n"
    (tmp_path / "README.md").write_text(page, encoding="utf-8")
    assert [place[:15] for place in language.long_sentences(tmp_path)] == ["README.md: word"]


def test_what_the_rules_see(language: ModuleType, tmp_path: Path) -> None:
    page = "A law beside .5 and 0.5, in 1.5.\n`law .5`\n```python\nlaw = .5\n```\n$$.5$$\nby-law\n"
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text(page, encoding="utf-8")
    (tmp_path / "docs" / "results" / "measured.md").write_text(
        "0.5\n<!-- the artefacts of a paper -->\nlaw", encoding="utf-8"
    )
    found = {rule.name: language.places(rule, tmp_path) for rule in language.RULES}
    assert [place.split(": ")[0] for place in found["law (distribution)"]] == [
        "README.md:1",
        "README.md:7",
    ]
    assert len(found["beside (compared with, next to)"]) == 1
    assert len(found["decimals without a zero"]) == 1


def test_no_name_or_comment_of_the_code_says_law(language: ModuleType) -> None:
    files = [f for part in ("src", "papers") for f in (language.ROOT / part).rglob("*.py")]
    law = re.compile(r"(?<![A-Za-z])[Ll]aws?(?![a-z])(?! of cosines)|(?<=[a-z])Laws?(?![a-z])")
    assert law.search("_error_law")
    assert law.search("ErrorLaw")
    assert not law.search("flawless law of cosines")
    assert len(files) > 200
    assert not [f.name for f in files if law.search(f.name + f.read_text(encoding="utf-8"))]
