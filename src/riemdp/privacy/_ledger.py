"""`Ledger`: what a data set may still cost; refuses before anything is released."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import warnings
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._errors import (
    BudgetExceeded,
    InvalidArgument,
    RiemdpError,
    RiemdpWarning,
    check_float64,
    counted,
    invalid,
)
from .._files import locked, write_text
from . import _filter
from ._budget import Budget
from ._guarantee import REPLACE_ONE, Guarantee, as_guarantee
from ._ledger_state import State, covers, from_json, to_json
from ._register import Entry, html, new_entry
from .accounting.events import GaussianEvent, PureEvent

_MODE = 0o600  # of a new file: what was spent is the business of its owner
_innermost: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar(
    "riemdp_ledger", default=None
)
_meant: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "riemdp_uncharged", default=False
)  # see `uncharged`
_of_people: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "riemdp_of_people", default=False
)  # see `about_people`
_session: Ledger | None = None  # of this process, for what is in no `with Ledger`
_open_somewhere = 0  # `with` blocks entered and not left, in any thread
_count_lock = threading.Lock()


class Ledger:
    """Adds up what the releases about one data set cost, and refuses the one that would exceed
    `budget`.

    One ledger belongs to one data set. `spend` is atomic: under any number of threads (and
    processes, with a `path`) the total never exceeds the budget, and a refusal changes nothing.
    What was charged stays charged, also if the computation after the charge fails: the noise has
    then been drawn, and may have been seen. A ledger without a `path` belongs to the process that
    made it: a forked child has a copy, which refuses to be read or charged.

    **Which releases are granted.** A release may be chosen by what came out before, so the ledger
    is a privacy filter:

    - Gaussian releases only: their exact composition. Pure releases only: their epsilons are added,
      or composed like Gaussian releases where that is cheaper. A pure release among Gaussian ones
      costs at most as much as a Gaussian release of mu = 1.26 epsilon, and hardly more than
      mu = epsilon if it is small beside what is left.
    - Releases of other kinds (random batches, federated participation, approximate) cost exactly
      what they cost if one comes alone, or as one run that was planned (see `plan`). Beside
      Gaussian releases a run is charged as the Gaussian release that dominates it.
    - `mixed=True`, or a first release of another kind, shares delta out between this Gaussian rule
      and a Renyi filter over fixed orders. A release is granted if either admits the total. This
      costs 5 to 11 % in noise where one kind is used. It grants large pure releases and approximate
      ones beside Gaussian ones, for which the exact Gaussian rule leaves nothing.

    `spent` is the composition of what was released. It is the right figure for releases that were
    chosen in advance.

    **Nested use.** Inside `with` the *innermost* ledger is charged, and only that one: an inner
    block is for another data set. To give part of a budget to a sub-task on the same data, charge
    the outer ledger with all of that part first: `outer.spend(approximate(epsilon, delta))` for an
    inner `Ledger(Budget(epsilon, delta))`. `inner.spent` is no bound where the sub-task chose its
    releases by what came out. A `with` block holds for its own thread (or asyncio task); hand
    `ledger=` to work in other threads.

    Args:
        budget: What may be spent in total.
        path: A JSON file that is read at every operation and replaced whole at every charge, under
            a lock that other processes respect. It is created if it does not exist; if it does, its
            budget must be `budget`. A symbolic link is followed when the ledger is made. A file
            with a second name (a hard link) is refused, because the two names would part. The file
            also keeps a `register` of its releases.
        mixed: Whether delta is shared between rules for releases of several kinds, as above. None
            lets the first release decide, which cannot depend on any output.

    Guarantee:
        For every strategy that chooses releases by what came out before, everything that was
        granted is together (budget.epsilon, budget.delta)-private under the adjacency of the
        charges.

    Raises:
        InvalidArgument: A wrong argument, a file that is no ledger, or one with another budget.

    Source:
        Rogers et al. 2016; Feldman and Zrnic 2021; Lecuyer 2021; Smith and Thakurta 2022.
        Proof: docs/proofs/ledger.md.

    Examples:
        >>> from riemdp.privacy import Budget, Ledger, gaussian
        >>> ledger = Ledger(Budget(1.0, 1e-5))
        >>> ledger.spend(gaussian(10.0))
        >>> ledger.fits(gaussian(4.1)), ledger.fits(gaussian(3.0))
        (True, False)
    """

    def __init__(
        self,
        budget: Budget,
        *,
        path: str | os.PathLike[str] | None = None,
        mixed: bool | None = None,
    ):
        if not isinstance(budget, Budget):
            raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
        if mixed is not None and not isinstance(mixed, bool):
            raise invalid("mixed", mixed, "give True, False, or None (the first release decides)")
        self._budget = budget
        self._state = State(Guarantee(REPLACE_ONE), _filter.Spent(Guarantee(REPLACE_ONE)), (), 0)
        self._state = self._state.choosing(mixed)
        self._lock = threading.RLock()
        self._tokens = threading.local()
        self._plans: list[Guarantee] = []
        self._register: tuple[Entry, ...] = ()
        self._own_entry: Entry | None = None  # the last one made by this object
        # The cheapest Gaussian and the cheapest pure release refused so far. What is spent never
        # shrinks, so whatever costs as much is refused again, without a computation.
        self._least_refused = {GaussianEvent: float("inf"), PureEvent: float("inf")}
        self._process = os.getpid()
        # Resolved once: neither a symbolic link nor a later change of folder leads elsewhere.
        self._path = None if path is None else Path(path).resolve()
        if self._path is not None:
            with locked(self._path):
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
            return self._state.spent

    @property
    def charges(self) -> int:
        """How many releases were charged."""
        with self._synchronised():
            return self._state.charges

    @property
    def register(self) -> tuple[Entry, ...]:
        """The releases in the ledger's file, oldest first: when, who, what, guarantee, and name and
        SHA-256 of the released file where they are known. A run that is charged block by block is
        one entry. Empty for a ledger in memory; charges of a file made before version 0.2 have no
        entry.
        """
        with self._synchronised():
            return self._register

    def note_file(self, name: str, sha256: str) -> None:
        """Enter the file of a released value with the last release that this object charged.

        Args:
            name: The file's name.
            sha256: The SHA-256 of the file that is published, in hexadecimal digits. Never give
                that of a file of records: it would confirm a guess of all of them.
        """
        with self._synchronised():
            if self._path is None or self._own_entry is None:
                return
            noted = replace(self._own_entry, file=str(name), sha256=str(sha256))
            entries = tuple(noted if e.id == noted.id else e for e in self._register)
            write_text(self._path, to_json(self._budget, self._state, entries), _MODE)
            self._register, self._own_entry = entries, noted

    @property
    def mixed(self) -> bool | None:
        """Whether delta is shared out for releases of several kinds; None before the first one."""
        with self._synchronised():
            return self._state.filtered.mixed

    def remaining(self, delta: float | None = None) -> float:
        """max(0, budget.epsilon - spent.epsilon(delta)), at the budget's own delta if none is
        given.

        The epsilon left by subtraction, for display. `fits` says whether a release will be granted:
        it may cost a little more than this (composition is cheaper than addition), and in a ledger
        of several kinds only less.
        """
        return max(
            0.0,
            self._budget.epsilon
            - self.spent.epsilon(self._budget.delta if delta is None else delta),
        )

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether `spend(guarantee)` would succeed now. Changes nothing."""
        guarantee = as_guarantee(guarantee)
        if _of_people.get():
            guarantee = guarantee.for_people()
        with self._synchronised():
            if not guarantee.parts:
                return True
            state = self._state.after(guarantee, self._plans)
            return guarantee.is_private and _filter.admits(state.filtered, self._budget)

    def _fits_in_turn(self, releases: Sequence[Guarantee]) -> bool:
        """Whether all of these would be granted, each charged by itself in this order. Several
        kinds may cost more so than `fits` says of their composition, which is one release.
        """
        with self._synchronised():
            state = self._state
            for guarantee in map(as_guarantee, releases):
                own = guarantee.for_people() if _of_people.get() else guarantee
                if not own.is_private:
                    return False
                state = state.after(own, self._plans)
            return _filter.admits(state.filtered, self._budget)

    # ---------------------------------------------------------------- spending
    def spend(self, guarantee: Guarantee, *, of: Guarantee | None = None) -> None:
        """Charge one release.

        Args:
            guarantee: What the release leaks.
            of: The guarantee of a whole run that was planned before its first release, and of which
                this release is a part. The first part of a run is granted if the whole run fits;
                the others then belong to it, at no further cost. A run that ends early keeps its
                place in the budget, though `spent` counts only what was drawn.

        Raises:
            BudgetExceeded: The total would exceed the budget. Nothing is charged, and nothing may
                be released.
            InvalidArgument: The guarantee is under another adjacency than those charged before.
        """
        guarantee = as_guarantee(guarantee)
        plans = [*self._plans, *([] if of is None else [as_guarantee(of)])]
        with self._synchronised():
            state = self._state.after(guarantee, plans)
            if guarantee.parts and self._refused(guarantee, state):
                spent = self._state.spent.epsilon(self._budget.delta)
                raise BudgetExceeded(
                    f"this release would exceed the ledger's budget {self._budget}:"
                    f" {counted(self._state.charges, 'release')}"
                    f" {'has' if self._state.charges == 1 else 'have'} spent epsilon {spent:.6g} at"
                    f" delta {self._budget.delta:g}. Nothing was released or charged"
                    + self._remedy(guarantee)
                )
            if self._path is not None:
                # On disk before in memory: a charge that cannot be recorded is not granted.
                register, entry = self._entered(guarantee, plans)
                try:
                    write_text(self._path, to_json(self._budget, state, register), _MODE)
                except OSError as error:
                    raise OSError(
                        error.errno,
                        f"{error.strerror or error}. The ledger could not be written, so nothing is"
                        " released",
                        str(self._path),
                    ) from error
                self._register, self._own_entry = register, entry
            self._state = state

    @contextlib.contextmanager
    def plan(self, whole: Guarantee) -> Generator[None]:
        """Releases charged inside the block are parts of a run with the guarantee `whole`.

        For a run of many releases that was planned in advance: it then costs what `whole` costs,
        by the exact composition, whereas releases of several kinds that are charged one by one may
        have been chosen by what came out before, and cost more. See `of` in `spend`.

        Examples:
            >>> from riemdp.privacy import Budget, Ledger, subsampled_gaussian
            >>> step = subsampled_gaussian(2.0, population=1000, batch_size=10)
            >>> ledger = Ledger(Budget(1.0, 1e-6))
            >>> with ledger.plan(step.repeat(100)):
            ...     for _ in range(100):
            ...         ledger.spend(step)
            >>> ledger.charges
            100
        """
        self._plans.append(as_guarantee(whole))
        try:
            yield
        finally:
            self._plans.remove(whole)

    def _entered(
        self, guarantee: Guarantee, plans: Sequence[Guarantee]
    ) -> tuple[tuple[Entry, ...], Entry]:
        """The register with one more charge, and its entry: that of the run it is a part of, or a
        new one.
        """
        last = self._own_entry
        if last is not None and plans and any(e.id == last.id for e in self._register):
            more = last.guarantee.compose(guarantee)
            if any(covers(whole, more) for whole in plans):
                longer = replace(last, guarantee=more, charges=last.charges + 1)
                return tuple(longer if e.id == last.id else e for e in self._register), longer
        entry = new_entry(guarantee)
        return (*self._register, entry), entry

    def _refused(self, guarantee: Guarantee, state: State) -> bool:
        """Whether the total would exceed the budget."""
        if not guarantee.is_private:
            return True
        cost = _comparable(guarantee) if state.runs == self._state.runs else None
        if cost is not None and cost[1] >= self._least_refused[cost[0]]:
            return True
        fits = state.filtered is self._state.filtered or _filter.admits(
            state.filtered, self._budget
        )
        if not fits and cost is not None:
            self._least_refused[cost[0]] = cost[1]
        return not fits

    def _remedy(self, guarantee: Guarantee) -> str:
        parts = guarantee.parts
        if self._budget.delta > 0 and parts and all(isinstance(p, PureEvent) for p in parts):
            return (
                ". It is pure, and pure releases add up by epsilon: parts of `split_budget` fit"
                ' together for Gaussian noise alone. mechanism="auto" never looks at a ledger; give'
                ' mechanism="wrapped-gaussian" from the first part on'
            )
        if self._state.filtered.mixed is not False or not self._state.spent.parts:
            return ""
        if (
            all(isinstance(p, GaussianEvent | PureEvent) for p in guarantee.parts)
            and len({type(p) for p in (*guarantee.parts, *self._state.spent.parts)}) < 2
        ):
            return ""
        return (
            ". This ledger keeps the exact composition of its first kind of release, and other"
            " kinds cost more in it; Ledger(budget, mixed=True), given at the start, shares delta"
            " between the kinds"
        )

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
        innermost `with Ledger(...)`, else the `session_ledger`.
        """
        innermost = _innermost.get()
        return _session if innermost is None and not _meant.get() else innermost

    # ---------------------------------------------------------------- JSON
    def to_json(self) -> str:
        """The budget and what was spent, as JSON text. No record, noise or seed is in it."""
        self._check_process()
        with self._lock:
            return to_json(self._budget, self._state, self._register)

    @staticmethod
    def from_json(text: str) -> Ledger:
        """The ledger that `to_json` described.

        Raises:
            InvalidArgument: `text` is no such description.
        """
        budget, ledger_state, entries = from_json(text)
        ledger = Ledger(budget)
        ledger._state, ledger._register = ledger_state, entries
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
        return Ledger(from_json(Path(path).read_text(encoding="utf-8"))[0], path=path)

    def _read(self) -> None:
        assert self._path is not None
        if self._path.stat().st_nlink > 1:
            raise InvalidArgument(
                f"argument `path`: the ledger {self._path} has more than one name (a hard link)."
                " Each name could spend the whole budget; keep one and delete the others"
            )
        budget, self._state, self._register = from_json(self._path.read_text(encoding="utf-8"))
        if budget != self._budget:
            raise InvalidArgument(
                f"argument `budget` = {self._budget} differs from the budget {budget} of the ledger"
                " in `path`; a budget is not changed once spending has begun (Ledger.open takes"
                " the file's)"
            )

    @contextlib.contextmanager
    def _synchronised(self) -> Generator[None]:
        self._check_process()
        with self._lock:
            if self._path is None:
                yield
            else:
                with locked(self._path):
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

    def _repr_html_(self) -> str | None:
        with contextlib.suppress(RiemdpError, OSError):  # a copy in a forked child is not read
            return html(self._budget, self.spent, self.charges, self.register)

    def __repr__(self) -> str:
        return f"Ledger(budget={self._budget}, {self._state.charges} charges)"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a ledger is not pickled or copied: two copies could each spend the whole budget. Share"
            " a file (path=...)"
        )


def charge(
    guarantee: Guarantee, ledger: Ledger | None = None, *, of: Guarantee | None = None
) -> None:
    """Spend `guarantee` on `ledger`, else on the innermost `with Ledger(...)` of this thread, else
    on the `session_ledger`; nothing if there is none.

    Every release calls this after everything that can fail was checked, and immediately before the
    noise is drawn. `of` is the guarantee of the whole planned run that the release is a part of, as
    in `Ledger.spend`.

    Raises:
        BudgetExceeded: The ledger refuses; nothing may be drawn.
        PrecisionError: JAX's 64 bits are switched off.
    """
    check_float64()
    guarantee = as_guarantee(guarantee)
    if _of_people.get():
        guarantee, of = guarantee.for_people(), None if of is None else of.for_people()
    if ledger is None:
        ledger = Ledger.current()
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
    ledger.spend(guarantee, of=of)


def session_ledger(ledger: Ledger | Budget | None) -> Ledger | None:
    """Charge every release of this process that is in no `with Ledger(...)`, and is given no
    `ledger=`, to one ledger from now on: for a notebook or a script about one data set.

    It holds in all threads. A `with Ledger(...)` takes its place inside the block, for its thread.
    Worker processes do not have it (a forked child refuses to use a copy of a ledger in memory).

    Args:
        ledger: A `Ledger`, with a `path` if the total is to outlive the session; a `Budget`, of
            which one in memory is made; or None, which ends this.

    Returns:
        The ledger that is charged from now on.

    Raises:
        InvalidArgument: `ledger` is none of these.

    Guarantee:
        None of its own: that of the `Ledger`.

    Example:
        >>> import riemdp
        >>> book = riemdp.session_ledger(riemdp.Budget(2.0, 1e-5))
        >>> riemdp.privacy.charge(riemdp.privacy.gaussian(5.0))  # what every release does
        >>> book.charges
        1
        >>> riemdp.session_ledger(None)
    """
    global _session
    if isinstance(ledger, Budget):
        ledger = Ledger(ledger)
    if not isinstance(ledger, Ledger | None):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(...), a riemdp.Budget(...), or None")
    _session = ledger
    return ledger


@contextlib.contextmanager
def uncharged() -> Generator[None]:
    """Releases inside are charged to no ledger: for attacks on made-up data, which belong to no
    data set.
    """
    tokens = _innermost.set(None), _meant.set(True)
    try:
        yield
    finally:
        _innermost.reset(tokens[0])
        _meant.reset(tokens[1])


@contextlib.contextmanager
def about_people() -> Generator[None]:
    """Releases inside are charged as guarantees for one person: for runs on one point a person."""
    token = _of_people.set(True)
    try:
        yield
    finally:
        _of_people.reset(token)


def _comparable(guarantee: Guarantee) -> tuple[type, float] | None:
    """(kind, cost) of a guarantee of one part whose kind is ordered by one number."""
    if len(guarantee.parts) != 1:
        return None
    part = guarantee.parts[0]
    if isinstance(part, GaussianEvent):
        return GaussianEvent, part.squared_mu
    if isinstance(part, PureEvent) and part.count == 1:
        return PureEvent, part.epsilon
    return None
