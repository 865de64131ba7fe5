"""The compiled loops: many private steps in one call, each = clip every record, sum, divide, add
noise, move.

Everything random comes in from the host, block by block: standard normals (rows, noise_size) and
batch indices. The loops draw nothing themselves. Trip counts are traced, so one compilation serves
every number of steps of a shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._kernels import tidy

TRACES: Counter[str] = (
    Counter()
)  # how often each loop was traced; tests assert one compilation per shape


def clip_factors(norms: Any, clip: Any) -> Any:
    """min(1, clip / norm) for each record, and 0 where the norm is not finite (NaN and inf
    gradients count as zero).
    """
    shrunk = jnp.where(norms > clip, clip / jnp.where(norms > 0.0, norms, 1.0), 1.0)
    return jnp.where(jnp.isfinite(norms), shrunk, 0.0)


def clipped_sum(
    kernel: Any,
    state: Any,
    batch: Any,
    mask: Any,
    clip: Any,
    factors: Callable[..., Any] = clip_factors,
) -> Any:
    """Sum over the batch of per-record gradients, each clipped in the Riemannian norm BEFORE it is
    added.
    """
    norms, parts = kernel.gradients(state, batch)
    return kernel.combine(state, parts, factors(norms, clip) * mask)


def noisy_mean(kernel: Any, state: Any, total: Any, denominator: Any, sigma: Any, z: Any) -> Any:
    """total / denominator + sigma N: the denominator is public (n, or the expected batch size),
    never the realised one.

    The total is projected once more: what rounding left of normal parts in the first projection has
    the size of the clip norm times 1e-16 by now.
    """
    total = kernel.projected(state, total)
    return jax.tree.map(lambda g, e: g / denominator + sigma * e, total, kernel.noise(state, z))


def clipped_differences(rules, kernel, point, anchor, batch, clip, mend: bool, about: Any = None):
    """Sum over the batch of clipped (grad f(w) - PT grad f(anchor) - about), or of the difference
    of clipped gradients.

    `about` is public, so replacing a record moves the sum by at most 2 clip with or without it. A
    record whose gradient is not finite counts as one whose difference is `about`.
    """
    m = kernel.manifold
    norms, here = kernel.gradients(point, batch)
    anchor_norms, there = kernel.gradients(anchor, batch)
    carried = jax.vmap(m._transport, (None, None, 0))(anchor, point, there)
    if mend:  # clip the difference
        parts = jax.tree.map(jnp.subtract, here, carried)
        if about is not None:
            parts = jax.tree.map(jnp.subtract, parts, about)
        parts = jax.vmap(m._to_tangent, (None, 0))(point, parts)
        lengths = jax.vmap(m._norm, (None, 0))(point, parts)
        bad = ~(jnp.isfinite(norms) & jnp.isfinite(anchor_norms))
        return kernel.combine(
            point, parts, rules.clip_factors(jnp.where(bad, jnp.nan, lengths), clip)
        )
    ours = kernel.combine(point, here, rules.clip_factors(norms, clip))
    theirs = kernel.combine(point, carried, rules.clip_factors(anchor_norms, clip))
    return jax.tree.map(jnp.subtract, ours, theirs)


class Rules(NamedTuple):
    """The steps that privacy rests on. Static arguments of the loops, so that a test can plant a
    fault in one.
    """

    clipped_sum: Callable[..., Any] = clipped_sum
    clip_factors: Callable[..., Any] = clip_factors
    noisy_mean: Callable[..., Any] = noisy_mean
    differences: Callable[..., Any] = clipped_differences


RULES = Rules()


class Confinement(NamedTuple):
    """A ball into which every iterate is moved back (where the domain sensitivity holds only inside
    it).
    """

    center: Any
    radius: Any


def full_sum(rules: Rules, kernel: Any, state: Any, data: Any, clip: Any, chunk: int) -> Any:
    """The clipped sum over all records, `chunk` at a time, so that memory does not grow with n."""
    n = jax.tree.leaves(data)[0].shape[0]
    if chunk >= n:
        return rules.clipped_sum(kernel, state, data, jnp.ones(n), clip, rules.clip_factors)

    def body(i, total):
        start = jnp.minimum(i * chunk, n - chunk)
        part = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), data)
        fresh = (start + jnp.arange(chunk) >= i * chunk).astype(
            jnp.float64
        )  # the last chunk overlaps the one before
        return jax.tree.map(
            jnp.add, total, rules.clipped_sum(kernel, state, part, fresh, clip, rules.clip_factors)
        )

    first = jax.tree.map(lambda x: x[:chunk], data)
    shapes = jax.eval_shape(
        lambda d: rules.clipped_sum(kernel, state, d, jnp.ones(chunk), clip, rules.clip_factors),
        first,
    )
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, -(-n // chunk), body, zero)


def _finite(tree: Any) -> Any:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def _confine(manifold: Any, ball: Confinement, point: Any) -> Any:
    away = manifold._log(ball.center, point)
    length = manifold._norm(ball.center, away)
    factor = jnp.minimum(1.0, ball.radius / jnp.where(length > 0.0, length, 1.0))
    inside = manifold._exp(ball.center, jax.tree.map(lambda v: factor * v, away))
    # Where log is not finite (the cut locus of the centre), the centre itself.
    return jax.tree.map(lambda x, c: jnp.where(_finite(inside), x, c), inside, ball.center)


@partial(jax.jit, static_argnums=0)
def moved_inside(manifold: Any, ball: Confinement, point: Any) -> Any:
    """A public point moved into the ball, before the first gradient is taken there."""
    return tidy(manifold, _confine(manifold, ball, point))


def _next(
    kernel: Any, state: Any, direction: Any, rate: Any, ball: Confinement | None = None
) -> tuple[Any, Any]:
    """The step itself, and whether it was taken: post-processing of what has been released. One
    that overflows is skipped.
    """
    moved = kernel.move(state, jax.tree.map(lambda v: -rate * v, direction))
    if ball is not None:
        moved = kernel.start(_confine(kernel.manifold, ball, kernel.point(moved)))
    fine = _finite(moved)
    return jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, state), fine


def _averaged(kernel: Any, mean: Any, state: Any, count: Any) -> Any:
    """Streaming geodesic average of released iterates: mean <- exp_mean(log_mean(w) / count)."""
    m = kernel.manifold
    step = jax.tree.map(lambda v: v / count, m._log(mean, kernel.point(state)))
    moved = tidy(m, m._exp(mean, step))
    fine = _finite(moved)
    return jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, mean)


class Block(NamedTuple):
    """Host-drawn randomness and public numbers of a block of steps; row i belongs to step
    first_step + i.
    """

    normals: Any  # (rows, noise_size)
    rates: Any  # (rows,)
    indices: Any  # (rows, b) or None for all records
    mask: Any  # (rows, b) or None where every index counts


REPETITIONS = Block(normals=0, rates=None, indices=0, mask=0)  # type: ignore[arg-type]  # axes of the repetitions in a block


class Carry(NamedTuple):
    """What one step hands to the next. All of it is a function of what has been released, so none
    of it costs anything.
    """

    state: Any
    mean: Any = None  # running geodesic average of the iterates, where asked for
    velocity: Any = None  # decayed sum of the released directions, where there is momentum
    skipped: Any = np.zeros((), np.int64)  # steps that overflowed and were not taken


class Numbers(NamedTuple):
    """Public numbers of a run, the same at every step."""

    sigma: Any
    clip: Any
    denominator: Any
    decay: Any = 0.0


def _steps(
    rules, kernel, chunk, carry: Carry, data, block: Block, begin, end, done, numbers: Numbers, ball
):
    def body(i, carry):
        state = carry.state
        if block.indices is None:
            total = full_sum(rules, kernel, state, data, numbers.clip, chunk)
        else:
            batch = jax.tree.map(lambda x: x[block.indices[i]], data)
            mask = jnp.ones(block.indices.shape[1]) if block.mask is None else block.mask[i]
            total = rules.clipped_sum(kernel, state, batch, mask, numbers.clip, rules.clip_factors)
        direction = rules.noisy_mean(
            kernel, state, total, numbers.denominator, numbers.sigma, block.normals[i]
        )
        velocity = carry.velocity
        if velocity is not None:
            # Heavy ball on what is already noisy: post-processing. The velocity is carried along
            # with the iterate.
            direction = jax.tree.map(lambda v, g: numbers.decay * v + g, velocity, direction)
        moved, fine = _next(kernel, state, direction, block.rates[i], ball)
        if velocity is not None:
            carried = kernel.carry(state, moved, direction)
            velocity = jax.tree.map(lambda v: jnp.where(_finite(carried), v, 0.0), carried)
        mean = (
            None
            if carry.mean is None
            else _averaged(kernel, carry.mean, moved, done + (i - begin) + 1.0)
        )
        return Carry(moved, mean, velocity, carry.skipped + jnp.where(fine, 0, 1))

    return jax.lax.fori_loop(begin, end, body, carry)


def start(kernel: Any, point: Any, data: Any) -> tuple[Any, Any]:
    """The kernel's state at a point, and the data as the kernel wants them (where that is as they
    are, they are not copied).
    """
    return state_at(kernel, point), (
        data if kernel.takes_data_as_they_are else _prepared(kernel, data)
    )


@partial(jax.jit, static_argnums=0)
def state_at(kernel: Any, point: Any) -> Any:
    """The kernel's state at a point."""
    return kernel.start(point)


@partial(jax.jit, static_argnums=0)
def _prepared(kernel: Any, data: Any) -> Any:
    return kernel.prepare(data)


@partial(jax.jit, static_argnums=0)
def rest(kernel: Any, state: Any) -> Any:
    """The velocity of a run that has not moved: the zero of the kernel's frame."""
    return jax.tree.map(jnp.zeros_like, kernel.noise(state, jnp.zeros(kernel.manifold.noise_size)))


@partial(jax.jit, static_argnums=0)
def current_point(kernel: Any, state: Any) -> Any:
    """The point that a state stands for."""
    return kernel.point(state)


@partial(jax.jit, static_argnums=0)
def current_points(kernel: Any, states: Any) -> Any:
    """The points that a batch of states stands for."""
    return jax.vmap(kernel.point)(states)


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_steps(rules, kernel, chunk, carry, data, block, begin, end, done, numbers, ball):
    """Steps begin..end-1 of a block. `done` counts the steps before them (for the average). Returns
    the new `Carry`.
    """
    TRACES["steps"] += 1
    return _steps(rules, kernel, chunk, carry, data, block, begin, end, done, numbers, ball)


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_repetitions(rules, kernel, chunk, carries, data, block, ends, done, numbers, ball):
    """The first `ends` steps of a block for many independent runs at once: the same steps,
    vectorised over a leading axis of `carries`, of the block's randomness and of `ends` where that
    is an array (runs that stop at steps of their own).
    """
    TRACES["repetitions"] += 1

    def one(carry, mine, end):
        return _steps(rules, kernel, chunk, carry, data, mine, 0, end, done, numbers, ball)

    return jax.vmap(one, in_axes=(0, _block_axes(block), 0 if jnp.ndim(ends) else None))(
        carries, block, ends
    )


def _block_axes(block: Block) -> Any:
    return Block(
        *(None if value is None else axis for value, axis in zip(block, REPETITIONS, strict=True))
    )


# ------------------------------------------------------------------------------- variance-reduced
# steps (DP-RSVRG)
def _full_query(rules, kernel, chunk, point, data, z, numbers: Numbers):
    state = kernel.start(point)
    total = full_sum(rules, kernel, state, data, numbers.clip, chunk)
    return kernel.tangent(
        state, rules.noisy_mean(kernel, state, total, numbers.denominator, numbers.sigma, z)
    )


@partial(jax.jit, static_argnums=(0, 1, 2))
def full_query(rules, kernel, chunk, point, data, z, numbers):
    """Clipped, averaged, noised gradient over all records at `point`, as a tangent vector (the
    anchor's query).
    """
    TRACES["full_query"] += 1
    return _full_query(rules, kernel, chunk, point, data, z, numbers)


@partial(jax.jit, static_argnums=(0, 1, 2))
def full_query_repetitions(rules, kernel, chunk, points, data, normals, numbers):
    """The anchor's query of many independent runs at once."""
    TRACES["full_query_repetitions"] += 1
    return jax.vmap(lambda w, z: _full_query(rules, kernel, chunk, w, data, z, numbers))(
        points, normals
    )


class Epoch(NamedTuple):
    """Where the inner steps of an epoch start from: the anchor, and the full gradient there (noisy
    in the anchored variant).
    """

    anchor: Any
    full: Any


class InnerNumbers(NamedTuple):
    """Public numbers of the inner steps."""

    scale: Any  # anchored: sigma / c_t; as published: sigma
    clip: Any
    spread: Any  # anchored: (L - mu) / 2, half of what the Hessians of records may differ by
    middle: Any = None  # anchored: (mu + L) / 2, the middle of their range; None where it is 0


def _expected_difference(m: Any, point: Any, anchor: Any, middle: Any) -> tuple[Any, Any]:
    """The middle of where grad f(w) - PT grad f(anchor) can lie when every Hessian does in a range,
    and d(w, anchor).

    The difference is the mean Hessian along the geodesic applied to -log_w(anchor), so it is at
    most spread * d(w, anchor) away from -middle * log_w(anchor). A function of released points. 0
    where log is not finite; None where there is no middle.
    """
    if middle is None:
        return None, m._dist(point, anchor)
    toward = m._log(point, anchor)
    fine = _finite(toward)
    return jax.tree.map(lambda v: jnp.where(fine, -middle * v, 0.0), toward), m._norm(point, toward)


def _inner_steps(
    rules,
    kernel,
    anchored,
    carry: Carry,
    epoch: Epoch,
    data,
    block: Block,
    begin,
    end,
    offset,
    done,
    numbers: InnerNumbers,
):
    m = kernel.manifold

    def body(i, carry):
        point = carry.state
        batch = jax.tree.map(lambda x: x[block.indices[i]], data)
        b = block.indices.shape[1]
        if anchored:
            about, distance = _expected_difference(m, point, epoch.anchor, numbers.middle)
            # A distance that overflowed bounds nothing, except where the Hessians are all equal.
            reach = jnp.where(jnp.isfinite(distance), numbers.spread * distance, jnp.inf)
            reach = jnp.where(numbers.spread == 0.0, 0.0, reach)
            bound = jnp.minimum(2.0 * numbers.clip, reach)
            # Step 0 is at the anchor: exactly nothing is asked there, and nothing is charged for
            # it.
            bound = jnp.where(offset + i == 0, 0.0, bound)
            sigma = numbers.scale * bound
        else:
            bound, sigma, about = numbers.clip, numbers.scale, None
        total = rules.differences(rules, kernel, point, epoch.anchor, batch, bound, anchored, about)
        noisy = rules.noisy_mean(kernel, point, total, float(b), sigma, block.normals[i])
        direction = jax.tree.map(jnp.add, noisy, m._transport(epoch.anchor, point, epoch.full))
        if about is not None:
            direction = jax.tree.map(jnp.add, direction, about)
        point, fine = _next(kernel, point, direction, block.rates[i])
        mean = (
            None
            if carry.mean is None
            else _averaged(kernel, carry.mean, point, done + (i - begin) + 1.0)
        )
        return Carry(point, mean, skipped=carry.skipped + jnp.where(fine, 0, 1))

    return jax.lax.fori_loop(begin, end, body, carry)


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_inner_steps(
    rules, kernel, anchored, carry, epoch, data, block, begin, end, offset, done, numbers
):
    """Rows begin..end-1 of a block of one epoch; row i is the epoch's inner step offset + i.

    Anchored: c_t = min(2 C1, spread * d(w_t, anchor)) is public (post-processing), noise is scale *
    c_t with scale = z2 * 2 / b; at step 0, where w_t = anchor, nothing is asked and nothing is
    added. `epoch.full` is already noisy. As published: noise is `scale` at every step, and
    `epoch.full` is the exact gradient, protected by that same noise.
    """
    TRACES["inner_steps"] += 1
    return _inner_steps(
        rules, kernel, anchored, carry, epoch, data, block, begin, end, offset, done, numbers
    )


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_inner_repetitions(
    rules, kernel, anchored, carries, epochs, data, block, ends, offset, done, numbers
):
    """The first `ends` rows of a block of inner steps for many independent runs at once (see
    `run_repetitions`).
    """
    TRACES["inner_repetitions"] += 1

    def one(carry, epoch, mine, end):
        return _inner_steps(
            rules, kernel, anchored, carry, epoch, data, mine, 0, end, offset, done, numbers
        )

    axes = (0, 0, _block_axes(block), 0 if jnp.ndim(ends) else None)
    return jax.vmap(one, in_axes=axes)(carries, epochs, block, ends)


def capacity(steps: int, width: int, entries: int = 1 << 20) -> int:
    """Rows of a block of randomness: at most `entries` numbers, rounded so that few shapes occur
    (4, 16, 64, ...).
    """
    most = max(1, entries // max(1, width))
    rows = 4
    while rows < min(steps, most):
        rows *= 4
    return int(max(1, min(rows, most)))


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """`array` with zero rows appended up to `rows`: blocks keep one shape, so the loop keeps one
    compilation.
    """
    if array.shape[0] == rows:
        return array
    out = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    out[: array.shape[0]] = array
    return out
