"""Every option of a private mean with every mechanism: it is refused before anything is charged,
or it changes what is released or what is stated.
"""

from __future__ import annotations

import functools
import warnings
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
FOUND = "found"

MECHANISMS = (
    "auto",
    "wrapped-gaussian",
    "wrapped-laplace",
    "riemannian-laplace",
    "k-norm-gradient",
    "tangent-mean",
    "dp-rgd",
    "dp-rsgd",
    "dp-rsvrg",
    "extrinsic-gaussian",
    "extrinsic-laplace",
    FOUND,
)
# A value of each option that is not what happens without it.
OPTIONS = {
    "weights": {"weights": np.r_[2.0 * np.ones(N // 2), np.ones(N // 2)]},
    "tolerance": {"tolerance": 0.01},
    "calibration": {"calibration": "classical"},
    "optimizer": {"optimizer": R.DPRGD(3, 0.5, 1.0)},
    "not moved": {"clamp_release": False},
    "moved": {"clamp_release": True},
    "shrunk": {"shrink": True},
    "not shrunk": {"shrink": False},
    "adjacency": {"adjacency": "add-or-remove-one", "n_min": N // 2},
    "n_min": {"n_min": N},
    "count_outside": {"count_outside": False},
}
# With these an option says what is done anyway, by the words of its own docstring.
AS_IT_IS = {
    *((name, "moved") for name in ("wrapped-gaussian", "wrapped-laplace", "auto")),
    *((name, "not shrunk") for name in ("wrapped-gaussian",)),
    *((name, "not moved") for name in ("extrinsic-gaussian", "extrinsic-laplace")),
    *((name, "count_outside") for name in ("dp-rgd", "dp-rsgd", "dp-rsvrg")),
}


def released(mechanism: str, ledger: R.Ledger, n: int = N, **options: Any) -> R.Release:
    how = {"mechanism": mechanism, "ball": BALL}
    if mechanism == FOUND:
        how = {"ball": R.AdaptiveBall()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return R.private_frechet_mean(
            SPACE, X[:n], budget=BUDGET, rng=3, ledger=ledger, **how, **options
        )


def said(release: R.Release) -> tuple[object, ...]:
    """All that an option can change."""
    details = {k: str(v) for k, v in release.details.items()}
    shown = np.asarray(release.value).round(9).tobytes()
    return shown, release.scale, release.sensitivity, str(release.guarantee), str(details)


@functools.cache
def plain(mechanism: str, n: int) -> tuple[object, ...]:
    return said(released(mechanism, R.Ledger(R.Budget(1.0, 1e-5)), n))


CELLS = [(m, o) for m in MECHANISMS for o in OPTIONS if (m, o) not in AS_IT_IS]


@pytest.mark.parametrize(("mechanism", "option"), CELLS)
def test_an_option_changes_something_or_is_refused_before_the_charge(mechanism: str, option: str):
    ledger = R.Ledger(R.Budget(1.0, 1e-5))
    name = next(iter(OPTIONS[option]))
    n = FEW if option == "not moved" and mechanism != FOUND else N
    release, why = None, ""
    try:
        release = released(mechanism, ledger, n, **OPTIONS[option])
    except R.InvalidArgument as error:
        why = str(error)
    if release is not None:
        assert said(release) != plain(mechanism, n)
        return
    assert f"`{name}`" in why
    assert ledger.charges == 0


# ---------------------------------------------------------------- the plan
PLANNED = ("weights", "tolerance", "calibration", "adjacency", "not moved", "count_outside")


def planned(ball: Any, n: int = N, **options: Any) -> str:
    return str(R.plan_private_mean(SPACE, ball, n, BUDGET, **options))


@pytest.mark.parametrize("option", PLANNED)
def test_an_option_changes_a_plan_or_is_refused(option: str):
    options = {k: v for k, v in OPTIONS[option].items() if k != "n_min"}
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
        released("wrapped-gaussian", ledger, **classical)
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


@pytest.mark.parametrize("call", [R.private_frechet_mean, R.private_frechet_variance])
def test_a_budget_in_the_place_of_the_ball_is_named(call: Any):
    with pytest.raises(R.InvalidArgument, match=r"`ball`.*give `budget` by name"):
        call(SPACE, X, BUDGET)
