"""Read the labels of people from a file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ..domains._labels import admit_people
from ._exits import InputProblem

_TEXTS = {".csv", ".tsv", ".txt"}
_ONE = "write one label for each record, in the order of the records"


def given_groups(file: Path | None, column: str | None) -> bool:
    """Whether people are told apart, by --groups or --groups-column; both are refused."""
    if file is not None and column is not None:
        raise InputProblem("--groups and --groups-column say the same thing", "give one of them")
    return file is not None or column is not None


def people_labels(
    loaded: list[Any] | None, rows: int, file: Path | None, column: str | None, key: str | None
) -> tuple[list[Any] | None, int | None]:
    """The labels of --groups or --groups-column, and the number of people; None for records.

    Args:
        loaded: What the column holds, where one was named.
        rows: The number of records.
        file: That of --groups.
        column: The name given to --groups-column.
        key: The name of the array in an npz file with several.
    """
    if file is not None:
        return read_groups(file, rows, key)
    if loaded is None:
        return None, None
    return loaded, people_of(loaded, rows, f"--groups-column {column}")


def read_groups(path: Path, rows: int, key: str | None = None) -> tuple[list[Any], int]:
    """The labels in a file, and the number of people.

    Args:
        path: An npy or npz file of one axis, or a text file with one label a line.
        rows: The number of records.
        key: The name of the array in an npz file with several.

    Raises:
        InputProblem: The file is no list of labels, or not one for each record.
    """
    if not path.is_file():
        raise InputProblem(f"--groups {path} is no file", _ONE)
    suffix = path.suffix.lower()
    if suffix in _TEXTS:
        labels = _lines(path, suffix)
        if len(labels) == rows + 1 and _is_name(labels[0], labels[1:]):
            labels = labels[1:]
    elif suffix in {".npy", ".npz"}:
        labels = _array(path, suffix, key)
    else:
        raise InputProblem(
            f"--groups {path} has an ending that is not known",
            "give an npy or npz file, or a text file (csv, tsv, txt) with one label a line",
        )
    return labels, people_of(labels, rows, f"--groups {path}")


def people_of(labels: list[Any], rows: int, named: str) -> int:
    """The number of people that labels name.

    Args:
        labels: One for each record.
        rows: The number of records.
        named: Where the labels come from, for messages.

    Raises:
        InputProblem: They cannot be used as labels.
    """
    try:
        return admit_people("--groups", labels, rows)[1]
    except InvalidArgument as error:
        said = str(error).replace("argument `--groups`", named)
        raise InputProblem(said.replace("`X`", "the records"), _ONE) from error


def check_people(show_clamped: bool, records_per_person: int | None) -> None:
    """Refuse what would tell how many records a person has."""
    for option, given, why in (
        ("--show-clamped", show_clamped, "counts records, and --groups protects their number"),
        (
            "--max-records-per-person",
            records_per_person is not None,
            "is not needed with --groups: one person with any number of records is protected",
        ),
    ):
        if given:
            raise InputProblem(f"{option} {why}", "leave it out")


def _is_name(first: str, labels: list[Any]) -> bool:
    """Whether the first line names the column: it is no number, and no label. If a label were taken
    for a name, every person would get a record of another one.
    """
    try:
        float(first)
    except ValueError:
        return first not in labels
    return False


def _lines(path: Path, suffix: str) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputProblem(f"--groups {path} is no text in UTF-8", _ONE) from error
    separator = "\t" if suffix == ".tsv" else ","
    lines = list(csv.reader(text.split("\n"), delimiter=separator))
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()
    if any(len(line) > 1 for line in lines):
        raise InputProblem(f"--groups {path} has lines with several columns", _ONE)
    return [line[0] if line else "" for line in lines]


def _array(path: Path, suffix: str, key: str | None) -> list[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if suffix == ".npz":
            names = sorted(loaded.files)
            name = key if key in names else names[0] if len(names) == 1 else None
            if name is None:
                raise InputProblem(f"--groups {path} does not hold exactly one array", _ONE)
            loaded = loaded[name]
    except (ValueError, OSError, EOFError) as error:
        raise InputProblem(f"--groups {path} cannot be read as NumPy's own format", _ONE) from error
    if loaded.ndim != 1:
        raise InputProblem(f"--groups {path} has {loaded.ndim} axes", _ONE)
    return loaded.tolist()
