"""What the coordinating server runs: its settings come from the agreement that the run names."""

from __future__ import annotations

from riemdp.federated import flower

app = flower.server_app(
    timing=lambda config: flower.Timing(
        timeout=float(config["timeout"]),
        grace=float(config["grace"]),
        patience=float(config["patience"]),
    )
)
