"""Write the table of docs/dev/accuracy.md on rounding (between its two markers): the worst error
found on every space, and its bound.

Run from the root of the repository: `.venv/bin/python -m tools.rounding_table` (about four
minutes).
"""

from __future__ import annotations

import math
from pathlib import Path

from tests.domains.rounding import Found, Place, means, places, sums, values

from papers.checks import write_between

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dev" / "accuracy.md"
MARKERS = "<!-- rounding -->", "<!-- end of rounding -->"
VALUES, MEANS = 40, 9


def main() -> None:
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in places():
        groups.setdefault((place.name, place.where), []).append(place)
    head = ["space", "public centre", "radii", "values: error", "bound", "means: error", "bound"]
    lines = [head, ["---"] * len(head)]
    for (name, where), group in groups.items():
        resolved, without = [], []
        for place in group:
            if place.values:
                found = values(place, VALUES)
                (resolved if math.isfinite(found.bound) else without).append((place, found))
        for_means = [p for p in group if not p.values and p.domain.is_resolved]
        radii = sorted({p.radius for p in [*(place for place, _ in resolved), *for_means]})
        none = sorted({place.radius for place, _ in without})
        shown = ", ".join(f"{r:.3g}" for r in radii) or "-"
        if none:
            shown += "; idealised: " + ", ".join(f"{r:.3g}" for r in none)
        looked = [place for place, _ in resolved if place.means] + for_means
        errors = cells([found for _, found in resolved])
        residuals = cells([means(place, MEANS) for place in looked])
        lines.append([f"`{name}`", where, shown, *errors, *residuals])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    total = sums(1000, 1000)
    tail = (
        f"\n\nThe sum of a million terms: {total.error:.1e}, bound {total.bound:.1e}, relative to"
        " the length of the terms."
    )
    write_between(PAGE, MARKERS, table + tail)


def cells(found: list[Found]) -> list[str]:
    """Error and bound where the error is the largest part of its bound."""
    if not found:
        return ["-", "-"]
    worst = max(found, key=lambda one: one.share)
    return [f"{worst.error:.1e}", f"{worst.bound:.1e}"]


if __name__ == "__main__":
    main()
