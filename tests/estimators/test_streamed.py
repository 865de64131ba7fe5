"""Estimators refuse a large file that would be taken into memory whole."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument
from riemdp.estimators import PrivateMDM, PrivatePCA
from tests.domains.test_stream import mapped
from tests.seam import plant

BALL = Ball(np.eye(2), 1.0)
BUDGET = Budget(5.0, 1e-6)
N = 700

pytestmark = pytest.mark.filterwarnings("ignore:about", "ignore::riemdp.RiemdpWarning")


@functools.cache
def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(N, 2, 6))
    y = rng.integers(0, 3, size=N)
    X = (1.0 + y[:, None, None]) * (a @ a.transpose(0, 2, 1)) / 6
    X[3], X[300] = np.nan, -np.eye(2)
    return X, np.array(["left", "right", "rest"])[y]


def fitted(X: Any, y: np.ndarray, groups: Any = None, **given: Any) -> PrivateMDM:
    options: dict[str, Any] = {
        "ball": BALL,
        "count_outside": True,
        "on_invalid": "center",
        "metric": "logeuclid",
        **given,
    }
    return PrivateMDM(budget=BUDGET, random_state=2, **options).fit(X, y, groups=groups)


@pytest.mark.parametrize(
    "take",
    [
        lambda X, y: fitted(X, y, ball=None, count_outside=None),
        lambda X, y: fitted(X, y),
        lambda X, y: fitted(
            X,
            y,
            labels="private",
            classes=["left", "right"],
            groups=np.arange(N) // 2,
        ),
        lambda X, y: PrivatePCA(1, row_norm=1.0, budget=BUDGET).fit(X),
        lambda X, y: riemdp.optimizers.private_principal_eigenvector(X, BUDGET, row_norm=1.0),
    ],
    ids=["search", "ball", "groups", "pca", "eigenvector"],
)
def test_a_large_file_is_never_taken_into_memory_silently(tmp_path, monkeypatch, take) -> None:
    plant(monkeypatch, "bytes taken whole", 1000)
    X, y = records()
    if "PCA" in str(take.__code__.co_names) or "eigenvector" in str(take.__code__.co_names):
        X = np.nan_to_num(X).reshape(N, 4)
    with pytest.raises(InvalidArgument, match=r"would be taken into memory.*numpy\.asarray"):
        take(mapped(tmp_path, X), y)
