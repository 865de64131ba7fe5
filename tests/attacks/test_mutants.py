"""The tool that plants faults: what it concludes, and that its table fits the code."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("mutants", "random_faults", "symbols")


@pytest.fixture(scope="module")
def tool():
    if not (ROOT / "tools" / "mutants.py").exists():
        pytest.skip("the tools are in the repository only")
    before = {name: sys.modules.pop(name, None) for name in TOOLS}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        yield importlib.import_module("mutants")
    for name in TOOLS:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in before.items() if module})


def written(root: Path, files: dict[str, str]) -> Path:
    """A small checkout."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_what_the_end_of_the_tests_means(tool):
    """Only a test that failed kills a fault; tests that did not run prove nothing."""
    fault = tool.Mutant("a", "b", "c", "d", "e", ("f",))

    def outcome(code, output=""):
        return tool.judged(fault, code, output, 1.0).outcome

    assert outcome(0, "3 passed") == "survived"
    assert outcome(1, "FAILED tests/x.py::test_y[a b] - AssertionError\n") == "killed"
    assert tool.judged(fault, 1, "FAILED tests/x.py::t[a b] - no\n", 1.0).by == "tests/x.py::t[a b]"
    assert outcome(None) == "timeout"
    for code in (2, 3, 4, 5):
        assert outcome(code, "ERROR collecting tests/x.py") == "broken"


def test_a_fault_that_cannot_be_planted_is_an_error(tool, tmp_path):
    code = {
        "src/riemdp/a.py": "x = 1\n\ndef f():\n    y = 1\n    return y\n\ndef g():\n    y = 1\n",
        "src/riemdp/b.py": "class C:\n    def f(self): return 1\n\ndef g():\n    y = 1\n",
        "tests/test_it.py": "def test(): ...\ndef test_it(): ...\ndef helper(): ...\n",
        "tests/deep/test_two.py": "def test_two(): ...\n",
        "tests/deeper/test_two.py": "def test_two(): ...\n",
    }
    tree = tool.Tree(written(tmp_path, code))

    def problem(old, new, symbol="f", tests=("test_it",)):
        return tool.Mutant("n", "b", symbol, old, new, tests).problem(tree)

    assert problem("y = 1", "y = 2") == problem("x = 1", "x = 2", "x") == ""
    assert "0 times in riemdp.a.f" in problem("x = 1", "x = 2")
    assert "2 times in riemdp.a.f" in problem("y", "z")
    assert "2 times in riemdp.a" in problem("y = 1", "y = 2", "riemdp.a")
    assert "changes nothing" in problem("y = 1", "y =  1")
    assert "not Python" in problem("y = 1", "y = ")
    assert "no symbol h" in problem("y = 1", "y = 2", "h")
    assert "riemdp.b.C.f" in problem("return 1", "return 2", "B.f")
    assert problem("return 1", "return 2", "C.f") == ""
    assert "riemdp.a.g, riemdp.b.g" in problem("y = 1", "y = 2", "g")
    assert problem("y = 1", "y = 2", "b.g") == ""
    assert "no symbol test_him; near it: " in problem("y = 1", "y = 2", tests=("test_him",))
    assert "tests.deep.test_two.test_two" in problem("y = 1", "y = 2", tests=("test_two.test_two",))
    for good in ("deep.test_two.test_two", "tests.test_it", "test_it[a.b-c]"):
        assert problem("y = 1", "y = 2", tests=(good,)) == ""
    assert tree.test("test_it[a.b-c]") == "tests/test_it.py::test_it[a.b-c]"
    assert tree.test("deeper.test_two") == "tests/deeper/test_two.py"
    assert "is no test" in problem("y = 1", "y = 2", tests=("helper",))
    assert "no test guards" in problem("y = 1", "y = 2", tests=())


def test_a_fault_is_planted_in_its_own_symbol_and_taken_back(tool, tmp_path):
    text = "def g():\n    y = 1\n\n@deco\ndef f():\n    y = 1\n"
    sound = tool.Tree(written(tmp_path / "sound", {"src/riemdp/a.py": text}))
    file = written(tmp_path / "copy", {"src/riemdp/a.py": text}) / "src/riemdp/a.py"
    fault = tool.Mutant("n", "b", "f", "y = 1", "y = 2", ("t",))
    tool.plant(fault, sound, tmp_path / "copy", back=False)
    assert file.read_text() == "def g():\n    y = 1\n\n@deco\ndef f():\n    y = 2\n"
    tool.plant(fault, sound, tmp_path / "copy", back=True)
    assert file.read_text() == text
    bare = dataclasses.replace(fault, old="@deco\n", new="")
    tool.plant(bare, sound, tmp_path / "copy", back=False)
    assert "@deco" not in file.read_text()


def test_the_lines_of_a_symbol(tool, tmp_path):
    """All its definitions, decorators and branches; a class has its body, a module everything."""
    text = """class C:
    a: int = 0

    @property
    def p(self):
        return self.a  # \f a form feed ends no line

    @p.setter
    def p(self, value):
        self.a = value


if C:
    b, c = 1, (
        2
    )
else:
    b = 3
"""
    files = {"src/riemdp/__init__.py": "", "src/riemdp/m/_n.py": text}
    code = tool.Tree(written(tmp_path, files)).code
    lines = {name: code.find(name).spans for name in ("C", "C.a", "C.p", "b", "c", "m._n")}
    assert lines == {
        "C": ((1, 10),),
        "C.a": ((2, 2),),
        "C.p": ((4, 6), (8, 10)),
        "b": ((14, 16), (18, 18)),
        "c": ((14, 16),),
        "m._n": ((1, 18),),
    }
    file = "src/riemdp/m/_n.py"
    assert code.find("c").pieces(text) == [slice(text.index("    b, c"), text.index("else"))]
    found = [code.shortest(code.around(file, *at)) for at in ((9, 9), (2, 5), (13, 13), (15, 15))]
    assert found == ["C.p", "C", "m._n", "b"]


# ----------------------------------------------------------------- faults that nobody chose
LINES = """from typing import Literal

Three = Literal[3]


@decorated(2)
def scale(values: list[3], clip, *, rows=4) -> Literal[5]:
    if clip < 0:
        raise ValueError(f"{clip - 1} is below {rows * 2}")
    log(values)
    if clip > 0:
        return 2 * total(values) - clip
    return -clip
"""


def test_faults_are_drawn_by_their_operators_and_where_they_are_asked_for(tool, tmp_path):
    files = {"src/riemdp/a.py": LINES, "src/riemdp/b.py": "def other():\n    return 1 + 1\n"}
    tree = tool.Tree(written(tmp_path, files))
    draw = tool.random_faults.drawn
    found = list(draw(tree, ["scale"], "a"))
    planted = {(f.operator, tree.code.find(f.symbol).replaced(LINES, f.old, f.new)) for f in found}
    changes = [
        ("drop a factor", "2 * total(values)", "(2)"),
        ("drop a factor", "2 * total(values)", "(total(values))"),
        ("swap a comparison", "clip < 0", "(clip > 0)"),
        ("swap a comparison", "clip > 0", "(clip < 0)"),
        ("flip a sign", "2 * total(values) - clip", "(2 * total(values) + clip)"),
        ("flip a sign", "return -clip", "return (clip)"),
        ("off by one", "rows=4", "rows=(5)"),
        ("off by one", "clip < 0", "clip < (1)"),
        ("off by one", "clip > 0", "clip > (1)"),
        ("off by one", "return 2", "return (3)"),
        ("skip a call", "log(values)", "pass"),
        ("skip a call", "log(values)", "(values)"),
        ("skip a call", "total(values)", "(values)"),
    ]
    assert planted == {(operator, LINES.replace(old, new)) for operator, old, new in changes}
    assert found == list(draw(tree, ["scale"], "a")) != list(draw(tree, ["scale"], "b"))
    assert {f.symbol for f in draw(tree, ["src/riemdp/b.py"], "a")} == {"other"}
    with pytest.raises(LookupError, match="no symbol nobody"):
        next(draw(tree, ["nobody"], "a"))


def test_where_lines_are_alike_more_of_them_say_which_one_is_meant(tool, tmp_path):
    text = "def f(é):\n    a = 'é' * 2\n    b = 3\n    a = 'é' * 2\n    c = 3\n"
    tree = tool.Tree(written(tmp_path, {"src/riemdp/a.py": text}))
    found = [f for f in tool.random_faults.drawn(tree, ["f"], "1") if f.operator == "off by one"]
    planted = {tree.code.find(f.symbol).replaced(text, f.old, f.new) for f in found}
    assert len(planted) == len(found) == 4
    assert all(p.count("(3)") + p.count("(4)") == 1 for p in planted)


TABLE = """[[mutant]]
name = "no clip"
breaks = "what clipping promises"
symbol = "scale"
old = "log(values)"
new = "pass"
tests = ["test_it", "test_it[a]"]
"""


@pytest.fixture
def without_tests(tool, tmp_path, monkeypatch):
    """A small checkout, and a function that gives outcomes in the place of tests that run."""
    files = {"src/riemdp/a.py": LINES, "tests/test_a.py": "def test_it(): ...\n", "t.toml": TABLE}
    monkeypatch.setattr(tool, "ROOT", written(tmp_path, files))
    monkeypatch.setattr(tool, "TABLE", tmp_path / "t.toml")
    monkeypatch.setattr(tool, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(tool, "preload", lambda scratch: None)

    def given(outcome):
        jobs = []

        def judge_all(these, sound, workers, limit):
            jobs.append([(m, tests, limit) for m, tests in these])
            by = "tests/a.py::test_by"
            return [tool.Result(m, outcome(m, tests), by, 1.0) for m, tests in these]

        monkeypatch.setattr(tool, "judge_all", judge_all)
        return jobs

    return given


def test_the_contract_judges_a_fault_whatever_guards_it(tool, without_tests, capsys):
    jobs = without_tests(lambda fault, tests: "killed")
    assert tool.main(["--contract"]) == 0
    assert not tool.PAGE.exists()
    assert tool.main([]) == 0
    assert "| no clip | what clipping promises | `scale` | killed | `test_by` |" in (
        tool.PAGE.read_text()
    )
    guards = ("tests/test_a.py::test_it", "tests/test_a.py::test_it[a]")
    of_contract, by_name = (job for (job,) in jobs)
    assert of_contract[1:] == (tool.CONTRACT, tool.WHOLE)
    assert by_name[1:] == (guards, tool.LIMIT)
    without_tests(lambda fault, tests: "survived")
    assert tool.main(["--contract", "--only", "no"]) == 1
    assert "missed by the contract: no clip" in capsys.readouterr().out


def test_what_the_contract_does_not_notice_is_a_hole_or_may_change_nothing(
    tool, without_tests, capsys
):
    command = ["--random", "10", "--seed", "5", "--files", "scale"]

    def outcome(missed, by_guards):
        names = []

        def of(fault, tests):
            if tests != tool.CONTRACT:
                return by_guards
            names.append(fault.name)
            return "survived" if len(names) <= missed else "killed"

        return of

    jobs = without_tests(outcome(0, "killed"))
    assert tool.main(command) == 0
    assert [tests for _, tests, _ in jobs[0]] == [tool.CONTRACT] * 10
    assert len({fault.name for fault, _, _ in jobs[0]}) == 10
    assert "10 killed, 0 survived, 0 timeout, 0 broken, 0 unknown" in capsys.readouterr().out

    jobs = without_tests(outcome(2, "killed"))  # the guards of its file notice it: a hole
    assert tool.main(command) == 1
    guards = ("tests/test_a.py::test_it", "tests/test_a.py::test_it[a]")
    assert [tests for _, tests, _ in jobs[1]] == [guards] * 2
    said = capsys.readouterr().out
    assert "8 killed, 2 survived, 0 timeout, 0 broken, 0 unknown" in said
    assert said.count("\nold = ") == said.count("\nnew = ") == 2

    without_tests(outcome(2, "survived"))  # nobody notices it
    assert tool.main(command) == 0
    assert "8 killed, 0 survived, 0 timeout, 0 broken, 2 unknown" in capsys.readouterr().out
    without_tests(outcome(1, "killed"))  # nine of ten
    assert tool.main(command) == 0
    with pytest.raises(SystemExit):
        tool.main(["--random", "3"])
    assert "--random needs --files" in capsys.readouterr().err


@pytest.mark.slow
def test_every_named_fault_can_be_planted(tool, capsys, tmp_path, monkeypatch):
    """After a change of the code the table has to follow, but not after a move."""
    assert tool.main(["--check"]) == 0, capsys.readouterr().out
    assert len(tool.read(tool.TABLE)) >= 80
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc"))
    moved = tool.Tree().code.find("SharedSum")
    assert any(m.symbol.startswith("SharedSum.") for m in tool.read(tool.TABLE))
    path = tmp_path / moved.file
    text = path.read_text(encoding="utf-8")
    (lines,) = moved.pieces(text)
    path.write_text(text[: lines.start] + text[lines.stop :], encoding="utf-8")
    new = tmp_path / "src" / "riemdp" / "manifolds" / "_moved.py"
    new.write_text("import jax\n\n\n" + text[lines], encoding="utf-8")
    path.rename(path.with_name("_renamed.py"))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main(["--check"]) == 0, capsys.readouterr().out
    new.unlink()
    assert tool.main(["--check"]) == 1
