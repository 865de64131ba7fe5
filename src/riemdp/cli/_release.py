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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._files import staged
from ..domains._check import check_records, summary
from ..domains._label_file import Unreadable, read_labels
from ..manifolds import AbstractManifold
from ..privacy import Ledger
from ..privacy._book import is_ledger
from ..report import privacy_report
from ._interrupts import current
from ._ledger_file import opened
from ._run import InputProblem, OutputProblem, print_json
from ._show import show_release

if TYPE_CHECKING:
    from ..mechanisms import Release

VALUE_ENDINGS = (".npy", ".npz", ".csv", ".json")


def refuse_invalid(manifold: AbstractManifold, records: np.ndarray, file: Path) -> None:
    """Refuse records that are not points of the space, naming the first few and why."""
    found = check_records(manifold, records)
    if found:
        raise InputProblem(
            f"{file}: {summary(found)} of {manifold!r}",
            "correct them (--header says that the first line of a table names the columns); or give"
            " --on-invalid center to count each as the public centre (zero for pca). This message"
            " depends on the records: show it to nobody else",
        )


def labels_of(file: Path | None, rows: int) -> list[Any] | None:
    """The labels of --groups, one for each record; None where it was not given."""
    if file is None:
        return None
    try:
        return read_labels(file, rows, named=f"--groups {file}")
    except Unreadable as error:
        raise InputProblem(error.what, error.remedy) from error


def refuse_taken(*targets: Path) -> None:
    """Refuse names of files that exist. What was released is paid for and cannot be had again."""
    for path in targets:
        if path.exists():
            raise InputProblem(
                f"{path} exists already",
                "give another name, or remove it first (a released value that is lost can only be"
                " paid for once more)",
            )


@dataclasses.dataclass
class Outputs:
    """Where the result goes. `check` refuses bad names before anything is computed.

    Attributes:
        key: The name of the value.
        out: The file of the value.
        report: The page of the report; its JSON is next to it.
        ledger: The file of the ledger.
        as_json: Whether JSON is printed, and nothing else.
        names: Of the value's last axis, from the columns of a table.
    """

    key: str
    out: Path | None
    report: Path | None
    ledger: Path | None
    as_json: bool
    names: tuple[str, ...] | None = None

    def check(self, *inputs: str | Path | None) -> None:
        """Refuse names that cannot be written, that are among the files that are read, or that are
        taken.
        """
        if self.out is not None and self.out.suffix.lower() not in VALUE_ENDINGS:
            raise InputProblem(
                f"--out {self.out} has an ending that is not known",
                f"use one of {', '.join(VALUE_ENDINGS)}",
            )
        if self.report is not None and self.report.suffix.lower() not in {".html", ".htm"}:
            raise InputProblem(
                f"--report {self.report} does not end in .html", "give a name like report.html"
            )
        targets = self.targets
        names = [t.resolve() for t in targets]
        for given in (self.ledger, *inputs):
            if given is not None and Path(given).resolve() in names:
                raise InputProblem(
                    f"{given} is read by this command and would be overwritten",
                    "give --out and --report other names (the report writes a .json next to it)",
                )
        if len(set(names)) != len(names):
            raise InputProblem(
                "--out and --report would write the same file", "give different names"
            )
        for target in targets:
            if is_ledger(target):
                raise InputProblem(
                    f"{target} is a ledger and would be overwritten", "give another name"
                )
        refuse_taken(*targets)

    @property
    def targets(self) -> list[Path]:
        """The files that are written."""
        pages = [] if self.report is None else [self.report, self.report.with_suffix(".json")]
        return [*([] if self.out is None else [self.out]), *pages]

    @contextlib.contextmanager
    def reserved(self) -> Iterator[list[Path]]:
        """Make the temporary files now: an unwritable folder is found before anything is spent."""
        with contextlib.ExitStack() as stack:
            try:
                parts = stack.enter_context(staged(*self.targets))
            except OSError as error:
                where = f" ({error.filename})" if error.filename else ""
                raise OutputProblem(
                    f"the output cannot be written: {error.strerror or error}{where}",
                    "check the folder and its permissions; nothing was computed or spent",
                ) from error
            yield list(parts)


def released(
    outputs: Outputs,
    what: str,
    work: Callable[[Ledger | None], Release],
    beside: Callable[[Any], dict[str, Any]] = lambda _: {},
) -> None:
    """Make one release in the only safe order, write its files and show it.

    1. The output files are reserved and the ledger is read. 2. `work(ledger)` checks, computes,
    charges the ledger **on the disk** and only then draws the noise. 3. Everything to be shown is
    made in memory. 4. The files are written under temporary names and put in place together.

    A failure before the charge leaves the ledger as it was. A failure after it costs budget and
    shows nothing.

    Args:
        outputs: Where the value and the report go.
        what: What is released, in words, for the line of the ledger.
        work: Makes the release and charges the ledger that it is given.
        beside: What npz, JSON and `--json` hold in addition to the value.
    """
    interrupts = current()
    content = checksum = None
    with outputs.reserved() as parts, contextlib.ExitStack() as last:
        ledger = None if outputs.ledger is None else opened(outputs.ledger, what)
        result = work(ledger)
        interrupts.check()
        more = beside(result)
        if outputs.out is not None:
            ending = outputs.out.suffix.lower()
            content = serialised(ending, outputs.key, result.value, outputs.names, more)
            checksum = hashlib.sha256(content).hexdigest()
        report = privacy_report(result, ledger=ledger, checksum=checksum)
        pages = () if outputs.report is None else (report.html(), report.to_json())
        last.enter_context(interrupts.whole())
        if content is not None:
            parts[0].write_bytes(content)
        for part, text in zip(parts[len(parts) - len(pages) :], pages, strict=True):
            part.write_text(text, encoding="utf-8")
    interrupts.placed = True
    if outputs.as_json:
        named = {} if outputs.names is None else {"names": list(outputs.names)}
        files = [str(path) for path in (outputs.out, outputs.report) if path is not None]
        value = {outputs.key: np.asarray(result.value).tolist()}
        print_json(value | more | named | {"report": report.to_dict(), "files": files})
    else:
        files = {"value": outputs.out, "report": outputs.report}
        show_release(result, report, files, outputs.names)


def serialised(
    ending: str,
    key: str,
    value: ArrayLike,
    names: tuple[str, ...] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> bytes:
    """The released value as the bytes of a file of this kind, with the names of its last axis (not
    in npy, which has no place for them) and, in npz and json, what was released with it.
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
        elif fact is not None:
            found[name] = np.asarray(fact)
    return found
