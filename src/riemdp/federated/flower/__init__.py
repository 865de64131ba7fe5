"""PriRFed on Flower (extra `federated`), for simulation and deployment.

A server app and a client app take two lines each:

    # server_app.py
    from riemdp.federated import flower
    app = flower.server_app(make_setup)

    # client_app.py
    from riemdp.federated import flower
    app = flower.client_app(make_setup, load_records)

`make_setup(settings) -> Setup` gives the agreed settings of the run. The server calls it with the
run configuration, and a site calls it with the settings in its own file (`Site`): the person
who starts a run does not decide a site's noise. `load_records(node_config) -> array` runs at the
site only, and records never leave it.

Importing this module switches off the engine's telemetry and update checks.
"""

from __future__ import annotations

from .._site import Refused, Site
from .._sites import Timing
from .._terms import Setup
from . import _engine as _engine
from ._client import client_app
from ._server import server_app
from ._simulate import simulate

__all__ = ["Refused", "Setup", "Site", "Timing", "client_app", "server_app", "simulate"]
