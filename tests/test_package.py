"""The package as a whole: version in one place, float64 or a clear refusal, a silent logger, no
word of data in log lines.
"""

from __future__ import annotations

import ast
import logging
import os
import subprocess
import sys
import tomllib
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
    "agreement",  # the hash of the public terms of a run
    "setup",
    "len",
    "round",
    "invited",
    "accepted",
    "refused",
    "missing",
    "sizes",
    "records",
    "there",
    "wanted",
    "eligible",
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
    # What an agent enrolled under (a site, not a person), the plan's public noise, and the kind of
    # error an agent chose to send.
    "name",
    "planned",
    "sigma",
    "reply",
    "error",
    "reason",
    "_reason",  # of a reply that is an error: its code and the words that the site sends
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
