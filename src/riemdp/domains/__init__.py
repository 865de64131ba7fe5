"""Public domains: the ball that records are moved into, bound to its space, and the checks that
everything from outside passes.
"""

from ._adaptive import AdaptiveBall
from ._ball import Ball
from ._check import InvalidRecord as InvalidRecord
from ._check import check_records
from ._domain import Domain
from ._domain import Frame as Frame

__all__ = ["AdaptiveBall", "Ball", "Domain", "check_records"]
