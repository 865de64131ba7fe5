"""Writes `src/riemdp/__init__.pyi` from the table of public names in `src/riemdp/__init__.py`.

Run it as `python tools/public_names.py` after a change of the table; a test compares the two.
"""

from __future__ import annotations

import ast
from pathlib import Path

import riemdp

STUB = Path(riemdp.__file__).with_suffix(".pyi")


def errors() -> list[str]:
    """The names that the package imports from `_errors` and exports."""
    tree = ast.parse(Path(riemdp.__file__).read_text(encoding="utf-8"))
    return [
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "_errors"
        for alias in node.names
        if alias.name in riemdp.__all__
    ]


def order(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions, each without regard to case: the order of sorted imports."""
    return not name.isupper(), not name[0].isupper(), name.lower()


def stub() -> str:
    parts = ["# Written by tools/public_names.py: what `import riemdp` offers to type checkers.\n"]
    parts += [f"from . import {package} as {package}\n" for package in sorted(riemdp._PACKAGES)]
    homes = {"_errors": errors(), **riemdp._PACKAGES}
    for package in sorted(homes):
        names = sorted(homes[package], key=order)
        parts += [f"from .{package} import {n} as {n}\n" for n in names]
    return "".join(parts) + "\n__version__: str\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    print(f"wrote {STUB}")
