"""What the commands do when all is well: values, files, JSON, formats, and that the noise is really
there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

import riemdp as library
from riemdp import check_records
from tests.cli.conftest import spd_records
from tests.seam import Commands, plant

GOOD = (
    "--radius",
    2,
    "--epsilon",
    1,
    "--delta",
    1e-6,
    "--metric",
    "log-euclidean",
    "--mechanism",
    "wrapped-gaussian",
)


def test_mean_writes_value_report_and_ledger(riemdp, scans):
    folder = scans.parent
    riemdp("ledger", "create", folder / "book.json", "--epsilon", 2, "--delta", 1e-5)
    run = riemdp(
        "mean",
        scans,
        *GOOD,
        "--out",
        folder / "m.npz",
        "--report",
        folder / "r.html",
        "--ledger",
        folder / "book.json",
        "--json",
        "--record-is",
        "one scan",
    )
    assert run.code == 0, run.err
    said = json.loads(run.out)
    value = np.load(folder / "m.npz")["mean"]
    assert np.array_equal(value, np.array(said["mean"]))
    assert np.all(np.linalg.eigvalsh(value) > 0)
    report = json.loads((folder / "r.json").read_text())
    assert report == said["report"]
    assert report["released_sha256"] == hashlib.sha256((folder / "m.npz").read_bytes()).hexdigest()
    assert report["records"] == 60
    assert report["one_record_is"] == "one scan"
    assert "records_clamped" not in report  # an exact count of the data is on no report
    assert report["guarantee"]["epsilon"] <= 1.0 + 1e-9
    assert "this release included" in report["ledger"]
    spent = json.loads(riemdp("ledger", "show", folder / "book.json", "--json").out)
    assert spent["spent_epsilon"] == pytest.approx(
        library.Ledger.open(folder / "book.json").spent.epsilon(1e-5)
    )
    assert spent["releases"] == 1
    (entry,) = spent["entries"]
    assert entry["what"] == "mean of scans.npy"
    assert entry["epsilon"] == pytest.approx(spent["spent_epsilon"])


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_a_released_file_holds_what_is_needed_to_use_it(riemdp, scans, ending):
    """The ball and the error bar were printed, and lost with the terminal."""
    file = scans.with_name(f"m.{ending}")
    for more in (("--radius", 2), (), ("--radius", 2, "--dispersion-share", 0.3)):
        options = ("--epsilon", 5, "--delta", 1e-6, "--metric", "log-euclidean", *more)
        run = riemdp("mean", scans, *options, "--out", file, "--json", "--force")
        assert run.code == 0, run.err
        said = json.loads(run.out)
        region, ball = said["confidence_region"], said["ball"]
        assert len(said["population_regions"]) == (1 if "--dispersion-share" in more else 0)
        if ending == "json":
            assert all(json.loads(file.read_text())[k] == said[k] for k in ("mean", "ball"))
            assert json.loads(file.read_text())["confidence_region"] == region
            assert json.loads(file.read_text())["population_regions"] == said["population_regions"]
            continue
        with np.load(file) as held:
            assert np.array_equal(held["mean"], said["mean"])
            assert np.array_equal(held["ball_center"], ball["center"])
            assert held["ball_radius"] == ball["radius"]
            assert bool(held["ball_found_privately"]) is ball["found_privately"]
            assert np.array_equal(held["confidence_region_center"], region["center"])
            assert held["confidence_region_radius"] == region["radius"]
            assert held["confidence_region_level"] == 0.95
            assert str(held["confidence_region_of"]) == region["of"]
            known = [name for name in held.files if name.startswith("population")]
        assert ("population_regions_0_radius" in known) is ("--dispersion-share" in more)
        # and it is read back, as a public centre of the next release, without a --key
        assert np.array_equal(Commands.read_records(file).array, said["mean"])


def test_two_runs_differ_and_seeded_runs_agree(riemdp, scans):
    # With much noise, shrinking gives the centre itself, and two runs may well agree in it.
    little_noise = (*GOOD, "--epsilon", 20)

    def value(*more):
        run = riemdp("mean", scans, *little_noise, "--json", *more)
        assert run.code == 0, run.err
        return json.loads(run.out)

    assert value()["mean"] != value()["mean"]
    seeded = value("--seed", 5)
    assert seeded["mean"] == value("--seed", 5)["mean"]
    assert seeded["report"]["private"] is False


def test_text_output_states_the_guarantee_and_marks_a_seed(riemdp, scans):
    plain = riemdp("mean", scans, *GOOD)
    assert plain.code == 0
    assert "epsilon 1 at delta" in plain.out
    assert "NOT PRIVATE" not in plain.out
    assert "moved into domain" not in plain.out
    assert "NOT PRIVATE" in riemdp("mean", scans, *GOOD, "--seed", 1).out


def test_mean_without_a_radius_says_what_it_found(riemdp, tmp_path):
    np.save(tmp_path / "scans.npy", 1e-6 * spd_records(400))
    book = tmp_path / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 1, "--delta", 1e-5)
    options = ("--epsilon", 1, "--delta", 1e-5, "--report", tmp_path / "r.html")
    seeded = (*options, "--seed", 1)  # values are compared
    run = riemdp("mean", tmp_path / "scans.npy", *seeded, "--ledger", book, "--json")
    assert run.code == 0, run.err
    said = json.loads(run.out)
    ball, search = said["ball"], said["report"]["private_search"]
    assert ball["found_privately"]
    assert ball["radius"] == said["report"]["radius"]
    assert 0 < search["share_of_budget"] < 1
    assert search["noise_factor"] == pytest.approx((1 - search["share_of_budget"]) ** -0.5)
    assert said["report"]["error_from_noise"] < search["error_from_noise_95"] < ball["radius"]
    space = library.SPDAffineInvariant(3)
    mean = library.frechet_mean(space, np.load(tmp_path / "scans.npy")).value
    assert float(space.dist(mean, np.array(said["mean"]))) < search["error_from_noise_95"] + 0.2
    region = said["confidence_region"]
    assert region["level"] == 0.95
    assert region["radius"] == said["report"]["confidence_region"]["radius"]
    assert float(space.dist(mean, np.array(region["center"]))) < 2 * region["radius"]
    assert library.Ledger.open(book).charges == 1
    page = " ".join((tmp_path / "r.html").read_text().split())
    assert "How it was found" in page
    assert "The ball was found with noise, which the guarantee covers" in page
    assert "with 95 % confidence the Fréchet mean of the clamped records" in page
    shown = " ".join(riemdp("mean", tmp_path / "scans.npy", *options[:4], "--seed", 1).out.split())
    assert "found privately" in shown
    assert "error bar with 95 % confidence the Fréchet mean of the clamped records" in shown
    assert "% of the budget" in shown
    assert "with probability 95 %" in shown


def test_mean_with_a_dispersion_says_where_the_population_lies(riemdp, scans, tmp_path):
    """For one charge of the whole budget."""
    book = tmp_path / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 1, "--delta", 1e-5)
    options = (*GOOD[:-2], "--dispersion-share", 0.3)
    run = riemdp("mean", scans, *options, "--ledger", book, "--json")
    assert run.code == 0, run.err
    said = json.loads(run.out)
    (region,) = said["population_regions"]
    assert region["radius"] == said["report"]["population_regions"][0]["radius"]
    assert region["radius"] > said["confidence_region"]["radius"]
    assert library.Ledger.open(book).charges == 1
    shown = " ".join(riemdp("mean", scans, *options).out.split())
    assert "population with 95 % confidence the Fréchet mean of the population" in shown
    for wrong in ((*options[2:],), (*options, "--mechanism", "wrapped-laplace")):
        refused = riemdp("mean", scans, *wrong)
        assert refused.code == 2
        assert "--dispersion-share" in refused.err


def test_mean_without_a_radius_is_refused_from_public_numbers(riemdp, tmp_path):
    broken = np.full((40, 3, 3), np.nan)
    for i, X in enumerate((spd_records(40), broken)):
        np.save(tmp_path / f"{i}.npy", X)
    book = tmp_path / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 1, "--delta", 1e-5)
    options = ("--epsilon", 1, "--delta", 1e-5, "--ledger", book, "--on-invalid", "center")
    runs = [riemdp("mean", tmp_path / f"{i}.npy", *options) for i in (0, 1)]
    assert [run.code for run in runs] == [2, 2]
    assert runs[0].err == runs[1].err
    assert "40 records are too few" in runs[0].err
    np.save(tmp_path / "flat.npy", np.zeros((400, 3)))
    for file, more, word in (
        ("0.npy", ("--mechanism", "wrapped-gaussian"), "--radius"),
        ("0.npy", ("--center", "diag:2"), "--radius"),
        ("0.npy", ("--adjacency", "add-or-remove-one", "--n-min", 30), "--radius"),
        ("flat.npy", ("--space", "euclidean"), "--radius"),
    ):
        refused = riemdp("mean", tmp_path / file, *options, *more)
        assert refused.code == 2
        assert word in refused.err
    assert library.Ledger.open(book).charges == 0


def test_mean_that_protects_the_number_of_records(riemdp, scans):
    count = len(np.load(scans))
    options = (*GOOD, "--adjacency", "add-or-remove-one")
    run = riemdp("mean", scans, *options, "--n-min", 40, "--json")
    assert run.code == 0, run.err
    report = json.loads(run.out)["report"]
    assert report["guarantee"]["adjacency"] == "add-or-remove-one"
    assert report["records"] == 40
    shown = riemdp("mean", scans, *options, "--n-min", 40)
    assert "at least 40" in shown.out
    assert str(count) not in shown.out.split("space")[0]
    book = scans.parent / "adjacency.json"
    riemdp("ledger", "create", book, "--epsilon", 2, "--delta", 1e-5)
    for bad, word in (
        ((), "--n-min"),
        (("--n-min", 0), "--n-min 0"),
        (("--n-min", 40, "--adjacency", "replace-one"), "--n-min"),
        (("--adjacency", "other"), "adjacency"),
    ):
        refused = riemdp("mean", scans, *options, *bad, "--ledger", book)
        assert refused.code == 2
        assert word in refused.err
    assert json.loads(riemdp("ledger", "show", book, "--json").out)["releases"] == 0


def test_invalid_records_count_as_the_centre_when_asked(riemdp, scans):
    X = spd_records()
    X[7] = np.nan
    np.save(scans, X)
    assert riemdp("mean", scans, *GOOD).code == 2
    run = riemdp("mean", scans, *GOOD, "--on-invalid", "center", "--json")
    assert run.code == 0


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "json"])
def test_output_formats_hold_the_same_value(ending, riemdp, scans):
    out = scans.with_name(f"m.{ending}")
    run = riemdp("mean", scans, *GOOD, "--seed", 3, "--out", out, "--json")
    assert run.code == 0
    said = np.array(json.loads(run.out)["mean"])
    if ending == "json":
        read = np.array(json.loads(out.read_text())["mean"])
    elif ending == "csv":
        read = np.loadtxt(out, delimiter=",")
    else:
        loaded = np.load(out)
        read = loaded["mean"] if ending == "npz" else loaded
    assert np.array_equal(read, said)


def test_pca(riemdp, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(3000, 4)) * np.array([0.6, 0.1, 0.1, 0.1])
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,c,d", comments="")
    run = riemdp(
        "pca",
        tmp_path / "t.csv",
        "-k",
        1,
        "--row-norm",
        1,
        "-e",
        1,
        "-d",
        1e-6,
        "--json",
        "--out",
        tmp_path / "c.npy",
    )
    assert run.code == 0, run.err
    component = np.load(tmp_path / "c.npy")
    assert component.shape == (1, 4)
    assert abs(component[0, 0]) > 0.99
    report = json.loads(run.out)["report"]
    assert report["sensitivity"] == pytest.approx(np.sqrt(2) / 3000)
    for wrong in (("-k", 5), ("-k", 0), ("--row-norm", 0), ("--mechanism", "magic"), ("-e", -1)):
        bad = riemdp(
            "pca", tmp_path / "t.csv", "-k", 1, "--row-norm", 1, "-e", 1, "-d", 1e-6, *wrong
        )
        assert bad.code == 2, wrong
        assert "Traceback" not in bad.err


def test_calibrate_and_guarantee_are_inverse(riemdp):
    z = json.loads(
        riemdp(
            "calibrate",
            "--epsilon",
            1,
            "--delta",
            1e-5,
            "--steps",
            100,
            "--sensitivity",
            0.5,
            "--json",
        ).out
    )
    assert z["noise_multiplier"] == pytest.approx(37.306, rel=1e-4)
    assert z["sigma"] == pytest.approx(z["noise_multiplier"] / 2)
    g = json.loads(
        riemdp(
            "guarantee", "-z", z["noise_multiplier"], "--steps", 100, "--delta", 1e-5, "--json"
        ).out
    )
    assert g["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert riemdp("guarantee", "-z", 1, "--population", 100).code == 2
    assert riemdp("guarantee", "-z", 0).code == 2
    assert riemdp("calibrate", "--epsilon", 1).code == 2


def test_plan_marks_what_auto_would_use(riemdp, tmp_path):
    run = riemdp(
        "plan",
        "-n",
        200,
        "-k",
        3,
        "-r",
        1.5,
        "-d",
        1e-5,
        "-e",
        "0.5,2",
        "--metric",
        "log-euclidean",
        "--json",
    )
    assert run.code == 0, run.err
    rows = json.loads(run.out)["plan"]
    for epsilon in (0.5, 2.0):
        known = [r for r in rows if r["epsilon"] == epsilon and r["expected_error"] is not None]
        chosen = [r for r in known if r["chosen"]]
        assert len(chosen) == 1
        assert chosen[0]["expected_error"] == min(r["expected_error"] for r in known)
    assert riemdp("plan", "-n", 200, "-k", "3xx", "-r", 1).code == 2
    assert riemdp("plan", "-n", 200, "-k", 3, "-r", 1, "-e", "one").code == 2
    assert riemdp("plan", "-n", 0, "-k", 3, "-r", 1).code == 2
    assert riemdp("plan", "-n", 9, "-k", 3, "-r", 1, "--plot", tmp_path / "p.xyz").code == 2


def test_plan_answers_how_many_records_are_needed(riemdp):
    planned = riemdp("plan", "--size", 8, "--epsilon", "0.3,1", "--delta", 1e-5, "--json")
    assert planned.code == 0, planned.err
    said = json.loads(planned.out)
    assert (said["dim"], said["records"]) == (36, None)
    budgets = [library.Budget(e, 1e-5) for e in (0.3, 1.0)]
    space = library.SPDAffineInvariant(8)
    plan = library.plan_private_mean(space, library.AdaptiveBall(), None, budgets)
    for row, known in zip(said["plan"], plan.rows, strict=True):
        assert row["need"] == known.need
        assert row["error_below_sampling_from"] == known.sampling_from
        assert row["enough"] is None
    shown = " ".join(riemdp("plan", "--size", 8, "--epsilon", 1).out.split())
    assert "are refused, before any is read" in shown
    assert "pure privacy" in shown
    some = " ".join(riemdp("plan", "-k", 8, "-n", 300, "-d", 1e-5, "-e", "0.1,1").out.split())
    assert "epsilon 0.1: too few for a search" in some
    assert "epsilon 1: error from noise about" in some
    for bad, word in (
        (("-r", 1), "--records"),
        (("--plot", "p.png"), "--radius"),
        (("--center", "diag:2"), "--radius"),
        (("--space", "euclidean"), "--radius"),
    ):
        refused = riemdp("plan", "-k", 3, "-d", 1e-5, *bad)
        assert refused.code == 2
        assert word in refused.err


def test_help_version_and_experiments(riemdp):
    assert riemdp("--version").out == f"riemdp {library.__version__}\n"
    text = riemdp("--help").out
    assert "Exit codes" in text
    for command in (
        "mean",
        "pca",
        "plan",
        "calibrate",
        "guarantee",
        "demo",
        "experiments",
        "ledger",
    ):
        assert command in text
        assert riemdp(command, "--help").code == 0
    for arguments in ((), ("list", "--json"), ("run", "nobody-figure-1", "--quick")):
        elsewhere = riemdp("experiments", *arguments)
        assert elsewhere.code == 2
        assert elsewhere.out == ""
        assert f"python -m papers {' '.join(arguments) or 'list'}" in " ".join(
            elsewhere.err.split()
        )


def test_ledger_show_lists_releases_in_80_columns(riemdp, tmp_path, monkeypatch):
    book = tmp_path / "b.json"
    assert riemdp("ledger", "create", book, "-e", 2, "-d", 1e-5).code == 0
    assert "--ledger" in riemdp("ledger", "show", book).out  # an empty one says how it is charged
    ledger = library.Ledger.open(book)
    words = "mean of a-very-long-name-of-a-file-of-the-second-visit.npy"
    ledger.spend(library.gaussian(20.0), what=words)
    ledger.part("S01").spend(library.gaussian(30.0))
    monkeypatch.setenv("COLUMNS", "80")
    shown = riemdp("ledger", "show", book).out
    assert max(map(len, shown.splitlines())) <= 80
    joined = "".join(shown.split())
    for text in ("second-visit.npy", "arelease(partS01)", "by2releases"):
        assert text in joined
    assert f"{library.gaussian(20.0).epsilon(1e-5):.4g}" in shown


@pytest.mark.parametrize(
    ("first", "line", "word"),
    [
        (",0,1,2,3", "0,1.5,0,0,1.5", "index=False"),  # pandas, with its index
        ("1,5;0,0;0,0;1,5", "1,5;0,0;0,0;1,5", "decimal comma"),
        ("1,5,0,0,0,0,1,5", "1,5,0,0,0,0,1,5", "decimal commas"),
        ("0,1.5,0,0,1.5", "1,1.5,0,0,1.5", "index"),
        ("1.5,0,1.5", "1.5,0,1.5", "--upper"),
    ],
)
def test_tables_of_other_programs_name_the_remedy(riemdp, tmp_path, first, line, word):
    path = tmp_path / "table.csv"
    path.write_text("\n".join([first, *[line] * 6]) + "\n")
    run = riemdp("mean", path, "-e", 1, "-d", 1e-6, "-r", 1)
    assert run.code == 2
    assert word in run.err
    assert "Traceback" not in run.err


def test_a_space_without_a_unit_is_searched_from_an_outer_ball(riemdp, tmp_path):
    X = np.random.default_rng(3).normal(size=(800, 2)) + 5.0
    np.save(tmp_path / "x.npy", X)
    options = ("--space", "euclidean", "-e", 2, "-d", 1e-5)
    refused = riemdp("mean", tmp_path / "x.npy", *options)
    assert refused.code == 2
    assert "--outer-radius" in refused.err
    run = riemdp("mean", tmp_path / "x.npy", *options, "--outer-radius", 500, "--seed", 1, "--json")
    assert run.code == 0, run.err
    said = json.loads(run.out)
    assert said["ball"]["found_privately"]
    assert said["ball"]["radius"] < 50
    assert np.linalg.norm(np.array(said["mean"]) - X.mean(axis=0)) < 1.0
    facts = ("--space", "euclidean", "--size", 2, "--delta", 1e-5)
    plan = riemdp("plan", *facts, "--outer-radius", 500, "--json")
    assert json.loads(plan.out)["plan"]


def test_outer_balls_and_radii_exclude_each_other(riemdp, scans):
    for options, word in (
        (("--radius", 2, "--outer-radius", 9), "--outer-radius"),
        (("--radius", 2, "--outer-center", "identity"), "--outer-center"),
        (("--outer-center", "identity"), "goes with --outer-radius"),
        (("--outer-radius", -1), "radius"),
        (("--outer-radius", 9, "--outer-center", "nowhere.npy"), "neither a word nor a file"),
    ):
        run = riemdp("mean", scans, "-e", 1, "-d", 1e-6, *options)
        assert run.code == 2
        assert word in run.err
        assert "Traceback" not in run.err


def test_records_outside_the_ball_are_counted_and_stated(riemdp, tmp_path):
    np.save(tmp_path / "volts.npy", 1e-12 * spd_records(n=300))
    options = (
        "mean",
        tmp_path / "volts.npy",
        "-e",
        1,
        "-d",
        1e-6,
        "-r",
        2,
        "--metric",
        "logeuclid",
    )
    run = riemdp(*options, "--report", tmp_path / "r.html", "--seed", 1)
    assert run.code == 0
    shown = " ".join(run.out.split())
    assert "lay outside the ball and were moved into it" in " ".join(run.err.split())
    assert " of 300 records lay outside or were no points" in shown
    page = (tmp_path / "r.html").read_text()
    assert "of 300 records lay outside" in page
    counted = json.loads((tmp_path / "r.json").read_text())["records_outside"]
    assert (counted["of"], counted["share_of_budget"]) == (300, 0.04)
    assert 300 - 8 * counted["standard_deviation"] < counted["count"] <= 300
    without = riemdp(*options, "--no-count-outside", "--json")
    assert json.loads(without.out)["report"]["records_outside"] is None
    searched = riemdp("mean", tmp_path / "volts.npy", "-e", 1, "-d", 1e-6, "--count-outside")
    assert searched.code == 2
    assert "--count-outside needs --radius" in " ".join(searched.err.split())


class LikeZarr:
    """As much of a Zarr array as it has: a shape and slices, and no len()."""

    chunks = (16, 3, 3)

    def __init__(self, X: np.ndarray):
        self.X, self.shape, self.dtype, self.ndim = X, X.shape, X.dtype, X.ndim

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.X[rows]


LikeZarr.__module__ = "zarr.fake"


@pytest.mark.parametrize("options", [("-r", 2), ("-r", 2, "--dispersion-share", 0.3), ()])
def test_an_array_without_a_length_is_read_in_parts(riemdp, tmp_path, monkeypatch, options):
    X = spd_records(n=400)
    np.save(tmp_path / "x.npy", X)
    words = (*options, "-e", 2, "-d", 1e-5, "--seed", 0, "--json")
    plain = riemdp("mean", tmp_path / "x.npy", *words)
    loaded = Commands.read_records(tmp_path / "x.npy", Commands.Reading())
    plant(
        monkeypatch,
        "reader of a command",
        lambda *_: dataclasses.replace(loaded, array=LikeZarr(X)),
    )
    streamed = riemdp("mean", tmp_path / "x.npy", *words)
    assert (plain.code, streamed.code) == (0, 0), streamed.err
    means = [np.array(json.loads(run.out)["mean"]) for run in (plain, streamed)]
    np.testing.assert_allclose(means[1], means[0], atol=1e-8)


def test_shrink_moves_a_noisy_mean_towards_the_centre(riemdp, scans):
    options = ("--radius", 2, "-e", 0.05, "-d", 1e-6, "--metric", "log-euclidean", "--seed", 1)
    options = (*options, "--mechanism", "wrapped-gaussian", "--no-clamp-release", "--json")
    plain, shrunk = (
        np.array(json.loads(riemdp("mean", scans, *options, *more).out)["mean"])
        for more in (("--no-shrink",), ())
    )
    asked = json.loads(riemdp("mean", scans, *options, "--shrink").out)["mean"]
    assert np.array_equal(shrunk, asked)
    space = library.SPDLogEuclidean(3)
    assert space.norm(np.eye(3), space.log(np.eye(3), shrunk)) < 0.9 * space.norm(
        np.eye(3), space.log(np.eye(3), plain)
    )
    bad = riemdp("mean", scans, *options[:-4], "--mechanism", "riemannian-laplace", "--shrink")
    assert bad.code == 2
    assert "shrink" in bad.err


def test_ledger_is_not_replaced(riemdp, tmp_path):
    book = tmp_path / "b.json"
    assert riemdp("ledger", "create", book, "-e", 1).code == 0
    assert riemdp("ledger", "create", book, "-e", 9).code == 2
    assert riemdp("ledger", "create", tmp_path / "c.json", "-e", 0).code == 2
    assert riemdp("ledger", "create", tmp_path / "no" / "c.json", "-e", 1).code == 4
    assert riemdp("ledger", "show", tmp_path / "d.json").code == 2
    assert {p.name for p in tmp_path.iterdir() if p.suffix != ".lock"} == {"b.json"}


# ----------------------------------------------------------------------------------------------
# readers
def test_readers_agree(tmp_path):
    from scipy import io

    X = spd_records(7)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", scans=X)
    np.savez(tmp_path / "two.npz", scans=X, other=X[:2])
    io.savemat(tmp_path / "a.mat", {"scans": np.moveaxis(X, 0, 2)})
    np.savetxt(
        tmp_path / "a.csv",
        X.reshape(7, 9),
        delimiter=",",
        fmt="%.17g",
        header=",".join("abcdefghi"),
        comments="",
    )
    np.savetxt(tmp_path / "a.tsv", X.reshape(7, 9), delimiter="\t", fmt="%.17g")
    np.savetxt(tmp_path / "a.txt", X.reshape(7, 9), fmt="%.17g")
    for name, key in (
        ("a.npy", None),
        ("a.npz", None),
        ("two.npz", "scans"),
        ("a.mat", None),
        ("a.csv", None),
        ("a.tsv", None),
        ("a.txt", None),
    ):
        loaded = Commands.read_records(tmp_path / name, Commands.Reading(key=key))
        space, records = Commands.space_for("spd", "riemann", loaded.array)
        assert np.array_equal(records, X), name
        assert space == library.SPDAffineInvariant(3)
    with pytest.raises(Commands.InputProblem, match="no array 'nothing'"):
        Commands.read_records(tmp_path / "two.npz", Commands.Reading(key="nothing"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(Commands.InputProblem) as caught:
        Commands.read_records(tmp_path / "a.parquet")
    assert (
        "pyarrow" in caught.value.problem + caught.value.remedy or "damaged" in caught.value.problem
    )


def test_folder_of_arrays(riemdp, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    records = spd_records()
    for i, x in enumerate(records):
        np.save(folder / f"{i:03d}.npy", x)
    np.save(tmp_path / "all.npy", records)
    options = ("-e", 1, "-d", 1e-6, "-r", 2, "--metric", "logeuclid", "--seed", 3, "--json")
    together = json.loads(riemdp("mean", tmp_path / "all.npy", *options).out)["mean"]
    assert json.loads(riemdp("mean", folder, *options).out)["mean"] == together
    (folder / "007.npy").write_bytes(b"damaged")
    refused = riemdp("mean", folder, *options)
    assert refused.code == 2
    assert "007.npy" in refused.err
    assert "--record-shape" in refused.err
    centred = riemdp("mean", folder, *options, "--record-shape", "3x3", "--on-invalid", "center")
    records[7] = np.nan
    np.save(tmp_path / "all.npy", records)
    same = riemdp("mean", tmp_path / "all.npy", *options, "--on-invalid", "center")
    assert json.loads(centred.out)["mean"] == json.loads(same.out)["mean"]
    assert riemdp("mean", folder, *options, "--record-shape", "3by3").code == 2


def test_folder_of_images(riemdp, tmp_path):
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, size=(6, 12, 10), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{i}.png")
    with pytest.raises(Commands.InputProblem, match="--channels 1"):
        Commands.read_records(folder)
    grey = Commands.Reading(channels=1)
    loaded = Commands.read_records(folder, grey)
    assert loaded.channels == 1
    assert np.array_equal(loaded.array, np.asarray(library.datasets.covariance_descriptors(pixels)))
    Image.fromarray(pixels[0, :5]).save(folder / "9.png")
    with pytest.raises(Commands.InputProblem, match=r"record 6 \(9.png\) is 10 x 5 pixels"):
        Commands.read_records(folder, grey)


@pytest.mark.parametrize("channels", [1, 3])
def test_one_grey_image_does_not_change_how_the_others_are_read(channels, tmp_path):
    """At a724553 the first image decided: a grey one changed the release from 11 x 11 to 9 x 9."""
    from PIL import Image

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, size=(4, 8, 8, 3), dtype=np.uint8)
    for kind in ("colour", "first grey"):
        folder = tmp_path / kind
        folder.mkdir()
        for i, image in enumerate(pixels):
            picture = Image.fromarray(image)
            grey = i == 0 and kind == "first grey"
            (picture.convert("L") if grey else picture).save(folder / f"{i}.png")
    all_colour, one_grey = (
        Commands.read_records(tmp_path / kind, Commands.Reading(channels=channels)).array
        for kind in ("colour", "first grey")
    )
    assert all_colour.shape == one_grey.shape
    assert np.array_equal(all_colour[1:], one_grey[1:])


def test_a_header_is_what_the_option_says_or_a_line_without_a_number(tmp_path):
    """At a724553 an empty cell in the first record made a header of it: n went from 11 to 10."""
    file = tmp_path / "t.csv"

    def count(first, header=None):
        file.write_text("\n".join([first, *["1,2,3"] * 10]) + "\n")
        return len(Commands.read_records(file, Commands.Reading(header=header)).array)

    assert count("1,2,3") == 11
    assert count("1,nan,3") == 11
    assert count("a,b,c") == 10
    assert count("1,2,3", header=True) == 10
    for cell in ("", "oops"):
        with pytest.raises(Commands.InputProblem, match="line 1, column 2"):
            count(f"1,{cell},3")
        assert count(f"1,{cell},3", header=True) == 10
    with pytest.raises(Commands.InputProblem, match="line 1, column 1"):
        count("a,b,c", header=False)


def test_tables_that_people_bring(tmp_path):
    """European decimals, an index column, upper triangles."""
    file = tmp_path / "t.csv"
    file.write_text("1,5;2,5\n3,5;4,5\n")
    with pytest.raises(Commands.InputProblem, match="decimal comma") as caught:
        Commands.read_records(file, Commands.Reading(header=False))
    assert "decimal=','" in caught.value.remedy
    triangle = np.array([[2.0, 0.5, 0.25, 3.0, 0.125, 4.0], [1, 0, 0, 1, 0, 1]])
    with pytest.raises(Commands.InputProblem, match="6 numbers") as caught:
        Commands.space_for("spd", "riemann", triangle)
    assert "upper triangles of 3 x 3 matrices are read with --upper" in caught.value.remedy
    space, full = Commands.space_for("spd", "riemann", triangle, upper=True)
    assert space == library.SPDAffineInvariant(3)
    assert full[0].tolist() == [[2.0, 0.5, 0.25], [0.5, 3.0, 0.125], [0.25, 0.125, 4.0]]
    with pytest.raises(Commands.InputProblem, match="10 numbers") as caught:
        Commands.space_for("spd", "riemann", np.zeros((2, 10)))
    assert "the first column is an index" in caught.value.remedy
    with pytest.raises(Commands.InputProblem, match="--upper"):
        Commands.space_for("sphere", "riemann", triangle, upper=True)


@pytest.mark.parametrize(
    ("space", "bad", "reason"),
    [
        (library.Sphere(3), [1.0, 1.0, 0.0], "does not have length 1"),
        (library.PoincareBall(2), [1.0, 1.0], "outside the unit ball"),
        (library.Lorentz(3), [1.0, 1.0, 0.0], "hyperboloid"),
        (library.Grassmann(3, 1), [[1.0], [1.0], [0.0]], "orthonormal columns"),
        (library.SPDAffineInvariant(2), [[1.0, 0.0], [0.0, -1.0]], "negative eigenvalue"),
        (library.SPDAffineInvariant(2), [[1.0, 0.0], [0.0, 0.0]], "its rank is 1 of 2"),
    ],
    ids=lambda v: repr(v) if hasattr(v, "dim") else "",
)
def test_reasons_name_the_property(space, bad, reason):
    records = np.stack([np.asarray(space.origin)] * 4)
    records[2] = bad
    found = check_records(space, records)
    assert [r.index for r in found] == [2]
    assert reason in found[0].reason


def test_centres(tmp_path):
    space = library.SPDAffineInvariant(2)
    assert np.array_equal(Commands.centre_for(space, "identity"), np.eye(2))
    assert np.array_equal(Commands.centre_for(space, "diag:4"), 4 * np.eye(2))
    np.save(tmp_path / "c.npy", np.diag([1.0, 2.0])[None])
    assert np.array_equal(Commands.centre_for(space, str(tmp_path / "c.npy")), np.diag([1.0, 2.0]))
    np.save(tmp_path / "c.npy", -np.eye(2))
    with pytest.raises(Commands.InputProblem, match="not a point"):
        Commands.centre_for(space, str(tmp_path / "c.npy"))


def test_cautions_and_bias_are_said(riemdp, scans):
    """At a724553 delta .5 and epsilon 1000 passed without a word, and the error had no name."""
    options = ("--radius", 2, "--metric", "log-euclidean", "--mechanism", "wrapped-gaussian")
    plain = riemdp("mean", scans, *options, "--epsilon", 1, "--delta", 1e-6)
    words = " ".join(plain.out.split())
    assert "error from noise" in words
    assert "farther than 2 from the centre" in words
    assert "expected error" not in words
    assert plain.err == ""
    slack = riemdp("mean", scans, *options, "--epsilon", 1, "--delta", 0.5)
    assert "delta = 0.5 is not below 1/n = 0.0167" in " ".join(slack.err.split())
    nominal = riemdp("mean", scans, *options, "--epsilon", 1000, "--delta", 1e-6)
    assert "hardly protects anybody" in nominal.err
    noisy = riemdp("mean", scans, *options, "--epsilon", 0.01, "--delta", 1e-6)
    assert "the public centre" in " ".join(noisy.err.split())
    for command in ("mean", "pca", "plan", "calibrate"):
        text = " ".join(riemdp(command, "--help").out.split())
        assert "exceptional case" not in text
        assert "slack" in text


def test_python_runs_the_command_too(tmp_path):
    words = [sys.executable, "-m", "riemdp", "calibrate", "-e", "1", "-d", "1e-5"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3.73" in done.stdout


def test_light_commands_import_neither_jax_nor_scipy(tmp_path):
    """Help, accounting and the ledger answer at once."""
    program = """
import sys
from riemdp.cli import main
for words in (["--help"], ["guarantee", "-z", "1"], ["calibrate", "-e", "1", "-d", "1e-5"],
              ["ledger", "create", "b.json", "-e", "1"], ["ledger", "show", "b.json"]):
    try:
        main(words)
    except SystemExit as stopped:
        assert not stopped.code, words
    assert "jax" not in sys.modules, words
    assert "scipy" not in sys.modules, words
    assert "jinja2" not in sys.modules, words
    assert "rich" not in sys.modules, words
    assert "riemdp.report._make" not in sys.modules, words
    if words == ["--help"]:
        assert "numpy" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_overview_names_every_command_with_its_whole_sentence(riemdp):
    shown = riemdp("--help")
    text = " ".join(shown.out.split())
    for name in ("mean", "pca", "plan", "calibrate", "guarantee", "demo", "ledger", "federated"):
        assert name in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert "Exit codes" in text
    assert max(len(line) for line in shown.out.splitlines()) <= 80
    alone = riemdp()
    assert (alone.code, alone.out) == (2, shown.out)


def test_tiny_and_huge_means_are_printed_with_their_digits():
    """Covariances of volts were printed as zeros."""

    assert Commands.as_text(np.diag([2.5e-10, 1e-10])) == "1e-10 times\n[[2.5 0. ]\n [0.  1. ]]"
    assert Commands.as_text(np.array([1.25e7, -1.0])) == "1e+07 times\n[1.25 0.  ]"
    assert Commands.as_text(np.array([0.5, -1e-9])) == "[0.5 0. ]"
    assert Commands.as_text(np.zeros(2)) == "[0. 0.]"
    assert Commands.as_text(np.array([5e-324])) == "1e-300 times\n[0.]"


def test_a_large_file_is_read_in_parts(riemdp, scans, monkeypatch):
    """The value and the refusal of a wrong record are those of a file that is read at once."""
    options = ("--seed", 1, "--json")
    whole = json.loads(riemdp("mean", scans, *GOOD, *options).out)
    plant(monkeypatch, "size of a large file", 0)
    streamed = json.loads(riemdp("mean", scans, *GOOD, *options).out)
    assert np.max(np.abs(np.array(streamed["mean"]) - np.array(whole["mean"]))) < 1e-9
    assert "read in parts" in riemdp("mean", scans, *GOOD, "--seed", 1).out
    X = np.load(scans)
    X[41, 0, 0] = np.nan
    np.save(scans, X)
    wrong = riemdp("mean", scans, *GOOD)
    assert wrong.code != 0
    assert "record 41 has NaN at position [0, 0]" in wrong.err
    scans.write_bytes(scans.read_bytes()[:-200])
    damaged = riemdp("mean", scans, *GOOD)
    assert damaged.code != 0
    assert "damaged" in damaged.err


def test_hdf5_and_zarr_name_the_package_that_lacks(riemdp, tmp_path, monkeypatch):
    for name, package in (("x.h5", "h5py"), ("x.zarr", "zarr")):
        (tmp_path / name).write_bytes(b"x")
        monkeypatch.setitem(sys.modules, package, None)
        run = riemdp("mean", tmp_path / name, *GOOD)
        assert run.code != 0
        assert f"needs the package {package}" in run.err
        assert "riemdp[large]" in run.err


@pytest.mark.parametrize(
    "options",
    [
        ("--delta", 0, "--dispersion-share", 0.2, "--shrink"),
        ("--delta", 1e-6, "--dispersion-share", 0.2, "--max-records-per-person", 0),
        ("--delta", 1e-6, "--max-records-per-person", 0),
    ],
)
def test_a_refused_command_charges_nothing(riemdp, scans, options):
    """It said that nothing was charged, and the ledger had lost one release."""
    book = scans.parent / "book.json"
    riemdp("ledger", "create", book, "--epsilon", 2, "--delta", 1e-5)
    before = book.read_bytes()
    run = riemdp("mean", scans, "--radius", 2, "--epsilon", 1, *options, "--ledger", book)
    assert run.code == 2, run.out
    assert book.read_bytes() == before
