"""`riemdp pca`: private principal components from a table."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from . import _options as o
from ._exits import InputProblem
from ._mean import show_release
from ._run import Outputs, command, print_json, released

if TYPE_CHECKING:
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
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="auto, input-perturbation or dp-rgd.")
    ] = "auto",
    out: o.Out = None,
    report: o.Report = None,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    key: o.Key = None,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    show_clamped: o.ShowClamped = False,
    record_is: o.RecordIs = "one row of the input",
    seed: o.Seed = None,
) -> None:
    """Release the leading principal components of the rows in FILE.

    Rows are neither centred nor scaled by the data; bring them to a public scale first. --row-norm
    and the budget must be chosen without looking at the rows.
    """
    from .. import privacy
    from .._errors import integer, one_of, real
    from ..estimators import PrivatePCA
    from ..estimators._pca import MECHANISMS
    from ._readers import read_records

    budget = privacy.Budget(epsilon, delta)
    bound = real("row_norm", row_norm, above=0.0)
    one_of("mechanism", mechanism, MECHANISMS)
    outputs = Outputs(out, report, as_json, "components")
    outputs.check()
    loaded = read_records(file, key=key)
    if loaded.array.ndim != 2:
        raise InputProblem(
            f"the array has shape {loaded.array.shape}",
            "pca needs a table, shape (records, columns)",
        )
    rows = loaded.array
    integer("components", components, at_least=1, at_most=rows.shape[1])
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad) and on_invalid is o.OnInvalid.refuse:
        raise InputProblem(
            f"{len(bad)} of {len(rows)} records in {file} have NaN or infinite entries, the first"
            f" is record {bad[0]} (counted from 0)",
            "mend them; or give --on-invalid center to count each as a row of zeros",
        )
    estimator = PrivatePCA(
        n_components=components,
        budget=budget,
        row_norm=bound,
        mechanism=mechanism,
        random_state=seed,
    )

    def work(opened: Ledger | None) -> Any:
        with contextlib.nullcontext() if opened is None else opened:
            return _Released(estimator.fit(rows))

    def describe(result: Any, checksum: str | None, charged: Any) -> tuple[Any, dict[str, Any]]:
        from ..report import privacy_report

        with np.errstate(over="ignore"):
            clamped = (
                int(np.sum(~(np.linalg.norm(rows, axis=1) <= bound))) if show_clamped else None
            )
        page = privacy_report(
            result,
            records=len(rows),
            budget=budget,
            record_is=record_is,
            checksum=checksum,
            clamped=clamped,
            ledger=charged,
            query=(
                f"{components} principal component{'s' if components > 1 else ''} of"
                f" {rows.shape[1]} columns"
            ),
            space=f"rows of {rows.shape[1]} numbers",
            domain=f"rows of length at most {bound:g}",
            clipping=(
                f"every row longer than {bound:g} is shortened to that length; a row with NaN or"
                " infinity counts as zero"
            ),
        )
        machine = {
            "components": np.asarray(result.value).tolist(),
            "report": page.to_dict(),
            "files": [str(p) for p in (out, report) if p is not None],
        }
        return page, machine

    result, page, machine = released(outputs, ledger, work, describe)
    if as_json:
        print_json(machine)
    else:
        show_release(result.value, page, out, report, loaded.note)


class _Released:
    """A fitted PCA in the form of a release, for the report."""

    def __init__(self, fitted: Any):
        self.value = fitted.components_
        self.guarantee = fitted.guarantee_
        self.scale = fitted.noise_scale_
        self.sensitivity = getattr(fitted.release_, "sensitivity", None)
        self.mechanism = fitted.mechanism_
        self.reproducible = fitted.reproducible_
