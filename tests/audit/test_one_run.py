"""The audit in one run: its bound against exact distributions, its adversaries, mechanisms and
optimisers, each with planted faults.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

import riemdp
from riemdp import Budget, InvalidArgument, Ledger
from riemdp.audit import audit_in_one_run, audit_optimizer_in_one_run, epsilon_of_guesses
from riemdp.privacy import BudgetExceeded, gaussian, pure
from riemdp.privacy.accounting.gaussian import gaussian_delta
from tests.seam import Accounts, Gradients


# ------------------------------------------------------------------------------------------------
# the bound, against exact distributions
def exceeds(
    m: int, distribution: np.ndarray, epsilon: float, delta: float, confidence: float
) -> float:
    """The exact chance that the lower bound is above the truth, for m guesses whose number of right
    ones has the probabilities `distribution`.
    """
    found = [epsilon_of_guesses(m, v, delta, confidence) > epsilon for v in range(m + 1)]
    return float(distribution[np.array(found)].sum())


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_randomised_response_exceeds_the_truth_no_more_often_than_stated(epsilon, confidence):
    """Exactly: every answer is kept with the probability of epsilon-randomised response."""
    m = 60
    distribution = stats.binom.pmf(np.arange(m + 1), m, special.expit(epsilon))
    error = exceeds(m, distribution, epsilon, 0.0, confidence)
    assert error <= 1 - confidence
    assert error > 0.2 * (
        1 - confidence
    )  # and nothing is given away but the steps of the distribution
    # Planted: an answer is kept as if epsilon were 1 more.
    more = stats.binom.pmf(np.arange(m + 1), m, special.expit(epsilon + 1.0))
    assert exceeds(m, more, epsilon, 0.0, confidence) > 1 - confidence


def revealed_one_by_one(m: int, epsilon: float, delta: float) -> np.ndarray:
    """Each canary by itself is shown with probability delta, else answered at random."""
    q = special.expit(epsilon)
    return stats.binom.pmf(np.arange(m + 1), m, delta + (1 - delta) * q)


def revealed_together(m: int, epsilon: float, delta: float) -> np.ndarray:
    """All canaries are shown with probability delta."""
    distribution = (1 - delta) * stats.binom.pmf(np.arange(m + 1), m, special.expit(epsilon))
    distribution[m] += delta
    return distribution


def pooled(group: int, guesses: int, epsilon: float, delta: float) -> np.ndarray:
    """In every group of canaries one is shown with the chance that delta allows them together, and
    then it is the one that is guessed.
    """
    q, shown = special.expit(epsilon), 1 - (1 - delta) ** group
    return stats.binom.pmf(np.arange(guesses + 1), guesses, shown + (1 - shown) * q)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-4, 0.01])
def test_failures_of_probability_delta_are_paid_for(delta, epsilon):
    m = 80
    v = np.arange(m + 1)
    bound = np.array([Accounts.p_value(m, int(x), epsilon, delta) for x in v])
    distributions = (revealed_one_by_one, revealed_together)
    for distribution in distributions:
        tail = np.cumsum(distribution(m, epsilon, delta)[::-1])[::-1]
        assert np.all(tail <= bound * (1 + 1e-9))
        # Planted: without the term of delta the same distribution exceeds the bound.
        bare = np.array([Accounts.p_value(m, int(x), epsilon, 0.0) for x in v])
        assert np.any(tail > bare * (1 + 1e-6))
    # Of 8 canaries the one is guessed that was shown; planted: as if it had not been chosen.
    tail = np.cumsum(pooled(8, m, epsilon, delta)[::-1])[::-1]
    assert np.all(
        tail <= [Accounts.p_value(m, int(x), epsilon, delta, group=8) * (1 + 1e-9) for x in v]
    )
    assert np.any(tail > bound * (1 + 1e-6))


def test_the_last_guess_can_be_bought():
    """The adversary of the proof: it shows a canary with the chance that delta allows, and only
    where one more right guess decides. Dynamic programming over the guesses, exactly.
    """
    m, epsilon, delta = 30, 1.0, 1e-3
    q = special.expit(epsilon)
    for v in range(16, 31):
        value = (np.arange(m + 1) >= v).astype(float)
        for k in range(m):
            plain = q * np.append(value[1:], 1.0) + (1 - q) * value
            # all of the (1 - q) delta that a coin may deviate by is spent where the gain is largest
            gain = float(np.max(np.append(value[1:], 1.0)[: m - k] - value[: m - k]))
            value = plain + (1 - q) * delta * gain
        assert value[0] <= Accounts.p_value(m, v, epsilon, delta) * (1 + 1e-9)


def gaussian_canaries(m, rng, claimed, confidence):
    """The audit of a vector with a canary in each coordinate, at mu = 1."""
    coins = rng.random(m) < 0.5
    scores = np.where(coins, 0.5, -0.5) + rng.standard_normal(m)
    return Accounts.assess_guesses("gaussian", coins, scores, claimed, 1e-5, confidence)


def test_gaussians_are_bounded_at_their_confidence_and_less_than_half_of_epsilon_is_refuted():
    rng, audits, confidence = np.random.default_rng(5), 100, 0.9
    truth = gaussian(1.0).epsilon(1e-5)
    found = [gaussian_canaries(300, rng, gaussian(1.0), confidence) for _ in range(audits)]
    most = stats.binom.isf(1e-6, audits, 1 - confidence)
    assert sum(one.epsilon_lower > truth for one in found) <= most
    assert sum(one.refuted for one in found) <= most
    less = gaussian(2.2)
    assert 0.4 * truth < less.epsilon(1e-5) < 0.42 * truth
    assert all(gaussian_canaries(40_000, rng, less, 0.9).refuted for _ in range(2))


def test_a_pure_epsilon_that_is_twice_the_claim_is_refuted():
    rng = np.random.default_rng(7)
    for stated in (2.0, 1.0):
        coins = rng.random(400) < 0.5
        answers = np.where(rng.random(400) < special.expit(2.0), coins, ~coins)
        found = Accounts.assess_guesses("r", coins, answers.astype(float), pure(stated), 0.0)
        assert found.refuted == (stated < 2.0)
        assert 1.5 < found.epsilon_lower <= 2.0


def test_choosing_the_number_of_guesses_afterwards_is_paid_for():
    """Planted: the best of many numbers of guesses, each at full confidence, is above the truth too
    often; the audit is not.
    """
    rng, m, epsilon = np.random.default_rng(6), 128, 1.0
    wrong = right = 0
    for _ in range(120):
        coins = rng.random(m) < 0.5
        answers = np.where(rng.random(m) < special.expit(epsilon), coins, ~coins)
        scores = np.where(answers, 1.0, -1.0) * (1 + rng.random(m))  # their order says nothing
        found = Accounts.assess_guesses("r", coins, scores, pure(epsilon), 0.0, 0.8)
        right += found.epsilon_lower > epsilon
        order = np.argsort(-np.abs(scores))
        hits = np.cumsum(answers[order] == coins[order])
        wrong += any(
            epsilon_of_guesses(r, int(hits[r - 1]), 0.0, 0.8) > epsilon for r in range(3, m + 1, 3)
        )
    assert right <= stats.binom.isf(1e-6, 120, 0.2)
    assert wrong > stats.binom.isf(1e-6, 120, 0.2)


def test_more_evidence_bounds_more_and_no_evidence_nothing():
    assert epsilon_of_guesses(100, 50, 0.0) == 0.0
    found = [epsilon_of_guesses(100, v, 1e-5, group=8) for v in (60, 80, 95, 100)]
    assert found == sorted(found)
    assert 0.0 < found[0] < found[-1] < math.log(100 / -math.log(0.95))
    assert epsilon_of_guesses(100, 95, 1e-3) < epsilon_of_guesses(100, 95, 1e-5)
    assert epsilon_of_guesses(100, 95, 0.2) == 0.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: epsilon_of_guesses(0, 0, 0.0), "guesses"),
        (lambda: epsilon_of_guesses(8, 9, 0.0), "correct"),
        (lambda: epsilon_of_guesses(8, 8, 1.0), "delta"),
        (lambda: epsilon_of_guesses(8, 8, 0.0, 1.0), "confidence"),
        (lambda: audit_in_one_run(answer(1.0), lambda y: y, canaries=8), "canaries"),
        (lambda: audit_in_one_run(answer(1.0), lambda y: y[:-1], canaries=20), "score"),
        (lambda: audit_in_one_run(answer(1.0), lambda y: y * np.nan, canaries=20), "score"),
    ],
)
def test_what_cannot_be_used_is_named(call, named):
    with pytest.raises(InvalidArgument, match=named):
        call()


def answer(stated: float, real: float | None = None):
    """Gaussian answers about coins, with a stated and a real noise multiplier."""

    def run(coins, source):
        noise = (stated if real is None else real) * source.normals(coins.shape)
        return SimpleNamespace(value=np.where(coins, 0.5, -0.5) + noise, guarantee=gaussian(stated))

    return run


# ------------------------------------------------------------------------------------------------
# mechanisms and optimisers
def test_a_mechanism_stands_and_its_twin_with_a_quarter_of_the_noise_falls():
    m, space = 1500, riemdp.Euclidean(1500)
    mechanism = riemdp.WrappedGaussian(
        space, np.zeros(m), sensitivity=2.0, budget=Budget(2.0, 1e-5)
    )

    def release(reach):
        return lambda coins, source: mechanism.release(np.where(coins, reach, -reach), source)

    # a user's function is called as it is: what it releases is charged if a ledger is open
    with Ledger(Budget(0.001)) as ledger, pytest.raises(BudgetExceeded):
        audit_in_one_run(release(1.0), lambda y: y, canaries=m, rng=1)
    assert ledger.charges == 0
    right = audit_in_one_run(release(1.0), lambda y: y, canaries=m, rng=1)
    assert not right.refuted
    assert 0.0 < right.epsilon_lower < 2.0
    assert "replace-one" in str(right)
    wrong = audit_in_one_run(release(4.0), lambda y: y, canaries=m, rng=1)
    assert wrong.refuted
    assert "REFUTED" in str(wrong)


RUNS = {
    "DPRGD": (lambda b: riemdp.DPRGD(4, 0.1, 1.0), 4.0, 2.0),
    "poisson": (lambda b: riemdp.DPRSGD(4, b, 0.1, 1.0, sampling="poisson"), 3.0, 1.0),
    "allocation": (lambda b: riemdp.DPRSGD(4, b, 0.1, 1.0, sampling="allocation"), 2.0, 1.0),
}


@pytest.mark.parametrize("name", list(RUNS))
def test_a_run_stands_and_one_with_too_little_noise_falls(name, monkeypatch):
    make, z, clips = RUNS[name]

    def attack(m):
        size = m if name == "DPRGD" else m // 4
        run = make(size)
        return audit_optimizer_in_one_run(run, noise_std=z * clips / size, canaries=m, rng=2)

    right = attack(400)
    assert right.claimed.adjacency == ("replace-one" if clips == 2 else "add-or-remove-one")
    assert not right.refuted
    assert right.epsilon_lower <= right.claimed_epsilon < 3.0
    kept = Gradients.NoisyGradient.answer

    def quiet(gradient, kernel, state, total, normals, **more):
        return kept(gradient, kernel, state, total, 0.05 * normals, **more)

    monkeypatch.setattr(Gradients.NoisyGradient, "answer", quiet)
    # A number of canaries of its own, so that nothing compiled is taken from another test.
    assert attack(404).refuted


def test_the_term_of_delta_is_that_of_the_gaussian_distribution():
    """What a Gaussian coin deviates by beyond epsilon is (1 - q) delta, half of it on either side:
    the quantity that the proof bounds, by quadrature.
    """
    for mu, epsilon in ((1.0, 0.5), (2.0, 3.0)):
        y = np.linspace(-12, 12, 200_001)
        plus, minus = stats.norm.pdf(y, mu / 2), stats.norm.pdf(y, -mu / 2)
        q = special.expit(epsilon)
        posterior = np.maximum(plus, minus) / (plus + minus)
        excess = np.sum(np.maximum(posterior - q, 0.0) * (plus + minus) / 2) * (y[1] - y[0])
        assert excess == pytest.approx((1 - q) * gaussian_delta(epsilon, mu), rel=1e-4)
