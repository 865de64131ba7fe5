"""A private mean direction on the sphere."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(2)

north = np.array([0.0, 0.0, 1.0])
X = np.array([0.15, 0.1, 1.0]) + 0.2 * rng.normal(size=(300, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)

space = riemdp.Sphere(3)
ball = riemdp.Ball(north, radius=0.55)  # on a sphere: below pi / 4
draws = [
    np.asarray(riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(1.0), rng=seed).value)
    for seed in range(30)
]
release = riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(1.0), rng=0)
print(release.mechanism, "error from noise", round(release.expected_error, 4))

plt.figure(figsize=(5, 4.8))
t = np.linspace(0, 2 * np.pi, 300)
plt.plot(
    np.sin(0.55) * np.cos(t), np.sin(0.55) * np.sin(t), color="0.5", lw=1, label="the public ball"
)
plt.plot(X[:, 0], X[:, 1], ".", color="0.8", ms=4, label="300 records")
plt.plot(
    *np.array(draws)[:, :2].T,
    "o",
    color="#0b5c8a",
    ms=4,
    alpha=0.7,
    label="30 possible releases, epsilon 1",
)
truth = riemdp.frechet_mean(space, ball.clamp(space, X)).value
plt.plot(*np.asarray(truth)[:2], "k+", ms=12, label="without noise (not private)")
plt.axis("equal")
plt.legend(fontsize=8)
plt.title("A private mean direction, seen from above the pole")
plt.savefig(OUT / "sphere_mean.png", dpi=90, bbox_inches="tight")
