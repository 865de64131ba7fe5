"""What a hospital runs. Replace `load_records` by your own loader: it runs in your house only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riemdp import Budget, Ledger
from riemdp.datasets import covariance_descriptors
from riemdp.federated import flower

from .setup import ETA, make_setup


def load_records(node: Mapping[str, Any]) -> np.ndarray:
    """This hospital's share of scikit-learn's digit images, as covariance descriptors (stands for
    your own images).
    """
    from sklearn.datasets import load_digits

    images = load_digits().images / 16.0
    mine = images[int(node["partition-id"]) :: int(node["num-partitions"])]
    return np.asarray(covariance_descriptors(mine, eta=ETA))


def book(node: Mapping[str, Any]) -> Ledger | None:
    """The hospital's own ledger, a file in its own house: whatever the server asks for, no more
    than this is ever released.
    """
    path = node.get("book")
    return None if path is None else Ledger(Budget(5.0, 1e-5), path=str(path))


app = flower.client_app(make_setup, load_records, ledger=book)
