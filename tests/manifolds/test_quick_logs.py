"""Logarithms by products of matrices, their certificates, and inverses."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp.manifolds import _quick_logs

K = 7


def spectral(f, logs: np.ndarray, seed: int = 0) -> np.ndarray:
    """Q f(logs) Q^T with random Q."""
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((*logs.shape, logs.shape[-1])))[0]
    return (q * f(logs)[:, None, :]) @ q.swapaxes(1, 2)


def spectra(reach: float, n: int = 120, k: int = K) -> np.ndarray:
    """Log-eigenvalues up to the reach: one there, many there, and anywhere."""
    logs = np.random.default_rng(1).uniform(-reach, reach, (n, k))
    logs[0::3, 1:] *= 0.01
    logs[:, 0] = np.where(np.arange(n) % 2 == 0, reach, -reach)
    logs[1::3] = np.where(logs[1::3] > 0, reach, -reach)
    return logs


def evaluated(series: _quick_logs.Series, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    room = np.full((series.arrays, *w.shape), np.nan, w.dtype)
    return series.logs(w, z, room, np.empty_like(w))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("accuracy", [1e-5, 1e-9, 1e-12])
@pytest.mark.parametrize("reach", [0.01, 0.5, 1.3, 3.0, 4.4, 6.0])
def test_logarithms_err_less_than_is_claimed(reach, accuracy, kind) -> None:
    series = _quick_logs.series(reach, accuracy)
    assert series is not None
    assert series.missed <= accuracy
    assert series.reach >= reach
    logs = spectra(series.reach)
    w, z = (spectral(f, logs).astype(kind) for f in (np.exp, lambda x: np.exp(-x)))
    truth = spectral(lambda x: x, logs)
    error = np.linalg.norm(evaluated(series, w, z) - truth, axis=(1, 2))
    rounding = series.error(K, kind) - np.sqrt(K) * series.missed
    assert np.max(error) <= np.sqrt(K) * series.missed + 0.1 * rounding
    # of inverses as they are computed, in double precision
    w = spectral(np.exp, logs)
    w = 0.5 * (w + w.swapaxes(1, 2))
    z = np.empty_like(w)
    assert np.all(_quick_logs.inverses(w, np.empty((2, K, K, len(w))), z))
    found = evaluated(series, w.astype(kind), z.astype(kind))
    error = np.linalg.norm(found - truth, axis=(1, 2))
    assert np.max(error) <= np.sqrt(K) * series.missed + 0.1 * rounding


@pytest.mark.parametrize("reach", [0.5, 2.0, 6.0])
def test_what_a_series_misses_is_bounded_and_reached(reach) -> None:
    """On scalars, against fifty digits; a bound a hundred times too large would cost products."""
    mpmath = pytest.importorskip("mpmath")
    for accuracy in (1e-3, 1e-6, 1e-9):
        series = _quick_logs.series(reach, accuracy)
        assert series is not None
        x = np.linspace(-series.reach, series.reach, 400)
        with mpmath.workdps(50):
            exact = [mpmath.exp(mpmath.mpf(float(v))) for v in x]
            w = np.array([float(e) for e in exact])[:, None, None]
            z = np.array([float(1 / e) for e in exact])[:, None, None]
        missed = np.max(np.abs(evaluated(series, w, z)[:, 0, 0] - x))
        assert 1e-2 * series.missed <= missed <= series.missed + 1e-12


def test_there_is_no_series_where_decompositions_are_faster() -> None:
    assert _quick_logs.series(6.001, 1e-3) is None
    assert _quick_logs.series(np.inf, 1e-3) is None
    assert _quick_logs.series(np.nan, 1e-3) is None
    assert _quick_logs.series(3.0, 1e-17) is None
    assert _quick_logs.reach_of(np.nan) == np.inf


@pytest.mark.parametrize("reach", [0.1, 1.0, 3.85, 6.0])
def test_the_certificate_is_passed_by_every_matrix_of_the_ball_and_by_none_beyond_its_reach(
    reach,
) -> None:
    rng = np.random.default_rng(0)
    logs = rng.standard_normal((400, K))
    logs[::2, 1:] *= 1e-3  # one direction alone: where the certificate is tight
    inside = reach * logs / np.linalg.norm(logs, axis=1, keepdims=True)
    top = 2.0 * np.cosh(reach) - 2.0

    def width(x: np.ndarray) -> np.ndarray:
        w, z = spectral(np.exp, x), spectral(lambda y: np.exp(-y), x)
        return _quick_logs.widths(w, z, np.empty_like(w))

    assert np.all(width(inside) <= top * (1.0 + 1e-12))
    beyond = reach * (1.0 + 1e-6) * logs / np.max(np.abs(logs), axis=1, keepdims=True)
    assert np.all(width(beyond) > top)
    assert _quick_logs.reach_of(top) == pytest.approx(reach)
    assert not np.all(width(1.001 * inside) <= top)  # planted: a ball a thousandth larger


@pytest.mark.parametrize("k", [1, 2, 4, 11, 20])
def test_inverses_and_which_matrices_have_a_positive_spectrum(k) -> None:
    rng = np.random.default_rng(k)
    n = 60
    logs = rng.uniform(-5.0, 5.0, (n, k))
    signs = np.ones((n, k))
    signs[::3, rng.integers(k)] = -1.0  # such as -1 and 1 / -1, whose sum is moderate
    w = spectral(lambda x: signs * np.exp(x), logs)
    w = 0.5 * (w + w.swapaxes(1, 2))
    w[-1], w[-2], w[-3] = np.nan, 0.0, np.inf
    found = np.empty_like(w)
    with np.errstate(all="ignore"):
        definite = _quick_logs.inverses(w, np.full((2, k, k, n), np.nan), found)
    wanted = np.arange(n) % 3 != 0
    wanted[-3:] = False
    np.testing.assert_array_equal(definite, wanted)
    product = found[definite] @ w[definite]
    np.testing.assert_allclose(product, np.tile(np.eye(k), (len(product), 1, 1)), atol=1e-9)


def test_a_matrix_that_is_nearly_singular_does_not_pass() -> None:
    """Rounding may give it an inverse; that is too large to be certified, or no inverse."""
    rng = np.random.default_rng(0)
    for condition in 10.0 ** np.arange(6, 25):
        logs = np.zeros((40, K))
        logs[:, 0] = -np.log(condition)
        w = spectral(np.exp, logs, seed=int(rng.integers(1000)))
        w = 0.5 * (w + w.swapaxes(1, 2))
        z = np.empty_like(w)
        with np.errstate(all="ignore"):
            definite = _quick_logs.inverses(w, np.empty((2, K, K, 40)), z)
            width = _quick_logs.widths(w, z, np.empty_like(w))
        assert not np.any(definite & (width <= 2.0 * np.cosh(_quick_logs.LONGEST)))
