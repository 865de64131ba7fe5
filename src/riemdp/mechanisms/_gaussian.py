"""Gaussian noise at a public point: of a tangent vector, and of a point through the tangent space
at a public base.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from .._errors import invalid, one_of, real
from ..privacy import charge, gaussian
from ..randomness import noise_source
from ._common import (
    ADJACENCIES,
    CALIBRATIONS,
    admitted,
    gaussian_multiplier,
    needs_log,
    one_value,
    optional_ball,
    public_point,
    rounded_up,
    wrap,
)
from ._error_law import ChiLaw, gaussian_law, wrapped_law
from ._release import Release


@dataclasses.dataclass(frozen=True, eq=False)
class TangentGaussian:
    """Release a tangent vector at a public point with isotropic Gaussian noise in the metric of
    that point.

    **Arguments:**

    - `manifold`, `at`: the space and the *public* point whose tangent space holds the value.
    - `sensitivity`: sensitivity of the value, in the norm at `at`; above 0.
    - `budget`: `Budget(epsilon, delta)` with delta > 0.
    - `calibration`: "analytic" (default) or "classical" (sqrt(2 ln(1.25/delta))/epsilon, epsilon <=
      1 only).
    - `adjacency`: the neighbours that `sensitivity` was computed for, "replace-one" or
      "add-or-remove-one".

    `release(value, rng=None, ledger=None)` gives value + xi, xi ~ N(0, sigma^2) in every
    orthonormal coordinate at `at`.

    Guarantee: Gaussian mechanism with noise multiplier sigma / sensitivity, under `adjacency`; for
    "analytic", delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity /
    sigma.

    Source: Han2024 Definition 3 and Proposition 2, calibrated analytically.
    """

    manifold: Any
    at: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Any
    calibration: str = "analytic"
    adjacency: str = ADJACENCIES[0]
    noise_multiplier: float = dataclasses.field(init=False)
    sigma: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("calibration", self.calibration, CALIBRATIONS)
        one_of("adjacency", self.adjacency, ADJACENCIES)
        _set(
            self,
            at=public_point(self.manifold, "at", self.at),
            sensitivity=real("sensitivity", self.sensitivity, above=0.0),
        )
        z = gaussian_multiplier(self.budget, self.calibration)
        _set(self, noise_multiplier=z, sigma=rounded_up(z * self.sensitivity))

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw the noise, charge the ledger (the one given, else the innermost `with Ledger`),
        return the `Release`.

        `value`: one tangent vector at `at`. Raises before anything is spent if it has another
        shape, is not finite or not tangent (whether it raises depends on the value, so check your
        query on public data first).
        """
        source = noise_source(rng)
        checked = one_value(self.manifold, "value", value)
        if not bool(self.manifold.is_tangent(self.at, checked, 1e-6)):
            raise invalid(
                "at",
                "the given point",
                f"the value is not tangent to {self.manifold!r} there; project it with "
                "`manifold.to_tangent`. Nothing was spent",
            )
        guarantee = gaussian(self.noise_multiplier, adjacency=self.adjacency)
        charge(guarantee, ledger)
        z = source.normals((self.manifold.noise_size,))
        noise = _scaled(self.manifold.tangent_from_normals(self.at, z), self.sigma)
        released = jax.tree.map(jnp.add, checked, noise)
        law = gaussian_law(self.manifold.dim, self.sigma, exact=True)
        return Release(
            released,
            guarantee,
            self.sigma,
            "tangent-gaussian",
            source.reproducible,
            self.sensitivity,
            law,
            {"calibration": self.calibration, "error": "length of the noise in the metric"},
        )


@dataclasses.dataclass(frozen=True, eq=False)
class WrappedGaussian:
    """Release a point by Gaussian noise in the tangent space of a *public* base point:
    Exp_base(log_base(value) + xi).

    The base must not depend on the data. Noise in the tangent space *of the private value* looks
    similar and is not private at this scale: on hyperbolic space its true delta was found up to 17
    times the claim.

    **Arguments:**

    - `manifold`, `base`: the space and the public base point.
    - `sensitivity`: sensitivity of the point, as a geodesic distance; above 0.
    - `budget`: `Budget(epsilon, delta)` with delta > 0. `calibration`: "analytic" or "classical"
      (epsilon <= 1 only).
    - `ball`: a public `Ball`; values are clamped into it first. Optional on Hadamard spaces (it
      then serves the formula of the expected error), required elsewhere, because log_base has no
      useful Lipschitz constant without it.
    - `adjacency`: the neighbours that `sensitivity` was computed for, "replace-one" or
      "add-or-remove-one".

    The noise is calibrated to L * sensitivity, where L is the Lipschitz constant of log_base: 1 on
    Hadamard spaces, else R' / sin(R') with R' = sqrt(kappa) (radius + d(base, centre)). On
    `SPDLogEuclidean` with base I this is the tangent Gaussian mechanism of Utpala2023LE (Theorem 1
    classical, Theorem 2 analytic).

    Guarantee: Gaussian mechanism with noise multiplier sigma / (L sensitivity), under `adjacency`.

    Source: Utpala2023LE Section 4; on curved spaces the 1-Lipschitz (or Rauch) bound of the
    logarithm at a public point.
    """

    manifold: Any
    base: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    budget: Any
    calibration: str = "analytic"
    ball: Any = None
    adjacency: str = ADJACENCIES[0]
    noise_multiplier: float = dataclasses.field(init=False)
    sigma: float = dataclasses.field(init=False)
    tangent_sensitivity: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("calibration", self.calibration, CALIBRATIONS)
        prepare_wrapped(self, type(self).__name__)
        z = gaussian_multiplier(self.budget, self.calibration)
        _set(self, noise_multiplier=z, sigma=rounded_up(z * self.tangent_sensitivity))

    @property
    def length_law(self) -> ChiLaw:
        """Law of the length of the noise in the tangent space."""
        return gaussian_law(self.manifold.dim, self.sigma, exact=True)

    @functools.cached_property
    def error_law(self) -> Any:
        """Law of the distance between the release and the (clamped) value, or None where no formula
        is known.
        """
        return wrapped_law(self.manifold, reach(self), self.length_law)

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw the noise, charge the ledger (the one given, else the innermost `with Ledger`),
        return the `Release`.

        `value`: one point of the manifold; clamped into `ball` where one was given. Raises before
        anything is spent if it has another shape, is not finite or not on the manifold.
        """
        source = noise_source(rng)
        tangent = admitted(self.manifold, "value", value, self.ball, self.base)
        guarantee = gaussian(self.noise_multiplier, adjacency=self.adjacency)
        charge(guarantee, ledger)
        z = source.normals((self.manifold.noise_size,))
        released = wrap(self.manifold, self.base, tangent, z, scale=self.sigma)
        return Release(
            released,
            guarantee,
            self.sigma,
            "wrapped-gaussian",
            source.reproducible,
            self.sensitivity,
            self.error_law,
            wrapped_details(self) | {"calibration": self.calibration},
        )


def prepare_wrapped(mechanism: Any, who: str) -> None:
    """Check the public arguments of a wrapped mechanism and set its tangent sensitivity."""
    one_of("adjacency", mechanism.adjacency, ADJACENCIES)
    manifold, ball = mechanism.manifold, optional_ball(mechanism.manifold, mechanism.ball)
    base = public_point(manifold, "base", mechanism.base)
    sensitivity = real("sensitivity", mechanism.sensitivity, above=0.0)
    needs_log(manifold, base, who)
    if ball is None and not manifold.is_hadamard:
        raise invalid(
            "ball",
            None,
            f"{manifold!r} is not a Hadamard space, so {who} needs a public Ball(center, radius)"
            " that the value is clamped into; give ball=",
        )
    factor = 1.0 if ball is None else ball.on(manifold).log_lipschitz(base)
    _set(mechanism, base=base, sensitivity=sensitivity, tangent_sensitivity=factor * sensitivity)


def reach(mechanism: Any) -> float | None:
    """Largest distance of a clamped value from the base; None without a ball."""
    if mechanism.ball is None:
        return None
    return float(mechanism.ball.radius) + float(
        mechanism.manifold.dist(mechanism.ball.center, mechanism.base)
    )


def wrapped_details(mechanism: Any) -> dict[str, Any]:
    """Public facts of a wrapped mechanism, for `Release.details`."""
    law = mechanism.error_law
    return {
        "tangent_sensitivity": mechanism.tangent_sensitivity,
        "error": "no formula" if law is None else law.kind,
    }


def _scaled(v: Any, factor: Any) -> Any:
    return jax.tree.map(lambda leaf: factor * leaf, v)


def _set(obj: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(obj, name, value)
