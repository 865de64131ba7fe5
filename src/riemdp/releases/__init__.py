"""Releases from records: clamp, compute, bound the sensitivity, choose a mechanism, charge the
ledger, add the noise.
"""

from ._mean import MeanNotConverged, private_frechet_mean
from ._plan import MeanPlan, PlanRow, plan_private_mean

__all__ = ["MeanNotConverged", "MeanPlan", "PlanRow", "plan_private_mean", "private_frechet_mean"]
