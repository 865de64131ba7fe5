"""Many virtual agents on one machine, through Flower's simulation engine."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..._errors import MissingExtra, RiemdpError, integer
from ...manifolds._base import Point
from ...optimizers._account import check_affordable
from ...optimizers._checks import check_initial
from ...optimizers._people import MOST
from ...privacy import Budget, Ledger, charge
from ...privacy._guarantee import PERSON
from ...privacy._ledger import refuse_sent
from ...randomness import noise_source
from .._accounting import plan_federated
from .._drive import make_coordinator
from .._in_process import FederatedResult, check_datasets, people_of, result_of
from .._prirfed import PriRFed
from .._secure_sum import new_key_file
from .._site import Site
from .._sites import Timing
from .._terms import Setup
from . import _host
from ._client import client_app
from ._server import server_app

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

_PATIENT = Timing(
    timeout=600.0, grace=600.0, poll=0.02
)  # virtual agents do not die: wait for every reply
_PROJECT = """\
[project]
name = "simulation"
version = "1.0.0"
description = "A simulation of one federated run."
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "riemdp"
[tool.flwr.app.components]
serverapp = "simulation.server:app"
clientapp = "simulation.client:app"
[tool.flwr.app.config]
"""
_MODULE = """\
from riemdp.federated.flower import _simulate

app = _simulate.virtual_{side}({folder!r})
"""


def simulate(
    prirfed: PriRFed,
    datasets: Sequence[Any],
    initial: Point,
    budget: Budget | None = None,
    rng: int | None = None,
    *,
    ledger: Ledger | None = None,
    timing: Timing | None = None,
    groups: Sequence[object] | None = None,
    records_per_person: int = MOST,
    cpus_per_agent: int = 1,
) -> FederatedResult:
    """Run PriRFed on Flower's simulation engine, one virtual agent for each data set.

    It runs the same core as `run_in_process`, with every message passing through the engine. The
    records lie in a temporary folder that only this user can read, until the run ends.
    `result.gradient_calls` is 0, because agents do not report theirs.

    It starts the engine's server on loopback, in simulation mode, and `flwr run` with an app that
    finds the settings in that folder. Where the system allows it (`unshare`), both have a loopback
    and processes of their own: nobody else on the machine reaches them, and nothing outlives the
    call. Where it does not, a user of the same machine could send the engine an app while the
    simulation runs.

    The arguments that are not listed here are those of `run_in_process`.

    Args:
        ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.
        timing: How long a round waits.
        cpus_per_agent: How many processors the engine reserves for an agent at work.

    Raises:
        InvalidArgument: Naming the argument. Nothing is charged.
        MissingExtra: Flower's simulation engine is not installed. Nothing is charged.
        BudgetExceeded: Before anything is drawn.
        RiemdpError: The engine stopped before the run ended; the whole plan was charged.

    Guarantee:
        As in `PriRFed`, charged before anything is drawn.
    """
    cpus = integer("cpus_per_agent", cpus_per_agent)
    refuse_sent(budget, ledger)
    point = check_initial(prirfed.problem, initial)
    checked = check_datasets(prirfed.problem, datasets)
    setup = Setup(prirfed, point, budget, agents=len(checked))
    sizes = [n for _, n in checked]
    if groups is not None:
        people = people_of(prirfed.problem, checked, groups, records_per_person)
        sizes = [members.n for members, _ in people]
        setup = dataclasses.replace(setup, unit=PERSON, records_per_person=records_per_person)
    plan = plan_federated(prirfed, sizes, budget)
    plan = plan.for_people() if setup.of_people else plan
    check_affordable(plan.guarantee, ledger)
    told = _Told(setup, timing or _PATIENT, rng, without_noise=budget is None)
    with _workplace(told, [data for data, _ in checked], groups) as folder:
        # all is imported, written down and found; what is left is to start the engine
        receipt = charge(plan.guarantee, ledger).receipt
        log = _run(folder, len(checked), cpus)
        if not (Path(folder) / "ended").exists():
            raise RiemdpError(
                "the simulation engine stopped before the run ended. The whole plan was charged."
                f" The end of its log:\n{log}"
            )
        finished = make_coordinator(
            _told(folder).setup, {str(i): n for i, n in enumerate(sizes)}, noise_source(rng)
        )
        finished.load(Path(folder) / "ended")
    result = result_of(
        finished,
        plan,
        reproducible=rng is not None,
        engine=" on Flower",
        status="completed" if finished.finished else "interrupted",
        places=None if groups is None else records_per_person,
    )
    return dataclasses.replace(result, receipt=receipt)


@dataclasses.dataclass(frozen=True)
class _Told:
    """What the processes of one simulation find in its folder."""

    setup: Setup
    timing: Timing
    rng: int | None
    without_noise: bool


def _run(folder: str, sites: int, cpus: int) -> str:
    """Run the engine to its end; the last lines of its log."""
    env = os.environ | {
        "FLWR_HOME": str(Path(folder) / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, _host.__file__, folder, str(sites), str(cpus)]
    process = subprocess.Popen([*_host.prefix(), *command], env=env, start_new_session=True)
    try:
        process.wait()
    finally:
        _end(process)
    log = Path(folder) / "engine.log"
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(none)"


def _end(process: subprocess.Popen[bytes], patience: float = 40.0) -> None:
    """End a session that was interrupted: it is asked to, and then made to."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def virtual_server(folder: str) -> ServerApp:
    """The server of a simulation, in a process of the engine."""
    told = _told(folder)
    return server_app(
        lambda _: told.setup,
        timing=told.timing,
        rng=told.rng,
        on_done=lambda server: server.save(Path(folder) / "ended"),
    )


def virtual_client(folder: str) -> ClientApp:
    """Every site of a simulation: which one it is, the engine's node configuration says."""
    told = _told(folder)
    return client_app(
        lambda _: told.setup,
        lambda node: _data_of(folder, node)[0],
        load_groups=lambda node: _data_of(folder, node)[1],
        site=functools.partial(_site_of, folder, told.without_noise),
        rng=told.rng,
    )


@contextlib.contextmanager
def _workplace(
    told: _Told, datasets: Sequence[Any], groups: Sequence[object] | None
) -> Iterator[str]:
    """A private folder with the settings, each agent's records and labels, the app and the engine's
    own home; gone afterwards.
    """
    try:
        from ray import cloudpickle  # of lambdas in a problem or a learning rate, too
    except ImportError as error:
        raise MissingExtra(
            "a simulation on Flower's engine needs Ray, which has no release for every Python:"
            " install it with pip install ray (Python 3.11 to 3.13), or use"
            " riemdp.federated.run_in_process, which needs no engine. Nothing was charged"
        ) from error
    with tempfile.TemporaryDirectory(
        prefix="riemdp-simulation-", ignore_cleanup_errors=True
    ) as folder:
        place = Path(folder)
        if told.setup.shared is not None:
            names = [str(i) for i in range(len(datasets))]
            keys = tuple((name, new_key_file(place / f"key-{name}")) for name in names)
            told = dataclasses.replace(told, setup=dataclasses.replace(told.setup, keys=keys))
        (place / "told").write_bytes(cloudpickle.dumps(told))  # pyright: ignore[reportPrivateImportUsage]
        for i, data in enumerate(datasets):
            labels = None if groups is None else groups[i]
            (place / f"agent-{i}").write_bytes(
                pickle.dumps((jax.tree.map(np.asarray, data), labels), protocol=5)
            )
        (app := place / "app" / "simulation").mkdir(parents=True)
        (place / "app" / "pyproject.toml").write_text(_PROJECT)
        (app / "__init__.py").touch()
        for side in ("server", "client"):
            (app / f"{side}.py").write_text(_MODULE.format(side=side, folder=folder))
        yield folder


def _site_of(folder: str, without_noise: bool, node: Mapping[str, Any]) -> Site:
    name = str(node["partition-id"])
    counted = Path(folder) / f"answers-{name}.json"
    key = Path(folder) / f"key-{name}"
    return Site(name=name, answers=counted, key=key, without_noise=without_noise)


@functools.lru_cache(maxsize=1)
def _told(folder: str) -> _Told:
    return pickle.loads((Path(folder) / "told").read_bytes())  # written by this very run


def _data_of(folder: str, node: Mapping[str, Any]) -> tuple[Any, Any]:
    """Records and labels of one agent."""
    return pickle.loads((Path(folder) / f"agent-{int(node['partition-id'])}").read_bytes())
