"""Draws of noise a second, beside other libraries' samplers and NumPy's.

    python -m bench.bench_samplers

Ours draws from ChaCha20 with a fresh key. OpenDP's samplers are exact as well and take and return
lists; jax-privacy's noise is a float32 normal number of a seeded generator. NumPy's rounded normal
numbers are the floor: PCG64, no distribution that is exact, no secret key.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import opendp.prelude as opendp
from jax_privacy import noise_addition

from riemdp.randomness import noise_source

from ._timing import Row, compared, write_table

OURS, LIST, FEW = 1_000_000, 50_000, 1000  # draws of a call
SCALE = 2.0**33  # of a lattice release, in steps of the grid
KINDS = (("integers", SCALE), ("laplace", SCALE), ("floats", 1.0))
opendp.enable_features("contrib")


def of_opendp(kind: str, scale: float) -> Callable[[], Any]:
    """A vector of zeros with noise."""
    integers = kind != "floats"
    atoms = opendp.atom_domain(T=int) if integers else opendp.atom_domain(T=float, nan=False)
    space = opendp.vector_domain(atoms, size=LIST)
    if kind == "laplace":
        measurement = opendp.m.make_laplace(space, opendp.l1_distance(T=int), scale=scale)
    else:
        distance = opendp.l2_distance(T=int if integers else float)
        measurement = opendp.m.make_gaussian(space, distance, scale=scale)
    zeros = [0 if integers else 0.0] * LIST
    return lambda: measurement(zeros)


def of_jax_privacy() -> Callable[[], Any]:
    privatizer = noise_addition.gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(1))
    zeros = jnp.zeros(OURS, jnp.float32)
    state = privatizer.init(zeros)
    step = jax.jit(privatizer.update)
    return lambda: jax.block_until_ready(step(zeros, state)[0])


def rows() -> list[Row]:
    source, floor = noise_source(None), np.random.default_rng(0)

    def rounded() -> Any:
        return source.rounded_normals(SCALE, OURS)

    def discrete() -> Any:
        return source.discrete_gaussians(SCALE, OURS)

    def one_by_one() -> Any:
        return [source.laplace_integer(int(SCALE)) for _ in range(FEW)]

    def normals() -> Any:
        return source.normals((OURS,))

    def by_hand() -> Any:
        return np.rint(SCALE * floor.standard_normal(OURS))

    peer, jax_privacy = (f"{name} {version(name)}" for name in ("opendp", "jax-privacy"))
    integers, laplace, floats = (of_opendp(*kind) for kind in KINDS)
    found = []
    for work, ours, count, beside, theirs, drawn in (
        ("rounded Gaussian integers", rounded, OURS, "NumPy, rounded", by_hand, OURS),
        ("rounded Gaussian integers", rounded, OURS, peer, integers, LIST),
        ("rounded Gaussian integers", rounded, OURS, jax_privacy, of_jax_privacy(), OURS),
        ("discrete Gaussian integers", discrete, OURS, peer, integers, LIST),
        ("discrete Laplace integers, one a call", one_by_one, FEW, peer, laplace, LIST),
        ("float64 normal numbers", normals, OURS, f"{peer}, float64", floats, LIST),
        ("float64 normal numbers", normals, OURS, jax_privacy, of_jax_privacy(), OURS),
    ):
        counts = {"ours_count": count / OURS, "theirs_count": drawn / OURS}
        given = {"repeats": 9, "budget": 20.0, **counts}
        found.append(compared(f"1e6 {work}", beside, ours, theirs, **given))
    return found


def main() -> None:
    notes = (
        "Milliseconds for a million draws; OpenDP's are scaled up from 50 000.",
        "OpenDP takes and returns Python lists, which is part of its time.",
        "jax-privacy's numbers are float32, of a generator that need not be secret.",
    )
    print(write_table("samplers", "Draws of noise beside other samplers", rows(), notes))


if __name__ == "__main__":
    main()
