# attacks give what the types forbid
"""Small sentences of the documents, each held by the quickest test that would notice its opposite.

Guards of `tools/mutants.toml`, beside the attacks on the proved faults.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Ball,
    Budget,
    BudgetExceeded,
    InvalidArgument,
    Ledger,
    PriRFed,
    Problem,
    private_frechet_mean,
    private_minimize,
    problems,
)
from riemdp.estimators import PrivateMDM
from riemdp.federated import Coordinator, Setup, plan_federated, run_in_process
from riemdp.optimizers import private_principal_eigenvector
from riemdp.privacy import gaussian, none, participation, pure, subsampled_gaussian
from riemdp.randomness import noise_source
from riemdp.statistics import AmbientMean, FrechetMean
from tests.attacks.tools import outcome, separation
from tests.seam import Doors, Servers, Sums, original, plant

LINE = riemdp.Euclidean(1)
FAR = problems.frechet_mean(LINE)


def history(optimizer, space, data, **more):
    """The released iterates, w_0 first."""
    nothing = Problem(
        space, lambda w, z: 0.0 * jnp.sum(w), gradient=lambda w, z: z * jnp.ones_like(w)
    )
    problem = more.pop("problem", nothing)
    start = np.zeros(space.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = private_minimize(problem, data, start, optimizer, record_every=1, **more)
    rows = [row for row in run.history if getattr(row, "step", 1) != 0]
    return [start, *(np.asarray(row.value) for row in rows)], run


# ------------------------------------------------------------------------------------------------
# optimisers
@pytest.mark.parametrize(
    ("optimizer", "noise_std"),
    [
        (DPRGD(1, 0.1, 1.0), 0.5),
        (DPRSGD(1, 4, 0.1, 1.0), 0.5),
        (DPRSVRG(1, 1, 0.1, 1.0, full_clip_norm=1.0, batch_size=4), 0.5),
    ],
    ids=["full", "batch", "anchor"],
)
def test_one_record_moves_a_step_by_its_sensitivity(optimizer, noise_std):
    """Two records far out on either side reach the claim, and do not exceed it."""
    x, y = np.zeros((4, 1)), np.zeros((4, 1))
    x[-1], y[-1] = 1e6, -1e6
    found, claim = separation(FAR, x, y, np.zeros(1), optimizer, rate=0.1, noise_std=noise_std)
    assert found == pytest.approx(2 / 4 / noise_std, rel=1e-6)
    assert claim == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_counts_as_nothing(value):
    x, y = np.ones((4, 1)), np.ones((4, 1))
    x[0] = value
    y[0] = 0.0  # at the start: no gradient
    for optimizer in (DPRGD(1, 0.1, 1.0), DPRSGD(1, 2, 0.1, 1.0)):
        a, b = (
            private_minimize(FAR, d, np.zeros(1), optimizer, noise_std=0.1, rng=3).value
            for d in (x, y)
        )
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_noise_and_batches_are_fresh_at_every_step():
    space = riemdp.Euclidean(200)
    points, _ = history(DPRGD(4, 1.0, 1.0), space, np.zeros(4), noise_std=1.0, rng=1)
    steps = np.diff(np.stack(points), axis=0)
    assert steps.shape == (4, 200)
    correlation = np.corrcoef(steps) - np.eye(4)
    assert np.abs(correlation).max() < 0.4
    n = 40
    basis = Problem(riemdp.Euclidean(n), lambda w, z: jnp.sum(w * z), gradient=lambda w, z: 1e3 * z)
    points, _ = history(
        DPRSGD(8, 2, 1.0, 1.0),
        riemdp.Euclidean(n),
        np.eye(n),
        problem=basis,
        noise_std=1e-6,
        rng=1,
    )
    steps = np.abs(np.diff(np.stack(points), axis=0))
    batches = [tuple(np.argsort(row)[-2:]) for row in steps]
    assert len({tuple(sorted(b)) for b in batches}) > 4, batches


def _inner(steps, rate=1.0):
    n, b = 10, 2
    optimizer = DPRSVRG(1, steps, rate, 0.01, full_clip_norm=1.0, batch_size=b)
    points, run = history(optimizer, riemdp.Euclidean(400), np.zeros(n), noise_std=1.0, rng=1)
    return points, run, n, b


def test_the_first_inner_step_issues_no_query():
    """At the anchor the difference of gradients is zero: no noise but that of the full query."""
    points, run, _, _ = _inner(3)
    full = points[0] - points[1]
    assert 0.75 < np.sum(full**2) / (400 * run.sigma**2) < 1.3
    short, _, _, _ = _inner(1)
    np.testing.assert_allclose(
        short[1] / np.linalg.norm(short[1]), points[1] / np.linalg.norm(points[1]), atol=1e-9
    )


def test_the_noise_of_an_inner_step_has_the_stated_size():
    """scale times the bound c_t = 2 C, where no smoothness is known; z2 = scale b / 2 each step."""
    points, run, n, b = _inner(3)
    full = points[0] - points[1]
    scale, bound = run.details["inner_noise"], 2 * 0.01
    for here, there in ((points[1], points[2]), (points[2], points[3])):
        noise = here - there - full
        ratio = np.sum(noise**2) / (400 * (scale * bound) ** 2)
        assert 0.7 < ratio < 1.4, ratio
    z1, z2 = run.details["z1"], run.details["z2"]
    assert z2 == pytest.approx(scale * b / 2, rel=1e-6)
    assert z1 == pytest.approx(run.sigma / (2 * 1.0 / n), rel=1e-6)
    true = gaussian(z1).compose(subsampled_gaussian(z2, population=n, batch_size=b, steps=2))
    assert run.guarantee.epsilon(1e-5) >= true.epsilon(1e-5) * (1 - 2e-3)


# ------------------------------------------------------------------------------------------------
# ledger
def test_a_pure_ledger_grants_pure_releases_only():
    book = Ledger(Budget(1.0))
    for guarantee in (gaussian(100.0), none(), pure(1.1)):
        assert not book.fits(guarantee)
        with pytest.raises(BudgetExceeded):
            book.spend(guarantee)
    book.spend(pure(1.0))
    book = Ledger(Budget(1.0, 1e-5))
    with pytest.raises(BudgetExceeded):
        book.spend(none())


def test_a_ledger_of_two_kinds_ends():
    """Gaussian and pure releases in turn: the total stays within the budget and comes to an end."""
    for mixed in (None, True):
        more = {} if mixed is None else {"mixed": mixed}
        book = Ledger(Budget(1.0, 1e-5), **more)
        granted = 0
        for _ in range(100):
            for guarantee in (gaussian(20.0), pure(0.1)):
                if book.fits(guarantee):
                    book.spend(guarantee)
                    granted += 1
        assert 3 <= granted < 60
        assert book.spent.epsilon(1e-5) <= 1.0 + 1e-9


# ------------------------------------------------------------------------------------------------
# randomness
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("number", ["its own", "its ancestor's"])
def test_a_forked_child_has_noise_of_its_own(number):
    """Also a child that was given the process number of an ancestor, which is gone."""
    source, before = noise_source(), os.getpid()
    source.normals((2,))  # the key is there before the fork
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if number == "its ancestor's":
                os.getpid = lambda: before
            os.write(write, source.normals((4,)).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    theirs = np.frombuffer(os.read(read, 64))
    os.waitpid(child, 0)
    assert theirs.shape == (4,)
    assert not np.any(np.isin(theirs, source.normals((4,))))


def test_nothing_is_charged_in_float32():
    """Double precision may be switched off by another thread while a run draws its noise."""
    book = Ledger(Budget(1.0, 1e-5))
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(riemdp.PrecisionError, match="64-bit"):
            riemdp.privacy.charge(riemdp.privacy.pure(0.5), book)
    finally:
        jax.config.update("jax_enable_x64", True)
    assert book.spent.epsilon(1e-5) == 0.0


def test_fault_41_a_ball_is_not_bound_in_float32():
    """A ball bound while double precision was off kept a centre that was wrong by 2, and releases
    made later took it.
    """
    line, center = riemdp.Euclidean(1), np.array([1e8 + 3.0])
    fresh, bound = riemdp.Ball(center, 1.0), riemdp.Ball(center, 1.0)
    domain = bound.on(line)
    jax.config.update("jax_enable_x64", False)
    try:
        for use in (
            lambda: fresh.on(line),
            lambda: fresh.contains(line, center),
            lambda: fresh.clamp(line, center),
            lambda: bound.on(line),
            lambda: domain.frame.local,
            lambda: domain.frame.clamp_flagged(center[None]),
            lambda: domain.frame.back(np.zeros(1)),
            lambda: domain.resolution,
            lambda: domain.ambient_diameter,
        ):
            with pytest.raises(riemdp.PrecisionError, match="64-bit"):
                use()
    finally:
        jax.config.update("jax_enable_x64", True)
    for ball in (fresh, bound):
        assert float(ball.on(line).center[0]) == 1e8 + 3.0
        release = riemdp.private_frechet_mean(
            line, np.full((1000, 1), center), ball, Budget(1.0, 1e-6), rng=0
        )
        assert abs(float(release.value[0] - center[0])) < 0.1


class _SwitchesOff:
    """An array whose reading has JAX's 64 bits switched off, as another thread may at any time."""

    def __init__(self, array):
        self.array, self.shape, self.ndim = array, array.shape, array.ndim
        self.dtype = array.dtype

    def __len__(self):
        return len(self.array)

    def __array__(self, dtype=None, copy=None):
        jax.config.update("jax_enable_x64", False)
        return self.array


def test_fault_42_no_query_computes_in_float32():
    """A query whose ball was bound before computed in float32 while double precision was off:
    neighbours' means were 31 sensitivities apart, and the release was made once it was on again.
    """
    line, center, n = riemdp.Euclidean(1), np.array([1e8 + 3.0]), 1000
    domain, X = riemdp.Ball(center, 1.0).on(line), np.full((n, 1), center + 0.25)
    queries = [
        kind(domain, n)
        for kind in (
            FrechetMean,
            AmbientMean,
            riemdp.statistics.FrechetVariance,
        )
    ]
    prepared = [query.prepare(X) for query in queries]
    jax.config.update("jax_enable_x64", False)
    try:
        for query, ready in zip(queries, prepared, strict=True):
            for use in (lambda q=query: q.prepare(X), lambda q=query, r=ready: q.value(r)):
                with pytest.raises(riemdp.PrecisionError, match="64-bit"):
                    use()
        for use in (domain.clamp, domain.contains, domain.frame.clamp_flagged):
            with pytest.raises(riemdp.PrecisionError, match="64-bit"):
                use(X)
        with pytest.raises(riemdp.PrecisionError, match="64-bit"):
            domain.clamp(X[0])
    finally:
        jax.config.update("jax_enable_x64", True)


def test_fault_42_no_worker_computes_in_float32():
    """Before: sums of a Dask array in threads were in float32, and released as made of integers."""
    dask_array = pytest.importorskip("dask.array")

    def off(block):
        jax.config.update("jax_enable_x64", False)
        return block

    X, book = np.full((400, 2), 0.25), Ledger(Budget(1.0, 1e-5))
    blocks = dask_array.from_array(X, chunks=(100, 2)).map_blocks(off, dtype=float, meta=X[:0])
    try:
        with pytest.raises(riemdp.RiemdpError, match=r"PrecisionError|64-bit"):
            private_frechet_mean(
                riemdp.Euclidean(2),
                blocks,
                Ball(np.zeros(2), 1.0),
                Budget(1.0, 1e-6),
                mechanism="tangent-mean",
                ledger=book,
            )
    finally:
        jax.config.update("jax_enable_x64", True)
    assert book.spent.epsilon(1e-5) == 0.0


def test_fault_37_a_worker_raises_nothing_that_numpy_was_told_to():
    """A record that underflows decides about no error, whatever is set where a block is reduced."""
    dask_array = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")

    def told(block):
        np.seterr(all="raise")
        return block

    X = np.tile(np.eye(2), (400, 1, 1))
    X[7], X[8] = 1e-320 * np.eye(2), 1e308 * np.eye(2)
    blocks = dask_array.from_array(X, chunks=(100, 2, 2)).map_blocks(told, dtype=float, meta=X[:0])
    with dask.config.set(scheduler="synchronous"), np.errstate():
        release = private_frechet_mean(
            riemdp.SPDAffineInvariant(2), blocks, Ball(np.eye(2), 1.0), Budget(1.0, 1e-6), rng=1
        )
    assert np.isfinite(release.value).all()


def test_fault_42_no_thread_switches_a_release_to_float32():
    """Two of 14 527 releases were wrong by 47 standard deviations while another thread switched
    double precision off and on.
    """
    line, center, n = riemdp.Euclidean(1), np.array([1e8 + 3.0]), 1000
    domain, X = riemdp.Ball(center, 1.0).on(line), np.full((n, 1), center + 0.25)
    try:
        query = AmbientMean(domain, n)
        prepared = query.prepare(_SwitchesOff(X))
        jax.config.update("jax_enable_x64", True)
        assert np.asarray(prepared.points).dtype == np.float64
        assert abs(float(query.value(prepared)[0]) - float(X[0, 0])) < 1e-6
        mechanism = riemdp.WrappedGaussian(
            line, center, sensitivity=query.sensitivity, budget=Budget(1.0, 1e-6)
        )
        release = mechanism.release(_SwitchesOff(X[0]), 0)
    finally:
        jax.config.update("jax_enable_x64", True)
    assert abs(float(release.value[0]) - float(X[0, 0])) < 8.0 * release.scale


def _doors():
    """Releases of every kind, each as a function that gives the value."""
    draws = np.random.default_rng(11)
    roots = draws.normal(size=(40, 2, 2))
    X = 0.5 * roots @ np.swapaxes(roots, 1, 2) + 0.2 * np.eye(2)
    many, far = np.concatenate([X] * 10), np.array([1e8 + 3.0, 1.0])
    spd, line, budget = riemdp.SPDAffineInvariant(2), riemdp.Euclidean(2), Budget(1.0, 1e-5)
    ball, flat, pure_budget = Ball(np.eye(2), 1.5), np.full((200, 2), far + 0.25), Budget(1.0)
    labels, rows = np.repeat(np.arange(10), 4), 0.3 * draws.normal(size=(40, 3))
    problem = problems.frechet_mean(spd, ball=ball)
    own = {"rng": 0}

    def mean(name, budget=budget, **options):
        return lambda: private_frechet_mean(spd, X, ball, budget, mechanism=name, **options, **own)

    def federated(noise, steps):
        method = PriRFed(problem, steps, rounds=2, agents_per_round=2, noise=noise)
        return lambda: run_in_process(method, [X[:20], X[20:]], np.eye(2), budget, **own)

    for found in (
        lambda: private_frechet_mean(line, flat, Ball(far, 1.0), budget, **own),
        mean("auto"),
        mean("k-norm-gradient", pure_budget),
        mean("riemannian-laplace", pure_budget),
        mean("tangent-mean", groups=labels),
        lambda: private_frechet_mean(spd, many, riemdp.AdaptiveBall(), budget, **own),
        lambda: riemdp.private_frechet_variance(spd, X, ball, budget, **own),
        lambda: riemdp.private_geometric_median(spd, many, budget=budget, **own),
        lambda: private_principal_eigenvector(rows, budget, row_norm=1.0, **own),
        lambda: private_minimize(problem, X, np.eye(2), DPRSGD(3, batch_size=10), budget, **own),
        federated("local", DPRGD(2)),
        federated("shared", DPRGD(1)),
    ):
        yield lambda found=found: np.asarray(found().value)


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning", "error:Explicitly requested dtype")
def test_fault_42_no_moment_is_left_for_another_thread(monkeypatch):
    """Another thread that switches double precision off right after every look at it changes no
    value. Before, what was computed outside the queries was then in float32.
    """
    doors = list(_doors())
    wanted = [door() for door in doors]

    def switched_off_after():
        jax.config.update("jax_enable_x64", True)
        Doors.check_float64()
        jax.config.update("jax_enable_x64", False)

    for place in ("_programs", "randomness._source", "privacy._ledger"):
        monkeypatch.setattr(f"riemdp.{place}.check_float64", switched_off_after)
    try:
        for door, expected in zip(doors, wanted, strict=True):
            jax.config.update("jax_enable_x64", True)
            found = door()
            assert found.dtype == np.float64
            assert np.array_equal(found, expected)
    finally:
        jax.config.update("jax_enable_x64", True)


class _Interrupted:
    """The n-th comparison of spaces is interrupted, as a signal may interrupt it."""

    def __init__(self, monkeypatch, after):
        self.left, compared = after, riemdp.AbstractManifold.__eq__

        def compare(one, other):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return compared(one, other)

        monkeypatch.setattr(riemdp.AbstractManifold, "__eq__", compare)


def test_fault_43_an_interrupt_does_not_make_a_mean_the_centre(monkeypatch):
    """A mean took an interrupt for one that cannot be computed: 191 of 81 589 interrupted releases
    were the centre. Here each pass over the records is interrupted once.
    """
    far = np.tile([0.0, 0.8, 0.0], (500, 1))
    X = np.asarray(riemdp.Lorentz(3).exp(np.eye(3)[0], far))

    def value(query):
        return np.asarray(query.value(query.prepare(X)))

    solver = original("solver of a mean")
    query = FrechetMean(Ball(np.eye(3)[0], 1.0).on(riemdp.Lorentz(3)), 500)
    whole, interrupted = value(query), 0
    for after in range(1, 40):
        left = [after]

        def solve(manifold, look, *rest, left=left):
            def interrupted_look(point):
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
                return look(point)

            return solver(manifold, interrupted_look, *rest)

        with monkeypatch.context() as patch:
            plant(patch, "solver of a mean", solve)
            try:
                np.testing.assert_array_equal(value(query), whole)
            except KeyboardInterrupt:
                interrupted += 1
        if left[0] > 0:
            break
    assert interrupted > 1
    assert left[0] > 0


def test_fault_43_an_interrupted_run_is_interrupted(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)

    def run():
        return riemdp.private_minimize(*given, DPRGD(3, 0.1, 1.0), Budget(5.0, 1e-6))

    def new():
        space = riemdp.Sphere(4)
        return riemdp.problems.frechet_mean(space), X, np.asarray(space.origin)

    given = new()
    run()
    for after in range(1, 30):
        given = new()
        with monkeypatch.context() as patch:
            signal = _Interrupted(patch, after)
            try:
                status = run().status
            except (KeyboardInterrupt, ValueError) as error:
                if isinstance(error, ValueError) and "comparable" not in str(error):
                    raise
                status = "interrupted"
        assert status == ("completed" if signal.left > 0 else "interrupted")


def test_threads_have_keys_of_their_own():
    source, found = noise_source(), [None, None]

    def look(i):
        found[i] = source.generator

    workers = [threading.Thread(target=look, args=(i,)) for i in (0, 1)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found[0] is not found[1]
    assert source.generator not in found


def test_a_seed_is_never_called_private():
    ball = Ball(np.zeros(1), 1.0)
    seeded = private_frechet_mean(LINE, np.zeros((4, 1)), ball, Budget(1.0), rng=3)
    assert seeded.reproducible
    assert "NOT PRIVATE" in str(seeded)
    fresh = private_frechet_mean(LINE, np.zeros((4, 1)), ball, Budget(1.0))
    assert not fresh.reproducible


def test_many_normals_are_standard():
    """Mean, variance, tails and no repetition; few, many, and whole ones."""
    few, many = noise_source(1), noise_source()
    whole = 2.0**32
    for z in (
        np.concatenate([few.normals((100, 4)) for _ in range(10)]),
        noise_source(1).normals((1 << 16, 2)),
        np.concatenate([many.normals((1 << 15, 2)) for _ in range(2)]),
        many.rounded_normals(whole, (1 << 15, 2)) / whole,
    ):
        z, k = z.reshape(-1), math.sqrt(z.size)
        assert abs(z.mean()) < 6 / k
        assert abs((z**2).mean() - 1) < 9 / k
        assert abs((z**4).mean() - 3) < 70 / k
        # whole numbers below 2^35 or so: now and then two are alike
        assert len(np.unique(z)) >= z.size - 20


def test_batches_are_subsets():
    """Distinct members, every member equally often."""
    for population, size in ((10, 3), (10, 8), (300, 40)):
        rows = noise_source(1).subsets(population, size, 500)
        assert all(len(set(row)) == size for row in rows.tolist())
        counts = np.bincount(rows.reshape(-1), minlength=population)
        p = size / population
        assert np.abs(counts - 500 * p).max() < 6 * math.sqrt(500 * p * (1 - p)) + 1e-9


# ------------------------------------------------------------------------------------------------
# sensitivities and balls
def test_sensitivities_are_reached():
    sensitivity = riemdp.frechet_mean_sensitivity
    ball, n, r = Ball(np.zeros(1), 2.0), 8, 2.0
    assert sensitivity(LINE, ball, n) >= 2 * r / n  # the line: attained
    both = sensitivity(LINE, ball, n, adjacency="add-or-remove-one")
    assert both >= 2 * r / (n + 1)  # n at one end, one more at the other
    w = np.array([5.0, 1, 1, 1, 1, 1, 1, 1])
    assert sensitivity(LINE, ball, n, weights=w) >= 2 * r * 5 / 12 * (1 - 1e-12)
    assert sensitivity(LINE, ball, n, tolerance=1e-3) >= 2 * r / n + 2e-3
    sphere, cap = riemdp.Sphere(3), Ball(np.array([0.0, 0.0, 1.0]), 0.5)
    h = 1.0 / math.tan(1.0)
    found = sensitivity(sphere, cap, n, tolerance=1e-3)
    assert found >= 1.0 / (n * math.cos(1.0)) + 2e-3 / h * (1 - 1e-12)
    assert FrechetMean(ball.on(LINE), n, tolerance=1e-3).sensitivity >= 2 * r / n + 2e-3
    for name in ("wrapped-gaussian", "riemannian-laplace"):
        release = private_frechet_mean(
            LINE, np.zeros((n, 1)), ball, Budget(1.0, 1e-6), mechanism=name, rng=1
        )
        own = FrechetMean(ball.on(LINE), n)
        assert release.sensitivity >= 2 * r / n + 2 * own.tolerance


def test_a_public_point_is_carried_onto_its_space():
    """What holds to 1e-6 holds to 1e-12 afterwards: a start in float32, a long centre."""
    sphere, rough = riemdp.Sphere(7), np.ones(7, np.float32) / np.sqrt(np.float32(7))
    ball = Ball(rough * (1 + 3e-7), 0.3).on(sphere)
    assert abs(float(np.linalg.norm(ball.center)) - 1) < 1e-12
    run = private_minimize(
        problems.principal_eigenvector(7),
        np.zeros((4, 7)),
        rough,
        DPRGD(1, 1e-12, 1.0),
        noise_std=1e-9,
        rng=1,
    )
    assert abs(float(np.linalg.norm(run.value)) - 1) < 1e-12


def test_records_of_a_ball_reach_the_domain_sensitivity():
    """Inside the ball nothing is clipped: two ends of it move the gradient by 4 r / n."""
    x, y = np.zeros((4, 1)), np.zeros((4, 1))
    x[0], y[0] = 1.0, -1.0
    found, claim = separation(
        problems.frechet_mean(LINE, ball=Ball(np.zeros(1), 1.0)),
        x,
        y,
        np.array([0.9]),
        DPRGD(1, 1e-3, sensitivity="domain"),
        rate=1e-3,
        noise_std=1.0,
    )
    assert found == pytest.approx(1.0, rel=1e-6)
    assert claim == pytest.approx(1.0, rel=1e-6)


def test_a_ball_too_large_for_the_curvature_is_refused():
    """pi / 4 on the unit sphere."""
    north = np.array([0.0, 0.0, 1.0])
    for radius in (0.79, 1.0, 1.5):
        with pytest.raises(InvalidArgument):
            private_frechet_mean(
                riemdp.Sphere(3), np.tile(north, (4, 1)), Ball(north, radius), Budget(1.0), rng=1
            )
        with pytest.raises(InvalidArgument):
            riemdp.frechet_mean_sensitivity(riemdp.Sphere(3), Ball(north, radius), 4)


def test_the_clamp_ends_in_the_ball():
    """Far points on the edge, what is no point at the centre."""
    sphere, spd = riemdp.Sphere(3), riemdp.SPDAffineInvariant(2)
    north = np.array([0.0, 0.0, 1.0])
    moved = Ball(north, 0.3).clamp(
        sphere, np.array([[0.0, 1, 0], [0, 2.0, 0], [0, np.nan, 1], [0, 1e-3, 1.0], [0, 0, -1]])
    )
    distance = np.asarray(sphere.dist(north, moved))
    assert distance[0] == pytest.approx(0.3)
    assert np.all(distance <= 0.3)
    np.testing.assert_array_equal(np.asarray(moved)[[1, 2, 4]], np.tile(north, (3, 1)))
    x = np.array([np.diag([1e9, 1e-3]), np.diag([1.0, -1.0]), [[1.0, 2.0], [0.0, 1.0]]])
    moved = np.asarray(Ball(np.eye(2), 1.0).clamp(spd, x))
    assert float(spd.dist(np.eye(2), moved[0])) == pytest.approx(1.0)
    np.testing.assert_array_equal(moved[1:], np.tile(np.eye(2), (2, 1, 1)))


def test_a_truncated_distribution_knows_its_value():
    """Draws from a distribution cut to a ball lie nearer to the value than to its mirror image."""
    space, ball = riemdp.SPDAffineInvariant(2), Ball(np.eye(2), 1.0)
    value = np.diag([math.exp(0.65), math.exp(-0.65)])
    draws = riemdp.sampling.riemannian_laplace(1, space, value, 1.5, shape=(400,), ball=ball)
    lean = np.asarray(space.dist(draws, value)) - np.asarray(
        space.dist(draws, np.linalg.inv(value))
    )
    assert lean.mean() < -4 * lean.std() / 20, lean.mean()
    assert np.all(np.asarray(space.dist(np.eye(2), draws)) <= 1 + 1e-9)


# ------------------------------------------------------------------------------------------------


def as_drawn(release):
    """The noisy point, also where the release was then moved into the ball."""
    seen = release.observation
    return release.value if seen is None else release.confidence_region().center


def _open(x, weights=None):
    return private_frechet_mean(
        LINE,
        np.reshape(x, (-1, 1)),
        Ball(np.zeros(1), 2.0),
        Budget(1.0, 1e-6),
        mechanism="wrapped-gaussian",
        n_min=10,
        weights=weights,
        rng=1,
    )


def test_a_small_data_set_is_filled_up():
    """Below n_min, at it and above: one record more moves the mean by at most 4 / 11."""
    for count in (0, 5, 9, 10):
        a, b = _open(np.full(count, 2.0)), _open(np.append(np.full(count, 2.0), -2.0))
        assert float(LINE.dist(as_drawn(a), as_drawn(b))) <= a.sensitivity * (1 + 1e-9)
        assert a.sensitivity == b.sensitivity >= 4 / 11 * (1 - 1e-12)
    heavy = _open(np.append(np.zeros(12), 2.0), np.append(np.ones(12), 1e9))
    without = _open(np.zeros(12), np.ones(12))
    assert float(LINE.dist(as_drawn(heavy), as_drawn(without))) <= heavy.sensitivity * (1 + 1e-9)


def _classes(y):
    x = np.tile(np.eye(2), (len(y), 1, 1))
    x[0] = np.diag([math.e**2, 1.0])
    known = {"labels": "private", "classes": [0, 1], "random_state": 1}
    return PrivateMDM(budget=Budget(1.0), ball=Ball(np.eye(2), 2.0), **known).fit(x, y)


def test_private_labels_cost_two_classes():
    """A record that changes its class moves two sums and two sizes, which one release has together:
    with the noise of the whole budget for all that moves.
    """
    for size in (0, 2, 7):
        y = np.array([0] + [1] * size + [0] * 8)
        z = np.zeros((len(y), 3))
        z[0, 0] = 1.0  # as long as a vector can be
        fitted = _classes(y)
        release = fitted.release_
        sums = Sums.ClassSums(len(y), 2, 3, None)
        a, b = sums.joint(z, y), sums.joint(z, np.array([1, *y[1:]]))
        moved = 2.0 * float(np.linalg.norm(a - b))  # in the unit of the scale: the radius
        assert 2.0 * 2.0 - 1e-9 < moved <= release.sensitivity
        assert moved / release.scale <= 1.0 + 1e-9
        assert fitted.guarantee_.epsilon(0.0) <= 1.0 + 1e-9
    with Ledger(Budget(1.0, 1e-5)) as book:
        _classes([0, 1] * 5)
        assert book.spent.epsilon(0.0) == pytest.approx(1.0)
        assert outcome(lambda: _classes([0, 1] * 5)) == "BudgetExceeded"


# ------------------------------------------------------------------------------------------------
# federation
def _federated(**more):
    settings = {"rounds": 5, "agents_per_round": 2} | more
    return PriRFed(problems.principal_eigenvector(4), DPRGD(1, 0.1, 1.0), **settings)


def test_a_round_robin_costs_its_busiest_agent():
    """Five rounds of two among three agents: four invitations for one of them."""
    plan = plan_federated(_federated(participation="round-robin"), [10] * 3, None, noise_std=0.5)
    (local,) = plan.local.values()
    assert plan.guarantee.epsilon(1e-5) >= local.repeat(4).epsilon(1e-5) * (1 - 1e-9)


def _server(agents=4, **more):
    prirfed = _federated(**more)
    plan = plan_federated(prirfed, [10] * agents, Budget(2.0, 1e-5))
    names = {f"a{i}": 10 for i in range(agents)}
    return Coordinator(prirfed, plan, names, np.eye(4)[0], Budget(2.0, 1e-5), noise_source(1))


def test_silent_agents_are_charged():
    """A round nobody answers costs what any round costs."""
    server = _server()
    for _ in range(3):
        server.invite(list(server.sizes))
        server.close()
    (local,) = server.plan.local.values()
    true = participation(local, agents=4, sampled=2, rounds=3)
    assert server.guarantee().epsilon(1e-5) >= true.epsilon(1e-5) * (1 - 1e-6)


class _Alone:
    """One agent of ten is there, and never answers."""

    def agents(self):
        return {"a": 10}

    def send(self, names, point, round_number):
        pass

    def replies(self):
        return []


def test_dropouts_end_a_run_early():
    """A lone agent is in every round: the run stops before its records have paid too much."""
    now = [0.0]

    def pause(seconds):
        now[0] += seconds

    setup = Setup(_federated(rounds=30), np.eye(4)[0], Budget(1.0, 1e-5), 10, min_agents=1)
    server = Servers.drive(
        setup,
        _Alone(),
        noise_source(1),
        timing=Servers.Timing(timeout=1.0, patience=0.0),
        clock=lambda: now[0],
        pause=pause,
    )
    (local,) = set(server.plan.local.values())
    spent = local.repeat(sum(server.invitations.values()))
    if server.invitations and all(r.eligible == 1 for r in server.records):
        assert spent.epsilon(1e-5) <= 1.0 + 1e-6
    assert server.guarantee().within(Budget(1.0, 1e-5))


def _turn_is_free() -> bool:
    """Whether another thread gets the turn at once."""
    with ThreadPoolExecutor(1) as pool:
        free = pool.submit(Doors.turn.acquire, blocking=False).result()
        return free and pool.submit(Doors.turn.release).result() is None


def test_fault_48_an_interrupt_between_any_two_calls_loses_no_turn():
    """An interrupt is raised where Python looks for one: where a function begins and where a call
    of C ends. Before: about one in 300 left the lock of a semaphore locked, and every later mean
    of the process waited for it.
    """
    work = Doors.in_turn(lambda: len("ab"))
    looks = 0

    def interrupted(frame, event, argument):
        nonlocal looks
        if event in ("call", "c_return"):
            looks -= 1
            if looks == 0:
                raise KeyboardInterrupt

    ends = []
    for places in range(1, 12):
        looks = places
        sys.setprofile(interrupted)
        try:
            ends.append(work())
        except KeyboardInterrupt:
            ends.append(None)
        finally:
            sys.setprofile(None)
        assert _turn_is_free(), places
    assert ends.count(None) >= 3
    assert ends[-1] == 2


def test_fault_48_a_handler_of_a_signal_that_computes_waits_for_no_turn_of_its_own_thread():
    """A handler runs where Python looks for an interrupt. Before: one that computed a mean between
    a turn and its note waited without end for the turn that its own thread held.
    """
    work, handled = Doors.in_turn(lambda: len("ab")), []

    def handler(frame, event, argument):
        if event in ("call", "c_return"):
            handled.append(work())

    def handling() -> None:
        sys.setprofile(handler)
        try:
            handled.append(work())
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=handling, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(handled) >= 4
    assert _turn_is_free()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("killed", [False, True], ids=["parent-goes-on", "parent-is-killed"])
def test_fault_51_a_child_does_not_keep_the_lock_of_a_ledger(tmp_path, killed):
    """A child that is forked while the lock of a ledger's file is held has that file open. Before:
    the lock was the child's as long as it lived, and who charged next waited without end, the child
    itself too.
    """
    code = """
        import os, signal, sys, threading, time
        from riemdp.privacy import Budget, Ledger, gaussian

        ledger = Ledger(Budget(5.0, 1e-5), path=sys.argv[1])
        held, go = threading.Event(), threading.Event()

        def hold():
            with ledger._book.held():
                held.set()
                go.wait(60)

        holder = threading.Thread(target=hold, daemon=True)
        holder.start()
        held.wait(60)
        parent, child = os.getpid(), os.fork()
        if child == 0:
            # charges while the parent lives and no longer holds the lock, or is dead
            ledger.spend(gaussian(100.0))
            print("child", flush=True)
            time.sleep(60.0)  # and lives on
            os._exit(0)
        if sys.argv[2] == "True":
            os.kill(parent, signal.SIGKILL)
        go.set()
        holder.join()
        ledger.spend(gaussian(100.0))
        print("parent", flush=True)
        time.sleep(60.0)
    """
    path = tmp_path / "ledger.json"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path), str(killed)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wanted = {"child\n"} if killed else {"child\n", "parent\n"}
        seen: set[str] = set()
        reader = threading.Thread(
            target=lambda: seen.update(process.stdout.readline() for _ in wanted), daemon=True
        )
        reader.start()
        reader.join(60.0)
        assert seen == wanted
        # whoever comes later does not wait either
        later = Ledger.open(path)
        done = threading.Thread(target=later.spend, args=(gaussian(100.0),), daemon=True)
        done.start()
        done.join(30.0)
        assert not done.is_alive()
        assert later.charges == len(wanted) + 1
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="locks are not shared")
def test_fault_51_a_lock_ends_although_a_child_that_is_not_known_has_its_file_open(tmp_path):
    """A child that was forked by a library, or just before the lock was taken, closes nothing."""
    (tmp_path / "ledger.json").touch()  # else what was locked is deleted, with its lock
    with Doors.locked(tmp_path / "ledger.json"):
        (handle,) = (one for one in Doors.held if not one.closed)
        other = os.dup(handle.fileno())
    try:
        done = threading.Thread(
            target=lambda: Doors.locked(tmp_path / "ledger.json").__enter__(), daemon=True
        )
        done.start()
        done.join(30.0)
        assert not done.is_alive()
    finally:
        os.close(other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fault_51_no_child_is_forked_between_the_opening_of_a_lock_and_its_entry(
    tmp_path, monkeypatch
):
    """Such a child did not know of the file, and kept it open."""
    opened, number = threading.Event(), []

    def slow(*arguments, **options):
        handle = open(*arguments, **options)  # noqa: SIM115
        number.append(handle.fileno())
        opened.set()
        time.sleep(0.5)  # the fork comes now
        return handle

    plant(monkeypatch, "opening of a lock", slow)
    ends = threading.Event()

    def hold():
        with Doors.locked(tmp_path / "ledger.json"):
            ends.wait(60.0)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert opened.wait(60.0)
    child = os.fork()
    if child == 0:
        try:
            os.fstat(number[0])
        except OSError:
            os._exit(7)
        os._exit(8)
    ends.set()
    holder.join(60.0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
