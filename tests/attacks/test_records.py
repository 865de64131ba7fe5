"""A second round of attacks: one record that changes the layout, the form or the shape of all.

Each of these failed on the development version of 0.2.0 of November 2026.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import riemdp
from riemdp import (
    DPRGD,
    AdaptiveBall,
    Ball,
    Budget,
    Euclidean,
    InvalidArgument,
    SPDAffineInvariant,
    private_frechet_mean,
    private_minimize,
    problems,
)
from riemdp.estimators import PrivateMDM, PrivatePCA
from riemdp.mechanisms import TangentGaussian, WrappedGaussian, WrappedLaplace
from tests.attacks.tools import outcome, separation
from tests.programs import compiled_apart
from tests.seam import Gradients, original, plant

BUDGET = Budget(1.0, 1e-6)
SPD = SPDAffineInvariant(2)
COMPILED = [0]  # traces and compilations so far


def _count(event: str, duration_secs: float, **_: str | int) -> None:
    COMPILED[0] += "compile" in event


jax.monitoring.register_event_duration_secs_listener(_count)


@pytest.fixture(autouse=True)
def charged():
    with riemdp.Ledger(Budget(1e4, 1e-2)):
        yield


# ------------------------------------------------------------------------------------- fault 25
def _lengths(rows):
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return (largest * np.linalg.norm(rows / largest, axis=1, keepdims=True))[:, 0]


def test_fault_25_text_in_one_cell_does_not_change_the_length_of_other_rows():
    """Rows of length 1, the first limit that is asked for. In a table of columns their entries are
    added in another order than row by row, and text in one cell of a data frame makes it an array
    of objects: then hundreds of rows crossed the limit together.
    """
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    by_column, by_row = _lengths(np.asfortranarray(rows)) <= 1, _lengths(rows) <= 1
    crossing = rows[by_row & ~by_column][:400]
    n, k = 1000, len(crossing)
    assert k == 400
    for inside in (300, 580):  # about 950 rows decide: 980 are inside in one of the two orders
        table = np.concatenate(
            [crossing, 0.5 * rows[:inside], 3.0 * rows[: n - inside - k]], dtype=np.float64
        )
        numbers = np.asfortranarray(table)
        numbers[-1, 0] = np.nan
        text = numbers.astype(object)
        text[-1, 0] = "x"
        norms = [
            PrivatePCA(
                n_components=1,
                budget=Budget(20.0, 1e-6),
                row_norm="private",
                on_invalid="center",
                random_state=1,
            )
            .fit(x)
            .row_norm_
            for x in (numbers, text)
        ]
        assert norms[0] == norms[1], inside


# ------------------------------------------------------------------------------------- fault 26


def test_fault_26_lists_of_users_problems_too():
    """Where the problem does not say what a record is, the shape of most records does."""
    problem = problems.Problem(Euclidean(2), lambda w, z: jax.numpy.sum((w - z) ** 2))
    honest = [np.full(2, float(i)) for i in range(6)]
    values = [
        private_minimize(problem, x, np.zeros(2), DPRGD(2, 0.1, 1.0), noise_std=0.1, rng=1).value
        for x in ([bad, *honest] for bad in ([np.nan, 0.0], None, "x", [1.0], [1.0, 2.0, 3.0]))
    ]
    assert all(np.array_equal(values[0], other) for other in values[1:])


@pytest.mark.parametrize("bad", ["secret-4711", None, 10**400, 1j], ids=str)
def test_fault_26_an_entry_of_a_masked_array_is_no_event(bad):
    """`could not convert string to float: 'secret-4711'` went to the caller."""
    records = np.stack([np.eye(2)] * 6).astype(object)
    records[0, 0, 0] = bad
    masked = np.ma.masked_array(records, mask=np.zeros(records.shape, dtype=bool))
    ball = Ball(np.eye(2), 1.0)
    release = private_frechet_mean(SPD, masked, ball, BUDGET, mechanism="wrapped-gaussian", rng=1)
    assert np.all(np.isfinite(release.value))


def test_fault_26_complex_tables_are_refused_without_their_entries():
    """scikit-learn's message shows the whole array."""
    with pytest.raises(InvalidArgument, match="Complex data not supported") as caught:
        PrivatePCA(n_components=1, budget=BUDGET, row_norm=1.0).fit(np.full((4, 2), 0.4711j))
    assert "4711" not in str(caught.value)


# ------------------------------------------------------------------------------------- fault 27
QUICK = {(1e-120, 1e-165), (1e-120, 1.0), (1e-160, 1e-158), (1e-160, 1e-200), (1e-320, 1.0)}
TINY = [
    pytest.param(clip, far, marks=[] if (clip, far) in QUICK else pytest.mark.slow)
    for clip in (1e-100, 1e-120, 1e-160, 1e-200, 1e-300, 1e-320)
    for far in (1e-158, 1e-165, 1e-200, 1e-300, 1.0)
]


@pytest.mark.parametrize(("clip", "far"), TINY)
def test_fault_27_a_tiny_clip_norm_clips_or_is_refused(clip, far):
    """The square of 1e-165 is 0: a record there had length 0 and was not clipped."""
    records = np.zeros((4, 2))
    neighbour = records.copy()
    neighbour[0, 0] = far
    std = 10.0 * 2 * clip / 4

    def attack():
        rate = min(1e290, 1.0 / std)
        optimizer = DPRGD(1, rate, clip)
        problem = problems.frechet_mean(Euclidean(2))
        return separation(
            problem, records, neighbour, np.zeros(2), optimizer, rate=rate, noise_std=std
        )

    if clip < 1e-100:
        assert outcome(attack) == "InvalidArgument"
    else:
        apart, claim = attack()
        assert apart <= claim * (1 + 1e-6)


def test_fault_27_a_clip_norm_that_falls_during_a_run_is_no_exception():
    """DP-RSVRG clips at a share of a distance that may be as small as it likes."""

    gradient = Gradients.NoisyGradient(1.0, 1.0, Gradients.Batches(4, 4, "full"))
    norms = jax.numpy.array([0.0, 1e-160, 1.0, np.inf])
    assert np.array_equal(gradient.weights(norms, 1e-170), np.zeros(4))
    assert np.array_equal(gradient.weights(norms, 0.5), [1.0, 1.0, 0.5, 0.0])


@pytest.mark.parametrize("bound", [1e-200, 3e-309, 5e-324, 1e200])
def test_fault_27_bounds_that_float64_cannot_square_are_refused(bound):
    """Noise of 3e-309 is 0 in compiled code: two values were told apart with certainty."""
    zero = np.zeros(2)
    attempts = {
        "TangentGaussian": lambda: TangentGaussian(
            Euclidean(2), zero, sensitivity=bound, budget=BUDGET
        ),
        "WrappedGaussian": lambda: WrappedGaussian(
            Euclidean(2), zero, sensitivity=bound, budget=BUDGET
        ),
        "WrappedLaplace": lambda: WrappedLaplace(
            Euclidean(2), zero, sensitivity=bound, epsilon=1.0
        ),
        "Ball": lambda: Ball(zero, bound),
        "AdaptiveBall": lambda: AdaptiveBall(Ball(zero, 1.0), smallest=bound),
        "PrivatePCA": lambda: PrivatePCA(n_components=1, budget=BUDGET, row_norm=bound).fit(
            np.zeros((4, 2))
        ),
    }
    found = {name: outcome(attempt) for name, attempt in attempts.items()}
    assert set(found.values()) == {"InvalidArgument"}, found


def test_fault_27_a_search_down_to_the_smallest_radius_returns():
    """Its last bisection took the root of a product that was 0, after the charge."""
    search = AdaptiveBall(Ball(np.zeros(2), 1.0), smallest=1e-100)
    found = riemdp.private_ball(Euclidean(2), np.zeros((600, 2)), search, Budget(5.0, 1e-6), rng=1)
    assert found.value.radius > 0


# ------------------------------------------------------------------------------------- fault 28
@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_fault_28_a_private_label_does_not_decide_what_is_compiled(monkeypatch, metric):
    """The arrays were as long as the classes, so a class that lost a record was compiled anew. Now
    nothing is, and the arrays have one length.
    """
    matrices = np.stack([np.diag([1.0 + 0.05 * i, 1.0]) for i in range(16)])
    sizes, summed = [], original("sum of a class")

    def seen(rows):
        sizes.append(rows.shape)
        return summed(rows)

    def compiled(first):
        sizes.clear()
        before = COMPILED[0]
        PrivateMDM(
            metric=metric,
            budget=BUDGET,
            ball=Ball(np.eye(2), 1.0),
            labels="private",
            classes=[0, 1],
            on_invalid="center",
            random_state=1,
        ).fit(matrices, [1] * first + [0] * (16 - first))
        return COMPILED[0] - before, tuple(sizes)

    plant(monkeypatch, "sum of a class", seen)
    before = COMPILED[0]
    with compiled_apart():  # tests before this one may have compiled the same
        found = {compiled(size) for size in (8, 7, 9, 2, 0, 16)}
        assert len(found) == 1
        assert found.pop() == (0, ((16, 3), (16, 3)))
        jax.jit(lambda x: 3 * x)(1.0)
        assert COMPILED[0] > before  # what is counted does happen
