"""Guarantees of other libraries' releases, by stand-ins of the same names; the real packages are
asked in `tests/conformance/test_interop.py`.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

from riemdp import (
    Budget,
    Guarantee,
    InvalidArgument,
    Ledger,
    MissingExtra,
    approximate,
    gaussian,
    none,
    pure,
)
from riemdp import subsampled_gaussian as sampled
from riemdp.privacy import allocated_gaussian, from_diffprivlib, from_opendp, replace_one

FIELDS = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
    "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
    "ComposedDpEvent": ("events",),
    "SelfComposedDpEvent": ("event", "count"),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "ZCDpEvent": ("rho",),
}


def stand_in(name: str, fields: tuple[str, ...]) -> type:
    def __init__(self, *values):
        self.__dict__.update(zip(fields, values, strict=True))

    return type(name, (), {"__init__": __init__})


EVENTS = {name: stand_in(name, fields) for name, fields in FIELDS.items()}
dp = SimpleNamespace(**EVENTS)
ADD, REPLACE = "add-or-remove-one", "replace-one"


def taken(event, adjacency=ADD, unit="record") -> Guarantee:
    return Guarantee.from_dp_event(event, adjacency=adjacency, unit=unit)


def test_a_replaced_value_moves_a_clipped_sum_twice_as_far():
    assert taken(dp.GaussianDpEvent(4.0)) == gaussian(4.0, adjacency=ADD)
    assert taken(dp.GaussianDpEvent(4.0), REPLACE) == gaussian(2.0)
    assert taken(dp.LaplaceDpEvent(4.0)) == pure(0.25, adjacency=ADD)
    assert taken(dp.LaplaceDpEvent(4.0), REPLACE) == pure(0.5)
    assert taken(dp.DiscreteLaplaceDpEvent(0.1, 3)) == pure(0.1 * 3, adjacency=ADD)
    assert taken(dp.DiscreteLaplaceDpEvent(0.1, 3), REPLACE) == pure(0.1 * 6)


def test_without_noise_there_is_no_privacy_and_without_an_operation_no_cost():
    for event in (
        dp.NonPrivateDpEvent(),
        dp.GaussianDpEvent(0.0),
        dp.LaplaceDpEvent(0.0),
        dp.LaplaceDpEvent(5e-324),
        dp.DiscreteLaplaceDpEvent(0.0, 1),
    ):
        assert not taken(event).is_private
        for adjacency in (ADD, REPLACE):
            assert not taken(dp.PoissonSampledDpEvent(0.5, event), adjacency).is_private
        assert not taken(dp.ComposedDpEvent([event, dp.LaplaceDpEvent(1.0)])).is_private
    assert not taken(dp.RandomizedResponseDpEvent(0.0, 3), REPLACE).is_private
    for free in (
        dp.NoOpDpEvent(),
        dp.ComposedDpEvent([]),
        dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 0),
        dp.PoissonSampledDpEvent(0.0, dp.GaussianDpEvent(1.0)),
    ):
        assert taken(free).parts == ()


def test_compositions_and_batches():
    step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.5))
    batches = {"population": 100, "batch_size": 1}
    ours = sampled(1.5, **batches, steps=30, sampling="poisson")
    assert taken(dp.SelfComposedDpEvent(step, 30)) == ours
    assert taken(dp.SelfComposedDpEvent(step, 30), REPLACE).epsilon(1e-5) == pytest.approx(
        replace_one(ours).epsilon(1e-5)
    )
    fixed = dp.SampledWithoutReplacementDpEvent(100, 1, dp.GaussianDpEvent(1.5))
    assert taken(fixed, REPLACE) == sampled(0.75, **batches)
    both = dp.ComposedDpEvent([dp.GaussianDpEvent(4.0), dp.LaplaceDpEvent(10.0)])
    assert taken(both, REPLACE) == gaussian(2.0).compose(pure(0.2))
    twice = dp.PoissonSampledDpEvent(0.01, dp.SelfComposedDpEvent(dp.GaussianDpEvent(3.0), 4))
    assert taken(twice) == sampled(1.5, **batches, sampling="poisson")
    laplace = taken(dp.PoissonSampledDpEvent(0.01, dp.LaplaceDpEvent(1.0)))
    assert laplace.epsilon(0.0) == pytest.approx(math.log1p(0.01 * math.expm1(1.0)))
    whole = dp.PoissonSampledDpEvent(1.0, dp.LaplaceDpEvent(1.0))
    assert taken(whole) == pure(1.0, adjacency=ADD)


@pytest.mark.parametrize(
    ("event", "adjacency", "named"),
    [
        (dp.ZCDpEvent(0.1), ADD, "ZCDpEvent"),
        (SimpleNamespace(noise_multiplier=1.0), ADD, "SimpleNamespace"),
        (dp.ComposedDpEvent([dp.NoOpDpEvent(), dp.ZCDpEvent(0.1)]), ADD, "ZCDpEvent"),
        (dp.RandomizedResponseDpEvent(0.5, 2), ADD, "RandomizedResponseDpEvent"),
        (
            dp.SampledWithoutReplacementDpEvent(9, 3, dp.GaussianDpEvent(1.0)),
            ADD,
            "SampledWithoutReplacementDpEvent",
        ),
        (
            dp.PoissonSampledDpEvent(
                0.1, dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), dp.LaplaceDpEvent(1.0)])
            ),
            ADD,
            "PoissonSampledDpEvent",
        ),
        (dp.GaussianDpEvent(math.nan), ADD, "noise_multiplier"),
        (dp.GaussianDpEvent(-1.0), ADD, "noise_multiplier"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 0.5), ADD, "count"),
        (dp.PoissonSampledDpEvent(1.5, dp.GaussianDpEvent(1.0)), ADD, "sampling_probability"),
    ],
)
def test_what_has_no_bound_is_refused_by_name(event, adjacency, named):
    with pytest.raises(InvalidArgument, match=named):
        taken(event, adjacency)


def test_unit_and_neighbours_have_no_default():
    event = dp.GaussianDpEvent(1.0)
    for missing in ({}, {"adjacency": ADD}, {"unit": "record"}):
        with pytest.raises(TypeError):
            Guarantee.from_dp_event(event, **missing)
    assert taken(event, unit="person").unit == "person"
    with pytest.raises(InvalidArgument, match="unit"):
        taken(event, unit="household")
    with pytest.raises(InvalidArgument, match="adjacency"):
        taken(event, adjacency="bounded")


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("dp_accounting.dp_event")
    made.__dict__.update(EVENTS)
    monkeypatch.setitem(sys.modules, "dp_accounting", ModuleType("dp_accounting"))
    monkeypatch.setitem(sys.modules, "dp_accounting.dp_event", made)


EVERYTHING = [
    gaussian(3.0, adjacency=ADD),
    pure(0.3, adjacency=ADD).repeat(4),
    sampled(2.0, population=1000, batch_size=7, steps=50, sampling="poisson"),
    none(),
    Guarantee(ADD),
]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    "guarantee", [*EVERYTHING, gaussian(2.0, adjacency=ADD).compose(*EVERYTHING[:3])]
)
def test_an_event_there_and_back(guarantee):
    back = taken(guarantee.to_dp_event(), guarantee.adjacency)
    assert back.is_private == guarantee.is_private
    for delta in (0.0, 1e-6):
        assert back.epsilon(delta) == pytest.approx(guarantee.epsilon(delta), rel=1e-9)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    "guarantee", [gaussian(2.0), pure(0.5), pure(800.0), sampled(2.0, population=3, batch_size=1)]
)
def test_under_replace_one_an_event_comes_back_no_cheaper(guarantee):
    back = taken(guarantee.to_dp_event(), "replace-one")
    assert back.epsilon(1e-6) >= guarantee.epsilon(1e-6) * (1 - 1e-12)


@pytest.mark.usefixtures("module")
def test_a_pure_release_becomes_the_event_that_dominates_all_of_its_epsilon():
    assert type(pure(0.5).to_dp_event()).__name__ == "RandomizedResponseDpEvent"
    assert taken(pure(0.5).to_dp_event(), REPLACE).epsilon(0.0) == pytest.approx(0.5, rel=1e-14)
    event = pure(0.5, adjacency=ADD).to_dp_event()
    assert (event.noise_parameter, event.sensitivity) == (0.5, 1)
    assert len(pure(0.5).repeat(3).to_dp_event().events) == 3  # a repetition is counted once there


@pytest.mark.usefixtures("module")
def test_a_rate_becomes_a_fraction_that_is_not_smaller():
    for records, batch in ((10_000, 100), (3, 1), (999_983, 7), (10**15 + 37, 1)):
        event = sampled(2.0, population=records, batch_size=batch).to_dp_event()
        assert event.sample_size / event.source_dataset_size >= batch / records


def test_without_the_package_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match="pip install dp-accounting"):
        gaussian(1.0).to_dp_event()


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("guarantee", [approximate(0.1, 1e-6), allocated_gaussian(1.0, steps=9)])
def test_parts_without_an_event_are_refused(guarantee):
    with pytest.raises(InvalidArgument, match="no event"):
        guarantee.to_dp_event()


# ------------------------------------------------------------------ OpenDP and diffprivlib
def measurement(
    metric="SymmetricDistance()", measure="MaxDivergence", domain="VectorDomain", of=0.3
):
    def cost(distance):
        return of(distance) if callable(of) else of * distance

    return SimpleNamespace(
        input_metric=metric, output_measure=measure, input_domain=domain, map=cost
    )


def test_an_epsilon_for_a_row_more_or_less_enters_a_replace_one_ledger_doubled_or_not_at_all():
    ledger = Ledger(Budget(1.0))
    one = from_opendp(measurement(), adjacency=ADD, unit="record")
    assert one == pure(0.3, adjacency=ADD)
    ledger.spend(pure(0.1))
    with pytest.raises(InvalidArgument, match="adjacenc"):
        ledger.spend(one)
    assert from_opendp(measurement(), adjacency=REPLACE, unit="record") == pure(0.6)
    changed = measurement("ChangeOneDistance()")
    assert from_opendp(changed, adjacency=REPLACE, unit="record") == pure(0.3)
    person = from_opendp(measurement(), adjacency=REPLACE, unit="person", rows=5)
    assert person == pure(3.0).for_people()


def test_measures_of_opendp():
    fixed = measurement(measure="Approximate(MaxDivergence)", of=lambda d: (0.2 * d, 1e-7))
    assert from_opendp(fixed, adjacency=REPLACE, unit="record") == approximate(0.4, 1e-7)
    curve = measurement(
        measure="SmoothedMaxDivergence", of=lambda d: SimpleNamespace(epsilon=lambda delta: 0.2 * d)
    )
    found = from_opendp(curve, adjacency=REPLACE, unit="record", delta=1e-6)
    assert found == approximate(0.4, 1e-6)
    with pytest.raises(InvalidArgument, match="delta"):
        from_opendp(curve, adjacency=REPLACE, unit="record")


@pytest.mark.parametrize(
    ("given", "options", "named"),
    [
        ({"metric": "AbsoluteDistance(f64)"}, {}, "AbsoluteDistance"),
        ({"metric": "ChangeOneDistance()"}, {"adjacency": ADD}, "ChangeOneDistance"),
        ({"domain": "VectorDomain(AtomDomain(), size=9)"}, {"adjacency": ADD}, "public number"),
        ({"of": lambda d: 1e-9 + d // 2}, {"adjacency": ADD}, "public number"),
        ({"measure": "ZeroConcentratedDivergence"}, {}, "ZeroConcentratedDivergence"),
        ({"of": math.inf}, {}, "epsilon"),
        ({}, {"rows": 3}, "rows"),
        ({}, {"unit": "person"}, "rows"),
        ({}, {"unit": "user"}, "unit"),
    ],
)
def test_measurements_that_are_refused(given, options, named):
    with pytest.raises(InvalidArgument, match=named):
        from_opendp(measurement(**given), **{"adjacency": REPLACE, "unit": "record"} | options)


class PrivacyLeakWarning(RuntimeWarning):
    pass


class WorseLeak(PrivacyLeakWarning):
    pass


def test_diffprivlib_is_what_its_accountant_was_charged():
    accountant = SimpleNamespace(spent_budget=[(0.3, 0), (0.2, 1e-7)])
    found = from_diffprivlib(accountant, [], adjacency=ADD, unit="record")
    assert found == pure(0.3, adjacency=ADD).compose(approximate(0.2, 1e-7, adjacency=ADD))
    other = [SimpleNamespace(category=UserWarning)]
    assert from_diffprivlib(accountant, other, adjacency=ADD, unit="person").unit == "person"


def test_bounds_from_the_data_have_no_guarantee():
    accountant = SimpleNamespace(spent_budget=[(0.3, 0)])
    for leak in (PrivacyLeakWarning, WorseLeak):
        warned = [SimpleNamespace(category=UserWarning), SimpleNamespace(category=leak)]
        with pytest.raises(InvalidArgument, match="leak"):
            from_diffprivlib(accountant, warned, adjacency=REPLACE, unit="record")
    with pytest.raises(InvalidArgument, match="none has charged"):
        from_diffprivlib(SimpleNamespace(spent_budget=[]), [], adjacency=REPLACE, unit="record")
