"""The test of means of clipped tangent vectors, from what was released of them alone."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..inference import Comparison
from ..inference._comparison import compared
from ..mechanisms import Release
from ..mechanisms._class_sums import ClassSpreads
from ..mechanisms._comparison import sample_means
from ..privacy._noise import Noise


def comparison_of(
    release: Release,
    sums: ClassSpreads,
    noise: Noise,
    of: str,
    *,
    said: str,
    hypothesis: str,
    unit: float = 1.0,
) -> Comparison:
    """Whether the means are the same, or a single one is 0.

    Args:
        release: The noisy sums, as its `answers`.
        sums: What was summed.
        noise: The noise of the budget.
        of: Whether the hypothesis is about a "population" or the "sample".
        said: What was released, in words.
        hypothesis: In words.
        unit: What a vector of length 1 stands for, over the radius.
    """
    r = release.facts.radius
    assert r is not None
    noisy = np.concatenate(release.details["answers"]) / r
    means = sample_means(sums, noisy, release.scale / r, noise)
    if of == "sample":
        means = [one.of_sample() for one in means]
    exact = of == "sample" and not noise.is_pure
    test = compared(means, unit * r, hypothesis, exact=exact, reproducible=release.reproducible)
    return dataclasses.replace(test, release=release._knowing({"query": said}))
