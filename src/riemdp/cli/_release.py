"""How a command makes a release: the outputs, and the one order of steps."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._files import staged
from ..domains._check import check_records, summary
from ..manifolds import AbstractManifold
from ..privacy import Ledger
from ..privacy._ledger_state import is_ledger
from ._exits import InputProblem, OutputProblem
from ._interrupts import current
from ._ledger_file import opened

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult
    from ..report import PrivacyReport

Result = TypeVar("Result", bound="Release | OptimizationResult")
VALUE_ENDINGS = (".npy", ".npz", ".csv", ".json")


def refuse_invalid(manifold: AbstractManifold, records: np.ndarray, file: Path) -> None:
    """Refuse records that are not points of the space, naming the first few and why."""
    found = check_records(manifold, records)
    if found:
        raise InputProblem(
            f"{file}: {summary(found)} of {manifold!r}",
            "correct them; or give --on-invalid center to count each as the public centre (zero for"
            " pca). This message depends on the records: show it to nobody else",
        )


def pages_of(option: str, report: Path) -> list[tuple[str, Path]]:
    """The two files of a report, each with the words of the option that names it."""
    beside = report.with_suffix(".json")
    return [(option, report), (f"{option} {report} writes {beside.name} beside it, and", beside)]


def refuse_taken(*targets: tuple[str, Path]) -> None:
    """Refuse names of files that exist. What was released is paid for and cannot be had again."""
    for option, path in targets:
        if path.exists():
            raise InputProblem(
                f"{option} {path} exists already",
                "give another name; or give --force, and it is replaced (a released value that is"
                " lost can only be paid for once more)",
            )


@dataclasses.dataclass
class Outputs:
    """Where the result goes. `check` refuses bad names before anything is computed."""

    out: Path | None
    report: Path | None
    as_json: bool
    key: str
    force: bool = False  # whether files that exist are replaced
    beside: Callable[[Any], dict[str, Any]] | None = None  # what npz and json hold beside the value
    names: tuple[str, ...] | None = None  # of the value's last axis, from the columns of a table

    def check(self, *inputs: str | Path | None) -> None:
        """Refuse names that cannot be written, that are among the files that are read, or that are
        taken, before anything is computed.
        """
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
        for given in inputs:
            if given is not None and Path(given).resolve() in targets:
                raise InputProblem(
                    f"{given} is read by this command and would be overwritten",
                    "give --out and --report other names (the report writes a .json beside it)",
                )
        if len(set(targets)) != len(targets):
            raise InputProblem(
                "--out and --report would write the same file", "give different names"
            )
        for target in targets:
            if is_ledger(target):
                raise InputProblem(
                    f"{target} is a ledger and would be overwritten", "give another name"
                )
        if not self.force:
            refuse_taken(*(() if self.out is None else (("--out", self.out),)), *self._pages())

    def _pages(self) -> list[tuple[str, Path]]:
        return [] if self.report is None else pages_of("--report", self.report)

    def _targets(self) -> list[Path]:
        return [*([] if self.out is None else [self.out]), *(path for _, path in self._pages())]

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
        what: what is released, in words, for the line of the ledger.

    Returns:
        The release, its report and the content of --json.
    """
    outputs.check(ledger_path)
    interrupts = current()
    with contextlib.ExitStack() as last, outputs.reserved() as parts:
        ledger = None if ledger_path is None else opened(ledger_path, what)
        result = work(ledger)
        interrupts.check()
        content = checksum = None
        if outputs.out is not None:
            ending = outputs.out.suffix.lower()
            beside = {} if outputs.beside is None else outputs.beside(result)
            content = serialised(ending, outputs.key, result.value, outputs.names, beside)
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
    return result, report, machine


def serialised(
    ending: str,
    key: str,
    value: ArrayLike,
    names: tuple[str, ...] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> bytes:
    """The released value as the bytes of a file of this kind, with the names of its last axis (not
    in npy, which has no place for them) and, in npz and json, what was released beside it.
    """
    array, more = np.asarray(value), dict(beside or {})
    if ending == ".json":
        told = {} if names is None else {"names": list(names)}
        return (json.dumps({key: array.tolist()} | told | more) + "\n").encode()
    if ending == ".csv":
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        if names is not None:
            writer.writerow(names)
        rows = array.reshape(1, -1) if array.ndim < 2 else array
        writer.writerows([repr(float(x)) for x in row] for row in rows)
        return lines.getvalue().encode()
    stream = io.BytesIO()
    if ending == ".npy":
        np.save(stream, array, allow_pickle=False)
    else:
        told = {} if names is None else {"names": np.array(names)}
        np.savez(stream, allow_pickle=False, **{key: array}, **told, **_arrays(more))
    return stream.getvalue()


def _arrays(facts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Facts for JSON as arrays of an npz file, in which facts about one thing begin with its name.
    Those that are not known are left out.
    """
    found: dict[str, np.ndarray] = {}
    for name, fact in facts.items():
        if isinstance(fact, Mapping):
            found |= {f"{name}_{k}": array for k, array in _arrays(fact).items()}
        elif isinstance(fact, list) and fact and isinstance(fact[0], Mapping):
            found |= _arrays({f"{name}_{i}": one for i, one in enumerate(fact)})
        elif fact is not None and fact != []:
            found[name] = np.asarray(fact)
    return found
