"""A site's answers in a search for a ball, whatever NumPy is told."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from tests.seam import Searches


@pytest.mark.parametrize("kind", [Searches.TANGENTS, Searches.SQUARES])
@pytest.mark.parametrize("small", [3e-308, 1e-154])
def test_what_numpy_is_told_decides_about_no_answer(kind, small):
    X = np.zeros((60, 2))
    X[0, 0] = small
    domain = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(2), 2.0)).on(riemdp.Euclidean(2))
    noise = Searches.NoiseOfSites(riemdp.Budget(1.0, 1e-6), 3, None)
    paid = riemdp.privacy.charge(noise.guarantee)
    site = Searches.SearchSite(domain, X, noise, riemdp.noise_source(0), paid)
    with np.errstate(all="raise"):
        site.answer(Searches.Ask(kind, 0.1, np.zeros(2), 1.0))
    assert float(site.spent) == 0.1
