"""`Ledger`: what a data set may still cost; refuses before anything is released."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

from .._errors import (
    BudgetExceeded,
    InvalidArgument,
    RiemdpError,
    check_float64,
    counted,
    invalid,
)
from .._files import Lock, locked, read_text, write_new_text
from . import _ambient, _elsewhere, _filter
from ._budget import Budget
from ._costliest import covers
from ._guarantee import REPLACE_ONE, Guarantee, as_guarantee
from ._ledger_state import State, comparable, from_json, remedy, to_json
from ._permit import Permit, Receipt, new_id
from ._register import Entry, html, new_entry
from .accounting.events import GaussianEvent, PureEvent

_MODE = 0o600  # of a new file: what was spent is the business of its owner


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
    `ledger=` to work in other threads, which refuse without one while it is open. Wait inside the
    block for what was started there: a task that goes on afterwards refuses, a thread of a pool
    sees nothing of the block and is charged to nothing.

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

    _part: ClassVar[type[Any]]  # `Part`, a kind of ledger

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
            with locked(self._path) as file:
                if self._path.exists():
                    self._read()
                else:
                    file.write_text(self._text(self._state, ()), _MODE)

    _keeps: ClassVar[bool] = True
    """Whether a charge stands in it afterwards; not in the one that attacks are charged to."""

    # ---------------------------------------------------------------- state
    @property
    def budget(self) -> Budget:
        """What may be spent in total."""
        return self._budget

    @property
    def spent(self) -> Guarantee:
        """Everything charged so far, as one `Guarantee`: with parts, each of its figures is that of
        the part that costs most there.
        """
        with self._synchronised():
            return self._state.costliest

    @property
    def charges(self) -> int:
        """How many releases were charged."""
        with self._synchronised():
            return self._state.all_charges

    @property
    def parts(self) -> dict[str, Guarantee]:
        """What was spent on each part, by name, with what the whole was charged."""
        with self._synchronised():
            return {name: part.spent for name, part in self._state.parts}

    def part(self, name: str) -> Ledger:
        """The ledger of some of the people, of whom none is in another part.

        A charge to a part counts for it alone, one to the whole ledger for every part: each part
        may spend the whole budget, and `spent` shows the most. They share file and lock. You state
        that no person (or record, where records are protected) is in two parts, and that who is in
        which does not depend on the data. Nothing checks it: no list of people is kept.

        Args:
            name: A public name, such as "S01", which is written to the file.

        Guarantee:
            Replace-one in which a replaced person stays in its part (or add-or-remove-one):
            all that was granted together is (budget.epsilon, budget.delta)-private.

        Source:
            McSherry 2009; Feldman and Zrnic 2021. Proof: docs/proofs/ledger.md, Lemma 10.

        Examples:
            >>> from riemdp.privacy import Budget, Ledger, pure
            >>> ledger = Ledger(Budget(1.0))
            >>> for subject in ("S01", "S02"):
            ...     ledger.part(subject).spend(pure(0.75))
            >>> ledger.spent.epsilon(0.0), ledger.fits(pure(0.5))
            (0.75, False)
        """
        return self._part(self, name)

    @property
    def register(self) -> tuple[Entry, ...]:
        """The releases in the ledger's file, oldest first: when, who, what, guarantee, and name and
        SHA-256 of the released file where they are known. A run that is charged block by block is
        one entry. Empty for a ledger in memory; charges of a file made before version 0.2 have no
        entry.
        """
        with self._synchronised():
            return self._register

    def holds(self, charge: str) -> bool:
        """Whether this ledger took a charge.

        Args:
            charge: Its id, as `Release.receipt` has it. Ids are random, so that of another
                release is never the same.
        """
        with self._synchronised():
            return charge in self._ids

    def note_file(self, name: str, sha256: str) -> None:
        """Enter the file of a released value with the last release that this object charged.

        Args:
            name: The file's name.
            sha256: The SHA-256 of the file that is published, in hexadecimal digits. Never give
                that of a file of records: it would confirm a guess of all of them.
        """
        with self._synchronised() as file:
            if file is None or self._own_entry is None:
                return
            noted = replace(self._own_entry, file=str(name), sha256=str(sha256))
            entries = tuple(noted if e.id == noted.id else e for e in self._register)
            file.write_text(self._text(self._state, entries), _MODE)
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
        delta = self._budget.delta if delta is None else delta
        with self._synchronised():
            spent = self._state.costliest
        return max(0.0, self._budget.epsilon - spent.epsilon(delta))

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether `spend(guarantee)` would succeed now. Changes nothing."""
        guarantee = as_guarantee(guarantee)
        with self._synchronised():
            if not guarantee.parts:
                return True
            state = self._state.after(guarantee, self._plans)
            _ = self._within(state)  # parts of unlike units or adjacencies raise, as in `spend`
            return guarantee.is_private and state.admitted(self._budget)

    # ---------------------------------------------------------------- spending
    def spend(
        self, guarantee: Guarantee, *, of: Guarantee | None = None, run: str | None = None
    ) -> None:
        """Charge one release.

        Args:
            guarantee: What the release leaks.
            of: The guarantee of a whole run that was planned before its first release, and of which
                this release is a part. The first part of a run is granted if the whole run fits;
                the others then belong to it, at no further cost. A run that ends early keeps its
                place in the budget, though `spent` counts only what was drawn.
            run: The random id that the charge is entered with; charges with the same one are a run.
                It decides nothing. None makes one.

        Raises:
            BudgetExceeded: The total would exceed the budget. Nothing is charged, and nothing may
                be released.
            InvalidArgument: The guarantee is under another adjacency than those charged before.
        """
        guarantee = as_guarantee(guarantee)
        if run is not None and not isinstance(run, str):
            raise invalid("run", run, "give the `receipt.id` of an earlier charge, or None")
        plans = [*self._plans, *([] if of is None else [as_guarantee(of)])]
        with self._synchronised() as file:
            holder = self._holder
            while True:
                before = holder._state
                state = self._within(self._granted(guarantee, plans, run, file))
                # A signal handler may have charged since; nothing runs between these two lines.
                if holder._state is before:
                    holder._state = state
                    return

    def _granted(
        self,
        guarantee: Guarantee,
        plans: Sequence[Guarantee],
        run: str | None,
        file: Lock | None,
    ) -> State:
        """The state after one more release, which is in the ledger's file already if it has one."""
        state = self._state.after(guarantee, plans)
        if guarantee.parts and self._refused(guarantee, state):
            spent = self._state.costliest.epsilon(self._budget.delta)
            raise BudgetExceeded(
                f"this release would exceed the ledger's budget {self._budget}:"
                f" {counted(self._state.all_charges, 'release')}"
                f" {'has' if self._state.all_charges == 1 else 'have'} spent epsilon {spent:.6g} at"
                f" delta {self._budget.delta:g}. Nothing was released or charged"
                + remedy(self._state, self._budget, guarantee)
            )
        if file is None:
            return state.with_id(run or new_id())
        # On disk before in memory: a charge that cannot be recorded is not granted.
        register, entry = self._entered(guarantee, plans, run)
        state = state.with_id(entry.id)
        try:
            file.write_text(self._text(state, register), _MODE)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror or error}. The ledger could not be written, so nothing is"
                " released",
                str(self._path),
            ) from error
        self._register, self._own_entry = register, entry
        return state

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

    @property
    def _holder(self) -> Ledger:
        """The ledger whose `_state` a charge replaces."""
        return self

    @property
    def _ids(self) -> set[str]:
        """The random ids of its charges."""
        return {*self._state.all_ids, *(entry.id for entry in self._register)}

    def _within(self, state: State) -> State:
        """The holder's state with this one in it."""
        return state

    def _text(self, state: State, register: tuple[Entry, ...]) -> str:
        """What the file holds after a change of the state."""
        return to_json(self._budget, self._within(state), register)

    def _entered(
        self, guarantee: Guarantee, plans: Sequence[Guarantee], run: str | None
    ) -> tuple[tuple[Entry, ...], Entry]:
        """The register with one more charge, and its entry: that of the run it is a part of, or a
        new one.
        """
        last = self._own_entry
        if run is not None:
            last = next((e for e in self._register if e.id == run), None)
        elif plans and last is not None and any(e.id == last.id for e in self._register):
            more = last.guarantee.compose(guarantee)
            last = last if any(covers(whole, more) for whole in plans) else None
        else:
            last = None
        if last is not None:
            more = last.guarantee.compose(guarantee)
            longer = replace(last, guarantee=more, charges=last.charges + 1)
            return tuple(longer if e.id == last.id else e for e in self._register), longer
        entry = new_entry(guarantee, run or new_id())
        return (*self._register, entry), entry

    def _refused(self, guarantee: Guarantee, state: State) -> bool:
        """Whether the total would exceed the budget."""
        if not guarantee.is_private:
            return True
        cost = comparable(guarantee) if state.runs == self._state.runs else None
        if cost is not None and cost[1] >= self._least_refused[cost[0]]:
            return True
        alike = state.filtered is self._state.filtered and not state.parts
        fits = alike or state.admitted(self._budget)
        if not fits and cost is not None:
            self._least_refused[cost[0]] = cost[1]
        return not fits

    # ---------------------------------------------------------------- context
    def __enter__(self) -> Ledger:
        self._check_ambient()
        _ambient.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _ambient.leave(self)

    def _check_ambient(self) -> None:
        """Refuse to be the ledger of whatever runs in a block or a session; this kind may be."""

    @staticmethod
    def current() -> Ledger | None:
        """The ledger that a release in this thread is charged to when it is given none: the
        innermost `with Ledger(...)`, else the `session_ledger`.

        Raises:
            InvalidArgument: That block is over: this is a task or thread that it started.
        """
        return cast("Ledger | None", _ambient.current())

    # ---------------------------------------------------------------- JSON
    def to_json(self) -> str:
        """The budget and what was spent, as JSON text. No record, noise or seed is in it."""
        with self._synchronised():
            return to_json(self._budget, self._holder._state, self._register)

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

        Raises:
            InvalidArgument: There is a file already that is no earlier copy of this ledger:
                replacing it would forget what was spent there. Nothing is written.
        """
        target, text = Path(path).resolve(), self.to_json()
        if target == self._path:
            return  # it is written at every charge
        if not target.exists():
            write_new_text(target, text, _MODE)
            return
        with locked(target) as file:
            if self._replaces(target.read_text(encoding="utf-8", errors="replace"), text, target):
                file.write_text(text, _MODE)

    def _replaces(self, there: str, text: str, target: Path) -> bool:
        """Whether `text` takes the place of what is in a file: not of a later copy, which another
        thread has written meanwhile. Refuses to where not everything of it is in this ledger, too.
        """
        with contextlib.suppress(InvalidArgument):
            (budget, state, _), (_, now, _) = from_json(there), from_json(text)
            if budget == self._budget and now.has_all_of(state):
                return True
            if budget == self._budget and self._holder._state.has_all_of(state):
                return False
        raise InvalidArgument(
            f"argument `path`: {target} exists, and is no earlier copy of this ledger; to replace"
            " it would forget what was spent there. Give another path, or go on with the ledger"
            " that is there by Ledger.open(path). Nothing was written"
        )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """The ledger in a file; it does not follow the file (`Ledger.open` does)."""
        return Ledger.from_json(read_text(path))

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Ledger:
        """The ledger of an existing file, with the file's own budget; further charges are written
        to the file.
        """
        return Ledger(from_json(read_text(path))[0], path=path)

    def _read(self) -> None:
        assert self._path is not None
        if self._path.stat().st_nlink > 1:
            raise InvalidArgument(
                f"argument `path`: the ledger {self._path} has more than one name (a hard link)."
                " Each name could spend the whole budget; keep one and delete the others"
            )
        budget, self._state, self._register = from_json(read_text(self._path))
        if budget != self._budget:
            raise InvalidArgument(
                f"argument `budget` = {self._budget} differs from the budget {budget} of the ledger"
                " in `path`; a budget is not changed once spending has begun (Ledger.open takes"
                " the file's)"
            )

    @contextlib.contextmanager
    def _synchronised(self) -> Generator[Lock | None]:
        """Hold the state, read anew, and the file that it is written to, if there is one."""
        self._check_process()
        with self._lock:
            if self._path is None:
                yield None
                return
            with locked(self._path) as file:
                self._read()
                yield file

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
    guarantee: Guarantee,
    ledger: Ledger | None = None,
    *,
    of: Guarantee | None = None,
    run: str | None = None,
) -> Permit:
    """Spend `guarantee` on `ledger`, else on the innermost `with Ledger(...)` of this thread, else
    on the `session_ledger`; on nothing if there is none, and none is open elsewhere either.

    Every release calls this after everything that can fail was checked, and immediately before the
    noise is drawn. Its parts, if it has several, are handed what is returned, and never charge.

    Args:
        guarantee: What is about to be released costs this.
        ledger: The `Ledger` to charge, or None, see above.
        of: The guarantee of the whole planned run that the release is a part of, as in
            `Ledger.spend`.
        run: The `receipt.id` of an earlier charge of the same run, whose entry this one joins.

    Returns:
        What was paid for, with a `receipt`: the random id of the charge, and whether a ledger took
        it.

    Raises:
        BudgetExceeded: The ledger refuses; nothing may be drawn.
        InvalidArgument: A ledger is open in another thread of this process, or in the process that
            started this worker, and none is seen here; nothing may be drawn.
        PrecisionError: JAX's 64 bits are switched off.
    """
    check_float64()
    guarantee = as_guarantee(guarantee)
    _elsewhere.keep_telling()
    if ledger is None:
        ledger = Ledger.current()
    run = new_id() if run is None else run
    if ledger is None:
        _elsewhere.refuse_unseen()
        return Permit(guarantee, Receipt(run, False))
    if not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    ledger.spend(guarantee, of=of, run=run)
    return Permit(guarantee, Receipt(run, ledger._keeps))
