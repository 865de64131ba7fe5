"""Read records from a file or a folder: npy, npz, csv, parquet, mat, HDF5, Zarr, or images.

How the records are read is decided by public options and by the form of the file, never by one
record for all of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._errors import HERMITIAN, InvalidArgument, counted
from ..datasets import covariance_descriptors, read_folder
from ..datasets._folder import ENDINGS
from ._exits import InputProblem

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp", ".pgm", ".ppm"}
FORMATS = (".npy", ".npz", ".csv", ".tsv", ".txt", ".parquet", ".mat", ".h5", ".hdf5", ".zarr")
TABLES = (".csv", ".tsv", ".txt")
# In an npz file that this command wrote: the value, and what may stand beside it.
VALUES = {"mean", "components"}
BESIDE = ("names", "ball_", "confidence_region_", "population_regions_")
LARGE = 1 << 26  # bytes from which an npy file is read in parts


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Records as one float64 array (n, ...), and how they were read, in words. Where `Reading`
    allows it, `array` may be a mapped file, or an HDF5 or Zarr array.
    """

    array: Any
    note: str
    channels: int | None = None  # 1 or 3 where the records are covariance descriptors of images
    groups: list[str] | None = None  # whose each record is, from the column of that name
    names: tuple[str, ...] | None = None  # of the columns of a table, which count as public


@dataclasses.dataclass(frozen=True)
class Reading:
    """The public options of reading.

    Attributes:
        key: The name of an array in an npz or mat file.
        eta: The regulariser of image descriptors; None: `ETA`.
        header: Whether the first line of a text table names the columns; None: if no cell of it is
            a number.
        channels: 1 (grey) or 3 (colour), for all images of a folder.
        shape: The shape of one record, for the npy or csv files of a folder; None: they all have
            one shape.
        to_center: Whether a file of such a folder that cannot be read counts as the centre.
        in_parts: Whether records may stay in their file, to be read in parts.
        groups_column: The column of a text table that says whose each record is, or None.
        key_of_groups: Whether `key` names an array in a file of labels, too.
    """

    key: str | None = None
    eta: float | None = None
    header: bool | None = None
    channels: int | None = None
    shape: tuple[int, ...] | None = None
    to_center: bool = False
    in_parts: bool = False
    groups_column: str | None = None
    key_of_groups: bool = False

    def check(self, source: Path, kind: str) -> None:
        """Refuse options that do not apply to this kind of input: they would change nothing, and
        whoever gives one expects that it does.
        """
        for name, (option, of, kinds) in _FOR.items():
            elsewhere = name == "key" and self.key_of_groups
            if getattr(self, name) is not None and kind not in kinds and not elsewhere:
                raise InputProblem(f"{option} is for {of}, and {source} is not one", "leave it out")


ETA = 1e-6
_IMAGES, _ARRAYS = "images", "arrays"  # in a folder
_FOR = {  # of an option: its name, what it is for, and for which kinds of input
    "key": (
        "--key",
        "files that may hold several arrays (npz, mat, HDF5, Zarr)",
        (".npz", ".mat", ".h5", ".hdf5", ".zarr"),
    ),
    "header": ("--header or --no-header", "text tables (csv, tsv, txt)", TABLES),
    "channels": ("--channels", "a folder of images", (_IMAGES,)),
    "eta": ("--eta", "a folder of images", (_IMAGES,)),
    "shape": ("--record-shape", "a folder of npy or csv files", (_ARRAYS,)),
}


def read_records(path: str | Path, reading: Reading | None = None) -> Loaded:
    """Read the records of a file or a folder.

    Args:
        path: The file or folder.
        reading: The public options.

    Returns:
        The records. Their type and common size are checked here, their geometry later.

    Raises:
        InputProblem: The records cannot be read; the message holds the remedy.
    """
    reading = reading or Reading()
    source = Path(path)
    if reading.groups_column is not None and source.suffix.lower() not in TABLES:
        raise InputProblem(
            f"{source.name} has no columns with names",
            "--groups-column is for csv, tsv and txt files; --groups takes the labels from a file"
            " of their own",
        )
    if not source.exists():
        near = _nearest(source)
        raise InputProblem(
            f"there is no file {source}",
            f"did you mean {near}?" if near else "check the name and the folder",
        )
    try:
        if source.is_dir() and source.suffix.lower() != ".zarr":
            return _folder(source, reading)
        suffix = source.suffix.lower()
        if suffix in IMAGES:
            raise InputProblem(
                f"{source} is one image",
                "give the folder that holds the images, one record an image",
            )
        reader = {
            ".npy": _npy,
            ".npz": _npz,
            ".csv": _csv,
            ".tsv": _csv,
            ".txt": _csv,
            ".parquet": _parquet,
            ".mat": _mat,
            ".h5": _hdf5,
            ".hdf5": _hdf5,
            ".zarr": _zarr,
        }
        if suffix not in reader:
            raise InputProblem(
                f"{source} has the unknown ending {suffix or '(none)'!r}",
                f"give one of {', '.join(FORMATS)}, or a folder of images",
            )
        if source.stat().st_size == 0:
            raise InputProblem(f"{source} is an empty file", "write the records to it first")
        reading.check(source, suffix)
        loaded = reader[suffix](source, reading)
    except PermissionError as error:
        raise InputProblem(
            f"{source} may not be read", "check the permissions of the file"
        ) from error
    except MemoryError as error:
        raise InputProblem(
            f"{source} does not fit into memory", "use a larger machine, or fewer records per file"
        ) from error
    return dataclasses.replace(loaded, array=_real(loaded.array, source, reading.in_parts))


def shape_of(text: str | None) -> tuple[int, ...] | None:
    """The shape that an option like 3x3 says."""
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text.strip().lower()):
        raise InputProblem(
            f"--record-shape {text} is no shape", "give numbers joined by x: --record-shape 3x3"
        )
    return tuple(int(size) for size in text.strip().lower().split("x"))


def _npy(source: Path, reading: Reading) -> Loaded:
    if reading.in_parts and source.stat().st_size >= LARGE:
        return Loaded(_load_numpy(source, "r"), f"array of {source.name}, read in parts")
    _fits(source, source.stat().st_size)
    return Loaded(_load_numpy(source), f"array of {source.name}")


def _npz(source: Path, reading: Reading) -> Loaded:
    _fits(source, source.stat().st_size)
    archive = _load_numpy(source)
    with archive:
        names, key = sorted(archive.files), reading.key
        values = [name for name in names if not name.startswith(BESIDE)]
        if key is None and len(values) == 1 and values[0] in VALUES:
            key = values[0]  # a released file is read back without --key
        name = _chosen(source, names, key)
        try:
            return Loaded(archive[name], f"array {name!r} of {source.name}")
        except ValueError as error:
            raise _objects(source) from error


def _hdf5(source: Path, reading: Reading) -> Loaded:
    try:
        import h5py  # type: ignore[reportMissingImports]
    except ImportError as error:
        raise _lacking("HDF5", "h5py") from error
    try:
        file = h5py.File(source, "r")
    except OSError as error:
        raise InputProblem(
            f"{source} is damaged or not an HDF5 file", "write it again with h5py"
        ) from error
    names: list[str] = []
    file.visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
    name = _chosen(source, sorted(names), reading.key)
    return Loaded(file[name], f"data set {name!r} of {source.name}, read in parts")


def _zarr(source: Path, reading: Reading) -> Loaded:
    try:
        import zarr  # type: ignore[reportMissingImports]
    except ImportError as error:
        raise _lacking("Zarr", "zarr") from error
    try:
        store = zarr.open(str(source), mode="r")
    except Exception as error:  # zarr raises many kinds for a damaged store
        raise InputProblem(
            f"{source} is damaged or not a Zarr array", "write it again with zarr"
        ) from error
    if isinstance(store, zarr.Array):
        return Loaded(store, f"array of {source.name}, read in parts")
    name = _chosen(source, sorted(name for name, _ in store.arrays()), reading.key)
    return Loaded(store[name], f"array {name!r} of {source.name}, read in parts")


def _lacking(kind: str, package: str) -> InputProblem:
    return InputProblem(
        f"reading {kind} needs the package {package}, which is not installed",
        "pip install 'riemdp[large]', or save the records with numpy.save",
    )


def _load_numpy(source: Path, mode: Literal["r"] | None = None) -> Any:
    try:
        return np.load(source, mmap_mode=mode, allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError, KeyError, zipfile.BadZipFile) as error:
        # NumPy takes whatever it does not know for pickled objects; a file of its own says so.
        if isinstance(error, ValueError) and "allow_pickle" in str(error) and _is_npy(source):
            raise _objects(source) from error
        raise InputProblem(
            f"{source} is damaged or not a NumPy file",
            "write it again with numpy.save or numpy.savez",
        ) from error


def _is_npy(source: Path) -> bool:
    with source.open("rb") as stream:
        return stream.read(6) == b"\x93NUMPY"


def _objects(source: Path) -> InputProblem:
    return InputProblem(
        f"{source} holds Python objects instead of one array of numbers; often that means records"
        " of different sizes",
        "stack records of one common size: numpy.save(file, numpy.stack(records))",
    )


def _csv(source: Path, reading: Reading) -> Loaded:
    _fits(source, 8 * source.stat().st_size)
    with source.open("r", encoding="utf-8-sig", errors="replace") as stream:
        lines = [(i, line) for i, line in enumerate(stream, start=1) if line.strip()]
    if not lines:
        raise InputProblem(f"{source} has no records", "write one record a line")
    first = lines[0][1]
    separator = _separator(source, first)
    width = len(_cells(first, separator))
    header = reading.header
    if header is None:
        header = not any(_is_number(cell) for cell in _cells(first, separator))
    if reading.groups_column is not None:
        return _csv_of_people(source, reading.groups_column, lines, separator)
    rows = [_row(source, i, _cells(x, separator), width) for i, x in lines[1 if header else 0 :]]
    if not rows:
        raise InputProblem(f"{source} has a header and no records", "write one record a line")
    return Loaded(
        np.array(rows),
        f"{counted(len(rows), 'line')} of {source.name}"
        + (", first line taken as header" if header else ""),
        names=tuple(_cells(first, separator)) if header else None,
    )


def _csv_of_people(source: Path, name: str, lines: list[tuple[int, str]], separator: str) -> Loaded:
    """A table whose first line names the columns, one of which says whose each record is."""
    head = _cells(lines[0][1], separator)
    if head.count(name) != 1:
        raise InputProblem(
            f"the first line of {source} does not name one column {name!r}",
            "the first line has to name the columns, each by a name of its own",
        )
    at, rows, labels = head.index(name), [], []
    for i, line in lines[1:]:
        cells = _cells(line, separator)
        if len(cells) == len(head):
            labels.append(cells.pop(at))
        rows.append(_row(source, i, cells, len(head) - 1))
    if not rows:
        raise InputProblem(f"{source} has a header and no records", "write one record a line")
    note = f"{counted(len(rows), 'line')} of {source.name}, whose they are by the column {name!r}"
    return Loaded(np.array(rows), note, groups=labels, names=tuple(head[:at] + head[at + 1 :]))


def _separator(source: Path, line: str) -> str:
    if source.suffix.lower() == ".tsv" and "\t" in line:
        return "\t"
    return next((s for s in (";", ",", "\t", " ") if s in line.strip()), ",")


def _row(source: Path, line: int, cells: list[str], width: int) -> list[float]:
    if len(cells) != width:
        raise InputProblem(
            f"line {line} of {source} has {len(cells)} columns where the first line has {width}",
            "all records need the same number of columns; remove or complete that line",
        )
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        column = next(i for i, cell in enumerate(cells, start=1) if not _is_number(cell))
    if re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", cells[column - 1]):
        raise InputProblem(
            f"line {line}, column {column} of {source} has a decimal comma",
            "write decimal points; pandas reads such a table with sep=';', decimal=','",
        )
    remedy = "leave out columns of text; write missing values as nan"
    if line == 1 and cells[0] == "" and all(_is_number(cell) for cell in cells[1:]):
        remedy = (
            "this looks like a table that pandas wrote with its index: write it again with"
            " to_csv(file, index=False, header=False)"
        )
    elif line == 1:
        remedy += "; --header says that the first line names the columns"
    raise InputProblem(f"line {line}, column {column} of {source} is not a number", remedy)


def _cells(line: str, separator: str) -> list[str]:
    return [
        cell.strip().strip('"')
        for cell in (line.split() if separator == " " else line.strip().split(separator))
    ]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet(source: Path, reading: Reading) -> Loaded:
    try:
        import pyarrow.parquet as parquet  # type: ignore[reportMissingImports]
    except ImportError as error:
        raise InputProblem(
            "reading parquet needs the package pyarrow, which is not installed",
            "pip install pyarrow, or save the table as csv",
        ) from error
    try:
        table = parquet.read_table(source)
    except Exception as error:
        raise InputProblem(
            f"{source} is damaged or not a parquet file", "write it again, or save the table as csv"
        ) from error
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        if values.dtype.kind not in "fiub":
            raise InputProblem(
                f"column {name!r} of {source} does not hold numbers", "leave out columns of text"
            )
        columns.append(values.astype(np.float64))
    if not columns:
        raise InputProblem(f"{source} has no columns", "write one record a row")
    names = tuple(table.column_names)
    note = f"{counted(table.num_rows, 'row')} of {source.name}"
    return Loaded(np.stack(columns, axis=1), note, names=names)


def _mat(source: Path, reading: Reading) -> Loaded:
    from scipy import io

    _fits(source, source.stat().st_size)
    try:
        content = io.loadmat(source)
    except NotImplementedError as error:
        raise InputProblem(
            f"{source} is a MATLAB 7.3 file, which is not read here",
            "save it in MATLAB with save(file, name, '-v7')",
        ) from error
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise InputProblem(
            f"{source} is damaged or not a MATLAB file",
            "save it again with save(file, name, '-v7')",
        ) from error
    named = {k: v for k, v in content.items() if not k.startswith("__")}
    arrays = {
        k: v for k, v in named.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiubc"
    }
    name = _chosen(source, sorted(arrays), reading.key)
    array, note = arrays[name], f"variable {name!r} of {source.name}"
    if array.ndim == 3 and array.shape[0] == array.shape[1] != array.shape[2]:
        array, note = (
            np.moveaxis(array, 2, 0),
            note + ", last axis taken as the records (MATLAB order)",
        )
    return Loaded(array, note)


def _folder(source: Path, reading: Reading) -> Loaded:
    """A folder of images, or of npy or csv files: one file a record."""
    images = sorted(
        p for p in source.rglob("*") if p.suffix.lower() in IMAGES and not p.name.startswith(".")
    )
    arrays = [
        p
        for p in source.iterdir()
        if p.suffix.lower() in ENDINGS and not p.name.startswith(".") and p.is_file()
    ]
    kinds = sorted({p.suffix.lower() for p in arrays})
    if (images and arrays) or len(kinds) > 1:
        held = " and ".join([*(["images"] if images else []), *kinds])
        raise InputProblem(
            f"the folder {source} holds {held} files",
            "keep the records alone in a folder, as files of one kind",
        )
    if images:
        reading.check(source, _IMAGES)
        return _images(images, reading)
    if not arrays:
        raise _no_records(source)
    reading.check(source, _ARRAYS)
    how = "center" if reading.to_center else "raise"
    try:
        array = read_folder(source, shape=reading.shape, on_invalid=how)
    except InvalidArgument as error:
        problem = str(error).removeprefix("argument `folder`: ")
        problem = problem.replace("shape=(...)", "--record-shape")
        problem = problem.replace('on_invalid="center"', "--on-invalid center")
        raise InputProblem(
            problem,
            "--record-shape 3x3 gives the public shape of one record; with it, --on-invalid center"
            " counts files that are no such array as the centre",
        ) from error
    return Loaded(array, f"{counted(len(array), 'file')} of the folder {source.name}, by name")


def _images(files: list[Path], reading: Reading) -> Loaded:
    if reading.channels not in (1, 3):
        raise InputProblem(
            "a folder of images needs --channels 1 (grey) or --channels 3 (colour)",
            "say how to read all of them; one image must not decide that for the others",
        )
    from PIL import Image, UnidentifiedImageError

    mode = "L" if reading.channels == 1 else "RGB"
    size: tuple[int, int] | None = None
    pixels = []
    for index, file in enumerate(files):
        try:
            with warnings.catch_warnings(), Image.open(file) as opened:
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                size = size or opened.size
                if opened.size != size:
                    raise InputProblem(
                        f"record {index} ({file.name}) is {opened.size[0]} x {opened.size[1]}"
                        f" pixels, the first image is {size[0]} x {size[1]}",
                        "bring all images to one size first",
                    )
                pixels.append(np.asarray(opened.convert(mode)))
        except (UnidentifiedImageError, OSError, Image.DecompressionBombWarning) as error:
            raise InputProblem(
                f"record {index} ({file.name}) cannot be read as an image", "remove or replace it"
            ) from error
    kind = "grey" if mode == "L" else "colour"
    eta = ETA if reading.eta is None else reading.eta
    array = np.asarray(covariance_descriptors(np.stack(pixels), eta=eta))
    return Loaded(
        array,
        f"covariance descriptors of {counted(len(files), kind + ' image')} (eta = {eta:g})",
        reading.channels,
    )


def _no_records(source: Path) -> InputProblem:
    others = sorted({p.suffix.lower() for p in source.iterdir() if p.suffix.lower() in FORMATS})
    if others:
        return InputProblem(
            f"the folder {source} holds {', '.join(others)} files",
            "give such a file itself; files in a folder are one record each: images, npy or csv",
        )
    return InputProblem(
        f"the folder {source} holds no images and no npy or csv files",
        "give a folder with one file a record",
    )


def _chosen(source: Path, names: list[str], key: str | None) -> str:
    if not names:
        raise InputProblem(f"{source} holds no array of numbers", "save the records as one array")
    if key is None:
        if len(names) > 1:
            raise InputProblem(
                f"{source} holds several arrays: {', '.join(names[:8])}",
                f"say which with --key, e.g. --key {names[0]}",
            )
        return names[0]
    if key not in names:
        raise InputProblem(
            f"{source} has no array {key!r}; it holds {', '.join(names[:8])}",
            f"e.g. --key {names[0]}",
        )
    return key


def _real(array: Any, source: Path, in_parts: bool) -> Any:
    if array.dtype.kind == "c":
        raise InputProblem(
            f"{source} holds complex numbers", f"the records have to be real; {HERMITIAN}"
        )
    if array.dtype.kind not in "fiub":
        raise InputProblem(
            f"{source} does not hold numbers (its type is {array.dtype})",
            "save the records as floating point numbers",
        )
    if array.ndim == 0 or array.size == 0:
        raise InputProblem(
            f"{source} holds no records (its shape is {array.shape})",
            "at least one record is needed",
        )
    if in_parts and (isinstance(array, np.memmap) or not isinstance(array, np.ndarray)):
        return array
    return np.ascontiguousarray(array[:], dtype=np.float64)


def _fits(source: Path, need: int) -> None:
    """Refuse what cannot fit before reading it.

    Three copies are needed: the file, float64, and the clamped records.
    """
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return
    if 3 * need > available:
        raise InputProblem(
            f"{source} is too large for this machine: about {3 * need / 2**30:,.0f} GiB would be"
            f" needed, {available / 2**30:,.0f} GiB exist",
            "use a larger machine; or split the records and release one mean per part (parts hold"
            " different records, so together they cost the budget once)",
        )


def _nearest(source: Path) -> str | None:
    folder = source.parent
    if not folder.is_dir():
        return None
    found = difflib.get_close_matches(
        source.name, [p.name for p in folder.iterdir()], n=1, cutoff=0.85
    )
    return str(folder / found[0]) if found else None
