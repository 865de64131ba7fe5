"""The noise has its distribution: each at a false-alarm rate of 1e-6, which a planted twin with a
tenth less or more fails; and one scale of a row's distribution moves what it releases by the
stated scale, exactly.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import NoiseSource
from riemdp import mechanisms as m
from tests.seam import plant
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

from .entries import RUNNING
from .entry import PURE
from .noised import distributions, in_silence, is_radial, releases, scale, vector, with_one_scale
from .outcomes import SEED, valid
from .rows_of_estimators import Fitted
from .rows_of_loops import RATE
from .sources import ADDED, CHOICES, NOISE

TWINS = (0.9, 1.1)
MANY = 4000
WIDE = 2.0**32


def ids(entry):
    return entry.id


# ------------------------------------------------------------------------------ the distributions
def gamma_p_value(lengths, shape):
    """Of the whole distribution, and of the mean, which tells scales apart with fewer numbers."""
    below = stats.gamma(shape * len(lengths)).cdf(float(np.sum(lengths)))
    whole = ks_p_value(lengths, stats.gamma(shape).cdf)
    return min(1.0, 2 * whole, 4 * float(min(below, 1 - below)))


def laplace_p_value(integers):
    x = integers / WIDE
    return min(1.0, 2 * ks_p_value(x, stats.laplace.cdf), 2 * gamma_p_value(np.abs(x), 1))


DISTRIBUTIONS = {
    "normals": (lambda s: s.normals((MANY, 1)), lambda x: gaussian_p_value(x, 1.0)),
    "rounded_normals": (
        lambda s: s.rounded_normals(WIDE, (MANY, 1)) / WIDE,
        lambda x: gaussian_p_value(x, 1.0),
    ),
    "discrete_gaussians": (
        lambda s: s.discrete_gaussians(1024.0, (MANY, 1)) / 1024.0 + s.uniforms((MANY, 1)) / 1024,
        lambda x: gaussian_p_value(x - 0.5 / 1024, 1.0),
    ),
    "laplace_integer": (
        lambda s: np.array([s.laplace_integer(int(WIDE)) for _ in range(MANY)], dtype=float),
        laplace_p_value,
    ),
    "laplace_integers": (
        lambda s: np.array([s.laplace_integers(int(WIDE), 3) for _ in range(MANY)], dtype=float),
        lambda x: gamma_p_value(np.linalg.norm(x, axis=1) / WIDE, 3),
    ),
    "gammas": (lambda s: s.gammas(3.0, (MANY,)), lambda x: gamma_p_value(x, 3)),
    "uniforms": (lambda s: s.uniforms((MANY,)), lambda x: ks_p_value(x, stats.uniform.cdf)),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_and_its_twins(distribution):
    draw, p_value = DISTRIBUTIONS[distribution]
    found = draw(NoiseSource(SEED))
    assert p_value(found) > ALPHA
    for twin in TWINS:
        assert p_value(twin * found) < ALPHA, f"{twin} of {distribution} is not noticed"


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_a_row_draws_from_these_distributions_alone(entry):
    drawn = {distribution for distribution, _ in distributions(entry)}
    assert drawn & set(NOISE)
    assert drawn <= {*DISTRIBUTIONS, *CHOICES}, drawn


# ------------------------------------------------------------------------------ the scale
# What the vector of a result does not show to the first order, and where it is shown.
ELSEWHERE = {
    "riemdp.private_ball": "the steps to a centre are those of the mean in a private ball",
    "riemdp.mechanisms.PrivateBall.release": "the steps to a centre are those of AdaptiveMean",
    "riemdp.private_frechet_mean[extrinsic-gaussian]": "projected; ExtrinsicGaussian.release",
    "riemdp.private_frechet_mean[extrinsic-laplace]": "a radius; its distances",
    "riemdp.private_frechet_mean[riemannian-laplace]": "a radius; its distances",
    "riemdp.private_frechet_mean[k-norm-gradient]": "a radius; its distances",
    "riemdp.private_frechet_mean[auto]": "a radius; its distances",
    "riemdp.mechanisms.RiemannianLaplace.release": "a radius; its distances",
    "riemdp.mechanisms.KNormGradient.release": "a radius; its distances",
    "riemdp.mechanisms.ExtrinsicLaplace.release": "a radius; its distances",
    "riemdp.PrivateFrechetMean[public ball": "a radius; its distances",
    "riemdp.PrivateFrechetMean[public prior": "of two; private_frechet_mean[public prior, one",
    "riemdp.PrivateFrechetMean[people]": "a radius; its distances",
    "riemdp.PrivateFrechetMean[refusing]": "a radius; its distances",
    "riemdp.private_frechet_mean[dp-": "many steps; private_minimize[DP-RGD]",
    "riemdp.private_frechet_mean[public prior, two": "of the last of two; the row of one stage",
    "riemdp.mechanisms.PriorMean": "of the last of two; private_frechet_mean[public prior, one",
    "riemdp.private_comparison[public ball, pure": "four numbers, but no matrix; the other rows",
    "riemdp.private_geometric_median": "many steps; private_minimize[geometric median]",
    "riemdp.private_minimize[DP-RGD, ": "many steps; private_minimize[DP-RGD]",
    "riemdp.private_minimize[DP-RSGD": "many steps; private_minimize[DP-RGD]",
    "riemdp.private_minimize[people, DP-RSGD": "many steps; private_minimize[people, DP-RGD]",
    "riemdp.private_minimize[DP-RSVRG": "many steps; private_minimize[DP-RGD]",
    "riemdp.private_minimize[principal": "a direction, two steps; private_minimize[DP-RGD]",
    "riemdp.optimizers.private_principal_eigenvector": "a direction; PrivatePCA",
    "riemdp.run_in_process": "states no scale; the functions and federated.answer",
    "riemdp.federated.private_ball": "a centre; federated.private_frechet_mean",
    "riemdp.PrivatePCA[private row norm]": "a direction; PrivatePCA",
    "riemdp.PrivatePCA[people, private row norm]": "a direction; PrivatePCA[people]",
    "riemdp.PrivateMDM": "divided by noisy numbers; the discriminant's own tests",
    "riemdp.PrivateTLRotate": "moved towards their average; the sums' own tests",
    "riemdp.PrivateTSClassifier[pu": "divided by noisy numbers; the discriminant's own tests",
    "riemdp.PrivateTSClassifier[priva": "divided by noisy numbers; the discriminant's own tests",
    "riemdp.PrivateTSClassifier[people]": "divided by noisy numbers; the discriminant's own tests",
    "riemdp.PrivateTSClassifier[ref": "divided by noisy numbers; the discriminant's own tests",
    "riemdp.cli.main": "prints no scale; the functions and estimators it calls",
}
SITES = 2


def is_elsewhere(entry):
    return any(entry.id.startswith(name) for name in ELSEWHERE)


@pytest.mark.parametrize("entry", [e for e in RUNNING if not is_elsewhere(e)], ids=ids)
def test_one_scale_of_the_distribution_is_one_scale_of_what_is_released(entry):
    assert not is_radial(entry), "name the test of its distances in ELSEWHERE"
    result, drawn = in_silence(entry, valid(entry))
    before, wanted = vector(entry, result), stated_scale(entry, result)
    size = last_size(result, before.size)
    numbers = [
        i
        for i, (distribution, count) in enumerate(drawn)
        if distribution in ADDED and count == size
    ]
    for number in numbers[:-3:-1]:  # counts of records beside a ball come last
        moved = vector(entry, with_one_scale(entry, number)) - before
        if np.any(moved):
            break
    assert float(np.linalg.norm(moved)) == pytest.approx(wanted, rel=2e-4)
    for twin in TWINS:
        other = vector(entry, with_one_scale(entry, number, twin)) - before
        assert float(np.linalg.norm(other)) != pytest.approx(wanted, rel=0.05)


COUNTS = {4: 3, 9: 6, 12: 6}  # entries of symmetric matrices, and their coordinates


def last_size(result, whole):
    """How many numbers the last noisy vector has."""
    found = releases(result)
    if not found or found[-1].observation is None:
        return COUNTS.get(whole, whole)
    return np.size(found[-1].observation.coordinates)


def stated_scale(entry, result):
    """Of one site or one step, where there are several."""
    if isinstance(result, Fitted) or releases(result):
        return scale(result) / (np.sqrt(SITES) if entry.sites else 1.0)
    return RATE * scale(result)


# ------------------------------------------------------------------------------ the distance
def test_distances_of_the_riemannian_laplace_distribution():
    """On a flat space a gamma distribution, which is a formula of its own."""
    space = riemdp.Euclidean(3)
    made = m.RiemannianLaplace(space, sensitivity=0.1, epsilon=PURE)
    distances_are_gamma(made, np.zeros(3))


def test_distances_of_the_k_norm_distribution(monkeypatch):
    plant(monkeypatch, "draws of K-norm noise at once", 1)  # each is taken, here
    made = m.KNormGradient(
        riemdp.Euclidean(3), sensitivity=0.1, epsilon=PURE, objective_gradient=lambda point: point
    )
    distances_are_gamma(made, np.zeros(3))


def test_distances_of_the_extrinsic_laplace_distribution():
    made = m.ExtrinsicLaplace(riemdp.Euclidean(3), sensitivity=0.1, epsilon=PURE)
    distances_are_gamma(made, np.zeros(3))


@pytest.mark.filterwarnings("ignore:epsilon 20:riemdp.RiemdpWarning")
def distances_are_gamma(made, value):
    source = NoiseSource(SEED)
    found = np.array([made.release(value, source).value for _ in range(1500)])
    lengths = np.linalg.norm(found, axis=1) / made.scale
    assert gamma_p_value(lengths, 3) > ALPHA
    for twin in TWINS:
        assert gamma_p_value(twin * lengths, 3) < ALPHA


def test_reasons_name_rows():
    for name in ELSEWHERE:
        assert any(entry.id.startswith(name) for entry in RUNNING), name
