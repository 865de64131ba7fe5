"""DP-RSVRG: variance-reduced steps about an anchor, with the noise of each query charged where it
is drawn.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import BudgetExceeded
from ..privacy import Budget, charge
from ..problems._problem import Problem, _chunk
from . import _loop
from ._batches import subsets
from ._checkpoint import Checkpoint, identity
from ._checks import check_affordable
from ._kernels import Generic, choose_kernel, gradient_function
from ._optimizers import DPRSVRG
from ._result import OptimizationResult
from ._svrg_plan import Shape, plan_svrg


def run_svrg(
    problem: Problem,
    records: Any,
    n: int,
    point: Any,
    optimizer: DPRSVRG,
    budget: Budget | None,
    noise_std: float | None,
    host: Any,
) -> OptimizationResult:
    """DP-RSVRG. Each query's guarantee is made and charged right before its noise is drawn."""
    from ._minimize import Pace, _tidied

    m, watch = problem.manifold, host.watch
    run = plan_svrg(problem, n, optimizer, budget, noise_std)
    shape, split = run.shape, run.split
    kernel = Generic(m, optimizer.update == "retract", gradient_function(problem))
    asking = choose_kernel(
        problem, False
    )  # the kernel of the full gradient, where no single gradient is transported
    prepared = _loop.start(asking, point, records)[1]
    chunk = _chunk(jax.tree.leaves(records))
    averaged = optimizer.output == "geodesic-average"
    target = (
        int(host.source.integers(1, shape.per_run + 1))
        if optimizer.output == "uniform"
        else shape.per_run
    )
    state = _fresh(shape, point, averaged, target)
    keeper = None
    if host.checkpoint is not None:
        facts = (
            identity(problem),
            optimizer.output,
            optimizer.update,
            shape,
            split,
            run.inner_numbers,
        )
        keeper = Checkpoint(host.checkpoint, facts, run.rates, point)
        state = keeper.resume(state)
        target = state["target"]
    source = host.fresh_source(keeper)
    rest = [
        whole - had
        for whole, had in zip(shape.queries, (state["fulls"], state["inners"]), strict=True)
    ]
    check_affordable(shape.guarantee(split.z1, split.z2, *rest), host.ledger)
    planned = shape.guarantee(split.z1, split.z2, *shape.queries)
    rows = _loop.capacity(shape.inner, m.noise_size + shape.b)
    carry = _loop.Carry(state["point"], state["mean"] if averaged else None)
    anchor = state["anchor"]
    full = None  # asked for below, or taken from the checkpoint
    calls = 0
    status = "completed"
    pace = Pace()

    def noise(count: int, noisy: bool, queries: tuple[int, int], **drawn: int) -> np.ndarray:
        """Noise of full and batch queries: charged, then noted in the checkpoint, then drawn."""
        charge(shape.guarantee(split.z1, split.z2, *queries), host.ledger, of=planned)
        drawn |= {"fulls": state["fulls"] + queries[0], "inners": state["inners"] + queries[1]}
        state.update(drawn)
        if keeper is not None:
            keeper.intend(**drawn)
        return source.normals((count, m.noise_size)) if noisy else np.zeros((count, m.noise_size))

    def keep() -> None:
        """The released iterate, and what was released at the anchor, into the checkpoint."""
        state.update(point=carry.state, mean=carry.mean if averaged else state["mean"])
        if keeper is not None:
            keeper.save(**state)

    watch.begin("DP-RSVRG", shape.rounds * shape.inner)
    try:
        for part in shape.parts(rows):
            last = part.restart == shape.restarts - 1
            count = min(part.size, target - part.done) if last else part.size
            if count <= 0:
                break
            if part.step < state["steps"]:
                continue  # drawn before a crash: taken, or lost with its noise
            if part.epoch == state["anchored"]:
                if full is None:
                    # The first part after a crash. What the anchor released is in the file; an
                    # exact gradient never is.
                    kept = run.full_numbers.sigma > 0
                    full = (
                        state["full"]
                        if kept
                        else _asked(asking, chunk, anchor, prepared, m, run.full_numbers)
                    )
                    calls += 0 if kept else n
            elif part.epoch < state["anchors"]:
                continue  # the answer at this anchor was lost with its noise: the epoch is left out
            else:
                anchor = carry.state
                # As published the gradient at the anchor is exact until an inner step uses it,
                # noised and charged there.
                z = noise(
                    1,
                    run.full_numbers.sigma > 0,
                    (1 if shape.anchored else 0, 0),
                    anchors=part.epoch + 1,
                )[0]
                full = _loop.full_query(
                    _loop.RULES, asking, chunk, anchor, prepared, z, run.full_numbers
                )
                calls += n
                state.update(anchor=anchor, anchored=part.epoch)
                if (
                    run.full_numbers.sigma > 0
                ):  # without noise of its own it is exact: never into the file
                    state.update(full=full)
                keep()
            z = noise(
                count, split.scale > 0, shape.asked(part.offset, count), steps=part.step + count
            )
            block = _loop.Block(
                _loop.padded(z, rows),
                _loop.padded(run.rates[part.step : part.step + count], rows),
                _loop.padded(subsets(source, n, shape.b, count), rows),
                None,
            )
            if part.restart != state["restart"]:
                state.update(restart=part.restart, since=0)
            row, taken, since = 0, state["taken"], state["since"]
            while row < count:
                end = watch.limit(taken + row, row, min(count, row + pace.steps(count - row)))
                carry, _ = pace.timed(
                    _loop.run_inner_steps,
                    _loop.RULES,
                    kernel,
                    shape.anchored,
                    carry,
                    _loop.Epoch(anchor, full),
                    records,
                    block,
                    row,
                    end,
                    part.offset,
                    float(since + row),
                    run.inner_numbers,
                    did=end - row,
                )
                calls += 2 * shape.b * (end - row)
                row = end
                state.update(taken=taken + row, since=since + row)
                watch.after(taken + row, calls, lambda w=carry.state: w)
            carry = carry._replace(state=_tidied(kernel, m, carry.state))
            keep()
    except KeyboardInterrupt:
        status = "interrupted"
        keep()
    except BudgetExceeded:
        if state["taken"] == 0:
            raise
        status = (  # another run used the ledger meanwhile; what was released stays released
            "interrupted"
        )
    finally:
        host.close()
    if status == "completed" and optimizer.output == "uniform":
        # Which iterate was drawn is not hidden, so the run costs what all of its steps would have
        # cost.
        rest = [
            whole - had
            for whole, had in zip(shape.queries, (state["fulls"], state["inners"]), strict=True)
        ]
        charge(shape.guarantee(split.z1, split.z2, *rest), host.ledger, of=planned)
        state["fulls"], state["inners"] = shape.queries
    if keeper is not None and status == "completed":
        keeper.remove()
    asked = shape.guarantee(split.z1, split.z2, state["fulls"], state["inners"])
    return OptimizationResult(
        value=carry.mean if averaged and state["since"] > 0 else carry.state,
        guarantee=asked,
        sigma=split.sigma_full if shape.anchored else split.scale,
        history=watch.history(),
        gradient_calls=calls,
        steps=state["taken"],
        reproducible=source.reproducible,
        method=f"DP-RSVRG ({optimizer.variant})",
        status=status,
        details={
            "n": n,
            "batch_size": shape.b,
            "clip_norm": shape.clip,
            "full_clip_norm": shape.full_clip,
            "z1": split.z1,
            "z2": split.z2,
            "smoothness": shape.smoothness,
            "convexity": shape.convexity,
            "inner_noise": split.scale,
            "epochs": shape.epochs,
            "inner_steps": shape.inner,
            "restarts": shape.restarts,
            "protects": problem.protects,
            "skipped_steps": int(carry.skipped),
        },
    )


def _fresh(shape: Shape, point: Any, averaged: bool, target: int) -> dict[str, Any]:
    """The state of a run before its first query: counts of what was drawn and taken, and points
    that were released.
    """
    counts = {
        "fulls": 0,
        "inners": 0,  # queries whose noise was drawn
        "anchors": 0,
        "steps": 0,  # anchors, and inner steps, whose noise was drawn
        "anchored": -1,  # the epoch that `anchor` and `full` belong to
        "taken": 0,
        "restart": 0,
        "since": 0,  # steps taken, in all and since the restart
        "target": target,
    }
    zero = jax.tree.map(jnp.zeros_like, point)
    return {
        **counts,
        "point": point,
        "mean": point if averaged else None,
        "anchor": point,
        "full": zero,
    }


def _asked(
    asking: Any, chunk: int, anchor: Any, prepared: Any, m: Any, numbers: _loop.Numbers
) -> Any:
    return _loop.full_query(
        _loop.RULES, asking, chunk, anchor, prepared, np.zeros(m.noise_size), numbers
    )
