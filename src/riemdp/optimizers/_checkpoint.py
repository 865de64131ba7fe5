"""Checkpoint of a long run: what was released, and how far noise has been drawn. Never the noise, a
key or a seed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid
from .._files import check_is_file, staged
from ..manifolds._base import Point
from ..privacy import Ledger
from ..problems._problem import Problem
from ..randomness import NoiseSource, noise_source
from ._account import Account


class Checkpoint:
    """A file with the last released state of a run, and the count of queries whose noise has been
    DRAWN.

    The drawn count is written before a block's noise is drawn. After a crash, steps that were drawn
    but not saved are lost: they count as used, are not taken again, and the run goes on with fresh
    noise for the rest. So no noise is used twice and the guarantee is that of the planned number of
    steps, whatever happened.

    `facts` are the public settings of the run; a file of a run with other settings is refused. The
    state is a dictionary of integers and of pytrees of arrays, all of them functions of what was
    released. `charge` is the random id of the run's charges, by which a ledger knows them.
    """

    def __init__(
        self, path: object, facts: tuple[Any, ...], rates: np.ndarray, initial: Point, charge: str
    ):
        if not isinstance(path, str | os.PathLike):
            raise invalid("checkpoint", path, "give the path of a file")
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise invalid("checkpoint", str(path), "its folder does not exist; make it first")
        check_is_file(self.path)
        digests = (
            _digest(rates),
            _digest(initial),
        )
        self.fingerprint = hashlib.sha256(repr((*facts, *digests)).encode()).hexdigest()
        self.charge, self.resumed = charge, 0
        self._state: dict[str, Any] = {}

    def resume(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state in the file, or `state` (a fresh start) where there is none. `resumed` counts
        how often that happened.
        """
        self._state = dict(state)
        if not self.path.exists():
            return self._state
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                if str(saved["fingerprint"]) != self.fingerprint:
                    raise InvalidArgument(
                        "argument `checkpoint` belongs to a run with other settings (problem,"
                        " optimiser, budget, number of records or initial point); give another"
                        " path, or delete the file"
                    )
                self.charge, self.resumed = str(saved["charge"]), int(saved["resumed"]) + 1
                self._state = {name: _restored(saved, name, like) for name, like in state.items()}
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                "argument `checkpoint` is not a readable checkpoint; delete the file"
            ) from error
        self._write(self._state)
        return dict(self._state)

    def goes_on(self, account: Account) -> bool:
        """Let an account go on with the run's charges. False where its ledger, or its part of one,
        has not taken them: what follows is then known by the account's own.
        """
        if isinstance(account.ledger, Ledger) and not account.ledger.holds(self.charge):
            self.charge = account.id
            return False
        account.id = self.charge
        return True

    def intend(self, **drawn: int) -> None:
        """Record that noise up to these counts is about to be drawn; what was saved before stays
        the resuming point.
        """
        self._state.update(drawn)
        self._write(self._state)

    def save(self, **state: PyTree[ArrayLike]) -> None:
        """Record what has been released since."""
        self._state.update(state)
        self._write(self._state)

    def remove(self) -> None:
        """The run is complete: the file has served its purpose."""
        self.path.unlink(missing_ok=True)

    def _write(self, state: dict[str, Any]) -> None:
        arrays: dict[str, Any] = {
            "fingerprint": np.array(self.fingerprint),
            "charge": np.array(self.charge),
            "resumed": self.resumed,
        }
        for name, tree in state.items():
            if isinstance(tree, int):
                arrays[name] = tree
            else:
                arrays.update(
                    {
                        f"{name}.{i}": np.asarray(leaf)
                        for i, leaf in enumerate(jax.tree.leaves(tree))
                    }
                )
        with staged(self.path, mode=0o600) as (part,), part.open("wb") as file:
            np.savez(file, **arrays)


def identity(problem: Problem) -> tuple[Any, ...]:
    """What a checkpoint knows a problem by: its space, functions, public constants and ball."""
    ball = problem.ball
    public = tuple(
        getattr(problem, f.name)
        for f in fields(problem)
        if f.name not in ("manifold", "loss", "gradient", "ball")
    )
    where = None if ball is None else (_digest(ball.center), ball.radius)
    return repr(problem.manifold), _named(problem.loss), _named(problem.gradient), public, where


def _named(function: Callable[..., object] | None) -> str:
    """A function by its code, so that the name is the same in the next process."""
    code = getattr(function, "__code__", None)
    if function is None or code is None:
        return f"{type(function).__module__}.{type(function).__qualname__}"
    digest = hashlib.sha256(code.co_code).hexdigest()
    return f"{function.__module__}.{function.__qualname__} {digest}"


def _digest(tree: PyTree[ArrayLike]) -> str:
    leaves = (np.ascontiguousarray(np.asarray(x)).tobytes() for x in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(leaves)).hexdigest()


def _restored(saved: Mapping[str, np.ndarray], name: str, like: PyTree[ArrayLike]) -> Any:
    if isinstance(like, int):
        return int(saved[name])
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(
        structure, [jnp.asarray(saved[f"{name}.{i}"]) for i in range(len(leaves))]
    )


def seed_after(rng: int | NoiseSource | None, source: NoiseSource, resumed: int) -> NoiseSource:
    """The noise of a resumed run: fresh from the operating system, or for a seeded simulation
    another stream of that seed.
    """
    if resumed == 0 or not source.reproducible:
        return source
    if isinstance(rng, NoiseSource):
        raise invalid(
            "rng",
            rng,
            "a seeded NoiseSource would repeat the noise of the lost run; give None or an integer",
        )
    digest = hashlib.sha256(f"resumed {resumed} of seed {rng}".encode()).digest()
    return noise_source(int.from_bytes(digest[:16], "big"))
