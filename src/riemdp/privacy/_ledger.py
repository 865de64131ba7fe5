"""`Ledger`: what a data set may still cost; refuses before anything is released."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from .._errors import BudgetExceeded, check_float64, counted, invalid
from . import _open_ledgers
from ._book import Book, Entry, State, plan_of, remedy
from ._budget import Budget
from ._guarantee import Guarantee, as_guarantee
from ._permit import Permit, Receipt, new_id


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
      what they cost if one comes alone, or as one run that was planned (`of` in `spend`). Beside
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
    `ledger=` to work in other threads, which refuse without one while it is open, and afterwards if
    they ran meanwhile: work that was begun inside may end outside.

    Args:
        budget: What may be spent in total.
        path: A file of one JSON line a charge (`entries`). It is created if it does not exist; if
            it does, its budget must be `budget`. It is locked, and read anew, at every operation. A
            symbolic link is followed when the ledger is made. A file with a second name (a hard
            link) is refused, because the two names would part.
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
        Proof: docs/proofs/composition.md.

    Examples:
        >>> from riemdp.privacy import Budget, Ledger, gaussian
        >>> ledger = Ledger(Budget(1.0, 1e-5))
        >>> ledger.spend(gaussian(10.0))
        >>> ledger.fits(gaussian(4.1)), ledger.fits(gaussian(3.0))
        (True, False)
    """

    _keeps: ClassVar[bool] = True
    """Whether a charge stands in it afterwards; not in the one that attacks are charged to."""

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
        self._book, self._part = Book(budget, _resolved(path), mixed), ""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The ledger of an existing file, with the file's own budget."""
        return cls._of(Book(None, _resolved(path), None), "")

    @classmethod
    def _of(cls, book: Book, part: str) -> Self:
        ledger = cls.__new__(cls)
        ledger._book, ledger._part = book, part
        return ledger

    # ---------------------------------------------------------------- state
    @property
    def budget(self) -> Budget:
        """What may be spent in total."""
        return self._book.budget

    @property
    def spent(self) -> Guarantee:
        """Everything charged so far, as one `Guarantee`: with parts, each of its figures is that of
        the part that costs most there.
        """
        return self._state().costliest

    @property
    def charges(self) -> int:
        """How many releases were charged."""
        return len(self.entries)

    @property
    def parts(self) -> dict[str, Guarantee]:
        """What was spent on each part, by name, with what the whole was charged."""
        return {name: part.spent for name, part in self._state().parts}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The charges, oldest first: of each `when` (UTC), `what` in words, its `guarantee`, `run`
        (the `receipt.id` of what was released; a run that is charged block by block has it in each)
        and the `part` it was charged to. A part has its own and those of the whole.
        """
        with self._book.held():
            return self._entries()

    def _entries(self) -> tuple[Entry, ...]:
        return tuple(e for e in self._book.entries if self._part in ("", e.part) or not e.part)

    def holds(self, charge: str) -> bool:
        """Whether this ledger took a charge.

        Args:
            charge: Its id, as `Release.receipt` has it. Ids are random, so that of another
                release is never the same.
        """
        return any(entry.run == charge for entry in self.entries)

    def part(self, name: str) -> Self:
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
            McSherry 2009; Feldman and Zrnic 2021. Proof: docs/proofs/composition.md, Lemma 19.

        Examples:
            >>> from riemdp.privacy import Budget, Ledger, pure
            >>> ledger = Ledger(Budget(1.0))
            >>> for subject in ("S01", "S02"):
            ...     ledger.part(subject).spend(pure(0.75))
            >>> ledger.spent.epsilon(0.0), ledger.fits(pure(0.5))
            (0.75, False)
        """
        if not isinstance(name, str) or not name.strip():
            raise invalid("name", name, "give a public name of the part, such as 'S01'")
        if self._part:
            raise invalid("name", name, "a part has no parts: ask the whole ledger for one")
        # One name has several encodings: a file's name may come in another than a label.
        return self._of(self._book, unicodedata.normalize("NFC", name.strip()))

    def remaining(self, delta: float | None = None) -> float:
        """max(0, budget.epsilon - spent.epsilon(delta)), at the budget's own delta if none is
        given.

        The epsilon left by subtraction, for display. `fits` says whether a release will be granted:
        it may cost a little more than this (composition is cheaper than addition), and in a ledger
        of several kinds only less.
        """
        delta = self.budget.delta if delta is None else delta
        return max(0.0, self.budget.epsilon - self.spent.epsilon(delta))

    def fits(self, guarantee: Guarantee, *, of: Guarantee | None = None) -> bool:
        """Whether `spend(guarantee, of=of)` would succeed now. Changes nothing."""
        entry = self._entry(guarantee, of)
        with self._book.held():
            return self._grants(self._book.state, self._book.state.after(entry))

    def _state(self) -> State:
        with self._book.held():
            return self._book.state.of(self._part)

    def _grants(self, before: State, after: State) -> bool:
        """Whether a charge that leads from one state to the other is within the budget."""
        mine, then = before.of(self._part), after.of(self._part)
        return mine.filtered is then.filtered or then.is_within(self.budget)

    # ---------------------------------------------------------------- spending
    def spend(
        self,
        guarantee: Guarantee,
        *,
        of: Guarantee | None = None,
        run: str | None = None,
        what: str = "a release",
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
            what: What is released, in words, for the ledger's `entries`. No record may be in it.

        Raises:
            BudgetExceeded: The total would exceed the budget. Nothing is charged, and nothing may
                be released.
            InvalidArgument: The guarantee is under another adjacency than those charged before.
        """
        if run is not None and not isinstance(run, str):
            raise invalid("run", run, "give the `receipt.id` of an earlier charge, or None")
        if not isinstance(what, str):
            raise invalid("what", what, "give a text")
        entry = self._entry(guarantee, of, run, what)
        with self._book.held() as file:
            while True:
                before = self._book.state
                after = before.after(entry)
                if not self._grants(before, after):
                    raise BudgetExceeded(self._refusal(before.of(self._part), entry.guarantee))
                if self._book.add(entry, before, after, file):
                    return

    def _entry(
        self,
        guarantee: Guarantee,
        of: Guarantee | None = None,
        run: str | None = None,
        what: str = "",
    ) -> Entry:
        guarantee, run = as_guarantee(guarantee), new_id() if run is None else run
        planned = None if of is None else plan_of(guarantee, as_guarantee(of))
        return Entry.now(what, guarantee, run, self._part, planned)

    def _refusal(self, spent: State, guarantee: Guarantee) -> str:
        epsilon, charges = spent.costliest.epsilon(self.budget.delta), len(self._entries())
        return (
            f"this release would exceed the ledger's budget {self.budget}:"
            f" {counted(charges, 'release')} {'has' if charges == 1 else 'have'} spent"
            f" epsilon {epsilon:.6g} at delta {self.budget.delta:g}. Nothing was released or"
            " charged" + remedy(spent, self.budget, guarantee)
        )

    # ---------------------------------------------------------------- context
    def __enter__(self) -> Self:
        self._check_ambient()
        _open_ledgers.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _open_ledgers.leave(self)

    def _check_ambient(self) -> None:
        """Refuse to be the ledger of whatever runs in a block or a session; this kind may be."""

    @staticmethod
    def current() -> Ledger | None:
        """The ledger that a release in this thread is charged to when it is given none: the
        innermost `with Ledger(...)`, else the `session_ledger`.

        Raises:
            InvalidArgument: That block is over: this is a task or thread that it started.
        """
        return cast("Ledger | None", _open_ledgers.current())

    def __repr__(self) -> str:
        said = f"Ledger(budget={self.budget}, {len(self._book.entries)} charges)"
        return f"{said}.part({self._part!r})" if self._part else said

    def __reduce__(self) -> Any:
        raise TypeError(
            "a ledger is not pickled or copied: two copies could each spend the whole budget. Share"
            " a file (path=...)"
        )


def _resolved(path: str | os.PathLike[str] | None) -> Path | None:
    """A path once and for all: neither a symbolic link nor a change of folder leads elsewhere."""
    return None if path is None else Path(path).resolve()


def charge(
    guarantee: Guarantee,
    ledger: Ledger | None = None,
    *,
    of: Guarantee | None = None,
    run: str | None = None,
    what: str = "a release",
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
        run: The `receipt.id` of an earlier charge of the same run.
        what: What is released, in words.

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
    _open_ledgers.keep_telling()
    if ledger is None:
        ledger = Ledger.current()
    run = new_id() if run is None else run
    if ledger is None:
        _open_ledgers.refuse_unseen()
        return Permit(guarantee, Receipt(run, False))
    if not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    ledger.spend(guarantee, of=of, run=run, what=what)
    return Permit(guarantee, Receipt(run, ledger._keeps))


def session_ledger(ledger: Ledger | Budget | None) -> Ledger | None:
    """Charge every release of this process that is in no `with Ledger(...)`, and is given no
    `ledger=`, to one ledger from now on: for a notebook or a script about one data set.

    It holds in all threads. A `with Ledger(...)` takes its place inside the block, for its thread.
    Worker processes do not have it, and refuse (a forked child refuses to use a copy of a ledger
    in memory) until they open one with a file: `session_ledger(Ledger.open(path))`.

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
        >>> permit = riemdp.privacy.charge(riemdp.privacy.gaussian(5.0))  # as every release does
        >>> book.charges
        1
        >>> riemdp.session_ledger(None)
    """
    if isinstance(ledger, Budget):
        ledger = Ledger(ledger)
    if not isinstance(ledger, Ledger | None):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(...), a riemdp.Budget(...), or None")
    if ledger is not None:
        ledger._check_ambient()
    _open_ledgers.begin_session(ledger)
    return ledger


def refuse_sent(budget: Budget | None, ledger: Ledger | None, name: str = "") -> None:
    """Raise where a budget was pickled while a ledger was open in another process, and no ledger
    is open here: what is released under it would be charged to nothing.

    Whatever started this process, and whichever way the budget came: every release needs one.

    Args:
        budget: The argument of a release; None has no mark.
        ledger: The ledger that the release was given.
        name: What a message calls the budget's owner.

    Raises:
        InvalidArgument: It is such a budget.
    """
    if ledger is None and Ledger.current() is None:
        _open_ledgers.refuse_sent(budget, f"{name}argument `budget`")
