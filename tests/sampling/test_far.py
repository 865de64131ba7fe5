"""Draws that float64 cannot hold are shortened by a function of the drawn point and public numbers.

The first tests swap the private value under a fixed draw. The others attack what is released.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import riemdp as R
from tests.seam import Means
from tests.statistical import ALPHA, two_sample_p_value


def same_draw_seen_from(eta, other, q, w):
    """(Q, w) with chol(other) Q e^w Q^T chol(other)^T = chol(eta) q e^w q^T chol(eta)^T."""
    with mpmath.workdps(1300):
        a, b = (mpmath.matrix(np.linalg.cholesky(m).tolist()) for m in (eta, other))
        frame = mpmath.inverse(b) * a * mpmath.matrix(q.tolist())
        scaled = frame * mpmath.diag([mpmath.exp(mpmath.mpf(float(x)) / 2) for x in w])
        values, vectors = mpmath.eigsy(scaled * scaled.T)
        return np.array(vectors.tolist(), dtype=float), np.array(
            [float(mpmath.log(v)) for v in values]
        )


def pulled_in_from_eta(eta, q, w):
    """The map that this package used to have."""
    half = np.linalg.cholesky(eta) @ q
    middle = 0.5 * (np.max(w) + np.min(w))
    return half @ np.diag(np.exp(middle + (w - middle) * min(1.0, 33 / np.ptp(w)))) @ half.T


def log_matrix(x):
    values, vectors = np.linalg.eigh(x)
    return (vectors * np.log(values)) @ vectors.T


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("spread", [4.0, 17.0, 31.0, 40.0, 120.0, 2000.0])
@pytest.mark.parametrize("reach", [math.inf, 9.0])
def test_the_private_value_does_not_enter_what_becomes_of_an_spd_draw(k, spread, reach):
    rng = np.random.default_rng(int(spread) + k)
    q = np.linalg.qr(rng.standard_normal((k, k)))[0]
    w = np.sort(rng.standard_normal(k))
    w = spread * ((w - w[0]) / np.ptp(w) - 0.3) if k > 1 else np.array([spread])
    z = rng.standard_normal((k, k))
    eta, other = np.eye(k), z @ z.T / k + 0.3 * np.eye(k)
    view = Means.View(None, reach)
    here = Means.affine_points(eta, q[None], w[None], view)[0]
    there = Means.affine_points(
        other, *(a[None] for a in same_draw_seen_from(eta, other, q, w)), view
    )[0]
    # a rounded product of condition e^s holds its logarithm to about 1e-16 e^s
    held = min(spread, 33.0) if math.isinf(reach) else min(spread, 9.0 * math.sqrt(2))
    atol = 1e-13 * max(1.0, math.exp(held)) + 1e-9
    gap = np.max(np.abs(log_matrix(here) - log_matrix(there)))
    assert gap < atol or gap < 1e-6 * np.max(np.abs(log_matrix(here)))
    if k > 1 and spread > 20.0:
        assert np.linalg.norm(log_matrix(here)) <= reach * (1 + 1e-3)
    if k > 1 and spread >= 40.0:  # planted: shortened from the private value
        qo, wo = same_draw_seen_from(eta, other, q, w)
        old = [pulled_in_from_eta(eta, q, w), pulled_in_from_eta(other, qo, wo)]
        assert np.max(np.abs(log_matrix(old[0]) - log_matrix(old[1]))) > 0.05


def test_a_point_that_float64_holds_is_returned_as_it_was_drawn():
    rng = np.random.default_rng(4)
    eta, q = np.diag([1.0, 2.0, 0.5]), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    w = np.array([-9.0, 1.0, 11.0])  # worked out in many digits, and not changed by it
    x = Means.affine_points(eta, q[None], w[None], Means.View())[0]
    half = np.linalg.cholesky(eta) @ q
    np.testing.assert_allclose(x, half @ np.diag(np.exp(w)) @ half.T, rtol=1e-7)
    center = np.diag([1.0, 30.0, 1.0])
    seen = Means.affine_points(eta, q[None], w[None], Means.View(center))[0]
    np.testing.assert_allclose(x, seen, rtol=1e-9)
    assert np.all(np.less(Means.affine_limits(center), Means.affine_limits(np.eye(3))))


def boosted(c, y):
    """Space coordinates after the boost that carries the origin to c, in many digits."""
    along = sum(a * b for a, b in zip(c, y, strict=True))
    time = mpmath.sqrt(1 + mpmath.norm(y) ** 2)
    return y + (time + along / (1 + mpmath.sqrt(1 + mpmath.norm(c) ** 2))) * c


def drawn_in_many_digits(x, normals, r):
    """The far draw from its definition: normals belong to the frame that the origin sees."""
    place, w = (mpmath.matrix([mpmath.mpf(float(a)) for a in y]) for y in (x, normals))
    w /= mpmath.norm(w)
    along = sum(a * b for a, b in zip(w, place, strict=True))
    v = w + along / (1 + mpmath.sqrt(1 + mpmath.norm(place) ** 2)) * place  # boosted to eta
    return mpmath.cosh(r) * place + mpmath.sinh(r) * v


def shortened_in_many_digits(c, exact, limit):
    """A point moved towards c, and how far from it it was."""
    c = mpmath.matrix([mpmath.mpf(float(a)) for a in c])
    seen = boosted(-c, exact)
    length = mpmath.asinh(mpmath.norm(seen))
    if length > limit:
        exact = boosted(c, seen * (mpmath.sinh(mpmath.mpf(limit)) / mpmath.norm(seen)))
    return exact, length


def apart_in_many_digits(x, y):
    x, y = (mpmath.matrix(a) for a in (x, y))
    times = [mpmath.sqrt(1 + mpmath.norm(a) ** 2) for a in (x, y)]
    squared = mpmath.norm(x - y) ** 2 - (times[0] - times[1]) ** 2
    return 2 * mpmath.asinh(mpmath.sqrt(max(squared, 0)) / 2)


def on_sheet(distance, direction):
    x = np.sinh(distance) * direction / np.linalg.norm(direction)
    return np.r_[np.hypot(1.0, np.linalg.norm(x)), x]


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize(
    "distance", [0.0, 1e-12, 1e-3, 2.0, 14.9, 18.9, 170.0, 178.0, 300.0, 355.0]
)
def test_a_draw_about_any_point_of_the_hyperboloid_is_that_of_many_digits(n, distance):
    """The last normals point away from the origin and back to it: on the line half of all do.
    A draw beyond the origin came out as the origin from 18.7 on.
    """
    rng = np.random.default_rng(n)
    space = R.Lorentz(n)
    direction = rng.standard_normal(n - 1)
    eta = on_sheet(distance, direction)
    z = np.vstack([rng.standard_normal((6, n - 1)), *[direction, -direction] * 4])
    radii = np.abs(rng.standard_normal(14)) * np.exp(rng.uniform(-3, 6, 14)) + 1e-6
    radii[:2] = 400.0, 800.0
    found = np.asarray(Means.hyperbolic_points(space, eta, radii, z, Means.View()))
    assert np.all(space.belongs(found))
    far = radii + distance > 15
    for r, normals, point in zip(radii[far], z[far], found[far], strict=True):
        with mpmath.workdps(900):
            exact = drawn_in_many_digits(eta[1:], normals, r)
            exact, length = shortened_in_many_digits(np.zeros(n - 1), exact, 300)
            error = float(apart_in_many_digits(exact, point[1:].tolist()))
            # a rounding of the point; back over the origin one of its way, and of its direction
            allowed = 1e-15 * (math.exp(min(length, 300)) + r + distance)
            allowed += 1e-15 * math.exp(min(r, 700.0)) * (n > 2)
        assert error <= 50 * allowed, (r, float(length))


@pytest.mark.parametrize(
    ("manifold", "off", "distance"),
    [
        (manifold, off, distance)
        for manifold in (R.Lorentz(2), R.Lorentz(3), R.Lorentz(6), R.PoincareBall(2))
        for off in (0.1, 5.0, 18.0, 25.0)
        for distance in (0.0, 3.0, 20.0)
        # the coordinates of a ball hold no digit there
        if isinstance(manifold, R.Lorentz) or off + distance <= 18
    ],
    ids=str,
)
def test_a_far_draw_in_a_ball_off_the_origin_is_that_of_many_digits(manifold, off, distance):
    """Its coordinates were taken from tangent vectors at the private value, which lose e^2R: values
    1e-8 apart had draws .24 apart, and a draw was up to 18 from where its length says.
    """
    rng = np.random.default_rng(1)
    flat = manifold.dim
    c = on_sheet(off, rng.standard_normal(flat))
    y = on_sheet(distance, rng.standard_normal(flat))[1:]
    with mpmath.workdps(60):
        x = boosted(*(mpmath.matrix(a.tolist()) for a in (c[1:], y)))
        x = np.array([float(a) for a in x])
    eta = np.r_[np.hypot(1.0, np.linalg.norm(x)), x]
    center, value = (p if isinstance(manifold, R.Lorentz) else p[1:] / (1 + p[0]) for p in (c, eta))
    z = rng.standard_normal((8, flat))
    radii = np.abs(rng.standard_normal(8)) * 6 + 1e-6
    found = np.asarray(Means.hyperbolic_points(manifold, value, radii, z, Means.View(center)))
    far = radii + np.arcsinh(np.linalg.norm(x)) > 15.1
    for r, normals, point in zip(radii[far], z[far], found[far], strict=True):
        with mpmath.workdps(80):
            sheet = [to_lorentz(manifold, p)[1:] for p in (center, value, point)]
            exact = drawn_in_many_digits(sheet[1], normals, r)
            if isinstance(manifold, R.PoincareBall):  # what float64 holds about the origin
                longest = max(30.0, off + 15.0)
                exact, _ = shortened_in_many_digits(np.zeros(flat), exact, longest)
            length = mpmath.asinh(mpmath.norm(exact))
            error = float(apart_in_many_digits(exact, sheet[2].tolist()))
        # a rounding of the value, of the draw, of the centre and of a direction
        ends = [np.arcsinh(np.linalg.norm(np.array(p, dtype=float))) for p in sheet]
        reach = max(*ends, r if flat > 1 else 0.0)
        if isinstance(manifold, R.PoincareBall):
            reach *= 2  # 1 - |x|^2 is rounded
        assert error <= 1e-14 * math.exp(reach) + 1e-12, (r, float(length))


@pytest.mark.parametrize(
    ("manifold", "off", "distance"),
    [
        (R.PoincareBall(2), 20.0, 11.0),
        (R.PoincareBall(1), 25.0, 8.0),
        (R.PoincareBall(1), 33.0, 5.0),
        (R.Lorentz(2), 295.0, 8.0),
        (R.Lorentz(2), 320.0, 5.0),
        (R.Lorentz(3), 292.0, 10.0),
        (R.PoincareBall(1), 20.0, 18.0),
        (R.Lorentz(2), 160.0, 150.0),
        (R.Lorentz(3), 290.0, 40.0),
    ],
    ids=repr,
)
def test_draws_about_a_far_centre_stay_beside_the_value(manifold, off, distance):
    """A limit of what float64 holds about the origin, less the distance of the centre, had them
    end elsewhere, on the other side of the centre where it was negative.
    """
    e = np.eye(manifold.dim)[0]
    c, value = on_sheet(off, e), on_sheet(off - distance, e)
    if isinstance(manifold, R.PoincareBall):
        c, value = c[1:] / (1 + c[0]), value[1:] / (1 + value[0])
    z = np.random.default_rng(0).standard_normal((20, manifold.dim)) * 1e-9 + e
    z[::2] *= -1
    x = Means.hyperbolic_points(manifold, value, np.full(20, 0.5), z, Means.View(c, distance + 3.0))
    # along the ray, where directions are exact
    ends = np.asarray(manifold.dist(manifold.origin, x)) - (off - distance)
    np.testing.assert_allclose(np.abs(ends), 0.5, atol=0.05)
    assert np.all(ends[::2] < 0)
    assert np.all(ends[1::2] > 0)


@pytest.mark.parametrize("manifold", [R.Lorentz(3), R.Lorentz(5), R.PoincareBall(2)])
@pytest.mark.parametrize("r", [16.0, 24.0, 200.0, 5000.0])
@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_the_private_value_does_not_enter_what_becomes_of_a_hyperbolic_draw(manifold, r, offset):
    """A far point in ideal coordinates (its end at infinity and its horofunction) seen from two
    values.
    """
    flat = manifold.dim
    center = manifold.exp(
        manifold.origin, manifold.from_coordinates(manifold.origin, offset * np.eye(flat)[0])
    )
    eta = np.asarray(manifold.random_point(1))
    other = np.asarray(manifold.random_point(2))
    z = np.random.default_rng(0).standard_normal((1, flat))
    sheet = R.Lorentz(flat + 1)  # coordinates are those of a frame that the origin sees

    def finished(value, unit, length):
        view = Means.View(center)
        return np.asarray(Means.hyperbolic_points(manifold, value, np.array([length]), unit, view))[
            0
        ]

    # r e^-2r is below rounding: the draw from `other` with the same end and horofunction
    eta_l, other_l = (to_lorentz(manifold, p) for p in (eta, other))
    u = np.asarray(sheet.from_coordinates(eta_l, z[0] / np.linalg.norm(z)))
    null = eta_l + u
    share = -lorentz_inner(other_l, null)
    length = r + math.log(share)
    coordinates = np.asarray(sheet.to_coordinates(other_l, null / share - other_l))[None]
    here, there = finished(eta, z, r), finished(other, coordinates, length)
    gap = float(np.linalg.norm(here - there)) / float(np.linalg.norm(here))
    assert gap < 1e-11
    assert float(manifold.dist(manifold.origin, here)) <= manifold._farthest * (1 + 1e-2)


def to_lorentz(manifold, p):
    if isinstance(manifold, R.Lorentz):
        return np.asarray(p)
    s = float(p @ p)
    return np.concatenate([[(1 + s) / (1 - s)], 2 * p / (1 - s)])


def lorentz_inner(a, b):
    return float(a[1:] @ b[1:] - a[0] * b[0])


# -------------------------------------------------------------------- attacks on what is released


# ------------------------------------------------------------------- the distribution is the same
@pytest.mark.parametrize("manifold", [R.Lorentz(3), R.Lorentz(6), R.PoincareBall(3)])
@pytest.mark.slow
def test_hyperbolic_lengths_near_the_limit_follow_the_distribution(manifold):
    """1 / s - (d - 1) = .06: a third of the draws take the polar route about the origin."""

    d = manifold.dim
    s = 1 / (d - 1 + 0.06)
    r = Means.hyperbolic_radii(d, s, 20_000, R.noise_source(3), math.inf)
    t = np.random.default_rng(0).beta(0.03, d, 20_000)
    assert two_sample_p_value(r, -0.5 * np.log(t)) > ALPHA
    assert two_sample_p_value(1.1 * r, -0.5 * np.log(t)) < ALPHA
    eta = np.asarray(manifold.random_point(5))
    x = R.riemannian_laplace(3, manifold, eta, s, (20_000,))
    out = np.asarray(manifold.dist(eta, x))
    near = r < 20
    assert two_sample_p_value(np.minimum(out, 20.0), np.minimum(r, 20.0)) > ALPHA
    assert 0.2 < np.mean(near) < 0.9
    # directions from the origin of what was worked out there: uniform about eta, so tilted by it;
    # compare with draws that the plain formula holds
    z = R.noise_source(9).normals((20_000, manifold.noise_size))
    plain = Means.direction_and_exp(manifold, eta, np.full(20_000, 12.0), z)
    ends = x[np.asarray(out) > 15]
    axis = np.asarray(eta)[-1]
    assert axis != 0.0
    heads = [
        np.asarray(p)[:, -1] / np.linalg.norm(np.asarray(p)[:, -manifold.dim :], axis=1)
        for p in (ends, plain)
    ]
    assert two_sample_p_value(*heads) > ALPHA
    assert two_sample_p_value(-heads[0], heads[1]) < ALPHA


# -------------------------------------------------------------------- truncated distributions
@pytest.mark.slow
def test_a_truncated_distribution_that_only_the_ball_makes_finite_is_drawn():
    """SPEC 3.8: affine-invariant k = 5, r = .5, s = .8 was refused with "about inf tries"."""
    manifold = R.SPDAffineInvariant(5)
    ball = R.Ball(np.eye(5), 0.5)
    mechanism = R.RiemannianLaplace(manifold, sensitivity=0.4, epsilon=1.0, ball=ball)
    assert mechanism.truncated
    assert mechanism.tries < 10
    release = mechanism.release(np.eye(5))
    assert bool(ball.contains(manifold, release.value))
    # the distribution of d(I, x): flat Laplace draws in the ball weighted by the Jacobian
    x = np.asarray(R.riemannian_laplace(1, manifold, np.eye(5), 0.8, (4000,), ball=ball))
    d = np.linalg.norm(np.log(np.linalg.eigvalsh(x)), axis=1)
    rng = np.random.default_rng(0)
    r = 0.5 * rng.random(200_000) ** (1 / 15)
    z = rng.standard_normal((r.size, 5, 5))
    u = np.linalg.eigvalsh((z + np.swapaxes(z, 1, 2)) / 2)
    u /= np.linalg.norm(u, axis=1)[:, None]
    i, j = np.triu_indices(5, 1)
    half = np.abs(u[:, i] - u[:, j]) * r[:, None] / 2
    w = np.exp(np.sum(np.log(np.sinh(half) / half), axis=1) - r / 0.8)
    mean = np.sum(w * r) / np.sum(w)
    se = math.hypot(d.std() / math.sqrt(d.size), r.std() / math.sqrt(r.size))
    assert 2 * stats.norm.sf(abs(d.mean() - mean) / se) > ALPHA
    assert 2 * stats.norm.sf(abs(1.01 * d.mean() - mean) / se) < ALPHA  # planted


@pytest.mark.parametrize("from_center", [True, False])
@pytest.mark.parametrize("s", [0.2, pytest.param(2.0, marks=pytest.mark.slow)])
def test_both_ways_to_truncate_give_the_distribution(from_center, s):
    """H^2, footpoint near the edge, against a grid."""
    from tests.sampling import oracles
    from tests.statistical import ks_p_value

    manifold = R.Lorentz(3)
    ball = R.Ball(manifold.origin, 1.0)
    eta = manifold.exp(manifold.origin, np.array([0.0, 0.9, 0.0]))
    x = Means.Truncation(ball, s, from_center, 1.0).draw(manifold, eta, 2_000, R.noise_source(4))
    points, log_volume = oracles.hyperbolic_grid(1.0)
    d = np.asarray(manifold.dist(eta, points))
    cdf = oracles.cdf_from_weights(d, log_volume - d / s)
    mine = np.asarray(manifold.dist(eta, x))
    assert ks_p_value(mine, cdf) > ALPHA
    wrong = oracles.cdf_from_weights(d, log_volume)  # planted: accepted whatever eta is
    assert ks_p_value(mine, wrong) < ALPHA


@pytest.mark.parametrize("from_center", [True, False])
@pytest.mark.parametrize(
    ("manifold", "wide"),
    [
        (R.Euclidean(1), 2.0),
        (R.Euclidean(2), 2.0),
        (R.Euclidean(6), 2.0),
        (R.Lorentz(4), 4.0),
        (R.SPDAffineInvariant(3), 3.3),
        (R.SPDAffineInvariant(5), 0.2),
    ],
    ids=str,
)
def test_no_more_proposals_are_kept_than_the_bound_says(manifold, wide, from_center):
    center, radius, count = manifold.origin, 1.0, 1 << 14
    v = manifold.tangent_from_normals(center, np.arange(1.0, manifold.noise_size + 1))
    edge = manifold.exp(center, v * (0.999999 * radius / float(manifold.norm(center, v))))
    way = Means.Truncation(R.Ball(center, radius), radius / wide, from_center, 1.0)
    kept = np.asarray(way._propose(manifold, edge, count, R.noise_source(3))[1])
    error = 6 * math.sqrt((np.mean(kept) + 1 / count) / count)
    bound = dict(zip((True, False), Means.most_kept(manifold.dim, wide), strict=True))
    assert np.mean(kept) <= bound[from_center] + error
    if manifold.dim == 6:  # planted: the bound for a wider ball, or for more dimensions
        wrong = Means.most_kept(*((6, 2 * wide) if from_center else (9, wide)))
        assert np.mean(kept) > wrong[not from_center] + error


def test_k_norm_draws_from_the_ball_where_its_proposals_would_leave_float64():

    manifold, ball = R.SPDAffineInvariant(2), R.Ball(np.eye(2), 2.0)
    make = {"objective_gradient": lambda x: x, "epsilon": 1.0}
    assert Means.far_probability(manifold, 0.1) < 1e-12 < Means.far_probability(manifold, 0.9)
    # the noise of a hundred million records
    assert Means.far_probability(manifold, 1e-9) == np.nextafter(0.0, 1.0)
    assert not R.KNormGradient(manifold, sensitivity=0.05, ball=ball, **make).truncated
    assert R.KNormGradient(manifold, sensitivity=0.45, ball=ball, **make).truncated
    with pytest.raises(R.InvalidArgument, match="float64"):
        R.KNormGradient(manifold, sensitivity=0.45, **make)


FAR = [(2, s) for s in (0.05, 0.4, 0.9, 1.3)]
FAR += [(3, s) for s in (0.05, 0.35, 0.6)]


@pytest.mark.parametrize(("k", "s"), FAR)
def test_the_probability_of_leaving_float64_is_never_below_the_true_one(monkeypatch, k, s):
    """SPD(k), against integrals in 40 digits that have another form of the density."""
    from tests.sampling import oracles

    true = float(oracles.affine_beyond(k, s, 16))
    if (k, s) == (2, 0.9):  # the oracle itself, against a grid
        assert true == pytest.approx(1 - float(oracles.affine_2(s)[0](16.0)), rel=3e-3)
    bound = Means.far_probability(R.SPDAffineInvariant(k), s)
    assert true <= bound <= min(1.0, 20 * true)
    if true < 1e-3:  # planted: Euclidean volume beyond the ball
        monkeypatch.setattr(Means.AffineProposal, "envelope", lambda self, r: 0.0 * r)
        assert Means.far_probability(R.SPDAffineInvariant(k), s) < true


@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_the_mean_volume_of_a_sphere_is_between_its_bounds(k):
    """The mean over directions of the factor of volume: moments and bounds against draws."""
    u = np.asarray(Means.direction_spectra(k, 5_000, R.noise_source(5)))
    gaps = u[:, :, None] - u[:, None, :]
    n, c = Means.mean_at_least(k)
    proposal = Means.affine_proposal(k, 0.01, math.inf)
    m, q = (0.5 * np.sum(gaps**p, axis=(1, 2)) for p in (2, 4))
    for exact, drawn in ((4 * c * c * n, m), (16 * c**4 * n, q)):
        error = np.std(drawn) / math.sqrt(len(u))
        assert abs(exact - np.mean(drawn)) < 6 * error
        assert abs(1.2 * exact - np.mean(drawn)) > 6 * error  # planted
    assert n <= proposal.pairs * (1 + 1e-12)
    for r in (0.1, 1.0, 4.0):
        volume = np.exp(proposal.log_ratio(np.full(len(u), r), u) + Means.SLACK)
        mean, error = np.mean(volume), 6 * np.std(volume) / math.sqrt(len(u))
        envelope = float(proposal.envelope(np.array([r]))[0])
        least = math.exp(n * float(Means.log_sinhc(np.array([c * r]))[0]) - envelope)
        assert least <= mean + error
        assert mean <= 1.0 + 1e-12
        if k > 2 and r == 4.0:
            assert mean - error > least**2  # not idle


@pytest.mark.parametrize("dim", [1, 2, 5, 40])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999, 1 - 1e-12])
def test_the_tail_of_a_hyperbolic_distribution_is_never_below_the_true_one(dim, share):
    import mpmath as mp

    s = share / (dim - 1) if dim > 1 else share
    with mp.workdps(60):
        a = (1 / mp.mpf(s) - (dim - 1)) / 2
        for end in (0.5, 15.0, 100.0):
            x = mp.exp(-2 * mp.mpf(end))
            true = mp.betainc(a, dim, 0, x, regularized=True)
            bound = Means.hyperbolic_tail(dim, s, end)
            assert true <= bound
            if true < 1e-300:
                assert bound < 2e-300
                continue
            proved = x**a * mp.fprod(1 + a / j for j in range(1, dim))
            assert bound <= min(1, proved * (1 + 1e-9))
            if end > 10 and dim > 1 and share < 0.99:
                assert x**a < true  # planted: of a distribution on a line
    if dim > 1:
        assert Means.hyperbolic_tail(dim, 1 / (dim - 1) * (1 + 1e-12), 100.0) == 1.0
    else:  # SPD(1) is a line as well
        line = math.exp(-16.0 / s)
        assert line <= Means.affine_proposal(1, s, math.inf).tail(16.0) <= 1.1 * line + 2e-323
