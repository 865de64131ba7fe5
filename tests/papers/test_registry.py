"""The frame of the experiments: names, whole-or-nothing folders, resuming."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import papers
from papers import Context, Result
from papers import __main__ as commands
from papers import registry as registry_module
from papers.registry import experiment, is_done, names, run, run_all
from papers.runs import quarters, spread
from riemdp import InvalidArgument


class _Figure:
    def savefig(self, path, dpi=None):
        path.write_text("drawing")


def _result(rows):
    return Result(
        rows=rows,
        figure=_Figure(),
        paper_shows="a",
        published="b",
        certified="c",
        true_epsilon="d",
        data="none",
    )


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(registry_module, "_REGISTRY", {})
    calls = []

    @experiment("han2024-figure-9z", "A made-up artefact")
    def _good(context: Context) -> Result:
        calls.append("good")
        return _result([{"x": 1, "y": 2.0}, {"x": 2, "z": 3.0}])

    @experiment("huang2024-table-9", "One that fails")
    def _bad(context: Context) -> Result:
        calls.append("bad")
        raise RuntimeError("half-way")

    return calls


def test_a_run_writes_a_whole_folder(registry, tmp_path):
    folder = run("han2024-figure-9z", out=tmp_path)
    with open(folder / "data.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert rows[0] == {"x": "1", "y": "2.0", "z": ""}
    assert "A made-up artefact" in (folder / "verdict.md").read_text()
    assert json.loads((folder / "meta.json").read_text())["quick"] is True
    assert is_done(tmp_path, "han2024-figure-9z", quick=True)
    assert not is_done(tmp_path, "han2024-figure-9z", quick=False)


def test_a_failed_run_leaves_nothing_and_an_old_result_stays(registry, tmp_path):
    with pytest.raises(RuntimeError, match="half-way"):
        run("huang2024-table-9", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_result(registry, tmp_path, monkeypatch):
    folder = run("han2024-figure-9z", out=tmp_path)
    before = (folder / "meta.json").read_text()
    monkeypatch.setattr(
        _Figure, "savefig", lambda self, path, dpi=None: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        run("han2024-figure-9z", out=tmp_path)
    assert (folder / "meta.json").read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["han2024-figure-9z"]


def test_run_all_goes_on_where_it_stopped(registry, tmp_path):
    with pytest.raises(RuntimeError):
        run_all(out=tmp_path)
    with pytest.raises(RuntimeError):
        run_all(out=tmp_path)
    assert registry == ["good", "bad", "bad"]


def test_names_are_ordered_and_unknown_ones_refused(registry):
    assert names() == ["han2024-figure-9z", "huang2024-table-9"]
    with pytest.raises(InvalidArgument, match="han2024-figure-9z"):
        run("han2024-figure-9")
    with pytest.raises(InvalidArgument, match="start it with"):
        experiment("smith2020-figure-1", "no such paper")
    with pytest.raises(InvalidArgument, match="registered already"):
        experiment("han2024-figure-9z", "again")(lambda c: _result([]))


def test_quartiles_with_runs_that_did_not_stay_finite():
    y = np.array([[1.0, np.inf], [2.0, np.inf], [3.0, np.inf], [4.0, 1.0]])
    low, middle, high = quarters(y)
    assert (low[0], middle[0], high[0]) == (1.75, 2.5, 3.25)
    assert middle[1] == high[1] == np.inf
    assert spread(y[:, 0]) == "2.5 (1.75 to 3.25)"
    assert spread(y[:, 1]) == "not finite in most runs"
    assert "nan" not in spread(np.array([1.0, 2.0, 3.0, np.inf, np.inf]))


def test_an_interrupted_run_all_says_what_is_whole_and_ends_with_130(monkeypatch, tmp_path, capsys):
    left = []

    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(papers, "run_all", interrupted)
    monkeypatch.setattr(papers, "is_done", lambda out, name, quick: name.startswith("reimherr"))
    monkeypatch.setattr(commands, "_leave", left.append)
    commands.run_all(quick=False, out=tmp_path)
    assert left == [130]
    said = " ".join(capsys.readouterr().err.split())
    assert f"5 of {len(papers.names())} results are whole" in said
    assert "goes on where it stopped" in said


def test_the_commands_list_run_and_refuse(registry, tmp_path):
    shell = CliRunner()
    listed = shell.invoke(commands.app, ["list", "--json"])
    assert json.loads(listed.output) == {"experiments": papers.names()}
    assert shell.invoke(commands.app, ["list"]).output.split() == papers.names()
    done = shell.invoke(
        commands.app, ["run", "han2024-figure-9z", "--full", "--out", str(tmp_path), "--json"]
    )
    assert json.loads(done.output)["quick"] is False
    assert is_done(tmp_path, "han2024-figure-9z", quick=False)
    unknown = shell.invoke(commands.app, ["run", "nobody-figure-1"])
    assert unknown.exit_code == 2
    assert "python -m papers list" in unknown.output
