"""Measures the source code: sizes, parameters, types, lines, imports, circles, registries.

    python tools/measure_code.py                    the working tree
    python tools/measure_code.py a724553 HEAD .     two git revisions beside the working tree (".")
    python tools/measure_code.py --files .          also names the files behind each count

It reads syntax trees and imports nothing, so it needs no installed package. Measured is
`src/riemdp`. Limits are held by `tests/test_architecture.py`, which uses the functions below.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import io
import statistics
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
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
        "Grassmann",
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
    """One function: where it is, its length without the docstring, its parameters."""

    file: File
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def where(self) -> str:
        return f"{self.file.path}:{self.node.lineno} {self.node.name}"

    @property
    def length(self) -> int:
        docstring = _docstring_lines(self.node)
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1 - docstring

    @property
    def parameters(self) -> list[ast.arg]:
        a = self.node.args
        named = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        several = [x for x in (a.vararg, a.kwarg) if x is not None]
        return [x for x in named if x.arg not in ("self", "cls")] + several

    @property
    def nesting(self) -> int:
        blocks = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.AsyncFor | ast.AsyncWith

        def depth(node: ast.AST, at: int) -> int:
            below = [
                depth(child, at + isinstance(child, blocks))
                for child in ast.iter_child_nodes(node)
                if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ]
            return max([at, *below])

        return depth(self.node, 0)


# ------------------------------------------------------------------------------------------------
# reading
def working_tree() -> list[File]:
    folder = ROOT / PACKAGE
    return [
        File.parse(p.relative_to(folder).as_posix(), p.read_text(encoding="utf-8"))
        for p in sorted(folder.rglob("*.py"))
    ]


def revision(name: str) -> list[File]:
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", name, PACKAGE], capture_output=True, check=True
    )
    files = []
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                path = member.name.removeprefix(PACKAGE + "/")
                files.append(File.parse(path, content.read().decode()))
    return sorted(files, key=lambda f: f.path)


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
# the table
def _quantiles(values: list[int]) -> str:
    ordered = sorted(values)
    return (
        f"{statistics.median(ordered):.0f} / {ordered[int(0.9 * (len(ordered) - 1))]}"
        f" / {ordered[-1]}"
    )


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


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


Rows = dict[str, str]


def measure(files: list[File]) -> Rows:
    """The table of one version, as words."""
    defs = functions(files)
    parameters = [p for f in defs for p in f.parameters]
    counts = [len(f.parameters) for f in defs]
    lines = [line for f in files for line in f.lines]
    widths = [len(line) for line in lines if line.strip()]
    docstrings = sum(
        _docstring_lines(node)
        for f in files
        for node in ast.walk(f.tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    inside = imports_in_functions(files)
    untyped = [p for p in parameters if p.annotation is None]
    spelled = any_names(files)
    rows = {
        "files / lines of src": f"{len(files)} / {len(lines)}",
        "module lines, median / p90 / max": _quantiles([len(f.lines) for f in files]),
        "function lines without docstring": _quantiles([f.length for f in defs]),
        "parameters, mean / max": f"{statistics.mean(counts):.1f} / {max(counts)}",
        "functions of more than 8 parameters": str(sum(c > 8 for c in counts)),
        "nesting, median / p90 / max": _quantiles([f.nesting for f in defs]),
        "parameters of type Any": _share(
            sum(_is_any(p.annotation, spelled) for p in parameters), len(parameters)
        ),
        "parameters without a type": _share(len(untyped), len(parameters)),
        "lines over 88 / 100 / 120": " / ".join(
            _share(sum(w > limit for w in widths), len(widths)) for limit in (88, 100, 120)
        ),
        "characters a line, mean": f"{statistics.mean(widths):.0f}",
        "docstring lines": _share(docstrings, len(lines)),
        "`>>>` examples": str(sum(line.strip().startswith(">>>") for line in lines)),
        "imports inside functions (of riemdp)": (
            f"{len(inside)} ({sum(x[0].startswith('riemdp.') for x in inside.values())})"
        ),
        "`fmt: skip` / `type: ignore`": (
            f"{sum('fmt: skip' in x for x in lines)}"
            f" / {sum('type: ignore' in x or 'pyright: ignore' in x for x in lines)}"
        ),
        "circles of files / of packages": (
            f"{len(circles(arrows(files)))} / {len(circles(package_arrows(files)))}"
        ),
        "arrows between files": str(sum(map(len, arrows(files).values()))),
    }
    for kind in KINDS:
        rows[f"files to touch for a new {kind}"] = str(1 + len(registries(files, kind)))
    return rows


def details(files: list[File]) -> Iterator[str]:
    """The files and functions behind the counts."""
    for group in circles(arrows(files)):
        yield "circle: " + ", ".join(group)
    for group in circles(package_arrows(files)):
        yield "circle of packages: " + ", ".join(group)
    for kind in KINDS:
        yield f"registries of a {kind}: " + ", ".join(registries(files, kind))
    for f in functions(files):
        if len(f.parameters) > 8:
            yield f"{len(f.parameters)} parameters: {f.where}"
    for f in sorted(files, key=lambda f: -len(f.lines))[:5]:
        yield f"{len(f.lines)} lines: {f.path}"
    for f in sorted(functions(files), key=lambda f: -f.length)[:5]:
        yield f"{f.length} lines: {f.where}"


def load(name: str) -> list[File]:
    """The files of a git revision, or of the working tree for "."."""
    read: Callable[[], list[File]] = working_tree if name == "." else lambda: revision(name)
    return read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("revisions", nargs="*", default=["."], help='git revisions, or "."')
    parser.add_argument("--files", action="store_true", help="name what is behind the counts")
    given = parser.parse_args()
    versions = {name: load(name) for name in given.revisions}
    tables = [measure(files) for files in versions.values()]
    print("| | " + " | ".join("working tree" if n == "." else n for n in versions) + " |")
    print("|---" * (len(tables) + 1) + "|")
    for row in tables[0]:
        print(f"| {row} | " + " | ".join(table[row] for table in tables) + " |")
    if given.files:
        for name, files in versions.items():
            print(f"\n{name}")
            print("\n".join(details(files)))


if __name__ == "__main__":
    main()
