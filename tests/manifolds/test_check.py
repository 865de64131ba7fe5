"""`check` finds planted faults: a manifold that is wrong in one place fails the property that names
the fault.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.manifolds import (
    Euclidean,
    Lorentz,
    PoincareBall,
    Sphere,
    check,
)


class NoiseTooSmall(PoincareBall):
    """The published factor a / 4 where a / 2 is right: a quarter of the variance."""

    def _tangent_from_normals(self, p, z):
        return 0.5 * super()._tangent_from_normals(p, z)


class NoiseTimesPointEight(Sphere):
    def _tangent_from_normals(self, p, z):
        return 0.8 * super()._tangent_from_normals(p, z)


class ProjectedLorentzNoise(Lorentz):
    """Ambient noise projected in the Lorentz form: tangent, but not isotropic."""

    @property
    def noise_size(self):
        return self.n

    def _tangent_from_normals(self, p, z):
        return self._to_tangent(p, z)


class MinusInTransport(Lorentz):
    """The published sign error: u - ... instead of u + ..."""

    def _transport(self, p, q, v):
        return 2.0 * v - super()._transport(p, q, v)


class FlippedTransport(Sphere):
    """A frame whose sign depends on the point: an isometry, but not a continuous one."""

    def _transport(self, p, q, v):
        flip = jnp.where(jnp.floor(1e8 * (q[..., :1] + p[..., :1])) % 2.0 == 0.0, 1.0, -1.0)
        return flip * super()._transport(p, q, v)


class ReflectedTransport(Sphere):
    """An isometry that is continuous but not parallel, said to be parallel."""

    def _transport(self, p, q, v):
        return self._from_coordinates(q, self._to_coordinates(p, v))


class WrongSpeed(Sphere):
    def _exp(self, p, v):
        return super()._exp(p, 1.01 * v)


class SquaredDistance(Sphere):
    """The squared distance returned as the distance."""

    def _dist(self, p, q):
        return super()._squared_dist(p, q)


class ArccosDistance(Sphere):
    """The textbook formula: inaccurate for close points, NaN or 1e-8 for a point and itself."""

    def _dist(self, p, q):
        return jnp.arccos(jnp.sum(p * q, axis=-1))


class NaiveNorm(Sphere):
    """sqrt(<v, v>): its gradient at v = 0 is NaN."""

    def _norm(self, p, v):
        return jnp.sqrt(jnp.sum(v * v, axis=-1))


class EuclideanGradient(PoincareBall):
    """Partial derivatives returned as the Riemannian gradient."""

    def _egrad_to_rgrad(self, p, g):
        return g


class WrongVolume(Sphere):
    """The sign of the log Jacobian turned."""

    def _log_volume_density(self, p, v):
        return -super()._log_volume_density(p, v)


class SwallowsNaN(Sphere):
    def _dist(self, p, q):
        return jnp.nan_to_num(super()._dist(p, q))


class WrongAxis(Sphere):
    """Sums over the first axis: right for one point, wrong for a batch."""

    def _to_tangent(self, p, x):
        return x - jnp.sum(p * x, axis=0)[..., None] * p if p.ndim == 1 else x - jnp.sum(p * x) * p


class Raises(Sphere):
    def _retract(self, p, v):
        raise RuntimeError("boom")


class DefaultTransport(Sphere):
    """The default, which projects: no isometry where tangent spaces differ."""

    def _transport(self, p, q, v):
        return super(Sphere, self)._transport(p, q, v)


class Speechless(Sphere):
    def _retract(self, p, v):
        raise ValueError

    def _log(self, p, q):
        raise NotImplementedError


PLANTED = [
    (DefaultTransport(3), "transport_is_an_isometry"),
    (NoiseTooSmall(3), "noise_is_isotropic"),
    (NoiseTimesPointEight(3), "noise_is_isotropic"),
    (ProjectedLorentzNoise(4), "noise_is_isotropic"),
    (MinusInTransport(4), "vectors_are_tangent"),
    (FlippedTransport(3), "transport_is_continuous"),
    (ReflectedTransport(3), "transport_is_parallel"),
    (WrongSpeed(3), "geodesic_speed"),
    (SquaredDistance(3), "dist_is_length_of_log"),
    (ArccosDistance(3), "close_points"),
    (NaiveNorm(3), "derivatives_at_zero"),
    (EuclideanGradient(3), "gradient_conversion"),
    (WrongVolume(3), "volume_density"),
    (SwallowsNaN(3), "nan_is_not_hidden"),
    (WrongAxis(3), "to_tangent_is_a_projection"),
    (Raises(3), "points_belong"),
]


@pytest.mark.parametrize(("broken", "name"), PLANTED, ids=[type(m).__name__ for m, _ in PLANTED])
def test_planted_fault_is_found(broken: Sphere, name: str) -> None:
    report = check(broken, properties=[name])
    assert not report.ok
    assert report.failures == (name,)
    assert "FAILED" in str(report)
    assert name in str(report)


def test_a_failure_is_told_and_not_raised() -> None:
    broken = NoiseTimesPointEight(3)
    assert check(broken, properties=["noise_is_isotropic"])[
        "noise_is_isotropic"
    ].error == pytest.approx(0.36)


def test_an_exception_inside_a_space_becomes_a_row() -> None:
    row = check(Raises(3), properties=["points_belong"])["points_belong"]
    assert row.error == np.inf
    assert "boom" in row.note


def test_every_row_that_does_not_hold_says_why() -> None:
    """At cb83de5 the note was empty wherever no exception had words."""
    isometry = ["transport_is_an_isometry"]
    (row,) = check(DefaultTransport(3), properties=isometry).rows
    assert row.note.startswith("the worst error, ")
    assert f"{row.meaning}; {row.note}" in str(check(DefaultTransport(3), properties=isometry))
    report = check(Speechless(3), properties=["points_belong", "exp_and_log_are_inverse"])
    raised, skipped = report.rows
    assert raised.note.startswith("ValueError: raised in _retract, line ")
    assert skipped.note.startswith("NotImplementedError: raised in _log, line ")

    class NaN(Sphere):
        def _inner(self, p, u, v):
            return super()._inner(p, u, v) * jnp.nan

    (row,) = check(NaN(3), properties=["frame_is_orthonormal"]).rows
    assert row.note == "an operation gives NaN"


def test_an_infinite_point_is_no_point_of_a_space_with_the_default_test() -> None:
    """At cb83de5 the error, infinity, was at most an infinite share of the size."""

    class Cube(Euclidean):
        """Projected into a cube, which makes a finite point of an infinite one."""

        def _project(self, x):
            return jnp.clip(x, -1.0, 1.0)

        def _defect(self, x):
            return super(Euclidean, self)._defect(x)

    points = np.array([[0.5, 0.5], [np.inf, 0.5], [-np.inf, 0.5], [np.nan, 0.5], [2.0, 0.5]])
    assert Cube(2).belongs(points).tolist() == [True, False, False, False, False]


def test_an_operation_that_is_not_offered_is_skipped_and_named() -> None:
    class NoLog(Sphere):
        def _log(self, p, q):
            raise self._unavailable("log", "use another space")

    report = check(NoLog(3), properties=["exp_and_log_are_inverse", "facts"])
    assert report.ok
    assert report.not_offered == ("log",)
    assert report["exp_and_log_are_inverse"].error is None
    assert "use another space" in str(report)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"samples": 1}, "samples"),
        ({"key": -1}, "key"),
        ({"radius": 0.0}, "radius"),
        ({"properties": ["holonomy"]}, "properties"),
        ({"tolerances": {"holonomy": 1.0}}, "tolerances"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"`{name}`"):
        check(Sphere(3), **arguments)
