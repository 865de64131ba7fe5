"""Random allocation: the distribution of its batches, the whole transcript under attack, whole
epochs charged; each with planted faults.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from riemdp import (
    DPRSGD,
    Budget,
    InvalidArgument,
    Ledger,
    Problem,
    noise_source,
    private_minimize,
)
from riemdp.manifolds import Euclidean
from riemdp.optimizers import plan_optimizer
from riemdp.privacy import allocated_gaussian
from tests.optimizers import audits
from tests.seam import Gradients, original, plant, replicate
from tests.statistical import ALPHA

LINE = Euclidean(1)
LINEAR = Problem(LINE, lambda w, z: jnp.sum(w * z), smoothness=1.0)  # the gradient is the record


def settings(steps, batch_size, rate=1.0, clip=1.0, **more):
    return DPRSGD(steps, batch_size, rate, clip, sampling="allocation", **more)


# ------------------------------------------------------------------------------------------------
# the distribution of the batches
def assignments(indices, mask, n, steps, epochs):
    """The batch of every record in every epoch, or None unless each record is in exactly one."""
    dense = np.zeros((epochs * steps, n))
    np.add.at(dense, (np.arange(epochs * steps)[:, None], indices), mask)
    dense = dense.reshape(epochs, steps, n)
    exact = set(np.unique(dense)) <= {0.0, 1.0} and np.all(dense.sum(axis=1) == 1.0)
    return np.argmax(dense, axis=1) if exact else None


def distribution_p_value(seed, n=3, steps=3, epochs=40_000):
    """Chi-square against the enumerated distribution: all assignments of the n records in an epoch
    are equally likely, and so are all pairs of the assignments of a record in successive epochs.
    """
    indices, mask = original("allocated batches")(noise_source(seed), n, steps, epochs)
    found = assignments(indices, mask, n, steps, epochs)
    if found is None:
        return 0.0
    code = found @ steps ** np.arange(n)
    joint = stats.chisquare(np.bincount(code, minlength=steps**n)).pvalue
    pairs = code[:-1:2] * steps**n + code[1::2]
    after = stats.chisquare(np.bincount(pairs, minlength=steps ** (2 * n))).pvalue
    return min(1.0, 2 * min(joint, after))


def kept(fresh):
    """The same assignment in all epochs."""

    def batches(source, n, steps, epochs, expected=None):
        indices, mask = fresh(source, n, steps, 1)
        return np.tile(indices, (epochs, 1)), np.tile(mask, (epochs, 1))

    return batches


def kept_in_a_run(fresh, length):
    """The same assignment in `length` epochs after one another."""

    def batches(source, n, steps, epochs, expected=None):
        drawn = fresh(source, n, steps, epochs // length)
        runs = (x.reshape(epochs // length, steps, -1) for x in drawn)
        return tuple(np.repeat(x, length, axis=0).reshape(epochs * steps, -1) for x in runs)

    return batches


def twice(fresh):
    """The first record is in two batches of an epoch."""

    def batches(source, n, steps, epochs, expected=None):
        indices, mask = fresh(source, n, steps, epochs)
        other = (np.argmax(np.any((indices == 0) & (mask > 0), axis=1)) + 1) % steps
        extra, present = np.zeros((2, len(indices), 1))
        present[other::steps] = 1.0
        return np.append(indices, extra.astype(np.int64), 1), np.append(mask, present, 1)

    return batches


def shuffled(fresh):
    """Batches of equal size, from a shuffled list."""

    def batches(source, n, steps, epochs, expected=None):
        order = np.argsort(source.uniforms((epochs, n)), axis=1)
        indices = order.reshape(epochs * steps, n // steps)
        return indices, np.ones(indices.shape)

    return batches


def leaning(fresh):
    """The first batch is a tenth more likely than the others."""

    def batches(source, n, steps, epochs, expected=None):
        indices, mask = fresh(source, n, 10 * steps + 1, epochs)
        found = assignments(indices, mask, n, 10 * steps + 1, epochs) % steps
        return np.tile(np.arange(n), (epochs * steps, 1)), (
            found[:, None, :] == np.arange(steps)[:, None]
        ).reshape(epochs * steps, n).astype(float)

    return batches


def test_every_assignment_is_equally_likely_and_epochs_are_independent():
    assert distribution_p_value(1) > ALPHA


@pytest.mark.parametrize("fault", [kept, twice, shuffled, leaning])
def test_planted_assignments_are_caught(fault, monkeypatch):
    plant(monkeypatch, "allocated batches", fault(original("allocated batches")))
    assert distribution_p_value(1) < ALPHA


def test_a_batch_wider_than_planned_is_not_cut(monkeypatch):
    monkeypatch.setattr(
        "riemdp.randomness.NoiseSource.integers", lambda *_: np.zeros((2, 500), dtype=np.int64)
    )
    indices, mask = original("allocated batches")(noise_source(1), 500, 10, 2)
    assert np.array_equal(assignments(indices, mask, 500, 10, 2), np.zeros((2, 500)))
    assert mask.sum() == 1000


# ------------------------------------------------------------------------------------------------
# what a run reads
def test_a_run_reads_every_record_once_an_epoch_at_a_step_of_its_own():
    """One record pulls, and the rate of step i is 2^i: the end of the run says in which steps."""
    t, epochs, runs = 4, 2, 20_000
    data = np.zeros((8, 1))
    data[3] = 1.0
    run = settings(t * epochs, 2, rate=lambda step: 2.0**step)
    values, _ = replicate(LINEAR, data, np.zeros(1), run, noise_std=0.0, repetitions=runs, rng=3)
    taken = np.rint(-np.asarray(values)[:, 0] * 8 / t).astype(np.int64)  # divided by n / t
    where = {2**i + 2**j: t * i + j - t for i, j in itertools.product(range(t), range(t, 2 * t))}
    counts = np.bincount([where[x] for x in taken], minlength=t * t)
    assert stats.chisquare(counts).pvalue > ALPHA


def test_the_sum_is_divided_by_the_public_expected_size():
    """Seven records in three batches, of which two have left: n / t = 7 / 3 stays the divisor."""
    run = settings(3, 3, population=7)
    values, _ = replicate(
        LINEAR,
        np.ones((5, 1)),
        np.zeros(1),
        run,
        noise_std=0.0,
        repetitions=50,
        rng=1,
    )
    np.testing.assert_allclose(values, -5 * 3 / 7, rtol=1e-14)


# ------------------------------------------------------------------------------------------------
# the transcript under attack
def transcripts(plan, there, epochs, seed):
    """The answers of all steps of many epochs, in units of what the record adds to one, through
    the draws and the query of a run; the worst pair: the record pulls along the line, the others
    nowhere.
    """
    n, t = plan.n, plan.gradient.batches.epoch
    data = np.zeros((n, 1))
    data[0] = 1e6 if there else 0.0
    run = plan.bind(LINEAR, Gradients.PrivateRecords(jnp.asarray(data)), np.zeros(1))
    draws = Gradients.PrivateDraws(
        noise_source(seed), Gradients.Account(), plan.guarantee(), 1, n, epochs
    )
    (drawn,) = draws.take([Gradients.Query(plan.gradient, t, t)], lambda: None)
    step, state = run.work.step, run.work.step.kernel.start(jnp.zeros(1))

    @jax.jit
    @jax.vmap
    def answer(normals, indices, mask):
        return step.direction(state, None, run.work.data, Gradients.Row(normals, indices, mask, 0))

    return np.asarray(answer(*drawn)).reshape(epochs, t) * n / t


def log_ratio(y, z, epochs):
    """The exact log likelihood ratio of transcripts of `epochs` epochs each."""
    t = y.shape[-1]
    one = special.logsumexp((y - 0.5) / z**2, axis=-1) - math.log(t)
    return one.reshape(-1, epochs).sum(axis=1)


def log_ratio_of_one_bin(y, z, epochs):
    """The same for someone who knows that a record keeps its step."""
    t = y.shape[-1]
    steps = (y.reshape(-1, epochs, t) - 0.5).sum(axis=1) / z**2
    return special.logsumexp(steps, axis=-1) - math.log(t)


def attack(t, epochs, z, score=log_ratio, claim=None, trials=15_000):
    n = 4 * t
    plan = plan_optimizer(LINEAR, n, settings(t * epochs, 4), None, noise_std=z * t / n)
    assert plan.noise_multiplier == pytest.approx(z)
    found = [transcripts(plan, there, epochs * trials, seed) for seed, there in ((1, 1), (2, 0))]
    scores = [score(y, z, epochs) for y in found]
    return audits.excess(*scores, claim or plan.guarantee())


@pytest.mark.parametrize(("t", "epochs", "z"), [(2, 1, 0.6), (3, 2, 0.7)])
def test_the_exact_likelihood_ratio_of_the_transcript_does_not_refute(t, epochs, z):
    """Nor does it miss by more than the trials explain: the claim is that of this very pair."""
    assert -0.05 < attack(t, epochs, z, trials=40_000) <= 0


def test_an_accountant_with_a_step_too_many_is_caught():
    assert attack(2, 1, 0.6, claim=allocated_gaussian(0.6, steps=3)) > 0


def test_an_epoch_that_is_not_charged_is_caught():
    assert attack(3, 2, 0.7, claim=allocated_gaussian(0.7, steps=3)) > 0


@pytest.mark.parametrize("fault", [kept, twice])
def test_planted_batches_are_caught_by_the_transcript(fault, monkeypatch):
    """The same order of bins in all epochs of a run; a record in two bins."""
    fresh = original("allocated batches")
    planted = kept_in_a_run(fresh, 3) if fault is kept else fault(fresh)
    plant(monkeypatch, "allocated batches", planted)
    score = log_ratio_of_one_bin if fault is kept else log_ratio
    assert attack(3, 3, 0.7, score) > 0


# ------------------------------------------------------------------------------------------------
# charging
DATA = np.linspace(-1.0, 1.0, 20)[:, None]


def minimize(run, *args, **more):
    return private_minimize(LINEAR, DATA, np.zeros(1), run, *args, **more)


def test_a_run_costs_whole_epochs_and_its_budget_is_met():
    result = minimize(settings(8, 5, 0.1), Budget(2.0, 1e-5), rng=1)
    t, z = result.details["epoch_steps"], result.details["noise_multiplier"]
    assert (t, result.steps, result.details["batch_size"]) == (4, 8, 5)
    assert result.guarantee == allocated_gaussian(z, steps=4, epochs=2)
    assert result.guarantee.adjacency == "add-or-remove-one"
    assert 0.995 * 2.0 <= result.guarantee.epsilon(1e-5) <= 2.0
    assert result.sigma == pytest.approx(z * 1.0 * 4 / 20)
    plan = plan_optimizer(LINEAR, 20, settings(8, 5, 0.1), Budget(2.0, 1e-5))
    assert plan.guarantee(1) == plan.guarantee(4) == allocated_gaussian(z, steps=4)
    assert plan.guarantee(5) == result.guarantee
    # Without a number of steps: whole epochs.
    assert plan_optimizer(LINEAR, 20, settings(None, 6), Budget(2.0, 1e-5)).steps % 4 == 0


@pytest.mark.parametrize("after", [2, 5])
def test_an_interrupted_epoch_is_charged_as_a_whole(after, monkeypatch):
    seen = []
    compiled = original("compiled steps")

    def interrupted(driver, segment, block, row, end):
        seen.append(segment.size)
        assert block.indices.shape[0] == segment.size == 4  # an epoch is one block
        if segment.step + row >= after:
            raise KeyboardInterrupt
        return compiled(driver, segment, block, row, end)

    plant(monkeypatch, "compiled steps", interrupted)
    ledger = Ledger(Budget(10.0, 1e-4))
    run = settings(12, 5, 0.1)
    result = minimize(run, None, noise_std=0.3, rng=1, ledger=ledger)
    assert result.status == "interrupted"
    z = result.details["noise_multiplier"]
    assert z <= 0.3 / (4 / 20) == pytest.approx(z, rel=2e-12)  # never more than the noise pays
    # An epoch whose noise was drawn ahead is charged, too.
    begun = [allocated_gaussian(z, steps=4, epochs=e) for e in range(1, 4)].index(result.guarantee)
    assert begun + 1 >= math.ceil((result.steps + 1) / 4)
    assert ledger.spent == result.guarantee


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"output": "uniform"}, "output.*within an epoch"),
        ({"clip": "adaptive"}, "clip_norm.*whole epochs"),
        ({"sensitivity": "domain"}, "sensitivity"),
        ({"steps": 10}, "`steps` = 10.*give 8 or 12"),
        ({"steps": 3}, "`steps` = 3.*give 4"),
        ({"batch_size": 21}, "batch_size"),
    ],
)
def test_what_has_no_proof_is_refused(keywords, named):
    with pytest.raises(InvalidArgument, match=named):
        minimize(settings(**{"steps": 8, "batch_size": 5} | keywords), Budget(1.0, 1e-5))


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_how_wide_batches_are_follows_from_public_numbers(sampling) -> None:
    """Programs of different widths round differently, and the number of records is private."""
    batches = Gradients.allocation(400, 40)
    if sampling == "poisson":
        batches = Gradients.Batches(400, 40, "poisson")
    widths = set()
    for n in (20, 300, 399, 400, 401, 420):
        drawn = batches.draw(noise_source(n), n, 10)
        assert drawn[1] is not None
        assert drawn[1].sum() == n or sampling == "poisson"
        widths.add(drawn[1].shape[1])
    assert len(widths) == 1
