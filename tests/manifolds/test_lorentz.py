"""The hyperboloid against 60-digit arithmetic and against the Poincare ball, near the origin and
far out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from riemdp.manifolds import Lorentz
from tests.seam import Means

LORENTZ = Lorentz(4)
LORENTZ_OF = {n: Lorentz(n) for n in (2, 3, 5)}
ULP = 2.0**-52


def test_distance_from_the_origin_is_exact_to_the_end_of_the_range() -> None:
    r = np.array([1e-12, 1e-3, 1.0, 10.0, 30.0, 300.0])
    c = np.zeros((6, 3))
    c[:, 1] = r
    q = LORENTZ.exp(LORENTZ.origin, LORENTZ.from_coordinates(LORENTZ.origin, c))
    np.testing.assert_allclose(LORENTZ.dist(LORENTZ.origin, q), r, rtol=4 * ULP)
    np.testing.assert_allclose(LORENTZ.dist(q, LORENTZ.origin), r, rtol=4 * ULP)


def _exact_distance(p: np.ndarray, q: np.ndarray) -> mpmath.mpf:
    """2 arsinh(|p - q|_L / 2), the time coordinates taken from the space coordinates."""
    x, y = ([mpmath.mpf(float(a)) for a in point[1:]] for point in (p, q))
    times = [mpmath.sqrt(1 + sum(a * a for a in z)) for z in (x, y)]
    squared = sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) - (times[0] - times[1]) ** 2
    return 2 * mpmath.asinh(mpmath.sqrt(squared) / 2)


@pytest.mark.parametrize("near", [0.5, 0.7, 3.0, 20.0])
@pytest.mark.parametrize("far", [30.0, 40.0, 100.0, 300.0])
def test_distance_of_points_at_unlike_distances_from_the_origin(near: float, far: float) -> None:
    """The difference of two arrows of unlike length does not hold the angle between them."""
    rng = np.random.default_rng(int(10 * near + far))
    with mpmath.workdps(600):
        for angle in (0.0, 1e-17, 1e-9, 1e-4, 1.0, 3.0):
            u, w = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
            v = np.cos(angle) * u + np.sin(angle) * w
            p = LORENTZ.project(np.array([0.0, *np.sinh(near) * u]))
            q = LORENTZ.project(np.array([0.0, *np.sinh(far) * v]))
            exact = _exact_distance(p, q)
            for found in (LORENTZ.dist(p, q), LORENTZ.dist(q, p)):
                assert abs(float(found) - exact) <= 1e-10 * exact


@pytest.mark.parametrize(("n", "compiled"), [(2, False), (3, False), (5, False), (3, True)])
def test_distances_along_an_axis_and_a_ray_are_exact_as_far_as_float64_goes(n, compiled):
    """A rounding of a direction is worth 2 R - 37 in length: 563 at R = 300. Products of two
    coordinates overflow from 354.2 on.
    """
    dist = jax.jit(LORENTZ_OF[n].dist) if compiled else LORENTZ_OF[n].dist
    rng = np.random.default_rng(n)
    for r in (1.0, 30.0, 60.0, 150.0, 300.0, 347.0, 354.3, 355.2):
        for direction in [*np.eye(n - 1), *-np.eye(n - 1), *rng.standard_normal((4, n - 1))]:
            x = np.sinh(r) * direction / np.linalg.norm(direction)
            p = np.r_[np.hypot(1.0, np.linalg.norm(x)), x]
            shares = [0.5, 2.0**-20, 2.0**-400]
            if np.count_nonzero(x) == 1:
                shares += [0.3, 1.0 - 2.0**-40, 0.999, np.sinh(r - 0.5) / np.sinh(r)]
            for share in shares:
                q = np.r_[np.hypot(1.0, np.linalg.norm(share * x)), share * x]
                with mpmath.workdps(700):
                    exact = float(_exact_distance(p, q))
                np.testing.assert_allclose(dist(p, q), exact, rtol=1e-14, err_msg=f"{r} {share}")
                np.testing.assert_allclose(dist(q, p), exact, rtol=1e-14, err_msg=f"{r} {share}")


@pytest.mark.parametrize("n", [3, 5])
def test_a_distance_beside_an_axis_is_that_on_it(n):
    """On the axis an angle is 0; beside it, it would be a rounding: 91 in length at R = 100."""
    space = LORENTZ_OF[n]
    for far, away in ((20.0, 10.0), (45.0, 75.0), (100.0, 130.0), (300.0, 150.0)):
        p, q = np.zeros(n), np.zeros(n)
        p[1], q[1] = np.sinh(far), np.sinh(away)
        p[0], q[0] = np.hypot(1.0, p[1]), np.hypot(1.0, q[1])
        for beside in (0.0, 1e-300, 1e-30, 1e-12):
            q[2] = beside
            assert float(space.dist(p, q)) == pytest.approx(abs(far - away), rel=1e-12)
            assert float(space.dist(q, p)) == pytest.approx(abs(far - away), rel=1e-12)


def test_slopes_of_a_distance_between_a_near_and_a_far_point_are_numbers() -> None:
    slopes = jax.jit(jax.grad(LORENTZ._squared_dist, argnums=(0, 1)))
    for r in (100.0, 290.0, 340.0):
        p = np.r_[np.cosh(r), np.sinh(r) * np.array([0.6, 0.0, 0.8])]
        for near in (0.0, 0.01, 0.4, 2.0):
            q = np.r_[np.cosh(near), 0.0, np.sinh(near), 0.0]
            for slope in (*slopes(p, q), *slopes(q, p)):
                assert np.all(np.isfinite(slope)), (r, near)


def test_the_distance_curves_across_an_axis_as_beside_it() -> None:
    """What is left out along an axis has no second derivative across it."""

    def squared(x, y):
        p, q = (jnp.concatenate([jnp.sqrt(1.0 + a @ a)[None], a]) for a in (x, y))
        return LORENTZ._squared_dist(p, q)

    hessians = jax.jit(jax.hessian(squared, argnums=(0, 1)))
    for lengths in ((3.0, 2.0), (2.0, 3.0), (5.0, 1.5)):
        x, y = (np.sinh(r) * np.eye(3)[1] for r in lengths)
        for k in (0, 1):
            on, off = (np.asarray(hessians(z, y)[k][k]) for z in (x, x + 1e-6))
            np.testing.assert_allclose(on, off, atol=1e-5 * np.max(np.abs(on)))
            assert np.min(np.abs(np.diagonal(on))) > 0.0


def test_the_three_forms_of_the_chord_meet() -> None:
    """Walk a second point through the borders between the forms (time 4, radius 1/2): no step in d,
    d^2 or the gradient.
    """
    radii = np.linspace(0.3, 3.2, 400)
    c = np.stack([radii, 0.1 * radii, np.zeros(400)], axis=-1)
    q = LORENTZ.exp(LORENTZ.origin, LORENTZ.from_coordinates(LORENTZ.origin, c))
    slope = jax.jit(jax.grad(lambda a, b: jnp.sum(LORENTZ.squared_dist(a, b)), argnums=1))
    for other in (0.45, 0.55, 1.7, 2.2):
        p = LORENTZ.exp(
            LORENTZ.origin, LORENTZ.from_coordinates(LORENTZ.origin, np.array([0.0, other, 0.1]))
        )
        x, y = np.asarray(p), np.asarray(q)
        expected = np.arccosh(y[:, 0] * x[0] - y[:, 1:] @ x[1:])
        np.testing.assert_allclose(LORENTZ.dist(p, q), expected, rtol=1e-13)
        gradient = slope(p, q)
        back = LORENTZ.egrad_to_rgrad(q, gradient) + 2.0 * LORENTZ.log(q, p)
        np.testing.assert_allclose(LORENTZ.norm(q, back), 0.0, atol=1e-12)


def test_results_stay_on_the_sheet() -> None:
    p = LORENTZ.random_point(0, (5,))
    v = LORENTZ.tangent_normal(1, p, 2.0)
    for _ in range(50):
        q = LORENTZ.exp(p, v)
        p, v = q, -LORENTZ.transport(p, q, v)
        np.testing.assert_allclose(
            p[:, 0], np.sqrt(1.0 + np.sum(p[:, 1:] ** 2, axis=-1)), rtol=4 * ULP
        )
    assert np.all(LORENTZ.belongs(p))
    assert not bool(LORENTZ.belongs(np.array([-1.0, 0, 0, 0])))
    assert not bool(LORENTZ.belongs(np.array([1.1, 0, 0, 0])))
    assert bool(LORENTZ.belongs(LORENTZ.project(np.array([-7.0, 1.0, 2.0, 3.0]))))


def _by_mpmath(p, q, share):
    """The point at this share of the way from p to q, and its distance from what is given."""
    mp = mpmath
    with mp.workdps(120):
        x, y = ([mp.mpf(float(a)) for a in point[1:]] for point in (p, q))
        times = [mp.sqrt(1 + mp.fsum(a * a for a in z)) for z in (x, y)]
        distance = mp.acosh(times[0] * times[1] - mp.fsum(a * b for a, b in zip(x, y, strict=True)))
        t = mp.mpf(float(share))
        one, two = mp.sinh((1 - t) * distance), mp.sinh(t * distance)
        place = [(one * a + two * b) / mp.sinh(distance) for a, b in zip(x, y, strict=True)]
        return place, distance


@pytest.mark.parametrize("n", [2, 3, 5])
def test_points_on_the_way_are_as_exact_as_their_coordinates(n):
    """Also where the way leads back past the origin, and the exponential map subtracts."""
    space, rng = Lorentz(n), np.random.default_rng(n)
    for far in (0.0, 1.0, 8.0, 14.0):
        for away in (1e-6, 0.5, far, 2.0 * far, 250.0):
            p = np.asarray(space.exp(space.origin, np.r_[0.0, far, np.zeros(n - 2)]))
            c = -np.eye(n - 1)[0] + rng.normal(size=n - 1) * rng.choice([0.0, 1e-6, 1.0])
            q = space.exp(p, space.from_coordinates(p, away * c / np.linalg.norm(c)))
            q, distance = np.asarray(q), np.asarray(space.dist(p, q))
            for share in (0.0, 1e-3, 0.3, min(1.0, 8.0 / max(away, 1e-9))):
                found = np.asarray(
                    Means.between(p, q, Means.squared_chord(p, q), np.float64(share))
                )
                exact, _ = _by_mpmath(p, q, share) if distance > 0 else (p[1:], 0.0)
                error = np.array([float(a - b) for a, b in zip(exact, found[1:], strict=True)])
                # a share of D has an error of its own, a rounding of D
                allowed = 1e-15 * (4.0 + distance) * found[0]
                assert np.max(np.abs(error)) <= allowed, (far, away, share)


def _carried_exactly(c, y):
    """Space coordinates of y, carried by the boost that carries c to the origin; those of both,
    in as many digits as mpmath has.
    """
    c, y = ([mpmath.mpf(float(a)) for a in z] for z in (c, y))
    times = [mpmath.sqrt(1 + mpmath.fsum(a * a for a in z)) for z in (c, y)]
    share = times[1] - mpmath.fsum(a * b for a, b in zip(c, y, strict=True)) / (1 + times[0])
    return [b - a * share for a, b in zip(c, y, strict=True)]


def _apart(x, y):
    """The distance of points with these space coordinates."""
    x, y = ([mpmath.mpf(a) for a in z] for z in (x, y))
    times = [mpmath.sqrt(1 + mpmath.fsum(a * a for a in z)) for z in (x, y)]
    squared = mpmath.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return float(2 * mpmath.asinh(mpmath.sqrt(squared - (times[0] - times[1]) ** 2) / 2))


CARRIERS = {
    "NumPy": Means.seen_from,
    "compiled": jax.jit(Means.seen_from),
}


@pytest.mark.parametrize(
    ("carrier", "n"), [("NumPy", 1), ("NumPy", 2), ("NumPy", 4), ("compiled", 2)]
)
def test_points_are_carried_as_exactly_as_their_coordinates_say(carrier, n):
    """By a boost of far points, which as a matrix loses e^(R + S)."""
    carry, rng, axis = CARRIERS[carrier], np.random.default_rng(n), np.eye(n)[0]
    cases = []
    for far in (0.0, 1e-9, 0.5, 5.0, 20.0, 300.0):
        u = rng.standard_normal(n)
        u /= np.linalg.norm(u)
        c = np.sinh(far) * u
        cases += [(c, c * (1 + 1e-9 * rng.standard_normal(n)), False)]
        cases += [
            (c, np.sinh(away) * w / np.linalg.norm(w), False)
            for away in (0.0, 1e-9, 0.5, 20.0)
            for w in (rng.standard_normal(n), u, -u)
        ]
        cases += [
            (np.sinh(far) * axis, np.sinh(away) * axis, True)
            for away in (far, -far, far - 1.0, 0.3, -7.0, -280.0, 300.0)
        ]
    for size in (1e-320, 6e-313, 1e-306, 3e-305, 1e-200, 1e-150):
        for away in (1e-310, 1e-160, 8.0, 30.0):
            cases += [(size * axis, sign * np.sinh(away) * axis, True) for sign in (-1, 1)]
            cases += [(np.sinh(away) * axis, size * axis, True)]
    for center, y, on_axis in cases:
        with mpmath.workdps(700):
            exact = _carried_exactly(center, y)
            error = _apart(np.asarray(carry(center, y)).tolist(), exact)
            largest = max(float(mpmath.asinh(np.max(np.abs(z)))) for z in (center, y, exact))
        if on_axis:
            assert error <= 4 * ULP * (1.0 + largest), (center, y)
        elif largest < 36.0:  # else coordinates do not hold a direction
            assert error <= 4 * ULP * np.exp(largest), (center, y)


@pytest.mark.parametrize("n", [2, 3])
def test_what_is_carried_has_the_slopes_of_the_boost(n):
    """Also where a point is the origin, or the square of its coordinates vanishes."""
    space, rng = LORENTZ_OF[n], np.random.default_rng(n)

    def onto(p, x):
        return space._to_origin(space._project(p), space._project(x))[1:]

    def plainly(p, x):
        c, y = p[1:], x[1:]
        times = [jnp.sqrt(1.0 + jnp.sum(z * z)) for z in (c, y)]
        return y - c * (times[1] - jnp.sum(c * y) / (1.0 + times[0]))

    ways = [jax.jit(jax.jacfwd(onto, (0, 1))), jax.jit(jax.jacrev(onto, (0, 1)))]
    exactly = jax.jit(jax.jacfwd(plainly, (0, 1)))
    frame = jax.jit(jax.jacfwd(space._exp_coordinates, 1))
    for far in (0.0, 1e-200, 0.7, 5.0):
        for away in (0.0, 1e-200, 1e-9, 2.0):
            p, q = (np.sinh(r) * rng.standard_normal(n - 1) for r in (far, away))
            p, q = (np.r_[np.hypot(1.0, np.linalg.norm(x)), x] for x in (p, q))
            for way in ways:
                slopes, exact = way(p, q), exactly(p, q)
                np.testing.assert_allclose(slopes, exact, rtol=1e-9, atol=1e-11 * np.exp(far))
        expected = [space._from_coordinates(p, e) for e in np.eye(n - 1)]
        found = frame(p, np.zeros(n - 1)).T
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14 * np.exp(far))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_coordinates_about_a_far_point_come_back_from_beyond_the_origin(n):
    """Before: 5 beside the place for a point 18 from another that is 14 from the origin, 195 for
    100 from 100.
    """
    space = LORENTZ_OF[n]
    for far, away in ((5.0, 8.0), (14.0, 18.0), (20.0, 25.0), (60.0, 80.0), (100.0, 180.0)):
        p, c = np.zeros(n), np.zeros(n - 1)
        p[0], p[1] = np.cosh(far), np.sinh(far)
        for way in np.linspace(-away, away, 9):
            c[0] = way
            local = np.r_[np.cosh(way), np.sinh(way), np.zeros(n - 2)]
            ends = [space._from_origin(p, local)]
            if n == 2:
                ends.append(space._exp_coordinates(p, c))
            for x in ends:
                assert float(np.arcsinh(x[1])) == pytest.approx(far + way, rel=1e-13, abs=1e-13)
                back = space._to_origin(p, np.asarray(x))
                assert float(np.arcsinh(back[1])) == pytest.approx(way, rel=1e-13, abs=1e-13)
                if n == 2:
                    seen = space._log_coordinates(p, np.asarray(x))
                    assert float(seen[0]) == pytest.approx(way, rel=1e-13, abs=1e-13)
