"""Sigma and guarantee of twenty-one settings, as numbers that no change of the code may move."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, DPRSVRG, Ball, Budget, SPDAffineInvariant, Sphere, problems
from riemdp.optimizers import AbstractOptimizer, plan_optimizer

DELTA = 1e-5
SPD = SPDAffineInvariant(3)
MEAN = problems.frechet_mean(SPD, ball=Ball(np.eye(3), 1.0))
ROUND = problems.frechet_mean(Sphere(4), ball=Ball(np.eye(4)[0], 0.5))
EIGEN = problems.principal_eigenvector(6)
PROBLEMS = {"mean": MEAN, "round": ROUND, "eigen": EIGEN}


# (problem, n, optimiser, epsilon or noise_std) -> sigma, epsilon at DELTA
SETTINGS = [
    ("mean", 200, DPRGD(20, 0.1), {"epsilon": 1.0}, 0.6673556747574367, 0.9999999999989032),
    ("mean", 200, DPRGD(), {"epsilon": 0.3}, 2.0103225085437195, 0.2999999999996713),
    (
        "mean",
        200,
        DPRGD(sensitivity="domain"),
        {"epsilon": 1.0},
        0.4220727883344075,
        0.999999999998903,
    ),
    (
        "round",
        100,
        DPRGD(7, sensitivity="domain"),
        {"epsilon": 2.0},
        0.12537881845772364,
        1.9999999999977673,
    ),
    ("eigen", 50, DPRGD(30, 0.3, 0.5), {"noise_std": 0.05}, 0.05, 11.191738978129113),
    (
        "eigen",
        3000,
        DPRGD(12, 0.3, "adaptive"),
        {"epsilon": 1.0},
        0.011174610114380179,
        0.999999999998903,
    ),
    ("mean", 1000, DPRSGD(50, 20, 0.1), {"epsilon": 1.0}, 0.4295870001819856, 0.9971822303124804),
    ("mean", 1000, DPRSGD(), {"epsilon": 0.5}, 0.3711865317743897, 0.49865100597511264),
    (
        "mean",
        1000,
        DPRSGD(50, 20, 0.1, sensitivity="domain"),
        {"epsilon": 1.0},
        0.2147935000909928,
        0.9971822303124804,
    ),
    ("eigen", 1000, DPRSGD(50, 20, 0.1, 0.7), {"noise_std": 0.2}, 0.2, 0.1904689694395482),
    (
        "eigen",
        1000,
        DPRSGD(50, 20, 0.1, 0.7, sampling="poisson"),
        {"epsilon": 1.0},
        0.03680222933665962,
        0.9972265952580149,
    ),
    (
        "eigen",
        1000,
        DPRSGD(50, 20, 0.1, 0.7, sampling="poisson"),
        {"noise_std": 0.2},
        0.2,
        0.07781882030449991,
    ),
    (
        "eigen",
        1000,
        DPRSGD(50, 20, 0.1, 0.7, sampling="poisson", adjacency="replace-one"),
        {"epsilon": 1.0},
        0.052464786038676596,
        0.9964044965008939,
    ),
    (
        "eigen",
        4000,
        DPRSGD(40, 400, 0.1, "adaptive", sampling="poisson"),
        {"epsilon": 2.0},
        0.00442989612851028,
        1.994590233210585,
    ),
    (
        "eigen",
        300,
        DPRSGD(20, 60, 0.1, 0.7, sampling="allocation"),
        {"epsilon": 1.0},
        0.039862286592739514,
        0.9967783027752988,
    ),
    (
        "eigen",
        300,
        DPRSGD(24, 60, 0.1, 0.7, sampling="allocation", population=310),
        {"noise_std": 0.1},
        0.1,
        0.3822743102233463,
    ),
    (
        "mean",
        500,
        DPRSVRG(2, 10, 0.1, batch_size=50),
        {"epsilon": 1.0},
        0.0880082601489847,
        0.999566166545698,
    ),
    ("mean", 500, DPRSVRG(2, 10, 0.1, batch_size=50), {"noise_std": 0.1}, 0.1, 1.2281816511352759),
    (
        "eigen",
        500,
        DPRSVRG(2, 10, 0.1, 0.7, full_clip_norm=0.9, batch_size=50, variant="as-published"),
        {"epsilon": 1.0},
        0.1744377218468183,
        0.9928284316648119,
    ),
    (
        "eigen",
        500,
        DPRSVRG(2, 10, 0.1, 0.7, batch_size=50, variant="as-published"),
        {"noise_std": 0.3},
        0.3,
        0.46945604461175744,
    ),
]


@pytest.mark.parametrize(("problem", "n", "optimizer", "given", "sigma", "epsilon"), SETTINGS)
def test_sigma_and_guarantee_are_what_they_were(
    problem: str,
    n: int,
    optimizer: AbstractOptimizer,
    given: dict[str, float],
    sigma: float,
    epsilon: float,
) -> None:
    budget = Budget(given["epsilon"], DELTA) if "epsilon" in given else None
    plan = plan_optimizer(PROBLEMS[problem], n, optimizer, budget, noise_std=given.get("noise_std"))
    assert plan.sigma == pytest.approx(sigma, rel=1e-9)
    assert plan.guarantee().epsilon(DELTA) == pytest.approx(epsilon, rel=1e-9)
