"""The command `riemdp`.

Exit codes: 0 done; 2 the input, an option or a setting cannot be used; 3 the budget of the ledger
would be exceeded; 4 the output cannot be written; 130 interrupted. In every case but 0 the message
says whether a file was written and whether the ledger was charged; with 2 and 3 neither happened.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._version import __version__
from ._interrupts import heard, leave

__all__ = ["main"]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Args:
        arguments: the words after `riemdp`; those of the process when left out.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(f"riemdp {__version__}")
        return

    try:
        # Everything else is imported once an interrupt has an answer.
        with heard(last=arguments is None) as interrupts, interrupts.translated():
            if arguments is None:
                from ._compiled import keep_compiled
                from ._memory import give_back_early

                keep_compiled()
                give_back_early()
            from ._app import app

            app(args=words, prog_name="riemdp")
    except SystemExit as stopped:
        if arguments is None and isinstance(stopped.code, int | None):
            leave(stopped.code or 0)
        raise
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; no file was written and nothing was charged\n")
        if arguments is None:
            leave(_INTERRUPTED)
        raise SystemExit(_INTERRUPTED) from None
