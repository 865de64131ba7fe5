"""PrivateTLScale and PrivateTLRotate: values, one charge, domains apart, people, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger, PrivateTLRotate, PrivateTLScale

from .test_tangent_and_center import BALL, BUDGET, SPACE, WHO, X

SURE = Budget(1e5, 1e-3)
CLASSES = np.where(np.arange(240) % 2 == 0, "left", "right")
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])
TURNED = X.copy()
TURNED[WHO == "b"] = TURN @ TURNED[WHO == "b"] @ TURN.T / 4.0  # its gain was 2 in amplitude
PRIVATE = {"labels": "private", "classes": ["left", "right"]}
KINDS = [PrivateTLScale, PrivateTLRotate]


def made(kind, **options):
    return kind("a", **{"budget": BUDGET, "ball": BALL, "random_state": 2} | options)


def fitted(kind, records=X, **options):
    return made(kind, **options).fit(records, CLASSES, domains=WHO)


def spread(records, center):
    return float(np.mean(SPACE.squared_dist(center, records)))


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
@pytest.mark.parametrize("ball", [None, Ball(np.eye(2), 5.0)])
def test_each_domain_has_the_dispersion_that_was_asked_for(ball):
    scale = made(PrivateTLScale, budget=SURE, ball=ball, final_dispersion=0.25)
    new = scale.fit_transform(X, domains=WHO)
    for name in "ab":
        own, center = X[name == WHO], scale.centers_[name]
        mean = riemdp.frechet_mean(SPACE, own).value
        assert float(SPACE.dist(center, mean)) < 0.05
        assert scale.scales_[name] == pytest.approx(spread(own, center), rel=0.03)
        assert spread(new[name == WHO], center) == pytest.approx(0.25, rel=0.03)
    assert np.allclose(scale.transform(X[:120]), new[:120])
    assert np.allclose(scale.transform(X[120:]), new[120:]) is False  # of another domain


def test_a_public_centre_is_no_release():
    scale = fitted(PrivateTLScale, centered_data=True)
    assert np.array_equal(scale.centers_["b"], np.eye(2))
    assert scale.releases_["b"].guarantee == scale.guarantee_
    sigma = riemdp.gaussian_noise_multiplier(BUDGET) * BALL.radius**2 / 120
    assert scale.releases_["b"].scale == pytest.approx(sigma, rel=1e-6)
    given = {"domains": ["a"] * 20}
    flat = made(PrivateTLScale, centered_data=True).fit(np.tile(np.eye(2), (20, 1, 1)), **given)
    assert flat.scales_["a"] >= 0.99 * riemdp.gaussian_noise_multiplier(BUDGET) * 2.5**2 / 20


def test_a_dispersion_is_about_the_released_mean():
    """About a mean of records without noise it would tell more than it costs."""
    scale = fitted(PrivateTLScale, budget=SURE, ball=BALL)
    for name, (mean, dispersion) in scale.releases_.items():
        assert np.array_equal(mean.value, scale.centers_[name])
        noise = 5.0 * dispersion.scale
        cut = np.minimum(SPACE.dist(mean.value, X[name == WHO]), BALL.radius)
        assert float(dispersion.value) == pytest.approx(float(np.mean(cut**2)), abs=noise)


@pytest.mark.parametrize("kind", KINDS)
def test_all_domains_together_cost_the_budget_once(kind):
    with Ledger(Budget(2.0, 1e-5)) as ledger:
        step = fitted(kind)
        assert ledger.charges == 1
        assert ledger.spent.epsilon(1e-5) == step.guarantee_.epsilon(1e-5)
        assert 1.99 < step.guarantee_.epsilon(1e-5) <= 2.0
    if kind is PrivateTLScale:
        mean, dispersion = step.releases_["a"]
        shares = [p.guarantee.parts[0].squared_mu for p in (mean, dispersion)]
        assert shares[0] == pytest.approx(3.0 * shares[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_moves_what_is_released_of_its_own_domain_only(kind):
    """Parallel composition needs this. The same seed: what differs is what the record does."""
    other = X.copy()
    other[200] = np.diag([9.0, 0.1])  # one of b
    one, two = (fitted(kind, records).releases_ for records in (X, other))

    def values(releases, name):
        of = releases[name]
        return [np.asarray(r.value) for r in (of if isinstance(of, tuple) else (of,))]

    for value, same in zip(values(one, "a"), values(two, "a"), strict=True):
        assert np.array_equal(value, same)
    assert any(not np.array_equal(*b) for b in zip(values(one, "b"), values(two, "b"), strict=True))


@pytest.mark.parametrize("options", [{}, PRIVATE, {"ball": None}])
def test_class_means_of_a_turned_subject_are_turned_back(options):
    rotate = made(PrivateTLRotate, budget=SURE, **options)
    encoded = [f"{w}/{c}" for w, c in zip(WHO, CLASSES, strict=True)]
    new = rotate.fit_transform(TURNED, encoded)
    assert list(rotate.rotations_) == ["b"]
    assert np.array_equal(new[WHO == "a"], TURNED[WHO == "a"])
    assert np.array_equal(rotate.transform(X), X)
    axes = np.abs(rotate.rotations_["b"] @ TURN)  # of either sign
    assert np.allclose(axes, np.eye(2), atol=0.1)
    q = rotate.rotations_["b"]
    assert np.allclose(q @ q.T, np.eye(2))
    assert np.allclose(new[200], q @ TURNED[200] @ q.T)


def test_private_classes_of_a_domain_have_noisy_sizes():
    rotate = fitted(PrivateTLRotate, **PRIVATE)
    for release in rotate.releases_.values():
        sizes = release.details["sizes"]
        assert all(size != round(size) for size in sizes)
    assert fitted(PrivateTLRotate).releases_["a"].details["sizes"] is None


@pytest.mark.parametrize("k", [3, 5])
def test_any_rotation_of_three_classes_is_found(k):
    rng = np.random.default_rng(k)
    y = rng.normal(size=(3, k, k)) * 0.3
    classes = np.asarray(riemdp.spd(k, "logeuclid").exp(np.eye(k), y + y.swapaxes(1, 2)))
    turn = np.linalg.qr(rng.normal(size=(k, k)))[0]
    records = np.concatenate([np.tile(m, (30, 1, 1)) for m in (classes, turn @ classes @ turn.T)])
    y = np.tile([0, 1, 2], 60)
    given = {"budget": SURE, "metric": "logeuclid", "ball": Ball(np.eye(k), 4.0)}
    rotate = PrivateTLRotate("a", **given, random_state=0)
    new = rotate.fit_transform(records, y, domains=np.repeat(["a", "b"], 90))
    assert np.abs(new[90:] - records[:90]).max() < 0.05 * np.abs(records).max()
    means = [rotate.releases_[name].value for name in "ba"]
    q = rotate.rotations_["b"]  # of the released means: no other matrix fits them better
    fit = np.sum((q @ means[0] @ q.T - means[1]) ** 2)
    for _ in range(20):
        other = q @ np.linalg.qr(np.eye(k) + 0.1 * rng.normal(size=(k, k)))[0]
        assert fit <= np.sum((other @ means[0] @ other.T - means[1]) ** 2) + 1e-9


def test_people_of_domains():
    people = np.arange(240) // 3
    domains = np.where(people % 2 == 0, "a", "b")
    for kind, options in ((PrivateTLScale, {}), (PrivateTLRotate, PRIVATE)):
        with Ledger(Budget(4.0, 1e-4)) as ledger:
            step = made(kind, **options).fit(X, CLASSES, domains=domains, groups=people)
            assert ledger.spent.unit == step.guarantee_.unit == "person"
            with pytest.raises(InvalidArgument, match="several domains"):
                made(kind, **options).fit(X, CLASSES, domains=WHO[::-1], groups=np.arange(240) % 7)
            assert ledger.charges == 1
        releases = step.releases_["a"]
        for release in releases if isinstance(releases, tuple) else (releases,):
            assert release.guarantee.unit == "person"
            assert release.facts.people == 40
