"""From neighbours that have one record more or less to neighbours that have another record."""

from __future__ import annotations

from dataclasses import replace

from ._guarantee import RECORD, REPLACE_ONE, Guarantee, as_guarantee


def replace_one(guarantee: Guarantee) -> Guarantee:
    """What add-or-remove-one guarantees say of the replacement of one record, by the trade-off
    functions of a removal and of an addition.

    It is for releases whose batches are random: Poisson sampling and random allocation have
    guarantees for records that are added or removed, and where the number of records is public it
    is the replacement that one wants to know of.

    Args:
        guarantee: Of releases that are defined with one record less as well, whatever the record is
            that is left out, with the same public constants (rate, steps, planned batch size).

    Returns:
        A guarantee for replace-one neighbours (one person in the place of another where the unit is
        a person). One that is for replace-one neighbours already comes back as it is.

    Raises:
        InvalidArgument: `guarantee` is no `Guarantee`.

    Guarantee:
        For D, D' of the same size that differ in one record, P(M(D) in S) <= e^epsilon P(M(D') in
        S) + delta(epsilon): with T the trade-off bound for one record more or less, the test's rate
        of true positives at the rate f of false ones is at most T(T(f)).

    Source:
        Dong, Roth and Su 2022, Theorem 2.14.
        Proof: docs/proofs/subsampling.md, Lemma 7.

    Examples:
        >>> from riemdp.privacy import allocated_gaussian, replace_one, subsampled_gaussian
        >>> batches = {"population": 10_000, "batch_size": 100, "steps": 1000}
        >>> round(subsampled_gaussian(1.0, **batches).epsilon(1e-5), 1)
        2.2
        >>> allocated = allocated_gaussian(2.0, steps=100, epochs=10)  # the same noise
        >>> round(replace_one(allocated).epsilon(1e-5), 1)
        1.3
    """
    guarantee = as_guarantee(guarantee)
    if guarantee.adjacency == REPLACE_ONE:
        return guarantee
    both = replace(guarantee, unit=RECORD).group(2)
    return replace(
        both, adjacency=REPLACE_ONE, unit=guarantee.unit, quoted_delta=guarantee.quoted_delta
    )
