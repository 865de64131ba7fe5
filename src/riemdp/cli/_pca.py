"""`riemdp pca`: private principal components from a table."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from .._errors import integer
from . import _options as o
from ._run import InputProblem, command

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Ledger

Components = Annotated[
    int, typer.Option("--components", "-k", help="How many components.", show_default=False)
]
RowNorm = Annotated[
    float,
    typer.Option(
        "--row-norm",
        help="Public bound on the length of a row; longer rows are shortened.",
        show_default=False,
    ),
]


@command
def pca(
    file: o.File,
    components: Components,
    row_norm: RowNorm,
    epsilon: o.Epsilon,
    delta: o.Delta = 0.0,
    out: o.Out = None,
    report: o.Report = None,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    header: o.Header = False,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    groups: o.Groups = None,
    seed: o.Seed = None,
) -> None:
    """Release the leading principal components of the rows in FILE.

    Rows are neither centred nor scaled by the data; bring them to a public scale first. --row-norm
    and the budget must be chosen without looking at the rows. The guarantee protects one row; with
    --groups it is one person with all rows.
    """
    import numpy as np

    from .. import privacy
    from ..estimators import PrivatePCA
    from ..manifolds import Euclidean
    from ._readers import read_records
    from ._release import Outputs, labels_of, refuse_invalid, released

    outputs = Outputs("components", out, report, ledger, as_json)
    outputs.check(file, groups)
    estimator = PrivatePCA(
        n_components=components,
        budget=privacy.Budget(epsilon, delta),
        row_norm=row_norm,
        on_invalid="center",
        random_state=seed,
    )
    loaded = read_records(file, header=header)
    rows, outputs.names = np.asarray(loaded.array, dtype=np.float64), loaded.names
    if rows.ndim != 2:
        raise InputProblem(
            f"the array has shape {rows.shape}", "pca needs a table, shape (records, columns)"
        )
    integer("components", components, at_least=1, at_most=rows.shape[1])
    labels = labels_of(groups, len(rows))
    if on_invalid is o.OnInvalid.refuse:
        refuse_invalid(Euclidean(rows.shape[1]), rows, file)

    def work(opened: Ledger | None) -> Release:
        with warnings.catch_warnings(), contextlib.nullcontext() if opened is None else opened:
            # A command makes one release; there are no further fits to add up.
            warnings.filterwarnings("ignore", ".*no ledger adds up.*")
            return estimator.fit(rows, groups=labels).release_

    released(outputs, f"principal components of {file.name}", work)
