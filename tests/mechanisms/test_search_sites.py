"""A site's answers in a search for a ball, whatever NumPy is told."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp.mechanisms._search_sites import SQUARES, TANGENTS, Ask, NoiseOfSites, SearchSite


@pytest.mark.parametrize("kind", [TANGENTS, SQUARES])
@pytest.mark.parametrize("small", [3e-308, 1e-154])
def test_what_numpy_is_told_decides_about_no_answer(kind, small):
    X = np.zeros((60, 2))
    X[0, 0] = small
    domain = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(2), 2.0)).on(riemdp.Euclidean(2))
    noise = NoiseOfSites(riemdp.Budget(1.0, 1e-6), 3, None)
    paid = riemdp.privacy.charge(noise.guarantee)
    site = SearchSite(domain, X, noise, riemdp.noise_source(0), paid)
    with np.errstate(all="raise"):
        site.answer(Ask(kind, 0.1, np.zeros(2), 1.0))
    assert float(site.spent) == 0.1
