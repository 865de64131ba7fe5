"""Releases of several parts: what they cost together is stated in one place, and held to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import riemdp as R
from riemdp import Budget, Ledger, gaussian
from riemdp.randomness import noise_source
from tests.seam import Sums

LINE = R.Euclidean(1)
WHOLE = Budget(1.0, 1e-6)


class Watched(R.mechanisms.AbstractMechanism[float]):
    """Draws nothing, and says that it was asked to."""

    name = "watched"

    def __init__(self, multiplier: float):
        self.multiplier, self.draws = multiplier, 0

    @property
    def guarantee(self) -> R.Guarantee:
        return gaussian(self.multiplier)

    def _admit(self, value: Any) -> float:
        return float(value)

    def _draw(self, value: float, source: R.NoiseSource) -> R.mechanisms.Drawn:
        self.draws += 1
        return R.mechanisms.Drawn(np.asarray(value), 1.0)


def parts(multiplier: float, count: int, divided: Any) -> tuple[Watched, Any]:
    part = Watched(multiplier)
    made = [part._ready(0.0) for _ in range(count)]
    return part, Sums.Apart(gaussian(1.0), "parts", made, divided)


def test_parts_that_everybody_knows_cost_the_most_of_one():
    divided = Sums.PublicParts(np.array([0, 1, 1, 2, -1]), 3)
    _, apart = parts(1.0, 3, divided)
    with Ledger(Budget(10.0, 1e-6)) as ledger:
        assert len(apart.release(0)) == 3
    assert ledger.spent == gaussian(1.0)
    assert ledger.charges == 1
    part, dear = parts(0.9, 3, divided)
    with pytest.raises(R.RiemdpError, match="more than was charged"):
        dear.release(0)
    assert part.draws == 0


def test_parts_that_see_the_same_records_add_up():
    first, second = Watched(2.0**0.5), Watched(2.0**0.5)
    whole = gaussian(1.0)
    both = Sums.InTurn(whole, "both", first._ready(0.0), lambda made: second._ready(made.value))
    with Ledger(Budget(10.0, 1e-6)) as ledger:
        one, other = both.release(0)
    assert (ledger.spent, ledger.charges) == (whole, 1)
    assert one.receipt == other.receipt
    dear = Watched(1.0)
    with pytest.raises(R.RiemdpError, match="more than was charged"):
        Sums.InTurn(whole, "both", first._ready(0.0), lambda _: dear._ready(0.0)).release(0)
    assert dear.draws == 0


def test_no_record_is_in_two_parts():
    places = np.random.default_rng(0).integers(-1, 4, 200)
    divided = Sums.PublicParts(places, 4)
    found = np.concatenate(divided.rows)
    assert len(found) == len(np.unique(found)) == np.count_nonzero(places >= 0)
    assert divided.sizes == [np.count_nonzero(places == part) for part in range(4)]
    assert divided.people(0) is None


def test_nobody_is_in_two_parts():
    members = Sums.Membership(np.array(["a", "a", "b", "c", "c"]), 5)
    divided = Sums.PublicParts(np.array([0, 0, 1, 1, 1]), 2, members)
    assert divided.sizes == [1, 2]
    assert list(divided.people(1)) == [1, 2, 2]
    for places in ([0, 1, 1, 1, 1], [0, 0, 1, 1, 0], [0, -1, 1, 1, 1]):
        with pytest.raises(R.InvalidArgument, match="several domains"):
            Sums.PublicParts(np.array(places), 2, members, what="domains")


def test_the_unit_is_that_of_the_value():
    """What has folded a person's records says so: the guarantee is for people, and so is what was
    counted beside it. No wrapper, and no argument of a public call."""
    X, ball = np.linspace(-1.0, 1.0, 40)[:, None], R.Ball(np.zeros(1), 0.5)
    groups = np.arange(40) % 20
    for mechanism in ("wrapped-gaussian", "tangent-mean", "riemannian-laplace"):
        given: dict[str, Any] = {"mechanism": mechanism, "count_outside": True, "rng": 0}
        of_records = R.private_frechet_mean(LINE, X, ball, WHOLE, **given)
        of_people = R.private_frechet_mean(LINE, X, ball, WHOLE, groups=groups, **given)
        assert of_records.guarantee.unit == of_records.details["outside"].unit == "record"
        assert of_people.guarantee.unit == of_people.details["outside"].unit == "person"
    spread = R.private_frechet_variance(LINE, X, ball, WHOLE, groups=groups, rng=0)
    assert spread.guarantee.unit == "person"
    mechanism = R.mechanisms.VarianceNoise(LINE, ball, n=40, budget=WHOLE)
    assert mechanism.release(X, noise_source(0)).guarantee.unit == "record"
