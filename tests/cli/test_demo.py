"""The main job end to end on bundled images: files, numbers, totals, and nothing left behind when
it fails.
"""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import InvalidArgument
from tests.seam import Commands, original, plant
from tests.statistical import ALPHA

pytest.importorskip("skimage")


@pytest.fixture(scope="module")
def jobs():
    """The data sets of the run, descriptors included, once it has been made."""
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory, jobs):
    load = original("records of the demo")

    def remembered(*args):
        jobs.extend(load(*args))
        return list(jobs)

    patch = pytest.MonkeyPatch()
    patch.delenv("RIEMDP_DATA", raising=False)
    patch.setenv("RIEMDP_CACHE", str(tmp_path_factory.mktemp("cache")))
    plant(patch, "records of the demo", remembered)
    out = tmp_path_factory.mktemp("demo") / "out"
    try:
        yield Commands.run_demo(out, quick=True, seed=7, progress=False)
    finally:
        patch.undo()


def test_files_are_all_there_and_nothing_else(run):
    assert set(run.files) == {
        "released-means.npz",
        "error-against-epsilon.png",
        "error-against-epsilon.svg",
        "privacy-statement.md",
        "measured-error-NOT-PRIVATE.csv",
        "privacy-report-digits.html",
        "privacy-report-digits.json",
        "privacy-report-histology.html",
        "privacy-report-histology.json",
    }
    assert not [p for p in run.folder.parent.iterdir() if p != run.folder]
    with np.load(run.folder / "released-means.npz") as arrays:
        means = [a for name, a in arrays.items() if "/ball/" not in name]
        assert len(means) == (3 + 2) * 3
        assert all(np.linalg.eigvalsh(a).min() > 0 for a in means)
        assert {a.shape for a in means} == {(9, 9), (11, 11)}
        # 510 digits are too few for a search at epsilon 0.5; that is public
        assert sum(name.endswith("/radius") for name in arrays) == 2 + 3


def test_total_composes_epsilons_and_not_classes(run):
    from riemdp import Budget
    from riemdp.privacy import gaussian, gaussian_noise_multiplier

    multipliers = [gaussian_noise_multiplier(Budget(e, Commands.DELTA)) for e in (0.5, 2.0, 8.0)]
    together = gaussian(
        1 / math.sqrt(sum(m**-2 for m in multipliers))
    )  # Gaussian mechanisms compose to one of mu^2 = sum mu_i^2
    for total in run.totals.values():
        assert total.epsilon(Commands.DELTA) >= together.epsilon(Commands.DELTA) * (1 - 1e-8)
        assert total.epsilon(Commands.DELTA) <= together.epsilon(Commands.DELTA) * 1.01
    statement = (run.folder / "privacy-statement.md").read_text()
    assert f"{math.ceil(total.epsilon(Commands.DELTA) * 1e4) / 1e4:.4f}" in statement


def _p_value(run, jobs, factor=1.0):
    """Noise over its sigma is chi-square with d degrees of freedom a class mean; two-sided p-value
    of their sum. Sigma is recomputed here from n, the released radius and the share of the budget,
    the noise from the release: the mean of the moved descriptors is subtracted after the shrinking
    is undone.
    """
    total = dof = 0.0
    with np.load(run.folder / "released-means.npz") as arrays:
        for job in jobs:
            space = riemdp.SPDLogEuclidean(8 + job.channels)
            for epsilon in (2.0, 8.0):
                budget = riemdp.Budget(epsilon, Commands.DELTA)
                share = Commands.search_share(space, job.total_count, budget)
                at = f"{job.key}/ball/epsilon-{epsilon:g}"
                ball = riemdp.Ball(arrays[f"{at}/center"], float(arrays[f"{at}/radius"]))
                multiplier = riemdp.privacy.gaussian_noise_multiplier(budget)
                sigma = 2 * ball.radius / job.count * multiplier / math.sqrt(1 - share)
                for name, records in job.descriptors.items():
                    mean = riemdp.frechet_mean(space, ball.clamp(space, records)).value
                    key = f"{job.key}/{name.replace(' ', '-').replace('/', '-')}"
                    shrunk = space.log(ball.center, arrays[f"{key}/epsilon-{epsilon:g}"])
                    y = np.asarray(space.to_coordinates(ball.center, shrunk))
                    length = float(np.linalg.norm(y))
                    assert length > 0
                    plain = (length + math.hypot(length, 2 * sigma * math.sqrt(space.dim - 2))) / 2
                    v = np.asarray(space.to_coordinates(ball.center, space.log(ball.center, mean)))
                    total += float(np.sum((factor * (plain / length * y - v) / sigma) ** 2))
                    dof += space.dim
    return 2 * min(stats.chi2.cdf(total, dof), stats.chi2.sf(total, dof))


@pytest.mark.slow
def test_noise_follows_the_exact_law_and_weaker_noise_would_not(run, jobs):
    assert _p_value(run, jobs) > ALPHA
    assert (
        _p_value(run, jobs, factor=0.8) < ALPHA
    )  # the planted twin: noise times 0.8 fails the same test


def test_private_means_are_useful_from_epsilon_2_on(run):
    """Half as far as one image is from the mean of its class, and less than half of what the ball
    known beforehand gives.
    """
    with (run.folder / "measured-error-NOT-PRIVATE.csv").open() as lines:
        rows = list(csv.reader(lines))[2:]
    assert len(rows) == (3 + 2) * 3
    for _, _, epsilon, error, noise, known in rows:
        if float(epsilon) >= 2:
            assert float(error) < 0.45
            assert float(noise) < 0.5 * float(known)


def test_seeded_run_says_that_it_is_not_private(run):
    assert run.reproducible
    assert "NOT PRIVATE" in (run.folder / "privacy-statement.md").read_text()


def test_statement_is_honest_about_what_is_measured(run):
    text = (run.folder / "privacy-statement.md").read_text()
    for words in (
        "replace-one",
        "What was found privately",
        "share for the search",
        "too few images for a search",
        "parallel composition",
        "not private",
        "measured-error-NOT-PRIVATE.csv",
        "one photograph",
    ):
        assert words in text
    assert (
        "NOT covered" in (run.folder / "measured-error-NOT-PRIVATE.csv").read_text().splitlines()[0]
    )


def test_a_folder_with_other_content_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InvalidArgument, match="other content"):
        Commands.run_demo(tmp_path, progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InvalidArgument, match="is a file"):
        Commands.run_demo(tmp_path / "thesis.tex", progress=False)


def test_a_failure_leaves_nothing_and_keeps_the_old_output(tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / Commands.STATEMENT).write_text("from before")

    def fails(*_):
        raise RuntimeError("interrupted")

    plant(monkeypatch, "records of the demo", fails)
    with pytest.raises(RuntimeError, match="interrupted"):
        Commands.run_demo(out, progress=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (out / Commands.STATEMENT).read_text() == "from before"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"epsilons": ()}, "epsilons"),
        ({"epsilons": (-1.0,)}, "epsilons"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_bad_arguments(tmp_path, options, word):
    with pytest.raises(InvalidArgument, match=word):
        Commands.run_demo(tmp_path / "out", progress=False, **options)
    assert not (tmp_path / "out").exists()
