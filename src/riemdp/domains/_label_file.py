"""Labels of people from a file: whose each record is."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import InvalidArgument

ONE_EACH = "write one label for each record, in the order of the records"
_TEXTS = {".csv", ".tsv", ".txt"}


class Unreadable(InvalidArgument):
    """A file that is no list of labels.

    Attributes:
        what: What is wrong with it.
        remedy: What to do.
    """

    def __init__(self, what: str, remedy: str = ONE_EACH):
        super().__init__(f"{what}; {remedy}")
        self.what, self.remedy = what, remedy


def read_labels(path: Path, rows: int, *, named: str, column: str | None = None) -> list[Any]:
    """The labels in a file. Whether they can be used, `admit_people` says.

    Args:
        path: An npy or npz file of one axis, or a text file with one label per line.
        rows: The number of records.
        named: Where the file was named, for messages.
        column: The column of a text file with several, by the name in its first line.

    Raises:
        Unreadable: The file is no list of labels.
    """
    if not path.is_file():
        raise Unreadable(f"{named} is no file")
    suffix = path.suffix.lower()
    if column is not None:
        if suffix not in _TEXTS:
            raise Unreadable(f"{named} has no columns with names", "give a csv, tsv or txt file")
        return _column(_lines(path, suffix, named), column, named)
    if suffix in _TEXTS:
        lines = _lines(path, suffix, named)
        if any(len(line) > 1 for line in lines):
            raise Unreadable(f"{named} has lines with several columns")
        labels = [line[0] if line else "" for line in lines]
        if len(labels) == rows + 1 and _is_name(labels[0], labels[1:]):
            labels = labels[1:]
        return labels
    if suffix in {".npy", ".npz"}:
        return _array(path, suffix, named)
    raise Unreadable(
        f"{named} has an ending that is not known",
        "give an npy or npz file, or a text file (csv, tsv, txt) with one label a line",
    )


def _is_name(first: str, labels: list[Any]) -> bool:
    """Whether the first line names the column: it is no number, and no label. If a label were taken
    for a name, every person would get a record of another one.
    """
    try:
        float(first)
    except ValueError:
        return first not in labels
    return False


def _lines(path: Path, suffix: str, named: str) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{named} is no text in UTF-8") from error
    lines = list(csv.reader(text.split("\n"), delimiter="\t" if suffix == ".tsv" else ","))
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()
    return lines


def _column(lines: list[list[str]], name: str, named: str) -> list[str]:
    head = [cell.strip() for cell in lines[0]] if lines else []
    if head.count(name) != 1:
        raise Unreadable(
            f"the first line of {named} does not name one column {name!r}",
            "the first line has to name the columns, each by a name of its own",
        )
    if any(len(line) != len(head) for line in lines):
        raise Unreadable(f"{named} has lines with another number of columns than its first line")
    return [line[head.index(name)] for line in lines[1:]]


def _array(path: Path, suffix: str, named: str) -> list[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if suffix == ".npz":
            if len(loaded.files) != 1:
                raise Unreadable(f"{named} does not hold exactly one array")
            loaded = loaded[loaded.files[0]]
    except Unreadable:
        raise
    except (ValueError, OSError, EOFError) as error:
        raise Unreadable(f"{named} cannot be read as NumPy's own format") from error
    if loaded.ndim != 1:
        raise Unreadable(f"{named} has {loaded.ndim} axes")
    return loaded.tolist()
