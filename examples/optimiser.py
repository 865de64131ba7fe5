"""Your own loss, optimised privately on the sphere: the direction of largest variance, step by
step.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(8)
X = rng.normal(size=(3000, 10)) * np.array([2.0, *[0.7] * 9])
X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True) / 3)[:, :1]

problem = riemdp.problems.principal_eigenvector(10)
start = np.ones(10) / np.sqrt(10)  # public
plt.figure(figsize=(5.2, 3.8))
for epsilon, colour in ((0.5, "#d95f02"), (2.0, "#0b5c8a"), (None, "k")):
    budget = None if epsilon is None else riemdp.Budget(epsilon, 1e-5)
    angles = []
    for steps in (1, 2, 4, 8, 16, 32):
        optimizer = riemdp.DPRGD(steps=steps, learning_rate=0.15, clip_norm=9.0)
        result = riemdp.private_minimize(problem, X, start, optimizer, budget, rng=1)
        angles.append(np.degrees(np.arccos(min(1.0, abs(float(result.value[0]))))))
    print(f"epsilon {epsilon}: angle to the true direction after 32 steps {angles[-1]:.1f} degrees")
    plt.semilogx(
        [1, 2, 4, 8, 16, 32],
        angles,
        "o-",
        color=colour,
        label="no noise" if epsilon is None else f"epsilon {epsilon}",
    )
plt.xlabel("steps that share the budget")
plt.ylabel("angle to the direction of largest variance (degrees)")
plt.legend()
plt.savefig(OUT / "optimiser.png", dpi=90, bbox_inches="tight")
