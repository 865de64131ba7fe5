"""Accounting against dp-accounting (PLD and RDP) and, for Poisson sampling, prv-accountant."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riemdp.privacy import (
    Budget,
    gaussian,
    gaussian_noise_multiplier,
    participation,
    pure,
    subsampled_gaussian,
)
from tests.seam import Accounts

pytestmark = pytest.mark.conformance
dp = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
CASES = [(1.0, 0.01, 1000), (2.0, 0.01, 1000), (0.7, 0.05, 100), (5.0, 0.3, 50), (1.0, 1e-3, 3000)]


def distribution(z: float, q: float, steps: int, sampling: str):
    n = 10_000
    return subsampled_gaussian(
        z, population=n, batch_size=round(q * n), steps=steps, sampling=sampling
    )


@pytest.mark.parametrize(("z", "delta"), [(0.5, 1e-5), (5.0, 1e-12), (40.0, 1e-3)])
def test_gaussian(z: float, delta: float) -> None:
    assert gaussian(z).epsilon(delta) == pytest.approx(
        dp.get_epsilon_gaussian(z, delta), rel=1e-4, abs=1e-9
    )
    assert gaussian_noise_multiplier(Budget(1.0, delta)) == pytest.approx(
        dp.get_sigma_gaussian(1.0, delta), rel=1e-4
    )


@pytest.mark.parametrize(("z", "q", "steps"), CASES)
def test_poisson_is_dp_accountings_pld(z: float, q: float, steps: int) -> None:
    theirs = pld.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=1e-4
    ).self_compose(steps)
    ours = distribution(z, q, steps, "poisson")
    for delta in (1e-5, 1e-8):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=4e-3)
    epsilon = ours.epsilon(1e-5)
    assert ours.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=0.03)


def _symmetric_pld(z: float, q: float, interval: float):
    """The same dominating profile, through dp-accounting's own interface, from the amplified curve
    alone.
    """
    from dp_accounting.pld import pld_pmf
    from scipy.stats import norm

    top = math.log1p(q * math.expm1(10 / z + 1 / (2 * z * z) + 2)) + 1.0
    k = np.arange(0, math.ceil(top / interval) + 1)
    base, mu = np.log1p(np.expm1(k * interval) / q), 1 / z
    delta = q * (norm.cdf(mu / 2 - base / mu) - np.exp(base + norm.logcdf(-mu / 2 - base / mu)))
    mirrored = -np.expm1(-k * interval) + np.exp(-k * interval) * delta
    curve = np.concatenate([mirrored[:0:-1], delta])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, -int(k[-1]), int(k[-1]), np.maximum(curve, 0.0)
    )
    return pld.PrivacyLossDistribution(pmf)


@pytest.mark.parametrize(("z", "q", "steps"), CASES[:4])
def test_without_replacement_by_another_route(z: float, q: float, steps: int) -> None:
    theirs = _symmetric_pld(z, q, 1e-3 if q > 0.02 else 2e-4).self_compose(steps)
    ours = distribution(z, q, steps, "without-replacement").epsilon(1e-5)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=0.01)


@pytest.mark.parametrize(("z", "q", "steps"), CASES)
def test_renyi_bound_is_never_below(z: float, q: float, steps: int) -> None:
    n = 10_000
    event = dp.SelfComposedDpEvent(
        dp.SampledWithoutReplacementDpEvent(n, round(q * n), dp.GaussianDpEvent(z)), steps
    )
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(event)
    assert distribution(z, q, steps, "without-replacement").epsilon(1e-5) <= accountant.get_epsilon(
        1e-5
    )
    accountant = dp.rdp.RdpAccountant()
    accountant.compose(
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z)), steps)
    )
    assert distribution(z, q, steps, "poisson").epsilon(1e-5) <= accountant.get_epsilon(1e-5)


def test_the_replace_one_trap() -> None:
    """dp-accounting doubles the sensitivity under REPLACE_ONE in PLD; our noise multiplier already
    is the replace-one one.
    """
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp.GaussianDpEvent(10.0), 100)
    assert accountant.get_epsilon(1e-5) == pytest.approx(gaussian(5.0, 100).epsilon(1e-5), rel=2e-3)
    assert accountant.get_epsilon(1e-5) > 1.5 * gaussian(10.0, 100).epsilon(1e-5)


def test_mixture_and_unlike_releases() -> None:
    local = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    identity = pld.identity(value_discretization_interval=1e-3)
    theirs = identity.compute_mixture(local, 0.9).self_compose(30)
    ours = participation(gaussian(2.0), agents=10, sampled=1, rounds=30)
    assert ours.epsilon(1e-4) == pytest.approx(theirs.get_epsilon_for_delta(1e-4), rel=5e-3)
    both = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3).compose(
        pld.from_randomized_response(2 / (1 + math.exp(0.5)), 2, value_discretization_interval=1e-3)
    )
    assert gaussian(2.0).compose(pure(0.5)).epsilon(1e-5) == pytest.approx(
        both.get_epsilon_for_delta(1e-5), rel=5e-3
    )


@pytest.mark.parametrize(("z", "q", "steps"), [(1.0, 0.01, 1000), (2.0, 0.01, 1000)])
def test_poisson_lies_in_prv_accountants_interval(z: float, q: float, steps: int) -> None:
    prv = pytest.importorskip("prv_accountant")
    accountant = prv.PRVAccountant(
        prvs=[prv.PoissonSubsampledGaussianMechanism(noise_multiplier=z, sampling_probability=q)],
        max_self_compositions=[steps],
        eps_error=0.02,
        delta_error=1e-9,
    )
    low, _, high = accountant.compute_epsilon(1e-5, [steps])
    assert low <= distribution(z, q, steps, "poisson").epsilon(1e-5) <= high * 1.003


def test_the_best_of_a_random_number_of_runs() -> None:
    """The Renyi divergences of RdpAccountant, but for the delta of one run: theirs is made of Renyi
    divergences, and is larger than that of a Gaussian.
    """
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.concatenate([np.linspace(1.1, 11.0, 400), np.geomspace(11.5, 2000.0, 400)])
    for z, runs in ((6.0, 10), (2.0, 3), (20.0, 50)):
        whole = Accounts.selected(gaussian(z), runs)
        theirs = rdp.RdpAccountant(orders=orders).compose(whole.to_dp_event())
        one = rdp.RdpAccountant(orders=orders).compose(dp.GaussianDpEvent(z))
        hats = np.log1p(1.0 / (orders - 1.0))
        failures = np.array([rdp.compute_delta(orders, one._rdp, float(e))[0] for e in hats])
        exact = np.array([gaussian(z).delta(float(e)) for e in hats])
        assert np.all(failures >= exact)
        ours = theirs._rdp - runs * (failures - exact)
        assert np.allclose(
            ours, orders / (2 * z * z) + runs * exact + math.log(runs) / (orders - 1.0), rtol=1e-6
        )
        best, _ = rdp.compute_epsilon(orders, ours, 1e-6)
        assert best <= whole.epsilon(1e-6) * 1.001
        # that there is no run adds at most exp(-runs) / runs to a divergence of order 2 or more
        assert whole.epsilon(1e-6) <= best * 1.004 + math.exp(-runs) / runs
        assert whole.epsilon(1e-6) <= theirs.get_epsilon(1e-6) * 1.004
