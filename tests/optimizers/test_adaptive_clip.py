"""clip_norm="adaptive": the joint query, its distribution and sensitivity; what it refuses."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget, InvalidArgument, Ledger, private_minimize
from riemdp.optimizers import plan_optimizer
from tests.seam import Gradients
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-5)
SPACE = riemdp.Euclidean(3)
PROBLEM = riemdp.problems.frechet_mean(SPACE)
START = np.zeros(3)
STEP = jnp.asarray(20)  # after the search
RULE = Gradients.AdaptiveClip(2, 40.0, 0.8, 5.0, 0.9, (2.0, 1.0))


def joint(batches, multiplier=3.0, cls=Gradients.AdaptingGradient):
    return cls.adapting(RULE, batches, multiplier)


def contribution(gradient, record, clip):
    """One record's part of (clipped sum / C, w count), by the library."""
    kernel = Gradients.choose_kernel(PROBLEM, False)
    total, counted = gradient.joint_sum_of(
        kernel, jnp.asarray(START), jnp.asarray(record)[None], jnp.ones(1), jnp.asarray(clip), STEP
    )
    if gradient.scale is None:
        return np.append(np.asarray(total) / clip, RULE.weight * float(counted))
    grid = gradient.sigma * gradient.batches.divisor / gradient.scale
    return np.append(np.asarray(total), float(counted)) * grid


# ------------------------------------------------------------------------------------- the query
@pytest.mark.parametrize("lattice", [True, False])
def test_one_record_moves_the_joint_sum_by_no_more_than_its_sensitivity(lattice):
    rng = np.random.default_rng(1)
    full = joint(Gradients.Batches(1, 1, "full"))
    poisson = joint(Gradients.Batches(1, 1, "poisson"))
    if lattice:
        full, poisson = full.on_lattice(), poisson.on_lattice()
    clip = 1.5
    records = rng.normal(size=(15, 3)) * rng.exponential(size=(15, 1))
    parts = [contribution(full, x, clip) for x in records]
    parts += [contribution(full, np.array(x), clip) for x in ([9.0, 0, 0], [-9.0, 0, 0])]
    parts += [contribution(full, np.full(3, bad), clip) for bad in (np.nan, np.inf, 1e300)]
    assert np.all(np.isfinite(parts))
    lengths = np.linalg.norm(parts, axis=1)
    gaps = np.linalg.norm(np.array(parts)[:, None] - np.array(parts)[None], axis=-1)
    assert lengths.max() <= poisson.sensitivity * (1 + 1e-12)
    assert gaps.max() <= full.sensitivity * (1 + 1e-12)
    assert lengths.max() == pytest.approx(math.sqrt(1 + 0.8**2 / 4))
    # a far record against a near one on the other side: the worst pair in the clip and the count
    near = contribution(full, np.array([-0.5 * clip * (1 - 1e-9), 0, 0]), clip)
    far = contribution(full, np.array([9.0, 0, 0]), clip)
    assert np.linalg.norm(near - far) == pytest.approx(math.sqrt(4 + 0.8**2), rel=1e-6)
    assert np.linalg.norm(near - far) <= full.sensitivity


@Gradients.traced("batches")
class CountForFree(Gradients.AdaptingGradient):
    """A planted fault: the count is answered beside the gradient and not paid for."""

    @property
    def sensitivity(self):
        return self.batches.clips / self.batches.size


def joint_noise(cls, how, step, draws=3000):
    """Noise of answers at C = 0.7 in units of (multiplier x sensitivity), gradients and count."""
    n, z, clip = 50, 3.0, 0.7
    gradient = joint(Gradients.Batches(n, n, how), z, cls)
    kernel = Gradients.choose_kernel(PROBLEM, False)
    middle = math.log(clip)
    found = Gradients.ClipRange(jnp.asarray(middle), jnp.asarray(middle))
    normals = np.random.default_rng(2).normal(size=(draws, 4))
    rule = RULE
    out = []
    answer = jax_answer(gradient, kernel, found, step)
    means, highs = answer(normals)
    # the share is read from the range that followed from it
    share = rule.last - (np.asarray(highs) - middle) / rule.pace[1]
    clips = 1.0 if how == "poisson" else 2.0
    scale = z * clips * math.sqrt(1 + rule.weight**2 / 4) / n
    out = np.column_stack([np.asarray(means) / clip, rule.weight * (share - 0.5)])
    return out / scale


def jax_answer(gradient, kernel, found, step):
    def one(normals):
        total = (jnp.zeros(3), jnp.asarray(0.0))
        mean, after = gradient.adapted_answer(
            kernel, jnp.asarray(START), total, normals, found, jnp.asarray(step)
        )
        return mean, after.high

    return jax.jit(jax.vmap(one))


@pytest.mark.parametrize("how", ["full", "without-replacement", "poisson"])
def test_gradient_and_count_carry_the_noise_of_one_gaussian(how):
    noise = joint_noise(Gradients.AdaptingGradient, how, step=20)
    kept = noise[np.abs(noise[:, 3]) < 1e9]
    inside = kept[_unclipped(kept, how)]
    assert gaussian_p_value(kept[:, :3], 1.0) > ALPHA
    assert np.std(inside[:, 3]) == pytest.approx(np.std(_reference(kept, how)), rel=0.1)
    assert gaussian_p_value(joint_noise(CountForFree, how, step=20)[:, :3], 1.0) < ALPHA


def _limit(how):
    clips = 1.0 if how == "poisson" else 2.0
    return 0.5 * RULE.weight / (3.0 * clips * math.sqrt(1 + RULE.weight**2 / 4) / 50)


def _unclipped(noise, how):
    return np.abs(noise[:, 3]) < _limit(how) * (1 - 1e-9)


def _reference(noise, how):
    """Standard normals within the same limits (a share is moved into [0, 1])."""
    z = np.random.default_rng(7).normal(size=20000)
    return z[np.abs(z) < _limit(how)]


def test_the_search_costs_a_count_and_moves_nothing():
    n, z = 50, 3.0
    gradient = joint(Gradients.Batches(n, n, "full"), z)
    kernel = Gradients.choose_kernel(PROBLEM, False)
    found = Gradients.ClipRange(jnp.asarray(-1.0), jnp.asarray(1.0))
    deviation = z * 1.0 / n  # a count of sensitivity 1
    for normal, below in ((-1.0, False), (1.0, True)):
        for distance in (0.99, 1.01):
            counted = distance * deviation * n * (1.0 if below else -1.0)
            mean, after = gradient.adapted_answer(
                kernel,
                jnp.asarray(START),
                (jnp.ones(3), jnp.asarray(counted)),
                jnp.array([1.0, 1.0, 1.0, -normal]),
                found,
                jnp.asarray(0),
            )
            assert not np.any(np.asarray(mean))
            lower_half = float(after.high) == 0.0
            assert lower_half == (below == (distance > 1))


# -------------------------------------------------------------------------------------- the runs
def cloud(n=1500, unit=1.0):
    return unit * (np.random.default_rng(0).normal(size=(n, 3)) + np.array([3.0, 0.0, -1.0]))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("optimizer", [DPRGD, DPRSGD])
def test_it_needs_no_unit(unit, optimizer):
    X = cloud(unit=unit)
    made = optimizer(steps=20, learning_rate=0.25, clip_norm="adaptive")
    result = private_minimize(PROBLEM, X, START, made, BUDGET, rng=1)
    assert np.linalg.norm(np.asarray(result.value) - X.mean(0)) < 0.6 * unit
    assert 0.3 * unit < result.details["clip_norm"] < 30 * unit
    assert result.sigma == pytest.approx(
        plan_optimizer(PROBLEM, 1500, made, BUDGET).sigma * result.details["clip_norm"]
    )
    assert result.steps == 27
    assert 0.99 < result.guarantee.epsilon(1e-5) <= 1.0 * (1 + 1e-9)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_the_stated_guarantee_is_that_of_all_steps(sampling):
    made = DPRSGD(steps=20, batch_size=300, clip_norm="adaptive", sampling=sampling)
    plan = plan_optimizer(PROBLEM, 1500, made, BUDGET)
    expected = riemdp.privacy.subsampled_gaussian(
        plan.noise_multiplier, population=1500, batch_size=300, steps=27, sampling=sampling
    )
    assert plan.guarantee().epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5))
    norm = math.sqrt(1 + plan.gradient.adaptive.weight**2 / 4)
    clips = 1.0 if sampling == "poisson" else 2.0
    assert plan.sigma >= plan.noise_multiplier * clips * norm / 300
    assert plan.sensitivity == pytest.approx(clips * norm / 300)
    assert "found on the way" in str(plan)


def test_what_is_refused_is_refused_from_public_numbers():
    with Ledger(BUDGET) as ledger:
        for x in (cloud(30), np.full((30, 3), np.nan)):
            made = DPRGD(steps=20, learning_rate=0.25, clip_norm="adaptive")
            with pytest.raises(InvalidArgument, match=r"`clip_norm`.*too few.*Nothing was spent"):
                private_minimize(PROBLEM, x, START, made, BUDGET)
        with pytest.raises(InvalidArgument, match="noise_std"):
            private_minimize(PROBLEM, cloud(), START, DPRGD(clip_norm="adaptive"), noise_std=0.1)
        assert ledger.charges == 0
    with pytest.raises(InvalidArgument, match="clip_norm"):
        DPRGD(clip_norm="adaptive", sensitivity="domain")
    with pytest.raises(InvalidArgument, match="clip_norm"):
        DPRGD(clip_norm="adaptive", output="uniform")
    with pytest.raises(InvalidArgument, match="clip_norm"):
        DPRSVRG(clip_norm="adaptive")
    with pytest.raises(InvalidArgument, match="clip_norm"):
        DPRGD(clip_norm="automatic")
    with pytest.raises(InvalidArgument, match="local"):
        riemdp.PriRFed(PROBLEM, DPRGD(steps=1, clip_norm="adaptive"), rounds=2, agents_per_round=1)
