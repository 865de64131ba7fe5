"""Flower's messages: public facts, and the arrays of a point or of words beside them. A malformed
one becomes None, never an exception.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from ..._trees import leaves, map_leaves

HELLO = "query.hello"
TRAIN = "train"
ASKED = ("kind", "share", "limit", "unit", "factor")  # the numbers of a question of a search


def pack(arrays: Any = None, /, **facts: int | float | str | list[str]) -> RecordDict:
    """Public facts and, if given, the arrays of a point (a tuple on a Product), or words."""
    content = RecordDict({"facts": ConfigRecord(dict(facts))})
    if arrays is not None:
        content["arrays"] = ArrayRecord([np.asarray(leaf) for leaf in leaves(arrays)])
    return content


def unpack(content: Any, like: Any) -> Any:
    """The arrays in a message, with the structure of `like`; None if there are none. Their types,
    shapes and values are checked elsewhere.
    """
    try:
        arrays = [np.array(a) for a in content["arrays"].to_numpy_ndarrays()]
        following = iter(arrays)
        found = map_leaves(lambda _: next(following), like)
        return found if len(leaves(found)) == len(arrays) else None
    except Exception:  # whatever a stranger's bytes do when they are parsed
        return None


def fact(content: Any, name: str) -> Any:
    """One public fact of a message, or None."""
    try:
        return content["facts"][name]
    except Exception:  # as above
        return None
