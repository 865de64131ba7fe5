"""`private_two_sample`: `private_comparison` of records that come as two arrays."""

from __future__ import annotations

import numpy as np

from .._errors import invalid
from .._trees import map_leaves
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold, admit_records
from ..domains._labels import admit_people, one_by_one
from ..inference import Comparison
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..privacy import Budget, Ledger
from ..randomness import NoiseSource
from ._comparison import private_comparison


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
    of the records of both, in one ball, with one charge.

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
        That of `private_comparison`: within `budget`, replace-one within a sample.

    Source:
        Proof: docs/proofs/comparison.md.

    Examples:
        >>> import numpy as np, riemdp
        >>> space, rng = riemdp.Euclidean(2), np.random.default_rng(0)
        >>> before, after = rng.normal(size=(900, 2)), 0.5 + rng.normal(size=(600, 2))
        >>> ball, budget = riemdp.Ball(np.zeros(2), 3.0), riemdp.Budget(1.0, 1e-6)
        >>> riemdp.private_two_sample(space, before, after, ball, budget, rng=0).rejects(0.01)
        True
    """
    manifold = admit_manifold(manifold, A, "private_two_sample(manifold, A, B, ball, budget)")
    first, n = admit_records(manifold, "A", A)
    second, m = admit_records(manifold, "B", B)
    both = map_leaves(lambda *leaves: np.concatenate(leaves), first, second)
    if groups is not None:
        if not isinstance(groups, tuple | list) or len(groups) != 2:
            raise invalid("groups", type(groups).__name__, "give a pair: labels of A, labels of B")
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
