"""Public names: each is reached at the top and in its package; until used, it costs nothing."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import riemdp

PACKAGES = riemdp._PACKAGES
FACES = {
    "estimators": {"sklearn", "scipy.stats", "pandas"}
}  # subclasses of scikit-learn, which brings the others
HEAVY = ("dp_accounting", "sklearn", "matplotlib", "flwr", "pandas", "scipy.stats")


def exists(package: str) -> bool:
    spec = importlib.util.find_spec(f"riemdp.{package}")
    return (
        spec is not None and spec.origin is not None
    )  # a folder without __init__.py is not a package yet


def package_or_skip(package: str):
    if not exists(package):
        pytest.skip(f"the package riemdp.{package} is not built yet")
    return importlib.import_module(f"riemdp.{package}")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_reached_from_the_top_and_from_its_package(package):
    module = package_or_skip(package)
    assert getattr(riemdp, package) is module
    for name in PACKAGES[package]:
        assert getattr(riemdp, name) is getattr(module, name)
        assert name in module.__all__
        assert name in riemdp.__all__
        assert name in dir(riemdp)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_lists_is_there_and_documented(package):
    module = package_or_skip(package)
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        thing = getattr(module, name)
        assert not name.startswith("_")
        if callable(thing):
            assert thing.__doc__, f"riemdp.{package}.{name} has no docstring"


def test_no_two_packages_give_the_same_name():
    names = [name for package in PACKAGES.values() for name in package]
    assert len(set(names)) == len(names)
    assert not set(names) & set(PACKAGES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = riemdp.no_such_thing


_PROBE = """
import json, sys
import riemdp
seen = {
    "riemdp": [h for h in HEAVY if h in sys.modules],
    "packages": [m for m in sys.modules if m.startswith("riemdp.")],
}
for package in PACKAGES:
    before = {h for h in HEAVY if h in sys.modules}
    try:
        getattr(riemdp, package)
    except ImportError as error:
        seen[package] = [repr(error)]
        continue
    seen[package] = [h for h in HEAVY if h in sys.modules and h not in before]
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def probed() -> dict[str, list[str]]:
    """What a fresh process has loaded after `import riemdp`, and what each package adds to it."""
    # The faces last: what they load would hide that a later package loads it too.
    packages = sorted(
        (package for package in PACKAGES if exists(package)), key=lambda package: package in FACES
    )
    program = f"HEAVY = {HEAVY!r}\nPACKAGES = {packages!r}\n{_PROBE}"
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_the_package_loads_nothing_heavy_and_no_package(probed):
    assert probed["riemdp"] == []
    assert set(probed["packages"]) <= {"riemdp._errors", "riemdp._version"}


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_nothing_heavy(probed, package):
    if package not in probed:
        pytest.skip(f"the package riemdp.{package} is not built yet")
    assert set(probed[package]) <= FACES.get(package, set())


def test_the_stub_for_type_checkers_has_the_same_names():
    stub = ast.parse(Path(riemdp.__file__).with_suffix(".pyi").read_text())
    homes = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    for package, names in PACKAGES.items():
        there = {name for name, home in homes.items() if home == package}
        assert there == set(names), "run python tools/public_names.py"
        assert homes[package] is None
    assert {*homes, "__version__"} == set(riemdp.__all__), "run python tools/public_names.py"
