"""The options that several commands share, with their help texts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Space(StrEnum):
    spd = "spd"
    sphere = "sphere"
    euclidean = "euclidean"
    lorentz = "lorentz"
    poincare = "poincare"
    stiefel = "stiefel"
    grassmann = "grassmann"


class Metric(StrEnum):
    affine_invariant = "affine-invariant"
    log_euclidean = "log-euclidean"
    bures_wasserstein = "bures-wasserstein"


class Sampling(StrEnum):
    without_replacement = "without-replacement"
    poisson = "poisson"


class OnInvalid(StrEnum):
    refuse = "refuse"
    to_center = "center"


File = Annotated[
    Path,
    typer.Argument(
        help=(
            "npy, npz, csv, tsv, txt, h5 or zarr file with one record a row, or a folder of images"
            " (one record each, read in grey, as its covariance descriptor)."
        ),
        show_default=False,
    ),
]
SpaceOption = Annotated[Space, typer.Option("--space", help="What kind of point a record is.")]
MetricOption = Annotated[
    Metric | None,
    typer.Option(
        "--metric",
        help="Metric of positive definite matrices (spd); affine-invariant without it.",
        show_default=False,
    ),
]
Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon", "-e", help="Privacy budget: smaller is more private.", show_default=False
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        "--delta",
        "-d",
        help="Additive slack; keep it far below 1 / records. 0 means pure privacy.",
    ),
]
Radius = Annotated[
    float | None,
    typer.Option(
        "--radius",
        "-r",
        help=(
            "Public radius of a ball chosen without the data; farther records are moved inside."
            " Without it a ball is found with a share of the budget."
        ),
        show_default=False,
    ),
]
Center = Annotated[
    str | None,
    typer.Option(
        "--center",
        help=(
            "Public centre of --radius or --outer-radius: identity (the default), diag:A (A times"
            " the identity), or a file with one point."
        ),
        show_default=False,
    ),
]
OuterRadius = Annotated[
    float | None,
    typer.Option(
        "--outer-radius",
        help=(
            "Without --radius: public radius of the ball in which the search begins, chosen without"
            " the data. It may be far too large; Euclidean space needs it. Records beyond it are"
            " moved into it, so one that is too small makes the result wrong, without a warning."
        ),
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help=(
            "Write the released value (.npy, .npz, .csv or .json). An npz or json file also holds"
            " the ball and the error bar of a mean. A file that exists is never replaced."
        ),
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write the privacy report (.html, and .json next to it)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
LedgerOption = Annotated[
    Path | None,
    typer.Option("--ledger", help="Charge this ledger file (see `riemdp ledger create`)."),
]
Header = Annotated[
    bool,
    typer.Option("--header", help="The first line of a text table names its columns (public)."),
]
Groups = Annotated[
    Path | None,
    typer.Option(
        "--groups",
        help=(
            "File (npy, npz, csv or txt) with one label for each record that says whose it is."
            " Everything of one person is then protected, and every person counts once."
        ),
        show_default=False,
    ),
]
Invalid = Annotated[
    OnInvalid,
    typer.Option(
        "--on-invalid",
        help=(
            "Records that are not points of the space: refuse to run, or count them as the centre."
        ),
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Reproducible noise, for trying out. NOT PRIVATE: never publish it.",
        show_default=False,
    ),
]
