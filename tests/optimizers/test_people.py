"""`private_minimize(groups=)`: one person moves a gradient by no more than one record does, batches
are batches of people, and how many records anybody has decides nothing that is public.
"""

from __future__ import annotations

import dataclasses
import json
import re

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget, InvalidArgument, Ledger, private_minimize
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.optimizers import plan_optimizer
from riemdp.randomness import noise_source
from riemdp.report import privacy_report
from tests.optimizers.sums import total_of_all
from tests.seam import Gradients

BUDGET = Budget(20.0, 1e-6)
LINE, SPD, SPHERE = riemdp.Euclidean(1), riemdp.SPDAffineInvariant(2), riemdp.Sphere(3)
EIGENVECTOR = riemdp.problems.principal_eigenvector(3)
START = np.ones(3) / np.sqrt(3)
C = 0.8
COMPILED = [0]


def hostile(record, n):
    """The record many times, and what is no number or no point."""
    X = np.tile(record, (n, *[1] * np.ndim(record)))
    X[1::7], X[2::7], X[3::7] = np.nan, np.inf, 1e300
    return X


def cases():
    """Problem, a point, records of the others, and two opposite ones."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 3))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    ends = 50.0 * np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    yield "rank one", EIGENVECTOR, np.array([1.0, 0.0, 0.0]), z, ends
    X = np.stack([np.diag(np.exp(v)) for v in rng.normal(size=(12, 2))])
    ends = np.stack([np.diag([1e4, 1.0]), np.diag([1e-4, 1.0])])
    yield "affine", riemdp.problems.frechet_mean(SPD), np.eye(2), X, ends
    ends = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    mean = riemdp.problems.frechet_mean(SPHERE)
    yield "general", mean, np.array([1.0, 0.0, 0.0]), z, ends


def grouped(X, groups, places=16, seed=1):
    return Gradients.People(jnp.asarray(X), len(X), groups, places).drawn(noise_source(seed))


def change(problem, point):
    """Of the clipped sum over all people, from one data set to another: its length."""
    kernel = Gradients.choose_kernel(problem, False)
    gradient = Gradients.NoisyGradient(C, 0.0, Gradients.Batches(5, 5, "full"))

    def total(state, data):
        data = Gradients.each_record(kernel.prepare, data)
        return total_of_all(gradient, kernel, state, data, 5, None)

    @jax.jit
    def length(one, other):
        state = kernel.start(jnp.asarray(point))
        apart = jax.tree.map(jnp.subtract, total(state, one), total(state, other))
        tangent = kernel.to_tangent(state, kernel.from_coordinates(state, apart))
        return problem.manifold._norm(jnp.asarray(point), tangent)

    return lambda one, other: float(length(one, other))


OTHERS = np.repeat(np.arange(4), 3)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_one_person_moves_a_gradient_by_no_more_than_one_record_does(case):
    """A person with one record becomes one with 1000 on the other side: 2 C, and nearly attained.
    Where every record weighs 1 instead of its share the same pair moves it by much more.
    """
    _, problem, point, rest, (one, other) = case
    few = grouped(np.concatenate([rest, one[None]]), [*OTHERS, 9])
    many = grouped(np.concatenate([rest, hostile(other, 1000)]), [*OTHERS, *[9] * 1000])
    assert jax.tree.map(jnp.shape, few) == jax.tree.map(jnp.shape, many)
    apart = change(problem, point)
    assert 0.9 * C < apart(few, many) <= 2 * C * (1 + 1e-12)
    planted = Gradients.Grouped(many.records, (many.shares > 0).astype(float))  # weight 1, not 1/m
    assert apart(few, planted) > 2.2 * C


def test_nobody_sees_who_else_has_how_many_records():
    """The others' places hold the same records, bit for bit, also where a choice is drawn."""
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(100, 3)), np.repeat(np.arange(4), 25)
    alone = grouped(X, labels)
    keep = labels != 2
    given = rng.permutation(np.concatenate([labels[keep], np.full(1000, 2)]))
    more = rng.normal(size=(1075, 3))
    for i in (0, 1, 3):  # rows stand anywhere, in the person's own order
        more[given == i] = X[labels == i]
    found = grouped(more, given)
    same = np.array([0, 1, 3])
    assert np.array_equal(found.records[same], alone.records[same])
    assert np.array_equal(found.shares, alone.shares)
    assert not np.array_equal(found.records[2], alone.records[2])


def test_a_choice_of_records_is_uniform():
    X = np.arange(40.0)[:, None]
    seen = np.zeros(40)
    for seed in range(200):
        chosen = np.asarray(grouped(X, [0] * 40, places=4, seed=seed).records)
        assert len(np.unique(chosen)) == 4
        seen[chosen.astype(int).ravel()] += 1
    # 800 draws: each record 20 times on average, deviation 4.3
    assert seen.min() > 2
    assert seen.max() < 46
    assert 10 < np.var(seen) < 35


def test_the_step_is_the_mean_over_people_of_their_means():
    """Against NumPy: Euclidean, one step with rate 1 and noise far below."""
    plane = riemdp.Euclidean(2)
    problem = riemdp.problems.frechet_mean(plane)
    X = np.random.default_rng(3).normal(size=(9, 2))
    groups = np.array(list("abbbbccdd"))
    for optimizer, divisor in (
        (DPRGD(steps=1, learning_rate=1.0, clip_norm=1.0), 4),
        (DPRSGD(steps=1, batch_size=4, learning_rate=1.0, clip_norm=1.0), 4),
    ):
        found = private_minimize(
            problem, X, np.zeros(2), optimizer, noise_std=1e-9, rng=0, groups=groups
        )
        gradients = -2.0 * X
        gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1))[:, None]
        means = [gradients[groups == g].mean(axis=0) for g in "abcd"]
        assert np.allclose(found.value, -np.sum(means, axis=0) / divisor, atol=1e-7)


def report(done):
    """Of a full gradient; those of batches take seconds, and say the same."""
    if done.method != "DP-RGD":
        return None
    page = json.loads(privacy_report(done).to_json())
    page.pop("created_utc")
    assert page["protects"] == "one person"
    return page


@pytest.mark.parametrize(
    "optimizer",
    [
        DPRGD(steps=4),
        DPRSGD(steps=4, clip_norm="adaptive"),
        DPRSGD(steps=10, sampling="poisson"),
        pytest.param(DPRSGD(steps=5, sampling="allocation"), marks=pytest.mark.slow),
        DPRSVRG(epochs=1, inner_steps=3),
    ],
    ids=["full", "adaptive", "poisson", "allocation", "variance-reduced"],
)
def test_nothing_public_tells_how_many_records_there_are(optimizer):
    """One person has 1 record, then 1000: no program is compiled, no word and no figure changes."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(60, 3))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    groups = np.arange(60) // 2

    def run(extra):
        X = np.concatenate([z, np.tile(z[-1:], (extra, 1))])
        labels = np.concatenate([groups, np.full(extra, 29)])
        before = COMPILED[0]
        done = private_minimize(EIGENVECTOR, X, START, optimizer, BUDGET, rng=1, groups=labels)
        shown = done.guarantee, done.gradient_calls, str(done), str(done.details), report(done)
        return COMPILED[0] - before, shown

    run(0)
    (_, few), (compiled, many) = run(0), run(1000)
    assert compiled == 0
    if optimizer.clip_norm == "adaptive":  # the clip norm is released, and is another one
        few, many = few[:2], many[:2]
    assert few == many
    assert few[0].unit == "person"
    assert few[0].parts == plan_optimizer(EIGENVECTOR, 30, optimizer, BUDGET).guarantee().parts


def test_a_person_with_many_hostile_records_does_not_show():
    """The front door, on batches of people. Batches of records show the person at once."""
    problem = riemdp.problems.frechet_mean(LINE)
    groups = [0, 0, 1, 1, 2, 2, 3, 3, *[4] * 200]
    optimizer = DPRSGD(steps=2, batch_size=3, learning_rate=0.5, clip_norm=1.0)
    budget = Budget(1.0, 1e-6)

    def scores(side, given, seed):
        X = np.concatenate([np.zeros((8, 1)), np.full((200, 1), side)])
        runs = [
            private_minimize(problem, X, np.zeros(1), optimizer, budget, rng=seed + i, **given)
            for i in range(25)
        ]
        return np.array([float(run.value[0]) for run in runs])

    mu = 1.0 / riemdp.gaussian_noise_multiplier(budget)
    people = {"groups": groups}
    assert gaussian_mu_lower_bound(scores(9.0, people, 0), scores(-9.0, people, 10**6)) <= mu
    assert gaussian_mu_lower_bound(scores(9.0, {}, 0), scores(-9.0, {}, 10**6)) > 2 * mu


def test_one_record_each_is_the_run_on_records():
    X = np.random.default_rng(5).normal(size=(50, 3))
    names = [f"{i:02}" for i in range(50)]
    run = DPRGD(steps=5, learning_rate=0.1, clip_norm=1.0)
    one = private_minimize(EIGENVECTOR, X, START, run, None)
    each = private_minimize(EIGENVECTOR, X, START, run, None, groups=names)
    assert np.allclose(one.value, each.value, atol=1e-12)
    with Ledger(BUDGET) as ledger:
        each = private_minimize(EIGENVECTOR, X, START, run, BUDGET, groups=names)
    assert ledger.spent.unit == "person"
    assert "all records of one person" in str(each)
    assert "50 people, one gradient each" in dict(privacy_report(each).rows)["Made from"]
    assert each.details["planned_guarantee"].unit == "person"


def test_what_cannot_be_is_refused_before_anything_is_spent():
    X, problem = np.zeros((4, 2)), riemdp.problems.frechet_mean(riemdp.Euclidean(2))
    given = {"optimizer": DPRGD(steps=2, clip_norm=1.0), "budget": BUDGET}
    with Ledger(BUDGET) as ledger:
        for groups in ([1, 2], [1, None, 2, 3], "abcd", np.ones((4, 1))):
            with pytest.raises(InvalidArgument, match="groups") as caught:
                private_minimize(problem, X, np.zeros(2), groups=groups, **given)
            assert not re.search(r"[3-9]", str(caught.value))  # 4 records
        labels_only = dataclasses.replace(problem, protects="the labels (features are public)")
        with pytest.raises(InvalidArgument, match="whole records"):
            private_minimize(labels_only, X, np.zeros(2), groups=[0] * 4, **given)
    assert ledger.charges == 0
