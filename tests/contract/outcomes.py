"""What a call did, in the parts that no record may decide: whether it returned, what it charged,
what it warned of. And records that try to decide it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from riemdp import Budget, Ledger

from . import data as d
from .entry import LEDGER, Data, Entry, Given, numbers

SEED = 1
VALUES = (4.4e307, 4.6e307, 1e308, float(np.finfo(np.float64).max), 1e-310, 5e-324)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        ended: "returns", or the kind of the error.
        charged: What the ledger holds afterwards, as text.
        warned: Kind and words of every warning, numbers in them left out, as they may be released.
        finite: Whether all released numbers are.
        said: The words of the error.
        result: What was returned.
    """

    ended: str
    charged: str
    warned: tuple[tuple[str, str], ...]
    finite: bool
    said: str = dataclasses.field(default="", compare=False)
    result: Any = dataclasses.field(default=None, compare=False)


@contextlib.contextmanager
def a_place(entry: Entry, **changed: Any) -> Iterator[Given]:
    """An empty folder with a ledger, in a file where the row works on files."""
    with tempfile.TemporaryDirectory(prefix="riemdp-contract-") as name:
        folder = Path(name)
        on_disk = changed.pop("on_disk", False) or entry.files
        path = folder / "ledger.json" if on_disk else None
        ledger = Ledger(changed.pop("whole", LEDGER), path=path)
        given: dict[str, Any] = {"budget": entry.budget, "rng": SEED, "ledger": ledger}
        yield Given(**given | changed, folder=folder)


def charged(ledger: Ledger) -> str:
    """What a ledger has been charged, and how often."""
    return json.dumps([ledger.charges, ledger.spent.to_dict()], sort_keys=True)


def outcome_of(
    entry: Entry, data: Data, *, strict: bool = False, cautions: bool = False
) -> Outcome:
    """Call the row, and look. With `strict` every warning and every overflow is an error of its
    own, and JAX looks for NaN; with `cautions` so is the one about a budget, which is so large
    that there is one.
    """
    changed = {"budget": Budget(40.0, entry.budget.delta)} if cautions else {}
    with a_place(entry, **changed) as given, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error" if strict else "always")
        if strict and not cautions:  # of the budget alone, which the sweeps choose large
            warnings.filterwarnings("ignore", "epsilon .* hardly protects anybody")
        if strict:
            warnings.filterwarnings("ignore", category=DeprecationWarning)  # of other packages
        result, said, ended = None, "", "returns"
        try:
            with strictly() if strict else contextlib.nullcontext():
                result = entry.call(data, given)
        except Exception as error:
            ended, said = type(error).__name__, str(error)
        known = {
            (w.category.__name__, re.sub(r"[0-9.]+(e[+-]?[0-9]+)?", "#", str(w.message)))
            for w in caught
        }
        finite = ended != "returns" or bool(np.all(np.isfinite(numbers(result))))
        spent = charged(given.ledger)
    return Outcome(ended, spent, tuple(sorted(known)), finite, said, result)


@contextlib.contextmanager
def strictly() -> Iterator[None]:
    """NumPy raises for every overflow, and JAX for every NaN."""
    with np.errstate(all="raise"), jax.debug_nans(True):
        yield


@functools.cache
def valid(entry: Entry, *, listed: bool = False) -> Data:
    """The row's valid data."""
    data = entry.make(SEED)
    return entry.as_list(data) if listed else data


@functools.cache
def expected(entry: Entry, *, listed: bool = False, strict: bool = False) -> Outcome:
    """What the row does with valid data: it releases."""
    if entry.files:  # what the first call of a command imports may warn of something
        outcome_of(entry, valid(entry, listed=listed), strict=strict)
    found = outcome_of(entry, valid(entry, listed=listed), strict=strict)
    assert found.ended == "returns", f"valid data: {found.ended}: {found.said}"
    assert found.finite
    assert json.loads(found.charged)[0] >= 1
    return found


def extremes(record: Any) -> list[tuple[str, Any]]:
    """Records of extreme numbers, each with its name: in all entries of a record, or in one."""
    found: list[tuple[str, Any]] = []
    sound = np.asarray(record, dtype=np.float64)
    for size in VALUES:
        one = sound.copy()
        one.flat[0] = -size
        found += [(f"{size:g} everywhere", np.full(sound.shape, size)), (f"{-size:g} first", one)]
    return found


def far(record: Any) -> list[tuple[str, Any]]:
    """Points of the space far from all others, and rows much longer than others: what a clamp, a
    clip or a cut has to bring back.
    """
    shape = np.shape(record)
    if shape[1:] == (1,):  # an axis
        return [(name, x[:, None]) for name, x in far(np.ravel(record))]
    if shape == d.SHAPES.shape:
        far_shape = d.shape_at([1.5, 0.0, 0.0, 0.0])
        return [("a far shape", far_shape), ("the cut locus", d.SHAPES.origin[::-1])]
    if len(shape) == 2:
        unit, turned = np.eye(*shape), np.array([[1.0, 0.9], [0.9, 1.0]])
        scales = [1e6, 1e-6, 1e150]
        found = [(f"{scale:g} times the identity", scale * unit) for scale in scales]
        return [*found, ("narrow", 10.0 * turned), ("long", np.diag([1e-3, 1e3]))]
    axes = np.eye(shape[0])
    return [
        ("an axis", axes[0]),
        ("another axis", axes[1]),
        ("the antipode", -np.asarray(record)),
        ("a long row", 1e6 * axes[1]),
        ("a very long row", -1e150 * axes[2]),
    ]


def not_points(record: Any) -> list[tuple[str, Any]]:
    """Arrays of numbers that are no points of a curved space."""
    sound = np.asarray(record, dtype=np.float64)
    one_nan, one_inf, lopsided = sound.copy(), sound.copy(), sound.copy()
    one_nan.flat[0], one_inf.flat[0], lopsided.flat[1] = np.nan, np.inf, lopsided.flat[1] + 0.7
    return [
        ("NaN everywhere", np.full(sound.shape, np.nan)),
        ("one NaN", one_nan),
        ("inf everywhere", np.full(sound.shape, np.inf)),
        ("-inf everywhere", np.full(sound.shape, -np.inf)),
        ("one inf", one_inf),
        ("zero", np.zeros(sound.shape)),
        ("the other sign", -sound),
        ("asymmetric, or of another length", lopsided),
    ]


def malformed(record: Any) -> list[tuple[str, Any]]:
    """What a list may hold in the place of a record."""
    sound = np.asarray(record, dtype=np.float64)
    masked = np.ma.masked_array(np.full(sound.shape, 1e3), mask=np.ones(sound.shape, dtype=bool))
    return [
        ("None", None),
        ("text", "record"),
        ("bytes", b"\x00"),
        ("a complex array", sound + 1j),
        ("a ragged list", [[1.0, [2.0]], None]),
        ("another shape", np.zeros((7, 7))),
        ("a number", 1.0),
        ("an empty list", []),
        ("a dict", {}),
        ("a truth value", True),
        ("an object", object()),
        ("a huge integer", 10**400),
        ("text in an array", np.full(sound.shape, "x")),
        ("objects in an array", np.full(sound.shape, None)),
        ("a masked record", masked),
        ("dates", np.zeros(sound.shape, dtype="datetime64[s]")),
    ]
