"""What follows from released numbers: how far they are from what they protect, regions, tests.

Everything here is post-processing of what was released, and costs no privacy.
"""

from ._error_law import ErrorLaw
from ._facts import Facts, Query
from ._region import Observation, Region
from ._two_sample import TwoSampleTest, two_sample_test

__all__ = [
    "ErrorLaw",
    "Facts",
    "Observation",
    "Query",
    "Region",
    "TwoSampleTest",
    "two_sample_test",
]
