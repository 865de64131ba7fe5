"""Write docs/evidence/mechanism-comparison.md: errors of all mean mechanisms at equal privacy.
Run from the repository root.

Intrinsic mechanisms: the formulas of `riemdp.plan_private_mean`. Extrinsic baselines have none:
they are simulated on a synthetic data set from a fixed seed, and the figure is the root mean
squared Riemannian distance to the intrinsic mean.
"""

from __future__ import annotations

import argparse
import math
import textwrap
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np
from tests.seam import Means

import riemdp as R
from riemdp.mechanisms import BASELINES, TangentMeanNoise

INTRINSIC = ("wrapped-gaussian", "wrapped-laplace", "riemannian-laplace", "k-norm-gradient")
EXTRINSIC = ("extrinsic-gaussian", "extrinsic-laplace")
TANGENT = ("tangent-mean, Gaussian", "tangent-mean, Laplace")
EPSILONS = (0.1, 0.3, 1.0)
DELTA = 1e-6
LARGEST_SIMULATED = 465  # dimension up to which the extrinsic baselines are simulated
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


def measure(name: str, spaces, radius: float, n: int, repeats: int, largest: int) -> Section:
    section = Section(name, radius, n)
    for label, manifold in spaces:
        ball = R.Ball(manifold.origin, radius)
        data = Data(manifold, ball, n) if manifold.dim <= largest else None
        if data is not None:
            section.bias[label] = data.bias()
        for epsilon in EPSILONS:
            budget = R.Budget(epsilon, DELTA)
            plan = R.plan_private_mean(manifold, ball, n, budget, count_outside=False)
            row = Row(
                label,
                manifold.dim,
                epsilon,
                {r.mechanism: r.expected_error for r in plan},
                auto=plan.best().mechanism,
            )
            if data is not None:
                for mechanism in EXTRINSIC:
                    row.error[mechanism], row.clamped[mechanism] = data.simulate(
                        mechanism, budget, repeats
                    )
                for kind, spent in zip(TANGENT, (budget, R.Budget(epsilon)), strict=True):
                    row.error[kind] = data.tangent_mean(spent, repeats)
            section.rows.append(row)
            print(name, line(row, radius), flush=True)
    return section


def cell(error: float | None, radius: float) -> str:
    return "-" if error is None else f"{error:.3g}" + (" *" if error >= radius else "")


def line(row: Row, radius: float) -> str:
    cells = [cell(row.error[m], radius) for m in INTRINSIC]
    for m in EXTRINSIC:
        both = row.error.get(m), row.clamped.get(m)
        cells.append(
            "-" if both[0] is None else f"{cell(both[0], radius)} / {cell(both[1], radius)}"
        )
    cells += [cell(row.error.get(m), radius) for m in TANGENT]
    return (
        f"| {row.label} | {row.dim} | {row.epsilon:g} | " + " | ".join(cells) + f" | {row.auto} |"
    )


def table(section: Section) -> list[str]:
    heads = [
        "size",
        "dim",
        "epsilon",
        *INTRINSIC,
        *(f"{e}, as released / in the ball" for e in EXTRINSIC),
        *TANGENT,
        "auto",
    ]
    facts = (
        f"n = {section.n}, radius {section.radius:g} (diameter {2 * section.radius:g}), delta ="
        f" {DELTA:g} where one is used. Distance between the ambient and the intrinsic mean: "
        + ", ".join(f"{k} {v:.3g}" for k, v in section.bias.items())
        + "."
    )
    return [
        f"## {section.name}",
        "",
        *textwrap.wrap(facts, 98),
        "",
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *(line(row, section.radius) for row in section.rows),
        "",
    ]


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


def claims(
    le: Section, ai: Section, bures: Section, sphere: Section, hyperbolic: Section
) -> list[str]:
    def against(a: str, b: str, *sections: Section) -> str:
        return "; ".join(f"{s.name}: {s.wins(a, b)}" for s in sections)

    gauss, laplace = (
        ("wrapped-gaussian", "extrinsic-gaussian"),
        ("riemannian-laplace", "extrinsic-laplace"),
    )
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
    rows = [
        (
            (
                "Reimherr2021: the intrinsic Laplace mechanism has a smaller error than ambient"
                " Laplace noise (SPD, affine-invariant)"
            ),
            against(*laplace, ai),
        ),
        (
            (
                "Reimherr2021: so it has on the sphere (ambient noise on the intrinsic mean, not"
                " projected)"
            ),
            same_query_on_the_sphere(sphere),
        ),
        (
            (
                "the same, against ambient noise on the *arithmetic* mean, projected: a better"
                " baseline that the paper did not try"
            ),
            against(*laplace, sphere),
        ),
        (
            "the same on hyperbolic and Bures-Wasserstein spaces (not in the papers)",
            against(*laplace, hyperbolic, bures),
        ),
        (
            (
                "Utpala2023LE: the tangent Gaussian has a smaller error than ambient Gaussian noise"
                " (SPD, log-Euclidean)"
            ),
            against(*gauss, le),
        ),
        (
            "the same on the other spaces, wrapped at a public point (not in the papers)",
            against(*gauss, ai, bures, sphere, hyperbolic),
        ),
        (
            (
                "Utpala2023LE: at delta > 0 the tangent Gaussian beats the Laplace mechanism as k"
                " grows"
            ),
            f"first size at which it does: {cross}",
        ),
        (
            "the tangent mean against ambient Gaussian noise (not in the papers)",
            against(TANGENT[0], "extrinsic-gaussian", le, ai, bures, sphere, hyperbolic),
        ),
        (
            "the tangent mean against ambient Laplace noise, delta = 0 (not in the papers)",
            against(TANGENT[1], "extrinsic-laplace", le, ai, bures, sphere, hyperbolic),
        ),
        (
            (
                "Han2024, Remark 4: the K-norm gradient mechanism and the Riemannian Laplace"
                " mechanism"
            ),
            (
                f"its error is {min(ratio):.2f} to {max(ratio):.2f} times as large, wherever it is"
                " below the radius"
            ),
        ),
    ]
    return [
        "## What the papers said, counted in these tables",
        "",
        (
            "Counted: rows in which one of the two is clearly better than the centre of the ball"
            " (error below"
        ),
        "0.9 of the radius), a baseline with the better of its two figures.",
        "",
        "| claim | what the rows say |",
        "|---|---|",
        *(f"| {claim} | {said} |" for claim, said in rows),
        "",
    ]


INTRODUCTION = """# Mechanisms for a private mean, at equal certified privacy

Root mean squared Riemannian distance between the release and the mean. Written by
`tools/mechanism_table.py`. Gaussian mechanisms are (epsilon, delta)-private, the others (epsilon,
0); sensitivities as in the documentation. Formulas for intrinsic mechanisms (exact on flat
spaces, upper bounds or estimates on curved ones, see `riemdp.plan_private_mean`); extrinsic
baselines are simulated ({repeats} releases a figure), first as the papers release them (noise,
then projection), then moved into the public ball. The [tangent mean](means.md#tangent-mean) is
simulated too; it is another mean on curved spaces, and what separates the two is in its figures.
A dash: no such distribution, or no sampler that ends. A star: at least the radius, so that
publishing the centre of the ball, which costs nothing, would do as well.

By default a release of wrapped noise is moved into the public ball. If the noise is as large as
the ball, its formula says no more than that the error is at most the diameter; in truth it is then
near the radius, as that of the baselines in the ball.

On flat spaces of dimension 3 and more (log-Euclidean) the wrapped Gaussian is followed by
James-Stein shrinking, the default there; its figure is for a mean half the radius away from the
centre. So is the Gaussian tangent mean, wherever curvature is not negative; the records of the
simulation have their mean near the centre, which favours it.
"""

READING = """## How to read this

- On SPD matrices much of what separates intrinsic from ambient mechanisms is not noise: the
  ambient mean is another point (the distance is given above each table, and no epsilon removes
  it), and ambient noise makes eigenvalues negative, which projection then sets to almost nothing,
  far away in either metric. Moving the release into the ball repairs the second; with the square
  of the first subtracted the order is still the same in every counted row of the first two
  tables.
- On the sphere ambient noise on the arithmetic mean comes *closer* than the intrinsic mechanisms:
  the ambient mean of a ball of radius r has sensitivity 2 sin(r)/n, the intrinsic one 2 r/(n cos
  2r), and projecting removes the normal component of the noise. On Bures-Wasserstein space the
  intrinsic constants are large for the same reason, positive curvature. The [tangent
  mean](means.md#tangent-mean) has sensitivity 2 r / n on both, and is ahead of the baselines, but
  for S^2: there the two differ by 2 % of the sensitivity, which the few releases here do not tell
  from chance ([100 releases](means.md#tangent-mean)).
- Errors of two releases that are both at the radius or above say nothing about the mechanisms: n
  is too small for that epsilon.
- The error of Gaussian noise grows with sqrt(dim), that of the Laplace distribution with dim. In
  few dimensions the Laplace mechanism is better, and needs no delta.
"""


def main() -> None:
    warnings.simplefilter("ignore", R.RiemdpWarning if hasattr(R, "RiemdpWarning") else UserWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/mechanism-comparison.md"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--largest-simulated", type=int, default=LARGEST_SIMULATED)
    given = parser.parse_args()
    options = given.repeats, given.largest_simulated
    sections = [
        measure(
            "SPD(k), log-Euclidean",
            [(f"k = {k}", R.SPDLogEuclidean(k)) for k in SIZES],
            1.0,
            1000,
            *options,
        ),
        measure(
            "SPD(k), affine-invariant",
            [(f"k = {k}", R.SPDAffineInvariant(k)) for k in SIZES],
            1.0,
            1000,
            *options,
        ),
        measure(
            "SPD(k), Bures-Wasserstein",
            [(f"k = {k}", R.SPDBuresWasserstein(k)) for k in (2, 3, 5)],
            0.3,
            1000,
            *options,
        ),
        measure(
            "Spheres",
            [(f"S^{d}", R.Sphere(d + 1)) for d in (2, 5, 10, 50)],
            math.pi / 8,
            100,
            *options,
        ),
        measure(
            "Hyperbolic spaces",
            [(f"H^{d}", R.Lorentz(d + 1)) for d in (2, 5, 10, 50)],
            1.0,
            1000,
            *options,
        ),
    ]
    lines = [*INTRODUCTION.format(repeats=given.repeats).splitlines(), ""]
    lines += [text for section in sections for text in table(section)]
    lines += claims(*sections) + READING.splitlines()
    given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
