"""scikit-learn estimators that release with differential privacy: the mean, class means (MDM),
principal components.
"""

from ._mdm import PrivateMDM
from ._mean import PrivateFrechetMean
from ._pca import PrivatePCA
from ._search import check_search

__all__ = ["PrivateFrechetMean", "PrivateMDM", "PrivatePCA", "check_search"]
