"""Several releases about the same people from one budget, until the ledger refuses."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(6)
space, ball = riemdp.Euclidean(3), riemdp.Ball(np.zeros(3), 3.0)
X = rng.normal(size=(500, 3))

one = riemdp.Budget(0.4, 1e-6)
spent, added = [], []
with riemdp.Ledger(riemdp.Budget(epsilon=2.0, delta=1e-5)) as ledger:
    try:
        while True:
            riemdp.private_frechet_mean(
                space, X, ball, one, mechanism="wrapped-gaussian", rng=len(spent)
            )
            spent.append(ledger.spent.epsilon(1e-5))
            added.append(0.4 * len(spent))
    except riemdp.BudgetExceeded as refusal:
        print("refused:", refusal)

releases = np.arange(1, len(spent) + 1)
print(f"{len(spent)} releases of epsilon 0.4 cost {spent[-1]:.3f} together, not {added[-1]:.1f}")
plt.figure(figsize=(5.2, 3.8))
plt.plot(releases, added, ":", color="0.5", label="adding the epsilons")
plt.step(releases, spent, where="mid", color="#0b5c8a", label="exact composition (delta 1e-5)")
plt.axhline(2.0, color="#a3161a", label="the budget")
plt.xlabel("releases")
plt.ylabel("epsilon spent")
plt.legend()
plt.savefig(OUT / "ledger.png", dpi=90, bbox_inches="tight")
