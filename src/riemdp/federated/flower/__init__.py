"""PriRFed on Flower (extra `federated`): a server app and a client app in two lines each,
simulation and deployment.

    # server_app.py                                            # client_app.py from riemdp.federated
    import flower                        from riemdp.federated import flower app =
    flower.server_app(make_setup)                        app = flower.client_app(make_setup,
    load_records)

`make_setup(run_config) -> Setup` gives the public settings of the run and is the same code on both
sides; each agent calibrates its own noise from it. `load_records(node_config) -> array` runs on the
agent only: records never leave it.

Telemetry and update checks of the engine are switched off on import.
"""

from __future__ import annotations

import os

from ..._errors import RiemdpError

for _name, _value in {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)

try:
    import flwr as _flwr
except ImportError as error:  # pragma: no cover - depends on the installation
    raise RiemdpError(
        "riemdp.federated.flower needs the extra `federated`: pip install 'riemdp[federated]'"
    ) from error

from .._drive import Setup, Timing
from ._client import client_app
from ._server import server_app
from ._simulate import simulate

__all__ = ["Setup", "Timing", "client_app", "server_app", "simulate"]
