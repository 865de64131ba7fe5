"""The cost of a federated run: published figures, the mixture bound, round-robin, calibration."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget, InvalidArgument, PriRFed, privacy, problems
from riemdp.federated import Coordinator, FederatedPlan, Setup, plan_federated
from riemdp.randomness import noise_source

from ..seam import Servers, Sites

LOCAL = privacy.gaussian(1 / 0.0583)  # (0.15, 1e-4), calibrated exactly


def _settings(local=None, **keywords):
    chosen = {"rounds": 100, "agents_per_round": 5} | keywords
    return PriRFed(problems.principal_eigenvector(4), local or DPRGD(1, 0.1, 1.0), **chosen)


def _plan(agents: int, local=LOCAL) -> FederatedPlan:
    return FederatedPlan((10,) * agents, {10: 1.0}, {10: local}, {10: local}, local)


def _coordinator(prirfed, agents, budget=None, local=LOCAL, rng=7):
    names = {f"a{i}": 10 for i in range(agents)}
    return Coordinator(
        prirfed, _plan(agents, local), names, np.eye(4)[0], budget, noise_source(rng)
    )


@pytest.mark.parametrize(
    ("delta", "mixture", "in_turn"),
    [(1e-4, 0.427, 0.372), (1e-3, 0.296, 0.272), (3.5e-3, 0.217, 0.206)],
)
def test_certified_figures(delta, mixture, in_turn):
    total = privacy.participation(LOCAL, agents=100, sampled=5, rounds=100)
    assert total.epsilon(delta) == pytest.approx(mixture, abs=6e-4)
    assert LOCAL.repeat(5).epsilon(delta) == pytest.approx(in_turn, abs=6e-4)


@pytest.mark.parametrize(("eligible", "expected"), [(100, 0.427), (50, 0.595)])
def test_dropouts_are_counted(eligible, expected):
    server = _coordinator(_settings(), 100)
    there = [f"a{i}" for i in range(eligible)]
    for _ in range(100):
        server.invite(there)
        server.close()  # nobody answers: charged all the same
    assert server.guarantee().epsilon(1e-4) == pytest.approx(expected, abs=1e-3)
    assert server.finished
    assert sum(server.invitations.values()) == 100 * 5


def test_round_robin_counts_exactly_and_is_even():
    server = _coordinator(_settings(participation="round-robin"), 100)
    names = [f"a{i}" for i in range(100)]
    for _ in range(100):
        server.invite(names)
        server.close()
    assert set(server.invitations.values()) == {5}
    assert server.guarantee().epsilon(1e-4) == pytest.approx(0.372, abs=6e-4)


def test_an_open_round_is_already_spent():
    server = _coordinator(_settings(), 100)
    assert server.guarantee().epsilon(1e-4) == 0.0
    server.invite([f"a{i}" for i in range(100)])
    assert server.guarantee().delta(0.0) > 0.0


def test_dropouts_end_a_run_before_they_overspend():
    planned = Budget(
        privacy.participation(LOCAL, agents=100, sampled=5, rounds=100).epsilon(1e-4) * 1.001, 1e-4
    )
    server = _coordinator(_settings(), 100, planned)
    there = [f"a{i}" for i in range(50)]
    while not server.finished and server.may_invite(there):
        server.invite(there)
        server.close()
    assert 20 < len(server.records) < 100
    assert server.guarantee().within(planned)
    assert not server.may_invite([])


def _rounds_granted(server, first, then):
    """How many rounds among `then` agents are granted after one among `first`."""
    for count, limit in ((first, 1), (then, 200)):
        there = [f"a{i}" for i in range(count)]
        for _ in range(limit):
            if not server.may_invite(there):
                break
            server.invite(there)
            server.close()
    return len(server.records) - 1


def _delta_after(rate, rounds, epsilons):
    """delta(epsilon) of rounds at one rate, for epsilon of either sign."""
    if rounds == 0:
        return np.maximum(0.0, -np.expm1(epsilons))
    total = privacy.participation(
        privacy.gaussian(7.0), sampled=rate[0], agents=rate[1], rounds=rounds
    )
    at = np.array([total.delta(float(abs(e))) for e in epsilons])
    return np.where(epsilons >= 0, at, -np.expm1(epsilons) + np.exp(epsilons) * at)


def test_rates_chosen_by_what_came_out_stay_within_the_budget():
    """One agent of 20 is invited in the first round, at rate 1 because the others are away. What
    came out decides who is there next: nobody else again, or all 20. Every fixed schedule that is
    granted fits the budget; before, the choice had delta 1.27e-4 for a budget of 1e-4.
    """
    z, delta, agents = 7.0, 1e-4, 20
    local = privacy.gaussian(z)
    epsilon = privacy.gaussian(z / np.sqrt(2)).epsilon(delta) * (1 + 1e-6)
    prirfed = _settings(rounds=1000, agents_per_round=1)
    mu = 1 / z
    x = np.linspace(-8.0, 8.0, 161)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    left = epsilon - (mu * mu / 2 + mu * x)  # after the loss of the first round
    choices = []
    for then in (1, agents):
        server = _coordinator(prirfed, agents, Budget(epsilon, delta), local)
        granted = _rounds_granted(server, 1, then)
        assert granted >= 1
        choices.append(_delta_after((1, then), granted, left))
        assert density @ choices[-1] <= delta * 1.0001
    assert density @ np.max(choices, axis=0) <= delta * 1.0001


def test_a_restart_among_others_keeps_the_rate_that_was_planned():
    """A server of a run of eight planned agents starts again where four others, of another
    size, have come: rounds are drawn from eight places as before, not from four, or six.
    """
    prirfed, budget = _settings(rounds=40, agents_per_round=2), Budget(1.0, 1e-5)
    setup, others = Setup(prirfed, np.eye(4)[0], budget, agents=8), {f"b{i}": 12 for i in range(4)}
    before = Servers.make_coordinator(setup, {f"a{i}": 10 for i in range(6)}, noise_source(3))
    before.invite(before.sizes, places=8)
    before.close()
    after = Servers.resumed(setup, before.state(), noise_source(3))
    planned = after.plan.planned_agents
    after.enrol(others, plan_federated(prirfed, [10] * 6 + [12] * 4, budget, agents=planned))
    assert planned == 8
    assert after.places(others) == 8


LOCALS = {
    "rgd": DPRGD(2, 0.1, 1.0),
    "rsgd": DPRSGD(3, 10, 0.1, 1.0),
    "rsvrg": DPRSVRG(2, 4, 0.1, 1.0, batch_size=5),
}


@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
@pytest.mark.parametrize("participation", ["uniform", "round-robin"])
def test_calibration_is_within_the_budget_and_tight(local, participation):
    prirfed = _settings(local, rounds=10, agents_per_round=2, participation=participation)
    budget = Budget(1.0, 1e-5)
    plan = plan_federated(prirfed, [40] * 8, budget)
    assert plan.guarantee.within(budget)
    assert plan.guarantee.epsilon(1e-5) >= 0.985
    if isinstance(
        local, DPRGD
    ):  # planted fault: sensitivity / 2 would be accepted as half the sigma, and must not be within
        halved = plan_federated(prirfed, [40] * 8, None, noise_std=plan.sigmas[0] / 2)
        assert not halved.guarantee.within(budget)


@pytest.mark.parametrize("sampling", ["without-replacement", "poisson"])
def test_a_coarser_guarantee_costs_no_less(sampling):
    for n in (61, 97, 480, 6007, 10**9):
        exact = privacy.subsampled_gaussian(
            1.7, population=n, batch_size=60, steps=3, sampling=sampling
        )
        (one,), (other,) = exact.parts, Sites.coarser(exact).parts
        assert one.rate <= other.rate <= 1.01 * one.rate
        assert one.noise_multiplier * (1 - 1e-11) <= other.noise_multiplier <= one.noise_multiplier
    full = privacy.gaussian(3.3)
    (one,), (other,) = full.parts, Sites.coarser(full).parts
    assert one.squared_mu <= other.squared_mu <= one.squared_mu * (1 + 1e-11)


def test_many_sizes_share_few_searches_for_their_noise():
    local, budget = DPRSGD(2, 60, 0.1, 1.0), Budget(2.0, 1e-5)
    settings = _settings(local, rounds=4, agents_per_round=6)
    before = Sites.multiplier.cache_info().misses
    plan = plan_federated(settings, range(600, 612), budget)
    assert Sites.multiplier.cache_info().misses - before <= 2 + 100 * np.log(612 / 600)
    assert len(plan.costs) <= 2 + 100 * np.log(612 / 600)
    exact = privacy.calibrate(
        lambda z: privacy.participation(
            privacy.subsampled_gaussian(z, population=611, batch_size=60, steps=2),
            agents=12,
            sampled=6,
            rounds=4,
        ),
        budget,
    )
    assert 0.995 * exact <= plan.sigma_of[611] / (2 / 60) <= 1.015 * exact


def test_no_round_looks_at_every_size_again(monkeypatch):
    settings = _settings(DPRSGD(2, 60, 0.1, 1.0), rounds=4, agents_per_round=6)
    plan = plan_federated(settings, range(600, 612), Budget(2.0, 1e-5))
    names = {f"a{n}": n for n in plan.sizes}
    server = Coordinator(settings, plan, names, np.eye(4)[0], Budget(2.0, 1e-5), noise_source(7))
    assert server.may_invite(names)
    looked = []
    monkeypatch.setattr(privacy.Guarantee, "within", lambda *_: looked.append(1))
    for _ in range(4):
        assert server.may_invite(names)
        server.invite(names)
        server.close()
    assert not looked
    assert not server.may_invite(names)


def test_unequal_agents_are_stated_by_the_worst_of_them():
    """With one sigma for all, an agent of 20 records pays far more than one of 80."""
    prirfed = _settings(DPRGD(2, 0.1, 1.0), rounds=10, agents_per_round=2)
    plan = plan_federated(prirfed, [80, 20, 40], None, noise_std=0.1)
    each = {n: g.epsilon(1e-5) for n, g in plan.totals.items()}
    assert each[20] > 1.5 * each[40] > 2.0 * each[80]
    assert plan.guarantee.epsilon(1e-5) == pytest.approx(each[20], rel=1e-9)
    server = Coordinator(
        prirfed, plan, {"a": 80, "b": 20, "c": 40}, np.eye(4)[0], None, noise_source(1)
    )
    for _ in range(10):
        server.invite("abc")
        server.close()
    assert server.guarantee().epsilon(1e-5) == pytest.approx(each[20], rel=1e-9)


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"rounds": 0}, "rounds"),
        ({"agents_per_round": 0}, "agents_per_round"),
        ({"aggregate": "median"}, "aggregate"),
        ({"participation": "volunteers"}, "participation"),
        ({"quorum": 6}, "quorum"),
        ({"local": DPRSGD(3, 10, 0.1, 1.0, sampling="poisson")}, "local"),
        ({"local": DPRSGD(None, 10, 0.1, 1.0)}, "local"),
        ({"local": DPRGD(2, 0.1, 1.0, output="geodesic-average")}, "local"),
        ({"local": "sgd"}, "local"),
    ],
)
def test_bad_settings_are_named(keywords, named):
    with pytest.raises(InvalidArgument, match=named):
        _settings(**keywords)


def test_bad_plans_are_named():
    with pytest.raises(InvalidArgument, match="datasets"):
        plan_federated(_settings(), [], None)
    with pytest.raises(InvalidArgument, match="agents_per_round"):
        plan_federated(_settings(), [10] * 4, None)
    with pytest.raises(InvalidArgument, match="batch_size"):
        plan_federated(
            _settings(DPRSGD(3, 50, 0.1, 1.0), agents_per_round=1), [10] * 4, Budget(1.0, 1e-5)
        )
    with pytest.raises(InvalidArgument, match="exclude"):
        plan_federated(_settings(agents_per_round=1), [10], Budget(1.0, 1e-5), noise_std=1.0)
    with pytest.raises(InvalidArgument, match="delta"):
        plan_federated(_settings(agents_per_round=1), [10], Budget(1.0, 0.0))


def test_a_manifold_without_a_logarithm_is_refused():
    problem = riemdp.Problem(riemdp.Stiefel(4, 2), lambda w, z: ((w - z) ** 2).sum())
    with pytest.raises(NotImplementedError, match="PriRFed"):
        PriRFed(problem, DPRGD(1, 0.1, 1.0), rounds=1, agents_per_round=1)
