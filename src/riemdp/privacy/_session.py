"""The ledger of a whole process: `session_ledger`."""

from __future__ import annotations

from .._errors import invalid
from . import _ambient
from ._budget import Budget
from ._ledger import Ledger


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
    _ambient.begin_session(ledger)
    return ledger
