"""Starts Flower's SuperNode so that it runs one app only: the one that the site has read.

    python -m riemdp.federated.flower.supernode --bundle SHA256 [arguments of flower-supernode]

The engine sends an app's code from the server to its nodes. A site that checks the code itself
builds the app from that source (`flwr build`), takes the file's SHA-256, and starts its node so: an
app with another fingerprint is refused before a line of it runs.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from typing import Any

from flwr.supercore.fab import Fab
from flwr.supernode import start_client_internal as engine
from flwr.supernode.cli import flower_supernode

from ..._errors import invalid

_ENTITY = {"bundle": ""}  # the engine checks an app only for a node that trusts somebody


def pin(bundle: str) -> None:
    """Let this process's SuperNode accept one app only.

    Args:
        bundle: SHA-256 of the app's file, 64 hexadecimal digits.

    Raises:
        InvalidArgument: Not such digits.
    """
    if not isinstance(bundle, str) or not re.fullmatch(r"[0-9a-f]{64}", bundle):
        raise invalid("bundle", bundle, "give the SHA-256 of the .fab file, 64 hexadecimal digits")
    pull = engine._pull_and_store_message

    def checked(*arguments: Any, get_fab: Callable[[str, int], Fab], **others: Any) -> int | None:
        def fetched(fab_hash: str, run_id: int) -> Fab:
            fab = get_fab(fab_hash, run_id)
            return Fab(fab.hash_str, fab.content, {"valid_license": "bundle"})

        return pull(*arguments, get_fab=fetched, **(others | {"trusted_entities": _ENTITY}))

    def is_the_bundle(fab: Fab, _trusted: dict[str, str]) -> bool:
        return hashlib.sha256(fab.content).hexdigest() == bundle

    engine._pull_and_store_message = checked
    engine._verify_fab = is_the_bundle


def main() -> None:
    """`--bundle SHA256`, then whatever `flower-supernode` takes."""
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--bundle":
        sys.exit("usage: python -m riemdp.federated.flower.supernode --bundle SHA256 [arguments]")
    pin(arguments[1])
    sys.argv = ["flower-supernode", *arguments[2:]]
    flower_supernode()


if __name__ == "__main__":
    main()
