"""Records from the formats of other fields: upper triangles, diffusion tensors, epochs of EEG."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import InvalidArgument, MissingExtra, invalid, one_of

Floats = NDArray[np.float64]
TRIANGLES = ("upper", "lower")


def from_upper_triangles(rows: ArrayLike, *, order: str = "upper") -> Floats:
    """Symmetric matrices from one triangle each.

    Args:
        rows: (n, k (k + 1) / 2) numbers, the triangle of one matrix a row.
        order: "upper": the upper triangle row by row, as `numpy.triu_indices` counts: xx, xy, xz,
            yy, yz, zz for k = 3. "lower": the lower triangle row by row: xx, yx, yy, zx, zy, zz.

    Returns:
        The matrices, (n, k, k), float64. Each depends on its own row only.

    Raises:
        InvalidArgument: `rows` is no table of numbers with so many columns.

    Examples:
        >>> from riemdp.datasets import from_upper_triangles
        >>> from_upper_triangles([[1.0, 0.5, 2.0]]).tolist()
        [[[1.0, 0.5], [0.5, 2.0]]]
    """
    one_of("order", order, TRIANGLES)
    table = np.asarray(rows)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise invalid("rows", table, "give a table of numbers, one triangle a row")
    width = table.shape[1]
    k = (math.isqrt(8 * width + 1) - 1) // 2
    if k < 1 or k * (k + 1) // 2 != width:
        raise InvalidArgument(
            f"argument `rows` has {width} columns, which is not k (k + 1) / 2 for any k"
        )
    full = np.zeros((len(table), k, k))
    i, j = np.triu_indices(k) if order == "upper" else np.tril_indices(k)
    full[:, i, j] = full[:, j, i] = table
    return full


class TensorRecords(NamedTuple):
    """Diffusion tensors of several scans.

    Attributes:
        X: The tensors, (n, 3, 3), one a voxel.
        people: For each the number of its file, (n,): what `groups=` takes where a file is a
            person.
    """

    X: Floats
    people: NDArray[np.int64]


def read_diffusion_tensors(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    mask: ArrayLike | None = None,
    order: str = "lower",
) -> TensorRecords:
    """Diffusion tensors from NIfTI files, one tensor a voxel. Needs the extra `nifti`.

    Args:
        files: One file or several (.nii, .nii.gz), each of shape (x, y, z, 6) or (x, y, z, 1, 6):
            the six numbers of a symmetric matrix.
        mask: Which voxels are read, (x, y, z), chosen without looking at these scans; None: all.
            Voxels that are no positive definite matrices stay among the records and count as the
            centre.
        order: "lower" (the order of the NIfTI standard and of MRtrix' and ANTs' symmetric
            matrices: xx, yx, yy, zx, zy, zz), or "upper" (FSL: xx, xy, xz, yy, yz, zz).

    Returns:
        The tensors, and whose they are. Both are private: give them to a release, with
        `groups=records.people` where one file is one person.

    Raises:
        MissingExtra: nibabel is not installed.
        InvalidArgument: A file cannot be read or has another shape.
    """
    one_of("order", order, TRIANGLES)
    try:
        import nibabel  # type: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("reading NIfTI needs nibabel: pip install 'riemdp[nifti]'") from error
    named = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not named:
        raise invalid("files", files, "give at least one file")
    wanted = None if mask is None else np.asarray(mask).astype(bool)
    parts = []
    for file in named:
        name = Path(file).name
        try:
            volume = np.asarray(nibabel.load(os.fspath(file)).dataobj, dtype=np.float64)
        except Exception as error:  # nibabel raises many kinds for a damaged file
            raise InvalidArgument(f"argument `files`: {name} cannot be read as NIfTI") from error
        if volume.ndim == 5 and volume.shape[3] == 1:
            volume = volume[:, :, :, 0]
        if volume.ndim != 4 or volume.shape[3] != 6:
            raise InvalidArgument(
                f"argument `files`: {name} has shape {volume.shape}; a file of diffusion tensors"
                " has (x, y, z, 6) or (x, y, z, 1, 6)"
            )
        if wanted is not None and wanted.shape != volume.shape[:3]:
            raise InvalidArgument(
                f"argument `mask` has shape {wanted.shape}, and {name} {volume.shape[:3]} voxels"
            )
        rows = volume.reshape(-1, 6) if wanted is None else volume[wanted]
        parts.append(from_upper_triangles(rows, order=order))
    people = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return TensorRecords(np.concatenate(parts), people)


class EpochRecords(NamedTuple):
    """Epochs of EEG or MEG.

    Attributes:
        signals: (n, channels, times), in volts as MNE keeps them.
        labels: The event of each epoch, (n,): its name where the epochs have names.
        channels: The names of the channels.
    """

    signals: Floats
    labels: NDArray[Any]
    channels: tuple[str, ...]

    def covariances(self) -> Floats:
        """The covariance matrix of each epoch, (n, channels, channels): x x^T / times. Each depends
        on its own epoch only, so the epoch stays what is protected.
        """
        x = self.signals - self.signals.mean(axis=-1, keepdims=True)
        return x @ np.swapaxes(x, 1, 2) / x.shape[-1]


def read_epochs(source: Any) -> EpochRecords:
    """Epochs of MNE: an `mne.Epochs` object, or the name of a FIF file (needs the extra `mne`).

    MNE keeps volts, so that covariance matrices have entries of about 1e-10. That needs no
    conversion where the ball is found privately. With a public ball take a centre of that size, or
    multiply the signals by 1e6.

    Args:
        source: `mne.Epochs`, or a file ending in -epo.fif.

    Returns:
        Signals, labels and channel names. They are private: give them to a release.

    Raises:
        MissingExtra: A file is given, and MNE is not installed.
        InvalidArgument: `source` is neither, or cannot be read.
    """
    epochs = source
    if isinstance(source, str | os.PathLike):
        try:
            import mne  # type: ignore[reportMissingImports]
        except ImportError as error:
            raise MissingExtra("reading FIF needs MNE: pip install 'riemdp[mne]'") from error
        try:
            epochs = mne.read_epochs(os.fspath(source), verbose="error")
        except Exception as error:  # MNE raises many kinds for a damaged file
            raise InvalidArgument(
                f"argument `source`: {Path(source).name} cannot be read as epochs in FIF"
            ) from error
    wanted = ("get_data", "events", "event_id", "ch_names")
    if not all(hasattr(epochs, name) for name in wanted):
        raise invalid("source", source, "give mne.Epochs, or the name of a FIF file of epochs")
    signals = np.array(epochs.get_data(), dtype=np.float64)
    codes = np.asarray(epochs.events)[:, 2]
    names = {code: name for name, code in dict(epochs.event_id).items()}
    labels = np.array([names.get(int(code), str(int(code))) for code in codes])
    return EpochRecords(signals, labels, tuple(str(name) for name in epochs.ch_names))
