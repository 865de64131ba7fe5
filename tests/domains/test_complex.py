"""Complex matrices are refused where the form of the records is looked at."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument


def test_refusals_of_complex_arrays_name_the_embedding():
    h = np.tile(np.array([[2.0, 0.5j], [-0.5j, 3.0]]), (40, 1, 1))
    y = np.arange(40) % 2
    budget, space = Budget(1.0, 1e-5), riemdp.spd(2, "riemann")
    ball = Ball(np.eye(2), 1.0)
    with riemdp.Ledger(Budget(9.0, 1e-4)) as ledger:
        for estimator in (
            riemdp.PrivateFrechetMean(manifold=space, budget=budget, ball=ball),
            riemdp.PrivateMDM(budget=budget, ball=ball),
            riemdp.PrivateTSClassifier(budget=budget, ball=ball),
            riemdp.PrivateTSRegressor((0.0, 1.0), budget=budget, ball=ball),
            riemdp.PrivateTangentSpace(budget=budget, ball=ball),
            riemdp.PrivateTLCenter(budget=budget, ball=ball),
            riemdp.PrivateTLScale(budget=budget, ball=ball),
            riemdp.PrivateTLRotate("a", budget=budget, ball=ball),
        ):
            with pytest.raises(InvalidArgument, match="Hermitian"):
                estimator.fit(h, y)
        assert ledger.charges == 0
    assert "Hermitian" in riemdp.check_records(space, h)[0].reason
    for refused in (
        lambda: riemdp.frechet_mean(space, h),
        lambda: Ball(h[0], 1.0).on(space),
        lambda: space.dist(h, h),
    ):
        with pytest.raises(InvalidArgument, match="Hermitian"):
            refused()
