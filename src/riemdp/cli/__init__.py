"""The command `riemdp`.

Exit codes: 0 done; 2 the input, an option or a setting cannot be used; 3 the budget of the ledger
would be exceeded; 4 the output cannot be written; 130 interrupted. In every case but 0 no file was
written and nothing was charged to the ledger.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Console entry: run the command line on `arguments` (default: those of the process) and exit
    with its code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments in (["--version"], ["-V"]):
        from .._version import __version__

        print(f"riemdp {__version__}")
        return
    from ._app import app

    app(args=arguments, prog_name="riemdp")
