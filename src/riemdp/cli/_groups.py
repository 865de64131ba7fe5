"""Read the labels of people from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._errors import InvalidArgument
from ..domains._label_file import ONE_EACH, Unreadable, read_labels
from ..domains._labels import admit_people
from ._exits import InputProblem


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
    try:
        labels = read_labels(path, rows, named=f"--groups {path}", key=key)
    except Unreadable as error:
        raise InputProblem(error.what, error.remedy) from error
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
        raise InputProblem(said.replace("`X`", "the records"), ONE_EACH) from error


def check_people(records_per_person: int | None) -> None:
    """Refuse a number of records a person, which `--groups` needs not."""
    if records_per_person is not None:
        raise InputProblem(
            "--max-records-per-person is not needed with --groups: one person with any number of"
            " records is protected",
            "leave it out",
        )
