"""Class means in one ball that is found privately from all records, whatever their labels.

Guarantee, replace-one: with delta > 0 that of one Gaussian mechanism with the noise multiplier of
the budget; with delta = 0 pure epsilon. The search and the sums share the budget, and the theorem
of docs/proofs/private-ball.md holds for them. Let z = log_c(x) shortened to length r, c and r being
released, and S_a = sum of z / r over class a, N_a the number of its records.

Public labels: replacing a record changes one S_a by at most 2. The classes are released with their
own noise for 2 each (parallel composition).

Private labels: replacing (x, a) by (x', b), a != b, changes S_a and S_b by at most 1 each and N_a,
N_b by 1 each, so the vector of all sums and counts by at most sqrt(4) = 2; with a = b it changes
S_a by at most 2 and no count. So sums and counts together get the noise of public labels. A label
that is no class belongs to no sum: less changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from .._errors import integer, invalid
from ..domains import AdaptiveBall, Ball, Domain
from ..domains._frame import MOST_TERMS, summation_error
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..privacy import Budget
from ..randomness import NoiseSource
from ..statistics import TangentMean
from ..statistics._sums import weighted_sum
from ._ball_search import SearchPlan, plan_short_search, run_short_search
from ._base import Drawn
from ._budgeted import Floats
from ._common import end_of
from ._private_ball import AdaptiveMechanism
from ._search_records import SearchRecords

_Labelled = tuple[Point, NDArray[np.int64]]  # records, and positions of their classes

_LEAST_KEPT = 1e-3  # of the classes' contrasts: their order is kept where James-Stein keeps nothing


class AdaptiveClassMeans(AdaptiveMechanism[_Labelled]):
    """Release the means of several classes, about one centre and clipped at one radius.

    The search (the scale, the median distance, a centre and the median distance about it) uses all
    records and no label. A class mean is the mean of its records' tangent vectors at the centre,
    clipped at the radius, with noise; all class means are then moved towards their average by
    positive-part James-Stein, which uses released numbers only.

    Args:
        manifold: A space with a logarithm.
        search: An `AdaptiveBall`.
        n: The public number of records of all classes.
        classes: The public number of classes.
        budget: `Budget(epsilon, delta)`; delta = 0 gives pure epsilon.
        sizes: The public number of records of each class where labels are public; None where they
            are private.

    Raises:
        InvalidArgument: On release, naming `ball`, where n is too small; from public numbers only.

    Guarantee:
        Replace-one; the label stays where labels are public and may change where they are private.
        delta > 0: mu-GDP with mu = 1 / gaussian_noise_multiplier(budget); delta = 0: (epsilon, 0).

    Source:
        docs/proofs/private-ball.md.
    """

    name: ClassVar[str] = "adaptive-class-means"
    words: ClassVar[str] = (
        "counts of records and a mean of clipped tangent vectors with noise, which locate a centre"
        " and a radius for all classes, and noise on the sums of clipped tangent vectors of the"
        " classes"
    )
    planner: ClassVar[Callable[..., SearchPlan]] = staticmethod(plan_short_search)

    def __init__(
        self,
        manifold: AbstractManifold,
        search: AdaptiveBall,
        *,
        n: int,
        classes: int,
        budget: Budget,
        sizes: Sequence[int] | None = None,
    ):
        super().__init__(manifold, search, n=n, budget=budget)
        self.classes = integer("classes", classes)
        self.sizes = None if sizes is None else np.array(sizes, dtype=np.float64)
        if self.sizes is not None and (self.sizes.shape != (classes,) or self.sizes.min() < 1):
            raise invalid("sizes", sizes, "give the number of records of each class, at least 1")

    @property
    def sensitivity(self) -> float:
        """Of the vector of all sums, in units of the radius, and counts; rounding included."""
        return 2.0 * (1.0 + 1e-12) + 2.0 * self.n * summation_error(MOST_TERMS)

    def sums(self, z: Array, labels: NDArray[np.int64]) -> Floats:
        """The sum of each class's vectors of length at most 1, shape (classes, dim); a last column
        holds the number of its records where labels are private.
        """
        flags = [labels == a for a in range(self.classes)]
        sums = np.stack([np.asarray(weighted_sum(jnp.asarray(f, float), z)) for f in flags])
        if self.sizes is not None:
            return sums
        return np.column_stack([sums, [float(np.count_nonzero(f)) for f in flags]])

    def _admit(self, value: tuple[RecordsLike, NDArray[np.int64]]) -> _Labelled:
        """Records, and for each the position of its class, or a negative number for none."""
        X, labels = value
        records = self._admitted(X)
        if np.shape(labels) != (self.n,):
            raise invalid("y", f"{np.shape(labels)} labels", f"give n = {self.n}")
        return records, np.asarray(labels)

    def _draw(self, value: _Labelled, source: NoiseSource) -> Drawn:
        X, labels = value
        records = SearchRecords(self.domain, X, self.noise, source)
        found = run_short_search(self.plan, records)
        r = records.size(found.radius)
        query = TangentMean(Domain(self.manifold, records.center, r), self.n)
        z = query.shorten(records.logs).points / r
        joint = self.sums(z, labels)
        together = joint.size if self.sizes is None else joint.shape[1]
        scale = self.noise.scale(self.sensitivity, 1.0 - found.spent, together)
        if self.sizes is None:
            noisy = self.noise.added(joint.ravel(), scale, source).reshape(joint.shape)
            sums, sizes = noisy[:, :-1], np.maximum(noisy[:, -1], self.n / (4.0 * self.classes))
        else:
            sums = np.stack([self.noise.added(one, scale, source) for one in joint])
            sizes = self.sizes
        means = self._contracted(sums / sizes[:, None], scale / sizes)
        coordinates = r * means
        center = records.center
        points = [end_of(self.manifold, center, y) for y in coordinates]
        facts = self._facts(records, found) | {
            "ball": Ball(center, r),
            "coordinates": coordinates,
            "sizes": None if self.sizes is not None else tuple(float(s) for s in sizes),
        }
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
        return Drawn(stacked, r * scale, r * self.sensitivity, None, facts)

    def _contracted(self, means: Floats, deviations: Floats) -> Floats:
        """Released class means moved towards their average by positive-part James-Stein.
        `deviations` are those of one coordinate of each mean.
        """
        dim = means.shape[1]
        if self.noise.is_pure:  # the noise of a K-norm mechanism, as if it were Gaussian
            dim_of_noise = means.size + len(means) if self.sizes is None else dim
            deviations = deviations * np.sqrt(dim_of_noise + 1.0)
        average = means.mean(axis=0)
        contrasts = means - average
        square = float(np.sum(contrasts**2))
        noise = ((len(means) - 1) * dim - 2) * float(np.mean(deviations**2))
        kept = 1.0 - max(0.0, noise) / square if square > 0 else 1.0
        return average + max(_LEAST_KEPT, kept) * contrasts
