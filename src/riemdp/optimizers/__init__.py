"""Private optimisation on manifolds: DP-RGD, DP-RSGD, DP-RSVRG as compiled loops with exact
accounting.
"""

from ._descent import DPRGD, DPRSGD, Plan
from ._eigenvector import private_principal_eigenvector
from ._minimize import private_minimize
from ._plan import AbstractOptimizer, AbstractPlan, plan_optimizer
from ._result import History, HistoryRow, OptimizationResult
from ._variance_reduced_plan import DPRSVRG

# What `private_frechet_mean` can release by.
OPTIMIZERS: tuple[type[AbstractOptimizer], ...] = (DPRGD, DPRSGD, DPRSVRG)

__all__ = [
    "DPRGD",
    "DPRSGD",
    "DPRSVRG",
    "AbstractOptimizer",
    "AbstractPlan",
    "History",
    "HistoryRow",
    "OptimizationResult",
    "Plan",
    "plan_optimizer",
    "private_minimize",
    "private_principal_eigenvector",
]
