"""Loaders on small files that the tests write themselves, on the real ones where they are, and
without a network.
"""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from papers import data as datasets
from papers.data import files as _files
from papers.data import images as _images
from papers.data import tables as _tables
from riemdp import DataUnavailable, InvalidArgument

REAL = os.environ.get("RIEMDP_DATA", "")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty RIEMDP_DATA and an empty cache."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("RIEMDP_DATA", str(data))
    monkeypatch.setenv("RIEMDP_CACHE", str(cache))
    return data, cache


def _idx(array):
    return (
        struct.pack(">BBBB", 0, 0, 8, array.ndim)
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def _write_mnist(folder, n=5):
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    truth = {}
    for part in ("train", "t10k"):
        images, labels = (
            rng.integers(0, 256, (n, 28, 28)).astype(np.uint8),
            rng.integers(0, 10, n).astype(np.uint8),
        )
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(_idx(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(_idx(labels)))
        truth[part] = images, labels
    return truth


@pytest.mark.parametrize(
    ("loader", "folder"),
    [("mnist", "mnist"), ("fashion_mnist", "fashion_mnist"), ("kmnist", "kmnist")],
)
def test_idx_family(folders, loader, folder):
    truth = _write_mnist(folders[0] / folder)
    load = getattr(datasets, loader)
    train, both = load(), load("all")
    np.testing.assert_array_equal(train.images, truth["train"][0])
    np.testing.assert_array_equal(
        both.labels, np.concatenate([truth["train"][1], truth["t10k"][1]])
    )
    assert len(both) == 10
    assert len(both.classes) == 10
    assert len(both.of_class(3)) == np.sum(both.labels == 3)
    for wrong in (10, "no such class"):
        with pytest.raises(InvalidArgument, match="label"):
            both.of_class(wrong)
    with pytest.raises(InvalidArgument, match="split"):
        load("validation")


@pytest.mark.parametrize("damage", ["truncate", "magic", "gzip", "labels"])
def test_damaged_idx_files_are_refused_by_name(folders, damage):
    folder = folders[0] / "mnist"
    _write_mnist(folder)
    path = folder / "train-images-idx3-ubyte.gz"
    raw = gzip.decompress(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(gzip.compress(raw[:-3]))
    elif damage == "magic":
        path.write_bytes(gzip.compress(b"\0\0\x0d" + raw[3:]))
    elif damage == "gzip":
        path.write_bytes(path.read_bytes()[:40])
    else:
        (folder / "train-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(_idx(np.zeros(4, np.uint8)))
        )
    with pytest.raises(DataUnavailable, match="train-images"):
        datasets.mnist()


def test_medmnist(folders):
    rng = np.random.default_rng(2)
    (folders[0] / "medmnist").mkdir()
    arrays = {
        f"{s}_images": rng.integers(0, 256, (4, 28, 28, 3)).astype(np.uint8)
        for s in ("train", "val", "test")
    }
    arrays |= {
        f"{s}_labels": rng.integers(0, 9, (4, 1)).astype(np.uint8) for s in ("train", "val", "test")
    }
    np.savez(folders[0] / "medmnist" / "pathmnist.npz", **arrays)
    images = datasets.pathmnist("all")
    assert images.images.shape == (12, 28, 28, 3)
    np.testing.assert_array_equal(images.labels[4:8], arrays["val_labels"][:, 0])
    (folders[0] / "medmnist" / "octmnist.npz").write_bytes(b"not an archive")
    with pytest.raises(DataUnavailable, match=r"octmnist\.npz"):
        datasets.octmnist()


def _write_cifar(path, batch):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            raw = pickle.dumps(batch, protocol=2)
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))


def test_cifar10_reads_arrays_and_runs_no_code(folders, tmp_path):
    path = folders[0] / "cifar10" / "cifar-10-python.tar.gz"
    rows = np.random.default_rng(3).integers(0, 256, (2, 3072)).astype(np.uint8)
    _write_cifar(path, {b"data": rows, b"labels": [7, 2]})
    images = datasets.cifar10()
    assert images.images.shape == (10, 32, 32, 3)
    assert images.images[0, 1, 2, 1] == rows[0, 1024 + 32 + 2]

    witness = tmp_path / "code-ran"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(witness),)

    _write_cifar(path, {b"data": Evil(), b"labels": [7, 2]})
    with pytest.raises(DataUnavailable, match="cifar"):
        datasets.cifar10("test")
    assert not witness.exists()


def test_movielens(folders):
    (folders[0] / "movielens").mkdir()
    with zipfile.ZipFile(folders[0] / "movielens" / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/ratings.dat", "1::10::5::978\n1::30::3::978\n7::10::4::978\n")
    ratings = datasets.movielens_1m()
    values, observed = ratings.matrix()
    np.testing.assert_array_equal(values, [[5, 3], [4, 0]])
    np.testing.assert_array_equal(observed, [[1, 1], [1, 0]])


def test_erp_scale_is_a_public_constant(folders):
    (folders[0] / "erp").mkdir()
    small = np.stack([np.eye(4), 2 * np.eye(4)]) * 1e-25
    np.savez(folders[0] / "erp" / "ERP.npz", covariance=small, label=np.array(["LV", "LA"]))
    got = datasets.erp_covariances()
    np.testing.assert_allclose(got.matrices[1], 2 * np.eye(4))
    assert got.classes == ("LA", "LV")
    assert got.labels.tolist() == [1, 0]


def test_nothing_there_and_no_network(folders, monkeypatch):
    """Every downloadable file ends in one error that names the address and the place, and leaves no
    half file behind.
    """
    import pooch

    def no_network(*_, **__):
        raise OSError("network is unreachable")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    files = [
        *_images._MNIST.values(),
        *_images._FASHION.values(),
        *_images._KMNIST.values(),
        _images._PATHMNIST,
        _images._OCTMNIST,
        _images._CIFAR10,
        _tables._IJCNN_MAT,
        _tables._SATIMAGE_MAT,
        _tables._ERP,
        _tables._MOVIELENS,
        _tables._EMBEDDING,
    ]
    for file in files:
        with pytest.raises(DataUnavailable) as caught:
            _files.find(file)
        message = str(caught.value)
        assert f"$RIEMDP_DATA/{file.folder}/{file.name}" in message
        assert file.licence in message
        assert all(url in message for url in file.urls)
    with pytest.raises(DataUnavailable, match="switched off"):
        datasets.mnist(download=False)
    assert not folders[1].exists()


def test_cache_is_used_only_with_the_right_checksum(folders):
    import hashlib

    content = b"the published bytes"
    file = _files.PublicFile(
        "set", "file.bin", (), "md5:" + hashlib.md5(content).hexdigest(), "public domain"
    )
    path = folders[1] / "set" / "file.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert _files.find(file) == path
    path.write_bytes(b"tampered")
    with pytest.raises(DataUnavailable):
        _files.find(file, download=False)


def test_download_is_checked_and_shown(folders, tmp_path):
    """A real download through pooch from a local server: right checksum kept, wrong one refused and
    not left in the cache.
    """
    import functools
    import hashlib
    import http.server
    import threading

    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "file.bin").write_bytes(b"x" * 5000)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path / "served")
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/file.bin"
        right = "sha256:" + hashlib.sha256(b"x" * 5000).hexdigest()
        wrong = _files.PublicFile("set", "wrong.bin", (url,), "sha256:" + "0" * 64, "public domain")
        with pytest.raises(DataUnavailable, match="hash"):
            _files.find(wrong)
        assert not (folders[1] / "set" / "wrong.bin").exists()
        good = _files.PublicFile(
            "set", "file.bin", (url + ".missing", url), right, "public domain"
        )  # the mirror answers
        assert _files.find(good).read_bytes() == b"x" * 5000
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.skipif(
    not REAL, reason="RIEMDP_DATA is not set: the real files are not on this machine"
)
def test_real_files():
    mnist = datasets.mnist("all")
    assert np.bincount(mnist.labels)[[0, 1]].tolist() == [6903, 7877]
    assert datasets.riemopt_ijcnn().values.shape == (49990, 14)
    assert datasets.riemopt_satimage().values.shape == (6430, 36)
    erp = datasets.erp_covariances()
    assert np.bincount(erp.labels).tolist() == [57, 49, 57, 53] or sorted(
        np.bincount(erp.labels)
    ) == [49, 53, 57, 57]
    assert np.linalg.eigvalsh(erp.matrices).min() > 0
    points = datasets.mammals_embedding()["lorentz_embedding"]
    np.testing.assert_allclose(
        -(points[:, 0] ** 2) + np.sum(points[:, 1:] ** 2, axis=1), -1, atol=1e-8
    )
