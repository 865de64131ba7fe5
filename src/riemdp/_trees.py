"""Points, records and sums as they may be nested: an array, or a tuple of such, one a factor."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ._namespace import namespace

Tree = Any  # an array, or a tuple of trees


def leaves(tree: Tree) -> list[Any]:
    """The arrays of a tree, in order."""
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def map_leaves(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """f of each array, with those in its place in other trees of the same form."""
    if isinstance(tree, tuple | list):
        parts = [map_leaves(f, *nested) for nested in zip(tree, *others, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return f(tree, *others)


def all_finite(tree: Tree, batch: int = 0) -> Any:
    """Whether all numbers are finite: a flag for each entry of so many leading axes."""
    flags = [
        namespace(leaf).all(namespace(leaf).isfinite(leaf), axis=tuple(range(batch, leaf.ndim)))
        for leaf in leaves(tree)
    ]
    return functools.reduce(operator.and_, flags)
