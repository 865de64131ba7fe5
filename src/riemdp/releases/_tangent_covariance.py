"""`private_tangent_covariance`: how records scatter about a centre, in which directions."""

from __future__ import annotations

from .._errors import invalid
from ..domains import Ball
from ..domains._door import admit_manifold, admit_records
from ..domains._names import names_of, of_coordinates
from ..inference import Query
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release, TangentCovarianceNoise
from ..mechanisms._base import Ready
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..privacy._noise import Noise
from ..randomness import NoiseSource
from ..statistics._membership import unit_of
from ._options import spending
from ._people import facts as people_facts
from ._people import of_groups


def private_tangent_covariance(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Release:
    """Release the second moment of private records in the tangent space at the centre of a ball.

    The value is (1/n) sum v v^T, v being log_c x in the orthonormal coordinates of
    `manifold.to_coordinates(c, .)` at the centre c, shortened to the radius. About a private mean
    it is the tangent covariance (but for the error of that mean, which it contains as its outer
    product). Its eigenvectors are principal geodesics: exp_c(t e) for an eigenvector e, by
    `manifold.from_coordinates`. Eigenvalues of the noisy matrix may be negative; one that is not
    well above `noise_floor` in the details shows noise.

    Args:
        manifold: A space with a logarithm.
        X: n >= 1 records, a list of them or (n, *manifold.shape); a tuple of such on a product. n
            is public. A record that is no point of the space counts as the centre.
        ball: A `Ball(center, radius)` that is public, or whose centre and radius were released with
            a guarantee of their own: `Ball(mean.value, r)`. Required. The noise grows with r^2.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.
        groups: One label of a person for each record. Then x runs over the people's means, n is the
            number of people, and everything of one person is protected; see
            `private_frechet_mean`.

    Returns:
        A `Release` whose value is a symmetric matrix (dim, dim). `details["noise_floor"]` is about
        the largest eigenvalue of the noise alone, 2 sigma sqrt(dim / 2), for Gaussian noise.

    Raises:
        InvalidArgument: An argument is out of range. Nothing was spent.
        NotImplementedError: The space has no logarithm.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `release.guarantee`, within `budget`, replace-one, for records whatever they are:
        sensitivity sqrt(2) r^2 / n in the Frobenius norm. With `groups` neighbours differ in
        everything of one person (docs/proofs/people.md).

    Source:
        Fletcher et al. 2004 (principal geodesic analysis).
        Proof: docs/proofs/second-moment.md.

    Examples:
        >>> import jax, numpy as np, riemdp
        >>> space = riemdp.SPDAffineInvariant(2)
        >>> v = jax.random.normal(jax.random.key(0), (5000, 3)) * np.array([0.4, 0.1, 0.1])
        >>> X = space.exp(space.origin, space.from_coordinates(space.origin, v))
        >>> release = riemdp.private_tangent_covariance(
        ...     space, X, riemdp.Ball(space.origin, 1.0), riemdp.Budget(1.0, 1e-6), rng=0
        ... )
        >>> values, vectors = np.linalg.eigh(release.value)
        >>> bool(abs(vectors[0, -1]) > 0.95)  # the first direction
        True
    """
    refuse_sent(budget, ledger)
    return prepared_covariance(manifold, X, ball, budget, groups=groups).release(rng, ledger)


def prepared_covariance(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | None,
    budget: Budget | Noise | None,
    *,
    groups: object = None,
) -> Ready:
    """`private_tangent_covariance` up to its charge: whatever can be refused is refused here."""
    order = "private_tangent_covariance(manifold, X, ball, budget)"
    manifold = admit_manifold(manifold, X, order)
    spend, budget = spending(budget, ball)
    if not isinstance(ball, Ball):
        raise invalid(
            "ball",
            ball,
            "give a riemdp.Ball(center, radius): a public one, the value of private_ball, or one"
            " about a private mean",
        )
    domain = ball.on(manifold)
    grouped = of_groups(manifold, X, groups, domain)
    records, n = admit_records(manifold, "X", grouped.points if grouped else X)
    mechanism = TangentCovarianceNoise(manifold, ball, n=n, budget=spend)
    axis = of_coordinates(manifold, names_of(X))

    def finish(release: Release) -> Release:
        warn_of(release.guarantee, budget.delta, n)
        details = {
            "n": n,
            "radius": domain.radius,
            "query": Query.MOMENT,
            "unit": "squared distance",
            "manifold": manifold,
            "ball": ball,
            "budget": budget,
            "clipping": (
                "every record becomes the tangent vector at the centre that points to it, shortened"
                " to the radius; a record that is not a valid point counts as the centre"
            ),
            **people_facts(grouped),
        }
        if budget.delta > 0:
            details["noise_floor"] = 2.0 * release.scale * (manifold.dim / 2.0) ** 0.5
        release = release._knowing(details)
        return release._named(None if axis is None else (axis, axis))

    return mechanism._ready(records, unit_of(grouped)).then(finish)
