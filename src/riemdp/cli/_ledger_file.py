"""A ledger kept in a file, so that a budget holds across runs."""

from __future__ import annotations

import os
from pathlib import Path

from .._errors import InvalidArgument
from ..privacy import Guarantee, Ledger
from ._interrupts import current
from ._run import InputProblem, OutputProblem


class CommandLedger(Ledger):
    """The ledger of a file, for one command.

    A charge is on the disk before `spend` returns, so before the noise is drawn and long before
    any byte of a released value is written: a run that is killed afterwards has cost budget, never
    privacy. An interrupt that came before is obeyed here; a later one waits.
    """

    words: str = "a release"  # what the command releases, for the lines of the file

    def spend(
        self,
        guarantee: Guarantee,
        *,
        of: Guarantee | None = None,
        run: str | None = None,
        what: str = "a release",
    ) -> None:
        """Charge the file, unless the user has interrupted.

        Args:
            guarantee: what the release will cost.
            of: the guarantee of the whole run that the release is a part of.
            run: the id of the charge.
            what: is not used; the words of the command stand in the file.

        Raises:
            KeyboardInterrupt: an interrupt came before; nothing is charged.
            BudgetExceeded: the ledger has too little left; nothing is charged.
        """
        interrupts = current()
        with interrupts.whole():
            interrupts.check()
            super().spend(guarantee, of=of, run=run, what=self.words)
            interrupts.charged = True


def opened(path: Path, words: str) -> CommandLedger:
    """The ledger of a file that a release will charge, or an error before anything is computed."""
    ledger = read(path)
    if not os.access(path, os.W_OK):
        raise OutputProblem(
            f"the ledger {path} may not be written",
            "a release must be charged; check the permissions",
        )
    ledger.words = words
    return ledger


def read(path: Path) -> CommandLedger:
    """The ledger of a file, as it is now.

    Raises:
        InputProblem: there is none, or it is damaged. Then nothing may be released.
    """
    if not path.exists():
        raise InputProblem(
            f"there is no ledger {path}",
            f"make one first: riemdp ledger create {path} --epsilon 1 --delta 1e-5",
        )
    try:
        return CommandLedger.open(path)
    except InvalidArgument as error:
        raise InputProblem(
            f"the ledger {path} cannot be read: it is damaged or another file",
            "restore it from a backup, and spend again in Python what was released since, which a"
            " backup forgets: riemdp.Ledger.open(path).spend(guarantee); a new ledger would forget"
            " everything",
        ) from error
