"""The public settings of the run. Server and hospitals run this same code, so nobody takes the
noise from anybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import riemdp
from riemdp.datasets import descriptor_ball
from riemdp.federated.flower import Setup

ETA = 1e-2  # public regularisation of the descriptors: decides their radius


def make_setup(config: Mapping[str, Any]) -> Setup:
    manifold = riemdp.SPDLogEuclidean(9)  # grey images: 9 x 9 covariance descriptors
    ball = descriptor_ball(1, eta=ETA)
    problem = riemdp.problems.frechet_mean(manifold, ball=ball)
    # Full local gradients of the squared distance; on this flat space a record moves them by at
    # most 4 radius / n.
    local = riemdp.DPRGD(steps=1, learning_rate=0.25, sensitivity="domain")
    prirfed = riemdp.PriRFed(
        problem,
        local,
        rounds=int(config["rounds"]),
        agents_per_round=int(config["agents-per-round"]),
    )
    budget = riemdp.Budget(float(config["epsilon"]), float(config["delta"]))
    return Setup(prirfed, np.eye(9), budget, agents=int(config["agents"]))
