"""What the limits of `tests/test_structure.py` are about: parameters, types, imports, registries.

    python tools/measure_code.py    names the files that list two or more of a kind

It reads syntax trees and imports nothing, so it needs no installed package. Read is `src/riemdp`.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/riemdp"

# What can be added, with the names of what is there. A file that names two or more of one kind is
# a registry: whoever adds another one has to look at it.
KINDS: dict[str, tuple[str, ...]] = {
    "manifold": (
        "Euclidean",
        "Sphere",
        "Lorentz",
        "PoincareBall",
        "SPDAffineInvariant",
        "SPDBuresWasserstein",
        "SPDLogEuclidean",
        "Stiefel",
        "SpecialOrthogonal",
        "Grassmann",
        "KendallShapes",
    ),
    "mechanism": (
        "WrappedGaussian|wrapped-gaussian",
        "WrappedLaplace|wrapped-laplace",
        "RiemannianLaplace|riemannian-laplace",
        "KNormGradient|k-norm-gradient",
        "ExtrinsicGaussian|extrinsic-gaussian",
        "ExtrinsicLaplace|extrinsic-laplace",
    ),
    "optimiser": ("DPRGD|dp-rgd", "DPRSGD|dp-rsgd", "DPRSVRG|dp-rsvrg"),
    "estimator": ("PrivateFrechetMean", "PrivateMDM", "PrivatePCA"),
}


@dataclasses.dataclass(frozen=True)
class File:
    """One file: its path inside the package, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> File:
        return cls(path, text, ast.parse(text, path))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def package(self) -> str:
        """The folder directly below the package, or the module where there is none."""
        return self.path.split("/")[0].removesuffix(".py")


@dataclasses.dataclass(frozen=True)
class Function:
    """One function: where it is, its parameters."""

    file: File
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def where(self) -> str:
        return f"{self.file.path}:{self.node.lineno} {self.node.name}"

    @property
    def parameters(self) -> list[ast.arg]:
        a = self.node.args
        named = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        several = [x for x in (a.vararg, a.kwarg) if x is not None]
        return [x for x in named if x.arg not in ("self", "cls")] + several


# ------------------------------------------------------------------------------------------------
# reading
def working_tree() -> list[File]:
    folder = ROOT / PACKAGE
    return [
        File.parse(p.relative_to(folder).as_posix(), p.read_text(encoding="utf-8"))
        for p in sorted(folder.rglob("*.py"))
    ]


def functions(files: Iterable[File]) -> list[Function]:
    """Every `def`, methods and nested functions included."""
    return [
        Function(f, node)
        for f in files
        for node in ast.walk(f.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _docstring_lines(node: ast.AST) -> int:
    body = getattr(node, "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        first = body[0]
        if isinstance(first.value.value, str):
            return (first.end_lineno or first.lineno) - first.lineno + 1
    return 0


# ------------------------------------------------------------------------------------------------
# imports
def imported_names(file: File, node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names that a statement imports, relative ones written out."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.level == 0:
        base = node.module or ""
    else:
        parts = ["riemdp", *file.path.split("/")[:-1]]
        above = parts[: len(parts) - node.level + 1]
        base = ".".join(above + ([node.module] if node.module else []))
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_in_functions(files: Iterable[File]) -> dict[str, list[str]]:
    """Place of each import statement inside a function -> the names that it imports."""
    return {
        f"{f.file.path}:{node.lineno}": imported_names(f.file, node)
        for f in functions(files)
        for node in ast.walk(f.node)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def arrows(files: list[File]) -> dict[str, set[str]]:
    """File -> files that it imports, imports inside functions and for types included."""
    by_name = {}
    for f in files:
        name = "riemdp." + f.path.removesuffix(".py").replace("/", ".")
        by_name[name.removesuffix(".__init__")] = f.path
    found: dict[str, set[str]] = {f.path: set() for f in files}
    for f in files:
        for node in ast.walk(f.tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for name in imported_names(f, node):
                target = by_name.get(name) or by_name.get(name.rpartition(".")[0])
                if target is not None and target != f.path:
                    found[f.path].add(target)
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (strongly connected components of two or more)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == node:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


def package_arrows(files: list[File]) -> dict[str, set[str]]:
    """Package -> other packages that one of its files imports."""
    package = {f.path: f.package for f in files}
    found: dict[str, set[str]] = {name: set() for name in package.values()}
    for source, targets in arrows(files).items():
        found[package[source]] |= {package[t] for t in targets} - {package[source]}
    return found


# ------------------------------------------------------------------------------------------------
# registries
def _words(file: File) -> set[str]:
    """Identifiers and whole string constants of a file, docstrings left out."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and _docstring_lines(node)
        if isinstance(node.body[0], ast.Expr)
    }
    words = set()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words.add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.ClassDef):
            words.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words |= set() if id(node) in docstrings else {node.value}
    return words


def registries(files: list[File], kind: str) -> list[str]:
    """Files that name two or more of a kind, its own modules left out."""
    spellings = [set(names.split("|")) for names in KINDS[kind]]
    classes = {name for names in spellings for name in names}
    found = []
    for f in files:
        own = {n.name for n in ast.walk(f.tree) if isinstance(n, ast.ClassDef)} & classes
        words = _words(f)
        named = sum(bool(names & words) for names in spellings)
        if named >= 2 and not own:
            found.append(f.path)
    return found


# ------------------------------------------------------------------------------------------------
# types
def any_names(files: Iterable[File]) -> set[str]:
    """Spellings of `Any`, names that a module gives to it included (`State = Any`)."""
    names = {"Any", "typing.Any"}
    for f in files:
        for node in f.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if ast.unparse(node.value) in ("Any", "typing.Any"):
                    names |= {ast.unparse(t) for t in targets}
    return names


def _is_any(annotation: ast.expr | None, names: Iterable[str]) -> bool:
    return annotation is not None and ast.unparse(annotation) in names


def main() -> None:
    """Print the registries of every kind."""
    files = working_tree()
    for kind in KINDS:
        print(f"registries of a {kind}: " + ", ".join(registries(files, kind)))


if __name__ == "__main__":
    main()
