"""What is public of a release is made once, also the programs of a run, and nothing of the records
is kept.
"""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from tests.programs import compiled_apart
from tests.seam import Means, original, plant

SPACE = riemdp.Lorentz(3)
BUDGET = Budget(1.0, 1e-6)
TRACED: list[str] = []


def _note(event: str, duration_secs: float, **kwargs: object) -> None:
    if event == "/jax/core/compile/jaxpr_trace_duration":
        TRACED.append(event)


@functools.cache
def _listen() -> None:
    jax.monitoring.register_event_duration_secs_listener(_note)


def _records(seed: int) -> np.ndarray:
    return SPACE.random_point(seed, (400,))


def _ball() -> Ball:
    return Ball(np.array(SPACE.origin), 1.0)


def _run(X: np.ndarray) -> object:
    problem, optimizer = riemdp.problems.frechet_mean(SPACE), riemdp.DPRGD(3, 0.1, 1.0)
    return riemdp.private_minimize(problem, X, SPACE.origin, optimizer, BUDGET)


def test_a_second_run_traces_nothing() -> None:
    _listen()
    TRACED.clear()
    with compiled_apart():
        _run(_records(1))
        assert TRACED  # the listener hears
        TRACED.clear()
        _run(_records(2))
        assert TRACED == []


def _plan_of(ball: Ball, n: int | None = 400, budget: Budget = BUDGET, **options: object) -> object:
    return riemdp.plan_private_mean(SPACE, ball, n, budget, **options)  # type: ignore[call-overload]


def test_a_plan_is_remembered_for_the_same_public_facts_only(monkeypatch) -> None:
    asked: list[object] = []
    rows = original("record of a plan")

    def counted(*given: object) -> object:
        asked.append(given)
        return rows(*given)  # type: ignore[arg-type]

    plant(monkeypatch, "record of a plan", counted)
    Means.remembered_plan.cache_clear()
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
        _plan_of(_ball(), n=None, n_min=400),
        _plan_of(_ball(), weights=np.ones(400)),
    ]
    assert len(asked) == 1 + len(others)
    assert Means.remembered_plan.cache_info().maxsize is not None


def _mechanism(ball: Ball, n: int = 400, budget: Budget = BUDGET, **choice: Any) -> object:
    name, shown = choice.pop("name", "wrapped-gaussian"), choice.pop("shown", n)
    choice.setdefault("count_outside", None)
    facts = Means.MeanFacts(ball.on(SPACE), n, budget, **choice)
    return Means.counted_mechanism(name, facts, shown)


def test_a_mechanism_is_remembered_for_the_same_public_facts_only() -> None:
    ball = _ball()
    first = _mechanism(ball)
    assert _mechanism(ball) is first
    assert _mechanism(_ball()) is first  # the same ball, written anew
    others = [
        _mechanism(Ball(np.array(SPACE.origin), 1.1)),
        _mechanism(ball, n=401),
        _mechanism(ball, budget=Budget(1.0, 1e-7)),
        _mechanism(ball, name="wrapped-laplace"),
        _mechanism(ball, shown=None),
        _mechanism(ball, count_outside=False),
        _mechanism(ball, adjacency="add-or-remove-one"),
        _mechanism(ball, weights=np.ones(400)),
    ]
    assert len({id(made) for made in (first, *others)}) == 1 + len(others)
    for kept in (Means.first, Means.counted):
        assert kept.cache_info().maxsize is not None


def _gradients() -> list[object]:
    return [o for o in gc.get_objects() if isinstance(o, riemdp.mechanisms.MeanGradient)]


@pytest.mark.parametrize("mechanism", ["auto", "wrapped-gaussian", "k-norm-gradient"])
def test_nothing_of_the_records_is_remembered(mechanism) -> None:
    line = riemdp.Euclidean(1)
    ball = Ball(np.zeros(1), 1.0)
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    before = _gradients()  # of other tests, which may keep theirs
    release = riemdp.private_frechet_mean(line, X, ball, BUDGET, mechanism=mechanism)
    seen = weakref.ref(X)
    del X
    gc.collect()
    assert seen() is None
    assert [o for o in _gradients() if all(o is not b for b in before)] == [], release
