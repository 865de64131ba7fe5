"""The files of the demo: matrices, picture, plain statement, reports."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__, plots
from ..report import privacy_report
from ._demo_job import ETA, Job

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Guarantee

STATEMENT = "privacy-statement.md"
PICTURE = "error-against-epsilon"
MATRICES = "released-means.npz"
MEASURED = "measured-error-NOT-PRIVATE.csv"
TYPICAL = "typical distance of one image to its class mean"
FOUND = "one ball for all classes, found privately (released)"
KNOWN = "the ball that is known beforehand"


def write(
    folder: Path,
    jobs: list[Job],
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
    for job in jobs:
        for epsilon, search in job.found.items():
            if search is not None:
                ball = search[0].value
                arrays[f"{job.key}/ball/epsilon-{epsilon:g}/center"] = np.asarray(ball.center)
                arrays[f"{job.key}/ball/epsilon-{epsilon:g}/radius"] = np.asarray(ball.radius)
    np.savez_compressed(folder / MATRICES, **arrays)  # pyright: ignore[reportArgumentType]
    lines = [
        (
            "# The errors in this file were measured on the images themselves. They are NOT covered"
            " by the guarantee."
        ),
        (
            "data set,class,epsilon,distance of release to non-private mean,error from noise (root"
            " mean square; at most),the same in the ball known beforehand"
        ),
    ]
    for job in jobs:
        for (name, epsilon), error in job.measured.items():
            expected = job.releases[name, epsilon].expected_error
            known = job.known_error(epsilon, delta)
            lines.append(f"{job.name},{name},{epsilon:g},{error:.6g},{expected:.6g},{known:.6g}")
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


def _together(job: Job, total: Guarantee) -> Release:
    """Everything released from one data set, as one release with the total guarantee."""
    first = next(iter(job.releases.values()))
    searches = [s for s in job.found.values() if s is not None]
    radii = ", ".join(f"{s[0].value.radius:.3g}" for s in searches)
    found = (
        f"{len(searches)} balls, one for each epsilon and for all classes, found privately from all"
        f" images; their radii are {radii}. The searches are part of the guarantee"
    )
    known = f"a ball of radius {job.known_ball.radius:.3g} that is known beforehand"
    few = len(searches) < len(job.found)
    words = "; ".join(([found] if searches else []) + ([known] if few else []))
    a_class = f"{len(job.releases) // len(job.descriptors)} wrapped Gaussian releases a class"
    search = f"{len(searches)} private searches for a ball, then " if searches else ""
    return dataclasses.replace(
        first,
        value=np.stack([np.asarray(r.value) for r in job.releases.values()]),
        guarantee=total,
        mechanism=f"{search}{a_class}, shrunk towards the centre",
        scale=math.nan,  # another one for every budget
        sensitivity=None,
        error_law=None,
        details={
            "n": job.total_count,
            "manifold": first.details["manifold"],
            "domain": words,
            "clipping": (
                "every record is first moved along the geodesic to the centre of the ball until it"
                " lies in it; a record that is not a valid point counts as the centre"
            ),
        },
    )


def _expected_curves(
    job: Job, epsilons: tuple[float, ...], delta: float
) -> dict[str, list[tuple[float, float]]]:
    """Errors from noise by formula: of what was released, and in the ball known beforehand on a
    fine grid of epsilon. Nothing here looks at images.
    """
    one = next(iter(job.descriptors))
    grid = [float(e) for e in np.geomspace(min(epsilons), max(epsilons), 13)]
    released = ((e, job.releases[one, e].expected_error) for e in epsilons)
    return {
        FOUND: [(e, error) for e, error in released if error is not None],
        KNOWN: [(e, job.known_error(e, delta)) for e in grid],
    }


def _picture(jobs: list[Job], epsilons: tuple[float, ...], delta: float, seed: int | None) -> Any:
    with plots.styled():
        panels = plots.axes_row(len(jobs), (6.6 * len(jobs), 6.4))
        figure = panels[0].figure
        for ax, job in zip(panels, jobs, strict=True):
            curves = _expected_curves(job, epsilons, delta)
            runs = {e: [job.measured[c, e] for c in job.descriptors] for e in epsilons}
            spread = float(np.sqrt(np.mean(np.concatenate(job.distances) ** 2)))
            plots.error_against_epsilon(
                curves,
                {FOUND: runs},
                reference=(TYPICAL, spread),
                ax=ax,
                title=f"{job.name}\n{len(job.descriptors)} classes of {job.count} images",
                xlabel=rf"privacy budget $\varepsilon$ of search and mean ($\delta$ = {delta:g})",
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
        else f"error from noise{', at most' if label == FOUND else ''}: {label}"
    )


def _statement(
    jobs: list[Job],
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
            f" = {delta:g} each, the search for a"
        ),
        (
            "ball included (below): an exact split of one budget. One image is in every search, and"
            " its class mean,"
        ),
        (
            "but in one class only, and the labels are public, so classes do not add up (parallel"
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
        *_what_was_found(jobs, epsilons, delta),
        "## What it rests on",
        "",
        (
            "- Public: labels, the number of images, image size, and the constants here."
            " Replace-one privacy protects what an image"
        ),
        "  shows, and whose it is; it does not hide how many images there are.",
    ]
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
    text.append(
        "- Every record is moved into its ball first, so one image moves its class mean by at most"
        " 2 radius / images a class."
    )
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


def _what_was_found(jobs: list[Job], epsilons: tuple[float, ...], delta: float) -> list[str]:
    """What the searches for balls found and cost: released and public numbers."""
    text = [
        "## What was found privately",
        "",
        (
            "Noise is proportional to the radius of the ball that the images' descriptors are moved"
            " into. Nobody chose that ball: for"
        ),
        (
            "each epsilon, noisy counts and noisy means of all images found one for all classes,"
            " with a share of that epsilon's budget."
        ),
        (
            "The class means were released in it with the rest, and shrunk towards its centre. The"
            " last column is what the same epsilon"
        ),
        (
            "gives in the ball that holds the descriptor of *any* image (log-Euclidean distance,"
            f" eta = {ETA:g}; proved). The share is of"
        ),
        (
            "mu squared, the currency in which Gaussian noise adds up. What moving far descriptors"
            " into the ball does to a mean is not in"
        ),
        "the error from noise.",
        "",
        (
            "| data set | epsilon | share for the search | radius found | error from noise, at most"
            " | radius known beforehand | error from noise there |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        one = next(iter(job.descriptors))
        for epsilon in epsilons:
            search = job.found[epsilon]
            share, radius = "-", "too few images for a search"
            if search is not None:
                share, radius = f"{100 * search[1]:.0f} %", f"{search[0].value.radius:.3g}"
            text.append(
                f"| {job.name} | {epsilon:g} | {share} | {radius} |"
                f" {job.releases[one, epsilon].expected_error:.3g} | {job.known_ball.radius:.3g} |"
                f" {job.known_error(epsilon, delta):.3g} |"
            )
    return [*text, ""]
