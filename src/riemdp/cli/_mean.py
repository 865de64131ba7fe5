"""`riemdp mean`: a private Frechet mean from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import counted
from . import _options as o
from ._exits import InputProblem
from ._run import command, print_json

if TYPE_CHECKING:
    from ..inference import Region
    from ..mechanisms import Release
    from ..privacy import Budget, Ledger
    from ..report import PrivacyReport

Mechanism = Annotated[
    str, typer.Option("--mechanism", help="auto chooses the smallest error from noise by formula.")
]


@command
def mean(
    file: o.File,
    epsilon: o.Epsilon,
    radius: o.Radius = None,
    delta: o.Delta = 0.0,
    metric: o.MetricOption = o.Metric.affine_invariant,
    space: o.SpaceOption = o.Space.spd,
    center: o.Center = None,
    outer_radius: o.OuterRadius = None,
    outer_center: o.OuterCenter = None,
    shrink: o.Shrink = None,
    mechanism: Mechanism = "auto",
    adjacency: o.AdjacencyOption = o.Adjacency.replace_one,
    n_min: o.LeastRecords = None,
    out: o.Out = None,
    report: o.Report = None,
    force: o.Force = False,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    key: o.Key = None,
    header: o.Header = None,
    channels: o.Channels = None,
    record_shape: o.RecordShape = None,
    upper: o.Upper = False,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    clamp_release: o.ClampRelease = None,
    count_outside: o.CountOutside = None,
    dispersion_share: o.DispersionShare = None,
    language: o.LanguageOption = o.Language.en,
    record_is: o.RecordIs = "one row of the input",
    max_records_per_person: o.RecordsPerPerson = None,
    groups: o.Groups = None,
    groups_column: o.GroupsColumn = None,
    eta: o.Eta = None,
    seed: o.Seed = None,
) -> None:
    """Release the private mean of the records in FILE.

    Without --radius a ball that holds most records is found with a share of the budget. A radius,
    a centre and the budget must be chosen without looking at the records. One record is what the
    guarantee protects; with --groups it is one person with all records.
    """
    import numpy as np

    from .. import privacy, releases
    from ..domains import AdaptiveBall, Ball
    from ..releases._population import mean_with_dispersion
    from ..report import privacy_report
    from ._groups import check_people, given_groups, people_labels
    from ._readers import Reading, read_records, shape_of
    from ._release import Outputs, refuse_invalid, released
    from ._show import reading_shown, show_release
    from ._spaces import ball_for, space_for

    budget = privacy.Budget(epsilon, delta)
    outputs = Outputs(out, report, as_json, "mean", force)
    outputs.check(file, groups, center, outer_center, ledger)
    _check_adjacency(adjacency, n_min)
    of_people = given_groups(groups, groups_column)
    if of_people:
        check_people(max_records_per_person)
    if dispersion_share is not None:
        _check_dispersion(mechanism, adjacency, radius)
    if radius is None:
        others = {
            _either("count-outside", count_outside): count_outside is not None,
            _either("clamp-release", clamp_release): clamp_release is not None,
            _either("shrink", shrink): shrink is not None,
        }
        _check_search(mechanism, adjacency, others)
    reading = Reading(
        key=key,
        eta=eta,
        header=header,
        channels=channels,
        shape=shape_of(record_shape),
        to_center=record_shape is not None and on_invalid is o.OnInvalid.to_center,
        in_parts=not of_people,
        groups_column=groups_column,
        key_of_groups=groups is not None and groups.suffix.lower() == ".npz",
    )
    loaded = read_records(file, reading)
    manifold, records = space_for(space.value, metric.value, loaded.array, upper=upper)
    if loaded.names is not None and manifold.shape == (len(loaded.names),):
        outputs.names = loaded.names
    ball = ball_for(manifold, center, radius, outer_center, outer_radius)
    rows = int(records.shape[0])  # a Zarr array has no len()
    labels, people = people_labels(loaded.groups, rows, groups, groups_column, key)
    if isinstance(ball, AdaptiveBall):
        n = rows if people is None else people
        plan = releases.plan_private_mean(manifold, ball, n, budget)
        _check_count(n, plan.need, budget, people is not None)
    if on_invalid is o.OnInvalid.refuse:
        refuse_invalid(manifold, records, file)

    def work(opened: Ledger | None) -> Release:
        with reading_shown(file.name):
            return release(opened)

    def release(opened: Ledger | None) -> Release:
        given: dict[str, Any] = {
            "rng": seed,
            "ledger": opened,
            "shrink": shrink,
            "clamp_release": clamp_release,
            "count_outside": count_outside,
            "groups": labels,
        }
        if dispersion_share is not None and isinstance(ball, Ball):
            n = rows if people is None else people
            return mean_with_dispersion(
                manifold, records, ball, budget, n=n, share=dispersion_share, **given
            )
        given |= {"mechanism": mechanism, "adjacency": adjacency.value, "n_min": n_min}
        return releases.private_frechet_mean(manifold, records, ball, budget, **given)

    def beside(result: Release) -> dict[str, Any]:
        used = result.details["ball"]
        return {
            "ball": {
                "center": np.asarray(used.center).tolist(),
                "radius": float(used.radius),
                "found_privately": isinstance(ball, AdaptiveBall),
            },
            "confidence_region": _region(result),
            "population_regions": [_described(r) for r in result._population_regions()],
        }

    outputs.beside = beside

    def describe(
        result: Release, checksum: str | None, charged: Ledger | None
    ) -> tuple[PrivacyReport, dict[str, Any]]:
        page = privacy_report(
            result,
            record_is=record_is,
            language=language.value,
            max_records_per_person=max_records_per_person,
            ledger=charged,
            checksum=checksum,
        )
        return page, {
            "mean": np.asarray(result.value).tolist(),
            **beside(result),
            **({} if outputs.names is None else {"names": list(outputs.names)}),
            "report": page.to_dict(),
            "files": [str(p) for p in (out, report) if p is not None],
        }

    result, page, machine = released(outputs, ledger, work, describe, f"mean of {file.name}")
    if as_json:
        print_json(machine)
    else:
        show_release(result, page, outputs, loaded.note)


def _region(result: Release) -> dict[str, Any] | None:
    """The 95 % confidence region for machines; None where no law of the error is known."""
    return None if result.observation is None else _described(result.confidence_region())


def _described(region: Region) -> dict[str, Any]:
    import numpy as np

    return {
        "level": region.level,
        "of": region.subject,
        "radius": float(region.half_axes[0]),
        "center": np.asarray(region.center).tolist(),
        "measured_from": region.observation.place,
    }


def _check_dispersion(mechanism: str, adjacency: o.Adjacency, radius: float | None) -> None:
    """Refuse, before the data are read, what a region of the population does not go with."""
    if radius is None:
        raise InputProblem(
            "--dispersion-share needs --radius",
            "give the public radius of a ball, chosen without looking at the records: no region of"
            " the population is known where a ball is found on the same records",
        )
    for option, given in (
        (f"--mechanism {mechanism}", mechanism != "auto"),
        (f"--adjacency {adjacency.value}", adjacency is o.Adjacency.add_or_remove_one),
    ):
        if given:
            raise InputProblem(
                f"{option} does not go with --dispersion-share",
                "leave it out: mean and dispersion have Gaussian noise, or Laplace noise where"
                " --delta is 0",
            )


def _either(option: str, given: bool | None) -> str:
    """The option as it was given: --shrink or --no-shrink."""
    return f"--no-{option}" if given is False else f"--{option}"


def _check_search(mechanism: str, adjacency: o.Adjacency, others: dict[str, bool]) -> None:
    """Refuse, before the data are read, what a search for a ball does not go with."""
    for option, given in (
        (f"--mechanism {mechanism}", mechanism != "auto"),
        (f"--adjacency {adjacency.value}", adjacency is o.Adjacency.add_or_remove_one),
        *others.items(),
    ):
        if given:
            raise InputProblem(
                f"{option} needs --radius",
                "give the public radius of a ball, chosen without looking at the records; or leave"
                " this option out, and a ball is found with a share of the budget",
            )


def _check_count(n: int, need: int, budget: Budget, of_people: bool) -> None:
    """Refuse a file with too few records for a search: n and the budget decide, both public."""
    if n < need:
        found = counted(n, "person", "people") if of_people else counted(n, "record")
        found += " is" if n == 1 else " are"
        slack = " or a --delta above 0" if budget.delta == 0 else ""
        raise InputProblem(
            f"{found} too few to find a ball privately with this budget; {need:,} are needed",
            f"give a larger epsilon{slack}; or give --radius, the public radius of a ball chosen"
            " without looking at the records; `riemdp plan` says what each would cost",
        )


def _check_adjacency(adjacency: o.Adjacency, n_min: int | None) -> None:
    protected = adjacency is o.Adjacency.add_or_remove_one
    if protected and n_min is None:
        raise InputProblem(
            "--adjacency add-or-remove-one needs --n-min, a public lower bound of the number of"
            " records",
            "give one that does not come from the data (fewer records are filled up with the"
            " centre)",
        )
    if n_min is not None and not protected:
        raise InputProblem(
            f"--n-min {n_min} is for --adjacency add-or-remove-one",
            "leave it out, or give that adjacency",
        )
