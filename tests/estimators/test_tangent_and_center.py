"""PrivateTangentSpace and PrivateTLCenter: values, guarantees, pipelines, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

import riemdp
from riemdp import (
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    PrivateFrechetMean,
    PrivateTangentSpace,
    PrivateTLCenter,
    PrivateTSClassifier,
)

BUDGET = Budget(2.0, 1e-5)
BALL = Ball(np.eye(2), 2.5)
SPACE = riemdp.spd(2, "riemann")


def subjects(n=240, seed=0):
    """Two subjects, "a" and "b" (another gain), each with two classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    who = np.where(np.arange(n) < n // 2, "a", "b")
    signals = (
        rng.normal(size=(n, 2, 20)) * np.where(y[:, None] == 0, [1.0, 2.0], [2.0, 1.0])[:, :, None]
    )
    signals[who == "b"] *= 2.0
    return signals @ signals.transpose(0, 2, 1) / 20, y, who


X, Y, WHO = subjects()


def center(**options):
    return PrivateTLCenter(**{"budget": BUDGET, "ball": BALL, "random_state": 2} | options)


def tangent(**options):
    return PrivateTangentSpace(**{"budget": BUDGET, "ball": BALL, "random_state": 2} | options)


# ------------------------------------------------------------------------------- the tangent space
@pytest.mark.parametrize(
    "metric", ["riemann", "logeuclid", pytest.param("wasserstein", marks=pytest.mark.slow)]
)
def test_tangent_vectors_at_the_private_mean(metric):
    space = riemdp.spd(2, metric)
    ball = Ball(np.eye(2), 0.4 if metric == "wasserstein" else 2.5)
    fitted = tangent(metric=metric, ball=ball).fit(X)
    mean = PrivateFrechetMean(
        manifold=space,
        budget=BUDGET,
        ball=ball,
        mechanism="wrapped-gaussian",
        random_state=2,
    ).fit(X)
    assert np.array_equal(fitted.reference_, mean.mean_)
    rows = fitted.transform(X)
    assert rows.shape == (240, 3)
    assert np.allclose(np.sum(rows**2, axis=1), space.squared_dist(fitted.reference_, X))
    assert np.allclose(fitted.inverse_transform(rows), X, atol=1e-8)
    assert fitted.guarantee_.epsilon(1e-5) <= 2.0
    assert fitted.total_spent_.epsilon(1e-5) == fitted.guarantee_.epsilon(1e-5)


@pytest.mark.parametrize("ball", [None, BALL])
def test_people_instead_of_matrices(ball):
    """A person's matrices count as one; groups are routed through a pipeline."""
    people = np.repeat(np.arange(120), 2)
    space = riemdp.spd(2, "riemann")
    how = {} if ball is None else {"mechanism": "wrapped-gaussian"}
    release = riemdp.private_frechet_mean(space, X, ball, BUDGET, rng=2, groups=people, **how)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(tangent(ball=ball).set_fit_request(groups=True))
        fitted = pipeline.fit(X, groups=people)[0]
    assert np.array_equal(fitted.reference_, release.value)
    assert fitted.guarantee_.unit == release.guarantee.unit != tangent().fit(X).guarantee_.unit


# ------------------------------------------------------------------------------------- the centres
def test_each_subject_is_centred_by_its_own_mean():
    fitted = center(budget=Budget(1e6, 1e-3), ball=Ball(np.eye(2), 5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new = fitted.fit_transform(X, domains=WHO)
    assert set(fitted.centers_) == {"a", "b"}
    for name in "ab":
        mean = riemdp.frechet_mean(SPACE, X[name == WHO]).value
        assert np.allclose(fitted.centers_[name], mean, atol=1e-2)
        ours = riemdp.frechet_mean(SPACE, new[name == WHO]).value
        assert np.allclose(ours, np.eye(2), atol=1e-2)
    root = np.linalg.inv(np.real(sqrtm(fitted.centers_["a"])))
    assert np.allclose(new[0], root @ X[0] @ root)
    # what the affine-invariant metric measures within a subject is kept
    assert np.allclose(SPACE.dist(new[:50], new[50:100]), SPACE.dist(X[:50], X[50:100]))


def sqrtm(x):
    values, vectors = np.linalg.eigh(x)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def test_all_subjects_together_cost_the_budget_once():
    with Ledger(Budget(2.0, 1e-5)) as ledger:
        fitted = center().fit(X, domains=WHO)
        assert ledger.charges == 1
        assert ledger.spent.epsilon(1e-5) == pytest.approx(2.0, rel=1e-3)
        assert ledger.spent.epsilon(1e-5) <= 2.0
        assert fitted.guarantee_.epsilon(1e-5) == ledger.spent.epsilon(1e-5)
        for release in fitted.releases_.values():
            assert release.guarantee.epsilon(1e-5) <= fitted.guarantee_.epsilon(1e-5) * (1 + 1e-9)
        with pytest.raises(BudgetExceeded):
            center().fit(X, domains=WHO)


def test_a_record_moves_the_mean_of_its_own_subject_only():
    """Parallel composition needs this. The same seed: what differs is what the record does."""
    other = X.copy()
    other[200] = np.diag([9.0, 0.1])  # one of b
    one, two = (center().fit(x, domains=WHO).centers_ for x in (X, other))
    assert np.array_equal(one["a"], two["a"])
    assert not np.array_equal(one["b"], two["b"])
    assert float(SPACE.dist(one["b"], two["b"])) <= 2 * BALL.radius / 120 * (1 + 1e-6)


def test_matrices_outside_a_public_ball_are_counted():
    """Within the same budget: one charge, and the guarantee is still that of the whole."""
    small = Ball(np.eye(2), 0.3)
    with Ledger(Budget(4.0, 1e-4)) as ledger:
        with pytest.warns(riemdp.RiemdpWarning, match="outside"):
            space = tangent(ball=small).fit(X)
        with pytest.warns(riemdp.RiemdpWarning, match="outside"):
            domains = center(ball=small).fit(X, domains=WHO)
        assert ledger.charges == 2
    outside = np.count_nonzero(np.asarray(SPACE.dist(np.eye(2), X)) > 0.3)
    assert abs(space.outside_.count - outside) < 6 * space.outside_.deviation
    assert set(domains.outside_) == {"a", "b"}
    assert domains.outside_["a"].n == 120
    for fitted in (space, domains):
        assert 1.9 < fitted.guarantee_.epsilon(1e-5) <= 2.0
    assert tangent(count_outside=False).fit(X).outside_ is None
    assert center(count_outside=False).fit(X, domains=WHO).outside_ == {}
    for make in (tangent, center):
        with Ledger(Budget(9.0, 1e-4)) as ledger:
            for change in ({"count_outside": "yes"}, {"count_outside": True, "ball": None}):
                with pytest.raises(InvalidArgument, match="count_outside"):
                    make(**change).fit(X)
        assert ledger.charges == 0


def test_domains_in_labels_as_pyriemann_encodes_them():
    encoded = [f"{w}/{label}" for w, label in zip(WHO, Y, strict=True)]
    by_label = center(target_domain="a").fit(X, encoded)
    by_name = center(target_domain="a").fit(X, Y, domains=WHO)
    assert np.array_equal(by_label.centers_["b"], by_name.centers_["b"])
    assert np.array_equal(by_label.transform(X)[:120], by_name.fit_transform(X, domains=WHO)[:120])
    one = center().fit(X, Y)  # no domain is named, and labels name none: one subject
    assert list(one.centers_) == [""]
    assert np.allclose(one.transform(X), one.fit_transform(X))


def test_what_a_centre_would_ignore_is_refused():
    """Domains in labels were ignored without a target; a subject that was not seen was centred by
    the mean of the last one in the order of names; pyRiemann's rules were unknown names.
    """
    encoded = [f"{w}/{label}" for w, label in zip(WHO, Y, strict=True)]
    with Ledger(Budget(9.0, 1e-4)) as ledger:
        with pytest.raises(InvalidArgument, match="no `target_domain` says"):
            center().fit(X, encoded)
        for rule in ("last", "transductive"):
            for given in ({"domains": WHO}, {"y": encoded}, {}):
                with pytest.raises(InvalidArgument, match="name a domain of the fit"):
                    center(target_domain=rule).fit(X, **given)
        assert ledger.charges == 0
        both = center().fit(X, encoded, domains=WHO)
    for name in ("", "c"):
        with pytest.raises(InvalidArgument, match="was not fitted"):
            both.set_params(target_domain=name).transform(X)
    with pytest.raises(InvalidArgument, match="would be released"):
        both.set_params(target_domain="transductive").transform(X)
    seen = both.set_params(target_domain="b").transform(X)
    assert np.allclose(seen[120:], both.fit_transform(X, domains=WHO)[120:])


def test_a_pipeline_with_routed_domains():
    """One budget a step; the domains of the records are routed to the step that wants them."""
    with sklearn.config_context(enable_metadata_routing=True), Ledger(Budget(9.0, 1e-4)) as ledger:
        step = center(target_domain="b").set_fit_request(domains=True)
        pipeline = make_pipeline(
            step, PrivateTSClassifier(budget=BUDGET, ball=BALL, random_state=1)
        )
        pipeline.fit(X, Y, domains=WHO)
        assert ledger.charges == 2
        assert pipeline.score(X[WHO == "b"], Y[WHO == "b"]) > 0.9
