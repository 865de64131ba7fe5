"""Measure how often confidence regions hold what they are of: a table of docs/evidence/regions.md.

Each population is a list of points: covariance descriptors of real images, an embedding of real
words (where `RIEMDP_DATA` has it), or 20 000 simulated points of a skewed distribution. Samples are
drawn from it with replacement, so its mean is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import riemdp as R
from papers.data import digit_covariances, mammals_embedding
from papers.tables import DOCS, options, table, write_between

HEAD = (
    "population | n | mean of the clamped records | the same region, mean of the unclipped records"
    " | population"
)
LEVEL, SIZES = 0.9, (200, 1000)
MEAN, OTHER = R.Budget(1.0, 1e-5), R.Budget(0.5, 1e-5)
Population = tuple[str, R.AbstractManifold, np.ndarray]


def skewed(space: R.AbstractManifold, scale: float) -> np.ndarray:
    """Points whose coordinates at the origin are sums of a normal and an exponential number."""
    rng, count = np.random.default_rng(0), 20_000
    v = rng.normal(size=(count, space.dim)) + rng.exponential(size=(count, space.dim)) - 1.0
    v *= scale * np.linspace(1.0, 0.4, space.dim)
    return np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, v)))


def populations() -> Iterator[Population]:
    yield (
        "digits, covariances of image features, SPD(5)",
        R.SPDAffineInvariant(5),
        digit_covariances().matrices,
    )
    try:
        embedding = mammals_embedding(download=False)
    except R.RiemdpError:
        print("the embedding of mammals is not on this machine; its rows are left out")
    else:
        yield "words for mammals, hyperbolic plane", R.Lorentz(3), embedding["lorentz_embedding"]
    for space, scale in (
        (R.SPDAffineInvariant(2), 0.4),
        (R.Lorentz(3), 0.5),
        (R.Sphere(3), 0.2),
        (R.Grassmann(4, 2), 0.1),
    ):
        yield f"simulated, {space!r}", space, skewed(space, scale)


def ball_of(space: R.AbstractManifold, X: np.ndarray) -> R.Ball:
    """A ball off the mean that holds four fifths of the points."""
    mean = R.frechet_mean(space, X).value
    spread = float(np.median(np.asarray(space.dist(mean, X))))
    aside = space.from_coordinates(mean, 0.3 * spread * np.eye(space.dim)[0])
    center = space.exp(mean, aside)
    distances = np.asarray(space.dist(center, X))
    radius = float(np.quantile(distances, 0.8))
    if space.curvature_bounds[1] > 0:  # below the limit pi / (4 sqrt kappa) of a Frechet mean
        radius = min(radius, 0.95 * np.pi / (4 * np.sqrt(space.curvature_bounds[1])))
    return R.Ball(center, radius)


def row(population: Population, n: int, runs: int, first: int) -> list[str]:
    name, space, X = population
    ball = ball_of(space, X)
    truth = R.frechet_mean(space, ball.clamp(space, X)).value
    rng = np.random.default_rng(n)
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for run in range(first, first + runs):  # seeds of its own for every row
        x = X[rng.integers(0, len(X), n)]
        mean = R.private_frechet_mean(
            space, x, ball, MEAN, mechanism="wrapped-gaussian", rng=4 * run
        )
        regions = {
            "sample": (
                mean.confidence_region(LEVEL),
                R.frechet_mean(space, ball.clamp(space, x)).value,
            ),
        }
        if space.is_hadamard:
            spread = R.private_frechet_variance(space, x, ball, OTHER, rng=4 * run + 3)
            whole = R.frechet_mean(space, x).value
            regions["blind"] = regions["sample"][0], whole
            wide = mean.confidence_region(LEVEL, "population", dispersion=spread)
            regions["finite"] = wide, truth
        for kind, (region, point) in regions.items():
            hits.setdefault(kind, []).append(bool(region.contains(point)))
            widths.setdefault(kind, []).append(region.radius)

    def cell(kind: str) -> str:
        if kind not in hits:
            return "none"
        return f"{100 * np.mean(hits[kind]):.0f} % ({np.median(widths[kind]):.2g})"

    cells = [cell(kind) for kind in ("sample", "blind", "finite")]
    return [name, str(n), *cells]


def main() -> None:
    given = options(__doc__, runs=100, only=True)
    chosen = [(p, n) for p in populations() for n in SIZES if given.only in p[0]]
    rows = (row(*one, given.runs, 10_000 * i) for i, one in enumerate(chosen, 2))
    made = table(HEAD, rows)
    if not given.only:
        write_between(DOCS / "evidence" / "regions.md", "regions", made)


if __name__ == "__main__":
    main()
