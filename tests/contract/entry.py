"""What a row of the contract is: one public call that releases, with its neighbours.

A row says how to call it, which argument holds the records, how to replace one of them (or all of
one person), what it does about records that are no points, and which calls it refuses. The sweeps
of this folder run over all rows (`entries.ENTRIES`), so that one more line gets all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, NoiseSource

Data = dict[str, Any]
Floats = NDArray[np.float64]

BUDGET = Budget(20.0, 1e-6)
PURE = Budget(20.0, 0.0)
LEDGER = Budget(400.0, 1e-3)  # what the sweeps' ledgers hold: more than any one row spends

CLAIMS = (
    "mean in a public ball",
    "private ball",
    "public prior",
    "variance",
    "mean direction",
    "median",
    "tangent covariance",
    "PCA",
    "class means",
    "classifier",
    "regression",
    "search",
    "DP-RGD/RSGD",
    "DP-RSVRG",
    "federated",
    "shared sum",
    "one value",
)
COUNTED, REFUSED = "counted", "refused"


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """What every call is given: the same for all rows.

    Attributes:
        budget: Of the release.
        rng: A seed or a `NoiseSource`.
        ledger: What is charged; in a file where the row works on files.
        folder: An empty folder. The ledger's file, if any, is `folder / "ledger.json"`.
    """

    budget: Budget
    rng: int | NoiseSource
    ledger: Ledger
    folder: Path

    @property
    def keywords(self) -> dict[str, Any]:
        """As most functions take it."""
        return {"budget": self.budget, "rng": self.rng, "ledger": self.ledger}


@dataclasses.dataclass(frozen=True, eq=False)
class Refusal:
    """Options with which a call is refused, before anything is spent, drawn or written."""

    options: Mapping[str, Any]
    error: type[BaseException] = InvalidArgument
    why: str = ""

    @property
    def id(self) -> str:
        """Short, for the name of a test."""
        return self.why or ",".join(f"{k}={_short(v)}" for k, v in self.options.items())


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """One public call that releases.

    Attributes:
        name: The public name, from the package on.
        variant: Which of its ways.
        claim: One of `CLAIMS`: whose proof its guarantee rests on.
        call: `call(data, given, **options)` releases; `options` replace what it gives by itself.
        make: Valid data from a seed: records under `records`, the rest under their names.
        records: Which entry of the data holds the records.
        sites: Whether that is a list of data sets, one for each site.
        value: Whether that is one value instead of records.
        lists: Whether records may come as a list, in which any of them may be anything.
        invalid: What a record that is no point does: it is "counted" as the docstring says, or the
            call is "refused" by documented choice, with nothing spent.
        budget: What the sweeps give it to spend.
        moved: What was noised, from a result, and how far one record (one person) may move it for
            the same noise; None where a seed does not make that visible.
        refusals: Calls that it refuses.
        adjacency: What neighbours are.
        empty: Whether data without a record are released too, or "refused".
        files: Whether it reads, writes and charges files in `Given.folder`.
        seeded: Whether it takes a `NoiseSource`; others take a seed only.
        runs: False for a call that needs what tests do not have: only refusals are swept.
        anywhere: False for a value that has to lie near the minimum of a loss.
        private_labels: Whether classes of records are private.
        opposite: What every second record of a person becomes, where a person with equal records
            contributes nothing.
        needs: An optional package that the call cannot do without.
        blocks: Whether it charges block by block, each before its noise is drawn.
        again: Options of a second call, where the same one may not be made twice.
    """

    name: str
    variant: str
    claim: str
    call: Callable[..., Any]
    make: Callable[[int], Data]
    records: str = "X"
    sites: bool = False
    value: bool = False
    lists: bool = True
    invalid: str = COUNTED
    budget: Budget = BUDGET
    moved: Callable[[Any], tuple[Any, float]] | None = None
    refusals: Sequence[Refusal] = ()
    adjacency: str = "replace-one"
    empty: str = REFUSED
    files: bool = False
    seeded: bool = True
    runs: bool = True
    anywhere: bool = True
    private_labels: bool = False
    opposite: Callable[[Any], Any] | None = None
    needs: str = ""
    blocks: bool = False
    again: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        """Name and variant."""
        return f"{self.name}[{self.variant}]" if self.variant else self.name

    @property
    def people(self) -> bool:
        """Whether everything of one person is protected."""
        return self.variant.startswith("people")

    def first(self, data: Data) -> Any:
        """The records of the first site, or the records."""
        return data[self.records][0] if self.sites else data[self.records]

    def with_records(self, data: Data, records: Any) -> Data:
        """The data with other records (of the first site)."""
        whole = [records, *data[self.records][1:]] if self.sites else records
        return {**data, self.records: whole}

    def as_list(self, data: Data) -> Data:
        """The same data, the records in a list."""
        return self.with_records(data, list(self.first(data)))

    def put(self, data: Data, bad: Sequence[Any], *, whole: bool = False) -> Data:
        """The data with other records in the place of the first ones: a neighbour, for one of them.

        With `whole` a row about people gets `bad[0]` for every record of the first person.
        """
        if self.value:
            return {**data, self.records: bad[0]}
        records = self.first(data)
        places = range(len(bad))
        if whole and self.people:
            labels = data["groups"][0] if self.sites else data["groups"]
            places = [i for i, label in enumerate(labels) if label == labels[0]]
            other_side = bad[0] if self.opposite is None else self.opposite(bad[0])
            bad = [bad[0] if i % 2 == 0 else other_side for i in range(len(places))]
        other = list(records) if isinstance(records, list) else np.array(records)
        for place, record in zip(places, bad, strict=True):
            other[place] = record
        return self.with_records(data, other)

    def emptied(self, data: Data) -> Data:
        """The same data without a record (at the first site)."""
        n = len(self.first(data))
        cut: Data = {}
        for name, held in data.items():
            if name == self.records:
                cut = {**cut, **self.with_records(data, np.asarray(self.first(data))[:0])}
            elif self.sites:
                cut[name] = [held[0][:0], *held[1:]]
            else:
                cut[name] = held[:0] if np.shape(held)[:1] == (n,) else held
        return {**data, **cut}


def rest(entry_records: str, data: Data) -> Data:
    """What a call is given beside the records."""
    return {name: value for name, value in data.items() if name != entry_records}


def numbers(result: Any) -> Floats:
    """All numbers of a result that are published as its value, in a row."""
    if isinstance(result, riemdp.Ball):
        return np.concatenate([numbers(result.center), numbers(result.radius)])
    if isinstance(result, riemdp.GeodesicModel):
        return _joined([numbers(result.coefficients), numbers(result.residual)])
    if hasattr(result, "value") and not isinstance(result, np.ndarray):
        return numbers(result.value)
    if isinstance(result, Mapping):
        return _joined([numbers(v) for v in result.values()])
    if isinstance(result, list | tuple):
        return _joined([numbers(v) for v in result])
    return np.atleast_1d(np.asarray(result, dtype=np.float64)).ravel()


def coordinates(result: Any) -> tuple[Floats, float]:
    """The noisy vector of a release, and its stated sensitivity: what additive noise is added to
    moves by no more, on spaces where the logarithm does not lengthen distances.
    """
    return np.asarray(result.observation.coordinates), float(result.sensitivity)


def the_value(result: Any) -> tuple[Floats, float]:
    """The value itself, where it is a number or a vector with noise added."""
    return numbers(result), float(result.sensitivity)


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, str | int | float | bool | Budget | None):
        return str(value)
    return f"{type(value).__name__}{len(value) if isinstance(value, list) else ''}"
