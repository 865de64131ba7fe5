"""PrivateTSClassifier: what it releases, what one record and one label can do, what is planned."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.stats import gamma, kstest
from sklearn.utils.estimator_checks import check_estimator

import riemdp
from riemdp import (
    AdaptiveBall,
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    PrivateTSClassifier,
    RiemdpWarning,
    plan_private_classifier,
)
from riemdp.randomness import noise_source
from tests.estimators.test_mdm_found import PRIVATE, matrices
from tests.purses import noted
from tests.seam import Searches, Sums, plant
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(3.0, 1e-5)
BALL = Ball(np.eye(3), 2.0)


def classifier(**options):
    return PrivateTSClassifier(
        **{"metric": "logeuclid", "budget": BUDGET, "random_state": 1} | options
    )


# ------------------------------------------------------------------------------- what is released
@pytest.mark.parametrize(
    "metric", ["riemann", "logeuclid", pytest.param("wasserstein", marks=pytest.mark.slow)]
)
def test_it_finds_the_classes_in_any_unit(metric):
    for unit, labels in ((1.0, {}), (1e-12, PRIVATE)):
        X, y = matrices(unit=unit)
        fitted = classifier(metric=metric, **labels).fit(X, y)
        assert fitted.score(X, y) > 0.85
        assert 2.97 < fitted.guarantee_.epsilon(1e-5) <= 3.0 * (1 + 1e-9)
        assert fitted.rule_ == "discriminant"
        assert fitted.coef_.shape == (3, 6)
        assert bool(fitted.manifold_.belongs(fitted.reference_, 1e-8 * unit))


@pytest.mark.parametrize("labels", [{}, PRIVATE])
def test_without_noise_it_is_a_discriminant_analysis(labels):
    """The scores of a linear discriminant analysis, written down here with NumPy alone."""
    X, y = matrices()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = classifier(budget=Budget(1e8, 1e-3), ball=BALL, **labels).fit(X, y)
    logs = np.stack([vectors @ np.diag(np.log(v)) @ vectors.T for v, vectors in map(eigh, X)])
    z = logs.reshape(600, 9)
    z = z * np.minimum(1.0, 2.0 / np.linalg.norm(z, axis=1))[:, None]
    means = np.stack([z[y == a].mean(axis=0) for a in range(3)])
    within = sum(np.outer(r, r) for r in z - means[y]) / 600
    weights = means @ np.linalg.pinv(within)
    expected = z @ weights.T - 0.5 * np.sum(weights * means, axis=1)
    ours = fitted.decision_function(X)
    # scores are equal up to a number for each record, which the common part of the means decides
    assert np.allclose(ours - ours[:, :1], expected - expected[:, :1], atol=1e-2, rtol=1e-3)
    assert np.array_equal(fitted.predict(X), expected.argmax(axis=1))


def eigh(x):
    return np.linalg.eigh(x)


# ------------------------------------------------------------------------------------- guarantees
def sums_of(private, kind, n=3, dim=4):
    return kind(n, 2, dim, None if private else (n - 1, 1))


def largest_change(sums, private):
    """Of the joint vector, over random pairs of records with labels, and the worst ones."""
    rng = np.random.default_rng(3)
    worst = 0.0
    pairs = [np.eye(4)[[0, 0]] * [[1.0], [-1.0]], np.eye(4)[[0, 1]], np.eye(4)[[0, 0]]]
    pairs += list(rng.normal(size=(30, 2, 4)))
    rest = np.array([[0.3, 0.0, 0.1, 0.0], [0.0, 0.2, 0.0, 0.0]])
    for i, pair in enumerate(pairs):
        z = pair / np.maximum(1.0 if i % 2 else 0.0, np.linalg.norm(pair, axis=1))[:, None]
        for b in (0, 1, -1) if private else (0,):
            one = sums.joint(np.vstack([z[:1], rest]), np.array([0, 0, 1]))
            other = sums.joint(np.vstack([z[1:], rest]), np.array([b, 0, 1]))
            worst = max(worst, float(np.linalg.norm(one - other)))
    return worst


@pytest.mark.parametrize("kind", [Sums.ClassSums, Sums.ClassMoments])
@pytest.mark.parametrize("private", [False, True])
def test_one_record_moves_the_joint_vector_by_at_most_two(private, kind):
    sums = sums_of(private, kind)
    worst = largest_change(sums, private)
    assert worst <= sums.sensitivity
    assert worst == pytest.approx(2.0)
    assert sums.sensitivity == pytest.approx(2.0, rel=1e-6)


def test_the_weights_are_the_largest_for_two(monkeypatch):
    """Second moments and sizes a little heavier, and a changed label exceeds the sensitivity."""
    plant(monkeypatch, "weight of second moments", math.sqrt(0.5) * 1.01)
    sums = sums_of(True, Sums.ClassMoments)
    assert largest_change(sums, True) > sums.sensitivity


def mechanism_of(where, budget, private, n=600, kind=Sums.DiscriminantNoise):
    sizes = None if private else [n // 3] * 3
    space = riemdp.SPDLogEuclidean(3)
    return kind(space, where, n=n, classes=3, budget=budget, sizes=sizes)


def noise_of_sums(where, private, monkeypatch, kind=Sums.DiscriminantNoise):
    """Noise of the joint vector over the sigma that sensitivity 2 and the share that is left ask
    for; and sees that all shares add up to 1.
    """
    notes = noted(monkeypatch)
    X, y = matrices()
    mechanism = mechanism_of(where, BUDGET, private, kind=kind)
    source, drawn, left = noise_source(2), [], 1.0
    for _ in range(20):
        notes.begin()
        release = mechanism.release((X, y), source)
        assert notes.add_up()
        left = release.details["share_of_classifier"]
        drawn.append(notes.noise[-1])  # after that of the centre
    return np.array(drawn) / (2.0 * riemdp.gaussian_noise_multiplier(BUDGET) / math.sqrt(left))


@pytest.mark.parametrize("budget", [BUDGET, Budget(6.0)])
@pytest.mark.parametrize("labels", [{}, PRIVATE])
def test_matrices_outside_a_public_ball_are_counted(labels, budget):
    """Within the same budget: the sums have the noise of the rest, and there is one charge."""
    X, y = matrices()
    ball = Ball(np.eye(3), 0.8)
    away = np.count_nonzero(np.asarray(riemdp.SPDLogEuclidean(3).dist(np.eye(3), X)) > 0.8)
    options = {"ball": ball, "budget": budget, **labels}
    with Ledger(budget) as ledger, pytest.warns(RiemdpWarning, match="outside the ball") as said:
        fitted = classifier(**options).fit(X, y)
    counted = next(one for one in said if "outside the ball" in str(one.message))
    assert counted.filename == __file__  # the line of whoever called
    without = classifier(**options, count_outside=False).fit(X, y)
    count = fitted.outside_
    assert fitted.release_.details["outside"] is count
    assert abs(count.count - away) < 6 * count.deviation
    assert (count.n, without.outside_) == (600, None)
    assert (ledger.charges, ledger.spent) == (1, fitted.guarantee_)
    assert fitted.guarantee_.within(budget)
    assert fitted.guarantee_.epsilon(budget.delta) == pytest.approx(
        without.guarantee_.epsilon(budget.delta), rel=1e-6
    )
    assert fitted.plan_.share == 1.0 - count.share
    left = math.sqrt(fitted.plan_.share) if budget.delta else fitted.plan_.share
    assert without.release_.scale / fitted.release_.scale == pytest.approx(left, rel=1e-3)
    assert without.plan_.noise / fitted.plan_.noise == pytest.approx(left, rel=1e-6)
    for change in ({"count_outside": "yes"}, {"count_outside": True, "ball": None}):
        with Ledger(budget) as ledger, pytest.raises(InvalidArgument, match="count_outside"):
            classifier(**options | change).fit(X, y)
        assert ledger.charges == 0


class Cheap(Sums.DiscriminantNoise):
    """A planted fault: the vector is taken to change by half of what it does."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        sums = self.sums

        class Half(Sums.ClassMoments):
            sensitivity = 1.0

        self.sums = Half(sums.n, sums.classes, sums.dim, sums.sizes)


WHERE = {"found": AdaptiveBall(), "given": BALL}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("private", [False, True])
def test_shares_are_the_budget_and_the_vector_has_its_noise(where, private, monkeypatch):
    noise = noise_of_sums(WHERE[where], private, monkeypatch)
    assert noise.shape[1] == 18 + 21 + (3 if private else 0)
    assert gaussian_p_value(noise, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * noise, 1.0) < ALPHA


@pytest.mark.parametrize("where", WHERE)
def test_too_little_noise_is_detected(where, monkeypatch):
    noise = noise_of_sums(WHERE[where], True, monkeypatch, Cheap)
    assert gaussian_p_value(noise, 1.0) < ALPHA


def test_a_far_record_moves_the_classifier_no_more_than_one_at_the_radius():
    """The same seed: what differs is what the record does."""
    X, y = matrices()
    near, far = X.copy(), X.copy()
    near[0], far[0] = 1e3 * np.diag([1.0, 1.0, 1e-9]), 1e3 * np.diag([1.0, 1.0, 1e-90])
    one, other = (
        mechanism_of(AdaptiveBall(), BUDGET, True).release((x, y), 5) for x in (near, far)
    )
    r = one.details["ball"].radius
    assert other.details["ball"].radius == r
    gap = np.linalg.norm(one.details["coordinates"] - other.details["coordinates"], axis=1)
    assert np.all(gap <= 2 * r / 150)


def test_classes_apart_have_noise_of_their_own():
    """Public labels and a pure budget: the length of each class's noise has the distribution of 6
    dimensions, for sensitivity 2.
    """
    sums = Sums.ClassSums(600, 3, 6, (200, 200, 200))
    noise, source = Searches.SomeNoise.of(Budget(3.0)), noise_source(3)
    purses = [Searches.Purse(noise, source) for _ in range(150)]
    drawn = [sums.noisy(np.zeros(18), purse)[0].reshape(3, 6) for purse in purses]
    lengths = np.linalg.norm(np.concatenate(drawn), axis=1) / (2.0 / 3.0)
    assert kstest(lengths, gamma(6).cdf).pvalue > ALPHA
    assert kstest(0.8 * lengths, gamma(6).cdf).pvalue < ALPHA


def advantage(kind, releases=250):
    """The mu that an attacker proves from the class means, for a record that changes sides and its
    label.
    """
    budget, n = Budget(6.0, 1e-5), 60
    X = np.stack([np.diag([math.e, 1 / math.e])] * n)
    Y = X.copy()
    Y[0] = np.diag([1 / math.e, math.e])
    labels = np.arange(n) % 2
    swapped = labels.copy()
    swapped[0] = 1
    space, ball = riemdp.SPDLogEuclidean(2), Ball(np.eye(2), math.sqrt(2.0))
    mechanism = kind(space, ball, n=n, classes=2, budget=budget)
    source, scores = noise_source(4), []
    for x, y in ((X, labels), (Y, swapped)):
        seen = [mechanism.release((x, y), source).details for _ in range(releases)]
        sums = [d["coordinates"] / ball.radius * np.array(d["sizes"])[:, None] for d in seen]
        change = np.array([s[0] + s[1] for s in sums]) @ np.array([1.0, -1.0, 0.0])
        sizes = np.array([d["sizes"][0] - d["sizes"][1] for d in seen])
        scores.append(change + sizes / math.sqrt(2.0) / 2)
    mu = 1.0 / riemdp.gaussian_noise_multiplier(budget)
    return riemdp.audit.gaussian_mu_lower_bound(scores[0], scores[1]), mu


@pytest.mark.slow
def test_one_record_and_its_label_show_no_more_than_is_claimed():
    found, claimed = advantage(Sums.DiscriminantNoise)
    assert found < claimed


@pytest.mark.slow
def test_an_attacker_detects_too_little_noise():
    found, claimed = advantage(Cheap)
    assert found > claimed


# -------------------------------------------------------------------------------- what can go wrong
def test_one_charge_and_refusals_from_public_numbers():
    X, y = matrices()
    with Ledger(Budget(3.0, 1e-5)) as ledger:
        few, labels = matrices(30)
        for bad in (few, np.full_like(few, np.nan)):
            with pytest.raises(InvalidArgument, match=r"`ball`.*too few.*Nothing was spent"):
                classifier(budget=Budget(0.3, 1e-5), on_invalid="center").fit(bad, labels)
        damaged = X.copy()
        damaged[7, 0, 1] = np.nan
        with pytest.raises(InvalidArgument, match="record 7"):
            classifier().fit(damaged, y)
        assert ledger.charges == 0
        fitted = classifier().fit(X, y)
        assert ledger.charges == 1
        assert ledger.spent.epsilon(1e-5) == fitted.guarantee_.epsilon(1e-5)
        with pytest.raises(BudgetExceeded):
            classifier().fit(X, y)
    assert fitted.total_spent_.epsilon(1e-5) == fitted.guarantee_.epsilon(1e-5)


@pytest.mark.parametrize("ball", [None, BALL])
def test_no_record_and_no_label_decides_whether_an_error_is_raised(ball):
    X, y = matrices(300)
    options = {"on_invalid": "center", "ball": ball, **PRIVATE}
    for value in (np.nan, np.inf, 0.0, 1e300, -1e300, 1e-300):
        Z = X.copy()
        Z[7] = value
        classifier(**options).fit(Z, y)
    fitted = classifier(**options).fit(np.full_like(X, np.nan), y)
    assert np.all(np.isfinite(fitted.coef_))
    assert np.all(np.isfinite(fitted.intercept_))
    odd = list(y)
    odd[3], odd[4], odd[5] = "1", None, [2, 3]
    classifier(**options).fit(X, odd)
    lonely = classifier(**options).fit(X, np.zeros(300, int))  # two classes without a record
    assert lonely.coef_.shape == (3, 6)
    assert lonely.plan_ == fitted.plan_


# ------------------------------------------------------------------------------------- the plan
def test_a_hopeless_classifier_is_named_before_anything_is_spent():
    X, y = matrices(90)
    weak = classifier(budget=Budget(0.05, 1e-5), ball=BALL)
    with Ledger(Budget(5.0, 1e-4)) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RiemdpWarning)
            with pytest.raises(RiemdpWarning, match="nearer to guessing"):
                weak.fit(X, y)
        assert ledger.charges == 0
        with pytest.warns(RiemdpWarning, match="records per class") as said:
            weak.fit(X, y)
        assert said[0].filename == __file__  # the line of whoever called
        assert ledger.charges == 1
    assert weak.plan_.verdict == "hopeless"


def test_the_plan_knows_what_a_fit_does():
    X, y = matrices()
    fitted = classifier(**PRIVATE).fit(X, y)
    plan = fitted.plan_
    space = riemdp.SPDLogEuclidean(3)
    assert plan == plan_private_classifier(space, 600, 3, BUDGET)[0]
    assert plan.share == pytest.approx(fitted.release_.details["share_of_classifier"], abs=1e-12)
    sigma = fitted.release_.scale
    assert plan.noise == pytest.approx(3 * sigma * 6**0.5 / 600, rel=1e-3)
    search = mechanism_of(AdaptiveBall(), BUDGET, True).plan
    assert 1.0 - Searches.share_of_short_search(search) == pytest.approx(plan.share, abs=1e-12)
    n = 3 * plan.records_a_class
    assert plan_private_classifier(space, n, 3, BUDGET)[0].verdict == "enough"
    assert plan_private_classifier(space, n - 6, 3, BUDGET)[0].noise > 0.2
    assert plan_private_classifier(space, 5, 3, BUDGET)[0].verdict == "too few"
    assert "records per class" in str(plan_private_classifier(space, 600, 3, BUDGET))
    options = {"ball": BALL, "count_outside": False}
    (given,) = plan_private_classifier(space, 600, 3, Budget(1.0), **options)
    assert (given.need, given.share, given.mechanism) == (1, 1.0, "class-means")
    with pytest.raises(InvalidArgument, match="manifold"):
        plan_private_classifier(3, 600, 3, BUDGET)  # pyright: ignore[reportArgumentType]


# --------------------------------------------------------------------------------- scikit-learn
def test_scikit_learn_checks():
    """Records are matrices, so the checks that send tables are left out by scikit-learn itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(PrivateTSClassifier(budget=BUDGET))
        check_estimator(riemdp.PrivateTangentSpace(budget=BUDGET))
        check_estimator(riemdp.PrivateTLCenter(budget=BUDGET))
        check_estimator(riemdp.PrivateMDM(budget=BUDGET))
        check_estimator(
            riemdp.PrivateFrechetMean(budget=BUDGET, manifold=riemdp.SPDLogEuclidean(3))
        )
