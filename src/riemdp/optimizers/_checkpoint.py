"""Checkpoint of a long run: what was released, and how far noise has been drawn. Never the noise, a key or a seed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, invalid
from ..randomness import NoiseSource, noise_source


class Checkpoint:
    """A file with the last released iterate, the steps taken, and the steps whose noise has been DRAWN.

    The drawn count is written before a block's noise is drawn. After a crash, steps that were drawn but not saved are lost:
    they count as used, are not taken again, and the run goes on with fresh noise for the rest. So no noise is used twice
    and the guarantee is that of the planned number of steps, whatever happened.
    """

    def __init__(self, path: Any, problem: Any, optimizer: Any, plan: Any, initial: Any):
        if not isinstance(path, str | os.PathLike):
            raise invalid("checkpoint", path, "give the path of a file")
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise invalid("checkpoint", str(path), "its folder does not exist; make it first")
        rates = hashlib.sha256(np.ascontiguousarray(plan.rates).tobytes()).hexdigest()
        start = hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(initial))).hexdigest()
        facts = (
            repr(problem.manifold), type(optimizer).__name__, plan.n, plan.steps, plan.batch_size, plan.sampling, plan.sigma,
            plan.clip, optimizer.output, optimizer.update, optimizer.sensitivity, rates, start,
        )  # fmt: skip
        self.fingerprint = hashlib.sha256(repr(facts).encode()).hexdigest()
        self.resumed = 0
        self._last: tuple[int, int, Any, Any] | None = None

    def resume(self, point: Any, mean: Any) -> tuple[int, int, Any, Any, int]:
        """(drawn, taken, point, running mean, how often the run was resumed) from the file, or a fresh start."""
        self._last = (0, 0, point, mean)
        if not self.path.exists():
            return 0, 0, point, mean, 0
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                if str(saved["fingerprint"]) != self.fingerprint:
                    raise InvalidArgument(
                        "argument `checkpoint` belongs to a run with other settings (problem, optimiser, budget, number of "
                        "records or initial point); give another path, or delete the file"
                    )
                drawn, taken, resumed = int(saved["drawn"]), int(saved["taken"]), int(saved["resumed"]) + 1
                point = _restore(saved, "point", point)
                mean = None if mean is None else _restore(saved, "mean", mean)
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("argument `checkpoint` is not a readable checkpoint; delete the file") from error
        self.resumed = resumed
        self._last = (drawn, taken, point, mean)
        self._write(*self._last)
        return drawn, taken, point, mean, resumed

    def intend(self, drawn: int) -> None:
        """Record that noise up to step `drawn` is about to be drawn; what was saved before stays the resuming point."""
        assert self._last is not None
        _, taken, point, mean = self._last
        self._write(drawn, taken, point, mean)

    def save(self, drawn: int, taken: int, point: Any, mean: Any) -> None:
        """Record a released iterate."""
        self._last = (drawn, taken, point, mean)
        self._write(drawn, taken, point, mean)

    def remove(self) -> None:
        """The run is complete: the file has served its purpose."""
        self.path.unlink(missing_ok=True)

    def _write(self, drawn: int, taken: int, point: Any, mean: Any) -> None:
        arrays: dict[str, Any] = {
            "fingerprint": np.array(self.fingerprint), "drawn": drawn, "taken": taken, "resumed": self.resumed,
        }  # fmt: skip
        for name, tree in (("point", point), ("mean", mean)):
            for i, leaf in enumerate(jax.tree.leaves(tree)):
                arrays[f"{name}{i}"] = np.asarray(leaf)
        # Written aside and moved into place: a crash leaves the old file or the new one, never half of one.
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _restore(saved: Any, name: str, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [jnp.asarray(saved[f"{name}{i}"]) for i in range(len(leaves))])


def seed_after(rng: Any, source: NoiseSource, resumed: int) -> NoiseSource:
    """The noise of a resumed run: fresh from the operating system, or for a seeded simulation another stream of that seed."""
    if resumed == 0 or not source.reproducible:
        return source
    if isinstance(rng, NoiseSource):
        raise invalid("rng", rng, "a seeded NoiseSource would repeat the noise of the lost run; give None or an integer")
    digest = hashlib.sha256(f"resumed {resumed} of seed {rng}".encode()).digest()
    return noise_source(int.from_bytes(digest[:16], "big"))
