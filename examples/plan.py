"""What to expect before anything is spent: error against epsilon for two metrics and two numbers of
people.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
epsilons = [0.1, 0.3, 1.0, 3.0, 10.0]

plt.figure(figsize=(5.4, 4))
for n, style in ((300, "-"), (3000, "--")):
    for metric, colour in (("affine-invariant", "#0b5c8a"), ("log-euclidean", "#d95f02")):
        space = riemdp.spd(8, metric)
        ball = riemdp.Ball(space.origin, radius=3.0)
        plan = riemdp.plan_private_mean(
            space, ball, n=n, budgets=[riemdp.Budget(e, 1e-5) for e in epsilons]
        )
        best = [plan.best(b) for b in plan.budgets]
        plt.loglog(
            epsilons,
            [row.expected_error for row in best],
            style,
            color=colour,
            label=f"{metric}, n = {n}",
        )
        print(
            f"{metric}, n = {n}: "
            + ", ".join(f"{r.epsilon:g}: {r.expected_error:.3f} ({r.mechanism})" for r in best)
        )
plt.axhline(3.0, color="0.6", lw=1)
plt.text(2.0, 3.3, "radius of the ball", fontsize=8, color="0.4")
plt.xlabel("epsilon (delta = 1e-5)")
plt.ylabel("error from noise of an 8 x 8 mean")
plt.legend(fontsize=8)
plt.savefig(OUT / "plan.png", dpi=90, bbox_inches="tight")
