"""Points on manifolds one can see: the Poincare disk, the sphere, 2x2 SPD matrices as ellipses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid
from ._style import COLOURS, MARKERS, axes_for, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def poincare_disk(
    points: ArrayLike,
    *,
    edges: ArrayLike | None = None,
    highlight: Mapping[str, Any] | None = None,
    regions: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    title: str = "Poincaré disk",
) -> Any:
    """Points (n, 2) of the Poincare disk with its boundary; returns the axes.

    `edges`: pairs of positions (m, 2) joined by hyperbolic geodesics (arcs that meet the boundary
    at right angles). `highlight`: name -> one point (2,) or several (k, 2), drawn large with a
    legend. `regions`: name -> a closed curve (m, 2), such as `Region.boundary()`, filled lightly.
    Points of the hyperboloid (n, 3), time coordinate first, are projected first.
    """
    xy = _to_disk("points", points)
    curves = {name: _to_disk(f"regions[{name!r}]", c) for name, c in (regions or {}).items()}
    with styled():
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Circle

        ax = axes_for(ax, (6.4, 6.4))
        ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor="#555555", linewidth=1.5))
        if edges is not None:
            pairs = np.asarray(edges, dtype=np.int64)
            if (
                pairs.ndim != 2
                or pairs.shape[1] != 2
                or (pairs.size and (pairs.min() < 0 or pairs.max() >= len(xy)))
            ):
                raise InvalidArgument(
                    "argument `edges` needs pairs (m, 2) of positions in `points`"
                )
            arcs = _geodesics(xy[pairs[:, 0]], xy[pairs[:, 1]])
            ax.add_collection(
                LineCollection(
                    list(arcs),
                    colors="#B8B8B8",
                    linewidths=0.5,
                    zorder=1,
                    rasterized=len(arcs) > 2000,
                )
            )
        ax.scatter(
            xy[:, 0],
            xy[:, 1],
            s=12,
            color=COLOURS[0],
            linewidths=0,
            zorder=2,
            rasterized=len(xy) > 5000,
        )
        _fill(ax, curves)
        for i, (name, value) in enumerate((highlight or {}).items()):
            chosen = _to_disk(
                f"highlight[{name!r}]", np.atleast_2d(np.asarray(value, dtype=np.float64))
            )
            _mark(ax, chosen, i, name, zorder=3)
        _finish(ax, title, legend=bool(highlight or curves))
    return ax


def unit_sphere(
    points: ArrayLike,
    *,
    highlight: Mapping[str, Any] | None = None,
    regions: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
    title: str = "Unit sphere",
) -> Any:
    """Points (n, 3) of the unit sphere, seen from far away in the direction of their arithmetic
    mean; returns the axes.

    What lies on the far side is drawn faint. `highlight`: name -> one point (3,) or several (k, 3),
    drawn large with a legend. `regions`: name -> a closed curve (m, 3), such as
    `Region.boundary()`, filled lightly.
    """
    x = _to_sphere("points", points)
    curves = {name: _to_sphere(f"regions[{name!r}]", c) for name, c in (regions or {}).items()}
    chosen = {
        name: _to_sphere(f"highlight[{name!r}]", np.atleast_2d(np.asarray(value, dtype=np.float64)))
        for name, value in (highlight or {}).items()
    }
    frame = _view(x)
    with styled():
        from matplotlib.patches import Circle

        ax = axes_for(ax, (6.4, 6.4))
        ax.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor="#555555", linewidth=1.5))
        for circle in _graticule():
            seen = circle @ frame
            front = np.where(seen[:, 2:] >= 0.0, seen[:, :2], np.nan)
            ax.plot(front[:, 0], front[:, 1], color="#DDDDDD", linewidth=0.8, zorder=1)
        at = x @ frame
        ax.scatter(
            at[:, 0],
            at[:, 1],
            s=12,
            color=_faded(COLOURS[0], at[:, 2], 0.2),
            linewidths=0,
            zorder=2,
        )
        _fill(ax, {name: (curve @ frame)[:, :2] for name, curve in curves.items()})
        for i, (name, value) in enumerate(chosen.items()):
            at = value @ frame
            _mark(ax, at, i, name, zorder=4, depth=at[:, 2])
        _finish(ax, title, legend=bool(chosen or curves))
    return ax


def spd_ellipses(
    matrices: Mapping[str, Any] | Any,
    *,
    ax: Axes | None = None,
    title: str = "SPD matrices as ellipses x' A^-1 x = 1",
    faint: bool = False,
) -> Any:
    """2x2 SPD matrices as ellipses with half axes sqrt(eigenvalues); returns the axes.

    `matrices`: name -> (2, 2) or (n, 2, 2), or one such array. Named groups get their own colour;
    groups of more than three are drawn faint, so that a single mean stands out before them.
    """
    groups = matrices if isinstance(matrices, Mapping) else {"": matrices}
    if not groups:
        raise InvalidArgument("argument `matrices` is empty; give at least one matrix")
    turn = np.linspace(0.0, 2 * np.pi, 181)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    with styled():
        ax = axes_for(ax, (6.2, 6.0))
        for i, (name, value) in enumerate(groups.items()):
            stack = np.asarray(value, dtype=np.float64)
            stack = stack[None] if stack.ndim == 2 else stack
            if stack.ndim != 3 or stack.shape[1:] != (2, 2) or not np.all(np.isfinite(stack)):
                raise invalid(
                    "matrices", stack, "give finite SPD matrices of shape (2, 2) or (n, 2, 2)"
                )
            values, vectors = np.linalg.eigh(stack)
            if len(values) and values.min() <= 0:
                raise InvalidArgument(
                    "argument `matrices` holds a matrix that is not positive definite"
                )
            many = faint or len(stack) > 3
            for j, outline in enumerate((vectors * np.sqrt(values)[:, None, :]) @ circle):
                ax.plot(
                    outline[0],
                    outline[1],
                    color=COLOURS[i % len(COLOURS)],
                    linewidth=0.8 if many else 2.6,
                    alpha=0.35 if many else 1.0,
                    zorder=2 if many else 3,
                    label=name if j == 0 and name else None,
                )
        ax.set(xlabel="first coordinate", ylabel="second coordinate", title=title)
        ax.set_aspect("equal", adjustable="datalim")
        if any(groups):
            legend = ax.legend(loc="upper right")
            for handle in legend.get_lines():
                handle.set(alpha=1.0, linewidth=2.6)
    return ax


def _to_disk(name: str, points: ArrayLike) -> np.ndarray:
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] not in (2, 3) or not np.all(np.isfinite(x)):
        raise invalid(
            name,
            x,
            "give finite points (n, 2) of the disk, or (n, 3) of the hyperboloid with time first",
        )
    if x.shape[1] == 3:
        x = x[:, 1:] / (1.0 + x[:, :1])
    if len(x) and np.max(np.sum(x**2, axis=1)) >= 1.0:
        raise InvalidArgument(f"argument `{name}` has a point outside the open unit disk")
    return x


def _faded(colour: str, height: np.ndarray, faint: float) -> np.ndarray:
    """One colour (n, 4) for each point, faint where `height` is negative."""
    from matplotlib.colors import to_rgba

    shades = np.tile(to_rgba(colour), (len(height), 1))
    shades[height < 0.0, 3] = faint
    return shades


def _mark(
    ax: Axes, xy: np.ndarray, i: int, name: str, *, zorder: int, depth: np.ndarray | None = None
) -> None:
    """Large points in the colour and the marker of the i-th highlight, faint where `depth` < 0."""
    colour = COLOURS[(i + 1) % len(COLOURS)]
    ax.scatter(
        xy[:, 0],
        xy[:, 1],
        s=110,
        color=colour if depth is None else _faded(colour, depth, 0.3),
        edgecolors="white",
        linewidths=1.4,
        marker=MARKERS[(i + 1) % len(MARKERS)],
        zorder=zorder,
        label=name,
    )


def _finish(ax: Axes, title: str, *, legend: bool) -> None:
    """Limits of the unit disk, no axes, a legend beside it."""
    ax.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), title=title)
    ax.set_aspect("equal")
    ax.set_axis_off()
    if legend:
        ax.legend(loc="upper right", bbox_to_anchor=(1.02, 1.02))


def _fill(ax: Axes, curves: Mapping[str, np.ndarray]) -> None:
    """Closed curves (m, 2), each in its own colour."""
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[(i + 1) % len(COLOURS)]
        ax.fill(curve[:, 0], curve[:, 1], color=colour, alpha=0.18, linewidth=0, zorder=2)
        ax.plot(curve[:, 0], curve[:, 1], color=colour, linewidth=1.8, zorder=3, label=name)


def _to_sphere(name: str, points: ArrayLike) -> np.ndarray:
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != 3 or not np.all(np.isfinite(x)):
        raise invalid(name, x, "give finite points (n, 3) of the unit sphere")
    if len(x) and np.max(np.abs(np.sum(x**2, axis=1) - 1.0)) > 1e-6:
        raise InvalidArgument(f"argument `{name}` has a point that is not of length 1")
    return x


def _view(x: np.ndarray) -> np.ndarray:
    """Columns: right, up, and the direction from which the points are seen."""
    towards = x.sum(axis=0) if len(x) else np.array([1.0, 0.0, 0.0])
    length = np.linalg.norm(towards)
    towards = towards / length if length > 1e-9 else np.array([1.0, 0.0, 0.0])
    pole = np.array([0.0, 0.0, 1.0]) if abs(towards[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
    right = np.cross(pole, towards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(towards, right), towards], axis=1)


def _graticule() -> list[np.ndarray]:
    """Meridians and parallels, every 30 degrees."""
    turn = np.linspace(0.0, 2.0 * np.pi, 181)
    ring = np.stack([np.cos(turn), np.sin(turn), np.zeros(181)], axis=1)
    up = np.array([0.0, 0.0, 1.0])
    parallels = [
        np.cos(a) * ring + np.sin(a) * up for a in np.radians([-60.0, -30.0, 0.0, 30.0, 60.0])
    ]
    meridians = []
    for a in np.radians([0.0, 30.0, 60.0, 90.0, 120.0, 150.0]):
        across = np.array([np.cos(a), np.sin(a), 0.0])
        meridians.append(np.outer(np.cos(turn), across) + np.outer(np.sin(turn), up))
    return parallels + meridians


def _geodesics(a: np.ndarray, b: np.ndarray, samples: int = 24) -> np.ndarray:
    """(m, samples, 2) points of the hyperbolic segments from a to b: a (+) t ((-a) (+) b) along the
    gyroline.
    """
    difference = _mobius(-a, b)
    length = np.maximum(np.linalg.norm(difference, axis=1), 1e-15)
    t = np.linspace(0.0, 1.0, samples)
    radius = np.tanh(t[None, :] * np.arctanh(np.minimum(length, 1 - 1e-15))[:, None])
    steps = radius[..., None] * (difference / length[:, None])[:, None, :]
    return _mobius(a[:, None, :], steps)


def _mobius(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    xy, xx, yy = (np.sum(p * q, axis=-1, keepdims=True) for p, q in ((x, y), (x, x), (y, y)))
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy)
