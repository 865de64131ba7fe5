"""A private mean and a private geometric median where more and more records are gross outliers."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
BUDGET = riemdp.Budget(1.0, 1e-5)
space, n = riemdp.SPDAffineInvariant(2), 2000
rng = np.random.default_rng(0)
center = np.array([[1.5, 0.4], [0.4, 0.8]])
v = rng.normal(size=(n, 3)) * 0.3
X = np.asarray(space.exp(center, space.from_coordinates(center, v)))
far = np.asarray(space.exp(center, space.from_coordinates(center, np.array([5.0, -4.0, 1.0]))))

shares, errors = (0.0, 0.1, 0.2, 0.3, 0.4), {}
for share in shares:
    records = X.copy()
    records[: int(share * n)] = far
    found = {
        "mean, not private": riemdp.frechet_mean(space, records).value,
        "private mean, ball of radius 10": riemdp.private_frechet_mean(
            space, records, riemdp.Ball(np.eye(2), 10.0), BUDGET, rng=0
        ).value,
        "private mean, ball found": riemdp.private_frechet_mean(
            space, records, budget=BUDGET, rng=0
        ).value,
        "private median": riemdp.private_geometric_median(
            space, records, budget=BUDGET, rng=0
        ).value,
    }
    for name, value in found.items():
        errors.setdefault(name, []).append((value, float(space.dist(center, value))))
for name, values in errors.items():
    print(f"{name}: " + ", ".join(f"{error:.2f}" for _, error in values))

figure, (curve, cone) = plt.subplots(1, 2, figsize=(10.0, 4.4))
looks = (
    {"color": "0.75", "lw": 6},
    {"color": "#762a83", "lw": 2.5},
    {"color": "#0b5c8a", "lw": 1.8, "ls": "--"},
    {"color": "#d95f02", "lw": 2},
)
turns = np.linspace(0.0, 2.0 * np.pi, 100)
circle = np.stack([np.cos(turns), np.sin(turns)])
right = np.linalg.cholesky(center) @ circle
cone.fill(*right, color="0.9", label="centre of the right records")
for (name, values), look in zip(errors.items(), looks, strict=True):
    curve.plot([100 * s for s in shares], [error for _, error in values], label=name, **look)
    at_thirty = np.linalg.cholesky(np.asarray(values[3][0])) @ circle
    cone.plot(*at_thirty, **look)
curve.set_xlabel("gross outliers (%)")
curve.set_ylabel("distance from the centre of the right records")
curve.set_title(f"{n} matrices, epsilon 1 each", fontsize=10)
curve.legend(fontsize=8)
cone.set_aspect("equal")
cone.set_title("as ellipses, with 30 % outliers", fontsize=10)
cone.set_ylim(-1.6, 1.6)
cone.legend(fontsize=8, loc="upper left")
figure.tight_layout()
figure.savefig(OUT / "contamination.png", dpi=90)
