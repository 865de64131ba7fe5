"""Comparisons of records that come as two arrays: `private_two_sample` is `private_comparison` of
both, `private_paired_samples` the same test of the differences of pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import invalid, one_of
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold, admit_records
from ..domains._labels import admit_people, one_by_one
from ..inference import Comparison
from ..inference._counts import warn_of_counts
from ..inference._region import OF
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import AbstractMechanism, Release
from ..mechanisms._at_centre import LabelledRecords
from ..mechanisms._base import Ready
from ..mechanisms._pairs import FIRST, SECOND, PairsNoise
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._membership import Membership, unit_of
from ._comparison import private_comparison
from ._comparison_of import comparison_of
from ._options import ball_or_search, required_budget

_CLIPPING = (
    "both records of a pair become tangent vectors at the centre, shortened to the radius, and one"
    " is subtracted from the other; a record that is not a valid point counts as the centre"
)
_PERSON_IS = "one vector each: the mean of the differences of that person's pairs"


def private_two_sample(
    manifold: AbstractManifold,
    A: RecordsLike,
    B: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    of: str = "population",
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Comparison:
    """Test with differential privacy whether two samples have the same mean: `private_comparison`
    of the records of both, in one ball, with one charge. For pairs of records, as before and after
    a treatment, see `private_paired_samples`.

    Args:
        manifold: A space with a logarithm.
        A: The records of one sample, (n, *manifold.shape); a tuple of such on a product.
        B: The records of the other, in the same form. Both sizes are public.
        ball: As in `private_comparison`, and so are `budget`, `of`, `rng` and `ledger`.
        groups: A pair of labels of people, those of A and those of B: one label for each record. A
            person belongs to one sample.

    Returns:
        The `Comparison`.

    Raises:
        InvalidArgument: See `private_comparison`. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        That of `private_comparison`: within `budget`, replace-one within a sample. With `groups`
        neighbours differ in everything of one person.

    Source:
        Proof: docs/proofs/comparison.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, rng = riemdp.Euclidean(2), np.random.default_rng(0)
        >>> A, B = rng.normal(size=(900, 2)), 0.5 + rng.normal(size=(600, 2))
        >>> ball, budget = riemdp.Ball(np.zeros(2), 3.0), riemdp.Budget(1.0, 1e-6)
        >>> riemdp.private_two_sample(space, A, B, ball, budget, rng=0).rejects(0.01)
        True
    """
    refuse_sent(budget, ledger)
    manifold = admit_manifold(manifold, A, "private_two_sample(manifold, A, B, ball, budget)")
    both, n, m = _both(manifold, A, B)
    if groups is not None:
        if not isinstance(groups, tuple | list) or len(groups) != 2:
            remedy = "give a pair: labels of A, labels of B"
            raise invalid("groups", type(groups).__name__, remedy)
        admit_people("groups", groups[0], n, of="A")
        admit_people("groups", groups[1], m, of="B")
        groups = [*one_by_one(groups[0]), *one_by_one(groups[1])]
    return private_comparison(
        manifold,
        both,
        ball,
        budget,
        samples=np.repeat([0, 1], [n, m]),
        groups=groups,
        of=of,
        rng=rng,
        ledger=ledger,
    )


def private_paired_samples(
    manifold: AbstractManifold,
    A: RecordsLike,
    B: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    groups: object = None,
    of: str = "population",
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Comparison:
    """Test with differential privacy whether pairs of records differ on average, as before and
    after a treatment: what both records of a pair have in common cancels out.

    Both records become tangent vectors at one centre, clipped to the radius, and the mean of their
    differences is tested against 0. On a curved space the centre decides what a difference is.

    Args:
        manifold: A space with a logarithm.
        A: The first records of n pairs, (n, *manifold.shape); a tuple of such on a product. A
            record that is not a point counts as the centre.
        B: The second records: B[i] is of the same person or thing as A[i].
        ball: As in `private_comparison`, and so are `budget`, `of`, `rng` and `ledger`.
        groups: One label of a person for each pair. Then every person counts once, by the mean of
            that person's differences.

    Returns:
        The `Comparison`; `comparison.release.value` is the mean difference, log B - log A, a
        tangent vector at the centre of the ball.

    Raises:
        InvalidArgument: See `private_comparison`; or A and B differ in number. Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        Within `budget`, replace-one of pairs: neighbours differ in both records of one pair. Half a
        difference is no longer than the radius r, and the mean of n has sensitivity 2 r / n. With
        `groups` neighbours differ in everything of one person.

    Source:
        Proof: docs/proofs/comparison.md, Lemma 8.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, rng = riemdp.Euclidean(2), np.random.default_rng(0)
        >>> before = rng.normal(size=(900, 2))
        >>> after = before + 0.4 + 0.1 * rng.normal(size=(900, 2))
        >>> ball, budget = riemdp.Ball(np.zeros(2), 3.0), riemdp.Budget(1.0, 1e-6)
        >>> riemdp.private_paired_samples(space, before, after, ball, budget, rng=0).rejects(0.01)
        True
    """
    refuse_sent(budget, ledger)
    manifold = admit_manifold(manifold, A, "private_paired_samples(manifold, A, B, ball, budget)")
    one_of("of", of, OF)
    both, n, m = _both(manifold, A, B)
    if n != m:
        raise invalid("B", f"{m} records", f"pairs need as many as `A` has, {n}")
    people = None if groups is None else Membership(groups, n, of="A")
    ready = _of_pairs(manifold, both, people, n, ball, required_budget(budget, ball))
    release = ready.release(rng, ledger)
    warn_of_counts(release.facts.valid)
    return _tested(release, ready.mechanism, of)


def _both(manifold: AbstractManifold, A: RecordsLike, B: RecordsLike) -> tuple[Point, int, int]:
    """The records of two arrays in one, and how many there are of each."""
    first, n = admit_records(manifold, "A", A)
    second, m = admit_records(manifold, "B", B)
    return map_leaves(lambda *leaves: np.concatenate(leaves), first, second), n, m


def _of_pairs(
    manifold: AbstractManifold,
    both: Point,
    people: Membership | None,
    n: int,
    ball: Ball | AdaptiveBall | None,
    budget: Budget,
) -> Ready:
    """The differences of n pairs, up to their charge."""
    owners = np.arange(n) if people is None else people.places
    pairs = Membership(np.tile(owners, 2), 2 * n)
    mechanism = PairsNoise(manifold, ball_or_search(ball), n=pairs.n, budget=budget)
    value = LabelledRecords(both, np.repeat([FIRST, SECOND], n), pairs)
    ready = mechanism._ready(value, unit_of(people))
    warn_of(ready.guarantee, budget.delta, pairs.n)
    told: dict[str, Any] = {"manifold": manifold, "budget": budget, "clipping": _CLIPPING}
    if people is not None:
        told |= {"people": people.n, "person_is": _PERSON_IS}
    return ready.then(lambda release: release._knowing(told))


def _tested(release: Release, mechanism: AbstractMechanism[Any], of: str) -> Comparison:
    """The test of the mean difference against 0, from the release alone."""
    assert isinstance(mechanism, PairsNoise)
    whose = "people" if release.facts.of_people else "pairs"
    said = f"the mean difference of clipped tangent vectors of {whose}"
    hypothesis = f"{said} is 0" + (" in the population" if of == "population" else "")
    sums, noise = mechanism.sums, mechanism.noise  # halves of differences were summed
    return comparison_of(release, sums, noise, of, said=said, hypothesis=hypothesis, unit=2.0)
