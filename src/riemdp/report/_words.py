"""The sentences of a privacy report: numbers in words, cautions, and what is not guaranteed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..privacy._guarantee import PERSON

if TYPE_CHECKING:
    from ..mechanisms._outside import OutsideCount, ValidCount
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

DELTA_MEANING = "additive slack on every probability; keep it far below 1/n"
GROUPS = (2, 5)  # sizes of a person's share that every report gives figures for

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ----------------------------------------------------------------------------------------------
# numbers
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


# ----------------------------------------------------------------------------------------------
# readings
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
    told = "lay outside or were no points"
    if outside.unit == PERSON:
        told = "had more than half of their records outside (what is no point counts as outside)"
    return (
        f"{outside} {told} (a count with noise, plus or minus its standard"
        f" deviation; {percent(outside.share)} of the budget, part of the guarantee)"
    )


def valid_sentence(valid: ValidCount) -> str:
    """How many records were points at all, how well that is known, and what it cost."""
    return (
        f"{valid} were {valid.of} (a count with noise, plus or minus its standard deviation;"
        f" {percent(valid.share)} of the budget, part of the guarantee)"
    )


# ----------------------------------------------------------------------------------------------
# what is not guaranteed
def limits(
    guarantee: Guarantee,
    delta: float,
    *,
    reproducible: bool,
    radius: float | None = None,
    found: bool = False,
    lattice: bool = False,
    counted: bool = False,
) -> list[tuple[str, str]]:
    """What the guarantee does not say: (heading, sentence), shown on every report.

    Args:
        guarantee: Of the release.
        delta: At which epsilon is stated.
        reproducible: Whether the noise came from a seed.
        radius: Of the ball, if there is one.
        found: Whether that ball was found privately.
        lattice: Whether the noise is in integers on a public grid.
        counted: Whether the records outside were counted with noise.
    """
    people = guarantee.unit == PERSON
    items = [
        ("Whose records are whose", _LABELS)
        if people
        else ("A person with several records", _several_records(guarantee, delta)),
        (
            "How near the result is to the truth",
            "Epsilon and delta say nothing about accuracy. "
            + (
                "Clipping biases the result where many records are clipped."
                if radius is None
                else f"Records farther than {number(radius)} from the centre are moved to that"
                " distance, which biases the result where there are many of them; "
                + (
                    "about how many there are stands above."
                    if counted
                    else "how many there are is private."
                )
            ),
        ),
        (
            "What the result says about everyone",
            "A private release still tells the truth about the group. If the group's average"
            " implies something about a person who belongs to it, that conclusion is not"
            " prevented, because it would be the same without the person's record.",
        ),
        (
            "Other releases from the same records",
            "Every further release adds to the cost. The figure above covers this release only,"
            " unless a ledger total is shown; releases made outside one ledger have to be composed"
            " by hand.",
        ),
        (
            "Choices made by looking at the data",
            (
                "The ball was found with noise, which the guarantee covers. Where its search began"
                " and the epsilon"
                if found
                else "The centre, the radius, the epsilon and the mechanism"
            )
            + " must have been chosen without looking at these records. The program cannot check"
            " that; the person who signs below vouches for it.",
        ),
        (
            "The computer itself",
            "Someone who can read the memory or disk of the machine, or time the computation"
            " precisely, sees more than the release. "
            + (
                "Noise is drawn in whole numbers on a public grid, so which numbers can come out is"
                " the same for all data."
                if lattice
                else "Noise is drawn in 64-bit floating point; attacks on the last bits are not"
                " excluded by proof."
            ),
        ),
    ]
    if str(guarantee.adjacency) == "replace-one":
        items.insert(
            1,
            ("The number of people", _HOW_MANY_PEOPLE)
            if people
            else (
                "The number of records",
                "How many records there are is treated as known to everybody. That one more or one"
                " fewer person took part is therefore not hidden by this statement.",
            ),
        )
    if delta > 0.0:
        items.insert(
            0,
            (
                f"The slack delta = {rounded_up(delta)}",
                "Every probability may exceed its bound by this much. Delta is not the probability"
                " of a failure: it is slack on every event, and what the events within that slack"
                " reveal is not limited.",
            ),
        )
    if reproducible:
        items.insert(
            0,
            (
                "Everything, in this run",
                "The noise came from a seed. Whoever knows or guesses the seed can subtract it. No"
                " statement of privacy applies.",
            ),
        )
    return items


_LABELS = (
    "The guarantee is for one person with all records that the labels give to that person. Records"
    " of one person under two labels are protected as those of two people are. That every record"
    " has a label is not protected."
)
_HOW_MANY_PEOPLE = (
    "How many people there are is treated as known to everybody. That one person more or fewer took"
    " part is therefore not hidden by this statement; how many records a person has is."
)


def group_sentence(guarantee: Guarantee, records: int, delta: float) -> str:
    """What a person with up to this many records can be told, by `Guarantee.group`."""
    together = guarantee.group(records)
    reach = together.epsilon(delta)
    if not math.isfinite(reach):
        return f"no finite epsilon at delta {rounded_up(delta) if delta else 0}"
    guess = percent(together.trade_off().best_guess, up=True)
    return f"{epsilon_and_delta(reach, delta)} (best guess {guess})"


def _several_records(guarantee: Guarantee, delta: float) -> str:
    start = (
        "The guarantee is for one record. A person who contributed k records is protected less:"
        " epsilon grows about k-fold or more"
    )
    if not guarantee.is_private:
        return start + "."
    figures = "; ".join(f"{k} records: {group_sentence(guarantee, k, delta)}" for k in GROUPS)
    return (
        f"{start}: {figures}. Combine the records of a person into one before the release, or"
        " state the guarantee for all of them."
    )
