"""A second call of a public release, with other records and a ball of its own, traces nothing; and
the plan that "auto" asks is made once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.releases import _plan

SPACE = riemdp.Lorentz(3)
BUDGET = Budget(1.0, 1e-6)
TRACED: list[str] = []


def _note(event: str, _: float, **__: object) -> None:
    if event == "/jax/core/compile/jaxpr_trace_duration":
        TRACED.append(event)


@functools.cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_note)


def _records(seed: int) -> np.ndarray:
    return np.array(SPACE.random_point(jax.random.key(seed), (400,)))


def _ball() -> Ball:
    return Ball(np.array(SPACE.origin), 1.0)


RELEASES: dict[str, Callable[[np.ndarray], object]] = {
    "auto": lambda X: riemdp.private_frechet_mean(SPACE, X, _ball(), BUDGET, rng=0),
    "wrapped": lambda X: riemdp.private_frechet_mean(
        SPACE, X, _ball(), BUDGET, mechanism="wrapped-gaussian", rng=0
    ),
    "tangent": lambda X: riemdp.private_frechet_mean(
        SPACE, X, _ball(), BUDGET, mechanism="tangent-mean", rng=0
    ),
    "variance": lambda X: riemdp.private_frechet_variance(SPACE, X, _ball(), BUDGET, rng=0),
    "ball": lambda X: riemdp.private_ball(SPACE, X, riemdp.AdaptiveBall(), BUDGET, rng=0),
}


@pytest.mark.filterwarnings("ignore:about")
@pytest.mark.parametrize("name", RELEASES)
def test_a_second_call_traces_nothing(name) -> None:
    _listen()
    TRACED.clear()
    RELEASES[name](_records(1))
    assert TRACED or name != "auto"  # the listener hears
    second = _records(1 if name == "ball" else 2)  # a search goes another way with others
    TRACED.clear()
    RELEASES[name](second)
    assert TRACED == []


def _plan_of(ball: Ball, n: int = 400, budget: Budget = BUDGET, **options: object) -> object:
    return riemdp.plan_private_mean(SPACE, ball, n, budget, **options)  # type: ignore[call-overload]


def test_a_plan_is_remembered_for_the_same_public_facts_only(monkeypatch) -> None:
    asked: list[object] = []
    rows = _plan._rows

    def counted(*given: object) -> object:
        asked.append(given)
        return rows(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(_plan, "_rows", counted)
    _plan._remembered.cache_clear()
    first = _plan_of(_ball())
    assert str(_plan_of(_ball())) == str(first)
    assert len(asked) == 1
    moved = Ball(np.array(SPACE.exp(SPACE.origin, np.array([0.0, 0.1, 0.0]))), 1.0)
    others = [
        _plan_of(moved),
        _plan_of(Ball(np.array(SPACE.origin), 1.1)),
        _plan_of(_ball(), n=401),
        _plan_of(_ball(), budget=Budget(1.0, 1e-7)),
        _plan_of(_ball(), count_outside=False),
        _plan_of(_ball(), adjacency="add-or-remove-one"),
        _plan_of(_ball(), tolerance=1e-6),
        _plan_of(_ball(), calibration="classical"),
        _plan_of(_ball(), clamp_release=True),
        _plan_of(_ball(), weights=np.ones(400)),
    ]
    assert len(asked) == 1 + len(others)
    assert _plan._remembered.cache_info().maxsize is not None
