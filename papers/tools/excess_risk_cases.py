"""Data sets and methods of the excess-risk table (`excess_risk_table.py`): what is run, with which
public settings.

Full-batch methods on the principal eigenvector need the data only through the covariance matrix
while no gradient is clipped: rows have norm <= 1, so gradients have norm <= 1, the clip norm.
`covariance_runs` makes many such runs at once; its seed s is the run that `private_minimize(...,
rng=s)` makes from the records (a test compares them). Everything else is the public interface.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import riemdp as R
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Budget,
    Sphere,
    datasets,
    gaussian,
    noise_source,
    private_minimize,
    problems,
)
from riemdp.mechanisms import BASELINES, FOR_MEANS
from riemdp.mechanisms._for_mean import MeanFacts
from riemdp.optimizers import plan_optimizer
from riemdp.privacy import gaussian_noise_multiplier
from riemdp.statistics import FrechetMean

from .. import data

Run = Callable[
    [Budget, Sequence[int]], tuple[np.ndarray, Any]
]  # (points of all seeds, the guarantee of one run)

_MOVED = ("wrapped-gaussian", "wrapped-laplace")  # others are in the ball, or never moved into it
KINDS = {kind.name: kind for kind in (*FOR_MEANS, *BASELINES)}
EXTRINSIC = tuple(kind.name for kind in BASELINES)
DEFAULTS = "public defaults, batch n/5"  # those of the methods that take batches


@dataclass(frozen=True)
class Setting:
    """One choice of public settings of a method, in words, and how to run it."""

    words: str
    run: Run


@dataclass(frozen=True)
class Method:
    """A row of the table: the best of its settings. `name` of a one-shot mechanism is what "auto"
    would call it.
    """

    name: str
    family: str  # "one-shot" or "iterative"
    settings: tuple[Setting, ...]
    grid: str = ""
    seeds: int | None = None  # fewer than requested, where a run takes long


@dataclass(frozen=True)
class Case:
    """A data set with its problem. `risk`: excess risk of points (s, ...), without noise, for
    comparison only; `quick`: what settings are compared by (the same, or a cheaper figure); `auto`:
    budget -> the row that the library's "auto" picks.
    """

    name: str
    facts: str
    n: int
    dim: int
    methods: tuple[Method, ...]
    risk: Callable[[np.ndarray], np.ndarray]
    quick: Callable[[np.ndarray], np.ndarray]
    auto: Callable[[Budget], str]


def cases() -> dict[str, Callable[[], Case]]:
    """Name -> the case, built (data read) when called."""
    return {
        "satimage": lambda: eigenvector(
            "satimage", data.riemopt_satimage(download=False).values, False
        ),
        "ijcnn": lambda: eigenvector("ijcnn", data.riemopt_ijcnn(download=False).values, False),
        "MNIST 0": lambda: eigenvector("MNIST 0", digit(0), True),
        "MNIST 1": lambda: eigenvector("MNIST 1", digit(1), True),
        "descriptors, affine-invariant": lambda: descriptor_mean(
            "descriptors, affine-invariant", R.SPDAffineInvariant(9), 1e-3, 3
        ),
        "descriptors, Bures-Wasserstein": lambda: descriptor_mean(
            "descriptors, Bures-Wasserstein", R.SPDBuresWasserstein(9), 1e-2, None
        ),
        "descriptors + 10 I, Bures-Wasserstein": lambda: descriptor_mean(
            "descriptors + 10 I, Bures-Wasserstein", R.SPDBuresWasserstein(9), 10.0, None
        ),
    }


def digit(which: int) -> np.ndarray:
    images = data.mnist("train", download=False)
    return np.asarray(images.images)[np.asarray(images.labels) == which]


# ------------------------------------------------------------------------------------------------
# principal eigenvector
def unit_rows(x: Any) -> np.ndarray:
    """Every row scaled to norm 1 by itself (a per-record transformation; the public bound of the
    row norm is then 1).
    """
    x = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1.0)


def full_gradient(covariance: Any, w: Any) -> Any:
    """The average Riemannian gradient of the records at w, from their covariance."""
    toward = covariance @ w
    return -2.0 * (toward - (w @ toward) * w)


@functools.partial(jax.jit, static_argnums=(0, 1))
def covariance_runs(
    projected: bool,
    average: bool,
    covariance: Any,
    start: Any,
    normals: Any,
    steps: Any,
    rates: Any,
    sigma: Any,
) -> Any:
    """DP-RGD (or DP-PGD, `projected`) of many seeds: normals (s, rows, d) and rates (rows,), of
    which the first `steps` are used.
    """
    m = Sphere(covariance.shape[0])

    def one(z):
        def body(t, carry):
            w, mean = carry
            if projected:
                moved = w - rates[t] * (-2.0 * (covariance @ w) + sigma * z[t])
                return moved / jnp.linalg.norm(moved), mean
            released = full_gradient(covariance, w) + sigma * m._tangent_from_normals(w, z[t])
            moved = m._project(m._exp(w, -rates[t] * released))
            if average:
                mean = m._project(m._exp(mean, m._log(mean, moved) / (t + 1.0)))
            return moved, mean

        w, mean = jax.lax.fori_loop(0, steps, body, (start, start))
        return mean if average else w

    return jax.vmap(one)(normals)


def padded(seeds: Sequence[int], rates: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The normals that `private_minimize(..., rng=s)` would draw, (s, rows, d), and the rates; few
    different numbers of rows.
    """
    steps = len(rates)
    rows = next(r for r in (8, 32, 192, 512) if r >= steps)
    out = np.zeros((len(seeds), rows, d))
    for i, s in enumerate(seeds):
        out[i, :steps] = noise_source(s).normals((steps, d))
    return out, np.pad(rates, (0, rows - steps))


@dataclass(frozen=True)
class Decreasing:
    """The step size rate / (1 + t / hold): late in the run all noisy gradients then weigh about the
    same in the iterate.
    """

    rate: float
    hold: float

    def __call__(self, t: int) -> float:
        return self.rate / (1.0 + t / self.hold)


def full_batch(
    n: int,
    covariance: np.ndarray,
    start: Any,
    steps: int | None,
    rate: Any,
    *,
    average: bool = False,
) -> Run:
    """DP-RGD from the covariance; None are the public defaults. The noise is that of the library's
    plan.
    """
    d = covariance.shape[0]
    a, w0, problem = jnp.asarray(covariance), jnp.asarray(start), problems.principal_eigenvector(d)

    def run(budget, seeds):
        plan = plan_optimizer(problem, n, DPRGD(steps, rate), budget)
        z, rates = padded(seeds, plan.rates, d)
        values = covariance_runs(False, average, a, w0, z, plan.steps, rates, plan.sigma)
        return np.asarray(values), plan.guarantee()

    return run


def projected_descent(
    n: int, covariance: np.ndarray, start: Any, count: int | None, rate: float | None
) -> Run:
    """DP-PGD from the covariance, as `papers.projected_descent` does it from rows of norm <= 1."""
    a, w0 = jnp.asarray(covariance), jnp.asarray(start)

    def run(budget, seeds):
        planned = plan_optimizer(
            problems.principal_eigenvector(len(covariance)), n, DPRGD(count, rate), budget
        ).rates
        steps = len(planned)
        multiplier = gaussian_noise_multiplier(budget, steps)
        sigma = math.nextafter(multiplier * 2.0 / n, math.inf)
        z, rates = padded(seeds, planned, len(covariance))
        return np.asarray(covariance_runs(True, False, a, w0, z, steps, rates, sigma)), gaussian(
            multiplier, steps
        )

    return run


def input_perturbation(n: int, covariance: np.ndarray) -> Run:
    """GMIP, as `private_principal_eigenvector` does it, with the leading eigenvector
    alone computed.
    """
    d = len(covariance)
    space, identity = R.SPDAffineInvariant(d), np.eye(d)  # whose coordinates there are an isometry

    def run(budget, seeds):
        y = np.asarray(space.to_coordinates(identity, covariance))
        flat, sensitivity = R.Euclidean(y.size), math.sqrt(2.0) / n
        noise = R.TangentGaussian(flat, flat.origin, sensitivity=sensitivity, budget=budget)
        points = []
        for s in seeds:
            noisy = np.asarray(space.from_coordinates(identity, noise.release(y, s).value))
            points.append(scipy.linalg.eigh(noisy, subset_by_index=(d - 1, d - 1))[1][:, 0])
        return np.stack(points), noise.guarantee

    return run


def minimised(problem: Any, data: Any, start: Any, optimizer: Any) -> Run:
    """A run of the public interface for every seed, one after the other."""

    def run(budget, seeds):
        results = [private_minimize(problem, data, start, optimizer, budget, rng=s) for s in seeds]
        return np.stack([np.asarray(r.value) for r in results]), results[0].guarantee

    return run


def public_start(d: int) -> Any:
    """A direction without pattern (quadratic phases), the same for everybody."""
    phases = np.modf(np.arange(1.0, d + 1.0) ** 2 * 0.6180339887498949)[0]
    return Sphere(d).project(np.cos(2.0 * np.pi * phases))


def eigenvector(name: str, data: Any, images: bool) -> Case:
    x = unit_rows(data)
    n, d = x.shape
    covariance = x.T @ x / n
    values = np.linalg.eigvalsh(covariance)
    start = np.asarray(public_start(d))
    ones = np.full(d, d**-0.5)

    def risk(points):
        return values[-1] - np.einsum("si,ij,sj->s", points, covariance, points)

    facts = (
        f"n = {n}, d = {d}; two largest eigenvalues {values[-1]:.3f}, {values[-2]:.3f}; excess risk"
        f" of the start {risk(start[None])[0]:.3f}"
        + (f", of the all-ones image {risk(ones[None])[0]:.3f}" if images else "")
    )
    methods = tuple(
        eigenvector_methods(jnp.asarray(x), covariance, start, ones if images else None)
    )
    return Case(name, facts, n, d - 1, methods, risk, risk, lambda b: "GMIP")


def eigenvector_methods(x: Any, covariance: np.ndarray, start: Any, ones: Any) -> Iterator[Method]:
    n, d = x.shape
    problem = problems.principal_eigenvector(d)
    full = functools.partial(full_batch, n, covariance)
    yield Method("GMIP", "one-shot", (Setting("", input_perturbation(n, covariance)),))
    counts, rates = (1, 2, 3, 5, 8, 12, 20, 35), (0.5, 1.0, 2.0, 4.0)
    long = (1.0, 3.0, 10.0, 100.0)
    for origin, words in ((start, ""), (ones, " from the all-ones image")):
        if origin is None:
            continue
        yield Method(
            f"DP-PGD{words}",
            "iterative",
            tuple(
                Setting(f"T {t}, rate {r:g}", projected_descent(n, covariance, origin, t, r))
                for t, r in itertools.product(counts, long)
            ),
            "T 1, 2, 3, 5, 8, 12, 20, 35; rate 1, 3, 10, 100",
        )
        yield Method(
            f"DP-RGD{words}",
            "iterative",
            tuple(
                Setting(f"T {t}, rate {r:g}", full(origin, t, r))
                for t, r in itertools.product(counts, rates)
            ),
            "T 1, 2, 3, 5, 8, 12, 20, 35; rate 0.5, 1, 2, 4",
        )
    yield Method(
        "DP-RGD, default", "iterative", (Setting("public defaults", full(start, None, None)),)
    )
    yield Method(
        "DP-RGD, geodesic average",
        "iterative",
        tuple(
            Setting(f"T {t}, rate {r:g}", full(start, t, r, average=True))
            for t, r in itertools.product(counts[2:], rates)
        ),
        "T 3, 5, 8, 12, 20, 35; rate 0.5, 1, 2, 4",
    )
    falls = tuple(
        Decreasing(r, h) for r, h in itertools.product((0.5, 1.0, 2.0, 4.0, 8.0), (1.0, 3.0))
    )
    for origin, words in ((start, ""), (ones, " from the all-ones image")):
        if origin is not None:
            yield Method(
                f"DP-RGD, decreasing steps{words}",
                "iterative",
                tuple(
                    Setting(f"T {t}, rate {f.rate:g}/(1 + t/{f.hold:g})", full(origin, t, f))
                    for t, f in itertools.product((3, 5, 8, 12, 20, 35, 70, 150), falls)
                ),
                "T 3, 5, 8, 12, 20, 35, 70, 150; rate a/(1 + t/h), a 0.5, 1, 2, 4, 8, h 1, 3",
            )
    for label, sampling in (("DP-RSGD", "without-replacement"), ("DP-RSGD, Poisson", "poisson")):
        yield Method(
            f"{label}, decreasing steps",
            "iterative",
            tuple(
                Setting(
                    f"b n/{q}, T {t}, rate {f.rate:g}/(1 + t/{f.hold:g})",
                    minimised(problem, x, start, DPRSGD(t, n // q, f, sampling=sampling)),
                )
                for q, t, f in itertools.product(
                    (20, 5), (20, 60), (Decreasing(0.5, 5.0), Decreasing(2.0, 3.0))
                )
            ),
            "b n/20, n/5; T 20, 60; rate 0.5/(1 + t/5), 2/(1 + t/3)",
        )
    shapes = tuple(itertools.product((20, 5), (40,), (0.3, 1.0)))
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("DP-RSGD", {}),
        ("DP-RSGD, Poisson", {"sampling": "poisson"}),
        (
            "DP-RSGD, Poisson, geodesic average",
            {"sampling": "poisson", "output": "geodesic-average"},
        ),
    )
    for label, options in kinds:
        yield Method(
            label,
            "iterative",
            tuple(
                Setting(
                    f"b n/{q}, T {t}, rate {r:g}",
                    minimised(problem, x, start, DPRSGD(t, n // q, r, **options)),
                )
                for q, t, r in shapes
            ),
            "b n/20, n/5; T 40; rate 0.3, 1",
        )
    epochs = ((2, 5, 20), (5, 5, 20), (3, 3, 5))
    for variant in ("as-published", "anchored"):
        yield Method(
            f"DP-RSVRG, {variant}",
            "iterative",
            tuple(
                Setting(
                    f"S {s}, m {m}, b n/{q}, rate {r:g}",
                    minimised(
                        problem, x, start, DPRSVRG(s, m, r, batch_size=n // q, variant=variant)
                    ),
                )
                for (s, m, q), r in itertools.product(epochs, (0.3, 1.0))
            ),
            "(S, m, b) (2, 5, n/20), (5, 5, n/20), (3, 3, n/5); rate 0.3, 1",
        )
        yield Method(
            f"DP-RSVRG, {variant}, default",
            "iterative",
            (
                Setting(
                    DEFAULTS,
                    minimised(problem, x, start, DPRSVRG(variant=variant, batch_size=None)),
                ),
            ),
        )
    yield Method(
        "DP-RSVRG, anchored, decreasing steps",
        "iterative",
        tuple(
            Setting(
                f"S {s}, m {m}, b n/{q}, rate {f.rate:g}/(1 + t/{f.hold:g})",
                minimised(problem, x, start, DPRSVRG(s, m, f, batch_size=n // q)),
            )
            for (s, m, q), f in itertools.product(
                ((5, 5, 20), (8, 3, 5)), (Decreasing(0.5, 5.0), Decreasing(1.0, 3.0))
            )
        ),
        "(S, m, b) (5, 5, n/20), (8, 3, n/5); rate 0.5/(1 + t/5), 1/(1 + t/3)",
    )
    yield Method(
        "DP-PGD, default",
        "iterative",
        (Setting("public defaults", projected_descent(n, covariance, start, None, None)),),
    )
    for label, sampling in (("DP-RSGD", "without-replacement"), ("DP-RSGD, Poisson", "poisson")):
        usual = Setting(DEFAULTS, minimised(problem, x, start, DPRSGD(sampling=sampling)))
        yield Method(f"{label}, default", "iterative", (usual,))


# ------------------------------------------------------------------------------------------------
# Frechet means
def bures_wasserstein_ball(eta: float) -> R.Ball:
    """A ball that holds the descriptor of every grey image: eigenvalues in [eta, eta + s], trace at
    most 9 eta + s.

    d(c I, X)^2 = sum (sqrt(lambda_i) - sqrt c)^2 is largest with all of s in one eigenvalue (or
    none), and the best c makes that largest value 8/9 D^2 with D = sqrt(eta + s) - sqrt(eta), sqrt
    c = sqrt(eta) + D / 9.
    """
    low, high = math.sqrt(eta), math.sqrt(eta + datasets.descriptor_spread(1))
    return R.Ball((low + (high - low) / 9) ** 2 * np.eye(9), math.sqrt(8 / 9) * (high - low))


def descriptor_mean(name: str, manifold: Any, eta: float, default_seeds: int | None) -> Case:
    """The mean of the covariance descriptors of 2000 images of MNIST 0, in a ball that holds those
    of all images whatever.
    """
    x = datasets.covariance_descriptors(digit(0)[:2000], eta=eta)
    affine = isinstance(manifold, R.SPDAffineInvariant)
    ball = (
        datasets.descriptor_ball(1, eta, center="middle") if affine else bures_wasserstein_ball(eta)
    )
    n = len(x)
    mean = R.frechet_mean(manifold, x).value
    problem = problems.frechet_mean(manifold, ball=ball)
    least = problem.objective(mean, x)

    def risk(points):
        return np.array([problem.objective(jnp.asarray(w), x) - least for w in points])

    def quick(points):
        return np.asarray(manifold.squared_dist(mean, jnp.asarray(points)))

    def auto(budget):
        try:
            return (
                R.plan_private_mean(manifold, ball, n, budget, count_outside=False).best().mechanism
            )
        except R.InvalidArgument:  # no mechanism with a formula on a ball of this size
            return "none"

    facts = (
        f"the first {n} images of MNIST 0, 9 x 9, eta = {eta:g}; public ball of radius"
        f" {ball.radius:.3g} holding every image's descriptor; least risk {least:.3g}, excess risk"
        f" of the start (the centre) {risk([ball.center])[0]:.3g}"
    )
    methods = tuple(mean_methods(manifold, x, ball, problem, mean, default_seeds))
    return Case(name, facts, n, manifold.dim, methods, risk, quick, auto)


def released(manifold: Any, x: Any, ball: Any, mean: Callable[[], Any], mechanism: str) -> Run:
    """A one-shot mechanism as `private_frechet_mean` builds it, released for every seed from the
    mean found once.
    """

    def run(budget, seeds):
        value = np.mean(x, axis=0) if mechanism in EXTRINSIC else mean()
        gradient = (
            R.mechanisms.MeanGradient(manifold, x, None) if mechanism == "k-norm-gradient" else None
        )
        facts = MeanFacts(ball.on(manifold), len(x), budget, gradient=gradient)
        built = KINDS[mechanism].for_mean(facts)
        releases = [built.release(value, s) for s in seeds]
        return np.stack([np.asarray(r.value) for r in releases]), releases[0].guarantee

    return run


def _as_drawn(release: Any) -> np.ndarray:
    """The noisy point itself, also where the release was then moved into the ball."""
    if release.mechanism not in _MOVED:
        return np.asarray(release.value)
    return np.asarray(release.confidence_region().center)


def published(manifold: Any, x: Any, ball: Any, mechanism: str) -> Run:
    """What a user gets: `private_frechet_mean` for every seed, one after the other."""

    def run(budget, seeds):
        releases = [
            R.private_frechet_mean(
                manifold,
                x,
                ball,
                budget,
                mechanism=mechanism,
                rng=s,
                count_outside=None if mechanism == "auto" else False,
            )
            for s in seeds
        ]
        return np.stack([_as_drawn(release) for release in releases]), releases[0].guarantee

    return run


def clamped_release(manifold: Any, x: Any, ball: Any) -> Run:
    """The wrapped Gaussian for a ball that need not hold all records: they are clamped to it, so
    less noise and some bias.
    """
    clamped = ball.clamp(manifold, x)
    query = FrechetMean(ball.on(manifold), len(x))
    found = functools.cache(lambda: query.value(query.prepare(clamped)))
    return released(manifold, clamped, ball, found, "wrapped-gaussian")


def mean_methods(
    manifold: Any, x: Any, ball: Any, problem: Any, mean: Any, default_seeds: int | None
) -> Iterator[Method]:
    n, r, start = len(x), float(ball.radius), ball.center
    for name in KINDS:
        yield Method(
            name, "one-shot", (Setting("", released(manifold, x, ball, lambda: mean, name)),)
        )
    yield Method(
        "wrapped-gaussian, smaller ball",
        "one-shot",
        tuple(
            Setting(f"radius r/{k}", clamped_release(manifold, x, R.Ball(ball.center, r / k)))
            for k in (2, 4, 8, 16)
        ),
        "radius r/2, r/4, r/8, r/16",
    )
    found = R.AdaptiveBall(outer=ball)
    for name, given, mechanism in (
        ("tangent-mean", ball, "tangent-mean"),
        ("private ball, found in the public one", found, "auto"),
        ("private ball, nothing given", R.AdaptiveBall(), "auto"),
    ):
        setting = Setting("", published(manifold, x, given, mechanism))
        yield Method(name, "one-shot", (setting,))
    run = functools.partial(minimised, problem, x, start)
    for label, optimizer in (("DP-RGD", DPRGD), ("DP-RSGD", DPRSGD)):
        words = "public defaults" if optimizer is DPRGD else DEFAULTS
        setting = Setting(words, run(optimizer(clip_norm="adaptive")))
        yield Method(f"{label}, clip norm found", "iterative", (setting,))
    domain = True
    try:
        R.statistics.frechet_mean_sensitivity(manifold, ball, n)
    except R.InvalidArgument:
        domain = False
    if domain:
        yield Method(
            "DP-RGD, domain sensitivity",
            "iterative",
            tuple(
                Setting(f"T {t}, rate {a:g}", run(DPRGD(t, a, sensitivity="domain")))
                for t, a in itertools.product((1, 2, 3, 5), (0.25, 0.5))
            ),
            "T 1, 2, 3, 5; rate 0.25, 0.5",
        )
    yield Method(
        "DP-RGD",
        "iterative",
        tuple(
            Setting(f"T {t}, rate 0.5, clip r/{k}", run(DPRGD(t, 0.5, r / k)))
            for t, k in itertools.product((4, 16), (1, 4, 8))
        ),
        "T 4, 16; rate 0.5; clip r, r/4, r/8",
    )
    yield Method(
        "DP-RGD, decreasing steps",
        "iterative",
        tuple(
            Setting(
                f"T {t}, rate 0.5/(1 + t/{h:g}), clip r/{k}",
                run(DPRGD(t, Decreasing(0.5, h), r / k)),
            )
            for t, h, k in itertools.product((16, 32), (6.0,), (4, 8))
        ),
        "T 16, 32; rate 0.5/(1 + t/6); clip r/4, r/8",
    )
    shapes = tuple(itertools.product((20, 5), (0.5,), (1, 4, 8)))
    for label, sampling in (("DP-RSGD", "without-replacement"), ("DP-RSGD, Poisson", "poisson")):
        yield Method(
            label,
            "iterative",
            tuple(
                Setting(
                    f"b n/{q}, T 20, rate {a:g}, clip r/{k}",
                    run(DPRSGD(20, n // q, a, r / k, sampling=sampling)),
                )
                for q, a, k in shapes
            ),
            "b n/20, n/5; T 20; rate 0.5; clip r, r/4, r/8",
        )
    rounds = tuple(
        itertools.product(((2, 5, 20), (3, 3, 5), (8, 3, 5), (12, 3, 5)), (0.25, 0.5), (1, 8))
    )
    grid = (
        "(S, m, b) (2, 5, n/20), (3, 3, n/5), (8, 3, n/5), (12, 3, n/5); rate 0.25, 0.5; clip"
        " r, r/8"
    )
    for variant in ("as-published", "anchored"):
        bounds = (None, 4.0) if variant == "anchored" and problem.smoothness > 4.0 else (None,)
        yield Method(
            f"DP-RSVRG, {variant}",
            "iterative",
            tuple(
                Setting(
                    f"S {s}, m {m}, b n/{q}, rate {a:g}, clip r/{k}"
                    + ("" if c is None else f", smoothness {c:g}"),
                    run(DPRSVRG(s, m, a, r / k, batch_size=n // q, variant=variant, smoothness=c)),
                )
                for ((s, m, q), a, k), c in itertools.product(rounds, bounds)
            ),
            grid + (f"; smoothness {problem.smoothness:.3g}, 4" if len(bounds) > 1 else ""),
        )
        yield Method(
            f"DP-RSVRG, {variant}, default",
            "iterative",
            (Setting(DEFAULTS, run(DPRSVRG(variant=variant, batch_size=None))),),
        )
    for label, optimizer in (("DP-RGD", DPRGD), ("DP-RSGD", DPRSGD)):
        usual = optimizer(sensitivity="domain") if domain else optimizer()
        words = "public defaults" if optimizer is DPRGD else DEFAULTS
        yield Method(
            f"{label}, default", "iterative", (Setting(words, run(usual)),), seeds=default_seeds
        )
