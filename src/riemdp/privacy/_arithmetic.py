"""Whether a guarantee holds for the numbers as computed, or for real numbers."""

from __future__ import annotations

LATTICE = "lattice"
IDEALISED = "idealised"


def in_words(arithmetic: str) -> str:
    """What it says, for a reader."""
    if arithmetic == LATTICE:
        return "lattice (integer noise on a public grid; rounding is within the sensitivity)"
    return "idealised (the guarantee holds for real numbers, not bit by bit for float64)"
