"""Two regions about one private mean on the hyperbolic disk: of the records in the ball, and of the
population that they were drawn from.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
disk, ball = riemdp.PoincareBall(2), riemdp.Ball(np.zeros(2), 1.4)
rng = np.random.default_rng(0)
start = np.array([0.25, 0.1])  # a distribution that is symmetric about this point
n = 4000
turn = np.array([[0.8, -0.6], [0.6, 0.8]])
X = disk.exp(start, disk.from_coordinates(start, rng.normal(size=(n, 2)) * [0.6, 0.25] @ turn.T))

budgets = riemdp.privacy.split_budget(riemdp.Budget(1.0, 1e-6), [0.8, 0.2])
with riemdp.Ledger(riemdp.Budget(1.0, 1e-6)) as ledger:
    mean = riemdp.private_frechet_mean(
        disk, X, ball, budgets[0], mechanism="wrapped-gaussian", count_outside=False, rng=0
    )
    spread = riemdp.private_frechet_variance(disk, X, ball, budgets[1], rng=2)
    print(f"spent: {ledger.spent}")
regions = {
    "mean of the records, clamped": mean.confidence_region(0.95),
    "population": mean.confidence_region(0.95, "population", dispersion=spread),
}
for region in regions.values():
    print(region)

turns = np.linspace(0.0, 2.0 * np.pi, 100)
around = ball.radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)
circle = disk.from_coordinates(np.zeros(2), around)
figure, (whole, near) = plt.subplots(1, 2, figsize=(10.0, 5.6))
whole.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.4"))
for axes in (whole, near):
    axes.plot(*np.asarray(X).T, ".", ms=1.5, alpha=0.25, color="0.5")
    axes.plot(*np.asarray(disk.exp(np.zeros(2), circle)).T, ":", color="0.4", label="public ball")
    colors = ("#0b5c8a", "#762a83")
    for (name, region), color in zip(regions.items(), colors, strict=True):
        axes.plot(*np.asarray(region.boundary()).T, color=color, lw=1.8, label=name)
    axes.plot(*start, "k+", ms=9, label="where the distribution is centred")
    axes.set_aspect("equal")
widest = np.asarray(regions["population"].boundary())
(low, high), middle = (widest.min(axis=0), widest.max(axis=0)), widest.mean(axis=0)
reach = 0.6 * float(np.max(high - low))
near.set_xlim(middle[0] - reach, middle[0] + reach)
near.set_ylim(middle[1] - reach, middle[1] + reach)
near.set_title("near the mean", fontsize=10)
whole.set_title(f"{n} records, 95 % regions, epsilon 1 for all of them together", fontsize=10)
whole.set_axis_off()
handles, names = near.get_legend_handles_labels()
figure.legend(handles, names, loc="lower center", ncol=3, fontsize=8)
figure.tight_layout(rect=(0, 0.1, 1, 1))
figure.savefig(OUT / "confidence_region.png", dpi=90, bbox_inches="tight")
