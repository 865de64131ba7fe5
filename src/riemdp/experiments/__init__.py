"""Every table and figure of the five papers: published noise beside certified noise.

`names()` lists them, `run(name, quick=True, out=...)` runs one, `run_all(...)` runs what is
missing.
"""

from . import _han2024 as _han2024
from . import _han2024_completion as _han2024_completion
from . import _han2024_problems as _han2024_problems
from . import _huang2024 as _huang2024
from . import _huang2024_prediction as _huang2024_prediction
from . import _huang2024_runs as _huang2024_runs
from . import _reimherr2021 as _reimherr2021
from . import _utpala2023 as _utpala2023
from . import _utpala2023_risk as _utpala2023_risk
from . import _utpala2023le as _utpala2023le
from . import _utpala2023le_images as _utpala2023le_images
from ._registry import (
    PAPERS,
    Context,
    Experiment,
    Result,
    experiment,
    get,
    is_done,
    names,
    run,
    run_all,
)

__all__ = [
    "PAPERS",
    "Context",
    "Experiment",
    "Result",
    "experiment",
    "get",
    "is_done",
    "names",
    "run",
    "run_all",
]
