"""Private optimisation on manifolds: DP-RGD, DP-RSGD, DP-RSVRG as compiled loops with exact
accounting.
"""

from ._eigenvector import private_principal_eigenvector
from ._minimize import private_minimize
from ._optimizers import DPRGD, DPRSGD, DPRSVRG
from ._plan import Plan, plan_optimizer
from ._result import History, HistoryRow, OptimizationResult

__all__ = [
    "DPRGD",
    "DPRSGD",
    "DPRSVRG",
    "History",
    "HistoryRow",
    "OptimizationResult",
    "Plan",
    "plan_optimizer",
    "private_minimize",
    "private_principal_eigenvector",
]
