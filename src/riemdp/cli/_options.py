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
    riemann = "riemann"
    log_euclidean = "log-euclidean"
    logeuclid = "logeuclid"
    bures_wasserstein = "bures-wasserstein"
    wasserstein = "wasserstein"


class Sampling(StrEnum):
    without_replacement = "without-replacement"
    poisson = "poisson"


class Adjacency(StrEnum):
    replace_one = "replace-one"
    add_or_remove_one = "add-or-remove-one"


class Language(StrEnum):
    en = "en"
    de = "de"


class OnInvalid(StrEnum):
    refuse = "refuse"
    to_center = "center"


File = Annotated[
    Path,
    typer.Argument(
        help=(
            "npy, npz, csv, parquet or mat file with one record a row, or a folder with one record"
            " a file: images, npy or csv."
        ),
        show_default=False,
    ),
]
SpaceOption = Annotated[Space, typer.Option("--space", help="What kind of point a record is.")]
MetricOption = Annotated[
    Metric, typer.Option("--metric", help="Metric of positive definite matrices (spd).")
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
            "Public centre, with --radius: identity (the default), diag:A (A times the identity),"
            " or a file."
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
OuterCenter = Annotated[
    str | None,
    typer.Option(
        "--outer-center",
        help="Public centre of that ball: identity or origin (the default), diag:A, or a file.",
        show_default=False,
    ),
]
Shrink = Annotated[
    bool | None,
    typer.Option(
        "--shrink/--no-shrink",
        help=(
            "Shrink Gaussian releases towards the public centre, which lowers the error from noise"
            " in dimension 3 and more. The default on flat spaces; a ball that was found privately"
            " always does."
        ),
        show_default=False,
    ),
]
ClampRelease = Annotated[
    bool | None,
    typer.Option(
        "--clamp-release/--no-clamp-release",
        help=(
            "Move the released mean into the public ball, which costs nothing. The default where"
            " that is proved not to increase the error."
        ),
        show_default=False,
    ),
]
AdjacencyOption = Annotated[
    Adjacency,
    typer.Option(
        "--adjacency",
        help=(
            "What is protected: one record's content, or also whether it is there (needs --n-min)."
        ),
    ),
]
LeastRecords = Annotated[
    int | None,
    typer.Option(
        "--n-min",
        help="Public lower bound of the number of records, for add-or-remove-one.",
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
            " the ball and the error bar of a mean."
        ),
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write the privacy report (.html, and .json beside it)."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files of --out and --report that exist already.")
]
LanguageOption = Annotated[
    Language,
    typer.Option("--language", help="Language of the page of --report; the JSON is English."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
LedgerOption = Annotated[
    Path | None,
    typer.Option("--ledger", help="Charge this ledger file (see `riemdp ledger create`)."),
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Name of the array in an npz, mat, HDF5 or Zarr file."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help=(
            "Whether the first line of a text table names the columns. Without this option it does"
            " if none of its cells is a number."
        ),
        show_default=False,
    ),
]
Channels = Annotated[
    int | None,
    typer.Option(
        "--channels",
        help="How to read a folder of images: 1 (grey) or 3 (colour), for all of them.",
        show_default=False,
    ),
]
RecordShape = Annotated[
    str | None,
    typer.Option(
        "--record-shape",
        help="The shape of one record, such as 3x3, for the npy or csv files of a folder.",
        show_default=False,
    ),
]
Upper = Annotated[
    bool,
    typer.Option(
        "--upper",
        help="Each row holds the upper triangle of a symmetric matrix, row by row.",
    ),
]
RecordsPerPerson = Annotated[
    int | None,
    typer.Option(
        "--max-records-per-person",
        min=1,  # refused before anything is charged
        help="State the guarantee for one person with up to this many records too.",
        show_default=False,
    ),
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
GroupsColumn = Annotated[
    str | None,
    typer.Option(
        "--groups-column",
        help="The column of a csv file that says whose each record is, in the place of --groups.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Reproducible noise, for trying out. NOT PRIVATE: never publish it.",
    ),
]
RecordIs = Annotated[
    str, typer.Option("--record-is", help="What one record is, in words, for the report.")
]
Eta = Annotated[
    float | None,
    typer.Option(
        "--eta",
        help="For a folder of images: public regulariser of their descriptors. 1e-6 without it.",
        show_default=False,
    ),
]
DispersionShare = Annotated[
    float | None,
    typer.Option(
        "--dispersion-share",
        help=(
            "Release with this share of the budget how the records spread, too, and state where"
            " the mean of their population lies. Needs --radius."
        ),
        show_default=False,
    ),
]
CountOutside = Annotated[
    bool | None,
    typer.Option(
        "--count-outside/--no-count-outside",
        help=(
            "State with noise how many records lay outside the public ball, for up to 4 % of the"
            " budget. Default: where there are enough records for it."
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
