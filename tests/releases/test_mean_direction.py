"""The mean direction of directions and axes: what is computed, its noise, its figures, its cone."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import special

import riemdp
from riemdp import Budget, InvalidArgument
from riemdp.privacy import gaussian_noise_multiplier
from tests.seam import Means
from tests.statistical import ALPHA, gaussian_p_value

SPHERE, LINES = riemdp.Sphere(3), riemdp.Grassmann(3, 1)
GAUSSIAN, PURE, LOUD = Budget(1.0, 1e-6), Budget(1.0), Budget(1e4, 1e-6)
FAIR = Budget(20.0, 1e-6)
NORTH = np.array([0.0, 0.0, 1.0])
pytestmark = pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")


def scattered(n, kappa, seed=0):
    """Directions of von Mises and Fisher about the north pole."""
    rng = np.random.default_rng(seed)
    u, turn = rng.random(n), rng.random(n) * 2 * math.pi
    t = 1.0 + np.log(u + (1.0 - u) * math.exp(-2.0 * kappa)) / kappa
    across = np.sqrt(1.0 - t**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), t], axis=1)


def of_axes(X):
    return X[:, :, None]


def released(X, budget=LOUD, **options):
    """Of a space that the shape of the records says."""
    space = SPHERE if np.ndim(X) == 2 else LINES
    return riemdp.private_mean_direction(space, X, budget, **{"rng": 0, **options})


def moment_of(X):
    return X.mean(axis=0) if X.ndim == 2 else np.mean(X @ X.transpose(0, 2, 1), axis=0)


@pytest.mark.parametrize("shape", [lambda X: X, of_axes], ids=["directions", "axes"])
def test_the_noise_of_a_direction_is_that_of_the_sensitivity(shape):
    """Every draw against a formula of its own: 2 / n in every coordinate of a vector; sqrt(2) / n
    on the diagonal of a matrix, 1 / n off it. Noise times 0.8 is noticed.
    """
    X = shape(scattered(25, 2.0))
    z, n = gaussian_noise_multiplier(GAUSSIAN), len(X)
    found = [released(X, GAUSSIAN, rng=i) for i in range(150)]
    if X.ndim == 2:
        noise = np.array([one.details["moment"] for one in found]) - moment_of(X)
        noise /= 2.0 / n * z
    else:
        seen = np.array([one.observation.coordinates for one in found])
        i, j = np.triu_indices(3, 1)
        noise = np.concatenate([seen[:, :3] - np.diag(moment_of(X)), seen[:, 3:]], axis=1)
        noise[:, 3:] -= math.sqrt(2.0) * moment_of(X)[i, j]
        noise /= math.sqrt(2.0) / n * z
    assert gaussian_p_value(noise, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * noise, 1.0) < ALPHA
    assert found[0].guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_figures_are_those_of_bessel_and_kummer():
    """The distributions of von Mises and Fisher and of Watson, by functions of their own."""
    for p in (2, 3, 10):
        for kappa in (0.5, 2.0, 10.0, 100.0):
            mean, across = Means.moments(kappa, p, 1)
            bessel = special.ive(p / 2, kappa) / special.ive(p / 2 - 1, kappa)
            assert mean == pytest.approx(bessel, abs=1e-11)
            assert across == pytest.approx(bessel / kappa, abs=1e-11)
            watson = special.hyp1f1(1.5, p / 2 + 1, kappa) / special.hyp1f1(0.5, p / 2, kappa) / p
            assert Means.moments(kappa, p, 2)[0] == pytest.approx(watson, abs=1e-11)
            for power in (1, 2):
                resultant = float(Means.resultant_of(kappa, p, power))
                back = Means.concentration_of(resultant, p, power)
                assert back == pytest.approx(kappa, rel=2e-6)


def test_without_noise_it_is_what_textbooks_say():
    """Resultant, Fisher's cone, and the leading eigenvector."""
    n = 60
    X = scattered(n, 10.0)
    release, length = released(X, Budget(1e9, 0.5)), np.linalg.norm(X.mean(axis=0))
    assert release.facts.resultant == pytest.approx(length, abs=1e-6)
    np.testing.assert_allclose(release.value, X.mean(axis=0) / length, atol=1e-5)
    fisher = math.acos(1.0 - (1.0 - length) / length * (20.0 ** (1.0 / (n - 1)) - 1.0))
    assert release.facts.cone == pytest.approx(fisher, rel=0.06)
    axes = released(of_axes(X), Budget(1e9, 0.5))
    leading = np.linalg.eigh(moment_of(of_axes(X)))[1][:, -1]
    assert abs(float(axes.value[:, 0] @ leading)) == pytest.approx(1.0, abs=1e-9)
    values = np.linalg.eigvalsh(moment_of(of_axes(X)))
    spread = math.sqrt(1.5 * float(np.sum((values - 1 / 3) ** 2)))
    assert axes.facts.resultant == pytest.approx(spread, abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "budget"),
    [(lambda X: X, GAUSSIAN), (lambda X: X, FAIR), (of_axes, PURE), (of_axes, FAIR)],
    ids=["directions", "directions, little noise", "axes, pure", "axes, little noise"],
)
def test_a_cone_holds_the_direction_as_often_as_it_says(shape, budget):
    """Of the records' mean and of the population's, at few records; a cone from noise alone does
    not hold the population's, and one of half the width neither.
    """
    held = np.zeros(4)
    kappa, level, runs = 5.0, 0.9, 40
    for run in range(runs):
        X = shape(scattered(100, kappa, run))
        release = released(X, budget, rng=run)
        own = moment_of(X)
        own = own if X.ndim == 2 else np.linalg.eigh(own)[1][:, -1:]
        north = NORTH.reshape(X.shape[1:])
        sample = release.confidence_region(level)
        whole = release.confidence_region(level, "population")
        narrow = dataclasses.replace(whole, radius=0.5 * whole.radius)
        own = own / np.linalg.norm(own)
        held += [
            bool(sample.contains(own)),
            bool(whole.contains(north)),
            bool(sample.contains(north)) and budget is FAIR,
            bool(narrow.contains(north)),
        ]
    least = level - 4.0 * math.sqrt(level * (1.0 - level) / runs)
    assert held[0] / runs > least
    assert held[1] / runs > least
    assert held[2] / runs < least
    assert held[3] / runs < least


NOWHERE = {
    "antipodes": np.concatenate([scattered(20, 50.0), -scattered(20, 50.0)]),
    "no points": np.full((40, 3), np.nan),
    "zeros": np.zeros((40, 3)),
    "tiny": np.full((40, 3), 1e-310),
    "huge": np.full((40, 3), np.finfo(np.float64).max),
    "of another length": 2.0 * scattered(40, 10.0),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_where_no_direction_can_be_said_the_cone_is_the_whole_sphere(name):
    release = released(NOWHERE[name], FAIR)
    assert release.facts.cone == math.pi
    assert release.facts.resultant < 0.2
    region = release.confidence_region(of="population")
    assert bool(np.all(region.contains(np.concatenate([np.eye(3), -np.eye(3)]))))
    assert bool(region.contains(-release.value))
    assert "no direction can be said" in str(release)


def test_one_record_has_no_cone_and_no_noisy_resultant_is_above_one():
    one = released(scattered(1, 10.0))
    assert one.facts.cone == math.pi
    assert released(of_axes(scattered(1, 10.0))).facts.cone == math.pi / 2
    found = [released(np.tile(NORTH, (30, 1)), GAUSSIAN, rng=i).facts for i in range(8)]
    assert max(facts.resultant for facts in found) == 1.0
    assert max(facts.concentration for facts in found) == math.inf
    assert found[0].resultant_noise == pytest.approx(2 / 30 * gaussian_noise_multiplier(GAUSSIAN))
    assert all(0.0 < facts.cone < math.pi for facts in found)


def test_opposite_axes_are_one_axis_and_a_person_counts_once():
    X = scattered(200, 20.0)
    signs = np.where(np.arange(200) % 2 == 0, 1.0, -1.0)[:, None]
    one, other = released(of_axes(X)), released(of_axes(X * signs))
    np.testing.assert_array_equal(one.value, other.value)
    # 199 people have a record each, and one has a thousand
    many, groups = np.concatenate([X, np.tile([1.0, 0.0, 0.0], (1000, 1))]), np.arange(1200)
    groups[200:] = 0
    people = released(many, groups=groups)
    assert people.facts.n == people.facts.people == 200
    assert people.guarantee.unit == "person"
    assert people.sensitivity == pytest.approx(2.0 / 200, rel=1e-6)
    np.testing.assert_allclose(people.value, one.value[:, 0] * np.sign(one.value[2, 0]), atol=0.05)


def test_a_plan_says_what_a_release_has():
    plan = riemdp.plan_mean_direction(SPHERE, 3000, [GAUSSIAN], (2.0,))
    (row,) = plan
    assert "kappa" in str(plan)
    release = released(scattered(3000, 2.0), GAUSSIAN)
    assert row.cone == pytest.approx(release.facts.cone, rel=0.05)
    assert row.resultant == pytest.approx(release.facts.resultant, rel=0.05)
    (few,) = riemdp.plan_mean_direction(LINES, 20, GAUSSIAN, [1.0])
    assert few.cone == few.sample_cone == math.pi / 2


def test_other_spaces_and_arguments_are_refused():
    with riemdp.Ledger(Budget(5.0, 1e-5)) as ledger:
        for space in (riemdp.Euclidean(3), riemdp.Grassmann(4, 2), riemdp.Stiefel(3, 2)):
            with pytest.raises(InvalidArgument, match=r"Sphere\(p\)"):
                riemdp.private_mean_direction(space, np.zeros((3, *space.shape)), GAUSSIAN)
            with pytest.raises(InvalidArgument, match=r"Sphere\(p\)"):
                riemdp.plan_mean_direction(space, 10, GAUSSIAN)
        with pytest.raises(InvalidArgument, match="concentrations"):
            riemdp.plan_mean_direction(SPHERE, 10, GAUSSIAN, [0.0])
        assert ledger.charges == 0
        release = riemdp.private_mean_direction(SPHERE, scattered(50, 5.0), GAUSSIAN)
        assert ledger.charges == 1
        with pytest.raises(InvalidArgument, match="needs none"):
            release.confidence_region(of="population", dispersion=release)
