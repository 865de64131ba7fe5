"""The tool that plants faults: what it concludes, and that its table fits the code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def tool():
    if not TOOL.exists():
        pytest.skip("the tools are in the repository only")
    spec = importlib.util.spec_from_file_location("mutants_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


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
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    (tmp_path / "t.py").write_text("")

    def problem(old, new, file="a.py", tests=("t.py::test",)):
        return tool.Mutant("n", "b", file, old, new, tests).problem(tmp_path)

    assert problem("x = 1", "x = 2") == ""
    assert "0 times" in problem("z = 1", "z = 2")
    assert "2 times" in problem("= 1", "= 2")
    assert "changes nothing" in problem("x = 1", "x =  1")
    assert "not Python" in problem("x = 1", "x = ")
    assert "no file" in problem("x = 1", "x = 2", file="b.py")
    assert "no test" in problem("x = 1", "x = 2", tests=("u.py::test",))
    assert "no test" in problem("x = 1", "x = 2", tests=())


@pytest.mark.slow
def test_every_named_fault_can_be_planted(tool, capsys):
    """After a change of the code the table has to follow; at least 80 faults are in it."""
    assert tool.main(["--check"]) == 0, capsys.readouterr().out
    assert len(tool.read()) >= 80
