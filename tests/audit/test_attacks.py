"""Ready attacks: sound mechanisms stand, planted faults fall, ledgers are left alone."""

from __future__ import annotations

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import Budget, Ledger
from riemdp.audit import audit_mechanism, audit_optimizer
from riemdp.privacy import gaussian, none, pure
from tests.audit.edges import along_the_iterate, off_manifold, outside_the_ball
from tests.public import PACKAGES
from tests.seam import Accounts, Gradients, plant

TRIALS = 20_000
FEW = 5_000  # at the edges of the proofs: so many refute each of the two planted faults


class Fake:
    """A Gaussian release on the line, with a stated and a real noise multiplier."""

    def __init__(self, stated: float, real: float):
        self.stated, self.real = stated, real

    def release(self, value: Any, rng: Any) -> Any:
        noisy = np.asarray(value) + self.real * rng.normals(1)
        return SimpleNamespace(value=noisy, guarantee=gaussian(self.stated), mechanism="fake")


@pytest.mark.parametrize("real", [1.0, 1 / 1.5])
def test_mechanism_attack_refutes_exactly_the_fault(real: float) -> None:
    result = audit_mechanism(
        Fake(1.0, real), np.ones(1), np.zeros(1), trials=TRIALS, score=lambda v: v[:, 0], rng=1
    )
    assert result.refuted == (real < 1.0)
    assert 0.8 / real < result.mu_lower <= 1.02 / real
    assert ("REFUTED" in str(result)) == result.refuted


def test_pure_claims_are_judged_too() -> None:
    laplace = np.random.default_rng(0).laplace(size=(2, TRIALS))
    assert not Accounts.assess(
        "laplace", laplace[0] + 1.0, laplace[1], pure(1.0), delta=0.0
    ).refuted
    assert Accounts.assess("laplace", laplace[0] + 1.0, laplace[1], pure(0.7), delta=0.0).refuted
    assert not Accounts.assess("laplace", laplace[0] + 1.0, laplace[1], none()).refuted


def test_real_mechanism_and_its_twin_with_half_the_sensitivity() -> None:
    plane = riemdp.Euclidean(2)
    mechanism = riemdp.WrappedGaussian(
        plane, np.zeros(2), sensitivity=1.0, budget=Budget(3.0, 1e-5)
    )
    with Ledger(Budget(0.001)) as ledger:  # an attack is not charged
        right = audit_mechanism(mechanism, np.array([1.0, 0.0]), np.zeros(2), trials=1500, rng=2)
    assert ledger.charges == 0
    assert not right.refuted
    assert right.mu_lower > 0.3
    wrong = audit_mechanism(mechanism, np.array([2.0, 0.0]), np.zeros(2), trials=1500, rng=2)
    assert wrong.refuted


FULL = riemdp.DPRGD(10, 0.1, 1.0)


def test_optimizer_attack_is_sharp_and_sees_too_little_noise() -> None:
    right = audit_optimizer(FULL, noise_std=0.1 * 10**0.5, trials=TRIALS, rng=3)
    assert not right.refuted
    assert 0.85 < right.mu_lower <= 1.0
    wrong = audit_optimizer(FULL, noise_std=0.1 * 10**0.5 / 1.5, trials=TRIALS, rng=3)
    assert wrong.mu_lower > 1.2
    # The planted fault: noise 1.5 times too small for the guarantee that is stated.
    fpr_free = dataclasses.replace(wrong, claimed=right.claimed)
    assert fpr_free.mu_lower > right.claimed.parts[0].squared_mu ** 0.5


def test_forgotten_step_is_seen() -> None:
    """The noise of a step left out of the account: eleven steps run, six accounted for."""
    longer = dataclasses.replace(FULL, steps=11)
    found = audit_optimizer(longer, noise_std=0.1 * 6**0.5, trials=TRIALS, rng=4)
    assert found.mu_lower > 1.0  # what six steps would be


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson", "allocation"])
def test_sampled_runs_stand(sampling: str) -> None:
    optimizer = riemdp.DPRSGD(10, 4, 0.01, 1.0, sampling=sampling)
    result = audit_optimizer(optimizer, noise_std=0.25, trials=TRIALS, rng=5)
    assert not result.refuted
    assert result.epsilon_lower > 0.3


@pytest.mark.parametrize(
    ("attack", "optimizer", "noise_std"),
    [
        (off_manifold, riemdp.DPRGD(1, 1e-3, 1.0), 0.5),
        (off_manifold, riemdp.DPRSVRG(1, 1, 1e-3, 1.0), 0.5),
        (along_the_iterate, riemdp.DPRGD(1, 0.05, 1.0, update="retract"), 0.5),
        (outside_the_ball, riemdp.DPRGD(1, 0.01, sensitivity="domain"), 0.1),
    ],
    ids=lambda o: getattr(o, "__name__", type(o).__name__),
)
def test_runs_stand_at_the_edges_of_their_proofs(attack, optimizer, noise_std) -> None:
    space = riemdp.Sphere(3)
    result = audit_optimizer(
        optimizer, noise_std=noise_std, manifold=space, attack=attack, trials=FEW, rng=7
    )
    assert not result.refuted
    assert attack.__name__ in result.name
    if attack is not along_the_iterate:  # where nothing is left to see
        assert result.mu_lower > 0.1


def _unguarded_gradients(self, state, batch, center=None):
    """Norms that hold on the manifold only."""
    z, squares = batch
    inside = (z @ state) ** 2
    outside = jnp.maximum(squares - inside, 0.0) + 1e-14 * squares
    return 2.0 * jnp.sqrt(inside * outside), (z @ state, z)


@pytest.mark.parametrize("missing", ["door", "ball"])
def test_the_same_attacks_refute_runs_without_the_guards(missing, monkeypatch) -> None:
    """Planted: a start that is not projected with a norm that needs it, and a start outside the
    ball with gradients that are not clipped about the centre's.
    """
    if missing == "door":
        plant(monkeypatch, "check of a start", lambda p, w: w)
        plant(monkeypatch, "gradients of rank one", _unguarded_gradients)
        attack, optimizer, noise_std = off_manifold, riemdp.DPRGD(1, 1e-4, 1.0), 0.5
    else:
        monkeypatch.setattr("riemdp.domains.Domain.clamp", lambda domain, w: w)
        kept = Gradients.NoisyGradient.weights
        monkeypatch.setattr(
            Gradients.NoisyGradient, "weights", lambda g, norms, clip: kept(norms, 1e9)
        )
        attack, optimizer = outside_the_ball, riemdp.DPRGD(1, 1e-3, sensitivity="domain")
        noise_std = 0.1
    # A space and a number of records of its own, so that nothing compiled is taken from or left to
    # another test.
    result = audit_optimizer(
        optimizer,
        noise_std=noise_std,
        attack=attack,
        manifold=riemdp.Sphere(6),
        records=23,
        trials=FEW,
        rng=7,
    )
    assert result.refuted


def test_table_lists_every_mechanism_and_optimiser() -> None:
    rows = importlib.import_module("tools.audit_rows")
    titles = " ".join(title for title, *_ in [*rows.mechanisms(), *rows.optimisers()])
    # The mechanisms of a search take records, not values: their transcripts are attacked exactly in
    # tests/mechanisms/test_ball_search.py.
    not_mechanisms = {"Release", "Region", "AbstractMechanism", "AdaptiveMean", "PrivateBall"}
    for name in (*PACKAGES["mechanisms"], "DPRGD", "DPRSGD", "DPRSVRG"):
        assert name in titles or name in not_mechanisms, (
            f"{name} is not audited: add it to tools/audit_rows.py"
        )
