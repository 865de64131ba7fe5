"""Figures where NumPy raises for every underflow and warnings are errors: the same as elsewhere."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from riemdp import Budget, Ledger, privacy
from riemdp.privacy import subsampled_gaussian

HALF = {"population": 1000, "batch_size": 500}
MADE = {
    "Gaussian": lambda: privacy.gaussian(0.5, 3),
    "pure": lambda: privacy.pure(0.7),
    "both": lambda: privacy.gaussian(2.0).compose(privacy.pure(0.7)),
    "random allocation": lambda: privacy.allocated_gaussian(0.5, steps=10, epochs=3),
    "Poisson": lambda: subsampled_gaussian(0.5, steps=20, sampling="poisson", **HALF),
    "batches": lambda: subsampled_gaussian(0.05, steps=50, **HALF),
    "little noise": lambda: privacy.gaussian(1e-3),
    "much noise": lambda: privacy.gaussian(1e6),
}


def figures(guarantee):
    """What can be asked of it."""
    ledger = Ledger(Budget(1e9, 0.9))
    ledger.spend(guarantee)
    found = [guarantee.epsilon(d) for d in (0.0, 1e-300, 1e-20, 1e-6, 0.5)]
    found += [guarantee.delta(e) for e in (1e-3, 1.0, 20.0)]
    found += [guarantee.group(3).epsilon(1e-6), guarantee.trade_off().rate(0.01)]
    found += [guarantee.within(Budget(1.0, 1e-6)), ledger.spent.epsilon(1e-6)]
    return found, str(guarantee)


@pytest.mark.parametrize("kind", MADE)
def test_no_figure_depends_on_what_numpy_is_told(kind):
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        strict = figures(MADE[kind]())
    assert strict == figures(MADE[kind]())
