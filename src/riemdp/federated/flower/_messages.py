"""Points as Flower records and back, float64 throughout; a malformed record becomes None, never an
exception.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

from typing import Any

import jax
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from ...manifolds._base import Point

HELLO = "query.hello"
TRAIN = "train"
ASKED = ("kind", "share", "limit", "unit", "factor")  # the numbers of a question of a search


def pack(point: Point, **facts: int | float | str | list[str]) -> RecordDict:
    """A point (a tuple on a Product) with public facts."""
    leaves = [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(point)]
    return RecordDict({"point": ArrayRecord(leaves), "facts": ConfigRecord(dict(facts))})


def unpack(content: Any, like: Point) -> Any:
    """The point in a message, with the structure of `like`; None if there is none. Shapes and
    values are checked elsewhere.
    """
    try:
        leaves = [np.array(a) for a in content["point"].to_numpy_ndarrays()]
        structure = jax.tree.structure(like)
        return (
            jax.tree.unflatten(structure, leaves) if len(leaves) == structure.num_leaves else None
        )
    except Exception:  # whatever a stranger's bytes do when they are parsed
        return None


def pack_words(words: Any, **facts: int | float | str) -> RecordDict:
    """Masked words with public facts, such as the sender's next public key."""
    return RecordDict({"words": ArrayRecord([words]), "facts": ConfigRecord(dict(facts))})


def unpack_words(content: Any) -> Any:
    """The masked words in a message, None if there are none; checked elsewhere."""
    try:
        (words,) = content["words"].to_numpy_ndarrays()
        return np.array(words)
    except Exception:  # whatever a stranger's bytes do when they are parsed
        return None


def question(**facts: str) -> RecordDict:
    """HELLO, with public facts such as the fingerprint of the server's settings."""
    return RecordDict({"facts": ConfigRecord(dict(facts))})


def fact(content: Any, name: str) -> Any:
    """One public fact of a message, or None."""
    try:
        return content["facts"][name]
    except Exception:  # as above
        return None


def declined(words: str) -> RecordDict:
    """The answer of a site that declines, in one line."""
    return RecordDict({"facts": ConfigRecord({"declined": words})})


def hello(name: str, records: int, sigma: float | None, key: str = "") -> RecordDict:
    """An agent's answer to HELLO: its name, its public number of records, the noise that it will
    add (0: none), and its public key of the next round, where noise is shared.
    """
    facts: dict[str, Any] = {"name": name, "records": int(records), "sigma": float(sigma or 0.0)}
    return RecordDict({"facts": ConfigRecord(facts | ({"key": key} if key else {}))})
