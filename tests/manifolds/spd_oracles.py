"""Independent sources for the tests of the SPD spaces: SciPy's general matrix functions, and mpmath
with 60 digits.

Nothing here shares a formula with the library: Pade and Schur based matrix functions (SciPy), or
60-digit eigenvectors.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import scipy.linalg as sl


def symmetric(rng: np.random.Generator, k: int) -> np.ndarray:
    """Isotropic Gaussian symmetric matrix: N(0, 1) on the diagonal, N(0, 1/2) off it."""
    z = rng.standard_normal((k, k))
    return (z + z.T) / 2


def spd_matrix(rng: np.random.Generator, k: int, condition: float = 20.0) -> np.ndarray:
    """Random eigenvectors, log-spaced eigenvalues from 1 to 1/condition."""
    q = np.linalg.qr(rng.standard_normal((k, k)))[0]
    w = (q * np.logspace(0, -np.log10(condition), k)) @ q.T
    return (w + w.T) / 2


def _sym(a: np.ndarray) -> np.ndarray:
    return np.real(a + a.T) / 2


class Affine:
    @staticmethod
    def inner(w, u, v):
        return np.trace(np.linalg.solve(w, u) @ np.linalg.solve(w, v))

    @staticmethod
    def exp(w, u):
        return _sym(w @ sl.expm(np.linalg.solve(w, u)))

    @staticmethod
    def log(w, x):
        return _sym(w @ sl.logm(np.linalg.solve(w, x)))

    @staticmethod
    def dist(a, b):
        return np.linalg.norm(np.log(sl.eigh(a, b, eigvals_only=True)))

    @staticmethod
    def transport(a, b, u):
        e = np.real(sl.sqrtm(b @ np.linalg.inv(a)))
        return e @ u @ e.T


class LogEuclidean:
    @staticmethod
    def dlog(w, u):
        # Upper right block of the logarithm of [[w, u], [0, w]].
        k = len(w)
        block = np.block([[w, u], [np.zeros((k, k)), w]])
        return np.real(sl.logm(block))[:k, k:]

    @staticmethod
    def dexp(y, s):
        return sl.expm_frechet(y, s, compute_expm=False)

    @classmethod
    def inner(cls, w, u, v):
        return np.sum(cls.dlog(w, u) * cls.dlog(w, v))

    @classmethod
    def exp(cls, w, u):
        return sl.expm(_sym(sl.logm(w)) + cls.dlog(w, u))

    @classmethod
    def log(cls, w, x):
        return cls.dexp(_sym(sl.logm(w)), _sym(sl.logm(x)) - _sym(sl.logm(w)))

    @staticmethod
    def dist(a, b):
        return np.linalg.norm(sl.logm(a) - sl.logm(b))

    @classmethod
    def transport(cls, a, b, u):
        return cls.dexp(_sym(sl.logm(b)), cls.dlog(a, u))


class Bures:
    @staticmethod
    def inner(w, u, v):
        return 0.5 * np.trace(sl.solve_continuous_lyapunov(w, u) @ v)

    @staticmethod
    def exp(w, u):
        move = np.eye(len(w)) + sl.solve_continuous_lyapunov(w, u)
        return move @ w @ move

    @staticmethod
    def log(w, x):
        root = np.real(sl.sqrtm(w @ x))
        return root + root.T - 2 * w

    @staticmethod
    def dist(a, b):
        return np.sqrt(np.trace(a) + np.trace(b) - 2 * np.trace(np.real(sl.sqrtm(a @ b))))

    @staticmethod
    def transport(a, b, u):
        # g_b^-1/2 g_a^1/2 as a power of the k^2 x k^2 matrix of v -> 2 (p v + v p).
        def operator(p):
            return 2 * (np.kron(p, np.eye(len(p))) + np.kron(np.eye(len(p)), p))

        s = np.linalg.solve(np.real(sl.sqrtm(operator(a))), u.ravel())
        return (np.real(sl.sqrtm(operator(b))) @ s).reshape(u.shape)


# ---------------------------------------------------------------- 60 digits
mp.mp.dps = 60


def exact(a: Any) -> mp.matrix:
    return mp.matrix(np.asarray(a).tolist())


def apply(a: mp.matrix, f: Any) -> mp.matrix:
    values, q = mp.eigsy(a)
    return q * mp.diag([f(x) for x in values]) * q.T


def _frobenius(a: mp.matrix) -> mp.mpf:
    return mp.sqrt(sum(x * x for x in a))


def _map(a: mp.matrix, b: mp.matrix) -> mp.matrix:
    root, inverse = apply(a, mp.sqrt), apply(a, lambda x: 1 / mp.sqrt(x))
    return inverse * apply(root * b * root, mp.sqrt) * inverse


def exact_dist(metric: str, a: Any, b: Any) -> float:
    """Distance of the float64 matrices exactly as given, rounded once."""
    a, b = exact(a), exact(b)
    if metric == "affine-invariant":
        inverse = apply(a, lambda x: 1 / mp.sqrt(x))
        return float(mp.sqrt(sum(mp.log(x) ** 2 for x in mp.eigsy(inverse * b * inverse)[0])))
    if metric == "log-euclidean":
        return float(_frobenius(apply(a, mp.log) - apply(b, mp.log)))
    t = _map(a, b) - mp.eye(a.rows)
    s = t * a * t
    return float(mp.sqrt(sum(s[i, i] for i in range(a.rows))))


def exact_norm(metric: str, a: Any, v: Any) -> float:
    a, v = exact(a), exact(v)
    values, q = mp.eigsy(a)
    t, n = q.T * v * q, a.rows
    total = mp.mpf(0)
    for i in range(n):
        for j in range(n):
            x, y = values[i], values[j]
            if metric == "affine-invariant":
                weight = 1 / mp.sqrt(x * y)
            elif metric == "log-euclidean":
                weight = 1 / x if i == j else (mp.log(x) - mp.log(y)) / (x - y)
            else:
                weight = 1 / mp.sqrt(2 * (x + y))
            total += (weight * t[i, j]) ** 2
    return float(mp.sqrt(total))


def exact_log(metric: str, a: Any, b: Any) -> mp.matrix:
    a, b = exact(a), exact(b)
    if metric == "affine-invariant":
        root, inverse = apply(a, mp.sqrt), apply(a, lambda x: 1 / mp.sqrt(x))
        return root * apply(inverse * b * inverse, mp.log) * root
    if metric == "log-euclidean":
        values, q = mp.eigsy(a)
        t, n = q.T * (apply(b, mp.log) - apply(a, mp.log)) * q, a.rows
        for i in range(n):
            for j in range(n):
                x, y = values[i], values[j]
                t[i, j] *= x if i == j else (x - y) / (mp.log(x) - mp.log(y))
        return q * t * q.T
    t = _map(a, b)
    return t * a + a * t - 2 * a


# ---------------------------------------------------------------- checks that the three metrics
# share
def compare_with_scipy(manifold: Any, oracle: Any) -> None:
    """exp, log, dist, inner and transport of a batch of generic points, and of the identity (all
    eigenvalues equal).
    """
    k = manifold.k
    rng = np.random.default_rng(5)
    p = np.stack([spd_matrix(rng, k), spd_matrix(rng, k), np.eye(k)])
    q = np.stack([spd_matrix(rng, k), 3 * spd_matrix(rng, k), 2.0 * np.eye(k)])
    u, v = (np.stack([0.02 * symmetric(rng, k) for _ in range(3)]) for _ in range(2))
    exp, log, dist = manifold.exp(p, u), manifold.log(p, q), manifold.dist(p, q)
    inner, moved = manifold.inner(p, u, v), manifold.transport(p, q, u)
    for i in range(3):
        np.testing.assert_allclose(exp[i], oracle.exp(p[i], u[i]), atol=1e-12)
        np.testing.assert_allclose(log[i], oracle.log(p[i], q[i]), atol=1e-12)
        np.testing.assert_allclose(dist[i], oracle.dist(p[i], q[i]), rtol=1e-11)
        np.testing.assert_allclose(inner[i], oracle.inner(p[i], u[i], v[i]), rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(moved[i], oracle.transport(p[i], q[i], u[i]), atol=1e-12)
    np.testing.assert_array_equal(manifold.dist(p, p), 0.0)  # exactly, not NaN
    np.testing.assert_array_equal(manifold.exp(p, 0 * p), p)


def relative_errors(manifold: Any, metric: str, condition: float) -> dict[str, float]:
    """Worst relative errors against 60 digits: dist and log of far points, dist of points 1e-3 ..
    1e-12 apart.
    """
    k = manifold.k
    rng = np.random.default_rng(6)
    worst = {"dist": 0.0, "log": 0.0, "close": 0.0}
    for _ in range(2):
        a, b = spd_matrix(rng, k, condition), spd_matrix(rng, k, condition)
        far = exact_dist(metric, a, b)
        worst["dist"] = max(worst["dist"], abs(float(manifold.dist(a, b)) / far - 1))
        missing = exact(manifold.log(a, b)) - exact_log(metric, a, b)
        worst["log"] = max(worst["log"], exact_norm(metric, a, missing.tolist()) / far)
        v = np.asarray(
            manifold.from_coordinates(a, rng.standard_normal(manifold.dim) / manifold.dim**0.5)
        )
        for h in (1e-3, 1e-6, 1e-12):
            x = np.asarray(manifold.exp(a, h * v))
            worst["close"] = max(
                worst["close"], abs(float(manifold.dist(a, x)) / exact_dist(metric, a, x) - 1)
            )
    return worst


def sectional_curvature(manifold: Any, p: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """K of planes spanned by orthonormal coordinate vectors x, y (n, dim): side opposite the angle
    in small geodesic triangles.

    dist(exp tx, exp ty)^2 = t^2 |x - y|^2 - K t^4 / 3 + O(t^5) for orthonormal x, y; the t^5 term
    cancels between t and -t.
    """
    total, t = 0.0, 0.02

    def ends(c: np.ndarray) -> Any:
        return manifold.exp(p, manifold.from_coordinates(p, c))

    def estimate(t: float) -> np.ndarray:
        return (
            3.0 * (2.0 * t**2 - np.asarray(manifold.squared_dist(ends(t * x), ends(t * y)))) / t**4
        )

    for sign in (1.0, -1.0):
        coarse, fine = estimate(sign * t), estimate(sign * t / 2)
        total = total + 0.5 * (4.0 * fine - coarse) / 3.0
    return np.asarray(total)


def numeric_log_volume(manifold: Any, p: Any, v: Any) -> float:
    """log |det D exp_p(v)| between orthonormal frames by central differences with one
    extrapolation.
    """
    c = np.asarray(manifold.to_coordinates(p, v))
    end = manifold.exp(p, v)

    def columns(h: float) -> np.ndarray:
        steps = h * np.eye(manifold.dim)
        ahead = manifold.exp(p, manifold.from_coordinates(p, c + steps))
        behind = manifold.exp(p, manifold.from_coordinates(p, c - steps))
        return np.asarray(manifold.to_coordinates(end, ahead - behind)) / (2 * h)

    return float(np.linalg.slogdet((4 * columns(5e-4) - columns(1e-3)) / 3)[1])
