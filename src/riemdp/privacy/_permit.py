"""`Permit`: what a charge has paid for, and how much of it the parts of a release have used up.

A release of several parts charges once and hands the permit down to them. There is no other way to
draw without a charge: no flag of a thread or of a process says that something is paid.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from .._errors import RiemdpError
from ._costliest import are_alike, covers
from ._guarantee import Guarantee
from .accounting.events import GaussianEvent, PureEvent

_ROUNDING = 1e-12  # relative: shares of a whole add up to it up to this


@dataclass(frozen=True)
class Receipt:
    """What a release knows of its charge.

    Attributes:
        id: A random name of the charge; of a run, that of all its charges.
        in_ledger: Whether a ledger took it. `Ledger.holds` says whether a particular one did.
    """

    id: str
    in_ledger: bool


def new_id() -> str:
    """A random name for a charge, made of nothing else."""
    return secrets.token_hex(16)


class Permit:
    """That something of the guarantee `whole` has been charged, for one release in this process.

    The parts of the release take theirs before they draw, and are refused once all of them together
    would cost more than `whole`. Only `charge` makes one, and no public function takes one.

    Args:
        whole: What was charged.
        receipt: Of that charge.
        over: Set once the release is over; that of the permit that this one is a part of.
    """

    __slots__ = ("_apart", "_lock", "_over", "_process", "_taken", "receipt", "whole")

    def __init__(self, whole: Guarantee, receipt: Receipt, over: threading.Event | None = None):
        self.whole, self.receipt = whole, receipt
        self._taken: list[Guarantee] = []
        self._apart = False  # whether a record is in one of the parts at most
        self._over = threading.Event() if over is None else over
        self._lock, self._process = threading.Lock(), os.getpid()

    def take(self, part: Guarantee) -> Permit:
        """Use up the guarantee of one part, before its noise is drawn; a permit for that part.

        Raises:
            RiemdpError: The parts would cost more than was charged, the part protects something
                else, the release is over, or this is another process. Nothing may be drawn.
        """
        if os.getpid() != self._process:
            raise RiemdpError("what one process has paid for, another may not draw")
        with self._lock:
            if self._over.is_set():
                raise RiemdpError("a release is over; what was charged for it pays for no other")
            taken = [*self._taken, part]
            if not adds_up(taken, self.whole, apart=self._apart):
                raise RiemdpError(
                    "a part of a release would cost more than was charged for the whole; it was not"
                    " drawn"
                )
            self._taken = taken
        return Permit(part, self.receipt, self._over)

    def among_parts(self) -> Permit:
        """All of this permit, for parts of which one record (or person) is in at most one: each of
        them costs no more than the whole (parallel composition).

        Whoever calls this states it, and has to name the proof. It has to hold for all neighbours.
        """
        shared = self.take(self.whole)
        shared._apart = True
        return shared

    def for_parties(self, wholes: Sequence[Guarantee]) -> list[Permit]:
        """All of this permit, for the parties of a run whose cost was computed for the whole plan:
        one for each, with what it gives away in all its rounds.

        That may be more than `whole`, which counts how rarely a party is asked. Whoever calls this
        has to name the proof.
        """
        self.take(self.whole)
        return [Permit(whole, self.receipt, self._over) for whole in wholes]

    def close(self) -> None:
        """The release is over: nothing more is drawn for it or any part of it."""
        self._over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Permit({self.receipt.id}, {len(self._taken)} parts taken)"

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("a permit is not pickled or copied: each copy would pay for the same parts")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse  # type: ignore[assignment]


def adds_up(parts: Sequence[Guarantee], whole: Guarantee, *, apart: bool = False) -> bool:
    """Whether these parts, or with `apart` each of them, cost no more than the whole, by sums and
    without any composition.
    """
    if not all(are_alike(whole, part) for part in parts):
        return False
    if not whole.is_private:
        return True
    kind, limit = _sum(whole)
    costs = [_sum(part) for part in parts if part.parts]
    if kind is not None and all(found == kind for found, _ in costs):
        spent = [cost for _, cost in costs]
        total = max(spent, default=0.0) if apart else math.fsum(spent)
        return total <= limit * (1.0 + _ROUNDING)
    if kind is not None:
        return False
    if apart:
        return all(covers(whole, part) for part in parts)
    return not parts or covers(whole, parts[0].compose(*parts[1:]))


def _sum(guarantee: Guarantee) -> tuple[type | None, float]:
    """(kind, cost) where costs of this kind add up: mu^2 of Gaussian parts, epsilon of pure."""
    parts = guarantee.parts
    if all(isinstance(part, GaussianEvent) for part in parts):
        found = [part.squared_mu for part in parts if isinstance(part, GaussianEvent)]
        return GaussianEvent, math.fsum(found)
    if all(isinstance(part, PureEvent) for part in parts):
        pure = [part.epsilon * part.count for part in parts if isinstance(part, PureEvent)]
        return PureEvent, math.fsum(pure)
    return None, math.inf
