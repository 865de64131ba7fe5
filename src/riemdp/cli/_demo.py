"""The main job: real images -> covariance descriptors -> one private ball for all classes -> a
private Frechet mean per class in it -> matrices, picture, statement.

What is public here, and stated so: the labels, the number of images a class, and the constants
below. What is private: the images. Every release is made by `private_ball` or
`private_frechet_mean`; nothing in this module draws noise.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import datasets
from .._errors import DataUnavailable, InvalidArgument, integer, real
from ..datasets import covariance_descriptors, descriptor_ball
from ..domains import AdaptiveBall
from ..manifolds import SPDLogEuclidean
from ..privacy import Budget, gaussian, gaussian_noise_multiplier
from ..releases import plan_private_mean, private_ball, private_frechet_mean
from ..statistics import frechet_mean
from ._demo_job import ETA, Job
from ._demo_write import STATEMENT, write

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ..datasets import Images
    from ..privacy import Guarantee

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
SEARCH_SHARE = 0.1  # of mu^2, for the ball of all classes; more where so little moves no centre
MOST_SEARCH = 0.5  # if a search needs more, the ball known beforehand is used
AMPLE = 1.05  # times the number of images that a search needs to move its centre


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

    Nobody chooses a ball: for each epsilon a share of the budget finds one ball for all images, and
    the class means are released in it with the rest, shrunk towards its centre.

    The folder holds the released matrices and balls (npz), a picture of error against epsilon (PNG,
    SVG), a privacy statement in plain language (Markdown) with one report page a data set (HTML,
    JSON), and the measured errors in a file whose name says that they are not private. It is
    written whole or not at all.

    Args:
        out: A folder that does not exist yet, is empty, or was written by this function before. In
            the last case it is replaced.
        quick: Whether to use only three classes and three epsilons.
        seed: None draws noise from the operating system. A whole number makes the run reproducible
            and *not private*, which every file then says.
        epsilons: Epsilon of each release.
        delta: Delta of each release, above 0 and below 1.
        progress: Whether to show progress on stderr.

    Raises:
        InvalidArgument: The output folder holds other content.
        DataUnavailable: There are no images at all.

    Guarantee:
        For each data set, replace-one with public labels: an image is in one class mean and in one
        search for a ball per epsilon, so the total is that of one class and of the searches
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
        write(folder, jobs, totals, epsilons, delta, seed)
    files = tuple(sorted(p.name for p in Path(out).iterdir()))
    return DemoResult(Path(out), files, totals, time.monotonic() - began, seed is not None)


# ---------------------------------------------------------------- data


def _load(quick: bool, tracker: _Tracker) -> list[Job]:
    tracker("loading images", None)
    jobs = []
    jobs.append(_descriptors(datasets.digits(), "digits", 1, 170, 3 if quick else 10, tracker))
    with contextlib.suppress(DataUnavailable):
        patches = datasets.histology_patches(16)
        jobs.append(_descriptors(patches, "histology", 3, 512, 2, tracker))
    return jobs


def _descriptors(
    images: Images, key: str, channels: int, count: int, classes: int, tracker: _Tracker
) -> Job:
    """Descriptors of the first `count` images of each class: a public number, the same for every
    class.
    """

    tracker(f"descriptors of {images.name}", None)
    chosen = [images.of_class(c)[:count] for c in range(classes)]
    stacked = np.asarray(covariance_descriptors(np.concatenate(chosen), eta=ETA))
    parts = np.split(stacked, np.cumsum([len(c) for c in chosen])[:-1])
    return Job(images.name, key, channels, dict(zip(images.classes, parts, strict=False)), count)


# ---------------------------------------------------------------- releases


def _release_means(
    job: Job, epsilons: tuple[float, ...], delta: float, seed: int | None, tracker: _Tracker
) -> None:
    job.known = descriptor_ball(job.channels, ETA, center="middle")
    space = job.manifold = SPDLogEuclidean(8 + job.channels)
    everything = np.concatenate(list(job.descriptors.values()))
    tracker(f"a private ball of {job.name}", len(epsilons))
    for j, epsilon in enumerate(epsilons):
        budget = Budget(epsilon, delta)
        share = _search_share(space, job.total_count, budget)
        job.found[epsilon] = None
        if share is not None:
            rng = _seed(seed, job, 0, j)
            search = private_ball(space, everything, AdaptiveBall(), _part(budget, share), rng=rng)
            job.found[epsilon] = search, share
        tracker.advance()
    tracker(f"private means of {job.name}", len(job.descriptors) * len(epsilons))
    for i, (name, records) in enumerate(job.descriptors.items(), 1):
        exact = frechet_mean(space, records).value
        job.distances.append(np.asarray(space.dist(exact, records)))
        for j, epsilon in enumerate(epsilons):
            search = job.found[epsilon]
            budget = Budget(epsilon, delta)
            release = private_frechet_mean(
                space,
                records,
                job.ball(epsilon),
                budget if search is None else _part(budget, 1.0 - search[1]),
                mechanism="wrapped-gaussian",
                shrink=True,
                count_outside=False,
                rng=_seed(seed, job, i, j),
            )
            job.releases[name, epsilon] = release
            job.measured[name, epsilon] = float(space.dist(exact, release.value))
            tracker.advance()


def _seed(seed: int | None, job: Job, i: int, j: int) -> int | None:
    """With a seed every release needs its own, or all would share one noise."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, len(job.key), i, j]).generate_state(1)[0])


def _search_share(space: SPDLogEuclidean, count: int, budget: Budget) -> float | None:
    """The share of the budget with which a ball is found among so many images; None if the search
    would need too much. A function of public numbers.
    """

    part = _part(budget, SEARCH_SHARE)
    need = plan_private_mean(space, AdaptiveBall(), None, part).rows[0].moves_from
    share = SEARCH_SHARE * max(1.0, AMPLE * need / count) ** 2  # the need falls as 1 / mu
    return share if share <= MOST_SEARCH else None


def _part(budget: Budget, share: float) -> Budget:
    """The budget of a Gaussian mechanism with this share of mu^2; parts with shares that add up to
    1 keep within `budget` together, by exact composition.
    """

    # a margin for the rounding of two calibrations
    multiplier = gaussian_noise_multiplier(budget) * (1 + 1e-9) / math.sqrt(share)
    # any epsilon names that Gaussian, with the delta that belongs to it
    epsilon = budget.epsilon * math.sqrt(share)
    return Budget(epsilon, gaussian(multiplier).delta(epsilon) or budget.delta * share)


def _total(job: Job, epsilons: tuple[float, ...], delta: float) -> Guarantee:
    """The guarantee of everything released from one data set: the searches for balls, and the worst
    class (they are alike), composed over epsilons.
    """
    searches = [s[0].guarantee for s in job.found.values() if s is not None]
    per_class = []
    for name in job.descriptors:
        first, *others = (job.releases[name, e].guarantee for e in epsilons)
        others += searches
        per_class.append(first.compose(*others) if others else first)
    return max(per_class, key=lambda g: g.epsilon(delta))


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
