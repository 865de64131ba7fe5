"""Coordinates of the pictures in a privacy report; `templates/pictures.svg.j2` draws them."""

from __future__ import annotations

from typing import NamedTuple

from ..privacy._trade_off import TradeOff
from ._words import percent

_WIDTH, _HEIGHT = 460, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 26, 14, 54


class CurvePicture(NamedTuple):
    """Where the lines and words of the trade-off curve go."""

    width: int
    height: int
    left: str
    right: str
    top: str
    bottom: str
    middle_x: str
    middle_y: str
    shaded: str
    bound: str
    grid: list[tuple[str, str, str, str]]
    ticks: list[tuple[str, str, str, str]]
    described: str


class BarPicture(NamedTuple):
    """Where the best-guess bar ends."""

    width: int
    left: int
    right: int
    span: int
    at: str
    filled: str
    anchor: str
    shown: str


def _x(alpha: float) -> str:
    return f"{_LEFT + alpha * (_WIDTH - _LEFT - _RIGHT):.1f}"


def _y(beta: float) -> str:
    return f"{_TOP + (1.0 - beta) * (_HEIGHT - _TOP - _BOTTOM):.1f}"


def _points(pairs: list[tuple[float, float]]) -> str:
    return " ".join(f"{_x(a)},{_y(b)}" for a, b in pairs)


def trade_off_picture(bound: TradeOff) -> CurvePicture:
    """The curve beta(alpha). Every attack lies on or above it; the corner below is out of reach."""
    alpha, beta = bound.curve()
    pairs = [(float(a), float(b)) for a, b in zip(alpha, beta, strict=True)]
    if pairs[0][1] < 1.0:  # the bound jumps at alpha = 0 where delta > 0, or without any privacy
        pairs.insert(0, (0.0, pairs[0][1]))
    quarters = [k / 4 for k in range(5)]
    grid = [(_x(v), _y(0), _x(v), _y(1)) for v in quarters]
    grid += [(_x(0), _y(v), _x(1), _y(v)) for v in quarters]
    below, beside = f"{float(_y(0)) + 18:.1f}", f"{float(_x(0)) - 8:.1f}"
    ticks = [(_x(v), below, "middle", f"{v:.0%}") for v in quarters]
    ticks += [(beside, f"{float(_y(v)) + 4:.1f}", "end", f"{v:.0%}") for v in quarters]
    return CurvePicture(
        width=_WIDTH,
        height=_HEIGHT,
        left=_x(0),
        right=_x(1),
        top=_y(1),
        bottom=_y(0),
        middle_x=_x(0.5),
        middle_y=_y(0.5),
        shaded=_points([(0.0, 0.0), *pairs, (1.0, 0.0)]),
        bound=_points(pairs),
        grid=grid,
        ticks=ticks,
        described=(
            "Trade-off curve. At 1 percent false alarms no attack detects more than"
            f" {percent(bound.rate(0.01), up=True)}; the best guess between two candidates is"
            f" right at most {percent(bound.best_guess, up=True)} of the time."
        ),
    )


def guess_bar_picture(best_guess: float) -> BarPicture:
    """A bar from 50 % (a coin) to 100 % (certainty) with the best possible guess on it."""
    width, margin = 640, 8
    span = width - 2 * margin
    at = margin + span * min(1.0, max(0.0, 2.0 * best_guess - 1.0))
    return BarPicture(
        width=width,
        left=margin,
        right=width - margin,
        span=span,
        at=f"{at:.1f}",
        filled=f"{max(at - margin, 4):.1f}",
        anchor="start" if at < 60 else "end" if at > width - 60 else "middle",
        shown=percent(best_guess, up=True),
    )
