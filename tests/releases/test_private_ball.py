"""Private balls and the means in them, through the public functions and mechanisms."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget
from riemdp.domains import Domain
from riemdp.mechanisms import AdaptiveMean
from riemdp.statistics import TangentMean
from tests.mechanisms.numpy_search import FlatAnswers, unlimited
from tests.seam import Searches

BUDGET = Budget(1.0, 1e-6)
SPACES = [
    riemdp.SPDAffineInvariant(2),
    riemdp.SPDLogEuclidean(2),
    riemdp.SPDBuresWasserstein(2),
    riemdp.Sphere(3),
    riemdp.Lorentz(3),
    riemdp.PoincareBall(2),
    riemdp.Grassmann(3, 1),
    riemdp.Product(riemdp.SPDAffineInvariant(2), riemdp.Sphere(3)),
]


def records(space, n, key=0, spread=0.2):
    """Records about a point that is not the origin."""
    keys = np.random.default_rng(key).spawn(3)
    center = space.random_point(keys[0])
    v = space.tangent_normal(keys[1], center, spread, (n,))
    return jax.tree.map(np.asarray, space.exp(center, v))


@pytest.mark.parametrize("space", [SPACES[0], SPACES[3], SPACES[-1]], ids=repr)
def test_a_ball_and_a_mean_in_it_are_found(space):
    X = records(space, 600)
    mechanism = AdaptiveMean(space, AdaptiveBall(), n=600, budget=BUDGET)
    release = mechanism.release(X, 3)
    ball = release.details["ball"]
    assert bool(space.belongs(release.value, 1e-8))
    assert bool(np.mean(np.asarray(ball.contains(space, X))) > 0.5)
    mean = riemdp.frechet_mean(space, X).value
    assert float(space.dist(mean, release.value)) < 0.2
    assert release.guarantee.epsilon(1e-6) <= 1.0 * (1 + 1e-9)
    assert release.guarantee.epsilon(1e-6) > 0.99  # the budget is used exactly


def test_units_need_not_be_known():
    """Volts squared, millimetres, anything: the same records in another unit, the same error."""
    space = riemdp.SPDAffineInvariant(3)
    X = records(space, 800)
    errors = []
    for unit in (1e-12, 1.0, 1e10):
        mean = riemdp.frechet_mean(space, unit * X).value
        release = AdaptiveMean(space, AdaptiveBall(), n=800, budget=BUDGET).release(unit * X, 11)
        errors.append(float(space.dist(mean, release.value)))
    assert max(errors) < 0.25, errors


# ----------------------------------------------------------------------------------- the guarantee


class Silent:
    """Noise that is 0: the exact answers of the mechanism."""

    def normals(self, shape, *_):
        return np.zeros(shape)

    def rounded_normals(self, scale, shape=()):
        return np.zeros(shape, dtype=np.int64)


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_one_record_moves_an_answer_by_no_more_than_its_sensitivity(space):
    """Counts by at most 1, clipped tangent means by at most 2 r / n in the norm at the centre."""
    n = 30
    X = records(space, n, spread=0.6)
    domain = AdaptiveBall().on(space)
    far = jax.tree.map(np.asarray, space.random_point(8, (6,)))
    for j in range(6):
        Y = jax.tree.map(lambda a, b, j=j: np.concatenate([b[j][None], a[1:]]), X, far)
        ours, theirs = (
            Searches.SearchRecords(domain, x, unlimited(BUDGET, Silent())) for x in (X, Y)
        )
        for r in (0.01, 0.1, 0.5, 1.0):
            values = []
            for answers in (ours, theirs):
                answers.set_scales((0.3,) * domain.scales)
                values.append(answers.count(r, 0.1))
            assert abs(values[0] - values[1]) <= 1.0
            radius = r * ours.unit
            query = TangentMean(Domain(space, ours.center, radius), n)
            means = [query.coordinates(query.shorten(a.logs)) for a in (ours, theirs)]
            gap = space.from_coordinates(ours.center, means[0] - means[1])
            size = float(space.norm(ours.center, gap))
            assert size <= 2 * radius / n * (1 + 1e-9)
            assert float(np.linalg.norm(means[0] - means[1])) <= query.sensitivity


def test_the_mechanism_gives_the_answers_of_an_independent_twin():
    """The same search on a flat space, by NumPy alone: the same exact answers."""
    n, dim, outer = 500, 3, 30.0
    space = riemdp.Euclidean(dim)
    X = np.random.default_rng(2).normal(size=(n, dim)) * 0.4 + 2.0
    mechanism = AdaptiveMean(
        space, AdaptiveBall(Ball(np.zeros(dim), outer)), n=n, budget=Budget(3.0, 1e-6)
    )
    log: list[tuple[float, float]] = []

    class Both(Searches.SearchRecords):
        def count(self, radius, share):
            mine = super().count(radius, share)
            log.append((mine, float(np.sum(twin.distance[0] <= radius * self.unit))))
            return mine

        def move(self, radius, share, stretch):
            super().move(radius, share, stretch)
            twin.centre = np.asarray(self.center)
            twin._measure()

    twin = FlatAnswers(X, 1.0, np.random.default_rng(0))
    answers = Both(mechanism.domain, X, unlimited(Budget(3.0, 1e-6), Silent()))
    found = Searches.run_search(mechanism.plan, answers)
    assert len(log) > 5
    assert all(a == b for a, b in log)
    about = np.linalg.norm(X - X.mean(0), axis=1)
    assert np.quantile(about, 0.4) < found.radius * answers.unit < 1.5 * about.max()


def test_the_plan_says_whether_n_is_enough():
    space = riemdp.SPDAffineInvariant(8)
    budgets = [Budget(0.1, 1e-5), Budget(1.0, 1e-5)]
    plan = riemdp.plan_private_mean(space, AdaptiveBall(), 500, budgets)
    assert [row.enough for row in plan.rows] == [False, True]
    assert "too few" in str(plan)
    assert "times the radius" in str(plan)
    assert plan.need == plan.rows[0].need > 500 > plan.rows[1].need
    assert all(row.moves_from >= row.need for row in plan.rows)
    for row, budget in zip(plan.rows, budgets, strict=True):  # what the plan says is what is done
        enough = AdaptiveMean(space, AdaptiveBall(), n=row.need, budget=budget)
        enough.plan.check()
        with pytest.raises(riemdp.InvalidArgument, match="too few"):
            AdaptiveMean(space, AdaptiveBall(), n=row.need - 1, budget=budget).plan.check()
        before = AdaptiveMean(space, AdaptiveBall(), n=row.moves_from - 1, budget=budget)
        after = AdaptiveMean(space, AdaptiveBall(), n=row.moves_from, budget=budget)
        assert (before.plan.moves, after.plan.moves) == (False, True)


@pytest.mark.parametrize("budget", [Budget(0.5, 1e-5), Budget(2.0)], ids=str)
def test_the_plan_answers_how_many_records_are_needed(budget):
    """Its counts are the smallest ones at which a plan for that many records says so."""
    space = riemdp.SPDAffineInvariant(8)
    planned: Any = riemdp.plan_private_mean(space, AdaptiveBall(), None, budget)
    (row,) = planned.rows
    assert (row.enough, row.error_per_radius, row.noise_factor) == (None,) * 3
    assert f"{row.sampling_from:,}" in str(planned)

    def at(n) -> Any:
        return riemdp.plan_private_mean(space, AdaptiveBall(), n, budget).rows[0]

    assert (at(row.need - 1).enough, at(row.need).enough) == (False, True)
    assert row.tenth_from > row.moves_from
    assert at(row.tenth_from - 1).error_per_radius > 0.1 >= at(row.tenth_from).error_per_radius
    n = row.sampling_from
    assert n > row.moves_from
    assert at(n).error_per_radius <= n**-0.5
    assert at(n - 1).error_per_radius > (n - 1) ** -0.5
    with pytest.raises(riemdp.InvalidArgument, match="`n`"):
        riemdp.plan_private_mean(space, Ball(np.eye(4), 1.0), None, budget)  # type: ignore[call-overload]
