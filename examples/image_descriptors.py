"""Real images of handwritten digits, their covariance descriptors, and a private mean in a ball
that is proved, not guessed.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
ETA = 1e-3  # public regulariser: larger means a smaller ball

images = load_digits().images / 16.0  # grey, between 0 and 1
X = np.asarray(riemdp.datasets.covariance_descriptors(images, eta=ETA))
ball = riemdp.datasets.descriptor_ball(
    1, ETA, center="middle"
)  # holds the descriptor of every grey image there is
space = riemdp.SPDLogEuclidean(9)
truth = riemdp.frechet_mean(space, X).value  # for the comparison only

epsilons = np.array([0.3, 1.0, 3.0, 10.0])
expected, measured = [], []
for epsilon in epsilons:
    release = riemdp.private_frechet_mean(space, X, ball, riemdp.Budget(epsilon, 1e-5), rng=1)
    expected.append(release.expected_error)
    measured.append(float(space.dist(truth, release.value)))
    print(
        f"epsilon {epsilon:4}: error from noise {expected[-1]:.3f}, measured (not private)"
        f" {measured[-1]:.3f}"
    )

plt.figure(figsize=(5.2, 3.8))
plt.loglog(epsilons, expected, "-", color="#0b5c8a", label="error from noise, by formula")
plt.loglog(epsilons, measured, "o", color="#d95f02", label="measured (not private)")
plt.xlabel("epsilon")
plt.ylabel("log-Euclidean distance")
plt.title(f"Mean descriptor of {len(X)} images, ball of radius {ball.radius:.1f}")
plt.legend()
plt.savefig(OUT / "image_descriptors.png", dpi=90, bbox_inches="tight")
