"""`riemdp demo`: real images, private means for several epsilon, a plot and a report.

Public here: the number of images and the constants below. Private: the images. Every release is
made by `private_frechet_mean`; nothing in this module draws noise.
"""

from __future__ import annotations

import csv
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._run import InputProblem, command

if TYPE_CHECKING:
    import numpy as np

    from ..manifolds import SPDLogEuclidean
    from ..mechanisms import Release
    from ..privacy import Ledger

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
TOTAL = 12.0  # epsilon of the ledger: of all releases together
ETA = 1e-2  # public regulariser of the descriptors
REPORTED = 1.0  # the epsilon whose release gets the report

MEANS, LEDGER, REPORT = "released-means.npz", "ledger.json", "privacy-report.html"
PICTURE, MEASURED = "error-against-epsilon", "measured-error-NOT-PRIVATE.csv"
FILES = (
    MEANS,
    LEDGER,
    f"{LEDGER}.lock",
    REPORT,
    "privacy-report.json",
    f"{PICTURE}.png",
    f"{PICTURE}.svg",
    MEASURED,
)
OWN = "in a ball that is found privately"
KNOWN = "in the ball of every possible image"
TYPICAL = "measured: typical distance of one image to the mean"


@dataclasses.dataclass(frozen=True)
class Released:
    """The release of one epsilon, and how far it lies from the mean of the descriptors: that figure
    is measured on the images and not private.
    """

    epsilon: float
    release: Release
    measured: float


@command
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the means, the plot and the report.")
    ] = Path("riemdp-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Three epsilons instead of five.")] = False,
) -> None:
    """Private means of real images, a plot and a report.

    Takes under a minute. The images are scikit-learn's handwritten digits.
    """
    files = run_demo(out, quick=quick)
    typer.echo(f"{len(files)} files in {out}")
    typer.echo(f"  open first, the page to sign: {out / REPORT}")
    typer.echo(f"  the picture: {out / PICTURE}.png")
    typer.echo(f"  the released means: {out / MEANS}")
    typer.echo(f"  what all of them cost together: riemdp ledger show {out / LEDGER}")


def run_demo(out: Path, *, quick: bool = False) -> list[str]:
    """Release private mean descriptors of the digits and write a folder about it.

    Nobody chooses a ball: each release spends a share of its budget on finding one. All releases
    are charged to one ledger in the folder.

    Args:
        out: A folder that does not exist yet, is empty, or holds files of an earlier demo alone,
            which are replaced once the new ones are complete.
        quick: Whether to release three means instead of five.

    Returns:
        The names of the files.
    """
    if out.exists() and (not out.is_dir() or {p.name for p in out.iterdir()} - {*FILES}):
        raise InputProblem(f"--out {out} holds other content", "name a new or an empty folder")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=out.parent) as name:
        folder = Path(name)
        _make(folder, EPSILONS[1::2] if quick else EPSILONS)
        for made in FILES:
            (out / made).unlink(missing_ok=True)
            if (folder / made).exists():
                (folder / made).rename(out / made)
    return sorted(p.name for p in out.iterdir())


def _make(folder: Path, epsilons: tuple[float, ...]) -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    from ..datasets import covariance_descriptors
    from ..manifolds import SPDLogEuclidean
    from ..privacy import Budget, Ledger
    from ..report import privacy_report
    from ..statistics import frechet_mean

    images = np.asarray(load_digits().images) / 16.0  # type: ignore[reportAttributeAccessIssue]
    records = np.asarray(covariance_descriptors(images, eta=ETA))
    space = SPDLogEuclidean(records.shape[1])
    ledger = Ledger(Budget(TOTAL, DELTA), path=folder / LEDGER)
    exact = frechet_mean(space, records).value
    done = [
        Released(epsilon, release, float(space.dist(exact, release.value)))
        for epsilon in epsilons
        for release in [_released(space, records, epsilon, ledger)]
    ]
    values = {f"epsilon-{one.epsilon:g}": np.asarray(one.release.value) for one in done}
    np.savez_compressed(folder / MEANS, **values)  # pyright: ignore[reportArgumentType]
    spread = float(np.sqrt(np.mean(np.asarray(space.dist(exact, records)) ** 2)))
    _write_measured(folder / MEASURED, done)
    _draw(folder / PICTURE, space, len(records), done, spread)
    reported = min(done, key=lambda one: abs(one.epsilon - REPORTED)).release
    privacy_report(reported, record_is="one image of a handwritten digit", ledger=ledger).save(
        folder / REPORT
    )


def _released(
    space: SPDLogEuclidean, records: np.ndarray, epsilon: float, ledger: Ledger
) -> Release:
    from ..privacy import Budget
    from ..releases import private_frechet_mean

    return private_frechet_mean(space, records, budget=Budget(epsilon, DELTA), ledger=ledger)


def _write_measured(path: Path, done: list[Released]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write("# Measured on the images themselves: NOT covered by the guarantee.\n")
        rows = csv.writer(stream)
        rows.writerow(["epsilon", "distance to the non-private mean", "error from noise, at most"])
        for one in done:
            rows.writerow(
                [f"{one.epsilon:g}", f"{one.measured:.6g}", f"{one.release.expected_error:.6g}"]
            )


def _draw(path: Path, space: SPDLogEuclidean, n: int, done: list[Released], spread: float) -> None:
    """Errors by formula as lines, measured ones as points; the known ball is planned, and nothing
    is released in it.
    """
    from .. import plots
    from ..datasets import descriptor_ball
    from ..privacy import Budget
    from ..releases import plan_private_mean

    budgets = [Budget(one.epsilon, DELTA) for one in done]
    rows = plan_private_mean(space, descriptor_ball(1, ETA, center="middle"), n, budgets)
    known = [(r.epsilon, r.expected_error) for r in rows if r.mechanism == "wrapped-gaussian"]
    own = [(one.epsilon, one.release.expected_error) for one in done]
    picture = plots.error_curves(
        {
            name: [(e, error) for e, error in pairs if error is not None]
            for name, pairs in ((OWN, own), (KNOWN, known))
        },
        {OWN: {one.epsilon: [one.measured] for one in done}},
        reference=(TYPICAL, spread),
        title=f"What privacy costs: mean descriptor of {n} images of digits",
        ylabel="log-Euclidean distance to the mean",
    )
    plots.save(picture, path)
