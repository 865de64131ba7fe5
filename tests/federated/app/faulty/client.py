"""Agent side of the deployment test: good agents, and a hostile one that goes through the faults
round by round.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp

import riemdp
from riemdp.federated import flower

DIM = 4
GRACE = 25.0
# What the hostile agent does in each round; in the others it behaves.
FAULTS = {0: "nan", 1: "shape", 3: "off", 4: "antipode", 5: "exception", 6: "late"}


def make_setup(config):
    local = riemdp.DPRGD(steps=1, learning_rate=0.1, clip_norm=2.0)
    problem = riemdp.problems.principal_eigenvector(DIM)
    prirfed = riemdp.PriRFed(problem, local, rounds=int(config["rounds"]), agents_per_round=5)
    least = int(config.get("min-agents", 3))
    budget = riemdp.Budget(20.0, 1e-5)
    return flower.Setup(prirfed, np.eye(DIM)[0], budget, agents=5, min_agents=least)


def load_records(node):
    rows = np.random.default_rng(int(node["partition-id"])).normal(size=(50, DIM)) * [
        1.0,
        2.0,
        0.5,
        0.5,
    ]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def site(node):
    """The agent, with a ledger and a count of answers on its own disk."""
    book = Path(str(node["book"]))
    ledger = riemdp.Ledger(riemdp.Budget(1000.0, 1e-5), path=book)
    answers, settings = book.with_suffix(".answers"), dict(node)
    return flower.Site(str(node["name"]), answers, settings=settings, ledger=ledger)


good = flower.client_app(make_setup, load_records, site=site)
app = ClientApp()


@app.query("hello")
def greet(message, context):
    return good(message, context)


@app.train()
def train(message, context):
    number = int(message.content["facts"]["round"])
    if number == context.node_config.get("stops-in"):
        Path(str(context.node_config["marker"])).touch()
        time.sleep(600.0)  # killed meanwhile
    reply = good(message, context)
    fault = FAULTS.get(number) if context.node_config.get("hostile") else None
    current = message.content["arrays"].to_numpy_ndarrays()[0]
    if fault == "exception":
        raise RuntimeError("a hostile agent fails on purpose")
    if fault == "late":
        time.sleep(
            GRACE + 8.0
        )  # missing in its own round; it comes in the next one, where nobody waits for it
    elif fault is not None:
        bad = {
            "nan": np.full(DIM, np.nan),
            "shape": np.zeros(DIM + 3),
            "off": 5.0 * current,
            "antipode": -current,
        }
        reply.content["arrays"] = ArrayRecord([bad[fault]])
    return reply
