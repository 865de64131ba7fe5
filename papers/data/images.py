"""Image collections in public formats: the MNIST family (idx), MedMNIST (npz) and CIFAR-10 (python
pickles, read safely).
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import tarfile
from pathlib import Path

import numpy as np

from ..checks import one_of
from .files import PublicFile, find, unreadable
from .records import Images

_SPLITS = ("train", "test", "all")
_IDX_PARTS = {"train": "train", "test": "t10k"}


def _idx_set(
    folder: str, urls: tuple[str, ...], licence: str, md5: tuple[str, str, str, str]
) -> dict[str, PublicFile]:
    names = [
        f"{part}-{kind}-ubyte.gz"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    return {
        name: PublicFile(folder, name, tuple(url + name for url in urls), f"md5:{digest}", licence)
        for name, digest in zip(names, md5, strict=True)
    }


_MNIST = _idx_set(
    "mnist",
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "CC BY-SA 3.0 (LeCun, Cortes)",
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)
_FASHION = _idx_set(
    "fashion_mnist",
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    "MIT (Zalando)",
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
_KMNIST = _idx_set(
    "kmnist",
    ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",),
    "CC BY-SA 4.0 (ROIS-DS Center for Open Data in the Humanities)",
    (
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    ),
)
_ZENODO = "https://zenodo.org/records/10519652/files/"
_PATHMNIST = PublicFile(
    "medmnist",
    "pathmnist.npz",
    (_ZENODO + "pathmnist.npz",),
    "md5:a8b06965200029087d5bd730944a56c1",
    "CC BY 4.0 (MedMNIST)",
)
_OCTMNIST = PublicFile(
    "medmnist",
    "octmnist.npz",
    (_ZENODO + "octmnist.npz",),
    "md5:c68d92d5b585d8d81f7112f81e2d0842",
    "CC BY 4.0 (MedMNIST)",
)
_CIFAR10 = PublicFile(
    "cifar10",
    "cifar-10-python.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    "md5:c58f30108f718f92721af3b95e74349a",
    "no licence stated (Krizhevsky, 2009)",
)

_DIGITS = tuple(str(d) for d in range(10))


def mnist(split: str = "train", *, download: bool = True) -> Images:
    """MNIST handwritten digits: 60 000 training and 10 000 test images, 28x28 grey uint8; `split`
    "train", "test" or "all".

    Raises `DataUnavailable` where it is neither in `RIEMDP_DATA` nor in the cache and cannot be
    downloaded.
    """
    return _load_idx("MNIST", _MNIST, split, _DIGITS, download)


def fashion_mnist(split: str = "train", *, download: bool = True) -> Images:
    """Fashion-MNIST: 60 000 + 10 000 images of clothing, 28x28 grey uint8, ten classes. Otherwise
    as `mnist`.
    """
    classes = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    return _load_idx("Fashion-MNIST", _FASHION, split, classes, download)


def kmnist(split: str = "train", *, download: bool = True) -> Images:
    """Kuzushiji-MNIST: 60 000 + 10 000 images of cursive Japanese characters, 28x28 grey uint8.
    Otherwise as `mnist`.
    """
    return _load_idx(
        "KMNIST",
        _KMNIST,
        split,
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        download,
    )


def pathmnist(split: str = "train", *, download: bool = True) -> Images:
    """PathMNIST (MedMNIST v2): colorectal histology patches, 28x28 RGB uint8, nine tissues; also
    `split="val"`.
    """
    classes = (
        "adipose",
        "background",
        "debris",
        "lymphocytes",
        "mucus",
        "smooth muscle",
        "normal colon mucosa",
        "cancer-associated stroma",
        "colorectal adenocarcinoma epithelium",
    )
    return _load_medmnist("PathMNIST", _PATHMNIST, split, classes, download)


def octmnist(split: str = "train", *, download: bool = True) -> Images:
    """OctMNIST (MedMNIST v2): retinal optical coherence tomography, 28x28 grey uint8, four
    diagnoses; also `split="val"`.
    """
    classes = ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal")
    return _load_medmnist("OctMNIST", _OCTMNIST, split, classes, download)


def cifar10(split: str = "train", *, download: bool = True) -> Images:
    """CIFAR-10: 50 000 + 10 000 photographs, 32x32 RGB uint8, ten classes. Otherwise as `mnist`."""
    one_of("split", split, _SPLITS)
    path = find(_CIFAR10, download=download)
    wanted = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
    wanted["all"] = wanted["train"] + wanted["test"]
    images, labels = [], []
    try:
        with tarfile.open(path) as archive:
            for name in wanted[split]:
                member = archive.extractfile(f"cifar-10-batches-py/{name}")
                assert member is not None
                batch = _ArraysOnly(io.BytesIO(member.read()), encoding="bytes").load()
                images.append(
                    np.asarray(batch[b"data"], dtype=np.uint8)
                    .reshape(-1, 3, 32, 32)
                    .transpose(0, 2, 3, 1)
                )
                labels.append(np.asarray(batch[b"labels"], dtype=np.int64))
    except (
        OSError,
        KeyError,
        AssertionError,
        EOFError,
        ValueError,
        tarfile.TarError,
        pickle.UnpicklingError,
    ) as error:
        raise unreadable(path, f"it is not the python version of CIFAR-10 ({error})") from error
    classes = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    name = f"CIFAR-10 ({split})"
    return Images(
        np.concatenate(images), np.concatenate(labels), classes, name, str(path), _CIFAR10.licence
    )


class _ArraysOnly(pickle.Unpickler):
    """Unpickler that builds NumPy arrays and nothing else, so that a tampered archive cannot run
    code.
    """

    _ALLOWED = frozenset({("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")})

    def find_class(self, module: str, name: str):
        if name == "_reconstruct" and module in {"numpy.core.multiarray", "numpy._core.multiarray"}:
            return np.empty(0).__reduce__()[0]
        if (module, name) in self._ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an image archive")


def _load_idx(
    name: str, files: dict[str, PublicFile], split: str, classes: tuple[str, ...], download: bool
) -> Images:
    one_of("split", split, _SPLITS)
    parts = list(_IDX_PARTS.values()) if split == "all" else [_IDX_PARTS[split]]
    images, labels, paths = [], [], []
    for part in parts:
        image_path = find(files[f"{part}-images-idx3-ubyte.gz"], download=download)
        label_path = find(files[f"{part}-labels-idx1-ubyte.gz"], download=download)
        x, y = read_idx(image_path), read_idx(label_path)
        if x.ndim != 3 or y.ndim != 1 or len(x) != len(y) or (len(y) and y.max() >= len(classes)):
            raise unreadable(
                image_path, f"images {x.shape} and labels {y.shape} do not belong together"
            )
        images.append(x)
        labels.append(y.astype(np.int64))
        paths.append(str(image_path))
    licence = next(iter(files.values())).licence
    return Images(
        np.concatenate(images),
        np.concatenate(labels),
        classes,
        f"{name} ({split})",
        ", ".join(paths),
        licence,
    )


def read_idx(path: str | Path) -> np.ndarray:
    """Read an idx file of unsigned bytes (the format of MNIST), gzip-compressed or not."""
    path = Path(path)
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise unreadable(path, f"its gzip stream is broken ({error})") from error
    if len(raw) < 4 or raw[0] or raw[1] or raw[2] != 8:
        raise unreadable(path, "it is not an idx file of unsigned bytes")
    ndim = raw[3]
    shape = (
        tuple(int(n) for n in np.frombuffer(raw, dtype=">u4", count=ndim, offset=4))
        if len(raw) >= 4 + 4 * ndim
        else (-1,)
    )
    if len(raw) != 4 + 4 * ndim + math.prod(shape):
        raise unreadable(
            path, f"its header announces shape {shape} but the length does not fit (truncated?)"
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * ndim).reshape(shape)


def _load_medmnist(
    name: str, file: PublicFile, split: str, classes: tuple[str, ...], download: bool
) -> Images:
    one_of("split", split, ("train", "val", "test", "all"))
    path = find(file, download=download)
    parts = ("train", "val", "test") if split == "all" else (split,)
    try:
        with np.load(path, allow_pickle=False) as archive:
            images = np.concatenate([archive[f"{p}_images"] for p in parts])
            labels = (
                np.concatenate([archive[f"{p}_labels"] for p in parts])
                .reshape(len(images), -1)[:, 0]
                .astype(np.int64)
            )
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise unreadable(path, f"it is not a MedMNIST archive ({error})") from error
    return Images(images, labels, classes, f"{name} ({split})", str(path), file.licence)
