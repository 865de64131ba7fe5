"""Points of the Poincare disk as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riemdp.plots import COLOURS, MARKERS, styled


def poincare_disk(points: Any, *, highlight: Mapping[str, Any], title: str) -> Any:
    """Points (n, 2) of the disk with its boundary, and named ones drawn large with a legend.

    Returns the axes of a new figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    xy = np.asarray(points, dtype=np.float64)
    with styled():
        ax = Figure(figsize=(6.4, 6.4), layout="constrained").add_subplot()
        ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor="#555555", linewidth=1.5))
        ax.scatter(*xy.T, s=12, color=COLOURS[0], linewidths=0, zorder=2)
        for i, (name, value) in enumerate(highlight.items(), 1):
            chosen = np.atleast_2d(np.asarray(value, dtype=np.float64))
            look: dict[str, Any] = {"edgecolors": "white", "linewidths": 1.4, "zorder": 3}
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            ax.scatter(*chosen.T, s=110, color=colour, marker=marker, label=name, **look)
        ax.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), title=title)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.legend(loc="upper right", bbox_to_anchor=(1.02, 1.02))
    return ax
