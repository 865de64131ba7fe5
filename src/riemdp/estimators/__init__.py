"""scikit-learn estimators that release with differential privacy: the mean, class means (MDM), a
classifier and a regression in the tangent space, re-centred subjects, principal components.
"""

from ._center import PrivateTLCenter
from ._classifier import PrivateTSClassifier
from ._classifier_plan import ClassifierRow as ClassifierRow
from ._classifier_plan import plan_private_classifier
from ._fit_row import FitRow as FitRow
from ._mdm import PrivateMDM
from ._mean import PrivateFrechetMean
from ._pca import PrivatePCA
from ._pga import PrivatePGA
from ._regressor import PrivateTSRegressor
from ._regressor_plan import RegressorRow as RegressorRow
from ._regressor_plan import plan_private_regressor
from ._rotate import PrivateTLRotate
from ._scale import PrivateTLScale
from ._search import PrivateSearchCV
from ._search_plan import SearchRow as SearchRow
from ._search_plan import plan_private_search
from ._tangent_space import PrivateTangentSpace

__all__ = [
    "PrivateFrechetMean",
    "PrivateMDM",
    "PrivatePCA",
    "PrivatePGA",
    "PrivateSearchCV",
    "PrivateTLCenter",
    "PrivateTLRotate",
    "PrivateTLScale",
    "PrivateTSClassifier",
    "PrivateTSRegressor",
    "PrivateTangentSpace",
    "plan_private_classifier",
    "plan_private_regressor",
    "plan_private_search",
]
