"""PriRFed on Flower (extra `federated`), for simulation and deployment.

A server app and a client app take two lines each:

    # server_app.py
    from riemdp.federated import flower
    app = flower.server_app(make_setup)

    # client_app.py
    from riemdp.federated import flower
    app = flower.client_app(make_setup, load_records)

`make_setup(run_config) -> Setup` gives the public settings of the run and is the same code on both
sides; each agent calibrates its own noise from it. `load_records(node_config) -> array` runs on the
agent only: records never leave it.

Telemetry and update checks of the engine are switched off on import.
"""

from __future__ import annotations

from .._drive import Setup, Timing
from . import _engine as _engine
from ._client import client_app
from ._server import server_app
from ._simulate import simulate

__all__ = ["Setup", "Timing", "client_app", "server_app", "simulate"]
