"""What the papers' noise formulas give, by this library's accounting: writes a table of
docs/results/index.md; a test recomputes the figures and compares them.
"""

from __future__ import annotations

import math

from papers.tables import DOCS, table, write_between
from riemdp.privacy import gaussian, subsampled_gaussian
from riemdp.privacy.accounting.gaussian import gaussian_mu

PAGE = DOCS / "results" / "index.md"
CLAIMS = [(0.1, 1e-3), (0.15, 1e-4), (0.3, 1e-5), (0.08, 1e-5), (0.15, 1e-5)]
STEPS = 100  # cancels: T steps of noise multiplier z sqrt(T) are one of z


def full_batch(epsilon: float, delta: float) -> dict[str, float]:
    """sigma^2 = T log(1/delta) L^2 / (n epsilon)^2 against the replace-one sensitivity 2 L / n of
    the averaged gradient.
    """
    z = math.sqrt(STEPS * math.log(1 / delta)) / (2 * epsilon)
    real = gaussian(z, STEPS)
    mu = math.sqrt(STEPS) / z
    return {
        "epsilon": real.epsilon(delta),
        "delta": real.delta(epsilon),
        "factor": (mu / gaussian_mu(epsilon, delta)) ** 2,
    }


def svrg(
    records: int = 1200,
    inner: int = 166,
    epochs: int = 3,
    epsilon: float = 0.15,
    delta: float = 1e-4,
) -> float:
    """sigma^2 = m K log(1/delta) tau^2 / (n epsilon)^2 for inner steps on one record, each a
    difference of two clipped gradients.

    A step that draws the replaced record moves by up to 4 tau (two clipped gradients, 2 tau each);
    here only that sampled part is counted, which is less than the algorithm reveals.
    """
    sigma = math.sqrt(inner * epochs * math.log(1 / delta)) / (records * epsilon)
    return subsampled_gaussian(
        sigma / 4, population=records, batch_size=1, steps=inner * epochs
    ).epsilon(delta)


HEAD = "epsilon stated | delta stated | true epsilon | ratio | true delta | c that would be right"


def section() -> str:
    """The table."""
    rows = []
    for epsilon, delta in CLAIMS:
        real = full_batch(epsilon, delta)
        ratio = real["epsilon"] / epsilon
        true = f"{real['epsilon']:.3f}", f"{ratio:.2f}", f"{real['delta']:.2g}"
        rows.append((f"{epsilon:g}", f"{delta:g}", *true, f"{real['factor']:.2f}"))
    return table(HEAD, rows)


if __name__ == "__main__":
    write_between(PAGE, "noise", section())
