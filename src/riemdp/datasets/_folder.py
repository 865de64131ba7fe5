"""Records from a folder of files, one file a record."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument, invalid, one_of

ENDINGS = (".npy", ".csv")
_MOST_NAMED = 5


def read_folder(
    folder: str | os.PathLike[str],
    *,
    shape: tuple[int, ...] | None = None,
    ending: str | None = None,
    on_invalid: str = "raise",
) -> NDArray[np.float64]:
    """Records from a folder, one npy or csv file each, in the order of the files' names.

    Files in folders below it, hidden files and files with other endings are left out. How many
    files there are is the public number of records.

    Args:
        folder: The folder.
        shape: The public shape of one record. None: all files have to have one shape.
        ending: ".npy" (an array a file) or ".csv" (numbers with decimal points, separated by
            commas, semicolons, tabs or spaces, one row of a matrix a line, no header). None: all
            files have to have the same one of these endings.
        on_invalid: What to do about a file that is no array of numbers of that shape. "raise" says
            which ones. Whether this error is raised depends on the records, so show it only to
            their holder. "center" makes it a record of NaN, which every release counts as the
            centre; it needs `shape`, so that no file decides how the others are read.

    Returns:
        The records, (n, *shape), float64. They are private: give them to a release.

    Raises:
        InvalidArgument: There is no such folder or no such file in it, an argument is out of range,
            or, with "raise", a file cannot be read or has another shape.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from riemdp.datasets import read_folder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         np.save(f"{folder}/scan-{i}.npy", (i + 1.0) * np.eye(2))
        ...     read_folder(folder).shape
        (3, 2, 2)
    """
    one_of("on_invalid", on_invalid, ("raise", "center"))
    if ending is not None:
        one_of("ending", ending, ENDINGS)
    if shape is not None:
        shape = _checked(shape)
    elif on_invalid == "center":
        raise invalid(
            "shape",
            None,
            'on_invalid="center" needs the public shape of one record, such as (3, 3)',
        )
    files = files_of(Path(folder), ending)
    read = [_read(file) for file in files]
    if shape is None:
        shapes = Counter(x.shape for x in read if isinstance(x, np.ndarray))
        if len(shapes) > 1:
            known = ", ".join(str(s) for s in sorted(shapes)[:_MOST_NAMED])
            raise InvalidArgument(
                f"argument `folder`: its files hold arrays of the shapes {known}; give the public"
                " shape of one record, shape=(...), and files of another one are named"
            )
        shape = next(iter(shapes), ())
    wrong = {i: _why(x, shape) for i, x in enumerate(read)}
    named = [f"{i} ({files[i].name}): {why}" for i, why in wrong.items() if why]
    if named and on_invalid == "raise":
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        raise InvalidArgument(
            "argument `folder`: these records cannot be used: "
            + "; ".join(named[:_MOST_NAMED])
            + more
            + '. Correct them, or give shape=(...) and on_invalid="center" to count each as the'
            " centre. This message depends on the records: show it to nobody else"
        )
    filler = np.full(shape, np.nan)
    return np.stack([filler if wrong[i] else np.asarray(x) for i, x in enumerate(read)])


def files_of(folder: Path, ending: str | None = None) -> list[Path]:
    """The files of records in a folder, by name.

    Raises:
        InvalidArgument: No folder, no such files, or files of both endings where none was named.
    """
    if not folder.is_dir():
        raise InvalidArgument(f"argument `folder`: there is no folder {folder}")
    found = [
        p
        for p in sorted(folder.iterdir(), key=lambda p: p.name)
        if p.suffix.lower() in ENDINGS and not p.name.startswith(".") and p.is_file()
    ]
    kinds = sorted({p.suffix.lower() for p in found})
    if ending is None and len(kinds) > 1:
        raise InvalidArgument(
            f"argument `folder`: {folder} holds {' and '.join(kinds)} files; say which are the"
            " records with ending="
        )
    chosen = [p for p in found if ending is None or p.suffix.lower() == ending]
    if not chosen:
        raise InvalidArgument(
            f"argument `folder`: {folder} holds no {ending or ' or '.join(ENDINGS)} files"
        )
    return chosen


def _checked(shape: object) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else None
    if not sizes or not all(
        isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in sizes
    ):
        raise invalid("shape", shape, "give the shape of one record, such as (3, 3)")
    return tuple(int(s) for s in sizes)


def _read(file: Path) -> NDArray[np.float64] | str:
    """What one file holds, or why that is no array of numbers. No value is in the words."""
    try:
        x = _table(file) if file.suffix.lower() == ".csv" else np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError, KeyError, zipfile.BadZipFile):
        return "it cannot be read"
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
        return "it does not hold real numbers"
    return x.astype(np.float64)


def _table(file: Path) -> NDArray[np.float64]:
    """Numbers row by row; one row alone is a vector. A decimal comma is no number."""
    text = file.read_text(encoding="utf-8-sig")
    separator = next((s for s in ";,\t" if s in text), None)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = [[float(cell) for cell in line.split(separator)] for line in lines]
    if len({len(row) for row in rows}) != 1:
        raise ValueError
    return np.array(rows[0] if len(rows) == 1 else rows)


def _why(x: NDArray[np.float64] | str, shape: tuple[int, ...]) -> str:
    """Why a file is no record of this shape; "" where it is one."""
    if isinstance(x, str):
        return x
    if x.shape != shape or not shape:
        return f"it has shape {x.shape}, and a record {shape}"
    return ""
