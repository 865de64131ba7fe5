"""The main job: real images -> covariance descriptors -> a private Frechet mean per class ->
matrices, picture, statement.

What is public here, and stated so: the labels, the number of images a class, and the constants
below. What is private: the images. Every release is made by `private_frechet_mean`; nothing in this
module draws noise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__, datasets, plots
from .._errors import DataUnavailable, InvalidArgument, integer, real
from ..datasets import covariance_descriptors, descriptor_ball
from ..manifolds import SPDLogEuclidean
from ..privacy import Budget, gaussian_noise_multiplier
from ..releases import private_frechet_mean
from ..report import privacy_report
from ..statistics import frechet_mean

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ..datasets import Images
    from ..domains import Ball
    from ..manifolds import SPDLogEuclidean
    from ..mechanisms import Release
    from ..privacy import Guarantee

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
# public regulariser of the descriptors: larger than the papers' 1e-6, because it decides the radius
ETA = 1e-2
STATEMENT = "privacy-statement.md"
PICTURE = "error-against-epsilon"
MATRICES = "released-means.npz"
MEASURED = "measured-error-NOT-PRIVATE.csv"
TYPICAL = "typical distance of one image to its class mean"


@dataclass(frozen=True)
class DemoResult:
    """Where the output of `run_demo` lies and what it cost: `totals` maps each data set to its
    composed `Guarantee`.
    """

    folder: Path
    files: tuple[str, ...]
    totals: dict[str, Guarantee]
    seconds: float
    reproducible: bool


@dataclass
class _Job:
    """One data set: public facts, the descriptors (n, k, k) of each class, and what was released
    and measured.
    """

    name: str
    key: str
    channels: int
    descriptors: dict[str, Any]
    count: int
    releases: dict[tuple[str, float], Release] = field(default_factory=dict)
    measured: dict[tuple[str, float], float] = field(default_factory=dict)
    distances: list[np.ndarray] = field(
        default_factory=list
    )  # of each image to the non-private mean of its class
    ball: Ball | None = None
    manifold: SPDLogEuclidean | None = None

    @property
    def domain(self) -> Ball:
        """The public ball, once it is known."""
        assert self.ball is not None
        return self.ball

    @property
    def space(self) -> SPDLogEuclidean:
        """The space of the descriptors, once it is known."""
        assert self.manifold is not None
        return self.manifold


def run_demo(
    out: str | Path = "riemdp-demo",
    *,
    quick: bool = False,
    seed: int | None = None,
    epsilons: tuple[float, ...] = EPSILONS,
    delta: float = DELTA,
    progress: bool = True,
) -> DemoResult:
    """Release private mean descriptors of real images and write a folder about it.

    The images are scikit-learn's digits and, where scikit-image is installed, patches of its
    histology photograph. No network is used.

    The folder holds the released matrices (npz), a picture of error against epsilon (PNG, SVG), a
    privacy statement in plain language (Markdown) with one report page a data set (HTML, JSON), and
    the measured errors in a file whose name says that they are not private. It is written whole or
    not at all.

    **Arguments:**
    - `out`: a folder that does not exist yet, is empty, or was written by this function before
      (then it is replaced).
    - `quick`: three classes and three epsilons.
    - `seed`: None draws noise from the operating system; a whole number makes the run reproducible
      and *not private*, which every file then says.
    - `epsilons`, `delta`: the budget of each release.
    - `progress`: show progress on stderr.

    Raises `InvalidArgument` for an output folder with other content in it, `DataUnavailable` if
    there are no images at all.

    Guarantee: for each data set, replace-one with public labels: one class composes its releases
    over the epsilons, and classes hold different images, so the total is that of one class
    (`DemoResult.totals`).
    """
    began = time.monotonic()
    delta = real("delta", delta, above=0.0, below=1.0)
    epsilons = tuple(sorted({real("epsilons", e, above=0.0) for e in epsilons}))
    if not epsilons:
        raise InvalidArgument("argument `epsilons` is empty; give at least one epsilon above 0")
    if seed is not None:
        seed = integer("seed", seed, at_least=0)
    if quick:
        epsilons = epsilons[:: max(1, len(epsilons) // 2)][:3]
    with _new_folder(Path(out)) as folder, _tracker(progress) as tracker:
        jobs = _load(quick, tracker)
        for job in jobs:
            _release_means(job, epsilons, delta, seed, tracker)
        tracker("drawing and writing", None)
        totals = {job.name: _total(job, epsilons, delta) for job in jobs}
        _write(folder, jobs, totals, epsilons, delta, seed)
    files = tuple(sorted(p.name for p in Path(out).iterdir()))
    return DemoResult(Path(out), files, totals, time.monotonic() - began, seed is not None)


# ---------------------------------------------------------------- data


def _load(quick: bool, tracker: _Tracker) -> list[_Job]:

    tracker("loading images", None)
    jobs = []
    jobs.append(_descriptors(datasets.digits(), "digits", 1, 170, 3 if quick else 10, tracker))
    with contextlib.suppress(DataUnavailable):
        patches = datasets.histology_patches(16)
        jobs.append(_descriptors(patches, "histology", 3, 512, 2, tracker))
    return jobs


def _descriptors(
    images: Images, key: str, channels: int, count: int, classes: int, tracker: _Tracker
) -> _Job:
    """Descriptors of the first `count` images of each class: a public number, the same for every
    class.
    """

    tracker(f"descriptors of {images.name}", None)
    chosen = [images.of_class(c)[:count] for c in range(classes)]
    stacked = np.asarray(covariance_descriptors(np.concatenate(chosen), eta=ETA))
    parts = np.split(stacked, np.cumsum([len(c) for c in chosen])[:-1])
    return _Job(images.name, key, channels, dict(zip(images.classes, parts, strict=False)), count)


# ---------------------------------------------------------------- releases


def _release_means(
    job: _Job, epsilons: tuple[float, ...], delta: float, seed: int | None, tracker: _Tracker
) -> None:

    job.ball = descriptor_ball(job.channels, ETA, center="middle")
    job.manifold = SPDLogEuclidean(8 + job.channels)
    tracker(f"private means of {job.name}", len(job.descriptors) * len(epsilons))
    for i, (name, records) in enumerate(job.descriptors.items()):
        exact = frechet_mean(job.manifold, records).value
        job.distances.append(np.asarray(job.manifold.dist(exact, records)))
        for j, epsilon in enumerate(epsilons):
            # With a seed every release needs its own, or all would share one noise.
            rng = (
                None
                if seed is None
                else int(np.random.SeedSequence([seed, len(job.key), i, j]).generate_state(1)[0])
            )
            release = private_frechet_mean(
                job.manifold,
                records,
                job.ball,
                Budget(epsilon, delta),
                mechanism="wrapped-gaussian",
                rng=rng,
            )
            job.releases[name, epsilon] = release
            job.measured[name, epsilon] = float(job.manifold.dist(exact, release.value))
            tracker.advance()


def _total(job: _Job, epsilons: tuple[float, ...], delta: float) -> Guarantee:
    """The guarantee of everything released from one data set: the worst class (they are alike),
    composed over epsilons.
    """
    per_class = []
    for name in job.descriptors:
        first, *others = (job.releases[name, e].guarantee for e in epsilons)
        per_class.append(first.compose(*others) if others else first)
    return max(per_class, key=lambda g: g.epsilon(delta))


# ---------------------------------------------------------------- files


def _write(
    folder: Path,
    jobs: list[_Job],
    totals: dict[str, Guarantee],
    epsilons: tuple[float, ...],
    delta: float,
    seed: int | None,
) -> None:

    arrays = {
        f"{job.key}/{name.replace(' ', '-').replace('/', '-')}/epsilon-{epsilon:g}": np.asarray(
            release.value
        )
        for job in jobs
        for (name, epsilon), release in job.releases.items()
    }
    np.savez_compressed(folder / MATRICES, **arrays)  # pyright: ignore[reportArgumentType]
    lines = [
        (
            "# The errors in this file were measured on the images themselves. They are NOT covered"
            " by the guarantee."
        ),
        (
            "data set,class,epsilon,distance of release to non-private mean,error from noise (root"
            " mean square)"
        ),
    ]
    for job in jobs:
        for (name, epsilon), error in job.measured.items():
            expected = job.releases[name, epsilon].expected_error
            lines.append(f"{job.name},{name},{epsilon:g},{error:.6g},{expected:.6g}")
    (folder / MEASURED).write_text("\n".join(lines) + "\n", encoding="utf-8")
    plots.save(_picture(jobs, epsilons, delta, seed), folder / PICTURE)
    for job in jobs:
        privacy_report(
            _together(job, totals[job.name]),
            delta=delta,
            query=(
                f"Mean descriptors of {job.name}: {len(epsilons)} budgets, {len(job.descriptors)}"
                " classes"
            ),
            record_is="one image of a class with a public label",
        ).save(folder / f"privacy-report-{job.key}.html")
    (folder / STATEMENT).write_text(
        _statement(jobs, totals, epsilons, delta, seed), encoding="utf-8"
    )


def _together(job: _Job, total: Guarantee) -> Release:
    """Everything released from one data set, as one release with the total guarantee."""
    first = next(iter(job.releases.values()))
    return dataclasses.replace(
        first,
        value=np.stack([np.asarray(r.value) for r in job.releases.values()]),
        guarantee=total,
        mechanism=f"{len(job.releases) // len(job.descriptors)} wrapped Gaussian releases a class",
        scale=math.nan,  # another one for every budget
        error_law=None,
        details={k: first.details[k] for k in ("n", "manifold", "ball")},
    )


def _expected_curves(job: _Job, delta: float) -> dict[str, list[tuple[float, float]]]:
    """Errors from noise by formula on a fine grid of epsilon. Nothing here looks at images."""

    space, radius = job.space, job.domain.radius
    dim, k = space.dim, space.k
    sensitivity = 2.0 * radius / job.count
    # The radius of Utpala2023LE Theorem 5 as printed there: centre I, constant 14 (grey) or 16
    # (RGB).
    printed = math.sqrt(k) * max(
        abs(math.log(ETA)), math.log((14 if job.channels == 1 else 16) + ETA)
    )
    low, high = min(e for _, e in job.releases), max(e for _, e in job.releases)
    grid = [float(e) for e in np.geomspace(low, high, 13)]
    sigma = {e: sensitivity * gaussian_noise_multiplier(Budget(e, delta)) for e in grid}
    gaussian = [(e, math.sqrt(dim) * sigma[e]) for e in grid]
    return {
        f"Gaussian, ε and δ = {delta:g} (released)": gaussian,
        "Gaussian with the radius printed in Utpala2023LE": [
            (e, x * printed / radius) for e, x in gaussian
        ],
        "Riemannian Laplace, pure ε": [
            (e, math.sqrt(dim * (dim + 1)) * sensitivity / e) for e in grid
        ],
    }


def _picture(jobs: list[_Job], epsilons: tuple[float, ...], delta: float, seed: int | None) -> Any:

    with plots.styled():
        panels = plots.axes_row(len(jobs), (6.6 * len(jobs), 6.4))
        figure = panels[0].figure
        for ax, job in zip(panels, jobs, strict=True):
            curves = _expected_curves(job, delta)
            released = next(iter(curves))
            runs = {e: [job.measured[c, e] for c in job.descriptors] for e in epsilons}
            spread = float(np.sqrt(np.mean(np.concatenate(job.distances) ** 2)))
            plots.error_against_epsilon(
                curves,
                {released: runs},
                reference=(TYPICAL, spread),
                ax=ax,
                title=f"{job.name}\n{len(job.descriptors)} classes of {job.count} images",
                ylabel="log-Euclidean distance to the mean" if ax is panels[0] else "",
            )
            ax.get_legend().remove()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles, [_legend(text) for text in labels], loc="outside lower center", ncols=2
        )
        warning = "NOT PRIVATE: drawn with a seed. " if seed is not None else ""
        figure.suptitle(
            f"{warning}What privacy costs: error of private class means (points and grey line are"
            " measured, not private)",
            fontsize=14,
            x=0.01,
            ha="left",
        )
    return figure


def _legend(label: str) -> str:
    if label == TYPICAL:
        return f"measured: {label}"
    return (
        "measured: root mean square over classes, bar from smallest to largest"
        if label.endswith(": measured")
        else f"error from noise: {label}"
    )


def _statement(
    jobs: list[_Job],
    totals: dict[str, Guarantee],
    epsilons: tuple[float, ...],
    delta: float,
    seed: int | None,
) -> str:

    text = ["# Privacy statement", ""]
    if seed is not None:
        text += [
            (
                f"**NOT PRIVATE.** The noise was drawn with the seed {seed}, so anyone can remove"
                " it. Run again without a seed"
            ),
            "before publishing anything.",
            "",
        ]
    text += [
        (
            "Average image descriptors were published with noise, so that nobody who reads them can"
            " tell much about any one image."
        ),
        "",
        "## What everything together costs",
        "",
        "| data set | classes | images a class | releases | total epsilon | at delta |",
        "|---|---|---|---|---|---|",
    ]
    for job in jobs:
        total = math.ceil(totals[job.name].epsilon(delta) * 1e4) / 1e4
        text.append(
            f"| {job.name} | {len(job.descriptors)} | {job.count} | {len(job.releases)} |"
            f" **{total:.4f}** | {delta:g} |"
        )
    listed = ", ".join(f"{e:g}" for e in epsilons)
    text += [
        "",
        (
            f"Each class mean was released {len(epsilons)} times, with epsilon = {listed} and delta"
            f" = {delta:g} each. One image is"
        ),
        (
            "in one class only, and the labels are public, so classes do not add up (parallel"
            " composition); the releases of one"
        ),
        (
            "class do, and the total above is their exact composition, which is less than the sum."
            " Several budgets are shown for"
        ),
        (
            "comparison: a real publication would choose one of them, and its epsilon alone is then"
            " the cost. A total above about"
        ),
        "3 is a weak promise.",
        "",
        (
            "**In words.** Take any one image, and replace it by any other of the same class. Every"
            " event in everything released"
        ),
        (
            "then becomes at most e^epsilon times as likely, plus delta (replace-one differential"
            " privacy)."
        ),
        "",
        "## What it rests on",
        "",
        (
            "- Public: labels, the number of images, image size, and the constants here."
            " Replace-one privacy protects what an image"
        ),
        "  shows, and whose it is; it does not hide how many images there are.",
    ]
    for job in jobs:
        release = next(iter(job.releases.values()))
        text.append(
            f"- {job.name}: the descriptor of *any* image lies within {job.domain.radius:.4g} of a"
            f" public centre (log-Euclidean\n  distance, eta = {ETA:g}; proved, and enforced by"
            f" clamping), so one image moves the mean by at most {release.sensitivity:.4g}."
        )
    text += [
        (
            "- Noise: Gaussian in the logarithm, calibrated exactly (not with the classical"
            " formula), from"
        ),
        (
            "  the operating system's cryptographic generator."
            if seed is None
            else "  a SEEDED generator in this run."
        ),
    ]
    if any(job.key == "histology" for job in jobs):
        text.append(
            "- The histology patches come from one photograph: they stand for images of people,"
            " they are not people."
        )
    text += [
        "",
        "## What is not private",
        "",
        f"- `{MEASURED}` and the points, bars and grey line in the picture",
        (
            "  compare the releases with the images themselves. They are here to check the formulas"
            " on public demonstration data."
        ),
        (
            "  With your own data, do not publish them: the error from noise, a formula of public"
            " numbers, says the same."
        ),
        "",
        (
            f"Made by riemdp {__version__}. Files: `{MATRICES}` (the released matrices),"
            f" `{PICTURE}.png` and `.svg`, one"
        ),
        "`privacy-report-*.html` a data set.",
        "",
    ]
    return "\n".join(text)


# ---------------------------------------------------------------- whole or not at all, and progress


@contextlib.contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out` that takes its place when the body has succeeded, and
    vanishes when it has not.
    """
    if out.exists() and not out.is_dir():
        raise InvalidArgument(f"argument `out` = '{out}' is a file; name a folder")
    if out.exists() and any(out.iterdir()) and not (out / STATEMENT).is_file():
        raise InvalidArgument(
            f"argument `out` = '{out}' is a folder with other content; name a new or an empty one"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent))
    try:
        yield staging
        staging.chmod(0o755)
        old = None
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
            os.replace(out, old / "old")
        os.replace(staging, out)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class _Tracker:
    """`tracker(words, total)` starts the next line of progress; `tracker.advance()` moves it on."""

    def __init__(self, display: Progress | None):
        self._display = display
        self._task: TaskID | None = None

    def __call__(self, words: str, total: int | None) -> None:
        if self._display is None:
            return
        if self._task is not None:
            task = self._display.tasks[self._task]
            self._display.update(self._task, total=task.total or 1, completed=task.total or 1)
        self._task = self._display.add_task(words, total=total)

    def advance(self) -> None:
        if self._display is not None and self._task is not None:
            self._display.advance(self._task)


@contextlib.contextmanager
def _tracker(show: bool) -> Iterator[_Tracker]:
    if not show:
        yield _Tracker(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        tracker = _Tracker(display)
        yield tracker
        tracker("done", 1)
        tracker.advance()
