"""`private_comparison`: from the records of several samples to a p-value."""

from __future__ import annotations

import numpy as np

from .._errors import InvalidArgument, invalid, one_of
from ..domains import AdaptiveBall, Ball
from ..domains._door import admit_manifold, admit_records
from ..domains._labels import admit_labels, public_classes
from ..inference import Comparison
from ..inference._counts import warn_of_counts
from ..inference._region import OF
from ..manifolds import AbstractManifold
from ..manifolds._base import RecordsLike
from ..mechanisms import Release
from ..mechanisms._at_centre import LabelledRecords
from ..mechanisms._comparison import SamplesNoise
from ..mechanisms._parts import PublicParts
from ..privacy import Budget, Ledger
from ..privacy._cautions import warn_of
from ..privacy._ledger import refuse_sent
from ..randomness import NoiseSource
from ..statistics._membership import Membership, unit_of
from ._comparison_of import comparison_of
from ._options import ball_or_search, required_budget
from ._people import facts as people_facts
from ._people import of_groups

_CLIPPING = (
    "every record becomes the tangent vector at the centre that points to it, shortened to the"
    " radius; a record that is not a valid point counts as the centre. Which record belongs to"
    " which sample is public"
)


def private_comparison(
    manifold: AbstractManifold,
    X: RecordsLike,
    ball: Ball | AdaptiveBall | None = None,
    budget: Budget | None = None,
    *,
    samples: object = None,
    groups: object = None,
    of: str = "population",
    rng: int | NoiseSource | None = None,
    ledger: Ledger | None = None,
) -> Comparison:
    """Test with differential privacy whether two or more samples have the same mean.

    One search for a ball that all samples share (unless a public one is given), one charge, the
    means and the spread of all samples at one centre, and the test.

    Args:
        manifold: A space with a logarithm.
        X: The n records of all samples, (n, *manifold.shape); a tuple of such on a product. A
            record that is no point of the space counts as the centre.
        ball: A public `Ball`, or an `AdaptiveBall`: where to search. Default: `AdaptiveBall()`.
            Every record becomes the tangent vector at the centre that points to it, clipped to the
            radius; the curvature does not limit the radius. A ball that is found is about as wide
            as the median distance, so that about half of the vectors are clipped.
        budget: `Budget(epsilon, delta)`, required; delta = 0 gives pure epsilon.
        samples: One label for each record, two different ones or more: its sample. **Which record
            belongs to which sample is public**, and so is the size of every sample.
        groups: One label of a person for each record. Then every person counts once, by the mean
            of that person's records, and everything of one person is protected. A person belongs to
            one sample; who has records in several is refused.
        of: "population": the hypothesis is that the samples are drawn independently from
            populations with the same mean of clipped vectors; the level is that of normal means,
            and is exceeded at epsilon 10 and more where records are rare. "sample": that the
            samples themselves have the same; the level then holds for any records.
        rng: None (operating system), an int (reproducible, not private) or a `NoiseSource`.
        ledger: The `Ledger` to charge, once and before the first draw; None charges the innermost
            `with Ledger(...)`, if any.

    Returns:
        The `Comparison`: p-value, statistic, the distance of the means with an interval; its
        `release` has the means (value), the ball, the guarantee and the charge.

    Raises:
        InvalidArgument: An argument is out of range, there are fewer than two samples, or too few
            records for a search (from public numbers only). Nothing was spent.
        BudgetExceeded: The ledger refuses. Nothing was spent.

    Guarantee:
        `comparison.guarantee`, within `budget`, replace-one, for records whatever they are; the
        replaced record, or person, stays in its sample. mu-GDP with mu = 1 /
        gaussian_noise_multiplier(budget), or (epsilon, 0): each sample has a vector of its own, of
        sensitivity 2 r.

    Source:
        Proof: docs/proofs/comparison.md (level, spread); docs/proofs/private-ball.md (search);
        docs/proofs/people.md (`groups`).

    Examples:
        >>> import numpy as np, riemdp
        >>> space, rng = riemdp.Euclidean(2), np.random.default_rng(0)
        >>> samples = np.repeat(["treated", "control"], [900, 600])
        >>> X = rng.normal(size=(1500, 2)) + 0.5 * (samples == "treated")[:, None]
        >>> ball = riemdp.Ball(np.zeros(2), 3.0)
        >>> found = riemdp.private_comparison(
        ...     space, X, ball, riemdp.Budget(1.0, 1e-6), samples=samples, rng=0
        ... )
        >>> found.rejects(0.01)
        True
    """
    refuse_sent(budget, ledger)
    manifold = admit_manifold(manifold, X, "private_comparison(manifold, X, ball, budget)")
    budget = required_budget(budget, ball)
    one_of("of", of, OF)
    where = ball_or_search(ball)
    records, rows = admit_records(manifold, "X", X)
    labels, count = _samples(samples, rows)
    members = None if groups is None else Membership(groups, rows)
    parts = PublicParts(labels, count, members, what="samples")
    domain = where.on(manifold) if isinstance(where, Ball) else None
    grouped = None if groups is None else of_groups(manifold, records, groups, domain)
    if members is not None and grouped is not None:
        records, labels = grouped.points, _of_people(labels, members)
    mechanism = SamplesNoise(
        manifold, where, n=len(labels), classes=count, budget=budget, sizes=parts.sizes
    )
    ready = mechanism._ready(LabelledRecords(records, labels), unit_of(grouped))
    warn_of(ready.guarantee, budget.delta, len(labels))
    release = ready.release(rng, ledger)
    warn_of_counts(release.facts.valid)
    known = {"manifold": manifold, "budget": budget, "clipping": _CLIPPING}
    release = release._knowing(known | people_facts(grouped, found=domain is None))
    return _tested(release, mechanism, of)


def _tested(release: Release, mechanism: SamplesNoise, of: str) -> Comparison:
    """The test, from the release alone."""
    whose = "people's means" if release.facts.of_people else "records"
    said = f"the {mechanism.sums.classes} samples' means of clipped tangent vectors of {whose}"
    hypothesis = f"{said} are the same" + (" in the populations" if of == "population" else "")
    spreads, noise = mechanism.spreads, mechanism.noise
    return comparison_of(release, spreads, noise, of, said=said, hypothesis=hypothesis)


def _samples(samples: object, rows: int) -> tuple[np.ndarray, int]:
    """The place of each record's sample, and how many samples there are: public."""
    if samples is None:
        raise invalid("samples", None, "give one label for each record: the sample it belongs to")
    names = public_classes("samples", samples)
    labels = admit_labels("samples", samples, list(names))  # type: ignore[arg-type]
    if len(labels) != rows:
        raise InvalidArgument(
            f"argument `samples` has {len(labels)} labels and `X` has {rows} records; give one"
            " label for each record"
        )
    if np.any(labels < 0):
        raise invalid("samples", "given", "give numbers or texts as labels")
    if len(names) < 2:
        raise invalid("samples", f"{len(names)} different", "a comparison needs at least two")
    return labels, len(names)


def _of_people(labels: np.ndarray, members: Membership) -> np.ndarray:
    """The sample of each person, who has records in one only."""
    found = np.zeros(members.n, dtype=np.int64)
    found[members.places] = labels
    return found
