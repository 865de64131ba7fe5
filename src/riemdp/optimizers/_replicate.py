"""Many independent runs at once, for audits and tables: the same compiled steps, vectorised over
repetitions.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import integer
from ..manifolds import Grassmann, Product, Stiefel
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee
from ..problems._problem import Problem, _chunk
from ..randomness import noise_source
from . import _loop
from ._batches import draw_indices, subsets
from ._checks import check_data, check_initial, check_problem
from ._kernels import Generic, choose_kernel, gradient_function, tidy_between_blocks
from ._optimizers import DPRSVRG, check_optimizer
from ._plan import plan_optimizer

_ENTRIES = 1 << 22  # numbers of one block of randomness, over all repetitions


def replicate(
    problem: Problem,
    data: Any,
    initial: Point,
    optimizer: Any,
    *,
    noise_std: float | None = None,
    budget: Budget | None = None,
    repetitions: int,
    rng: Any = None,
    rules: _loop.Rules | None = None,
    kernel: Any = None,
) -> tuple[Any, Guarantee]:
    """Outputs of many independent runs (leading axis: repetition), and the guarantee of ONE of
    them.

    The compiled steps, clipping, calibration and outputs ("last", "uniform", "geodesic-average") of
    `private_minimize`, for `DPRGD`, `DPRSGD` (both samplings) and `DPRSVRG` (both variants). Give
    `budget` or `noise_std`, or neither for runs without noise. Nothing is charged; do not publish
    the values. `rules` and `kernel` replace parts of a step, for planted faults.
    """
    optimizer = check_optimizer(optimizer)
    repetitions = integer("repetitions", repetitions)
    point = check_initial(problem, initial)
    records, n = check_data(problem, data)
    check_problem(problem, point, records)
    source, rules = noise_source(rng), rules or _loop.RULES
    if isinstance(optimizer, DPRSVRG):
        return _replicate_svrg(
            problem, records, n, point, optimizer, budget, noise_std, repetitions, source, rules
        )
    return _replicate_steps(
        problem, records, n, point, optimizer, budget, noise_std, repetitions, source, rules, kernel
    )


def _replicate_steps(
    problem: Problem,
    records: Any,
    n: int,
    point: Any,
    optimizer: Any,
    budget: Any,
    noise_std: Any,
    repetitions: int,
    source: Any,
    rules: _loop.Rules,
    kernel: Any,
) -> tuple[Any, Guarantee]:
    from ._minimize import confined, kernel_of, start_inside

    plan = plan_optimizer(problem, n, optimizer, budget, noise_std=noise_std)
    guarantee = plan.guarantee()
    m = problem.manifold
    records, ball = confined(problem, optimizer, records)
    point = start_inside(m, ball, point)
    kernel = kernel or kernel_of(problem, optimizer, plan)
    state, prepared = _loop.start(kernel, point, records)
    velocity = _loop.rest(kernel, state) if plan.momentum > 0 else None
    mean = point if optimizer.output == "geodesic-average" else None
    carries = _spread(_loop.Carry(state, mean, velocity), repetitions)
    stops = (
        source.integers(1, plan.steps + 1, (repetitions,))
        if optimizer.output == "uniform"
        else None
    )
    numbers = _loop.Numbers(plan.sigma, plan.clip, float(plan.batch_size), plan.momentum)
    chunk = _chunk_for(records, repetitions)
    rows = _rows(
        plan.steps, repetitions, m.noise_size + (0 if plan.sampling == "full" else plan.batch_size)
    )
    for first in range(0, plan.steps, rows):
        count = min(rows, plan.steps - first)
        size = (repetitions, count, m.noise_size)
        z = _by_repetition(
            source.normals(size) if plan.sigma > 0 else np.zeros(size), repetitions, count, rows
        )
        indices, mask = draw_indices(source, plan, repetitions * count, repetitions * count)
        indices, mask = (_by_repetition(x, repetitions, count, rows) for x in (indices, mask))
        block = _loop.Block(z, _loop.padded(plan.rates[first : first + count], rows), indices, mask)
        ends = count if stops is None else np.clip(stops - first, 0, count)
        carries = _loop.run_repetitions(
            rules, kernel, chunk, carries, prepared, block, ends, float(first), numbers, ball
        )
        carries = carries._replace(state=_tidied(kernel, carries.state))
    return (
        carries.mean if mean is not None else _loop.current_points(kernel, carries.state)
    ), guarantee


def _replicate_svrg(
    problem: Problem,
    records: Any,
    n: int,
    point: Any,
    optimizer: DPRSVRG,
    budget: Any,
    noise_std: Any,
    repetitions: int,
    source: Any,
    rules: _loop.Rules,
) -> tuple[Any, Guarantee]:
    from ._svrg_plan import plan_svrg

    run = plan_svrg(problem, n, optimizer, budget, noise_std)
    shape, split, m = run.shape, run.split, problem.manifold
    guarantee = shape.total(split.z1, split.z2)
    kernel = Generic(m, optimizer.update == "retract", gradient_function(problem))
    asking = choose_kernel(problem, False)
    prepared = _loop.start(asking, point, records)[1]
    chunk, rows = (
        _chunk_for(records, repetitions),
        _rows(shape.inner, repetitions, m.noise_size + shape.b),
    )
    averaged = optimizer.output == "geodesic-average"
    carries = _spread(_loop.Carry(point, point if averaged else None), repetitions)
    stops = (
        source.integers(1, shape.per_run + 1, (repetitions,))
        if optimizer.output == "uniform"
        else None
    )
    epoch: Any = None
    for part in shape.parts(rows):
        if part.offset == 0:
            size = (repetitions, m.noise_size)
            z = source.normals(size) if run.full_numbers.sigma > 0 else np.zeros(size)
            anchors = carries.state
            full = _loop.full_query_repetitions(
                rules, asking, chunk, anchors, prepared, z, run.full_numbers
            )
            epoch = _loop.Epoch(anchors, full)
        size = (repetitions, part.size, m.noise_size)
        z = _by_repetition(
            source.normals(size) if split.scale > 0 else np.zeros(size),
            repetitions,
            part.size,
            rows,
        )
        indices = _by_repetition(
            subsets(source, n, shape.b, repetitions * part.size), repetitions, part.size, rows
        )
        block = _loop.Block(
            z, _loop.padded(run.rates[part.step : part.step + part.size], rows), indices, None
        )
        last = part.restart == shape.restarts - 1
        ends = part.size if stops is None or not last else np.clip(stops - part.done, 0, part.size)
        carries = _loop.run_inner_repetitions(
            rules,
            kernel,
            shape.anchored,
            carries,
            epoch,
            records,
            block,
            ends,
            part.offset,
            float(part.done),
            run.inner_numbers,
        )
        carries = carries._replace(state=_tidied(kernel, carries.state))
    return (carries.mean if averaged else carries.state), guarantee


@functools.partial(jax.jit, static_argnums=0)
def _tidied(kernel: Any, states: Any) -> Any:
    """What `private_minimize` does between blocks of steps."""
    m = kernel.manifold
    if not isinstance(m, Grassmann | Stiefel | Product):
        return states
    return jax.vmap(lambda state: kernel.start(tidy_between_blocks(m, kernel.point(state))))(states)


def _spread(tree: Any, repetitions: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (repetitions, *jnp.shape(x))), tree)


def _rows(steps: int, repetitions: int, width: int) -> int:
    return max(1, min(steps, _ENTRIES // (repetitions * width)))


def _chunk_for(records: Any, repetitions: int) -> int:
    return _chunk(jax.tree.leaves(records), max(1 << 14, (1 << 21) // repetitions))


def _by_repetition(array: Any, repetitions: int, count: int, rows: int) -> Any:
    """(repetitions, rows, ...) from what was drawn for `count` steps of each, padded."""
    if array is None:
        return None
    array = array.reshape(repetitions, count, -1)
    if count == rows:
        return array
    out = np.zeros((repetitions, rows, array.shape[-1]), dtype=array.dtype)
    out[:, :count] = array
    return out
