"""Writes `docs/notebooks/NAME.ipynb` from every program in `examples/`, for the gallery.

Run it as `python tools/gallery_notebooks.py` after a change of an example; a test compares the
two. A notebook shows the picture below the cell that draws it.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = ROOT / "docs" / "notebooks"


# What a program does only because it runs without a screen and is told a folder.
FOLDER = 'OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")'
ALONE = ("import sys\n", 'matplotlib.use("Agg")\n', "import matplotlib\n")


def shown(program: str) -> str:
    """The program as it runs in a notebook: pictures appear below their cell."""
    program = program.replace(FOLDER, 'OUT = Path(".")')
    for line in ALONE:
        program = program.replace(f"\n{line}", "\n", 1)
    return program.replace("\n\n\n\n", "\n\n").replace("\n\n\nimport", "\n\nimport")


def cells(program: str) -> list[tuple[str, str]]:
    """(kind, text): the docstring as text, then the code, divided where a blank line stands between
    statements at the top level.
    """
    tree = ast.parse(program)
    words = ast.get_docstring(tree) or ""
    lines = program.splitlines()
    first = tree.body[1].lineno if words else 1
    body = [node for node in tree.body if node.lineno >= first]
    starts = [
        _first_line(node)
        for before, node in zip([None, *body], body, strict=False)
        if before is None or not lines[_first_line(node) - 2].strip()
    ]
    # comments above a statement belong to it
    starts = [_with_comments(lines, start) for start in starts]
    ends = [*(start - 1 for start in starts[1:]), len(lines)]
    blocks = ["\n".join(lines[a - 1 : b]).strip("\n") for a, b in zip(starts, ends, strict=True)]
    merged: list[str] = []
    for block in blocks:
        if merged and _imports(block) and _imports(merged[-1]):
            merged[-1] += f"\n{block}"
        elif block.strip():
            merged.append(block)
    return [("markdown", words)] * bool(words) + [("code", block) for block in merged]


def _imports(block: str) -> bool:
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(block).body)


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _with_comments(lines: list[str], start: int) -> int:
    while start > 1 and lines[start - 2].startswith("#"):
        start -= 1
    return start


def notebook(name: str, program: str) -> str:
    """The notebook of one example as JSON."""
    told: list[dict[str, Any]] = []
    for i, (kind, text) in enumerate(cells(shown(program))):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"{name.replace('_', '-')}-{i}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        told.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": told,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def written() -> dict[Path, str]:
    """Every notebook and what it holds."""
    return {
        NOTEBOOKS / f"{file.stem}.ipynb": notebook(file.stem, file.read_text(encoding="utf-8"))
        for file in sorted(EXAMPLES.glob("*.py"))
    }


if __name__ == "__main__":
    NOTEBOOKS.mkdir(exist_ok=True)
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
