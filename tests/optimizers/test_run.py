"""The host side of a run: arguments, ledger, outputs, history, interruption,
compilations.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    NotPrivateWarning,
    Problem,
    gaussian,
    noise_source,
    private_minimize,
    problems,
    subsampled_gaussian,
)
from riemdp.manifolds import Euclidean, Sphere
from riemdp.optimizers import plan_optimizer
from tests.seam import original, plant

N, DIM = 50, 4
M = Sphere(DIM)
P = problems.principal_eigenvector(DIM)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, DIM))
X /= np.linalg.norm(X, axis=1, keepdims=True)
START = np.eye(DIM)[0]
BUDGET = Budget(1.0, 1e-5)


def run(optimizer: Any = None, budget: Any = BUDGET, data: Any = X, **more: Any):
    return private_minimize(
        P, data, START, optimizer or DPRGD(6, 0.3), budget, rng=more.pop("rng", 1), **more
    )


# ------------------------------------------------------------------------------------------------
# guarantees
def test_budget_is_met_and_sigma_is_the_calibrated_one():
    r = run(DPRGD(6, 0.3, 0.5))
    assert 0.99 <= r.guarantee.epsilon(1e-5) <= 1.0
    assert r.guarantee.epsilon(1e-5) == pytest.approx(
        gaussian(r.sigma / (2 * 0.5 / N), 6).epsilon(1e-5), rel=1e-9
    )
    assert r.reproducible
    assert "NOT PRIVATE" in str(r)
    assert not private_minimize(P, X, START, DPRGD(6, 0.3), BUDGET).reproducible


def test_without_a_budget_nothing_is_noised_and_nothing_is_promised():
    r = run(DPRGD(6, 0.3, 1e-9), None)  # the clip norm is not used either
    assert r.sigma == 0.0
    assert not r.guarantee.is_private
    assert r.guarantee.epsilon(1e-5) == np.inf
    assert np.abs(np.asarray(r.value) - START).max() > 1e-3
    with pytest.raises(InvalidArgument, match="`budget`"):
        private_minimize(P, X, START, DPRGD(6, 0.3))


def test_the_ledger_is_charged_and_refuses_before_anything_is_drawn():
    book = Ledger(Budget(1.3, 1e-5))
    r = run(ledger=book)
    assert book.spent.epsilon(1e-5) == pytest.approx(r.guarantee.epsilon(1e-5))
    source = noise_source(3)
    before = noise_source(3).normals((4,))
    with pytest.raises(BudgetExceeded):
        run(ledger=book, rng=source)
    np.testing.assert_array_equal(source.normals((4,)), before)  # not one number was drawn
    assert book.spent.epsilon(1e-5) == pytest.approx(r.guarantee.epsilon(1e-5))
    with Ledger(Budget(2.0, 1e-5)) as outer:
        run(DPRSVRG(1, 3, 0.1, batch_size=5), None, noise_std=1.0)
    assert 0 < outer.spent.epsilon(1e-5) < 2.0


# ------------------------------------------------------------------------------------------------
# outputs
def test_outputs_last_uniform_and_average():
    # Prefixes of the same seeded stream: sigma is given, so that it does not depend on the number
    # of steps.
    trace = [np.asarray(run(DPRGD(t, 0.3), None, noise_std=0.05, rng=4).value) for t in range(1, 7)]
    average = trace[0]
    for k, w in enumerate(trace[1:], start=2):
        average = np.asarray(M.exp(average, np.asarray(M.log(average, w)) / k))
    got = run(DPRGD(6, 0.3, output="geodesic-average"), None, noise_std=0.05, rng=4)
    np.testing.assert_allclose(got.value, average, atol=1e-10)
    picked = [run(DPRGD(6, 0.3, output="uniform"), None, noise_std=0.05, rng=k) for k in range(40)]
    assert {r.steps for r in picked} == set(range(1, 7))  # w_1..w_6, never the start
    full = run(DPRGD(6, 0.3), None, noise_std=0.05).guarantee
    assert all(
        r.guarantee.epsilon(1e-5) == full.epsilon(1e-5) for r in picked
    )  # charged for all six, whichever was drawn


def test_schedule_is_evaluated_on_the_host_and_checked():
    a = run(DPRGD(6, lambda t: 0.3 / (1 + t)), None, noise_std=0.05)
    b = run(DPRGD(6, 0.3), None, noise_std=0.05)
    assert np.abs(np.asarray(a.value) - np.asarray(b.value)).max() > 1e-4
    with pytest.raises(InvalidArgument, match=r"learning_rate.*step 3"):
        run(DPRGD(6, lambda t: 0.1 if t < 3 else float("nan")))


def test_history_is_off_by_default_and_marked():
    assert len(run().history) == 0
    with pytest.warns(NotPrivateWarning):
        r = run(DPRGD(6, 0.3), record_every=2)
    assert [row.step for row in r.history] == [2, 4, 6]
    assert r.history[-1].gradient_calls == 6 * N == r.gradient_calls
    assert r.history[-1].objective == pytest.approx(
        -np.mean((X @ np.asarray(r.value)) ** 2), abs=1e-12
    )
    assert "NOT PRIVATE" in repr(r.history)
    assert "NOT PRIVATE" in str(r)
    plain = run(DPRGD(6, 0.3))
    np.testing.assert_array_equal(plain.value, r.value)  # recording does not change the run
    again = pickle.loads(pickle.dumps(r))
    np.testing.assert_array_equal(again.value, r.value)


@pytest.mark.parametrize("variant", ["anchored", "as-published"])
def test_plan_of_dprsvrg_states_what_the_run_then_does(variant):
    optimizer = DPRSVRG(2, 5, 0.01, 1.0, batch_size=4, variant=variant)
    plan = plan_optimizer(P, len(X), optimizer, BUDGET)
    run = private_minimize(P, X, START, optimizer, BUDGET, rng=1)
    assert (run.steps, run.sigma) == (plan.steps, plan.sigma)
    assert (
        run.guarantee.epsilon(BUDGET.delta)
        == plan.guarantee().epsilon(BUDGET.delta)
        <= BUDGET.epsilon
    )
    assert plan.noise_to_signal == pytest.approx(np.sqrt(P.manifold.dim) * run.sigma)
    hopeless = plan_optimizer(P, 10, optimizer, Budget(0.01, 1e-6))
    assert hopeless.noise_to_signal > 1
    assert "expect no useful result" in str(hopeless)
    assert "noise to signal: 0 " in str(plan_optimizer(P, 10, optimizer, None))


# ------------------------------------------------------------------------------------------------
# interruption
class _Interrupt:
    """Stops the run after some recorded steps, as Ctrl-C would."""

    def __init__(self, monkeypatch, after, error: type[BaseException] = KeyboardInterrupt):
        end = original("end of a block")

        def wrapped(watch, taken, calls, point):
            end(watch, taken, calls, point)
            if taken >= after:
                raise error

        plant(monkeypatch, "end of a block", wrapped)


def test_interruption_returns_the_released_iterate_and_what_was_drawn(monkeypatch):
    plant(monkeypatch, "steps of a block", lambda *_: 4)
    book = Ledger(Budget(50.0, 1e-5))
    _Interrupt(monkeypatch, 5)
    r = run(DPRGD(40, 0.3), None, noise_std=0.05, ledger=book)
    assert r.status == "interrupted"
    assert r.steps in (5, 6, 7, 8)
    drawn = gaussian(0.05 / (2 / N), 40).epsilon(1e-5)
    assert r.guarantee.epsilon(1e-5) < drawn
    assert r.guarantee.epsilon(1e-5) >= gaussian(0.05 / (2 / N), r.steps).epsilon(1e-5)
    assert book.spent.epsilon(1e-5) == pytest.approx(r.guarantee.epsilon(1e-5))
    assert np.all(np.isfinite(r.value))


def _spied(monkeypatch):
    """Every block of noise that is drawn from now on."""
    seen = []
    original = noise_source(0).__class__.normals

    def spy(source, shape=()):
        out = original(source, shape)
        seen.append(np.array(out).reshape(-1, M.noise_size))
        return out

    monkeypatch.setattr(type(noise_source(0)), "normals", spy)
    return seen


def test_variance_reduction_is_interrupted_with_what_was_charged(monkeypatch):
    plant(monkeypatch, "steps of a block", lambda *_: 4)
    kind = DPRSVRG(2, 8, 0.3, batch_size=5)
    book = Ledger(Budget(1e4, 1e-5))
    with monkeypatch.context() as inner:
        _Interrupt(inner, 4)
        found = run(kind, None, noise_std=0.05, ledger=book, rng=noise_source(9))
    assert (found.status, found.steps) == ("interrupted", 4)
    plan = plan_optimizer(P, N, kind, None, noise_std=0.05)
    # One anchor, and the answers of seven steps: the block that was drawn ahead is charged, too.
    z1, z2 = plan.split.z1, plan.split.z2
    answers = subsampled_gaussian(z2, population=N, batch_size=5, steps=7)
    expected = gaussian(z1).compose(answers)
    assert found.guarantee.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-6)
    assert book.spent.epsilon(1e-5) == pytest.approx(found.guarantee.epsilon(1e-5), rel=1e-6)
    assert found.details["planned_guarantee"] == plan.guarantee()


class _Crash(Exception):
    pass


@pytest.mark.parametrize("kind", [DPRGD(16, 0.3), DPRSGD(16, 10, 0.3), DPRSVRG(2, 8, 0.3)], ids=str)
def test_a_run_that_crashed_has_paid_and_the_next_one_pays_again(kind, monkeypatch, tmp_path):
    """Nothing goes on inside a run: what was drawn stays charged, on disk too, and a new run draws
    noise of its own.
    """
    plant(monkeypatch, "steps of a block", lambda *_: 4)
    seen, file, budget = _spied(monkeypatch), tmp_path / "ledger.json", Budget(1e4, 1e-5)
    source = noise_source()
    with monkeypatch.context() as inner:
        _Interrupt(inner, 6, _Crash)
        with pytest.raises(_Crash):
            run(kind, None, noise_std=0.05, ledger=Ledger(budget, path=file), rng=source)
    spent = Ledger(budget, path=file).spent.epsilon(1e-5)
    assert spent > 0
    again = run(kind, None, noise_std=0.05, ledger=Ledger(budget, path=file), rng=source)
    assert again.status == "completed"
    whole = again.guarantee.epsilon(1e-5)
    assert Ledger(budget, path=file).spent.epsilon(1e-5) > whole * (1 + 1e-6)
    rows = np.concatenate(seen)
    assert len(np.unique(rows[:, 0])) == len(rows)


def test_noise_drawn_ahead_is_dropped_at_an_interrupt_and_never_used_again(monkeypatch):
    """A thread draws the next block while a block runs. What an interrupt leaves of it is charged
    and in no later run.
    """
    plant(monkeypatch, "steps of a block", lambda *_: 64)
    plant(monkeypatch, "normals drawn at once", 1)
    seen = _spied(monkeypatch)
    source = noise_source()
    with monkeypatch.context() as inner:
        _Interrupt(inner, 64)
        r = private_minimize(P, X, START, DPRGD(200, 0.3), None, noise_std=0.5, rng=source)
    assert r.status == "interrupted"
    drawn = sum(len(block) for block in seen)
    assert drawn in (64, 128)
    assert r.guarantee.epsilon(1e-5) == pytest.approx(gaussian(0.5 / (2 / N), drawn).epsilon(1e-5))
    private_minimize(P, X, START, DPRGD(200, 0.3), None, noise_std=0.5, rng=source)
    rows = np.concatenate(seen)
    assert len(rows) == drawn + 200
    assert len(np.unique(rows[:, 0])) == len(rows)
    a, b = (run(DPRGD(200, 0.3), None, noise_std=0.05, rng=3) for _ in range(2))
    np.testing.assert_array_equal(
        a.value, b.value
    )  # a seeded run does not depend on how threads take turns


# ------------------------------------------------------------------------------------------------
# compilations, bad input


def _with_gradient(gradient):
    return Problem(M, lambda w, z: w[0], gradient=gradient)


class _Vector:
    def __call__(self, w, z):
        return w * z


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: run(DPRSGD(3, N + 1, 0.1)), "batch_size"),
        (lambda: run(DPRSVRG(1, 3, 0.1, batch_size=N + 1)), "batch_size"),
        (lambda: DPRGD(0, 0.1), "steps"),
        (lambda: DPRGD(-3, 0.1), "steps"),
        (lambda: DPRGD(2.5, 0.1), "steps"),
        (lambda: DPRGD(3, 0.1, 0.0), "clip_norm"),
        (lambda: DPRGD(3, 0.1, float("nan")), "clip_norm"),
        (lambda: DPRGD(3, -0.1), "learning_rate"),
        (lambda: DPRGD(3, 0.1, output="best"), "output"),
        (lambda: DPRGD(3, 0.1, update="log"), "update"),
        (lambda: DPRGD(3, 0.1, sensitivity="none"), "sensitivity"),
        (lambda: DPRSGD(3, 2, 0.1, sampling="shuffle"), "sampling"),
        (lambda: DPRSGD(3, 2, 0.1, sampling="poisson", sensitivity="domain"), "sensitivity"),
        (lambda: DPRSVRG(1, 2, 0.1, variant="other"), "variant"),
        (lambda: DPRSVRG(1, 2, 0.1, restarts=0), "restarts"),
        (lambda: run(DPRGD(3, 0.1, sensitivity="domain")), "sensitivity"),
        (lambda: run(DPRSVRG(1, 2, 0.1), noise_std=0.1), "noise_std"),
        (lambda: run(None, None, noise_std=-1.0), "noise_std"),
        (lambda: private_minimize(P, X, 2 * START, DPRGD(3, 0.1), BUDGET), "initial"),
        (lambda: private_minimize(P, X, np.nan * START, DPRGD(3, 0.1), BUDGET), "initial"),
        (
            lambda: private_minimize(Problem(M, _Vector()), X, START, DPRGD(3, 0.1, 1.0), BUDGET),
            "loss",
        ),
        (
            lambda: private_minimize(
                _with_gradient(lambda w, z: w[:2]), X, START, DPRGD(3, 0.1, 1.0), BUDGET
            ),
            "gradient",
        ),
        (
            lambda: private_minimize(
                _with_gradient(lambda w, z: w @ X), X, START, DPRGD(3, 0.1, 1.0), BUDGET
            ),
            "gradient",
        ),
        (
            lambda: private_minimize(
                Problem(M, lambda w, z: jnp.nan * w[0]), X, START, DPRGD(3, 0.1), None
            ),
            "loss",
        ),
        (
            lambda: private_minimize(
                Problem(M, lambda w, z: jnp.log(-jnp.sum(z**2) - w[0] ** 2)),
                X,
                START,
                DPRGD(3, 0.1, 1.0),
                BUDGET,
            ),
            "loss",
        ),
        (
            lambda: private_minimize(
                _with_gradient(lambda w, z: jnp.nan * z), X, START, DPRSGD(3, 2, 0.1, 1.0), BUDGET
            ),
            "gradient",
        ),
    ],
)
def test_bad_arguments_are_named_and_nothing_is_spent(call, name):
    book = Ledger(Budget(9.0, 1e-5))
    with book, pytest.raises(InvalidArgument, match=f"`{name}`"):
        call()
    assert book.spent.epsilon(1e-5) == 0.0


def _far_out(w, z):
    """Finite only for records that no made-up one is like."""
    return jnp.where(z[0] > 100.0, jnp.sum(w * z), jnp.nan)


def test_functions_are_tried_on_a_public_example():
    wide = X + np.array([200.0, *[0.0] * (DIM - 1)])
    arguments = (wide, START, DPRGD(3, 0.1, 1.0), BUDGET)
    book = Ledger(Budget(9.0, 1e-5))
    with book, pytest.raises(InvalidArgument, match="example=record"):
        private_minimize(Problem(M, _far_out), *arguments)
    for example, word in ((np.ones(DIM), "not finite"), (np.ones(DIM + 1), "`example` has shape")):
        with book, pytest.raises(InvalidArgument, match=word):
            private_minimize(Problem(M, _far_out, example=example), *arguments)
    assert book.charges == 0
    made = private_minimize(Problem(M, _far_out, example=np.full(DIM, 300.0)), *arguments, rng=1)
    assert bool(M.belongs(made.value))


@pytest.mark.parametrize("example", [None, np.full(DIM, 0.25)], ids=["made up", "given"])
def test_the_trial_reads_no_private_record(example, monkeypatch):
    """The records that functions are tried on are the same whatever the data hold."""
    tried = []

    def remembered(loss, gradient, w, z):
        tried.append(np.asarray(z))
        return np.array(False), np.array(False)

    p = Problem(M, _far_out, example=example)
    own = np.random.default_rng(99).normal(size=(N, DIM))
    for data in (own, np.full_like(own, np.nan), 1e6 * own):
        plant(monkeypatch, "trial of a loss", remembered)
        with pytest.raises(InvalidArgument, match="`loss`"):
            private_minimize(p, data, START, DPRGD(3, 0.1, 1.0), BUDGET)
    assert len(tried) % 3 == 0
    first, second, third = np.split(np.stack(tried), 3)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    assert len(first) == (1 if example is not None else len(first))
    assert not np.any(np.all(np.isin(np.stack(tried), own), axis=1))


def test_bursting_steps_never_leave_the_manifold():
    """A step that overflows is skipped and counted: what comes out is always a finite point."""
    from riemdp.manifolds import Lorentz

    h = Lorentz(3)
    f = problems.frechet_mean(h, ball=Ball(h.origin, 1.0))
    x = np.tile(np.asarray(h.origin), (5, 1))
    r = private_minimize(f, x, h.origin, DPRGD(30, 1.0), None, noise_std=300.0, rng=0)
    assert np.all(np.isfinite(r.value))
    assert 0 < r.details["skipped_steps"] <= 30
    assert f"{r.details['skipped_steps']} steps overflowed" in str(r)
    v = private_minimize(
        f, x, h.origin, DPRSVRG(2, 5, 1.0, batch_size=2), None, noise_std=300.0, rng=0
    )
    assert 0 < v.details["skipped_steps"] <= 10
    e = private_minimize(
        problems.frechet_mean(Euclidean(2)),
        np.ones((3, 2)),
        np.zeros(2),
        DPRGD(5, 0.3, 1.0),
        BUDGET,
        rng=0,
    )
    assert e.value.dtype == jnp.float64
    assert e.details["skipped_steps"] == 0
