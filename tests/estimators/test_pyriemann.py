"""Private estimators beside pyRiemann: the same classifiers and transformers when the noise is
negligible, and its own transformers in a pipeline.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import (
    Ball,
    Budget,
    PrivateFrechetMean,
    PrivateMDM,
    PrivateTangentSpace,
    PrivateTLCenter,
    PrivateTSClassifier,
)

pyriemann = pytest.importorskip("pyriemann")
pytestmark = pytest.mark.conformance

ALMOST_NONE = Budget(1e7, 1e-3)


def epochs(n: int = 60, seed: int = 0):
    """Two classes of signals (n, channels, samples) with different mixing."""
    rng = np.random.default_rng(seed)
    mixing = np.array(
        [
            [[1.2, 0.3, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.8]],
            [[0.8, 0.0, 0.1], [0.3, 1.0, 0.0], [0.0, 0.1, 1.2]],
        ]
    )
    y = np.arange(n) % 2
    return mixing[y] @ rng.normal(size=(n, 3, 60)), y


def test_same_as_pyriemann_without_noise():
    """In the log-Euclidean metric, where a tangent space is the whole of the space."""
    from pyriemann.classification import MDM
    from pyriemann.estimation import Covariances

    signals, y = epochs()
    X = Covariances("scm").fit_transform(signals)
    theirs = MDM(metric="logeuclid").fit(X, y)
    given = {"metric": "logeuclid", "budget": ALMOST_NONE, "ball": Ball(np.eye(3), 5.0)}
    ours = PrivateMDM(**given).fit(X, y)
    assert np.allclose(ours.covmeans_, theirs.covmeans_, atol=1e-2)
    assert np.array_equal(ours.classes_, theirs.classes_)
    assert np.allclose(ours.transform(X), theirs.transform(X), atol=2e-2)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=5e-2)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.97


def test_pipeline_with_covariances_and_cross_validation():
    from pyriemann.estimation import Covariances
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    signals, y = epochs(200)
    ball = Ball(np.eye(3), 2.0)
    classifier = PrivateMDM(metric="riemann", budget=Budget(3.0, 1e-5), ball=ball, random_state=1)
    pipeline = make_pipeline(Covariances("scm"), classifier)
    scores = cross_val_score(pipeline, signals, y, cv=3)
    assert scores.mean() > 0.8


def test_tangent_space_at_a_private_mean():
    from pyriemann.estimation import Covariances
    from pyriemann.tangentspace import TangentSpace
    from sklearn.linear_model import LogisticRegression

    signals, y = epochs(200)
    X = Covariances("scm").fit_transform(signals)
    space = riemdp.SPDAffineInvariant(3)
    mean = PrivateFrechetMean(
        manifold=space, budget=Budget(2.0, 1e-5), ball=Ball(np.eye(3), 2.0), random_state=2
    ).fit(X)
    projection = TangentSpace(metric="riemann")
    projection.reference_ = np.asarray(mean.mean_)
    theirs, ours = projection.transform(X), mean.transform(X)
    # the frames differ by a rotation: the Gram matrices of the features agree
    assert np.allclose(theirs @ theirs.T, ours @ ours.T, atol=1e-8)
    assert LogisticRegression().fit(ours, y).score(ours, y) > 0.8


def test_the_tangent_space_and_its_inverse_are_theirs():
    from pyriemann.estimation import Covariances
    from pyriemann.tangentspace import TangentSpace

    signals, _ = epochs(80)
    X = Covariances("scm").fit_transform(signals)
    ours = PrivateTangentSpace(budget=ALMOST_NONE, ball=Ball(np.eye(3), 5.0)).fit(X)
    theirs = TangentSpace(metric="riemann").fit(X)
    assert np.allclose(ours.reference_, theirs.reference_, atol=1e-3)
    theirs.reference_ = ours.reference_
    a, b = ours.transform(X), theirs.transform(X)
    assert np.allclose(a @ a.T, b @ b.T, atol=1e-8)
    assert np.allclose(ours.inverse_transform(a), theirs.inverse_transform(b), atol=1e-8)


def test_centred_domains_are_theirs():
    from pyriemann.estimation import Covariances
    from pyriemann.transfer import TLCenter, encode_domains

    signals, y = epochs(80)
    domain = np.repeat(["one", "two"], 40)
    signals[domain == "two"] *= 3.0
    X, encoded = encode_domains(Covariances("scm").fit_transform(signals), y, domain)
    ours = PrivateTLCenter("two", budget=ALMOST_NONE, ball=Ball(np.eye(3), 6.0))
    theirs = TLCenter("two", metric="riemann")
    assert np.allclose(ours.fit_transform(X, encoded), theirs.fit_transform(X, encoded), atol=1e-2)
    assert np.allclose(ours.transform(X), theirs.transform(X), atol=1e-2)
    assert set(ours.centers_) == set(theirs.centers_)


def test_accuracy_beside_their_tangent_space_classifier():
    from pyriemann.classification import TSClassifier
    from pyriemann.estimation import Covariances

    signals, y = epochs(400)
    X = Covariances("scm").fit_transform(signals)
    ours = PrivateTSClassifier(budget=Budget(2.0, 1e-5), random_state=1).fit(X[:300], y[:300])
    theirs = TSClassifier().fit(X[:300], y[:300])
    assert ours.score(X[300:], y[300:]) > theirs.score(X[300:], y[300:]) - 0.05
