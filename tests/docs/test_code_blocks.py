"""Every Python and console block of the documentation and the README runs, page by page, in an
empty folder, and writes what the page shows under it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import page_outputs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])


def having_examples() -> list:
    return [
        pytest.param(p, id=str(p.relative_to(ROOT)))
        for p in PAGES
        if page_outputs.examples(p.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("page", having_examples())
def test_blocks_write_what_the_page_shows(page, tmp_path, monkeypatch):
    """Every block has its output under it, and the output is the one that it has. Keys are the same
    in every run, so that no chance decides about a test.
    """
    monkeypatch.chdir(tmp_path)
    with page_outputs.fixed_keys():
        ran = list(page_outputs.run(page.read_text(encoding="utf-8"), str(page)))
    wrong = []
    for example, got in ran:
        if example.output is None:
            wrong.append(f"line {example.line}: no output under the block; it writes: {got}")
        elif why := page_outputs.difference(
            example.output, got, varies=example.title == page_outputs.VARIES
        ):
            wrong.append(f"line {example.line}: {why}")
    assert not wrong, "\n".join([*wrong, f"python tools/page_outputs.py {page.relative_to(ROOT)}"])


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

```console
$ riemdp calibrate --epsilon 1 --delta 1e-5
```
"""


def test_what_a_page_shows_is_compared():
    (shown, got), (silent, nothing), (command, noise) = page_outputs.run(PAGE, "page.md")
    assert (shown.line, shown.output, got) == (4, "epsilon 0.5\n", "epsilon 0.5\n")
    assert (silent.line, silent.output, nothing) == (12, None, "")
    assert (command.language, command.output) == ("console", None)
    assert noise.split()[:3] == ["noise", "multiplier", "3.73064"]


def test_a_command_that_fails_is_seen(capsys):
    with pytest.raises(RuntimeError, match="exits with 2"):
        page_outputs.run_commands("$ riemdp calibrate --epsilon none")
    with pytest.raises(ValueError, match="not a command"):
        page_outputs.run_commands("$ rm file")


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
        ("a line of 0.25\nbreaks", "a line of\n0.5 breaks", True, True),
        ("SHA-256 e9ea5855d8f02a85", "SHA-256 00aa5855d8f02a85", True, True),
        ("0.1663271484375", "0.14711940106827145", True, True),
        ("within inf", "within 3", True, True),
        ("True", "False", True, False),
    ],
)
def test_words_are_compared_always_and_numbers_where_they_do_not_vary(shown, got, varies, same):
    assert (page_outputs.difference(shown, got, varies=varies) is None) == same


def test_the_pages_that_people_start_from_have_blocks():
    tested = {p.values[0].relative_to(ROOT).as_posix() for p in having_examples()}
    assert {
        "README.md",
        "docs/index.md",
        "docs/tutorial.md",
        "docs/choosing.md",
        "docs/command-line.md",
        "docs/howto/estimators.md",
        "docs/howto/federated.md",
        "docs/howto/ledger.md",
    } <= tested
