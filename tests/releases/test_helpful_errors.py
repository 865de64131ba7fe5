"""Errors of arguments that people mix up: they name the argument and the remedy, and show no value
of a record.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import AdaptiveBall, Ball, Budget, InvalidArgument, private_frechet_mean

SECRET = 0.123456789
SPACE = riemdp.SPDAffineInvariant(3)
BALL = Ball(np.eye(3), 1.0)
BUDGET = Budget(1.0, 1e-6)
X = np.tile(SECRET * np.eye(3), (7, 1, 1))
LIST = list(X)


class DataFrame:
    """What pandas gives to NumPy."""

    def __init__(self, table: np.ndarray):
        self.table, self.shape = table, table.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.table, dtype=dtype)

    def to_numpy(self):
        return self.table

    def __repr__(self):
        return repr(self.table)


def refusal(call) -> str:
    ledger = riemdp.Ledger(Budget(10.0, 1e-3))
    with ledger, pytest.raises(InvalidArgument) as caught:
        call()
    assert ledger.charges == 0
    message = str(caught.value)
    assert "0.12345" not in message
    assert "array([" not in message
    return message


@pytest.mark.parametrize("records", [X, LIST], ids=["array", "list"])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: private_frechet_mean(x, SPACE, BALL, BUDGET), "swapped"),
        (lambda x: riemdp.private_ball(x, SPACE, AdaptiveBall(), BUDGET), "swapped"),
        (lambda x: riemdp.frechet_mean(x, SPACE), "swapped"),
        (lambda x: riemdp.plan_private_mean(BALL, SPACE, 100, BUDGET), "swapped"),
        (lambda x: private_frechet_mean(SPACE, BALL, x, BUDGET), "`ball`"),
        (lambda x: private_frechet_mean(SPACE, x, BUDGET, BALL), "`budget`"),
        (lambda x: private_frechet_mean(SPACE, x, BALL, x), "`budget`"),
        (lambda x: private_frechet_mean(riemdp.SPDAffineInvariant, x, BALL, BUDGET), "the class"),
        (lambda x: private_frechet_mean("riemann", x, BALL, BUDGET), "`manifold` is a str"),
        (lambda x: BALL.clamp(x, SPACE), "Ball.clamp(manifold, x)"),
        (lambda x: riemdp.plan_private_mean(SPACE, BALL, x, BUDGET), "`n`"),
        (lambda x: private_frechet_mean(SPACE, x, BALL, BUDGET, weights=x, n_min=x), "`n_min`"),
    ],
)
def test_arguments_in_another_order_name_the_order_and_no_record(call, words, records):
    assert words in refusal(lambda: call(records))


I, J = np.triu_indices(3)


@pytest.mark.parametrize(
    ("table", "remedy"),
    [
        (X.reshape(7, 9), "X.reshape(-1, 3, 3)"),
        (DataFrame(X.reshape(7, 9)), "X.to_numpy().reshape(-1, 3, 3)"),
        (np.hstack([np.arange(7.0)[:, None], X.reshape(7, 9)]), "X[:, 1:].reshape(-1, 3, 3)"),
        (X[:, I, J], "upper triangles"),
        (X[0], "X[None]"),
    ],
    ids=["rows", "frame", "index", "triangles", "one"],
)
def test_tables_name_what_makes_records_of_them(table, remedy):
    assert remedy in refusal(lambda: private_frechet_mean(SPACE, table, BALL, BUDGET))
    if remedy != "X[None]":
        assert remedy in refusal(lambda: riemdp.frechet_mean(SPACE, table))


@pytest.mark.parametrize(
    "loss",
    [
        lambda w, z: np.linalg.norm(np.asarray(w) - z),
        lambda w, z: float(((w - z) ** 2).sum()),
        lambda w, z: ((w - z) ** 2).sum().backward(),
        lambda w, z: 1.0 if w[0] > z[0] else 0.0,
    ],
    ids=["numpy", "float", "torch", "if"],
)
def test_a_loss_that_jax_cannot_trace_says_what_losses_are(loss):
    problem = riemdp.Problem(riemdp.Euclidean(3), loss)
    optimizer = riemdp.DPRGD(2, 0.1, 1.0)
    message = refusal(
        lambda: riemdp.private_minimize(problem, X[:, 0], np.zeros(3), optimizer, BUDGET)
    )
    assert "`loss`" in message
    assert "jax.numpy" in message
    assert "\n" not in message
