"""The pictures of a privacy report as inline SVG: the trade-off curve and the best-guess bar."""

from __future__ import annotations

from ._curve import TradeOff
from ._words import percent

_W, _H = 460, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 26, 14, 54


def _x(alpha: float) -> float:
    return _LEFT + alpha * (_W - _LEFT - _RIGHT)


def _y(beta: float) -> float:
    return _TOP + (1.0 - beta) * (_H - _TOP - _BOTTOM)


def _points(pairs: list[tuple[float, float]]) -> str:
    return " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in pairs)


def trade_off_svg(bound: TradeOff) -> str:
    """The curve beta(alpha). Every attack lies on or above it; the corner is out of reach."""
    alpha, beta = bound.curve()
    pairs = [(float(a), float(b)) for a, b in zip(alpha, beta, strict=True)]
    if pairs[0][1] < 1.0:  # the bound jumps at alpha = 0 where delta > 0 (or without any privacy)
        pairs.insert(0, (0.0, pairs[0][1]))
    shaded = [(0.0, 0.0), *pairs, (1.0, 0.0)]
    grid, ticks = [], []
    for k in range(5):
        v = k / 4
        grid.append(f'<line x1="{_x(v):.1f}" y1="{_y(0):.1f}" x2="{_x(v):.1f}" y2="{_y(1):.1f}"/>')
        grid.append(f'<line x1="{_x(0):.1f}" y1="{_y(v):.1f}" x2="{_x(1):.1f}" y2="{_y(v):.1f}"/>')
        ticks.append(
            f'<text x="{_x(v):.1f}" y="{_y(0) + 18:.1f}" text-anchor="middle">{v:.0%}</text>'
        )
        ticks.append(
            f'<text x="{_x(0) - 8:.1f}" y="{_y(v) + 4:.1f}" text-anchor="end">{v:.0%}</text>'
        )
    middle_y = (_y(0) + _y(1)) / 2
    described = (
        "Trade-off curve. At 1 percent false alarms no attack detects more than"
        f" {percent(bound.detected(0.01), up=True)}; the best guess between two candidates is right"
        f" at most {percent(bound.best_guess, up=True)} of the time."
    )
    return (
        f'<svg class="curve" viewBox="0 0 {_W} {_H}" role="img" aria-label="{described}"><polygon'
        f' points="{_points(shaded)}" class="impossible"/><g class="grid">{"".join(grid)}</g><line'
        f' x1="{_x(0):.1f}" y1="{_y(1):.1f}" x2="{_x(1):.1f}" y2="{_y(0):.1f}"'
        f' class="guess"/><polyline points="{_points(pairs)}" class="bound"/><g'
        f' class="ticks">{"".join(ticks)}<text x="{(_x(0) + _x(1)) / 2:.1f}" y="{_H - 12}"'
        f' text-anchor="middle">false alarms</text><text x="15" y="{middle_y:.1f}"'
        f' text-anchor="middle" transform="rotate(-90 15 {middle_y:.1f})">missed'
        " detections</text></g></svg>"
    )


def guess_bar_svg(best_guess: float) -> str:
    """A bar from 50 % (a coin) to 100 % (certainty) with the success rate of the best possible
    guess.
    """
    width, left, right = 640.0, 8.0, 8.0
    span = width - left - right
    at = left + span * min(1.0, max(0.0, 2.0 * best_guess - 1.0))
    anchor = "start" if at < 60 else "end" if at > width - 60 else "middle"
    shown = percent(best_guess, up=True)
    return (
        f'<svg class="bar" viewBox="0 0 {width:g} 70" role="img" aria-label="Best possible guess'
        f' right at most {shown}"><rect x="{left}" y="32" width="{span:g}" height="10" rx="5"'
        f' class="rail"/><rect x="{left}" y="32" width="{max(at - left, 4):.1f}" height="10" rx="5"'
        f' class="fill"/><circle cx="{at:.1f}" cy="37" r="7" class="knob"/><text x="{at:.1f}"'
        f' y="20" text-anchor="{anchor}" class="value">{shown}</text><text x="{left}" y="64">50 % a'
        f' coin</text><text x="{width - right:g}" y="64" text-anchor="end">100 %'
        " certain</text></svg>"
    )
