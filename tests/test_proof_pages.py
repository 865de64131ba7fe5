"""Pages of proofs: whatever states a guarantee names one, and what a page names exists."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import riemdp
from riemdp.mechanisms import AbstractMechanism
from riemdp.optimizers import AbstractOptimizer
from tests.public import PACKAGES, offered

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "proofs").glob("*.md"))
KINDS = (AbstractMechanism, AbstractOptimizer, BaseEstimator)  # whose objects make a guarantee

if not PAGES:
    pytest.skip("the documents are not part of this installation", allow_module_level=True)

CODE, TESTS, REST = "## Where it stands in the code", "## Tests that check it", "## What is ideal"
_NAME = re.compile(r"`([^`]+)`")
_FILE = re.compile(r"`[^`]*\.py\b[^`]*`")
_LEMMA = re.compile(r"\*\*Lemma (\d+)\b")


# ------------------------------------------------------------------------ what states a guarantee
def public_things() -> Iterator[tuple[str, Any]]:
    """Classes with their public methods, and functions, that packages offer."""
    for package in PACKAGES:
        module = importlib.import_module(f"riemdp.{package}")
        for name in offered(module):
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
def symbols() -> Any:
    """The tool that finds code and tests by name."""
    path = ROOT / "tools" / "symbols.py"
    spec = importlib.util.spec_from_file_location("symbols", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def tree() -> Any:
    return symbols().Tree(ROOT)


def references(text: str) -> tuple[list[str], list[str]]:
    """The names in code font of the two tables of a page: code, tests."""
    _, _, code = text.partition(CODE)
    code, _, tests = code.partition(TESTS)
    tests, _, _ = tests.partition(REST)
    return _NAME.findall(code), _NAME.findall(tests)


def wrong_references(text: str) -> list[str]:
    """What a page names that does not exist, is the name of several, or goes with a file."""
    wrong = _FILE.findall(text)
    for names, find in zip(references(text), (tree().code.find, tree().test), strict=True):
        for name in names:
            try:
                find(name)
            except symbols().Unknown as error:
                wrong.append(str(error))
    return wrong


def parts(text: str) -> list[str]:
    """The proofs of a page, each with its own tables: the page, or its sections."""
    return re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:] if f"\n#{CODE}" in text else [text]


def lemmas_without_a_test(text: str) -> set[int]:
    """Lemmas of a proof that no row of its table of tests, nor a note on it, mentions."""
    head, _, tests = text.partition("## Tests that check it")
    mentioned = re.findall(r"[Ll]emmas? ([\d, and]*\d)", tests)
    numbers = {int(n) for run in mentioned for n in re.findall(r"\d+", run)}
    return {int(n) for n in _LEMMA.findall(head)} - numbers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_what_exists_and_checks_every_lemma(page):
    whole = page.read_text(encoding="utf-8")
    for text in parts(whole):
        assert text.index(CODE) < text.index(TESTS) < text.index(REST)
        assert all(references(text))
        assert not wrong_references(text)
        assert not lemmas_without_a_test(text)
        assert len(text.splitlines()) <= 120  # a reader checks one in ten minutes
    lemmas = _LEMMA.findall(whole)
    assert len(lemmas) == len(set(lemmas))  # a number is one anchor of the page
    assert sum(len(_LEMMA.findall(text)) for text in parts(whole)) == len(lemmas)


def page_of(code: str, test: str) -> str:
    return f"{CODE}\n| Lemma 1 | {code} |\n{TESTS}\n| Lemma 1 | {test} |\n{REST}ised\n`any(x)`"


def test_a_wrong_reference_and_an_unchecked_lemma_are_seen():
    here = "`test_a_wrong_reference_and_an_unchecked_lemma_are_seen`"
    several = "`estimators.test_people.test_a_person_with_many_hostile_records_does_not_show`"
    file = "`tests.test_proof_pages`"
    code = "`AbstractMechanism.release`, `_files.write_text`, `privacy._filter`"
    assert wrong_references(page_of(code, f"{here}, {file}, {several}")) == []
    for wrong in (
        page_of("`AbstractMechanism.no_such_method`", here),
        page_of("`a function`", here),
        page_of("`_filter`", here),  # a module without its package
        page_of("`in_words`", here),  # several functions
        page_of(here, here),
        page_of(code, "`test_no_such_test`"),
        page_of(code, "`wrong_references`"),  # no test
        page_of(code, "`write_text`"),
        page_of(code, "`test_a_person_with_many_hostile_records_does_not_show`"),
        page_of(code, here) + "`src/riemdp/_files.py`",
    ):
        assert len(wrong_references(wrong)) == 1, wrong
    page = "**Lemma 1 (a).** **Lemma 2.** **Lemma 3 (c).**\n## Tests that check it\n| Lemmas 1, 3 |"
    assert lemmas_without_a_test(page) == {2}
    demoted = page_of(code, here).replace("## ", "### ")
    two = [f"## {name}\n{demoted}\n" for name in "AB"]
    assert parts("# A page of two\n\n" + "".join(two)) == two
    assert parts(page) == [page]


def test_every_page_is_in_the_navigation_and_the_reference():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    reference = "".join(
        p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md")
    )
    for page in PAGES:
        assert f"proofs/{page.name}" in navigation
        assert re.search(rf"\(\.\./proofs/{re.escape(page.name)}[)#]", reference)
