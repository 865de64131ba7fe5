"""Pages of proofs: whatever states a guarantee names one, and what a page names exists."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import riemdp
from riemdp.mechanisms import AbstractMechanism
from riemdp.optimizers._plan import AbstractOptimizer

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "proofs").glob("*.md"))
KINDS = (AbstractMechanism, AbstractOptimizer, BaseEstimator)  # whose objects make a guarantee

if not PAGES:
    pytest.skip("the documents are not part of this installation", allow_module_level=True)

_REFERENCE = re.compile(r"`((?:src|tests)/[\w/]+\.py)(?:::([\w.]+))?`")
_LEMMA = re.compile(r"\*\*Lemma (\d+)\b")


# ------------------------------------------------------------------------ what states a guarantee
def public_things() -> Iterator[tuple[str, Any]]:
    """Public classes with their public methods, and public functions, of all packages."""
    for package in riemdp._PACKAGES:
        module = importlib.import_module(f"riemdp.{package}")
        for name in module.__all__:
            thing = getattr(module, name)
            if not callable(thing):
                continue
            yield f"{package}.{name}", thing
            for method, value in vars(thing).items() if inspect.isclass(thing) else ():
                if inspect.isfunction(value) and not method.startswith("_"):
                    yield f"{package}.{name}.{method}", value


def states_a_guarantee(thing: Any) -> bool:
    """By a section of its docstring that says more than "none", by its kind, or by its result."""
    said = re.search(r"Guarantee:\s*(\w*)", inspect.getdoc(thing) or "")
    if said is not None and said[1].lower() != "none":
        return True
    if inspect.isclass(thing):
        return issubclass(thing, KINDS) and not inspect.isabstract(thing)
    made = getattr(thing, "__annotations__", {}).get("return") == "Guarantee"
    return made and "." not in thing.__qualname__


def pages_named(thing: Any) -> list[str]:
    return re.findall(r"docs/proofs/([\w-]+\.md)", inspect.getdoc(thing) or "")


def without_a_page(name: str, thing: Any) -> list[str]:
    """What is wrong with the pages that a docstring names."""
    if not states_a_guarantee(thing):
        return []
    named = pages_named(thing)
    absent = [page for page in named if not (ROOT / "docs" / "proofs" / page).is_file()]
    return [f"{name} names {page}" for page in absent] + ([] if named else [f"{name} names none"])


def test_whatever_states_a_guarantee_names_its_page():
    things = dict(public_things())
    stating = [name for name, thing in things.items() if states_a_guarantee(thing)]
    assert {"mechanisms.KNormGradient", "optimizers.DPRSVRG", "privacy.participation"} <= set(
        stating
    )
    assert {"estimators.PrivateMDM", "federated.PriRFed", "privacy.none"} <= set(stating)
    assert {"privacy.Ledger", "privacy.Guarantee.group"} <= set(stating)
    wrong = [line for name in stating for line in without_a_page(name, things[name])]
    assert not wrong, "\n".join(wrong)
    named = {page for name in stating for page in pages_named(things[name])}
    assert named == {page.name for page in PAGES}


def test_a_guarantee_without_a_page_is_seen():
    class Silent(AbstractMechanism[float]):
        """A mechanism whose docstring says nothing."""

        guarantee: Any = None

        def _admit(self, value: Any) -> float:
            return value

        def _draw(self, value: float, source: Any) -> Any:
            return value

    def lost() -> None:
        """Guarantee:
        (epsilon, 0). docs/proofs/no-such-page.md
        """

    def nothing() -> None:
        """Guarantee:
        None; it draws no noise.
        """

    def made() -> riemdp.Guarantee: ...

    made.__annotations__["return"], made.__qualname__ = "Guarantee", "made"
    assert without_a_page("Silent", Silent) == ["Silent names none"]
    assert without_a_page("lost", lost) == ["lost names no-such-page.md"]
    assert without_a_page("made", made) == ["made names none"]
    assert without_a_page("nothing", nothing) == []


# ------------------------------------------------------------------------ what a page names
@functools.cache
def defined_in(path: Path) -> frozenset[str]:
    """Qualified names of the functions and classes of a file."""

    def below(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield prefix + child.name
                if isinstance(child, ast.ClassDef):
                    yield from below(child, f"{prefix}{child.name}.")

    return frozenset(below(ast.parse(path.read_text(encoding="utf-8")), ""))


def wrong_references(text: str) -> list[str]:
    """What a page names that does not exist."""
    wrong = []
    for path, name in _REFERENCE.findall(text):
        file = ROOT / path
        is_test = not path.startswith("tests/") or name == "" or name.startswith("test_")
        if not file.is_file() or (name and name not in defined_in(file)) or not is_test:
            wrong.append(f"{path}::{name}")
    return wrong


def lemmas_without_a_test(text: str) -> set[int]:
    """Lemmas of a page that no row of its table of tests, nor a note on it, mentions."""
    head, _, tests = text.partition("## Tests that check it")
    mentioned = re.findall(r"[Ll]emmas? ([\d, and]*\d)", tests)
    numbers = {int(n) for run in mentioned for n in re.findall(r"\d+", run)}
    return {int(n) for n in _LEMMA.findall(head)} - numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_what_exists_and_checks_every_lemma(page):
    text = page.read_text(encoding="utf-8")
    found = _REFERENCE.findall(text)
    assert any(path.startswith("src/") for path, _ in found)
    assert any(path.startswith("tests/") and name for path, name in found)
    assert not wrong_references(text)
    assert not lemmas_without_a_test(text)
    assert len(text.splitlines()) <= 120  # a reader checks one in ten minutes


def test_a_wrong_reference_and_an_unchecked_lemma_are_seen():
    here = "tests/test_proof_pages.py"
    right = f"`{here}::test_a_wrong_reference_and_an_unchecked_lemma_are_seen`"
    assert wrong_references(f"{right} `{here}` `src/riemdp/_files.py::write_text`") == []
    for wrong in (
        f"{here}::test_no_such_test",
        f"{here}::wrong_references",
        "tests/no_such_file.py::test_it",
        "src/riemdp/mechanisms/_base.py::AbstractMechanism.no_such_method",
    ):
        assert wrong_references(f"| `{wrong}` |") == [wrong]
    page = "**Lemma 1 (a).** **Lemma 2.** **Lemma 3 (c).**\n## Tests that check it\n| Lemmas 1, 3 |"
    assert lemmas_without_a_test(page) == {2}


def test_every_page_is_in_the_navigation_and_the_reference():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    reference = "".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md")
    )
    for page in PAGES:
        assert f"proofs/{page.name}" in navigation
        assert f"(../proofs/{page.name})" in reference
