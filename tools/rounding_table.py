"""Write the table of docs/dev/accuracy.md on rounding: the worst error found on every space, and
its bound. Takes about four minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tests.domains.rounding import Found, Place, means, places, sums, values

from papers.tables import DOCS, table, write_between

VALUES, MEANS = 40, 9


def rows() -> Iterator[list[str]]:
    """A row for each space and public centre."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in places():
        groups.setdefault((place.name, place.where), []).append(place)
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
        yield [f"`{name}`", where, shown, *errors, *residuals]


def cells(found: list[Found]) -> list[str]:
    """Error and bound where the error is the largest part of its bound."""
    if not found:
        return ["-", "-"]
    worst = max(found, key=lambda one: one.share)
    return [f"{worst.error:.1e}", f"{worst.bound:.1e}"]


def main() -> None:
    head = "space | public centre | radii | values: error | bound | means: error | bound"
    made, total = table(head, rows()), sums(1000, 1000)
    tail = (
        f"The sum of a million terms: {total.error:.1e}, bound {total.bound:.1e}, relative to"
        " the length of the terms."
    )
    write_between(DOCS / "dev" / "accuracy.md", "rounding", f"{made}\n\n{tail}")


if __name__ == "__main__":
    main()
