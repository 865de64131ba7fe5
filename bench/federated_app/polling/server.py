"""One run whose rounds wait for their replies in two ways, in turn: our polling, and the engine's
`Grid.send_and_receive`.

Everything else of a round is the same: the invited agents, the message, the checks, the average.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from flwr.app import Message
from flwr.serverapp import ServerApp

from riemdp.federated import flower
from riemdp.federated._drive import make_coordinator
from riemdp.federated._sites import Replies, Waiting
from riemdp.federated.flower._messages import TRAIN, fact, pack, unpack
from riemdp.federated.flower._server import GridTransport
from riemdp.randomness import noise_source

from .client import AGENTS, make_setup

TIMING = flower.Timing(timeout=120.0, grace=60.0, poll=0.1, patience=120.0)
app = ServerApp()


@app.main()
def main(grid, context):
    setup = make_setup(context.run_config)
    transport = GridTransport(grid, setup, ttl=600.0)
    sites = Waiting(transport, TIMING)
    there = sites.there(AGENTS)
    server = make_coordinator(setup, there, noise_source(None))
    took = {"ours": [], "stock": []}
    while not server.finished:
        way = "stock" if len(server.records) % 2 else "ours"
        begin = time.monotonic()
        invited = server.invite(there)
        if way == "ours":
            limits = {"quorum": server.needed, "full": setup.prirfed.agents_per_round}
            number, value = len(server.records), server.value
            replies = sites.ask(invited, value, number, server.sound, **limits)
        else:
            node_of = {name: transport.node_of(name) for name in invited}
            content = pack(server.value, round=len(server.records))
            messages = [
                Message(content, node_of[a], TRAIN, ttl=600.0, group_id=str(len(server.records)))
                for a in invited
            ]
            names = {node_of[a]: a for a in invited}
            replies = Replies({})
            for reply in grid.send_and_receive(messages, timeout=120.0):
                if not reply.has_error():
                    point = unpack(reply.content, setup.initial)
                    agent = names[reply.metadata.src_node_id]
                    if server.sound(agent, point, fact(reply.content, "records")):
                        replies.sound[agent] = point
        record = server.close(replies)
        if record.accepted == AGENTS:
            took[way].append(time.monotonic() - begin)
    Path(str(context.run_config["result-path"])).write_text(json.dumps(took))
