"""The recipes of the pages that read the files of other packages, run as they stand there against
the real packages: epochs of MNE, diffusion tensors in NIfTI, tables of pandas.

Their blocks are marked `py`, so that the quick tests, which have none of these packages, do not run
them.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import riemdp

from .test_code_blocks import ROOT

HOWTO = ROOT / "docs" / "howto"
RECIPE = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
RNG = np.random.default_rng(7)
CHANNELS = ["Fz", "Cz", "Pz"]

pytestmark = pytest.mark.conformance


def recipe(page: str, package: str) -> str:
    recipes = RECIPE.findall((HOWTO / page).read_text(encoding="utf-8"))
    (code,) = [code for code in recipes if f"import {package}\n" in code]
    return code


def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__docs__"}
    exec(code, names)
    return names


def matrices(n: int) -> np.ndarray:
    a = RNG.normal(size=(n, 3, 30))
    return a @ a.transpose(0, 2, 1) / 30


@pytest.fixture(autouse=True)
def _there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------------------------------------
# epochs
def write_epochs(file: str, *, constant: bool = False, names: tuple[str, ...] = ("a", "b")) -> Any:
    """Noise on EEG channels, a bad one among them, and a stimulus channel that holds the labels."""
    import mne

    kinds = {"Fz": "eeg", "bad": "eeg", "Cz": "eeg", "EOG": "eog", "Pz": "eeg", "STI 014": "stim"}
    info = mne.create_info(list(kinds), 100.0, list(kinds.values()))
    starts, length = np.arange(50, 1950, 50), 2000
    data = 1e-5 * RNG.normal(size=(len(kinds), length))
    codes = 1 + np.arange(len(starts)) % 2
    data[5] = 0.0
    for start, code in zip(starts, codes, strict=True):
        data[5, start : start + 40] = code
    if constant:
        data[2] = 3e-6
    raw = mne.io.RawArray(data, info, verbose="error")
    raw.info["bads"] = ["bad"]
    events = np.stack([starts, np.zeros_like(starts), codes], axis=1)
    epochs = mne.Epochs(
        raw,
        events,
        {names[0]: 1, names[1]: 2},
        tmin=0.0,
        tmax=0.4,
        baseline=None,
        picks="all",
        preload=True,
        verbose="error",
    )
    epochs.save(file, verbose="error")
    return epochs


def test_epochs_give_covariances_of_good_data_channels() -> None:
    """At cb83de5 the stimulus channel was among them: right about new noise every time."""
    written = [write_epochs(f"sub-0{i}-epo.fif") for i in (1, 2)]
    found = run(recipe("pyriemann.md", "mne"))
    assert found["channels"] == CHANNELS
    assert found["X"].shape == (76, 3, 3)
    signals = np.concatenate([e.get_data(picks=CHANNELS) for e in written])
    np.testing.assert_allclose(found["X"], [np.cov(x) for x in signals], rtol=1e-5)  # in float32
    assert found["y"].tolist() == ["a", "b"] * 38
    assert found["person"].tolist() == ["sub-01-epo.fif"] * 38 + ["sub-02-epo.fif"] * 38
    space = riemdp.spd(3, "riemann")
    assert riemdp.check_records(space, found["X"]) == []
    release = riemdp.private_frechet_mean(
        space,
        found["X"],
        riemdp.Ball(1e-10 * np.eye(3), 2.0),
        riemdp.Budget(1.0, 1e-6),
        groups=found["person"],
        rng=0,
    )
    assert release.details["n"] == 2
    assert release.guarantee.unit == "person"


def test_a_constant_channel_is_named_and_other_channels_are_refused() -> None:
    write_epochs("sub-01-epo.fif", constant=True)
    write_epochs("sub-02-epo.fif")
    with pytest.raises(ValueError, match=r"sub-01-epo.fif: constant channels \['Cz'\]"):
        run(recipe("pyriemann.md", "mne"))


# ------------------------------------------------------------------------------------------------
# diffusion tensors
def lower_triangles(tensors: np.ndarray, order: str) -> np.ndarray:
    """Six numbers a tensor, as dipy writes them for each program."""
    from dipy.reconst.dti import lower_triangular
    from dipy.reconst.utils import convert_tensors

    six = lower_triangular(tensors)
    if order == "dipy":
        return six
    return convert_tensors(six, "dipy", {"nifti": "ants"}.get(order, order))


def write_tensors(file: str, tensors: np.ndarray, order: str) -> None:
    import nibabel

    six = np.asarray(lower_triangles(tensors, order), dtype=np.float32)
    image = nibabel.Nifti1Image(six, np.eye(4))
    if order == "nifti":
        image.header.set_intent("symmetric matrix", (3,))
    nibabel.save(image, file)


@pytest.mark.parametrize("order", ["fsl", "nifti", "mrtrix", "dipy"])
def test_tensors_are_read_in_the_order_of_each_program(order, capsys) -> None:
    """At cb83de5 no option read MRtrix's order: 462 of 512 voxels were no tensors."""
    import nibabel

    mask = np.arange(60).reshape(3, 4, 5) % 2 == 0
    nibabel.save(nibabel.Nifti1Image(mask.astype(np.uint8), np.eye(4)), "mask.nii.gz")
    scans = [matrices(60).reshape(3, 4, 5, 3, 3) for _ in range(2)]
    for i, scan in enumerate(scans, 1):
        write_tensors(f"sub-0{i}_tensor.nii.gz", scan, order)
    code = recipe("spd.md", "nibabel")
    assert '"mrtrix", mask' in code
    found = run(code.replace('"mrtrix", mask', f'"{order}", mask'))
    expected = np.concatenate([scan[mask] for scan in scans])
    np.testing.assert_allclose(found["X"], expected, rtol=1e-6, atol=1e-6)
    assert found["person"].tolist() == [f for f in found["files"] for _ in range(30)]
    assert capsys.readouterr().out == "0 of 60 voxels: no tensors\n"
    release = riemdp.private_frechet_mean(
        riemdp.SPDLogEuclidean(3),
        found["X"],
        riemdp.Ball(np.eye(3), 2.0),
        riemdp.Budget(1.0, 1e-6),
        groups=found["person"],
        rng=0,
    )
    assert release.details["n"] == 2
    assert release.guarantee.unit == "person"


def test_another_order_is_seen() -> None:
    """What the page says of a wrong order."""
    scan = matrices(512).reshape(8, 8, 8, 3, 3)
    write_tensors("a.nii", scan, "mrtrix")
    code = recipe("spd.md", "nibabel").partition("files = ")[0]
    X = run(code)["tensors"]("a.nii", "fsl", np.ones((8, 8, 8), bool))
    assert len(riemdp.check_records(riemdp.spd(3, "riemann"), X)) > 256


# ------------------------------------------------------------------------------------------------
# tables
def test_a_table_gives_matrices_and_whose_they_are() -> None:
    import pandas

    given = np.tile(matrices(60), (20, 1, 1))
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    columns = {f"{CHANNELS[i]}-{CHANNELS[j]}": given[:, i, j] for i, j in reversed(pairs)}
    who = [f"patient {i // 2}" for i in range(1200)]
    pandas.DataFrame({**columns, "patient": who}).to_csv("matrices.csv", index=False)
    found = run(recipe("spd.md", "pandas"))
    np.testing.assert_allclose(found["X"], given, rtol=1e-12)
    release = found["release"]
    assert release.guarantee.unit == "person"
    assert release.details["people"] == 600
    assert list(found["frame"].columns) == list(found["frame"].index) == CHANNELS
    np.testing.assert_array_equal(found["frame"].to_numpy(), release.value)
