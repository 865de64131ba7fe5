"""Write docs/evidence/shrinking.md: what James-Stein shrinking towards a public centre changes, by
space, length of the noise and distance of the mean from the centre. Run from the repository root.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import riemdp as R
from riemdp.manifolds import AbstractManifold
from riemdp.randomness import noise_source

REPEATS = 400
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
HEAD = f"""# Shrinking towards a public centre

`private_frechet_mean` with Gaussian noise at a public centre may shrink the noisy tangent vector y
towards the centre, to `y (1 - (dim - 2) sigma^2 / |y|^2)_+` (James and Stein). It reads the noisy
vector alone, so it costs no privacy. A confidence region is made of the vector before shrinking.

Whether it is done is decided by public numbers: always in dimension 3 and more if the curvature is
not negative; elsewhere if the planned length of the noise, sqrt(dim) sigma, exceeds 0.2 radii. The
plan marks such rows as "shrunk", and the release and its report say so.

The stated error covers shrinking. If curvature is not negative, it is the bound of James and
Stein. If curvature is at least -k, the error is at most the third side of the hyperbolic triangle
of curvature -k with the lengths of the mean and of the shrunk vector and the angle between them
(Toponogov). The stated distribution takes the largest such side over each bin of the distance
between mean and centre, the length of the noise and its direction, and over the whole ball. It is
an upper bound.
If curvature has no lower bound, or no ball is given, no error is stated.

Each cell is the root mean squared error with shrinking divided by the error without, both moved
into the ball, for a mean at {", ".join(f"{p:g}" for p in PLACES)} radii from the centre. {REPEATS}
draws per cell and direction, one seed. The cell is for the least favourable of random directions
and, on affine-invariant space, of the identity and a matrix of rank one. Below 1 shrinking helps.
Written by `tools/shrinking_table.py`.
"""
TAIL = """
Where curvature is negative, shrinking multiplies the error by {worst_short:.3f} at most for noise
up to 0.1 radii, and by {worst_long:.3f} at most beyond the threshold. For a mean at the centre it
divides the error by {gain:.1f} or more beyond the threshold.
"""


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


def ratio(space: AbstractManifold, radius: float, place: float, noise: float) -> float:
    """Error with shrinking over the error without, in the least favourable direction."""
    return max(_ratio(space, radius, place, noise, way) for way in directions(space, REPEATS))


def _ratio(
    space: AbstractManifold, radius: float, place: float, noise: float, way: np.ndarray
) -> float:
    source, dim, sigma = noise_source(1), space.dim, noise * radius / math.sqrt(space.dim)
    mean = way.copy()
    mean *= place * radius / np.linalg.norm(mean, axis=1, keepdims=True)
    noisy = mean + sigma * source.normals((REPEATS, dim))
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
    lines = [HEAD]
    lines.append("| space, radius | " + " | ".join(f"noise {x:g} r" for x in NOISES) + " |")
    lines.append("|---|" + "---|" * len(NOISES))
    found = {}
    for space, radius in CASES:
        cells = []
        for noise in NOISES:
            ratios = [ratio(space, radius, place, noise) for place in PLACES]
            found[space, radius, noise] = ratios
            cells.append(" / ".join(f"{x:.2f}" for x in ratios))
        lines.append(f"| `{space!r}`, {radius:.3g} | " + " | ".join(cells) + " |")
    down = {k: v for k, v in found.items() if float(k[0].curvature_bounds[0]) < 0.0}
    text = TAIL.format(
        worst_short=max(max(v) for k, v in down.items() if k[2] <= 0.1),
        worst_long=max(max(v) for k, v in down.items() if k[2] > 0.2),
        gain=1.0 / max(v[0] for k, v in down.items() if k[2] > 0.2),
    )
    page = Path("docs/evidence/shrinking.md")
    page.write_text("\n".join(lines) + "\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main()
