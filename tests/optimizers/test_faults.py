"""Moments of single steps, exactly, with planted faults that the same tests must catch (attacks on
runs: `test_audit`).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, DPRSVRG, Problem, problems
from riemdp.manifolds import Euclidean, Product, SPDLogEuclidean
from riemdp.optimizers import plan_optimizer
from riemdp.randomness import NoiseSource
from tests.seam import Gradients, replicate
from tests.statistical import ALPHA, mean_p_value

D, N, B, STEPS, RATE, CLIP, SIGMA, TRIALS = 2, 4, 2, 3, 0.1, 1.0, 0.5, 20000
FLAT = Euclidean(D)
PROBLEM = problems.frechet_mean(FLAT)


def neighbours():
    """Records at the start, except the last: far out on either side (gradient 2e3, so that clipping
    decides).
    """
    x = np.zeros((N, D))
    y = np.zeros((N, D))
    x[-1, 0], y[-1, 0] = 1e3, -1e3
    return x, y


def scores(optimizer, kind=Gradients.NoisyGradient, data=None, seed=1, sigma=SIGMA):
    pair = neighbours() if data is None else data
    out = []
    for i, x in enumerate(pair):
        values, claim = replicate(
            PROBLEM,
            x,
            np.zeros(D),
            optimizer,
            noise_std=sigma,
            repetitions=TRIALS,
            rng=seed + i,
            kind=kind,
        )
        out.append(np.asarray(values)[:, 0])
    return out[0], out[1], claim


LINEAR = Problem(
    FLAT, lambda w, z: jnp.sum(w * z)
)  # its gradient is the record itself, wherever w is


def test_batches_are_fresh_at_every_step_and_frozen_ones_are_caught(monkeypatch):
    """One secret batch used at all T steps gives the record T times or never: variance T^2 p(1-p)
    C^2 instead of T p(1-p) C^2.
    """
    kind = DPRSGD(12, 1, RATE, CLIP)
    x = neighbours()[0]
    expected = 12 * RATE**2 * (SIGMA**2 + CLIP**2 * 0.25 * 0.75)

    def relative_variance():
        values, _ = replicate(
            LINEAR,
            x,
            np.zeros(D),
            kind,
            noise_std=SIGMA,
            repetitions=TRIALS,
            rng=3,
        )
        return np.var(np.asarray(values)[:, 0]) / expected

    tolerance = 6 * np.sqrt(2 / TRIALS)
    assert abs(relative_variance() - 1) < tolerance
    fresh = NoiseSource.subsets

    def frozen(source, population, size, count):
        return np.repeat(fresh(source, population, size, count // 12), 12, axis=0)

    monkeypatch.setattr(NoiseSource, "subsets", frozen)
    assert relative_variance() > 1 + tolerance


# ------------------------------------------------------------------------------------------------
# moments, exactly
def test_poisson_uses_the_expected_size_and_the_realised_one_is_caught():
    """E[step] = -rate * (q n C) / b * direction = -rate * C when every record pulls with norm C,
    whatever size came.
    """
    data = np.tile([1e3, 0.0], (N, 1))
    kind = DPRSGD(1, B, RATE, CLIP, sampling="poisson")
    right, _, claim = scores(kind, data=(data, data))
    assert claim.adjacency == "add-or-remove-one"
    assert mean_p_value(right, RATE * CLIP) > ALPHA
    expected = RATE**2 * (SIGMA**2 + N * 0.25 * (CLIP / B) ** 2)
    assert abs(np.var(right) / expected - 1) < 6 * np.sqrt(2 / TRIALS)

    @Gradients.traced("batches")
    class ByRealisedSize(Gradients.NoisyGradient):
        def sum_of(self, kernel, state, batch, present, center):
            total = Gradients.NoisyGradient.sum_of(self, kernel, state, batch, present, center)
            return total * B / jnp.maximum(1.0, jnp.sum(present))

    wrong, _, _ = scores(kind, ByRealisedSize, data=(data, data))
    assert abs(np.var(wrong) / expected - 1) > 6 * np.sqrt(2 / TRIALS)


def test_poisson_batches_hold_each_record_independently_and_nothing_is_cut():
    from riemdp import noise_source

    n, rate, count = 12, 0.3, 40000
    indices, mask = Gradients.poisson_batches(noise_source(3), n, rate, count)
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
    _, one = Gradients.poisson_batches(noise_source(4), 3, 0.999999, 50)
    assert one.sum() == 150


def test_every_part_of_a_product_is_clipped():
    """The norm is that of the whole tuple; clipping only its first part lets the second one move
    without bound.
    """
    m = Product(Euclidean(1), Euclidean(1))
    data = (np.zeros((3, 1)), np.array([[0.0], [0.0], [1e3]]))
    start = (np.zeros(1), np.zeros(1))
    right, _ = replicate(
        problems.frechet_mean(m),
        data,
        start,
        DPRGD(1, 1.0, 1.0),
        noise_std=0.0,
        repetitions=1,
        rng=0,
    )
    assert float(right[1][0, 0]) == pytest.approx(1 / 3)

    @Gradients.traced("batches")
    class FirstLeafOnly(Gradients.NoisyGradient):
        def sum_of(self, kernel, state, batch, present, center):
            y = kernel.coordinates(state, batch)
            weights = self.weights(jnp.abs(y[:, 0]), self.clip) * present
            return jnp.sum(weights[:, None] * y, axis=0)

    wrong, _ = replicate(
        problems.frechet_mean(m),
        data,
        start,
        DPRGD(1, 1.0, 1.0),
        noise_std=0.0,
        repetitions=1,
        rng=0,
        kind=FirstLeafOnly,
    )
    assert float(wrong[1][0, 0]) > 100


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_a_gradient_that_is_not_finite_counts_as_zero(bad):
    x = np.zeros((3, D))
    x[1] = bad
    values, _ = replicate(
        PROBLEM,
        x,
        np.zeros(D),
        DPRGD(1, 1.0, 1.0),
        noise_std=0.0,
        repetitions=1,
        rng=0,
    )
    assert np.all(np.isfinite(values))
    assert np.linalg.norm(values) <= 1 / 3 + 1e-12


def test_clipping_is_in_the_riemannian_norm():
    """A record's contribution at a far base point has Riemannian, not Frobenius, norm C."""
    m = SPDLogEuclidean(2)
    start = np.diag([100.0, 0.01])
    x = np.array([np.eye(2)])
    got, _ = replicate(
        problems.frechet_mean(m),
        x,
        start,
        DPRGD(1, 1.0, 0.25),
        noise_std=0.0,
        repetitions=1,
        rng=0,
    )
    assert float(m.dist(start, got[0])) == pytest.approx(0.25, rel=1e-9)


# ------------------------------------------------------------------------------------------------
# DP-RSVRG
def inner_contribution(c_bound, record, anchored=True):
    """Contribution of one record to an inner step on R^2, at distance 1 from the anchor."""
    quartic = Problem(FLAT, lambda w, z: jnp.sum((w - z) ** 4))
    # c_t = min(2 C1, L d) with d = 1; as published every gradient is clipped to C1.
    optimizer = DPRSVRG(
        1,
        2,
        0.1,
        c_bound if not anchored else 100.0,
        smoothness=c_bound,
        variant="anchored" if anchored else "as-published",
    )
    plan = plan_optimizer(quartic, 1, optimizer, None, noise_std=0.0)
    data = Gradients.PrivateRecords(jnp.asarray(record)[None])
    run = plan.bind(quartic, data, jnp.zeros(2))
    anchor = Gradients.Anchor(jnp.zeros(2), jnp.zeros(2))
    row = Gradients.Row(jnp.zeros(2), None, None, 1)
    out = run.work.step.direction(jnp.array([1.0, 0.0]), anchor, run.work.data, row)
    return float(jnp.linalg.norm(out))


def test_variance_reduced_contributions_stay_within_the_bound():
    # A difference clipped to c_t, or a difference of two clipped gradients.
    assert inner_contribution(0.3, [50.0, 20.0]) == pytest.approx(0.3, rel=1e-12)
    assert inner_contribution(0.3, [np.nan, 0.0]) == 0.0
    assert inner_contribution(0.3, [50.0, 20.0], anchored=False) <= 0.6


@pytest.mark.parametrize("variant", ["anchored", "as-published"])
def test_variance_reduced_accounting_counts_every_query(variant):
    from riemdp import Budget, gaussian, subsampled_gaussian

    optimizer = DPRSVRG(3, 7, 0.1, 1.0, batch_size=2, variant=variant, restarts=2, smoothness=2.0)
    plan = plan_optimizer(LINEAR, 50, optimizer, Budget(1.0, 1e-5))
    settings, split = plan.settings, plan.split
    fulls, inners = (6, 36) if variant == "anchored" else (42, 42)
    assert settings.total_queries == (fulls, inners)
    expected = gaussian(9.0, fulls).compose(
        subsampled_gaussian(1.3, population=50, batch_size=2, steps=inners)
    )
    given = settings.guarantee(type(split)(9.0, 1.3))
    assert given.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-9)
    assert 0.98 <= settings.guarantee(split).epsilon(1e-5) <= 1.0
    if variant == "anchored":
        assert plan.sigma >= split.z1 * 2 / 50
        assert plan.details["inner_noise"] >= split.z2 * 2 / 2
    else:  # sigma^2 splits into what the two queries need
        assert plan.sigma**2 >= (split.z1 * 2 / 50) ** 2 + (split.z2 * 4 / 2) ** 2
