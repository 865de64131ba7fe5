"""Data sets and methods of the excess-risk table (`excess_risk_table.py`): what is run, with which
public settings.

Everything is run by the public interface, seed by seed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import riemdp as R
from riemdp import (
    DPRGD,
    DPRSGD,
    DPRSVRG,
    Budget,
    datasets,
    private_minimize,
    problems,
)
from riemdp.mechanisms import BASELINES, FOR_MEANS
from riemdp.mechanisms._for_mean import MeanFacts
from riemdp.statistics import FrechetMean

from .. import data
from ..projected_descent import projected_descent

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


def alone(name: str, family: str, run: Run, words: str = "", **options: Any) -> Method:
    """A method of which nothing is chosen."""
    return Method(name, family, (Setting(words, run),), **options)


def swept(
    name: str, grid: str, choice: Callable[..., tuple[str, Run]], *axes: Sequence[Any]
) -> Method:
    """An iterative method with the settings of a grid; `choice` of a point of it is a setting."""
    points = itertools.product(*axes)
    return Method(name, "iterative", tuple(Setting(*choice(*point)) for point in points), grid)


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
    affine, bures = R.SPDAffineInvariant(9), R.SPDBuresWasserstein(9)
    made: dict[str, Callable[[str], Case]] = {
        "satimage": lambda s: eigenvector(s, data.riemopt_satimage(download=False).values),
        "ijcnn": lambda s: eigenvector(s, data.riemopt_ijcnn(download=False).values),
        "MNIST 0": lambda s: eigenvector(s, digit(0), images=True),
        "MNIST 1": lambda s: eigenvector(s, digit(1), images=True),
        "descriptors, affine-invariant": lambda s: descriptor_mean(s, affine, 1e-3, 3),
        "descriptors + 10 I, Bures-Wasserstein": lambda s: descriptor_mean(s, bures, 10.0, None),
    }
    return {name: functools.partial(make, name) for name, make in made.items()}


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


@dataclass(frozen=True)
class Decreasing:
    """The step size rate / (1 + t / hold): late in the run all noisy gradients then weigh about the
    same in the iterate.
    """

    rate: float
    hold: float

    def __call__(self, t: int) -> float:
        return self.rate / (1.0 + t / self.hold)

    def __str__(self) -> str:
        return f"{self.rate:g}/(1 + t/{self.hold:g})"


def of_seeds(one: Callable[..., tuple[Any, Any]]) -> Run:
    """A run for every seed, one after the other; `one(budget, rng=)` gives a point and what it
    costs.
    """

    def run(budget, seeds):
        points, guarantees = zip(*(one(budget, rng=s) for s in seeds), strict=True)
        return np.stack([np.asarray(point) for point in points]), guarantees[0]

    return run


def input_perturbation(x: Any) -> Run:
    """GMIP."""

    def one(budget, rng):
        release = R.optimizers.private_principal_eigenvector(x, budget, rng=rng)
        return release.value, release.guarantee

    return of_seeds(one)


def descended(x: Any, start: Any, steps: int | None, rate: float | None) -> Run:
    """DP-PGD of rows of norm at most 1."""
    given = {"row_norm": 1.0, "steps": steps, "learning_rate": rate, "initial": start}
    return of_seeds(functools.partial(projected_descent, x, **given))


def minimised(problem: Any, data: Any, start: Any, optimizer: Any) -> Run:
    """A run of the public interface."""

    def one(budget, rng):
        result = private_minimize(problem, data, start, optimizer, budget, rng=rng)
        return result.value, result.guarantee

    return of_seeds(one)


def public_start(d: int) -> Any:
    """A direction without pattern (quadratic phases), the same for everybody."""
    phases = np.modf(np.arange(1.0, d + 1.0) ** 2 * 0.6180339887498949)[0]
    return R.Sphere(d).project(np.cos(2.0 * np.pi * phases))


def eigenvector(name: str, data: Any, images: bool = False) -> Case:
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
    methods = tuple(eigenvector_methods(jnp.asarray(x), start, ones if images else None))
    return Case(name, facts, n, d - 1, methods, risk, risk, lambda b: "GMIP")


def eigenvector_methods(x: Any, start: Any, ones: Any) -> Iterator[Method]:
    problem = problems.principal_eigenvector(x.shape[1])
    projected = functools.partial(descended, x)

    def full(origin: Any, steps: int | None, rate: Any, **options: Any) -> Run:
        return minimised(problem, x, origin, DPRGD(steps, rate, **options))

    yield alone("GMIP", "one-shot", input_perturbation(x))
    counts, rates = (1, 2, 3, 5, 8, 12, 20, 35), (0.5, 1.0, 2.0, 4.0)
    falls = tuple(itertools.starmap(Decreasing, itertools.product((0.5, 1, 2, 4, 8), (1, 3))))
    for origin, words in ((start, ""), (ones, " from the all-ones image")):
        if origin is None:
            continue
        yield swept(
            f"DP-PGD{words}",
            "T 1, 2, 3, 5, 8, 12, 20, 35; rate 1, 3, 10, 100",
            lambda t, r, w=origin: (f"T {t}, rate {r:g}", projected(w, t, r)),
            counts,
            (1.0, 3.0, 10.0, 100.0),
        )
        yield swept(
            f"DP-RGD{words}",
            "T 1, 2, 3, 5, 8, 12, 20, 35; rate 0.5, 1, 2, 4",
            lambda t, r, w=origin: (f"T {t}, rate {r:g}", full(w, t, r)),
            counts,
            rates,
        )
        yield swept(
            f"DP-RGD, decreasing steps{words}",
            "T 3, 5, 8, 12, 20, 35, 70, 150; rate a/(1 + t/h), a 0.5, 1, 2, 4, 8, h 1, 3",
            lambda t, f, w=origin: (f"T {t}, rate {f}", full(w, t, f)),
            (*counts[2:], 70, 150),
            falls,
        )
    yield alone("DP-RGD, default", "iterative", full(start, None, None), "public defaults")
    yield swept(
        "DP-RGD, geodesic average",
        "T 3, 5, 8, 12, 20, 35; rate 0.5, 1, 2, 4",
        lambda t, r: (f"T {t}, rate {r:g}", full(start, t, r, output="geodesic-average")),
        counts[2:],
        rates,
    )
    run = projected(start, None, None)
    yield alone("DP-PGD, default", "iterative", run, "public defaults")
    yield from eigenvector_batches(x, start)


def eigenvector_batches(x: Any, start: Any) -> Iterator[Method]:
    """Methods that take batches, by the public interface."""
    n, d = x.shape
    run = functools.partial(minimised, problems.principal_eigenvector(d), x, start)
    average = {"sampling": "poisson", "output": "geodesic-average"}
    for label, options in (
        ("DP-RSGD", {}),
        ("DP-RSGD, Poisson", {"sampling": "poisson"}),
        ("DP-RSGD, Poisson, geodesic average", average),
    ):
        batches = functools.partial(DPRSGD, **options)
        yield swept(
            label,
            "b n/20, n/5; T 40; rate 0.3, 1",
            lambda q, r, m=batches: (f"b n/{q}, T 40, rate {r:g}", run(m(40, n // q, r))),
            (20, 5),
            (0.3, 1.0),
        )
        if options is average:
            continue
        yield swept(
            f"{label}, decreasing steps",
            "b n/20, n/5; T 20, 60; rate 0.5/(1 + t/5), 2/(1 + t/3)",
            lambda q, t, f, m=batches: (f"b n/{q}, T {t}, rate {f}", run(m(t, n // q, f))),
            (20, 5),
            (20, 60),
            (Decreasing(0.5, 5.0), Decreasing(2.0, 3.0)),
        )
        yield alone(f"{label}, default", "iterative", run(batches()), DEFAULTS)
    for variant in ("as-published", "anchored"):
        reduced = functools.partial(DPRSVRG, variant=variant)
        yield swept(
            f"DP-RSVRG, {variant}",
            "(S, m, b) (2, 5, n/20), (5, 5, n/20), (3, 3, n/5); rate 0.3, 1",
            lambda smq, r, v=reduced: (f"{rounds(*smq)}, rate {r:g}", run(epochs(v, n, *smq, r))),
            ((2, 5, 20), (5, 5, 20), (3, 3, 5)),
            (0.3, 1.0),
        )
        name = f"DP-RSVRG, {variant}, default"
        yield alone(name, "iterative", run(reduced(batch_size=None)), DEFAULTS)
    yield swept(
        "DP-RSVRG, anchored, decreasing steps",
        "(S, m, b) (5, 5, n/20), (8, 3, n/5); rate 0.5/(1 + t/5), 1/(1 + t/3)",
        lambda smq, f: (f"{rounds(*smq)}, rate {f}", run(epochs(DPRSVRG, n, *smq, f))),
        ((5, 5, 20), (8, 3, 5)),
        (Decreasing(0.5, 5.0), Decreasing(1.0, 3.0)),
    )


def rounds(epochs: int, inner: int, share: int) -> str:
    """The settings of a variance-reduced method, in words."""
    return f"S {epochs}, m {inner}, b n/{share}"


def epochs(
    kind: Any, n: int, count: int, inner: int, share: int, rate: Any, *clip: float, **options: Any
) -> Any:
    """A variance-reduced method with batches of a share of the records."""
    return kind(count, inner, rate, *clip, batch_size=n // share, **options)


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
        plan = R.plan_private_mean(manifold, ball, n, budget, count_outside=False)
        return plan.best().mechanism

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
    """What a user gets: `private_frechet_mean`."""
    given = {"mechanism": mechanism, "count_outside": None if mechanism == "auto" else False}

    def one(budget, rng):
        release = R.private_frechet_mean(manifold, x, ball, budget, rng=rng, **given)
        return _as_drawn(release), release.guarantee

    return of_seeds(one)


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
        yield alone(name, "one-shot", released(manifold, x, ball, lambda: mean, name))
    smaller = (
        Setting(f"radius r/{k}", clamped_release(manifold, x, R.Ball(ball.center, r / k)))
        for k in (2, 4, 8, 16)
    )
    name = "wrapped-gaussian, smaller ball"
    yield Method(name, "one-shot", tuple(smaller), "radius r/2, r/4, r/8, r/16")
    found = R.AdaptiveBall(outer=ball)
    for name, given, mechanism in (
        ("tangent-mean", ball, "tangent-mean"),
        ("private ball, found in the public one", found, "auto"),
        ("private ball, nothing given", R.AdaptiveBall(), "auto"),
    ):
        yield alone(name, "one-shot", published(manifold, x, given, mechanism))
    run = functools.partial(minimised, problem, x, start)
    domain: Any = {"sensitivity": "domain"}
    for label, optimizer in (("DP-RGD", DPRGD), ("DP-RSGD", DPRSGD)):
        words = "public defaults" if optimizer is DPRGD else DEFAULTS
        adaptive, usual = run(optimizer(clip_norm="adaptive")), run(optimizer(**domain))
        yield alone(f"{label}, clip norm found", "iterative", adaptive, words)
        yield alone(f"{label}, default", "iterative", usual, words, seeds=default_seeds)
    yield swept(
        "DP-RGD, domain sensitivity",
        "T 1, 2, 3, 5; rate 0.25, 0.5",
        lambda t, a: (f"T {t}, rate {a:g}", run(DPRGD(t, a, **domain))),
        (1, 2, 3, 5),
        (0.25, 0.5),
    )
    yield swept(
        "DP-RGD",
        "T 4, 16; rate 0.5; clip r, r/4, r/8",
        lambda t, k: (f"T {t}, rate 0.5, clip r/{k}", run(DPRGD(t, 0.5, r / k))),
        (4, 16),
        (1, 4, 8),
    )
    fall = Decreasing(0.5, 6.0)
    yield swept(
        "DP-RGD, decreasing steps",
        "T 16, 32; rate 0.5/(1 + t/6); clip r/4, r/8",
        lambda t, k: (f"T {t}, rate {fall}, clip r/{k}", run(DPRGD(t, fall, r / k))),
        (16, 32),
        (4, 8),
    )
    for label, sampling in (("DP-RSGD", "without-replacement"), ("DP-RSGD, Poisson", "poisson")):
        batches = functools.partial(DPRSGD, 20, learning_rate=0.5, sampling=sampling)
        yield swept(
            label,
            "b n/20, n/5; T 20; rate 0.5; clip r, r/4, r/8",
            lambda q, k, m=batches: (
                f"b n/{q}, T 20, rate 0.5, clip r/{k}",
                run(m(batch_size=n // q, clip_norm=r / k)),
            ),
            (20, 5),
            (1, 4, 8),
        )
    yield from mean_epochs(n, r, problem, run)


def mean_epochs(n: int, r: float, problem: Any, run: Callable[[Any], Run]) -> Iterator[Method]:
    """Variance-reduced methods on a mean."""
    shapes = ((2, 5, 20), (3, 3, 5), (8, 3, 5), (12, 3, 5))
    grid = (
        "(S, m, b) (2, 5, n/20), (3, 3, n/5), (8, 3, n/5), (12, 3, n/5); rate 0.25, 0.5; clip"
        " r, r/8"
    )
    for variant in ("as-published", "anchored"):
        reduced = functools.partial(DPRSVRG, variant=variant)
        bounds = (None, 4.0) if variant == "anchored" and problem.smoothness > 4.0 else (None,)

        def choice(
            smq: Any, a: float, k: int, c: float | None, kind: Any = reduced
        ) -> tuple[str, Run]:
            words = f"{rounds(*smq)}, rate {a:g}, clip r/{k}"
            bounded = "" if c is None else f", smoothness {c:g}"
            return words + bounded, run(epochs(kind, n, *smq, a, r / k, smoothness=c))

        more = f"; smoothness {problem.smoothness:.3g}, 4" if len(bounds) > 1 else ""
        axes = shapes, (0.25, 0.5), (1, 8), bounds
        yield swept(f"DP-RSVRG, {variant}", grid + more, choice, *axes)
        name = f"DP-RSVRG, {variant}, default"
        yield alone(name, "iterative", run(reduced(batch_size=None)), DEFAULTS)
