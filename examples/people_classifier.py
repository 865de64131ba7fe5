"""A classifier that protects people beside one that protects single trials: accuracy on new trials,
and what each of them promises to a person with ten trials.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
DELTA, TRIALS = 1e-5, 10
rng = np.random.default_rng(4)


def trials(people):
    """Covariance matrices of 3 channels, their classes, and whose they are."""
    whose, y = np.repeat(np.arange(people), TRIALS), np.arange(people * TRIALS) % 2
    gains = np.exp(0.2 * rng.normal(size=(people, 3)))[whose]  # everybody's electrodes
    power = gains * np.where(y[:, None] == 0, (1.3, 1.0, 0.8), (0.8, 1.0, 1.3))
    epochs = power[:, :, None] * rng.normal(size=(len(y), 3, 40))
    return epochs @ epochs.transpose(0, 2, 1) / 40, y, whose


(X, y, whose), (new, truth, _) = trials(600), trials(100)
epsilons = [0.5, 1.0, 2.0, 4.0]
private = {"labels": "private", "classes": [0, 1], "metric": "logeuclid"}
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6), constrained_layout=True)
for groups, colour, name in (
    (whose, "#0b5c8a", "one person is protected"),
    (None, "#d95f02", "one trial is protected"),
):
    scores, person = [], []
    for epsilon in epsilons:
        budget = riemdp.Budget(epsilon, DELTA)
        with riemdp.Ledger(riemdp.Budget(100.0, 1e-3)):
            fits = [
                riemdp.PrivateTSClassifier(budget=budget, random_state=seed, **private).fit(
                    X, y, groups=groups
                )
                for seed in range(3)
            ]
        scores.append([fit.score(new, truth) for fit in fits])
        own = fits[0].guarantee_
        person.append((own if groups is not None else own.group(TRIALS)).epsilon(DELTA))
    print(name, np.round(np.median(scores, axis=1), 2), [f"{e:.3g}" for e in person])
    left.semilogx(epsilons, np.median(scores, axis=1), "o-", color=colour, label=name)
    left.fill_between(epsilons, *np.quantile(scores, (0, 1), axis=1), color=colour, alpha=0.2)
    right.loglog(epsilons, person, "o-", color=colour, label=name)
left.set_ylabel("accuracy on trials of new people")
left.set_ylim(0.4, 1.0)
right.set_ylabel(f"epsilon of a person with {TRIALS} trials")
for axes in (left, right):
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon that was asked for, delta 1e-5")
left.legend(loc="lower right", fontsize=8)
figure.savefig(OUT / "people_classifier.png", dpi=90, bbox_inches="tight")
