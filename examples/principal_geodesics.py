"""The directions in which points of the hyperbolic disk scatter about their mean: principal
geodesics, released with differential privacy.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
disk = riemdp.PoincareBall(2)
rng = np.random.default_rng(0)

start = np.array([0.35, 0.2])  # scatter by 0.7 along one geodesic through it, 0.15 across
turn = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
v = (rng.normal(size=(3000, 2)) * [0.7, 0.15]) @ turn.T
X = disk.exp(start, disk.from_coordinates(start, v))

with riemdp.Ledger(riemdp.Budget(1.5, 1e-5)) as ledger:
    pga = riemdp.PrivatePGA(manifold=disk, budget=riemdp.Budget(1.5, 1e-6), random_state=0).fit(X)
    print(f"spent: {ledger.spent}")
deviations = np.sqrt(np.maximum(pga.explained_variance_, 0.0))
print(f"private standard deviations: {deviations.round(3)}")
print("not private, by the distribution the points were drawn from: [0.7 0.15]")

figure, axes = plt.subplots(figsize=(5.0, 5.2))
axes.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.4"))
axes.plot(*np.asarray(X).T, ".", ms=1.5, alpha=0.3, color="0.5", label="records")
for k, (name, color) in enumerate((("first", "#d95f02"), ("second", "#0b5c8a"))):
    t = np.linspace(-2.5, 2.5, 100)[:, None] * deviations[k]
    tangent = disk.from_coordinates(pga.mean_, t * pga.components_[k])
    curve = np.asarray(disk.exp(pga.mean_, tangent))
    axes.plot(*curve.T, color=color, lw=2, label=f"{name} principal geodesic, private")
axes.plot(*pga.mean_, "ko", ms=5, label="private mean")
axes.set_title("Principal geodesics of 3000 points, epsilon 1.5", fontsize=10)
axes.set_aspect("equal")
axes.set_axis_off()
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), fontsize=8, ncol=2)
figure.savefig(OUT / "principal_geodesics.png", dpi=90, bbox_inches="tight")
