"""Real images that need no download: scikit-learn's digits and the photographs inside the
scikit-image wheel.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from riemdp import DataUnavailable

from ..checks import integer, invalid
from .records import Covariances, Images


def digits() -> Images:
    """scikit-learn's 1797 handwritten digits, 8x8 grey, float64 in [0, 1] (stored as 0..16)."""
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    classes = tuple(str(d) for d in range(10))
    licence = "CC BY 4.0 (UCI, Alpaydin and Kaynak)"
    return Images(
        bunch.images / 16.0,
        bunch.target.astype(np.int64),
        classes,
        "scikit-learn digits",
        "scikit-learn",
        licence,
    )


def digit_covariances() -> Covariances:
    """Covariances (1797, 5, 5) over the pixels of each of the `digits`: of place, intensity and the
    size of both derivatives, plus 1e-6 I.
    """
    found = digits()
    images = found.images
    gradients = [np.abs(np.gradient(images, axis=axis)) for axis in (2, 1)]
    y, x = np.mgrid[:8, :8] / 8.0
    place = [np.broadcast_to(p, images.shape) for p in (x, y)]
    features = np.stack([*place, images, *gradients], 1).reshape(len(images), 5, -1)
    centred = features - features.mean(-1, keepdims=True)
    matrices = centred @ centred.swapaxes(1, 2) / features.shape[-1] + 1e-6 * np.eye(5)
    name = f"{found.name}, covariances"
    return Covariances(matrices, found.labels, found.classes, name, found.source, found.licence)


def histology_patches(size: int = 32, stride: int | None = None) -> Images:
    """Patches of scikit-image's immunohistochemistry photograph (512x512 RGB, colon), uint8 (n,
    size, size, 3).

    A stand-in for PathMNIST where that cannot be had: one photograph, so patches are *not*
    independent people. The two classes are the left and the right half of the picture (a public
    rule; the photograph carries no labels). `stride` defaults to `size` (no overlap): 256 patches
    of size 32.
    """
    photograph = _photograph("ihc.png", rgb=True)
    return _patches(
        [photograph[:, :256], photograph[:, 256:]],
        ("left half", "right half"),
        size,
        stride,
        "histology patches (scikit-image)",
        "CC0 (University of Oulu, via scikit-image)",
    )


def textures(size: int = 32, stride: int | None = None) -> Images:
    """Patches of scikit-image's brick, grass and gravel photographs (512x512 grey each), uint8 (n,
    size, size).

    A stand-in for the Kylberg texture set: 256 patches a class at size 32 without overlap.
    """
    names = ("brick", "grass", "gravel")
    return _patches(
        [_photograph(f"{n}.png", rgb=False) for n in names],
        names,
        size,
        stride,
        "brick, grass and gravel textures (scikit-image)",
        "CC0 (via scikit-image)",
    )


def faces() -> Images:
    """scikit-image's 200 grey crops 25x25 of Labelled Faces in the Wild, float64 in [0, 1]: 100
    faces, 100 others.

    A stand-in for Extended Yale-B.
    """
    folder = _skimage_folder()
    crops = np.load(folder / "lfw_subset.npy", allow_pickle=False).astype(np.float64)
    labels = np.repeat(np.array([0, 1], dtype=np.int64), 100)
    name, licence = "faces in the wild, crops (scikit-image)", "CC0 (via scikit-image)"
    return Images(crops, labels, ("face", "other"), name, "scikit-image", licence)


def _patches(
    photographs: list[np.ndarray],
    classes: tuple[str, ...],
    size: int,
    stride: int | None,
    name: str,
    licence: str,
) -> Images:
    size = integer("size", size, at_least=3)
    stride = size if stride is None else integer("stride", stride, at_least=1)
    height, width = photographs[0].shape[:2]
    if size > min(height, width):
        raise invalid("size", size, f"a patch has to fit into {height}x{width} pixels")
    blocks, labels = [], []
    for number, photograph in enumerate(photographs):
        # NumPy's stubs know one axis only.
        slide: Any = np.lib.stride_tricks.sliding_window_view
        windows = slide(photograph, (size, size), (0, 1))[::stride, ::stride]
        windows = np.moveaxis(windows, 2, -1) if photograph.ndim == 3 else windows
        flat = windows.reshape(-1, size, size, *photograph.shape[2:])
        blocks.append(np.ascontiguousarray(flat))
        labels.append(np.full(len(flat), number, dtype=np.int64))
    return Images(
        np.concatenate(blocks), np.concatenate(labels), classes, name, "scikit-image", licence
    )


def _photograph(file_name: str, *, rgb: bool) -> np.ndarray:
    from PIL import Image

    path = _skimage_folder() / file_name
    if not path.is_file():
        raise DataUnavailable(
            f"the installed scikit-image has no '{file_name}'; install the extra: pip install"
            " 'riemdp[images]'"
        )
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB" if rgb else "L"))


def _skimage_folder():
    """The data folder of the installed scikit-image, found without importing it (its import takes
    seconds).
    """
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise DataUnavailable(
            "scikit-image is not installed; install the extra: pip install 'riemdp[images]'"
        )
    return Path(spec.origin).parent / "data"
