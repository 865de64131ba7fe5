"""A person with very many records: a mean of records follows that person, a mean of people does
not, and its guarantee covers the whole person.
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
rng = np.random.default_rng(3)

sizes = rng.integers(1, 12, 200)  # how many records a person has
sizes[0] = 4000  # one person has more than all others together
middles = rng.normal([-0.2, -0.1], 0.12, (200, 2))
middles[0] = [0.55, 0.45]
people = np.repeat(np.arange(200), sizes)
records = middles[people] + rng.normal(0, 0.04, (len(people), 2))

of_records, of_people = (
    riemdp.private_frechet_mean(
        disk, records, ball, BUDGET, mechanism="wrapped-gaussian", groups=groups, rng=seed
    )
    for seed, groups in enumerate((None, people))
)
whole = of_records.guarantee.group(int(sizes.max()))
print(of_people.guarantee)
print(f"the person with {sizes[0]} records, in the mean of records: {whole.epsilon(1e-5):.3g}")

figure, axes = plt.subplots(figsize=(5.2, 5.2))
axes.add_patch(plt.Circle((0, 0), 1.0, fill=False, color="0.4"))
axes.scatter(*middles.T, s=2.0 + 0.1 * sizes, color="0.6", label="people, by number of records")
for mean, color, name in (
    (of_records, "#d95f02", "mean of records: epsilon 1 for one record"),
    (of_people, "#0b5c8a", "mean of people: epsilon 1 for one person"),
):
    region = mean.confidence_region(0.95)
    axes.plot(*np.asarray(region.boundary()).T, color=color, lw=1.5)
    axes.plot(*mean.value, "o", ms=5, color=color, label=name)
axes.set_title("200 people; one of them has 4000 records", fontsize=10)
axes.set_aspect("equal")
axes.set_axis_off()
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), fontsize=8)
figure.savefig(OUT / "people_mean.png", dpi=90, bbox_inches="tight")
