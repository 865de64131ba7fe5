"""Makes sure that Flower is installed, with its telemetry and update checks switched off.

This module must be imported before anything that imports `flwr`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator

from ..._errors import MissingExtra
from .._sites import log

for _name, _value in {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
}.items():
    os.environ.setdefault(_name, _value)

if importlib.util.find_spec("flwr") is None:  # pragma: no cover - depends on the installation
    raise MissingExtra(
        "riemdp.federated.flower needs the extra `federated`: run pip install -e '.[federated]' in"
        " the checkout"
    )


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """The run's progress appears in the engine's log: the server's in `flwr run --stream`, a site's
    on its own screen. Public facts only.
    """
    handlers, level = list(logging.getLogger("flwr").handlers), log.level
    for handler in handlers:
        log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        for handler in handlers:
            log.removeHandler(handler)
