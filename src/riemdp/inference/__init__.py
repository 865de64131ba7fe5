"""What follows from released numbers: how far they are from what they protect, regions, tests.

Everything here is post-processing of what was released, and costs no privacy.
"""

from ._comparison import Comparison as Comparison
from ._comparison import two_sample_test
from ._counts import OutsideCount as OutsideCount
from ._distributions import ErrorDistribution as ErrorDistribution
from ._facts import Facts as Facts
from ._facts import Query as Query
from ._region import Observation as Observation
from ._region import Region

__all__ = [
    "Region",
    "two_sample_test",
]
