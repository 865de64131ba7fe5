"""How many private names of the package tests, papers, tools and bench use: a number that only
falls. Whatever uses one has to be rewritten when the code moves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests", "papers", "tools", "bench")
SEAM = "seam.py"  # the one file of tests that may use them
MOST = 24

_DOTTED = re.compile(r"""["'](riemdp(?:\.\w+)*\._[a-z]\w*)""")

if not (ROOT / "papers").is_dir():
    pytest.skip("the repository is not here", allow_module_level=True)


def is_private(name: str) -> bool:
    return any(p.startswith("_") and not p.startswith("__") for p in name.split("."))


def used(text: str) -> Iterator[str]:
    """Private names that are imported, named in a string, or read off something imported."""
    nodes = list(ast.walk(ast.parse(text)))
    yield from _DOTTED.findall(text)
    modules = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("riemdp"):
            for alias in node.names:
                modules.add(alias.asname or alias.name)
                if is_private(f"{node.module}.{alias.name}"):
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("riemdp"):
                    modules.add(alias.asname or "riemdp")
                    if is_private(alias.name):
                        yield alias.name
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            root = ast.unparse(node.value)
            if root.split(".")[0] in modules:
                yield f"{root}.{node.attr}"


def count() -> dict[str, set[str]]:
    """File -> the private names in it."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in (SEAM, Path(__file__).name):
                names = set(used(path.read_text()))
                if names:
                    found[path.relative_to(ROOT).as_posix()] = names
    return found


def test_private_names_become_fewer():
    found = count()
    total = sum(len(names) for names in found.values())
    worst = sorted(found, key=lambda f: -len(found[f]))[:5]
    assert total <= MOST, f"{total} private names, {MOST} before; most in {worst}"
    assert total > MOST - 10, f"fewer: lower MOST to {total}"


def test_the_seam_stays_small():
    """At most 300 lines, and 15 names that tests may import."""
    text = (ROOT / "tests" / SEAM).read_text()
    offered = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            offered.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            offered |= {ast.unparse(target) for target in targets}
    assert len([name for name in offered if not name.startswith("_")]) <= 15
    assert len(text.splitlines()) <= 300


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from riemdp.privacy._ledger import charge", {"riemdp.privacy._ledger.charge"}),
        ("from riemdp.privacy import _ledger", {"riemdp.privacy._ledger"}),
        ("import riemdp._files", {"riemdp._files"}),
        ("import riemdp\nriemdp._PACKAGES", {"riemdp._PACKAGES"}),
        ("patch('riemdp.domains._clamp.LIMIT', 3)", {"riemdp.domains._clamp"}),
        ("from riemdp import Ball\nBall.__init__\nself._x", set()),
    ],
)
def test_a_private_name_is_seen(text, names):
    assert set(used(text)) == names
