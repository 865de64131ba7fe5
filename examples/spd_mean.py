"""A private mean of covariance matrices for several epsilon, drawn as ellipses."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(0)

# 200 people, one 2 x 2 covariance matrix each
a = np.array([[1.4, 0.0], [0.6, 0.7]]) @ rng.normal(size=(200, 2, 25))
X = a @ a.transpose(0, 2, 1) / 25

space = riemdp.SPDAffineInvariant(2)
ball = riemdp.Ball(space.origin, radius=2.0)  # public


def ellipse(matrix, **style):
    t = np.linspace(0, 2 * np.pi, 200)
    w, v = np.linalg.eigh(np.asarray(matrix))
    plt.plot(*(v @ (np.sqrt(w)[:, None] * [np.cos(t), np.sin(t)])), **style)


plt.figure(figsize=(5.2, 4.6))
for x in X[:60]:
    ellipse(x, color="0.85", lw=0.6)
for epsilon, colour in ((0.3, "#d95f02"), (1.0, "#7570b3"), (3.0, "#1b9e77")):
    release = riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(epsilon, 1e-5), rng=1)
    ellipse(
        release.value,
        color=colour,
        lw=2,
        label=f"epsilon {epsilon}: error from noise {release.expected_error:.2f}",
    )
    print(f"epsilon {epsilon}: {release.mechanism}, error from noise {release.expected_error:.3f}")
ellipse(
    riemdp.frechet_mean(space, X).value,
    color="k",
    lw=1.2,
    ls="--",
    label="without noise (not private)",
)
plt.legend(fontsize=8, loc="upper left")
plt.axis("equal")
plt.title("Private mean of 200 covariance matrices")
plt.savefig(OUT / "spd_mean.png", dpi=130, bbox_inches="tight")
