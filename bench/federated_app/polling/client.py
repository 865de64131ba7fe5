"""Agents of the benchmark: principal eigenvector of 100 records of R^16 each."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import riemdp
from riemdp.federated import flower

DIM, AGENTS = 16, 3


def make_setup(config):
    local = riemdp.DPRGD(steps=1, learning_rate=0.1, clip_norm=2.0)
    problem = riemdp.problems.principal_eigenvector(DIM)
    prirfed = riemdp.PriRFed(problem, local, rounds=int(config["rounds"]), agents_per_round=AGENTS)
    return flower.Setup(prirfed, np.eye(DIM)[0], riemdp.Budget(10.0, 1e-5), agents=AGENTS)


def load_records(node):
    rows = np.random.default_rng(int(node["partition-id"])).normal(size=(100, DIM))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def site(node):
    name = str(node["name"])
    answers = Path(os.environ["FLWR_HOME"]) / f"answers-{name}.json"
    return flower.Site(name, answers, settings=dict(node))


app = flower.client_app(make_setup, load_records, site=site)
