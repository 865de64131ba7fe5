"""The agent's side on Flower: its own loader, calibration, noise and ledger."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from ..._errors import BudgetExceeded, RiemdpError
from ...optimizers._minimize import check_data
from ...privacy import Ledger
from .._aggregate import validate_reply
from .._drive import Setup
from .._in_process import local_update
from ._messages import fact, hello, pack, unpack

LoadRecords = Callable[[Mapping[str, Any]], Any]


def client_app(
    make_setup: Callable[[Mapping[str, Any]], Setup],
    load_records: LoadRecords,
    *,
    rng: int | None = None,
    ledger: Callable[[Mapping[str, Any]], Ledger | None] | None = None,
) -> ClientApp:
    """A Flower ClientApp for one agent of PriRFed.

    **Arguments.** `make_setup(run_config) -> Setup`: the public settings, the same code as on the
    server. `load_records(node_config) -> array`: this agent's records, along the first axis; they
    never leave the agent. `rng`: None draws noise from this machine's operating system; a seed
    (simulation only) makes it reproducible and not private. `ledger(node_config) -> Ledger`: the
    agent's own book; every invitation that it answers is charged there first, and one that would
    exceed it is declined.

    The agent is known by `name` in its node configuration, else by its `partition-id`, else by its
    node number. It does not trust the server for its noise: sigma comes from its own `make_setup`
    and its own number of records. A point that is not on the manifold is declined. Why it failed is
    written to its own log only: the server learns that it failed. Whether the server draws agents
    as it says is beyond an agent's control; what it can bound by itself, whatever the server does,
    is its own `ledger`.

    **Guarantee:** each reply is `plan.local` of `PriRFed` for this agent's records, replace-one, by
    itself.
    """
    app = ClientApp()

    @app.query("hello")
    def greet(message: Message, context: Context) -> Message:
        with _discreet():
            setup = make_setup(context.run_config)
            _, n = check_data(setup.prirfed.problem, load_records(context.node_config))
            return Message(
                hello(agent_name(context), n, _sigma(setup, n, context)), reply_to=message
            )

    @app.train()
    def train(message: Message, context: Context) -> Message:
        with _discreet():
            setup = make_setup(context.run_config)
            current = unpack(message.content, setup.initial)
            if current is None or not validate_reply(
                setup.prirfed.problem.manifold, current, current
            ):
                raise Declined("declined: the server sent no valid point. Nothing was spent")
            records, n = check_data(setup.prirfed.problem, load_records(context.node_config))
            book = None if ledger is None else ledger(context.node_config)
            seed = (
                None
                if rng is None
                else _seed(rng, agent_name(context), fact(message.content, "round"))
            )
            done = local_update(
                setup.prirfed, records, current, _sigma(setup, n, context), rng=seed, ledger=book
            )
            return Message(pack(done.value, records=n), reply_to=message)

    return app


class Declined(RiemdpError):
    """What an agent tells the server instead of a reply. Nothing of a record is in it."""


@contextlib.contextmanager
def _discreet() -> Iterator[None]:
    """Keeps the text of any other exception at home.

    The engine sends the message of an exception to the server, and a loader's message may quote a
    record ("could not convert ... to float"). The agent's own log has the whole story.
    """
    try:
        yield
    except Declined:
        raise
    except BudgetExceeded as error:
        raise Declined(
            "declined: this agent's own ledger has not enough budget left. Nothing was spent"
        ) from error
    except Exception as error:
        raise Declined("this agent could not answer; its own log says why") from error


def agent_name(context: Context) -> str:
    """How the agent is known to the server: public."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", context.node_id)))


def _sigma(setup: Setup, n: int, context: Context) -> float | None:
    """This agent's noise; kept in the engine's per-agent state, because a fresh process may handle
    every message.
    """
    if setup.budget is None:
        return None
    local, problem = setup.prirfed.local, setup.prirfed.problem
    key = hashlib.sha256(
        repr(
            (
                type(problem.manifold),
                problem.manifold.shape,
                getattr(problem.ball, "radius", None),
                problem.smoothness,
                problem.convexity,
                problem.lipschitz,
                local,
                setup.prirfed.rounds,
                setup.prirfed.participation,
                setup.prirfed.invited_per_round,
                setup.agents,
                setup.budget,
                n,
            )
        ).encode()
    ).hexdigest()
    known = context.state.get("riemdp")
    if isinstance(known, ConfigRecord) and known.get("key") == key:
        return float(known["sigma"])  # type: ignore[arg-type]
    sigma = setup.sigma(n)
    assert sigma is not None
    context.state["riemdp"] = ConfigRecord({"key": key, "sigma": sigma})
    return sigma


def _seed(rng: int, name: str, round_number: Any) -> int:
    return int.from_bytes(
        hashlib.sha256(f"{rng}/{name}/{round_number}".encode()).digest()[:8], "big"
    )
