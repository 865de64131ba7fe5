"""Private optimisation on manifolds: DP-RGD, DP-RSGD, DP-RSVRG as compiled loops with exact
accounting.
"""

from ._descent import DPRGD, DPRSGD
from ._descent import Plan as Plan
from ._eigenvector import private_principal_eigenvector
from ._minimize import private_minimize
from ._plan import AbstractOptimizer, plan_optimizer
from ._plan import AbstractPlan as AbstractPlan
from ._result import History as History
from ._result import HistoryRow as HistoryRow
from ._result import OptimizationResult
from ._variance_reduced_plan import DPRSVRG

# What `private_frechet_mean` can release by.
OPTIMIZERS: tuple[type[AbstractOptimizer], ...] = (DPRGD, DPRSGD, DPRSVRG)

__all__ = [
    "DPRGD",
    "DPRSGD",
    "DPRSVRG",
    "AbstractOptimizer",
    "OptimizationResult",
    "plan_optimizer",
    "private_minimize",
    "private_principal_eigenvector",
]
