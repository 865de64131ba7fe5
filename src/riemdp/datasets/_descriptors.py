"""Covariance descriptors of images, and the public ball that provably contains every one of them.

Utpala2023LE section 6.2 (after Tuzel et al. 2006) with the kernels as their appendix defines them.
Each pixel gives a feature vector; the descriptor of the image is the population covariance of these
vectors plus eta times the identity.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid, one_of, real
from ..domains import Ball

# Half a megabyte a feature plane: the nine planes of a chunk stay in a core's cache.
_CHUNK_PIXELS = 1 << 16
# Thousandths, so that the grey of integer intensities is an exact integer.
_GREY_WEIGHTS = (299.0, 587.0, 114.0)
# Float images are read to 1/2^32: every kernel sum is then exact in float64.
_FLOAT_LEVELS = float(2**32)
# Half-ranges b_i/2 squared, summed: x, y, |I_x|, |I_y|, |I_xx|, |I_yy| and each intensity lie in
# [0, 1], the gradient norm in [0, sqrt 2], the angle in [0, pi/2]. A variable in [0, b] has
# variance at most b^2/4, and lambda_max <= trace.
_SPREAD_WITHOUT_INTENSITIES = 0.25 * (6.0 + 2.0 + (np.pi / 2.0) ** 2)


def covariance_descriptors(
    images: ArrayLike, *, eta: float = 1e-6, threads: int | None = None
) -> Any:
    """Covariance descriptors: SPD matrices (n, 9, 9) of grey images, (n, 11, 11) of RGB images, as
    a float64 JAX array.

    The features of a pixel at column u, row v of a height x width image are [x, y, I (one or
    three), |I_x|, |I_y|, |I_xx|, |I_yy|, sqrt(I_x^2 + I_y^2), atan2(|I_x|, |I_y|)], with x = u /
    (width - 1), y = v / (height - 1) (0 where that is 0/0), I_x = I * [1 0 -1; 2 0 -2; 1 0 -1] / 4,
    I_y its transpose, I_xx the 5x5 kernel [1 4 6 4 1]^T [1 0 -2 0 1] / 32 and I_yy its transpose.
    Derivatives of an RGB image are those of its grey level 0.299 R + 0.587 G + 0.114 B. Borders
    repeat the edge pixel. The angle of a pixel without gradient is 0.

    Args:
        images: (n, height, width), (n, height, width, 1) or (n, height, width, 3). uint8 and uint16
            are divided by 255 and 65535; bool is 0 or 1; floats are taken as intensities, clipped
            to [0, 1] and read to 1/2^32; a NaN pixel counts as 0. So every image has a descriptor
            inside `descriptor_ball`, whatever its pixels are.
        eta: public regulariser > 0. A larger eta buys a smaller ball, so less noise.
        threads: number of chunks that are computed at once; default the number of cores. The
            result does not depend on it.

    Raises:
        InvalidArgument: a shape, dtype or eta that cannot be used.

    Guarantee:
        None: a deterministic transformation of each image alone. Privacy is a matter of what is
        released from the descriptors.

    Source:
        Utpala2023LE section 6.2 and Lemma A.6.
    """
    eta = real("eta", eta, above=0.0)
    x, level = _intensities(images)
    n = len(x)
    k = 9 if x.ndim == 3 else 11
    if n == 0:
        return np.zeros((0, k, k))
    workers = (os.cpu_count() or 1) if threads is None else max(1, int(threads))
    step = max(1, _CHUNK_PIXELS // (x.shape[1] * x.shape[2]))
    result = np.empty((n, k, k))

    def work(start: int) -> None:
        result[start : start + step] = _descriptors(x[start : start + step], level, eta)

    if workers == 1 or n <= step:
        for start in range(0, n, step):
            work(start)
    else:
        # NumPy releases the interpreter lock inside its loops.
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(0, n, step)))
    return np.asarray(result)


def descriptor_spread(channels: int) -> float:
    """Largest possible trace, hence eigenvalue, of the population covariance: 2.867 for grey (1),
    3.367 for RGB (3) images.
    """
    return _SPREAD_WITHOUT_INTENSITIES + 0.25 * _channels(channels)


def descriptor_ball(channels: int, eta: float = 1e-6, *, center: str = "identity") -> Ball:
    """The public log-Euclidean ball that contains the descriptor of *every* image with this many
    channels (1 or 3).

    The eigenvalues of a descriptor lie in [eta, eta + s] with s = `descriptor_spread(channels)`, so
    with k = 9 or 11 its logarithm lies in a cube of diagonal matrices up to rotation, and

    - `center="identity"`: radius sqrt(k) max(|ln eta|, |ln(eta + s)|) about I (the form of
      Utpala2023LE Theorem 5, with the constant 14 or 16 replaced by s; 41.4 for grey images at eta
      = 1e-6);
    - `center="middle"`: radius (sqrt(k) / 2) ln((eta + s) / eta) about sqrt(eta (eta + s)) I: 22.3
      for the same images. The sensitivity of a mean is proportional to the radius, so this center
      nearly halves the noise at no cost.

    Both hold for every possible image. The ball depends on no data, so it costs no privacy.

    Args:
        channels: 1 (grey images) or 3 (RGB images).
        eta: What is added to the diagonal of a descriptor, above 0.
        center: "identity" or "middle".

    Returns:
        The ball, of 9 x 9 or 11 x 11 matrices.

    Raises:
        InvalidArgument: An argument is out of range.

    Source:
        Utpala2023LE Theorem 5 and appendix A.5, with ranges for each coordinate: a variable in [0,
        b] has variance at most b^2 / 4.
    """
    eta = real("eta", eta, above=0.0)
    one_of("center", center, ("identity", "middle"))
    k = 9 if _channels(channels) == 1 else 11
    low, high = np.log(eta), np.log(eta + descriptor_spread(channels))
    if center == "identity":
        return Ball(np.eye(k), float(np.sqrt(k) * max(abs(low), abs(high))))
    return Ball(np.exp(0.5 * (low + high)) * np.eye(k), float(0.5 * np.sqrt(k) * (high - low)))


def _channels(channels: int) -> int:
    if channels not in (1, 3) or isinstance(channels, bool):
        raise invalid("channels", channels, "give 1 (grey images) or 3 (RGB images)")
    return int(channels)


def _intensities(images: ArrayLike) -> tuple[np.ndarray, float]:
    """Images as whole-number levels (float64 or a small integer type), and the size of a level."""
    try:
        x = np.asarray(images)
    except ValueError as error:
        raise InvalidArgument(
            "argument `images` is ragged; all images need the same height and width"
        ) from error
    if x.ndim == 4 and x.shape[-1] == 1:
        x = x[..., 0]
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[-1] != 3) or 0 in x.shape[1:]:
        raise InvalidArgument(
            f"argument `images` has shape {x.shape}; give (n, height, width) grey or (n, height,"
            " width, 3) RGB images (one image: images[None])"
        )
    if x.dtype == np.bool_:
        return x.astype(np.uint8), 1.0
    if x.dtype == np.uint8 or x.dtype == np.uint16:
        return x, 1.0 / float(np.iinfo(x.dtype).max)
    if np.issubdtype(x.dtype, np.floating):
        return x, 1.0 / _FLOAT_LEVELS
    raise InvalidArgument(
        f"argument `images` has dtype {x.dtype}; give uint8, uint16, bool, or floats in [0, 1]"
        " (divide by the public maximum)"
    )


def _descriptors(x: np.ndarray, level: float, eta: float) -> np.ndarray:
    """Descriptors of one chunk. Derivatives are sums of whole numbers, so a flat region has a
    gradient of exactly 0; with rounded intensities atan2 of two rounding errors would be an
    arbitrary angle.
    """
    if np.issubdtype(x.dtype, np.floating):
        x = np.rint(
            np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
            * _FLOAT_LEVELS
        )
    else:
        x = x.astype(np.float64)
    n, height, width = x.shape[:3]
    channels = 1 if x.ndim == 3 else 3
    if channels == 1:
        grey, unit = x, level
        planes = [x]
    else:
        planes = list(np.ascontiguousarray(np.moveaxis(x, -1, 0)))
        grey = sum(w * plane for w, plane in zip(_GREY_WEIGHTS, planes, strict=True))
        unit = level / sum(_GREY_WEIGHTS)

    padded = np.pad(grey, ((0, 0), (2, 2), (2, 2)), mode="edge")
    inner = padded[:, 1:-1, 1:-1]
    across = inner[:, :, 2:] - inner[:, :, :-2]
    along = inner[:, 2:, :] - inner[:, :-2, :]
    i_x = np.abs(across[:, :-2] + 2.0 * across[:, 1:-1] + across[:, 2:])
    i_y = np.abs(along[:, :, :-2] + 2.0 * along[:, :, 1:-1] + along[:, :, 2:])
    bend = padded[:, :, 4:] - 2.0 * padded[:, :, 2:-2] + padded[:, :, :-4]
    i_xx = np.abs(
        bend[:, :-4] + bend[:, 4:] + 4.0 * (bend[:, 1:-3] + bend[:, 3:-1]) + 6.0 * bend[:, 2:-2]
    )
    bend = padded[:, 4:] - 2.0 * padded[:, 2:-2] + padded[:, :-4]
    i_yy = np.abs(
        bend[:, :, :-4]
        + bend[:, :, 4:]
        + 4.0 * (bend[:, :, 1:-3] + bend[:, :, 3:-1])
        + 6.0 * bend[:, :, 2:-2]
    )

    features = np.empty((n, 8 + channels, height, width))
    features[:, 0] = np.arange(width) / max(width - 1, 1)
    features[:, 1] = np.arange(height)[:, None] / max(height - 1, 1)
    for c, plane in enumerate(planes):
        np.multiply(plane, level, out=features[:, 2 + c])
    rest = features[:, 2 + channels :]
    np.multiply(i_x, 0.25 * unit, out=rest[:, 0])
    np.multiply(i_y, 0.25 * unit, out=rest[:, 1])
    np.multiply(i_xx, unit / 32.0, out=rest[:, 2])
    np.multiply(i_yy, unit / 32.0, out=rest[:, 3])
    np.sqrt(rest[:, 0] ** 2 + rest[:, 1] ** 2, out=rest[:, 4])
    np.arctan2(i_x, i_y, out=rest[:, 5])

    flat = features.reshape(n, 8 + channels, height * width)
    flat -= flat.mean(axis=2, keepdims=True)  # centred first: no cancellation against eta = 1e-6
    covariance = np.matmul(flat, flat.swapaxes(1, 2)) / (height * width)
    covariance = 0.5 * (covariance + covariance.swapaxes(1, 2))
    return covariance + eta * np.eye(8 + channels)
