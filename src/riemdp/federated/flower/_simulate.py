"""Many virtual agents on one machine, through Flower's simulation engine."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..._errors import InvalidArgument, RiemdpError
from ...manifolds._base import Point
from ...optimizers._minimize import check_affordable, check_initial
from ...privacy import Budget, Ledger, charge
from .._accounting import plan_federated
from .._coordinator import Coordinator
from .._drive import Timing
from .._in_process import FederatedResult, _agent_data, result_of
from .._prirfed import PriRFed
from .._secure_sum import new_key_file
from .._setup import Setup
from .._site import Site
from ._client import client_app
from ._server import server_app

_PATIENT = Timing(
    timeout=600.0, grace=600.0, poll=0.02
)  # virtual agents do not die: wait for every reply


def simulate(
    prirfed: PriRFed,
    datasets: Sequence[Any],
    initial: Point,
    budget: Budget | None = None,
    rng: int | None = None,
    *,
    ledger: Ledger | None = None,
    timing: Timing | None = None,
    cpus_per_agent: float = 1.0,
) -> FederatedResult:
    """Run PriRFed on Flower's simulation engine, one virtual agent for each data set.

    It runs the same core as `run_in_process`, with every message passing through the engine. The
    records lie in a temporary folder that only this user can read, until the run ends.
    `result.gradient_calls` is 0, because agents do not report theirs.

    It calls the engine's `run_simulation`, which Flower calls deprecated in favour of `flwr run`:
    that one needs a project folder and a server process, and cannot take data sets, a problem or an
    optimiser from a Python session.

    The arguments that are not listed here are those of `run_in_process`.

    Args:
        ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.
        timing: How long a round waits.
        cpus_per_agent: How many processors the engine reserves for an agent at work.

    Guarantee:
        As in `PriRFed`, charged before anything is drawn.
    """
    from flwr.simulation import run_simulation

    point = check_initial(prirfed.problem, initial)
    if isinstance(datasets, str | bytes) or not hasattr(datasets, "__len__"):
        raise InvalidArgument("argument `datasets` must be a sequence with one data set per agent")
    checked = [_agent_data(prirfed.problem, data, i) for i, data in enumerate(datasets)]
    plan = plan_federated(prirfed, [n for _, n in checked], budget)
    check_affordable(plan.guarantee, ledger)
    charge(plan.guarantee, ledger)
    setup = Setup(prirfed, point, budget, agents=len(checked))
    done: list[Coordinator] = []
    server = server_app(lambda _: setup, timing=timing or _PATIENT, rng=rng, on_done=done.append)
    with _workplace(setup, [data for data, _ in checked]) as folder:
        # The engine pickles the client app anew for every message: it holds the folder's name only,
        # so that each worker reads the settings once (and compiles once), and of the records those
        # of the agent that it stands for.
        client = client_app(
            functools.partial(_settings, folder),
            functools.partial(_records_of, folder),
            site=functools.partial(_site_of, folder, budget is None),
            rng=rng,
        )
        run_simulation(
            server,
            client,
            num_supernodes=len(checked),
            backend_config={
                "client_resources": {"num_cpus": cpus_per_agent, "num_gpus": 0.0},
                "init_args": {"include_dashboard": False, "_node_ip_address": "127.0.0.1"},
            },
        )
    if not done:
        raise RiemdpError(
            "the simulation engine stopped before the run ended; its log says why. The whole plan"
            " was charged"
        )
    finished = done[0]
    return result_of(
        finished,
        plan,
        agents=len(checked),
        reproducible=rng is not None,
        engine=" on Flower",
        status="completed" if finished.finished else "interrupted",
    )


@contextlib.contextmanager
def _workplace(setup: Setup, datasets: Sequence[Any]) -> Iterator[str]:
    """A private folder with the settings, each agent's records and the engine's own home; gone
    afterwards.
    """
    from ray import cloudpickle  # of lambdas in a problem or a learning rate, too

    logger, before = logging.getLogger("flwr"), os.environ.get("FLWR_HOME")
    with tempfile.TemporaryDirectory(
        prefix="riemdp-simulation-", ignore_cleanup_errors=True
    ) as folder:
        if setup.shared is not None:
            names = [str(i) for i in range(len(datasets))]
            keys = tuple((name, new_key_file(Path(folder) / f"key-{name}")) for name in names)
            setup = dataclasses.replace(setup, keys=keys)
        (Path(folder) / "setup").write_bytes(cloudpickle.dumps(setup))  # pyright: ignore[reportPrivateImportUsage]
        for i, data in enumerate(datasets):
            (Path(folder) / f"agent-{i}").write_bytes(
                pickle.dumps(jax.tree.map(np.asarray, data), protocol=5)
            )
        os.environ["FLWR_HOME"] = before or folder
        logger.addFilter(_not_the_deprecation)
        try:
            yield folder
        finally:
            logger.removeFilter(_not_the_deprecation)
            if before is None:
                del os.environ["FLWR_HOME"]


def _not_the_deprecation(record: logging.LogRecord) -> bool:
    return "`run_simulation` function is deprecated" not in record.getMessage()


def _site_of(folder: str, without_noise: bool, node: Mapping[str, Any]) -> Site:
    name = str(node["partition-id"])
    counted = Path(folder) / f"answers-{name}.json"
    key = Path(folder) / f"key-{name}"
    return Site(name=name, answers=counted, key=key, without_noise=without_noise)


def _settings(folder: str, _config: Mapping[str, Any]) -> Setup:
    return _setup_of(folder)


@functools.lru_cache(maxsize=1)
def _setup_of(folder: str) -> Setup:
    return pickle.loads((Path(folder) / "setup").read_bytes())  # written by this very run


def _records_of(folder: str, node: Mapping[str, Any]) -> Any:
    return pickle.loads((Path(folder) / f"agent-{int(node['partition-id'])}").read_bytes())
