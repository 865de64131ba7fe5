"""`Ledger`: what a data set may still cost; refuses before anything is released."""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import (
    BudgetExceeded,
    InvalidArgument,
    RiemdpError,
    RiemdpWarning,
    check_float64,
    invalid,
)
from .._files import write_text
from . import _profile
from ._budget import Budget
from ._guarantee import REPLACE_ONE, Guarantee, as_guarantee
from ._parts import GaussianPart, PurePart, merge

# What is granted from a certificate is counted a little dearer, and kept a little below the budget,
# so that the figures of the whole ledger, evaluated afresh (lattices differ in the fourth digit),
# are within the budget too.
_PRUDENT, _MARGIN = 1.03, 3e-3
_MODE = 0o600  # of a new file: what was spent is the business of its owner
_FORMAT = "riemdp-ledger"
_innermost: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar(
    "riemdp_ledger", default=None
)
_meant: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "riemdp_uncharged", default=False
)  # see `uncharged`
_open_somewhere = 0  # `with` blocks entered and not left, in any thread
_count_lock = threading.Lock()


class Ledger:
    """Adds up what every release about one data set has cost, and refuses the one that would exceed
    `budget`.

    ```python
    with Ledger(Budget(1.0, 1e-5)) as ledger:
        first = private_frechet_mean(manifold, records, ball, Budget(0.5, 1e-6))
        second = private_frechet_mean(manifold, records, ball, Budget(0.5, 1e-6))
    ledger.remaining(1e-5)
    ```

    One ledger belongs to one data set. `spend` is atomic: under any number of threads (and
    processes, with a `path`) the total never exceeds the budget, and a refusal changes nothing.
    A ledger without a `path` belongs to the process that made it: a forked child has a copy, which
    refuses to be read or charged.
    What was charged stays charged, also if the computation after the charge fails: the noise has
    then been drawn, and may have been seen.

    **Nested use.** Inside `with` the *innermost* ledger is charged, and only that one: an inner
    block is for another data set. To give part of a budget to a sub-task on the same data, charge
    the outer ledger afterwards: `outer.spend(inner.spent)`. A `with` block holds for its own thread
    (or asyncio task); hand `ledger=` to work in other threads.

    **Arguments.** `budget`; `path`: a JSON file that is read at every operation and replaced whole
    at every charge, under a lock that other processes respect. The file is created if it does not
    exist; if it does, its budget must be `budget`. A symbolic link is followed when the ledger is
    made; a file with a second name (a hard link) is refused, because the two names would part.
    """

    def __init__(self, budget: Budget, *, path: str | os.PathLike[str] | None = None):
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        self._budget = budget
        self._spent = Guarantee(REPLACE_ONE)
        self._charges = 0
        self._lock = threading.RLock()
        self._tokens = threading.local()
        # The cheapest Gaussian and the cheapest pure release refused so far. What is spent never
        # shrinks, so whatever costs as much is refused again, without a computation.
        self._least_refused = {GaussianPart: float("inf"), PurePart: float("inf")}
        self._certified = {GaussianPart: 0.0, PurePart: 0.0}
        self._pending: list[Guarantee] = []  # charged, not yet composed
        self._process = os.getpid()
        # Resolved once: neither a symbolic link nor a later change of folder leads elsewhere.
        self._path = None if path is None else Path(path).resolve()
        if self._path is not None:
            with self._locked_file():
                if self._path.exists():
                    self._read()
                else:
                    write_text(self._path, self.to_json(), _MODE)

    # ---------------------------------------------------------------- state
    @property
    def budget(self) -> Budget:
        """What may be spent in total."""
        return self._budget

    @property
    def spent(self) -> Guarantee:
        """Everything charged so far, composed into one `Guarantee`."""
        with self._synchronised():
            return self._spent_now()

    @property
    def charges(self) -> int:
        """How many releases were charged."""
        with self._synchronised():
            return self._charges

    def remaining(self, delta: float | None = None) -> float:
        """max(0, budget.epsilon - spent.epsilon(delta)), at the budget's own delta if none is
        given.

        The epsilon left by subtraction; a further release may cost a little more than this, because
        composition is cheaper than addition. `fits` asks the exact question.
        """
        return max(
            0.0,
            self._budget.epsilon
            - self.spent.epsilon(self._budget.delta if delta is None else delta),
        )

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether `spend(guarantee)` would succeed now. Changes nothing."""
        guarantee = as_guarantee(guarantee)
        with self._synchronised():
            return not guarantee.parts or self._spent_now().compose(guarantee).within(self._budget)

    # ---------------------------------------------------------------- spending
    def spend(self, guarantee: Guarantee) -> None:
        """Charge one release.

        **Raises** `BudgetExceeded` if the total would exceed the budget: then nothing is charged,
        and nothing may be released. `InvalidArgument` for a guarantee under another adjacency than
        those charged before.
        """
        guarantee = as_guarantee(guarantee)
        with self._synchronised():
            if (
                guarantee.parts
                and guarantee.is_private
                and self._spent.parts
                and guarantee.adjacency != self._spent.adjacency
            ):
                self._spent.compose(guarantee)  # raises, and says why
            if guarantee.parts and self._refused(guarantee):
                spent = self._spent_now().epsilon(self._budget.delta)
                raise BudgetExceeded(
                    f"this release would exceed the ledger's budget {self._budget}: {self._charges}"
                    f" releases have spent epsilon {spent:.6g} at delta {self._budget.delta:g}."
                    " Nothing was released or charged"
                )
            if (
                self._path is not None
            ):  # on disk before in memory: a charge that cannot be recorded must not be granted
                total = self._spent_now().compose(guarantee)
                write_text(self._path, _to_json(self._budget, total, self._charges + 1), _MODE)
            self._pending.append(guarantee)
            self._charges += 1
            if not self._spent.parts:
                self._spent_now()

    def _refused(self, guarantee: Guarantee) -> bool:
        """Whether the total would exceed the budget."""
        cost = _comparable(guarantee)
        if cost is not None:
            kind, size = cost
            if size >= self._least_refused[kind]:
                return True
            if size <= self._certified[kind] / _PRUDENT:
                self._certified[kind] -= size * _PRUDENT
                return False
        total = self._spent_now().compose(guarantee)
        quick = _profile.quickly_within(total.parts, self._budget.epsilon, self._budget.delta)
        fits = self._certify(total) if quick is None else quick
        if not fits and cost is not None:
            self._least_refused[cost[0]] = cost[1]
        return not fits

    def _certify(self, total: Guarantee) -> bool:
        """Decide by a privacy-loss distribution, and note how much more of a cheap kind is thereby
        known to fit.

        If `total` with a further Gaussian of mu^2 = m costs e, then pure releases that add up to
        budget.epsilon - e fit as well, by basic composition, and so does any Gaussian up to m. That
        spares a long ledger most of its evaluations.
        """
        limit, delta = self._budget.epsilon, self._budget.delta
        self._certified = {GaussianPart: 0.0, PurePart: 0.0}
        if self._path is not None:
            return total.epsilon(delta) <= limit
        spare = 0.02 * sum(p.squared_mu for p in total.parts if isinstance(p, GaussianPart))
        enlarged = Guarantee(total.adjacency, merge([*total.parts, GaussianPart(spare)])).epsilon(
            delta
        )
        if enlarged <= limit * (1 - _MARGIN):
            self._certified = {GaussianPart: spare, PurePart: limit * (1 - _MARGIN) - enlarged}
            return True
        return total.epsilon(delta) <= limit

    def _spent_now(self) -> Guarantee:
        if self._pending:
            self._spent, self._pending = self._spent.compose(*self._pending), []
        return self._spent

    # ---------------------------------------------------------------- context
    def __enter__(self) -> Ledger:
        global _open_somewhere
        stack = self._tokens.__dict__.setdefault("stack", [])
        stack.append(_innermost.set(self))
        with _count_lock:
            _open_somewhere += 1
        return self

    def __exit__(self, *exception: object) -> None:
        global _open_somewhere
        with _count_lock:
            _open_somewhere -= 1
        _innermost.reset(self._tokens.stack.pop())

    @staticmethod
    def current() -> Ledger | None:
        """The ledger that a release in this thread is charged to when it is given none: the
        innermost `with Ledger(...)`.
        """
        return _innermost.get()

    # ---------------------------------------------------------------- JSON
    def to_json(self) -> str:
        """The budget and what was spent, as JSON text. No record, noise or seed is in it."""
        self._check_process()
        with self._lock:
            return _to_json(self._budget, self._spent_now(), self._charges)

    @staticmethod
    def from_json(text: str) -> Ledger:
        """The ledger that `to_json` described. Raises `InvalidArgument` for anything else."""
        budget, spent, charges = _from_json(text)
        ledger = Ledger(budget)
        ledger._spent, ledger._charges = spent, charges
        return ledger

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to a file, whole or not at all. For a ledger that follows its file, give
        `path` when making it.
        """
        write_text(path, self.to_json(), _MODE)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """The ledger in a file; it does not follow the file (`Ledger.open` does)."""
        return Ledger.from_json(Path(path).read_text(encoding="utf-8"))

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Ledger:
        """The ledger of an existing file, with the file's own budget; further charges are written
        to the file.
        """
        return Ledger(_from_json(Path(path).read_text(encoding="utf-8"))[0], path=path)

    def _read(self) -> None:
        assert self._path is not None
        if self._path.stat().st_nlink > 1:
            raise InvalidArgument(
                f"argument `path`: the ledger {self._path} has more than one name (a hard link)."
                " Each name could spend the whole budget; keep one and delete the others"
            )
        budget, self._spent, self._charges = _from_json(self._path.read_text(encoding="utf-8"))
        self._pending = []
        if budget != self._budget:
            raise InvalidArgument(
                f"argument `budget` = {self._budget} differs from the budget {budget} of the ledger"
                " in `path`; a budget is not changed once spending has begun (Ledger.open takes"
                " the file's)"
            )

    @contextlib.contextmanager
    def _synchronised(self) -> Iterator[None]:
        self._check_process()
        with self._lock:
            if self._path is None:
                yield
            else:
                with self._locked_file():
                    self._read()
                    yield

    def _check_process(self) -> None:
        """In a forked child: refuse a ledger in memory, and renew the lock of one that follows its
        file (another thread may have held it at the fork).
        """
        if os.getpid() == self._process:
            return
        if self._path is None:
            raise RiemdpError(
                f"this ledger is in the memory of process {self._process}, and process"
                f" {os.getpid()} has only a copy of it: each copy could spend the whole budget."
                " Share one in a file: Ledger(budget, path=...)"
            )
        self._lock, self._process = threading.RLock(), os.getpid()

    @contextlib.contextmanager
    def _locked_file(self) -> Iterator[None]:
        """A lock that the operating system drops when its holder dies; on a file beside the ledger,
        which is replaced.
        """
        assert self._path is not None
        with open(self._path.with_name(self._path.name + ".lock"), "a+b") as handle:
            try:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX)
            except ImportError:  # Windows
                import msvcrt

                handle.seek(0)
                msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
            yield

    def __repr__(self) -> str:
        return f"Ledger(budget={self._budget}, {self._charges} charges)"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a ledger is not pickled or copied: two copies could each spend the whole budget. Share"
            " a file (path=...)"
        )


def charge(guarantee: Guarantee, ledger: Ledger | None = None) -> None:
    """Spend `guarantee` on `ledger`, else on the innermost `with Ledger(...)` of this thread;
    nothing if there is neither.

    Every release calls this after everything that can fail was checked, and immediately before the
    noise is drawn.
    """
    check_float64()
    guarantee = as_guarantee(guarantee)
    if ledger is None:
        ledger = _innermost.get()
    if ledger is None:
        if _open_somewhere > 0 and not _meant.get():
            warnings.warn(
                "a release is charged to no ledger, while another thread is inside `with"
                " Ledger(...)`. If it belongs to that ledger, pass it on as ledger=...",
                RiemdpWarning,
                stacklevel=3,
            )
        return
    if not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    ledger.spend(guarantee)


@contextlib.contextmanager
def uncharged() -> Iterator[None]:
    """Releases inside are charged to no ledger: for attacks on made-up data, which belong to no
    data set.
    """
    tokens = _innermost.set(None), _meant.set(True)
    try:
        yield
    finally:
        _innermost.reset(tokens[0])
        _meant.reset(tokens[1])


def _comparable(guarantee: Guarantee) -> tuple[type, float] | None:
    """(kind, cost) of a guarantee of one part whose kind is ordered by one number."""
    if len(guarantee.parts) != 1:
        return None
    part = guarantee.parts[0]
    if isinstance(part, GaussianPart):
        return GaussianPart, part.squared_mu
    if isinstance(part, PurePart) and part.count == 1:
        return PurePart, part.epsilon
    return None


def _to_json(budget: Budget, spent: Guarantee, charges: int) -> str:
    state = {
        "format": _FORMAT,
        "version": 1,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "charges": charges,
        "spent": spent.to_dict(),
    }
    return json.dumps(state, indent=1, allow_nan=False) + "\n"


def _from_json(text: str) -> tuple[Budget, Guarantee, int]:
    try:
        state = json.loads(text)
        if state["format"] != _FORMAT or state["version"] != 1:
            raise KeyError("format")
        budget = Budget(state["budget"]["epsilon"], state["budget"]["delta"])
        spent, charges = Guarantee.from_dict(state["spent"]), state["charges"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidArgument(
            "this is not the JSON of a riemdp ledger, version 1 (see Ledger.to_json)"
        ) from error
    if not isinstance(charges, int) or isinstance(charges, bool) or charges < 0:
        raise invalid("charges", charges, "a ledger's count of charges is a whole number")
    return budget, spent, charges
