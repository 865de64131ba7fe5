"""Makes sure that Flower is installed, with its telemetry and update checks switched off.

This module must be imported before anything that imports `flwr`.
"""

from __future__ import annotations

import importlib.util
import os

from ..._errors import MissingExtra

for _name, _value in {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)

if importlib.util.find_spec("flwr") is None:  # pragma: no cover - depends on the installation
    raise MissingExtra(
        "riemdp.federated.flower needs the extra `federated`: pip install 'riemdp[federated]'"
    )
