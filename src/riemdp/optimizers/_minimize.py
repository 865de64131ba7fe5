"""`private_minimize`: the host side of a run. Noise is drawn here, and its guarantee is made in the
same function.
"""

from __future__ import annotations

import functools
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._errors import BudgetExceeded, InvalidArgument, NotPrivateWarning, integer, invalid
from ..manifolds import Grassmann, Product, Stiefel
from ..manifolds._base import Point
from ..privacy import Budget, Ledger, charge
from ..problems._problem import Problem, _chunk
from ..randomness import NoiseSource, noise_source
from . import _loop
from ._batches import draw_indices
from ._checkpoint import Checkpoint, identity, seed_after
from ._checks import check_affordable, check_data, check_initial, check_objective, check_problem
from ._kernels import choose_kernel, tidy_between_blocks
from ._optimizers import DPRSVRG, Optimizer, check_optimizer
from ._plan import Plan, plan_optimizer
from ._replicate import replicate
from ._result import History, HistoryRow, OptimizationResult

__all__ = ["check_affordable", "check_data", "check_initial", "private_minimize", "replicate"]

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
    """Minimise (1/n) sum_i loss(w, z_i) over the manifold of `problem` with a guarantee for every
    record.

    **Arguments.** `data`: array (n, *record shape), or a pytree of such with the same n; n is
    public. `initial`: a point, public (a private one must be charged where it was made).
    `optimizer`: `DPRGD`, `DPRSGD` or `DPRSVRG`. `budget`: a `Budget` with delta > 0, for which the
    noise is calibrated exactly; None runs the same loop without noise or clipping, not private.
    `noise_std` (instead of a budget): run with this sigma, per orthonormal coordinate of the
    averaged gradient, and report the guarantee that it really gives. `rng`: None (operating
    system), a seed (not private) or a `NoiseSource`. `ledger`: charged before noise is drawn; None
    charges the innermost `with Ledger(...)`. `record_every` k > 0 records the objective every k
    steps, computed WITHOUT noise: a `NotPrivateWarning` is given and the history must not be
    published. `progress`: a bar on the terminal. `checkpoint`: a file to continue from after a
    crash; steps whose noise was drawn but lost are not taken again, so no noise is used twice and
    the guarantee stays that of the planned number of steps.

    **What holds.** Every gradient is clipped in the Riemannian norm before averaging (or every
    record is clamped to the problem's ball, `sensitivity="domain"`); gradients that are NaN or
    infinite count as zero; the denominator is public; the noise is isotropic in the metric of the
    current iterate. Ctrl-C returns the last released iterate with the guarantee of what was drawn;
    in a run of several blocks of noise the ledger is charged block by block.

    **Guarantee:** as the optimiser states it; `result.guarantee`, within `budget`, replace-one
    (Poisson: add-or-remove-one). Output perturbation by releasing the iterates: it holds against
    someone who sees all of w_1, ..., w_T.

    **Raises** `InvalidArgument` naming the argument; `BudgetExceeded` before anything is drawn.
    """
    optimizer = check_optimizer(optimizer)
    if not isinstance(problem, Problem):
        raise invalid(
            "problem", problem, "give a riemdp.Problem, for example problems.frechet_mean(manifold)"
        )
    if budget is _REQUIRED:
        if noise_std is None:
            raise InvalidArgument(
                "argument `budget` is missing: give a Budget(epsilon, delta), noise_std=..., or "
                "budget=None for a run that is not private"
            )
        budget = None
    record_every = integer("record_every", record_every, at_least=0)
    point = check_initial(problem, initial)
    records, n = check_data(problem, data)
    check_problem(problem, point, records)
    source = noise_source(rng)
    if budget is None and noise_std is None:
        check_objective(problem, point, records)
    if record_every:
        warnings.warn(
            "record_every computes objectives from the private records without noise: the history"
            " is NOT private",
            NotPrivateWarning,
            stacklevel=2,
        )
    host = Host(source, rng, ledger, Watch(problem, records, record_every, progress), checkpoint)
    if isinstance(optimizer, DPRSVRG):
        from ._svrg import run_svrg

        return run_svrg(problem, records, n, point, optimizer, budget, noise_std, host)
    return _run(
        problem,
        records,
        point,
        optimizer,
        plan_optimizer(problem, n, optimizer, budget, noise_std=noise_std),
        host,
    )


def _run(
    problem: Problem, records: Any, point: Point, optimizer: Any, plan: Plan, host: Host
) -> OptimizationResult:
    """DP-RGD and DP-RSGD. The guarantee of every block is made, and charged, right before the
    block's noise is drawn.
    """
    m, watch = problem.manifold, host.watch
    records, ball = confined(problem, optimizer, records)
    point = start_inside(m, ball, point)
    kernel = kernel_of(problem, optimizer, plan)
    chunk = _chunk(jax.tree.leaves(records))
    state, prepared = _loop.start(kernel, point, records)
    velocity = _loop.rest(kernel, state) if plan.momentum > 0 else None
    mean = point if optimizer.output == "geodesic-average" else None
    target = plan.steps
    if optimizer.output == "uniform":
        # An iterate drawn uniformly from w_1..w_T: what follows it would not change the output, so
        # it is not computed, but the guarantee is that of all T (which one was drawn is not
        # hidden).
        target = int(host.source.integers(1, plan.steps + 1))
    keeper = None
    drawn = taken = 0
    if host.checkpoint is not None:
        facts = (
            identity(problem),
            plan.method,
            plan.n,
            plan.steps,
            plan.batch_size,
            plan.sampling,
            plan.sigma,
            plan.clip,
            plan.sensitivity,
            plan.noise_multiplier,
            optimizer.output,
            optimizer.update,
            optimizer.sensitivity,
            plan.momentum,
        )
        keeper = Checkpoint(host.checkpoint, facts, plan.rates, point)
        pushed = None if velocity is None else kernel.tangent(state, velocity)
        kept = keeper.resume(
            {
                "drawn": 0,
                "taken": 0,
                "target": target,
                "point": point,
                "mean": mean,
                "velocity": pushed,
            }
        )
        drawn, taken, target, mean = kept["drawn"], kept["taken"], kept["target"], kept["mean"]
        state = _loop.state_at(kernel, kept["point"])
        velocity = None if velocity is None else kernel.frame(state, kept["velocity"])
    source = host.fresh_source(keeper)
    width = m.noise_size + (0 if plan.sampling == "full" else plan.batch_size)
    rows = _loop.capacity(plan.steps, width)
    check_affordable(plan.guarantee(plan.steps - drawn), host.ledger)
    carry = _loop.Carry(state, mean, velocity)
    numbers = _loop.Numbers(plan.sigma, plan.clip, float(plan.batch_size), plan.momentum)
    calls = 0
    status = "completed"
    watch.begin(plan.method, plan.steps)
    zeros = np.zeros((rows, m.noise_size)) if plan.sigma == 0.0 else None
    pace = Pace()

    def draw() -> tuple[_loop.Block, int] | None:
        """The next noise and batches: charged, then noted in the checkpoint, then drawn."""
        nonlocal drawn
        first, count = drawn, min(rows, plan.steps - drawn)
        if count == 0:
            return None
        charge(plan.guarantee(count), host.ledger, of=plan.guarantee())
        drawn += count
        if keeper is not None:
            keeper.intend(drawn=drawn)
        z = (
            zeros
            if zeros is not None
            else _loop.padded(source.normals((count, m.noise_size), host.helper), rows)
        )
        indices, mask = draw_indices(source, plan, count, rows)
        return _loop.Block(z, _loop.padded(plan.rates[first:drawn], rows), indices, mask), count

    def keep() -> None:
        """The released iterate into the checkpoint."""
        if keeper is not None:
            pushed = None if carry.velocity is None else kernel.tangent(carry.state, carry.velocity)
            here = _loop.current_point(kernel, carry.state)
            keeper.save(drawn=drawn, taken=taken, point=here, mean=carry.mean, velocity=pushed)

    try:
        upcoming = draw()
        while upcoming is not None and taken < target:
            (block, count), upcoming = upcoming, None
            row, stop = 0, min(count, target - taken)
            ahead = False
            while row < stop:
                end = watch.limit(taken, row, min(stop, row + pace.steps(stop - row)))
                # The next block is drawn while the compiled loop works through the rest of this
                # one. What an interrupt leaves of it is dropped: charged, never used.
                ahead = end == count and keeper is None and taken + end - row < target
                carry, prepared_block = pace.timed(
                    _loop.run_steps,
                    _loop.RULES,
                    kernel,
                    chunk,
                    carry,
                    prepared,
                    block,
                    row,
                    end,
                    float(taken),
                    numbers,
                    ball,
                    did=end - row,
                    meanwhile=draw if ahead else None,
                )
                upcoming = prepared_block if ahead else None
                taken += end - row
                calls += (end - row) * plan.batch_size
                row = end
                watch.after(taken, calls, lambda s=carry.state: _loop.current_point(kernel, s))
            carry = carry._replace(state=_tidied(kernel, m, carry.state))
            keep()
            if not ahead and taken < target:
                upcoming = draw()
    except KeyboardInterrupt:
        status = "interrupted"
        keep()
    except BudgetExceeded:
        if taken == 0:
            raise
        status = (  # another run used the ledger meanwhile; what was released stays released
            "interrupted"
        )
    finally:
        host.close()
    if optimizer.output == "uniform" and status == "completed":
        charge(plan.guarantee(plan.steps - drawn), host.ledger, of=plan.guarantee())
        drawn = plan.steps
    if keeper is not None and status == "completed":
        keeper.remove()
    value = (
        carry.mean
        if carry.mean is not None and taken > 0
        else _loop.current_point(kernel, carry.state)
    )
    return OptimizationResult(
        value=value,
        guarantee=plan.guarantee(drawn),
        sigma=plan.sigma,
        history=watch.history(),
        gradient_calls=calls,
        steps=taken,
        reproducible=source.reproducible,
        method=plan.method,
        status=status,
        details={**_details(plan, problem), "skipped_steps": int(carry.skipped)},
    )


def confined(
    problem: Problem, optimizer: Any, records: Any
) -> tuple[Any, _loop.Confinement | None]:
    """The records, clamped where the sensitivity comes from the domain, and the ball that the
    iterates then stay in.
    """
    if optimizer.sensitivity != "domain":
        return records, None
    m, ball = problem.manifold, problem.ball
    return ball.clamp(m, records), _loop.Confinement(
        m._coerce("center", ball.center), float(ball.radius)
    )


def start_inside(manifold: Any, ball: _loop.Confinement | None, point: Any) -> Any:
    """The point that a run starts from: where a ball confines the iterates, the initial one too.

    The sensitivity of the domain holds inside the ball only (spaces of positive curvature).
    """
    return point if ball is None else _loop.moved_inside(manifold, ball, point)


def kernel_of(problem: Problem, optimizer: Any, plan: Plan) -> Any:
    """The kernel of a run. A confined run makes its state anew at every step, which a velocity kept
    in a moving frame would not survive: there the general kernel is taken.
    """
    general = plan.momentum > 0 and optimizer.sensitivity == "domain"
    return choose_kernel(problem, optimizer.update == "retract", generic=general)


def _details(plan: Plan, problem: Problem) -> dict[str, Any]:
    return {
        "n": plan.n,
        "batch_size": plan.batch_size,
        "sampling": plan.sampling,
        "clip_norm": plan.clip,
        "sensitivity": plan.sensitivity,
        "noise_multiplier": plan.noise_multiplier,
        "noise_to_signal": plan.noise_to_signal,
        "momentum": plan.momentum,
        "protects": problem.protects,
    }


@functools.partial(jax.jit, static_argnums=(0, 1))
def _tidy_state(kernel: Any, manifold: Any, state: Any) -> Any:
    return kernel.start(tidy_between_blocks(manifold, kernel.point(state)))


def _tidied(kernel: Any, manifold: Any, state: Any) -> Any:
    """The projection of Grassmann and Stiefel iterates between blocks (post-processing); nothing
    elsewhere.
    """
    return (
        _tidy_state(kernel, manifold, state)
        if isinstance(manifold, Grassmann | Stiefel | Product)
        else state
    )


class Host:
    """What a run has on the host side: its randomness, ledger, watch, checkpoint file, and a thread
    that helps to draw.
    """

    def __init__(
        self,
        source: NoiseSource,
        rng: Any,
        ledger: Ledger | None,
        watch: Watch,
        checkpoint: Any = None,
    ):
        self.source, self.rng, self.ledger, self.watch, self.checkpoint = (
            source,
            rng,
            ledger,
            watch,
            checkpoint,
        )
        self.helper = (
            None if source.reproducible else ThreadPoolExecutor(1, "riemdp-noise")
        )  # the thread starts when used

    def fresh_source(self, keeper: Checkpoint | None) -> NoiseSource:
        """The source to draw from, which for a resumed simulation is not at the start of its seed's
        stream.
        """
        return self.source if keeper is None else seed_after(self.rng, self.source, keeper.resumed)

    def close(self) -> None:
        """The run is over, however it ended."""
        self.watch.end()
        if self.helper is not None:
            self.helper.shutdown(wait=False, cancel_futures=True)


class Pace:
    """How many steps to ask of one compiled call: as many as take about half a second (timing
    decides no result).
    """

    def __init__(self) -> None:
        self.rate = 0.0

    def steps(self, left: int) -> int:
        return min(left, 16) if self.rate == 0.0 else max(1, int(self.rate * _SECONDS))

    def timed(
        self, function: Any, *arguments: Any, did: int, meanwhile: Any = None
    ) -> tuple[Any, Any]:
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
