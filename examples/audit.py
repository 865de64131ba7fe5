"""Try to refute a guarantee: the best attack against a mechanism on a worst-case pair, compared
with the bound.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
space = riemdp.SPDLogEuclidean(2)
mechanism = riemdp.WrappedGaussian(
    space, space.origin, sensitivity=0.2, budget=riemdp.Budget(2.0, 1e-5)
)

# two values as far apart as one record can move the mean, and the projection on their difference as
# the attack
here, there = np.eye(2), np.asarray(space.exp(space.origin, 0.2 * np.diag([1.0, 0.0])))
scores = []
for value in (here, there):
    drawn = [np.asarray(mechanism.release(value, seed).value) for seed in range(3000)]
    scores.append(np.array([np.asarray(space.log(space.origin, x))[0, 0] for x in np.array(drawn)]))

thresholds = np.quantile(np.concatenate(scores), np.linspace(0, 1, 200))
false_alarms = [(scores[0] > t).mean() for t in thresholds]
missed = [(scores[1] <= t).mean() for t in thresholds]

bound = riemdp.privacy.gaussian(mechanism.noise_multiplier).trade_off()
found = max(0.5 + 0.5 * (1 - m - f) for m, f in zip(missed, false_alarms, strict=True))
print(f"best guess found by the attack {found:.3f}; no attack can exceed {bound.best_guess:.3f}")
alarms, least = map(np.asarray, bound.curve())
slope = np.gradient(least, alarms)  # a sampling error of the false alarms moves along the curve
error = 1.96 * np.sqrt((least * (1 - least) + slope**2 * alarms * (1 - alarms)) / 3000)
plt.figure(figsize=(4.8, 4.4))
plt.fill_between(
    alarms, least - error, least + error, color="#0b5c8a", alpha=0.2, label="95 % sampling error"
)
plt.plot(alarms, least, color="#0b5c8a", lw=2, label="bound of the guarantee")
plt.plot(false_alarms, missed, color="#d95f02", lw=1, label="attack, 3000 releases each")
plt.plot([0, 1], [1, 0], "k--", lw=0.8, label="blind guess")
plt.xlabel("false alarm rate")
plt.ylabel("missed detection rate")
plt.ylim(-0.03, 1.03)
plt.legend()
plt.title("The best attack is consistent with the bound", fontsize=10)
plt.savefig(OUT / "audit.png", dpi=90, bbox_inches="tight")
