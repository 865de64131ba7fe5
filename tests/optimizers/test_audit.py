"""Every optimiser, attacked over several steps with its worst neighbours: sound as it is, refuted
with a fault planted.

10^5 runs a side of the compiled steps of `private_minimize` (`test_replicated_runs_are_the_runs`
ties the two); error rate 1e-6.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

from riemdp import DPRGD, DPRSGD, DPRSVRG, private_minimize, problems
from tests.optimizers import audits
from tests.optimizers.audits import CLIP, OPTIMIZERS, N, excess, scores
from tests.seam import Gradients, replicate

ALL = list(OPTIMIZERS)


@pytest.mark.parametrize("name", ALL)
def test_no_claim_is_refuted(name):
    assert excess(*scores(*OPTIMIZERS[name])) <= 0


@pytest.mark.parametrize("name", ALL)
def test_less_noise_is_caught(name):
    assert excess(*scores(*OPTIMIZERS[name], kind=audits.LessNoise)) > 0


def test_a_planted_class_has_a_program_of_its_own():
    """Else the sound program could run in its place, and an audit would prove nothing."""
    batches = Gradients.Batches(N, N, "full")
    sound = Gradients.NoisyGradient(CLIP, 1.0, batches).on_lattice()
    planted = sound.as_kind(audits.LessNoise)
    assert type(planted) is audits.LessNoise
    assert jax.tree.leaves(planted) == jax.tree.leaves(sound)
    assert jax.tree.structure(planted) != jax.tree.structure(sound)


def test_the_attack_itself_is_calibrated():
    """Two equal data sets refute nothing; the exact Gaussian is not refuted, and one with a tenth
    less noise is.
    """
    from riemdp import gaussian

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, audits.TRIALS))
    assert excess(a, b, gaussian(50.0)) <= 0
    assert -0.02 < excess(a + 1.0, b, gaussian(1.0)) <= 0
    assert excess(a + 1.0 / 0.9, b, gaussian(1.0)) > 0


# ------------------------------------------------------------------------------------------------
# what was attacked is what runs
P = problems.principal_eigenvector(4)
X = np.random.default_rng(0).normal(size=(50, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "optimizer",
    [
        DPRGD(6, 0.3),
        DPRSGD(6, 8, 0.3, output="geodesic-average"),
        pytest.param(
            DPRSGD(6, 8, 0.3, sampling="poisson", output="uniform"), marks=pytest.mark.slow
        ),
        DPRSVRG(2, 5, 0.3, batch_size=4, restarts=2, output="uniform"),
        pytest.param(
            DPRSVRG(2, 5, 0.3, batch_size=4, variant="as-published", output="geodesic-average"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda o: f"{type(o).__name__}-{o.output}",
)
def test_replicated_runs_are_the_runs(optimizer):
    """With one repetition and the same seed, both ways give the same point and guarantee."""
    start = np.eye(4)[0]
    values, claim = replicate(P, X, start, optimizer, noise_std=0.05, repetitions=1, rng=3)
    run = private_minimize(P, X, start, optimizer, None, noise_std=0.05, rng=3)
    np.testing.assert_allclose(values[0], run.value, atol=1e-12)
    assert claim.epsilon(1e-5) == run.guarantee.epsilon(1e-5)
