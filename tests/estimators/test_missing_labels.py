"""A missing label is no class: refused by name where labels are public, of no class where they are
private.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger
from tests.seam import Doors

BUDGET, BALL = Budget(1.0, 1e-6), Ball(np.eye(2), 1.5)
A = np.random.default_rng(1).normal(size=(80, 2, 9))
X = A @ A.transpose(0, 2, 1) / 9
NUMBERS, TEXTS = [0, 1] * 40, ["left", "right"] * 40


class Missing:
    """As pandas' NA: no comparison says yes or no."""

    def __ne__(self, other: object) -> bool:
        raise TypeError("ambiguous")

    __eq__ = __ne__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def with_one(labels: list, missing: object) -> list:
    return [missing, *labels[1:]]


def masked(labels: list) -> np.ma.MaskedArray:
    return np.ma.array(labels, mask=[True] + [False] * (len(labels) - 1))


PUBLIC = {
    "NaN": with_one(NUMBERS, float("nan")),
    "an array with NaN": np.array(with_one(NUMBERS, np.nan)),
    "None": with_one(NUMBERS, None),
    "None among texts": with_one(TEXTS, None),
    "an array with None among texts": np.array(with_one(TEXTS, None), dtype=object),
    "NaN among texts": with_one(TEXTS, float("nan")),
    "what NumPy makes of it": np.array(with_one(TEXTS, float("nan"))),
    "NaT": with_one(TEXTS, np.datetime64("NaT")),
    "NA": with_one(TEXTS, Missing()),
    "a masked number": masked(NUMBERS),
    "a masked text": masked(TEXTS),
}


def classifiers(**given: object) -> list:
    return [
        riemdp.PrivateMDM(budget=BUDGET, ball=BALL, **given),
        riemdp.PrivateTSClassifier(budget=BUDGET, ball=BALL, **given),
    ]


@pytest.mark.parametrize("y", PUBLIC.values(), ids=PUBLIC)
def test_a_missing_public_label_is_refused_by_name(y) -> None:
    """At cb83de5 it became a class of its own, or a raw TypeError: accuracy .5 in place of 1."""
    with Ledger(Budget(9.0, 1e-4)) as ledger:
        for model in classifiers():
            with pytest.raises(InvalidArgument, match="`y` has labels that are missing"):
                model.fit(X, y)
        for classes in ([0, 1], ["left", "right"]):
            with pytest.raises(InvalidArgument, match="`y` has labels that are missing"):
                riemdp.PrivateMDM(budget=BUDGET, ball=BALL, classes=classes).fit(X, y)
    assert ledger.charges == 0


@pytest.mark.parametrize("labels", ["public", "private"])
def test_a_missing_class_is_refused_by_name(labels) -> None:
    for model in classifiers(labels=labels, classes=[0.0, 1.0, np.nan]):
        with pytest.raises(InvalidArgument, match="`classes` has labels that are missing"):
            model.fit(X, NUMBERS)


def test_labels_of_several_types_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="`y` has labels of several types"):
        riemdp.PrivateMDM(budget=BUDGET, ball=BALL).fit(X, np.array([0, "a"] * 40, dtype=object))
    with pytest.raises(InvalidArgument, match="`y` is a NoneType"):
        riemdp.PrivateMDM(budget=BUDGET, ball=BALL).fit(X, None)


@pytest.mark.parametrize("y", PUBLIC.values(), ids=PUBLIC)
def test_a_missing_private_label_is_of_no_class_and_no_event(y) -> None:
    number = (np.ma.isMaskedArray(y) and y.dtype.kind == "i") or isinstance(y[1], int | float)
    classes = [0, 1] if number else ["left", "right"]
    found = Doors.admit_labels("y", y, classes)
    np.testing.assert_array_equal(found, [Doors.NO_CLASS, *[1, *[0, 1] * 39]])
    given = {"budget": BUDGET, "ball": BALL, "labels": "private", "classes": classes}
    riemdp.PrivateMDM(random_state=1, **given).fit(X, y)
