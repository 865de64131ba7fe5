"""Every table and figure of the five papers: published noise beside certified noise.

`names()` lists them, `run(name, quick=True, out=...)` runs one, `run_all(...)` runs what is missing.
"""

from . import _reimherr2021 as _reimherr2021
from ._registry import PAPERS, Context, Experiment, Result, experiment, get, names, run, run_all

__all__ = ["PAPERS", "Context", "Experiment", "Result", "experiment", "get", "names", "run", "run_all"]
