"""Private principal components: how much of the variance they keep, against epsilon."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import riemdp

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X = load_digits().data / 16.0 - 0.3  # 1797 real images, public scale and public offset
BOUND, K = 4.0, 3  # public bound on the length of a row

clipped = X * np.minimum(1, BOUND / np.linalg.norm(X, axis=1, keepdims=True))
second = clipped.T @ clipped / len(X)
best = np.linalg.eigvalsh(second)[-K:].sum()

epsilons, kept = [0.3, 1.0, 3.0, 10.0], []
for epsilon in epsilons:
    values = []
    for seed in range(10):
        pca = riemdp.PrivatePCA(
            n_components=K, budget=riemdp.Budget(epsilon, 1e-5), row_norm=BOUND, random_state=seed
        ).fit(X)
        values.append(np.trace(pca.components_ @ second @ pca.components_.T) / best)
    kept.append(np.median(values))
    print(
        f"epsilon {epsilon:4}: {kept[-1]:.1%} of the variance that the exact components keep (not"
        " private to know)"
    )

plt.figure(figsize=(5.2, 3.8))
plt.semilogx(epsilons, kept, "o-", color="#0b5c8a")
plt.ylim(0, 1.02)
plt.xlabel("epsilon (delta = 1e-5)")
plt.ylabel("variance kept, of the best possible")
plt.title("3 private components of 1797 images with 64 pixels")
plt.savefig(OUT / "private_pca.png", dpi=90, bbox_inches="tight")
