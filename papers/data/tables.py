"""Tables, covariances, ratings and an embedding: the matrices of Han2024, EEG/MEG covariances,
MovieLens-1M, the mammals of WordNet.
"""

from __future__ import annotations

import zipfile

import numpy as np
from scipy.io import loadmat

from .files import PublicFile, find, unreadable
from .records import Covariances, Ratings, Table

_RIEMOPT = "https://raw.githubusercontent.com/andyjm3/DP-RiemOpt/1c3ecd27494164c7065a12d5c6338019fa601059/data/"
_IJCNN_MAT = PublicFile(
    "libsvm",
    "dp_riemopt_ijcnn.mat",
    (_RIEMOPT + "data_ijcnn.mat",),
    "md5:32eb24d688cf56e322c28ea27aef15a8",
    "MIT",
)
_SATIMAGE_MAT = PublicFile(
    "libsvm",
    "dp_riemopt_satimage.mat",
    (_RIEMOPT + "data_satimage.mat",),
    "md5:dff0ee1d03cbe2c26bffbaf1fee66cd0",
    "MIT",
)
_ERP = PublicFile("erp", "ERP.npz", (), None, "MIT (R package Riemann, from the MNE sample data)")
_MOVIELENS = PublicFile(
    "movielens",
    "ml-1m.zip",
    ("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
    "md5:c4d9eecfca2ab87c1945afe126590906",
    "research use, no redistribution (GroupLens)",
)
_EMBEDDING = PublicFile(
    "mammals",
    "mammals_lorentz.npz",
    (),
    None,
    "none stated: measure with it, do not redistribute (authors of RFedAGS)",
)

ERP_SCALE = 1e25  # public constant: the covariances are in T^2 or V^2 with entries of about 1e-25


def riemopt_ijcnn(*, download: bool = True) -> Table:
    """The 49 990 x 14 ijcnn matrix of Han2024's eigenvector experiment (one column is constant)."""
    return _read_mat(_IJCNN_MAT, "ijcnn_data", (49990, 14), "ijcnn (Han2024)", download)


def riemopt_satimage(*, download: bool = True) -> Table:
    """The 6430 x 36 standardised satimage matrix (UCI Statlog Landsat) of Han2024's eigenvector
    experiment.
    """
    return _read_mat(_SATIMAGE_MAT, "satimage", (6430, 36), "satimage (Han2024)", download)


def erp_covariances(*, scale: float = ERP_SCALE, download: bool = True) -> Covariances:
    """216 event-related EEG/MEG covariances 32x32 (classes left/right auditory/visual: 57, 57, 53,
    49).

    Multiplied by the public constant `scale` (entries of the file are about 1e-25, which underflows
    in products); a scale taken from the data would not be private.
    """
    path = find(_ERP, download=download)
    try:
        with np.load(path, allow_pickle=False) as archive:
            matrices, names = (
                archive["covariance"].astype(np.float64) * scale,
                archive["label"].astype(str),
            )
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise unreadable(path, f"it needs arrays `covariance` and `label` ({error})") from error
    classes = tuple(sorted(set(names.tolist())))
    labels = np.array([classes.index(n) for n in names.tolist()], dtype=np.int64)
    return Covariances(
        0.5 * (matrices + matrices.swapaxes(1, 2)),
        labels,
        classes,
        "ERP covariances",
        str(path),
        _ERP.licence,
    )


def movielens_1m(*, download: bool = True) -> Ratings:
    """MovieLens-1M: 1 000 209 ratings 1..5 of 3706 films by 6040 users. The licence forbids
    redistribution.
    """
    path = find(_MOVIELENS, download=download)
    try:
        with zipfile.ZipFile(path) as archive, archive.open("ml-1m/ratings.dat") as lines:
            fields = np.array([line.split(b"::")[:3] for line in lines], dtype=np.int64)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise unreadable(path, f"it is not the archive ml-1m.zip ({error})") from error
    _, users = np.unique(fields[:, 0], return_inverse=True)
    _, items = np.unique(fields[:, 1], return_inverse=True)
    name, licence = "MovieLens-1M", _MOVIELENS.licence
    return Ratings(
        users.astype(np.int64),
        items.astype(np.int64),
        fields[:, 2].astype(np.float64),
        name,
        str(path),
        licence,
    )


def mammals_embedding(*, download: bool = True) -> dict[str, np.ndarray]:
    """An embedding of the mammals of WordNet that was trained by the authors of RFedAGS, only where
    it is in `RIEMDP_DATA`.

    Keys: `laplacian_features` (1180, 3), `lorentz_embedding` (1180, 3) with the time coordinate
    first, `poincare_embedding` (1180, 2), `test_feature` (3,), `test_embedding` (3,) of the word
    'horse'. Lorentz points are projected back to the hyperboloid (the file stores them to limited
    accuracy).
    """
    path = find(_EMBEDDING, download=download)
    keys = (
        "laplacian_features",
        "lorentz_embedding",
        "poincare_embedding",
        "test_feature",
        "test_embedding",
    )
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key].astype(np.float64) for key in keys}
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise unreadable(path, f"it needs the arrays {', '.join(keys)} ({error})") from error
    for key in ("lorentz_embedding", "test_embedding"):
        arrays[key][..., 0] = np.sqrt(1.0 + np.sum(arrays[key][..., 1:] ** 2, axis=-1))
    return arrays


def _read_mat(
    file: PublicFile, key: str, shape: tuple[int, int], name: str, download: bool
) -> Table:
    path = find(file, download=download)
    try:
        values = np.asarray(loadmat(path)[key], dtype=np.float64)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise unreadable(path, f"it has no matrix `{key}` ({error})") from error
    if values.shape != shape:
        raise unreadable(path, f"`{key}` has shape {values.shape}, expected {shape}")
    return Table(values, name, str(path), file.licence)
