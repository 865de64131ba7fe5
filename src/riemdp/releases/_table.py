"""`Plan`: what can be said before anything is spent, as a table to print, to show and to draw."""

from __future__ import annotations

import dataclasses
import functools
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .. import plots
from .._errors import InvalidArgument, invalid
from ..privacy import Budget

if TYPE_CHECKING:
    from ..plots._style import Axes

_WIDTH = 110
_LONG = 40  # a note longer than this goes below the table, once for all the rows that have it
_MOST = 10**15  # no data set has more records


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One way to spend one budget, in a `Plan`.

    Attributes:
        mechanism: Its name.
        budget: The `Budget`.
        note: Why it is not available or not chosen, or what is particular about it.
        eligible: Whether "auto" may choose it.
        typical_error: The error that "auto" compares; None where it may not choose it.
        expected_error: Root mean squared distance that noise causes; None without a formula.
        need: The number of records from which it is accepted.
    """

    mechanism: str
    budget: Budget
    note: str = ""
    eligible: bool = False
    typical_error: float | None = None
    expected_error: float | None = None
    need: int = 1

    @property
    def compared(self) -> float | None:
        """What "auto" compares; None where it may not choose it."""
        return self.typical_error

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self.budget.epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self.budget.delta


Row = TypeVar("Row", bound=PlanRow)


@dataclasses.dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a plan: its title, and the text of a row's cell."""

    title: str
    cell: Callable[[Row], str]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan(Sequence[Row], Generic[Row]):
    """What each way to spend a budget is expected to give, from public numbers alone: a sequence of
    rows. `str(plan)` prints the table.

    Attributes:
        title: What is planned, in a line.
        rows: The rows, one a budget and mechanism.
        columns: What is shown of each row.
        notes: Sentences below the table.
        described: What a picture says of it.
    """

    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column[Row], ...] = dataclasses.field(repr=False)
    notes: tuple[str, ...] = ()
    described: str = ""

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...

    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets of the plan, each once."""
        return tuple(dict.fromkeys(row.budget for row in self.rows))

    @property
    def need(self) -> int:
        """The number of records from which the first budget is accepted."""
        return self.rows[0].need

    def best(self, budget: Budget | None = None) -> Row:
        """The row that mechanism="auto" chooses.

        It has the smallest `compared` error of the mechanisms that the budget and the space allow
        and whose sampler is expected to need at most 10^4 tries. Of equal errors (those that the
        ball bounds) the first in the table is chosen.

        Args:
            budget: One of the budgets of the plan. None will do where there is only one.

        Raises:
            InvalidArgument: The plan does not hold the budget, or no mechanism is available; the
                message then gives each reason.
        """
        budgets = self.budgets
        if budget is None and len(budgets) != 1:
            raise invalid("budget", budget, "the plan has several budgets; name one of them")
        wanted = budgets[0] if budget is None else budget
        if wanted not in budgets:
            known = ", ".join(map(str, budgets))
            raise invalid("budget", budget, f"it is not in the plan; name one of {known}")
        found = chosen_of([row for row in self.rows if row.budget == wanted])
        if found is None:
            reasons = by_reason([r for r in self.rows if r.budget == wanted])
            raise InvalidArgument(
                f"no mechanism with a formula is available for the budget {wanted}. {self.title}. "
                + " ".join(f"{', '.join(names)}: {why}." for why, names in reasons.items())
                + " (Mechanisms without a formula are used only when named.)"
            )
        return found

    def __str__(self) -> str:
        return self._text

    @functools.cached_property
    def _text(self) -> str:
        below: dict[str, int] = {}
        cells = [[column.title for column in self.columns], *self._cells()]
        for row in cells[1:]:
            if len(row[-1]) > _LONG:
                row[-1] = f"[{below.setdefault(row[-1], len(below) + 1)}]"
        widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
        lines = [self.title]
        for row in cells:
            padded = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
            lines.append("  ".join(["", *padded[:-1], row[-1]]).rstrip())
        notes = [f"[{number}] {why}" for why, number in below.items()]
        for note in (*notes, *self.notes):
            lines += textwrap.wrap(note, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        return "\n".join(lines)

    __repr__ = __str__

    def _cells(self) -> list[list[str]]:
        return [[column.cell(row) for column in self.columns] for row in self.rows]

    def plot(self, ax: Axes | None = None, **options: Any) -> Any:
        """Draw the expected error against epsilon, one line a mechanism. Of several deltas at one
        epsilon the smallest error is drawn.

        Args:
            ax: The matplotlib axes to draw into; None makes new ones.
            **options: Further options of `riemdp.plots.error_curves`.

        Returns:
            The axes.

        Raises:
            InvalidArgument: No row has an expected error.
        """
        curves: dict[str, dict[float, float]] = {}
        for row in self.rows:
            if row.expected_error is not None:
                points = curves.setdefault(row.mechanism, {})
                points[row.epsilon] = min(row.expected_error, points.get(row.epsilon, math.inf))
        if not curves:
            raise InvalidArgument(
                "argument `plan` has no row with an expected error, so there is nothing to draw;"
                " print it to see why"
            )
        options.setdefault("title", f"Expected error of a private mean\n{self.described}")
        drawn = {name: sorted(points.items()) for name, points in curves.items()}
        return plots.error_curves(drawn, ax=ax, **options)


def several_budgets(budgets: object) -> list[Budget]:
    """One budget or a list of them, as a list."""
    given = budgets if isinstance(budgets, list | tuple) else [budgets]
    many = [b for b in given if isinstance(b, Budget)]
    if not many or len(many) != len(given):
        raise invalid("budgets", budgets, "give a riemdp.Budget(epsilon, delta), or a list of them")
    return many


def figure(x: float | None, digits: int = 5) -> str:
    """A number in a cell; a dash where there is none."""
    return "-" if x is None else f"{x:.{digits}g}"


def budget_columns() -> tuple[Column[Any], Column[Any]]:
    """The first two columns of every plan."""
    return (
        Column("epsilon", lambda row: f"{row.epsilon:.4g}"),
        Column("delta", lambda row: f"{row.delta:.3g}"),
    )


def chosen_of(rows: Sequence[Row]) -> Row | None:
    """The row of one budget that "auto" chooses: the first of the smallest error compared."""
    known = [(row.compared, i) for i, row in enumerate(rows) if row.compared is not None]
    able = [(error, i) for error, i in known if rows[i].eligible]
    return rows[min(able)[1]] if able else None


def by_reason(rows: Sequence[PlanRow]) -> dict[str, list[str]]:
    """The notes of the rows, each with the mechanisms that it belongs to (once each, in order)."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        names = reasons.setdefault(row.note or "no formula for its error", [])
        if row.mechanism not in names:
            names.append(row.mechanism)
    return reasons


def smallest_count(low: int, holds: Callable[[int], bool]) -> int:
    """The smallest count from `low` on for which `holds` is true, by bisection; it is false below
    it and true above.
    """
    if holds(low):
        return low
    high = 2 * low
    while not holds(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise InvalidArgument(
                "argument `budgets` holds a budget that no number of records fits"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
