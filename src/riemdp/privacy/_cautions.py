"""What a user should be told about a guarantee that protects hardly anybody."""

from __future__ import annotations

import math

from .._errors import warn
from ._guarantee import PERSON, Guarantee

# A best guess above this is called almost certain. A pure guarantee reaches it at epsilon 4.6.
ALMOST_CERTAIN = 0.99


def cautions(guarantee: Guarantee, delta: float, records: int | None) -> list[str]:
    """Sentences about a delta of 1/n or more, and about an epsilon that protects nobody.

    The terminal, the privacy report and the warnings of releases use these words.

    Args:
        guarantee: What is, or will be, guaranteed.
        delta: The one that epsilon is stated at.
        records: The public number of records (of people, for a guarantee about one person) or its
            public lower bound; None where unknown.

    Returns:
        The sentences; none for an ordinary guarantee.
    """
    if not guarantee.is_private:
        return []
    found = []
    if records is not None and delta > 0.0 and delta * records >= 1.0:
        whole = "everything of one person" if guarantee.unit == PERSON else "one record"
        found.append(
            f"delta = {delta:g} is not below 1/n = {1 / records:.3g}: publishing {whole} picked"
            " at random, as it is, would keep within such a delta. Take delta far below 1/n"
        )
    epsilon = guarantee.epsilon(delta)
    if epsilon > 4.0:
        guess = 0.5 * (1.0 + guarantee.delta(0.0))
        if guess >= ALMOST_CERTAIN:
            shown = min(100.0, math.ceil(1000.0 * guess) / 10.0)
            found.append(
                f"epsilon {epsilon:.4g} at delta {delta:g} hardly protects anybody: the best attack"
                f" guesses right {shown:g} % of the time, a coin 50 %"
            )
    return found


def warn_of(guarantee: Guarantee, delta: float, records: int | None) -> None:
    """Issue each of `cautions` as a `RiemdpWarning`."""
    for sentence in cautions(guarantee, delta, records):
        warn(sentence)
