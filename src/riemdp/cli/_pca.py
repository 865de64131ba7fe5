"""`riemdp pca`: private principal components from a table."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import integer, magnitude, one_of
from . import _options as o
from ._exits import InputProblem
from ._run import command, print_json

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..optimizers import OptimizationResult
    from ..privacy import Ledger
    from ..report import PrivacyReport

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
Mechanism = Annotated[str, typer.Option("--mechanism", help="auto, input-perturbation or dp-rgd.")]


@command
def pca(
    file: o.File,
    components: Components,
    row_norm: RowNorm,
    epsilon: o.Epsilon,
    delta: o.Delta = 0.0,
    mechanism: Mechanism = "auto",
    out: o.Out = None,
    report: o.Report = None,
    force: o.Force = False,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    key: o.Key = None,
    header: o.Header = None,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    language: o.LanguageOption = o.Language.en,
    record_is: o.RecordIs = "one row of the input",
    max_records_per_person: o.RecordsPerPerson = None,
    groups: o.Groups = None,
    groups_column: o.GroupsColumn = None,
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
    from ..estimators._pca import MECHANISMS
    from ..manifolds import Euclidean
    from ..report import privacy_report
    from ._groups import check_people, given_groups, people_labels
    from ._readers import Reading, read_records
    from ._release import Outputs, refuse_invalid, released
    from ._show import show_release

    budget = privacy.Budget(epsilon, delta)
    bound = magnitude("row_norm", row_norm, power=2)
    one_of("mechanism", mechanism, MECHANISMS)
    outputs = Outputs(out, report, as_json, "components", force)
    outputs.check(file, groups, ledger)
    if given_groups(groups, groups_column):
        check_people(max_records_per_person)
    reading = Reading(
        key=key,
        header=header,
        groups_column=groups_column,
        key_of_groups=groups is not None and groups.suffix.lower() == ".npz",
    )
    loaded = read_records(file, reading)
    rows, outputs.names = loaded.array, loaded.names
    if rows.ndim != 2:
        raise InputProblem(
            f"the array has shape {rows.shape}", "pca needs a table, shape (records, columns)"
        )
    labels, _ = people_labels(loaded.groups, len(rows), groups, groups_column, key)
    integer("components", components, at_least=1, at_most=rows.shape[1])
    if on_invalid is o.OnInvalid.refuse:
        refuse_invalid(Euclidean(rows.shape[1]), rows, file)
    estimator = PrivatePCA(
        n_components=components,
        budget=budget,
        row_norm=bound,
        mechanism=mechanism,
        on_invalid="center",
        random_state=seed,
    )

    def work(opened: Ledger | None) -> Release | OptimizationResult:
        with warnings.catch_warnings(), contextlib.nullcontext() if opened is None else opened:
            # A command makes one release; there are no further fits to add up.
            warnings.filterwarnings("ignore", ".*no ledger adds up.*")
            return estimator.fit(rows, groups=labels).release_

    def describe(
        result: Release | OptimizationResult, checksum: str | None, charged: Ledger | None
    ) -> tuple[PrivacyReport, dict[str, Any]]:
        page = privacy_report(
            result,
            record_is=record_is,
            language=language.value,
            max_records_per_person=max_records_per_person,
            checksum=checksum,
            ledger=charged,
        )
        return page, {
            "components": np.asarray(result.value).tolist(),
            **({} if outputs.names is None else {"names": list(outputs.names)}),
            "report": page.to_dict(),
            "files": [str(p) for p in (out, report) if p is not None],
        }

    result, page, machine = released(
        outputs, ledger, work, describe, f"principal components of {file.name}"
    )
    if as_json:
        print_json(machine)
    else:
        show_release(result, page, outputs, loaded.note)
