"""Means of many SPD matrices without decompositions: the bound of the residual, and its parts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import riemdp
from riemdp.statistics import _affine_mean, _bend, _quick_affine, _threads

N, K = 2100, 5


def records(n: int = N, k: int = K, size: float = 1.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a, mix = rng.standard_normal((n, k, 2 * k)), rng.standard_normal((k, k))
    x = mix @ (a @ a.swapaxes(1, 2) / (2 * k)) @ mix.T
    values, q = np.linalg.eigh(x)
    return (q * (values**size)[:, None, :]) @ q.swapaxes(1, 2)


def residual(mean: np.ndarray, x: np.ndarray, w: np.ndarray | None = None) -> float:
    """The mean logarithm in the frame of a Cholesky factor, by NumPy alone."""
    inverse = np.linalg.inv(np.linalg.cholesky(mean))
    values, q = np.linalg.eigh(inverse @ x @ inverse.T)
    logs = (q * np.log(values)[:, None, :]) @ q.swapaxes(1, 2)
    w = np.full(len(x), 1.0 / len(x)) if w is None else w
    return float(np.linalg.norm(np.tensordot(w, logs, axes=1)))


def bent(gaps: np.ndarray) -> np.ndarray:
    half = np.maximum(np.abs(gaps) / 2, 1e-9)
    return half / np.tanh(half)


def logarithms(n: int, k: int, size: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Logarithms, with their eigenvalues and -vectors."""
    rng = np.random.default_rng(seed)
    values = size * rng.standard_normal((n, k))
    q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]
    return (q * values[:, None, :]) @ q.swapaxes(1, 2), values, q


# ------------------------------------------------------------------------------- the Hessian
@pytest.mark.parametrize("width", [0.3, 2.0, 6.0, 11.0])
def test_what_a_polynomial_misses_is_bounded(width) -> None:
    bend = _bend.bend(width)
    for lengths in np.random.default_rng(0).uniform(0.0, 1.5 * width, (50, 1)):
        gaps = np.linspace(0.0, np.sqrt(2.0) * lengths[0], 5000)
        powers = np.vander(gaps**2, 4, increasing=True)
        seen = np.max(np.abs(powers @ bend.coefficients - bent(gaps)))
        bound = bend.missed(lengths)[0]
        assert seen <= bound
        beyond = np.sqrt(2.0) * lengths[0] > 2.0 * bend.step * 2048
        assert beyond == (bound == np.inf)
    assert bend.missed(np.array([np.nan, np.inf]))[0] == np.inf


@pytest.mark.parametrize("k", [4, 11])
def test_moments_give_the_hessian_and_products_with_it(k) -> None:
    n = 37
    a, values, q = logarithms(n, k, 0.8)
    w = np.random.default_rng(1).uniform(0.5, 1.5, n)
    w /= np.sum(w)
    lengths = np.linalg.norm(a, axis=(1, 2))
    bend = _bend.bend(1.5 * float(np.max(lengths)))
    kernel = bent(values[:, :, None] - values[:, None, :])
    rows, columns, scale = _affine_mean.packing(k)

    def exact(s: np.ndarray) -> np.ndarray:
        inside = kernel * (q.swapaxes(1, 2) @ s @ q)
        return np.tensordot(w, q @ inside @ q.swapaxes(1, 2), axes=1)

    def matrix(y: np.ndarray) -> np.ndarray:
        s = np.empty((k, k))
        s[rows, columns] = s[columns, rows] = y / scale
        return s

    basis = [matrix(y) for y in np.eye(len(rows))]
    hessian = np.array([exact(s)[rows, columns] * scale for s in basis])
    small, light = a.astype(np.float32), w.astype(np.float32)
    room = np.full((_bend.ARRAYS, n, k, k), np.nan, np.float32)
    halves = [
        _bend.moments(small[part], light[part], bend, room[:, : len(small[part])])
        for part in (slice(0, 20), slice(20, n))
    ]
    found = _bend.Moments.mean(halves).hessian(bend)
    missed = float(w @ bend.missed(lengths))
    assert np.linalg.norm(found - hessian, 2) <= missed + _bend.ROUNDED
    assert missed < 0.1
    for s in (basis[0], basis[-1], matrix(np.random.default_rng(2).normal(size=len(rows)))):
        for size in (1.0, 1e-30, 1e20):
            image = _bend.product(small, light, bend, size * s, room)
            error = np.linalg.norm(image - size * exact(s)) / (size * np.linalg.norm(s))
            assert error <= missed + 0.1 * _bend.ROUNDED
    assert not np.any(_bend.product(small, light, bend, np.zeros((k, k)), room))


@pytest.mark.parametrize("size", [0.5, 2.0, 4.0])
def test_single_precision_adds_little_to_a_product(size) -> None:
    """Beside the same polynomial in double precision."""
    n, k = 50, 8
    a = logarithms(n, k, size, seed=3)[0]
    a *= 6.0 / max(6.0, float(np.max(np.abs(np.linalg.eigvalsh(a)))))
    bend = _bend.bend(11.0)
    w = np.full(n, 1.0 / n)
    for seed in range(20):
        s = np.random.default_rng(seed).standard_normal((k, k))
        s = (s + s.T) / np.linalg.norm(s + s.T)
        double = _bend.product(a, w, bend, s, np.empty((2, n, k, k)))
        single = _bend.product(
            a.astype(np.float32), w.astype(np.float32), bend, s, np.empty((2, n, k, k), np.float32)
        )
        assert np.linalg.norm(single - double) <= 0.1 * _bend.ROUNDED


# ------------------------------------------------------------------------------- the mean
@pytest.mark.parametrize("k", [4, 11])
@pytest.mark.parametrize("size", [0.1, 1.0, 1.6])
@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-9])
def test_the_residual_that_is_stated_is_a_bound(k, size, tol) -> None:
    x = records(k=k, size=size)
    found = _quick_affine.quick_affine_mean(x, None, tol, 60)
    assert residual(found.value, x) <= found.residual <= tol
    assert found.passes <= (4 if size <= 1.0 else 6)


def test_many_records_take_this_way_and_their_mean_is_that_of_decompositions(monkeypatch) -> None:
    x, space = records(), riemdp.SPDAffineInvariant(K)
    w = np.random.default_rng(0).uniform(0.0, 1.0, N)
    for weights in (None, w):
        shares = None if weights is None else weights / np.sum(weights)
        result = riemdp.frechet_mean(space, x, weights=weights, tol=1e-10)
        assert result.converged
        assert residual(np.asarray(result.value), x, shares) <= result.residual
        old = _affine_mean.affine_mean(x, shares, 1e-10, 60).value
        assert float(space.dist(result.value, old)) <= 2e-10
        monkeypatch.setattr(_affine_mean.np.linalg, "eigh", few_decompositions(np.linalg.eigh))
        np.testing.assert_array_equal(
            np.asarray(riemdp.frechet_mean(space, x, weights=weights, tol=1e-10).value),
            np.asarray(result.value),
        )
        monkeypatch.undo()


def few_decompositions(eigh):
    def counted(a):
        assert a.ndim == 2 or len(a) <= max(_quick_affine._START)
        return eigh(a)

    return counted


@pytest.mark.parametrize("tol", [1e-6, 1e-9])
def test_the_bound_holds_whatever_the_polynomial(monkeypatch, tol) -> None:
    """One that is far from the Hessian costs passes and nothing else."""
    x = records(size=1.5)
    usual = _quick_affine.quick_affine_mean(x, None, tol, 200)
    _bend._bend.cache_clear()
    monkeypatch.setattr(_bend, "fitted", lambda width: np.array([1.3, 0.0, 0.0, 0.0]))
    found = _quick_affine.quick_affine_mean(x, None, tol, 200)
    _bend._bend.cache_clear()
    assert residual(found.value, x) <= found.residual <= tol
    assert found.passes > usual.passes


def test_records_too_far_for_a_series_are_decomposed_and_no_others(monkeypatch) -> None:
    x = records()
    x[7] *= np.exp(9.0)
    x[11] *= np.exp(-9.0)
    monkeypatch.setattr(_quick_affine, "PART", 100)
    seen: list[int] = []
    honest = _quick_affine._decomposed
    monkeypatch.setattr(
        _quick_affine, "_decomposed", lambda a, out: (seen.append(len(a)), honest(a, out))[1]
    )
    found = _quick_affine.quick_affine_mean(x, None, 1e-8, 60)
    assert residual(found.value, x) <= found.residual <= 1e-8
    part = _quick_affine.part_size(x, _quick_affine.SINGLE)
    assert seen
    assert max(seen) <= part < N


@pytest.mark.parametrize("what", ["nan", "inf", "indefinite", "asymmetric", "wide"])
def test_what_is_not_suitable_is_left_to_decompositions(what) -> None:
    x = records()
    x[100] = {
        "nan": np.full((K, K), np.nan),
        "inf": np.full((K, K), np.inf),
        "indefinite": np.diag([1.0, 1.0, 1.0, 1.0, -1.0]),
        "asymmetric": x[100] + np.triu(np.full((K, K), 1e-3), 1),
        "wide": np.diag([1e5, 1.0, 1.0, 1.0, 1e-5]),
    }[what]
    with pytest.raises(_affine_mean.NotSuitable):
        _quick_affine.quick_affine_mean(x, None, 1e-9, 60)
    space = riemdp.SPDAffineInvariant(K)
    if what == "wide":
        assert riemdp.frechet_mean(space, x, tol=1e-7).converged
    else:
        with pytest.raises(riemdp.InvalidArgument, match="1 of 2100 records"):
            riemdp.frechet_mean(space, x)


def test_equal_records_and_two_distant_groups() -> None:
    x = np.tile(records(1)[0], (N, 1, 1))
    found = _quick_affine.quick_affine_mean(x, None, 1e-9, 60)
    np.testing.assert_allclose(found.value, x[0], rtol=1e-9)
    x[::2] = np.linalg.inv(x[1]) * 3.0
    found = _quick_affine.quick_affine_mean(x, None, 1e-9, 60)
    assert residual(found.value, x) <= found.residual <= 1e-9


def test_the_mean_does_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    x = records(n=5000, k=8)
    means = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(_threads, "cores", lambda cores=cores: cores)
        means.append(_quick_affine.quick_affine_mean(x, None, 1e-9, 60).value)
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])


@pytest.mark.parametrize("cores", [1, 2])
def test_what_numpy_was_told_of_rounding_errors_is_no_event(monkeypatch, cores) -> None:
    monkeypatch.setattr(_threads, "cores", lambda: cores)
    x = records()
    x[3], x[4] = 1e-160 * x[3], 1e160 * x[4]
    with np.errstate(all="raise"):
        plain = _quick_affine.quick_affine_mean(records(), None, 1e-9, 60)
        with pytest.raises(_affine_mean.NotSuitable):
            _quick_affine.quick_affine_mean(x, None, 1e-9, 60)
    assert plain.residual <= 1e-9


def test_a_series_that_is_too_rough_is_not_taken_for_exact(monkeypatch) -> None:
    """The error of logarithms is in the residual: with a tolerance below it there is no mean."""
    with pytest.raises(_affine_mean.NotSuitable):
        _quick_affine.quick_affine_mean(records(), None, 1e-13, 60)


def test_what_a_series_misses_is_in_the_residual(monkeypatch) -> None:
    """Of a series that is rough the mean is the wrong one, by less than is stated. (Two thirds of
    the records lie in one direction, one third twice as far in the other, so that errors, which are
    odd functions, do not cancel.)
    """
    honest = _quick_affine.series
    monkeypatch.setattr(_quick_affine, "series", lambda reach, missing: honest(reach, 3e-3))
    a = np.diag([1.1, 0.6, 0.2, -0.1, -0.9])
    x = np.tile(scipy.linalg.expm(a), (N, 1, 1))
    x[::3] = scipy.linalg.expm(-2.0 * a)
    w = np.tile([1.0, 1.0, 1.0], N // 3) / N
    found = _quick_affine.quick_affine_mean(x, w, 5e-2, 60)
    gradient = found.residual - 3e-3 * np.sqrt(K)
    true = residual(found.value, x)
    assert gradient < 0.1 * true < true <= found.residual


def test_a_wrong_inverse_is_found(monkeypatch) -> None:
    x = records()

    def rough(w, room, out):
        out[...] = np.linalg.inv(w)
        out[17] *= 1.0 + 1e-4
        return np.ones(len(w), bool)

    monkeypatch.setattr(_quick_affine, "inverses", rough)
    work = _affine_mean.Work(map)
    records_, back, width = _quick_affine.whitened(x, np.eye(K), 1e-10, work)
    first = np.arange(0, N, 2 * _quick_affine.part_size(x))
    assert np.flatnonzero(np.isinf(width)).tolist() == (first + 17).tolist()
    np.testing.assert_array_equal(records_[17], np.eye(K))
    np.testing.assert_array_equal(back[17], np.eye(K))


def test_memory_is_that_of_one_mean_at_a_time() -> None:
    with _affine_mean.rooms() as first, _affine_mean.rooms() as second:
        assert first is not second
    first.free.append(np.empty(_affine_mean._KEPT + 1, np.uint8))
    with _affine_mean.rooms() as third:
        third.free.append(np.empty(_affine_mean._KEPT + 1, np.uint8))
    assert all(one is not third for one in _affine_mean._kept)
