"""Third look, A 3: a mean without a public ball, where many records are no points of the space.

Invalid records are in no count of a search, and ranks are relative to a released count of the valid
ones. Where that count cannot support a search, or most records lie outside the ball that was found,
the release says so: a fact and a warning, from released numbers alone.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import norm

import riemdp
from riemdp import AdaptiveBall, Budget, RiemdpWarning
from riemdp.mechanisms import AdaptiveMean
from tests.mechanisms.numpy_search import unlimited
from tests.seam import Doors, Searches, Sums

N = 1000
BUDGET = Budget(2.0, 1e-6)
SPACES = [riemdp.SPDAffineInvariant(3), riemdp.Sphere(3), riemdp.Lorentz(3)]
BAD = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308]


def records(space, n=N, spread=0.3):
    keys = np.random.default_rng(0).spawn(2)
    center = space.random_point(keys[0])
    return np.array(space.exp(center, space.tangent_normal(keys[1], center, spread, (n,))))


def spoiled(X, share, value=np.nan):
    Y = X.copy()
    Y[: int(share * len(X))] = value
    return Y


class Silent:
    """Noise that is 0: the exact answers."""

    def normals(self, shape, *_):
        return np.zeros(shape)

    def rounded_normals(self, scale, shape=()):
        return np.zeros(shape, dtype=np.int64)


# -------------------------------------------------------------------------------- the attack itself
@pytest.mark.parametrize("share", [0.2, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_fault_66_a_mean_of_mostly_invalid_records_is_right_or_says_that_it_is_not(space, share):
    """No run errs by more than a third of the spread of the records in silence."""
    X = records(space)
    Y = spoiled(X, share)
    mean = riemdp.frechet_mean(space, X[int(share * N) :]).value
    for seed in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            release = riemdp.private_frechet_mean(space, Y, AdaptiveBall(), BUDGET, rng=seed)
        error = float(space.dist(mean, release.value))
        said = any("points of the space" in str(w.message) for w in caught)
        assert said or error < 0.1, (share, error)
        assert said or error < 6.0 * release.expected_error, (share, error)
        valid, outside = release.details["valid"], release.details["outside"]
        assert said == (valid.caution is not None or outside.caution is not None)
        assert abs(valid.count - (1.0 - share) * N) < 6.0 * valid.deviation
        assert outside.count > share * N - 6.0 * outside.deviation
        if share == 0.9:
            assert said
            assert valid.few
            assert "check_records" in valid.caution


def test_fault_66_a_fifth_of_invalid_records_costs_little():
    space = SPACES[0]
    X = records(space)
    mean = riemdp.frechet_mean(space, X[N // 5 :]).value
    errors = []
    for seed in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RiemdpWarning)  # nothing is worth a warning
            release = riemdp.private_frechet_mean(space, spoiled(X, 0.2), budget=BUDGET, rng=seed)
        errors.append(float(space.dist(mean, release.value)))
        assert release.details["outside"].found
    assert np.median(errors) < 0.025, errors  # .042 where invalid records count as the centre


def test_no_record_is_worth_a_warning_where_all_are_valid():
    """n is just what the search needs, where a released count of n valid records is below it in
    half of all runs.
    """
    space = SPACES[1]
    need = AdaptiveMean(space, AdaptiveBall(), n=N, budget=BUDGET).plan.need
    X = records(space, need)
    said = 0
    for seed in range(40):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            riemdp.private_ball(space, X, AdaptiveBall(), BUDGET, rng=seed)
        said += any("points of the space" in str(w.message) for w in caught)
    assert said <= 8  # 2.3 % each: more has a chance of 1e-6


# ------------------------------------------------------------------------------------- the counts
def searches(space, X, groups=None):
    purse, domain = unlimited(BUDGET, Silent()), AdaptiveBall().on(space)
    if groups is not None:
        return Searches.SearchPeople(domain, X, Sums.Membership(groups, len(X)), purse)
    return Searches.SearchRecords(domain, X, purse)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_an_invalid_record_is_in_no_count(space, value):
    X = records(space, 40)
    Y = spoiled(X, 0.25, value)
    answers = searches(space, Y)
    assert answers.valid(0.1) == 30.0
    for factor in range(answers.domain.scales):
        assert answers.scale_count(factor, 1e6, 0.1) == 30.0
    answers.set_scales((0.0,) * answers.domain.scales)
    for radius in (1.0, 1e6, math.inf):
        assert answers.count(radius, 0.1) == 30.0
    assert np.all(answers.distances[:10] == 0.0)  # what a mean or a variance sees of them


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_the_validity_of_one_record_or_person_moves_a_count_by_at_most_one(space, people):
    """Neighbours with valid and invalid records in the place of each other, either way."""
    X = records(space, 30, spread=0.8)
    groups = np.repeat(np.arange(10), 3) if people else None
    rows = slice(0, 3) if people else slice(0, 1)
    base = searches(space, X, groups)
    base.set_scales((0.3,) * base.domain.scales)
    moved = 0.0
    for value in BAD:
        Y = X.copy()
        Y[rows] = value
        other = searches(space, Y, groups)
        other.set_scales((0.3,) * other.domain.scales)
        changes = [base.valid(0.1) - other.valid(0.1)]
        changes += [base.count(r, 0.1) - other.count(r, 0.1) for r in (0.01, 0.03, 0.1, 1.0)]
        for factor in range(base.domain.scales):
            changes += [
                base.scale_count(factor, s, 0.1) - other.scale_count(factor, s, 0.1)
                for s in (-1.0, 0.0, 1.0)
            ]
        assert max(map(abs, changes)) <= 1.0
        moved = max(moved, *map(abs, changes))
    assert moved == 1.0  # attained


@pytest.mark.parametrize("space", [SPACES[0], SPACES[1]], ids=repr)
def test_records_in_parts_have_the_same_counts(space, tmp_path):
    X = spoiled(records(space, 500), 0.3)
    np.save(tmp_path / "x.npy", X)
    streamed, _ = Doors.admit_in_parts(space, "X", np.load(tmp_path / "x.npy", mmap_mode="r"))
    domain = AdaptiveBall().on(space)
    in_parts = Searches.StreamedRecords(domain, streamed, unlimited(BUDGET, Silent()))
    whole = searches(space, X)
    for answers in (in_parts, whole):
        assert answers.valid(0.1) == 350.0
        answers.set_scales((0.25,) * domain.scales)
    for radius in (0.05, 0.0625, 0.25, 1.0):
        assert in_parts.count(radius, 0.1) == whole.count(radius, 0.1)


# -------------------------------------------------------------------------------- noise and shares
def test_every_count_has_the_noise_of_its_share():
    """The distribution of the released counts; the twin with no noise, or that of the whole budget,
    is told apart.
    """
    space, n = riemdp.Euclidean(2), 400
    ball = AdaptiveBall(riemdp.Ball(np.zeros(2), 1.0))
    X = np.zeros((n, 2))
    X[: n // 2] = np.nan
    mechanism = AdaptiveMean(space, ball, n=n, budget=BUDGET)
    valid, outside = [], []
    for seed in range(60):
        release = mechanism.release(X, seed)
        valid.append(release.details["valid"])
        outside.append(release.details["outside"])
    z = norm.isf(0.5e-6)
    for counts in (valid, outside):
        share, away = counts[0].share, np.array([c.count - n / 2 for c in counts])
        deviation = mechanism.noise.count_deviation(share)
        assert counts[0].deviation == pytest.approx(deviation)
        room = z * math.sqrt(2.0 / len(away))
        assert abs(np.mean(away**2) / deviation**2 - 1.0) < room
        whole = mechanism.noise.count_deviation(1.0)
        assert abs((whole / deviation) ** 2 - 1.0) > room  # planted: the noise of another share


def test_all_answers_of_the_longest_search_and_the_release_cost_the_budget():
    """Whatever is answered: what was asked, the count outside and what is left add up to one."""
    rng = np.random.default_rng(3)

    class Arbitrary:
        spent = 0.0
        left = property(lambda self: 1.0 - self.spent)

        def valid(self, share):
            self.spent += share
            return rng.uniform(-0.5, 1.5) * 1000

        def scale_count(self, factor, scale, share):
            self.spent += share
            return rng.uniform(-0.5, 1.5) * 1000

        def count(self, radius, share):
            return self.scale_count(0, radius, share)

        def set_scales(self, scales):
            pass

        def move(self, radius, share, stretch):
            assert 1.0 <= stretch <= 1000.0
            self.spent += share
            return rng.uniform() < 0.5

    for noise in (Searches.GaussianNoise(5.0), Searches.LaplaceNoise(2.0)):
        for scales in (0, 1):
            plan = Searches.plan_search(
                noise, 1000, 6, scales=scales, largest=1.0, smallest=2.0**-15
            )
            plan.check()
            for _ in range(100):
                answers = Arbitrary()
                found = Searches.run_search(plan, answers)
                assert answers.spent == pytest.approx(found.spent, abs=1e-12)
                assert found.plan.outside_share == plan.outside_share > 0.0
                assert found.left > 0.25
                assert found.spent + plan.outside_share + found.left <= 1.0 + 1e-12


def test_ranks_are_relative_to_the_valid_records():
    for make in (Searches.plan_search, Searches.plan_short_search):
        noise = Searches.GaussianNoise(2.5)
        plan = make(noise, 1000, 6, scales=1, largest=1.0, smallest=2.0**-15)
        deviation = noise.count_deviation(plan.valid_share)
        assert plan.among(1000 - 1.9 * deviation).stretch == 1.0  # noise alone
        half = plan.among(500.0)
        assert half.stretch == 2.0
        assert half.need == plan.need
        if make is Searches.plan_search:
            assert half.coarse_rank < 500.0
            assert half.fine_rank(0.7) < 500.0
        assert plan.among(-70.0).valid == 1.0


# ------------------------------------------------------------------------------- rows of a table
def test_rows_that_are_not_finite_are_in_no_count_of_a_private_length():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * np.array([3.0, 2.0, 1.0])
    Y = X.copy()
    Y[:1200] = np.nan
    mechanism = Sums.AdaptiveSecondMoment(3, n=2000, budget=BUDGET)
    bounds, traces = [], []
    for seed in range(5):
        release = mechanism.release((Y, None), seed)
        bounds.append(float(release.details["row_norm"]))
        traces.append(float(np.sum(np.asarray(release.value)[:3])))
        assert abs(release.details["valid"].count - 800) < 6 * release.details["valid"].deviation
    lengths = np.linalg.norm(X[1200:], axis=1)
    assert min(bounds) > np.quantile(lengths, 0.4)  # 0 where rows of NaN count as short ones
    assert max(bounds) < 4.0 * lengths.max()


def test_few_finite_rows_are_told():
    X = np.full((500, 3), np.nan)
    X[:20] = 1.0
    pca = riemdp.estimators.PrivatePCA(
        1, budget=BUDGET, row_norm="private", on_invalid="center", random_state=1
    )
    with pytest.warns(RiemdpWarning, match="were finite"):
        pca.fit(X)
    assert pca.release_.details["valid"].few
