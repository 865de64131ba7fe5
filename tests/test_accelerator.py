"""What has to hold on an accelerator, each test on three devices.

"cpu" is the CPU as it is; "checked" the CPU with the programs of a machine that has an accelerator,
where every decomposition is multiplied out; "accelerator" (marker `gpu`) the first other device of
JAX, skipped where there is none. Bodies and limits are the same.
"""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
import tempfile
from collections.abc import Iterator
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import riemdp
from riemdp import _decompositions as decompositions
from riemdp.manifolds import _spectral as sp
from riemdp.optimizers import DPRGD
from tests.domains.rounding import Place
from tests.domains.test_rounding import FEW
from tests.programs import compiled_apart
from tests.seam import Doors

EPS = np.finfo(np.float64).eps
KINDS = ("cpu", "checked", "accelerator")
ALONE, CHECKED = 11, 12  # numbers of programs that tests share


def _accelerator() -> Any:
    platforms = jax.extend.backend.backends()
    return next((jax.devices(p)[0] for p in platforms if p != "cpu"), None)


@contextlib.contextmanager
def _alone(alone: bool, number: int | None = None) -> Iterator[None]:
    """The programs of a machine with the CPU alone, or those of one with an accelerator. None was
    compiled before, unless under this number.
    """
    platforms = dict.fromkeys(["cpu"] if alone else ["cpu", "cuda"])
    with pytest.MonkeyPatch.context() as patch, compiled_apart(number):
        patch.setattr(jax.extend.backend, "backends", lambda: platforms)
        yield


@contextlib.contextmanager
def on(kind: str, *, anew: bool = False) -> Iterator[None]:
    """The default device of JAX, and its programs; those that are checked may be compiled anew,
    which has to be where a fault is planted.
    """
    device = _accelerator() if kind == "accelerator" else jax.devices("cpu")[0]
    if device is None:
        pytest.skip("JAX sees no device besides the CPU here")
    checked = _alone(False, None if anew else CHECKED)
    programs = checked if kind == "checked" else contextlib.nullcontext()
    with programs, jax.default_device(device):
        yield


def case(kind: str, *others: Any) -> Any:
    """A parameter set, marked `gpu` where it needs an accelerator."""
    return pytest.param(kind, *others, marks=pytest.mark.gpu if kind == "accelerator" else ())


devices = pytest.mark.parametrize("kind", [case(kind) for kind in KINDS])
# where the CPU is what is compared with, and would be compared with itself
others = pytest.mark.parametrize("kind", [case(kind) for kind in KINDS if kind != "cpu"])


def of_the_cpu(make: Any) -> Any:
    """The same on the CPU, with its own programs."""
    with jax.default_device(jax.devices("cpu")[0]):
        return make()


def of_the_cpu_alone(make: Any) -> Any:
    """The same with the programs of a machine without an accelerator."""
    programs = contextlib.nullcontext() if _accelerator() is None else _alone(True, ALONE)
    with jax.default_device(jax.devices("cpu")[0]), programs:
        return make()


# ------------------------------------------------------------------------------ decompositions
def matrices(k: int, n: int = 64) -> np.ndarray:
    """SPD(k): of condition 1e10, with few different eigenvalues, the identity, and others."""
    rng = np.random.default_rng(k)
    q = np.linalg.qr(rng.normal(size=(4 * n, k, k)))[0]
    values = np.concatenate(
        [
            np.tile(np.geomspace(1.0, 1e10, k), (n, 1)),
            rng.choice([1.0, 3.0], size=(n, k)),
            np.ones((n, k)),
            rng.uniform(0.1, 2.0, size=(n, k)),
        ]
    )
    x = (q * values[:, None, :]) @ q.swapaxes(1, 2)
    return (x + x.swapaxes(1, 2)) / 2


def misses(x: np.ndarray, values: Any, q: Any) -> tuple[float, float]:
    """The largest residuals |A Q - Q L| and |Q^T Q - I|, as shares of their limits."""
    values, q = np.asarray(values), np.asarray(q)
    k = x.shape[-1]
    left = np.linalg.norm(x @ q - q * values[:, None, :], axis=(1, 2)) / np.abs(values).max(-1)
    skew = np.linalg.norm(q.swapaxes(1, 2) @ q - np.eye(k), axis=(1, 2))
    # the two terms of AbstractSPD._resolution: 4 for the spread, 8 for what has none
    return float(left.max() / (4.0 * EPS * k)), float(skew.max() / (8.0 * EPS * k))


@devices
@pytest.mark.parametrize("k", [3, 11, 40])
def test_a_decomposition_multiplies_out(kind, k):
    x = matrices(k)
    with on(kind):
        eig = jax.jit(sp.spectrum)(x)
        low = jax.jit(decompositions.eigvalsh)(x)
    # half as much again for the order of the sums, which is NumPy's here
    assert max(misses(x, eig.values, eig.q)) <= 1.5
    np.testing.assert_allclose(low, np.linalg.eigvalsh(x), rtol=0, atol=1e10 * 8.0 * EPS * k)


@devices
def test_singular_values_multiply_out(kind):
    x = np.random.default_rng(0).normal(size=(50, 7, 4))
    with on(kind):
        thin = jax.jit(lambda a: decompositions.svd(a, full_matrices=False))(x)
        whole = jax.jit(decompositions.svd)(x.swapaxes(1, 2))
        values = jax.jit(decompositions.singular_values)(x)
    np.testing.assert_allclose((thin[0] * thin[1][:, None, :]) @ thin[2], x, atol=1e-14)
    back = (whole[0] * whole[1][:, None, :]) @ whole[2][:, :4]
    np.testing.assert_allclose(back, x.swapaxes(1, 2), atol=1e-14)
    for found in (thin[1], whole[1], values):
        np.testing.assert_allclose(found, np.linalg.svd(x, compute_uv=False), atol=1e-14)


FAULTS = {
    # what a solver returns that stops early: orthogonal vectors that are not quite eigenvectors
    "unconverged": lambda values, q: (values, q + 1e-6 * jnp.roll(q, 1, axis=-1)),
    "skewed": lambda values, q: (values, q.at[..., 0].multiply(1.0 + 1e-6)),
    "an eigenvalue": lambda values, q: (values.at[..., -1].multiply(1.0 - 1e-6), q),
    "a small eigenvalue": lambda values, q: (values.at[..., 0].multiply(3.0), q),
    "not a number": lambda values, q: (jnp.full_like(values, jnp.nan), q),
}


@contextlib.contextmanager
def broken(faults: dict[int, str]) -> Iterator[None]:
    """A solver of the device that errs in some records of a batch, each by its fault, and says
    nothing.
    """
    real = jnp.linalg.eigh

    def eigh(a: Any, **options: Any) -> Any:
        found = real(a, **options)
        if a.ndim < 3 or len(a) <= max(faults):
            return found
        values, q = found.eigenvalues, found.eigenvectors
        for record, fault in faults.items():
            made = FAULTS[fault](found.eigenvalues, found.eigenvectors)
            here = jnp.arange(len(a)) == record
            values = jnp.where(here[:, None], made[0], values)
            q = jnp.where(here[:, None, None], made[1], q)
        return type(found)(values, q)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jnp.linalg, "eigh", eigh)
        patch.setattr(jnp.linalg, "eigvalsh", lambda a, **options: eigh(a, **options).eigenvalues)
        yield


def test_a_solver_that_stops_early_is_seen_and_its_matrices_decomposed_again():
    x = matrices(11, 8)[8:]  # condition at most 20: a small eigenvalue is seen too
    known = np.linalg.eigvalsh(x)
    faults = dict(enumerate(FAULTS, start=16))
    with broken(faults):
        # without the check the limits of test_a_decomposition_multiplies_out do not hold
        with _alone(True):
            eig = sp.spectrum(jnp.asarray(x))
            for record, fault in faults.items():
                one = slice(record, record + 1)
                assert not max(misses(x[one], eig.values[one], eig.q[one])) <= 1.5, fault
                assert not np.allclose(eig.values[one], known[one], rtol=1e-9) or (
                    fault in ("unconverged", "skewed")
                )
        with _alone(False):
            eig, values = jax.jit(sp.spectrum)(x), jax.jit(decompositions.eigvalsh)(x)
            by_one = jax.jit(jax.vmap(decompositions.eigh))(x[None])[0][0]
    assert max(misses(x, eig.values, eig.q)) <= 1.5
    for found in (values, by_one):
        np.testing.assert_allclose(found, known, rtol=1e-13)
    assert not np.asarray(decompositions.wrong(x, eig.q, eig.values)).any()
    for fault, make in FAULTS.items():
        flags = np.asarray(decompositions.wrong(x, *make(eig.values, eig.q)[::-1]))
        assert flags.all(), fault


@others
def test_a_clamp_works_inside_other_programs(kind):
    """Found on an H200: a mapped clamp was an error of JAX."""
    center, x = far_and_near(8)
    space, ball = riemdp.SPDAffineInvariant(4), riemdp.Ball(center, 1.0)
    expected = of_the_cpu_alone(lambda: np.asarray(ball.clamp(space, x)))

    def one(y: Any) -> Any:
        return ball.clamp(space, y)

    with on(kind):
        for program in (jax.jit(jax.vmap(one)), lambda x: jax.lax.map(one, x)):
            found = program(jnp.asarray(x))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_singular_values_that_stop_early_are_found_again():
    x = np.random.default_rng(0).normal(size=(20, 5, 4))
    real = jnp.linalg.svd
    for part in range(3):
        with pytest.MonkeyPatch.context() as patch:

            def svd(a: Any, part: int = part, **options: Any) -> Any:
                found = list(real(a, **options))
                found[part] = found[part].at[7, 0].multiply(1.0 + 1e-6)
                return found

            patch.setattr(jnp.linalg, "svd", svd)
            with _alone(False):
                u, s, vt = jax.jit(lambda a: decompositions.svd(a, full_matrices=False))(x)
            wrong = svd(x, full_matrices=False)[part]
            assert not np.allclose(wrong, (u, s, vt)[part], rtol=0, atol=1e-8)
        np.testing.assert_allclose((u * s[:, None, :]) @ vt, x, atol=1e-14)
        np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=1e-14)


def test_what_has_no_decomposition_is_not_a_number_and_no_error():
    """An exception would be an event of one record."""
    x = np.stack([np.eye(3), np.full((3, 3), np.nan), np.diag([np.inf, 1.0, 1.0]), np.eye(3)])

    def refuse(a: np.ndarray) -> Any:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    with pytest.MonkeyPatch.context() as patch, broken({3: "unconverged"}):
        patch.setattr(np.linalg, "eigh", refuse)
        with _alone(False):
            values, q = jax.jit(decompositions.eigh)(x)
    np.testing.assert_array_equal(values[0], 1.0)
    assert np.isfinite(np.asarray(q[0])).all()
    assert np.isnan(np.asarray(values[1:])).all()
    assert np.isnan(np.asarray(q[1:])).all()


def of_eigenvectors(a: Any) -> Any:
    values, q = decompositions.eigh((a + a.swapaxes(-1, -2)) / 2)
    turned = (q * jnp.sin(values)[..., None, :]) @ q.swapaxes(-1, -2)
    return jnp.sum(values**3) + jnp.sum(turned * jnp.cos(jnp.arange(a.size).reshape(a.shape)))


def of_singular_vectors(a: Any) -> Any:
    def one(a: Any) -> Any:
        u, s, vt = decompositions.svd(a, full_matrices=False)
        turned = (u * jnp.sin(s)[..., None, :]) @ vt
        return jnp.sum(s**3) + jnp.sum(turned * jnp.cos(jnp.arange(a.size).reshape(a.shape)))

    tall, square = a[..., :3], decompositions.svd(a)
    return one(tall) + one(tall.swapaxes(-1, -2)) + jnp.sum((square[0] @ square[2]) * a**2)


def in_a_loop(function: Any) -> Any:
    return lambda a: jax.lax.scan(lambda sum, x: (sum + function(x), None), 0.0, a[None])[0]


def slope(f: Any, a: Any) -> Any:
    return jnp.sum(jax.grad(f)(a) ** 2)


def along(f: Any, a: Any) -> Any:
    return jax.jvp(jax.grad(f), (a,), (jnp.cos(a),))[1]


def derivatives(function: Any) -> list[np.ndarray]:
    """First and second ones at eight matrices."""
    looped = in_a_loop(function)
    made = [
        jax.grad(function),
        jax.grad(functools.partial(slope, function)),
        functools.partial(along, function),
        functools.partial(along, looped),
        jax.grad(functools.partial(slope, looped)),
    ]
    return [np.asarray(jax.jit(f)(matrices(4, 8)[-8:])) for f in made]


@functools.cache
def derivatives_of_the_cpu(function: Any) -> list[np.ndarray]:
    return of_the_cpu_alone(lambda: derivatives(function))


@others
@pytest.mark.parametrize(
    "function", [of_eigenvectors, pytest.param(of_singular_vectors, marks=pytest.mark.slow)]
)
def test_what_was_decomposed_again_has_its_derivatives(kind, function, monkeypatch):
    """Found on an H200: one matrix in eight had the derivative 0. In a loop, JAX linearises what a
    rule of derivatives is made of, and second derivatives were 0 there.
    """
    monkeypatch.setitem(FAULTS, "nearly", lambda values, q: (values, q + 1e-13 * jnp.roll(q, 1, 1)))
    expected = derivatives_of_the_cpu(function)
    with on(kind, anew=True), broken({5: "nearly"}):
        found = derivatives(function)
    for one, other in zip(found, expected, strict=True):
        assert np.abs(other).max(axis=(1, 2)).min() > 0.0
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-13, 1.0, 1e200, 1e307])
def test_what_passes_for_a_decomposition_does_not_depend_on_the_unit(scale):
    x = scale * matrices(5, 8)[[*range(8, 16), *range(24, 32)]]  # with eigenvalues that differ
    values, q = map(jnp.asarray, np.linalg.eigh(x))
    assert not np.asarray(decompositions.wrong(x, q, values)).any()
    faults = {
        **FAULTS,
        "zero": lambda values, q: (0.0 * values, q),
        "turned": lambda values, q: (values[:, ::-1], q[:, :, ::-1]),
    }
    del faults["a small eigenvalue"]  # below rounding for some of them
    for fault, make in faults.items():
        assert np.asarray(decompositions.wrong(x, *make(values, q)[::-1])).all(), fault


def test_the_machine_decides_alone():
    """Backends of JAX, whichever of them is in use; and nothing is added where LAPACK is alone."""
    x = np.eye(3)[None]
    for platforms, alone in ((("cpu",), True), (("cpu", "cuda"), False), (("tpu", "cpu"), False)):
        with pytest.MonkeyPatch.context() as patch, compiled_apart():
            patch.setattr(jax.extend.backend, "backends", lambda p=platforms: dict.fromkeys(p))
            assert decompositions.lapack_alone() is alone
            program = str(jax.make_jaxpr(decompositions.eigh)(x))
            assert ("pure_callback" in program) is not alone


# ------------------------------------------------------------------------------------ the ball
def distances(center: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Affine-invariant distances from the generalised eigenvalues of SciPy."""
    return np.array(
        [np.linalg.norm(np.log(scipy.linalg.eigvalsh(one, center))) for one in np.asarray(x)]
    )


def far_and_near(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A centre of SPD(4), and records from half the radius to twenty times the radius away."""
    rng = np.random.default_rng(5)
    center = np.diag([1.0, 2.0, 0.5, 4.0])
    v = rng.normal(size=(n, 4, 4))
    v = v + v.swapaxes(1, 2)
    v *= (np.geomspace(0.5, 10.0, n) / np.linalg.norm(v, axis=(1, 2)))[:, None, None]
    values, q = np.linalg.eigh(v)
    root = np.sqrt(center)
    x = root @ ((q * np.exp(values)[:, None, :]) @ q.swapaxes(1, 2)) @ root
    return center, (x + x.swapaxes(1, 2)) / 2


@devices
@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_every_record_ends_in_the_ball(kind, radius):
    center, x = far_and_near()
    ball, space = riemdp.Ball(center, radius), riemdp.SPDAffineInvariant(4)
    before = distances(center, x)
    assert np.sum(before > radius) > 10
    with on(kind):
        moved = np.asarray(ball.clamp(space, jnp.asarray(x)))
    after = distances(center, moved)
    assert after.max() <= radius + Doors.slack(radius)
    inside = before < radius * (1.0 - 1e-9)
    np.testing.assert_array_equal(moved[inside], x[inside])
    np.testing.assert_allclose(after[~inside], radius, rtol=1e-6)


def test_a_record_that_is_decomposed_wrongly_does_not_stay_outside_the_ball(monkeypatch):
    """The planted twin: without the check the same clamp leaves it outside."""
    monkeypatch.setitem(FAULTS, "shrunk", lambda values, q: (0.01 * values, q))
    center, x = far_and_near()
    radius, record = 3.0, 50
    ball, space = riemdp.Ball(center, radius), riemdp.SPDAffineInvariant(4)
    with broken({record: "shrunk"}):
        with _alone(True):
            moved = np.asarray(ball.clamp(space, jnp.asarray(x)))
        assert distances(center, moved)[record] > 2.0 * radius
        with _alone(False):
            moved = np.asarray(ball.clamp(space, jnp.asarray(x)))
    assert distances(center, moved).max() <= radius + Doors.slack(radius)
    assert distances(center, moved)[record] == pytest.approx(radius, rel=1e-6)


@devices
def test_a_record_is_moved_alike_at_every_place_and_among_any_others(kind):
    """Bit for bit: else one record would move the others."""
    center, x = far_and_near()
    ball, space = riemdp.Ball(center, 1.0), riemdp.SPDAffineInvariant(4)
    with on(kind):
        moved = np.asarray(ball.clamp(space, jnp.asarray(x)))
        turned = np.asarray(ball.clamp(space, jnp.asarray(np.roll(x, 17, axis=0))))
        others = x.copy()
        others[::2] = np.nan
        among = np.asarray(ball.clamp(space, jnp.asarray(others)))
    np.testing.assert_array_equal(np.roll(turned, -17, axis=0), moved)
    np.testing.assert_array_equal(among[1::2], moved[1::2])


# Of a space a place in which its clamp moves records a good way. Balls of Bures-Wasserstein
# matrices and of products in FEW are too small or too ill-conditioned for that.
MOVING = {
    place.name: place
    for place in FEW
    if place.values and 0.3 <= place.radius <= 12.0 and "condition 1e" not in place.where
}


def outside(place: Place, n: int = 3000) -> Any:
    """Points from well inside the ball to twice its radius, every tenth replaced by no number."""
    rng = np.random.default_rng(11)
    space, d = place.space, place.space.dim
    u = rng.normal(size=(n, d))
    reach = min(2.0 * place.radius, 0.9 * float(space.injectivity_radius(place.center)))
    u *= (reach * rng.uniform(size=n) / np.linalg.norm(u, axis=1))[:, None]
    points = space.exp(place.center, space.from_coordinates(place.center, jnp.asarray(u)))

    def holes(leaf: Any) -> np.ndarray:
        leaf = np.array(leaf)
        leaf[::10] = np.nan
        return leaf

    return jax.tree.map(holes, points)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        *(case("checked", place) for place in MOVING.values() if place.name == "Grassmann"),
        *(case("accelerator", place) for place in MOVING.values()),
    ],
    ids=str,
)
def test_in_other_spaces_all_records_end_in_the_ball_alike_at_every_place(kind, place):
    space, ball = place.space, riemdp.Ball(place.center, place.radius)
    x = of_the_cpu(lambda: outside(place))
    before = of_the_cpu(lambda: np.asarray(space.dist(place.center, x)))
    turn = functools.partial(jax.tree.map, lambda leaf: np.roll(leaf, 1237, axis=0))
    with on(kind):
        there, other = (jax.tree.map(jnp.asarray, one) for one in (x, turn(x)))
        moved = jax.tree.map(np.asarray, ball.clamp(space, there))
        turned = jax.tree.map(np.asarray, ball.clamp(space, other))
    jax.tree.map(np.testing.assert_array_equal, turn(moved), turned)
    after = of_the_cpu(lambda: np.asarray(space.dist(place.center, moved)))
    assert after.max() <= place.radius + Doors.slack(place.radius)
    away = before > place.radius * (1.0 + 1e-6)
    assert np.sum(away) > 100
    np.testing.assert_allclose(after[away], place.radius, rtol=1e-6)


# ------------------------------------------------------------------------------------ releases
BUDGET = riemdp.Budget(1.0, 1e-6)


def a_mean() -> np.ndarray:
    center, x = far_and_near()
    ball, space = riemdp.Ball(center, 1.0), riemdp.SPDAffineInvariant(4)
    release = riemdp.private_frechet_mean(
        space, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=3
    )
    return np.asarray(release.value)


def three_steps() -> np.ndarray:
    center, x = far_and_near()
    space = riemdp.SPDAffineInvariant(4)
    problem = riemdp.problems.frechet_mean(space)
    found = riemdp.private_minimize(problem, x, center, DPRGD(3, 0.5, 1.0), BUDGET, rng=3)
    return np.asarray(found.value)


@others
# A coordinate that another rounding carries across a limit of the lattice moves a step by 1e-9.
@pytest.mark.parametrize(("make", "near"), [(a_mean, 1e-9), (three_steps, 1e-8)])
def test_a_seeded_release_has_the_value_of_the_cpu(kind, make, near):
    expected = of_the_cpu(make)
    with on(kind):
        found = make()
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)


def cloud(space: Any, n: int, radius: float) -> Any:
    """Points about the origin of a space, some farther than the radius."""
    u = np.random.default_rng(2).normal(size=(n, space.dim))
    u *= radius / math.sqrt(space.dim)
    return of_the_cpu(
        lambda: np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, u)))
    )


def released(space: Any, x: Any, radius: float) -> Any:
    ball = riemdp.Ball(space.origin, radius)
    return riemdp.private_frechet_mean(
        space, x, ball, BUDGET, mechanism="wrapped-gaussian", rng=3
    ).value


def mean_of(space: Any, n: int, radius: float) -> Any:
    x = cloud(space, n, 0.9 * radius)
    return lambda: released(space, x, radius)


def mean_of_a_file(space: Any, n: int, radius: float) -> Any:
    x = cloud(space, n, 0.9 * radius)

    def make() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", x)
            return released(space, np.load(f"{folder}/x.npy", mmap_mode="r"), radius)

    return make


def mean_without_a_ball() -> Any:
    space = riemdp.SPDAffineInvariant(3)
    x = cloud(space, 400, 0.7)
    return lambda: riemdp.private_frechet_mean(space, x, budget=BUDGET, rng=3).value


def variance() -> Any:
    space = riemdp.Sphere(5)
    x = cloud(space, 500, 0.5)
    ball = riemdp.Ball(space.origin, 0.6)
    return lambda: riemdp.private_frechet_variance(space, x, ball, BUDGET, rng=3).value


def stochastic_steps(optimizer: Any) -> Any:
    space = riemdp.SPDAffineInvariant(3)
    x = cloud(space, 500, 0.5)
    problem = riemdp.problems.frechet_mean(space)
    return lambda: riemdp.private_minimize(problem, x, space.origin, optimizer, BUDGET, rng=3).value


RELEASES = {
    "sphere": lambda: mean_of(riemdp.Sphere(20), 300, 0.6),
    "subspaces": lambda: mean_of(riemdp.Grassmann(6, 2), 300, 0.4),
    "Bures-Wasserstein": lambda: mean_of(riemdp.SPDBuresWasserstein(3), 300, 0.3),
    "log-Euclidean": lambda: mean_of(riemdp.SPDLogEuclidean(3), 300, 1.0),
    "hyperbolic": lambda: mean_of(riemdp.Lorentz(4), 300, 2.0),
    "many of Bures-Wasserstein": lambda: mean_of(riemdp.SPDBuresWasserstein(3), 9000, 0.3),
    "SPD": lambda: mean_of(riemdp.SPDAffineInvariant(5), 5000, 1.0),
    "many SPD": lambda: mean_of(riemdp.SPDAffineInvariant(5), 9000, 1.0),
    "file of SPD": lambda: mean_of_a_file(riemdp.SPDAffineInvariant(3), 9000, 1.0),
    "file of a sphere": lambda: mean_of_a_file(riemdp.Sphere(20), 9000, 0.6),
    "a private ball": mean_without_a_ball,
    "variance": variance,
    "DP-RSGD": lambda: stochastic_steps(riemdp.DPRSGD(5, 50, 0.3, 1.0)),
    "DP-RSVRG": lambda: stochastic_steps(riemdp.DPRSVRG(2, 3, 0.3, 1.0, batch_size=20)),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", RELEASES)
def test_every_kind_of_release_has_the_value_of_the_cpu(name):
    with on("accelerator"):
        make = RELEASES[name]()
        found = make()
    np.testing.assert_allclose(found, of_the_cpu(make), rtol=1e-8, atol=1e-8)


@devices
def test_noise_is_drawn_on_the_host(kind, monkeypatch):
    def draws(seed: int | None) -> list[Any]:
        source = riemdp.noise_source(seed)
        return [source.normals((100,)), source.rounded_normals(2.0**32, (100,)), source.gammas(3.0)]

    keys = []
    real = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", lambda bits: keys.append(bits) or real(bits))
    expected = draws(7)
    with on(kind):
        found = draws(7)
        assert not keys
        secret, again = draws(None), draws(None)
    assert keys == [256, 256]  # a key from the operating system for each source
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, (np.ndarray, float))
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(secret[0], again[0])
