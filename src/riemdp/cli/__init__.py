"""The command `riemdp`.

Exit codes: 0 done; 2 the input, an option or a setting cannot be used; 3 the budget of the ledger
would be exceeded; 4 the output cannot be written; 130 interrupted. In every case but 0 the message
says whether a file was written and whether the ledger was charged; with 2 and 3 neither happened.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .._version import __version__

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
        import typer.main

        from ._app import app

        command = typer.main.get_command(app)
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted; no file was written and nothing was charged\n")
        raise SystemExit(_INTERRUPTED) from None
    command(args=words, prog_name="riemdp")
