"""Laplace distributions whose density depends on the spectrum of the direction: SPD
affine-invariant and Bures-Wasserstein, Grassmann.

Each draws a radius from a log-concave proposal and a uniform direction, and accepts with an exact
ratio that is at most 1. Source: the Jacobian of exp on a symmetric space is a product of sinh(x)/x
(or sin(x)/x) over its roots, and log of either is concave in x^2, so Jensen's inequality bounds the
product by its value at equal roots.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ..manifolds._spectral import unpack
from ..randomness import NoiseSource, noise_source
from ._radial import flat_radii, log_of_power, log_sinc, log_sinhc, radial_hull

# Acceptance ratios are compared with the envelope raised by this much, so that rounding cannot make
# one exceed 1.
SLACK = 1e-9
_BLOCK = 1 << 21  # floats that one batch of proposals may hold
_PAIRS = 1 << 18  # gaps between eigenvalues that are looked at together
# A term of a logarithm that float64 computes errs by less than a tenth of this part of it.
_ROUNDING = 1e-14
_DENSE = 32  # rows up to which a dense decomposition is the faster one


def affine_scale_limit(k: int) -> float:
    """The affine-invariant Laplace distribution exists only for scales below
    sqrt(12 / (k (k^2 - 1))); infinite for k = 1 (flat).
    """
    return math.inf if k == 1 else math.sqrt(12 / (k * (k * k - 1)))


class AffineProposal:
    """Radius distribution R^{d-1} e^{-R/s + env(R)}, env(R) = min(N log sinhc(c R), R / s_k), and
    the ratio to accept with.
    """

    def __init__(self, k: int, scale: float, cutoff: float):
        self.k, self.dim, self.pairs = k, k * (k + 1) // 2, k * (k - 1) // 2
        self.scale = scale
        self.slope_limit = 1 / affine_scale_limit(k)
        self.c = 1 / math.sqrt(2 * (k - 1)) if k > 1 else 0.0
        self.rows, self.columns = np.triu_indices(k, 1)

        self.hull = radial_hull(self._growth, self._rise, scale, cutoff, self.dim)

    def _growth(self, r: np.ndarray) -> np.ndarray:
        return log_of_power(self.dim, np.log)(r) + self.envelope(r)

    def _rise(self, r: float) -> float:
        x = self.c * r
        if self.pairs * float(log_sinhc(np.array(x))) < self.slope_limit * r:
            bent = self.pairs * (self.c * x / 3 if x < 1e-3 else self.c / math.tanh(x) - 1 / r)
        else:
            bent = self.slope_limit
        return (self.dim - 1) / r + bent

    def tail(self, end: float) -> float:
        """An upper bound on the probability that a draw of the distribution is longer than `end`.

        The length has density r^{d-1} e^{-r/s} J(r), J the mean over directions. Above `end`,
        J <= e^env, and the logarithm of what that makes of the density is concave, hence below its
        tangent at `end`. The integral of the whole is at least that of any part with J replaced by
        `_mean_at_least`: this log-density is concave too, so that between two nodes the density is
        above the smaller of its values there.
        """
        power, at = self.dim - 1, np.array([end])
        size = power / end + 1 / self.scale + self.slope_limit + self.pairs * (self.c + 2 / end)
        fall = self._rise(end) - 1 / self.scale + _ROUNDING * size
        if not fall < 0:
            return 1.0
        outside = float(self.hull.log_f(at)[0] + self._error(at)[0]) - math.log(-fall)
        # where the mass is, first coarsely
        width = self.dim * self.scale
        grid = np.geomspace(1e-3 * width, 4 * end + 64 * width, 4001)
        values = self._log_density_at_least(grid)
        (near,) = np.nonzero(values > np.max(values) - 40.0)
        low, high = grid[max(near[0] - 1, 0)], grid[min(near[-1] + 1, grid.size - 1)]
        grid = np.linspace(low, high, 4001)
        values = self._log_density_at_least(grid) - self._error(grid)
        lower = np.minimum(values[1:], values[:-1])
        top = float(np.max(lower))
        whole = top + math.log(float(np.sum(np.exp(lower - top) * np.diff(grid))))
        # 1e-9 for what exp, the sum and the distances between nodes err by
        return math.nextafter(math.exp(min(0.0, outside - whole + 1e-9)), 1.0)

    def _log_density_at_least(self, r: np.ndarray) -> np.ndarray:
        power, (n, c) = self.dim - 1, _mean_at_least(self.k)
        return power * np.log(r) - r / self.scale + n * log_sinhc(c * r)

    def _error(self, r: np.ndarray) -> np.ndarray:
        """What rounding may add to a log-density: ten times the sum of the errors of its terms."""
        terms = self.dim * (np.abs(np.log(r)) + 1) + r / self.scale + self.slope_limit * r
        return _ROUNDING * (terms + self.pairs * (self.c * r + 5))

    def envelope(self, r: np.ndarray) -> np.ndarray:
        return np.minimum(self.pairs * log_sinhc(self.c * r), self.slope_limit * r)

    def log_ratio(self, r: np.ndarray, u: np.ndarray) -> np.ndarray:
        """log of the acceptance probability for eigenvalues `u` (q, k) of unit directions and radii
        `r` (q,).
        """
        bent, step = np.empty(len(u)), max(1, _PAIRS // max(1, self.pairs))
        for i in range(0, len(u), step):
            some = u[i : i + step]
            gaps = np.abs(some[:, self.rows] - some[:, self.columns])
            bent[i : i + step] = np.sum(log_sinhc(gaps * (r[i : i + step] / 2)[:, None]), axis=1)
        return bent - self.envelope(r) - SLACK


@functools.lru_cache(maxsize=64)
def _mean_at_least(k: int) -> tuple[float, float]:
    """(n, c) such that the mean over directions of the product of sinhc(r g / 2), g the gaps of the
    eigenvalues, is at least sinhc(c r)^n for all r; n is at most the number of gaps.

    With y = r^2 g^2 / 4 let f(y) = log sinhc(sqrt y), which is the sum of log(1 + y / (j pi)^2)
    over j >= 1: f(y) / y is convex. The logarithm of the mean is at least the mean of the logarithm
    (Jensen), a sum over gaps of y times f(y) / y: at least what it is with f(y) / y taken where the
    mean of y with weights y lies (Jensen once more). The mean m of the sum of g^2, and that of
    g^4, called q, come from moments of a symmetric matrix of normals, by Stein's identity; then
    n = m^2 / q and c^2 = q / (4 m).
    """
    if k == 1:
        return 0.0, 0.0
    dim = k * (k + 1) // 2
    fourth = Fraction(k * (2 * k**3 + 5 * k**2 + 5 * k), 4)  # k E tr S^4
    m = k - Fraction(k, dim)
    q = (fourth - 12 * dim) / (dim * (dim + 2)) + 3
    return float(m * m / q), math.sqrt(q / (4 * m))


@functools.lru_cache(maxsize=64)
def affine_proposal(k: int, scale: float, cutoff: float) -> AffineProposal:
    return AffineProposal(k, scale, cutoff)


def affine_tangents(
    k: int, scale: float, count: int, source: NoiseSource, cutoff: float
) -> tuple[np.ndarray, np.ndarray]:
    """(Q, w): exact draws S = Q diag(w) Q^T of the Laplace distribution's logarithm at the
    identity, |S|_F <= cutoff.
    """
    proposal = affine_proposal(k, scale, cutoff)

    def propose(tries: int) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        r = proposal.hull.draw(source, tries)
        u, q = np.linalg.eigh(symmetric_directions(k, tries, source))
        return proposal.log_ratio(r, u), (q, r[:, None] * u)

    q, w = rejection(count, source, propose, 1 / expected_tries_affine(k, scale, cutoff), k * k)
    return q, w


@functools.lru_cache(maxsize=256)
def expected_tries_affine(k: int, scale: float, cutoff: float) -> float:
    """Expected proposals an accepted draw needs: the mean ratio over 512 proposals from a fixed
    public seed; over fewer where matrices are large, where it hardly depends on the direction.
    """
    if k == 1:
        return 1.0
    proposal, u = affine_proposal(k, scale, cutoff), _public_spectra(k)
    ratios = proposal.log_ratio(proposal.hull.draw(noise_source(20240), len(u)), u)
    return 1 / max(float(np.mean(np.exp(np.minimum(ratios, 0.0)))), 1e-300)


@functools.lru_cache(maxsize=16)
def _public_spectra(k: int) -> np.ndarray:
    """Eigenvalues of directions from a fixed public seed, the same ones for every scale."""
    count = max(64, min(512, (1 << 22) // (k * k)))
    return direction_spectra(k, count, noise_source(20241))


class GrassmannProposal:
    """Radii with R^{D-1} e^{-R/s} sinc(c R)^N up to the cut locus, and the ratio to accept with."""

    def __init__(self, m: int, p: int, scale: float, cutoff: float):
        self.m, self.p = m, p
        self.dim = p * (m - p)
        self.roots = self.dim - p
        self.c = math.sqrt((m - 2) / self.roots) if self.roots else 0.0
        self.end = min(math.pi / 2 * math.sqrt(p), cutoff, math.pi / self.c if self.c else math.inf)

        self.hull = radial_hull(self._growth, self._rise, scale, self.end, self.dim)

    def _growth(self, r: np.ndarray) -> np.ndarray:
        return log_of_power(self.dim, np.log)(r) + self.envelope(r)

    def _rise(self, r: float) -> float:
        x, bent = self.c * r, 0.0
        if self.roots:
            bent = self.roots * (-self.c * x / 3 if x < 1e-3 else self.c / math.tan(x) - 1 / r)
        return (self.dim - 1) / r + bent

    def envelope(self, r: np.ndarray) -> np.ndarray:
        return self.roots * log_sinc(self.c * r) if self.roots else 0.0 * r

    def log_ratio(self, r: np.ndarray, angles: np.ndarray) -> np.ndarray:
        """log of the acceptance probability for principal angles `angles` (q, p) = r times unit
        singular values.
        """
        inside = np.max(angles, axis=1) < math.pi / 2
        t = np.where(inside[:, None], angles, 0.0)
        total = (self.m - 2 * self.p) * np.sum(log_sinc(t), axis=1)
        for i in range(self.p):
            for j in range(i):
                total = total + log_sinc(t[:, i] - t[:, j]) + log_sinc(t[:, i] + t[:, j])
        return np.where(inside, total - self.envelope(r) - SLACK, -np.inf)


@functools.lru_cache(maxsize=64)
def grassmann_proposal(m: int, p: int, scale: float, cutoff: float) -> GrassmannProposal:
    return GrassmannProposal(m, p, scale, cutoff)


def symmetric_directions(k: int, count: int, source: NoiseSource) -> np.ndarray:
    """Uniform on the unit sphere of symmetric k x k matrices with the Frobenius norm."""
    s = symmetric_normals(k, count, source)
    s /= np.sqrt(np.einsum("ijk,ijk->i", s, s))[:, None, None]
    return s


def direction_spectra(k: int, count: int, source: NoiseSource) -> np.ndarray:
    """Eigenvalues (count, k) of draws of `symmetric_directions`, ascending.

    Those of large ones are found without the matrices. Reflections that take an isotropic
    symmetric matrix to tridiagonal form leave N(0, 1) on its diagonal and beside it the lengths of
    what was left of each column, independent of each other (Trotter 1984, Dumitriu and Edelman
    2002), in a time that is quadratic and not cubic in k.
    """
    if k <= _DENSE:
        return np.linalg.eigvalsh(symmetric_directions(k, count, source))
    from scipy import linalg  # 0.3 s, for large matrices alone

    diagonal = source.normals((count, k))
    # the length of j variables N(0, 1/2) is the root of a Gamma variable of shape j / 2
    beside = np.sqrt(source.gammas(np.arange(k - 1, 0, -1) / 2, (count, k - 1)))
    found = (linalg.eigvalsh_tridiagonal(d, e) for d, e in zip(diagonal, beside, strict=True))
    values = np.stack(list(found))
    return values / np.sqrt(np.sum(values**2, axis=1))[:, None]


def symmetric_normals(k: int, count: int, source: NoiseSource) -> np.ndarray:
    """Isotropic Gaussian symmetric matrices: diagonal N(0, 1), off-diagonal N(0, 1/2), from k (k +
    1) / 2 normals each.
    """
    return np.asarray(unpack(source.normals((count, k * (k + 1) // 2)), k))


def unit_singular_values(u: np.ndarray, p: int) -> np.ndarray:
    unit = u / np.sqrt(np.sum(u * u, axis=(1, 2)))[:, None, None]
    return np.linalg.svd(unit, compute_uv=False)[:, :p]


class BuresProposal:
    """Flat Laplace tangent vectors at `eta`, the Jacobian of exp there (at most 1, curvature being
    non-negative), and exp.
    """

    def __init__(self, eta: np.ndarray, scale: float):
        self.values, self.vectors = np.linalg.eigh(np.asarray(eta, dtype=np.float64))
        self.k, self.scale = self.values.size, scale
        self.sums = self.values[:, None] + self.values[None, :]
        self.rows, self.columns = np.triu_indices(self.k)
        self.log_base = 0.5 * np.sum(np.log(self.sums[self.rows, self.columns]))

    def propose(
        self, tries: int, source: NoiseSource, cutoff: float
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        k, dim = self.k, self.k * (self.k + 1) // 2
        r = flat_radii(dim, self.scale, tries, source, cutoff)
        moved = np.eye(k) + r[:, None, None] * symmetric_directions(k, tries, source) * np.sqrt(
            2 / self.sums
        )
        mu, q = np.linalg.eigh(moved)
        regular = mu[:, 0] > 0  # beyond it the geodesic has left the manifold
        safe = np.where(regular[:, None], mu, 1.0)
        roots = (q * np.sqrt(safe)[:, None, :]) @ np.swapaxes(q, 1, 2)
        square = (q * safe[:, None, :]) @ np.swapaxes(q, 1, 2)
        b = np.linalg.eigvalsh(roots @ (self.values[:, None] * roots))
        x = square @ (self.values[:, None] * square)
        x = (x + np.swapaxes(x, 1, 2)) / 2
        ends = np.maximum(np.linalg.eigvalsh(x), 1e-300)
        i, j = self.rows, self.columns
        log_jacobian = np.sum(
            np.log(np.maximum(b[:, i] + b[:, j], 1e-300)) - 0.5 * np.log(ends[:, i] + ends[:, j]),
            axis=1,
        )
        ratio = np.where(regular, np.minimum(log_jacobian - self.log_base, 0.0), -np.inf)
        return ratio, (self.vectors @ x @ self.vectors.T,)


def rejection(
    count: int,
    source: NoiseSource,
    propose: Callable[[int], tuple[np.ndarray, tuple[np.ndarray, ...]]],
    rate: float,
    size: int,
) -> tuple[np.ndarray, ...]:
    """Gather `count` accepted draws. `propose(tries)` gives (log acceptance ratios, arrays with
    leading axis tries).
    """
    parts: list[tuple[np.ndarray, ...]] = []
    have = 0
    largest = max(1, _BLOCK // max(1, size))
    while have < count:
        wanted = (count - have) / max(rate, 1e-12)
        if count == 1:  # no more than it takes on average: each try of one draw is felt
            tries = max(1, round(min(wanted, 64.0)))
        else:
            tries = min(largest, math.ceil(min(1.05 * wanted, 64.0 * (count - have))) + 4)
        log_ratio, arrays = propose(tries)
        if np.any(log_ratio > SLACK):
            raise ArithmeticError(
                "internal error: an acceptance ratio of a sampler exceeds 1; please report it"
            )
        accepted = np.log(source.uniforms((tries,))) < log_ratio
        parts.append(tuple(a[accepted] for a in arrays))
        have += int(np.sum(accepted))
    if len(parts) == 1:
        return tuple(a[:count] for a in parts[0])
    return tuple(np.concatenate([p[i] for p in parts])[:count] for i in range(len(parts[0])))
