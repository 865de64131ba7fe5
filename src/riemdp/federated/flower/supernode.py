"""Starts Flower's SuperNode so that it runs one app only: the one that the site has read.

    python -m riemdp.federated.flower.supernode --bundle SHA256 [arguments of flower-supernode]

The engine sends an app's code from the server to its nodes. A site that checks the code itself
builds the app from that source (`flwr build`), takes the file's SHA-256, and starts its node so: an
app with another fingerprint is refused before a line of it runs.

No public function of the engine does that. This replaces two private ones of flwr 1.41.0,
`_pull_and_store_message` and `_verify_fab` of `flwr.supernode.start_client_internal`; with another
version no node is started.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from ..._errors import MissingExtra, RiemdpError, invalid

_VERSION = "1.41.0"  # of the engine, whose private functions are replaced
_ENTITY = {"bundle": ""}  # the engine checks an app only for a node that trusts somebody


def pin(bundle: str) -> None:
    """Let this process's SuperNode accept one app only.

    Args:
        bundle: SHA-256 of the app's file, 64 hexadecimal digits.

    Raises:
        InvalidArgument: Not such digits.
        MissingExtra: Another version of the engine is installed.
    """
    if not isinstance(bundle, str) or not re.fullmatch(r"[0-9a-f]{64}", bundle):
        raise invalid("bundle", bundle, "give the SHA-256 of the .fab file, 64 hexadecimal digits")
    if version("flwr") != _VERSION:
        raise MissingExtra(
            f"a node that runs one app only relies on internals of flwr {_VERSION}, and"
            f" {version('flwr')} is installed: run pip install flwr=={_VERSION}, or let"
            " flower-supernode check a signature (--trusted-entities)"
        )
    from flwr.supercore.fab import Fab
    from flwr.supernode import start_client_internal as engine

    pull = engine._pull_and_store_message

    def checked(*arguments: Any, get_fab: Callable[[str, int], Any], **others: Any) -> int | None:
        def fetched(fab_hash: str, run_id: int) -> Any:
            fab = get_fab(fab_hash, run_id)
            return Fab(fab.hash_str, fab.content, {"valid_license": "bundle"})

        return pull(*arguments, get_fab=fetched, **(others | {"trusted_entities": _ENTITY}))

    def is_the_bundle(fab: Any, _trusted: dict[str, str]) -> bool:
        return hashlib.sha256(fab.content).hexdigest() == bundle

    engine._pull_and_store_message = checked
    engine._verify_fab = is_the_bundle


def _ended(kind: type[BaseException], error: BaseException | None, *_: object) -> None:
    """What ended the node, in one line: where the server was restarted the engine raises."""
    if not issubclass(kind, SystemExit):
        print(f"the node ends: {kind.__name__}: {error}"[:300], file=sys.stderr)


def main() -> None:
    """`--bundle SHA256`, then whatever `flower-supernode` takes."""
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--bundle":
        sys.exit("usage: python -m riemdp.federated.flower.supernode --bundle SHA256 [arguments]")
    try:
        pin(arguments[1])
    except RiemdpError as error:  # one line, and no traceback
        sys.exit(str(error))
    from flwr.supernode.cli import flower_supernode

    sys.excepthook = _ended
    threading.excepthook = lambda raised: _ended(raised.exc_type, raised.exc_value)
    sys.argv = ["flower-supernode", *arguments[2:]]
    flower_supernode()


if __name__ == "__main__":
    main()
