"""Server side of the deployment test."""

from __future__ import annotations

from riemdp.federated import flower

from .client import make_setup

app = flower.server_app(make_setup, timing=flower.Timing(timeout=90.0, grace=25.0, poll=0.1, patience=120.0))
