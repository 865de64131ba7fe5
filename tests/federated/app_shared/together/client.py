"""A site that shares its noise: the two lines of an app, and faults that its node asks for."""

# pyright: reportMissingImports=false
# The extra `federated` need not be installed where the types are checked.
from __future__ import annotations

import time
from pathlib import Path

from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp

from riemdp.federated import flower

site = flower.client_app()
app = ClientApp()


@app.query("hello")
def greet(message, context):
    """With `stages`, a folder: another noise and then another name, before the truth."""
    reply = site(message, context)
    stages = Path(str(context.node_config.get("stages", "none")))
    if stages.is_dir() and "sigma" in reply.content["facts"]:
        stage = len(list(stages.iterdir()))
        (stages / str(stage)).touch()
        facts = dict(reply.content["facts"])
        wrong = [{"sigma": 0.5 * facts["sigma"]}, {"name": "a stranger"}]
        reply.content["facts"] = ConfigRecord(facts | (wrong[stage] if stage < 2 else {}))
    return reply


@app.train()
def train(message, context):
    run = "stages" in context.node_config and Path(str(context.node_config["stages"])).is_dir()
    if run and message.content["facts"]["round"] == context.node_config.get("fails-in"):
        raise RuntimeError("a site fails on purpose")
    reply = site(message, context)
    # `stops`, a folder with the number of a question in a file of this agent's name: the answer to
    # it is in the site's files, and is never sent
    stop = Path(str(context.node_config.get("stops", ""))) / str(context.node_config["name"])
    if stop.is_file() and int(stop.read_text()) == message.content["facts"]["round"]:
        stop.rename(stop.with_suffix(".reached"))
        time.sleep(600.0)
    return reply
