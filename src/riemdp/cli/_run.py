"""What every command shares: messages instead of tracebacks, exit codes, and the one order in which
a release is made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .._errors import BudgetExceeded, DataUnavailable, RiemdpError, RiemdpWarning
from .._files import staged
from . import _exits
from ._exits import CommandError, InputProblem, OutputProblem
from ._interrupts import Interrupts, current, heard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    from ..manifolds import AbstractManifold
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult
    from ..privacy import Ledger
    from ..report import PrivacyReport

P = ParamSpec("P")
Result = TypeVar("Result", bound="Release | OptimizationResult")
VALUE_ENDINGS = (".npy", ".npz", ".csv", ".json")


def console(error: bool = False) -> Any:
    """A rich console on standard output, or on standard error."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, soft_wrap=error)


def say_error(problem: str, remedy: str = "") -> None:
    """One message on standard error: what is wrong, and what to do."""
    from rich.text import Text

    out = console(error=True)
    out.print(Text.assemble(("error: ", "bold red"), problem))
    if remedy:
        out.print(Text.assemble(("  what to do: ", "bold"), remedy))


def say_warning(sentence: str) -> None:
    """One warning on standard error."""
    from rich.text import Text

    console(error=True).print(Text.assemble(("warning: ", "bold yellow"), sentence))


def refuse_invalid(manifold: AbstractManifold, records: np.ndarray, file: Path) -> None:
    """Refuse records that are not points of the space, naming the first few and why."""
    from ..domains._check import check_records, summary

    found = check_records(manifold, records)
    if found:
        raise InputProblem(
            f"{file}: {summary(found)} of {manifold!r}",
            "correct them; or give --on-invalid center to count each as the public centre (zero for"
            " pca). This message depends on the records: show it to nobody else",
        )


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn what a user can put right into a message and an exit code; a fault of ours keeps its
    traceback.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        import typer

        interrupts = None
        try:
            with heard() as interrupts, interrupts.translated(), _short_warnings():
                function(*args, **kwargs)
                if interrupts.seen:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert interrupts is not None
            say_error(_interrupted(interrupts))
            raise typer.Exit(_exits.INTERRUPTED) from None
        except CommandError as error:
            say_error(error.problem, error.remedy)
            raise typer.Exit(error.code) from None
        except BudgetExceeded as error:
            say_error(str(error), "give a smaller epsilon, or agree on a larger total budget")
            raise typer.Exit(_exits.BUDGET) from None
        except (DataUnavailable, RiemdpError, NotImplementedError) as error:
            say_error(str(error))
            raise typer.Exit(_exits.USAGE) from None
        except BrokenPipeError:
            sys.stderr.close()  # the reader went away; Python would complain once more at exit
            raise typer.Exit(_exits.OUTPUT) from None
        except OSError as error:
            say_error(
                f"{error.strerror or error}: {error.filename or ''}".rstrip(": "),
                "check the name, the folder and its permissions"
                + (
                    ". The ledger is charged: noise had been drawn. No value was shown"
                    if interrupts is not None and interrupts.charged and not interrupts.placed
                    else ""
                ),
            )
            raise typer.Exit(_exits.OUTPUT) from None
        except MemoryError:
            say_error(
                "the machine has too little memory for this input",
                "use fewer records, or a larger machine",
            )
            raise typer.Exit(_exits.USAGE) from None

    return wrapped


def _interrupted(interrupts: Interrupts) -> str:
    if interrupts.placed:
        return (
            "interrupted after the release was paid for, so it was finished: the ledger is charged"
            " and the files are written"
            if interrupts.charged
            else "interrupted; the files had been written"
        )
    if interrupts.charged:
        return (
            "interrupted twice; the ledger is charged and no file was written. The release is lost"
        )
    return "interrupted; no file was written and nothing was charged"


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        say_warning(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("always", RiemdpWarning)
        warnings.showwarning = show
        yield


@dataclasses.dataclass
class Outputs:
    """Where the result goes. `check` refuses bad names before anything is computed."""

    out: Path | None
    report: Path | None
    as_json: bool
    key: str

    def check(self) -> None:
        """Refuse names that cannot be written, before anything is computed."""
        for option, path in (("--out", self.out), ("--report", self.report)):
            if path is not None and path.is_dir():
                raise InputProblem(f"{option} {path} is a folder", "name a file in it")
        if self.out is not None and self.out.suffix.lower() not in VALUE_ENDINGS:
            raise InputProblem(
                f"--out {self.out} has an ending that is not known",
                f"use one of {', '.join(VALUE_ENDINGS)}",
            )
        if self.report is not None and self.report.suffix.lower() not in {".html", ".htm"}:
            raise InputProblem(
                f"--report {self.report} does not end in .html", "give a name like report.html"
            )
        targets = [t.resolve() for t in self._targets()]
        if len(set(targets)) != len(targets):
            raise InputProblem(
                "--out and --report would write the same file", "give different names"
            )

    def _targets(self) -> list[Path]:
        targets = [] if self.out is None else [self.out]
        return (
            targets
            if self.report is None
            else [*targets, self.report, self.report.with_suffix(".json")]
        )

    @contextlib.contextmanager
    def reserved(self) -> Iterator[list[Path]]:
        """Make the temporary files now: an unwritable folder is found before anything is spent."""

        with contextlib.ExitStack() as stack:
            for folder in {t.parent for t in self._targets()}:
                if not folder.is_dir():
                    raise OutputProblem(
                        f"the output cannot be written: there is no folder {folder}",
                        "make the folder first; nothing was computed or spent",
                    )
            try:
                parts = stack.enter_context(staged(*self._targets()))
            except OSError as error:
                where = f" ({error.filename})" if error.filename else ""
                raise OutputProblem(
                    f"the output cannot be written: {error.strerror or error}{where}",
                    "check the folder and its permissions; nothing was computed or spent",
                ) from error
            yield list(parts)


def released(
    outputs: Outputs,
    ledger_path: Path | None,
    work: Callable[[Ledger | None], Result],
    describe: Callable[[Result, str | None, Ledger | None], tuple[PrivacyReport, dict[str, Any]]],
    what: str,
) -> tuple[Result, PrivacyReport, dict[str, Any]]:
    """Make one release in the only safe order and write its files.

    1. The output files are reserved and the ledger is read. 2. `work(ledger)` checks, computes,
    charges the ledger **on the disk** and only then draws the noise. 3. Everything to be shown is
    made in memory. 4. The files are written under temporary names and put in place together.

    A failure before the charge leaves the ledger as it was. A failure after it costs budget and
    shows nothing.

    Args:
        outputs: where the value and the report go.
        ledger_path: the ledger file, if any.
        work: makes the release and charges the ledger that it is given.
        describe: from the release, the checksum of its file and the ledger to the privacy report
            and the content of --json.
        what: what is released, in words, for the ledger's register.

    Returns:
        The release, its report and the content of --json.
    """
    from ..privacy import described

    outputs.check()
    interrupts = current()
    with contextlib.ExitStack() as last, outputs.reserved() as parts:
        ledger = None if ledger_path is None else _opened(ledger_path)
        with described(what):
            result = work(ledger)
        interrupts.check()
        content = checksum = None
        if outputs.out is not None:
            content = serialised(outputs.out.suffix.lower(), outputs.key, result.value)
            checksum = hashlib.sha256(content).hexdigest()
        report, machine = describe(result, checksum, ledger)
        pages = None if outputs.report is None else (report.html(), report.to_json())
        last.enter_context(interrupts.held())
        if content is not None:
            parts[0].write_bytes(content)
        if pages is not None:
            for part, text in zip(parts[-2:], pages, strict=True):
                part.write_text(text, encoding="utf-8")
        last.push(interrupts.finished)
    if ledger is not None and outputs.out is not None and checksum is not None:
        try:
            ledger.note_file(str(outputs.out), checksum)
        except OSError:
            say_warning("the ledger is charged, but its register does not name the released file")
    return result, report, machine


def _opened(path: Path) -> Ledger:
    from ._ledger_file import opened

    return opened(path)


def serialised(ending: str, key: str, value: ArrayLike) -> bytes:
    """The released value as the bytes of a file of this kind."""
    import numpy as np

    array = np.asarray(value)
    if ending == ".json":
        return (json.dumps({key: array.tolist()}) + "\n").encode()
    if ending == ".csv":
        rows = array.reshape(1, -1) if array.ndim < 2 else array
        return ("\n".join(",".join(repr(float(x)) for x in row) for row in rows) + "\n").encode()
    stream = io.BytesIO()
    if ending == ".npy":
        np.save(stream, array, allow_pickle=False)
    else:
        np.savez(stream, allow_pickle=False, **{key: array})
    return stream.getvalue()


def print_json(content: dict[str, Any]) -> None:
    """Machine-readable result on standard output, and nothing else there."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()
