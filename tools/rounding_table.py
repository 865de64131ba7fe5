"""Write docs/dev/rounding.md: the worst rounding error found on every space, and its bound.

Run from the root of the repository: `.venv/bin/python -m tools.rounding_table` (about four
minutes).
"""

from __future__ import annotations

import math
from pathlib import Path

from tests.domains.rounding import Found, Place, means, places, sums, values

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dev" / "rounding.md"
VALUES, MEANS = 40, 9
HEAD = """# Rounding, and its public bounds

A guarantee is stated for a sensitivity, and float64 moves a value too. How far is bounded by a
formula of public numbers, `Domain.resolution`, which is added to the sensitivity
([the proof, Lemma 15](../proofs/gaussian.md#lemma-15)). Written by `tools/rounding_table.py`: the
worst error over hostile public centres and radii against 60 digits, with its bound. The bound has
to be ten times larger in every row; `tests/domains/test_rounding.py` fails otherwise.

- *Values*: two values about the ball (inside, on its edge and outside, a relative 1e-15 to 1 apart)
  are moved into it and become coordinates at the centre. The error is that of the distance of the
  coordinates, the bound is `WrappedGaussian.rounding`.
- *Means*: eight records at the edge, together, or in two opposite corners. The error is that of the
  residual at the computed mean, the bound is `Domain.rounding`. It is measured in the frame of the
  public centre, in which a `FrechetMean` is computed: on affine-invariant, log-Euclidean,
  hyperbolic and Euclidean spaces that is the origin, wherever the centre is.

If float64 cannot tell whether a value was moved into the ball (`Domain.is_resolved`), there is
no bound: `WrappedGaussian` then says "idealised" in `details["numerics"]`, and `FrechetMean`
refuses the ball. It also refuses one in which the bound exceeds a thousandth of the sensitivity.

"""


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
        " the length of the terms.\n"
    )
    PAGE.write_text(HEAD + table + tail)
    print(f"wrote docs/dev/{PAGE.name}")


def cells(found: list[Found]) -> list[str]:
    """Error and bound where the error is the largest part of its bound."""
    if not found:
        return ["-", "-"]
    worst = max(found, key=lambda one: one.share)
    return [f"{worst.error:.1e}", f"{worst.bound:.1e}"]


if __name__ == "__main__":
    main()
