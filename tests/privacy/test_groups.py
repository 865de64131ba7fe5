"""Several records of one person, and what an attacker finds at a given false-positive rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from riemdp import (
    Guarantee,
    approximate,
    gaussian,
    none,
    participation,
    pure,
    subsampled_gaussian,
)
from riemdp.privacy.accounting import bounds
from riemdp.privacy.accounting.trade_off import TradeOff

D = 1e-5


def batches(z: float = 2.0, steps: int = 200) -> Guarantee:
    return subsampled_gaussian(z, population=2000, batch_size=50, steps=steps)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_group_under_gaussian_noise_costs_size_times_mu(size: int) -> None:
    """`repeat(10)` was recommended for a person with 10 records: 3.62, where 14.43 is true."""
    alone = gaussian(5.0)
    assert alone.group(size).epsilon(D) == pytest.approx(gaussian(5.0 / size).epsilon(D), rel=1e-12)
    assert size == 1 or alone.group(size).epsilon(D) > alone.repeat(size).epsilon(D)


def test_pure_and_approximate_groups_follow_the_general_rule() -> None:
    assert pure(0.3).group(4).epsilon(0.0) == pytest.approx(1.2, rel=1e-12)
    group = approximate(0.2, 1e-7).group(3)
    assert group.delta(0.6) == pytest.approx(1e-7 * sum(math.exp(0.2 * i) for i in range(3)))
    assert approximate(1.0, 0.3).group(3).epsilon(D) == math.inf
    assert none().group(3) == none()


def test_the_chain_of_lines_is_exact_for_a_gaussian_up_to_its_grid() -> None:
    """The route of all other guarantees, on the distribution whose group is known."""
    for mu, size in ((0.3, 2), (0.2, 5), (1.0, 3)):
        g = gaussian(1 / mu)
        bound = TradeOff(g.delta, g.epsilon(1e-15))
        exact = gaussian(1 / (mu * size))
        for delta in (1e-7, 1e-4):
            found = bound.group_epsilon(delta, size)
            assert exact.epsilon(delta) <= found <= exact.epsilon(delta) * 1.06
        for e in (0.1, 1.0):
            assert bound.group_delta(e, size) >= exact.delta(e)


@pytest.mark.parametrize(
    ("guarantee", "size"),
    [
        (batches(), 5),
        (participation(gaussian(2.0), agents=20, sampled=2, rounds=30), 2),
        (gaussian(8.0).compose(approximate(0.1, 1e-7)), 5),
        (subsampled_gaussian(1.5, population=500, batch_size=5, steps=50, sampling="poisson"), 2),
        (approximate(0.1, 1e-6).repeat(3), 5),
    ],
)
def test_every_kind_of_part_has_a_group(guarantee: Guarantee, size: int) -> None:
    """Above one record's figure, and never above the general rule for (epsilon, delta)."""
    group = guarantee.group(size)
    for epsilon in (0.5, 2.0):
        one = epsilon / size
        general = guarantee.delta(one) * sum(math.exp(one * i) for i in range(size))
        assert guarantee.delta(epsilon) * (1 - 1e-9) <= group.delta(epsilon)
        assert group.delta(epsilon) <= min(1.0, general)
    assert group.epsilon(D) >= guarantee.epsilon(D)
    assert Guarantee.from_dict(group.to_dict()) == group
    assert "records of one person" in str(group)
    assert group.adjacency == guarantee.adjacency


def test_a_group_on_batches_is_above_what_an_attacker_sees() -> None:
    """A lower bound: the attacker may know which records were drawn, so that j of the k are in the
    one batch with known probability, and the batch's mean moves j times as far.
    """
    n, b, k, z = 1000, 100, 4, 2.0
    group = subsampled_gaussian(z, population=n, batch_size=b).group(k)
    x = np.linspace(-12, 16, 40001)
    q = norm.pdf(x)
    p = sum(binom.pmf(j, k, b / n) * norm.pdf(x, j / z) for j in range(k + 1))
    for epsilon in (0.05, 0.3, 1.0):
        attained = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * (x[1] - x[0]))
        assert attained * (1 - 1e-3) <= group.delta(epsilon)


# -------------------------------------------------------------------- attacks
@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.001, 0.01, 0.3, 1.0])
def test_attack_rates_with_a_closed_form(rate: float) -> None:
    assert gaussian(2.0, 3).trade_off().rate(rate) == pytest.approx(
        norm.cdf(norm.ppf(rate) + math.sqrt(3) / 2)
    )
    expected = min(1.0, math.e * rate, 1 - (1 - rate) / math.e)
    assert pure(1.0).trade_off().rate(rate) == pytest.approx(expected)
    assert gaussian(1.0).repeat(0).trade_off().rate(rate) == rate
    assert none().trade_off().rate(rate) == 1.0


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.01, 0.1])
def test_attack_rates_from_a_profile(rate: float) -> None:
    """The general route against the closed form of a Gaussian, and order for batches."""
    g = gaussian(1.5)
    exact = g.trade_off().rate(rate)
    assert exact <= bounds.trade_off(g.parts).rate(rate) <= exact * 1.03
    found = batches().trade_off().rate(rate)
    assert rate < found <= gaussian(2.0, 200).trade_off().rate(rate)
    assert found <= batches().group(3).trade_off().rate(rate)
    assert gaussian(1.5).group(2).trade_off().rate(rate) == pytest.approx(
        gaussian(0.75).trade_off().rate(rate)
    )
