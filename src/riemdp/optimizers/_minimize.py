"""`private_minimize`: the host side of a run. Noise is drawn here, and its guarantee is made in the same function."""

from __future__ import annotations

import functools
import math
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import BudgetExceeded, InvalidArgument, NotPrivateWarning, integer, invalid, real
from ..manifolds import Grassmann, Product, Stiefel
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee, Ledger, charge
from ..problems._problem import Problem, _chunk, check_loss_shape
from ..randomness import NoiseSource, noise_source
from . import _loop
from ._batches import draw_indices
from ._checkpoint import Checkpoint, seed_after
from ._kernels import choose_kernel, tidy_between_blocks
from ._optimizers import DPRSVRG, Optimizer, check_optimizer
from ._plan import Plan, plan_optimizer
from ._result import History, HistoryRow, OptimizationResult

_REQUIRED: Any = object()
_SECONDS = 0.5  # how long one compiled call may run before the host looks up (progress, Ctrl-C)


def private_minimize(
    problem: Problem,
    data: Any,
    initial: Point,
    optimizer: Optimizer,
    budget: Budget | None = _REQUIRED,
    *,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
    noise_std: float | None = None,
    record_every: int = 0,
    progress: bool = False,
    checkpoint: str | Path | None = None,
) -> OptimizationResult:
    """Minimise (1/n) sum_i loss(w, z_i) over the manifold of `problem` with a guarantee for every record.

    **Arguments.** `data`: array (n, *record shape), or a pytree of such with the same n; n is public. `initial`: a point, public
    (a private one must be charged where it was made). `optimizer`: `DPRGD`, `DPRSGD` or `DPRSVRG`. `budget`: a `Budget` with
    delta > 0, for which the noise is calibrated exactly; None runs the same loop without noise or clipping, not private.
    `noise_std` (instead of a budget): run with this sigma, per orthonormal coordinate of the averaged gradient, and report the
    guarantee that it really gives. `rng`: None (operating system), a seed (not private) or a `NoiseSource`. `ledger`: charged
    before noise is drawn; None charges the innermost `with Ledger(...)`. `record_every` k > 0 records the objective every k
    steps, computed WITHOUT noise: a `NotPrivateWarning` is given and the history must not be published. `progress`: a
    bar on the terminal. `checkpoint`: a file to continue from after a crash; steps whose noise was drawn but lost are not
    taken again, so no noise is used twice and the guarantee stays that of the planned number of steps.

    **What holds.** Every gradient is clipped in the Riemannian norm before averaging (or every record is clamped to the
    problem's ball, `sensitivity="domain"`); gradients that are NaN or infinite count as zero; the denominator is public; the
    noise is isotropic in the metric of the current iterate. Ctrl-C returns the last released iterate with the guarantee
    of what was drawn; in a run of several blocks of noise the ledger is charged block by block.

    **Guarantee:** as the optimiser states it; `result.guarantee`, within `budget`, replace-one (Poisson: add-or-remove-one).
    Output perturbation by releasing the iterates: it holds against someone who sees all of w_1, ..., w_T.

    **Raises** `InvalidArgument` naming the argument; `BudgetExceeded` before anything is drawn.
    """
    optimizer = check_optimizer(optimizer)
    if not isinstance(problem, Problem):
        raise invalid("problem", problem, "give a riemdp.Problem, for example problems.frechet_mean(manifold)")
    if budget is _REQUIRED:
        if noise_std is None:
            raise InvalidArgument("argument `budget` is missing: give a Budget(epsilon, delta), noise_std=..., or "
                                  "budget=None for a run that is not private")  # fmt: skip
        budget = None
    record_every = integer("record_every", record_every, at_least=0)
    point = check_initial(problem, initial)
    records, n = check_data(problem, data)
    check_loss_shape(problem, point, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), records))
    source = noise_source(rng)
    if budget is None and noise_std is None:
        _check_objective(problem, point, records)
    if record_every:
        warnings.warn(
            "record_every computes objectives from the private records without noise: the history is NOT private",
            NotPrivateWarning, stacklevel=2,
        )  # fmt: skip
    watch = Watch(problem, records, record_every, progress)
    if isinstance(optimizer, DPRSVRG):
        from ._svrg import run_svrg

        if checkpoint is not None:
            raise invalid("checkpoint", checkpoint, "DPRSVRG keeps no checkpoints; use DPRGD or DPRSGD, or leave it out")
        return run_svrg(problem, records, n, point, optimizer, budget, noise_std, source, ledger, watch)
    plan = plan_optimizer(problem, n, optimizer, budget, noise_std=noise_std)
    keeper = None if checkpoint is None else Checkpoint(checkpoint, problem, optimizer, plan, point)
    return _run(problem, records, point, optimizer, plan, source, rng, ledger, watch, keeper)


def _run(problem: Problem, records: Any, point: Point, optimizer: Any, plan: Plan, source: NoiseSource, rng: Any,
         ledger: Ledger | None, watch: Watch, keeper: Checkpoint | None) -> OptimizationResult:  # fmt: skip
    """DP-RGD and DP-RSGD. The guarantee of every block is made, and charged, right before the block's noise is drawn."""
    m = problem.manifold
    domain = optimizer.sensitivity == "domain"
    if domain:
        records = problem.ball.clamp(m, records)
    kernel = choose_kernel(problem, optimizer.update == "retract")
    ball = _loop.Confinement(m._coerce("center", problem.ball.center), float(problem.ball.radius)) if domain else None
    chunk = _chunk(jax.tree.leaves(records))
    drawn = taken = 0
    mean = point if optimizer.output == "geodesic-average" else None
    if keeper is not None:
        drawn, taken, point, mean, earlier_seeds = keeper.resume(point, mean)
        source = seed_after(rng, source, earlier_seeds)
    state, prepared = _loop.start(kernel, point, records)
    width = m.noise_size + (0 if plan.sampling == "full" else plan.batch_size)
    rows = _loop.capacity(plan.steps, width)
    target = plan.steps
    check_affordable(plan.guarantee(plan.steps - drawn), ledger)
    if optimizer.output == "uniform":
        # An iterate drawn uniformly from w_1..w_T: what follows it would not change the output, so it is not computed, but
        # the guarantee is that of all T (which one was drawn is not hidden).
        target = int(source.integers(1, plan.steps + 1))
    calls = 0
    status = "completed"
    watch.begin(plan.method, plan.steps)
    zeros = np.zeros((rows, m.noise_size)) if plan.sigma == 0.0 else None

    def draw() -> tuple[_loop.Block, int] | None:
        """The next block of noise and batches: charged, then noted in the checkpoint, then drawn."""
        nonlocal drawn
        first, count = drawn, min(rows, plan.steps - drawn)
        if count == 0:
            return None
        charge(plan.guarantee(count), ledger)
        drawn += count
        if keeper is not None:
            keeper.intend(drawn)
        normals = zeros if zeros is not None else _loop.padded(source.normals((count, m.noise_size)), rows)
        indices, mask = draw_indices(source, plan, count, rows)
        return _loop.Block(normals, _loop.padded(plan.rates[first:drawn], rows), indices, mask), count

    try:
        upcoming = draw()
        while upcoming is not None and taken < target:
            (block, count), upcoming = upcoming, None
            row, stop = 0, min(count, target - taken)
            pace, ahead = Pace(), False
            while row < stop:
                end = watch.limit(taken, row, min(stop, row + pace.steps(stop - row)))
                # The next block is drawn while the compiled loop works through the rest of this one.
                ahead = end == count and keeper is None
                (state, mean), prepared_block = pace.timed(
                    _loop.run_steps, _loop.RULES, kernel, mean is not None, chunk, state, mean, prepared, block, row, end,
                    float(taken), plan.sigma, plan.clip, float(plan.batch_size), ball, did=end - row,
                    meanwhile=draw if ahead else None,
                )  # fmt: skip
                upcoming = prepared_block if ahead else None
                taken += end - row
                calls += (end - row) * plan.batch_size
                row = end
                watch.after(taken, calls, lambda s=state: _loop.current_point(kernel, s))
            state = _tidied(kernel, m, state)
            if keeper is not None:
                keeper.save(drawn, taken, _loop.current_point(kernel, state), mean)
            if not ahead and taken < target:
                upcoming = draw()
    except KeyboardInterrupt:
        status = "interrupted"
    except BudgetExceeded:
        if taken == 0:
            raise
        status = "interrupted"  # another run used the ledger meanwhile; what was released stays released
    finally:
        watch.end()
    if optimizer.output == "uniform" and status == "completed":
        charge(plan.guarantee(plan.steps - drawn), ledger)
        drawn = plan.steps
    if keeper is not None and status == "completed":
        keeper.remove()
    value = mean if mean is not None and taken > 0 else _loop.current_point(kernel, state)
    return OptimizationResult(
        value=value, guarantee=plan.guarantee(drawn), sigma=plan.sigma, history=watch.history(), gradient_calls=calls,
        steps=taken, reproducible=source.reproducible, method=plan.method, status=status, details=_details(plan, problem),
    )  # fmt: skip


def replicate(problem: Problem, data: Any, initial: Point, optimizer: Any, *, noise_std: float, repetitions: int,
              rng: Any = None, rules: _loop.Rules | None = None, kernel: Any = None) -> tuple[Any, Guarantee]:  # fmt: skip
    """Final iterates of many independent runs at once, and the guarantee of ONE of them: for audits and simulation.

    Same compiled steps as `private_minimize`, vectorised over repetitions. Nothing is charged; do not publish the values.
    """
    point = check_initial(problem, initial)
    records, n = check_data(problem, data)
    plan = plan_optimizer(problem, n, replace(optimizer, output="last"), None, noise_std=noise_std)
    source = noise_source(rng)
    m = problem.manifold
    ball = None
    if optimizer.sensitivity == "domain":
        records = problem.ball.clamp(m, records)
        ball = _loop.Confinement(m._coerce("center", problem.ball.center), float(problem.ball.radius))
    kernel = kernel or choose_kernel(problem, optimizer.update == "retract")
    state, prepared = _loop.start(kernel, point, records)
    total = repetitions * plan.steps
    guarantee = plan.guarantee()
    normals = source.normals((repetitions, plan.steps, m.noise_size))
    indices, mask = draw_indices(source, plan, total, total)
    indices, mask = (None if x is None else x.reshape(repetitions, plan.steps, -1) for x in (indices, mask))
    block = _loop.Block(normals, plan.rates, indices, mask)
    values = _loop.run_repetitions(
        rules or _loop.RULES, kernel, _chunk(jax.tree.leaves(records)), state, prepared, block, plan.steps, plan.sigma,
        plan.clip, float(plan.batch_size), ball,
    )  # fmt: skip
    return values, guarantee


# ------------------------------------------------------------------------------------------------ checks of arguments
def check_initial(problem: Problem, initial: Any) -> Point:
    """One point of the manifold, or an error that names `initial`."""
    m = problem.manifold
    point = m._coerce("initial", initial)
    if m._batch_shape(point) != ():
        raise invalid("initial", initial, f"give one point of {m!r}, without batch axes")
    if not bool(m.belongs(point, 1e-6)):
        raise InvalidArgument(f"argument `initial` is not a point of {m!r}; use manifold.project(initial)")
    return point


def check_data(problem: Problem, data: Any) -> tuple[Any, int]:
    """Records as float64 arrays with a common leading axis, or an error that names `data`. Values are not looked at."""
    shape = problem.record_shape
    if isinstance(data, list) and not (isinstance(shape, tuple) and shape and isinstance(shape[0], tuple)):
        data = np.asarray(data, dtype=object) if len({np.shape(x) for x in data}) > 1 else np.asarray(data)
    try:
        records = jax.tree.map(_as_float64, data)
    except (TypeError, ValueError) as error:
        raise InvalidArgument("argument `data` must hold arrays of real numbers, records along the first axis") from error
    leaves = jax.tree.leaves(records)
    if not leaves or any(leaf.ndim == 0 for leaf in leaves):
        raise InvalidArgument("argument `data` must hold arrays with the records along the first axis")
    n = leaves[0].shape[0]
    if any(leaf.shape[0] != n for leaf in leaves):
        raise InvalidArgument(f"argument `data` has parts of different lengths {[leaf.shape[0] for leaf in leaves]}")
    if n == 0:
        raise InvalidArgument("argument `data` is empty; at least one record is needed")
    if shape is not None:
        wanted = shape if isinstance(shape, tuple) and shape and isinstance(shape[0], tuple) else (shape,)
        got = tuple(leaf.shape[1:] for leaf in leaves)
        if got != tuple(tuple(s) for s in wanted):
            raise InvalidArgument(f"argument `data` has records of shape {got}; this problem needs {tuple(wanted)}")
    return records, n


def _as_float64(x: Any) -> Any:
    if isinstance(x, jax.Array) and x.dtype == jnp.float64:
        return x
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError("not real numbers")
    return jnp.asarray(array, dtype=jnp.float64)


def _check_objective(problem: Problem, point: Point, records: Any) -> None:
    """Only for runs that are not private anyway: a loss that is NaN at the start is a mistake worth naming."""
    if math.isnan(problem.objective(point, records)):
        raise InvalidArgument("argument `loss` is NaN at the initial point for some record; the run was not started")


def check_affordable(guarantee: Guarantee, ledger: Ledger | None) -> None:
    """Raise `BudgetExceeded`, changing nothing, if the whole run does not fit the ledger it will be charged to."""
    from ..privacy._ledger import _innermost

    if ledger is not None and not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    book = ledger if ledger is not None else _innermost.get()
    if book is not None and not book.fits(guarantee):
        raise BudgetExceeded(f"the whole run would exceed the budget {book.budget}; nothing was released or charged")


def _details(plan: Plan, problem: Problem) -> dict[str, Any]:
    return {
        "n": plan.n, "batch_size": plan.batch_size, "sampling": plan.sampling, "clip_norm": plan.clip,
        "sensitivity": plan.sensitivity, "noise_multiplier": plan.noise_multiplier, "noise_to_signal": plan.noise_to_signal,
        "protects": problem.protects,
    }  # fmt: skip


@functools.partial(jax.jit, static_argnums=(0, 1))
def _tidy_state(kernel: Any, manifold: Any, state: Any) -> Any:
    return kernel.start(tidy_between_blocks(manifold, kernel.point(state)))


def _tidied(kernel: Any, manifold: Any, state: Any) -> Any:
    """The projection of Grassmann and Stiefel iterates between blocks (post-processing); nothing elsewhere."""
    return _tidy_state(kernel, manifold, state) if isinstance(manifold, Grassmann | Stiefel | Product) else state


class Pace:
    """How many steps to ask of one compiled call: as many as take about half a second (timing decides no result)."""

    def __init__(self) -> None:
        self.rate = 0.0

    def steps(self, left: int) -> int:
        return min(left, 16) if self.rate == 0.0 else max(1, int(self.rate * _SECONDS))

    def timed(self, function: Any, *arguments: Any, did: int, meanwhile: Any = None) -> tuple[Any, Any]:
        """Start `function`, do `meanwhile`, wait; returns both results."""
        begin = time.perf_counter()
        out = function(*arguments)
        extra = None if meanwhile is None else meanwhile()
        jax.block_until_ready(out)
        self.rate = max(did / max(time.perf_counter() - begin, 1e-6), self.rate)
        return out, extra


class Watch:
    """History and progress bar of one run; the history is not private."""

    def __init__(self, problem: Problem, records: Any, every: int, progress: bool):
        self.problem, self.records, self.every = problem, records, every
        self.rows: list[HistoryRow] = []
        self.bar: Any = None
        self.progress = bool(progress)

    def begin(self, name: str, total: int) -> None:
        if self.progress:
            from rich.progress import Progress

            self.bar = Progress(transient=True)
            self.bar.start()
            self.task = self.bar.add_task(name, total=total)

    def limit(self, taken: int, row: int, end: int) -> int:
        """Where to stop so that no step to be recorded is run past."""
        if not self.every:
            return end
        return min(end, row + self.every - taken % self.every)

    def after(self, taken: int, calls: int, point: Any) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=taken)
        if self.every and taken % self.every == 0:
            w = point()
            self.rows.append(HistoryRow(taken, calls, self.problem.objective(w, self.records), w))

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def history(self) -> History:
        return History(self.rows)


def noise_std_of(noise_std: Any) -> float | None:
    """A checked sigma, or None."""
    return None if noise_std is None else real("noise_std", noise_std, at_least=0.0)
