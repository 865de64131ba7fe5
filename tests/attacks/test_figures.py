"""Figures of the accountant against independent formulas: cheap, and none of them may be smaller.

Each figure is computed here from its definition, by sums or quadrature on fine grids, with nothing
of the package.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from riemdp import Budget, InvalidArgument
from riemdp.privacy import (
    Guarantee,
    approximate,
    gaussian,
    gaussian_noise_multiplier,
    none,
    participation,
    pure,
    subsampled_gaussian,
)

EPSILONS = (0.0, 0.3, 1.0, 2.0)


def stick(mu, epsilon):
    """delta of a Gaussian release, from its formula."""
    phi = stats.norm.cdf
    return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def close_above(figure, true, room=0.02):
    """An upper bound, and a tight one; 1e-7 is the error of the quadratures here."""
    assert true * (1 - 1e-7) - 1e-15 <= figure <= true * (1 + room) + 1e-12, (figure, true)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("steps", [1, 9])
def test_gaussian(mu, steps):
    for e in EPSILONS:
        close_above(gaussian(1 / mu, steps).delta(e), stick(mu * math.sqrt(steps), e), 1e-9)
    e = gaussian(1 / mu, steps).epsilon(1e-6)
    assert stick(mu * math.sqrt(steps), e) <= 1e-6 * (1 + 1e-9)


def test_gaussians_add_up():
    both = gaussian(2.0).compose(gaussian(3.0), gaussian(2.0, 4))
    mu = math.sqrt(5 / 4 + 1 / 9)
    for e in EPSILONS:
        close_above(both.delta(e), stick(mu, e), 1e-9)


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 1), (0.5, 2), (0.3, 7)])
def test_pure_releases_add_up(epsilon, count):
    """k randomised responses: an exact binomial sum. Basic composition at delta 0."""
    together = pure(epsilon).repeat(count)
    assert together.epsilon(0.0) == pytest.approx(count * epsilon)
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    for e in (0.1, 0.4, 0.9):
        true = sum(
            math.comb(count, i)
            * max(
                0.0,
                p**i * (1 - p) ** (count - i) - math.exp(e) * p ** (count - i) * (1 - p) ** i,
            )
            for i in range(count + 1)
        )
        close_above(together.delta(e), true, 0.05)


def test_approximate_releases_add_up():
    both = approximate(0.2, 1e-3).compose(approximate(0.1, 2e-3).repeat(2))
    true = 1 - (1 - 1e-3) * (1 - 2e-3) ** 2
    close_above(both.delta(math.inf), true, 1e-6)
    distributions = [(0.2, 1e-3), (0.1, 2e-3), (0.1, 2e-3)]
    for e in (0.05, 0.15, 0.3):  # three outcomes each: failure, +epsilon, -epsilon
        total = 0.0
        for signs in itertools.product((math.inf, 1, -1), repeat=3):
            weight, loss = 1.0, 0.0
            for s, (e0, d) in zip(signs, distributions, strict=True):
                up = (1 - d) / (1 + math.exp(-e0))
                weight *= d if s == math.inf else up if s == 1 else up * math.exp(-e0)
                loss += s * e0
            total += weight * max(0.0, -math.expm1(min(0.0, e - loss)) if loss < 99 else 1.0)
        close_above(both.delta(e), total, 0.05)
    assert both.epsilon(true * 0.99) == math.inf
    assert both.epsilon(true * 1.01) <= 0.4 + 1e-9


def _losses(rate, mu, sampling):
    """Grid of one step's loss and its mass under P, for each direction that must be looked at."""
    x = np.linspace(-12, 12 + mu, 200_001)
    h = x[1] - x[0]
    q = stats.norm.pdf(x) * h
    mixed = (1 - rate) * q + rate * stats.norm.pdf(x - mu) * h
    ratio = np.log(mixed) - np.log(q)
    if sampling == "poisson":
        return [(ratio, mixed), (-ratio, q)]
    return [(ratio, mixed)]


@pytest.mark.parametrize(("rate", "z"), [((10, 100), 1.0), ((30, 60), 2.0), ((1, 1000), 0.7)])
def test_one_poisson_step(rate, z):
    """The larger of the two directions."""
    b, n = rate
    step = subsampled_gaussian(z, population=n, batch_size=b, steps=1, sampling="poisson")
    assert step.adjacency == "add-or-remove-one"
    for e in (0.2, 0.7, 1.5):
        true = max(
            float(np.sum(p * np.maximum(0.0, -np.expm1(e - loss))))
            for loss, p in _losses(b / n, 1 / z, "poisson")
        )
        close_above(step.delta(e), true, 0.05)


@pytest.mark.parametrize(("rate", "z"), [((10, 100), 1.0), ((30, 60), 2.0)])
def test_one_step_without_replacement(rate, z):
    """q delta0(log(1 + (e^eps - 1)/q)): the printed theorem."""
    b, n = rate
    q = b / n
    step = subsampled_gaussian(z, population=n, batch_size=b)
    assert step.adjacency == "replace-one"
    for e in (0.2, 0.7, 1.5):
        close_above(step.delta(e), q * stick(1 / z, math.log1p(math.expm1(e) / q)), 0.05)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_steps_of_a_batch_add_up(sampling):
    """Sixteen steps cost more than four times a single one's moment allows: the convolution by a
    Fourier transform on a grid of its own, rounded down.
    """
    z, b, n, steps, e = 1.0, 20, 100, 16, 2.0
    whole = subsampled_gaussian(z, population=n, batch_size=b, steps=steps, sampling=sampling)
    best = 0.0
    for loss, p in _losses(b / n, 1 / z, sampling):
        if sampling == "without-replacement":
            up = loss > 0
            half, mass = loss[up], p[up]
            loss = np.concatenate([half, -half, [0.0]])
            mirror = mass * np.exp(-half)
            p = np.concatenate([mass, mirror, [1 - mass.sum() - mirror.sum()]])
        step = 2e-3
        size = 1 << 15
        index = np.floor(loss / step).astype(int)  # down: never more than the truth
        distribution = np.bincount(index % size, weights=p, minlength=size)
        total = np.fft.irfft(np.fft.rfft(distribution) ** steps, size)
        value = np.arange(size)
        value = np.where(value < size // 2, value, value - size) * step
        keep = value > e
        best = max(best, float(np.sum(np.maximum(total[keep], 0) * -np.expm1(e - value[keep]))))
    assert best <= whole.delta(e) <= best * 1.1, (best, whole.delta(e))


@pytest.mark.parametrize(("sampled", "agents"), [(1, 10), (5, 10), (9, 10)])
def test_participation(sampled, agents):
    """One round is a visible coin and then the local release; two rounds, two coins."""
    local, rho, mu = gaussian(1.0), sampled / agents, 1.0
    once = participation(local, agents=agents, sampled=sampled, rounds=1)
    twice = participation(local, agents=agents, sampled=sampled, rounds=2)
    for e in (0.5, 1.0, 2.0):
        close_above(once.delta(e), rho * stick(mu, e), 0.02)
        true = rho**2 * stick(mu * math.sqrt(2), e) + 2 * rho * (1 - rho) * stick(mu, e)
        close_above(twice.delta(e), true, 0.02)
    realised = once.compose(participation(local, agents=1, sampled=1, rounds=1))
    true = rho * stick(math.sqrt(2), 1.0) + (1 - rho) * stick(1.0, 1.0)
    close_above(realised.delta(1.0), true, 0.02)


def test_no_privacy_absorbs_everything():
    lost = pure(0.1).compose(none(), gaussian(5.0))
    assert lost.epsilon(0.5) == math.inf
    assert not lost.is_private
    assert lost.repeat(2).epsilon(0.5) == math.inf


def test_unlike_neighbours_do_not_add_up():
    poisson = subsampled_gaussian(1.0, population=10, batch_size=2, sampling="poisson")
    with pytest.raises(InvalidArgument):
        poisson.compose(gaussian(1.0))
    assert Guarantee.from_dict(poisson.to_dict()) == poisson


@pytest.mark.parametrize("steps", [1, 20])
def test_calibrated_gaussian_noise_meets_its_budget(steps):
    z = gaussian_noise_multiplier(Budget(0.7, 1e-6), steps)
    assert stick(math.sqrt(steps) / z, 0.7) <= 1e-6 * (1 + 1e-9)
    assert stick(math.sqrt(steps) / z * 1.001, 0.7) > 1e-6


def test_mixed_kinds_add_up():
    """A pure release beside a Gaussian: the mixture of two Gaussian profiles."""
    mu, e0 = 0.5, 0.4
    both = gaussian(1 / mu).compose(pure(e0))
    p = math.exp(e0) / (1 + math.exp(e0))
    for e in (0.6, 1.0, 2.0):
        loss = np.linspace(mu * mu / 2 - 10 * mu, mu * mu / 2 + 10 * mu, 400_001)
        weight = stats.norm.pdf(loss, mu * mu / 2, mu) * (loss[1] - loss[0])
        true = sum(
            w * float(np.sum(weight * np.maximum(0.0, -np.expm1(e - loss - s))))
            for s, w in ((e0, p), (-e0, 1 - p))
        )
        close_above(both.delta(e), true, 0.02)
