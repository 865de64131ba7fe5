"""One look for every picture, without touching matplotlib's global state, and saving whole or not
at all.

Colours are those of Okabe and Ito (distinct under the common colour deficiencies, and in grey by
marker and dash); type is large enough to be read at half size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import invalid
from .._files import staged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.5)),
    (0, (6, 2, 1.2, 2)),
    (0, (3, 1.5)),
    (0, (8, 3)),
)

_RC: dict[str, Any] = {
    "font.size": 12.0,
    "axes.titlesize": 13.0,
    "axes.labelsize": 13.0,
    "legend.fontsize": 11.0,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlepad": 10.0,
    "axes.linewidth": 1.0,
    "lines.linewidth": 2.2,
    "lines.markersize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "riemdp",
    "text.usetex": False,
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """The style, for the length of a `with` block only."""
    import matplotlib

    with matplotlib.rc_context(_RC):  # pyright: ignore[reportArgumentType]
        yield


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure that no global list keeps alive (so no pyplot and no
    display).
    """
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise invalid("ax", ax, "give matplotlib axes, or None for a new figure")
        return ax
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def save(picture: Figure | Axes, path: str | Path, *, dpi: int = 160) -> tuple[str, str]:
    """Write a figure (or the figure of these axes) as PNG and SVG beside each other, both whole or
    neither.

    `path` with or without suffix: "out/error" and "out/error.png" both give out/error.png and
    out/error.svg. The folder has to exist. Returns the two paths. Files hold no date, so the same
    picture gives the same bytes.
    """
    figure: Any = getattr(picture, "figure", None) or picture
    if not hasattr(figure, "savefig"):
        raise invalid("picture", picture, "give a matplotlib figure or axes")
    target = Path(path)
    if target.suffix.lower() in {".png", ".svg"}:
        target = target.with_suffix("")
    targets = [target.with_name(target.name + suffix) for suffix in (".png", ".svg")]
    with staged(*targets) as parts, styled():
        for part in parts:
            kind = part.suffix[1:]
            figure.savefig(
                part,
                format=kind,
                dpi=dpi,
                metadata={"Date": None} if kind == "svg" else {"Software": None},
            )
    return str(targets[0]), str(targets[1])
