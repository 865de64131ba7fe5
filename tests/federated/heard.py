"""What a site's app sends over Flower, for tests."""

from __future__ import annotations

from typing import Any

from riemdp.federated import Refused
from tests.seam import over_flower


def heard(reply: Any) -> Any:
    """What a site's app has sent; `Refused`, where it declines."""
    said = over_flower().fact(reply.content, "declined")
    if said is not None:
        raise Refused(said)
    return reply
