"""A record in the place of another, from guarantees for a record more or less."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from riemdp import Guarantee, gaussian, pure, subsampled_gaussian
from riemdp.privacy import allocated_gaussian, replace_one

Z = 1.0
EPSILONS = (0.1, 0.5, 1.0, 2.0)


AXIS = np.linspace(-8.0, 8.0, 401)
POINTS = np.stack(np.meshgrid(AXIS, AXIS), axis=-1)


def density(centers: list[np.ndarray]) -> np.ndarray:
    """Of a mixture of normal distributions in the plane, of width Z and with equal weights."""
    return np.mean([np.prod(norm.pdf(POINTS - c, scale=Z), axis=-1) for c in centers], axis=0)


def delta_of(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """The exact delta between two densities, by quadrature."""
    gap = np.maximum(one - math.exp(epsilon) * other, 0.0)
    return float(np.sum(gap)) * (AXIS[1] - AXIS[0]) ** 2


def shifts(first: float, second: float) -> list[np.ndarray]:
    """Two steps of an epoch: the record is in one of them, and moves it by so much."""
    return [np.array([first, 0.0]), np.array([0.0, second])]


PAIRS = [  # what the record and the one in its place contribute in each of two steps
    (shifts(1.0, 1.0), shifts(-1.0, -1.0)),
    (shifts(1.0, -1.0), shifts(-1.0, 1.0)),
    (shifts(1.0, 1.0), shifts(0.5, 0.5)),
    (shifts(1.0, 1.0), shifts(0.0, 0.0)),
    (shifts(1.0, 1.0), shifts(1.0, -1.0)),
    (shifts(0.0, 1.0), shifts(0.0, -1.0)),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_no_replacement_of_two_steps_costs_more(pair) -> None:
    bound = replace_one(allocated_gaussian(Z, steps=2))
    one, other = map(density, pair)
    for epsilon in EPSILONS:
        worst = max(delta_of(one, other, epsilon), delta_of(other, one, epsilon))
        assert worst <= bound.delta(epsilon)


def test_the_twin_with_one_step_of_the_chain_is_beaten() -> None:
    """The guarantee for a record more or less says too little of a replacement."""
    alone = allocated_gaussian(Z, steps=2)
    one, other = map(density, PAIRS[0])
    assert all(delta_of(one, other, epsilon) > alone.delta(epsilon) for epsilon in EPSILONS)


def test_full_batches_and_pure_releases_are_exact() -> None:
    for alone, twice in (
        (gaussian(3.0, 2, adjacency="add-or-remove-one"), gaussian(1.5, 2)),
        (pure(0.25, adjacency="add-or-remove-one"), pure(0.5)),
    ):
        assert replace_one(alone) == twice


def test_it_is_better_than_batches_of_a_fixed_size_can_be() -> None:
    """Where all other records pull one way, batches without replacement show a replacement as a
    Poisson step with twice the clip norm shows an addition: no better bound for them exists.
    """

    def batches(z: float, sampling: str) -> Guarantee:
        return subsampled_gaussian(z, population=1000, batch_size=50, steps=40, sampling=sampling)

    attained = batches(1.0, "poisson").epsilon(1e-5)
    fixed = batches(1.0, "without-replacement").epsilon(1e-5)
    allocated = replace_one(allocated_gaussian(2.0, steps=20, epochs=2)).epsilon(1e-5)
    poisson = replace_one(batches(2.0, "poisson")).epsilon(1e-5)
    assert allocated < poisson < 0.9 * attained < 0.9 * fixed


def test_what_is_kept_and_what_is_refused() -> None:
    same = gaussian(2.0)
    assert replace_one(same) is same
    people = replace_one(allocated_gaussian(2.0, steps=10).for_people().assuming("calm weather"))
    assert (people.adjacency, people.unit) == ("replace-one", "person")
    assert people.assumes == "calm weather"
    assert "change together" in str(people)
    assert Guarantee.from_dict(people.to_dict()) == people
    with pytest.raises(ValueError, match="guarantee"):
        replace_one(1.0)  # type: ignore[arg-type]
