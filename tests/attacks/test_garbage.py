"""Garbage records: whatever they are, the same public facts give the same kind of outcome.

Public are the space, the ball, the settings, how many records there are, and whether they come as a
list or as an array; of a table also the number of columns. Nothing else may decide whether a call
returns or which exception it raises.
(Estimators are asked with `on_invalid="center"`: their default tells the holder of the data which
records are invalid, before anything is spent.)
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riemdp
from riemdp import (
    Ball,
    Budget,
    private_frechet_mean,
)
from tests.attacks.tools import outcome

pytestmark = pytest.mark.slow  # minutes: hypothesis compiles for many spaces
N = 6
BUDGET = Budget(1.0, 1e-6)
SPACES = {
    "euclidean": riemdp.Euclidean(2),
    "sphere": riemdp.Sphere(3),
    "lorentz": riemdp.Lorentz(3),
    "poincare": riemdp.PoincareBall(2),
    "affine-invariant": riemdp.SPDAffineInvariant(2),
    "bures-wasserstein": riemdp.SPDBuresWasserstein(2),
    "log-euclidean": riemdp.SPDLogEuclidean(2),
    "grassmann": riemdp.Grassmann(3, 1),
}
RADIUS = 0.2

extreme = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 1e-200, -1e-200, 1e200, -1e200, 5e-324, 1.7e308, np.inf, -np.inf, np.nan]
)
number = st.one_of(extreme, st.floats(width=64), st.floats(-3, 3))


def numeric_record(shape):
    """Any array of the right shape: not on the space, indefinite, NaN, antipodal, ..."""
    size = int(np.prod(shape))
    return st.lists(number, min_size=size, max_size=size).map(
        lambda v: np.array(v, dtype=np.float64).reshape(shape)
    )


def any_record(shape):
    """Anything that a list may hold in the place of a record."""
    return st.one_of(
        numeric_record(shape),
        numeric_record(shape).map(lambda a: a.tolist()),
        st.sampled_from(
            [
                None,
                "record",
                b"\x00",
                10**400,
                1 + 2j,
                object(),
                [],
                [[]],
                {},
                True,
                np.array(["x"]),
                np.zeros((7, 7)),
                np.full(shape, 1j),
                np.full(shape, 2**70, dtype=object),
                np.zeros(shape, dtype="datetime64[s]"),
                np.ma.masked_all(shape),
                [[1.0, [2.0]], None],
            ]
        ),
    )


def centre(space):
    return np.asarray(space.origin)


def honest(space):
    return np.stack([centre(space)] * N)


def quietly(action):
    """The outcome, with every warning taken as part of it: a warning can tell as much."""
    with (
        warnings.catch_warnings(record=True) as caught,
        riemdp.Ledger(Budget(100.0, 1e-3)),  # without one, the first fit of a process says so
    ):
        warnings.simplefilter("always")
        found = outcome(action)
    return found, sorted(
        {str(w.message) for w in caught if issubclass(w.category, riemdp.RiemdpWarning)}
    )


def same_outcome(act, expected, garbage):
    wanted, found = quietly(lambda: act(expected)), quietly(lambda: act(garbage))
    assert found == wanted, (found, wanted)


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=6)
@given(data=st.data())
def test_private_mean_of_garbage(name, data):
    """`private_frechet_mean` on arrays: a value on the space, whatever the numbers are."""
    space = SPACES[name]
    ball = Ball(centre(space), RADIUS)
    records = data.draw(st.lists(numeric_record(space.shape), min_size=N, max_size=N))

    def act(x):
        release = private_frechet_mean(space, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)
        assert bool(space.belongs(release.value, 1e-6))

    same_outcome(act, honest(space), np.stack(records))


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=5)
@given(data=st.data())
def test_private_mean_of_a_list_of_anything(name, data):
    """The same for a list whose records may be anything at all."""
    space = SPACES[name]
    ball = Ball(centre(space), RADIUS)
    records = data.draw(st.lists(any_record(space.shape), min_size=N, max_size=N))

    def act(x):
        private_frechet_mean(space, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)

    same_outcome(act, list(honest(space)), records)
