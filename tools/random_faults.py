"""Faults that nobody chose: drawn by a table of operators over the lines of given code.

`python tools/mutants.py --random N --seed S --files ...` plants them. Left out is what decides
nothing: annotations, decorators, texts of errors and formatted strings.
"""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Callable, Iterator

from symbols import Symbol, Tree, lines_of

_SWAPPED = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_DECIDES_NOTHING = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)
_FIELDS = ("annotation", "returns", "decorator_list")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One fault, in the words of a table entry, and where it was when it was drawn."""

    operator: str
    file: str
    line: int
    symbol: str
    old: str
    new: str


def _factors(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.MatMult):
        yield node.left
        if not isinstance(node.op, ast.Div):
            yield node.right


def _comparisons(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        swapped = [_SWAPPED[type(node.ops[0])](), *node.ops[1:]]
        yield ast.Compare(node.left, swapped, node.comparators)


def _signs(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        yield ast.BinOp(node.left, _SIGNS[type(node.op)](), node.right)


def _numbers(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)


def _calls(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    if isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]


OPERATORS: dict[str, Callable[[ast.AST], Iterator[ast.AST]]] = {
    "drop a factor": _factors,
    "swap a comparison": _comparisons,
    "flip a sign": _signs,
    "off by one": _numbers,
    "skip a call": _calls,
}


def drawn(tree: Tree, where: list[str], seed: str) -> Iterator[Drawn]:
    """Faults without end until there are no more: an operator at random, then a place for it.

    Args:
        tree: The checkout.
        where: Files, relative to its root, and symbols.
        seed: What decides everything that is drawn.
    """
    left = {name: list(_places(tree, where, operator)) for name, operator in OPERATORS.items()}
    rng = random.Random(seed)
    while remaining := [name for name, places in left.items() if places]:
        name = rng.choice(remaining)
        file, text, node, planted = left[name].pop(rng.randrange(len(left[name])))
        passage = _passage(tree, file, text, node)
        if passage is None:
            continue
        symbol, piece = passage
        start, end = _offset(text, node, ""), _offset(text, node, "end_")
        new = "pass" if isinstance(planted, ast.Pass) else f"({ast.unparse(planted)})"
        changed = text[piece.start : start] + new + text[end : piece.stop]
        yield Drawn(name, file, node.lineno, tree.code.shortest(symbol), text[piece], changed)


def _places(
    tree: Tree, where: list[str], operator: Callable[[ast.AST], Iterator[ast.AST]]
) -> Iterator[tuple[str, str, ast.expr | ast.stmt, ast.AST]]:
    """(file, its text, node, what an operator puts in its place) within files and symbols."""
    for name in where:
        whole = (tree.root / name).is_file()
        file = name if whole else tree.code.find(name).file
        text = (tree.root / file).read_text(encoding="utf-8")
        last = len(lines_of(text))
        spans = ((1, last),) if whole else tree.code.find(name).spans
        for node in _nodes(ast.parse(text)):
            if any(a <= node.lineno and (node.end_lineno or a) <= b for a, b in spans):
                yield from ((file, text, node, planted) for planted in operator(node))


def _nodes(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """What decides something, in the order of the text."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in _FIELDS or not isinstance(child, ast.AST):
                continue
            if isinstance(child, _DECIDES_NOTHING):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _nodes(child)


def _passage(
    tree: Tree, file: str, text: str, node: ast.expr | ast.stmt
) -> tuple[Symbol, slice] | None:
    """The whole lines about a node that occur once in its symbol, as few as that takes."""
    first, last = node.lineno, node.end_lineno or node.lineno
    symbol = tree.code.around(file, first, last)
    low, high = next((a, b) for a, b in symbol.spans if a <= first and last <= b)
    lines = lines_of(text)
    while True:
        start = sum(map(len, lines[: first - 1]))
        piece = slice(start, start + sum(map(len, lines[first - 1 : last])))
        if symbol.count(text, text[piece]) == 1:
            return symbol, piece
        if first == low and last == high:
            return None
        first, last = (first - 1, last) if first > low else (first, last + 1)


def _offset(text: str, node: ast.expr | ast.stmt, end: str) -> int:
    """Where a node begins or ends in the text; the tree counts columns in bytes."""
    line = getattr(node, f"{end}lineno")
    column = getattr(node, f"{end}col_offset")
    lines = lines_of(text)
    before = lines[line - 1].encode()[:column].decode()
    return sum(map(len, lines[: line - 1])) + len(before)
