"""A mean with a public prior: what it spends, what decides it, and what it gives where noise drowns
the private records (docs/proofs/mean-sensitivity.md).
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, PublicPrior
from riemdp.mechanisms import PriorMean
from riemdp.privacy import gaussian

SPACE = riemdp.Euclidean(8)
SCALES = np.geomspace(1.0, 0.05, 8)
BUDGET = Budget(1.0, 1e-5)


def vectors(n, seed, shift=0.0):
    return shift + np.random.default_rng(seed).normal(size=(n, 8)) * SCALES


def people(count=6, each=50):
    """Public records of people whose means are 0.3 scales apart."""
    rng = np.random.default_rng(3)
    means = np.repeat(0.3 * rng.normal(size=(count, 8)) * SCALES, each, axis=0)
    return PublicPrior(
        SPACE, means + vectors(count * each, 4), people=np.repeat(range(count), each)
    )


PRIOR = people()


def mean(n=400, budget=BUDGET, prior=PRIOR):
    return PriorMean(SPACE, prior, n=n, budget=budget)


def test_the_stages_spend_one_budget():
    two, one = mean(), mean(n=20)
    assert [float(s.share) for s in two.stages] == [0.25, 0.75]
    assert [float(s.share) for s in one.stages] == [1.0]
    for made in (two, one):
        release = made.release(vectors(made.n, 0), 1)
        assert release.guarantee.within(BUDGET)
        assert release.guarantee.parts == gaussian(riemdp.gaussian_noise_multiplier(BUDGET)).parts
        assert "none of the private ones" in release.guarantee.assumes


def test_each_answer_has_the_noise_of_its_stage():
    made, X = mean(), np.zeros((400, 8)) + np.asarray(PRIOR.center)
    found = [made.release(X, seed).details["answers"][0] for seed in range(60)]
    first = made.stages[0]
    assert first.scale == pytest.approx(
        2 * first.radius / 400 * riemdp.gaussian_noise_multiplier(BUDGET) / 0.5, rel=1e-6
    )
    assert np.std(found) == pytest.approx(first.scale, rel=0.2)  # of 480 normals: 6 deviations


def test_no_record_decides_stages_or_radii():
    """Nor does it decide the noise: what is stated is what was planned."""
    made = mean()
    for X in (vectors(400, 0), np.full((400, 8), 1e9), np.full((400, 8), np.nan)):
        release = made.release(X, 1)
        assert release.details["radii"] == tuple(stage.radius for stage in made.stages)
        assert release.scale == made.stages[-1].scale
        np.testing.assert_array_equal(release.facts.public_value, PRIOR.center)
        assert release.facts.public_error == PRIOR.error


def test_the_shape_is_that_of_the_public_records():
    """The first answer without its noise, which the same seed gives, is the mean in that shape."""
    made, X, far = mean(), vectors(400, 0), vectors(400, 1, shift=0.1)
    found = [made.release(records, 1).details["answers"][0] for records in (X, far)]
    shape = PRIOR.shape_of(0.5)
    z = [shape.seen(records)[0] for records in (X, far)]
    radius = made.stages[0].radius
    cut = [np.mean(a * np.minimum(1, radius / np.linalg.norm(a, axis=1))[:, None], 0) for a in z]
    np.testing.assert_allclose(found[0] - found[1], cut[0] - cut[1], atol=1e-8)


def test_no_record_moves_the_first_answer_by_more_than_its_sensitivity():
    made, X = mean(), vectors(400, 0)
    answers = []
    for size in (-1e6, 1e6):
        other = X.copy()
        other[0] = size * SCALES
        answers.append(made.release(other, 1).details["answers"][0])
    share = np.linalg.norm(answers[0] - answers[1]) / made.stages[0].sensitivity
    assert 0.99 < share <= 1.0 + 1e-6  # noise on a grid


def test_a_drowned_mean_stays_at_the_public_one():
    far, center = vectors(40, 0, shift=0.5), np.asarray(PRIOR.center)
    made = mean(n=40, budget=Budget(0.01, 1e-5))
    away = [np.linalg.norm(made.release(far, seed).value - center) for seed in range(20)]
    assert made.noise_length > 5.0
    assert np.median(away) < 0.5 * made.noise_length


def test_with_many_records_it_is_the_private_mean():
    X = vectors(20_000, 0, shift=0.2)
    release = mean(n=20_000, budget=Budget(4.0, 1e-5)).release(X, 1)
    assert np.linalg.norm(release.value - X.mean(axis=0)) < 0.03


def test_with_groups_a_person_counts_once():
    X, groups = vectors(600, 0), np.repeat(np.arange(200), 3)
    release = riemdp.private_frechet_mean(SPACE, X, PRIOR, BUDGET, groups=groups, rng=0)
    own = X.reshape(200, 3, 8).mean(axis=1)
    same = riemdp.private_frechet_mean(SPACE, own, PRIOR, BUDGET, rng=0)
    np.testing.assert_allclose(release.value, same.value, atol=1e-9)
    assert (release.guarantee.unit, release.facts.n) == ("person", 200)


def test_plans_say_where_the_public_mean_is_as_good():
    budgets = [Budget(epsilon, 1e-5) for epsilon in (0.01, 0.3, 4.0)] + [Budget(1.0)]
    plan = riemdp.plan_private_mean(SPACE, PRIOR, 200, budgets)
    assert [row.alone for row in plan] == [True, False, False, False]
    assert plan.best(budgets[1]).stages in (1, 2)
    assert str(plan).count("the public model alone") == 1
    assert "needs delta > 0" in str(plan)
    for row in plan[:3]:
        assert row.expected_error < min(row.noise, PRIOR.error)
    one = PublicPrior(SPACE, vectors(100, 0))
    assert "people=labels" in str(riemdp.plan_private_mean(SPACE, one, 200, BUDGET))


def test_what_cannot_be_released_or_planned_is_refused():
    with pytest.raises(InvalidArgument, match="delta > 0"):
        mean(budget=Budget(1.0))
    with pytest.raises(InvalidArgument, match="made for"):
        riemdp.plan_private_mean(riemdp.Euclidean(3), PRIOR, 200, BUDGET)
    with pytest.raises(InvalidArgument, match="no use for it"):
        riemdp.plan_private_mean(SPACE, PRIOR, 200, BUDGET, count_outside=True)
    with pytest.raises(InvalidArgument, match="no confidence region"):
        mean().release(vectors(400, 0), 1).confidence_region()
