"""Releases from records: clamp, compute, bound the sensitivity, choose a mechanism, charge the
ledger, add the noise.
"""

from ._adaptive_plan import SearchRow as SearchRow
from ._comparison import private_comparison
from ._comparison_plan import ComparisonRow as ComparisonRow
from ._comparison_plan import plan_private_comparison
from ._curve_plan import CurveRow as CurveRow
from ._curve_plan import plan_geodesic_regression
from ._direction import DirectionRow as DirectionRow
from ._direction import plan_mean_direction, private_mean_direction
from ._geodesic_model import GeodesicModel
from ._geodesic_regression import private_geodesic_regression
from ._k_means import ClusterRow as ClusterRow
from ._k_means import plan_k_means, private_k_means
from ._mean import private_frechet_mean
from ._median import private_geometric_median
from ._plan import MeanRow as MeanRow
from ._plan import plan_private_mean
from ._prior_plan import PriorRow as PriorRow
from ._private_ball import private_ball
from ._table import Plan as Plan
from ._table import PlanRow as PlanRow
from ._two_sample import private_paired_samples, private_two_sample
from ._variance import private_frechet_variance

__all__ = [
    "GeodesicModel",
    "plan_geodesic_regression",
    "plan_k_means",
    "plan_mean_direction",
    "plan_private_comparison",
    "plan_private_mean",
    "private_ball",
    "private_comparison",
    "private_frechet_mean",
    "private_frechet_variance",
    "private_geodesic_regression",
    "private_geometric_median",
    "private_k_means",
    "private_mean_direction",
    "private_paired_samples",
    "private_two_sample",
]
