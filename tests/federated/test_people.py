"""Federated runs that protect everything of one person: what one person changes, whatever the
records are and however many, and what is stated of it.
"""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Budget, Ledger, noise_source
from riemdp.federated import PriRFed, run_in_process
from riemdp.optimizers import DPRGD
from tests.seam import Gradients, Masks, Sites
from tests.statistical import ALPHA, gaussian_p_value

SPHERE = riemdp.Sphere(3)
NORTH = np.eye(3)[2]
BALL = riemdp.Ball(NORTH, 0.7)
PROBLEM = riemdp.problems.frechet_mean(SPHERE, ball=BALL)
CLIP = 0.8
LOCAL = DPRGD(steps=1, learning_rate=0.25, clip_norm=CLIP)
BUDGET = Budget(2.0, 1e-5)


def site(n: int, key: int) -> np.ndarray:
    x = noise_source(key).normals((n, 3)) * 0.3 + np.array([0.4, 0.0, 1.0])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


SITES = [site(n, i) for i, n in enumerate((80, 60, 70))]
GROUPS = [np.arange(80) // 4, np.arange(60) // 3, np.repeat([0, 1], 35)]
PEOPLE = (20, 20, 2)


def shared(**changed) -> PriRFed:
    told = {"rounds": 2, "agents_per_round": 3, "noise": "shared", "tolerated": 1} | changed
    return PriRFed(PROBLEM, LOCAL, **told)


PLAN = Sites.plan_shared(shared(), BUDGET)


def summed(records: np.ndarray, labels: np.ndarray, places: int = 16, seed: int = 0) -> np.ndarray:
    people = Gradients.People(records, len(records), labels, places).drawn(noise_source(seed))
    return whole(people) * PLAN.grid


def whole(records) -> np.ndarray:
    """What a site adds, before noise, in steps of the grid."""
    return Sites.summed_gradients(shared(), PLAN, records, NORTH)


def by_hand(records: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The sum over people of the mean of the clipped gradients, in ambient coordinates."""
    gradients = -2.0 * np.asarray(SPHERE.log(NORTH, records))
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped = gradients * np.minimum(1.0, CLIP / lengths)
    return np.sum([clipped[labels == a].mean(axis=0) for a in np.unique(labels)], axis=0)


def test_a_sum_over_people_is_the_sum_of_their_means() -> None:
    for x, labels in zip(SITES[:2], GROUPS[:2], strict=True):
        found = np.asarray(SPHERE.from_coordinates(NORTH, summed(x, labels)))
        np.testing.assert_allclose(found, by_hand(x, labels), atol=1e-12)
    # who has every record twice counts as before, and so does a person with very many
    twice = np.repeat(SITES[0], 2, axis=0), np.repeat(GROUPS[0], 2)
    np.testing.assert_allclose(summed(*twice), summed(SITES[0], GROUPS[0]), atol=1e-12)


@pytest.mark.parametrize("places", [1, 3, 16])
def test_one_person_moves_a_sum_by_no_more_than_one_record(places: int) -> None:
    x, labels = SITES[0], GROUPS[0]
    others, mine = x[4:], labels[4:]
    ends = [np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0]), np.full(3, np.nan), -NORTH]
    ends += [np.zeros(3), np.full(3, 1e300)]
    found = []
    for record in ends:
        for count in (1, 5, 40):
            own = np.tile(record, (count, 1))
            own[1::5] = np.nan
            people = np.concatenate([own, others]), np.concatenate([np.zeros(count, int), mine])
            found.append(summed(*people, places=places))
    gaps = [float(np.linalg.norm(a - b)) for a in found for b in found]
    assert max(gaps) <= 2 * CLIP
    assert max(gaps) > 0.99 * 2 * CLIP  # attained, so the claim is not loose
    # records that all count change it by more: the test can fail
    many = np.tile(ends[0], (40, 1))
    one, two = (whole(np.concatenate([x, others])) for x in (many, -many))
    assert float(np.linalg.norm(one - two)) > 30 * PLAN.moved


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_a_run_of_people_is_a_run_of_as_many_records(noise: str) -> None:
    told = {} if noise == "shared" else {"noise": "local", "tolerated": 0}
    ledger = Ledger(BUDGET)
    result = run_in_process(
        shared(**told), SITES, NORTH, BUDGET, rng=4, groups=GROUPS, ledger=ledger
    )
    plain = run_in_process(
        shared(**told), [x[:n] for x, n in zip(SITES, PEOPLE, strict=True)], NORTH, BUDGET, rng=4
    )
    assert result.sigma == plain.sigma
    assert (
        result.details["sizes"]
        == plain.details["sizes"]
        == dict(zip(("agent-0", "agent-1", "agent-2"), PEOPLE, strict=True))
    )
    for guarantee in (result.guarantee, result.participation_guarantee(1), ledger.spent):
        assert guarantee.unit == "person"
        assert "all records of one person are at one site" in guarantee.assumes
    assert result.guarantee.epsilon(1e-5) == plain.guarantee.epsilon(1e-5)
    assert result.guarantee.within(BUDGET)
    assert (plain.guarantee.unit, result.details["people"]) == ("record", 42)
    assert "one person" in str(result)
    assert all(r.moved for r in result.rounds)


def test_a_run_of_people_takes_the_steps_of_their_means() -> None:
    """With next to no noise: the sites together take the steps of all people in one place."""
    plenty = Budget(300.0, 0.1)
    result = run_in_process(shared(), SITES, NORTH, plenty, rng=4, groups=GROUPS)
    x = NORTH
    for _ in range(2):
        total = np.zeros(3)
        for records, labels in zip(SITES, GROUPS, strict=True):
            gradients = -2.0 * np.asarray(SPHERE.log(x, records))
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            clipped = gradients * np.minimum(1.0, CLIP / lengths)
            total += sum(clipped[labels == a].mean(axis=0) for a in np.unique(labels))
        x = np.asarray(SPHERE.exp(x, -0.25 * total / 42))
    # two people have 35 records, of which 16 are drawn: this moves the mean by less than that
    assert float(SPHERE.dist(result.value, x)) < 8 * result.sigma + 0.02
    assert result.sigma < 0.02


def test_a_local_answer_is_one_of_people() -> None:
    """A person with nearly all records of a site moves its answer as one record does."""
    prirfed = shared(noise="local", tolerated=0)
    x = SITES[0].copy()
    x[:60] = [1.0, 0.0, 0.0]
    people = Sites.Belonging(x, np.concatenate([np.zeros(60, int), np.arange(1, 21)]))
    silent = Sites.updated(prirfed, people, NORTH, 1e-9, Gradients.Account(), rng=3)
    assert silent.guarantee.unit == "person"
    moved = -np.asarray(SPHERE.to_coordinates(NORTH, SPHERE.log(NORTH, silent.value))) / 0.25
    np.testing.assert_allclose(moved, summed(x, people.groups) / 21, atol=1e-6)


def keys_and_roster(*names: str) -> tuple[dict[str, Masks.Keys], Masks.Roster]:
    keys = {name: Masks.Keys.new(name) for name in names}
    agreed = {n: k.long_term for n, k in keys.items()}
    return keys, Masks.Roster.of(None, agreed, {n: k.fresh for n, k in keys.items()}, least=2)


def test_a_site_that_cannot_pay_draws_nothing() -> None:
    people, source = Sites.Belonging(SITES[0], GROUPS[0], 2), noise_source(3)
    little = Gradients.Account(Ledger(Budget(1e-3, 1e-9)))
    plan = Sites.plan_shared(shared(), BUDGET)
    with pytest.raises(riemdp.BudgetExceeded):
        Sites.noisy_sum(shared(), plan, people, NORTH, little, source)
    assert np.array_equal(source.normals(3), noise_source(3).normals(3))


def test_shared_noise_for_people_has_its_distribution() -> None:
    prirfed, names = shared(), ("a", "b", "c")
    plan = Sites.plan_shared(prirfed, BUDGET)
    keys, roster = keys_and_roster(*names)
    context, source = Sites.context_of(SPHERE, NORTH), noise_source(3)
    exact = sum(summed(x, labels, 64) for x, labels in zip(SITES, GROUPS, strict=True))

    def errors(times: int, doubled: bool) -> np.ndarray:
        found = []
        for number in range(times):
            words = []
            for name, x, labels in zip(names, SITES, GROUPS, strict=True):
                question = Masks.Question("ab" * 32, number, roster, context)
                records = np.repeat(x, 2, axis=0) if doubled else x
                own = np.arange(len(records)) if doubled else labels
                people = Sites.Belonging(records, own, 64)
                account = Gradients.Account()
                one = Sites.noisy_sum(prirfed, plan, people, NORTH, account, source)
                words.append(Masks.masked(one, keys[name], question))
            value = plan.value(Masks.total(words), 1e4)
            assert value is not None
            found.append(value - exact)
        return np.array(found)

    sigma = plan.sigma_of(3)
    assert gaussian_p_value(errors(40, False), sigma) > ALPHA
    assert gaussian_p_value(errors(40, True), sigma) < ALPHA  # labels that are not used
