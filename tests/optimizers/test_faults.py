"""Audits of the optimisers on worst-case neighbours, and planted faults that the same audits must catch.

The neighbours differ in one record that pulls as far as the clip allows in opposite directions; the score is the displacement
along that direction. The claimed mu is compared with a lower bound at 1e-6 (Clopper-Pearson on one half of the trials, threshold
chosen on the other).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from riemdp import DPRGD, DPRSGD, DPRSVRG, Problem, problems
from riemdp.manifolds import Euclidean, Product, SPDLogEuclidean
from riemdp.optimizers import _batches, _kernels, _loop, _svrg
from riemdp.optimizers._minimize import replicate
from tests.statistical import ALPHA, mean_p_value

D, N, B, STEPS, RATE, CLIP, SIGMA, TRIALS = 2, 4, 2, 3, 0.1, 1.0, 0.5, 20000
FLAT = Euclidean(D)
PROBLEM = problems.frechet_mean(FLAT)


def neighbours():
    """Records at the start, except the last: far out on either side (gradient 2e3, so that clipping decides)."""
    x = np.zeros((N, D))
    y = np.zeros((N, D))
    x[-1, 0], y[-1, 0] = 1e3, -1e3
    return x, y


def scores(optimizer, rules=None, data=None, seed=1, sigma=SIGMA):
    pair = neighbours() if data is None else data
    out = []
    for i, x in enumerate(pair):
        values, claim = replicate(
            PROBLEM, x, np.zeros(D), optimizer, noise_std=sigma, repetitions=TRIALS, rng=seed + i, rules=rules
        )
        out.append(np.asarray(values)[:, 0])
    return out[0], out[1], claim


def mu_lower_bound(a, b, alpha=ALPHA):
    """Lower bound on mu of mu-GDP from scores under the two neighbours; threshold chosen on the first half only."""
    half = len(a) // 2
    grid = np.quantile(np.concatenate([a[:half], b[:half]]), np.linspace(0.01, 0.99, 99))
    fpr = np.array([np.mean(b[:half] > t) for t in grid]).clip(1e-3, 1 - 1e-3)
    fnr = np.array([np.mean(a[:half] <= t) for t in grid]).clip(1e-3, 1 - 1e-3)
    t = grid[np.argmax(stats.norm.ppf(1 - fpr) - stats.norm.ppf(fnr))]
    upper = [stats.beta.ppf(1 - alpha / 2, k + 1, half - k) for k in (np.sum(b[half:] > t), np.sum(a[half:] <= t))]
    return stats.norm.ppf(1 - upper[0]) - stats.norm.ppf(upper[1])


def claimed_mu(claim):
    """mu of the Gaussian with the same epsilon at delta = 1e-3 (exact for full batches)."""
    low, high = 1e-3, 50.0
    target = claim.epsilon(1e-3)
    for _ in range(60):
        mu = (low + high) / 2
        delta = stats.norm.cdf(mu / 2 - target / mu) - np.exp(target) * stats.norm.cdf(-mu / 2 - target / mu)
        low, high = (mu, high) if delta < 1e-3 else (low, mu)
    return mu


# ------------------------------------------------------------------------------------------------ sound, and sharp
@pytest.mark.parametrize(
    "optimizer",
    [DPRGD(STEPS, RATE, CLIP), DPRSGD(STEPS, N, RATE, CLIP), DPRSGD(STEPS, B, RATE, CLIP)],
    ids=["full", "batch-of-all", "without-replacement"],
)
def test_audit_stays_below_the_claim_and_near_it(optimizer):
    a, b, claim = scores(optimizer)
    low = mu_lower_bound(a, b)
    assert low <= claimed_mu(claim)
    assert low >= (0.8 if optimizer.__dict__.get("batch_size") != B else 0.2) * claimed_mu(claim)


def realised_denominator(kernel, state, total, denominator, sigma, z):
    return jax.tree.map(lambda g, e: g / (0.25 * denominator) + sigma * e, total, kernel.noise(state, z))


def noise_too_small(kernel, state, total, denominator, sigma, z):
    return _loop.noisy_mean(kernel, state, total, denominator, 0.66 * sigma, z)


def mean_noise_on_a_sum(kernel, state, total, denominator, sigma, z):
    return jax.tree.map(lambda g, e: g + sigma * e, total, kernel.noise(state, z))


def no_clipping(norms, clip):
    return jnp.ones_like(norms)


def inverted_clip(norms, clip):
    return jnp.minimum(norms / clip, 1.0)  # the printed formula: does nothing to a long gradient


def clip_after_averaging(kernel, state, batch, mask, clip, factors):
    """One clip of the mean: the bound of a replaced record becomes 2 C instead of 2 C / n."""
    _, parts = kernel.gradients(state, batch)
    total = kernel.combine(state, parts, mask)
    length = jnp.linalg.norm(total) / mask.shape[0]
    return total * jnp.minimum(1.0, clip / length)


@pytest.mark.parametrize(
    "rules",
    [
        _loop.Rules(noisy_mean=noise_too_small), _loop.Rules(noisy_mean=mean_noise_on_a_sum),
        _loop.Rules(noisy_mean=realised_denominator), _loop.Rules(clip_factors=no_clipping),
        _loop.Rules(clip_factors=inverted_clip), _loop.Rules(clipped_sum=clip_after_averaging),
    ],
    ids=["noise-0.66", "mean-noise-on-sum", "realised-denominator", "no-clip", "inverted-clip", "clip-after-averaging"],
)  # fmt: skip
def test_audit_catches_planted_faults(rules):
    a, b, claim = scores(DPRGD(STEPS, RATE, CLIP), rules=rules)
    assert mu_lower_bound(a, b) > claimed_mu(claim)


LINEAR = Problem(FLAT, lambda w, z: jnp.sum(w * z))  # its gradient is the record itself, wherever w is


def test_batches_are_fresh_at_every_step_and_frozen_ones_are_caught(monkeypatch):
    """One secret batch used at all T steps gives the record T times or never: variance T^2 p(1-p) C^2 instead of T p(1-p) C^2."""
    kind = DPRSGD(12, 1, RATE, CLIP)
    x = neighbours()[0]
    expected = 12 * RATE**2 * (SIGMA**2 + CLIP**2 * 0.25 * 0.75)

    def relative_variance():
        values, _ = replicate(LINEAR, x, np.zeros(D), kind, noise_std=SIGMA, repetitions=TRIALS, rng=3)
        return np.var(np.asarray(values)[:, 0]) / expected

    tolerance = 6 * np.sqrt(2 / TRIALS)
    assert abs(relative_variance() - 1) < tolerance
    fresh = _batches.subsets

    def frozen(source, population, size, count):
        return np.repeat(fresh(source, population, size, count // 12), 12, axis=0)

    monkeypatch.setattr(_batches, "subsets", frozen)
    assert relative_variance() > 1 + tolerance


# ------------------------------------------------------------------------------------------------ moments, exactly
def test_poisson_uses_the_expected_size_and_the_realised_one_is_caught():
    """E[step] = -rate * (q n C) / b * direction = -rate * C when every record pulls with norm C, whatever size came."""
    data = np.tile([1e3, 0.0], (N, 1))
    kind = DPRSGD(1, B, RATE, CLIP, sampling="poisson")
    right, _, claim = scores(kind, data=(data, data))
    assert claim.adjacency == "add-or-remove-one"
    assert mean_p_value(right, RATE * CLIP) > ALPHA
    expected = RATE**2 * (SIGMA**2 + N * 0.25 * (CLIP / B) ** 2)
    assert abs(np.var(right) / expected - 1) < 6 * np.sqrt(2 / TRIALS)

    def by_realised_size(kernel, state, batch, mask, clip, factors):
        total = _loop.clipped_sum(kernel, state, batch, mask, clip, factors)
        return total * B / jnp.maximum(1.0, jnp.sum(mask))

    wrong, _, _ = scores(kind, data=(data, data), rules=_loop.Rules(clipped_sum=by_realised_size))
    assert abs(np.var(wrong) / expected - 1) > 6 * np.sqrt(2 / TRIALS)


def test_poisson_batches_hold_each_record_independently_and_nothing_is_cut():
    from riemdp import noise_source

    n, rate, count = 12, 0.3, 40000
    indices, mask = _batches.poisson_batches(noise_source(3), n, rate, count)
    dense = np.zeros((count, n))
    np.add.at(dense, (np.arange(count)[:, None], indices), mask)
    assert dense.max() == 1.0
    frequency = dense.mean(axis=0)
    assert np.all(np.abs(frequency - rate) < 5.5 * np.sqrt(rate * (1 - rate) / count))
    sizes = dense.sum(axis=1)
    assert abs(sizes.var() / (n * rate * (1 - rate)) - 1) < 5.5 * np.sqrt(2 / count) * 1.1
    correlation = np.corrcoef(dense.T)
    assert np.abs(correlation - np.eye(n)).max() < 5.5 / np.sqrt(count)
    # A batch larger than the planned width widens the arrays instead of being cut.
    _, one = _batches.poisson_batches(noise_source(4), 3, 0.999999, 50)
    assert one.sum() == 150


def test_every_part_of_a_product_is_clipped():
    """The norm is that of the whole tuple; clipping only its first part lets the second one move without bound."""
    m = Product(Euclidean(1), Euclidean(1))
    data = (np.zeros((3, 1)), np.array([[0.0], [0.0], [1e3]]))
    start = (np.zeros(1), np.zeros(1))
    right, _ = replicate(problems.frechet_mean(m), data, start, DPRGD(1, 1.0, 1.0), noise_std=0.0, repetitions=1, rng=0)
    assert float(right[1][0, 0]) == pytest.approx(1 / 3)

    def first_leaf_only(kernel, state, batch, mask, clip, factors):
        norms, parts = kernel.gradients(state, batch)
        first = kernel.combine(state, parts, factors(norms, clip) * mask)
        return (first[0], jnp.sum(parts[1], axis=0))

    wrong, _ = replicate(
        problems.frechet_mean(m), data, start, DPRGD(1, 1.0, 1.0), noise_std=0.0, repetitions=1, rng=0,
        rules=_loop.Rules(clipped_sum=first_leaf_only),
    )  # fmt: skip
    assert float(wrong[1][0, 0]) > 100


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_a_gradient_that_is_not_finite_counts_as_zero(bad):
    x = np.zeros((3, D))
    x[1] = bad
    values, _ = replicate(PROBLEM, x, np.zeros(D), DPRGD(1, 1.0, 1.0), noise_std=0.0, repetitions=1, rng=0)
    assert np.all(np.isfinite(values))
    assert np.linalg.norm(values) <= 1 / 3 + 1e-12


def test_clipping_is_in_the_riemannian_norm():
    """A record's contribution at a far base point has Riemannian, not Frobenius, norm C."""
    m = SPDLogEuclidean(2)
    start = np.diag([100.0, 0.01])
    x = np.array([np.eye(2)])
    got, _ = replicate(problems.frechet_mean(m), x, start, DPRGD(1, 1.0, 0.25), noise_std=0.0, repetitions=1, rng=0)
    assert float(m.dist(start, got[0])) == pytest.approx(0.25, rel=1e-9)


# ------------------------------------------------------------------------------------------------ DP-RSVRG
def inner_contribution(c_bound, record, anchored=True):
    """Noise-free contribution of one record to an inner step on R^2, at distance 1 from the anchor."""
    quartic = Problem(FLAT, lambda w, z: jnp.sum((w - z) ** 4))
    kernel = _kernels.Generic(FLAT, _kernels.gradient_function(quartic), False)
    out = _loop.clipped_differences(
        _loop.RULES, kernel, jnp.array([1.0, 0.0]), jnp.zeros(2), jnp.asarray(record)[None], c_bound, anchored
    )
    return float(jnp.linalg.norm(out))


def test_variance_reduced_contributions_stay_within_the_bound():
    assert inner_contribution(0.3, [50.0, 20.0]) == pytest.approx(0.3, rel=1e-12)  # a difference clipped to c_t
    assert inner_contribution(0.3, [np.nan, 0.0]) == 0.0
    assert inner_contribution(0.3, [50.0, 20.0], anchored=False) <= 0.6  # a difference of clipped gradients


@pytest.mark.parametrize("variant", ["anchored", "as-published"])
def test_variance_reduced_accounting_counts_every_query(variant):
    from riemdp import Budget, gaussian, subsampled_gaussian

    optimizer = DPRSVRG(3, 7, 0.1, 1.0, batch_size=2, variant=variant, restarts=2)
    shape, _ = _svrg._shape_of(PROBLEM, 50, optimizer, Budget(1.0, 1e-5), None)
    fulls, inners = (6, 36) if variant == "anchored" else (42, 42)
    assert shape.queries == (fulls, inners)
    expected = gaussian(9.0, fulls).compose(subsampled_gaussian(1.3, population=50, batch_size=2, steps=inners))
    assert shape.total(9.0, 1.3).epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-9)
    split = _svrg.choose_split(shape, Budget(1.0, 1e-5), None)
    assert 0.98 <= shape.total(split.z1, split.z2).epsilon(1e-5) <= 1.0
    if variant == "anchored":
        assert split.sigma_full >= split.z1 * 2 / 50
        assert split.scale >= split.z2 * 2 / 2
    else:  # sigma^2 splits into what the two queries need
        assert split.scale**2 >= (split.z1 * 2 / 50) ** 2 + (split.z2 * 4 / 2) ** 2
