"""What pyRiemann's own tests ask of its classifiers and transformers, in our words and for ours.

Left out, because a private estimator cannot or must not do it:

- weights per record (`sample_weight`): they would change the sensitivity, and are refused;
- two fits on the same records are equal: noise is fresh every time (with a seed they are equal, and
  not private);
- `metric` as a dictionary, `metric="euclid"`, `n_jobs`, `tsupdate`: there are no such parameters,
  and no private estimator in that metric;
- a tangent space that was not fitted takes the identity as its reference: ours raises, because a
  forgotten `fit` would go unnoticed;
- Hermitian matrices: real ones of twice the size take their place;
- tangent vectors as the input of a re-centring, and that records have the identity as their mean
  after it: the centre carries noise;
- `clf=` of the tangent-space classifier: put a classifier of your own behind `PrivateTangentSpace`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import riemdp
from riemdp import (
    Budget,
    PrivateFrechetMean,
    PrivateMDM,
    PrivatePGA,
    PrivateTangentSpace,
    PrivateTLCenter,
    PrivateTSClassifier,
)

LOOSE = Budget(50.0, 1e-3)
CLASSIFIERS = (PrivateMDM, PrivateTSClassifier)
TRANSFORMERS = (PrivateTangentSpace, PrivateTLCenter)
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def matrices(n=120, k=3, classes=2, seed=0):
    """Well separated classes of k x k matrices, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    signals = rng.normal(size=(n, k, 40)) * np.exp(np.arange(k) == y[:, None])[:, :, None]
    return signals @ signals.transpose(0, 2, 1) / 40, y


X, Y = matrices()


def made(kind: Any, **options) -> Any:
    return kind(**{"budget": LOOSE, "random_state": 3} | options)


class Tensor:
    """What torch gives: neither a NumPy array nor a list, with a shape and `__array__`."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape = self.values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


# ------------------------------------------------------------------------------------- classifiers
@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(kind, classes):
    """Shapes, ranges, classes; probabilities agree with predictions; one class more or less."""
    x, y = matrices(classes=classes)
    fitted = made(kind)
    assert fitted.fit(x, y) is fitted
    assert np.array_equal(fitted.classes_, np.arange(classes))
    predicted = fitted.predict(x)
    assert predicted.shape == (120,)
    assert set(predicted) <= set(range(classes))
    chances = fitted.predict_proba(x)
    assert chances.shape == (120, classes)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert np.array_equal(chances.argmax(axis=1), predicted)
    assert fitted.score(x, y) == np.mean(predicted == y) > 0.9


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_second_fit_forgets_the_first(kind):
    """Other sizes of matrices, other classes."""
    fitted = made(kind).fit(X, Y)
    x, y = matrices(k=2, classes=2, seed=1)
    fitted.fit(x, np.where(y == 0, "rest", "move"))
    assert list(fitted.classes_) == ["move", "rest"]
    assert fitted.predict_proba(x).shape == (120, 2)
    assert len(fitted.total_spent_.parts) >= 1
    once = fitted.guarantee_.epsilon(1e-3)
    assert fitted.total_spent_.epsilon(1e-3) > once


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_containers_other_than_arrays(kind):
    """Lists of matrices (with the size of a matrix from a ball), tensors, labels in lists."""
    plain = made(kind).fit(X, Y).predict(X)
    assert np.array_equal(made(kind).fit(Tensor(X), Tensor(Y)).predict(Tensor(X)), plain)
    assert np.array_equal(made(kind).fit(X, list(Y)).predict(X), plain)
    search = riemdp.AdaptiveBall(outer=riemdp.Ball(np.eye(3), 30.0))
    listed = made(kind, ball=search).fit(list(X), list(Y))
    assert listed.score(X, Y) > 0.9


# ------------------------------------------------------------------------------------ transformers
@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers(kind):
    """`fit` returns itself, `transform` keeps the number of records, two steps are one."""
    fitted = made(kind)
    assert fitted.fit(X) is fitted
    new = fitted.transform(X)
    assert new.shape == ((120, 6) if kind is PrivateTangentSpace else (120, 3, 3))
    assert np.allclose(made(kind).fit_transform(X), new)
    assert np.allclose(fitted.transform(X[:1]), new[:1])
    x, _ = matrices(k=2)
    assert len(fitted.fit(x).transform(x)) == 120  # a second fit forgets the first
    with pytest.raises(NotFittedError):
        made(kind).transform(X)


@pytest.mark.parametrize(
    "kind", [riemdp.estimators.PrivateMDM, riemdp.estimators.PrivateTSClassifier]
)
def test_a_classifier_that_was_not_fitted_says_so(kind):
    new = kind(budget=riemdp.Budget(1.0, 1e-5))
    for ask in (new.predict, new.predict_proba, lambda x: new.score(x, Y)):
        with pytest.raises(NotFittedError):
            ask(X)


@pytest.mark.parametrize("kind", [PrivateFrechetMean, PrivatePGA])
def test_transformers_that_are_told_the_space(kind):
    """The same for those that work on any space: containers, pipelines, a second fit, clones."""
    space = riemdp.spd(3, "riemann")
    fitted = made(kind, manifold=space)
    assert fitted.fit(X) is fitted
    new = fitted.transform(X)
    assert new.shape == (120, 6)
    assert np.allclose(fitted.transform(X[:1]), new[:1])
    for other in (list(X), Tensor(X)):
        assert np.allclose(clone(fitted).fit(other).transform(X), new)
    assert np.allclose(clone(fitted).fit_transform(X, Y), new)
    assert clone(fitted).set_params(on_invalid="center").get_params()["on_invalid"] == "center"
    pipeline = make_pipeline(clone(fitted), LogisticRegression())
    assert pipeline.fit(X, Y).score(X, Y) > 0.9
    other = fitted.set_params(manifold=riemdp.spd(2, "riemann")).fit(matrices(k=2)[0])
    assert other.transform(matrices(k=2)[0]).shape == (120, 3)
    with pytest.raises(NotFittedError):
        made(kind, manifold=space).transform(X)
    with pytest.raises(riemdp.InvalidArgument, match="sample_weight"):
        made(kind, manifold=space).fit(X, sample_weight=np.ones(120))


def test_output_as_a_table():
    pandas = pytest.importorskip("pandas")
    for kind in (PrivateMDM, PrivateTangentSpace):
        table = made(kind).set_output(transform="pandas").fit(X, Y).transform(X)
        assert isinstance(table, pandas.DataFrame)
        assert next(iter(table.columns)) == f"{kind.__name__.lower()}0"
