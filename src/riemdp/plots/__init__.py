"""Every picture of the library: matplotlib is imported inside the functions, and its global state
is left alone.
"""

from ._error import error_against_epsilon, error_curves, expected_error_table, trade_off_curve
from ._shapes import poincare_disk, spd_ellipses, unit_sphere
from ._style import COLOURS, MARKERS, axes_for, axes_row, save, styled

__all__ = [
    "COLOURS",
    "MARKERS",
    "axes_for",
    "axes_row",
    "error_against_epsilon",
    "error_curves",
    "expected_error_table",
    "poincare_disk",
    "save",
    "spd_ellipses",
    "styled",
    "trade_off_curve",
    "unit_sphere",
]
