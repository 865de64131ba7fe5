"""What a hospital runs. Replace `load_records` by your own: it runs in your hospital only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riemdp.datasets import covariance_descriptors
from riemdp.federated import flower

from .setup import ETA, make_setup


def load_records(node: Mapping[str, Any]) -> np.ndarray:
    """This hospital's share of scikit-learn's digit images, as covariance descriptors (stands for
    your own images). `node` holds the table [data] of the hospital's site.toml.
    """
    from sklearn.datasets import load_digits

    images = load_digits().images / 16.0
    mine = images[int(node["part"]) :: int(node["parts"])]
    return np.asarray(covariance_descriptors(mine, eta=ETA))


# Limits, settings and ledger come from the hospital's site.toml, named when its node is started.
app = flower.client_app(make_setup, load_records)
