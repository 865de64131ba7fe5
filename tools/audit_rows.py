"""What `tools/audit_table.py` attacks: every mechanism and optimiser, and what users call.

Each function yields rows: a title, an audit with so many trials, and how many it needs at most. A
new mechanism is audited by adding its row.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from tests.audit.edges import (
    along_the_iterate,
    class_of_a_matrix,
    class_of_a_vector,
    off_manifold,
    outside_the_ball,
)
from tests.seam import Gradients, Masks, Searches, Sites, Sums

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, Budget
from riemdp.audit import (
    AuditResult,
    OneRunAudit,
    audit_in_one_run,
    audit_mechanism,
    audit_optimizer,
    audit_optimizer_in_one_run,
)

EPSILON = 4.0  # large enough for thousands of trials to come near the claim
BUDGET = Budget(EPSILON, 1e-5)
SEED = 20_240_601  # the pairs attacked are made up; the seed makes the page reproducible
RELEASES, RUNS = 4_000, 20_000
Audit = Callable[[int], AuditResult]
Row = tuple[str, Audit, int]


def among(record: Any, n: int, others: Any, own: int = 1) -> np.ndarray:
    """n records: the first `own` are this one, and the others are all alike."""
    records = np.tile(np.asarray(others, dtype=float), (n, *(1 for _ in np.shape(others))))
    records[:own] = record
    return records


LINE, BALL = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
FAR = among([1e6], 8, [0.0])  # one of eight records is far out, on one side or the other
ALONG, ACROSS = among([1e6, 0.0], 8, [0.0, 0.0]), among([0.0, 1e6], 8, [0.0, 0.0])
EYE = np.eye(2)
ON_MATRICES: dict[str, Any] = {"metric": "logeuclid", "ball": riemdp.Ball(EYE, 1.0)}
SECRET: dict[str, Any] = {**ON_MATRICES, "labels": "private", "classes": [0, 1]}
ONE_SIDE, OTHER_SIDE = np.diag([1e6, 1e-6]), np.diag([1e-6, 1e6])


# ------------------------------------------------------------------ attacks
def attack(release: Any, inside: Any, outside: Any, score: Any = None) -> Audit:
    """An audit of a mechanism or of a function (records, rng) -> release, on a pair of inputs."""
    given = {} if score is None else {"score": score}
    return lambda n: audit_mechanism(release, inside, outside, trials=n, rng=SEED, **given)


def through(release: Any, inside: Any, outside: Any) -> Audit:
    """The same, by the first entry of what is released."""
    return attack(release, inside, outside, lambda v: jnp.reshape(v, (len(v), -1))[:, 0])


def run_of(optimizer: Any, manifold: Any, noise_std: float, edge: Any = None) -> Audit:
    """An audit of an optimiser, on data at an edge of what its proof assumes."""
    given = {"noise_std": noise_std, "manifold": manifold, "attack": edge, "rng": SEED}
    return lambda n: audit_optimizer(optimizer, trials=n, **given)


def number(value: Any, guarantee: riemdp.Guarantee) -> Any:
    """One number that an attacker makes of what was released."""
    return SimpleNamespace(
        value=np.array([float(value)]), guarantee=guarantee, mechanism="what was released"
    )


def seeded(kind: Any, rng: Any, **given: Any) -> Any:
    """An estimator with a seed of its own."""
    return kind(budget=BUDGET, random_state=int(rng.integers(0, 2**31)), **given)


# ------------------------------------------------------------------ mechanisms and optimisers
def mechanisms() -> Iterator[Row]:
    """On a pair that is a full sensitivity apart."""
    spaces = riemdp.Euclidean(3), riemdp.SPDLogEuclidean(2), riemdp.Lorentz(3), riemdp.Sphere(3)
    for space in spaces:
        origin, unit = space.origin, space.from_coordinates(space.origin, np.eye(space.dim)[0])
        reach = 1.0 if space.is_hadamard else 0.5
        ball = None if space.is_hadamard else riemdp.Ball(origin, reach)
        # the Laplace distribution of the hyperbolic plane exists for s < 1 only
        small = 0.3 if isinstance(space, riemdp.Lorentz) else reach
        given = {"sensitivity": reach, "ball": ball}
        far, near = space.exp(origin, reach * unit), space.exp(origin, small * unit)
        for made, inside, outside in (
            (
                riemdp.TangentGaussian(space, origin, sensitivity=1.0, budget=BUDGET),
                unit,
                0.0 * unit,
            ),
            (riemdp.WrappedGaussian(space, origin, budget=BUDGET, **given), far, origin),
            (riemdp.WrappedLaplace(space, origin, epsilon=EPSILON, **given), far, origin),
            (riemdp.RiemannianLaplace(space, sensitivity=small, epsilon=EPSILON), near, origin),
        ):
            yield f"{type(made).__name__}, {space!r}", attack(made, inside, outside), RELEASES
    sphere, pole = riemdp.Sphere(3), np.array([0.0, 0.0, 1.0])
    for made in (
        riemdp.ExtrinsicGaussian(sphere, sensitivity=2.0, budget=BUDGET),
        riemdp.ExtrinsicLaplace(sphere, sensitivity=2.0, epsilon=EPSILON),
    ):
        yield f"{type(made).__name__}, Sphere(3)", attack(made, pole, -pole), RELEASES
    yield "KNormGradient, Euclidean(2), mean of 2 records", k_norm(), RELEASES


def k_norm() -> Audit:
    """The mean of a record and 0."""
    plane, one, other = riemdp.Euclidean(2), np.array([1.0, 0.0]), np.array([-1.0, 0.0])

    def release(record: Any, rng: Any) -> Any:
        mechanism = riemdp.KNormGradient(
            plane,
            objective_gradient=lambda x: x - record / 2,
            sensitivity=1.0,
            epsilon=EPSILON,
        )
        return mechanism.release(jnp.asarray(record) / 2, rng)

    def score(x: Any) -> Any:
        return jnp.linalg.norm(x - other / 2, axis=-1) - jnp.linalg.norm(x - one / 2, axis=-1)

    return attack(release, one, other, score)


def optimisers() -> Iterator[Row]:
    """Runs of n = 20 and clip norm 1, and of networks."""
    steps = 10
    full = 0.1 * steps**0.5  # noise multiplier sqrt(steps), total mu = 1
    some = functools.partial(DPRSGD, steps, 4, 0.01, 1.0)
    reduced = functools.partial(DPRSVRG, 2, 5, 0.01, 1.0, smoothness=1.0)
    for space in (riemdp.Euclidean(2), riemdp.Lorentz(3)):
        for title, optimizer, noise_std in (
            ("DPRGD", DPRGD(steps, 0.01, 1.0), full),
            ("DPRSGD, batch 4 of 20", some(), 0.5),
            ("DPRSGD, Poisson, batch 4 of 20", some(sampling="poisson"), 0.25),
            ("DPRSGD, allocation, batch 4 of 20", some(sampling="allocation"), 0.25),
            ("DPRSVRG, anchored", reduced(variant="anchored"), 0.1),
            ("DPRSVRG, as-published", reduced(variant="as-published"), 3.0),
            ("DPRSVRG, anchored, Hessians in [0.5, 1]", reduced(convexity=0.5), 0.1),
        ):
            yield f"{title}, {space!r}", run_of(optimizer, space, noise_std), RUNS
    sphere = riemdp.Sphere(3)
    for edge, optimizer, noise_std in (
        (off_manifold, DPRGD(1, 1e-3, 1.0), 0.03),
        (off_manifold, DPRSVRG(1, 1, 1e-3, 1.0), 0.03),
        (along_the_iterate, DPRGD(1, 0.05, 1.0, update="retract"), 0.1),
        (outside_the_ball, DPRGD(1, 0.01, sensitivity="domain"), 0.03),
    ):
        title = f"{type(optimizer).__name__}, start or record at an edge ({edge.__name__})"
        yield f"{title}, {sphere!r}", run_of(optimizer, sphere, noise_std, edge), RUNS
    prototypes = riemdp.problems.hyperbolic_prototypes(1, 3, 2)
    for name, problem, edge in (
        ("spdnet", riemdp.problems.spdnet((2, 2), 2), class_of_a_matrix),
        ("hyperbolic_prototypes", prototypes, class_of_a_vector),
    ):
        audit = run_of(DPRGD(2, 0.01, 1.0), problem.manifold, 0.1 * 2**0.5, edge)
        yield f"problems.{name}, a record changes its class, DPRGD", audit, RUNS


# ------------------------------------------------------------------ what users call, as shipped
def as_drawn(release: riemdp.Release) -> riemdp.Release:
    """The attack sees the noise, also where it leaves the ball."""
    if not release.mechanism.startswith("wrapped"):
        return release
    return dataclasses.replace(release, value=release.confidence_region().center)


def mean(
    x: Any, rng: Any, where: Any = BALL, name: str = "wrapped-gaussian", space: Any = LINE
) -> riemdp.Release:
    """A private mean, by default on the line."""
    given = {"mechanism": name, "rng": rng}
    return as_drawn(riemdp.private_frechet_mean(space, x, where, BUDGET, **given))


def means() -> Iterator[Row]:
    """Means, and what is found next to them."""
    for name, trials in (
        ("wrapped-gaussian", 4_000),
        ("wrapped-laplace", 4_000),
        ("riemannian-laplace", 4_000),
        ("k-norm-gradient", 1_000),
        ("extrinsic-gaussian", 4_000),
        ("dp-rgd", 500),
    ):
        title = f"private_frechet_mean, {name}, Euclidean(1)"
        yield title, through(functools.partial(mean, name=name), FAR, -FAR), trials
    spd = riemdp.SPDAffineInvariant(2)
    on_matrices = functools.partial(mean, where=riemdp.Ball(EYE, 1.0), space=spd)
    out, away = among(np.diag([1e6, 1.0]), 8, EYE), among(np.diag([1e-6, 1.0]), 8, EYE)
    title = "private_frechet_mean, wrapped-gaussian, SPD(2)"
    yield title, through(on_matrices, out, away), 1_000

    def variance(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_frechet_variance(LINE, x, BALL, BUDGET, rng=rng)

    yield "private_frechet_variance, Euclidean(1)", through(variance, FAR, 0.0 * FAR), 4_000
    yield _with_public_prior()
    scattered = among([1.0, 0.0, 0.0], 8, [0.0, 0.0, 0.0])  # the others are no points

    def direction(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_mean_direction(riemdp.Sphere(3), x, BUDGET, rng=rng)
        return dataclasses.replace(release, value=release.details["moment"])

    yield "private_mean_direction, Sphere(3)", through(direction, scattered, -scattered), 4_000
    about_zero = riemdp.AdaptiveBall(BALL, smallest=0.5)
    several = among([1e6], 40, [np.nan])  # the others pull in no direction

    def median(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_geometric_median(LINE, x, budget=BUDGET, ball=about_zero, rng=rng)

    yield "private_geometric_median, Euclidean(1)", through(median, several, -several), 1_000


SEARCH = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(1), 100.0))
MANY = among([1e6], 60, [0.0])


def in_a_ball_found(x: Any, rng: Any) -> riemdp.Release:
    """A private mean without a ball."""
    return riemdp.private_frechet_mean(LINE, x, SEARCH, BUDGET, rng=rng)


def searches() -> Iterator[Row]:
    """A private ball alone, and a mean in it."""
    title = "private_frechet_mean, private ball, Euclidean(1)"
    yield title, through(in_a_ball_found, MANY, -MANY), 1_000

    def ball_alone(x: Any, rng: Any) -> riemdp.Release:
        found = riemdp.private_ball(LINE, x, SEARCH, BUDGET, rng=rng)
        return dataclasses.replace(found, value=np.array([found.value.radius]))

    halves = np.repeat([[0.0], [1.0]], 30, axis=0)
    more = np.concatenate([halves[1:], [[1e6]]])
    yield "private_ball, its radius, Euclidean(1)", through(ball_alone, more, halves), 1_000


def choices() -> Iterator[Row]:
    """Clusters, and settings that are chosen by scores."""
    ball, start = riemdp.Ball(np.zeros(1), 2.0), np.array([[-1.0], [1.0]])
    alone = among([1e6], 8, [np.nan])  # the others are in no cluster

    def centres(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_k_means(LINE, x, start, ball, BUDGET, rounds=2, rng=rng)
        both = np.sum(release.details["answers"], axis=0)  # of sums, then of sizes
        return dataclasses.replace(release, value=both @ [1.0, 1.0, -1.0, 1.0])

    title = "private_k_means, two rounds, a record changes its cluster, Euclidean(1)"
    yield title, through(centres, alone, -alone), 2_000

    def fits(records: Any, rng: Any) -> Any:
        X, y = (np.roll(each, 1, axis=0) for each in records)  # the first one is held out
        found = searched((X, y), rng)
        best = found.best_estimator_
        return number(0.0 if best is None else seen_of_classes(best.release_), found.guarantee_)

    title = "PrivateSearchCV, a record of the fits changes sides and its label"
    yield title, through(fits, *sides()), 2_000

    def scores(records: Any, rng: Any) -> Any:
        found = searched(records, rng)
        return number(0.5 if found.best_score_ is None else found.best_score_, found.guarantee_)

    y = np.arange(80) % 2
    X = np.where(y[:, None, None] == 0, np.diag([3.0, 1 / 3.0]), np.diag([1 / 3.0, 3.0]))
    wrong = np.where(np.arange(80) == 5, 1 - y, y)  # of a held-out record, which is told right
    title = "PrivateSearchCV, its score, a held-out record changes its label"
    yield title, through(scores, (X, y), (X, wrong)), 500


def searched(records: Any, rng: Any) -> riemdp.PrivateSearchCV:
    """A search among two settings that are the same."""
    classifier = riemdp.PrivateTSClassifier(metric="logeuclid", labels="private", classes=[0, 1])
    grid = {"ball": [riemdp.Ball(EYE, 1.0)] * 2}
    kind = functools.partial(riemdp.PrivateSearchCV, classifier, grid, runs=2)
    return seeded(kind, rng).fit(*records)


def _with_public_prior() -> Row:
    """One of eight records is far out: few enough for one stage, whose noisy mean is looked at
    along the far record.
    """
    space = riemdp.Euclidean(3)
    prior = riemdp.PublicPrior(space, np.random.default_rng(SEED).normal(size=(200, 3)))
    far, away = (among(side * 1e6 * np.ones(3), 8, prior.center) for side in (1.0, -1.0))
    along = prior.shape_of(0.5).seen(far[:1])[0][0]
    along /= np.linalg.norm(along)

    def in_its_shape(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_frechet_mean(space, x, prior, BUDGET, rng=rng)
        return dataclasses.replace(release, value=along @ release.details["answers"][0])

    title = "private_frechet_mean, public prior, Euclidean(3)"
    return title, through(in_its_shape, far, away), 2_000


def tests_and_curves() -> Iterator[Row]:
    """A curve, comparisons of samples, and a test of released means."""
    matrices = riemdp.SPDAffineInvariant(3)

    def curve(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_geodesic_regression(
            LINE, x, [1.0] * len(x), BALL, BUDGET, t_range=(-1.0, 1.0), rng=rng
        )
        (noisy,) = release.details["answers"]  # of (t, 1) / sqrt(2) and the point
        moments = np.asarray(matrices.from_coordinates(np.eye(3), noisy))
        return dataclasses.replace(release, value=moments[0, 2] + moments[1, 2])

    yield "private_geodesic_regression, Euclidean(1)", through(curve, FAR, -FAR), 4_000
    others = np.full((8, 1), -1.0)

    def test(x: Any, rng: Any) -> Any:
        given = {"mechanism": "wrapped-gaussian", "rng": rng}
        released = [
            riemdp.private_frechet_mean(LINE, group, BALL, BUDGET, **given) for group in (x, others)
        ]
        p = riemdp.two_sample_test(*released).p_value
        return number(-np.log(p), released[0].guarantee)

    yield "two_sample_test, its p-value, Euclidean(1)", through(test, FAR, -FAR), 1_000

    def comparison(x: Any, rng: Any) -> Any:
        both, samples = np.concatenate([x, others]), np.repeat([0, 1], 8)
        made = riemdp.private_comparison(LINE, both, BALL, BUDGET, samples=samples, rng=rng)
        return dataclasses.replace(made.release, value=made.release.details["answers"][0])

    yield "private_comparison, Euclidean(1)", through(comparison, FAR, -FAR), 2_000

    def pairs(x: Any, rng: Any) -> Any:
        made = riemdp.private_paired_samples(LINE, -x, x, BALL, BUDGET, rng=rng)
        return dataclasses.replace(made.release, value=made.release.details["answers"][0])

    title = "private_paired_samples, both records of a pair change sides, Euclidean(1)"
    yield title, through(pairs, FAR, -FAR), 2_000


# ------------------------------------------------------------------ estimators
def components(x: Any, rng: Any, groups: Any) -> Any:
    """A fit of all components of a plane, from which an attacker adds up the noisy matrix."""
    fitted = seeded(riemdp.PrivatePCA, rng, n_components=2, row_norm=1.0).fit(x, groups=groups)
    rows = fitted.components_
    matrix = rows.T @ np.diag(fitted.explained_variance_) @ rows
    return number(matrix[0, 0] - matrix[1, 1], fitted.guarantee_)


def geodesics(x: Any, rng: Any, groups: Any = None, of_mean: float = 4.0) -> Any:
    """A fit in a plane; an attacker adds up `of_mean` times the mean, and the covariance."""
    plane, disk = riemdp.Euclidean(2), riemdp.Ball(np.zeros(2), 1.0)
    fitted = seeded(riemdp.PrivatePGA, rng, manifold=plane, ball=disk).fit(x, groups=groups)
    value, mean = fitted.releases_["covariance"].value, np.asarray(fitted.mean_)
    seen = of_mean * (mean[0] - mean[1]) + value[0, 0] - value[1, 1]
    return number(seen, fitted.guarantee_)


def centre(x: Any, rng: Any, groups: Any) -> Any:
    """A fit of one domain."""
    fitted = seeded(riemdp.PrivateTLCenter, rng, **ON_MATRICES).fit(x, groups=groups)
    return number(np.log(fitted.centers_[""][0, 0]), fitted.guarantee_)


def stretched(x: Any, rng: Any) -> Any:
    """A fit of one domain; an attacker adds up the mean and, with more weight, the dispersion less
    that of records that are all at the centre.
    """
    fitted = seeded(riemdp.PrivateTLScale, rng, **ON_MATRICES).fit(x)
    _, dispersion = fitted.releases_[""]
    mean = np.asarray(fitted.manifold_.log(EYE, fitted.centers_[""]))
    spread = dispersion.observation.coordinates[0] - np.sum(mean**2)
    return number(0.75 * mean[0, 0] + spread, fitted.guarantee_)


def rotated(records: Any, rng: Any) -> Any:
    """A fit of two domains, of which the attacked record is in the first."""
    X, y = records
    fitted = seeded(functools.partial(riemdp.PrivateTLRotate, "a"), rng, **SECRET)
    fitted.fit(X, y, domains=np.repeat(["a", "b"], len(y) // 2))
    return number(seen_of_classes(fitted.releases_["a"]), fitted.guarantee_)


def class_means(records: Any, rng: Any, groups: Any) -> Any:
    """A fit with private labels."""
    fitted = seeded(riemdp.PrivateMDM, rng, **SECRET).fit(*records, groups=groups)
    return number(seen_of_classes(fitted.release_), fitted.guarantee_)


def seen_of_classes(release: riemdp.Release) -> float:
    """An attacker adds up the class sums along one direction, and the difference of the class
    sizes.
    """
    space = riemdp.SPDLogEuclidean(2)
    direction = np.asarray(space.to_coordinates(EYE, np.diag([1.0, -1.0])))
    sizes = np.array(release.details["sizes"])
    sums = sizes @ (release.details["coordinates"] @ direction) / np.sqrt(2.0)
    return float(sums + sizes[0] - sizes[1])


def classifier(records: Any, rng: Any, groups: Any = None) -> Any:
    """A fit with private labels, about 200 people or records; an attacker adds up the class
    sums along one direction, and half of the difference of the class sizes.
    """
    fitted = seeded(riemdp.PrivateTSClassifier, rng, **SECRET).fit(*records, groups=groups)
    direction = np.asarray(fitted.manifold_.to_coordinates(EYE, np.diag([1.0, -1.0])))
    details = fitted.release_.details
    sums = 100 * details["coordinates"].sum(axis=0) @ direction / np.sqrt(2.0)
    return number(sums + (details["sizes"][0] - details["sizes"][1]) / 2, fitted.guarantee_)


@functools.cache
def prior() -> riemdp.PublicPrior:
    """Public matrices of two classes."""
    factors = np.random.default_rng(0).normal(size=(200, 2, 20))
    factors[100:, 0] *= 2.0
    matrices = factors @ factors.transpose(0, 2, 1) / 20
    return riemdp.PublicPrior(riemdp.SPDLogEuclidean(2), matrices, np.arange(200) // 100)


def with_prior(records: Any, rng: Any) -> Any:
    """A fit with public labels; an attacker projects its contrasts on what the record changes."""
    made = Sums.PriorClassifier(prior(), [0, 1], n=60, budget=BUDGET, sizes=[20, 40])
    there, here = (made.sums.joint(made._admit(x).X, x[1]) for x in across())
    given = {"metric": "logeuclid", "ball": prior()}
    fitted = seeded(riemdp.PrivateTSClassifier, rng, **given).fit(*records)
    (answer,) = fitted.release_.details["answers"]
    return number(answer @ (there - here), fitted.guarantee_)


def regression(records: Any, rng: Any, groups: Any = None) -> Any:
    """A fit of ages; an attacker projects the noisy moments on what the first record changes."""
    kind = functools.partial(riemdp.PrivateTSRegressor, (20.0, 80.0))
    fitted = seeded(kind, rng, **ON_MATRICES).fit(*records, groups=groups)
    of_vector, of_one = Sums.weights(3)
    moments = []
    for X, y in ages():
        z = np.asarray(fitted.manifold_.to_coordinates(EYE, fitted.manifold_.log(EYE, X[0])))
        row = [*(of_vector * z / np.linalg.norm(z)), of_one, (y[0] - 50.0) / 30.0 / np.sqrt(2.0)]
        moments.append(Sums.second_moment(np.array([row])))
    (answer,) = fitted.release_.details["answers"]
    return number(answer @ (moments[0] - moments[1]), fitted.guarantee_)


def sides() -> tuple[Any, Any]:
    """Matrices with a label each: the first is far out on one side in class 0, or on the other in
    class 1.
    """
    labels = np.arange(200) % 2
    other = np.concatenate([[1], labels[1:]])
    return (among(ONE_SIDE, 200, EYE), labels), (among(OTHER_SIDE, 200, EYE), other)


def across() -> tuple[Any, Any]:
    """Matrices with a label each: the first, of the smaller class, is far out on one side or on the
    other.
    """
    labels = np.minimum(np.arange(60) // 20, 1)
    return (among(ONE_SIDE, 60, EYE), labels), (among(OTHER_SIDE, 60, EYE), labels)


def ages(n: int = 60, own: int = 1) -> tuple[Any, Any]:
    """Matrices with an age each: the first are far out with the largest age, or far out in a
    direction that changes the most, with the smallest.
    """
    of_vector, of_one = Sums.weights(3)
    turn = np.arccos((0.5 - of_one**2) / of_vector**2)
    space, found = riemdp.SPDLogEuclidean(2), []
    for angle, age in ((0.0, 80.0), (turn, 20.0)):
        along = 9.0 * np.array([np.cos(angle), np.sin(angle), 0.0])
        far = space.exp(EYE, space.from_coordinates(EYE, along))
        found.append((among(far, n, EYE, own), among(age, n, 50.0, own)))
    return found[0], found[1]


def estimators() -> Iterator[Row]:
    """Records that change."""
    out, at_centre = among(np.diag([1e6, 1.0]), 8, EYE), among(EYE, 8, EYE)
    for title, fit, pair in (
        ("PrivatePGA, mean and covariance, Euclidean(2)", geodesics, (ALONG, ACROSS)),
        (
            "PrivateTSClassifier, a record changes sides and its label, SPD(2)",
            classifier,
            sides(),
        ),
        (
            "PrivateTSClassifier, a prior, a record of the smaller class changes sides, SPD(2)",
            with_prior,
            across(),
        ),
        (
            "PrivateTSRegressor, a record changes its matrix and its target, SPD(2)",
            regression,
            ages(),
        ),
        ("PrivateTLScale, mean and dispersion of a domain, SPD(2)", stretched, (out, at_centre)),
        ("PrivateTLRotate, a record changes sides and its label, SPD(2)", rotated, sides()),
    ):
        yield title, through(fit, *pair), 500


WHO = np.repeat(np.arange(8), [43, *[1] * 7])  # one person with most of the records


def of_people() -> dict[str, tuple[Callable[..., Any], Any, Any]]:
    """Estimator -> function of (records, rng), records, their neighbour: eight or 200 people, of
    whom one has 43 records, all far out on one side or all on the other.
    """
    whose = np.repeat(np.arange(200), [43, *[1] * 199])
    plane = among([1e6, 0.0], 50, [0.0, 0.0], 43), among([0.0, 1e6], 50, [0.0, 0.0], 43)
    wide = among(np.diag([1e6, 1.0]), 50, EYE, 43), among(np.diag([1e-6, 1.0]), 50, EYE, 43)
    labels = np.concatenate([np.zeros(43, int), np.arange(199) % 2])
    there, here = among(ONE_SIDE, 242, EYE, 43), among(OTHER_SIDE, 242, EYE, 43)
    both = (there, labels), (here, np.where(whose, labels, 1))
    eight = functools.partial(functools.partial, groups=WHO)
    many = functools.partial(functools.partial, groups=whose)
    return {
        "PrivatePCA": (eight(components), *plane),
        "PrivatePGA": (eight(geodesics), *plane),
        "PrivateTLCenter": (eight(centre), *wide),
        "PrivateTSRegressor": (many(regression), *ages(242, 43)),
        "PrivateTSClassifier": (many(classifier), *both),
        "PrivateMDM": (many(class_means), *both),
    }


def people() -> Iterator[Row]:
    """A person who has most of the records."""
    theirs = among([1e6], 50, [0.0], 43)

    def of_means(x: Any, rng: Any) -> riemdp.Release:
        given = {"mechanism": "wrapped-gaussian", "groups": WHO, "rng": rng}
        return riemdp.private_frechet_mean(LINE, x, BALL, BUDGET, **given)

    title = "private_frechet_mean, groups, all 43 records of one person, Euclidean(1)"
    yield title, through(of_means, theirs, -theirs), 1_000
    for estimator, attacked in of_people().items():
        title = f"{estimator}, groups, all 43 records of one person"
        yield title, through(*attacked), 300


# ------------------------------------------------------------------ sites
def sites() -> Iterator[Row]:
    """A site's own release, and one question of a search over three sites that share their noise,
    of which one is tolerated: what the server, with and without a site on its side, and an outsider
    can see.
    """
    problem, local = riemdp.problems.frechet_mean(LINE), DPRGD(4, 0.01, 1.0)
    prirfed = riemdp.PriRFed(problem, local, rounds=1, agents_per_round=1)

    def agent(x: Any, rng: Any) -> Any:
        done = Sites.updated(prirfed, x, np.zeros(1), 0.25, Gradients.Account(), rng=rng)
        return number(done.value[0], done.guarantee)

    yield "an agent's round, DPRGD, Euclidean(1)", through(agent, FAR, -FAR), 500
    for who in ("the server sees the sum", "the server and one site", "an outsider sees the words"):
        yield f"a sum over sites, {who}", sum_over_sites(who), 4_000


def sum_over_sites(who: str, *, forgetful: int = 0, bare: bool = False) -> Audit:
    """One record of the first site is as far to one side as it can be, or to the other. The site on
    the server's side keeps its noise out. Planted: so many sites forget their noise, or no site has
    masks.
    """
    names, domain = ("a", "b", "c"), SEARCH.on(LINE)
    noise = Searches.NoiseOfSites(BUDGET, len(names), 1)
    ask = Searches.Ask("tangents", 1.0, np.zeros(1), 1.0)
    plan = noise.shared(ask, 1)
    keys = {name: Masks.Keys.new(name) for name in names}
    agreed = {name: key.long_term for name, key in keys.items()}
    roster = Masks.Roster.of(None, agreed, {n: k.fresh for n, k in keys.items()}, least=noise.least)
    numbers = itertools.count()

    @functools.cache
    def exact(first: float) -> np.ndarray:  # in steps of the grid
        records = np.array([[first], [0.0]])
        return Searches.SearchSite(domain, records, noise, riemdp.noise_source(0))._exact(ask)

    def release(x: Any, rng: Any) -> Any:
        question = Masks.Question("ab" * 32, next(numbers), roster, b"")
        silent = {"c"} if who == "the server and one site" else set()
        silent |= set(("b", "a")[:forgetful])
        words = {}
        for name in names:
            steps = exact(float(x[0])) if name == "a" else np.zeros(1, np.int64)
            steps = steps if name in silent else noise.noisy(steps, ask, rng)
            words[name] = (
                steps.view(np.uint64) if bare else Masks.masked(steps, keys[name], question)
            )
        seen = Masks.total([words["a"]] if who == "an outsider sees the words" else words.values())
        value = np.ldexp(seen.astype(np.float64), plan.exponent)
        return number(value[0], noise.guarantee)

    return through(release, np.array([1e6]), np.array([-1e6]))


# ------------------------------------------------------------------ one run
def one_run() -> Iterator[tuple[str, Callable[[], OneRunAudit]]]:
    """Audits of a single release or run, by canaries: (row title, audit)."""
    spaces = (
        riemdp.Euclidean(500),
        riemdp.SPDLogEuclidean(20),
        riemdp.Lorentz(200),
        riemdp.Sphere(200),
    )
    kinds = "wrapped-gaussian", "tangent-mean", "wrapped-laplace", "riemannian-laplace"
    for space, name in itertools.product(spaces, kinds):
        yield f"private_frechet_mean, {name}, {space!r}", canaries_of_a_mean(space, name)
    some = functools.partial(DPRSGD, 10, 200, 0.01, 1.0)
    for title, optimizer, noise_std in (
        ("DPRGD", DPRGD(10, 0.01, 1.0), 2.0 / 1000 * 10**0.5),
        ("DPRSGD, batch 200 of 1000", some(), 1.25 * 2 / 200),
        ("DPRSGD, Poisson, batch 200 of 1000", some(sampling="poisson"), 1.25 / 200),
        ("DPRSGD, allocation, batch 200 of 1000", some(sampling="allocation"), 1.0 / 200),
        ("DPRSVRG, anchored", DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0), 2.0 / 1000),
    ):
        given = {"noise_std": noise_std, "canaries": 1000, "rng": SEED}
        audit = functools.partial(audit_optimizer_in_one_run, optimizer, **given)
        yield f"{title}, Euclidean(1000)", audit


def canaries_of_a_mean(space: Any, name: str) -> Callable[[], OneRunAudit]:
    """Each record on an axis of its own, on one side of the centre or on the other."""
    center, axes = space.origin, space.from_coordinates(space.origin, 0.5 * np.eye(space.dim))
    there, here = (np.asarray(space.exp(center, side * axes)) for side in (1.0, -1.0))

    def score(value: Any) -> Any:
        return space.to_coordinates(center, space.log(center, value))

    def release(coins: Any, rng: Any) -> riemdp.Release:
        records = np.where(coins.reshape(-1, *(1 for _ in space.shape)), there, here)
        return mean(records, rng, riemdp.Ball(center, 0.6), name, space)

    title = f"private_frechet_mean, {name}, {space!r}"
    given = {"canaries": space.dim, "rng": SEED, "name": title}
    return functools.partial(audit_in_one_run, release, score, **given)
