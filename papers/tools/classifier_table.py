"""Private classifiers compared with pyRiemann's on real data: the tables of
docs/evidence/classifiers.md.
"""

# pyright: reportMissingImports=false
# pyRiemann belongs to the conformance group.
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import riemdp

from ..data import digit_covariances, erp_covariances, mnist
from ..tables import DOCS, options, table, write_between

EPSILONS = (0.3, 1.0, 3.0, 10.0)
DELTA, METRIC = 1e-5, "riemann"
COPIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
NO_NOISE = riemdp.Budget(1e5, 1e-3)

Labelled = tuple[np.ndarray, np.ndarray]


def reduced(matrices: np.ndarray, k: int) -> np.ndarray:
    """Project on the first k cosines over the channels: a public map, the same for every record."""
    size = matrices.shape[1]
    if k == size:
        return matrices
    basis = np.cos(np.pi * np.outer(np.arange(k), np.arange(size) + 0.5) / size)
    basis /= np.linalg.norm(basis, axis=1, keepdims=True)
    return basis @ matrices @ basis.T


def digits() -> Labelled:
    """Covariances of place, intensity and gradients of 1797 images of 8 x 8 pixels."""
    found = digit_covariances()
    return found.matrices, found.labels


@functools.cache
def handwriting() -> Labelled:
    images = mnist()
    chosen = np.random.default_rng(0).permutation(len(images.images))[:9000]
    X = riemdp.datasets.covariance_descriptors(images.images[chosen], eta=1e-6)
    return np.asarray(X), images.labels[chosen]


def erp(k: int) -> Labelled:
    data = erp_covariances()
    return reduced(data.matrices, k), data.labels


# name -> data, number of training records, whether many models and sizes are affordable
DATA: dict[str, tuple[Callable[[], Labelled], int]] = {
    "ERP, 4 channels": (lambda: erp(4), 172),
    "ERP, 8 channels": (lambda: erp(8), 172),
    "ERP, 32 channels": (lambda: erp(32), 172),
    "digits, 5 x 5": (digits, 1300),
    "MNIST, 9 x 9": (handwriting, 1000),
    "MNIST, 9 x 9, more": (handwriting, 7000),
}
NEEDED = ("ERP, 4 channels", "ERP, 8 channels", "digits, 5 x 5")


def cross_entropy(w: jax.Array, record: Any) -> jax.Array:
    z, one_hot = record
    return -jnp.sum(one_hot * jax.nn.log_softmax(w @ z))


@functools.cache
def softmax(shape: tuple[int, int]) -> riemdp.Problem:
    return riemdp.Problem(riemdp.Euclidean(*shape), cross_entropy, lipschitz=1.0)


class Logistic:
    """Softmax regression by 40 noisy gradients (DP-RGD) of clip norm 1, for comparison.

    It leaves as much of the budget for a centre as `PrivateTSClassifier`, but its tangent space is
    at the exact mean, so it is shown a little too good.
    """

    def __init__(self, budget: riemdp.Budget, seed: int):
        self.budget, self.seed = budget, seed

    def features(self, X: np.ndarray) -> np.ndarray:
        z = np.asarray(self.space.to_coordinates(self.c, self.space.log(self.c, X)))
        z = z * np.minimum(1.0, self.r / np.linalg.norm(z, axis=1))[:, None] / self.r
        return np.column_stack([z, np.full(len(z), 0.3)])

    def fit(self, X: np.ndarray, y: np.ndarray) -> Logistic:
        self.space = riemdp.spd(X.shape[1], METRIC)
        self.c = riemdp.frechet_mean(self.space, X, tol=1e-6).value
        self.r = float(np.median(self.space.dist(self.c, X)))
        self.classes = np.unique(y)
        z, one_hot = self.features(X), np.eye(len(self.classes))[np.searchsorted(self.classes, y)]
        shape = (len(self.classes), z.shape[1])
        (plan,) = riemdp.plan_private_classifier(self.space, len(X), len(self.classes), self.budget)
        if plan.n < plan.need:
            raise riemdp.InvalidArgument("too few records")
        multiplier = riemdp.gaussian_noise_multiplier(self.budget, 40) / np.sqrt(plan.share)
        sigma, gradients = 2.0 / len(X) * multiplier, softmax(shape).riemannian_gradient
        rng, w, velocity = np.random.default_rng(self.seed), np.zeros(shape), np.zeros(shape)
        self.w = np.zeros(shape)
        for t in range(40):  # heavy ball, and the mean of the iterates
            g = np.asarray(jax.vmap(gradients, (None, 0))(w, (z, one_hot)))
            g = g / np.maximum(1.0, np.linalg.norm(g, axis=(1, 2)))[:, None, None]
            velocity = 0.8 * velocity + g.mean(axis=0) + sigma * rng.normal(size=shape)
            w = w - 8.0 * velocity
            self.w = self.w + (w - self.w) / (t + 1)
        return self

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(self.classes[(self.features(X) @ self.w.T).argmax(axis=1)] == y))


def accuracies(
    make: Callable[[int, np.ndarray], Any], data: Labelled, n: int, runs: int, copies: int = 1
) -> np.ndarray:
    """Accuracy on records that were not used, for several splits and seeds; NaN where `fit`
    refuses. `copies` repeats the training records, as if there were that many more people.
    """
    X, y = data
    out = []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:n], order[n : n + 2000]
        try:
            fitted = make(seed, np.unique(y)).fit(
                np.repeat(X[train], copies, axis=0), np.repeat(y[train], copies)
            )
        except riemdp.InvalidArgument:
            return np.full(runs, np.nan)
        out.append(fitted.score(X[test], y[test]))
    return np.array(out)


def cell(seen: np.ndarray) -> str:
    """Median, and the least and the largest."""
    if np.isnan(seen).any():
        return "refused"
    return f"{np.median(seen):.2f} ({seen.min():.2f} to {seen.max():.2f})"


def private(kind: str, budget: riemdp.Budget) -> Callable[[int, np.ndarray], Any]:
    def make(seed: int, classes: np.ndarray) -> Any:
        given: dict[str, Any] = {"metric": METRIC, "budget": budget, "random_state": seed}
        secret = {"labels": "private", "classes": classes}
        return {
            "PrivateMDM": lambda: riemdp.PrivateMDM(**given),
            "PrivateTSClassifier": lambda: riemdp.PrivateTSClassifier(**given),
            "the same, private labels": lambda: riemdp.PrivateTSClassifier(**given, **secret),
            "logistic regression, DP-RGD": lambda: Logistic(budget, seed),
        }[kind]()

    return make


KINDS = (
    "PrivateMDM",
    "PrivateTSClassifier",
    "the same, private labels",
    "logistic regression, DP-RGD",
)


def section(name: str, runs: int) -> str:
    from pyriemann.classification import MDM, FgMDM, TSClassifier

    make, n = DATA[name]
    data = make()
    k, classes = data[0].shape[1], len(np.unique(data[1]))
    runs = runs if n < 5000 else min(runs, 3)
    theirs = []
    for model in (MDM, FgMDM, TSClassifier):
        seen = accuracies(lambda seed, c, m=model: m(metric=METRIC), data, n, min(3, runs))
        theirs.append(f"{model.__name__} {np.median(seen):.2f}")
    ours = np.median(accuracies(private("PrivateTSClassifier", NO_NOISE), data, n, min(3, runs)))
    budgets = [riemdp.Budget(epsilon, DELTA) for epsilon in EPSILONS]
    space = riemdp.spd(k, METRIC)

    def rows() -> Iterator[list[str]]:
        plans = [riemdp.plan_private_classifier(space, n, classes, b)[0] for b in budgets]
        yield ["plan: verdict (noise)", *(f"{p.verdict} ({p.noise:.2g})" for p in plans)]
        for kind in KINDS:
            logistic = kind.startswith("logistic")
            if not logistic or k <= 9:
                times = min(runs, 2) if logistic else runs
                found = (accuracies(private(kind, b), data, n, times) for b in budgets)
                yield [kind, *map(cell, found)]

    made = table(" | ".join(["", *(f"epsilon {e:g}" for e in EPSILONS)]), rows())
    return (
        f"### {name.removesuffix(', more')}: {n} training records, {classes} classes,"
        f" {k * (k + 1) // 2} coordinates\n\nWithout privacy: {', '.join(theirs)},"
        f" `PrivateTSClassifier` with hardly any noise {ours:.2f}; guessing"
        f" {1 / classes:.2f}.\n\n{made}\n"
    )


def needed(name: str, epsilon: float) -> tuple[str, int]:
    """Records a class with which the private classifier comes within three points of itself with
    hardly any noise, by repeating the training records; and what the plan says.
    """
    make, n = DATA[name]
    data = make()
    classes = len(np.unique(data[1]))
    aim = np.mean(accuracies(private("PrivateTSClassifier", NO_NOISE), data, n, 4)) - 0.03
    budget = riemdp.Budget(epsilon, DELTA)
    space = riemdp.spd(data[0].shape[1], METRIC)
    planned = riemdp.plan_private_classifier(space, n, classes, budget)[0].records_a_class
    for copies in COPIES:
        if n * copies > 40_000:
            return f"> {n * copies // classes:,}", planned
        seen = accuracies(private("PrivateTSClassifier", budget), data, n, 4, copies)
        if np.mean(seen) >= aim:
            return f"{n * copies // classes:,}", planned
    return f"> {n * COPIES[-1] // classes:,}", planned


WORDS = """## Records per class needed

Measured: records per class from which `PrivateTSClassifier` comes within three points of itself
with hardly any noise, by repeating the training records (mean of 4 splits). Plan:
`records_a_class`.

"""


def main() -> None:
    runs = options(__doc__, runs=5).runs
    sections = [section(name, runs) for name in DATA]

    def rows() -> Iterator[list[str]]:
        for name in NEEDED:
            found = [needed(name, epsilon) for epsilon in (1.0, 3.0)]
            yield [name, *(word for m, p in found for word in (m, f"{p:,}"))]

    made = table(" | epsilon 1: measured | plan | epsilon 3: measured | plan", rows())
    text = "\n".join(["", *sections, f"{WORDS}{made}\n"])
    write_between(DOCS / "evidence" / "classifiers.md", "measured", text)


if __name__ == "__main__":
    main()
