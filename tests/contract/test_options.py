"""No option is ignored: what no option can be is refused, by the option's name, whatever else the
call is about; and what the option can be either is refused or makes a difference.
"""

from __future__ import annotations

import inspect
import re

import pytest
import typer

import riemdp
from riemdp import InvalidArgument
from riemdp.federated import Refused
from tests.seam import Commands

from .entries import RUNNING
from .entry import numbers
from .outcomes import a_place, charged, expected, valid
from .rows_of_commands import NothingCharged


class Nothing:
    """What no option is."""


NONSENSE = {"an object": Nothing(), "a text": "nonsense", "a number": -7}
# What is taken all the same, with the reason.
TAKEN = {
    ("--record-is", "a text"): "words for the report",
}
IGNORED = {"y"}  # by estimators without classes, as scikit-learn wants


def parameters(entry):
    """The names of the options of a row: parameters with a default, of its class and of `fit`."""
    owner: object = riemdp
    thing: object = riemdp
    for part in entry.name.split(".")[1:]:
        owner, thing = thing, getattr(thing, part)
    asked = [owner] if inspect.isclass(owner) else [thing]
    if inspect.isclass(thing):
        asked.append(thing.fit)  # pyright: ignore[reportAttributeAccessIssue]
    found = [p for one in asked for p in inspect.signature(one).parameters.values()]
    without_classes = not hasattr(thing, "predict")
    leave = {entry.records} | (IGNORED if without_classes else set())
    return [p.name for p in found if p.default is not p.empty and p.name not in leave]


CALLED = [entry for entry in RUNNING if not entry.name.startswith("riemdp.cli")]


@pytest.mark.parametrize("entry", CALLED, ids=lambda e: e.id)
def test_what_no_option_can_be_is_refused_by_name(entry):
    wrong = []
    for name in parameters(entry):
        for kind, value in NONSENSE.items():
            if (name, kind) in TAKEN:
                continue
            found = answers(entry, name, value, rf"\b{name}\b")
            wrong += [f"{name} = {kind}: {each}" for each in found]
    assert not wrong, "\n".join(wrong)


def answers(entry, name, value, naming):
    """What is wrong with the answer to an option that cannot be this: it has to be a refusal whose
    words name the option (the pattern `naming`), and that costs nothing.
    """
    found = []
    with a_place(entry) as given:
        try:
            entry.call(valid(entry), given, **{name: value})
            found.append("taken")
        except Refused:
            pass  # the answer to a server, which says what the site does not do
        except (InvalidArgument, NothingCharged) as error:
            if not re.search(naming, str(error)):
                found.append(str(error))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        if not charged(given.ledger).startswith("[0,"):
            found.append("charged")
    return found


# What these options can be, somewhere.
KNOWN = {
    "row_norm": 0.5,
    "calibration": "classical",
    "shrink": True,
    "count_outside": False,
    "n_min": 10,
    "noise_std": 0.3,
    "variance": 0.3,
    "tolerated": 1,
    "strong_convexity": 0.5,
    "mean_share": 0.45,
    "n_components": 2,
    "project": False,
}
HARMLESS = {
    ("riemdp.mechanisms.ExtrinsicLaplace.release", "project"): "a draw that is positive definite",
    ("riemdp.mechanisms.ExtrinsicGaussian.release", "project"): "a draw that is positive definite",
}
PAIRS = [(entry, name) for entry in CALLED for name in parameters(entry) if name in KNOWN]


@pytest.mark.parametrize(("entry", "name"), PAIRS, ids=[f"{e.id} | {n}" for e, n in PAIRS])
def test_a_known_option_makes_a_difference_or_is_refused(entry, name):
    """It changes a released number, the guarantee, or what is said of the release."""
    with a_place(entry) as given:
        found, refused = _called(entry, given, name)
        if refused:
            assert re.search(rf"\b{name}\b", refused), refused
            assert charged(given.ledger).startswith("[0,")
            return
        one = told(found), charged(given.ledger)
    if (entry.name, name) in HARMLESS or (entry.id, name) in HARMLESS:
        return
    if name == "count_outside" and "OutsideCount" not in one[0][2]:
        return  # there is none, as was asked for
    wanted = expected(entry)
    assert one != (told(wanted.result), wanted.charged)


def _called(entry, given, name):
    """What came of it: a result, or the words of a refusal."""
    try:
        return entry.call(valid(entry), given, **{name: KNOWN[name]}), ""
    except InvalidArgument as error:
        return None, str(error)


def told(result):
    """All that a result says, in words."""
    facts = getattr(getattr(result, "model", result), "__dict__", {})
    kept = {k: v for k, v in facts.items() if k.endswith("_") or k in ("details", "sigma")}
    return repr(numbers(result).tolist()), str(getattr(result, "guarantee", "")), repr(kept)


def options_of(entry):
    """The options of a command that take a value."""

    whole = typer.main.get_command(Commands.app)
    command = whole.commands[entry.name.split()[1]]  # pyright: ignore[reportAttributeAccessIssue]
    found = [p for p in command.params if p.param_type_name == "option" and not p.is_flag]
    return [p.opts[0] for p in found]


@pytest.mark.parametrize(
    "entry", [e for e in RUNNING if e.name.startswith("riemdp.cli")], ids=lambda e: e.id
)
def test_what_no_option_of_a_command_can_be_is_refused(entry, monkeypatch, tmp_path):
    wrong = []
    monkeypatch.chdir(tmp_path)
    for name in options_of(entry):
        if (name, "a text") in TAKEN:
            continue
        found = answers(entry, name, "nonsense", f"{re.escape(name)}|nonsense")
        wrong += [f"{name}: {each}" for each in found]
    assert not wrong, "\n".join(wrong)
