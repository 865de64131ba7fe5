"""A private mean of positions with a heading: a product of a plane and a circle of directions."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(9)

place = np.array([0.2, 0.1]) + 0.15 * rng.normal(size=(400, 2))
angle = 0.3 + 0.2 * rng.normal(size=400)
heading = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)

space = riemdp.Product(riemdp.Euclidean(2), riemdp.Sphere(3))
ball = riemdp.Ball((np.zeros(2), np.array([1.0, 0.0, 0.0])), radius=0.55)

plt.figure(figsize=(5.2, 4.2))
plt.quiver(*place.T, heading[:, 0], heading[:, 1], color="0.85", width=0.003, scale=18)
for seed in range(12):
    budget = riemdp.Budget(1.0, 1e-5)
    r = riemdp.private_frechet_mean(
        space, (place, heading), ball, budget, mechanism="wrapped-gaussian", rng=seed
    )
    where, way = r.value
    plt.quiver(*where, way[0], way[1], color="#0b5c8a", width=0.006, scale=9, alpha=0.7)
print(r)
plt.axis("equal")
plt.title("Grey: 400 records; blue: 12 possible releases, epsilon 1")
plt.savefig(OUT / "product_mean.png", dpi=90, bbox_inches="tight")
