"""The compiled loops: many private steps in one call, each = clip every record, sum, divide, add noise, move.

Everything random comes in from the host, block by block: standard normals (rows, noise_size) and batch indices. The loops
draw nothing themselves. Trip counts are traced, so one compilation serves every number of steps of a shape.
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

TRACES: Counter[str] = Counter()  # how often each loop was traced; tests assert one compilation per shape


def clip_factors(norms: Any, clip: Any) -> Any:
    """min(1, clip / norm) for each record, and 0 where the norm is not finite (NaN and inf gradients count as zero)."""
    shrunk = jnp.where(norms > clip, clip / jnp.where(norms > 0.0, norms, 1.0), 1.0)
    return jnp.where(jnp.isfinite(norms), shrunk, 0.0)


def clipped_sum(kernel: Any, state: Any, batch: Any, mask: Any, clip: Any, factors: Callable[..., Any] = clip_factors) -> Any:
    """Sum over the batch of per-record gradients, each clipped in the Riemannian norm BEFORE it is added."""
    norms, parts = kernel.gradients(state, batch)
    return kernel.combine(state, parts, factors(norms, clip) * mask)


def noisy_mean(kernel: Any, state: Any, total: Any, denominator: Any, sigma: Any, z: Any) -> Any:
    """total / denominator + sigma N: the denominator is public (n, or the expected batch size), never the realised one."""
    return jax.tree.map(lambda g, e: g / denominator + sigma * e, total, kernel.noise(state, z))


class Rules(NamedTuple):
    """The three steps that privacy rests on. Static arguments of the loops, so that a test can plant a fault in one."""

    clipped_sum: Callable[..., Any] = clipped_sum
    clip_factors: Callable[..., Any] = clip_factors
    noisy_mean: Callable[..., Any] = noisy_mean


RULES = Rules()


class Confinement(NamedTuple):
    """A ball into which every iterate is moved back (where the domain sensitivity holds only inside it)."""

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
        fresh = (start + jnp.arange(chunk) >= i * chunk).astype(jnp.float64)  # the last chunk overlaps the one before
        return jax.tree.map(jnp.add, total, rules.clipped_sum(kernel, state, part, fresh, clip, rules.clip_factors))

    first = jax.tree.map(lambda x: x[:chunk], data)
    shapes = jax.eval_shape(lambda d: rules.clipped_sum(kernel, state, d, jnp.ones(chunk), clip, rules.clip_factors), first)
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


def _next(kernel: Any, state: Any, direction: Any, rate: Any, ball: Confinement | None) -> Any:
    """The step itself: post-processing of what has been released. A step that overflows is skipped."""
    moved = kernel.move(state, jax.tree.map(lambda v: -rate * v, direction))
    if ball is not None:
        moved = kernel.start(_confine(kernel.manifold, ball, kernel.point(moved)))
    fine = _finite(moved)
    return jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, state)


def _averaged(kernel: Any, mean: Any, state: Any, count: Any) -> Any:
    """Streaming geodesic average of the released iterates: mean <- exp_mean(log_mean(w) / count)."""
    m = kernel.manifold
    step = jax.tree.map(lambda v: v / count, m._log(mean, kernel.point(state)))
    moved = tidy(m, m._exp(mean, step))
    fine = _finite(moved)
    return jax.tree.map(lambda new, old: jnp.where(fine, new, old), moved, mean)


class Block(NamedTuple):
    """Host-drawn randomness and public numbers of a block of steps; row i belongs to step first_step + i."""

    normals: Any  # (rows, noise_size)
    rates: Any  # (rows,)
    indices: Any  # (rows, b) or None for all records
    mask: Any  # (rows, b) or None where every index counts


def _steps(rules, kernel, average, chunk, state, mean, data, block: Block, begin, end, done, sigma, clip, denominator, ball):
    def body(i, carry):
        state, mean = carry
        if block.indices is None:
            total = full_sum(rules, kernel, state, data, clip, chunk)
        else:
            batch = jax.tree.map(lambda x: x[block.indices[i]], data)
            mask = jnp.ones(block.indices.shape[1]) if block.mask is None else block.mask[i]
            total = rules.clipped_sum(kernel, state, batch, mask, clip, rules.clip_factors)
        direction = rules.noisy_mean(kernel, state, total, denominator, sigma, block.normals[i])
        state = _next(kernel, state, direction, block.rates[i], ball)
        if average:
            mean = _averaged(kernel, mean, state, done + (i - begin) + 1.0)
        return state, mean

    return jax.lax.fori_loop(begin, end, body, (state, mean))


@partial(jax.jit, static_argnums=0)
def start(kernel: Any, point: Any, data: Any) -> tuple[Any, Any]:
    """The kernel's state at a point, and the data as the kernel wants them."""
    return kernel.start(point), kernel.prepare(data)


@partial(jax.jit, static_argnums=0)
def current_point(kernel: Any, state: Any) -> Any:
    """The point that a state stands for."""
    return kernel.point(state)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def run_steps(rules, kernel, average, chunk, state, mean, data, block, begin, end, done, sigma, clip, denominator, ball):
    """Steps begin..end-1 of a block. `done` counts the steps before them (for the average). Returns (state, mean)."""
    TRACES["steps"] += 1
    return _steps(rules, kernel, average, chunk, state, mean, data, block, begin, end, done, sigma, clip, denominator, ball)


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_repetitions(rules, kernel, chunk, state, data, block, steps, sigma, clip, denominator, ball):
    """Many independent runs from one state at once, for audits: block arrays have a leading repetition axis."""
    TRACES["repetitions"] += 1

    def one(normals, indices, mask):
        mine = Block(normals, block.rates, indices, mask)
        final, _ = _steps(
            rules, kernel, False, chunk, state, None, data, mine, 0, steps, 0.0, sigma, clip, denominator, ball
        )
        return kernel.point(final)

    axes = (0, None if block.indices is None else 0, None if block.mask is None else 0)
    return jax.vmap(one, in_axes=axes)(block.normals, block.indices, block.mask)


# ------------------------------------------------------------------------------- variance-reduced steps (DP-RSVRG)
@partial(jax.jit, static_argnums=(0, 1, 2))
def full_query(rules, kernel, chunk, point, data, z, sigma, clip, denominator):
    """Clipped, averaged, noised gradient over all records at `point`, as a tangent vector (the anchor's query)."""
    TRACES["full_query"] += 1
    state = kernel.start(point)
    total = full_sum(rules, kernel, state, data, clip, chunk)
    return rules.noisy_mean(kernel, state, total, denominator, sigma, z)


def _differences(rules, kernel, point, anchor, batch, clip, mend: bool):
    """Sum over the batch of clipped (grad f(w) - PT grad f(anchor)), or of the difference of clipped gradients."""
    m = kernel.manifold
    norms, here = kernel.gradients(point, batch)
    anchor_norms, there = kernel.gradients(anchor, batch)
    carried = jax.vmap(m._transport, (None, None, 0))(anchor, point, there)
    if mend:  # clip the difference
        parts = jax.tree.map(jnp.subtract, here, carried)
        lengths = jax.vmap(m._norm, (None, 0))(point, parts)
        bad = ~(jnp.isfinite(norms) & jnp.isfinite(anchor_norms))
        return kernel.combine(point, parts, rules.clip_factors(jnp.where(bad, jnp.nan, lengths), clip))
    ours = kernel.combine(point, here, rules.clip_factors(norms, clip))
    theirs = kernel.combine(point, carried, rules.clip_factors(anchor_norms, clip))
    return jax.tree.map(jnp.subtract, ours, theirs)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def run_inner_steps(rules, kernel, anchored, average, point, mean, anchor, full, data, block, begin, end, offset, done, scale,
                    clip, smoothness):  # fmt: skip
    """Rows begin..end-1 of a block of one epoch; row i is the epoch's inner step offset + i.

    Anchored: c_t = min(2 C1, smoothness * d(w_t, anchor)) is public (post-processing), noise is scale * c_t with
    scale = z2 * 2 / b; at step 0, where w_t = anchor, nothing is asked and nothing is added. `full` is already noisy.
    As published: noise is `scale` at every step, and `full` is the exact gradient, protected by that same noise.
    """
    TRACES["inner_steps"] += 1
    m = kernel.manifold

    def body(i, carry):
        point, mean = carry
        batch = jax.tree.map(lambda x: x[block.indices[i]], data)
        b = block.indices.shape[1]
        if anchored:
            bound = jnp.minimum(2.0 * clip, smoothness * m._dist(point, anchor))
            bound = jnp.where(jnp.isfinite(bound), bound, 2.0 * clip)
            # Step 0 is at the anchor: exactly nothing is asked there, and nothing is charged for it.
            bound = jnp.where(offset + i == 0, 0.0, bound)
            sigma = scale * bound
        else:
            bound, sigma = clip, scale
        total = _differences(rules, kernel, point, anchor, batch, bound, anchored)
        noisy = rules.noisy_mean(kernel, point, total, float(b), sigma, block.normals[i])
        direction = jax.tree.map(jnp.add, noisy, m._transport(anchor, point, full))
        point = _next(kernel, point, direction, block.rates[i], None)
        if average:
            mean = _averaged(kernel, mean, point, done + (i - begin) + 1.0)
        return point, mean

    return jax.lax.fori_loop(begin, end, body, (point, mean))


def capacity(steps: int, width: int, entries: int = 1 << 20) -> int:
    """Rows of a block of randomness: at most `entries` numbers, rounded so that few shapes occur (4, 16, 64, ...)."""
    most = max(1, entries // max(1, width))
    rows = 4
    while rows < min(steps, most):
        rows *= 4
    return int(max(1, min(rows, most)))


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """`array` with zero rows appended up to `rows`: blocks keep one shape, so the loop keeps one compilation."""
    if array.shape[0] == rows:
        return array
    out = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    out[: array.shape[0]] = array
    return out
