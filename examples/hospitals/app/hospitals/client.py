"""What a hospital's node runs: settings, limits and records come from its own files."""

from __future__ import annotations

from riemdp.federated import flower

app = flower.client_app()
