"""The agent's side on Flower: reads messages, and lets `answer` decide what leaves the site."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from ..._errors import BudgetExceeded, InvalidArgument
from ...optimizers._minimize import check_data
from ...privacy import Ledger
from .._agent import answer, answer_sum, check_agreement, check_cost, keys_of, next_key
from .._drive import log
from .._setup import Setup
from .._site import Refused, Site
from ._engine import shown
from ._messages import fact, hello, pack, pack_words, unpack

NodeConfig = Mapping[str, Any]
LoadRecords = Callable[[NodeConfig], Any]


def client_app(
    make_setup: Callable[[Mapping[str, Any]], Setup] | None = None,
    load_records: LoadRecords | None = None,
    *,
    site: Callable[[NodeConfig], Site] | None = None,
    rng: int | None = None,
    ledger: Callable[[NodeConfig], Ledger | None] | None = None,
) -> ClientApp:
    """A Flower ClientApp for one site of PriRFed, which trusts neither the server nor the run.

    What the site may answer comes from its own file, named by `site` in its node configuration:
    `--node-config 'site="/path/to/site.toml"'` (see `Site`). The run configuration, which the
    person who starts a run can choose, decides nothing; where it contradicts the site's agreement,
    the site declines and says so. Without such a file the node configuration itself is handed to
    `make_setup`, and answers are counted in the folder `riemdp` of FLWR_HOME.

    The server learns the site's name, its number of records, its noise, and that it declined or
    failed. Why it failed is written to the site's own log only. Whether the server draws agents as
    it says is beyond a site's control; its own limits hold whatever the server does.

    Args:
        make_setup: The agreed settings from `Site.settings`, the same code as on the server. None:
            they are those of the agreement that the site's file names.
        load_records: The site's records, along the first axis, from its node configuration and the
            `data` of its file. None: the .npy file that `file` in [data] names. They never leave
            the site.
        site: The site from the node configuration. None: as above.
        rng: None draws noise from this machine's operating system; a seed (simulation only) makes
            it reproducible and not private.
        ledger: A ledger for a site whose file names none.

    Returns:
        The app.

    Guarantee:
        Each reply is `plan.local` of `PriRFed` for this site's records, replace-one, by itself. No
        round is answered twice, and there are no more answers than the site's limits allow. Each
        is counted, and charged, in the site's files before its noise is drawn.
    """
    app = ClientApp()

    def enter(context: Context) -> tuple[Site, Setup, Any, int, float | None]:
        """The site, its settings, its records, how many, and its noise."""
        node = context.node_config
        here = site_of(node, make_setup, context.node_id) if site is None else site(node)
        if ledger is not None and here.ledger is None:
            here = dataclasses.replace(here, ledger=ledger(node))
        setup = _setup_of(here, make_setup, context.run_config)
        load = load_file if load_records is None else load_records
        records, n = check_data(setup.prirfed.problem, load({**node, **here.data}))
        return here, setup, records, n, _sigma(setup, n, context)

    @app.query("hello")
    def greet(message: Message, context: Context) -> Message:
        with _discreet():
            here, setup, _, n, sigma = enter(context)
            check_agreement(here, setup, fact(message.content, "agreement"))
            check_cost(here, setup, n, sigma)
            key = "" if setup.shared is None else keys_of(here, setup).fresh.hex()
            return Message(hello(here.name, n, sigma, key), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        with _discreet():
            here, setup, records, n, sigma = enter(context)
            round_number = fact(message.content, "round")
            asked = (here, setup, records, unpack(message.content, setup.initial), round_number)
            agreement = fact(message.content, "agreement")
            seed = None if rng is None else _seed(rng, here.name, round_number)
            if setup.shared is None:
                done = answer(*asked, sigma=sigma, agreement=agreement, rng=seed)
                reply = pack(done.value, records=n)
            else:
                words = answer_sum(*asked, _members(message), agreement=agreement, rng=seed)
                reply = pack_words(words, records=n, key=next_key(here, setup))
            with shown():
                log.info("%s", here.status(setup))
            return Message(reply, reply_to=message)

    return app


def _members(message: Message) -> object:
    """The sites of a round and their keys, as the server sent them; None if it sent no lists."""
    names, keys = fact(message.content, "members"), fact(message.content, "keys")
    if not isinstance(names, list) or not isinstance(keys, list) or len(names) != len(keys):
        return None
    return dict(zip(names, keys, strict=True)) if len(set(names)) == len(names) else None


def _setup_of(
    site: Site, make_setup: Callable[[Mapping[str, Any]], Setup] | None, run: Mapping[str, Any]
) -> Setup:
    """The settings that the site has agreed to."""
    if site.agreed is not None:
        other = site.agreed.differences(run)
        if other:
            raise Refused(
                f"declined: the run was started with another {', '.join(other)} than this site has"
                " agreed to. Nothing was spent"
            )
        return site.agreed.setup
    if make_setup is None:
        raise Refused("declined: the file of this site names no agreement. Nothing was spent")
    return make_setup(dict(site.settings))


def load_file(node: NodeConfig) -> np.ndarray:
    """The records of the .npy file `file`, along the first axis; no code in it is run.

    Raises:
        InvalidArgument: The site's file names none.
    """
    if "file" not in node:
        raise InvalidArgument(
            'the site\'s file names no records: write file = "records.npy" into its table [data]'
        )
    return np.load(str(node["file"]), allow_pickle=False)


@contextlib.contextmanager
def _discreet() -> Iterator[None]:
    """Keeps the text of any other exception at the site.

    The engine sends the message of an exception to the server, and a loader's message may quote a
    record ("could not convert ... to float"). The site's own log has the whole story.
    """
    try:
        yield
    except Refused:
        raise
    except BudgetExceeded as error:
        raise Refused(
            "declined: this site's own ledger has not enough budget left. Nothing was sent"
        ) from error
    except Exception as error:
        raise Refused("this site could not answer; its own log says why") from error


def site_of(
    node: NodeConfig, make_setup: Callable[[Mapping[str, Any]], Setup] | None, node_id: int
) -> Site:
    """The site that a node configuration names, or one that the node configuration describes.

    The server gives out `node_id`, so it names a site, and never the file that counts its answers.
    """
    if node.get("site"):
        return Site.read(str(node["site"]))
    if make_setup is None:
        raise InvalidArgument(
            "this node has no site: start it with --node-config 'site=\"/path/to/site.toml\"'"
        )
    own = str(node.get("name", node.get("partition-id", "")))
    home = Path(os.environ.get("FLWR_HOME") or "~/.flwr").expanduser()
    agreement = make_setup(dict(node)).agreement
    file = re.sub(r"\W+", "-", own)[:40] + "-" + hashlib.sha256(own.encode()).hexdigest()[:8]
    return Site(
        name=own or f"node-{node_id}",
        answers=home / "riemdp" / f"answers-{file}-{agreement[:16]}.json",
        settings=dict(node),
    )


def _sigma(setup: Setup, n: int, context: Context) -> float | None:
    """This site's noise, kept in the engine's state at the site: a fresh process may handle every
    message, and a calibration takes seconds.
    """
    if setup.budget is None:
        return None
    key = f"{setup.agreement}/{n}"
    known = context.state.get("riemdp")
    if isinstance(known, ConfigRecord) and known.get("key") == key:
        return float(known["sigma"])  # type: ignore[arg-type]
    sigma = setup.sigma(n)
    assert sigma is not None
    context.state["riemdp"] = ConfigRecord({"key": key, "sigma": sigma})
    return sigma


def _seed(rng: int, name: str, round_number: object) -> int:
    return int.from_bytes(
        hashlib.sha256(f"{rng}/{name}/{round_number}".encode()).digest()[:8], "big"
    )
