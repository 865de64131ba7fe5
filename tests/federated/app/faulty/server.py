"""Server side of the deployment test."""

from __future__ import annotations

from riemdp.federated import flower

from .client import GRACE, make_setup

app = flower.server_app(
    make_setup, timing=flower.Timing(timeout=90.0, grace=GRACE, poll=0.1, patience=120.0)
)
