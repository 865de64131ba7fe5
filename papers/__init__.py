"""Every table and figure of the five papers: published noise beside certified noise.

`names()` lists them, `run(name, quick=True, out=...)` runs one, `run_all(...)` runs what is
missing.
"""

from . import han2024 as han2024
from . import han2024_completion as han2024_completion
from . import han2024_problems as han2024_problems
from . import huang2024 as huang2024
from . import huang2024_prediction as huang2024_prediction
from . import huang2024_runs as huang2024_runs
from . import reimherr2021 as reimherr2021
from . import utpala2023 as utpala2023
from . import utpala2023_risk as utpala2023_risk
from . import utpala2023le as utpala2023le
from . import utpala2023le_images as utpala2023le_images
from .registry import (
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
