"""Every picture of the library: matplotlib is imported inside the functions, and its global state
is left alone.
"""

from ._error import error_curves
from ._style import COLOURS, MARKERS, save, styled

__all__ = ["COLOURS", "MARKERS", "error_curves", "save", "styled"]
