"""Public domains: the ball that records are moved into, bound to its space, and the checks that
everything from outside passes.
"""

from ._adaptive import AdaptiveBall
from ._ball import Ball
from ._check import InvalidRecord, check_records
from ._domain import Domain, Frame

__all__ = ["AdaptiveBall", "Ball", "Domain", "Frame", "InvalidRecord", "check_records"]
