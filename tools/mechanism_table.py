"""Write the tables of docs/evidence/mechanism-comparison.md: errors of all mean mechanisms at
equal privacy.

Intrinsic mechanisms: the formulas of `riemdp.plan_private_mean`. Extrinsic baselines have none:
they are simulated on a synthetic data set from a fixed seed, and the figure is the root mean
squared Riemannian distance to the intrinsic mean.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from tests.seam import Means

import riemdp as R
from papers.tables import DOCS, options, table, write_between
from riemdp.mechanisms import BASELINES, TangentMeanNoise

INTRINSIC = ("wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient")
EXTRINSIC = ("extrinsic-gaussian", "extrinsic-laplace")
TANGENT = ("tangent-mean, Gaussian", "tangent-mean, Laplace")
EPSILONS = (0.1, 0.3, 1.0)
DELTA = 1e-6
SIZES = (2, 3, 5, 8, 11, 15, 20, 30)


@dataclass
class Row:
    """One size and one epsilon: errors by mechanism (None: it does not exist), `clamped` those of
    baselines moved into the ball.
    """

    label: str
    dim: int
    epsilon: float
    error: dict[str, float | None]
    clamped: dict[str, float] = field(default_factory=dict)
    auto: str = ""


@dataclass
class Section:
    name: str
    radius: float
    n: int
    rows: list[Row] = field(default_factory=list)
    bias: dict[str, float] = field(default_factory=dict)

    def best(self, row: Row, mechanism: str) -> float | None:
        """The error of a mechanism, a baseline's after moving it into the ball where that helps."""
        error = row.error.get(mechanism)
        return None if error is None else min(error, row.clamped.get(mechanism, math.inf))

    def wins(self, a: str, b: str) -> str:
        """In how many rows a has the smaller error, of those in which one of the two is better than
        the centre of the ball.
        """
        pairs = [(self.best(r, a), self.best(r, b)) for r in self.rows]
        useful = [
            (x, y)
            for x, y in pairs
            if x is not None and y is not None and min(x, y) < 0.9 * self.radius
        ]
        return counted([x < y for x, y in useful])


def counted(won: list[bool]) -> str:
    verdict = "holds" if all(won) else "does not hold" if not any(won) else "holds in part"
    return f"{verdict}, {sum(won)} of {len(won)} rows"


class Data:
    """Synthetic records in the ball, half of the radius away from the centre on average, and their
    means.
    """

    def __init__(self, manifold, ball, n: int):
        v = manifold.tangent_normal(
            jax.random.key(1), manifold.origin, 0.5 * ball.radius / math.sqrt(manifold.dim), (n,)
        )
        self.manifold, self.ball, self.n = manifold, ball, n
        records = ball.clamp(manifold, manifold.exp(manifold.origin, v))
        self.records = records
        self.truth = R.frechet_mean(manifold, records).value
        self.ambient = np.mean(records, axis=0)

    def bias(self) -> float:
        return float(self.manifold.dist(self.truth, self.manifold.project(self.ambient)))

    def simulate(self, mechanism: str, budget, repeats: int) -> tuple[float, float]:
        """Root mean squared error of a baseline, as released and after moving the release into the
        ball.
        """
        facts = Means.MeanFacts(self.ball.on(self.manifold), self.n, budget)
        built = {kind.name: kind for kind in BASELINES}[mechanism].for_mean(facts)
        out = np.stack(
            [np.asarray(built.release(self.ambient, rng=i).value) for i in range(repeats)]
        )
        inside = self.ball.clamp(self.manifold, out)
        return self._rms(out), self._rms(inside)

    def tangent_mean(self, budget, repeats: int) -> float:
        """Root mean squared error of the tangent mean at the centre of the ball."""
        made = TangentMeanNoise(self.manifold, self.ball, n=self.n, budget=budget)
        points = [np.asarray(made.release(self.records, rng=i).value) for i in range(repeats)]
        return self._rms(np.stack(points))

    def _rms(self, points) -> float:
        return float(np.sqrt(np.mean(np.asarray(self.manifold.dist(self.truth, points)) ** 2)))


def measure(name: str, spaces: dict[str, Any], radius: float, n: int, repeats: int) -> Section:
    """The rows of a kind of spaces."""
    section = Section(name, radius, n)
    for label, manifold in spaces.items():
        ball = R.Ball(manifold.origin, radius)
        data = Data(manifold, ball, n)
        section.bias[label] = data.bias()
        print(name, label, flush=True)
        for epsilon in EPSILONS:
            budget = R.Budget(epsilon, DELTA)
            plan = R.plan_private_mean(manifold, ball, n, budget, count_outside=False)
            error = {r.mechanism: r.expected_error for r in plan}
            row = Row(label, manifold.dim, epsilon, error, auto=plan.best().mechanism)
            for mechanism in EXTRINSIC:
                row.error[mechanism], row.clamped[mechanism] = data.simulate(
                    mechanism, budget, repeats
                )
            for kind, spent in zip(TANGENT, (budget, R.Budget(epsilon)), strict=True):
                row.error[kind] = data.tangent_mean(spent, repeats)
            section.rows.append(row)
    return section


def cell(error: float | None, radius: float) -> str:
    return "-" if error is None else f"{error:.3g}" + (" *" if error >= radius else "")


def cells(row: Row, radius: float) -> list[str]:
    """A row of a table."""
    error = {kind: cell(found, radius) for kind, found in row.error.items()}
    for kind, clamped in row.clamped.items():
        error[kind] += f" / {cell(clamped, radius)}"
    every = [error[kind] for kind in (*INTRINSIC, *EXTRINSIC, *TANGENT)]
    return [row.label, str(row.dim), f"{row.epsilon:g}", *every, row.auto]


def shown(section: Section) -> str:
    """A section of the page."""
    extrinsic = [f"{kind}, as released / in the ball" for kind in EXTRINSIC]
    heads = ["size", "dim", "epsilon", *INTRINSIC, *extrinsic, *TANGENT, "auto"]
    facts = (
        f"n = {section.n}, radius {section.radius:g} (diameter {2 * section.radius:g}), delta ="
        f" {DELTA:g} where one is used. Distance between the ambient and the intrinsic mean: "
        + ", ".join(f"{k} {v:.3g}" for k, v in section.bias.items())
        + "."
    )
    made = table(" | ".join(heads), (cells(row, section.radius) for row in section.rows))
    return f"## {section.name}\n\n{textwrap.fill(facts, 98)}\n\n{made}\n"


def crossing(section: Section, epsilon: float) -> str:
    """The first size at which the wrapped Gaussian has a smaller error than all pure mechanisms."""
    for row in section.rows:
        pure = [error for m in INTRINSIC[1:] if (error := row.error[m]) is not None]
        gaussian = row.error["wrapped-gaussian"]
        if row.epsilon == epsilon and gaussian is not None and gaussian < min(pure):
            return row.label
    return "never"


def same_query_on_the_sphere(sphere: Section) -> str:
    """The comparison that Reimherr2021 made: ambient noise on the *intrinsic* mean, not projected,
    error as a chord. Both by formula, with the certified sensitivity of that query (a chord is at
    most the arc, for both errors too).
    """
    manifold = R.Sphere(3)
    arc = R.statistics.frechet_mean_sensitivity(
        manifold, R.Ball(manifold.origin, sphere.radius), sphere.n
    )
    pairs = [
        (error, math.sqrt((r.dim + 1) * (r.dim + 2)) * arc / r.epsilon)
        for r in sphere.rows
        if (error := r.error["riemannian-laplace"]) is not None
    ]
    first = f"S^2 at epsilon 1: {pairs[2][0]:.3g} against {pairs[2][1]:.3g}"
    return f"{counted([x < y for x, y in pairs])}, by formula; {first}"


CLAIMS = (
    "Reimherr2021: the intrinsic Laplace mechanism has a smaller error than ambient Laplace noise"
    " (SPD, affine-invariant)",
    "Reimherr2021: so it has on the sphere (ambient noise on the intrinsic mean, not projected)",
    "the same, against ambient noise on the *arithmetic* mean, projected: a better baseline that"
    " the paper did not try",
    "the same on hyperbolic and Bures-Wasserstein spaces (not in the papers)",
    "Utpala2023LE: the tangent Gaussian has a smaller error than ambient Gaussian noise (SPD,"
    " log-Euclidean)",
    "the same on the other spaces, wrapped at a public point (not in the papers)",
    "Utpala2023LE: at delta > 0 the tangent Gaussian beats the Laplace mechanism as k grows",
    "the tangent mean against ambient Gaussian noise (not in the papers)",
    "the tangent mean against ambient Laplace noise, delta = 0 (not in the papers)",
    "Han2024, Remark 4: the K-norm gradient mechanism and the Riemannian Laplace mechanism",
)


def against(a: str, b: str, *sections: Section) -> str:
    """In how many rows of each section a has the smaller error."""
    return "; ".join(f"{s.name}: {s.wins(a, b)}" for s in sections)


def answers(
    le: Section, ai: Section, bures: Section, sphere: Section, hyperbolic: Section
) -> list[str]:
    """What the rows say of each claim."""
    laplace = "riemannian-laplace", "extrinsic-laplace"
    gauss = "wrapped-gaussian", "extrinsic-gaussian"
    cross = "; ".join(
        f"{s.name}: " + ", ".join(f"epsilon {e:g} from {crossing(s, e)}" for e in EPSILONS)
        for s in (le, ai)
    )
    ratio = [
        r.error["k-norm-gradient"] / r.error["riemannian-laplace"]
        for s in (le, ai, hyperbolic)
        for r in s.rows
        if r.error["k-norm-gradient"] is not None
        and r.error["riemannian-laplace"] is not None
        and r.error["k-norm-gradient"] < s.radius
    ]
    every = le, ai, bures, sphere, hyperbolic
    return [
        against(*laplace, ai),
        same_query_on_the_sphere(sphere),
        against(*laplace, sphere),
        against(*laplace, hyperbolic, bures),
        against(*gauss, le),
        against(*gauss, *every[1:]),
        f"first size at which it does: {cross}",
        against(TANGENT[0], "extrinsic-gaussian", *every),
        against(TANGENT[1], "extrinsic-laplace", *every),
        f"its error is {min(ratio):.2f} to {max(ratio):.2f} times as large, wherever it is below"
        " the radius",
    ]


COUNTED = """## What the papers said, counted in these tables

Counted: rows in which one of the two is clearly better than the centre of the ball (error below
0.9 of the radius), a baseline with the better of its two figures.

"""


def main() -> None:
    repeats, dims = options(__doc__, runs=20).runs, (2, 5, 10, 50)
    log_euclidean = {f"k = {k}": R.SPDLogEuclidean(k) for k in SIZES}
    affine = {f"k = {k}": R.SPDAffineInvariant(k) for k in SIZES}
    bures = {f"k = {k}": R.SPDBuresWasserstein(k) for k in (2, 3, 5)}
    sections = [
        measure("SPD(k), log-Euclidean", log_euclidean, 1.0, 1000, repeats),
        measure("SPD(k), affine-invariant", affine, 1.0, 1000, repeats),
        measure("SPD(k), Bures-Wasserstein", bures, 0.3, 1000, repeats),
        measure("Spheres", {f"S^{d}": R.Sphere(d + 1) for d in dims}, math.pi / 8, 100, repeats),
        measure(
            "Hyperbolic spaces", {f"H^{d}": R.Lorentz(d + 1) for d in dims}, 1.0, 1000, repeats
        ),
    ]
    said = table("claim | what the rows say", zip(CLAIMS, answers(*sections), strict=True))
    text = "\n".join([*map(shown, sections), COUNTED + said])
    write_between(DOCS / "evidence" / "mechanism-comparison.md", "mechanisms", text)


if __name__ == "__main__":
    main()
