"""Which mechanism exists on which space, as the code decides it: a table of
docs/which-mechanism.md.

A mechanism is listed where `plan_private_mean` can make it for a small ball about the origin, an
optimiser where `plan_optimizer` accepts the problem of the mean.
"""

from __future__ import annotations

import jax

import riemdp as R
from papers.tables import DOCS, table, write_between
from riemdp.optimizers import plan_optimizer

SPACES: dict[str, tuple[R.AbstractManifold, str]] = {
    "`Euclidean`": (R.Euclidean(3), "vectors"),
    "`SPDLogEuclidean`": (R.SPDLogEuclidean(3), "covariances; the smallest error, the fastest"),
    "`SPDAffineInvariant`": (
        R.SPDAffineInvariant(3),
        "covariances whose mixing of channels should not matter",
    ),
    "`SPDBuresWasserstein`": (
        R.SPDBuresWasserstein(3),
        "covariances of Gaussians, nearly singular",
    ),
    "`Sphere`": (R.Sphere(3), "directions"),
    "`Lorentz`": (R.Lorentz(4), "trees and hierarchies"),
    "`PoincareBall`": (R.PoincareBall(3), "the same, in the Poincare ball"),
    "`Grassmann`": (R.Grassmann(5, 2), "subspaces"),
    "`KendallShapes`": (R.KendallShapes(5), "outlines, landmarks in the plane"),
    "`Product`": (R.Product(R.Sphere(3), R.SPDLogEuclidean(2)), "records of several parts"),
    "`SpecialOrthogonal`": (R.SpecialOrthogonal(3), "rotations"),
    "`Stiefel`": (R.Stiefel(5, 2), "frames"),
}
MECHANISMS = {
    "wrapped Gaussian": "wrapped-gaussian",
    "wrapped Laplace": "wrapped-laplace",
    "Riemannian Laplace": "riemannian-laplace",
    "K-norm": "k-norm-gradient",
    "tangent mean": "tangent-mean",
}


def curvature(space: R.AbstractManifold) -> str:
    """The sign of the sectional curvature, in words."""
    low, high = space.curvature_bounds
    if low == high == 0:
        return "flat"
    if high <= 0:
        return "at most 0"
    return "at least 0" if low >= 0 else "both signs"


def private_ball(space: R.AbstractManifold) -> str:
    """Whether a search for a ball exists, and whether it needs a public ball to begin in."""
    for search, answer in (
        (R.AdaptiveBall(), "yes"),
        (R.AdaptiveBall(R.Ball(space.origin, 1.0)), "from an outer ball"),
    ):
        try:
            R.plan_private_mean(space, search, None, R.Budget(1.0, 1e-6))
        except (R.InvalidArgument, NotImplementedError):
            continue
        return answer
    return "-"


def optimizer(space: R.AbstractManifold, ball: R.Ball) -> str:
    """Whether the problem of the mean can be handed to an optimiser."""
    try:
        problem = R.problems.frechet_mean(space, ball=ball)
        jax.eval_shape(problem.loss, space.origin, space.origin)  # needs a distance
        plan_optimizer(problem, 1000, R.DPRGD(clip_norm=1.0), R.Budget(1.0, 1e-6))
    except (R.InvalidArgument, NotImplementedError):
        return "other problems"
    return "yes"


def row(name: str) -> list[str]:
    """One line of the table."""
    space, use = SPACES[name]
    ball = R.Ball(space.origin, 0.2)
    try:
        rows = R.plan_private_mean(space, ball, 1000, R.Budget(1.0, 1e-6))
        made = {r.mechanism for r in rows if r.scale is not None}
    except (R.InvalidArgument, NotImplementedError):
        made = set()
    answers = ["yes" if kind in made else "-" for kind in MECHANISMS.values()]
    return [name, use, curvature(space), private_ball(space), *answers, optimizer(space, ball)]


def main() -> None:
    head = ["space", "for", "curvature", "private ball", *MECHANISMS, "`DPRGD`, `DPRSGD`"]
    made = table(" | ".join(head), map(row, SPACES))
    write_between(DOCS / "which-mechanism.md", "spaces", made)


if __name__ == "__main__":
    main()
