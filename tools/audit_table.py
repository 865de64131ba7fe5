"""`make audit`: attack every mechanism and optimiser, and write docs/evidence/audit.md with bounds
and claims.

One row for each entry of `mechanisms()`, `optimisers()` and `front_door()`; a new mechanism is
audited by adding its entry. A row that is refuted makes the script fail, and so does a fault of
`planted()` that is not. `--quick` runs fewer trials (for a test that the script works, not for a
result), and no planted faults.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import Budget
from riemdp.audit import (
    AuditResult,
    OneRunAudit,
    audit_in_one_run,
    audit_mechanism,
    audit_optimizer,
    audit_optimizer_in_one_run,
)
from riemdp.domains import Domain, Frame
from riemdp.randomness import NoiseSource

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.audit.edges import (
    along_the_iterate,
    class_of_a_matrix,
    class_of_a_vector,
    off_manifold,
    outside_the_ball,
)
from tests.seam import Gradients, Masks, Noise, Searches, Sites, Sums, original, plant

EPSILON = 4.0  # large enough for thousands of trials to come near the claim
BUDGET = Budget(EPSILON, 1e-5)
SEED = 20_240_601  # the pairs attacked are made up; the seed makes the page reproducible
Audit = Callable[[int], AuditResult]


def mechanisms() -> Iterator[tuple[str, Audit]]:
    """(row title, audit with so many trials): the pair is a full sensitivity apart."""
    flat, spd, hyperbolic = riemdp.Euclidean(3), riemdp.SPDLogEuclidean(2), riemdp.Lorentz(3)
    for manifold in (flat, spd, hyperbolic, riemdp.Sphere(3)):
        origin = manifold.origin
        far = manifold.exp(origin, manifold.from_coordinates(origin, _unit(manifold.dim)))
        ball = None if manifold.is_hadamard else riemdp.Ball(origin, 0.5)
        reach = 1.0 if ball is None else 0.5
        inside = (
            far
            if ball is None
            else manifold.exp(
                origin, manifold.from_coordinates(origin, reach * _unit(manifold.dim))
            )
        )
        tangent = manifold.from_coordinates(origin, _unit(manifold.dim))
        zero = manifold.from_coordinates(origin, 0 * _unit(manifold.dim))
        yield (
            f"TangentGaussian, {manifold!r}",
            _attack(
                riemdp.TangentGaussian(manifold, origin, sensitivity=1.0, budget=BUDGET),
                tangent,
                zero,
            ),
        )
        yield (
            f"WrappedGaussian, {manifold!r}",
            _attack(
                riemdp.WrappedGaussian(
                    manifold, origin, sensitivity=reach, budget=BUDGET, ball=ball
                ),
                inside,
                origin,
            ),
        )
        yield (
            f"WrappedLaplace, {manifold!r}",
            _attack(
                riemdp.WrappedLaplace(
                    manifold, origin, sensitivity=reach, epsilon=EPSILON, ball=ball
                ),
                inside,
                origin,
            ),
        )
        small = (
            0.3 if manifold is hyperbolic else reach
        )  # the Laplace law of H^2 exists for s < 1 only
        near = manifold.exp(origin, manifold.from_coordinates(origin, small * _unit(manifold.dim)))
        yield (
            f"RiemannianLaplace, {manifold!r}",
            _attack(
                riemdp.RiemannianLaplace(manifold, sensitivity=small, epsilon=EPSILON), near, origin
            ),
        )
    yield (
        "ExtrinsicGaussian, Sphere(3)",
        _attack(
            riemdp.ExtrinsicGaussian(riemdp.Sphere(3), sensitivity=2.0, budget=BUDGET),
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, 0.0, -1.0]),
        ),
    )
    yield (
        "ExtrinsicLaplace, Sphere(3)",
        _attack(
            riemdp.ExtrinsicLaplace(riemdp.Sphere(3), sensitivity=2.0, epsilon=EPSILON),
            np.array([0.0, 0.0, 1.0]),
            np.array([0.0, 0.0, -1.0]),
        ),
    )
    yield "KNormGradient, Euclidean(2), mean of 2 records", _k_norm


def optimisers() -> Iterator[tuple[str, Audit]]:
    steps = 10
    full = {
        "noise_std": 0.1 * steps**0.5
    }  # n = 20, clip 1: noise multiplier sqrt(steps), total mu = 1
    for manifold in (riemdp.Euclidean(2), riemdp.Lorentz(3)):
        yield f"DPRGD, {manifold!r}", _run(riemdp.DPRGD(steps, 0.01, 1.0), manifold, **full)
        yield (
            f"DPRSGD, batch 4 of 20, {manifold!r}",
            _run(riemdp.DPRSGD(steps, 4, 0.01, 1.0), manifold, noise_std=0.5),
        )
        yield (
            f"DPRSGD, Poisson, batch 4 of 20, {manifold!r}",
            _run(riemdp.DPRSGD(steps, 4, 0.01, 1.0, sampling="poisson"), manifold, noise_std=0.25),
        )
        yield (
            f"DPRSGD, allocation, batch 4 of 20, {manifold!r}",
            _run(
                riemdp.DPRSGD(steps, 4, 0.01, 1.0, sampling="allocation"), manifold, noise_std=0.25
            ),
        )
        for variant in ("anchored", "as-published"):
            yield (
                f"DPRSVRG, {variant}, {manifold!r}",
                _run(
                    riemdp.DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0, variant=variant),
                    manifold,
                    noise_std=0.1 if variant == "anchored" else 3.0,
                ),
            )
        yield (
            f"DPRSVRG, anchored, Hessians in [0.5, 1], {manifold!r}",
            _run(
                riemdp.DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0, convexity=0.5),
                manifold,
                noise_std=0.1,
            ),
        )
    sphere = riemdp.Sphere(3)
    for attack, optimizer, noise_std in (
        (off_manifold, riemdp.DPRGD(1, 1e-3, 1.0), 0.03),
        (off_manifold, riemdp.DPRSVRG(1, 1, 1e-3, 1.0), 0.03),
        (along_the_iterate, riemdp.DPRGD(1, 0.05, 1.0, update="retract"), 0.1),
        (outside_the_ball, riemdp.DPRGD(1, 0.01, sensitivity="domain"), 0.03),
    ):
        where = f"start or record at an edge ({attack.__name__})"
        title = f"{type(optimizer).__name__}, {where}, {sphere!r}"
        yield title, _run(optimizer, sphere, noise_std, attack)
    network = {"optimizer": riemdp.DPRGD(2, 0.01, 1.0), "noise_std": 0.1 * 2**0.5}
    for title, problem, attack in (
        ("problems.spdnet", riemdp.problems.spdnet((2, 2), 2), class_of_a_matrix),
        (
            "problems.hyperbolic_prototypes",
            riemdp.problems.hyperbolic_prototypes(1, 3, 2),
            class_of_a_vector,
        ),
    ):
        title = f"{title}, a record changes its class, DPRGD"
        yield title, _run(manifold=problem.manifold, attack=attack, **network)


def front_door() -> Iterator[tuple[str, Audit, int]]:
    """What users call, as shipped: (row title, audit, trials). One of eight records is far out, on
    one side or the other.
    """
    line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
    far = np.zeros((8, 1))
    far[0] = 1e6
    for name, trials in (
        ("wrapped-gaussian", 4_000),
        ("wrapped-laplace", 4_000),
        ("riemannian-laplace", 4_000),
        ("k-norm-gradient", 1_000),
        ("extrinsic-gaussian", 4_000),
        ("dp-rgd", 500),
    ):

        def mean(x: Any, rng: Any, name: str = name) -> riemdp.Release:
            return _as_drawn(
                riemdp.private_frechet_mean(line, x, ball, BUDGET, mechanism=name, rng=rng)
            )

        yield f"private_frechet_mean, {name}, Euclidean(1)", _through(mean, far, -far), trials

    spd = riemdp.SPDAffineInvariant(2)
    out = np.tile(np.eye(2), (8, 1, 1))
    away = out.copy()
    at_centre = out.copy()
    out[0], away[0] = np.diag([1e6, 1.0]), np.diag([1e-6, 1.0])

    def spd_mean(x: Any, rng: Any) -> riemdp.Release:
        where = riemdp.Ball(np.eye(2), 1.0)
        return _as_drawn(
            riemdp.private_frechet_mean(
                spd, x, where, BUDGET, mechanism="wrapped-gaussian", rng=rng
            )
        )

    yield "private_frechet_mean, wrapped-gaussian, SPD(2)", _through(spd_mean, out, away), 1_000

    def variance(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_frechet_variance(line, x, ball, BUDGET, rng=rng)

    yield "private_frechet_variance, Euclidean(1)", _through(variance, far, 0.0 * far), 4_000

    scattered = np.zeros((8, 3))  # the others are no points, and count as 0
    scattered[0] = [1.0, 0.0, 0.0]

    def direction(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_mean_direction(riemdp.Sphere(3), x, BUDGET, rng=rng)
        return dataclasses.replace(release, value=release.details["moment"])

    yield "private_mean_direction, Sphere(3)", _through(direction, scattered, -scattered), 4_000

    def curve(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_geodesic_regression(
            line, x, [1.0] * len(x), ball, BUDGET, t_range=(-1.0, 1.0), rng=rng
        )
        (noisy,) = release.details["answers"]  # of (t, 1) / sqrt(2) and the point
        moments = np.asarray(matrices.from_coordinates(np.eye(3), noisy))
        return dataclasses.replace(release, value=moments[0, 2] + moments[1, 2])

    matrices = riemdp.SPDAffineInvariant(3)
    yield "private_geodesic_regression, Euclidean(1)", _through(curve, far, -far), 4_000

    yield from _more_of_people_and_spread(far)
    yield _with_public_prior()

    about_zero = riemdp.AdaptiveBall(riemdp.Ball(np.zeros(1), 1.0), smallest=0.5)
    several = np.full((40, 1), np.nan)  # the others pull in no direction
    several[0] = 1e6

    def median(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_geometric_median(line, x, budget=BUDGET, ball=about_zero, rng=rng)

    yield "private_geometric_median, Euclidean(1)", _through(median, several, -several), 1_000

    title = "PrivateTSClassifier, a record changes sides and its label, SPD(2)"
    yield title, _through(_classifier, *_sides()), 500
    title = "PrivateTSClassifier, a prior, a record of the smaller class changes sides, SPD(2)"
    yield title, _through(_with_prior, *_across()), 500
    title = "PrivateTSRegressor, a record changes its matrix and its target, SPD(2)"
    yield title, _through(_regression, *_ages()), 500
    title = "PrivateTLScale, mean and dispersion of a domain, SPD(2)"
    yield title, _through(_stretched, out, at_centre), 500
    title = "PrivateTLRotate, a record changes sides and its label, SPD(2)"
    yield title, _through(_rotated, *_sides()), 500

    prirfed = riemdp.PriRFed(
        riemdp.problems.frechet_mean(line),
        riemdp.DPRGD(4, 0.01, 1.0),
        rounds=1,
        agents_per_round=1,
    )

    def agent(x: Any, rng: Any) -> Any:
        done = Sites.updated(prirfed, x, np.zeros(1), 0.25, Gradients.Account(), rng=rng)
        return SimpleNamespace(
            value=done.value, guarantee=done.guarantee, mechanism="an agent's reply"
        )

    yield "an agent's round, DPRGD, Euclidean(1)", _through(agent, far, -far), 500

    many = np.zeros((60, 1))
    many[0] = 1e6

    search = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(1), 100.0))

    def without_a_ball(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_frechet_mean(line, x, search, BUDGET, rng=rng)

    title = "private_frechet_mean, private ball, Euclidean(1)"
    yield title, _through(without_a_ball, many, -many), 1_000

    def ball_alone(x: Any, rng: Any) -> riemdp.Release:
        found = riemdp.private_ball(line, x, search, BUDGET, rng=rng)
        return dataclasses.replace(found, value=np.array([found.value.radius]))

    halves = np.repeat([[0.0], [1.0]], 30, axis=0)
    more = np.concatenate([halves[1:], [[1e6]]])
    yield "private_ball, its radius, Euclidean(1)", _through(ball_alone, more, halves), 1_000


def _with_public_prior() -> tuple[str, Audit, int]:
    """One of eight records is far out: few enough for one stage, whose noisy mean is looked at
    along the far record.
    """
    space = riemdp.Euclidean(3)
    prior = riemdp.PublicPrior(space, np.random.default_rng(SEED).normal(size=(200, 3)))
    far = np.tile(np.asarray(prior.center), (8, 1))
    away = far.copy()
    far[0], away[0] = 1e6 * np.ones(3), -1e6 * np.ones(3)
    along = prior.shape_of(0.5).seen(far[:1])[0][0]
    along /= np.linalg.norm(along)

    def mean(x: Any, rng: Any) -> riemdp.Release:
        release = riemdp.private_frechet_mean(space, x, prior, BUDGET, rng=rng)
        return dataclasses.replace(release, value=along @ release.details["answers"][0])

    return "private_frechet_mean, public prior, Euclidean(3)", _through(mean, far, away), 2_000


def _more_of_people_and_spread(far: np.ndarray) -> Iterator[tuple[str, Audit, int]]:
    """The front doors of principal geodesics, of people and of a test."""
    line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)

    along, across = np.zeros((8, 2)), np.zeros((8, 2))
    along[0, 0] = across[0, 1] = 1e6
    title = "PrivatePGA, mean and covariance, Euclidean(2)"
    yield title, _through(_geodesics, along, across), 500

    theirs = np.zeros((50, 1))
    theirs[:43] = 1e6

    def of_people(x: Any, rng: Any) -> riemdp.Release:
        return riemdp.private_frechet_mean(
            line, x, ball, BUDGET, mechanism="wrapped-gaussian", groups=WHO, rng=rng
        )

    title = "private_frechet_mean, groups, all 43 records of one person, Euclidean(1)"
    yield title, _through(of_people, theirs, -theirs), 1_000

    def test(x: Any, rng: Any) -> Any:
        means = [
            riemdp.private_frechet_mean(
                line, group, ball, BUDGET, mechanism="wrapped-gaussian", rng=rng
            )
            for group in (x, np.full((8, 1), -1.0))
        ]
        p = riemdp.two_sample_test(*means).p_value
        return _number(-np.log(p), means[0].guarantee)

    yield "two_sample_test, its p-value, Euclidean(1)", _through(test, far, -far), 1_000

    def comparison(x: Any, rng: Any) -> Any:
        both, samples = np.concatenate([x, np.full((8, 1), -1.0)]), np.repeat([0, 1], 8)
        made = riemdp.private_comparison(line, both, ball, BUDGET, samples=samples, rng=rng).release
        assert isinstance(made, riemdp.Release)
        return dataclasses.replace(made, value=made.details["answers"][0])

    yield "private_comparison, Euclidean(1)", _through(comparison, far, -far), 2_000

    def pairs(x: Any, rng: Any) -> Any:
        made = riemdp.private_paired_samples(line, -x, x, ball, BUDGET, rng=rng).release
        return dataclasses.replace(made, value=made.details["answers"][0])

    title = "private_paired_samples, both records of a pair change sides, Euclidean(1)"
    yield title, _through(pairs, far, -far), 2_000

    for estimator, attack, one, other in _estimators_of_people():
        title = f"{estimator}, groups, all 43 records of one person"
        yield title, _through(attack, one, other), 300


WHO = np.repeat(np.arange(8), [43, *[1] * 7])  # one person with most of the records


def _estimators_of_people() -> Iterator[tuple[str, Callable[..., Any], Any, Any]]:
    """(estimator, function of (records, rng), records, their neighbour): eight people, of whom one
    has 43 records, all far out on one side or all on the other.
    """
    along, across = np.zeros((50, 2)), np.zeros((50, 2))
    along[:43, 0] = across[:43, 1] = 1e6
    yield "PrivatePCA", _components, along, across
    yield "PrivatePGA", lambda x, rng: _geodesics(x, rng, groups=WHO), along, across
    wide, narrow = np.tile(np.eye(2), (50, 1, 1)), np.tile(np.eye(2), (50, 1, 1))
    wide[:43], narrow[:43] = np.diag([1e6, 1.0]), np.diag([1e-6, 1.0])
    yield "PrivateTLCenter", _centre, wide, narrow
    labels = np.concatenate([np.zeros(43, int), np.arange(199) % 2])
    there, here = np.tile(np.eye(2), (242, 1, 1)), np.tile(np.eye(2), (242, 1, 1))
    there[:43], here[:43] = np.diag([1e6, 1e-6]), np.diag([1e-6, 1e6])
    theirs = np.repeat(np.arange(200), [43, *[1] * 199])

    def classes(records: Any, rng: Any) -> Any:
        return _classifier(records, rng, groups=theirs)

    ages = tuple((x, np.where(theirs, 50.0, y[0])) for x, y in _ages(242, 43))
    yield "PrivateTSRegressor", lambda x, rng: _regression(x, rng, groups=theirs), *ages
    both = (there, labels), (here, np.where(theirs, labels, 1))
    yield "PrivateTSClassifier", classes, *both
    yield "PrivateMDM", lambda x, rng: _class_means(x, rng, theirs), *both


def _components(x: Any, rng: Any, groups: Any = WHO) -> Any:
    """A fit of all components of a plane, from which an attacker adds up the noisy matrix."""
    seed = int(rng.integers(0, 2**31))
    fitted = riemdp.PrivatePCA(n_components=2, budget=BUDGET, row_norm=1.0, random_state=seed)
    fitted.fit(x, groups=groups)
    rows = fitted.components_
    matrix = rows.T @ np.diag(fitted.explained_variance_) @ rows
    return _number(matrix[0, 0] - matrix[1, 1], fitted.guarantee_)


def _centre(x: Any, rng: Any) -> Any:
    """A fit of one domain."""
    fitted = riemdp.PrivateTLCenter(
        metric="logeuclid",
        budget=BUDGET,
        ball=riemdp.Ball(np.eye(2), 1.0),
        random_state=int(rng.integers(0, 2**31)),
    ).fit(x, groups=WHO)
    return _number(np.log(fitted.centers_[""][0, 0]), fitted.guarantee_)


def _geodesics(x: Any, rng: Any, groups: Any = None, of_mean: float = 4.0) -> Any:
    """A fit in a plane; an attacker adds up `of_mean` times the mean, and the covariance."""
    fitted = riemdp.PrivatePGA(
        manifold=riemdp.Euclidean(2),
        budget=BUDGET,
        ball=riemdp.Ball(np.zeros(2), 1.0),
        random_state=int(rng.integers(0, 2**31)),
    )
    value = fitted.fit(x, groups=groups).releases_["covariance"].value
    mean = np.asarray(fitted.mean_)
    seen = of_mean * (mean[0] - mean[1]) + value[0, 0] - value[1, 1]
    return _number(seen, fitted.guarantee_)


def _number(value: Any, guarantee: riemdp.Guarantee) -> Any:
    """One number that an attacker makes of what was released."""
    return SimpleNamespace(
        value=np.array([float(value)]), guarantee=guarantee, mechanism="what was released"
    )


class _LittleNoise(NoiseSource):
    """A planted fault: a quarter of the noise."""

    def rounded_normals(self, *arguments: Any, **more: Any) -> Any:
        return super().rounded_normals(*arguments, **more) // 4


def one_run() -> Iterator[tuple[str, Callable[[], OneRunAudit]]]:
    """Audits of a single release or run, by canaries: (row title, audit)."""
    for space in (
        riemdp.Euclidean(500),
        riemdp.SPDLogEuclidean(20),
        riemdp.Lorentz(200),
        riemdp.Sphere(200),
    ):
        center, axes = space.origin, 0.5 * np.eye(space.dim)
        sides = [
            np.asarray(space.exp(center, space.from_coordinates(center, side * axes)))
            for side in (1.0, -1.0)
        ]

        def score(value: Any, space: Any = space) -> Any:
            return space.to_coordinates(space.origin, space.log(space.origin, value))

        for name in ("wrapped-gaussian", "tangent-mean", "wrapped-laplace", "riemannian-laplace"):

            def mean(
                coins: Any, rng: Any, space: Any = space, sides: Any = sides, name: str = name
            ) -> riemdp.Release:
                shape = (-1,) + (1,) * (sides[0].ndim - 1)
                records = np.where(coins.reshape(shape), *sides)
                where = riemdp.Ball(space.origin, 0.6)
                return _as_drawn(
                    riemdp.private_frechet_mean(
                        space, records, where, BUDGET, mechanism=name, rng=rng
                    )
                )

            title = f"private_frechet_mean, {name}, {space!r}"
            yield (
                title,
                functools.partial(
                    audit_in_one_run, mean, score, canaries=space.dim, rng=SEED, name=title
                ),
            )
    for title, optimizer, noise_std in (
        ("DPRGD", riemdp.DPRGD(10, 0.01, 1.0), 2.0 / 1000 * 10**0.5),
        ("DPRSGD, batch 200 of 1000", riemdp.DPRSGD(10, 200, 0.01, 1.0), 1.25 * 2 / 200),
        (
            "DPRSGD, Poisson, batch 200 of 1000",
            riemdp.DPRSGD(10, 200, 0.01, 1.0, sampling="poisson"),
            1.25 / 200,
        ),
        (
            "DPRSGD, allocation, batch 200 of 1000",
            riemdp.DPRSGD(10, 200, 0.01, 1.0, sampling="allocation"),
            1.0 / 200,
        ),
        ("DPRSVRG, anchored", riemdp.DPRSVRG(2, 5, 0.01, 1.0, smoothness=1.0), 2.0 / 1000),
    ):
        yield (
            f"{title}, Euclidean(1000)",
            functools.partial(
                audit_optimizer_in_one_run,
                optimizer,
                noise_std=noise_std,
                canaries=1000,
                rng=SEED,
            ),
        )


def sums_over_sites() -> Iterator[tuple[str, Audit, int]]:
    """One question of a search over three sites that share their noise, of which one is tolerated:
    what the server, with and without a site on its side, and an outsider can see.
    """
    for who in ("the server sees the sum", "the server and one site", "an outsider sees the words"):
        yield f"a sum over sites, {who}", _sum_over_sites(who), 4_000


def _sum_over_sites(who: str, *, forgetful: int = 0, bare: bool = False) -> Audit:
    """One record of the first site is as far to one side as it can be, or to the other. The site on
    the server's side keeps its noise out. Planted: so many sites forget their noise, or no site has
    masks.
    """
    line, names = riemdp.Euclidean(1), ("a", "b", "c")
    domain = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(1), 100.0)).on(line)
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
        return SimpleNamespace(value=value, guarantee=noise.guarantee, mechanism="sum over sites")

    return _through(release, np.array([1e6]), np.array([-1e6]))


def planted() -> Iterator[tuple[str, Audit, int]]:
    """The front door with a fault behind it: (row title, audit, trials). Each must be refuted."""
    line, ball = riemdp.Euclidean(1), riemdp.Ball(np.zeros(1), 1.0)
    far = np.zeros((8, 1))
    far[0] = 1e6

    def mean(x: Any, rng: Any, where: riemdp.Ball = ball) -> riemdp.Release:
        return _as_drawn(
            riemdp.private_frechet_mean(
                line, x, where, BUDGET, mechanism="wrapped-gaussian", rng=rng
            )
        )

    fault = _sum_over_sites("the server sees the sum", forgetful=2)
    yield "a sum over sites, the server, two sites forget their noise", fault, 4_000
    fault = _sum_over_sites("the server and one site", forgetful=1)
    yield "a sum over sites, the server and one site, another forgets its noise", fault, 4_000
    fault = _sum_over_sites("an outsider sees the words", bare=True)
    yield "a sum over sites, an outsider, there are no masks", fault, 4_000

    def a_quarter(x: Any, rng: Any) -> riemdp.Release:
        return mean(x, _LittleNoise(int(rng.integers(0, 2**31))))

    yield "a quarter of the noise", _through(a_quarter, far, -far), 1_000

    def not_moved(x: Any, rng: Any) -> riemdp.Release:
        with (
            mock.patch.object(Frame, "clamp_flagged", lambda self, x: (x, np.zeros(len(x), bool))),
            mock.patch.object(Domain, "clamp", lambda self, point: point),
        ):
            return mean(x, rng)

    yield "records are not moved into the ball", _through(not_moved, far, -far), 1_000

    def own_radius(x: Any, rng: Any) -> riemdp.Release:
        return mean(x, rng, riemdp.Ball(np.zeros(1), float(np.max(np.abs(x)))))

    title = "the radius is that of the records"
    yield title, _through(own_radius, 1e-12 * far, 1e-6 * far), 1_000

    def cheap(x: Any, rng: Any) -> Any:
        with mock.patch.object(Sums.ClassMoments, "sensitivity", 0.25):
            return _classifier(x, rng)

    title = "PrivateTSClassifier, its sums are taken to change by an eighth"
    yield title, _through(cheap, *_sides()), 500

    def cheap_contrasts(x: Any, rng: Any) -> Any:
        with mock.patch.object(Sums.ClassContrasts, "factor", 0.125):
            return _with_prior(x, rng)

    title = "PrivateTSClassifier, a prior, contrasts are taken to change by an eighth"
    yield title, _through(cheap_contrasts, *_across()), 500

    def cheap_moments(x: Any, rng: Any) -> Any:
        with mock.patch.object(type(Sums.moments_of(3, 60)), "sensitivity", 2.12 / 60 / 8):
            return _regression(x, rng)

    title = "PrivateTSRegressor, its moments are taken to change by an eighth"
    yield title, _through(cheap_moments, *_ages()), 500

    along, across = np.zeros((8, 2)), np.zeros((8, 2))
    along[0, 0] = across[0, 1] = 1e6

    def about_their_mean(x: Any, rng: Any) -> Any:
        honest = original("covariance of a PGA")

        def covariance(asked: Any, ball: Any, share: Any) -> Any:
            about = riemdp.Ball(np.mean(asked.points, axis=0), ball.radius)
            return honest(asked, about, share)

        with pytest.MonkeyPatch.context() as patch:
            plant(patch, "covariance of a PGA", covariance)
            return _geodesics(x, rng, of_mean=0.0)

    title = "PrivatePGA, the covariance is about the mean of the records"
    yield title, _through(about_their_mean, along, across), 300

    estimators = {title: attacked for title, *attacked in _estimators_of_people()}
    fit, there, here = estimators["PrivateMDM"]

    honest = Sums.Membership.means

    def every_matrix(x: Any, rng: Any) -> Any:
        def sums(members: Any, rows: Any) -> Any:
            return (honest(members, rows).T * members.counts).T

        with mock.patch.object(Sums.Membership, "means", sums):
            return fit(x, rng)

    title = "PrivateMDM, groups, every matrix counts as a person"
    yield title, _through(every_matrix, there, here), 300

    _, one, other = estimators["PrivatePCA"]

    def every_row(x: Any, rng: Any) -> Any:
        with mock.patch.object(Sums.Membership, "shares", 1.0 + 0.0 * WHO):
            return _components(x, rng)

    title = "PrivatePCA, groups, every row counts as a person"
    yield title, _through(every_row, one, other), 300

    many = np.zeros((60, 1))
    many[0] = 1e6

    search = riemdp.AdaptiveBall(outer=riemdp.Ball(np.zeros(1), 100.0))

    def stages_for_nothing(x: Any, rng: Any) -> riemdp.Release:
        with pytest.MonkeyPatch.context() as patch:
            small = lambda noise, sensitivity, dim: Noise.on_grid(0.1, sensitivity, dim)  # noqa: E731
            plant(patch, "scale of a share", small)
            return riemdp.private_frechet_mean(line, x, search, BUDGET, rng=rng)

    title = "private ball, the moves of the centre and the mean are not paid for"
    yield title, _through(stages_for_nothing, many, -many), 1_000


def _sides() -> tuple[Any, Any]:
    """Matrices with a label each: the first is far out on one side in class 0, or on the other in
    class 1.
    """
    there, labels = np.tile(np.eye(2), (200, 1, 1)), np.arange(200) % 2
    here, other = there.copy(), labels.copy()
    there[0], here[0], other[0] = np.diag([1e6, 1e-6]), np.diag([1e-6, 1e6]), 1
    return (there, labels), (here, other)


def _stretched(x: Any, rng: Any) -> Any:
    """A fit of one domain; an attacker adds up the mean and, with more weight, the dispersion less
    that of records that are all at the centre.
    """
    fitted = riemdp.PrivateTLScale(
        metric="logeuclid",
        budget=BUDGET,
        ball=riemdp.Ball(np.eye(2), 1.0),
        random_state=int(rng.integers(0, 2**31)),
    ).fit(x)
    _, dispersion = fitted.releases_[""]
    mean = np.asarray(fitted.manifold_.log(np.eye(2), fitted.centers_[""]))
    spread = dispersion.observation.coordinates[0] - np.sum(mean**2)
    return _number(0.75 * mean[0, 0] + spread, fitted.guarantee_)


def _rotated(records: Any, rng: Any) -> Any:
    """A fit of two domains, of which the attacked record is in the first."""
    X, y = records
    rotate = riemdp.PrivateTLRotate("a", **_private_labels(rng))
    rotate.fit(X, y, domains=np.repeat(["a", "b"], len(y) // 2))
    return _number(_seen_of_classes(rotate.releases_["a"]), rotate.guarantee_)


def _private_labels(rng: Any) -> dict[str, Any]:
    """The arguments of a classifier of these matrices."""
    return {
        "metric": "logeuclid",
        "budget": BUDGET,
        "ball": riemdp.Ball(np.eye(2), 1.0),
        "labels": "private",
        "classes": [0, 1],
        "random_state": int(rng.integers(0, 2**31)),
    }


def _classifier(records: Any, rng: Any, groups: Any = None) -> Any:
    """A fit with private labels, about 200 people or records; an attacker adds up the class
    sums along one direction, and half of the difference of the class sizes.
    """
    fitted = riemdp.PrivateTSClassifier(**_private_labels(rng)).fit(*records, groups=groups)
    direction = np.asarray(fitted.manifold_.to_coordinates(np.eye(2), np.diag([1.0, -1.0])))
    details = fitted.release_.details
    sums = 100 * details["coordinates"].sum(axis=0) @ direction / np.sqrt(2.0)
    seen = sums + (details["sizes"][0] - details["sizes"][1]) / 2
    return SimpleNamespace(
        value=np.array([seen]), guarantee=fitted.guarantee_, mechanism="PrivateTSClassifier"
    )


@functools.cache
def _prior() -> riemdp.PublicPrior:
    """Public matrices of two classes."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(200, 2, 20))
    factors[100:, 0] *= 2.0
    return riemdp.PublicPrior(
        riemdp.SPDLogEuclidean(2), factors @ factors.transpose(0, 2, 1) / 20, np.arange(200) // 100
    )


def _across() -> tuple[Any, Any]:
    """Matrices with a label each: the first, of the smaller class, is far out on one side or on the
    other.
    """
    there, labels = np.tile(np.eye(2), (60, 1, 1)), np.minimum(np.arange(60) // 20, 1)
    here = there.copy()
    there[0], here[0] = np.diag([1e6, 1e-6]), np.diag([1e-6, 1e6])
    return (there, labels), (here, labels)


def _with_prior(records: Any, rng: Any) -> Any:
    """A fit with public labels; an attacker projects its contrasts on what the record changes."""
    X, y = records
    sizes = [20, 40]
    made = Sums.PriorClassifier(_prior(), [0, 1], n=60, budget=BUDGET, sizes=sizes)
    there, here = (made.sums.joint(made._admit(x).X, x[1]) for x in _across())
    fitted = riemdp.PrivateTSClassifier(
        metric="logeuclid", budget=BUDGET, ball=_prior(), random_state=int(rng.integers(0, 2**31))
    ).fit(X, y)
    (answer,) = fitted.release_.details["answers"]
    return SimpleNamespace(
        value=np.array([answer @ (there - here)]),
        guarantee=fitted.guarantee_,
        mechanism="PrivateTSClassifier",
    )


def _ages(n: int = 60, own: int = 1) -> tuple[Any, Any]:
    """Matrices with an age each: the first are far out with the largest age, or far out in a
    direction that changes the most, with the smallest.
    """
    of_vector, of_one = Sums.weights(3)
    turn = np.arccos((0.5 - of_one**2) / of_vector**2)
    space, eye, found = riemdp.SPDLogEuclidean(2), np.eye(2), []
    for angle, age in ((0.0, 80.0), (turn, 20.0)):
        X, y = np.tile(eye, (n, 1, 1)), np.full(n, 50.0)
        along = 9.0 * np.array([np.cos(angle), np.sin(angle), 0.0])
        X[:own], y[:own] = space.exp(eye, space.from_coordinates(eye, along)), age
        found.append((X, y))
    return found[0], found[1]


def _regression(records: Any, rng: Any, groups: Any = None) -> Any:
    """A fit of ages; an attacker projects the noisy moments on what the first record changes."""
    fitted = riemdp.PrivateTSRegressor(
        (20.0, 80.0),
        metric="logeuclid",
        budget=BUDGET,
        ball=riemdp.Ball(np.eye(2), 1.0),
        random_state=int(rng.integers(0, 2**31)),
    ).fit(*records, groups=groups)
    of_vector, of_one = Sums.weights(3)
    moments = []
    for X, y in _ages():
        z = np.asarray(
            fitted.manifold_.to_coordinates(np.eye(2), fitted.manifold_.log(np.eye(2), X[0]))
        )
        row = [*(of_vector * z / np.linalg.norm(z)), of_one, (y[0] - 50.0) / 30.0 / np.sqrt(2.0)]
        moments.append(Sums.second_moment(np.array([row])))
    (answer,) = fitted.release_.details["answers"]
    return SimpleNamespace(
        value=np.array([answer @ (moments[0] - moments[1])]),
        guarantee=fitted.guarantee_,
        mechanism="PrivateTSRegressor",
    )


def _class_means(records: Any, rng: Any, groups: Any) -> Any:
    """A fit with private labels."""
    fitted = riemdp.PrivateMDM(**_private_labels(rng)).fit(*records, groups=groups)
    return _number(_seen_of_classes(fitted.releases_[0]), fitted.guarantee_)


def _seen_of_classes(release: riemdp.Release) -> float:
    """An attacker adds up the class sums along one direction, and the difference of the class
    sizes.
    """
    space = riemdp.SPDLogEuclidean(2)
    direction = np.asarray(space.to_coordinates(np.eye(2), np.diag([1.0, -1.0])))
    sizes = np.array(release.details["sizes"])
    sums = sizes @ (release.details["coordinates"] @ direction) / np.sqrt(2.0)
    return float(sums + sizes[0] - sizes[1])


def _as_drawn(release: riemdp.Release) -> riemdp.Release:
    """The attack sees the noise, also where it leaves the ball."""
    if not release.mechanism.startswith("wrapped"):
        return release
    return dataclasses.replace(release, value=release.confidence_region().center)


def _through(release: Any, inside: Any, outside: Any) -> Audit:
    """An audit of a function (records, rng) -> release, by the first entry of what it releases."""

    def score(values: Any) -> Any:
        return jnp.reshape(values, (len(values), -1))[:, 0]

    return lambda trials: audit_mechanism(
        release, inside, outside, trials=trials, score=score, rng=SEED
    )


def _unit(dim: int) -> np.ndarray:
    return np.eye(dim)[0]


def _attack(mechanism: Any, inside: Any, outside: Any) -> Audit:
    return lambda trials: audit_mechanism(mechanism, inside, outside, trials=trials, rng=SEED)


def _run(optimizer: Any, manifold: Any, noise_std: float, attack: Any = None) -> Audit:
    def audit(trials: int) -> AuditResult:
        return audit_optimizer(
            optimizer,
            noise_std=noise_std,
            manifold=manifold,
            trials=trials,
            rng=SEED,
            attack=attack,
        )

    return audit


def _k_norm(trials: int) -> AuditResult:
    plane, kept = riemdp.Euclidean(2), jnp.zeros(2)

    def release(record: Any, rng: Any) -> Any:
        mean = jnp.asarray(record) / 2
        mechanism = riemdp.KNormGradient(
            plane,
            objective_gradient=lambda x: x - (record + kept) / 2,
            sensitivity=1.0,
            epsilon=EPSILON,
        )
        return mechanism.release(mean, rng)

    record_in, record_out = np.array([1.0, 0.0]), np.array([-1.0, 0.0])

    def score(x):
        return jnp.linalg.norm(x - record_out / 2, axis=-1) - jnp.linalg.norm(
            x - record_in / 2, axis=-1
        )

    return audit_mechanism(release, record_in, record_out, trials=trials, score=score, rng=SEED)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few trials: only shows that every attack runs"
    )
    parser.add_argument("--only", default="", help="only rows whose title contains this text")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent.parent / "docs" / "evidence" / "audit.md"
    )
    options = parser.parse_args(arguments)
    releases, runs = (100, 400) if options.quick else (4_000, 20_000)
    rows = [
        *((title, audit, releases) for title, audit in mechanisms()),
        *((title, audit, runs) for title, audit in optimisers()),
        *((title, audit, min(trials, releases)) for title, audit, trials in front_door()),
        *((title, audit, min(trials, releases)) for title, audit, trials in sums_over_sites()),
    ]
    begun = time.perf_counter()
    table, refuted = _audited(rows, options.only)
    faults, noticed = _audited([] if options.quick else list(planted()), options.only)
    missed = len(faults) - noticed
    single = [(title, audit()) for title, audit in one_run() if options.only in title]
    refuted += sum(result.refuted for _, result in single)
    minutes = (time.perf_counter() - begun) / 60
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(_page(table, faults, minutes, single), encoding="utf-8")
    print(
        f"{len(table)} audits in {minutes:.1f} minutes, {refuted} refuted; {len(faults)} planted"
        f" faults, {missed} missed; table in {options.out}"
    )
    return 1 if refuted or missed else 0


def _audited(rows: list[tuple[str, Audit, int]], only: str) -> tuple[list[str], int]:
    """The rows of the page, and how many of them are refuted."""
    lines, refuted = [], 0
    for title, audit, trials in rows:
        if only not in title:
            continue
        result = audit(trials)
        refuted += result.refuted
        print(f"{title}: {result}", flush=True)
        lines.append(
            f"| {title} | {result.trials} | {result.claimed_epsilon:.3f} |"
            f" {result.epsilon_lower:.3f} | {result.mu_lower:.3f} |"
            f" {'**refuted**' if result.refuted else 'no'} |"
        )
    return lines, refuted


HEAD = """\
# Audit of the guarantees

Every mechanism and optimiser, attacked on a worst-case pair of neighbouring inputs. The lower
bounds hold at 95 % confidence each; a bound above the claim would refute it. Bounds grow towards
the truth with the number of trials, so a gap says that the attack ran out of trials, not that
privacy is left over. Written by `make audit` in {minutes:.0f} minutes.
"""
COLUMNS = """
| attacked | trials per side | epsilon claimed (delta = 1e-5) | epsilon seen, at least | mu seen, \
at least | refuted |
|---|---|---|---|---|---|
"""
PLANTED = """
## Planted faults

The same attack through the front door, with a fault behind it. Each must be refuted.
"""


ONE_RUN = """
## In one run

One release or one run, with many canaries (Steinke, Nasr and Jagielski 2023): each record is a
canary with an axis of its own. By a coin of its own it lies to one side or the other, or is in the
data or left out, as the adjacency says. Each bound holds at 95 % confidence, and can be no larger
than about log(r/4) with r guesses, so a claim of 4 is neither refuted nor confirmed by 25 of them.
Laplace noise of one length for all axes hides each of many axes from this attack.
[How it is proved](../proofs/one-run-audit.md).

| attacked, once | adjacency | canaries | right guesses | epsilon claimed (delta = 1e-5) | epsilon \
seen, at least | refuted |
|---|---|---|---|---|---|---|
"""


def one_run_section(single: list[tuple[str, OneRunAudit]]) -> str:
    """The rows of audits in one run, below their heading."""
    lines = [
        f"| {title} | {r.claimed.adjacency} | {r.canaries} | {r.correct} of {r.guesses} |"
        f" {r.claimed_epsilon:.3f} | {r.epsilon_lower:.3f} |"
        f" {'**refuted**' if r.refuted else 'no'} |"
        for title, r in single
    ]
    return ONE_RUN + "\n".join(lines) + "\n"


def _page(
    rows: list[str], faults: list[str], minutes: float, single: list[tuple[str, OneRunAudit]]
) -> str:
    page = HEAD.format(minutes=minutes) + COLUMNS + "\n".join(rows) + "\n"
    if faults:
        page += PLANTED + COLUMNS + "\n".join(faults) + "\n"
    return page + one_run_section(single) if single else page


if __name__ == "__main__":
    sys.exit(main())
