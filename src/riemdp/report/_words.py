"""The sentences of a privacy report: plain words for numbers, and what is not guaranteed."""

from __future__ import annotations

import math

ADJACENCY = {
    "replace-one": (
        "Replace one: the data set with one record exchanged for any other possible record. The"
        " number of records is treated as public."
    ),
    "add-or-remove-one": "Add or remove one: the data set with one record more or one record less.",
}

MECHANISM = {
    "wrapped-gaussian": (
        "Gaussian noise in the tangent space at the public centre, carried back to the space"
    ),
    "wrapped-laplace": (
        "Laplace noise in the tangent space at the public centre, carried back to the space"
    ),
    "riemannian-laplace": "a random point of the Riemannian Laplace law around the mean",
    "k-norm-gradient": (
        "the K-norm gradient mechanism: a random point that makes the gradient of the mean's"
        " objective small"
    ),
    "extrinsic-gaussian": "Gaussian noise on the matrix or vector entries",
    "extrinsic-laplace": "Laplace noise on the matrix or vector entries",
    "dp-rgd": "noisy gradient descent on all records (DP-RGD)",
    "dp-rsgd": "noisy gradient descent on small random batches (DP-RSGD)",
    "dp-rsvrg": "noisy variance-reduced gradient descent (DP-RSVRG)",
    "input-perturbation": (
        "Gaussian noise on the second-moment matrix of the clipped rows, then its leading"
        " eigenvectors"
    ),
}

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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


def one_in(p: float) -> str:
    """A small probability as 'one in N'."""
    if p <= 0.0:
        return "never"
    return f"one in {round(1.0 / p):,}" if p < 0.5 else percent(p)


def limits(facts_delta: float, adjacency: str, reproducible: bool) -> list[tuple[str, str]]:
    """What the guarantee does not say: (heading, sentence), shown on every report."""
    items = [
        (
            "A person with several records",
            (
                "The guarantee is for one record. If one person contributed k records, their"
                " protection is weaker: roughly k times the epsilon. Combine the records of a"
                " person into one before the release, or state the guarantee for k records."
            ),
        ),
        (
            "What the result says about everyone",
            (
                "A private release still tells the truth about the group. If the group's average"
                " implies something about a person who belongs to it, that conclusion is not"
                " prevented, because it would be the same without the person's record."
            ),
        ),
        (
            "Other releases from the same records",
            (
                "Every further release adds to the cost. The figure above covers this release only,"
                " unless a ledger total is shown below; two releases made outside one ledger have"
                " to be added by hand."
            ),
        ),
        (
            "Choices made by looking at the data",
            (
                "The centre, the radius, the epsilon and the mechanism must have been chosen"
                " without looking at these records. The program cannot check that; whoever signs"
                " below vouches for it."
            ),
        ),
        (
            "The computer itself",
            (
                "Someone who can read the memory or disk of the machine, or time the computation"
                " precisely, sees more than the release. Noise is drawn in 64-bit floating point;"
                " attacks on the last bits are not excluded by proof."
            ),
        ),
    ]
    if adjacency == "replace-one":
        items.insert(
            1,
            (
                "The number of records",
                (
                    "How many records there are is treated as known to everybody. That one more or"
                    " one fewer person took part is therefore not hidden by this statement."
                ),
            ),
        )
    if facts_delta > 0.0:
        items.insert(
            0,
            (
                f"The exceptional case (delta = {rounded_up(facts_delta)})",
                (
                    "The factor bounds every event up to this additional probability. In rare"
                    f" cases, of total probability of that order ({one_in(facts_delta)}), a release"
                    " may reveal more than the table above says."
                ),
            ),
        )
    if reproducible:
        items.insert(
            0,
            (
                "Everything, in this run",
                (
                    "The noise came from a seed. Whoever knows or guesses the seed can subtract it."
                    " No statement of privacy applies."
                ),
            ),
        )
    return items


def strength(best_guess: float) -> tuple[str, str]:
    """A reading aid: (word, sentence) for the success rate of the best possible guess between two
    candidates.
    """
    if best_guess <= 0.60:
        return "strong", "Even the best attack is little better than tossing a coin."
    if best_guess <= 0.75:
        return "moderate", "The best attack does visibly better than a coin, but is often wrong."
    if best_guess <= 0.95:
        return (
            "weak",
            (
                "The best attack is right most of the time. A person with something to lose may not"
                " accept this."
            ),
        )
    return (
        "nominal",
        (
            "The best attack is almost always right. This is hardly protection against a determined"
            " attacker."
        ),
    )
