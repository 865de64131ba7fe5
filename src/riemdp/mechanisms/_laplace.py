"""Pure epsilon: the Riemannian Laplace mechanism, and Laplace noise in the tangent space of a
public base point.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import one_of, real
from ..manifolds._spd import AbstractSPD
from ..privacy import Budget, charge, pure
from ..randomness import noise_source
from ..sampling._far import View
from ..sampling._laplace import (
    HOPELESS,
    check_law,
    draw,
    expected_tries,
    laplace_scale_limit,
    truncation,
    warn_if_slow,
)
from ._common import (
    ADJACENCIES,
    admitted,
    as_point,
    clamp_point,
    exp_valid,
    optional_ball,
    rounded_up,
    wrap,
)
from ._error_law import ErrorLaw, GammaLaw, capped, laplace_law, riemannian_laplace_law, wrapped_law
from ._gaussian import _set, prepare_wrapped, reach, wrapped_details
from ._release import Release


def pure_epsilon(epsilon: Any) -> float:
    """epsilon > 0 from a number or a `Budget`, whose delta a pure mechanism does not spend."""
    return (
        float(epsilon.epsilon)
        if isinstance(epsilon, Budget)
        else real("epsilon", epsilon, above=0.0)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class WrappedLaplace:
    """Release a point by Laplace noise in the tangent space of a *public* base point:
    Exp_base(log_base(value) + v).

    v has density proportional to exp(-|v|_base / s): Gamma(dim, s) length, uniform direction. It
    exists at every scale, on every space with a logarithm.

    **Arguments:** `manifold`, `base`, `sensitivity`, `ball`, `adjacency` as for `WrappedGaussian`;
    `epsilon` > 0, a number or a `Budget` (of which epsilon alone is spent).

    Guarantee: (epsilon, 0) under `adjacency`, with s = L sensitivity / epsilon, L the Lipschitz
    constant of log_base (1 on Hadamard spaces, else R'/sin R' with R' = sqrt(kappa) (radius +
    d(base, centre))).

    Source: the l2 K-norm mechanism (Reimherr2021 A.4) on the tangent space of a public point.
    """

    manifold: Any
    base: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float
    ball: Any = None
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)
    tangent_sensitivity: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        _set(self, epsilon=pure_epsilon(self.epsilon))
        prepare_wrapped(self, type(self).__name__)
        _set(self, scale=rounded_up(self.tangent_sensitivity / self.epsilon))

    @property
    def length_law(self) -> GammaLaw:
        """Law of the length of the noise in the tangent space."""
        return laplace_law(self.manifold.dim, self.scale, exact=True)

    @functools.cached_property
    def error_law(self) -> ErrorLaw | None:
        """Law of the distance between the release and the (clamped) value, or None where no formula
        is known.
        """
        return wrapped_law(self.manifold, reach(self), self.length_law)

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw the noise, charge the ledger (the one given, else the innermost `with Ledger`),
        return the `Release`.
        """
        source = noise_source(rng)
        tangent = admitted(self.manifold, "value", value, self.ball, self.base)
        guarantee = pure(self.epsilon, adjacency=self.adjacency)
        charge(guarantee, ledger)
        z = source.normals((self.manifold.noise_size,))
        length = self.scale * float(source.gammas(float(self.manifold.dim)))
        released = wrap(self.manifold, self.base, tangent, z, length=length)
        return Release(
            released,
            guarantee,
            self.scale,
            "wrapped-laplace",
            source.reproducible,
            self.sensitivity,
            self.error_law,
            wrapped_details(self),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class RiemannianLaplace:
    """Release a point from the density proportional to exp(-d(x, value) / s), drawn exactly.

    **Arguments:**

    - `manifold`: a space with an exact sampler (see `riemdp.sampling.riemannian_laplace`).
    - `sensitivity`: sensitivity of the value as a distance; above 0. `epsilon` > 0, a number or a
      `Budget`.
    - `ball`: a public `Ball`. The value is clamped into it, and so is what was drawn
      (post-processing, free).
    - `adjacency`: the neighbours that `sensitivity` was computed for, "replace-one" or
      "add-or-remove-one".

    Which law is drawn is decided by public numbers and stated in `details["law"]`:

    - "whole space": homogeneous spaces, s = sensitivity / epsilon, wherever that law exists and
      takes at most 10^7 tries. Clamping afterwards halves the scale that truncating would need.
    - "whole space, constant not homogeneous": Bures-Wasserstein, s = 2 sensitivity / epsilon.
    - "truncated to the ball": where the law on the whole space does not exist (hyperbolic: s >=
      1/(d - 1); affine-invariant: s >= sqrt(12/(k (k^2 - 1)))) or is out of reach and a ball was
      given, s = 2 sensitivity / epsilon. Without a ball that is refused.

    Guarantee: (epsilon, 0) under `adjacency`.

    Source: Reimherr2021 Theorem 1. The running time of the Bures-Wasserstein and truncated samplers
    depends on the value.
    """

    manifold: Any
    _: dataclasses.KW_ONLY
    sensitivity: float
    epsilon: float
    ball: Any = None
    adjacency: str = ADJACENCIES[0]
    scale: float = dataclasses.field(init=False)
    truncated: bool = dataclasses.field(init=False)
    tries: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        one_of("adjacency", self.adjacency, ADJACENCIES)
        manifold, ball = self.manifold, optional_ball(self.manifold, self.ball)
        sensitivity, epsilon = (
            real("sensitivity", self.sensitivity, above=0.0),
            pure_epsilon(self.epsilon),
        )
        limit = laplace_scale_limit(manifold)
        whole = rounded_up((1 if manifold.is_homogeneous else 2) * sensitivity / epsilon)
        tries = self._tries_on_whole_space(whole) if whole < limit else math.inf
        truncated = tries > HOPELESS and ball is not None
        _set(
            self,
            sensitivity=sensitivity,
            epsilon=epsilon,
            truncated=truncated,
            scale=rounded_up(2 * sensitivity / epsilon) if truncated else whole,
        )
        if truncated:
            tries = truncation(manifold, self.scale, ball).tries
        else:
            check_law(manifold, whole, math.inf)
        warn_if_slow(manifold, tries)
        _set(self, tries=tries)

    def _tries_on_whole_space(self, scale: float) -> float:
        center = (
            None if self.ball is None else self.ball.center
        )  # public; the value's own figure would be private
        return expected_tries(self.manifold, scale, eta=center)

    @property
    def draw_law(self) -> ErrorLaw | None:
        """Law of the distance before a draw is moved into the ball; None where it is the ball that
        makes the law exist.
        """
        return None if self.truncated else riemannian_laplace_law(self.manifold, self.scale)

    @functools.cached_property
    def error_law(self) -> ErrorLaw | None:
        """Law of the distance between the release and the (clamped) value."""
        diameter = math.inf if self.ball is None else 2 * float(self.ball.radius)
        law = self.draw_law
        return ErrorLaw.at_most(diameter) if law is None else capped(law, diameter)

    def release(self, value: Any, rng: Any = None, *, ledger: Any = None) -> Release:
        """Draw, charge the ledger (the one given, else the innermost `with Ledger`), return the
        `Release`.
        """
        source = noise_source(rng)
        point = admitted(self.manifold, "value", value, self.ball)
        guarantee = pure(self.epsilon, adjacency=self.adjacency)
        charge(guarantee, ledger)
        if self.truncated:
            drawn = truncation(self.manifold, self.scale, self.ball).draw(
                self.manifold, point, 1, source
            )
        else:
            drawn = draw(self.manifold, point, self.scale, 1, source, view=self._view)
        released = self._finished(jax.tree.map(lambda leaf: np.asarray(leaf)[0], drawn))
        law = self.error_law
        return Release(
            released,
            guarantee,
            self.scale,
            "riemannian-laplace",
            source.reproducible,
            self.sensitivity,
            law,
            {
                "law": self._law_in_words(),
                "expected_tries": self.tries,
                "error": "no formula" if law is None else law.kind,
            },
        )

    @property
    def _view(self) -> View:
        return View() if self.ball is None else View(self.ball.center, float(self.ball.radius))

    def _finished(self, drawn: Any) -> Any:
        if self.ball is not None:
            return clamp_point(self.manifold, self.ball, drawn)
        if isinstance(self.manifold, AbstractSPD):  # built from eigenvalues that float64 can hold
            return jnp.asarray(drawn)
        point, valid = as_point(self.manifold, drawn)
        if bool(valid):
            return point
        # So far out that float64 cannot hold it: shorten from a public point, which looks at the
        # drawn point only.
        finite = jax.tree.map(
            lambda leaf: jnp.nan_to_num(leaf, nan=0.0, posinf=1e150, neginf=-1e150), drawn
        )
        origin = self.manifold.origin
        return exp_valid(
            self.manifold, origin, self.manifold.log(origin, self.manifold.project(finite))
        )

    def _law_in_words(self) -> str:
        if self.truncated:
            return "truncated to the ball"
        return (
            "whole space"
            if self.manifold.is_homogeneous
            else "whole space, constant not homogeneous"
        )
