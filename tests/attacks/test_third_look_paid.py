"""Attacks of the third look on what is paid: whatever runs in the middle of a release."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, Ledger

RNG = np.random.default_rng(0)
PLANE = riemdp.Euclidean(2)
X = RNG.normal(size=(60, 2)) * 0.2
Y = np.stack([np.diag(np.exp(v)) for v in X])
PUBLIC, BALL = Ball(np.zeros(2), 1.0), Ball(np.eye(2), 1.0)
BUDGET = Budget(1.0, 1e-6)
WHO = np.arange(60) % 2
SMALL = riemdp.WrappedGaussian(PLANE, np.zeros(2), sensitivity=1.0, budget=Budget(0.01, 1e-6))
LINE = riemdp.problems.frechet_mean(PLANE, ball=PUBLIC)


def centred() -> Any:
    return riemdp.PrivateTLCenter(budget=BUDGET, ball=BALL).fit(Y, domains=WHO)


def classified() -> Any:
    model = riemdp.PrivateMDM(budget=BUDGET, ball=BALL)
    return model.fit(Y, WHO)


def geodesics() -> Any:
    return riemdp.PrivatePGA(manifold=PLANE, budget=BUDGET, ball=PUBLIC).fit(X)


def federated() -> Any:
    local = riemdp.DPRGD(1, 0.5, 0.5)
    run = riemdp.federated.PriRFed(LINE, local, rounds=2, agents_per_round=2)
    return riemdp.federated.run_in_process(run, [X[:30], X[30:]], np.zeros(2), BUDGET)


def search_of_sites() -> Any:
    search = riemdp.AdaptiveBall(outer=Ball(np.zeros(2), 4.0))
    budget = Budget(30.0, 1e-6)
    return riemdp.federated.private_ball(PLANE, [X, X + 0.1], search, budget)


def audited() -> Any:
    ends = np.zeros(2), np.ones(2)
    return riemdp.audit.audit_mechanism(SMALL, *ends, trials=16, rng=1)


COMPOSITES = {  # what is released, and how often that is charged
    "PrivateTLCenter": (centred, 1),
    "PrivateMDM": (classified, 1),
    "PrivatePGA": (geodesics, 1),
    "run_in_process": (federated, 1),
    "private_ball over sites": (search_of_sites, 1),
    "audit_mechanism": (audited, 0),
}


@contextlib.contextmanager
def whenever_noise_is_drawn(act: Callable[[], object]) -> Iterator[list[int]]:
    """Runs `act` in the thread of a release, as a signal handler or a hook would be run, whenever a
    method of a noise source is called.
    """
    acted: list[int] = []

    def look(frame: Any, event: str, _: object) -> None:
        inside = frame.f_code.co_filename.endswith("randomness/_source.py")
        if event == "call" and inside and frame.f_code.co_name == "rounded_normals":
            acted.append(1)
            act()

    old = sys.getprofile()
    sys.setprofile(look)
    try:
        yield acted
    finally:
        sys.setprofile(old)


@pytest.mark.parametrize("name", COMPOSITES)
def test_fault_69_what_runs_inside_a_release_is_charged(name: str) -> None:
    """500 of 530 means that a timer released during a fit were charged to nothing."""
    composite, own = COMPOSITES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        composite()  # what it compiles is compiled
        with (
            Ledger(Budget(100.0, 1e-4)) as ledger,
            whenever_noise_is_drawn(lambda: SMALL.release(np.zeros(2))) as acted,
        ):
            composite()
    assert len(acted) >= 2
    assert ledger.charges == len(acted) + own


def test_fault_69_a_hook_of_warnings_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    def show(*told: object, **_: object) -> None:
        shown.append(told)
        SMALL.release(np.zeros(2))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        with Ledger(Budget(100.0, 1e-4)) as ledger:  # most matrices lie outside of this ball
            small, budget = Ball(9.0 * np.eye(2), 0.1), Budget(20.0, 1e-6)
            model = riemdp.PrivateTLCenter(budget=budget, ball=small, count_outside=True)
            model.fit(Y, domains=WHO)
    assert len(shown) >= 2
    assert ledger.charges == len(shown) + 1


def test_fault_69_what_runs_inside_a_run_on_people_is_charged_for_records() -> None:
    other = Ledger(Budget(100.0, 1e-4))
    optimizer = riemdp.DPRGD(3, 0.5, 0.5)
    with whenever_noise_is_drawn(lambda: SMALL.release(np.zeros(2), ledger=other)) as acted:
        done = riemdp.private_minimize(LINE, X, np.zeros(2), optimizer, BUDGET, groups=WHO)
    assert done.guarantee.unit == "person"
    assert len(acted) >= 1
    assert (other.charges, other.spent.unit) == (len(acted), "record")


@pytest.mark.parametrize("kept", [False, True])
def test_fault_69_a_charge_inside_a_charge_is_not_lost(kept: bool, tmp_path: Path) -> None:
    """A handler that charges while the same thread charges: the later state does not replace its
    own. A ledger with a file refuses it there, because the lock would wait for itself.
    """
    if not kept:
        ledger = Ledger(Budget(1e4, 1e-4))
    else:
        ledger = Ledger(Budget(1e4, 1e-4), path=tmp_path / "ledger.json")
    acted: list[str] = []
    armed: list[int] = []

    def look(frame: Any, event: str, _: object) -> None:
        if armed and event == "call" and frame.f_code.co_name == "after":
            armed.clear()
            try:
                ledger.spend(riemdp.gaussian(50.0))
                acted.append("charged")
            except riemdp.RiemdpError:
                acted.append("refused")

    old = sys.getprofile()
    sys.setprofile(look)
    try:
        for _ in range(5):
            armed.append(1)
            ledger.spend(riemdp.gaussian(10.0))
    finally:
        sys.setprofile(old)
    assert set(acted) == {"refused" if kept else "charged"}
    assert len(acted) == 5
    assert ledger.charges == 5 + acted.count("charged")


_DOOR = {"charge", "uncharged", "about_people", "take", "among_parts", "__enter__", "__exit__"}


def _interrupted_at(point: int, release: Callable[[], object]) -> bool:
    """Whether the release had such a point: a bytecode of what charges, or of what is entered."""
    left = point

    def local(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return local

    def look(frame: Any, event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_name in _DOOR and "riemdp/privacy/" in code.co_filename:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return local
        return None

    old = sys.gettrace()
    sys.settrace(look)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # a run ends early instead
            release()
    finally:
        sys.settrace(old)
    return left < 0


@pytest.mark.parametrize("name", ["PrivatePGA", "private_minimize with groups"])
def test_fault_70_an_interrupt_anywhere_leaves_nothing_behind(name: str) -> None:
    """At every bytecode of the door: what is released afterwards in this thread is charged."""

    def of_people() -> object:
        optimizer = riemdp.DPRGD(1, 0.5, 0.5)
        return riemdp.private_minimize(LINE, X, np.zeros(2), optimizer, BUDGET, groups=WHO)

    release, some = geodesics, riemdp.gaussian(1000.0)
    if name != "PrivatePGA":
        release, some = of_people, some.for_people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release()
        point, other = 0, Ledger(Budget(100.0, 1e-4))
        with Ledger(Budget(1e5, 1e-4)) as ledger:
            while _interrupted_at(point, release):
                before = ledger.charges
                riemdp.privacy.charge(some)  # the ledger that was open is charged
                SMALL.release(np.zeros(2), ledger=other)  # and for what it is for
                assert (ledger.charges, other.charges) == (before + 1, point + 1)
                assert other.spent.unit == "record"
                point += 1
    assert point > 20
