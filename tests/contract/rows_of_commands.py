"""Rows of the command line: `riemdp mean` and `riemdp pca`, in this process, on files."""

from __future__ import annotations

import contextlib
import io
import json
import threading

import numpy as np

from riemdp import Budget, InvalidArgument
from riemdp.cli import main

from . import data as d
from .entry import REFUSED, Entry, Refusal

UNUSABLE = 2
# A command says what an attack finds that sees all of a ledger: for two releases of 20 that takes a
# minute.
MODERATE = Budget(10.0, 1e-6)


class Exit(InvalidArgument):
    """The command ended with a code that is not 0."""

    def __init__(self, code, said):
        super().__init__(said)
        self.code = code


class NothingCharged(Exit):
    """Exit code 2: of an input or option that cannot be used."""


class Printed:
    """What a command printed with `--json`."""

    def __init__(self, said, name):
        self.report = json.loads(said)
        self.value = np.asarray(self.report[name])


def command(name, told, *fixed):
    """`riemdp NAME FILE ...`; an option of a refusal is written `{"--option": value}`."""

    def call(data, given, **options):
        file = d.saved(given.folder / "records.npy", data["X"])
        arguments = {
            "--epsilon": given.budget.epsilon,
            "--delta": given.budget.delta,
            "--ledger": given.folder / "ledger.json",
            "--out": given.folder / "released.json",
            "--seed": given.rng,
            **dict(zip(fixed[::2], fixed[1::2], strict=True)),
            **options,
        }
        if "groups" in data:
            people = d.saved(given.folder / "people.npy", data["groups"])
            arguments.setdefault("--groups", people)
        words = [name, str(arguments.pop("FILE", file)), "--json"]
        for option, value in arguments.items():
            if value is not None:
                words += [option] if value is True else [option, str(value)]
        return Printed(_printed(words), told)

    return call


class ByThread(io.TextIOBase):
    """A stream that keeps apart what each thread writes."""

    def __init__(self):
        self._own = threading.local()

    def begin(self):
        """Of this thread."""
        self._own.text = io.StringIO()
        return self._own.text

    def write(self, text):
        return self._own.text.write(text)


_out, _err = ByThread(), ByThread()
_streams = threading.Lock()  # the commands that run now share the two streams
_running = []


@contextlib.contextmanager
def captured():
    """What this thread prints; other threads may run commands at the same time."""
    with _streams:
        if not _running:
            _running.append(contextlib.ExitStack())
            _running[0].enter_context(contextlib.redirect_stdout(_out))
            _running[0].enter_context(contextlib.redirect_stderr(_err))
        _running.append(None)
    try:
        yield _out.begin(), _err.begin()
    finally:
        with _streams:
            _running.pop()
            if len(_running) == 1:
                _running.pop().close()


def _printed(words):
    with captured() as (out, err):
        try:
            main(words)
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    if code == UNUSABLE:
        raise NothingCharged(code, err.getvalue())
    if code:
        raise Exit(code, err.getvalue())
    return out.getvalue()


def refused(*pairs):
    """Calls that end with code 2."""
    return tuple(
        Refusal(options, NothingCharged, " ".join(f"{k} {v}" for k, v in options.items()))
        for options in pairs
    )


WRONG = refused(
    {"--epsilon": 0},
    {"--epsilon": "much"},
    {"--epsilon": None},
    {"--delta": 1},
    {"--delta": -1},
    {"FILE": "nothing.npy"},
    {"--ledger": "nothing.json"},
    {"--report": "report.txt"},
    {"--out": "mean.doc"},
    {"--seed": "x"},
    {"--header": True},
    {"--on-invalid": "keep"},
    {"--groups": "nothing.npy"},
    {"--unknown": 1},
)
OF_MEAN = refused(
    {"--radius": 0},
    {"--radius": "wide"},
    {"--metric": "none"},
    {"--space": "sphere"},
    {"--center": "nothing.npy"},
    {"--center": "diag:-1"},
    {"--radius": 1, "--outer-radius": 9},
)


def of_command(name, variant, claim, told, *fixed, make=None, refusals=WRONG, **facts):
    """A row of a command, which reads arrays from files."""
    call = command(name, told, *fixed)
    data = make or d.plain(d.matrices)
    facts = {"lists": False, "files": True, "seeded": False, "refusals": refusals} | facts
    facts |= {"budget": MODERATE, "again": {"--out": None}}  # no command writes over a file
    return Entry(f"riemdp.cli.main {name}", variant, claim, call, data, **facts)


CENTRED = ("--on-invalid", "center")
RADIUS = ("--radius", 1.0)
COMMANDS = (
    of_command(
        "mean",
        "radius",
        "mean in a public ball",
        "mean",
        *RADIUS,
        *CENTRED,
        refusals=(*WRONG, *OF_MEAN),
    ),
    of_command(
        "mean",
        "private ball",
        "private ball",
        "mean",
        *CENTRED,
        refusals=(
            *WRONG,
            *refused(
                {"--center": "identity"},
                {"--outer-radius": 0},
                {"--epsilon": 0.001},
            ),
        ),
    ),
    of_command(
        "mean",
        "people",
        "mean in a public ball",
        "mean",
        *RADIUS,
        *CENTRED,
        make=d.of_people(d.matrices),
    ),
    of_command("mean", "refusing", "mean in a public ball", "mean", *RADIUS, invalid=REFUSED),
    of_command(
        "pca",
        "",
        "PCA",
        "components",
        "--components",
        1,
        "--row-norm",
        1.0,
        *CENTRED,
        make=d.plain(d.rows),
        refusals=(
            *WRONG,
            *refused(
                {"--components": 0},
                {"--components": 4},
                {"--row-norm": 0},
                {"--row-norm": "long"},
            ),
        ),
    ),
    of_command(
        "pca",
        "refusing",
        "PCA",
        "components",
        "--components",
        1,
        "--row-norm",
        1.0,
        make=d.plain(d.rows),
        invalid=REFUSED,
    ),
)
