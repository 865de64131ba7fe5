"""Two groups of people with several records each: a private mean of either, and a test whether they
differ.
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
    records = np.repeat(of_person, sizes, axis=0) + rng.normal(0, 0.1, (sizes.sum(), 2))
    return records, np.repeat(np.arange(people), sizes)


groups = [group([0.3, 0.1]), group([-0.05, 0.25]), group([0.3, 0.1])]
means = [
    riemdp.private_frechet_mean(
        disk, records, ball, BUDGET, mechanism="wrapped-gaussian", groups=labels, rng=seed
    )
    for seed, (records, labels) in enumerate(groups)
]
print(means[0].guarantee)
tests = {"A and B": (0, 1), "A and C": (0, 2)}
for pair, (i, j) in tests.items():
    print(f"{pair}: {riemdp.two_sample_test(means[i], means[j])}")

figure, axes = plt.subplots(figsize=(5.4, 5.0))
axes.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.4"))
for (records, _), mean, color, name in zip(
    groups, means, ("#0b5c8a", "#d95f02", "#4d9221"), "ABC", strict=True
):
    axes.plot(*records.T, ".", ms=1, alpha=0.25, color=color)
    region = mean.confidence_region(0.95)
    axes.plot(*np.asarray(region.boundary()).T, color=color, lw=1.5)
    axes.plot(*mean.value, "o", color=color, label=f"group {name}: private mean, 95 %")
p = [riemdp.two_sample_test(means[i], means[j]).p_value for i, j in tests.values()]
axes.set_title(
    "Three groups of 250 people, epsilon 1 for all records of a person\n"
    f"A and B: p = {p[0]:.1e}    A and C: p = {p[1]:.2f}",
    fontsize=10,
)
axes.set_aspect("equal")
axes.set_axis_off()
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), fontsize=8)
figure.savefig(OUT / "two_groups.png", dpi=90, bbox_inches="tight")
