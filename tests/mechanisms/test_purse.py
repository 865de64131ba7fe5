"""Shares of a budget: exact, refused above the whole before the draw, with their own noise."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import riemdp as R
from riemdp import Budget
from riemdp.domains import AdaptiveBall
from riemdp.mechanisms import AdaptiveMean, PrivateBall, TangentMeanNoise, VarianceNoise
from riemdp.randomness import NoiseSource, noise_source
from tests.seam import Doors, Noise, Searches, Sums, plant
from tests.statistical import ALPHA

GAUSS, PURE = Budget(1.0, 1e-6), Budget(2.0)
PLANE = R.Euclidean(2)
BALL = R.Ball(np.zeros(2), 1.0)


class Unused:
    """A source that must not be drawn from."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("noise was drawn")


def purse(budget: Budget, source: Any = None) -> Searches.Purse:
    return Searches.Purse(Searches.SomeNoise.of(budget), source or noise_source(1))


@pytest.mark.parametrize("budget", [GAUSS, PURE])
def test_an_answer_above_the_whole_is_refused_before_its_draw(budget: Budget) -> None:
    for share in (1.1, 0.0, -0.5, Fraction(11, 10)):
        with pytest.raises(R.RiemdpError, match="more than is left"):
            purse(budget, Unused()).count(3, share)
    held = purse(budget)
    held.count(3, 0.6)
    held.source = Unused()  # type: ignore[assignment]
    for ask in (
        lambda: held.count(3, 0.5),
        lambda: held.add(np.ones(2), 0.1, 0.5),
        lambda: held.add_apart([np.ones(2)], 0.1, 0.41),
    ):
        with pytest.raises(R.RiemdpError, match="not drawn"):
            ask()
    assert held.left == 1 - Fraction(0.6)  # a refused answer spends nothing


def test_shares_are_not_rounded() -> None:
    held = purse(GAUSS)
    for _ in range(9):
        held.take(0.1)
    assert held.left == 1 - 9 * Fraction(0.1) < Fraction(0.1)
    with pytest.raises(R.RiemdpError):
        held.take(0.1)  # the float is more than a tenth
    held.take(held.left)
    with pytest.raises(R.RiemdpError):
        held.take(5e-324)
    thirds = purse(GAUSS)
    assert [thirds.take(Fraction(1, 3)).part for _ in range(3)] == [Fraction(1, 3)] * 3
    whole = Searches.SomeNoise.of(GAUSS)
    assert whole.share(0.3).share(0.7).part == Fraction(0.3) * Fraction(0.7)


@pytest.mark.parametrize("kind", [AdaptiveMean, PrivateBall])
def test_a_search_that_asks_for_too_much_is_refused(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a plan whose counts cost a tenth each. The charge stays, and what is refused was
    not drawn.
    """
    taken: list[Fraction] = []
    drawn = [0]

    class Watched(Searches.Purse):
        def take(self, share: float | Fraction) -> Any:
            part = super().take(share)
            taken.append(Fraction(share))
            return part

        def count(self, exact: float, share: float | Fraction) -> float:
            found = super().count(exact, share)
            drawn[0] += 1
            return found

    plant(monkeypatch, "noise of shares", Watched)
    mechanism = kind(PLANE, AdaptiveBall(BALL), n=4000, budget=GAUSS)
    X = np.random.default_rng(0).normal(size=(4000, 2)) * 0.1
    mechanism.release(X, 1)
    assert sum(taken) <= 1
    taken.clear()
    drawn[0] = 0
    mechanism.plan = mechanism.plan.__class__(
        **{**vars(mechanism.plan), "coarse_share": 0.2, "fine_share": 0.2}
    )
    ledger = R.Ledger(GAUSS)
    with pytest.raises(R.RiemdpError, match="not drawn"):
        mechanism.release(X, 1, ledger=ledger)
    assert ledger.charges == 1
    assert sum(taken) <= 1
    assert drawn[0] in (len(taken), len(taken) - 1)  # one of them may be a mean


@pytest.mark.parametrize("who", ["records", "people", "parts"])
def test_every_answer_about_records_is_taken_from_the_one_purse(who: str, tmp_path: Path) -> None:
    space = R.SPDAffineInvariant(2)
    X = np.broadcast_to(np.eye(2), (40, 2, 2))
    domain, held = AdaptiveBall().on(space), purse(GAUSS)
    if who == "people":
        members = Sums.Membership(np.repeat(np.arange(20), 2), 40)
        asked = Searches.SearchPeople(domain, X, members, held)
    elif who == "parts":
        np.save(tmp_path / "x.npy", X)
        stream, _ = Doors.admit_in_parts(space, "X", np.load(tmp_path / "x.npy", mmap_mode="r"))
        asked = Searches.StreamedRecords(domain, stream, held)
    else:
        asked = Searches.SearchRecords(domain, X, held)
    share = Fraction(1, 8)
    asked.valid(share)
    assert held.left == asked.left == 1 - share
    asked.scale_count(0, 0.0, share)
    assert held.left == 1 - 2 * share
    asked.set_scales((0.0,) * domain.scales)
    asked.count(1.0, share)
    assert held.left == 1 - 3 * share
    asked.noisy_mean(1.0, share)
    assert held.left == asked.left == 1 - 4 * share


@pytest.mark.parametrize("budget", [GAUSS, PURE])
@pytest.mark.parametrize("share", [Fraction(1, 16), 1])
def test_the_noise_of_a_share_has_its_distribution(budget: Budget, share: Fraction) -> None:
    """Beside scipy: normal of z / sqrt(share), Laplace of 1 / (epsilon share); and two sums of
    classes, whose noise is independent.
    """
    strength = (
        R.gaussian_noise_multiplier(budget) / math.sqrt(share)
        if budget.delta
        else 1.0 / (budget.epsilon * float(share))
    )
    distribution = stats.norm(scale=strength) if budget.delta else stats.laplace(scale=strength)
    source = noise_source(4)
    counts = np.array([purse(budget, source).count(0, share) for _ in range(5000)])
    one = [purse(budget, source).add(np.zeros(1), 0.5, share)[0][0] / 0.5 for _ in range(5000)]
    apart = [
        purse(budget, source).add_apart([np.zeros(1), np.zeros(1)], 2.0, share)[0]
        for _ in range(5000)
    ]
    pairs = np.array(apart)[:, :, 0] / 2.0
    for drawn in (counts, np.array(one), pairs[:, 0], pairs[:, 1]):
        assert stats.kstest(drawn, distribution.cdf).pvalue > ALPHA
        assert stats.kstest(0.8 * drawn, distribution.cdf).pvalue < ALPHA
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5.0 / math.sqrt(5000)


@pytest.mark.parametrize("budget", [GAUSS, PURE])
def test_mechanisms_take_a_share_and_charge_it(budget: Budget) -> None:
    noise = Searches.SomeNoise.of(budget)
    quarter = noise.share(Fraction(1, 4))
    X = np.zeros((400, 2))
    times = 2.0 if budget.delta else 4.0
    for make in (
        lambda spent: TangentMeanNoise(PLANE, BALL, n=400, budget=spent),
        lambda spent: VarianceNoise(PLANE, BALL, n=400, budget=spent),
    ):
        ledger = R.Ledger(budget)
        one, whole = (make(b).release(X, 1, ledger=ledger) for b in (quarter, quarter))
        assert ledger.charges == 2
        assert one.guarantee == quarter.guarantee == whole.guarantee
        assert one.scale == pytest.approx(times * make(budget).release(X, 1).scale, rel=1e-8)
        assert one.budget is not None
        assert one.guarantee.within(one.budget)
        assert one.budget.delta == budget.delta
        make(quarter).release(X, 1, ledger=ledger)
        make(quarter).release(X, 1, ledger=ledger)
        with pytest.raises(R.BudgetExceeded):
            make(quarter).release(X, 1, ledger=ledger)
    point = {"sensitivity": 0.1, "ball": BALL}
    half = noise.share(0.5)
    if budget.delta:
        mechanism: Any = R.WrappedGaussian(PLANE, np.zeros(2), budget=half, **point)
        whole_one: Any = R.WrappedGaussian(PLANE, np.zeros(2), budget=budget, **point)
        assert mechanism.scale == pytest.approx(math.sqrt(2) * whole_one.scale, rel=1e-8)
    else:
        mechanism = R.WrappedLaplace(PLANE, np.zeros(2), epsilon=half, **point)
        whole_one = R.WrappedLaplace(PLANE, np.zeros(2), epsilon=budget, **point)
        assert mechanism.scale == pytest.approx(2 * whole_one.scale, rel=1e-8)
    assert mechanism.guarantee == half.guarantee


def test_noise_that_no_budget_made_is_refused() -> None:
    """It would carry no mark of a ledger in another process."""
    bare: Any = Searches.GaussianNoise(0.1)
    for make in (
        lambda: TangentMeanNoise(PLANE, BALL, n=400, budget=bare),
        lambda: R.WrappedGaussian(PLANE, np.zeros(2), sensitivity=0.1, budget=bare, ball=BALL),
    ):
        with pytest.raises(R.InvalidArgument, match="budget"):
            make()
    with pytest.raises(R.InvalidArgument, match="kind of noise"):
        R.WrappedLaplace(PLANE, np.zeros(2), sensitivity=0.1, epsilon=Searches.SomeNoise.of(GAUSS))


def test_a_scale_of_laplace_noise_without_a_grid_is_never_below() -> None:
    for share in (Fraction(1, 3), Fraction(0.7), Fraction(1)):
        noise = Searches.SomeNoise.of(PURE).share(share)
        scale = Noise.scale_for(noise, 0.3, 40)
        assert Fraction(scale) * Fraction(2.0) * share >= Fraction(0.3)
        assert scale == pytest.approx(0.3 / (2.0 * float(share)), rel=1e-13)


def test_a_source_is_not_looked_at_before_a_share_is_taken() -> None:
    source: NoiseSource = Unused()  # type: ignore[assignment]
    held = purse(PURE, source)
    with pytest.raises(AssertionError):
        held.count(0, 0.25)
    assert held.left == Fraction(3, 4)  # taken, then drawn: an interrupt in between gives nothing


@pytest.mark.parametrize("budget", [Budget(2.0), Budget(2.0, 1e-6)])
def test_rounding_of_every_vector_that_differs_is_in_the_sensitivity(budget):
    noise, many = Searches.SomeNoise.of(budget), 2000
    scale = Noise.scale_for(noise, 1.0, 5, many)
    moved = 1.0 + many * Noise.grid_of(scale) * math.sqrt(5.0)
    assert scale >= noise.multiplier * moved > Noise.scale_for(noise, 1.0, 5)
