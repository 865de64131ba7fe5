"""PrivateMDM without a public ball: what it releases, what labels cost, what one record can do."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.stats import gamma, kstest
from sklearn.base import clone

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, PrivateMDM
from riemdp.randomness import noise_source
from tests.mechanisms.numpy_search import FlatAnswers
from tests.mechanisms.test_ball_search import excess, pairs
from tests.purses import noted
from tests.seam import Searches, Sums
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(3.0, 1e-5)
PRIVATE = {"labels": "private", "classes": [0, 1, 2]}


def matrices(n=600, unit=1.0, seed=0):
    """Three classes of 3 x 3 covariances, and their labels."""
    rng = np.random.default_rng(seed)
    signals = rng.normal(size=(n, 3, 30))
    y = np.arange(n) % 3
    signals *= np.exp(0.7 * (np.arange(3) == y[:, None]))[:, :, None]
    return unit * signals @ signals.transpose(0, 2, 1) / 30, y


def mdm(**options):
    return PrivateMDM(**{"metric": "logeuclid", "budget": BUDGET, "random_state": 1} | options)


# ------------------------------------------------------------------------------- what is released
@pytest.mark.parametrize(
    "metric", ["riemann", "logeuclid", pytest.param("wasserstein", marks=pytest.mark.slow)]
)
def test_it_finds_the_classes_in_any_unit(metric):
    for unit, labels in ((1.0, {}), (1e-12, PRIVATE)):
        X, y = matrices(unit=unit)
        fitted = mdm(metric=metric, **labels).fit(X, y)
        assert fitted.score(X, y) > 0.85
        assert fitted.guarantee_.epsilon(1e-5) <= 3.0 * (1 + 1e-9)
        assert fitted.guarantee_.epsilon(1e-5) > 2.97
        assert isinstance(fitted.ball_, Ball)
        assert all(bool(fitted.manifold_.belongs(m, 1e-8 * unit)) for m in fitted.covmeans_)


def test_predictions_are_the_nearest_means():
    X, y = matrices()
    fitted = mdm().fit(X, y)
    assert np.array_equal(fitted.predict(X), fitted.classes_[fitted.transform(X).argmin(axis=1)])
    assert np.array_equal(
        fitted.predict_proba(X).argmax(axis=1), fitted.transform(X).argmin(axis=1)
    )
    one_by_one = np.concatenate([fitted.transform(x[None]) for x in X[:5]])
    assert np.allclose(one_by_one, fitted.transform(X)[:5], rtol=1e-9)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()


# ------------------------------------------------------------------------------------- guarantees
def largest_change(private, trials=4000):
    """Of sums and counts, over random pairs of records with labels and the worst ones."""
    rng = np.random.default_rng(3)
    space = riemdp.SPDLogEuclidean(2)
    sizes = None if private else [400, 400]
    mechanism = Sums.ClassMeansNoise(
        space, AdaptiveBall(), n=2, classes=2, budget=Budget(1.0, 1e-5), sizes=sizes
    )
    worst = 0.0
    for i in range(trials // 100):
        z = rng.normal(size=(3, 3)) if i else np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 0, 0]])
        z = z / np.maximum(1.0, np.linalg.norm(z, axis=1))[:, None]
        for a in (0, 1):
            for b in (0, 1, -1) if private else (a,):
                with_one = mechanism.sums.joint(z[[0, 2]], np.array([a, 1]))
                with_other = mechanism.sums.joint(z[[1, 2]], np.array([b, 1]))
                worst = max(worst, float(np.linalg.norm(with_one - with_other)))
    return worst, mechanism.sums.sensitivity


@pytest.mark.parametrize("private", [False, True])
def test_one_record_moves_sums_and_counts_by_at_most_two(private):
    worst, stated = largest_change(private)
    assert worst <= stated
    assert worst == pytest.approx(2.0)
    assert stated == pytest.approx(2.0, rel=1e-6)


def released(X, y, seed=5):
    mechanism = Sums.ClassMeansNoise(
        riemdp.SPDLogEuclidean(3), AdaptiveBall(), n=len(X), classes=3, budget=BUDGET
    )
    return mechanism.release((X, y), seed).details


def test_a_far_record_moves_the_sums_no_more_than_one_at_the_radius():
    """The same seed: what differs is what the record does."""
    X, y = matrices()
    near, far = X.copy(), X.copy()
    near[0], far[0] = 1e3 * np.diag([1.0, 1.0, 1e-9]), 1e3 * np.diag([1.0, 1.0, 1e-90])
    one, other = released(near, y), released(far, y)
    r = one["ball"].radius
    assert other["ball"].radius == r
    gap = np.linalg.norm(one["coordinates"] - other["coordinates"], axis=1)
    assert np.all(gap <= 2 * r / 150)


def test_sizes_of_private_classes_have_noise():
    X, y = matrices()
    drawn = np.array([released(X, y, seed)["sizes"] for seed in range(6)])
    assert np.all(np.abs(drawn - 200) < 60)
    assert len(np.unique(drawn)) == drawn.size
    assert released(X, np.where(y == 2, -1, y))["sizes"][2] < 100


class CheapSums(Sums.ClassMeansNoise):
    """A planted fault: sums are taken to change by a quarter of what they do."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        sums = self.sums

        class Quarter(Sums.ClassSums):
            sensitivity = 0.5

        self.sums = Quarter(sums.n, sums.classes, sums.dim, sums.sizes)


def noise_of_sums(kind, budget, private, monkeypatch):
    """Noise of sums and counts over the sigma that sensitivity 2 and the share that is left ask
    for; and sees that all shares add up to 1.
    """
    notes = noted(monkeypatch)
    X, y = matrices()
    sizes = None if private else [200, 200, 200]
    mechanism = kind(
        riemdp.SPDLogEuclidean(3), AdaptiveBall(), n=600, classes=3, budget=budget, sizes=sizes
    )
    source, drawn, left = noise_source(2), [], 1.0
    for _ in range(40):
        notes.begin()
        release = mechanism.release((X, y), source)
        assert notes.add_up()
        left = 1.0 - release.details["share_of_search"]
        apart = not private or budget.delta == 0.0
        of_sums = notes.noise[-3 if apart else -1 :]  # after that of the centre
        drawn.append(np.concatenate(of_sums))
    if budget.delta == 0:
        return np.array(drawn) / (2.0 / (budget.epsilon * left))
    sigma = 2.0 * riemdp.gaussian_noise_multiplier(budget) / math.sqrt(left)
    return np.array(drawn) / sigma


@pytest.mark.parametrize("private", [False, True])
def test_shares_are_the_budget_and_sums_have_their_noise(private, monkeypatch):
    noise = noise_of_sums(Sums.ClassMeansNoise, BUDGET, private, monkeypatch)
    assert noise.shape[1] == (21 if private else 18)
    assert gaussian_p_value(noise, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * noise, 1.0) < ALPHA


def test_too_little_noise_on_the_sums_is_detected(monkeypatch):
    noise = noise_of_sums(CheapSums, BUDGET, True, monkeypatch)
    assert gaussian_p_value(noise, 1.0) < ALPHA


def test_pure_noise_of_each_class(monkeypatch):
    """Of its sum and half of its size: the length has the Gamma distribution of 7 dimensions, for
    changes of all classes by sqrt(5) together.
    """
    noise = noise_of_sums(Sums.ClassMeansNoise, Budget(3.0), True, monkeypatch)
    lengths = np.linalg.norm(noise.reshape(-1, 7), axis=1) / np.hypot(1.0, 0.5)
    assert kstest(lengths, gamma(7).cdf).pvalue > ALPHA
    assert kstest(0.6 * lengths, gamma(7).cdf).pvalue < ALPHA


def changes_of_classes(one, other, classes=3, dim=4):
    """The lengths of what changes in the sum and half of the size of each class."""
    sums, sizes = np.split(one - other, [classes * dim])
    return np.linalg.norm(np.column_stack([sums.reshape(classes, dim), sizes]), axis=1)


def steepest(sums, labels, rng):
    """The largest sum of changes that a search over a record finds, whose label changes so."""
    rest = np.array([[0.6, 0.0, 0.8, 0.0]])

    def moved(z):
        z = z / np.maximum(1.0, np.linalg.norm(z, axis=1))[:, None]
        pairs = zip(z, labels, strict=True)
        one, other = (sums.joint(np.vstack([v, rest]), np.array([a, 2])) for v, a in pairs)
        return float(np.sum(changes_of_classes(one, other)))

    z = rng.normal(size=(2, 4))
    for _ in range(60):
        z = max(z, z + 0.5 * rng.normal(size=z.shape), key=moved)
    return moved(z)


def test_pure_sums_of_all_classes_change_by_what_is_stated():
    """A search over neighbours attains what noise is made for, and finds no more: of a record whose
    label changes, and of a person with records of every class.
    """
    sums, rng = Sums.PureSums(2, 3, 4, None), np.random.default_rng(0)
    found = [steepest(sums, (0, b), rng) for b in (0, 1, -1)]
    assert 0.999 * sums.sensitivity < max(found) <= sums.sensitivity
    assert sums.sensitivity == pytest.approx(math.sqrt(5.0), rel=1e-6)
    people = Sums.Membership(np.array([0, 1, 1, 1]), 4)
    for _ in range(100):
        z = rng.normal(size=(2, 4, 4))
        z[:, 0] = np.eye(4)[0]
        z /= np.linalg.norm(z, axis=2)[:, :, None]
        labels = [np.array([2, *rng.integers(-1, 3, 3)]) for _ in z]
        one, other = (sums.joint(v, a, people) for v, a in zip(z, labels, strict=True))
        assert np.sum(changes_of_classes(one, other)) <= sums.sensitivity


def test_the_pure_loss_of_neighbours_is_the_budget():
    """The exact ratio of densities at the noisy sums of all classes, for the worst pair."""
    sums, noise = Sums.PureSums(2, 3, 4, None), Searches.SomeNoise.of(Budget(1.5))
    z, other = np.eye(4)[[0, 1]], np.eye(4)[[1, 1]]
    here, there = sums.joint(z, np.array([0, 2])), sums.joint(other, np.array([1, 2]))
    losses = []
    for seed in range(50):
        noisy, scale = sums.noisy(here, Searches.Purse(noise, noise_source(seed)))
        lengths = [np.sum(changes_of_classes(noisy, exact)) for exact in (here, there)]
        losses.append((lengths[1] - lengths[0]) / scale)
    assert max(map(abs, losses)) <= 1.5
    far = here + 1e3 * (here - there)
    lengths = [np.sum(changes_of_classes(far, exact)) for exact in (here, there)]
    assert 0.99 * 1.5 < (lengths[1] - lengths[0]) / scale <= 1.5


def transcript(mu, noise=1.0, runs=120):
    """Largest excess of delta(epsilon) over the claim, over the worst pairs, in standard errors."""
    worst = -math.inf
    for _, a, b in pairs(200, 3):
        plan = Searches.plan_short_search(
            Searches.GaussianNoise(1 / mu), 200, 3, scales=1, largest=30.0, smallest=30 * 2.0**-15
        )
        loss = []
        for seed in range(runs):
            direction = np.eye(1, 3)
            answers = FlatAnswers(a, mu, np.random.default_rng(seed), direction, b, noise=noise)
            found = Searches.run_short_search(plan, answers)
            assert answers.spent == pytest.approx(found.spent, abs=1e-12)
            answers.final(found.radius, 1.0 - found.spent)
            loss.append(answers.loss)
        worst = max(worst, excess(np.array(loss), mu))
    return worst


def test_the_loss_of_a_transcript_is_that_of_one_gaussian():
    assert transcript(2.0) < 6.0
    assert transcript(2.0, noise=0.5) > 6.0


# -------------------------------------------------------------------------------- what can go wrong


@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_no_record_and_no_label_decides_whether_an_error_is_raised(metric):
    X, y = matrices(300)
    for value in (np.nan, np.inf, 0.0, 1e300, -1e300, 1e-300):
        Z = X.copy()
        Z[7] = value
        mdm(metric=metric, on_invalid="center", **PRIVATE).fit(Z, y)
    fitted = mdm(metric=metric, on_invalid="center", **PRIVATE).fit(np.full_like(X, np.nan), y)
    assert all(np.all(np.isfinite(m)) for m in fitted.covmeans_)
    odd = list(y)
    odd[3], odd[4], odd[5] = "1", None, [2, 3]
    mdm(metric=metric, **PRIVATE).fit(X, odd)
    mdm(metric=metric, **PRIVATE).fit(X, np.zeros(300, int))  # two classes without a record
