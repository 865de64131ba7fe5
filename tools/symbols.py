"""Find functions, classes, methods and constants by name, whatever file they stand in.

A symbol is written `clip_rows`, `NoisyGradient.weights` or, where that names several things, with
as many parts of the module in front as it needs: `_ledger.Ledger.charge`. A module is a symbol too,
with its package in front (`privacy._ledger`), so that it is not taken for a function. The planted
faults and the proof pages name code and tests in this way: what moves to another file takes its
faults and its proofs along.

    python tools/symbols.py NAME ...   where each of them stands
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = "src/riemdp"
TESTS = "tests"

Lines = tuple[int, int]  # first and last, counted from 1
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A named thing; its spans are several where it is defined more than once (overloads)."""

    module: str
    name: str  # of a module itself: nothing
    file: str
    spans: tuple[Lines, ...]

    @property
    def names(self) -> list[str]:
        """All that it may be called: the shortest first, the whole name last."""
        above = self.module.split(".")
        own = [self.name] if self.name else [".".join(above[-2:])]
        above = above if self.name else above[:-2]
        return [".".join(above[i:] + own) for i in range(len(above), -1, -1)]

    def __str__(self) -> str:
        return self.names[-1]

    def pieces(self, text: str) -> list[slice]:
        """Where its lines lie in the text of its file."""
        starts = [0, *itertools.accumulate(map(len, lines_of(text)))]
        return [slice(starts[first - 1], starts[last]) for first, last in self.spans]

    def count(self, text: str, passage: str) -> int:
        """How often a passage occurs within its own lines."""
        return sum(text[piece].count(passage) for piece in self.pieces(text))

    def replaced(self, text: str, old: str, new: str) -> str:
        """The text of its file with a passage of its own lines, which occurs once, replaced."""
        for piece in self.pieces(text):
            if old in text[piece]:
                changed = text[piece].replace(old, new)
                return text[: piece.start] + changed + text[piece.stop :]
        return text


def lines_of(text: str) -> list[str]:
    """Lines as syntax trees count them, with their ends: nothing but a line feed ends one."""
    return [line + "\n" for line in text.removesuffix("\n").split("\n")]


class Unknown(LookupError):
    """A name that is nobody's, or that of several."""


class Index:
    """The symbols below a folder, by each name that they may be called."""

    def __init__(self, root: Path, folder: str):
        self.root = root
        above = (root / folder).parent
        found: dict[tuple[str, str, str], list[Lines]] = defaultdict(list)
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            module = ".".join(path.relative_to(above).with_suffix("").parts)
            place = module.removesuffix(".__init__"), path.relative_to(root).as_posix()
            found[place[0], "", place[1]].append((1, len(lines_of(text))))
            for name, lines in _definitions(ast.parse(text).body, ""):
                found[place[0], name, place[1]].append(lines)
        self.symbols = [Symbol(m, n, f, tuple(spans)) for (m, n, f), spans in found.items()]
        self._called: dict[str, list[Symbol]] = defaultdict(list)
        self._of_file: dict[str, list[Symbol]] = defaultdict(list)
        for symbol in self.symbols:
            self._of_file[symbol.file].append(symbol)
            for name in symbol.names:
                self._called[name].append(symbol)

    def find(self, name: str) -> Symbol:
        """The one symbol that is called so."""
        found = self._called.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(sorted(map(str, found)))
            raise Unknown(f"{name} is the name of several symbols; write one of {several}")
        last = name.rpartition(".")[2]
        same = sorted(str(s) for s in self.symbols if str(s).endswith(f".{last}"))
        near = same or difflib.get_close_matches(name, self._called, 3)
        raise Unknown(f"there is no symbol {name}; near it: {', '.join(near[:5]) or 'nothing'}")

    def shortest(self, symbol: Symbol) -> str:
        """The shortest name that is this symbol's alone."""
        return next(name for name in symbol.names if len(self._called[name]) == 1)

    def around(self, file: str, first: int, last: int) -> Symbol:
        """The smallest symbol that has these lines of a file."""
        having = [
            (b - a, symbol.name, symbol)
            for symbol in self._of_file[file]
            for a, b in symbol.spans
            if a <= first and last <= b
        ]
        return min(having, key=lambda h: (h[0], h[1] == "", h[1]))[2]


def _definitions(body: Iterable[ast.AST], prefix: str) -> Iterator[tuple[str, Lines]]:
    """Qualified names and lines of what a module or class defines, its decorators included."""
    for node in body:
        if isinstance(node, _NAMED):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield prefix + node.name, (first, node.end_lineno or first)
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                if isinstance(name.ctx, ast.Store):
                    yield prefix + name.id, (node.lineno, node.end_lineno or node.lineno)
        elif isinstance(node, _BLOCKS):
            yield from _definitions(ast.iter_child_nodes(node), prefix)


class Tree:
    """The code and the tests of a checkout, each read once and when first asked for."""

    def __init__(self, root: Path = ROOT):
        self.root = root

    @functools.cached_property
    def code(self) -> Index:
        return Index(self.root, CODE)

    @functools.cached_property
    def tests(self) -> Index:
        return Index(self.root, TESTS)

    def test(self, name: str) -> str:
        """What pytest calls a test (`test_it`, `test_it[case]`) or a whole file of tests."""
        name, bracket, case = name.partition("[")
        found = self.tests.find(name)
        if not str(found).rpartition(".")[2].startswith("test_"):
            raise Unknown(f"{name} is no test: {found}")
        return "::".join([found.file, *found.name.split(".")]).rstrip(":") + bracket + case


def main(names: list[str]) -> int:
    """The command; exit code 1 where a name is not that of one symbol."""
    tree, failed = Tree(), 0
    for name in names:
        index = tree.tests if name.rpartition(".")[2].startswith("test_") else tree.code
        try:
            found = index.find(name)
            print(f"{name}: {found.file}, lines {', '.join(f'{a}-{b}' for a, b in found.spans)}")
        except Unknown as error:
            failed = 1
            print(error)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
