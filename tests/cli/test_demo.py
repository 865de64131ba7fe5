"""The demo end to end: files, numbers, the ledger, and nothing left behind when it fails."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import riemdp
from tests.seam import Commands


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    Commands.run_demo(folder, quick=True)
    return folder


def test_files_are_all_there_and_nothing_else(out):
    assert {p.name for p in out.iterdir()} <= {*Commands.FILES}
    assert {*Commands.FILES} - {p.name for p in out.iterdir()} <= {"ledger.json.lock"}
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    with np.load(out / "released-means.npz") as means:
        assert sorted(means.files) == ["epsilon-1", "epsilon-4"]
        assert all(np.linalg.eigvalsh(means[name]).min() > 0 for name in means.files)


def test_every_release_is_in_the_ledger_and_one_is_on_the_page(out):
    ledger = riemdp.Ledger.open(out / "ledger.json")
    assert ledger.charges == 2
    assert 4.0 < ledger.spent.epsilon(1e-5) < 5.0
    report = json.loads((out / "privacy-report.json").read_text())
    assert report["private"] is True
    assert report["in_ledger"] is True
    assert report["guarantee"]["epsilon"] <= 1.0
    assert report["one_record_is"] == "one image of a handwritten digit"


def test_private_means_are_useful(out):
    """Nearer to the mean than a tenth of the distance of a typical image."""
    with (out / "measured-error-NOT-PRIVATE.csv").open() as lines:
        rows = list(csv.reader(lines))[2:]
    assert len(rows) == 2
    for _, measured, noise in rows:
        assert float(measured) < 0.2
        assert float(noise) < 0.2


def test_a_folder_with_other_content_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(Commands.InputProblem, match="other content"):
        Commands.run_demo(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(Commands.InputProblem, match="other content"):
        Commands.run_demo(tmp_path / "thesis.tex")


def test_a_failure_leaves_nothing_and_keeps_the_old_output(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "privacy-report.html").write_text("from before")

    def fails(*_, **__):
        raise RuntimeError("interrupted")

    monkeypatch.setattr(riemdp.statistics, "frechet_mean", fails)
    with pytest.raises(RuntimeError, match="interrupted"):
        Commands.run_demo(out)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / "privacy-report.html").read_text() == "from before"
