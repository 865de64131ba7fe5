"""The agent's side on Flower: reads messages, and lets `answer` decide what leaves the site."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ..._errors import BudgetExceeded, InvalidArgument, RiemdpError
from .. import _door
from .._check import labels_of_file, load_file
from .._door import admit, answer, next_key, protocol_of
from .._search_sites import Ask
from .._site import Refused, Site, declined
from .._sites import log
from .._terms import SearchTerms, Setup
from ._engine import shown
from ._messages import ASKED, fact, pack, unpack

NodeConfig = Mapping[str, Any]
Load = Callable[[NodeConfig], Any]  # a site's records, or its labels of people
MakeSetup = Callable[[Mapping[str, Any]], Setup]


def client_app(
    make_setup: MakeSetup | None = None,
    load_records: Load | None = None,
    *,
    load_groups: Load | None = None,
    site: Callable[[NodeConfig], Site] | None = None,
    rng: int | None = None,
) -> ClientApp:
    """A Flower ClientApp for one site, which trusts neither the server nor the run. Whether it
    answers rounds of PriRFed or questions of a search, the agreement says that it has signed.

    What the site may answer comes from its own file, named by `site` in its node configuration:
    `--node-config 'site="/path/to/site.toml"'` (see `Site`). The run configuration, which the
    person who starts a run can choose, decides nothing; where it contradicts the site's agreement,
    the site declines and says so.

    The server learns the site's name, its number of records (where people are protected: of people,
    and not how many records anybody has), its noise, and that it declined or failed. Why it failed
    is written to the site's own log only. Whether the server draws agents as it says is beyond a
    site's control; its own limits hold whatever the server does.

    Args:
        make_setup: The agreed settings from `Site.settings`, the same code as on the server. None:
            they are those of the agreement that the site's file names.
        load_records: The site's records, along the first axis, from its node configuration and the
            `data` of its file. None: the .npy file that `file` in [data] names. They never leave
            the site.
        load_groups: One label of a person for each record, from the same; they never leave the
            site, either. None: the labels in the file that `groups` in [data] names (in its column
            `groups-column`, if that is there), or none. An agreement that protects people is
            declined by a site without labels, and one that protects records by a site with labels.
        site: The site from the node configuration. None: as above.
        rng: None draws noise from this machine's operating system; a seed (simulation only) makes
            it reproducible and not private.

    Returns:
        The app.

    Guarantee:
        Each reply is `plan.local` of `PriRFed` for this site's records, or people, replace-one, by
        itself; all replies to one search together have the guarantee of its terms. No round is
        answered twice, and there are no more answers than the site's limits allow. Each is counted,
        and charged, in the site's files before its noise is drawn.
    """
    handlers = _Handlers(make_setup, load_records or load_file, load_groups, site or _site_of, rng)
    app = ClientApp()
    app.query("hello")(_answering(handlers.greet))
    app.train()(_answering(handlers.train))
    return app


@dataclasses.dataclass(frozen=True, eq=False)
class _Entered:
    """A site with its records, for one message."""

    site: Site
    terms: Setup | SearchTerms
    records: Any
    labels: Any
    sigma: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class _Handlers:
    """What a site does with each kind of message; the fields are arguments of `client_app`."""

    make_setup: MakeSetup | None
    load_records: Load
    load_groups: Load | None
    site: Callable[[NodeConfig], Site]
    rng: int | None

    def enter(self, site: Site, context: Context) -> _Entered:
        """The settings of a site, its records with their labels, and its noise."""
        own = {**context.node_config, **site.data}
        terms = _terms_of(site, self.make_setup, context.run_config)
        protocol, records = protocol_of(terms), self.load_records(own)
        rows = protocol.rows(records)
        read = self.load_groups
        labels = labels_of_file(own, rows) if read is None else read(own)
        sigma = _sigma(terms, protocol.size(site.name, records, labels), context)
        return _Entered(site, terms, records, labels, sigma)

    def greet(self, message: Message, context: Context) -> RecordDict:
        """Who the site is, its public number of records, or people, its noise (0: none) and its
        public key of the next answer, where noise is shared.
        """
        with _discreet():
            here = self.site(context.node_config)
        with _discreet(here.name):  # a node that is not enrolled is a number to the server
            found = self.enter(here, context)
            terms, agreement = found.terms, fact(message.content, "agreement")
            known: dict[str, Any] = {"groups": found.labels, "sigma": found.sigma}
            n = admit(here, terms, found.records, agreement=agreement, **known)
            noise = terms.added_noise(n) if found.sigma is None else found.sigma
            facts = {"name": here.name, "records": n, "sigma": float(noise or 0.0)}
            return pack(**facts, key=next_key(here, terms))

    def train(self, message: Message, context: Context) -> RecordDict:
        """The site's answer, with its public key of the next one, where noise is shared."""
        with _discreet():
            found, sent = self.enter(self.site(context.node_config), context), message.content
            here, terms, number = found.site, found.terms, fact(sent, "round")
            done = answer(
                here,
                terms,
                found.records,
                _door.Message(
                    _question(sent, terms), number, _members(message), fact(sent, "agreement")
                ),
                groups=found.labels,
                sigma=found.sigma,
                rng=None if self.rng is None else _seed(self.rng, here.name, number),
            )
            if here.paid is None:  # a person watches this site
                with shown():
                    log.info("%s", here.status(terms))
            return pack(done.value, records=done.records, key=next_key(here, terms))


def _question(sent: Any, terms: Setup | SearchTerms) -> Any:
    """What a server asks: a point and, in a search, numbers; nothing of it has been checked."""
    point = unpack(sent, terms.place)
    if isinstance(terms, Setup):
        return point
    numbers = {name: fact(sent, name) for name in ASKED}
    return Ask(center=point, **numbers)


def _members(message: Message) -> object:
    """The sites of a round and their keys, as the server sent them; None if it sent no lists."""
    names, keys = fact(message.content, "members"), fact(message.content, "keys")
    if not isinstance(names, list) or not isinstance(keys, list) or len(names) != len(keys):
        return None
    return dict(zip(names, keys, strict=True)) if len(set(names)) == len(names) else None


def _terms_of(
    site: Site, make_setup: MakeSetup | None, run: Mapping[str, Any]
) -> Setup | SearchTerms:
    """The settings that the site has agreed to."""
    if site.agreed is not None:
        other = site.agreed.differences(run)
        if other:
            raise declined(
                f"the run was started with another {', '.join(other)} than this site has agreed to"
            )
        return site.agreed.terms
    if make_setup is None:
        raise declined("the file of this site names no agreement")
    return make_setup(dict(site.settings))


def _answering(
    handler: Callable[[Message, Context], RecordDict],
) -> Callable[[Message, Context], Message]:
    """What a site sends: an answer or, where it declines, one line that its own log has, too. An
    exception would be a traceback on the site's terminal.
    """

    def handled(message: Message, context: Context) -> Message:
        try:
            content = handler(message, context)
        except Refused as error:
            content = pack(declined=str(error))
            with shown():
                log.warning("%s", error)
                if error.__cause__ is not None and not isinstance(error.__cause__, RiemdpError):
                    log.error("%s", _place_of(error.__cause__))
        return Message(content, reply_to=message)

    return handled


def _place_of(error: BaseException) -> str:
    """What kind of error it was and where, in one line. Its own words may quote a record, and logs
    travel.
    """
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(where.filename).name}, line {where.lineno}"


@contextlib.contextmanager
def _discreet(name: str = "") -> Iterator[None]:
    """Keeps the text of any other exception at the site. `name`: said in front of what is sent.

    A loader's message may quote a record ("could not convert ... to float"): it is sent nowhere,
    and no log has it.
    """
    try:
        yield
    except Refused as error:
        raise Refused(f"{name} {error}".lstrip()) from error
    except BudgetExceeded as error:
        words = "declined: this site's own ledger has not enough budget left. Nothing was sent"
        raise Refused(f"{name} {words}".lstrip()) from error
    except Exception as error:
        raise Refused(f"{name or 'this site'} could not answer; its own log says why") from error


def _site_of(node: NodeConfig) -> Site:
    """The site that a node configuration names."""
    if not node.get("site"):
        raise InvalidArgument(
            "this node has no site: start it with --node-config 'site=\"/path/to/site.toml\"'"
        )
    return Site.read(str(node["site"]))


def _sigma(terms: Setup | SearchTerms, n: int, context: Context) -> float | None:
    """This site's noise in rounds, kept in the engine's state at the site: a fresh process may
    handle every message, and a calibration takes seconds.
    """
    if not isinstance(terms, Setup) or terms.budget is None:
        return None
    key = f"{terms.fingerprint}/{n}"
    known = context.state.get("riemdp")
    if isinstance(known, ConfigRecord) and known.get("key") == key:
        return float(known["sigma"])  # type: ignore[arg-type]
    sigma = terms.sigma(n)
    assert sigma is not None
    context.state["riemdp"] = ConfigRecord({"key": key, "sigma": sigma})
    return sigma


def _seed(rng: int, name: str, round_number: object) -> int:
    return int.from_bytes(
        hashlib.sha256(f"{rng}/{name}/{round_number}".encode()).digest()[:8], "big"
    )
