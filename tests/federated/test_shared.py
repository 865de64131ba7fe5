"""Rounds with shared noise: the step, the sensitivity, missing agents, settings."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import riemdp
from riemdp import InvalidArgument, noise_source
from riemdp.audit import gaussian_mu_lower_bound
from riemdp.federated import Coordinator, PriRFed, plan_federated, run_in_process
from riemdp.optimizers import DPRGD, DPRSGD, plan_optimizer
from riemdp.privacy import Ledger
from tests.federated.heard import came
from tests.seam import Gradients, Masks, Searches, Sites

SPHERE = riemdp.Sphere(3)
NORTH = np.eye(3)[2]
BALL = riemdp.Ball(NORTH, 0.7)
BUDGET = riemdp.Budget(2.0, 1e-5)
LOCAL = DPRGD(steps=1, learning_rate=0.25, clip_norm=0.8)
PROBLEM = riemdp.problems.frechet_mean(SPHERE, ball=BALL)


def settings(**changed) -> PriRFed:
    told = {"rounds": 2, "agents_per_round": 3, "noise": "shared", "tolerated": 1} | changed
    return PriRFed(told.pop("problem", PROBLEM), told.pop("local", LOCAL), **told)


def datasets(sizes: tuple[int, ...] = (60, 70, 80)) -> list[np.ndarray]:
    source = noise_source(1)
    drawn = [source.normals((n, 3)) * 0.3 + np.array([0.4, 0.0, 1.0]) for n in sizes]
    return [x / np.linalg.norm(x, axis=1, keepdims=True) for x in drawn]


@pytest.mark.parametrize("local", [LOCAL, DPRGD(steps=1, learning_rate=0.25, sensitivity="domain")])
def test_a_round_is_one_step_along_the_mean_gradient(local: DPRGD) -> None:
    """With next to no noise all sites together take the step of one optimiser that has all data."""
    data = datasets()
    plenty = riemdp.Budget(300.0, 0.1)
    run = run_in_process(settings(local=local), data, NORTH, plenty, rng=4)
    assert [r.moved for r in run.rounds] == [True, True]
    central = _steps(np.concatenate(data), local)
    assert float(SPHERE.dist(run.value, central)) < 8 * run.sigma
    assert run.sigma < 1e-2
    assert float(SPHERE.dist(central, NORTH)) > 0.1
    assert "3 sites at most 1" in run.guarantee.assumes
    assert run.guarantee.within(plenty)
    assert run.details["numerics"] == "lattice"
    assert "It assumes" in str(run)


def _steps(records: np.ndarray, local: DPRGD) -> np.ndarray:
    """Two steps by hand."""
    centered = local.sensitivity == "domain"
    x = NORTH
    for _ in range(2):
        points = np.asarray(BALL.on(SPHERE).clamp(records)) if centered else records
        gradients = -2.0 * np.asarray(SPHERE.log(x, points))
        if not centered:
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients = gradients * np.minimum(1.0, 0.8 / lengths)
        x = np.asarray(SPHERE.exp(x, -0.25 * gradients.mean(axis=0)))
        if centered:
            x = np.asarray(BALL.on(SPHERE).clamp(x))
    return x


@pytest.mark.parametrize("centered", [False, True])
def test_one_record_moves_a_sum_by_its_sensitivity(centered: bool) -> None:
    data = datasets((40,))[0]
    here = np.asarray(SPHERE.exp(NORTH, np.array([0.1, 0.2, 0.0])))

    local = dataclasses.replace(LOCAL, sensitivity="domain" if centered else "clip")
    prirfed = settings(local=local)
    clip, plan = prirfed.clip, Sites.plan_shared(prirfed, BUDGET)

    def summed(records: np.ndarray) -> np.ndarray:
        return Sites.summed_gradients(prirfed, plan, records, here)

    first = summed(data)
    moved = []
    for record in (-here, np.full(3, np.nan), np.full(3, 1e300), np.zeros(3), np.eye(3)[0]):
        other = data.copy()
        other[7] = record
        moved.append(float(np.linalg.norm(summed(other) - first)))
    assert max(moved) <= plan.moved == 2 * clip / plan.grid
    pair = [data.copy(), data.copy()]
    far = np.asarray(SPHERE.exp(here, np.asarray(SPHERE.to_tangent(here, np.eye(3)[0]))))
    back = np.asarray(SPHERE.exp(here, -np.asarray(SPHERE.to_tangent(here, np.eye(3)[0]))))
    pair[0][7], pair[1][7] = far, back
    change = float(np.linalg.norm(summed(pair[0]) - summed(pair[1])))
    assert change <= plan.moved
    if not centered:
        assert change > 0.99 * plan.moved  # it is attained, so the claim is not loose
    # and a sum over blocks is the sum, to the last bit
    assert np.array_equal(summed(np.tile(data, (130, 1))), 130 * first)


def integers(records: np.ndarray, dim: int = 3) -> np.ndarray:
    """A site's sum in flat space, where each record is its own gradient."""
    space = riemdp.Euclidean(dim)
    problem = dataclasses.replace(
        riemdp.problems.frechet_mean(space), loss=_loss, gradient=_gradient
    )
    prirfed = settings(problem=problem, local=dataclasses.replace(LOCAL, clip_norm=1.0))
    return Sites.summed_gradients(
        prirfed, Sites.plan_shared(prirfed, BUDGET), records, np.zeros(dim)
    )


def _loss(w, z):
    return w @ z


def _gradient(w, z):
    return z


def test_order_and_place_of_records_do_not_matter() -> None:
    """Not to the last bit: what a record adds depends on nothing else."""
    drawn = noise_source(8).normals((300, 3)) * np.geomspace(1e-9, 1e9, 300)[:, None]
    whole = integers(drawn)
    assert np.array_equal(integers(drawn[::-1]), whole)
    for record in (
        drawn[150],
        np.full(3, np.nan),
        np.full(3, 1e308),
        np.full(3, 5e-324),
        -drawn[1],
    ):
        alone = integers(record[None])
        for place in (0, 1, 63, 64, 255, 256, 300):
            there = np.insert(drawn, place, record, axis=0)
            assert np.array_equal(integers(there), whole + alone), place  # one record more


def test_no_two_records_are_farther_apart_than_the_claim() -> None:
    """In exact arithmetic, over directions that are drawn, the axes and the diagonals; and the
    worst pair attains nearly all of it.
    """
    prirfed = settings(local=dataclasses.replace(LOCAL, clip_norm=1.0))
    plan = Sites.plan_shared(prirfed, BUDGET)
    most = int(1.0 / plan.grid)
    directions = [*noise_source(5).normals((200, 3)), *np.eye(3), np.ones(3), np.array([1, -1, 0])]
    ends = []
    for direction in directions:
        direction = direction / np.linalg.norm(direction)
        for length in (1.0, 1.0 + 1e-13, 1e3, 1e150, 1.0 - 1e-13):
            k = [int(x) for x in integers((length * direction)[None])]
            assert sum(x * x for x in k) <= most**2
            ends.append((sum(x * x for x in k), k))
    worst = max(ends)[1]
    opposite = [int(x) for x in integers(-np.array(worst, dtype=float)[None])]
    gap = math.isqrt(sum((a - b) ** 2 for a, b in zip(worst, opposite, strict=True)))
    assert 0.99 * plan.moved < gap <= plan.moved


def test_more_records_than_a_sum_holds_are_refused_before_anything_is_spent() -> None:
    """From public numbers, where a run or a search is planned and where a site states its cost."""
    most = Masks.MOST_RECORDS
    assert plan_federated(settings(), [most, 1, 1], BUDGET).shared is not None
    with pytest.raises(InvalidArgument, match=r"`datasets` = 16777217 .* a sum over sites holds"):
        plan_federated(settings(), [most + 1, 1, 1], BUDGET)
    told = {"release": "variance", "manifold": SPHERE, "search": BALL, "budget": BUDGET}
    with pytest.raises(InvalidArgument, match="`sites` = 16777217"):
        Searches.SearchTerms(**told, sizes={"a": most + 1, "b": 1})


def servers(rounds: int = 2, budget: riemdp.Budget = BUDGET) -> tuple[Coordinator, PriRFed]:
    prirfed = settings(rounds=rounds)
    plan = plan_federated(prirfed, [60, 70, 80], budget)
    sizes = {f"site-{i}": n for i, n in enumerate((60, 70, 80))}
    return Coordinator(prirfed, plan, sizes, NORTH, budget, noise_source(3)), prirfed


def replies(
    server: Coordinator, prirfed: PriRFed, keys: dict[str, Masks.Keys], **changed
) -> dict[str, np.ndarray]:
    """What the invited sites send; `changed` names one that was told another round."""
    assert server.open is not None
    assert server.plan.shared is not None
    data = dict(zip(server.sizes, datasets(), strict=True))
    agreed = {n: k.long_term for n, k in keys.items()}
    roster = Masks.Roster.of(None, agreed, {n: keys[n].fresh for n in server.open}, least=2)
    context = Sites.context_of(SPHERE, server.value)
    return {
        name: Masks.masked(
            Sites.noisy_sum(
                prirfed,
                server.plan.shared,
                data[name],
                server.value,
                Gradients.Account(),
                noise_source(7),
            ),
            keys[name],
            Masks.Question("ab" * 32, changed.get(name, len(server.records)), roster, context),
        )
        for name in server.open
    }


def test_a_missing_agent_fails_the_round_and_is_charged() -> None:
    server, prirfed = servers(3)
    keys = {name: Masks.Keys.new(name) for name in server.sizes}
    assert server.invite(server.sizes) == tuple(server.sizes)
    sent = replies(server, prirfed, keys)
    record = server.close(came(server, {name: sent[name] for name in list(sent)[:2]}))
    assert (record.moved, record.accepted, record.missing) == (False, 2, 1)
    assert np.array_equal(server.value, NORTH)
    assert server.plan.shared is not None
    assert server.guarantee() == server.plan.shared.guarantee
    # the next round leaves it out: two shares of the noise are enough
    there = list(server.sizes)[:2]
    assert server.places(there) == 2
    assert server.invite(there) == tuple(there)
    assert server.close(came(server, replies(server, prirfed, keys))).moved
    assert not np.array_equal(server.value, NORTH)
    assert server.guarantee() == server.plan.shared.guarantee.repeat(2)
    # one is not
    assert server.places(there[:1]) is None
    assert not server.may_invite(there[:1])


def test_masks_that_do_not_cancel_and_replies_that_are_no_words() -> None:
    server, prirfed = servers()
    keys = {name: Masks.Keys.new(name) for name in server.sizes}
    server.invite(server.sizes)
    sent = replies(server, prirfed, keys, **{"site-1": 5})
    assert all(server.sound(name, words) for name, words in sent.items())
    assert not server.close(came(server, sent)).moved
    server.invite(server.sizes)
    sent = replies(server, prirfed, keys)
    record = server.close(came(server, sent | {"site-0": sent["site-0"].astype(float)}))
    assert (record.moved, record.refused) == (False, 1)
    assert np.array_equal(server.value, NORTH)


def test_a_share_of_the_noise_is_charged() -> None:
    server, prirfed = servers()
    shared = Sites.plan_shared(prirfed, BUDGET)
    assert shared == server.plan.shared
    ledger = Ledger(BUDGET)
    account = Gradients.Account(ledger)
    Sites.noisy_sum(prirfed, shared, datasets()[0], NORTH, account, noise_source(None))
    assert ledger.spent == shared.guarantee


@pytest.mark.parametrize("sites", [3, 10, 30])
def test_a_step_beside_a_trusted_server_and_beside_local_noise(sites: int) -> None:
    """The noise of one step of a run, at the same budget and on as many records: sqrt(J / (J -
    q)) times that of one optimiser that holds all of them, and sqrt(J - q) times less than where
    each site adds all of its own; within 2 percent.
    """
    rounds, records = 4, 50
    central = plan_optimizer(
        PROBLEM, sites * records, dataclasses.replace(LOCAL, steps=rounds), BUDGET
    ).sigma
    each = settings(rounds=rounds, agents_per_round=sites, noise="local", tolerated=0)
    alone = plan_federated(each, [records] * sites, BUDGET).sigma_of[records] / np.sqrt(sites)
    for tolerated in (0, 1, 2):
        run = settings(rounds=rounds, agents_per_round=sites, tolerated=tolerated)
        shared = plan_federated(run, [records] * sites, BUDGET).shared
        assert shared is not None
        sigma = shared.sigma_of(sites) / (sites * records)
        left = sites - tolerated
        assert sigma / central == pytest.approx(np.sqrt(sites / left), rel=0.02)
        assert alone / sigma == pytest.approx(np.sqrt(left), rel=0.02)


# ------------------------------------------------------------------------------------------------
# attacks on what is sent, whole
def attacked(who: str, *, dropped: int = 0, bare: bool = False, runs: int = 4000) -> float:
    """A lower bound of mu from rounds of three sites, of which one may be missing or collude. One
    record of the first site is as far to one side as it can be, or to the other.

    Args:
        who: "outsider" sees the next point, "server" the sum of all words, "one site's words" only
            those, "colluders" are the server and the last site, which keeps its noise out.
        dropped: How many honest sites forget their noise (planted).
        bare: Whether there are no masks (planted).
        runs: How many rounds of each side.
    """
    line = riemdp.Euclidean(1)
    problem = riemdp.problems.frechet_mean(line)
    local = DPRGD(steps=1, learning_rate=0.25, clip_norm=1.0)
    prirfed = PriRFed(problem, local, rounds=1, agents_per_round=3, noise="shared", tolerated=1)
    shared = Sites.plan_shared(prirfed, riemdp.Budget(8.0, 1e-5))
    names, start, source = ("a", "b", "c"), np.zeros(1), noise_source(21)
    keys = {name: Masks.Keys.new(name) for name in names}
    agreed = {name: k.long_term for name, k in keys.items()}
    roster = Masks.Roster.of(None, agreed, {n: k.fresh for n, k in keys.items()}, least=2)
    context, alone = Sites.context_of(line, start), who == "one site's words"
    seen = []
    for side in (1e6, -1e6):
        records = np.array([[side], [0.0]])
        values = Sites.summed_gradients(prirfed, shared, records, start)
        noise = source.discrete_gaussians(shared.share, (3, runs, 1))
        noise[0] *= dropped < 2
        noise[1] *= dropped < 1
        noise[2] *= who != "colluders"
        for t in range(runs):
            asked = Masks.Question("ab" * 32, t, roster, context)
            sums = {"a": values + noise[0, t], "b": noise[1, t], "c": noise[2, t]}
            words = {
                name: steps.view(np.uint64) if bare else Masks.masked(steps, keys[name], asked)
                for name, steps in sums.items()
            }
            if t < 10 and not (dropped or bare):  # as a site does it
                account = Gradients.Account()
                one = Sites.noisy_sum(prirfed, shared, records, start, account, source)
                words["a"] = Masks.masked(one, keys["a"], asked)
            added = Masks.total(words.values())
            seen.append(float(words["a"].view(np.int64)[0] if alone else added[0]))
            if who == "outsider":  # what the next point is made of
                following = -0.25 * math.ldexp(seen[-1], shared.exponent) / 6
                if t < 10:
                    point = Sites.moved(prirfed, shared, start, added, 6)
                    assert np.asarray(point) == pytest.approx([following], rel=1e-9)
                seen[-1] = -following
    return gaussian_mu_lower_bound(np.array(seen[runs:]), np.array(seen[:runs]))


CLAIM = 1.0 / Sites.plan_shared(settings(rounds=1), riemdp.Budget(8.0, 1e-5)).noise_multiplier


@pytest.mark.slow
@pytest.mark.parametrize("who", ["outsider", "server", "one site's words", "colluders"])
def test_attacks_on_what_is_sent_stay_below_the_claim(who: str) -> None:
    bound = attacked(who)
    assert bound <= CLAIM
    if who == "colluders":
        assert bound > 0.85 * CLAIM  # nearly all of it
    elif who == "one site's words":
        assert bound < 0.2
    else:  # there are three shares, where the claim is of two
        assert bound > 0.85 * CLAIM * math.sqrt(2 / 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "planted"),
    [
        ("outsider", {"dropped": 2}),
        ("server", {"dropped": 2}),
        ("one site's words", {"bare": True}),
        ("colluders", {"dropped": 1}),
    ],
)
def test_attacks_refute_planted_faults(who: str, planted: dict) -> None:
    assert attacked(who, **planted) > CLAIM


def test_frames_and_points_have_digests() -> None:
    spd = riemdp.SPDAffineInvariant(2)
    product = riemdp.Product(SPHERE, spd)
    point = (NORTH, np.eye(2))
    assert len(Sites.context_of(product, point)) == 32
    assert Sites.context_of(product, point) == Sites.context_of(product, point)
    moved = np.asarray(SPHERE.exp(NORTH, np.array([1e-15, 0.0, 0.0])))
    assert Sites.context_of(SPHERE, moved) != Sites.context_of(SPHERE, NORTH)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"noise": "secret"}, "noise"),
        ({"tolerated": 3}, "tolerated"),
        ({"noise": "local", "tolerated": 1}, "tolerated"),
        ({"local": DPRGD(steps=2, clip_norm=1.0)}, "local"),
        ({"local": DPRSGD(steps=1, batch_size=5, clip_norm=1.0)}, "local"),
        ({"aggregate": "frechet-mean"}, "aggregate"),
    ],
)
def test_settings_that_do_not_go_together(changed: dict, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"`{name}`"):
        settings(**changed)


def test_plans_that_cannot_be() -> None:
    with pytest.raises(InvalidArgument, match="agents_per_round"):
        plan_federated(settings(), [60] * 4, BUDGET)
    with pytest.raises(InvalidArgument, match="budget"):
        plan_federated(settings(), [60] * 3, None)
    with pytest.raises(InvalidArgument, match="budget"):
        plan_federated(settings(), [60] * 3, None, noise_std=1.0)
    plan = plan_federated(settings(rounds=5), [60, 70, 80], BUDGET)
    assert plan.guarantee.within(BUDGET)
    assert plan.guarantee.epsilon(BUDGET.delta) > 0.999 * BUDGET.epsilon
