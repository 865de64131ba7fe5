"""Pictures hold what was given, leave matplotlib alone, and are written whole or not at all."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from riemdp import InvalidArgument, plots


def _line(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def test_error_against_epsilon_draws_the_numbers():
    ax = plots.error_curves(
        {"a": [(2.0, 0.5), (1.0, 1.0), (4.0, None)]},
        {"a": {1.0: [0.8, 1.2], 2.0: [0.4, 0.6, 0.5]}},
        reference=("typical", 0.7),
    )
    np.testing.assert_allclose(_line(ax, "a").get_xydata(), [[1, 1], [2, 0.5]])
    centre = next(c for c in ax.containers if c.get_label() == "a: measured").lines[0].get_ydata()
    np.testing.assert_allclose(
        centre, [np.sqrt((0.64 + 1.44) / 2), np.sqrt((0.16 + 0.36 + 0.25) / 3)]
    )
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_title(loc="left")


def test_error_curves_is_what_a_plan_calls():
    ax = plots.error_curves({"x": [(1.0, 2.0), (3.0, 1.0)]})
    np.testing.assert_allclose(_line(ax, "x").get_xydata(), [[1, 2], [3, 1]])
    assert plots.error_curves({"y": [(1.0, 2.0)]}, ax=ax) is ax


def test_save_writes_both_or_neither(tmp_path, monkeypatch):
    ax = plots.error_curves({"x": [(1.0, 2.0), (3.0, 1.0)]})
    png, svg = plots.save(ax, tmp_path / "fig.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fig.png", "fig.svg"]
    first = (tmp_path / "fig.png").read_bytes(), (tmp_path / "fig.svg").read_bytes()
    plots.save(plots.error_curves({"x": [(1.0, 2.0), (3.0, 1.0)]}), tmp_path / "fig")
    assert first == ((tmp_path / "fig.png").read_bytes(), (tmp_path / "fig.svg").read_bytes())
    figure = ax.figure
    honest = figure.savefig

    def breaks(path, format=None, **options):
        if format == "svg":
            raise OSError("disk full")
        return honest(path, format=format, **options)

    monkeypatch.setattr(figure, "savefig", breaks)
    with pytest.raises(OSError, match="disk full"):
        plots.save(ax, tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fig.png", "fig.svg"]
    assert png.endswith(".png")
    assert svg.endswith(".svg")


def test_matplotlib_is_lazy_and_its_state_untouched():
    code = (
        "import sys, riemdp.plots as p; assert 'matplotlib' not in sys.modules;import matplotlib;"
        " before = dict(matplotlib.rcParams); p.error_curves({'x': [(1, 2), (2, 1)]});assert"
        " dict(matplotlib.rcParams) == before; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: plots.error_curves({}),
        lambda: plots.error_curves({"x": [(0.0, 1.0)]}),
        lambda: plots.error_curves({"x": [(1.0, 1.0, 1.0)]}),
        lambda: plots.error_curves({"x": [(1.0, 1.0)]}, ax="here"),
        lambda: plots.save("picture", "x"),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(InvalidArgument):
        call()
