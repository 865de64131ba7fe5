"""`Unbounded`: the ledger that attacks on made-up data are charged to, because they belong to no
data set. Only this package names it.
"""

from __future__ import annotations

from typing import ClassVar

from ..privacy import Budget, Guarantee, Ledger


class Unbounded(Ledger):
    """Takes every charge and keeps none. It is only ever given as `ledger=`: what else runs in the
    thread, a signal handler or a hook, is charged where it would be without the attack.
    """

    _keeps: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(Budget(1.0))

    def spend(
        self,
        guarantee: Guarantee,
        *,
        of: Guarantee | None = None,
        run: str | None = None,
        what: str = "",
    ) -> None:
        """Grant it."""

    def fits(self, guarantee: Guarantee, *, of: Guarantee | None = None) -> bool:
        """True."""
        return True

    def _check_ambient(self) -> None:
        raise TypeError(
            "attacks are charged to this ledger; it cannot be entered, nor be a session's"
        )
