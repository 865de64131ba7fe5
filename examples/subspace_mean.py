"""A private mean of planes (one plane a person) on a Grassmann manifold, against the number of
people.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(4)
space = riemdp.Grassmann(5, 2)
base = np.eye(5, 2)
ball = riemdp.Ball(base, radius=0.5)

sizes, errors, expected = [250, 500, 1000, 2000, 4000], [], []
everybody = np.linalg.qr(base + 0.08 * rng.normal(size=(4000, 5, 2)))[0]
for n in sizes:
    X = everybody[:n]
    release = riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(1.0, 1e-5), rng=1)
    truth = riemdp.frechet_mean(space, ball.clamp(space, X)).value
    errors.append(float(space.dist(truth, release.value)))
    expected.append(release.expected_error)
    print(
        f"n = {n}: {release.mechanism}, expected {expected[-1]:.4f}, measured (not private)"
        f" {errors[-1]:.4f}"
    )

plt.figure(figsize=(5.2, 3.8))
plt.loglog(sizes, expected, "-", color="#0b5c8a", label="error from noise, epsilon 1")
plt.loglog(sizes, errors, "o", color="#d95f02", label="one release (not private to know)")
plt.xticks(sizes, [str(n) for n in sizes])
plt.minorticks_off()
plt.xlabel("people")
plt.ylabel("distance of subspaces")
plt.legend()
plt.title("Ten times the people, a tenth of the error")
plt.savefig(OUT / "subspace_mean.png", dpi=90, bbox_inches="tight")
