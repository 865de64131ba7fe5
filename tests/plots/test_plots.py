"""Pictures hold what was given, leave matplotlib alone, and are written whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import riemdp
from riemdp import InvalidArgument, plots


def _line(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def test_error_against_epsilon_draws_the_numbers():
    ax = plots.error_against_epsilon(
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


def test_trade_off_curve_of_a_pure_guarantee_is_the_known_polygon():
    eps = 1.0
    ax = plots.trade_off_curve({"pure": riemdp.pure(eps)})
    alpha, beta = _line(ax, "pure").get_xydata().T
    wanted = np.maximum(0, np.maximum(1 - np.exp(eps) * alpha, np.exp(-eps) * (1 - alpha)))
    # the drawn curve is an envelope over a grid of epsilon: never above the true one (that would
    # overstate privacy)
    assert np.all(beta <= wanted + 1e-9)
    assert np.max(wanted - beta) < 0.02
    stronger = _line(plots.trade_off_curve({"pure": riemdp.pure(0.1)}), "pure").get_ydata()
    assert np.all(stronger >= beta - 1e-9)


def test_expected_error_table_marks_the_best_eligible_row():
    budget = riemdp.Budget(1.0)
    rows = [
        SimpleNamespace(
            mechanism=m,
            budget=budget,
            expected_error=e,
            eligible=ok,
            typical_error=typical,
        )
        for m, e, ok, typical in [
            ("one", 2.0, True, 1.5),
            ("two", 1.0, False, None),
            ("three", 3.0, True, 1.4),
            ("none", None, False, None),
        ]
    ]
    ax = plots.expected_error_table(rows)
    assert sorted(bar.get_width() for bar in ax.patches) == [1.0, 2.0, 3.0]
    marked = [t.get_text() for t in ax.texts if "auto" in t.get_text()]
    assert marked == [" 3  (auto)"]


@pytest.mark.parametrize("dim", [26, 31])
def test_what_a_table_of_errors_marks_is_what_auto_picks(dim):
    """The largest error of all and the typical one do not order the mechanisms alike here."""
    space = riemdp.Lorentz(dim)
    plan = riemdp.plan_private_mean(
        space, riemdp.Ball(space.origin, 1.0), 1000, riemdp.Budget(1.0, 1e-6)
    )
    ax = plots.expected_error_table(plan)
    (marked,) = [t for t in ax.texts if "auto" in t.get_text()]
    best = plan.best()
    assert marked.get_text() == f" {best.expected_error:.3g}  (auto)"
    names = [label.get_text().split(",")[0] for label in ax.get_yticklabels()]
    at = list(ax.get_yticks()).index(marked.xy[1])
    assert names[at] == best.mechanism


def test_ellipse_has_half_axes_root_eigenvalue():
    ax = plots.spd_ellipses({"one": np.diag([4.0, 0.25])})
    outline = _line(ax, "one").get_xydata()
    np.testing.assert_allclose(outline.max(0), [2.0, 0.5], rtol=1e-3)
    np.testing.assert_allclose(
        np.einsum("ni,ij,nj->n", outline, np.diag([0.25, 4.0]), outline), 1.0
    )


def test_disk_accepts_the_hyperboloid_and_draws_geodesics():
    from riemdp.manifolds import Lorentz, PoincareBall

    points = np.array([[0.5, 0.0], [0.0, 0.5], [-0.3, 0.2]])
    sq = np.sum(points**2, axis=1, keepdims=True)
    lifted = np.concatenate([(1 + sq) / (1 - sq), 2 * points / (1 - sq)], axis=1)
    assert bool(np.all(np.asarray(Lorentz(3).belongs(lifted))))
    ax = plots.poincare_disk(lifted, edges=[(0, 1)], highlight={"mean": [0.1, 0.1]})
    np.testing.assert_allclose(ax.collections[1].get_offsets(), points, atol=1e-12)
    arc = ax.collections[0].get_segments()[0]
    ball = PoincareBall(2)
    along = np.asarray(ball.dist(points[0], arc)) + np.asarray(ball.dist(arc, points[1]))
    np.testing.assert_allclose(along, float(ball.dist(points[0], points[1])), rtol=1e-9)


def test_regions_are_drawn_where_they_are():
    """The edges of confidence regions, on the disk, the sphere and as ellipses."""
    for space, draw in (
        (riemdp.PoincareBall(2), plots.poincare_disk),
        (riemdp.Lorentz(3), plots.poincare_disk),
        (riemdp.Sphere(3), plots.unit_sphere),
    ):
        X = np.tile(np.asarray(space.origin), (60, 1))
        release = riemdp.private_frechet_mean(
            space, X, riemdp.Ball(space.origin, 0.4), riemdp.Budget(1.0, 1e-6), rng=1
        )
        edge = np.asarray(release.confidence_region().boundary(40))
        ax = draw(X, regions={"95 %": edge}, highlight={"mean": release.value})
        assert len(_line(ax, "95 %").get_xydata()) == 40
        assert {text.get_text() for text in ax.get_legend().get_texts()} == {"95 %", "mean"}
        assert len(ax.patches) >= 2
    ring = 0.5 * np.stack([np.cos(np.arange(9.0)), np.sin(np.arange(9.0))], axis=1)
    ax = plots.poincare_disk(np.zeros((1, 2)), regions={"ring": ring})
    np.testing.assert_allclose(_line(ax, "ring").get_xydata(), ring)


def test_the_sphere_is_seen_from_where_the_points_are():
    points = np.array([[0.0, 0.6, 0.8], [0.0, -0.6, 0.8], [0.0, 0.0, -1.0]])
    ax = plots.unit_sphere(points)
    at = np.asarray(ax.collections[0].get_offsets())
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), [0.6, 0.6, 0.0], atol=1e-12)
    opacity = ax.collections[0].get_facecolors()[:, 3]
    assert opacity[0] == opacity[1] > opacity[2]  # the third is on the far side
    assert plots.unit_sphere(np.zeros((0, 3))) is not ax


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
        lambda: plots.error_against_epsilon({}),
        lambda: plots.error_curves({"x": [(0.0, 1.0)]}),
        lambda: plots.error_curves({"x": [(1.0, 1.0, 1.0)]}),
        lambda: plots.trade_off_curve({}),
        lambda: plots.trade_off_curve("strong"),
        lambda: plots.expected_error_table([]),
        lambda: plots.poincare_disk([[2.0, 0.0]]),
        lambda: plots.poincare_disk([[0.1, 0.0]], edges=[(0, 5)]),
        lambda: plots.poincare_disk([[0.1, 0.0]], regions={"a": [[2.0, 0.0]]}),
        lambda: plots.unit_sphere([[1.0, 1.0, 0.0]]),
        lambda: plots.unit_sphere([[1.0, 0.0]]),
        lambda: plots.spd_ellipses(np.diag([1.0, -1.0])),
        lambda: plots.spd_ellipses(np.eye(3)),
        lambda: plots.error_curves({"x": [(1.0, 1.0)]}, ax="here"),
        lambda: plots.save("picture", "x"),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(InvalidArgument):
        call()
