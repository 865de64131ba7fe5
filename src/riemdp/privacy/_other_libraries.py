"""What releases by OpenDP and diffprivlib cost, from what these libraries state.

It holds for their neighbours and their privacy unit. Both are arguments without a default here.
Proof: docs/proofs/composition.md, Lemma 9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .._errors import InvalidArgument, integer, invalid, one_of, real
from ._constructors import approximate
from ._guarantee import ADD_REMOVE, ADJACENCIES, PERSON, REPLACE_ONE, UNITS, Guarantee
from .accounting.dp_events import values_that_change

_FIXED = (
    "argument `measurement` is for a public number of rows: none can be added or removed, and its"
    ' map states less than that costs; take adjacency="replace-one"'
)


def from_opendp(
    measurement: Any,
    *,
    adjacency: str,
    unit: str,
    rows: int | None = None,
    delta: float | None = None,
) -> Guarantee:
    """What one invocation of an OpenDP measurement costs, by its own privacy map: charge it, then
    invoke the measurement.

    Args:
        measurement: An OpenDP `Measurement` on data sets, whose input metric counts rows.
        adjacency: Neighbours of the ledger, "replace-one" or "add-or-remove-one". Under OpenDP's
            symmetric distance a replaced row is at distance 2.
        unit: "record" (one row) or "person".
        rows: With "person": the most rows that a person has in the data, a public number.
        delta: Where the measurement states a curve (`SmoothedMaxDivergence`): the delta at which it
            is read.

    Raises:
        InvalidArgument: The metric or the measure is another one, or the neighbours are those of
            another metric, or the number of rows is fixed and public and none can be added.

    Guarantee:
        (epsilon, delta) of the measurement's map at the distance of neighbours.

    Source:
        Proof: docs/proofs/composition.md.
    """
    adjacency = one_of("adjacency", adjacency, ADJACENCIES)
    if (one_of("unit", unit, UNITS) == PERSON) != (rows is not None):
        raise invalid("rows", rows, 'give the most rows of a person with unit="person" alone')
    distance = _distance(measurement, adjacency) * (1 if rows is None else integer("rows", rows))
    epsilon, at = _stated(measurement, distance, delta)
    if adjacency == ADD_REMOVE:
        # Rows that can be added one by one cost twice as much at twice the distance, and no more.
        twice, _ = _stated(measurement, 2 * distance, delta)
        if not twice <= 2.0 * (1.0 + 1e-6) * epsilon:
            raise InvalidArgument(_FIXED)
    found = approximate(epsilon, at, adjacency=adjacency)
    return _for_unit(found, unit)


def _stated(measurement: Any, distance: int, delta: float | None) -> tuple[float, float]:
    """Epsilon and delta at a distance, by the measurement's map."""
    measure, cost = str(measurement.output_measure), measurement.map(distance)
    if measure == "MaxDivergence":
        return cost, 0.0
    if measure == "Approximate(MaxDivergence)":
        return cost
    if measure == "SmoothedMaxDivergence":
        at = real("delta", delta, above=0.0, below=1.0)
        return cost.epsilon(at), at
    raise InvalidArgument(
        f"argument `measurement` states {measure}; give one that states an epsilon, for"
        " instance by opendp.combinators.make_zCDP_to_approxDP, and `delta`"
    )


def _distance(measurement: Any, adjacency: str) -> int:
    """Between neighbours that differ in one row, in the metric of the measurement."""
    metric = str(measurement.input_metric).removesuffix("()")
    if metric in ("SymmetricDistance", "InsertDeleteDistance"):
        if adjacency == ADD_REMOVE and "size=" in str(measurement.input_domain):
            raise InvalidArgument(_FIXED)
        return values_that_change(adjacency == REPLACE_ONE)
    if metric in ("ChangeOneDistance", "HammingDistance") and adjacency == REPLACE_ONE:
        return 1
    raise InvalidArgument(
        f"argument `measurement` has the input metric {metric}, which does not bound its cost for"
        f" {adjacency} neighbours; chain it to the data set, for instance with symmetric_distance()"
    )


def from_diffprivlib(
    accountant: Any, warned: Iterable[Any], *, adjacency: str, unit: str
) -> Guarantee:
    """What calls of diffprivlib have cost, from the `BudgetAccountant` that they were given.

    Args:
        accountant: The accountant. Its limit, `BudgetAccountant(epsilon, delta)`, is what to
            reserve before the calls.
        warned: What `warnings.catch_warnings(record=True)` and `simplefilter("always")` around the
            calls recorded.
        adjacency: The neighbours that the calls hold for: "replace-one" for means and variances,
            whose n is public, "add-or-remove-one" for counts and histograms. `replace_one` of the
            guarantee is what these cost under replace-one.
        unit: "record", or "person" where each person has one row.

    Raises:
        InvalidArgument: A call took its bounds from the data (`PrivacyLeakWarning`): it has no
            guarantee, and what it returned must not be published. Or no call was charged.

    Guarantee:
        The composition of the (epsilon, delta) that the accountant was charged.

    Source:
        Proof: docs/proofs/composition.md.
    """
    adjacency = one_of("adjacency", adjacency, ADJACENCIES)
    names = {kind.__name__ for warning in warned for kind in warning.category.__mro__}
    if "PrivacyLeakWarning" in names:
        raise InvalidArgument(
            "diffprivlib warned of a privacy leak: bounds were taken from the data, or data lay"
            " outside them. What was released has no guarantee; do not publish it, and repeat the"
            " call with public bounds"
        )
    if not accountant.spent_budget:
        raise invalid("accountant", "given", "give it to each call: none has charged it")
    each = [approximate(*spent, adjacency=adjacency) for spent in accountant.spent_budget]
    return _for_unit(each[0].compose(*each[1:]), unit)


def _for_unit(guarantee: Guarantee, unit: str) -> Guarantee:
    return replace(guarantee, unit=one_of("unit", unit, UNITS))
