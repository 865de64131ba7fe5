"""Numbers in words, and the sentences that a privacy report and the terminal share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..privacy._guarantee import PERSON

if TYPE_CHECKING:
    from ..inference._counts import OutsideCount, ValidCount
    from ..privacy import Guarantee

ADJACENCY = {
    "replace-one": (
        "Replace one: the data set with one record exchanged for any other possible record. The"
        " number of records is treated as public."
    ),
    "add-or-remove-one": "Add or remove one: the data set with one record more or one record less.",
}

OF_PEOPLE = {
    "replace-one": (
        "Replace one person: the data set with all records of one person exchanged for any other"
        " records, however many. The number of people is treated as public; how many records each"
        " of them has is not."
    ),
    "add-or-remove-one": (
        "Add or remove one person: the data set with all records of one person more, or less."
    ),
}

ONE_POINT = "one point each: the mean of that person's records"

GROUPS = (2, 5)  # sizes of a person's share that every report gives figures for

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ---------------------------------------------------------------- numbers
def number(x: float | None) -> str:
    """A number for a reader: three significant digits, no exponent where it can be avoided."""
    if x is None:
        return "not stated"
    if math.isnan(x):
        return "undefined"
    if math.isinf(x):
        return "unlimited" if x > 0 else "minus infinity"
    if x == 0.0:
        return "0"
    if 1e-3 <= abs(x) < 1e6:
        return f"{x:,.3g}" if abs(x) < 1000 else f"{x:,.0f}"
    return _power(f"{x:.2e}")


def _power(scientific: str) -> str:
    """'1.20e-05' as 1.2 × 10⁻⁵."""
    mantissa, exponent = scientific.split("e")
    raised = "10" + str(int(exponent)).translate(_RAISED)
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return raised if mantissa == "1" else f"{mantissa} × {raised}"


def rounded_up(x: float, digits: int = 4) -> str:
    """A privacy figure, rounded away from zero so that what is printed is still true."""
    if not math.isfinite(x) or x <= 0.0:
        return "unlimited" if x > 0.0 else "0"
    step = 10.0 ** (math.floor(math.log10(x)) - digits + 1)
    up = math.ceil(x / step - 1e-9) * step
    if 1e-3 <= up < 1e6:
        return f"{up:.{digits}g}"
    return _power(f"{up:.{digits - 1}e}")


def percent(p: float, *, up: bool = False) -> str:
    """A probability as a percentage; `up` rounds away from zero (for upper bounds)."""
    value = 100.0 * p
    digits = 1 if 0.1 <= value <= 99.9 or value in (0.0, 100.0) else 3
    if up:
        value = min(100.0, math.ceil(value * 10**digits - 1e-9) / 10**digits)
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") + "\N{NO-BREAK SPACE}%"


def epsilon_and_delta(epsilon: float, delta: float) -> str:
    """A pair for a sentence: "epsilon 1 at delta 10⁻⁵", both rounded up."""
    return f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta) if delta else 0}"


# ---------------------------------------------------------------- readings
def strength(best_guess: float) -> tuple[str, str]:
    """A reading aid for the success rate of the best possible guess between two candidates.

    Returns:
        A word and a sentence.
    """
    if best_guess <= 0.60:
        return "strong", "Even the best attack is little better than tossing a coin."
    if best_guess <= 0.75:
        return "moderate", "The best attack does visibly better than a coin, but is often wrong."
    if best_guess <= 0.95:
        return (
            "weak",
            "The best attack is right most of the time. A person with something to lose may not"
            " accept this.",
        )
    return (
        "nominal",
        "The best attack is almost always right. This is hardly protection against a determined"
        " attacker.",
    )


def bias_sentence(radius: float | None) -> str:
    """What the error from noise leaves out where a ball clamps the records."""
    if radius is None:
        return "The effect of clipping records is not in this figure."
    return (
        f"Records farther than {number(radius)} from the centre are moved to that distance; the"
        " bias that this causes is not in this figure."
    )


def outside_sentence(outside: OutsideCount) -> str:
    """How many records lay outside the ball, how well that is known, and what it cost."""
    told = "lay outside or were not points"
    if outside.unit == PERSON:
        told = "had more than half of their records outside (an invalid one counts as outside)"
    return (
        f"{outside} {told} (a noisy count, plus or minus its standard"
        f" deviation; {percent(outside.share)} of the budget, part of the guarantee)"
    )


def valid_sentence(valid: ValidCount) -> str:
    """How many records were points at all, how well that is known, and what it cost."""
    return (
        f"{valid} were {valid.of} (a noisy count, plus or minus its standard deviation;"
        f" {percent(valid.share)} of the budget, part of the guarantee)"
    )


def group_sentence(guarantee: Guarantee, records: int, delta: float) -> str:
    """What a person with up to this many records can be told, by `Guarantee.group`."""
    together = guarantee.group(records)
    reach = together.epsilon(delta)
    if not math.isfinite(reach):
        return f"no finite epsilon at delta {rounded_up(delta) if delta else 0}"
    guess = percent(together.trade_off().best_guess, up=True)
    return f"{epsilon_and_delta(reach, delta)} (best guess {guess})"
