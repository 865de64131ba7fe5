"""Many virtual sites in one process: the apps of a run and the messages between them, as they go
over Flower, and no engine that carries them.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from ...manifolds._base import Point
from ...optimizers._checks import check_initial
from ...privacy import Budget, Ledger, charge
from ...privacy._guarantee import PERSON
from ...privacy._ledger import refuse_sent
from ...privacy._permit import Permit
from ...randomness import noise_source
from .._drive import drive
from .._in_process import AgentsData, FederatedResult, permits_of, result_of
from .._prirfed import PriRFed
from .._secure_sum import new_key_file
from .._site import Site
from .._sites import Timing
from .._terms import Party, Setup
from ._client import client_app
from ._server import GridTransport

_TIMING = Timing(poll=0.001)  # a node of this process has answered before it is waited for
_TTL = 3600.0  # seconds that a message is kept; none is kept that long


def simulate(
    prirfed: PriRFed,
    datasets: Sequence[Any],
    initial: Point,
    budget: Budget | None = None,
    rng: int | None = None,
    *,
    ledger: Ledger | None = None,
    groups: Sequence[object] | None = None,
) -> FederatedResult:
    """Run PriRFed with one virtual site for each data set, which answers Flower's messages.

    It runs the same core as `run_in_process`. Every message is one of Flower and passes the app of
    a site, which counts its answers in a file as every site does. No engine is started, no port is
    opened, and no record leaves this process. `result.gradient_calls` is 0, because agents do not
    report theirs.

    The arguments that are not listed here are those of `run_in_process`.

    Args:
        ledger: The `Ledger` to charge; None charges the innermost `with Ledger(...)`, if any.

    Raises:
        InvalidArgument: Naming the argument. Nothing is charged.
        BudgetExceeded: Before anything is drawn.

    Guarantee:
        As in `PriRFed`, charged before anything is drawn.
    """
    refuse_sent(budget, ledger)
    point = check_initial(prirfed.problem, initial)
    data = AgentsData(prirfed.problem, datasets, groups)
    setup = Setup(prirfed, point, budget, agents=len(data.sizes))
    labels = None if groups is None else list(groups)
    if labels is not None:
        setup = dataclasses.replace(setup, unit=PERSON)
    plan = setup.plan(data.sizes)
    source = noise_source(rng)
    with (
        _workplace(setup, len(data.sizes)) as (setup, folder),
        charge(plan.guarantee, ledger) as permit,
    ):
        permits = permits_of(permit, plan, prirfed.rounds)
        app = client_app(
            lambda _: setup,
            lambda node: data.records[int(node["partition-id"])],
            load_groups=None if labels is None else lambda node: labels[int(node["partition-id"])],
            site=lambda node: _site_of(folder, node, permits, without_noise=budget is None),
            rng=rng,
        )
        nodes: Any = _Nodes(app, len(data.sizes))
        server = drive(setup, GridTransport(nodes, setup, ttl=_TTL), source, timing=_TIMING)
    result = result_of(
        server,
        reproducible=source.reproducible,
        engine=" on Flower",
        status="completed" if server.finished else "interrupted",
    )
    return dataclasses.replace(result, receipt=permit.receipt)


class _Nodes:
    """What a server has of Flower's `Grid`: nodes, each of which answers when a message is sent."""

    def __init__(self, app: ClientApp, count: int):
        self._app, self._sent = app, 0
        self._replies: dict[str, Message] = {}
        self._contexts = {
            i + 1: Context(
                run_id=TaskIdentity.run_id,
                node_id=i + 1,
                node_config={"partition-id": i},
                state=RecordDict(),
                run_config={},
            )
            for i in range(count)
        }

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names: list[str] = []
        for message in messages:
            self._sent += 1
            name = str(self._sent)
            message.metadata.__dict__["_message_id"] = name  # the engine does that
            self._replies[name] = self._app(message, self._contexts[message.metadata.dst_node_id])
            names.append(name)
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]


@contextlib.contextmanager
def _workplace(setup: Setup, sites: int) -> Iterator[tuple[Setup, Path]]:
    """A folder where sites count their answers and, where noise is shared, have their keys, which
    the settings name then. Flower knows who writes a message meanwhile.
    """
    known = dict(vars(TaskIdentity))
    with tempfile.TemporaryDirectory(prefix="riemdp-simulation-") as place:
        folder = Path(place)
        if setup.shared is not None:
            names = [str(i) for i in range(sites)]
            parties = tuple(Party(name, new_key_file(folder / f"key-{name}")) for name in names)
            setup = dataclasses.replace(setup, parties=parties)
        try:
            TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
            yield setup, folder
        finally:
            for name in ("_task_id", "_run_id", "_node_id"):
                setattr(TaskIdentity, name, known[name])


def _site_of(
    folder: Path, node: Mapping[str, Any], permits: Sequence[Permit], *, without_noise: bool
) -> Site:
    name = str(node["partition-id"])
    return Site(
        name=name,
        answers=folder / f"answers-{name}.json",
        key=folder / f"key-{name}",
        without_noise=without_noise,
        paid=permits[int(name)],
    )
