"""`riemdp mean`: a private Fréchet mean from a file."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from . import _options as o
from ._run import command

if TYPE_CHECKING:
    from ..mechanisms import Release
    from ..privacy import Ledger


@command
def mean(
    file: o.File,
    epsilon: o.Epsilon,
    delta: o.Delta = 0.0,
    metric: o.MetricOption = None,
    space: o.SpaceOption = o.Space.spd,
    radius: o.Radius = None,
    center: o.Center = None,
    outer_radius: o.OuterRadius = None,
    out: o.Out = None,
    report: o.Report = None,
    as_json: o.Json = False,
    ledger: o.LedgerOption = None,
    header: o.Header = False,
    on_invalid: o.Invalid = o.OnInvalid.refuse,
    groups: o.Groups = None,
    seed: o.Seed = None,
) -> None:
    """Release the private mean of the records in FILE.

    Without --radius a ball that holds most records is found with a share of the budget. A radius,
    a centre and the budget must be chosen without looking at the records. One record is what the
    guarantee protects; with --groups it is one person with all records.
    """
    import numpy as np

    from .. import privacy, releases
    from ..domains import AdaptiveBall
    from ._readers import read_records
    from ._release import Outputs, labels_of, refuse_invalid, released
    from ._spaces import ball_for, check_metric, space_for

    budget = privacy.Budget(epsilon, delta)
    outputs = Outputs("mean", out, report, ledger, as_json)
    outputs.check(file, groups, center)
    check_metric(space, metric)
    loaded = read_records(file, header=header)
    manifold, records = space_for(space, metric, loaded.array)
    if loaded.names is not None and manifold.shape == (len(loaded.names),):
        outputs.names = loaded.names
    ball = ball_for(manifold, center, radius, outer_radius)
    labels = labels_of(groups, int(records.shape[0]))  # a Zarr array has no len()
    if labels is not None:
        records = np.asarray(records)
    if on_invalid is o.OnInvalid.refuse:
        refuse_invalid(manifold, records, file)

    def work(opened: Ledger | None) -> Release:
        return releases.private_frechet_mean(
            manifold, records, ball, budget, groups=labels, rng=seed, ledger=opened
        )

    found = isinstance(ball, AdaptiveBall)
    released(outputs, f"mean of {file.name}", work, functools.partial(_beside, found=found))


def _beside(result: Release, *, found: bool) -> dict[str, Any]:
    """What files and `--json` hold in addition to the mean: its ball, which may have been found
    privately, and a confidence region.
    """
    import numpy as np

    used = result.details["ball"]
    region = None if result.observation is None else result.confidence_region()
    return {
        "ball": {
            "center": np.asarray(used.center).tolist(),
            "radius": float(used.radius),
            "found_privately": found,
        },
        "confidence_region": None
        if region is None
        else {
            "level": region.level,
            "of": region.subject,
            "radius": region.radius,
            "center": np.asarray(region.center).tolist(),
            "measured_from": region.observation.place,
        },
    }
