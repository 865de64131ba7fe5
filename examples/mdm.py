"""Classify covariance matrices by their distance to private class means, with public and with
private labels.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(7)


def people(n, scale):
    a = np.asarray(scale)[:, None] * rng.normal(size=(n, 3, 15))
    return a @ a.transpose(0, 2, 1) / 15


X = np.concatenate([people(400, (1.3, 1.0, 0.8)), people(400, (0.8, 1.0, 1.3))])
test = np.concatenate([people(500, (1.3, 1.0, 0.8)), people(500, (0.8, 1.0, 1.3))])
y, truth = np.repeat([0, 1], 400), np.repeat([0, 1], 500)
ball = riemdp.Ball(np.eye(3), radius=2.0)

epsilons = [0.1, 0.3, 1.0, 3.0]
plt.figure(figsize=(5.2, 3.8))
for labels, colour in (("public", "#0b5c8a"), ("private", "#d95f02")):
    extra = {} if labels == "public" else {"classes": [0, 1]}
    scores = []
    for epsilon in epsilons:
        common = {
            "metric": "logeuclid",
            "budget": riemdp.Budget(epsilon, 1e-5),
            "ball": ball,
            "labels": labels,
            **extra,
        }
        fits = [riemdp.PrivateMDM(random_state=s, **common) for s in range(10)]
        scores.append(np.median([f.fit(X, y).score(test, truth) for f in fits]))
    print(labels, "labels:", [round(float(s), 3) for s in scores])
    plt.semilogx(epsilons, scores, "o-", color=colour, label=f"{labels} labels")
exact = riemdp.PrivateMDM(
    metric="logeuclid", budget=riemdp.Budget(1e6, 1e-5), ball=ball, random_state=0
).fit(X, y)
plt.axhline(exact.score(test, truth), color="k", ls="--", lw=1, label="almost no noise")
plt.ylim(0.5, 1.0)
plt.xlabel("epsilon (delta = 1e-5)")
plt.ylabel("accuracy on new people")
plt.legend()
plt.title("Minimum distance to mean, 800 people")
plt.savefig(OUT / "mdm.png", dpi=90, bbox_inches="tight")
