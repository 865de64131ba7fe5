"""The package as a whole: version in one place, float64 or a clear refusal, a silent logger, no
word of data in log lines.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import riemdp

ROOT = Path(__file__).parent.parent


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("word", ["0", "false", "off"])
def test_a_forbidden_float64_is_refused_by_name(word):
    done = _python("import riemdp", JAX_ENABLE_X64=word)
    assert done.returncode != 0
    assert "PrecisionError" in done.stderr
    assert "JAX_ENABLE_X64" in done.stderr


def test_float64_is_on_after_the_import():
    code = (
        "import riemdp, jax, jax.numpy as jnp; print(jnp.zeros(1).dtype,"
        " jax.random.normal(jax.random.key(0)).dtype)"
    )
    assert _python(code).stdout.split() == ["float64", "float64"]


@pytest.mark.parametrize("wish", [None, True])
def test_programs_run_in_the_thread_that_calls_them_unless_a_user_sets_it_back(wish):
    code = f"""
import jax, riemdp, numpy as np
from jax._src import xla_bridge
riemdp.Sphere(3)
assert not xla_bridge._backends  # JAX reads it when it first computes
if {wish}: jax.config.update("jax_cpu_enable_async_dispatch", True)
asked, make = [], xla_bridge.xla_client.make_cpu_client
def made(**options):
    asked.append(options["asynchronous"])
    return make(**options)
xla_bridge.xla_client.make_cpu_client = made
riemdp.Sphere(3).dist(*jax.numpy.eye(3)[:2])
print(asked)
"""
    done = _python(code)
    assert done.stdout.split() == [f"[{bool(wish)}]"], done.stderr


_WITHOUT_POSIX = """
import multiprocessing, os, signal, sys, types
import numpy as np, scipy.special, cryptography.hazmat.primitives.ciphers, randomgen
sys.modules["fcntl"] = None
sys.modules["msvcrt"] = locks = types.ModuleType("msvcrt")
locks.LK_LOCK, locks.LK_NBLCK, locked = 1, 2, []
locks.locking = lambda descriptor, mode, count: locked.append(mode)
del signal.SIGALRM, os.fork, os.register_at_fork
sys.platform = "win32"
import riemdp

plane, ball, budget = riemdp.Euclidean(2), riemdp.Ball(np.zeros(2), 1.0), riemdp.Budget(1.0)
with riemdp.Ledger(budget, path="ledger.json") as ledger:
    riemdp.private_frechet_mean(plane, np.zeros((50, 2)), ball, budget)
print(ledger.charges, len(locked) > 0, riemdp.Ledger.open("ledger.json").charges)
"""


def test_a_release_needs_no_fcntl_no_fork_and_no_alarm(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_POSIX], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["1", "True", "1"], done.stderr[-2000:]


def test_the_version_is_the_same_everywhere():
    assert f"version: {riemdp.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {riemdp.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging" / "meta.yaml").read_text()
    assert f'version: "{riemdp.__version__}"' in recipe
    assert f"python {project['requires-python']}" in recipe
    run = recipe.split("  run:\n")[1].split("\ntest:")[0]
    asked = {line.strip("- ").strip().replace(" ", "") for line in run.splitlines() if line.strip()}
    named = {need.replace("matplotlib", "matplotlib-base") for need in project["dependencies"]}
    assert asked == named | {f"python{project['requires-python']}"}
    (script,) = project["scripts"].items()
    assert " = ".join(script) in recipe


def test_the_logger_is_silent_by_default():
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("riemdp").handlers)


# What a log line may carry: counts and seconds. Anything else has to be added here, by a person who
# thought.
MAY_BE_LOGGED = {
    # the kind of an error and the line of code, without its words
    "_place_of",
    "__cause__",
    "fingerprint",  # the hash of the public terms of a run
    "terms",  # the public terms of a run, by which a site counts its answers
    "len",
    "done",  # how many rounds are over
    "many",  # agents that are there
    "joined",  # agents that came late
    "missing",
    "sizes",
    "records",
    "there",
    "wanted",
    "server",
    "record",
    # the line of a closed round (counts), and how many rounds there are
    "in_words",
    "prirfed",
    "rounds",
    "fewest",  # sites that a round needs
    # a site's answers and their public cost, and how a run ended
    "here",
    "status",
    "_ended",
    # the line of a question of a search: its number, how many sites answered, whether it
    # is asked again, and the public share of the budget that is used; how many were asked before
    "number",
    "words",  # what a question counts, of records or people
    "asked",
    "answered",
    "again",
    "used",
    "before",
    # how a search ended: its number of questions, and what the public terms say that it cost
    "questions",
    "spent",
    # What an agent enrolled under (a site, not a person), the plan's public noise, and the kind of
    # error an agent chose to send.
    "name",
    "planned",
    "sigma",
    "error",
    "reason",
}


def test_log_lines_carry_counts_and_public_facts_only():
    seen = 0
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"debug", "info", "warning", "error", "exception", "critical"}
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "logger", "logging", "_log"}
            ):
                seen += 1
                names = {n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)}
                names |= {
                    n.attr for a in node.args for n in ast.walk(a) if isinstance(n, ast.Attribute)
                }
                assert names <= MAY_BE_LOGGED, (path, names - MAY_BE_LOGGED)
    assert seen >= 5


def loaded(path: Path) -> types.ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_of_an_index_has_no_relative_address(monkeypatch):
    plugin = types.ModuleType("hatchling.metadata.plugin.interface")
    monkeypatch.setattr(plugin, "MetadataHookInterface", object, raising=False)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin", plugin.__name__):
        monkeypatch.setitem(sys.modules, name, plugin)
    path = ROOT / "packaging" / "index_page.py"
    if not path.exists():
        pytest.skip("the building tools are not part of this installation")
    page = loaded(path).page
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    without, files = page(readme, ""), "https://example.org/v1/"
    assert re.search(r"\]\((?!https?://|#)", readme) is not None
    for text in (without, page(readme, files)):
        assert re.search(r"\]\((?!https?://|#)", text) is None
    assert "](https://example.org/v1/docs/pictures/report.png)" in page(readme, files)
    assert "The guarantee and the threat model" in without
    assert page("[a](#b) [c](https://d.e)", files) == "[a](#b) [c](https://d.e)"


def test_versions_of_the_documentation_are_in_order():
    path = ROOT / "tools" / "docs_version.py"
    if not path.exists():
        pytest.skip("the tools are not part of this installation")
    known = [{"version": v} for v in ("0.9.0", "0.10.0", "0.2.0")]
    made = loaded(path).listed(known, "0.11.0rc1")
    assert [entry["version"] for entry in made] == ["0.11.0rc1", "0.10.0", "0.9.0", "0.2.0"]
    assert [entry["version"] for entry in made if entry["aliases"]] == ["0.10.0"]
