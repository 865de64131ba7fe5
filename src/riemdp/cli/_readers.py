"""Read records from a file or a folder of images: one table, from the ending to a library call.

How records are read is decided by public options and by the form of the file, never by one record
for all of them: a line or an image that cannot be read is one malformed record, of NaN.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import HERMITIAN
from ._run import InputProblem

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp", ".pgm", ".ppm"}
OWN = {"mean", "components"}  # arrays that this command writes, beside others, into an npz file


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Records as one array (n, ...), or a file of them that is read in parts; and the names of its
    columns, which count as public.
    """

    array: Any
    names: tuple[str, ...] | None = None


def read_records(source: Path, *, header: bool = False) -> Loaded:
    """Read the records of a file, or of a folder of images.

    Whether the first line of a text table names the columns is an option, `header`, and no guess:
    the first line may be a record. Raises `InputProblem` where they cannot be read.
    """
    ending = source.suffix.lower()
    if not source.exists():
        raise InputProblem(f"there is no file {source}", "check the name and the folder")
    if source.is_dir() and ending != ".zarr":
        ending = "folder"
    if ending not in _READERS:
        raise InputProblem(
            f"{source} has the unknown ending {ending or '(none)'!r}",
            f"give a {', '.join(e for e in _READERS if e[0] == '.')} file or a folder of images;"
            " numpy.save writes any other array",
        )
    read, package = _READERS[ending]
    if header and read is not _table:
        raise InputProblem(f"--header is for text tables, and {source} is none", "leave it out")
    try:
        loaded = _table(source, header) if read is _table else Loaded(read(source))
    except ImportError as error:
        raise InputProblem(
            f"reading {source} needs the package {package}, which is not installed",
            "run pip install -e '.[large]' in the checkout (h5py, zarr), or save the records with"
            " numpy.save",
        ) from error
    except (InputProblem, MemoryError, PermissionError):
        raise
    except Exception as error:  # each library raises its own errors for a damaged file
        raise InputProblem(
            f"{source} is damaged, or no file that {package} reads",
            "write the records again as one array: numpy.save(file, numpy.stack(records))",
        ) from error
    return dataclasses.replace(loaded, array=_numbers(loaded.array, source))


def _npz(source: Path) -> np.ndarray:
    with np.load(source, allow_pickle=False) as archive:
        return archive[_only(source, sorted(OWN & {*archive.files}) or sorted(archive.files))]


def _hdf5(source: Path) -> Any:
    import h5py  # type: ignore[reportMissingImports]

    file, names = h5py.File(source, "r"), list[str]()
    file.visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
    return file[_only(source, sorted(names))]


def _zarr(source: Path) -> Any:
    import zarr  # type: ignore[reportMissingImports]

    return zarr.open_array(str(source), mode="r")


def _only(source: Path, names: list[str]) -> str:
    if len(names) != 1:
        held = f"{len(names)} arrays" + (f": {', '.join(names[:8])}" if names else "")
        raise InputProblem(f"{source} holds {held}", "keep the records alone in a file")
    return names[0]


def _images(folder: Path) -> np.ndarray:
    """Covariance descriptors of all images of a folder, by name, each read in grey and alone."""
    from PIL import Image

    from ..datasets import covariance_descriptors

    files = sorted(p for p in folder.iterdir() if p.suffix.lower() in IMAGES)
    records = np.full((len(files), 9, 9), np.nan)
    for record, file in zip(records, files, strict=True):
        try:
            with Image.open(file) as opened:
                record[:] = covariance_descriptors(np.asarray(opened.convert("L"))[None])[0]
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            continue  # a malformed record
    return records


def _table(source: Path, header: bool) -> Loaded:
    """A text table: one record a line, of as many numbers as most lines have."""
    separator = {".csv": ",", ".tsv": "\t"}.get(source.suffix.lower())
    with source.open("r", encoding="utf-8-sig", errors="replace", newline="") as stream:
        split = (line.split() for line in stream)
        lines = list(split if separator is None else csv.reader(stream, delimiter=separator))
    while lines and not lines[-1]:
        lines.pop()
    names = tuple(cell.strip() for cell in lines.pop(0)) if header and lines else None
    width = len(names) if names else Counter(map(len, lines)).most_common(1)[0][0] if lines else 0
    records = np.full((len(lines), width), np.nan)
    for record, cells in zip(records, lines, strict=True):
        if len(cells) == width:
            record[:] = [_number(cell) for cell in cells]
    return Loaded(records, names)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _numbers(array: Any, source: Path) -> Any:
    if array.dtype.kind not in "fiub":
        told = f"the records have to be real; {HERMITIAN}"
        problem = f"{source} does not hold real numbers (its type is {array.dtype})"
        raise InputProblem(problem, told if array.dtype.kind == "c" else "save them as numbers")
    if 0 in array.shape or not array.shape:
        problem = f"{source} holds no records (its shape is {array.shape})"
        raise InputProblem(problem, "at least one record is needed")
    return array


_READERS: dict[str, tuple[Callable[..., Any], str]] = {
    ".npy": (functools.partial(np.load, mmap_mode="r", allow_pickle=False), "numpy"),
    ".npz": (_npz, "numpy"),
    ".csv": (_table, "csv"),
    ".tsv": (_table, "csv"),
    ".txt": (_table, "csv"),
    ".h5": (_hdf5, "h5py"),
    ".zarr": (_zarr, "zarr"),
    "folder": (_images, "PIL"),
}
