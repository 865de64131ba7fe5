"""Covariance descriptors against a pixel-by-pixel oracle, and their public ball against images
chosen to leave it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.datasets import covariance_descriptors, descriptor_ball, descriptor_spread

RNG = np.random.default_rng(20260)


def _pixel(image, v, u):
    """Grey level with edge padding: the oracle's only access to a pixel."""
    h, w = image.shape[:2]
    p = image[min(max(v, 0), h - 1), min(max(u, 0), w - 1)]
    return float(p) if image.ndim == 2 else float(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2])


def _oracle(image, eta):
    """Descriptor by loops over pixels and over the entries of the four kernels as printed in the
    paper.
    """
    sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]]) / 4
    second = (
        np.array(
            [
                [1, 0, -2, 0, 1],
                [4, 0, -8, 0, 4],
                [6, 0, -12, 0, 6],
                [4, 0, -8, 0, 4],
                [1, 0, -2, 0, 1],
            ]
        )
        / 32
    )
    h, w = image.shape[:2]
    rows = []
    for v in range(h):
        for u in range(w):
            value = []
            for kernel in (sobel, sobel.T, second, second.T):
                half = kernel.shape[0] // 2
                terms = [
                    kernel[half + a, half + b]
                    * _pixel(image, v - a, u - b)  # convolution: the kernel is turned round
                    for a in range(-half, half + 1)
                    for b in range(-half, half + 1)
                ]
                value.append(abs(math.fsum(terms)))
            ix, iy, ixx, iyy = (0.0 if t < 1e-13 else t for t in value)
            intensities = (
                [float(image[v, u])] if image.ndim == 2 else [float(c) for c in image[v, u]]
            )
            x = u / (w - 1) if w > 1 else 0.0
            y = v / (h - 1) if h > 1 else 0.0
            angle = math.atan(ix / iy) if iy > 0 else (math.pi / 2 if ix > 0 else 0.0)
            rows.append([x, y, *intensities, ix, iy, ixx, iyy, math.hypot(ix, iy), angle])
    return np.cov(np.array(rows).T, bias=True) + eta * np.eye(len(rows[0]))


@pytest.mark.parametrize("shape", [(3, 7, 6), (2, 1, 5), (2, 9, 1), (3, 6, 7, 3)])
@pytest.mark.parametrize("kind", ["uint8", "float", "two-valued"])
def test_matches_a_loop_over_pixels(shape, kind):
    images = RNG.integers(0, 256, shape).astype(np.uint8)
    if kind == "two-valued":
        images = np.where(images > 127, 255, 0).astype(np.uint8)
    plain = images / 255.0
    given = plain if kind == "float" else images
    got = np.asarray(covariance_descriptors(given, eta=1e-3))
    want = np.stack([_oracle(image, 1e-3) for image in plain])
    np.testing.assert_allclose(got, want, atol=3e-9)  # floats are read to 2^-32


def test_published_first_kernel_would_fail_the_oracle():
    """The twin: the kernel printed in Utpala2023 ([1 0 -1; 2 0 -2; 6 0 -12]) is not what is
    computed here.
    """
    wrong = np.array([[1, 0, -1], [2, 0, -2], [6, 0, -12]]) / 4
    assert wrong.sum() != 0
    assert np.abs(wrong[wrong < 0].sum()) > 1
    flat = np.full((1, 6, 6), 0.7)
    descriptor = np.asarray(covariance_descriptors(flat, eta=1e-3))[0]
    assert np.all(
        descriptor[3:, 3:] == 1e-3 * np.eye(6)
    )  # a flat image has derivatives and angle exactly zero


def test_rounding_does_not_make_angles():
    """A ramp along x has I_y = 0 exactly, also where intensities are not dyadic and the image is
    RGB.
    """
    ramp = np.broadcast_to((np.arange(8) * 0.1)[None, None, :, None], (1, 8, 8, 3))
    descriptor = np.asarray(covariance_descriptors(ramp, eta=1.0))[0]
    assert descriptor[6, 6] == 1.0  # variance of |I_y| is zero
    assert descriptor[10, 10] == pytest.approx(
        1.0, abs=1e-9
    )  # the angle is pi/2 everywhere, borders included


def test_dtypes_agree_and_threads_do_not_matter():
    images = RNG.integers(0, 256, (300, 12, 11)).astype(np.uint8)
    a = np.asarray(covariance_descriptors(images))
    np.testing.assert_array_equal(a, np.asarray(covariance_descriptors(images, threads=1)))
    np.testing.assert_array_equal(
        a, np.asarray(covariance_descriptors(images[..., None], threads=3))
    )
    np.testing.assert_allclose(
        a, np.asarray(covariance_descriptors(images.astype(np.uint16) * 257)), atol=1e-12
    )
    np.testing.assert_allclose(a, np.asarray(covariance_descriptors(images / 255.0)), atol=1e-8)
    assert covariance_descriptors(np.zeros((0, 4, 4))).shape == (0, 9, 9)


def test_each_descriptor_depends_on_its_own_image_only():
    images = RNG.random((400, 20, 20))
    changed = images.copy()
    changed[17] = 1.0 - changed[17]
    a, b = np.asarray(covariance_descriptors(images)), np.asarray(covariance_descriptors(changed))
    assert np.array_equal(np.flatnonzero(np.any(a != b, axis=(1, 2))), [17])


def _adversarial(channels):
    """Images chosen for large derivatives: noise, stripes of every period and phase, checkerboards,
    single edges, spikes.
    """
    h, w = 12, 10
    v, u = np.mgrid[:h, :w]
    images = [RNG.integers(0, 2, (h, w)).astype(float) for _ in range(300)]
    for period in range(1, 8):
        for phase in range(2 * period):
            images += [(((t + phase) // period) % 2).astype(float) for t in (u, v, u + v, u - v)]
    images += [(u > k).astype(float) for k in range(w)] + [
        (v + u > k).astype(float) for k in range(h + w)
    ]
    spike = np.zeros((h, w))
    spike[6, 5] = 1.0
    images += [spike, 1 - spike, np.zeros((h, w)), np.ones((h, w))]
    stack = np.stack(images)
    if channels == 1:
        return stack
    return np.concatenate(
        [np.repeat(stack[..., None], 3, axis=-1), RNG.integers(0, 2, (300, h, w, 3)).astype(float)],
        axis=0,
    )


def _climb(channels, steps=60):
    """Random ascent of the largest eigenvalue by flipping rectangles of a two-valued image."""
    shape = (60, 10, 10) if channels == 1 else (60, 10, 10, 3)
    best = RNG.integers(0, 2, shape).astype(float)
    top = np.linalg.eigvalsh(np.asarray(covariance_descriptors(best)))[:, -1]
    for _ in range(steps):
        trial = best.copy()
        for image in trial:
            a, b = np.sort(RNG.integers(0, 11, 2)), np.sort(RNG.integers(0, 11, 2))
            image[a[0] : a[1], b[0] : b[1]] = 1 - image[a[0] : a[1], b[0] : b[1]]
        new = np.linalg.eigvalsh(np.asarray(covariance_descriptors(trial)))[:, -1]
        better = new > top
        best[better], top[better] = trial[better], new[better]
    return best


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("eta", [1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("center", ["identity", "middle"])
def test_ball_contains_adversarial_images(channels, eta, center):
    images = np.concatenate([_adversarial(channels)[:, :10, :10], _climb(channels)])
    descriptors = np.asarray(covariance_descriptors(images, eta=eta))
    eigenvalues = np.linalg.eigvalsh(descriptors)
    assert eigenvalues.min() >= eta * (1 - 1e-9)
    assert eigenvalues.max() <= eta + descriptor_spread(channels)
    assert np.trace(descriptors, axis1=1, axis2=2).max() <= eta * descriptors.shape[
        1
    ] + descriptor_spread(channels)
    assert eigenvalues.max() > 0.2 * descriptor_spread(
        channels
    )  # the search did look for large ones
    ball = descriptor_ball(channels, eta, center=center)
    middle = math.log(float(np.asarray(ball.center)[0, 0]))
    distance = np.sqrt(np.sum((np.log(eigenvalues) - middle) ** 2, axis=1))
    assert distance.max() <= ball.radius * (1 + 1e-9)


def test_ball_radii_are_the_stated_numbers():
    assert descriptor_spread(1) == pytest.approx(2.867, abs=5e-4)
    assert descriptor_spread(3) == pytest.approx(3.367, abs=5e-4)
    assert descriptor_ball(1, 1e-6).radius == pytest.approx(41.4465, abs=1e-3)
    assert descriptor_ball(3, 1e-6).radius == pytest.approx(math.sqrt(11) * 13.8155, abs=1e-3)
    assert descriptor_ball(1, 5.0).radius == pytest.approx(3 * math.log(7.8669), abs=1e-3)
    assert descriptor_ball(1, 1e-6, center="middle").radius < 0.55 * descriptor_ball(1, 1e-6).radius


def test_a_pixel_that_is_not_a_number_still_gives_a_descriptor_in_the_ball():
    images = RNG.random((4, 6, 6))
    images[0, 2, 2], images[1, 0, 0], images[2, 5, 5], images[3] = np.nan, np.inf, -np.inf, 1e300
    eigenvalues = np.linalg.eigvalsh(np.asarray(covariance_descriptors(images)))
    assert np.all(np.isfinite(eigenvalues))
    assert eigenvalues.min() > 0
    assert eigenvalues.max() < 2.868


@pytest.mark.parametrize(
    ("images", "word"),
    [
        (np.zeros((4, 4)), "images[None]"),
        (np.zeros((2, 4, 4, 2)), "RGB"),
        (np.zeros((2, 0, 4)), "shape"),
        (np.zeros((2, 4, 4), dtype=np.int64), "dtype"),
        (np.zeros((2, 4, 4), dtype=complex), "dtype"),
        (np.array([["a"]]), "images"),
    ],
)
def test_bad_images_are_refused(images, word):
    with pytest.raises(InvalidArgument, match="images") as caught:
        covariance_descriptors(images)
    assert word in str(caught.value)


def test_bad_eta_channels_and_center_are_refused():
    for eta in (0.0, -1.0, math.nan, math.inf, "small"):
        with pytest.raises(InvalidArgument, match="eta"):
            covariance_descriptors(np.zeros((1, 4, 4)), eta=eta)
        with pytest.raises(InvalidArgument, match="eta"):
            descriptor_ball(1, eta)
    for channels in (0, 2, True, "rgb"):
        with pytest.raises(InvalidArgument, match="channels"):
            descriptor_ball(channels)
    with pytest.raises(InvalidArgument, match="center"):
        descriptor_ball(1, center="data mean")
