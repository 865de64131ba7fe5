"""Options of a plan, and what a private mean has no use for (see also `tests/contract`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import riemdp as R

SPACE = R.SPDAffineInvariant(2)
BALL = R.Ball(np.eye(2), 1.0)
BUDGET = R.Budget(0.9, 1e-6)
N = 400
FEW = 8  # so much noise that it matters whether a release is moved into the ball
X = np.tile(np.diag([1.5, 1.2]), (N, 1, 1))

# A value of each option that is not what happens without it.
OPTIONS = {
    "weights": {"weights": np.r_[2.0 * np.ones(N // 2), np.ones(N // 2)]},
    "tolerance": {"tolerance": 0.01},
    "calibration": {"calibration": "classical"},
    "not moved": {"clamp_release": False},
    "adjacency": {"adjacency": "add-or-remove-one"},
    "count_outside": {"count_outside": False},
}


def planned(ball: Any, n: int = N, **options: Any) -> str:
    return str(R.plan_private_mean(SPACE, ball, n, BUDGET, **options))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_changes_a_plan_or_is_refused(option: str):
    options = OPTIONS[option]
    name = next(iter(options))
    with pytest.raises(R.InvalidArgument, match=f"`{name}`.*has no use.*leave it out"):
        planned(R.AdaptiveBall(), **options)
    n = FEW if option == "not moved" else N
    assert planned(BALL, n, **options) != planned(BALL, n)


def test_unknown_words_are_refused_whatever_the_ball():
    for ball in (BALL, R.AdaptiveBall()):
        with pytest.raises(R.InvalidArgument, match=r"`calibration` = 'nonsense'.*choose one of"):
            planned(ball, calibration="nonsense")
        with pytest.raises(R.InvalidArgument, match=r"`adjacency` = 'nonsense'.*choose one of"):
            planned(ball, adjacency="nonsense")


def test_a_count_beside_noise_as_published_is_refused_by_the_plan_too():
    classical = {"calibration": "classical", "count_outside": True}
    with pytest.raises(R.InvalidArgument, match=r"`count_outside` = True.*leave it out"):
        planned(BALL, **classical)
    ledger = R.Ledger(R.Budget(1.0, 1e-5))
    with pytest.raises(R.InvalidArgument, match=r"`count_outside` = True.*leave it out"):
        R.private_frechet_mean(
            SPACE, X, BALL, BUDGET, mechanism="wrapped-gaussian", ledger=ledger, **classical
        )
    assert ledger.charges == 0


def test_a_calibration_without_gaussian_noise_is_refused():
    with pytest.raises(R.InvalidArgument, match=r"`calibration`.*delta"):
        R.plan_private_mean(SPACE, BALL, N, R.Budget(1.0), calibration="classical")


def test_nothing_is_shrunk_in_two_dimensions():
    plane = R.Euclidean(2)
    ledger = R.Ledger(R.Budget(1.0, 1e-5))
    with pytest.raises(R.InvalidArgument, match=r"`shrink` = True.*dimension 2"):
        R.private_frechet_mean(
            plane,
            np.zeros((9, 2)),
            R.Ball(np.zeros(2), 1.0),
            BUDGET,
            mechanism="wrapped-gaussian",
            shrink=True,
            ledger=ledger,
        )
    assert ledger.charges == 0
