"""The Frechet mean of SPD matrices with the Bures-Wasserstein metric, read in parts: Newton's
method with the derivative of all logarithms, which a pass gives beside their mean.

A tangent vector at P is L P + P L, of length |L| with |L|^2 = tr(L P L); the point at the end of it
is (I + L) P (I + L). The optimal map T of a record, T P T = X, gives the logarithm t = T - I. Along
P_s = (I + s L) P (I + s L) the map has the derivative -A L, A self-adjoint for tr(. P .), with

    tr(A L P L) = |L|^2 - D(L, L) + tr(t L P L),    D(L, L) = 1/2 sum W_ij^2 / (nu_i + nu_j),

in the frame of N = (P^1/2 X P^1/2)^1/2, whose eigenvalues are nu; W = P^1/2 (L t - t L) P^1/2.
(Differentiate T P T = X.) |L|^2 - D(L, L) is the Hessian, and Newton's equation for the mean of t
is A L = mean of t, because maps are matrices whatever the point.

With nodes z_m, 1 / (nu_i + nu_j) is a sum of products phi_m(nu_i) phi_m(nu_j), phi_m(nu) =
(2 z_m)^1/2 / (nu + z_m) times the product of (nu - z_l) / (nu + z_l), l < m, but for a share of it:
that product over all nodes, for both nu (each term is a difference of two such shares). So D is a
sum of tr(L Psi L t Psi t) - tr(L Psi t L Psi t), Psi = P^1/2 phi_m(N) P^1/2, and that of all
records is found from matrices of second moments. Where T has its eigenvalues in [a, b], D(L, L) is
at most (b^1/2 - a^1/2)^2 |L|^2: with U = P^1/2 L (T - c I) P^1/2, W is U - U^T for any c, and
(U_ij - U_ji)^2 / (nu_i + nu_j) at most U_ij^2 / nu_j + U_ji^2 / nu_i, whence D at most tr(L (T - c)
T^-1 (T - c) L P); take c^2 = a b. Its mean, times the share, is what is missed.

The last step needs no pass after it where a bound of the residual says so. Let u be the smallest
eigenvalue of P, and in the frame of N let J = P^-1/2 L P^1/2, S = J + J^T, K_ij = nu_i nu_j S_ij /
(nu_i + nu_j), which is -P^1/2 T' P^1/2, H = N^-1 K, and O = J - H, which is antisymmetric, with
tr(O^T N O) = D(L, L). Differentiated twice, T P T = X gives tr(T'' P M) = -2 tr(H J K_M) - tr(O^2
K_M) for every symmetric M, K_M and S_M made of M as K and S are of L.

- |T^-1/2 T' P^1/2|^2 = tr(A L P L) is tr(T L P L) - D, at most b |L|^2 - D, and b |M|^2 for M; and
  J has at most the norm |L| / u^1/2. So the first term is at most 2 |L| (b |L|^2 - D)^1/2 b^1/2 |M|
  / u^1/2.
- K_M = N Q N with Q N + N Q = S_M, which lies between multiples of I by 2 |M| / u^1/2; so K_M lies
  between multiples of N by |M| / u^1/2, and the second term is at most |M| D / u^1/2.

Together |T''| <= 2 b |L|^2 / u^1/2 (reached where T is a multiple of I). With e = |L| / u^1/2 < 1,
P_s = P^1/2 (I + s J^T) (I + s J) P^1/2 has P_s >= (1 - s e)^2 P and P_1 <= ((1 + e) / (1 - s e))^2
P_s, T_s is at most T / (1 - s e), and |L| stays what it is along the way. Integrated, the residual
after a step is at most (1 + e) |G - A L| + (1 + e) / (1 - e) mean(b) |L|^2 / u^1/2.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..domains._stream import Part, weighted_pairwise
from ..manifolds import AbstractManifold, SPDBuresWasserstein
from ..manifolds import _spectral as sp
from ..manifolds._base import Point
from ..manifolds._spd_bures import root_difference
from ._affine_mean import packing
from ._look import AbstractLook, solved
from ._newton import View

_LARGEST = 20  # rows up to which the second moments cost less than the pass they save
_FARTHEST = 0.5  # the longest step, in units of u^1/2, that a bound is made for
_WIDER = 1.3  # how far beyond the eigenvalues of P nodes are chosen, in units of how far N's were
_MISSED = 1e-5  # of D: what the nodes are to leave
_MOST_NODES = 8


def suits(manifold: AbstractManifold) -> bool:
    """Whether `BuresLook` is for this space."""
    return isinstance(manifold, SPDBuresWasserstein) and manifold.k <= _LARGEST


class BuresLook(AbstractLook[SPDBuresWasserstein]):
    """Looks at points. It needs no ball: what its bound takes of the records a pass finds."""

    has_light = True

    def __init__(self, manifold: SPDBuresWasserstein):
        self.manifold = manifold
        self._values, self._q = np.empty(0), np.empty(0)
        self._margin = 2.0

    def part(self, point: Point) -> Part:
        self._values, self._q = np.linalg.eigh(np.asarray(point))
        at = self._values, self._q, nodes(self._values, self._margin)
        return functools.partial(_sums, tuple(jnp.asarray(one) for one in at))

    def light(self, point: Point) -> Part:
        return functools.partial(_map_sums, jnp.asarray(self._values), jnp.asarray(self._q))

    def view(self, means: Any) -> View[np.ndarray]:
        log, moment, marks = means
        missed, bent, lowest, beyond = (float(mark) for mark in marks)
        if math.isfinite(beyond):
            self._margin = _WIDER * beyond**0.125
        values, q = self._values, self._q
        smallest = max(float(values[0]), 0.0)
        rows, columns, scale = packing(len(values))
        roots = np.sqrt(0.5 * (values[rows] + values[columns])) * scale
        gradient = log[rows, columns] * roots
        step_of = functools.partial(_in_frame, q, scale)

        def newton() -> tuple[np.ndarray, float]:
            derivative = assembled(values, log, moment)
            # of tr(t L P L) the eigenvalues are in what `assembled` adds to the Hessian
            step = solved(derivative, gradient, lowest - missed - float(np.linalg.norm(log, 2)))
            length = float(np.linalg.norm(step))
            share = length / math.sqrt(smallest) if smallest > 0.0 else math.inf
            if not share <= _FARTHEST:
                return step_of(step), math.inf
            left = float(np.linalg.norm(gradient - derivative @ step)) + missed * length
            turned = bent * length**2 / math.sqrt(smallest)
            return step_of(step), (1.0 + share) * (left + turned / (1.0 - share))

        # no Hessian of a record has an eigenvalue above 1
        return View(float(np.linalg.norm(gradient)), math.nan, step_of(gradient), newton)


def _in_frame(q: np.ndarray, scale: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coordinates of the manifold, of those in the frame of the point's eigenvectors."""
    k = len(q)
    rows, columns, _ = packing(k)
    s = np.empty((k, k))
    s[rows, columns] = s[columns, rows] = y / scale
    return (q @ s @ q.T)[rows, columns] * scale


def nodes(values: np.ndarray, margin: float) -> np.ndarray:
    """The nodes z for eigenvalues of N about those of P, at most eight."""
    margin = min(max(margin, 1.1), 1e3)
    low = max(float(values[0]), 1e-12 * float(values[-1]), 1e-300) / margin
    high = max(float(values[-1]), low) * margin
    x = np.geomspace(low, high, 401)
    z = np.empty(0)
    for count in range(2, _MOST_NODES + 1):
        angle = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        z = np.sqrt(low * high) * (high / low) ** (0.5 * angle)
        if np.max(np.prod(np.abs((x[:, None] - z) / (x[:, None] + z)), axis=1)) ** 2 < _MISSED:
            break
    return z


def functions(nu: Array, z: Array) -> tuple[Array, Array]:
    """phi_m(nu), a last axis for the nodes, and the product of (nu - z) / (nu + z) over all nodes,
    which for both nu is the share that they leave.
    """
    nu = nu[..., None]
    products = jnp.cumprod((nu - z) / (nu + z), axis=-1)
    before = jnp.concatenate([jnp.ones_like(nu), products[..., :-1]], axis=-1)
    return jnp.sqrt(2.0 * z) / (nu + z) * before, products[..., -1]


def assembled(values: np.ndarray, log: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """A in coordinates of the frame of P's eigenvectors, from its eigenvalues, the mean t, and the
    sum that D is of tr(L X L Y), as products of the entries of X and Y.
    """
    k = len(values)
    form = -moment.reshape(k, k, k, k).transpose(3, 0, 1, 2)  # X_bc Y_da of L_ab L_cd
    form = form + np.einsum("da,b,bc->abcd", log, values, np.eye(k))
    form = form + form.transpose(1, 0, 2, 3)
    form = 0.25 * (form + form.transpose(0, 1, 3, 2))
    rows, columns, scale = packing(k)
    unit = scale / np.sqrt(0.5 * (values[rows] + values[columns]))
    found = form[rows[:, None], columns[:, None], rows, columns] * (unit[:, None] * unit)
    return np.eye(len(rows)) + 0.5 * (found + found.T)


def _map_sums(values: Array, q: Array, records: Point, _: Any, weights: Array) -> Array:
    return _compiled_map_sums(values, q, records, weights)


@jax.jit
def _compiled_map_sums(values: Array, q: Array, records: Array, weights: Array) -> Array:
    """Weighted sums of t, in the frame of the eigenvectors of P."""
    return weighted_pairwise(_maps(values, q, records, weights)[0], weights)


def _maps(
    values: Array, q: Array, records: Array, weights: Array
) -> tuple[Array, Array, sp.Spectrum]:
    """t in the frame of P's eigenvectors, the root of P there, and the decomposition of N^2."""
    x = sp.sym(sp.transpose(q) @ records @ q)
    # what has no weight may be anything
    x = jnp.where((weights == 0.0)[:, None, None], jnp.diag(values), x)
    lower, difference, eig = root_difference(jnp.diag(values), x)
    root = jnp.diagonal(lower)
    return sp.sym(difference / (root[:, None] * root)), root, eig


def _sums(at: tuple[Array, ...], records: Point, _: Any, weights: Array) -> tuple[Array, ...]:
    return _compiled_sums(at, records, weights)


@jax.jit
def _compiled_sums(at: tuple[Array, ...], records: Array, weights: Array) -> tuple[Array, ...]:
    """Weighted sums of t, in the frame of the eigenvectors of P, of what D is assembled from, and
    of marks: what it misses, what the bound takes of a record, a lower bound of its Hessian,
    and the eighth power of how far eigenvalues of N lie beyond those of P.
    """
    values, q, z = at
    n, k = len(records), len(values)
    t, root, eig = _maps(values, q, records, weights)
    log = weighted_pairwise(t, weights)
    nu = jnp.sqrt(jnp.maximum(eig.values, 0.0))
    rows = root[:, None] * eig.q
    a, b = _bounds(t, (rows / nu[:, None, :]) @ sp.transpose(rows))
    phi, share = functions(nu, z)
    share = jnp.max(jnp.abs(share), axis=1) ** 2
    most = (jnp.sqrt(b) - jnp.sqrt(a)) ** 2
    beyond = jnp.maximum(nu[:, -1] / values[-1], values[0] / nu[:, 0])
    marks = jnp.stack([share * most, b, 1.0 - most, beyond**8], axis=1)
    marks = jnp.where((a > 0.0)[:, None], marks, jnp.array([jnp.inf, jnp.inf, -jnp.inf, jnp.inf]))

    moment = jnp.zeros((k * k, k * k))
    heavy = weights[:, None, None]
    for m in range(len(z)):
        psi = (rows * phi[:, None, :, m]) @ sp.transpose(rows)
        one_sided = psi @ t
        both = heavy * (t @ one_sided)
        moment = moment + psi.reshape(n, -1).T @ both.reshape(n, -1)
        other = heavy * one_sided
        moment = moment - one_sided.reshape(n, -1).T @ other.reshape(n, -1)
    return log, moment, weighted_pairwise(marks, weights)


def _bounds(t: Array, inverse: Array) -> tuple[Array, Array]:
    """a and b, between which the eigenvalues of T = I + t lie, T's inverse given; a = 0 where there
    is none. Traces of fourth powers bound the largest eigenvalue, of t where T is near I.
    """
    largest = lambda x: jnp.sum((x @ x) ** 2, axis=(1, 2)) ** 0.25  # noqa: E731
    near, below = largest(t), 1.0 / largest(inverse)
    a = jnp.maximum(1.0 - near, jnp.where(jnp.isfinite(below), below, 0.0))
    return a, jnp.minimum(1.0 + near, largest(t + jnp.eye(t.shape[-1])))
