"""The notebooks of the gallery: current, valid, whole, and linked."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def tool():
    spec = importlib.util.spec_from_file_location(
        "gallery_notebooks", ROOT / "tools" / "gallery_notebooks.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notebooks_are_those_of_the_examples():
    expected = tool().written()
    assert sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")) == sorted(expected)
    for path, text in expected.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/gallery_notebooks.py"


def code_of(told) -> str:
    cells = (c for c in told["cells"] if c["cell_type"] == "code")
    return "\n".join("".join(c["source"]) for c in cells)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_a_notebook_holds_the_whole_program(example):
    program = example.read_text(encoding="utf-8")
    told = json.loads(tool().notebook(example.stem, program))
    assert told["nbformat"] == 4
    assert len({c["id"] for c in told["cells"]}) == len(told["cells"]) > 2
    assert told["cells"][0]["cell_type"] == "markdown"
    for cell in told["cells"]:
        if cell["cell_type"] == "code":
            ast.parse("".join(cell["source"]))  # every cell runs by itself
            assert cell["outputs"] == []
    whole = [ast.dump(node) for node in ast.parse(code_of(told)).body]
    ours = [ast.dump(node) for node in ast.parse(tool().shown(program)).body[1:]]
    assert whole == ours
    # what is left out is the folder and the missing screen alone
    kept = ast.parse(program).body[1:]
    dropped = [ast.unparse(n) for n in kept if ast.dump(n) not in set(whole)]
    assert set(dropped) <= {"import sys", "import matplotlib", "matplotlib.use('Agg')"} | {
        ast.unparse(ast.parse(tool().FOLDER))
    }
    assert not re.search(r"\bsys\.|\bmatplotlib\.(?!pyplot)", code_of(told))


def test_the_gallery_links_every_notebook():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    linked = sorted(re.findall(r"\(notebooks/(\w+)\.ipynb\)", text))
    assert linked == [p.stem for p in EXAMPLES]
