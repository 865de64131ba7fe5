"""Two groups of people with several records each: a test whether their means differ, which releases
both means.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
BUDGET = riemdp.Budget(1.0, 1e-5)
disk, ball = riemdp.PoincareBall(2), riemdp.Ball(np.zeros(2), 2.5)
rng = np.random.default_rng(0)


def group(middle, people=250):
    """Points of the disk: people scatter about the middle of their group, records about people."""
    sizes = rng.integers(1, 30, people)  # how many records a person has
    of_person = rng.normal(middle, 0.16, (people, 2))
    return np.repeat(of_person, sizes, axis=0) + rng.normal(0, 0.1, (sizes.sum(), 2)), sizes


groups = {"A": group([0.3, 0.1]), "B": group([-0.05, 0.25]), "C": group([0.3, 0.1])}
found = {}
for seed, (one, other) in enumerate(["AB", "AC"]):
    records = np.concatenate([groups[name][0] for name in (one, other)])
    sizes = np.concatenate([groups[name][1] for name in (one, other)])
    person = np.repeat(np.arange(len(sizes)), sizes)
    sample = np.where(person < 250, one, other)
    found[f"{one} and {other}"] = riemdp.private_comparison(
        disk, records, ball, BUDGET, samples=sample, groups=person, rng=seed
    )
for pair, comparison in found.items():
    print(f"{pair}: {comparison}")

figure, axes = plt.subplots(1, 2, figsize=(9.4, 5.0))
for panel, (pair, comparison) in zip(axes, found.items(), strict=True):
    panel.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.4"))
    for name, mean, color in zip(
        pair.split(" and "), comparison.release.value, ("#0b5c8a", "#d95f02"), strict=True
    ):
        panel.plot(*groups[name][0].T, ".", ms=1, alpha=0.2, color=color)
        panel.plot(
            *mean,
            "o",
            ms=8,
            mec="white",
            color=color,
            zorder=3,
            label=f"group {name}: private mean",
        )
    low, high = comparison.interval
    panel.set_title(
        f"{pair}: p = {comparison.p_value:.2g}\n"
        f"distance of the means {low:.2f} to {high:.2f} (95 %)",
        fontsize=10,
    )
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), fontsize=8)
figure.savefig(OUT / "two_groups.png", dpi=90, bbox_inches="tight")
