"""What a user holds are NumPy arrays that stay as they were released."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import riemdp

SPACE = riemdp.Euclidean(2)
BALL = riemdp.Ball(np.zeros(2), 1.0)
BUDGET = riemdp.Budget(1.0, 1e-6)


def release(**options):
    X = np.random.default_rng(0).normal(size=(300, 2))
    return riemdp.private_frechet_mean(SPACE, X, BALL, BUDGET, **options)


def arrays_in(value) -> list:
    return [leaf for part in value for leaf in arrays_in(part)] if type(value) is tuple else [value]


def test_what_a_user_holds_are_numpy_arrays_that_stay_as_they_are():
    """Also after a pickle, on a product, and in what belongs to a release."""
    made = release()
    plain = np.random.default_rng(1).normal(size=(300, 2))
    both = riemdp.Product(SPACE, riemdp.Euclidean(3))
    ball = riemdp.Ball((np.zeros(2), np.zeros(3)), 1.0)
    X = (plain, np.random.default_rng(2).normal(size=(300, 3)))
    product = riemdp.private_frechet_mean(both, X, ball, BUDGET)
    problem = riemdp.problems.frechet_mean(SPACE, ball=BALL)
    with pytest.warns(riemdp.NotPrivateWarning, match="record_every"):
        run = riemdp.private_minimize(
            problem, plain, np.zeros(2), riemdp.DPRGD(2, 0.2, 1.0), BUDGET, record_every=1
        )
    fitted = riemdp.PrivateFrechetMean(manifold=SPACE, budget=BUDGET, ball=BALL).fit(plain)
    kept = [pickle.loads(pickle.dumps(x)) for x in (made, product, run)]
    values = [x.value for x in (made, product, run, *kept, *run.history, *kept[-1].history)]
    region = made.confidence_region()
    values += [BALL.center, ball.center, made.details["ball"].center, region.center]
    values += [region.boundary(8), fitted.mean_, riemdp.frechet_mean(SPACE, plain).value]
    for array in (array for value in values for array in arrays_in(value)):
        assert type(array) is np.ndarray
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
