"""Write the table of docs/evidence/means.md on James-Stein shrinking towards a public centre: what
it changes, by space, length of the noise and distance of the mean from the centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import riemdp as R
from papers.tables import DOCS, options, table, write_between
from riemdp.manifolds import AbstractManifold
from riemdp.randomness import noise_source

NOISES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0)  # planned length, in radii
PLACES = (0.0, 0.25, 0.5, 0.9)  # distance of the mean from the centre, in radii
CASES = (
    (R.Sphere(11), math.pi / 8),
    (R.SPDBuresWasserstein(3), 0.3),
    (R.Lorentz(6), 1.0),
    (R.Lorentz(6), 4.0),
    (R.SPDAffineInvariant(4), 1.0),
    (R.SPDAffineInvariant(4), 4.0),
    (R.SPDAffineInvariant(8), 2.5),
    (R.SPDAffineInvariant(8), 8.0),
    (R.SPDAffineInvariant(24), 4.0),
)
TAIL = """
Where curvature is negative, shrinking multiplies the error by {worst_short:.3f} at most for noise
up to 0.1 radii, and by {worst_long:.3f} at most beyond the threshold. For a mean at the centre it
divides the error by {gain:.1f} or more beyond the threshold."""


def directions(space: AbstractManifold, count: int) -> list[np.ndarray]:
    """Where the mean lies: random, and on affine-invariant space along the identity (flat) and
    along a matrix of rank one (the most curved).
    """
    ways = [noise_source(2).normals((count, space.dim))]
    if isinstance(space, R.SPDAffineInvariant):
        k, origin = space.k, space.origin
        special = np.eye(k), np.diag([1.0] + (k - 1) * [0.0])
        ways += [np.tile(space.to_coordinates(origin, v), (count, 1)) for v in special]
    return ways


def ratio(
    space: AbstractManifold, radius: float, place: float, noise: float, way: np.ndarray
) -> float:
    """Error with shrinking over the error without, the mean lying in these directions."""
    source, dim, sigma = noise_source(1), space.dim, noise * radius / math.sqrt(space.dim)
    mean = way.copy()
    mean *= place * radius / np.linalg.norm(mean, axis=1, keepdims=True)
    noisy = mean + sigma * source.normals(way.shape)
    lengths = np.linalg.norm(noisy, axis=1, keepdims=True)
    shrunk = np.maximum(0.0, 1.0 - (dim - 2) * (sigma / lengths) ** 2) * noisy
    ends = [space.exp(space.origin, space.from_coordinates(space.origin, mean))]
    for y in (noisy, shrunk):
        length = np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-300)
        inside = np.minimum(1.0, radius / length) * y
        ends.append(space.exp(space.origin, space.from_coordinates(space.origin, inside)))
    plain, short = (np.mean(np.asarray(space.dist(ends[0], e)) ** 2) for e in ends[1:])
    return math.sqrt(short / plain)


def main() -> None:
    count, found = options(__doc__, runs=400).runs, {}

    def rows() -> Iterator[list[str]]:
        for space, radius in CASES:
            ways = directions(space, count)
            cells = [f"`{space!r}`, {radius:.3g}"]
            for noise in NOISES:  # the error of the least favourable direction
                ratios = [max(ratio(space, radius, p, noise, way) for way in ways) for p in PLACES]
                found[space, radius, noise] = ratios
                cells.append(" / ".join(f"{x:.2f}" for x in ratios))
            yield cells

    made = table("space, radius | " + " | ".join(f"noise {x:g} r" for x in NOISES), rows())
    down = {k: v for k, v in found.items() if float(k[0].curvature_bounds[0]) < 0.0}
    text = TAIL.format(
        worst_short=max(max(v) for k, v in down.items() if k[2] <= 0.1),
        worst_long=max(max(v) for k, v in down.items() if k[2] > 0.2),
        gain=1.0 / max(v[0] for k, v in down.items() if k[2] > 0.2),
    )
    write_between(DOCS / "evidence" / "means.md", "shrinking", f"{made}\n{text}")


if __name__ == "__main__":
    main()
