"""Many virtual agents on one machine, through Flower's simulation engine."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._errors import InvalidArgument, RiemdpError
from ...optimizers._minimize import check_affordable, check_initial
from ...privacy import Budget, Ledger, charge
from .._accounting import plan_federated
from .._coordinator import Coordinator
from .._drive import Setup, Timing
from .._in_process import FederatedResult, _agent_data
from .._prirfed import PriRFed

_PATIENT = Timing(timeout=600.0, grace=600.0, poll=0.02)  # virtual agents do not die: wait for every reply


def simulate(prirfed: PriRFed, datasets: Sequence[Any], initial: Any, budget: Budget | None = None, rng: int | None = None,
             *, ledger: Ledger | None = None, timing: Timing | None = None, cpus_per_agent: float = 1.0
             ) -> FederatedResult:  # fmt: skip
    """Run PriRFed on Flower's simulation engine, one virtual agent for each data set; arguments as in `run_in_process`.

    The same core as `run_in_process`, with every message passing through the engine. `timing`: how long a round waits.
    `cpus_per_agent`: what the engine reserves for an agent at work. **Guarantee:** as in `PriRFed`, charged before anything is
    drawn to `ledger`, else to the innermost `with Ledger(...)`.
    """
    if os.environ.get("FLWR_HOME") is None:
        os.environ["FLWR_HOME"] = tempfile.mkdtemp(prefix="riemdp-flwr-")
    from flwr.simulation import run_simulation

    from ._client import client_app
    from ._server import server_app

    point = check_initial(prirfed.problem, initial)
    if isinstance(datasets, str | bytes) or not hasattr(datasets, "__len__"):
        raise InvalidArgument("argument `datasets` must be a sequence with one data set per agent")
    checked = [_agent_data(prirfed.problem, data, i) for i, data in enumerate(datasets)]
    plan = plan_federated(prirfed, [n for _, n in checked], budget)
    check_affordable(plan.guarantee, ledger)
    charge(plan.guarantee, ledger)
    setup = Setup(prirfed, point, budget, agents=len(checked))
    done: list[Coordinator] = []
    arrays = [np.asarray(data) if not isinstance(data, tuple | dict) else data for data, _ in checked]
    server = server_app(lambda _: setup, timing=timing or _PATIENT, rng=rng, on_done=done.append)
    client = client_app(lambda _: setup, lambda node: arrays[int(node["partition-id"])], rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        run_simulation(
            server, client, num_supernodes=len(checked),
            backend_config={"client_resources": {"num_cpus": cpus_per_agent, "num_gpus": 0.0},
                            "init_args": {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}},
        )  # fmt: skip
    if not done:
        raise RiemdpError("the simulation engine stopped before the run ended; its log says why. The whole plan was charged")
    finished = done[0]
    return FederatedResult(
        value=finished.result_value(), guarantee=finished.guarantee(), sigma=max(plan.sigmas), history=(),
        gradient_calls=0, steps=len(finished.records), reproducible=rng is not None,
        method=f"PriRFed on Flower ({type(prirfed.local).__name__}, {prirfed.participation})",
        status="completed" if finished.finished else "interrupted",
        details={"agents": len(checked), "agents_per_round": prirfed.agents_per_round, "rounds": prirfed.rounds,
                 "aggregate": prirfed.aggregate, "participation": prirfed.participation, "protects": prirfed.problem.protects},
        rounds=tuple(finished.records), invitations=dict(finished.invitations), plan=plan,
    )  # fmt: skip
