"""Each claim of tools/claims.toml is believed by the files that it lists, and by no others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riemdp import NoiseSource

from .tracer import PACKAGE, Tracer
from .tracing import CLAIMS, ELSEWHERE, TABLE

ROOT = Path(__file__).parents[1]
NAMES = list(CLAIMS)


@pytest.fixture(scope="module")
def traces() -> dict[str, Any]:
    """What `tests.tracing` found, in a process in which nothing is compiled."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tracing"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_what_its_list_of_files_says(name, traces):
    found = traces["found"]
    listed = set(CLAIMS[name]["files"])
    inside = {file: reasons for file, reasons in found[name].items() if file not in listed}
    assert not inside, f"not listed, and inside of the claim: {json.dumps(inside, indent=1)}"
    assert listed == set(found[name]), f"no longer inside: {sorted(listed - set(found[name]))}"


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_grows_no_longer(name):
    claim = CLAIMS[name]
    lines = sum(len((PACKAGE / file).read_text().splitlines()) for file in claim["files"])
    assert len(claim["files"]) == claim["most_files"], "fewer files: lower most_files"
    assert lines <= claim["most_lines"], f"{lines} lines to believe, {claim['most_lines']} before"
    assert lines > claim["most_lines"] - 200, f"shorter: lower most_lines to {lines}"


@pytest.mark.parametrize("name", NAMES)
def test_a_helper_in_another_file_is_seen(name, traces):
    assert ELSEWHERE in traces["planted"][name]
    assert ELSEWHERE not in traces["found"][name]


def test_the_base_is_believed_as_a_library():
    for place in TABLE["base"]:
        assert (PACKAGE / place).exists(), place


def of_package(text: str, **names: Any) -> dict[str, Any]:
    """Functions that seem to stand in a file of the package."""
    exec(compile(text, str(PACKAGE / ELSEWHERE), "exec"), names)
    return names


def seen(text: str, *given: Any, known: Any = (), **names: Any) -> dict[str, set[str]]:
    tracer = Tracer(given[0], known)
    run = of_package(text, **names)["run"]
    with tracer:
        run(*given)
    return tracer.found.get(ELSEWHERE, {})


RECORDS = np.arange(6.0).reshape(3, 2)


def test_what_is_derived_from_records_is_followed():
    text = """
def run(x): square(x * x); view(x[0]); held({"a": [x + 1]})
def square(y): pass
def view(y): pass
def held(z): pass
"""
    assert seen(text, RECORDS)["records"] == {"run", "square", "view", "held"}


def test_what_is_not_derived_from_records_is_let_alone():
    text = """
def run(x): other(centre); number(len(x))
def other(y): pass
def number(y): pass
"""
    centre = np.ones(2)
    assert seen(text, RECORDS, known=centre, centre=centre)["records"] == {"run"}


def test_noise_is_seen_and_threads_are_followed():
    text = """
import threading
def run(x, source): t = threading.Thread(target=elsewhere, args=(x, source)); t.start(); t.join()
def elsewhere(x, source): pass
"""
    found = seen(text, RECORDS, NoiseSource(1))
    assert found == {"records": {"run", "elsewhere"}, "noise": {"run", "elsewhere"}}


def test_what_closures_and_objects_hold_is_seen():
    text = """
def run(x):
    def inner(): return None
    def holding(): return x
    call(inner); call_holding(holding)
def call(f): pass
def call_holding(f): pass
"""
    assert seen(text, RECORDS)["records"] == {"run", "call_holding"}
