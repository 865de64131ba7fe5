"""Guarantees taken over from dp-accounting, OpenDP and diffprivlib, against the packages."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pytest

from riemdp import Guarantee, InvalidArgument, gaussian, pure, subsampled_gaussian
from riemdp.privacy import from_diffprivlib, from_opendp

pytestmark = pytest.mark.conformance
ADD, REPLACE = "add-or-remove-one", "replace-one"
DELTA = 1e-5


@pytest.fixture(scope="module")
def dp():
    return pytest.importorskip("dp_accounting")


@pytest.fixture
def optimistic(monkeypatch, dp):
    """Their accountant of privacy-loss distributions, with lower bounds of what a release costs."""
    from dp_accounting.pld import privacy_loss_distribution as made

    noises = ("gaussian_mechanism", "laplace_mechanism", "discrete_laplace_mechanism")
    for name in ("identity", "from_randomized_response", *(f"from_{noise}" for noise in noises)):
        lower = functools.partial(getattr(made, name), pessimistic_estimate=False)
        monkeypatch.setattr(made, name, lower)

    def epsilon(event, adjacency: str) -> float:
        relations = dp.NeighboringRelation
        relation = relations.REPLACE_ONE if adjacency == REPLACE else relations.ADD_OR_REMOVE_ONE
        accountant = dp.pld.PLDAccountant(relation, value_discretization_interval=2e-4)
        return accountant.compose(event).get_epsilon(DELTA)

    return epsilon


def events(dp):
    """Events that both accountants know, with the neighbours under which they are compared."""
    steps = dp.dp_event.SelfComposedDpEvent(
        dp.dp_event.PoissonSampledDpEvent(0.02, dp.dp_event.GaussianDpEvent(1.2)), 200
    )
    answer = dp.dp_event.RandomizedResponseDpEvent(0.4, 5)
    answers = dp.dp_event.ComposedDpEvent([answer] * 3)  # repeated, 0.6 counts it once
    return [
        (dp.dp_event.GaussianDpEvent(3.0), ADD),
        (dp.dp_event.GaussianDpEvent(3.0), REPLACE),
        (dp.dp_event.SelfComposedDpEvent(dp.dp_event.LaplaceDpEvent(4.0), 6), ADD),
        (dp.dp_event.SelfComposedDpEvent(dp.dp_event.DiscreteLaplaceDpEvent(0.1, 3), 6), ADD),
        (answers, REPLACE),
        (steps, ADD),
        (steps, REPLACE),
        (
            dp.dp_event.SelfComposedDpEvent(
                dp.dp_event.PoissonSampledDpEvent(0.1, dp.dp_event.LaplaceDpEvent(1.0)), 9
            ),
            ADD,
        ),
        (
            dp.dp_event.ComposedDpEvent(
                [steps, dp.dp_event.LaplaceDpEvent(5.0), dp.dp_event.GaussianDpEvent(4.0)]
            ),
            ADD,
        ),
        (dp.dp_event.ComposedDpEvent([steps, answer, dp.dp_event.GaussianDpEvent(4.0)]), REPLACE),
    ]


@pytest.mark.parametrize("which", range(10))
def test_no_event_is_cheaper_here_than_there(dp, optimistic, which):
    event, adjacency = events(dp)[which]
    ours = Guarantee.from_dp_event(event, adjacency=adjacency, unit="record").epsilon(DELTA)
    theirs = optimistic(event, adjacency)
    assert ours >= theirs * (1 - 1e-9)
    assert ours <= 3.0 * theirs + 0.01


def test_a_batch_of_fixed_size_costs_no_less_than_by_renyi_moments_of_half_the_noise(dp):
    event = dp.dp_event.SampledWithoutReplacementDpEvent(1000, 20, dp.dp_event.GaussianDpEvent(2.0))
    ours = Guarantee.from_dp_event(event, adjacency=REPLACE, unit="record")
    assert ours == subsampled_gaussian(1.0, population=1000, batch_size=20)
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    read_as_it_stands = accountant.compose(ours.to_dp_event()).get_epsilon(DELTA)
    assert ours.epsilon(DELTA) <= read_as_it_stands


@pytest.mark.parametrize(
    ("guarantee", "relation"),
    [
        (gaussian(3.0), "REPLACE_ONE"),
        (gaussian(3.0).compose(pure(0.2).repeat(3)), "REPLACE_ONE"),
        (pure(0.2).repeat(9), "REPLACE_ONE"),
        (pure(0.2, adjacency=ADD).repeat(9), "ADD_OR_REMOVE_ONE"),
        (
            subsampled_gaussian(1.1, population=500, batch_size=7, steps=40, sampling="poisson"),
            "ADD_OR_REMOVE_ONE",
        ),
    ],
)
def test_their_accountants_say_no_less_of_our_events(dp, guarantee, relation):
    relation = getattr(dp.NeighboringRelation, relation)
    event = guarantee.to_dp_event()
    for kind in (dp.pld.PLDAccountant, dp.rdp.RdpAccountant):
        accountant = kind(neighboring_relation=relation)
        if accountant.supports(event):
            theirs = accountant.compose(event).get_epsilon(DELTA)
            assert theirs >= guarantee.epsilon(DELTA) * (1 - 1e-3)


def test_every_other_event_of_theirs_is_refused_by_name(dp):
    noise = dp.dp_event.GaussianDpEvent(1.0)
    for event in (
        dp.dp_event.UnsupportedDpEvent(),
        dp.dp_event.ZCDpEvent(0.1),
        dp.dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4),
        dp.dp_event.RepeatAndSelectDpEvent(noise, 2.0, 1.0),
        dp.dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]),
        dp.dp_event.SampledWithReplacementDpEvent(100, 5, noise),
        dp.dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    ):
        for adjacency in (ADD, REPLACE):
            with pytest.raises(InvalidArgument, match=type(event).__name__):
                Guarantee.from_dp_event(
                    dp.dp_event.SelfComposedDpEvent(event, 2), adjacency=adjacency, unit="record"
                )


def test_measurements_of_opendp():
    odp = pytest.importorskip("opendp.prelude")
    odp.enable_features("contrib")
    atoms = odp.atom_domain(bounds=(0.0, 10.0), nan=False)
    rows = odp.vector_domain(atoms), odp.symmetric_distance()
    laplace = rows >> odp.t.then_sum() >> odp.m.then_laplace(scale=50.0)
    one = from_opendp(laplace, adjacency=ADD, unit="record")
    two = from_opendp(laplace, adjacency=REPLACE, unit="record")
    assert one.epsilon(0.0) >= 0.2
    assert two.epsilon(0.0) == pytest.approx(2 * one.epsilon(0.0))
    noise = rows >> odp.t.then_sum() >> odp.m.then_gaussian(scale=50.0)
    with pytest.raises(InvalidArgument, match="ZeroConcentratedDivergence"):
        from_opendp(noise, adjacency=REPLACE, unit="record")
    curve = odp.c.make_zCDP_to_approxDP(noise)
    found = from_opendp(curve, adjacency=REPLACE, unit="record", delta=1e-6)
    assert found.epsilon(1e-6) >= gaussian(2.5).epsilon(1e-6)  # replaced: 20 over 50
    fixed = odp.c.make_fix_delta(curve, 1e-6)
    assert from_opendp(fixed, adjacency=REPLACE, unit="record") == found
    known = odp.vector_domain(atoms, size=100), odp.symmetric_distance()
    mean = known >> odp.t.then_mean() >> odp.m.then_laplace(scale=0.5)
    assert from_opendp(mean, adjacency=REPLACE, unit="record").epsilon(0.0) >= 0.2
    with pytest.raises(InvalidArgument, match="public number of rows"):
        from_opendp(mean, adjacency=ADD, unit="record")
    scalar = odp.m.make_laplace(odp.atom_domain(T=int), odp.absolute_distance(T=int), scale=2.0)
    with pytest.raises(InvalidArgument, match="AbsoluteDistance"):
        from_opendp(scalar, adjacency=REPLACE, unit="record")


def test_releases_of_diffprivlib():
    library = pytest.importorskip("diffprivlib")  # 0.6.6 needs scikit-learn < 1.6
    x = np.linspace(0.0, 9.0, 200)
    accountant = library.BudgetAccountant(1.0, 0.0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        library.tools.mean(x, epsilon=0.3, bounds=(0.0, 10.0), accountant=accountant)
        library.tools.var(x, epsilon=0.2, bounds=(0.0, 10.0), accountant=accountant)
    found = from_diffprivlib(accountant, warned, adjacency=REPLACE, unit="record")
    assert math.isclose(found.epsilon(0.0), 0.5)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        library.tools.mean(x, epsilon=0.1, accountant=accountant)
    with pytest.raises(InvalidArgument, match="leak"):
        from_diffprivlib(accountant, warned, adjacency=REPLACE, unit="record")
