"""What mechanisms of one value share: `PointMechanism` and `PureMechanism`, checks of public
arguments, and calibration. No private value comes here.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._errors import invalid, one_of, real
from .._isolation import isolated
from .._namespace import Floats
from .._trees import map_leaves
from ..domains import Ball, Domain
from ..inference._distributions import ErrorDistribution, Lengths, wrapped_errors
from ..inference._region import Observation
from ..manifolds import AbstractManifold
from ..manifolds._base import Point
from ..privacy import Budget, Guarantee, gaussian, pure
from ..privacy._noise import LaplaceNoise, Noise
from ._base import AbstractMechanism
from ._drawn import Drawn

if TYPE_CHECKING:
    from .._namespace import Array


CALIBRATIONS = ("analytic", "classical")


# -------------------------------------------------------------------- public arguments
def optional_domain(manifold: AbstractManifold, ball: Ball | None) -> Domain | None:
    """The ball bound to the manifold, or None; values can be moved into it."""
    if ball is None:
        return None
    if not isinstance(ball, Ball):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius)")
    domain = ball.on(manifold)
    _ = domain.fold  # raises where a move would take values apart
    return domain


def needs_log(manifold: AbstractManifold, who: str) -> None:
    """Raise the manifold's own NotImplementedError where it has no logarithm."""
    missing = _missing_log(manifold)
    if missing is not None:
        raise NotImplementedError(f"{who} needs a logarithm: {missing}") from missing


@functools.lru_cache(maxsize=256)
@isolated
def _missing_log(manifold: AbstractManifold) -> NotImplementedError | None:
    try:
        manifold._log(manifold.origin, manifold.origin)
    except NotImplementedError as error:
        return error
    return None


def gaussian_multiplier(budget: Budget | Noise, calibration: str) -> float:
    """Noise multiplier for a budget with delta > 0.

    Args:
        budget: What one release may spend; or Gaussian noise that was made of it, which is
            "analytic".
        calibration: "analytic", or "classical": sqrt(2 ln(1.25 / delta)) / epsilon, which is proved
            for epsilon <= 1 only.
    """
    if isinstance(budget, Noise) and calibration == "analytic":
        return Noise.of(budget, pure=False).multiplier
    if not isinstance(budget, Budget):
        raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")
    if not budget.delta > 0:
        raise invalid(
            "budget",
            budget,
            "a Gaussian mechanism needs delta > 0; for delta = 0 use a pure mechanism "
            "(RiemannianLaplace, WrappedLaplace, KNormGradient)",
        )
    if calibration == "analytic":
        return Noise.of(budget).multiplier
    if budget.epsilon > 1:
        raise invalid(
            "calibration",
            calibration,
            f"the classical formula is proved for epsilon <= 1 only, and the budget has "
            f'epsilon = {budget.epsilon:g}; use "analytic"',
        )
    return math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


# -------------------------------------------------------------------- mechanisms of one value
class PointMechanism(AbstractMechanism[Any]):
    """A mechanism for one point (or tangent vector) of a manifold, with one scale of noise.

    Attributes:
        manifold: The space.
        sensitivity: Sensitivity of the value, as the mechanism's docstring measures it.
        budget: What was given to spend, a `Budget` or noise that was made of one; a pure mechanism
            spends its epsilon alone.
        scale: sigma of a Gaussian, s of a Laplace or K-norm distribution.
        adjacency: The neighbours that `sensitivity` and `guarantee` are for.
        ball: The public ball that values are moved into, or None.
        tries: Expected number of proposals of one release; 1 without rejection.
    """

    manifold: AbstractManifold
    sensitivity: float
    budget: Budget | Noise
    scale: float
    adjacency: str
    ball: Ball | None = None
    tries: float = 1.0
    needs_delta: ClassVar[bool] = False
    """Whether a budget with delta = 0 is refused."""
    needs_gradient: ClassVar[bool] = False
    """Whether it draws by the private gradient of the mean's objective."""
    stays_in_ball: ClassVar[bool] = False
    """Whether releases are moved into the public ball."""

    @functools.cached_property
    def _domain(self) -> Domain | None:
        """The public ball, bound to the space."""
        return None if self.ball is None else self.ball.on(self.manifold)

    @property
    def quoted_budget(self) -> Budget | None:
        """`budget`, or what its noise keeps within."""
        return self.budget if isinstance(self.budget, Budget) else self.budget.budget

    def _quoted(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee, which quotes its epsilon at the delta of the budget."""
        budget = self.quoted_budget
        return guarantee if budget is None else guarantee.quoted_at(budget.delta)

    @functools.cached_property
    def error_distribution(self) -> ErrorDistribution | None:
        """Distribution of the distance between the release and the admitted value, for the least
        favourable value; None where no formula is known.
        """
        return None

    def errors_at(self, distance: float) -> ErrorDistribution | None:
        """Distribution of the same distance for a value at `distance` from the public centre,
        before the release is moved into the ball; None where no formula is known.
        """
        return self.error_distribution

    def score(self, value_in: Point, value_out: Point) -> Callable[[Point], Array]:
        """The statistic by which an attacker tells two values apart: stacked releases -> numbers,
        larger for `value_in`.
        """
        manifold = self.manifold
        return lambda x: manifold.dist(x, value_out) - manifold.dist(x, value_in)

    @property
    def _details(self) -> dict[str, Any]:
        """Public facts for `Release.details`."""
        errors = self.error_distribution
        return {"error": "no formula" if errors is None else errors.kind}

    def _made(self, noisy: Point, seen: Observation | None = None) -> Drawn:
        """What was drawn: the released point, and the noisy vector that it was made of."""
        errors = self.error_distribution
        return Drawn(noisy, self.scale, self.sensitivity, errors, self._details, seen)

    def _settle(self, **values: object) -> None:
        """Set fields of a frozen instance, from its own `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


class GaussianMechanism(PointMechanism):
    """A mechanism of Gaussian noise.

    Attributes:
        calibration: "analytic" or "classical"; see `gaussian_multiplier`.
        noise_multiplier: sigma over the sensitivity that the noise is made for.
    """

    needs_delta: ClassVar[bool] = True
    calibration: str
    noise_multiplier: float

    @property
    def guarantee(self) -> Guarantee:
        """Of one release; sigma is `noise_multiplier` sensitivities, rounded up."""
        return self._guarantee

    @functools.cached_property
    def _guarantee(self) -> Guarantee:
        return self._quoted(gaussian(self.noise_multiplier, adjacency=self.adjacency))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in every coordinate."""
        return self.scale

    def _check_calibration(self) -> float:
        """Check the calibration, and fix and return the noise multiplier."""
        one_of("calibration", self.calibration, CALIBRATIONS)
        z = gaussian_multiplier(self.budget, self.calibration)
        self._settle(noise_multiplier=z)
        return z


class PureMechanism(PointMechanism):
    """A mechanism whose guarantee is pure: (epsilon, 0).

    Attributes:
        epsilon: What one release spends.
    """

    epsilon: float | Budget | Noise

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0) under `adjacency`."""
        return self._guarantee

    @functools.cached_property
    def _guarantee(self) -> Guarantee:
        assert isinstance(self.epsilon, float)
        return self._quoted(pure(self.epsilon, adjacency=self.adjacency))

    def _check_epsilon(self) -> float:
        """Read `epsilon`, a number, a `Budget` or Laplace noise, and fix it and `budget`."""
        given = self.epsilon
        if not isinstance(given, Budget | Noise):
            given = Budget(real("epsilon", given, above=0.0))
        noise = Noise.of(given, pure=True)
        assert isinstance(noise, LaplaceNoise)
        self._settle(epsilon=noise.spent, budget=given)
        return noise.spent


class AbstractTangentNoise(PointMechanism):
    """A mechanism whose noise is a tangent vector at a public base: how far that carries a value,
    what a confidence region is made from, and what an attack looks at. No claim of privacy rests on
    it.
    """

    base: Point
    ball: Ball | None

    @property
    @abc.abstractmethod
    def lengths(self) -> Lengths:
        """Distribution of the length of the noise in the tangent space, before any shrinking."""

    def _seen(self, y: Floats) -> Observation:
        """The noisy coordinates at the base, with the distribution of their error."""
        return Observation(self.manifold, self.base, y, self.lengths, self._slack)

    @functools.cached_property
    def _slack(self) -> float:
        """What rounding adds to the length of the noise, where a bound is known."""
        return 0.0

    @property
    def largest_distance(self) -> float | None:
        """Largest distance of an admitted value from the base; None without a ball."""
        domain = self._domain
        if domain is None:
            return None
        return domain.radius + float(self.manifold.dist(domain.center, self.base))

    @functools.cached_property
    def error_distribution(self) -> ErrorDistribution | None:
        """Distribution of the distance between the release and the admitted value, None where no
        formula is known: an upper bound, taken at the edge of the ball on negatively curved spaces.
        """
        return self._errors_at(self.largest_distance)

    def errors_at(self, distance: float) -> ErrorDistribution | None:
        """The same distribution for a value at `distance` from the base."""
        return self._errors_at(distance)

    def _errors_at(self, distance: float | None) -> ErrorDistribution | None:
        return wrapped_errors(self.manifold, distance, self.lengths)

    def score(self, value_in: Point, value_out: Point) -> Callable[[Point], Array]:
        """Linear in the logarithm at the base: the log-likelihood ratio (without shrinking)."""
        m, base = self.manifold, self.base
        ahead = map_leaves(np.subtract, m.log(base, value_in), m.log(base, value_out))
        return lambda x: m.inner(base, m.log(base, x), ahead)


def rounded_up(x: float) -> float:
    """One float above x: a product that was rounded down must not make the noise smaller than its
    guarantee says.
    """
    return float(np.nextafter(x, np.inf))
