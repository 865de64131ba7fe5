"""What a server hears of its sites, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riemdp.federated import Refused
from tests.seam import Servers, over_flower


def heard(reply: Any) -> Any:
    """What a site's app has sent; `Refused`, where it declines."""
    said = over_flower().fact(reply.content, "declined")
    if said is not None:
        raise Refused(said)
    return reply


def came(server: Any, sent: Mapping[str, Any], claimed: float | None = None) -> Servers.Replies:
    """What a server takes of what its agents have sent."""
    kept = {name: reply for name, reply in sent.items() if server.sound(name, reply, claimed)}
    return Servers.Replies(kept, frozenset(set(sent) - set(kept)))
