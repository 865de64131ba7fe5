"""Random batches whose guarantee is for a record in the place of another."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import riemdp
from riemdp import DPRSGD, Budget, Euclidean, InvalidArgument
from riemdp.audit import audit_optimizer
from riemdp.privacy import Guarantee
from riemdp.problems import frechet_mean
from tests.seam import Gradients, plant

BUDGET = Budget(3.0, 1e-5)
PROBLEM = frechet_mean(Euclidean(2), ball=riemdp.Ball(np.zeros(2), 1.0))


def sgd(**settings: object) -> DPRSGD:
    return DPRSGD(steps=20, batch_size=10, clip_norm=1.0, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_a_run_spends_its_budget_on_replacements_with_less_noise(sampling: str) -> None:
    replaced = sgd(sampling=sampling, adjacency="replace-one").plan(PROBLEM, 100, BUDGET, None)
    fixed = sgd().plan(PROBLEM, 100, BUDGET, None)
    guarantee = replaced.guarantee()
    assert guarantee.adjacency == "replace-one"
    assert guarantee.within(BUDGET)
    assert guarantee.epsilon(BUDGET.delta) >= 0.995 * BUDGET.epsilon
    assert replaced.sigma < 0.85 * fixed.sigma
    alone = sgd(sampling=sampling).plan(PROBLEM, 100, BUDGET, None)
    assert replaced.sigma < 2.0 * alone.sigma


def is_refuted() -> bool:
    """Whether an audit finds more than the claim of a run whose adjacency replaces a record."""
    optimizer = DPRSGD(
        steps=1, batch_size=2, sampling="poisson", adjacency="replace-one", clip_norm=1.0
    )
    found = audit_optimizer(optimizer, noise_std=0.5, records=4, trials=4000, delta=1e-3, rng=5)
    return found.refuted


def test_an_audit_stays_below_the_claim_and_refutes_the_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not is_refuted()

    def as_if_removed(guarantee: Guarantee) -> Guarantee:
        return dataclasses.replace(guarantee, adjacency="replace-one")

    with monkeypatch.context() as patch:
        plant(patch, "guarantees under replacement", as_if_removed)
        Gradients.guarantee.cache_clear()
        assert is_refuted()
    Gradients.guarantee.cache_clear()


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="adjacency"):
        sgd(adjacency="add-or-remove-one")
    with pytest.raises(InvalidArgument, match="population"):
        sgd(sampling="poisson", adjacency="replace-one", population=100)
    assert sgd(sampling="poisson", adjacency="add-or-remove-one").counts_are_private
