"""The server of the deployments of rounds with shared noise and of a search: an honest one, or one
that lies.

`lies` in the run configuration is "" (honest), "one" (one question that looks right) or "all". What
the sites said to each question is written to `result-path`.
"""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Message
from flwr.serverapp import ServerApp

from riemdp.federated import Agreement, Setup, flower
from riemdp.federated.flower._messages import fact, pack

PATIENCE = 300.0
HELLO, TRAIN = "query.hello", "train"  # the kinds of messages
honest = flower.server_app(
    timing=lambda config: flower.Timing(
        timeout=float(config["timeout"]),
        grace=float(config["grace"]),
        patience=float(config["patience"]),
    )
)
app = ServerApp()


class Liar:
    """Asks all nodes, and notes what they say."""

    def __init__(self, grid, agreed):
        self.grid, self.agreed, self.said = grid, agreed, []
        end = time.monotonic() + PATIENCE
        while len(nodes := sorted(grid.get_node_ids())) < len(agreed.sites):
            if time.monotonic() > end:
                raise RuntimeError("the nodes did not come")
            time.sleep(0.2)
        self.nodes, self.names, self.keys = nodes, {}, {}

    def send(self, messages):
        """Replies in the order of the messages; None where there is none."""
        ids = list(self.grid.push_messages(messages))
        came, end = {}, time.monotonic() + PATIENCE
        while len(came) < len(ids) and time.monotonic() < end:
            for reply in self.grid.pull_messages([i for i in ids if i not in came]):
                came[reply.metadata.reply_to_message_id] = reply
            time.sleep(0.1)
        return [came.get(i) for i in ids]

    def hello(self):
        facts = {"agreement": self.agreed.fingerprint}
        asked = [Message(pack(**facts), node, HELLO, ttl=600.0) for node in self.nodes]
        for node, reply in zip(self.nodes, self.send(asked), strict=True):
            if reply is not None and not reply.has_error():
                self.names[node] = fact(reply.content, "name")
                self.keys[self.names[node]] = fact(reply.content, "key")

    def question(self, node, number, **changed):
        """The message of a round; `changed` replaces a point, or facts (None: left out)."""
        names = sorted(self.keys) or [party.name for party in self.agreed.sites]
        facts = {
            "round": number,
            "agreement": self.agreed.fingerprint,
            "members": names,
            "keys": [self.keys.get(name, "ab" * 32) for name in names],
        }
        if not isinstance(self.agreed.terms, Setup):
            facts |= {"kind": "within", "share": 0.5, "limit": 0.5, "unit": 1.0, "factor": 0}
        facts |= {k: v(self.names.get(node)) if callable(v) else v for k, v in changed.items()}
        point = facts.pop("point", np.eye(2))
        content = pack(point, **{k: v for k, v in facts.items() if v is not None})
        return Message(content, node, TRAIN, ttl=600.0)

    def ask(self, *questions):
        """Several questions, to every site at once: (name, number, changes) each."""
        asked = [(node, *q) for node in self.nodes for q in questions]
        replies = self.send([self.question(node, n, **changed) for node, _, n, changed in asked])
        for (node, name, number, _), reply in zip(asked, replies, strict=True):
            if reply is None:
                words = "nothing"
            elif reply.has_error():
                words = reply.error.reason
            elif (said := fact(reply.content, "declined")) is not None:
                words = said
            else:
                words = "answered"
                self.keys[self.names[node]] = fact(reply.content, "key")
            self.said.append([self.names.get(node, str(node)), name, number, words])


def lies(keys):
    """What a server may try; each must be refused."""
    others = {"members": sorted(keys), "keys": [keys[name] for name in sorted(keys)]}
    return [
        ("another agreement", 0, {"agreement": "0" * 64}),
        ("no agreement", 0, {"agreement": None}),
        ("NaN", 0, {"point": np.full((2, 2), np.nan)}),
        ("the wrong shape", 0, {"point": np.eye(3)}),
        ("off the manifold", 0, {"point": np.diag([1.0, -1.0])}),
        ("outside the ball", 0, {"point": np.exp(1.1) * np.eye(2)}),
        ("no such round", 6, {}),
        ("no roster", 0, {"members": None, "keys": None}),
        (
            "a roster without the site",
            0,
            {
                "members": lambda me: [n for n in others["members"] if n != me],
                "keys": lambda me: [keys[n] for n in others["members"] if n != me],
            },
        ),
        ("a roster of one", 0, {"members": lambda me: [me], "keys": lambda me: [keys[me]]}),
        (
            "a roster with a stranger",
            0,
            {"members": [*others["members"], "z"], "keys": [*others["keys"], "ab" * 32]},
        ),
        (
            "a key that is known to all",
            0,
            {"keys": lambda me: [keys[n] if n == me else "00" * 32 for n in others["members"]]},
        ),
    ]


def lies_of_search(keys):
    """What a server may try in the place of the question 0; each must be refused. A message takes
    seconds of every site: `test_search_flower.py` has more, without an engine.
    """
    also = ("another agreement", "NaN", "a roster of one", "a key that is known to all")
    return [(name, 0, changed) for name, _, changed in lies(keys) if name in also] + [
        ("more than the whole", 0, {"share": 1.01}),
        ("a share that is NaN", 0, {"share": float("nan")}),
        ("a question that was not agreed on", 0, {"kind": "squares"}),
        ("a radius that is infinite", 0, {"limit": float("inf")}),
        ("a number below all", -1, {}),
    ]


@app.main()
def main(grid, context):
    config = context.run_config
    if not config["lies"]:
        honest(grid, context)
        return
    liar = Liar(grid, Agreement.read(str(config["agreement"])))
    if config["lies"] == "one":
        liar.ask(("a question", 0, {}))
    else:
        liar.hello()
        search = not isinstance(liar.agreed.terms, Setup)
        wrong = lies_of_search(liar.keys) if search else lies(liar.keys)
        for i in range(0, len(wrong), 3):
            liar.ask(*wrong[i : i + 3])
        if search:
            # half of the budget; again; no number; more than is left; what is left; and no more
            for number, share in ((3, 0.5), (3, 0.1), (10**6, 0.1), (4, 0.6), (2, 0.5), (5, 1e-9)):
                liar.ask(("a question", number, {"share": share}))
            Path(str(config["result-path"])).write_text(json.dumps(liar.said))
            return
        for number in (0, 0, 1, 1):
            liar.ask(("a question", number, {}))
        liar.hello()  # the sites have given as many answers as they agreed to
        liar.ask(("a question", 2, {}), ("a question", 3, {}))
        liar.ask(("a question", 4, {}), ("a question", 5, {}))
    Path(str(config["result-path"])).write_text(json.dumps(liar.said))
