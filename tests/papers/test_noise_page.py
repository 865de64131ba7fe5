"""The figures of the section about published noise are what the library computes, and what the
specification says.
"""

from __future__ import annotations

import re

import pytest

from papers.tools import noise_table


def test_page_is_what_the_code_computes() -> None:
    number = re.compile(r"\d+\.?\d*(?:e-?\d+)?")
    text = noise_table.PAGE.read_text(encoding="utf-8")
    written = text.partition("<!-- noise -->")[2].partition("<!-- end of noise -->")[0].strip()
    computed = noise_table.section()
    assert number.sub("#", written) == number.sub("#", computed)
    for shown, found in zip(number.findall(written), number.findall(computed), strict=True):
        assert float(shown) == pytest.approx(float(found), rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "real_delta", "factor"),
    [
        (0.1, 1e-3, 3.5e-3, 1.75),
        (0.15, 1e-4, 3.0e-3, 2.88),
        (0.3, 1e-5, 3.8e-3, 3.95),
    ],
)
def test_published_claims(epsilon: float, delta: float, real_delta: float, factor: float) -> None:
    real = noise_table.full_batch(epsilon, delta)
    assert real["delta"] == pytest.approx(real_delta, rel=0.02)
    assert real["factor"] == pytest.approx(factor, rel=0.003)
    assert 1.4 < real["epsilon"] / epsilon < 2.4


def test_variance_reduced_claim() -> None:
    assert f"epsilon = {noise_table.svrg():.1f} by" in noise_table.PAGE.read_text(encoding="utf-8")
    assert noise_table.svrg() == pytest.approx(230, rel=0.01)
