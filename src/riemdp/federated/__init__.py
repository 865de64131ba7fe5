"""Federated optimisation on manifolds with record-level privacy: PriRFed, its accounting, and an
adapter to a real engine.

The core here needs no engine: `run_in_process` is the reference. `riemdp.federated.flower` (extra
`federated`) runs the same core on Flower, as a simulation or over TLS between machines.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._accounting import FederatedPlan as FederatedPlan
from ._accounting import plan_federated
from ._aggregate import aggregate, validate_reply
from ._agreement import Agreement
from ._ball import private_ball, private_frechet_mean, private_frechet_variance
from ._coordinator import Coordinator
from ._coordinator import RoundRecord as RoundRecord
from ._door import Answer, Message, answer
from ._in_process import FederatedResult as FederatedResult
from ._in_process import run_in_process
from ._prirfed import PriRFed
from ._site import Refused, Site
from ._terms import Party, Setup

__all__ = [
    "Agreement",
    "Answer",
    "Coordinator",
    "Message",
    "Party",
    "PriRFed",
    "Refused",
    "Setup",
    "Site",
    "aggregate",
    "answer",
    "plan_federated",
    "private_ball",
    "private_frechet_mean",
    "private_frechet_variance",
    "run_in_process",
    "validate_reply",
]


def __getattr__(name: str) -> Any:
    if name == "flower":  # imports flwr, so only on use
        return importlib.import_module(f"{__name__}.flower")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
