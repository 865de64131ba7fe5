"""Noise that several parties share: its size, its privacy, and the lemma behind it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import riemdp
from riemdp import InvalidArgument, noise_source
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.privacy import gaussian, gaussian_noise_multiplier
from tests.seam import Masks
from tests.statistical import ALPHA, gaussian_p_value


def plan(parties: int = 5, tolerated: int = 2, dim: int = 3, z: float = 2.0) -> Masks.SharedSum:
    return Masks.SharedSum(parties, tolerated, dim, 2.0, z)


# ------------------------------------------------------------------------------------------------
# the lemma: at scales where the factor is not 1
def discrete(s: float) -> tuple[np.ndarray, np.ndarray]:
    j = np.arange(-math.ceil(14 * s), math.ceil(14 * s) + 1)
    weights = np.exp(-(j**2) / (2 * s**2))
    return j, weights / math.fsum(weights)


def rounded_at_random(s: float, r: float, far: int) -> np.ndarray:
    """Distribution on -far..far of a normal number of variance s^2 - r^2 that a discrete Gaussian
    of scale r makes an integer of, by summing over a fine grid of normal numbers.
    """
    t, fine = math.sqrt(s**2 - r**2), 256
    j = np.arange(-far, far + 1)
    distribution = np.zeros(j.size)
    for y in np.arange(-math.ceil(12 * t * fine), math.ceil(12 * t * fine) + 1) / fine:
        near = np.exp(-((j - y) ** 2) / (2 * r**2))
        distribution += np.exp(-(y**2) / (2 * t**2)) * near / math.fsum(near)
    return distribution / (math.sqrt(2 * math.pi) * t * fine)


@pytest.mark.parametrize(("s", "r"), [(1.5, 0.8), (2.0, 1.0)])
def test_a_discrete_gaussian_is_a_rounded_continuous_one(s: float, r: float) -> None:
    e = 2 * sum(math.exp(-2 * (math.pi * r * k) ** 2) for k in range(1, 5))
    far = math.ceil(14 * s)
    ratio = discrete(s)[1] / rounded_at_random(s, r, far)
    inner = slice(far - int(5 * s), far + int(5 * s) + 1)
    largest = float(np.max(np.abs(np.log(ratio[inner]))))
    assert largest <= -math.log(1 - e) * (1 + 1e-6) + 1e-12
    # and not much less: with a smaller r the bound of the larger one is exceeded
    wider = discrete(s)[1] / rounded_at_random(s, r / 1.6, far)
    assert float(np.max(np.abs(np.log(wider[inner])))) > -math.log(1 - e)


def summed(s: float, parties: int) -> np.ndarray:
    distribution = discrete(s)[1]
    out = distribution
    for _ in range(parties - 1):
        out = np.convolve(out, distribution)
    return out


@pytest.mark.parametrize("s", [0.7, 1.0])
def test_a_sum_of_discrete_gaussians_is_nearly_one(s: float) -> None:
    parties = 3
    out = summed(s, parties)
    far = (out.size - 1) // 2
    j = np.arange(-far, far + 1)
    weights = np.exp(-(j**2) / (2 * parties * s**2))
    ratio = np.abs(np.log(out / (weights / math.fsum(weights))))[np.abs(j) <= 6 * s]
    bound = 0.0
    for k in range(1, parties):
        e = 2 * sum(math.exp(-2 * (math.pi * s * i) ** 2 * k / (k + 1)) for i in range(1, 8))
        bound += math.log((1 + e) / (1 - e))
    assert 0.05 * bound < float(np.max(ratio)) <= bound


@pytest.mark.parametrize("shift", [1, 3])
def test_the_exact_privacy_curve_of_a_sum_is_below_the_gaussian_one(shift: int) -> None:
    """delta(epsilon) of three summed shares by enumeration, against the Gaussian of the lemma with
    its factor; r = 1 here, where the library takes 4.
    """
    s, parties, r = 2.0, 3, 1.0
    out = summed(s, parties)
    moved = np.concatenate([np.zeros(shift), out])[: out.size]
    kappa = 3 * 2.001 * math.exp(-2 * math.pi**2 * r**2)
    mu = shift / math.sqrt(parties * s**2 - r**2)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        exact = float(np.sum(np.maximum(out - math.exp(epsilon) * moved, 0.0)))
        claim = math.exp(kappa) * gaussian(1 / mu).delta(max(0.0, epsilon - 2 * kappa))
        assert exact <= claim * (1 + 1e-9)
        less = gaussian(1.35 / mu).delta(epsilon)
        assert exact > less, "a claim with a third more noise is false, so this test can fail"


def test_the_room_in_the_multiplier_pays_for_the_factors() -> None:
    """(epsilon + 2 kappa, e^kappa delta) of z is within z (1 - 1e-9), at every epsilon."""
    kappa = 1e9 * 5 * 2.001 * math.exp(-2 * math.pi**2 * 16)
    assert kappa < 1e-120
    for mu in (1e-3, 0.1, 1.0, 5.0, 20.0, 40.0):
        density = math.exp(-(mu**2) / 8) / math.sqrt(2 * math.pi)
        assert 1e-9 * mu * density > kappa * (2.51 + 1.26 + 1.0)
    # the derivative that this rests on, by differences at a factor that can be seen
    for mu, epsilon in ((0.5, 0.0), (1.0, 1.0), (3.0, 4.0)):
        seen = 1e-4
        left = math.exp(seen) * gaussian(1 / mu).delta(epsilon)
        wider = mu * (1 + seen * (2.51 + 2.6 * math.exp(mu**2 / 8)) / mu)
        assert left <= gaussian(1 / wider).delta(epsilon + 2 * seen)


# ------------------------------------------------------------------------------------------------
# the plan
@pytest.mark.parametrize("parties", [1, 3, 10, 30, 1000])
@pytest.mark.parametrize("z", [0.05, 1.0, 60.0])
@pytest.mark.parametrize("dim", [1, 66, 10_000])
def test_the_noise_that_is_left_is_enough(parties: int, z: float, dim: int) -> None:
    for tolerated in {0, 1, parties // 2, parties - 1}:
        if tolerated >= parties:
            continue
        p = plan(parties, tolerated, dim, z)
        g = 2.0**p.exponent
        steps = 2.0 / g
        left = (parties - tolerated) * p.share**2 - 16.0
        assert left >= (z * (1 + 1e-9) * steps) ** 2
        assert min(p.share, steps) >= 1000
        assert p.share <= 2.0**41
        # and no more than that
        assert p.sigma <= z * 2.0 * (1.0 + 1e-7)
        # sums of as many records as a site may have do not overflow, nor do the shares of all
        assert parties * (Masks.MOST_RECORDS * steps + 14.0 * p.share) < 2.0**63
        assert p.sigma_of(parties) == pytest.approx(
            p.sigma * math.sqrt(parties / (parties - tolerated))
        )


@pytest.mark.parametrize("parties", [3, 10, 30])
@pytest.mark.parametrize("tolerated", [0, 1, 2])
def test_error_beside_a_trusted_server(parties: int, tolerated: int) -> None:
    """At an equal guarantee the noise is sqrt(J / (J - q)) times that of one who holds all data,
    within 2 percent; drawn, not computed. Local noise is sqrt(J) times it.
    """
    budget = riemdp.Budget(1.0, 1e-6)
    z = gaussian_noise_multiplier(budget)
    p = Masks.SharedSum(parties, tolerated, 66, 2.0, z)
    source = noise_source(parties)
    drawn = np.array(
        [sum(p.noise(source) for _ in range(parties)) for _ in range(max(10, 300 // parties))]
    )
    error = float(np.sqrt(np.mean((drawn * 2.0**p.exponent) ** 2)))
    central, ratio = 2.0 * z, math.sqrt(parties / (parties - tolerated))
    assert p.sigma_of(parties) / central == pytest.approx(ratio, rel=0.02)
    statistical = 6 / math.sqrt(2 * drawn.size)
    assert error / central == pytest.approx(ratio, rel=0.02 + statistical)
    assert math.sqrt(parties) / ratio == pytest.approx(math.sqrt(parties - tolerated))


def test_a_share_has_the_planned_distribution() -> None:
    p, source = plan(dim=4), noise_source(2)
    drawn = np.array([p.noise(source) for _ in range(3000)])
    assert gaussian_p_value(drawn, p.share) > ALPHA
    assert gaussian_p_value(drawn, p.share / 0.9) < ALPHA


# ------------------------------------------------------------------------------------------------
# attacks
def lower_bound(p: Masks.SharedSum, known: int, missing_share: bool = False) -> float:
    """A lower bound of mu from the sum, for somebody who knows the shares of `known` parties."""
    source, runs = noise_source(31), 12_000
    moved = np.trunc(p.sensitivity / p.grid)
    left = p.parties - known - int(missing_share)
    noise = source.discrete_gaussians(p.share, (2, runs, left)).sum(axis=2)
    return gaussian_mu_lower_bound(noise[0] + moved, noise[1])


@pytest.mark.parametrize(
    ("who", "known"), [("an outsider", 0), ("the server", 0), ("q colluding sites", 2)]
)
def test_audited_bounds_are_below_the_claim(who: str, known: int) -> None:
    p = plan(z=0.6)
    bound = lower_bound(p, known)
    assert bound <= 1 / p.noise_multiplier
    if known == p.tolerated:
        assert bound > 0.9 / p.noise_multiplier  # the claim is nearly what they get
        assert lower_bound(p, known, missing_share=True) > 1 / p.noise_multiplier
        assert lower_bound(p, known + 1) > 1 / p.noise_multiplier


# ------------------------------------------------------------------------------------------------
# one party
def test_what_it_assumes_is_in_its_guarantee() -> None:
    p = plan()
    assert "5 sites at most 2" in p.guarantee.assumes
    assert "all 5 sites" in dataclasses.replace(p, tolerated=0).guarantee.assumes


def test_values_on_the_grid() -> None:
    """Records are cut one by one, and no number of them or of sites enters the grid."""
    p = plan()
    g = p.grid
    rows = g * np.array([[3.7, -2.4, np.nan], [3.7, -2.4, 0.9], [-0.9, np.inf, 0.0]])
    assert Masks.whole_sum(rows, np.ones(3), 1.0, g).tolist() == [3, -2, 0]
    assert Masks.whole_sum(rows[[1, 1]], np.ones(2), 1.0, g).tolist() == [6, -4, 0]
    far = np.array([[1e150, -1e150, 0.0]])
    assert np.linalg.norm(Masks.whole_sum(far, np.ones(1), 1.0, g)) <= 1.0 / g


def test_sums_are_read_back_or_refused() -> None:
    p, source = plan(), noise_source(4)
    vector = np.array([0.25, -0.75, 0.0])
    own = Masks.whole_sum(vector[None], np.ones(1), 1.0, p.grid)
    total = sum(own + p.noise(source) for _ in range(5))
    value = p.value(total, 5.0)
    assert value is not None
    assert np.allclose(value, 5 * vector, atol=8 * p.sigma_of(5))
    largest = int(p.largest(5.0))
    assert p.value(np.array([largest, -largest, 0]), 5.0) is not None
    assert p.value(np.array([0, 0, largest + 2]), 5.0) is None


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"parties": 0}, "parties"),
        ({"tolerated": 5}, "tolerated"),
        ({"tolerated": -1}, "tolerated"),
        ({"dim": 10**9}, "dim"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"noise_multiplier": 0.01}, "noise_multiplier"),
        ({"noise_multiplier": 1e12}, "budget"),
    ],
)
def test_bad_arguments_are_named(changed: dict[str, float], name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"`{name}`"):
        dataclasses.replace(plan(), **changed)
