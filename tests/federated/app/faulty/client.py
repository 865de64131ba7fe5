"""Agent side of the deployment test: good agents, and a hostile one that goes through the faults round by round."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp

import riemdp
from riemdp.federated import flower

DIM = 4


def make_setup(config):
    local = riemdp.DPRGD(steps=1, learning_rate=0.1, clip_norm=2.0)
    rounds = int(config["rounds"])
    prirfed = riemdp.PriRFed(riemdp.problems.principal_eigenvector(DIM), local, rounds=rounds, agents_per_round=3)
    return flower.Setup(prirfed, np.eye(DIM)[0], riemdp.Budget(20.0, 1e-5), agents=3, min_agents=3)


def load_records(node):
    rows = np.random.default_rng(int(node["partition-id"])).normal(size=(50, DIM)) * [1.0, 2.0, 0.5, 0.5]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


good = flower.client_app(make_setup, load_records)
app = ClientApp()


@app.query("hello")
def greet(message, context):
    return good(message, context)


@app.train()
def train(message, context):
    reply = good(message, context)
    if not context.node_config.get("hostile"):
        return reply
    current = message.content["point"].to_numpy_ndarrays()[0]
    number = int(message.content["facts"]["round"]) % 5
    if number == 4:
        raise RuntimeError("a hostile agent fails on purpose")
    bad = [np.full(DIM, np.nan), np.zeros(DIM + 3), 5.0 * current, -current][number]
    reply.content["point"] = ArrayRecord([bad])
    return reply
