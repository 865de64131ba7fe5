"""What a hospital can look at before its node starts: its own records, for itself alone, and the
way to the server. Nothing is sent, charged or counted.
"""

from __future__ import annotations

import datetime
import email.utils
import http.client
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import InvalidArgument, RiemdpError, warn
from ..domains._check import check_records
from ..domains._label_file import read_labels
from ._door import admit, protocol_of
from ._secure_sum import public_key
from ._site import Refused, Site
from ._terms import SearchTerms, Setup

_SHOWN = 5  # kinds of invalid records, and places of each
_BEHIND, _AHEAD = 240.0, 4.0  # seconds that the engine's server forgives a clock, nearly
_SOON = 30.0  # days before a certificate expires
_NEW = "Its operator makes new ones with ./make_certificates.sh, and sends ca.crt to every site"
_WHY = {  # codes of OpenSSL (X509_V_ERR_...)
    9: "The certificate of {server} is not valid yet by the clock of this machine, {now}. Set the"
    " clock (timedatectl set-ntp true), or ask the operator",
    10: "A certificate of {server} has expired by the clock of this machine, {now}. " + _NEW,
    62: "The certificate of {server} is for another name. Give the name that it was made for, or"
    " its operator makes one for this name: ./make_certificates.sh certificates {host}",
    64: "The certificate of {server} is for another address. Give the name that it was made for, or"
    " its operator makes one for this address: ./make_certificates.sh certificates {host}",
}
_STRANGER = (
    "The certificate of {server} was made by another authority than {authority}. Take the ca.crt of"
    " its operator, and compare it by a way that the server does not control"
)


# ------------------------------------------------------------------------------- a site's own data
def load_file(node: Mapping[str, Any]) -> np.ndarray:
    """The records of the .npy file `file`, along the first axis; no code in it is run.

    Raises:
        InvalidArgument: The site's file names none.
    """
    if "file" not in node:
        raise InvalidArgument(
            'the site\'s file names no records: write file = "records.npy" into its table [data]'
        )
    return np.load(str(node["file"]), allow_pickle=False)


def labels_of_file(node: Mapping[str, Any], rows: int) -> list[Any] | None:
    """The labels of the people of all records, from the file `groups`; None where none is named.

    Raises:
        InvalidArgument: The file is no list of labels.
    """
    if "groups" not in node:
        return None
    column = node.get("groups-column")
    named = f"[data] groups = {str(node['groups'])!r}"
    return read_labels(
        Path(str(node["groups"])), rows, named=named, column=None if column is None else str(column)
    )


def problems_of_data(site: Site) -> list[str]:
    """What is wrong with a site's records, labels, key and limits, and what to do, by line; none
    where the site can answer, with all of its records. **Not private**: for the site alone.
    """
    if site.agreed is None:
        return ["The site's file names no agreement, so nothing is known of its records"]
    terms, protocol = site.agreed.terms, protocol_of(site.agreed.terms)
    try:
        records = load_file(site.data)
        labels = labels_of_file(site.data, protocol.rows(records))
        admit(site, terms, records, agreement=terms.fingerprint, groups=labels)
        found = _invalid(terms, records)
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}. Mend the path in [data]"]
    except RiemdpError as error:
        return [_of_the_site(error)]
    except ValueError:  # NumPy: no .npy file, or one with code in it
        return [
            f"{site.data['file']} is no .npy file of numbers. Write it with numpy.save(path, X)"
        ]
    return found + _problems_of_key(site, terms)


def _of_the_site(error: RiemdpError) -> str:
    """The words of a refusal, which speak to a server, for the site itself."""
    said = str(error)
    if not isinstance(error, Refused):
        return said
    said = said.removeprefix("declined: ").removesuffix(". Nothing was spent")
    return f"A server that asked would hear: {said}"


def _invalid(terms: Setup | SearchTerms, records: Any) -> list[str]:
    """The records that a run would not use as they are."""
    if isinstance(terms, SearchTerms):
        manifold = terms.manifold
    elif terms.prirfed.problem.ball is not None:  # records are points of the space
        manifold = terms.prirfed.problem.manifold
    else:
        whole = np.isfinite(records).reshape(len(records), -1).all(axis=1)
        places = np.flatnonzero(~whole).tolist()
        return [_told_of("is not finite", places, len(records))] if places else []
    reasons: dict[str, list[int]] = {}
    for index, reason in check_records(manifold, records):
        reasons.setdefault(reason, []).append(index)
    return [_told_of(r, places, len(records)) for r, places in list(reasons.items())[:_SHOWN]]


def _told_of(reason: str, places: list[int], n: int) -> str:
    some = ", ".join(map(str, places[:_SHOWN])) + (", ..." if len(places) > _SHOWN else "")
    return (
        f"{len(places)} of {n} records cannot be used: each {reason} (number {some}, counted from"
        " 0). Put them right, or take them out"
    )


def _problems_of_key(site: Site, terms: Setup | SearchTerms) -> list[str]:
    """Whether the site's key is the one that all parties signed."""
    if not terms.shares_noise:
        return []
    if site.key is None:
        return ["Noise is shared, and the site's file names no key. Write it into [files] key"]
    try:
        known = public_key(site.key)
    except RiemdpError as error:
        return [f"{error}. `riemdp federated key` makes one, before the agreement is signed"]
    if terms.public_keys.get(site.name) == bytes.fromhex(known):
        return []
    return [f"The key of {site.key} is not the one that the agreement has for {site.name}"]


# ------------------------------------------------------------------------------ the way to a server
def problems_of_server(server: str, authority: Path) -> list[str]:
    """Why a node would not get through to `server`, "name:port", whose certificate was signed by
    `authority`, and what to do, each in one line. The clock of this machine is held against the
    server's. A certificate that ends within a month is a warning.
    """
    host, _, port = server.rpartition(":")
    now = datetime.datetime.now(datetime.UTC)
    words = {"server": server, "host": host, "authority": authority, "now": f"{now:%Y-%m-%d %H:%M}"}
    try:
        context = ssl.create_default_context(cafile=str(authority))
        connection = http.client.HTTPSConnection(host, int(port), timeout=10.0, context=context)
        connection.request("GET", "/health")
        certificate: Any = connection.sock.getpeercert()
        said = connection.getresponse().getheader("Date")
        connection.close()
        clock = None if said is None else email.utils.parsedate_to_datetime(said).timestamp()
    except FileNotFoundError:
        return [f"{authority} is missing. Its operator sends it to every site"]
    except ssl.SSLCertVerificationError as error:
        return [_WHY.get(error.verify_code, _STRANGER).format(**words)]
    except socket.gaierror:
        return [f"No machine has the name {host}. Mend the name, or ask the operator"]
    except ConnectionRefusedError:
        return [f"Nothing listens at {server}. The server is not running, or on another port"]
    except TimeoutError:
        return [f"{server} does not answer. A firewall is between, or the machine is off"]
    except (OSError, ValueError, http.client.HTTPException) as error:
        return [f"What answers at {server} is no server of a run ({type(error).__name__})"]
    return _problems_of_time(server, certificate, clock, now)


def _problems_of_time(
    server: str, certificate: Mapping[str, Any], clock: float | None, now: datetime.datetime
) -> list[str]:
    """Of the clock, and of a certificate that will not be valid much longer."""
    found: list[str] = []
    if clock is not None:
        ahead = now.timestamp() - clock
        if not -_BEHIND < ahead < _AHEAD:
            way = "ahead of" if ahead > 0 else "behind"
            found.append(
                f"The clock of this machine is {abs(ahead):.0f} s {way} that of {server}, which"
                " would not let its node in. Set it (timedatectl set-ntp true)"
            )
    end = ssl.cert_time_to_seconds(certificate["notAfter"])
    days = (end - now.timestamp()) / 86400.0
    if days < _SOON:
        words = f"the certificate of {server} expires in {max(days, 0.0):.0f} days. {_NEW}"
        warn(words)
    return found


def problems_of_port(port: int) -> list[str]:
    """Whether a port of this machine is free for the node's own processes."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return [
                f"Port {port} of this machine is in use: a node of this site runs already, or"
                " another program. End it, or give another port"
            ]
    return []
