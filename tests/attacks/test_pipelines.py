"""Attacks on the steps of a pipeline: labels in an array, shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.privacy import split_budget
from tests.seam import Doors

ODD = ("other", b"other", 2j, 0.5, float("nan"), None, 2**70, 10**400, object())


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{type(odd).__name__}-{str(odd)[:6]}")
@pytest.mark.parametrize(
    "classes",
    [[False, True], [0, 1], [0.5, 1.5], ["left", "right"], [2**53 + 1, 7], [np.float32(0.1), 3]],
    ids=str,
)
def test_fault_34_one_label_does_not_move_the_others_through_the_type_of_an_array(classes, odd):
    """NumPy makes text, floats or complex numbers of all labels beside one of another type.
    Before: "other" in an array of True and False, and 2j in any array of numbers, left every other
    record without a class.
    """
    y = [classes[i % 2] for i in range(1, 40)]
    alone = Doors.admit_labels("y", np.array(y, dtype=object), classes)
    together = np.array([odd, *y])
    if together.dtype == object:
        together = np.array([odd, *y], dtype=object)
    found = Doors.admit_labels("y", together, classes)
    assert np.array_equal(found[1:], alone)
    assert np.array_equal(alone, np.arange(1, 40) % 2)


@pytest.mark.parametrize("odd", ["other", 2j])
def test_fault_34_one_label_moves_the_sums_of_classes_by_no_more_than_the_sensitivity(odd):
    """Before: one label of text emptied both of the classes False and True."""
    a = np.random.default_rng(0).normal(size=(600, 2, 20))
    X = a @ a.transpose(0, 2, 1) / 20
    y = [bool(i % 2) for i in range(600)]

    def fitted(labels):
        model = riemdp.PrivateTSClassifier(
            budget=Budget(8.0, 1e-5),
            ball=Ball(np.eye(2), 2.0),
            labels="private",
            classes=[False, True],
            random_state=1,
        )
        return model.fit(X, np.array(labels)).release_

    honest, one = fitted(y), fitted([odd, *y[1:]])
    sizes = np.subtract(honest.details["sizes"], one.details["sizes"])
    assert np.linalg.norm(sizes) <= 2.0 * np.sqrt(2.0) + 1e-6


@pytest.mark.parametrize(
    "shares", [[0.5, 0.5 + 9e-13], [0.1] * 10, [1 / 3] * 3, [1 / 7] * 7, [1.0 + 9e-13]], ids=len
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
def test_pure_shares_are_together_at_most_the_whole(epsilon, shares):
    """Exactly, in rational numbers. Before: up to 1e-12 more."""
    parts = split_budget(Budget(epsilon), shares)
    spent = sum(Fraction(part.epsilon) for part in parts)
    assert spent <= Fraction(epsilon)
    assert spent >= Fraction(epsilon) * Fraction(1 - 1e-11)


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-5), Budget(1.0)], ids=str)
@pytest.mark.parametrize("groups", [None, np.arange(400) // 2], ids=["records", "people"])
def test_shares_of_tangent_spaces_are_together_within_the_whole(budget, groups):
    """Before: with `groups` another noise, and two halves cost more than the whole."""
    X = np.tile(np.diag([1.0, 1.5]), (400, 1, 1))
    with riemdp.Ledger(budget) as ledger:
        for part in split_budget(budget, [0.5, 0.5]):
            space = riemdp.PrivateTangentSpace(budget=part, ball=Ball(np.eye(2), 1.0))
            space.fit(X, groups=groups)
    assert ledger.spent.epsilon(budget.delta) <= budget.epsilon


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_the_last_record_does_not_decide_whether_there_is_an_error(sampling):
    """Neighbours have one record more or fewer, and 1 and 0 are neighbours. Before: an error."""
    optimizer = riemdp.DPRSGD(
        steps=4, batch_size=5, population=10, clip_norm=1.0, sampling=sampling
    )
    problem, start = riemdp.problems.principal_eigenvector(3), np.ones(3) / np.sqrt(3.0)
    one, none = (
        riemdp.private_minimize(
            problem, np.ones((n, 3)), start, optimizer, Budget(1.0, 1e-5), rng=1
        )
        for n in (1, 0)
    )
    assert np.isfinite(none.value).all()
    assert (none.steps, none.details) == (one.steps, one.details)
    assert none.guarantee == one.guarantee
