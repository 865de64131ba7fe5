"""A private mean in the Poincare disk, where hierarchies live."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(3)
space = riemdp.PoincareBall(2)

X = np.array([0.45, 0.2]) + 0.18 * rng.normal(size=(400, 2))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 0.95)
ball = riemdp.Ball(space.origin, radius=2.5)

plt.figure(figsize=(5, 5))
plt.gca().add_patch(plt.Circle((0, 0), 1, fill=False, color="k"))
plt.gca().add_patch(plt.Circle((0, 0), np.tanh(1.25), fill=False, color="0.5", ls="--"))
plt.plot(*X.T, ".", color="0.8", ms=3)
for epsilon, colour in ((0.2, "#d95f02"), (1.0, "#0b5c8a")):
    draws = [
        riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(epsilon), rng=seed)
        for seed in range(25)
    ]
    plt.plot(
        *np.array([r.value for r in draws]).T,
        "o",
        color=colour,
        ms=4,
        alpha=0.7,
        label=f"epsilon {epsilon}",
    )
    print(
        f"epsilon {epsilon}: {draws[0].mechanism}, error from noise {draws[0].expected_error:.3f}"
    )
plt.plot(
    *riemdp.frechet_mean(space, ball.clamp(space, X)).value,
    "k+",
    ms=12,
    label="without noise (not private)",
)
plt.legend(fontsize=8, loc="lower left")
plt.axis("equal")
plt.axis("off")
plt.title("25 possible releases each; dashed: the public ball")
plt.savefig(OUT / "poincare_mean.png", dpi=90, bbox_inches="tight")
