"""The agreed settings of the run, the same code at the server and at every hospital.

    python -m hospitals.setup site.toml

prints the settings that a hospital's file stands for, and their fingerprint.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import riemdp
from riemdp.datasets import descriptor_ball
from riemdp.federated import Setup, Site

ETA = 1e-2  # public regularisation of the descriptors: decides their radius


def make_setup(config: Mapping[str, Any]) -> Setup:
    """The settings: the server gives its run configuration, a hospital its own file's [run]."""
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


if __name__ == "__main__":
    agreed = make_setup(Site.read(sys.argv[1]).settings)
    print(agreed.terms + f"agreement: {agreed.agreement}")
