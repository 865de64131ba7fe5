"""A site that shares its noise: the two lines of an app, and faults that its node asks for."""

from __future__ import annotations

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
    stages = Path(str(context.node_config.get("stages", "")))
    if stages.is_dir():
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
    return site(message, context)
