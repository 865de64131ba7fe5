"""`Account`: who pays for a run, and for whom its guarantees are."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._errors import BudgetExceeded, invalid
from ..privacy import Guarantee, Ledger, charge
from ..privacy._permit import Permit, Receipt, new_id


@dataclass
class Account:
    """What a run charges, block by block: a ledger, or the permit of the release that it is a part
    of. Here is the one place where optimisers charge.

    Attributes:
        ledger: The `Ledger`; None for the innermost `with Ledger(...)` or the session's, looked for
            once: whatever other threads open or close, a run is charged to one ledger, or to none.
        permit: Of a release that was charged as a whole; then no ledger is.
        of_people: Whether the entries of the run are people, so that its guarantees are for them.
        what: What is released, in words, for the lines of the ledger.
        id: The random name of the run's charges.
        receipt: Of the last charge; None before the first.
    """

    ledger: Ledger | None = None
    permit: Permit | None = None
    of_people: bool = False
    what: str = "a release"
    id: str = field(default_factory=new_id)
    receipt: Receipt | None = None

    def __post_init__(self) -> None:
        if self.permit is None and self.ledger is None:
            self.ledger = Ledger.current()

    def stated(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee of some answers, for what the run protects."""
        return guarantee.for_people() if self.of_people else guarantee

    def check(self, planned: Guarantee) -> None:
        """Raise `BudgetExceeded`, changing nothing, if the whole run cannot be paid for."""
        if self.permit is None:
            check_affordable(self.stated(planned), self.ledger)

    def pay(self, guarantee: Guarantee, planned: Guarantee | None = None) -> None:
        """Pay for some answers, of a run that may be planned as a whole, before they are drawn."""
        guarantee, whole = self.stated(guarantee), None if planned is None else self.stated(planned)
        if self.permit is not None:
            self.receipt = self.permit.take(guarantee).receipt
        elif self.ledger is not None or self.receipt is None:
            paid = charge(guarantee, self.ledger, of=whole, run=self.id, what=self.what)
            self.receipt = paid.receipt
        # else the run began where no ledger was open


def check_affordable(guarantee: Guarantee, ledger: Ledger | None) -> None:
    """Raise `BudgetExceeded`, changing nothing, if the ledger has no room for the whole run."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise invalid("ledger", ledger, "give a riemdp.Ledger(budget), or None")
    book = ledger if ledger is not None else Ledger.current()
    if book is not None and not book.fits(guarantee):
        raise BudgetExceeded(
            f"the whole run would exceed the budget {book.budget}; nothing was released or charged"
        )
