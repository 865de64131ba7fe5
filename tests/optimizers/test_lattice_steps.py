"""Steps on a grid: what a record contributes is a vector of whole numbers, no longer than the clip
norm in exact arithmetic, whatever float64 made of the record; and every released point is computed
from integers. Proof: docs/proofs/optimisers.md.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget, noise_source, private_minimize, problems
from riemdp.optimizers import plan_optimizer
from tests.optimizers.sums import total_of_all
from tests.seam import Gradients, replicate
from tests.statistical import ALPHA, gaussian_p_value

FULL = Gradients.Batches(4, 4, "full")
LINE = riemdp.Euclidean(1)


def query(multiplier=1.0, clip=1.0, batches=FULL, kind=Gradients.NoisyGradient):
    return Gradients.NoisyGradient(clip, multiplier, batches).on_lattice().as_kind(kind)


# ------------------------------------------------------------------------------ planted faults
@Gradients.traced("batches")
class Nearest(Gradients.NoisyGradient):
    """Coordinates are rounded to the nearest whole numbers, so that they may grow."""

    def integer_sum(self, coordinates, present, *, unit=1.0):
        grid = self.sigma * self.batches.divisor / self.scale
        lengths = jnp.sqrt(jnp.sum(coordinates**2, axis=1))
        weights = (self.weights(lengths, self.clip * (1.0 - 1e-12)) * present)[:, None]
        whole = jnp.where(weights != 0.0, jnp.rint(weights / grid * coordinates), 0.0)
        return Gradients.exact_sum(whole)


@Gradients.traced("batches")
class GridOfTheData(Gradients.NoisyGradient):
    """The grid follows from the longest gradient."""

    def integer_sum(self, coordinates, present, *, unit=1.0):
        longest = jnp.nanmax(jnp.where(jnp.isfinite(coordinates), jnp.abs(coordinates), 0.0))
        unit = jnp.minimum(1.0, longest / self.clip)
        return Gradients.NoisyGradient.integer_sum(self, coordinates, present, unit=unit)


@Gradients.traced("batches")
class NoClip(Gradients.NoisyGradient):
    def weights(self, norms, clip):
        return jnp.ones_like(norms)


@Gradients.traced("batches")
class LessNoise(Gradients.NoisyGradient):
    """A hundredth of the noise is missing."""

    def answer(self, kernel, state, total, normals, **more):
        return super().answer(kernel, state, total, 0.99 * normals, **more)


# ------------------------------------------------------------------------------ one record
def hostile(dim):
    """Coordinates of gradients, by any arithmetic: long, tiny, at the clip norm, no numbers."""
    rng = np.random.default_rng(dim)
    unit = rng.normal(size=(40, dim))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    yield from unit * (1.0 + rng.integers(-4, 5, size=(40, 1)) * 2.0**-52)
    yield from unit * 10.0 ** rng.uniform(-20, 9, size=(40, 1))
    for size in (1e8, 1e-300, 5e-324, 1e154, 1e300, np.inf, -np.inf, np.nan, 0.0):
        yield np.full(dim, size)
        yield np.where(np.arange(dim) == 0, size, 0.5)
    yield np.full(dim, 1.0 / np.sqrt(dim))
    yield -np.eye(1, dim)[0]


def longest(gradient, dim):
    """|k|^2 (z clips / s)^2 in exact arithmetic: the square of the shift of one record in standard
    deviations, times that which the guarantee states. It must not exceed 1.
    """
    one = jax.jit(jax.vmap(lambda y: gradient.integer_sum(y[None], jnp.ones(1))))
    whole = np.asarray(one(np.array(list(hostile(dim)))))
    squares = max(sum(int(k) ** 2 for k in row) for row in whole)
    share = Fraction(gradient.noise_multiplier) * Fraction(gradient.batches.clips)
    return squares * (share / Fraction(float(gradient.scale))) ** 2


@pytest.mark.parametrize("dim", [1, 2, 45])
@pytest.mark.parametrize("multiplier", [2.0**-10, 0.3, 1.0, 7.7])
def test_no_record_is_longer_than_its_clip_norm_in_exact_arithmetic(dim, multiplier):
    batches = Gradients.Batches(9, 3, "without-replacement")
    for clip in (1.0, 0.7):
        worst = longest(query(multiplier, clip, batches), dim)
        assert float(worst) > 0.999
        assert worst <= 1
        if dim > 1:  # rounded to nearest, some vector is too long
            assert longest(query(multiplier, clip, batches, Nearest), dim) > 1
    assert longest(query(multiplier, 0.7, batches, NoClip), dim) > 1


def test_the_scale_is_a_power_of_two_that_holds_a_clip_norm():
    for z in (2.0**-10, 0.001, 0.5, 1.0, 1.9, 300.0, 1e9):
        for clips in (1.0, 2.0):
            scale = Gradients.scale_of(z, clips)
            assert np.frexp(scale)[0] == 0.5
            assert scale / (z * clips) <= 2.0**32
            assert scale <= 2.0**41
            assert scale > 2.0**20
    assert Gradients.scale_of(0.0, 2.0) is None
    assert Gradients.scale_of(2.0**-11, 2.0) is None


def test_a_noise_multiplier_from_sigma_is_paid_for():
    """A given sigma: s grid / b is sigma, and a record is within the multiplier that is stated."""
    batches = Gradients.Batches(7, 7, "full")
    made = Gradients.NoisyGradient.of_sigma(0.3, batches, 0.123).on_lattice()
    assert longest_of(made, np.eye(1, 5)) <= 1
    assert made.scale is not None


def test_the_noise_is_never_less_than_is_paid_for():
    """In exact arithmetic sigma is at least z times the sensitivity, whatever products round."""
    rng = np.random.default_rng(3)
    clips, multipliers = 10 ** rng.uniform(-9, 9, 200), rng.uniform(0.1, 9, 200)
    for clip, z, b in zip(clips, multipliers, range(3, 203), strict=True):
        batches = Gradients.Batches(7 * b, b, "without-replacement")
        given = Gradients.NoisyGradient(clip, z, batches)
        for made in (given, Gradients.NoisyGradient.of_sigma(clip, batches, given.sigma)):
            least = Fraction(made.noise_multiplier) * 2 * Fraction(clip) / b
            assert Fraction(made.sigma) >= least
            assert made.sigma == pytest.approx(float(least), rel=1e-11)


def longest_of(gradient, rows):
    whole = np.asarray(gradient.integer_sum(jnp.asarray(rows), jnp.ones(1)))
    share = Fraction(gradient.noise_multiplier) * Fraction(gradient.batches.clips)
    return sum(int(k) ** 2 for k in whole) * (share / Fraction(gradient.scale)) ** 2


# ------------------------------------------------------------------------------ sums of records
def test_sums_are_exact_in_every_order():
    gradient = query()
    y = np.random.default_rng(1).normal(size=(500, 7)) * 10.0 ** np.arange(-3, 4)
    y[3], y[4, 2] = np.nan, np.inf
    add = jax.jit(lambda y: gradient.integer_sum(y, jnp.ones(len(y))))
    total = np.asarray(add(y))
    assert np.array_equal(total, add(y[::-1]))
    assert np.array_equal(total, add(np.random.default_rng(2).permutation(y)))
    one = jax.jit(jax.vmap(lambda y: gradient.integer_sum(y[None], jnp.ones(1))))
    rows = [[int(k) for k in row] for row in np.asarray(one(y))]
    assert [int(k) for k in total] == [sum(column) for column in zip(*rows, strict=True)]
    assert rows[3] == rows[4] == [0] * 7


@pytest.mark.parametrize("kind", [Gradients.NoisyGradient, GridOfTheData])
def test_one_record_does_not_decide_what_the_others_come_to(kind):
    gradient = query(kind=kind)
    short = np.full((50, 1), 0.01)
    long = short.copy()
    long[7] = -1.0
    totals = [gradient.integer_sum(jnp.asarray(y), jnp.ones(50))[0] for y in (short, long)]
    moved = Fraction(int(totals[0] - totals[1])) / Fraction(gradient.scale)
    assert (moved <= 1) == (kind is Gradients.NoisyGradient)


def test_more_records_than_float64_adds_exactly():
    n = (1 << 21) + 4097
    whole = np.full((n, 2), 2.0**32 - 1.0)
    whole[0] = [1.0, -1.0]
    expected = [(n - 1) * (2**32 - 1) + k for k in (1, -1)]
    assert expected[0] > 2**53
    assert [int(k) for k in jax.jit(Gradients.exact_sum)(whole)] == expected


CASES = {
    "affine": (riemdp.SPDAffineInvariant(3), np.diag([1e6, 1.0, 1e-6])),
    "sphere": (riemdp.Sphere(4), np.array([1.0, 0.0, 0.0, 0.0])),
    "lorentz": (riemdp.Lorentz(3), np.array([np.cosh(9.0), np.sinh(9.0), 0.0])),
}


def records_of(space, point):
    """Ordinary ones, and: nearly at the point, nearly at the cut locus, far away, no points."""
    out = [space.random_point(i) for i in range(9)]
    out += [point, point * (1 + 1e-15), -point, -point + 1e-9, 1e8 * point, 1e-300 * point]
    return [*out, np.full_like(point, np.nan), np.full_like(point, np.inf), np.zeros_like(point)]


@pytest.mark.parametrize("name", list(CASES))
def test_neighbours_differ_by_two_clip_norms_in_whole_numbers(name):
    """Any record in the place of another: the integers of all others stay, bit for bit, and the sum
    moves by 2 C / grid at most.
    """
    space, point = CASES[name]
    kernel, gradient = Gradients.choose_kernel(problems.frechet_mean(space), False), query(0.8)
    rows = np.stack(records_of(space, point))
    n = len(rows)

    @jax.jit
    def whole(records):
        state = kernel.start(jnp.asarray(point))
        center = kernel.public_gradient(state, records[:1])
        y = kernel.coordinates(state, records) - center
        each = jax.vmap(lambda y: gradient.integer_sum(y[None], jnp.ones(1)))(y)
        return each, total_of_all(gradient, kernel, state, records, 5, center)

    each, total = (np.asarray(x) for x in whole(rows))
    assert np.array_equal(each.sum(axis=0), total)
    assert np.count_nonzero(np.abs(each).sum(axis=1)) >= 8
    limit = (Fraction(float(gradient.scale)) / Fraction(0.8)) ** 2  # (2 C / grid)^2
    for other in range(1, n):
        changed = rows.copy()
        changed[5] = rows[other]
        others, moved = (np.asarray(x) for x in whole(changed))
        keep = np.arange(n) != 5
        assert np.array_equal(others[keep], each[keep])
        assert sum(int(k) ** 2 for k in moved - total) <= limit


def test_one_person_is_no_longer_than_one_record():
    """Records weigh their share and are cut one by one; a person's vector is no longer for it."""
    gradient, kernel = (
        query(0.8, batches=Gradients.Batches(2, 2, "full")),
        Gradients.choose_kernel(problems.frechet_mean(riemdp.Euclidean(2)), False),
    )
    X = np.array([[0.0, 0.0], *[[-1e6, 3.0]] * 7, [np.nan, 1.0]])

    def total(labels, records):
        people = Gradients.People(jnp.asarray(records), len(records), labels, 16).drawn(
            noise_source(1)
        )
        return np.asarray(total_of_all(gradient, kernel, jnp.zeros(2), people, 2, None))

    many = total([0, *[1] * 8], X)
    few = total([0, 1], [[0.0, 0.0], [1e6, 3.0]])
    apart = (
        Fraction(sum(int(k) ** 2 for k in many - few))
        * (Fraction(0.8) / Fraction(float(gradient.scale))) ** 2
    )
    assert 0.85 < float(apart) <= 1.0  # seven of the eight records pull, one is no number


# ------------------------------------------------------------------------------ what is released
def test_a_released_point_is_computed_from_integers():
    """On flat space w_1 = -rate (sum + noise) sigma / s, bit for bit, with the sum in Python's own
    integers and the noise of the same seed.
    """
    space = riemdp.Euclidean(3)
    X = np.random.default_rng(4).normal(size=(50, 3)) * 5.0
    made = DPRGD(1, 1.0, 1.3)
    plan = plan_optimizer(problems.frechet_mean(space), 50, made, Budget(1.0, 1e-5))
    gradient = plan.gradient
    found = private_minimize(
        problems.frechet_mean(space), X, np.zeros(3), made, Budget(1.0, 1e-5), rng=9
    )
    noise = noise_source(9).rounded_normals(gradient.scale, (1, 3))[0]
    grid = gradient.sigma * 50 / gradient.scale
    total = [0, 0, 0]
    for x in -2.0 * X:
        length = np.sqrt(np.sum(x**2))
        clip = 1.3 * (1.0 - (1e-12 + 3 * 2.0**-52))
        weight = clip / length if length > clip else 1.0
        total = [
            t + int(weight / grid * coordinate) for t, coordinate in zip(total, x, strict=True)
        ]
    steps = np.asarray(found.value) / -(gradient.sigma / gradient.scale)
    np.testing.assert_allclose(steps, np.rint(steps), atol=2e-6)
    assert [int(k) for k in np.rint(steps)] == [
        t + int(z) for t, z in zip(total, noise, strict=True)
    ]


def moves(kind, seed=5):
    """Steps of runs whose gradients are all 0."""
    space = riemdp.Euclidean(200)
    values, _ = replicate(
        problems.frechet_mean(space),
        np.zeros((7, 200)),
        np.zeros(200),
        DPRGD(1, 0.5, 1.0),
        noise_std=0.3,
        repetitions=2000,
        rng=seed,
        kind=kind,
    )
    return np.asarray(values)


@pytest.mark.parametrize("lattice", [True, False])
def test_the_noise_of_a_step_is_gaussian_and_a_hundredth_less_is_seen(lattice, monkeypatch):
    monkeypatch.setattr(Gradients.Generic, "has_quick_coordinates", lattice)
    assert gaussian_p_value(moves(Gradients.NoisyGradient), 0.15) > ALPHA
    assert gaussian_p_value(moves(LessNoise), 0.15) < ALPHA


def test_one_record_moves_a_step_in_float64_by_its_sensitivity(monkeypatch):
    """The same query where coordinates cost too much: two records far out on either side."""
    monkeypatch.setattr(Gradients.Generic, "has_quick_coordinates", False)
    x = np.zeros((4, 1))
    x[-1] = 1e6
    made, problem = DPRGD(1, 0.1, 1.0), problems.frechet_mean(LINE)
    ends = [private_minimize(problem, y, [0.0], made, noise_std=0.5, rng=1) for y in (x, -x)]
    assert {end.details["numerics"] for end in ends} == {"idealised"}
    apart = float(ends[0].value[0] - ends[1].value[0])
    assert apart == pytest.approx(0.1 * 2 / 4)


def near_zero(records, gradient_is_quick, seed, monkeypatch):
    """One step on the line, from 0: the results within 1/16 of 0."""
    monkeypatch.setattr(Gradients.Generic, "has_quick_coordinates", gradient_is_quick)
    problem = problems.frechet_mean(LINE)
    values, _ = replicate(
        problem,
        np.array(records)[:, None],
        np.zeros(1),
        DPRGD(1, 0.5, 1.0),
        noise_std=1.9,
        repetitions=40_000,
        rng=seed,
    )
    values = np.asarray(values)[:, 0]
    return values[np.abs(values) < 1 / 16]


def share(values, grid):
    return np.mean(np.rint(values / grid) * grid == values)


def test_two_data_sets_cannot_be_told_apart_by_which_numbers_are_possible(monkeypatch):
    """In float64 a result that is no multiple of 2^-55 proves that the data are the first. On the
    lattice every result is a multiple of one public number, for both.
    """
    ours, theirs = [-0.5, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]
    floats = [near_zero(x, False, i, monkeypatch) for i, x in enumerate((ours, theirs))]
    assert share(floats[0], 2.0**-55) < 0.5
    assert share(floats[1], 2.0**-55) == 1.0
    plan = plan_optimizer(problems.frechet_mean(LINE), 4, DPRGD(1, 0.5, 1.0), None, noise_std=1.9)
    assert plan.gradient.scale is None  # as patched
    monkeypatch.setattr(Gradients.Generic, "has_quick_coordinates", True)
    scale = Gradients.scale_of(plan.noise_multiplier, 2.0)
    for i, x in enumerate((ours, theirs)):
        steps = near_zero(x, True, i, monkeypatch) / (0.5 * (1.9 / scale))
        assert np.all(np.abs(steps - np.rint(steps)) < 1e-4)
        assert 0.4 < np.mean(np.rint(steps) % 2) < 0.6


# ------------------------------------------------------------------------------ what is said
def arithmetic(problem, optimizer, n=20, **more):
    given = {"budget": Budget(1.0, 1e-5)} | more
    return plan_optimizer(problem, n, optimizer, given.pop("budget"), **given).details["numerics"]


def test_what_is_called_lattice_and_what_is_not():
    mean = problems.frechet_mean(riemdp.Sphere(3), ball=riemdp.Ball([1.0, 0.0, 0.0], 0.5))
    for optimizer in (
        DPRGD(3),
        DPRGD(3, sensitivity="domain"),
        DPRSGD(3, 10),
        DPRSVRG(1, 3, batch_size=5),
    ):
        assert arithmetic(mean, optimizer) == "lattice", optimizer
    assert arithmetic(mean, DPRGD(3, clip_norm="adaptive"), 2000) == "lattice"
    for optimizer in (
        DPRSGD(3, 5, sampling="poisson"),
        DPRSGD(4, 5, sampling="allocation"),
        DPRSGD(3, 11),  # more than half of the records: the batches are sorted
        DPRSVRG(1, 3, batch_size=11),
        DPRSVRG(1, 3, batch_size=5, variant="as-published"),
    ):
        assert arithmetic(mean, optimizer) == "idealised", optimizer
    eigenvector = problems.principal_eigenvector(3)
    assert arithmetic(eigenvector, DPRGD(3)) == "idealised"
    assert arithmetic(dataclasses.replace(eigenvector, gradient=None), DPRGD(3)) == "lattice"
    assert arithmetic(mean, DPRGD(3), budget=None) == "idealised"
    assert arithmetic(mean, DPRGD(3), budget=None, noise_std=0.0) == "idealised"
    assert arithmetic(mean, DPRGD(3), budget=None, noise_std=1e-6) == "idealised"


@pytest.mark.parametrize("k", [1, 12, 13])
def test_gradients_of_spd_matrices_are_those_of_the_formula(k):
    """Both sides of the size up to which products are written out, and at two states at once. A
    record that is not finite stays alone.
    """
    spd, n, lost = riemdp.SPDAffineInvariant(k), 40, 17
    kernel = Gradients.AffineInvariantMean(spd)
    x = spd.random_point(k, (n,))
    x[lost] = np.nan
    state = kernel.start(spd.random_point(50 + k))
    kept = np.flatnonzero(np.arange(n - 1) != lost)
    coordinates = jax.jit(kernel.coordinates)
    many, few = (np.asarray(coordinates(state, some)) for some in (x, x[:-1]))
    assert np.isnan(many[lost]).all()
    atol = 1e-12 * np.abs(few[kept]).max()
    np.testing.assert_allclose(many[kept], few[kept], rtol=0.0, atol=atol)
    values, vectors = np.linalg.eigh(state @ x[kept] @ state.T)
    logs = (vectors * (-2.0 * np.log(values))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    plain = np.asarray(spd.to_coordinates(np.eye(k), logs))
    # 2 R is the state at W / 4.
    both = jax.jit(jax.vmap(kernel.coordinates, (0, None)))(jnp.stack([state, 2.0 * state]), x)
    np.testing.assert_allclose(both[0][kept], plain, rtol=0.0, atol=1e-11)
    moved = spd.to_coordinates(np.eye(k), -4.0 * np.log(2.0) * np.eye(k))
    np.testing.assert_allclose(both[1][kept], plain + moved, rtol=0.0, atol=1e-11)
