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
        of: A whole that was planned, of which the run is a part; None: the run is no part of one.
        id: The random name of the run's charges.
        receipt: Of the last charge; None before the first.
    """

    ledger: Ledger | None = None
    permit: Permit | None = None
    of_people: bool = False
    what: str = "a release"
    of: Guarantee | None = None
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
        if self.permit is not None or self.ledger is None:
            return
        if not isinstance(self.ledger, Ledger):
            raise invalid("ledger", self.ledger, "give a riemdp.Ledger(budget), or None")
        if not self.ledger.fits(self.stated(planned), of=self.of):
            raise BudgetExceeded(
                f"the whole run would exceed the budget {self.ledger.budget}; nothing was released"
                " or charged"
            )

    def pay(self, guarantee: Guarantee, planned: Guarantee | None = None) -> None:
        """Pay for some answers, of a run that may be planned as a whole, before they are drawn."""
        guarantee, of = self.stated(guarantee), self.of
        if of is None and planned is not None:
            of = self.stated(planned)
        if self.permit is not None:
            self.receipt = self.permit.take(guarantee).receipt
        elif self.ledger is not None or self.receipt is None:
            paid = charge(guarantee, self.ledger, of=of, run=self.id, what=self.what)
            self.receipt = paid.receipt
        # else the run began where no ledger was open
