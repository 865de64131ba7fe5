"""What the coordinating server runs."""

from __future__ import annotations

from riemdp.federated import flower

from .setup import make_setup

app = flower.server_app(
    make_setup,
    timing=lambda config: flower.Timing(
        timeout=float(config["timeout"]), grace=float(config["grace"])
    ),
)
