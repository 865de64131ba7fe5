"""Matrices that are singular up to rounding are found by a stated threshold, not by the sign that
rounding gave their smallest eigenvalue.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, check_records
from tests.seam import Means

SPACES = [riemdp.SPDAffineInvariant, riemdp.SPDLogEuclidean, riemdp.SPDBuresWasserstein]


def signals(n: int, k: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 1e-5 * np.einsum("ij,njt->nit", rng.normal(size=(k, k)), rng.normal(size=(n, k, 100)))


def covariances(x: np.ndarray) -> np.ndarray:
    return x @ x.transpose(0, 2, 1) / x.shape[-1]


def average_reference(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=1, keepdims=True)


def without_components(x: np.ndarray) -> np.ndarray:
    """What ICA leaves when two components are taken out."""
    k = x.shape[1]
    q = np.linalg.qr(np.random.default_rng(3).normal(size=(k, k)))[0][:, : k - 2]
    return q @ (q.T @ x)


def in_other_units(x: np.ndarray) -> np.ndarray:
    """One channel in volts among others in microvolts."""
    return average_reference(x) * np.array([1e-6, *[1.0] * (x.shape[1] - 1)])[:, None]


DAMAGED = {
    "average reference": (average_reference, 1),
    "in single precision": (lambda x: average_reference(x).astype(np.float32).astype(float), 1),
    "after ICA": (without_components, 2),
    "units": (in_other_units, 1),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_all_singular_matrices_are_found_with_their_rank(kind) -> None:
    """At cb83de5 those of one sign: about half of them, while the others had condition 1e16."""
    damage, lost = DAMAGED[kind]
    X = covariances(damage(signals(300, 5)))
    signs = np.linalg.eigvalsh(X)[:, 0] > 0.0
    assert signs.any()
    X = np.concatenate([X, covariances(signals(20, 5))])
    for space in SPACES:
        found = check_records(space(5), X)
        assert [r.index for r in found] == list(range(300))
        reason = f"is singular up to rounding (its rank is {5 - lost} of 5)"
        assert {r.reason for r in found} == {reason}
    both = riemdp.Product(riemdp.Sphere(2), riemdp.SPDAffineInvariant(5))
    pairs = (np.tile([1.0, 0.0], (320, 1)), X)
    assert [r.index for r in check_records(both, pairs)] == list(range(300))


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("space", SPACES)
def test_a_release_counts_all_of_them_as_the_centre_whatever_the_sign(kind, space) -> None:
    """Those whose smallest eigenvalue rounding made positive were moved to the ball's surface."""
    X = covariances(DAMAGED[kind][0](signals(60, 5)))
    signs = np.linalg.eigvalsh(X)[:, 0] > 0.0
    assert signs.any()
    assert not np.asarray(space(5).belongs(X)).any()
    given = Ball(1e-10 * np.eye(5), 1e-6 if space is riemdp.SPDBuresWasserstein else 3.0)

    def released(records: np.ndarray) -> np.ndarray:
        budget = Budget(1.0, 1e-6)
        how = {"mechanism": "wrapped-gaussian", "rng": 1, "count_outside": False}
        return riemdp.private_frechet_mean(space(5), records, given, budget, **how).value

    np.testing.assert_array_equal(released(X), released(np.full_like(X, np.nan)))


def test_ill_conditioned_and_indefinite_matrices_are_told_from_singular_ones() -> None:
    space = riemdp.SPDAffineInvariant(3)
    graded = np.diag([1e-12, 1.0, 1e12])  # rounding harms no entry
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = q @ np.diag([1e-10, 1.0, 1.0]) @ q.T
    assert check_records(space, np.stack([graded, (turned + turned.T) / 2])) == []
    indefinite = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    far = np.array([[1e-300, 1e300, 0.0], [1e300, 1e-300, 0.0], [0.0, 0.0, 1.0]])
    nothing = np.zeros((3, 3))
    reasons = [r.reason for r in check_records(space, np.stack([indefinite, far, nothing]))]
    assert reasons[:2] == ["is not positive definite (it has a negative eigenvalue)"] * 2
    assert reasons[2] == "is singular up to rounding (its rank is 0 of 3)"


def test_a_private_call_says_one_sentence_for_all_data() -> None:
    """It hangs on the released count alone."""
    X = covariances(average_reference(signals(400, 3)))
    space, ball, budget = riemdp.SPDLogEuclidean(3), Ball(1e-10 * np.eye(3), 1.5), Budget(1.0, 1e-6)
    with pytest.warns(riemdp.RiemdpWarning, match="singular up to rounding") as caught:
        release = riemdp.private_frechet_mean(space, X, ball, budget, rng=1)
    count = release.details["outside"]
    assert isinstance(count, Means.OutsideCount)
    assert str(caught[0].message) == count.caution
    other = Means.OutsideCount(count.count, count.deviation, count.n, count.share)
    assert other.caution == count.caution
    with pytest.warns(riemdp.RiemdpWarning, match="singular up to rounding"):
        riemdp.private_frechet_mean(space, np.full((400, 3, 3), np.nan), ball, budget, rng=1)
