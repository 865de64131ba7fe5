"""Every example in a docstring runs and prints what it shows; docstrings have Google sections."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import riemdp

SOURCE = Path(__file__).resolve().parents[2] / "src"
FILES = sorted(SOURCE.glob("riemdp/**/*.py"))
# These compile much for one example.
SLOW = {
    thing.__module__
    for thing in (
        riemdp.Ball,
        riemdp.PrivateFrechetMean,
        riemdp.federated.aggregate,
        riemdp.private_minimize,
        riemdp.private_frechet_mean,
        riemdp.private_ball,
    )
}
OTHER_FORM = re.compile(
    r"\*\*(Arguments|Args|Returns|Raises|Errors|Guarantee|Source|Example)\b"
    r"|^(Arguments|Errors|Returns|Raises|Guarantee|Source|Example):[^\n]*\w",
    re.MULTILINE,
)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


WITH_EXAMPLES = [module_of(path) for path in FILES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in WITH_EXAMPLES],
)
def test_examples_of_a_module_run(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_what_is_slow_has_examples():
    assert set(WITH_EXAMPLES) >= SLOW


def docstrings(path: Path) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]


def test_docstrings_have_google_sections():
    found = [
        (module_of(path), other.group())
        for path in FILES
        for text in docstrings(path)
        if (other := OTHER_FORM.search(text))
    ]
    assert not found


@pytest.mark.parametrize(
    "text", ["**Arguments:** `x`.", "**Raises** `InvalidArgument`.", "A.\n\nSource: a paper."]
)
def test_another_form_is_found(text):
    assert OTHER_FORM.search(text)
    assert not OTHER_FORM.search("A.\n\nArgs:\n    x: A.\n\nSource:\n    A paper.")
