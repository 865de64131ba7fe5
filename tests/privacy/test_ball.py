"""The clamp: on every space of the table, whatever the records are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import riemdp
from riemdp import Ball

SPACES = [
    riemdp.Sphere(4),
    riemdp.Lorentz(4),
    riemdp.SPDAffineInvariant(3),
    riemdp.Euclidean(3),
    riemdp.PoincareBall(3),
    riemdp.SPDLogEuclidean(3),
    riemdp.SPDBuresWasserstein(3),
    riemdp.Grassmann(5, 2),
]


def _records(manifold, length: float, n: int = 12):
    """n points at distance `length` from the origin, in random directions."""
    origin = manifold.origin
    c = np.random.default_rng(0).normal(size=(n, manifold.dim))
    c *= length / np.linalg.norm(c, axis=1, keepdims=True)
    return manifold.exp(
        origin, manifold.from_coordinates(np.broadcast_to(origin, (n, *origin.shape)), c)
    )


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_clamp(manifold) -> None:
    ball = Ball(manifold.origin, 0.4)
    near, far = _records(manifold, 0.3), _records(manifold, 0.7)
    assert np.array_equal(ball.clamp(manifold, near), near)
    moved = ball.clamp(manifold, far)
    distance = np.asarray(manifold.dist(manifold.origin, moved))
    assert np.allclose(distance, 0.4, atol=1e-7)
    assert np.all(ball.contains(manifold, moved))
    assert not np.any(ball.contains(manifold, far))
    # Radially: the direction is that of the record.
    assert np.allclose(
        manifold.log(manifold.origin, moved) / 0.4,
        manifold.log(manifold.origin, far) / 0.7,
        atol=1e-6,
    )
    # A fault would be to leave far records where they are: the same check fails on them.
    assert np.all(np.asarray(manifold.dist(manifold.origin, far)) > 0.4 + 1e-3)


@pytest.mark.parametrize("manifold", SPACES, ids=repr)
def test_invalid_records_go_to_the_center(manifold) -> None:
    ball = Ball(manifold.origin, 0.4)
    x = np.array(_records(manifold, 0.3))
    x[1], x[2] = np.nan, np.inf
    x[3].flat[0] = -np.inf
    wrecked = [1, 2, 3]
    if not isinstance(manifold, riemdp.Euclidean):
        x[4] = (
            -5.0 * np.ones(manifold.shape)
            if "SPD" in type(manifold).__name__
            else 7.0 * np.ones(manifold.shape)
        )
        wrecked.append(4)
    clamped = np.asarray(ball.clamp(manifold, x))
    assert np.all(np.isfinite(clamped))
    for i in wrecked:
        assert np.array_equal(clamped[i], np.asarray(manifold.origin))
    assert np.array_equal(clamped[5:], x[5:])


def test_cut_locus_and_single_precision_and_lists() -> None:
    sphere, pole = riemdp.Sphere(3), np.array([0.0, 0.0, 1.0])
    ball = Ball(pole, 0.5)
    assert np.array_equal(ball.clamp(sphere, -pole), pole)
    single = np.array([0.1, 0.2, np.sqrt(0.95)], dtype=np.float32)
    kept = np.asarray(ball.clamp(sphere, single))
    assert np.allclose(kept, single, atol=1e-6)
    assert abs(np.linalg.norm(kept) - 1) < 1e-15
    mixed = ball.clamp(sphere, [pole, np.ones(5), "text", [0.0, 1.0, 0.0]])
    assert np.array_equal(np.asarray(mixed)[1:3], [pole, pole])
    assert float(sphere.dist(pole, mixed[3])) == pytest.approx(0.5)


def test_each_record_is_clamped_on_its_own() -> None:
    """Replacing one record moves one output: what the sensitivity proofs rest on."""
    sphere = riemdp.Sphere(4)
    ball = Ball(sphere.origin, 0.4)
    x = np.array(_records(sphere, 0.7))
    before = np.asarray(ball.clamp(sphere, x))
    for bad in (np.full(4, np.nan), -np.asarray(sphere.origin), np.ones(4)):
        y = x.copy()
        y[0] = bad
        assert np.array_equal(np.asarray(ball.clamp(sphere, y))[1:], before[1:])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Ball(np.eye(3)[0], 0.0), "radius"),
        (lambda: Ball(np.eye(3)[0], np.inf), "radius"),
        (lambda: Ball(np.eye(3)[0], np.nan), "radius"),
        (lambda: Ball(np.eye(3)[0], 4.0).clamp(riemdp.Sphere(3), np.eye(3)), "radius"),
        (lambda: Ball(2 * np.eye(3)[0], 0.4).clamp(riemdp.Sphere(3), np.eye(3)), "center"),
        (lambda: Ball(np.eye(3), 0.4).clamp(riemdp.Sphere(3), np.eye(3)), "center"),
        (lambda: Ball(np.eye(3)[0], 0.4).clamp(riemdp.Sphere(3), np.eye(4)), "`x`"),
    ],
)
def test_bad_input(call, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        call()


def _transported(c: np.ndarray, x: np.ndarray, share: float) -> np.ndarray:
    """The point `share` of the way along the Bures-Wasserstein geodesic, by the optimal transport
    map: another formula.
    """
    root = np.asarray(scipy.linalg.sqrtm(c)).real
    inverse = np.linalg.inv(root)
    move = (1 - share) * np.eye(len(c)) + share * inverse @ np.asarray(
        scipy.linalg.sqrtm(root @ x @ root)
    ).real @ inverse
    return move @ c @ move


def test_bures_wasserstein_records_beyond_the_injectivity_radius_move_along_their_geodesic() -> (
    None
):
    manifold, c, radius = riemdp.SPDBuresWasserstein(3), np.diag([1.0, 2.0, 0.5]), 0.6
    ball = Ball(c, radius)
    a = np.random.default_rng(0).standard_normal((6, 3, 3))
    shapes = a @ np.swapaxes(a, 1, 2) + 0.1 * np.eye(3)
    for size in (1e-12, 1e-4, 1.0, 40.0, 1e6, 1e30, 1e200):
        x = size * shapes
        distance = np.asarray(manifold.dist(c, x))
        assert np.all(distance > 1.01 * np.sqrt(0.5))  # beyond the injectivity radius, all of them
        moved = np.asarray(ball.clamp(manifold, x))
        assert np.all(np.asarray(manifold.dist(c, moved)) <= radius)
        assert np.all(ball.contains(manifold, moved))
        assert np.all(
            np.asarray(manifold.dist(c, moved)) > radius * (1 - 1e-6)
        )  # planted: the centre, where they used to go
        if size < 1e20:
            for one, d, far in zip(moved, distance, x, strict=True):
                np.testing.assert_allclose(one, _transported(c, far, radius / d), atol=1e-6)
    # whatever cannot be verified is at the centre, and nothing is outside
    worst = np.stack(
        [
            np.diag([1e300, 1e-300, 1.0]),
            np.diag([1e150, 1e-160, 1e-10]),
            np.zeros((3, 3)),
            -np.eye(3),
            1e308 * np.ones((3, 3)),
        ]
    )
    kept = np.asarray(ball.clamp(manifold, worst))
    assert np.all(np.isfinite(kept))
    assert np.all(np.asarray(manifold.dist(c, kept)) <= radius)
    assert np.array_equal(kept[2], c)
    assert np.array_equal(kept[3], c)


def test_bures_wasserstein_clamp_is_continuous_at_both_radii() -> None:
    manifold, c = riemdp.SPDBuresWasserstein(3), np.diag([1.0, 2.0, 0.5])
    ball = Ball(c, 0.6)
    towards = np.array([[3.0, 0.4, 0.0], [0.4, 1.0, -0.3], [0.0, -0.3, 4.0]])
    length = float(manifold.dist(c, towards))
    for at in (0.6, np.sqrt(0.5)):
        pair = np.stack([_transported(c, towards, at * f / length) for f in (1 - 1e-6, 1 + 1e-6)])
        one, other = np.asarray(ball.clamp(manifold, pair))
        assert float(manifold.dist(one, other)) < 3e-6
