"""Hermitian positive definite matrices as real ones of twice the size, and back."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import InvalidArgument
from ._spd_by_name import spd


def real_embedding(H: ArrayLike) -> NDArray[np.float64]:
    """Hermitian k x k matrices A + iB as symmetric 2k x 2k matrices [[A, -B], [B, A]].

    The spaces of this package hold real matrices. Sums, products, inverses, powers and logarithms
    of Hermitian matrices become those of their embeddings, every eigenvalue occurs twice, and so
    all three metrics of `spd` become distances sqrt(2) times as long. The Frechet mean of embedded
    matrices is the embedded Frechet mean. A private mean of embedded matrices has the guarantee
    that is stated for it, because each record is embedded on its own; `from_real_embedding` makes a
    Hermitian matrix of what was released, which removes the noise that no Hermitian matrix has:
    k (k + 1) of k (2 k + 1) coordinates. A ball of radius r about C becomes
    `Ball(real_embedding(C), sqrt(2) r)`.

    Args:
        H: Hermitian matrices, shape (..., k, k). Each is embedded on its own; one that is not
            Hermitian, or not positive definite, becomes one that is no point of the space. Of a
            list, what is no matrix of numbers, or has another shape than most, becomes NaN; that
            shape is taken to be public.

    Returns:
        Real matrices, shape (..., 2 k, 2 k).

    Raises:
        InvalidArgument: Not an array of square matrices of numbers, and no record of a list is one.

    Guarantee:
        None; it draws no noise.

    Examples:
        >>> import numpy as np, riemdp
        >>> H = np.array([[2.0, 1j], [-1j, 3.0]])
        >>> riemdp.manifolds.real_embedding(H).shape
        (4, 4)
        >>> bool(np.allclose(riemdp.manifolds.from_real_embedding(
        ...     riemdp.manifolds.real_embedding(H)), H))
        True
    """
    h = _complex(H)
    if h is None:
        h = _one_by_one(H)
    if h.ndim < 2 or h.shape[-1] != h.shape[-2] or h.shape[-1] == 0:
        raise InvalidArgument(
            f"argument `H` has shape {h.shape}; give Hermitian matrices of shape (..., k, k)"
        )
    return np.block([[h.real, -h.imag], [h.imag, h.real]])


def _complex(x: Any) -> NDArray[np.complex128] | None:
    """An array of complex numbers; None where it cannot be read as one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would depend on one record
            return np.asarray(x, dtype=np.complex128)
    except Exception:  # whatever one record does when it is read, it is private
        return None


def _one_by_one(records: Any) -> NDArray[np.complex128]:
    """Records that are no array together: NaN in the place of each that is not a square matrix of
    the shape that most have.
    """
    sequence = isinstance(records, list | tuple | np.ndarray) and np.shape(records[:0]) == (0,)
    found = [_complex(record) for record in records] if sequence else []
    shapes = Counter(m.shape for m in found if m is not None and m.ndim == 2)
    if not shapes:
        raise InvalidArgument(
            "argument `H` is not an array of complex numbers; give Hermitian matrices of shape"
            " (..., k, k)"
        )
    shape = max(shapes, key=lambda s: (shapes[s], s))
    nothing = np.full(shape, complex(math.nan, math.nan))
    return np.stack([m if m is not None and m.shape == shape else nothing for m in found])


def from_real_embedding(P: ArrayLike, metric: str = "riemann") -> NDArray[np.complex128]:
    """The Hermitian matrix whose embedding is nearest to a symmetric positive definite matrix.

    Embeddings are the fixed points of the isometry x -> J' x J, J = [[0, -I], [I, 0]], and the
    nearest fixed point is the midpoint of P and its image (Hadamard metrics; for "wasserstein" it
    is that midpoint). It is a function of P alone: post-processing, where P was released.

    Args:
        P: Symmetric positive definite matrices, shape (..., 2 k, 2 k), for example a private mean
            of embedded records.
        metric: The metric of the midpoint, a name that `spd` knows.

    Returns:
        Hermitian positive definite matrices, shape (..., k, k).

    Raises:
        InvalidArgument: Not square matrices of even size, or an unknown metric.

    Guarantee:
        None; it draws no noise.
    """
    p = np.asarray(P, dtype=np.float64)
    if p.ndim < 2 or p.shape[-1] != p.shape[-2] or p.shape[-1] % 2 or p.shape[-1] == 0:
        raise InvalidArgument(
            f"argument `P` has shape {p.shape}; give real matrices of shape (..., 2 k, 2 k)"
        )
    k = p.shape[-1] // 2
    space = spd(2 * k, metric)
    a, b, c, d = p[..., :k, :k], p[..., :k, k:], p[..., k:, :k], p[..., k:, k:]
    image = np.block([[d, -c], [-b, a]])
    middle = np.asarray(space.exp(p, 0.5 * space.log(p, image)))
    a, b, c, d = (
        middle[..., :k, :k],
        middle[..., :k, k:],
        middle[..., k:, :k],
        middle[..., k:, k:],
    )
    h = (a + d) / 2 + 0.5j * (c - b)
    return (h + np.conj(np.swapaxes(h, -1, -2))) / 2
