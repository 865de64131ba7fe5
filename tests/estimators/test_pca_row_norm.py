"""PrivatePCA(row_norm="private"): what the length of rows costs, and what one row can do to it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, PrivatePCA
from riemdp.randomness import noise_source
from tests.estimators.test_pca import unpacked
from tests.purses import noted
from tests.seam import Sums
from tests.statistical import ALPHA, gaussian_p_value

BUDGET = Budget(1.0, 1e-5)


def table(n=2000, d=4, unit=1.0):
    return unit * np.random.default_rng(0).normal(size=(n, d)) * np.linspace(1.0, 0.3, d)


def fitted(X, budget=BUDGET, seed=0, **more):
    return PrivatePCA(
        n_components=2, budget=budget, row_norm="private", random_state=seed, **more
    ).fit(X)


# ------------------------------------------------------------------------------- what is released
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("budget", [BUDGET, Budget(2.0)])
def test_units_need_not_be_known(unit, budget):
    X = table(unit=unit)
    lengths = np.linalg.norm(X, axis=1)
    pca = fitted(X, budget)
    assert 0.4 < np.mean(lengths <= pca.row_norm_) <= 1.0
    assert pca.row_norm_ < 1.1 * lengths.max()
    assert abs(pca.components_[0, 0]) > 0.95
    assert pca.guarantee_.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-9)
    assert pca.guarantee_.epsilon(budget.delta) > 0.99 * budget.epsilon
    assert pca.release_.details["row_norm"] == pca.row_norm_
    assert "found privately" in pca.release_.details["domain"]


# ------------------------------------------------------------------------------------- guarantees
def normalised_noise(releases=300, spent=1.0):
    """The noise of released matrices over the sigma that their share pays for, computed here from
    z, the share and the released length alone, in an independent frame W A W^T.
    """
    X, n = table(60, 3), 60
    budget = Budget(12.0, 1e-5)
    mechanism = Sums.AdaptiveSecondMoment(3, n=n, budget=budget)
    z = riemdp.gaussian_noise_multiplier(budget)
    w = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    source, out = noise_source(1), []
    for _ in range(releases):
        release = mechanism.release(X, source)
        r = release.details["row_norm"]
        length = np.linalg.norm(X, axis=1)
        clipped = X * np.minimum(1.0, r / length)[:, None]
        e = w @ (unpacked(release.value, 3) - clipped.T @ clipped / n) @ w.T
        left = 1.0 - spent * release.details["share_of_search"]
        sigma = z / math.sqrt(left) * math.sqrt(2.0) * r**2 / n
        frame = np.concatenate([np.diag(e), math.sqrt(2) * e[np.triu_indices(3, 1)]])
        out.append(frame / sigma)
    return np.array(out)


def test_noise_is_what_the_share_that_is_left_pays_for():
    noise = normalised_noise()
    assert gaussian_p_value(noise, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * noise, 1.0) < ALPHA
    assert gaussian_p_value(noise, 0.5) < ALPHA


@pytest.mark.parametrize("budget", [BUDGET, Budget(1.0)])
def test_all_shares_together_are_the_budget(budget, monkeypatch):
    notes = noted(monkeypatch)
    mechanism = Sums.AdaptiveSecondMoment(4, n=2000, budget=budget)
    mechanism.release(table(), 0)
    assert len(notes.shares) == 14
    assert notes.add_up()


class FromTheData(Sums.AdaptiveSecondMoment):
    """A planted fault: the length of the longest row, taken without paying."""

    def _located(self, lengths, finite, rank, source, members):
        return float(lengths.max())


def advantage(kind, releases=400):
    """The largest mu that an attacker proves who sees the length and the matrix, from a pair of
    tables that differ in one row, and the mu that is claimed.
    """
    budget = Budget(8.0, 1e-5)
    mu = 1.0 / riemdp.gaussian_noise_multiplier(budget)
    n = math.ceil(60 / mu)
    X = np.zeros((n, 2))
    X[:, 0] = 1.0
    Y = X.copy()
    Y[0] = [0.0, 3.0]
    mechanism, source = kind(2, n=n, budget=budget), noise_source(4)
    seen = [[mechanism.release(x, source) for _ in range(releases)] for x in (X, Y)]
    scores = [
        [np.array([score(r) for r in rs]) for rs in seen]
        for score in (
            lambda r: r.details["row_norm"],
            lambda r: np.asarray(r.value) @ [-1.0, 1.0, 0.0] / r.scale,
        )
    ]
    return max(riemdp.audit.gaussian_mu_lower_bound(b, a) for a, b in scores), mu


def test_one_row_shows_no_more_than_is_claimed():
    found, claimed = advantage(Sums.AdaptiveSecondMoment)
    assert found < claimed


def test_a_length_from_the_data_is_detected():
    found, claimed = advantage(FromTheData)
    assert found > claimed


def test_one_charge_and_a_refusal_from_public_numbers():
    ledger = Ledger(Budget(1.0, 1e-5))
    with ledger:
        for X in (table(60), np.full((60, 4), np.nan), np.full((60, 4), 1e300)):
            with pytest.raises(InvalidArgument, match=r"`row_norm`.*too few.*Nothing was spent"):
                fitted(X, on_invalid="center")
        assert ledger.charges == 0
        fitted(table())
    assert ledger.charges == 1
    need = Sums.AdaptiveSecondMoment(4, n=1, budget=BUDGET).need
    fitted(table(need))
    with pytest.raises(InvalidArgument, match="too few"):
        fitted(table(need - 1))


def test_no_row_decides_whether_an_error_is_raised():
    X = table()
    components = fitted(X).components_
    for bad in (np.nan, np.inf, 1e300, -1e300, 5e-324):
        Y = X.copy()
        Y[3] = bad
        assert np.allclose(fitted(Y, on_invalid="center").components_, components, atol=0.2)
    for everything in (np.nan, 1e300, 0.0):
        pca = fitted(np.full_like(X, everything), on_invalid="center")
        assert np.all(np.isfinite(pca.components_))
    words = X.astype(object)
    words[5, 1] = "seven"
    fitted(words, on_invalid="center")


@pytest.mark.parametrize("value", [-3.4028234663852886e38, np.finfo(float).max])
def test_rows_too_long_to_be_counted_are_not_in_the_matrix(value):
    """Usual "no data" values: they were in no count and, stretched, in the matrix."""
    X = table(n=4000)
    X[:1200] = value
    pca = fitted(X, Budget(2.0, 1e-6), on_invalid="center")
    assert abs(pca.components_[0, 0]) > 0.97
    assert pca.explained_variance_[0] < 1.5
