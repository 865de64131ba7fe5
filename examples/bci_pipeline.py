"""A whole BCI pipeline under one budget: covariances of epochs, each subject re-centred by its
private mean, then a private classifier in the tangent space.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(3)
SUBJECTS, CHANNELS = ("A", "B", "C", "D"), 4
gains = {s: np.exp(1.2 * rng.normal(size=CHANNELS)) for s in SUBJECTS}  # electrodes, amplifiers


def trials(n):
    """n covariance matrices of epochs in volts a subject, their classes and subjects."""
    y = np.tile(np.arange(n) % 2, len(SUBJECTS))  # imagined left or right hand
    subject = np.repeat(SUBJECTS, n)
    power = np.where(y[:, None] == 0, (1.12, 1.0, 1.0, 0.9), (0.9, 1.0, 1.0, 1.12))
    scale = 1e-5 * power * np.stack([gains[s] for s in subject])
    epochs = scale[:, :, None] * rng.normal(size=(len(y), CHANNELS, 40))
    return epochs @ epochs.transpose(0, 2, 1) / 40, y, subject


X, y, subject = trials(400)
new, truth, whose = trials(200)


def pipeline(epsilon, centred, seed):
    """Fit on X within Budget(epsilon, 1e-6); the re-centred X and accuracy on new trials."""
    budget = riemdp.Budget(epsilon, 1e-6)
    with riemdp.Ledger(budget) as ledger:
        if centred:
            one, two = riemdp.privacy.split_budget(budget, [0.4, 0.6])
            center = riemdp.PrivateTLCenter(budget=one, random_state=seed)
            ready = center.fit_transform(X, domains=subject)  # four means cost `one` once
            test = np.empty_like(new)
            for s in SUBJECTS:  # a new trial is re-centred by its subject's released mean
                test[whose == s] = center.set_params(target_domain=s).transform(new[whose == s])
        else:
            two, ready, test = budget, X, new
        model = riemdp.PrivateTSClassifier(budget=two, random_state=seed).fit(ready, y)
    return ready, model.score(test, truth), ledger.spent.epsilon(1e-6)


epsilons = [1.0, 2.0, 4.0, 8.0]
figure, (before, after, right) = plt.subplots(1, 3, figsize=(11.5, 3.7), constrained_layout=True)
ready, _, _ = pipeline(4.0, True, 0)
for axes, data, title in (
    (before, 1e10 * X, "as recorded"),
    (after, ready, "re-centred, epsilon 4"),
):
    for s, marker in zip(SUBJECTS, "os^D", strict=True):
        for label, colour in ((0, "#0b5c8a"), (1, "#d95f02")):
            own = (subject == s) & (y == label)
            some = data[own][:60]
            axes.loglog(some[:, 0, 0], some[:, 3, 3], marker, color=colour, ms=3, alpha=0.6)
    axes.set_xlabel("power of channel 1")
    axes.set_ylabel("power of channel 4")
    axes.set_title(title)
before.plot([], [], "s", color="#0b5c8a", label="left hand")
before.plot([], [], "s", color="#d95f02", label="right hand")
before.legend(loc="upper right", fontsize=8)
for centred, colour, name in (
    (True, "#0b5c8a", "re-centred, then classified"),
    (False, "#999999", "classified as recorded"),
):
    runs = [[pipeline(e, centred, seed)[1:] for seed in range(4)] for e in epsilons]
    scores = np.array([[score for score, _ in row] for row in runs])
    spent = [max(cost for _, cost in row) for row in runs]
    right.semilogx(epsilons, np.median(scores, axis=1), "o-", color=colour, label=name)
    right.fill_between(epsilons, scores.min(axis=1), scores.max(axis=1), color=colour, alpha=0.2)
    print(name, [round(float(s), 3) for s in np.median(scores, axis=1)])
    print("  spent:", [round(float(s), 3) for s in spent])
right.set_ylim(0.5, 1.0)
right.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
right.minorticks_off()
right.set_xlabel("epsilon of the pipeline, delta 1e-6")
right.set_ylabel("accuracy on new trials")
right.set_title("4 subjects, 400 trials each")
right.legend(loc="lower right", fontsize=8)
figure.savefig(OUT / "bci_pipeline.png", dpi=90)
