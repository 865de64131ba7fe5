"""Holds the code to the limits that `tools/measure_code.py` measures: circles, widths, imports.

Like the rules of `test_architecture.py`, every rule is a function of source files that returns the
violations it finds, and each is also given a file that breaks it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _measures():
    path = ROOT / "tools" / "measure_code.py"
    if not path.is_file():
        pytest.skip("the tools are not part of this installation", allow_module_level=True)
    spec = importlib.util.spec_from_file_location("measure_code", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


table = _measures()
File = table.File

MOST_PARAMETERS = 8
MOST_ANY = 0.05  # share of the parameters
# Faces: what a person calls with keywords. A command of the command line has one parameter an
# option.
FACES = {
    "releases/_comparison.py private_comparison",
    "releases/_two_sample.py private_two_sample",
    "releases/_two_sample.py private_paired_samples",
    "releases/_geodesic_regression.py private_geodesic_regression",
    "releases/_k_means.py private_k_means",
    "audit/_optimizers.py audit_optimizer",
    "cli/_mean.py mean",
    "cli/_pca.py pca",
    "cli/_plan.py plan",
    "federated/_door.py answer",
    "federated/_ball.py private_ball",
    "federated/_ball.py private_frechet_mean",
    "federated/_ball.py private_frechet_variance",
    "federated/_in_process.py run_in_process",
    "optimizers/_minimize.py private_minimize",
    "optimizers/_minimize.py minimized",  # the same as `private_minimize`, at another's cost
    "audit/_optimizers.py replicate",
    "releases/_mean.py private_frechet_mean",
    "releases/_mean.py prepared_mean",  # the same as `private_frechet_mean`, up to its charge
}
# Imported where they are needed: heavy or optional.
LATE = {
    "jinja2",
    "PIL",
    "dask",
    "flwr",
    "jax",
    "matplotlib",
    "mpmath",
    "pandas",
    "pyarrow",
    "ray",
    "rich",
    "scipy",
    "skimage",
    "sklearn",
}
# The command line answers `--help` and `--version` without loading JAX, so its commands import what
# they need when they run.
LAZY_PACKAGES = {"cli"}
# The accountant is reached without JAX: `riemdp.privacy.Ball` loads the domains on first use.
LAZY_FILES = {
    "_isolation.py",
    "_linalg.py",
    "_namespace.py",
    "privacy/__init__.py",
    "releases/_other_means.py",
    "releases/_median.py",
}


@pytest.fixture(scope="module")
def files():
    return table.working_tree()


def circles_of_files(files) -> list[str]:
    return [", ".join(group) for group in table.circles(table.arrows(files))]


def circles_of_packages(files) -> list[str]:
    return [", ".join(group) for group in table.circles(table.package_arrows(files))]


def lines_kept_from_the_formatter(files) -> list[str]:
    return [
        f"{f.path}:{i}" for f in files for i, line in enumerate(f.lines, 1) if "fmt: skip" in line
    ]


def too_many_parameters(files) -> list[str]:
    return [
        f"{f.where} has {len(f.parameters)}"
        for f in table.functions(files)
        if len(f.parameters) > MOST_PARAMETERS and f"{f.file.path} {f.node.name}" not in FACES
    ]


def needless_late_imports(files) -> list[str]:
    return [
        f"{place} imports {name}"
        for place, names in table.imports_in_functions(files).items()
        for name in names
        if place.split("/")[0] not in LAZY_PACKAGES
        and place.split(":")[0] not in LAZY_FILES
        and name.split(".")[0] not in LATE
        and "_on_jax" not in name  # what imports JAX
    ]


def too_many_any(files) -> list[str]:
    spelled = table.any_names(files)
    parameters = [(f, p) for f in table.functions(files) for p in f.parameters]
    anything = [f"{f.where} {p.arg}" for f, p in parameters if table._is_any(p.annotation, spelled)]
    return anything if len(anything) > MOST_ANY * len(parameters) else []


RULES = [
    too_many_any,
    circles_of_files,
    circles_of_packages,
    lines_kept_from_the_formatter,
    too_many_parameters,
    needless_late_imports,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_limits_hold(rule, files):
    assert len(files) > 100
    found = rule(files)
    assert not found, "\n" + "\n".join(found)


WIDE = "def f(a, b, c, d, e, f, g, h, i):\n    return a"
BROKEN = [
    (circles_of_files, {"a/_x.py": "from ._y import f", "a/_y.py": "from . import _x"}),
    (circles_of_files, {"a/__init__.py": "from ._y import f", "a/_y.py": "from . import g"}),
    (
        circles_of_packages,
        {"a/_x.py": "from ..b._y import f", "b/_y.py": "def f():\n    from ..a import _x"},
    ),
    (lines_kept_from_the_formatter, {"a/_x.py": "x = 1  # fmt: skip"}),
    (too_many_parameters, {"a/_x.py": WIDE}),
    (too_many_parameters, {"releases/_mean.py": WIDE}),
    (too_many_any, {"a/_x.py": "def f(a: Any, b: int):\n    return a"}),
    (too_many_any, {"a/_x.py": "State = Any\ndef f(a: State, b: int):\n    return a"}),
    (needless_late_imports, {"a/_x.py": "def f():\n    import numpy"}),
    (needless_late_imports, {"a/_x.py": "def f():\n    from ..b import c"}),
]
ALLOWED = [
    (too_many_any, {"a/_x.py": "def f(a: object, b: int):\n    return a"}),
    (circles_of_files, {"a/__init__.py": "from ._y import f", "a/_y.py": "from ..b import g"}),
    (too_many_parameters, {"releases/_mean.py": WIDE.replace("def f", "def private_frechet_mean")}),
    (too_many_parameters, {"a/_x.py": "def f(self, a, b, c, d, e, f, g, h):\n    return a"}),
    (needless_late_imports, {"a/_x.py": "def f():\n    from matplotlib import figure"}),
    (needless_late_imports, {"cli/_x.py": "def f():\n    import numpy"}),
]


def _parse(texts):
    return [File.parse(path, text) for path, text in texts.items()]


@pytest.mark.parametrize(("rule", "texts"), BROKEN)
def test_a_limit_sees_what_breaks_it(rule, texts):
    assert len(rule(_parse(texts))) >= 1


@pytest.mark.parametrize(("rule", "texts"), ALLOWED)
def test_a_limit_allows_what_is_right(rule, texts):
    assert rule(_parse(texts)) == []


def test_registries_are_counted():
    """A file that names two of a kind is a registry; the module of one of them is not."""
    texts = {
        "mechanisms/_one.py": "class WrappedGaussian: pass",
        "releases/_choices.py": 'NAMES = ("wrapped-gaussian", "k-norm-gradient")',
        "report/_words.py": '"""WrappedGaussian and KNormGradient in words."""',
        "audit/_attacks.py": "from ..mechanisms import KNormGradient",
    }
    assert table.registries(_parse(texts), "mechanism") == ["releases/_choices.py"]
