"""The normal distribution in plain floats, against 40 digits; and the search for a zero."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from riemdp.privacy.accounting import normal
from tests.seam import Accounts

POINTS = np.concatenate([np.linspace(-37.0, 37.0, 149), [-9.999, 9.999, 10.001, 1e-300, 1e-9]])


def exact_erfcx(x):
    return mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(mpmath.mpf(x))


@pytest.mark.parametrize("x", [*POINTS[POINTS > -26.6], 60.0, 1e4, 1e150])
def test_scaled_tail(x):
    with mpmath.workdps(40):
        want = exact_erfcx(x) if x < 1e3 else 1 / (mpmath.sqrt(mpmath.pi) * mpmath.mpf(x))
        off = abs(mpmath.mpf(normal.erfcx(float(x))) / want - 1)
    assert off < (2e-15 if x < 1e3 else 1e-8)


def test_cdf_and_quantile():
    with mpmath.workdps(40):
        for x in POINTS:
            want = mpmath.erfc(-mpmath.mpf(float(x)) / mpmath.sqrt(2)) / 2
            # a relative error of the argument is magnified by x^2
            assert abs(mpmath.mpf(normal.cdf(float(x))) / want - 1) < 4e-16 * (2 + x * x)
        for p in (1e-300, 1e-30, 1e-5, 0.2, 0.5, 0.9, 1 - 1e-12):
            back = mpmath.erfc(-mpmath.mpf(normal.quantile(p)) / mpmath.sqrt(2)) / 2
            assert abs(back / p - 1) < 2e-12
    assert (normal.quantile(0.0), normal.quantile(1.0)) == (-math.inf, math.inf)
    assert (normal.cdf(-math.inf), normal.cdf(math.inf)) == (0.0, 1.0)


@pytest.mark.parametrize("power", [1, 3, 9])
@pytest.mark.parametrize("zero", [1e-280, 1e-7, 0.3, 1e9])
def test_the_zero_is_found_for_flat_and_steep_functions(power, zero):
    calls = []

    def f(x):
        calls.append(x)
        return 1.0 - (x / zero) ** power

    found = Accounts.solve(f, zero / 50, zero * 3)
    assert found == pytest.approx(zero, rel=2e-14)
    assert len(calls) < 120


def test_the_zero_may_be_an_end_and_has_to_exist():
    assert Accounts.solve(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    assert Accounts.solve(lambda x: x, 0.0, 1.0) == 0.0
    with pytest.raises(ArithmeticError):
        Accounts.solve(lambda x: x + 1.0, 0.0, 1.0)


def test_randomised_response_never_costs_too_little():
    """At epsilon 800 the smaller probability is 0 in a float64: the cost is infinite, not that of
    epsilon 700.
    """

    costs = [Accounts.pure_cost(e, 0.0) for e in (0.1, 1.0, 30.0, 690.0, 800.0)]
    assert costs == sorted(costs)
    assert costs[-1] == math.inf
    with mpmath.workdps(40):
        up = 1 / (1 + mpmath.exp(-1))
        mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(2 * up - 1)
    assert float(mu * mu) <= costs[1] <= float(mu * mu) * (1 + 2e-12)
