"""Triangles, diffusion tensors and epochs.

nibabel and MNE are no dependency of the tests. Where they are missing, stand-ins with the same
interface take their place. Tested is what riemdp asks of them, and what it makes of the answer.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import riemdp
from riemdp.datasets import from_upper_triangles, read_diffusion_tensors, read_epochs

LOWER = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]  # of the NIfTI standard
UPPER = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]  # of FSL
RNG = np.random.default_rng(0)
A = RNG.normal(size=(24, 3, 5))
TENSORS = A @ A.transpose(0, 2, 1)


def six(matrices, order):
    return np.stack([matrices[..., i, j] for i, j in order], axis=-1)


def test_triangles_in_both_orders():
    np.testing.assert_array_equal(from_upper_triangles(six(TENSORS, UPPER)), TENSORS)
    np.testing.assert_array_equal(from_upper_triangles(six(TENSORS, LOWER), order="lower"), TENSORS)
    assert not np.allclose(from_upper_triangles(six(TENSORS, LOWER)), TENSORS)
    assert from_upper_triangles([[4.0]]).shape == (1, 1, 1)
    one_bad = six(TENSORS, UPPER)
    one_bad[3] = np.nan
    got = from_upper_triangles(one_bad)
    assert np.isnan(got[3]).all()
    np.testing.assert_array_equal(np.delete(got, 3, 0), np.delete(TENSORS, 3, 0))


@pytest.mark.parametrize("rows", [np.ones((2, 5)), np.ones(6), [["a"] * 6], np.ones((2, 0))])
def test_other_tables_are_refused(rows):
    with pytest.raises(riemdp.InvalidArgument, match="rows"):
        from_upper_triangles(rows)
    with pytest.raises(riemdp.InvalidArgument, match="order"):
        from_upper_triangles(np.ones((2, 6)), order="column")


@pytest.fixture
def nifti(tmp_path, monkeypatch):
    """Saves a volume as NIfTI, by nibabel or by a stand-in that keeps arrays in npy files."""
    try:
        import nibabel

        def save(name, volume):
            nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), tmp_path / name)
            return tmp_path / name
    except ImportError:
        module = types.ModuleType("nibabel")

        def load(name):
            with open(name, "rb") as stream:
                return types.SimpleNamespace(dataobj=np.load(stream))

        module.load = load
        monkeypatch.setitem(sys.modules, "nibabel", module)

        def save(name, volume):
            with open(tmp_path / name, "wb") as stream:
                np.save(stream, volume)
            return tmp_path / name

    return save


def test_diffusion_tensors_of_two_people(nifti):
    volume = six(TENSORS, LOWER).reshape(2, 3, 4, 6)
    plain, long = nifti("a.nii", volume), nifti("b.nii", volume[:, :, :, None])
    records = read_diffusion_tensors([plain, long])
    assert records.X.shape == (48, 3, 3)
    np.testing.assert_allclose(records.X[:24], TENSORS)
    np.testing.assert_allclose(records.X[24:], TENSORS)
    np.testing.assert_array_equal(records.people, np.repeat([0, 1], 24))
    mask = np.zeros((2, 3, 4))
    mask[1, 2, 3] = mask[0, 0, 1] = 1
    np.testing.assert_allclose(read_diffusion_tensors(plain, mask=mask).X, TENSORS[[1, 23]])
    fsl = nifti("c.nii", six(TENSORS, UPPER).reshape(2, 3, 4, 6))
    np.testing.assert_allclose(read_diffusion_tensors(fsl, order="upper").X, TENSORS)
    release = riemdp.private_frechet_mean(
        riemdp.SPDLogEuclidean(3),
        records.X,
        riemdp.Ball(np.eye(3), 2.0),
        riemdp.Budget(1.0, 1e-6),
        groups=records.people,
        rng=0,
    )
    assert release.details["n"] == 2
    assert release.guarantee.unit == "person"


def test_other_volumes_are_refused(nifti, tmp_path):
    scalar = nifti("fa.nii", np.ones((2, 3, 4)))
    with pytest.raises(riemdp.InvalidArgument, match="diffusion tensors"):
        read_diffusion_tensors(scalar)
    good = nifti("a.nii", six(TENSORS, LOWER).reshape(2, 3, 4, 6))
    with pytest.raises(riemdp.InvalidArgument, match="mask"):
        read_diffusion_tensors(good, mask=np.ones((2, 3, 3)))
    (tmp_path / "bad.nii").write_bytes(b"nothing")
    with pytest.raises(riemdp.InvalidArgument, match=r"bad\.nii cannot be read"):
        read_diffusion_tensors(tmp_path / "bad.nii")
    with pytest.raises(riemdp.InvalidArgument, match="files"):
        read_diffusion_tensors([])


class Epochs:
    """The interface of `mne.Epochs` that is used."""

    def __init__(self):
        self.signals = 1e-5 * RNG.normal(size=(6, 3, 50))
        self.events = np.array([[i, 0, 1 + i % 2] for i in range(6)])
        self.event_id = {"left": 1, "right": 2}
        self.ch_names = ["C3", "Cz", "C4"]

    def get_data(self):
        return self.signals


def test_epochs_keep_labels_and_channels():
    epochs = Epochs()
    records = read_epochs(epochs)
    assert records.channels == ("C3", "Cz", "C4")
    assert records.labels.tolist() == ["left", "right"] * 3
    np.testing.assert_array_equal(records.signals, epochs.signals)
    expected = [np.cov(x, bias=True) for x in epochs.signals]
    np.testing.assert_allclose(records.covariances(), expected, rtol=1e-10)
    # each covariance depends on its own epoch only
    epochs.signals = epochs.signals.copy()
    epochs.signals[2] *= 100
    changed = read_epochs(epochs).covariances()
    others = [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(changed[others], records.covariances()[others])
    with pytest.raises(riemdp.InvalidArgument, match="source"):
        read_epochs(np.ones((3, 2, 5)))


def test_a_file_of_epochs(tmp_path, monkeypatch):
    def read(name, verbose=None):
        if "bad" in str(name):
            raise OSError("no FIF")
        return Epochs()

    module = types.ModuleType("mne")
    module.read_epochs = read
    monkeypatch.setitem(sys.modules, "mne", module)
    assert read_epochs(tmp_path / "a-epo.fif").signals.shape == (6, 3, 50)
    with pytest.raises(riemdp.InvalidArgument, match=r"bad-epo\.fif cannot be read"):
        read_epochs(tmp_path / "bad-epo.fif")


def test_a_missing_package_names_its_extra(monkeypatch, tmp_path):
    for name in ("mne", "nibabel"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(riemdp.MissingExtra, match=r"riemdp\[mne\]"):
        read_epochs(tmp_path / "a-epo.fif")
    with pytest.raises(riemdp.MissingExtra, match=r"riemdp\[nifti\]"):
        read_diffusion_tensors(tmp_path / "a.nii")
