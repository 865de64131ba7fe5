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
from hypothesis import example, given, settings
from hypothesis import strategies as st

import riemdp
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    AdaptiveBall,
    Ball,
    Budget,
    private_frechet_mean,
    private_minimize,
)
from riemdp.estimators import PrivateFrechetMean, PrivateMDM, PrivatePCA
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


@pytest.mark.parametrize("name", ["sphere", "affine-invariant", "bures-wasserstein"])
@pytest.mark.parametrize(
    "optimizer",
    [DPRGD(2, 0.1, 1.0), DPRSGD(2, 3, 0.1, 1.0), DPRSVRG(1, 2, 0.1, 1.0, batch_size=2)],
    ids=lambda o: type(o).__name__,
)
@settings(max_examples=3)
@given(data=st.data())
def test_private_minimize_on_garbage(name, optimizer, data):
    """`private_minimize` on arrays: a point of the space, whatever the numbers are."""
    space = SPACES[name]
    problem = riemdp.problems.frechet_mean(space)
    records = data.draw(st.lists(numeric_record(space.shape), min_size=N, max_size=N))

    def act(x):
        run = private_minimize(problem, x, centre(space), optimizer, noise_std=0.1, rng=1)
        assert bool(space.belongs(run.value, 1e-6))
        assert run.status == "completed"

    same_outcome(act, honest(space), np.stack(records))


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=3)
@given(data=st.data())
def test_private_minimize_on_a_list_of_anything(name, data):
    """The same for lists."""
    space = SPACES[name]
    problem = riemdp.problems.frechet_mean(space, ball=Ball(centre(space), RADIUS))
    records = data.draw(st.lists(any_record(space.shape), min_size=N, max_size=N))

    def act(x):
        private_minimize(problem, x, centre(space), DPRGD(2, 0.1, 1.0), noise_std=0.1, rng=1)

    same_outcome(act, list(honest(space)), records)


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=3)
@given(data=st.data())
def test_private_ball_of_a_list_of_anything(name, data):
    """`private_frechet_mean` without a public ball: neither the search nor the mean raises."""
    space = SPACES[name]
    search = AdaptiveBall(Ball(centre(space), RADIUS))
    garbage = data.draw(st.lists(any_record(space.shape), min_size=N, max_size=N))
    others = [centre(space)] * (60 - N)

    def act(x):
        private_frechet_mean(space, x, search, Budget(50.0, 1e-6), rng=1)

    same_outcome(act, others + [centre(space)] * N, others + garbage)


@settings(max_examples=12)
@given(records=st.lists(any_record((2, 2)), min_size=N, max_size=N))
def test_mean_estimator_on_a_list_of_anything(records):
    def act(x):
        PrivateFrechetMean(
            manifold=SPACES["affine-invariant"],
            budget=BUDGET,
            ball=Ball(np.eye(2), 1.0),
            mechanism="wrapped-gaussian",
            on_invalid="center",
            random_state=1,
        ).fit(x)

    same_outcome(act, [np.eye(2)] * N, records)


def _components(center=None):
    return PrivatePCA(
        n_components=1,
        budget=BUDGET,
        row_norm=1.0,
        center=center,
        on_invalid="center",
        random_state=1,
    )


@settings(max_examples=12)
@given(
    rows=st.lists(st.lists(number, min_size=3, max_size=3), min_size=N, max_size=N),
)
def test_principal_components_of_garbage(rows):
    def act(x):
        _components().fit(x)

    same_outcome(act, np.zeros((N, 3)), np.array(rows))


@settings(max_examples=12)
@given(
    rows=st.lists(
        st.lists(st.one_of(number, st.sampled_from(["x", None, 1j, 10**400])), max_size=4),
        min_size=N,
        max_size=N,
    )
)
@example(rows=[["secret", 0.0, 0.0]] + [[0.0] * 3] * (N - 1))
def test_principal_components_of_a_list_of_anything(rows):
    """Rows of text or of another length do not raise, and no message quotes them.

    The number of columns is public: that of `center`, or else the one that most rows have.
    """
    honest = [[0.0] * 3] * N
    same_outcome(lambda x: _components(np.zeros(3)).fit(x), honest, rows)
    same_outcome(lambda x: _components().fit(x), honest + honest, [*honest, [0.0] * 3, *rows[1:]])


label = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.none(),
    st.booleans(),
    st.sampled_from([1j, [0], (1,), {}, object(), np.array([0, 1]), 10**400, "0", "1", np.int8(1)]),
)


@settings(max_examples=20)
@given(
    labels=st.lists(label, min_size=N, max_size=N),
    records=st.lists(numeric_record((2, 2)), min_size=N, max_size=N),
)
def test_classes_with_private_labels_of_any_kind(labels, records):
    """`PrivateMDM(labels="private")`: neither labels nor matrices decide the outcome."""

    def act(pair):
        PrivateMDM(
            budget=BUDGET,
            ball=Ball(np.eye(2), 1.0),
            labels="private",
            classes=[0, 1],
            on_invalid="center",
            random_state=1,
        ).fit(np.stack(pair[0]), pair[1])

    same_outcome(act, ([np.eye(2)] * N, [0, 1] * (N // 2)), (records, labels))
