"""What the commands do when all is well: values, files, JSON, formats, and that the noise is really
there.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import typer

import riemdp as library
from riemdp import check_records
from tests.cli.conftest import MEAN, spd_records
from tests.seam import Commands, plant


def test_mean_writes_value_report_and_ledger(riemdp, scans):
    folder = scans.parent
    riemdp("ledger create", folder / "book.json", "--epsilon 2 --delta 1e-5")
    files = ("--out", folder / "m.npz", "--report", folder / "r.html")
    run = riemdp("mean", scans, MEAN, *files, "--ledger", folder / "book.json", "--json")
    assert run.code == 0, run.err
    said = json.loads(run.out)
    value = np.load(folder / "m.npz")["mean"]
    assert np.array_equal(value, np.array(said["mean"]))
    assert np.all(np.linalg.eigvalsh(value) > 0)
    report = json.loads((folder / "r.json").read_text())
    assert report == said["report"]
    assert report["released_sha256"] == hashlib.sha256((folder / "m.npz").read_bytes()).hexdigest()
    assert report["records"] == 60
    assert "records_clamped" not in report  # an exact count of the data is on no report
    assert report["guarantee"]["epsilon"] <= 1.0 + 1e-9
    assert "this release included" in report["ledger"]
    spent = json.loads(riemdp("ledger show", folder / "book.json", "--json").out)
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
    for more in ("--radius 2", ""):
        file.unlink(missing_ok=True)
        options = "--epsilon 5 --delta 1e-6 --metric log-euclidean"
        run = riemdp("mean", scans, options, more, "--out", file, "--json")
        assert run.code == 0, run.err
        said = json.loads(run.out)
        region, ball = said["confidence_region"], said["ball"]
        if ending == "json":
            assert all(json.loads(file.read_text())[k] == said[k] for k in ("mean", "ball"))
            assert json.loads(file.read_text())["confidence_region"] == region
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
        # and it is read back, as a public centre of the next release
        assert np.array_equal(Commands.read_records(file).array, said["mean"])


def test_two_runs_differ_and_seeded_runs_agree(riemdp, scans):
    # With much noise, shrinking gives the centre itself, and two runs may well agree in it.
    little_noise = f"{MEAN} --epsilon 20"

    def value(*more):
        run = riemdp("mean", scans, little_noise, "--json", *more)
        assert run.code == 0, run.err
        return json.loads(run.out)

    assert value()["mean"] != value()["mean"]
    seeded = value("--seed 5")
    assert seeded["mean"] == value("--seed 5")["mean"]
    assert seeded["report"]["private"] is False


def test_text_output_states_the_guarantee_and_marks_a_seed(riemdp, scans):
    plain = riemdp("mean", scans, MEAN)
    assert plain.code == 0
    assert "epsilon 1 at delta" in plain.out
    assert "NOT PRIVATE" not in plain.out
    assert "moved into domain" not in plain.out
    assert "NOT PRIVATE" in riemdp("mean", scans, MEAN, "--seed 1").out


def test_mean_without_a_radius_says_what_it_found(riemdp, tmp_path):
    np.save(tmp_path / "scans.npy", 1e-6 * spd_records(400))
    book = tmp_path / "book.json"
    riemdp("ledger create", book, "--epsilon 1 --delta 1e-5")
    options = "--epsilon 1 --delta 1e-5 --seed 1"  # values are compared
    files = ("--report", tmp_path / "r.html", "--ledger", book)
    run = riemdp("mean", tmp_path / "scans.npy", options, *files, "--json")
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
    shown = " ".join(riemdp("mean", tmp_path / "scans.npy", options).out.split())
    assert "found privately" in shown
    assert "error bar with 95 % confidence the Fréchet mean of the clamped records" in shown
    assert "% of the budget" in shown
    assert "with probability 95 %" in shown


def test_mean_without_a_radius_is_refused_from_public_numbers(riemdp, tmp_path):
    broken = np.full((40, 3, 3), np.nan)
    for i, X in enumerate((spd_records(40), broken)):
        np.save(tmp_path / f"{i}.npy", X)
    book = tmp_path / "book.json"
    riemdp("ledger create", book, "--epsilon 1 --delta 1e-5")
    options = ("--epsilon 1 --delta 1e-5 --ledger", book, "--on-invalid center")
    runs = [riemdp("mean", tmp_path / f"{i}.npy", *options) for i in (0, 1)]
    assert [run.code for run in runs] == [2, 2]
    assert runs[0].err == runs[1].err
    assert "n = 40 records" in runs[0].err
    np.save(tmp_path / "flat.npy", np.zeros((400, 3)))
    for file, more, word in (
        ("0.npy", "--center diag:2", "--radius"),
        ("flat.npy", "--space euclidean", "--radius"),
    ):
        refused = riemdp("mean", tmp_path / file, *options, more)
        assert refused.code == 2
        assert word in refused.err
    assert library.Ledger.open(book).charges == 0


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "json"])
def test_output_formats_hold_the_same_value(ending, riemdp, scans):
    out = scans.with_name(f"m.{ending}")
    run = riemdp("mean", scans, MEAN, "--seed 3 --out", out, "--json")
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
        "--header -k 1 --row-norm 1 -e 1 -d 1e-6 --json --out",
        tmp_path / "c.npy",
    )
    assert run.code == 0, run.err
    component = np.load(tmp_path / "c.npy")
    assert component.shape == (1, 4)
    assert abs(component[0, 0]) > 0.99
    report = json.loads(run.out)["report"]
    assert report["sensitivity"] == pytest.approx(np.sqrt(2) / 3000)
    for wrong in ("-k 5", "-k 0", "--row-norm 0", "-e -1"):
        bad = riemdp("pca", tmp_path / "t.csv", "--header -k 1 --row-norm 1 -e 1 -d 1e-6", wrong)
        assert bad.code == 2, wrong
        assert "Traceback" not in bad.err


def test_calibrate_and_guarantee_are_inverse(riemdp):
    z = json.loads(
        riemdp("calibrate --epsilon 1 --delta 1e-5 --steps 100 --sensitivity 0.5 --json").out
    )
    assert z["noise_multiplier"] == pytest.approx(37.306, rel=1e-4)
    assert z["sigma"] == pytest.approx(z["noise_multiplier"] / 2)
    g = json.loads(
        riemdp("guarantee -z", z["noise_multiplier"], "--steps 100 --delta 1e-5 --json").out
    )
    assert g["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert riemdp("guarantee -z 1 --population 100").code == 2
    assert riemdp("guarantee -z 0").code == 2
    assert riemdp("calibrate --epsilon 1").code == 2


def test_plan_marks_what_auto_would_use(riemdp, tmp_path):
    run = riemdp("plan -n 200 -k 3 -r 1.5 -d 1e-5 -e 0.5,2 --metric log-euclidean --json")
    assert run.code == 0, run.err
    rows = json.loads(run.out)["plan"]
    for epsilon in (0.5, 2.0):
        known = [r for r in rows if r["epsilon"] == epsilon and r["expected_error"] is not None]
        chosen = [r for r in known if r["chosen"]]
        assert len(chosen) == 1
        assert chosen[0]["expected_error"] == min(r["expected_error"] for r in known)
    assert riemdp("plan -n 200 -k 3xx -r 1").code == 2
    assert riemdp("plan -n 200 -k 3 -r 1 -e one").code == 2
    assert riemdp("plan -n 0 -k 3 -r 1").code == 2


def test_plan_answers_how_many_records_are_needed(riemdp):
    planned = riemdp("plan --size 8 --epsilon 0.3,1 --delta 1e-5 --json")
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
    shown = " ".join(riemdp("plan --size 8 --epsilon 1").out.split())
    assert "how many records are needed" in shown
    some = " ".join(riemdp("plan -k 8 -n 300 -d 1e-5 -e 0.1,1").out.split())
    assert "epsilon 0.1:" in some
    assert "epsilon 1: error from noise about" in some
    for bad, word in (
        ("-r 1", "--records"),
        ("--center diag:2", "--radius"),
        ("--space euclidean", "--radius"),
    ):
        refused = riemdp("plan -k 3 -d 1e-5", bad)
        assert refused.code == 2
        assert word in refused.err


def test_a_space_without_a_unit_is_searched_from_an_outer_ball(riemdp, tmp_path):
    X = np.random.default_rng(3).normal(size=(800, 2)) + 5.0
    np.save(tmp_path / "x.npy", X)
    options = "--space euclidean -e 2 -d 1e-5"
    refused = riemdp("mean", tmp_path / "x.npy", options)
    assert refused.code == 2
    assert "--outer-radius" in refused.err
    run = riemdp("mean", tmp_path / "x.npy", options, "--outer-radius 500 --seed 1 --json")
    assert run.code == 0, run.err
    said = json.loads(run.out)
    assert said["ball"]["found_privately"]
    assert said["ball"]["radius"] < 50
    assert np.linalg.norm(np.array(said["mean"]) - X.mean(axis=0)) < 1.0
    facts = "--space euclidean --size 2 --delta 1e-5"
    plan = riemdp("plan", facts, "--outer-radius 500 --json")
    assert json.loads(plan.out)["plan"]


def test_records_outside_the_ball_are_counted_and_stated(riemdp, tmp_path):
    np.save(tmp_path / "volts.npy", 1e-12 * spd_records(n=300))
    options = ("mean", tmp_path / "volts.npy", "-e 1 -d 1e-6 -r 2 --metric log-euclidean")
    run = riemdp(*options, "--report", tmp_path / "r.html", "--seed 1")
    assert run.code == 0
    shown = " ".join(run.out.split())
    assert "lay outside the ball and were moved into it" in " ".join(run.err.split())
    assert " of 300 records lay outside or were not points" in shown
    page = (tmp_path / "r.html").read_text()
    assert "of 300 records lay outside" in page
    counted = json.loads((tmp_path / "r.json").read_text())["records_outside"]
    assert (counted["of"], counted["share_of_budget"]) == (300, 0.04)
    assert 300 - 8 * counted["standard_deviation"] < counted["count"] <= 300


def test_ledger_is_not_replaced(riemdp, tmp_path):
    book = tmp_path / "b.json"
    assert riemdp("ledger create", book, "-e 1").code == 0
    assert riemdp("ledger create", book, "-e 9").code == 2
    assert riemdp("ledger create", tmp_path / "c.json", "-e 0").code == 2
    assert riemdp("ledger create", tmp_path / "no" / "c.json", "-e 1").code == 4
    assert riemdp("ledger show", tmp_path / "d.json").code == 2
    assert {p.name for p in tmp_path.iterdir() if p.suffix != ".lock"} == {"b.json"}


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
for words in (["--help"], ["plan", "--help"], ["guarantee", "-z", "1"],
              ["calibrate", "-e", "1", "-d", "1e-5"], ["ledger", "create", "b.json", "-e", "1"],
              ["ledger", "show", "b.json"], ["plan", "-k", "3"]):
    try:
        main(words)
    except SystemExit as stopped:
        assert not stopped.code, words
    assert "jax" not in sys.modules, words
    assert "scipy" not in sys.modules, words
    assert "jinja2" not in sys.modules, words
    assert "rich" not in sys.modules, words
    if "--help" in words:
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
    assert riemdp().code == 2


# ---------------------------------------------------------------------------------------- readers
def test_readers_agree(tmp_path):
    X = spd_records(7)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", scans=X)
    np.savez(tmp_path / "mean.npz", mean=X, ball_radius=2.0)
    rows = X.reshape(7, 9)
    names = {"header": ",".join("abcdefghi"), "comments": ""}
    np.savetxt(tmp_path / "h.csv", rows, delimiter=",", fmt="%.17g", **names)
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", fmt="%.17g")
    np.savetxt(tmp_path / "a.tsv", rows, delimiter="\t", fmt="%.17g")
    np.savetxt(tmp_path / "a.txt", rows, fmt="%.17g")
    for name in ("a.npy", "a.npz", "mean.npz", "a.csv", "h.csv", "a.tsv", "a.txt"):
        loaded = Commands.read_records(tmp_path / name, header=name == "h.csv")
        space, records = Commands.space_for("spd", None, loaded.array)
        assert np.array_equal(records, X), name
        assert space == library.SPDAffineInvariant(3)
        assert loaded.names == (tuple("abcdefghi") if name == "h.csv" else None)


def test_a_header_is_an_option_and_no_guess(tmp_path):
    """The first line may be a record: what is in it does not decide how many there are."""
    file = tmp_path / "t.csv"
    for first in ("1,2,3", "1,nan,3", "a,b,c", "1,,3", "oops", "1,2,3,4", ""):
        file.write_text("\n".join([first, *["1,2,3"] * 10]) + "\n\n")
        found = Commands.read_records(file)
        assert found.array.shape == (11, 3), first
        assert found.names is None
        assert np.array_equal(found.array[1:], np.tile([1.0, 2, 3], (10, 1)))
        assert np.isfinite(found.array[0]).all() == (first == "1,2,3")
    file.write_text("a,b,c\n1,2,3\n")
    assert Commands.read_records(file, header=True).names == ("a", "b", "c")


def test_a_malformed_line_counts_as_the_centre_or_is_named(riemdp, tmp_path):
    rows = [",".join(map(str, x.ravel())) for x in spd_records(60)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join([*rows[:30], "1,0,oops", *rows[31:]]) + "\n")
    refused = riemdp("mean", file, MEAN)
    assert refused.code == 2
    assert "record 30 has NaN" in refused.err
    assert "oops" not in refused.err
    centred = riemdp("mean", file, MEAN, "--on-invalid center --seed 3 --json")
    X = spd_records(60)
    X[30] = np.nan
    np.save(tmp_path / "x.npy", X)
    same = riemdp("mean", tmp_path / "x.npy", MEAN, "--on-invalid center --seed 3 --json")
    values = [np.array(json.loads(run.out)["mean"]) for run in (centred, same)]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-9)


def test_a_folder_of_images_is_read_image_by_image(tmp_path):
    """Each in grey and alone: none decides how another one is read."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, size=(5, 12, 10), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    whole = np.asarray(library.datasets.covariance_descriptors(pixels))
    assert np.array_equal(Commands.read_records(tmp_path).array, whole)
    (tmp_path / "0.png").write_bytes(b"damaged")
    Image.fromarray(np.zeros((4, 7, 3), dtype=np.uint8)).save(tmp_path / "1.png")
    found = Commands.read_records(tmp_path).array
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert np.array_equal(found[2:], whole[2:])


def test_an_array_without_a_length_is_read_in_parts(riemdp, tmp_path, monkeypatch):
    X = spd_records(n=400)
    np.save(tmp_path / "x.npy", X)
    words = "-r 2 -e 2 -d 1e-5 --seed 0 --json"
    plain = riemdp("mean", tmp_path / "x.npy", words)
    loaded = type(Commands.read_records(tmp_path / "x.npy"))(LikeZarr(X))
    plant(monkeypatch, "reader of a command", lambda *_, **__: loaded)
    streamed = riemdp("mean", tmp_path / "x.npy", words)
    assert (plain.code, streamed.code) == (0, 0), streamed.err
    assert json.loads(plain.out)["mean"] == json.loads(streamed.out)["mean"]


class LikeZarr:
    """As much of a Zarr array as it has: a shape and slices, and no len()."""

    chunks = (16, 3, 3)

    def __init__(self, X: np.ndarray):
        self.X, self.shape, self.dtype, self.ndim = X, X.shape, X.dtype, X.ndim

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.X[rows]


LikeZarr.__module__ = "zarr.fake"


def test_centres(tmp_path):
    space = library.SPDAffineInvariant(2)
    assert np.array_equal(Commands.center_for(space, "identity"), np.eye(2))
    assert np.array_equal(Commands.center_for(space, "diag:4"), 4 * np.eye(2))
    np.save(tmp_path / "c.npy", np.diag([1.0, 2.0])[None])
    assert np.array_equal(Commands.center_for(space, str(tmp_path / "c.npy")), np.diag([1.0, 2.0]))
    np.save(tmp_path / "c.npy", -np.eye(2))
    with pytest.raises(Commands.InputProblem, match="not a point"):
        Commands.center_for(space, str(tmp_path / "c.npy"))


# ------------------------------------------------------------------------------------ what is said
def test_cautions_and_bias_are_said(riemdp, scans):
    options = "--radius 2 --metric log-euclidean"
    plain = riemdp("mean", scans, options, "--epsilon 1 --delta 1e-6")
    words = " ".join(plain.out.split())
    assert "error from noise" in words
    assert "farther than 2 from the centre" in words
    assert plain.err == ""
    slack = riemdp("mean", scans, options, "--epsilon 1 --delta 0.5")
    assert "delta = 0.5 is not below 1/n = 0.0167" in " ".join(slack.err.split())
    nominal = riemdp("mean", scans, options, "--epsilon 1000 --delta 1e-6")
    assert "hardly protects anybody" in nominal.err
    noisy = riemdp("mean", scans, options, "--epsilon 0.01 --delta 1e-6")
    assert "the public centre" in " ".join(noisy.err.split())


def test_ledger_show_says_what_was_charged_in_80_columns(riemdp, tmp_path, monkeypatch):
    book = tmp_path / "b.json"
    assert riemdp("ledger create", book, "-e 2 -d 1e-5").code == 0
    assert "--ledger" in riemdp("ledger show", book).out  # an empty one says how it is charged
    ledger = library.Ledger.open(book)
    words = "mean of a-very-long-name-of-a-file-of-the-second-visit.npy"
    ledger.spend(library.gaussian(20.0), what=words)
    ledger.part("S01").spend(library.gaussian(30.0))
    monkeypatch.setenv("COLUMNS", "80")
    shown = riemdp("ledger show", book).out
    assert max(map(len, shown.splitlines())) <= 80
    assert "by 2 releases" in shown
    assert "mean of a-very-long-name" in " ".join(shown.split())
    assert "(part S01)" in shown
    assert Commands.rounded_up(library.gaussian(20.0).epsilon(1e-5)) in shown


def test_a_command_has_at_most_fifteen_options():
    commands = typer.main.get_command(Commands.app).commands  # type: ignore[attr-defined]
    found = {
        name: sum(p.param_type_name == "option" for p in command.params)
        for name, command in commands.items()
    }
    assert max(found.values()) <= 15
    assert found["pca"] <= 12


def test_tiny_and_huge_means_are_printed_with_their_digits():
    """Covariances of volts were printed as zeros."""

    assert Commands.as_text(np.diag([2.5e-10, 1e-10])) == "1e-10 times\n[[2.5 0. ]\n [0.  1. ]]"
    assert Commands.as_text(np.array([1.25e7, -1.0])) == "1e+07 times\n[1.25 0.  ]"
    assert Commands.as_text(np.array([0.5, -1e-9])) == "[0.5 0. ]"
    assert Commands.as_text(np.zeros(2)) == "[0. 0.]"
    assert Commands.as_text(np.array([5e-324])) == "1e-300 times\n[0.]"


def test_hdf5_and_zarr_name_the_package_that_lacks(riemdp, tmp_path, monkeypatch):
    for name, package in (("x.h5", "h5py"), ("x.zarr", "zarr")):
        (tmp_path / name).write_bytes(b"x")
        monkeypatch.setitem(sys.modules, package, None)
        run = riemdp("mean", tmp_path / name, MEAN)
        assert run.code != 0
        assert f"needs the package {package}" in run.err
        assert ".[large]" in run.err
