"""Holds the code to the layers of CONTRIBUTING.md, by reading its syntax trees (nothing is
imported).

Every rule is a function of a set of source files that returns the violations it finds, and each is
also given a file that breaks it: a rule that cannot fail proves nothing.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import riemdp
from tests.public import PACKAGES

PACKAGE = Path(riemdp.__file__).parent
ROOT = Path(__file__).parent.parent
LONGEST = 600
FOUNDATION = {"_errors", "_locks", "_files", "_version"}  # every package may use these
HEAVY = {
    "dp_accounting",
    "sklearn",
    "matplotlib",
    "flwr",
    "ray",
    "pandas",
    "skimage",
    "pooch",
    "rich",
    "torch",
    "scipy.stats",
}
NO_NOISE = {  # of a NoiseSource; every other public method draws noise
    "reproducible",  # says whether it has a seed
    "integers",  # choices: who takes part, the coins of an audit
    "subsets",
}
GAUSSIAN = {"normals", "rounded_normals", "discrete_gaussians"}
MAY_CHARGE = {  # whatever else releases is handed a permit, or goes through one of these
    "mechanisms/_base.py::release",
    "optimizers/_account.py::pay",
    "federated/_in_process.py::run_in_process",
    "federated/_site.py::_charge_once",
    "federated/flower/_simulate.py::simulate",
}
MAY_SPEND = {  # `Ledger.spend`
    "privacy/_ledger.py",
    "cli/_ledger_file.py",
}
MAY_PERMIT = {
    "privacy/_ledger.py",
    "privacy/_permit.py",
    "privacy/_selection.py",
    "federated/_site.py",
}
MAY_SPLIT = {  # parts of which a record is in some only, or parties of a plan: each has its proof
    "privacy/_permit.py",
    "mechanisms/_parts.py",
    "mechanisms/_selection.py",
    "federated/_over_sites.py",
    "federated/_in_process.py",
}
CONTEXT = {"privacy/_open_ledgers.py::_entered"}
MAY_DRAW = {"randomness", "sampling", "mechanisms", "optimizers"}
SHARES = ("federated/_shared_sum.py", "discrete_gaussians")  # a site's share of a sum's noise
# Packages on the way from private records to a release: here randomness that is not cryptographic
# is a fault. `manifolds` draws from JAX keys for simulation, `problems` in its gradient check on
# made-up points, and the packages after these for pictures.
MUST_BE_SECRET = {
    "privacy",
    "statistics",
    "sampling",
    "inference",
    "mechanisms",
    "optimizers",
    "releases",
    "federated",
    "estimators",
}


@dataclasses.dataclass(frozen=True)
class Source:
    """One file: its path inside the package, and its syntax tree."""

    path: str
    tree: ast.Module
    lines: int

    @property
    def package(self) -> str:
        first = self.path.split("/")[0].removesuffix(".py")
        return {"__init__": "riemdp"}.get(first, first)


def parse(path: str, text: str) -> Source:
    return Source(path, ast.parse(text, path), text.count("\n"))


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return [
        parse(p.relative_to(PACKAGE).as_posix(), p.read_text())
        for p in sorted(PACKAGE.rglob("*.py"))
    ]


def packages_in_order() -> list[str]:
    """The packages of the table in CONTRIBUTING.md, top to bottom; in a row with two, the left one
    stands above.
    """
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\|\s*(`[^|]*)\|", text, re.MULTILINE)
    return [
        name.removesuffix("/").removesuffix(".py")
        for row in rows
        for name in re.findall(r"`([^`]+)`", row)
    ]


@functools.cache
def whole(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a file, which many rules look at."""
    return tuple(ast.walk(tree))


def walk(tree: ast.AST) -> Iterable[ast.AST]:
    return whole(tree) if isinstance(tree, ast.Module) else ast.walk(tree)


# -----------------------------------------------------------------------------
# reading imports
def imported(source: Source, node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names that a statement imports, relative ones written out: `from ..privacy import
    Ball` -> riemdp.privacy.Ball.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level == 0:
        base = node.module or ""
    else:
        parts = ["riemdp", *source.path.split("/")[:-1]]
        base = ".".join(
            parts[: len(parts) - node.level + 1] + ([node.module] if node.module else [])
        )
    return [f"{base}.{alias.name}" for alias in node.names]


def last_part(node: ast.AST) -> str:
    """Of a dotted name."""
    return getattr(node, "attr", getattr(node, "id", ""))


@functools.cache
def imports(source: Source, *, module_level: bool) -> tuple[tuple[str, int], ...]:
    """(dotted name, line) of the imports that run on import of the file, or of all, those inside
    functions included.
    """

    def visit(node: ast.AST) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for name in imported(source, child):
                    yield name, child.lineno
            elif (
                module_level
                and isinstance(child, ast.If)
                and last_part(child.test) == "TYPE_CHECKING"
            ):
                for other in child.orelse:
                    yield from visit(other)
            elif not (
                module_level
                and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            ):
                yield from visit(child)

    found = list(visit(source.tree))
    if not module_level:  # importlib.import_module("riemdp.x") and the like
        found += [
            (node.value, node.lineno)
            for node in walk(source.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"riemdp(\.\w+)+", node.value)
        ]
    return tuple(found)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """(last part of the called name, call)."""
    for node in walk(tree):
        if isinstance(node, ast.Call):
            yield last_part(node.func), node


def functions(source: Source) -> Iterator[ast.FunctionDef]:
    for node in walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def drawing() -> set[str]:
    """What draws noise: every method of a `NoiseSource` that is not known to make none, and every
    function beside it that takes the numbers of a generator.
    """
    found: set[str] = set()
    for path in sorted((PACKAGE / "randomness").glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name == "NoiseSource":
                found |= {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            if isinstance(node, ast.FunctionDef):
                first = node.args.args[0].arg if node.args.args else ""
                found |= {node.name} if first in {"generator", "below", "key"} else set()
    return {name for name in found if not name.startswith("_")} - NO_NOISE


DRAWING = drawing()


@functools.cache
def brought(source: Source) -> frozenset[str]:
    """The names that a file imports from inside `randomness`."""
    return frozenset(
        name.rsplit(".", 1)[-1]
        for name, _ in imports(source, module_level=False)
        if name.startswith("riemdp.randomness._")
    )


def draws_in(source: Source, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """(name, where) of what draws inside `node`: a method or the property `generator` of a source,
    or a function that the file imports from `randomness`.
    """
    for name, call in calls(node):
        if name in DRAWING and (isinstance(call.func, ast.Attribute) or name in brought(source)):
            yield name, call
    for other in walk(node):
        if isinstance(other, ast.Attribute) and other.attr == "generator":
            yield "generator", other


# -----------------------------------------------------------------------------
# the rules
def wrong_imports(sources: list[Source]) -> list[str]:
    """A package imports only packages above it, also inside functions (TYPE_CHECKING blocks
    included: they are a dependency too).
    """
    order = packages_in_order()
    found = []
    for source in sources:
        if source.package in FOUNDATION | {"riemdp"}:
            allowed = FOUNDATION
        elif source.package in order:
            allowed = FOUNDATION | set(order[: order.index(source.package) + 1])
        else:
            found.append(
                f"{source.path}: package {source.package!r} is not in the table of CONTRIBUTING.md"
            )
            continue
        for name, line in imports(source, module_level=False):
            parts = name.split(".")
            if parts[0] != "riemdp":
                continue
            target = parts[1] if len(parts) > 1 else ""
            target = {"__version__": "_version"}.get(target, target)
            if target not in allowed:
                found.append(f"{source.path}:{line} imports {name}")
    return found


def noise_outside(sources: list[Source]) -> list[str]:
    """Only mechanisms/ and optimizers/ draw noise (sampling/ offers exact samplers to them and
    knows no privacy), and a site its share of the noise of a sum.
    """
    found = []
    for source in sources:
        if source.package not in MAY_DRAW:
            found += [
                f"{source.path}:{node.lineno} draws with {name}"
                for name, node in draws_in(source, source.tree)
                if (source.path, name) != SHARES
            ]
        if source.package in MUST_BE_SECRET:
            for node in walk(source.tree):
                if isinstance(node, ast.Attribute) and last_part(node.value) == "random":
                    text = ast.unparse(node)
                    # key_data only reads a key that a caller of a sampler passed in; Generator is
                    # the name of a type.
                    if text not in {"jax.random.key_data", "np.random.Generator"}:
                        found.append(
                            f"{source.path}:{node.lineno} uses {text}, which is not cryptographic"
                            " randomness"
                        )
            found += [
                f"{source.path}:{call.lineno} draws with tangent_normal, whose keys are 64 bits"
                for name, call in calls(source.tree)
                if name == "tangent_normal"
            ]
    return found


def noise_without_guarantee(sources: list[Source]) -> list[str]:
    """Noise is not drawn without the guarantee being made, and charged, in the same function.

    A function of mechanisms/ that opens a source of the caller's choice must name a guarantee and
    charge it before it draws; a function of optimizers/ that draws normals must name the guarantee.
    Helpers of mechanisms/ may draw from a source that they are handed, and pilot runs from a fixed
    public seed.
    """
    found = []
    for source in sources:
        if source.package not in {"mechanisms", "optimizers"}:
            continue
        for function in functions(source):
            names = {n.id for n in walk(function) if isinstance(n, ast.Name)}
            names |= {n.attr for n in walk(function) if isinstance(n, ast.Attribute)}
            made = any("guarantee" in name for name in names)
            where = f"{source.path}:{function.lineno} {function.name}"
            own = [(name, call) for name, call in calls(function)]
            draws = [node.lineno for _, node in draws_in(source, function)]
            if source.package == "optimizers":
                if any(name in GAUSSIAN for name, _ in own) and not made:
                    found.append(f"{where} draws normals but names no guarantee")
                continue
            parameters = {
                a.arg
                for a in (
                    *function.args.posonlyargs,
                    *function.args.args,
                    *function.args.kwonlyargs,
                )
            }
            opened = [
                call
                for name, call in own
                if name == "noise_source" and not isinstance(call.args[0], ast.Constant)
            ]
            charged = [call.lineno for name, call in own if name == "charge"]
            if opened and not (made and charged):
                found.append(f"{where} opens a noise source but makes and charges no guarantee")
            if opened and charged and draws and min(draws) < min(charged):
                found.append(f"{where} draws before it charges")
            if (
                draws
                and not opened
                and not parameters & {"source"}
                and not any(name == "noise_source" for name, _ in own)
            ):
                found.append(f"{where} draws from a source that it was not handed")
    return found


def charges_elsewhere(sources: list[Source]) -> list[str]:
    """A charge is made in the places of `MAY_CHARGE`, and what it paid for is an argument.

    A function that charges and then releases through something that does not charge needs a
    permission from somewhere. If that were ambient (a flag of the thread, a context variable),
    whatever runs in between, a signal handler or a hook, would be charged to nothing.
    """
    found = []
    for source in sources:
        inside = {
            id(call): f"{source.path}::{function.name}"
            for function in functions(source)
            for _, call in calls(function)
        }
        for name, call in calls(source.tree):
            where = f"{source.path}:{call.lineno}"
            place = inside.get(id(call), source.path)
            if name == "charge" and place not in MAY_CHARGE:
                found.append(f"{where} charges in {place}")
            if name == "spend" and source.path not in MAY_SPEND:
                found.append(f"{where} spends on a ledger")
            if name == "Permit" and source.path not in MAY_PERMIT:
                found.append(f"{where} makes a permit without a charge")
            if name in {"among_parts", "for_parties"} and source.path not in MAY_SPLIT:
                found.append(f"{where} divides a permit by {name}")
    return found


def ambient_permissions(sources: list[Source]) -> list[str]:
    """Nothing around a release says that it is paid, or for whom it is."""
    found = []
    for source in sources:
        forbidden = {"uncharged", "about_people"}
        if source.package != "audit":
            forbidden.add("Unbounded")
        for node in walk(source.tree):
            names = {getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", "")}
            line = getattr(node, "lineno", 0)
            found += [f"{source.path}:{line} names {name}" for name in names & forbidden]
            if isinstance(node, ast.Assign | ast.AnnAssign) and source.package == "privacy":
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                made = node.value is not None and any(n == "ContextVar" for n, _ in calls(node))
                if made and f"{source.path}::{ast.unparse(target)}" not in CONTEXT:
                    found.append(f"{source.path}:{node.lineno} keeps {ast.unparse(target)}")
    return found


def matplotlib_outside_plots(sources: list[Source]) -> list[str]:
    return [
        f"{source.path}:{line} imports {name}"
        for source in sources
        for name, line in imports(source, module_level=False)
        if name.split(".")[0] == "matplotlib" and source.package != "plots"
    ]


def heavy_at_import(sources: list[Source]) -> list[str]:
    """Heavy packages are imported inside functions, where they are needed.

    Two faces must be subclasses of what they face: `estimators` of scikit-learn's classes, the
    Flower modules of Flower's. Both are themselves loaded on first use only.
    """
    found = []
    for source in sources:
        for name, line in imports(source, module_level=True):
            heavy = name.split(".")[0] in HEAVY or any(
                name == h or name.startswith(h + ".") for h in HEAVY
            )
            package = name.split(".")[0]
            face = (source.package, package) == ("estimators", "sklearn") or (
                source.package == "federated" and "flower" in source.path and package == "flwr"
            )
            if heavy and not face:
                found.append(f"{source.path}:{line} imports {name} when it is imported")
    return found


def too_long(sources: list[Source]) -> list[str]:
    return [
        f"{source.path} has {source.lines} lines, more than {LONGEST}"
        for source in sources
        if source.lines > LONGEST
    ]


def accounting_outside_privacy(sources: list[Source]) -> list[str]:
    """Only `privacy` imports its accountant: all others use a `Guarantee`."""
    return [
        f"{source.path}:{line} imports {name}"
        for source in sources
        for name, line in imports(source, module_level=False)
        if name.startswith("riemdp.privacy.accounting") and not source.path.startswith("privacy/")
    ]


def unchecked_decompositions(sources: list[Source]) -> list[str]:
    """JAX decomposes matrices in one module, which checks what a device returns."""
    iterative = {"eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv", "polar"}
    return [
        f"{source.path}:{node.lineno} uses {ast.unparse(node)}"
        for source in sources
        if source.path != "_decompositions.py"
        for node in walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in iterative
        and ast.unparse(node.value).startswith(("jnp.", "jax."))
    ]


def opened_records(sources: list[Source]) -> list[str]:
    """Of the files of the optimisers one alone looks into `PrivateRecords`."""
    return [
        f"{source.path}:{node.lineno} opens records with {ast.unparse(node)}"
        for source in sources
        if source.package == "optimizers" and source.path != "optimizers/_records.py"
        for node in walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "held"
    ]


RULES = [
    accounting_outside_privacy,
    opened_records,
    unchecked_decompositions,
    wrong_imports,
    noise_outside,
    noise_without_guarantee,
    charges_elsewhere,
    ambient_permissions,
    matplotlib_outside_plots,
    heavy_at_import,
    too_long,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rules_hold(rule, sources):
    assert len(sources) > 20
    found = rule(sources)
    assert not found, "\n" + "\n".join(found)


_RELEASE = """
def release(self, value, rng=None):
    source = noise_source(rng)
    {first}
    z = source.normals((3,))
    {last}
    return value + z
"""

BROKEN = [
    (
        accounting_outside_privacy,
        "optimizers/_x.py",
        "def f():\n    from ..privacy.accounting.gaussian import gaussian_mu",
    ),
    (accounting_outside_privacy, "report/_x.py", "import riemdp.privacy.accounting.bounds"),
    (opened_records, "optimizers/_x.py", "def f(records):\n    return records.held[0]"),
    (wrong_imports, "manifolds/_x.py", "from ..privacy import Ball"),
    (wrong_imports, "manifolds/_x.py", "def f():\n    from .. import privacy"),
    (wrong_imports, "privacy/_x.py", "import riemdp.mechanisms._gaussian"),
    (
        wrong_imports,
        "statistics/_x.py",
        "import importlib\ndef f():\n    importlib.import_module('riemdp.releases')",
    ),
    (wrong_imports, "mechanisms/_x.py", "if TYPE_CHECKING:\n    from ..optimizers import DPRGD"),
    (wrong_imports, "cellar/_x.py", ""),
    (wrong_imports, "_errors.py", "from .privacy import Budget"),
    (noise_outside, "releases/_x.py", "def f(source):\n    return source.normals((3,))"),
    (noise_outside, "federated/_shared_sum.py", "def f(source):\n    return source.normals((3,))"),
    (noise_outside, "federated/_x.py", "def f(s):\n    return s.discrete_gaussians(4.0, 2)"),
    (noise_outside, "releases/_x.py", "def f(source):\n    return source.laplace_integer(4)"),
    (noise_outside, "estimators/_x.py", "def f(s):\n    return s.laplace_integers(4, 2)"),
    (noise_outside, "report/_x.py", "def f(s):\n    return s.generator.standard_normal(3)"),
    (
        noise_outside,
        "releases/_x.py",
        "from ..randomness._rounded import rounded_normals\n"
        "def f(g):\n    return rounded_normals(g, 2.0**32, 3)",
    ),
    (
        noise_outside,
        "federated/_x.py",
        "from ..randomness._discrete_laplace import laplace_vector\n"
        "def f(g):\n    return laplace_vector(g, 4, 2)",
    ),
    (
        noise_without_guarantee,
        "mechanisms/_x.py",
        "def f():\n    return SOURCE.laplace_integer(4)",
    ),
    (
        charges_elsewhere,
        "estimators/_x.py",
        "def fit(self, X):\n    charge(whole)\n    with uncharged():\n        release(X)",
    ),
    (charges_elsewhere, "releases/_x.py", "def f(ledger):\n    charge(whole, ledger)"),
    (charges_elsewhere, "mechanisms/_x.py", "def release(self, x, ledger):\n    charge(g, ledger)"),
    (charges_elsewhere, "releases/_x.py", "def f(ledger, g):\n    ledger.spend(g)"),
    (charges_elsewhere, "estimators/_x.py", "charge(g)"),
    (charges_elsewhere, "estimators/_x.py", "def f(m, v, s):\n    m.within(s, Permit(g, r))"),
    (charges_elsewhere, "releases/_x.py", "def f(permit):\n    return permit.among_parts()"),
    (ambient_permissions, "privacy/_ledger.py", "def uncharged():\n    yield"),
    (ambient_permissions, "estimators/_x.py", "from ..privacy._ledger import uncharged"),
    (
        ambient_permissions,
        "releases/_x.py",
        "def f():\n    with ledger.about_people():\n        g()",
    ),
    (ambient_permissions, "privacy/_x.py", "_paid = contextvars.ContextVar('paid')"),
    (ambient_permissions, "privacy/_ledger.py", "_paid: ContextVar[bool] = ContextVar('paid')"),
    (ambient_permissions, "releases/_x.py", "from ..audit._unbounded import Unbounded"),
    (ambient_permissions, "optimizers/_x.py", "def f():\n    return audit.Unbounded()"),
    (noise_outside, "estimators/_x.py", "def f(m, key, p):\n    return m.tangent_normal(key, p)"),
    (noise_outside, "optimizers/_x.py", "def f():\n    return np.random.default_rng(0)"),
    (noise_outside, "federated/_x.py", "def f(key):\n    return jax.random.normal(key)"),
    (noise_without_guarantee, "mechanisms/_x.py", _RELEASE.format(first="", last="")),
    (
        noise_without_guarantee,
        "mechanisms/_x.py",
        _RELEASE.format(first="", last="charge(gaussian_guarantee(1.0))"),
    ),
    (noise_without_guarantee, "mechanisms/_x.py", "def f():\n    return SOURCE.normals((3,))"),
    (
        noise_without_guarantee,
        "optimizers/_x.py",
        "def f(source):\n    return source.normals((3,))",
    ),
    (
        noise_without_guarantee,
        "optimizers/_x.py",
        "def f(source):\n    return source.rounded_normals(2.0**32, (3,))",
    ),
    (matplotlib_outside_plots, "report/_x.py", "def f():\n    import matplotlib.pyplot as plt"),
    (unchecked_decompositions, "domains/_x.py", "def f(a):\n    return jnp.linalg.eigvalsh(a)"),
    (unchecked_decompositions, "domains/_x.py", "def f(a):\n    return jax.lax.linalg.svd(a)"),
    (heavy_at_import, "privacy/_x.py", "from scipy import stats"),
    (
        heavy_at_import,
        "privacy/_x.py",
        "try:\n    import dp_accounting\nexcept ImportError:\n    pass",
    ),
    (heavy_at_import, "federated/_core.py", "import flwr"),
    (heavy_at_import, "statistics/_x.py", "from sklearn.base import BaseEstimator"),
    (too_long, "privacy/_x.py", "x = 1\n" * (LONGEST + 1)),
]

ALLOWED = [
    (unchecked_decompositions, "domains/_x.py", "def f(a):\n    return np.linalg.eigh(a)"),
    (unchecked_decompositions, "domains/_x.py", "def f(a):\n    return decompositions.eigh(a)"),
    (accounting_outside_privacy, "privacy/_x.py", "from .accounting import bounds"),
    (wrong_imports, "mechanisms/_x.py", "from ..privacy import Ball\nfrom .._errors import real"),
    (wrong_imports, "cli.py", "from .report import privacy_report"),
    (noise_outside, "mechanisms/_x.py", "def f(source):\n    return source.normals((3,))"),
    (
        noise_without_guarantee,
        "mechanisms/_x.py",
        _RELEASE.format(first="charge(self.guarantee)", last=""),
    ),
    (
        noise_without_guarantee,
        "mechanisms/_x.py",
        "def pilot():\n    return noise_source(7).normals((3,))",
    ),
    (
        heavy_at_import,
        "privacy/_x.py",
        "from scipy import special\ndef f():\n    import dp_accounting",
    ),
    (
        heavy_at_import,
        "report/_x.py",
        "if TYPE_CHECKING:\n    from sklearn.base import BaseEstimator",
    ),
    (charges_elsewhere, "releases/_x.py", "def f(m, v, rng):\n    return m.release(v, rng)"),
    (
        charges_elsewhere,
        "mechanisms/_base.py",
        "def release(self):\n    with charge(g) as permit:\n        self.within(source, permit)",
    ),
    (ambient_permissions, "audit/_x.py", "from ._unbounded import Unbounded"),
    (
        ambient_permissions,
        "privacy/_open_ledgers.py",
        "_entered: ContextVar[str] = ContextVar('e')",
    ),
    (heavy_at_import, "federated/flower.py", "import flwr"),
    (heavy_at_import, "estimators/_x.py", "from sklearn.base import BaseEstimator"),
]


@pytest.mark.parametrize(
    ("rule", "path", "text"), BROKEN, ids=lambda x: getattr(x, "__name__", None)
)
def test_a_rule_sees_what_breaks_it(rule, path, text):
    assert len(rule([parse(path, text)])) >= 1


@pytest.mark.parametrize(
    ("rule", "path", "text"), ALLOWED, ids=lambda x: getattr(x, "__name__", None)
)
def test_a_rule_allows_what_is_right(rule, path, text):
    assert rule([parse(path, text)]) == []


def test_the_table_of_packages_is_read():
    order = packages_in_order()
    assert order[:5] == ["_errors", "_locks", "_files", "_namespace", "_trees"]
    assert order[10:12] == ["plots", "manifolds"]
    assert order[-2:] == ["cli", "__main__"]
    assert (
        order.index("privacy")
        < order.index("mechanisms")
        < order.index("optimizers")
        < order.index("releases")
    )
    assert set(PACKAGES) <= set(order)


def test_what_draws_noise_is_read_off_the_source():
    """A new method of a `NoiseSource` counts as drawing until it is said that it makes no noise."""
    methods = {name for name in vars(riemdp.NoiseSource) if not name.startswith("_")}
    assert methods - NO_NOISE <= DRAWING
    assert methods >= NO_NOISE
    assert {"laplace_integer", "laplace_integers", "laplace_vector", "many_normals"} <= DRAWING
    assert GAUSSIAN <= DRAWING


def test_no_listed_place_has_stopped_to_charge(sources):
    """A place that charges no more must leave the list: another function could take its name."""
    places = {
        f"{source.path}::{function.name}"
        for source in sources
        for function in functions(source)
        if any(name == "charge" for name, _ in calls(function))
    }
    assert places == MAY_CHARGE


def test_no_public_function_takes_what_has_been_paid():
    """No public parameter switches a charge off, or changes for whom it is."""
    seen = 0
    for package, names in PACKAGES.items():
        for name in names:
            thing = getattr(riemdp, name)
            members = [thing]
            if inspect.isclass(thing):
                members += [m for n, m in inspect.getmembers(thing) if not n.startswith("_")]
                members.append(thing.__init__)
            for member in members:
                if not inspect.isroutine(member):
                    continue
                try:
                    signature = inspect.signature(member)
                except (TypeError, ValueError):
                    continue
                seen += 1
                for parameter in signature.parameters.values():
                    told = f"{parameter.name}: {parameter.annotation}"
                    assert not re.search(r"\b([Pp]ermit|[Aa]ccount|Unbounded)\b", told), (
                        f"{package}: {name} takes {told}"
                    )
    assert seen > 100
